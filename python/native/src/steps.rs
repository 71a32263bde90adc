//! The steps of a call: its loops' rounds and its functions' starts, counted down from a budget.
//!
//! `quorate._steps` puts `~__quorate_step__` into the code of the objects' modules; an operator costs less than a call of
//! a function. The count depends on the call alone, so a call that never ends is ended at the same place on every
//! replica. Outside of calls, and while a module is imported, nothing is counted.

use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

/// What nothing uses up.
const UNCOUNTED: i64 = i64::MAX;

/// Steps that are left. One thread runs calls, so nothing is lost between a load and a store.
static LEFT: AtomicI64 = AtomicI64::new(UNCOUNTED);

/// What was left when an import began, and how many imports are inside each other.
static HELD: AtomicI64 = AtomicI64::new(UNCOUNTED);
static IMPORTS: AtomicU32 = AtomicU32::new(0);

/// What is left of a budget that one step too many was taken of.
const OVERDRAWN: i64 = -1;

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(begin_steps, module)?)?;
    module.add_function(wrap_pyfunction!(end_steps, module)?)?;
    module.add("Step", step_type(module.py())?)
}

/// The type of what the operator `~` of is one step. It is made of C functions, because one that PyO3 makes costs several times
/// as much as the count itself.
fn step_type(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let invert: ffi::unaryfunc = step;
    let mut slots = [
        ffi::PyType_Slot {
            slot: ffi::Py_nb_invert,
            pfunc: invert as *mut c_void,
        },
        ffi::PyType_Slot {
            slot: 0,
            pfunc: std::ptr::null_mut(),
        },
    ];
    let mut spec = ffi::PyType_Spec {
        name: c"quorate._native.Step".as_ptr(),
        basicsize: size_of::<ffi::PyObject>() as c_int,
        itemsize: 0,
        flags: ffi::Py_TPFLAGS_DEFAULT as c_uint,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the specification and its slots outlive the call, which copies them; the name is static, and the function has
    // the signature that its slot wants.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&raw mut spec)) }
}

/// One step: true, or the signal.
unsafe extern "C" fn step(_: *mut ffi::PyObject) -> *mut ffi::PyObject {
    let left = LEFT.load(Ordering::Relaxed);
    if left <= 0 {
        return overdrawn();
    }
    LEFT.store(left - 1, Ordering::Relaxed);
    // SAFETY: the interpreter calls this, so its lock is held, and it owns what is returned.
    unsafe { ffi::Py_NewRef(ffi::Py_True()) }
}

#[cold]
fn overdrawn() -> *mut ffi::PyObject {
    LEFT.store(OVERDRAWN, Ordering::Relaxed);
    Python::attach(|py| spent(py).restore(py));
    std::ptr::null_mut()
}

/// What ends the call. It comes again at each further step, so no handler of the call's own holds it up for long.
#[cold]
fn spent(py: Python<'_>) -> PyErr {
    let signal = py
        .import("quorate._steps")
        .and_then(|steps| steps.getattr("Spent")?.call0());
    signal.map_or_else(|error| error, PyErr::from_value)
}

/// Begins a call that may take `budget` steps; 0 is as many as it likes.
#[inline]
pub(crate) fn begin(budget: i64) {
    let left = if budget > 0 { budget } else { UNCOUNTED };
    LEFT.store(left, Ordering::Relaxed);
}

/// Ends a call; says whether it used up its budget.
#[inline]
pub(crate) fn end() -> bool {
    LEFT.swap(UNCOUNTED, Ordering::Relaxed) == OVERDRAWN
}

/// Whether the call that runs has used up its budget.
pub(crate) fn is_spent() -> bool {
    LEFT.load(Ordering::Relaxed) == OVERDRAWN
}

/// Which replica imports a module in which call differs between replicas: what runs then is not counted.
pub(crate) fn hold() {
    if IMPORTS.fetch_add(1, Ordering::Relaxed) == 0 {
        HELD.store(LEFT.swap(UNCOUNTED, Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Ends what the outermost `hold` began.
pub(crate) fn release() {
    if IMPORTS.fetch_sub(1, Ordering::Relaxed) == 1 {
        LEFT.store(HELD.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Begins a call, for tests.
#[pyfunction]
fn begin_steps(budget: i64) {
    begin(budget);
}

/// Ends it; how many steps it took, or None where it used up its budget.
#[pyfunction]
fn end_steps(budget: i64) -> Option<i64> {
    let left = LEFT.swap(UNCOUNTED, Ordering::Relaxed);
    (left != OVERDRAWN).then_some(budget - left)
}
