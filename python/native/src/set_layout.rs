//! The layout of a set in memory: where its hash table has each element, which places are used up, where `pop` goes on.
//!
//! The order in which Python goes through a set, and what `pop` takes, follow from this and from nothing else. States
//! carry it, so a set that comes back goes on as the set that was saved. The structures are those of CPython's public
//! headers, alike in all versions that this package is for; `check` compares them with a set whose content is known.

use crate::bad_value::BadValue;
use crate::numbers::ByAddress;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyFrozenSet, PySet};
use std::sync::OnceLock;

const SMALL: usize = 8;
const LINEAR_PROBES: usize = 9;
const PERTURB_SHIFT: u32 = 5;

#[repr(C)]
#[derive(Clone, Copy)]
struct Entry {
    key: *mut ffi::PyObject,
    hash: ffi::Py_hash_t,
}

#[repr(C)]
struct SetObject {
    head: ffi::PyObject,
    /// Places that hold an element or held one.
    fill: ffi::Py_ssize_t,
    used: ffi::Py_ssize_t,
    mask: ffi::Py_ssize_t,
    table: *mut Entry,
    hash: ffi::Py_hash_t,
    /// Where `pop` goes on.
    finger: ffi::Py_ssize_t,
    small: [Entry; SMALL],
}

const FREE: Entry = Entry {
    key: std::ptr::null_mut(),
    hash: 0,
};

/// What stands in a place whose element was taken; its address, or why sets cannot be read.
static TAKEN: OnceLock<Result<usize, ()>> = OnceLock::new();

/// What the bytes of a shape say.
struct Shape {
    finger: usize,
    size: usize,
    /// What is not free: where, and whether the element was taken.
    places: Vec<(usize, bool)>,
}

/// A set's shape as bytes, and its elements in the order in which Python goes through them.
pub(crate) struct Laid<'py> {
    pub(crate) shape: Vec<u8>,
    pub(crate) elements: Vec<Bound<'py, PyAny>>,
}

/// Reads a set or frozenset, or an instance of a subclass.
pub(crate) fn read<'py>(set: &Bound<'py, PyAny>) -> PyResult<Laid<'py>> {
    let taken = taken(set.py())?;
    let object = object_of(set)?;
    // SAFETY: `object_of` has seen that this is a set, and nothing runs that could change it meanwhile.
    let (object, table) = unsafe { (&*object, table_of(object)) };
    let mut shape = vec![table.len().trailing_zeros() as u8];
    put_number(&mut shape, object.finger.cast_unsigned());
    let mut elements = Vec::with_capacity(object.used.cast_unsigned());
    let mut gap = 0;
    for entry in table {
        if entry.key.is_null() {
            gap += 1;
            continue;
        }
        let is_taken = entry.key as usize == taken;
        put_number(&mut shape, gap << 1 | usize::from(is_taken));
        gap = 0;
        if !is_taken {
            // SAFETY: the set holds a reference to it.
            elements.push(unsafe { Bound::from_borrowed_ptr(set.py(), entry.key) });
        }
    }
    Ok(Laid { shape, elements })
}

/// How many places its table has, which stay when elements are taken.
pub(crate) fn places(set: &Bound<'_, PyAny>) -> PyResult<usize> {
    let object = object_of(set)?;
    // SAFETY: `object_of` has seen that this is a set; `taken`, that sets are laid out like this one.
    taken(set.py()).map(|_| unsafe { (*object).mask.cast_unsigned() + 1 })
}

/// Gives a set that holds just these elements the shape that it had. A set whose elements have other hashes than when
/// it was saved, in another version of Python or of their class, is left in the order in which they were added.
pub(crate) fn lay_out(
    set: &Bound<'_, PyAny>,
    shape: &[u8],
    elements: &[Bound<'_, PyAny>],
) -> PyResult<()> {
    let taken = taken(set.py())?;
    let object = object_of(set)?;
    let malformed =
        || BadValue::malformed("the shape of a set is damaged").into_error(set.py(), "");
    let Shape {
        finger,
        size,
        places,
    } = parse(shape).ok_or_else(malformed)?;
    // SAFETY: `object_of` has seen that this is a set, and nothing runs that could change it meanwhile.
    let hashes: ByAddress<ffi::Py_hash_t> = unsafe { table_of(object) }
        .iter()
        .filter(|entry| !entry.key.is_null() && entry.key as usize != taken)
        .map(|entry| (entry.key as usize, entry.hash))
        .collect();
    let mut left = elements.iter();
    let mut table = Vec::new();
    table.try_reserve_exact(size).map_err(|_| malformed())?;
    table.resize(size, FREE);
    for (place, is_taken) in &places {
        table[*place] = if *is_taken {
            Entry {
                key: taken as *mut ffi::PyObject,
                hash: -1,
            }
        } else {
            let key = left.next().ok_or_else(malformed)?.as_ptr();
            let hash = *hashes.get(&(key as usize)).ok_or_else(malformed)?;
            Entry { key, hash }
        };
    }
    let is_whole = left.next().is_none() && hashes.len() == elements.len() && places.len() < size;
    if !is_whole {
        return Err(malformed());
    }
    if places
        .iter()
        .all(|(place, is_taken)| *is_taken || is_reached(&table, *place))
    {
        // SAFETY: the new table holds the elements of the old one, each once, so the references move with them.
        unsafe { replace_table(object, &table, places.len(), finger)? };
    }
    Ok(())
}

/// Computes the hashes of a set's elements again and moves the elements to where they are found by these.
pub(crate) fn rehash(set: &Bound<'_, PyAny>) -> PyResult<()> {
    let elements = read(set)?.elements;
    let again = PySet::new(set.py(), &elements)?;
    let (object, other) = (object_of(set)?, object_of(again.as_any())?);
    // SAFETY: both are sets of the same elements; each keeps one reference to each of them.
    unsafe {
        let (table, fill) = (table_of(other).to_vec(), (*other).fill.cast_unsigned());
        replace_table(object, &table, fill, 0)
    }
}

/// Whether looking for the element at a place comes by it before it comes by a free place.
fn is_reached(table: &[Entry], place: usize) -> bool {
    let mask = table.len() - 1;
    let mut perturb = table[place].hash.cast_unsigned();
    let mut at = perturb & mask;
    // Once nothing is left of the hash, the steps go through all of the table.
    for _ in 0..table.len() + usize::BITS as usize {
        let probes = if at + LINEAR_PROBES <= mask {
            LINEAR_PROBES
        } else {
            0
        };
        for (step, entry) in table[at..=at + probes].iter().enumerate() {
            if at + step == place {
                return true;
            }
            if entry.key.is_null() {
                return false;
            }
        }
        perturb >>= PERTURB_SHIFT;
        at = (at * 5 + 1 + perturb) & mask;
    }
    false
}

fn parse(shape: &[u8]) -> Option<Shape> {
    let (&log, mut rest) = shape.split_first()?;
    let size = 1usize
        .checked_shl(u32::from(log))
        .filter(|size| *size >= SMALL)?;
    let finger = take_number(&mut rest)?;
    let mut places = Vec::with_capacity(rest.len().min(size));
    let mut next = 0usize;
    while !rest.is_empty() {
        let number = take_number(&mut rest)?;
        let place = next
            .checked_add(number >> 1)
            .filter(|place| *place < size)?;
        places.push((place, number & 1 == 1));
        next = place + 1;
    }
    Some(Shape {
        // It may be past the end of a table that became smaller.
        finger: finger.min(isize::MAX.cast_unsigned()),
        size,
        places,
    })
}

fn put_number(out: &mut Vec<u8>, mut number: usize) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take_number(rest: &mut &[u8]) -> Option<usize> {
    let mut number = 0usize;
    for shift in (0..usize::BITS).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        number |= usize::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn object_of(set: &Bound<'_, PyAny>) -> PyResult<*mut SetObject> {
    if set.is_instance_of::<PySet>() || set.is_instance_of::<PyFrozenSet>() {
        return Ok(set.as_ptr().cast());
    }
    Err(PyRuntimeError::new_err("not a set"))
}

/// # Safety
///
/// The object is a set, and it is not changed while the table is in use.
unsafe fn table_of<'a>(object: *const SetObject) -> &'a [Entry] {
    // SAFETY: a set's table has one entry more than its mask says.
    unsafe { std::slice::from_raw_parts((*object).table, (*object).mask.cast_unsigned() + 1) }
}

/// # Safety
///
/// The object is a set, and the table holds the same elements, each once and where it is found.
unsafe fn replace_table(
    object: *mut SetObject,
    table: &[Entry],
    fill: usize,
    finger: usize,
) -> PyResult<()> {
    // SAFETY: tables that are larger than the small one are allocated as CPython does it, who frees them.
    unsafe {
        let small = (&raw mut (*object).small).cast::<Entry>();
        let new = if table.len() == SMALL {
            small
        } else {
            ffi::PyMem_Malloc(size_of_val(table)).cast::<Entry>()
        };
        if new.is_null() {
            return Err(pyo3::exceptions::PyMemoryError::new_err("a set"));
        }
        let old = (*object).table;
        std::ptr::copy_nonoverlapping(table.as_ptr(), new, table.len());
        (*object).table = new;
        (*object).mask = (table.len() - 1).cast_signed();
        (*object).fill = fill.cast_signed();
        (*object).finger = finger.cast_signed();
        // That of a frozenset is computed again when it is asked for.
        (*object).hash = -1;
        if old != small {
            ffi::PyMem_Free(old.cast());
        }
    }
    Ok(())
}

fn taken(py: Python<'_>) -> PyResult<usize> {
    let found = match TAKEN.get() {
        Some(found) => *found,
        None => *TAKEN.get_or_init(|| find_taken(py).unwrap_or(Err(()))),
    };
    found.map_err(|()| {
        PyRuntimeError::new_err(
            "sets of this Python are laid out in another way: they cannot be kept",
        )
    })
}

/// Compares the structures above with a set whose content is known, and looks at a place whose element was taken.
fn find_taken(py: Python<'_>) -> PyResult<Result<usize, ()>> {
    // Many numbers that share places, so that all ways to one are gone.
    let numbers: Vec<u64> = (0..1000).map(|n| (n * n) << 13).collect();
    let set = PySet::new(py, &numbers)?;
    set.discard(numbers[500])?;
    let object = object_of(set.as_any())?;
    // SAFETY: the fields before the table are compared before the table is read, and it is a table of CPython's sizes.
    let (object, table) = unsafe {
        let (used, fill, mask) = ((*object).used, (*object).fill, (*object).mask);
        let is_known = used == 999 && fill == 1000 && (mask + 1).cast_unsigned().is_power_of_two();
        if !is_known || !(1000..=65_535).contains(&mask) || (*object).finger != 0 {
            return Ok(Err(()));
        }
        (&*object, table_of(object))
    };
    let filled: Vec<usize> = (0..table.len())
        .filter(|place| !table[*place].key.is_null())
        .collect();
    let (gone, there): (Vec<usize>, Vec<usize>) =
        filled.iter().partition(|place| table[**place].hash == -1);
    let listed = set.iter().map(|element| element.as_ptr());
    let is_alike = gone.len() == 1
        && there.len() == object.used.cast_unsigned()
        && there.iter().all(|place| is_reached(table, *place))
        && listed.eq(there.iter().map(|place| table[*place].key));
    Ok(if is_alike {
        Ok(table[gone[0]].key as usize)
    } else {
        Err(())
    })
}
