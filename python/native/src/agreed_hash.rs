//! Agreed hashes: of objects that Python hashes by their address, which differs between replicas.
//!
//! Their numbers (`numbers.rs`) are the hashes, so sets of such objects have the same order on every replica. The C functions
//! behind `object.__hash__` and such are replaced in all types that have them; those that make texts are in `agreed_text.rs`.
//! What nothing can number keeps its address as its hash, and such hashes are counted.
//!
//! Only the host process installs this, once, before it imports anything of a user.

use crate::agreed_text;
use crate::numbers::{self, hash_or_address};
use crate::type_slots::{
    HashFunction, check_layout, replace_in_types, replace_in_wrapper, type_object, type_pointer,
};
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyType};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// What Python has where it is not replaced.
struct Originals {
    hash: HashFunction,
    float_hash: HashFunction,
    built_in_hash: HashFunction,
    slot_hash: HashFunction,
}

static ORIGINALS: OnceLock<Originals> = OnceLock::new();

/// Hashes that were addresses after all.
static ADDRESSES: AtomicU64 = AtomicU64::new(0);

/// Replaces the C functions behind hashes and texts that are addresses. What was hashed before is rehashed by the caller.
#[pyfunction]
pub(crate) fn install_agreed_hash(py: Python<'_>) -> PyResult<()> {
    if ORIGINALS.get().is_some() {
        return Ok(());
    }
    let types = py.import("types")?;
    let of = |name: &str| PyResult::Ok(types.getattr(name)?.cast_into::<PyType>()?);
    let method = of("MethodType")?;
    let (built_in, slot) = (of("BuiltinFunctionType")?, of("MethodWrapperType")?);
    let float = py.get_type::<PyFloat>();
    let object = py.get_type::<PyAny>();
    check_layout(&object)?;
    let missing = || PyRuntimeError::new_err("a type without hash or repr");
    let hash = type_object(&object).hash.ok_or_else(missing)?;
    let repr = type_object(&object).repr.ok_or_else(missing)?;
    numbers::install(py)?;
    ORIGINALS.get_or_init(|| Originals {
        hash,
        float_hash: type_object(&float).hash.unwrap_or(hash),
        built_in_hash: type_object(&built_in).hash.unwrap_or(hash),
        slot_hash: type_object(&slot).hash.unwrap_or(hash),
    });
    replace_in_wrapper(
        &object,
        "__hash__",
        hash as usize,
        agreed_hash as *const () as usize,
    )?;
    replace_in_wrapper(
        &object,
        "__repr__",
        repr as usize,
        agreed_text::agreed_repr as *const () as usize,
    )?;
    if let Some(hash) = type_object(&float).hash {
        replace_in_wrapper(
            &float,
            "__hash__",
            hash as usize,
            float_hash as *const () as usize,
        )?;
    }
    agreed_text::install(py, &object)?;
    replace_in_types(
        &object,
        [hash, agreed_hash],
        [repr, agreed_text::agreed_repr],
    )?;
    // SAFETY: types live for ever, and the interpreter lock, which is held, orders this with every call.
    unsafe {
        (*type_pointer(&float)).hash = Some(float_hash);
        (*type_pointer(&method)).hash = Some(method_hash);
        (*type_pointer(&built_in)).hash = Some(built_in_hash);
        (*type_pointer(&slot)).hash = Some(slot_hash);
    }
    Ok(())
}

/// A set whose elements may have other hashes than when they were added.
#[pyfunction]
pub(crate) fn rehash_set(set: &Bound<'_, PyAny>) -> PyResult<()> {
    crate::set_layout::rehash(set)
}

/// So many hashes were addresses; `None` where hashes are not agreed at all.
pub(crate) fn addresses() -> Option<u64> {
    ORIGINALS.get().map(|_| ADDRESSES.load(Ordering::Relaxed))
}

unsafe extern "C" fn agreed_hash(object: *mut ffi::PyObject) -> ffi::Py_hash_t {
    // SAFETY: None is there as long as the interpreter.
    if object == unsafe { ffi::Py_None() } {
        // What Python itself says from version 3.12 on.
        return 0xfca8_6420;
    }
    hash_or_address(object).unwrap_or_else(|| {
        ADDRESSES.fetch_add(1, Ordering::Relaxed);
        // SAFETY: called by the interpreter, and the function was this type's own.
        ORIGINALS
            .get()
            .map_or(-2, |originals| unsafe { (originals.hash)(object) })
    })
}

unsafe extern "C" fn float_hash(object: *mut ffi::PyObject) -> ffi::Py_hash_t {
    // SAFETY: called by the interpreter with a float.
    unsafe {
        if ffi::PyFloat_AsDouble(object).is_nan() {
            // Python takes the address, so that many of them do not meet.
            return 0;
        }
        ORIGINALS.get().map_or(-2, |o| (o.float_hash)(object))
    }
}

unsafe extern "C" fn method_hash(object: *mut ffi::PyObject) -> ffi::Py_hash_t {
    // SAFETY: called by the interpreter.
    let method = unsafe { Bound::from_borrowed_ptr(Python::assume_attached(), object) };
    let made = || {
        let function = method.getattr("__func__")?.hash()?;
        let bound = method.getattr("__self__")?;
        PyResult::Ok(hash_or_address(bound.as_ptr()).map(|hash| hash ^ function))
    };
    match made() {
        // -1 is an error.
        Ok(Some(hash)) => hash ^ ffi::Py_hash_t::from(hash == -1) << 1,
        Ok(None) => {
            ADDRESSES.fetch_add(1, Ordering::Relaxed);
            0
        }
        Err(error) => {
            error.restore(method.py());
            -1
        }
    }
}

/// Of functions of C, which may be bound to anything.
unsafe extern "C" fn built_in_hash(object: *mut ffi::PyObject) -> ffi::Py_hash_t {
    ADDRESSES.fetch_add(1, Ordering::Relaxed);
    // SAFETY: called by the interpreter, and the function was this type's own.
    ORIGINALS
        .get()
        .map_or(-2, |o| unsafe { (o.built_in_hash)(object) })
}

/// Of methods of C types that are bound.
unsafe extern "C" fn slot_hash(object: *mut ffi::PyObject) -> ffi::Py_hash_t {
    ADDRESSES.fetch_add(1, Ordering::Relaxed);
    // SAFETY: called by the interpreter, and the function was this type's own.
    ORIGINALS
        .get()
        .map_or(-2, |o| unsafe { (o.slot_hash)(object) })
}
