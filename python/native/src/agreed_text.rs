//! Agreed texts: `repr` of objects that Python shows with their address shows their number in its place.
//!
//! What has no number (`numbers.rs`) still shows its address. That is noted, so that a result with such a text can be refused.

use crate::numbers::hash_or_address;
use crate::type_slots::{ReprFunction, type_object, type_pointer};
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};
use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Types with a text of their own that is an address, by module and name.
const WITH_ADDRESS: [(&str, &str); 9] = [
    ("types", "FunctionType"),
    ("types", "GeneratorType"),
    ("types", "CoroutineType"),
    ("types", "AsyncGeneratorType"),
    ("types", "BuiltinFunctionType"),
    ("types", "MethodWrapperType"),
    ("weakref", "ReferenceType"),
    ("_thread", "LockType"),
    ("_thread", "RLock"),
];

const BEFORE_ADDRESS: &str = " at 0x";

struct Originals {
    of_object: ReprFunction,
    by_type: HashMap<usize, ReprFunction>,
}

static ORIGINALS: OnceLock<Originals> = OnceLock::new();

/// The type of what showed its address last.
static SHOWN: Mutex<Option<String>> = Mutex::new(None);

/// Replaces what makes the texts of these types; the caller does so for what inherits from `object`.
pub(crate) fn install(py: Python<'_>, object: &Bound<'_, PyType>) -> PyResult<()> {
    let missing = || PyRuntimeError::new_err("a type without repr");
    let mut by_type = HashMap::new();
    let mut types = Vec::new();
    for (module, name) in WITH_ADDRESS {
        let class = py.import(module)?.getattr(name)?.cast_into::<PyType>()?;
        let own = type_object(&class).repr.ok_or_else(missing)?;
        by_type.insert(class.as_ptr() as usize, own);
        types.push(class);
    }
    let of_object = type_object(object).repr.ok_or_else(missing)?;
    ORIGINALS.get_or_init(|| Originals { of_object, by_type });
    for class in types {
        // SAFETY: types live for ever, and the interpreter lock, which is held, orders this with every call.
        unsafe { (*type_pointer(&class)).repr = Some(agreed_repr) };
    }
    Ok(())
}

/// Forgets what showed its address, at the beginning of a call.
#[inline]
pub(crate) fn forget_shown() {
    *shown() = None;
}

/// The type of an object whose address is in these bytes, if one was shown since `forget_shown`.
pub(crate) fn address_in(bytes: &[u8]) -> Option<String> {
    let kind = shown().clone()?;
    let mut windows = bytes.windows(BEFORE_ADDRESS.len());
    windows
        .any(|window| window == BEFORE_ADDRESS.as_bytes())
        .then_some(kind)
}

fn shown() -> std::sync::MutexGuard<'static, Option<String>> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) unsafe extern "C" fn agreed_repr(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    let Some(originals) = ORIGINALS.get() else {
        return std::ptr::null_mut();
    };
    // SAFETY: called by the interpreter, and the function was this type's own.
    let (object, text) = unsafe {
        let class = ffi::Py_TYPE(object) as usize;
        let own = originals
            .by_type
            .get(&class)
            .unwrap_or(&originals.of_object);
        let text = own(object);
        let py = Python::assume_attached();
        (
            Bound::from_borrowed_ptr(py, object),
            Bound::from_owned_ptr_or_opt(py, text),
        )
    };
    let Some(text) = text else {
        return std::ptr::null_mut();
    };
    with_number(&object, &text).map_or(text.into_ptr(), Bound::into_ptr)
}

/// The text with the number in place of the address.
fn with_number<'py>(
    object: &Bound<'py, PyAny>,
    text: &Bound<'py, PyAny>,
) -> Option<Bound<'py, PyString>> {
    let (before, rest) = text.extract::<&str>().ok()?.rsplit_once(BEFORE_ADDRESS)?;
    let after = rest.trim_start_matches(|letter: char| letter.is_ascii_hexdigit());
    let Some(number) = hash_or_address(object.as_ptr()) else {
        *shown() = object.get_type().name().map(|name| name.to_string()).ok();
        return None;
    };
    let number = number & 0xffff_ffff_ffff;
    let made = format!("{before}{BEFORE_ADDRESS}{number:012x}{after}");
    Some(PyString::new(object.py(), &made))
}
