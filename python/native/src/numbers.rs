//! Numbers of objects that Python hashes by their address, kept while the objects live.
//!
//! An object gets its number when its hash is first asked for, made of the call, of its class, and of how many of that
//! class came before it in the call. Classes and functions have numbers made of their names. `agreed_hash.rs` installs this.

use crate::environment;
use crate::type_slots::type_object;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyFunction, PyType};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Called by weak references to what has a number; there once objects are numbered.
static FORGET: OnceLock<Py<PyAny>> = OnceLock::new();

/// Begins to number objects.
pub(crate) fn install(py: Python<'_>) -> PyResult<()> {
    *numbers() = Some(Numbers::default());
    let forget = wrap_pyfunction!(forget, py)?.into_any().unbind();
    FORGET.get_or_init(|| forget);
    Ok(())
}

/// Whether objects are numbered in this process.
pub(crate) fn is_installed() -> bool {
    FORGET.get().is_some()
}

/// What is numbered from here to `end_import` belongs to a module.
#[pyfunction]
pub(crate) fn begin_import(module: &str) {
    crate::steps::hold();
    if let Some(numbers) = numbers().as_mut() {
        numbers.imports.push(mix_text(1, module));
    }
}

/// Ends what the last `begin_import` began.
#[pyfunction]
pub(crate) fn end_import() {
    crate::steps::release();
    if let Some(numbers) = numbers().as_mut() {
        numbers.imports.pop();
    }
}

/// Begins what only this replica does: numbers that are given in it are taken back.
pub(crate) fn begin_aside() {
    if let Some(numbers) = numbers().as_mut() {
        numbers.aside = Some(HashSet::new());
    }
}

/// Ends what `begin_aside` began. Says how many numbers were taken back.
pub(crate) fn end_aside(py: Python<'_>) -> usize {
    let mut count = 0;
    let taken_back = numbers().as_mut().map_or_else(Vec::new, |numbers| {
        let given = numbers.aside.take().unwrap_or_default();
        count = given.len();
        given
            .into_iter()
            .filter_map(|address| numbers.remove(address))
            .collect()
    });
    drop_references(py, taken_back);
    count
}

/// How many numbers calls have given so far, to objects that may be gone by now.
pub(crate) fn given() -> u64 {
    numbers().as_ref().map_or(0, |numbers| numbers.given)
}

/// The number of an object, if it has one that its name does not tell and that stays.
pub(crate) fn number_of(object: &Bound<'_, PyAny>) -> Option<i64> {
    if has_name(object) {
        return None;
    }
    let address = object.as_ptr() as usize;
    let guard = numbers();
    let numbers = guard.as_ref()?;
    let is_aside = numbers
        .aside
        .as_ref()
        .is_some_and(|aside| aside.contains(&address));
    let numbered = numbers.objects.get(&address).filter(|_| !is_aside)?;
    Some(numbered.number as i64)
}

/// Gives an object the number that it had when it was saved; one that it has already stays.
pub(crate) fn give_number(object: &Bound<'_, PyAny>, number: i64) {
    if is_installed() {
        remember(object, number as ffi::Py_hash_t);
    }
}

/// Gives an object a number, as if its hash had been asked for.
pub(crate) fn touch(object: &Bound<'_, PyAny>) {
    if is_installed() {
        hash_or_address(object.as_ptr());
    }
}

#[derive(Default)]
pub(crate) struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(usize::from(*byte));
        }
    }

    fn write_usize(&mut self, number: usize) {
        self.0 = (self.0 ^ number as u64)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(32);
    }
}

pub(crate) type ByAddress<T> = HashMap<usize, T, BuildHasherDefault<AddressHasher>>;

struct Numbered {
    number: ffi::Py_hash_t,
    reference: Reference,
}

/// A weak reference that the numbers own; it tells when the address is free.
type Reference = usize;

#[derive(Default)]
struct Numbers {
    objects: ByAddress<Numbered>,
    /// From weak references to the addresses of what they refer to.
    references: HashMap<Reference, usize, BuildHasherDefault<AddressHasher>>,
    /// How many of a class got a number in this call.
    counts: HashMap<[u64; 2], u64, BuildHasherDefault<AddressHasher>>,
    counted_in: [u64; 3],
    /// Modules that are being imported, by their names.
    imports: Vec<u64>,
    /// Objects that got a number in a read, which only this replica executes.
    aside: Option<HashSet<usize>>,
    /// Given in calls so far.
    given: u64,
}

static NUMBERS: Mutex<Option<Numbers>> = Mutex::new(None);

/// What holds the guard runs no Python: that could ask for a hash.
fn numbers() -> MutexGuard<'static, Option<Numbers>> {
    NUMBERS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Numbers {
    /// The next number of a class.
    fn next(&mut self, class: u64) -> ffi::Py_hash_t {
        let call = environment::seed();
        if call != self.counted_in {
            self.counted_in = call;
            self.counts.clear();
        }
        self.given += u64::from(self.imports.is_empty() && self.aside.is_none());
        // What a module does at its import is no part of the call: another replica imported it earlier.
        let place = match self.imports.last() {
            Some(module) => *module,
            None => mix(mix(mix(0, call[0]), call[1]), call[2]),
        };
        let count = self.counts.entry([place, class]).or_default();
        *count += 1;
        of_bits(mix(mix(place, class), *count))
    }

    fn remove(&mut self, address: usize) -> Option<Reference> {
        let reference = self.objects.remove(&address)?.reference;
        self.references.remove(&reference);
        Some(reference)
    }
}

fn mix(before: u64, next: u64) -> u64 {
    let mut bits = (before ^ next).wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

fn mix_text(before: u64, text: &str) -> u64 {
    text.bytes()
        .fold(before, |bits, byte| mix(bits, byte.into()))
}

fn of_bits(bits: u64) -> ffi::Py_hash_t {
    // An address, which is what it stands for, has no sign and 48 bits; a longer one has fewer collisions.
    (bits >> 2) as ffi::Py_hash_t
}

#[inline]
fn known(object: *mut ffi::PyObject) -> Option<ffi::Py_hash_t> {
    let numbers = numbers();
    let numbered = numbers.as_ref()?.objects.get(&(object as usize))?;
    Some(numbered.number)
}

/// `None` if nothing tells when the object's address is free.
#[inline]
pub(crate) fn hash_or_address(object: *mut ffi::PyObject) -> Option<ffi::Py_hash_t> {
    known(object).or_else(|| {
        // SAFETY: hashes are asked for by who is attached, and holds a reference to the object.
        let object = unsafe { Bound::from_borrowed_ptr(Python::assume_attached(), object) };
        first_hash(&object)
    })
}

#[cold]
fn first_hash(object: &Bound<'_, PyAny>) -> Option<ffi::Py_hash_t> {
    let class = object.get_type();
    if type_object(&class).weak_references == 0 {
        let is_single =
            object.is(object.py().Ellipsis()) || object.is(object.py().NotImplemented());
        return is_single.then(|| of_bits(name_bits(class.as_any())));
    }
    // Who asks for a hash may be about to raise.
    let pending = PyErr::take(object.py());
    let number = if has_name(object) {
        of_bits(name_bits(object))
    } else {
        let class = hash_or_address(class.as_ptr())?;
        numbers().as_mut()?.next(class as u64)
    };
    let numbered = remember(object, number);
    if let Some(pending) = pending {
        pending.restore(object.py());
    }
    numbered
}

/// Keeps the number of an object while it lives. Returns the one that counts.
fn remember(object: &Bound<'_, PyAny>, number: ffi::Py_hash_t) -> Option<ffi::Py_hash_t> {
    let py = object.py();
    let address = object.as_ptr() as usize;
    let forget = FORGET.get()?.bind(py);
    // SAFETY: both are alive.
    let reference = unsafe { ffi::PyWeakref_NewRef(object.as_ptr(), forget.as_ptr()) };
    if reference.is_null() {
        drop(PyErr::take(py));
        return None;
    }
    let reference = reference as usize;
    let mut guard = numbers();
    let numbers = guard.as_mut()?;
    if let Some(other) = numbers.objects.get(&address) {
        let number = other.number;
        drop(guard);
        drop_references(py, vec![reference]);
        return Some(number);
    }
    numbers
        .objects
        .insert(address, Numbered { number, reference });
    numbers.references.insert(reference, address);
    if let Some(aside) = numbers.aside.as_mut().filter(|_| !has_name(object)) {
        aside.insert(address);
    }
    Some(number)
}

/// Called by a weak reference when its object ends.
#[pyfunction]
fn forget(reference: &Bound<'_, PyAny>) {
    let reference = reference.as_ptr() as usize;
    let taken_back = numbers().as_mut().and_then(|numbers| {
        let address = numbers.references.get(&reference).copied()?;
        numbers.remove(address)
    });
    // SAFETY: attached, because called by the interpreter.
    drop_references(unsafe { Python::assume_attached() }, taken_back);
}

fn drop_references(py: Python<'_>, references: impl IntoIterator<Item = Reference>) {
    for reference in references {
        // SAFETY: `remember` took the reference, and whoever removed it from the numbers gives it here, once.
        drop(unsafe { Bound::from_owned_ptr(py, reference as *mut ffi::PyObject) });
    }
}

/// Classes and functions: their names are agreed.
fn has_name(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyType>() || object.is_instance_of::<PyFunction>()
}

/// Of a class or function, from its name.
fn name_bits(named: &Bound<'_, PyAny>) -> u64 {
    ["__module__", "__qualname__"].iter().fold(0, |bits, part| {
        let text = named.getattr(*part).ok();
        let text = text.as_ref().and_then(|text| text.extract::<&str>().ok());
        mix_text(bits, text.unwrap_or_default())
    })
}
