//! The C functions that a Python type has for its hash and its text, read and replaced.
//!
//! Types are laid out alike in all versions that this package is for; `check_layout` compares what can be compared.

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::collections::HashSet;

pub(crate) type HashFunction = unsafe extern "C" fn(*mut ffi::PyObject) -> ffi::Py_hash_t;
pub(crate) type ReprFunction = unsafe extern "C" fn(*mut ffi::PyObject) -> *mut ffi::PyObject;

/// The beginning of a type of C, alike in all versions that this package is for.
#[repr(C)]
pub(crate) struct TypeObject {
    head: ffi::PyVarObject,
    before_repr: [usize; 8],
    pub(crate) repr: Option<ReprFunction>,
    number_to_mapping: [usize; 3],
    pub(crate) hash: Option<HashFunction>,
    call_to_compare: [usize; 10],
    pub(crate) weak_references: ffi::Py_ssize_t,
}

/// `object.__hash__` and such as C has them.
#[repr(C)]
struct WrapperObject {
    head: ffi::PyObject,
    descriptor: [usize; 3],
    base: usize,
    wrapped: usize,
}

pub(crate) fn type_pointer(class: &Bound<'_, PyType>) -> *mut TypeObject {
    class.as_ptr().cast()
}

pub(crate) fn type_object<'a>(class: &'a Bound<'_, PyType>) -> &'a TypeObject {
    // SAFETY: `check_layout` has seen that types begin like this, and the class lives as long as the borrow.
    unsafe { &*type_pointer(class) }
}

fn of_another_kind(what: &str) -> PyErr {
    PyRuntimeError::new_err(format!(
        "{what} of this Python is laid out in another way: agreed hashes cannot be installed"
    ))
}

pub(crate) fn check_layout(object: &Bound<'_, PyType>) -> PyResult<()> {
    let class = object.get_type();
    // SAFETY: both are types, and the numbers are those of slots.
    let told = unsafe {
        let slot = |number| ffi::PyType_GetSlot(object.as_type_ptr(), number) as usize;
        (slot(ffi::Py_tp_hash), slot(ffi::Py_tp_repr))
    };
    let (base, meta) = (type_object(object), type_object(&class));
    let read = (
        base.hash.map_or(0, |f| f as usize),
        base.repr.map_or(0, |f| f as usize),
    );
    let offset: ffi::Py_ssize_t = class.getattr("__weakrefoffset__")?.extract()?;
    let is_known = told == read && meta.weak_references == offset && base.weak_references == 0;
    if is_known {
        Ok(())
    } else {
        Err(of_another_kind("a type"))
    }
}

/// Replaces what a method of `object` calls, for who calls it by name.
pub(crate) fn replace_in_wrapper(
    object: &Bound<'_, PyType>,
    name: &str,
    old: usize,
    new: usize,
) -> PyResult<()> {
    let wrapper = object.getattr("__dict__")?.get_item(name)?;
    let pointer = wrapper.as_ptr().cast::<WrapperObject>();
    // SAFETY: wrappers of C functions have these fields, and one is written only where the function is found.
    unsafe {
        if (*pointer).wrapped != old {
            return Err(of_another_kind(name));
        }
        (*pointer).wrapped = new;
    }
    Ok(())
}

/// Replaces both functions in all types that have them; types that are made later inherit the new ones.
pub(crate) fn replace_in_types(
    object: &Bound<'_, PyType>,
    hash: [HashFunction; 2],
    repr: [ReprFunction; 2],
) -> PyResult<()> {
    let subclasses = object.get_type().getattr("__subclasses__")?;
    let mut seen = HashSet::new();
    let mut waiting = vec![object.clone()];
    while let Some(class) = waiting.pop() {
        if !seen.insert(class.as_ptr() as usize) {
            continue;
        }
        let pointer = type_pointer(&class);
        // SAFETY: the type is alive, and the interpreter lock, which is held, orders this with every call.
        unsafe {
            if (*pointer)
                .hash
                .is_some_and(|found| std::ptr::fn_addr_eq(found, hash[0]))
            {
                (*pointer).hash = Some(hash[1]);
            }
            if (*pointer)
                .repr
                .is_some_and(|found| std::ptr::fn_addr_eq(found, repr[0]))
            {
                (*pointer).repr = Some(repr[1]);
            }
        }
        waiting.extend(
            subclasses
                .call1((class,))?
                .extract::<Vec<Bound<'_, PyType>>>()?,
        );
    }
    Ok(())
}
