//! The agreed time behind Python's own clocks.
//!
//! The C functions of `time` and `datetime.datetime` are replaced, not the objects that Python sees: the class stays the
//! class, for C code too, and whoever imported a function earlier reads the agreed time as well. The host process installs this
//! for good, before it imports anything of a user. A test that keeps its objects in its own process swaps the clocks for the
//! length of a call.

use crate::environment::agreed_time_ns;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::sync::OnceLock;

const CLOCKS: [&str; 5] = [
    "time",
    "monotonic",
    "perf_counter",
    "process_time",
    "thread_time",
];

/// The beginning of a function object of C, alike in all versions that this package is for.
#[repr(C)]
struct FunctionObject {
    head: ffi::PyObject,
    method: *mut ffi::PyMethodDef,
}

/// `time.gmtime` of C, for times that are given.
static GMTIME: OnceLock<ffi::PyCFunction> = OnceLock::new();

/// The clocks of this process, found once.
static CLOCKS_FOUND: PyOnceLock<Vec<Swap>> = PyOnceLock::new();

/// A function object of C, and the two functions that can stand behind it.
struct Swap {
    method: *mut ffi::PyMethodDef,
    real: ffi::PyMethodDefPointer,
    agreed: ffi::PyMethodDefPointer,
}

// SAFETY: definitions of methods live as long as their modules, and are changed under the interpreter lock only.
unsafe impl Send for Swap {}
// SAFETY: the same.
unsafe impl Sync for Swap {}

/// Makes the clocks of `time`, `datetime.now` and `datetime.utcnow` tell the agreed time, and `time.sleep` refuse.
/// `date.today` and `datetime.today` read `time.time` themselves.
#[pyfunction]
pub(crate) fn install_agreed_clock(py: Python<'_>) -> PyResult<()> {
    swap_agreed_clock(py, true)
}

/// Makes the clocks tell the agreed time, or the machine's again.
#[pyfunction]
pub(crate) fn swap_agreed_clock(py: Python<'_>, is_agreed: bool) -> PyResult<()> {
    for swap in CLOCKS_FOUND.get_or_try_init(py, || find_clocks(py))? {
        // SAFETY: not null, and the interpreter lock, which is held, orders this with every call.
        unsafe {
            (*swap.method).ml_meth = if is_agreed { swap.agreed } else { swap.real };
        }
    }
    Ok(())
}

fn find_clocks(py: Python<'_>) -> PyResult<Vec<Swap>> {
    let time = py.import("time")?;
    let plain = |function| ffi::PyMethodDefPointer {
        PyCFunction: function,
    };
    let mut found = Vec::new();
    for clock in CLOCKS {
        found.push(find(
            &time.getattr(clock)?,
            ffi::METH_NOARGS,
            plain(seconds),
        )?);
        let clock_ns = time.getattr(format!("{clock}_ns"))?;
        found.push(find(&clock_ns, ffi::METH_NOARGS, plain(nanoseconds))?);
    }
    found.push(find(&time.getattr("sleep")?, ffi::METH_O, plain(sleep))?);
    let gmtime = find(
        &time.getattr("gmtime")?,
        ffi::METH_VARARGS,
        plain(of_gmtime),
    )?;
    // SAFETY: `find` has seen by the flags that this is the variant in use.
    GMTIME.get_or_init(|| unsafe { gmtime.real.PyCFunction });
    found.push(gmtime);
    // TZ is UTC in the host, so both show the same.
    found.push(find(
        &time.getattr("localtime")?,
        ffi::METH_VARARGS,
        plain(of_gmtime),
    )?);
    let date_time = py.import("datetime")?.getattr("datetime")?;
    let with_names = ffi::METH_FASTCALL | ffi::METH_KEYWORDS | ffi::METH_CLASS;
    found.push(find(
        &date_time.getattr("now")?,
        with_names,
        ffi::PyMethodDefPointer {
            PyCFunctionFastWithKeywords: now,
        },
    )?);
    let without = ffi::METH_NOARGS | ffi::METH_CLASS;
    found.push(find(&date_time.getattr("utcnow")?, without, plain(utcnow))?);
    Ok(found)
}

/// What stands behind a function object of C, if it is called in the way that is expected.
fn find(
    function: &Bound<'_, PyAny>,
    flags: i32,
    agreed: ffi::PyMethodDefPointer,
) -> PyResult<Swap> {
    let object = function.as_ptr();
    // SAFETY: the object is alive and the check reads its type only.
    let method = if unsafe { ffi::PyCFunction_Check(object) } == 1 {
        // SAFETY: function objects of C begin like this, and their definitions live as long as their module.
        unsafe { (*object.cast::<FunctionObject>()).method }
    } else {
        std::ptr::null_mut()
    };
    // SAFETY: not null, and the interpreter lock, which is held, orders this with every call.
    unsafe {
        if method.is_null() || (*method).ml_flags != flags {
            return Err(PyRuntimeError::new_err(format!(
                "{function} of this Python is called in another way: the agreed time cannot be installed"
            )));
        }
        Ok(Swap {
            method,
            real: (*method).ml_meth,
            agreed,
        })
    }
}

fn agreed_seconds() -> f64 {
    agreed_time_ns() as f64 / 1e9
}

/// Hands a result over to the interpreter.
///
/// # Safety
///
/// The caller was called by the interpreter, so it is attached.
unsafe fn give<'py>(
    make: impl FnOnce(Python<'py>) -> PyResult<Bound<'py, PyAny>>,
) -> *mut ffi::PyObject {
    // SAFETY: the caller promises it.
    let py = unsafe { Python::assume_attached() };
    match make(py) {
        Ok(made) => made.into_ptr(),
        Err(error) => {
            error.restore(py);
            std::ptr::null_mut()
        }
    }
}

unsafe extern "C" fn seconds(_: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter.
    unsafe { ffi::PyFloat_FromDouble(agreed_seconds()) }
}

unsafe extern "C" fn nanoseconds(
    _: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter.
    unsafe { ffi::PyLong_FromUnsignedLongLong(agreed_time_ns()) }
}

unsafe extern "C" fn sleep(_: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    let refusal = "objects cannot sleep, because the whole group would wait: sleep in the client";
    // SAFETY: called by the interpreter.
    unsafe { give(|_| Err(PyRuntimeError::new_err(refusal))) }
}

unsafe extern "C" fn of_gmtime(
    module: *mut ffi::PyObject,
    arguments: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let Some(gmtime) = GMTIME.get() else {
        return std::ptr::null_mut();
    };
    // SAFETY: called by the interpreter with a tuple, from which an item is borrowed; the tuple that is made instead is
    // released after the call.
    unsafe {
        let is_given = ffi::PyTuple_Size(arguments) > 0
            && ffi::PyTuple_GetItem(arguments, 0) != ffi::Py_None();
        if is_given {
            return gmtime(module, arguments);
        }
        let seconds = ffi::PyFloat_FromDouble(agreed_seconds());
        let arguments = ffi::PyTuple_Pack(1, seconds);
        ffi::Py_DecRef(seconds);
        let made = gmtime(module, arguments);
        ffi::Py_DecRef(arguments);
        made
    }
}

unsafe extern "C" fn now(
    class: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    positional: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter: as many arguments as it says, the named ones last.
    unsafe {
        give(|py| {
            let class = Bound::from_borrowed_ptr(py, class);
            let named = match Bound::from_borrowed_ptr_or_opt(py, names) {
                Some(names) => names.extract::<Vec<String>>()?,
                None => Vec::new(),
            };
            if positional as usize + named.len() > 1 || named.iter().any(|name| name != "tz") {
                return Err(PyTypeError::new_err("now() takes one argument, `tz`"));
            }
            let zone = if positional as usize + named.len() == 1 {
                Some(Bound::from_borrowed_ptr(py, *arguments))
            } else {
                None
            };
            class.call_method1("fromtimestamp", (agreed_seconds(), zone))
        })
    }
}

unsafe extern "C" fn utcnow(
    class: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter with the class.
    unsafe {
        give(|py| {
            Bound::from_borrowed_ptr(py, class).call_method1("fromtimestamp", (agreed_seconds(),))
        })
    }
}
