//! Goes through a Python object and writes what it meets, for `encode`.
//!
//! What is open is kept on a stack of its own and not on the thread's, so that objects which are linked one to the next
//! are written however many they are.

use crate::agreed_hash;
use crate::bad_value::BadValue;
use crate::hooks::{self, Hooks, hooks};
use crate::layout::*;
use crate::numbers;
use crate::open_parts::{Entries, OpenPart, Sorted};
use crate::scalars::{put_integer, put_string};
use crate::set_layout;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyDict, PyFloat, PyFrozenSet, PyInt, PyIterator, PyList, PySet, PyString,
    PyTuple,
};
use quorate_types::PAYLOAD_BYTES_MAX;
use std::collections::HashMap;

type Done = Result<(), Box<BadValue>>;
/// Of an instance: name of its class, arguments, state.
type Parts<'py> = (String, Bound<'py, PyAny>, Bound<'py, PyAny>);
/// What is still to be written of a value, if anything is.
type Entered<'py> = Result<Option<OpenPart<'py>>, Box<BadValue>>;

const TOO_DEEP: &str = "nesting this deep, as in a value that contains itself, is not supported";

const NOT_SMALL: &str = "this state is not small, or may run code";

const CHANGED: &str = "what is in this container changes it while it is read: see __getstate__, __reduce__ and \
                       iterators there; this is not supported";

/// Of a dict, for each place that it has room for: what it had once may be many more than it has.
const ENTRY_BYTES: usize = 24;

/// So many places of a dict or set, empty or not, are gone through in less than the time of one value.
const PLACES_PER_ITEM: usize = 16;

/// Steps at either end of a path that a refusal tells.
const PATH_STEPS_TOLD: usize = 64;

pub(crate) struct Walker<'py> {
    hooks: &'py Hooks,
    /// Containers of which some is still to be written, each inside the one before.
    open: Vec<OpenPart<'py>>,
    depth: usize,
    items: u32,
    /// Where the buffer may end at most.
    end: usize,
    /// If iterators are not drawn: the address of the one that is all the same.
    undrawn: Option<usize>,
    /// Remembered objects; `None` for travelling values.
    memory: Option<Memory<'py>>,
    integer_bytes_max: usize,
    /// Whether what may run code of a class, or takes long, is refused.
    runs_nothing: bool,
}

#[derive(Default)]
struct Memory<'py> {
    numbers: HashMap<usize, u64>,
    /// Keeps remembered objects alive, so that no address is used twice.
    alive: Vec<Bound<'py, PyAny>>,
}

impl<'py> Walker<'py> {
    pub(crate) fn of_value(py: Python<'py>, start: usize) -> PyResult<Walker<'py>> {
        Ok(Walker {
            hooks: hooks(py)?,
            open: Vec::new(),
            depth: VALUE_DEPTH_MAX,
            items: VALUE_ITEMS_MAX,
            end: start + VALUE_BYTES_MAX,
            undrawn: None,
            memory: None,
            integer_bytes_max: INTEGER_BYTES_MAX,
            runs_nothing: false,
        })
    }

    pub(crate) fn of_state(py: Python<'py>) -> PyResult<Walker<'py>> {
        Ok(Walker {
            hooks: hooks(py)?,
            open: Vec::new(),
            depth: STATE_DEPTH_MAX,
            items: u32::MAX,
            end: usize::MAX,
            undrawn: None,
            memory: Some(Memory::default()),
            integer_bytes_max: usize::MAX,
            runs_nothing: false,
        })
    }

    /// Writes a state of at most so many bytes, of which nothing runs code of its classes. No path to a fault is told.
    pub(crate) fn put_small(
        py: Python<'py>,
        out: &mut Vec<u8>,
        value: &Bound<'py, PyAny>,
        bytes_max: usize,
    ) -> Done {
        let mut walker = Walker {
            items: SMALL_STATE_ITEMS_MAX,
            end: out.len() + bytes_max,
            integer_bytes_max: bytes_max,
            runs_nothing: true,
            ..Walker::of_state(py)?
        };
        walker.put_all(out, value)?;
        match out.len() > walker.end {
            true => Err(BadValue::unsupported(NOT_SMALL)),
            false => Ok(()),
        }
    }

    /// Refuses iterators, but for one.
    pub(crate) fn draw_only(&mut self, iterator: Option<&Bound<'py, PyAny>>) {
        self.undrawn = Some(iterator.map_or(0, |one| one.as_ptr() as usize));
    }

    /// Writes a value with all that is in it.
    pub(crate) fn put(&mut self, out: &mut Vec<u8>, value: &Bound<'py, PyAny>) -> Done {
        self.put_all(out, value)
            .map_err(|fault| self.place(out, fault))
    }

    fn put_all(&mut self, out: &mut Vec<u8>, value: &Bound<'py, PyAny>) -> Done {
        if self.put_plain(out, value)? {
            return Ok(());
        }
        let mut next = self.enter(out, value)?;
        while let Some(mut open) = next {
            let inner = match open.next(self, out) {
                // This one and the one inside are not in `self.open`.
                Ok(Some(_)) if self.open.len() + 1 >= self.depth => {
                    Err(BadValue::unsupported(TOO_DEEP))
                }
                Ok(Some(inner)) => self.enter(out, &inner),
                Ok(None) => {
                    next = self.open.pop();
                    continue;
                }
                Err(fault) => Err(fault),
            };
            match inner {
                Ok(None) => next = Some(open),
                Ok(inner) => {
                    self.open.push(open);
                    next = inner;
                }
                Err(fault) => {
                    // Part of the path to the fault.
                    self.open.push(open);
                    return Err(fault);
                }
            }
        }
        Ok(())
    }

    /// Adds to a fault the path to it, and gives `out` back what it had before a container took it.
    #[cold]
    fn place(&mut self, out: &mut Vec<u8>, mut fault: Box<BadValue>) -> Box<BadValue> {
        let count = self.open.len();
        for (level, open) in self.open.drain(..).enumerate().rev() {
            if level < PATH_STEPS_TOLD || level + PATH_STEPS_TOLD >= count {
                fault = open.step().into_iter().fold(fault, BadValue::within);
            } else if level == PATH_STEPS_TOLD {
                fault = fault.within(" ... ".to_owned());
            }
            if let Some(outer) = open.into_outer() {
                *out = outer;
            }
        }
        fault
    }

    /// Writes a value that has nothing inside; otherwise returns false.
    pub(crate) fn put_plain(
        &mut self,
        out: &mut Vec<u8>,
        value: &Bound<'py, PyAny>,
    ) -> Result<bool, Box<BadValue>> {
        self.items = self.items.checked_sub(1).ok_or_else(|| {
            BadValue::unsupported("a value of more than a million items is not supported")
        })?;
        if out.len() > self.end {
            // Told is what a call may carry: beyond that a value is refused in any case, wherever its writing ended.
            return Err(BadValue::unsupported(format!(
                "a value of more than {PAYLOAD_BYTES_MAX} bytes (8 MiB less 4 KiB) is not supported, for it is too large"
            )));
        }
        if value.is_exact_instance_of::<PyInt>() {
            put_integer(out, value, self.integer_bytes_max)?;
        } else if let Ok(text) = value.cast_exact::<PyString>() {
            self.check_room(out, text.len()?)?;
            put_string(out, text)?;
        } else if value.is_none() {
            out.push(NULL);
        } else if let Ok(truth) = value.cast_exact::<PyBool>() {
            out.push(if truth.is_true() { TRUE } else { FALSE });
        } else if let Ok(float) = value.cast_exact::<PyFloat>() {
            self.put_float(out, value, float.value())?;
        } else if let Ok(bytes) = value.cast_exact::<PyBytes>() {
            let bytes = bytes.as_bytes();
            self.check_room(out, bytes.len())?;
            put_head(out, BYTES, bytes.len() as u64);
            out.extend_from_slice(bytes);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn put_float(&mut self, out: &mut Vec<u8>, value: &Bound<'py, PyAny>, number: f64) -> Done {
        if number.is_nan() && self.memory.is_some() {
            return self.put_nan(out, value, number);
        }
        let bits = if number.is_nan() {
            NAN_BITS
        } else {
            number.to_bits()
        };
        out.push(FLOAT);
        out.extend_from_slice(&bits.to_be_bytes());
        Ok(())
    }

    /// A number that is none is equal to nothing, and found in a list by being it: so it is remembered, and one that a
    /// module has by a name (`math.nan`) is kept by that name, because the next call may store it again.
    fn put_nan(&mut self, out: &mut Vec<u8>, value: &Bound<'py, PyAny>, number: f64) -> Done {
        if self.is_known(out, value) {
            return Ok(());
        }
        self.charge(SMALL_STATE_ITEMS_OF_RARE)?;
        self.remember(value);
        put_head(out, TAG, TAG_NAN);
        let name = self.hooks.nan_name.bind(value.py()).call1((value,))?;
        if let Ok(name) = name.cast_exact::<PyString>() {
            return put_string(out, name);
        }
        match number.to_bits() {
            NAN_BITS => out.push(NULL),
            // Its sign and its payload can be asked for.
            bits => put_head(out, UNSIGNED, bits),
        }
        Ok(())
    }

    /// Begins a value that has something inside: what is still to be written of it is returned.
    fn enter(&mut self, out: &mut Vec<u8>, value: &Bound<'py, PyAny>) -> Entered<'py> {
        if let Ok(tuple) = value.cast_exact::<PyTuple>() {
            put_head(out, TAG, TAG_TUPLE);
            put_head(out, ARRAY, tuple.len() as u64);
            let tuple = tuple.clone();
            return Ok(Some(OpenPart::Tuple { tuple, next: 0 }));
        }
        if let Ok(set) = value.cast_exact::<PyFrozenSet>() {
            if self.memory.is_some() {
                return self.enter_laid_set(out, TAG_LAID_FROZEN_SET, value);
            }
            put_head(out, TAG, TAG_FROZEN_SET);
            let sorted = Sorted::begin(out, set.iter().collect());
            return Ok(Some(OpenPart::Sorted(Box::new(sorted))));
        }
        if self.is_known(out, value) {
            return Ok(None);
        }
        if let Ok(list) = value.cast_exact::<PyList>() {
            self.remember(value);
            let (list, count) = (list.clone(), list.len());
            put_head(out, ARRAY, count as u64);
            let next = 0;
            return Ok(Some(OpenPart::List { list, next, count }));
        }
        if let Ok(dict) = value.cast_exact::<PyDict>() {
            self.check_small(dict.len())?;
            self.charge_places(|| {
                Ok(dict.call_method0("__sizeof__")?.extract::<usize>()? / ENTRY_BYTES)
            })?;
            self.remember(value);
            let entries = Entries::of_dict(out, dict);
            return Ok(Some(OpenPart::Entries(entries)));
        }
        if let Ok(set) = value.cast_exact::<PySet>() {
            if self.memory.is_some() {
                self.remember(value);
                return self.enter_laid_set(out, TAG_LAID_SET, value);
            }
            put_head(out, TAG, TAG_SET);
            let sorted = Sorted::begin(out, set.iter().collect());
            return Ok(Some(OpenPart::Sorted(Box::new(sorted))));
        }
        self.enter_rare(out, value)
    }

    /// Elements where the set has them: it comes back as it was, down to what `pop` takes next.
    fn enter_laid_set(
        &mut self,
        out: &mut Vec<u8>,
        tag: u64,
        set: &Bound<'py, PyAny>,
    ) -> Entered<'py> {
        self.check_small(set.len()?)?;
        self.charge_places(|| set_layout::places(set))?;
        let laid = set_layout::read(set)?;
        put_head(out, TAG, tag);
        put_head(out, ARRAY, 2);
        put_head(out, BYTES, laid.shape.len() as u64);
        out.extend_from_slice(&laid.shape);
        put_head(out, ARRAY, laid.elements.len() as u64);
        Ok(Some(OpenPart::Laid(laid.elements.into_iter())))
    }

    /// Kinds that Python knows better: by tag where they are plain, in parts where they have a state.
    fn enter_rare(&mut self, out: &mut Vec<u8>, value: &Bound<'py, PyAny>) -> Entered<'py> {
        let py = value.py();
        let in_state = self.memory.is_some();
        if self.runs_nothing {
            return self.enter_without_code(out, value);
        }
        let reduced = self.hooks.reduce.bind(py).call1((value, in_state))?;
        if let Ok(reason) = reduced.cast::<PyString>() {
            return Err(BadValue::unsupported(reason.to_cow()?));
        }
        if let Some((tag, content)) = reduced.extract::<Option<(u64, Bound<'py, PyAny>)>>()? {
            return self.enter_tagged(out, tag, content);
        }
        if !in_state {
            return Err(unsupported(value));
        }
        let parts = self.hooks.take_apart.bind(py).call1((value,))?;
        if let Ok(reason) = parts.cast::<PyString>() {
            return Err(BadValue::unsupported(reason.to_cow()?));
        }
        Ok(Some(Walker::enter_instance(out, value, parts.extract()?)))
    }

    /// The same of what is written without code of its class.
    fn enter_without_code(&mut self, out: &mut Vec<u8>, value: &Bound<'py, PyAny>) -> Entered<'py> {
        self.charge(SMALL_STATE_ITEMS_OF_RARE)?;
        let parts_without_code = self.hooks.parts_without_code.bind(value.py());
        let parts = parts_without_code.call1((value,))?;
        if parts.is_none() {
            return Err(BadValue::unsupported(NOT_SMALL));
        }
        if let Ok((tag, content)) = parts.extract() {
            return self.enter_tagged(out, tag, content);
        }
        let parts: Parts<'py> = parts.extract()?;
        if let Ok(fields) = parts.2.cast::<PyDict>() {
            self.check_small(fields.len())?;
        }
        Ok(Some(Walker::enter_instance(out, value, parts)))
    }

    fn enter_instance(
        out: &mut Vec<u8>,
        value: &Bound<'py, PyAny>,
        (class, arguments, state): Parts<'py>,
    ) -> OpenPart<'py> {
        let number = numbers::number_of(value);
        put_head(out, TAG, TAG_INSTANCE);
        put_head(out, ARRAY, if number.is_some() { 4 } else { 3 });
        put_text(out, &class);
        OpenPart::Instance {
            object: value.clone(),
            arguments: Some(arguments),
            number,
            state,
        }
    }

    fn enter_tagged(
        &mut self,
        out: &mut Vec<u8>,
        tag: u64,
        content: Bound<'py, PyAny>,
    ) -> Entered<'py> {
        if tag == TAG_DRAWN {
            let items = self.drawn(&content)?;
            let (outer, count) = (std::mem::take(out), 0);
            return Ok(Some(OpenPart::Drawn {
                items,
                count,
                outer,
            }));
        }
        if tag != TAG_PLAIN {
            put_head(out, TAG, tag);
            if let Ok(parts) = content.cast_exact::<PyTuple>() {
                put_head(out, ARRAY, parts.len() as u64);
                return Ok(Some(OpenPart::Parts {
                    parts: parts.clone(),
                    next: 0,
                    has_fields: matches!(tag, TAG_DATA_CLASS | TAG_RECORD),
                }));
            }
        }
        Ok(Some(OpenPart::One(Some(content))))
    }

    /// What gives the items of an iterable, unless that may change the object.
    fn drawn(&self, iterable: &Bound<'py, PyAny>) -> Result<Bound<'py, PyIterator>, Box<BadValue>> {
        let is_iterator = iterable.cast::<PyIterator>().is_ok();
        if is_iterator
            && self
                .undrawn
                .is_some_and(|one| one != iterable.as_ptr() as usize)
        {
            let reason = "what the method returned is drawn from an iterator, which may change the object: call it";
            let error = hooks::error(iterable.py(), "NotReadOnly", reason.to_owned());
            return Err(error.into());
        }
        Ok(iterable.try_iter()?)
    }

    /// Refuses a container that what is in it has changed: its length is written already. In a value it may have grown.
    pub(crate) fn check_unchanged(&self, is_same: bool) -> Done {
        if is_same || self.memory.is_none() {
            return Ok(());
        }
        Err(changed())
    }

    /// Refuses a container that would be gone through as a whole before its items are counted.
    fn check_small(&self, items: usize) -> Done {
        match self.runs_nothing && items > self.items as usize {
            true => Err(BadValue::unsupported(NOT_SMALL)),
            false => Ok(()),
        }
    }

    /// Refuses text or bytes that would be copied as a whole before they are counted.
    fn check_room(&self, out: &[u8], bytes: usize) -> Done {
        match self.runs_nothing && bytes > self.end.saturating_sub(out.len()) {
            true => Err(BadValue::unsupported(NOT_SMALL)),
            false => Ok(()),
        }
    }

    /// Counts, where a state must be small, what takes time beside the values in it.
    fn charge(&mut self, items: u32) -> Done {
        if self.runs_nothing {
            let left = self.items.checked_sub(items);
            self.items = left.ok_or_else(|| BadValue::unsupported(NOT_SMALL))?;
        }
        Ok(())
    }

    /// The same for a container that has room for so many elements.
    fn charge_places(&mut self, places: impl FnOnce() -> PyResult<usize>) -> Done {
        if !self.runs_nothing {
            return Ok(());
        }
        self.charge(SMALL_STATE_ITEMS_OF_TABLE)?;
        self.charge(u32::try_from(places()? / PLACES_PER_ITEM).unwrap_or(u32::MAX))
    }

    /// Refuses an element that no set of a state may have, or of which that is not seen from its kind.
    pub(crate) fn check_element(&self, element: &Bound<'py, PyAny>) -> Done {
        let is_text_or_integer =
            element.is_exact_instance_of::<PyString>() || element.is_exact_instance_of::<PyInt>();
        match (is_text_or_integer, self.runs_nothing) {
            (true, _) => Ok(()),
            (false, true) => Err(BadValue::unsupported(NOT_SMALL)),
            (false, false) => check_hash(element),
        }
    }

    fn is_known(&self, out: &mut Vec<u8>, value: &Bound<'py, PyAny>) -> bool {
        let Some(memory) = &self.memory else {
            return false;
        };
        let Some(number) = memory.numbers.get(&(value.as_ptr() as usize)) else {
            return false;
        };
        put_head(out, TAG, TAG_AGAIN);
        put_head(out, UNSIGNED, *number);
        true
    }

    pub(crate) fn remember(&mut self, value: &Bound<'py, PyAny>) {
        if let Some(memory) = &mut self.memory {
            let number = memory.alive.len() as u64;
            memory.numbers.insert(value.as_ptr() as usize, number);
            memory.alive.push(value.clone());
        }
    }
}

#[cold]
pub(crate) fn changed() -> Box<BadValue> {
    BadValue::unsupported(CHANGED)
}

/// Refuses an element of a set whose place in it follows from where it, or something in it, lies in memory.
fn check_hash(element: &Bound<'_, PyAny>) -> Done {
    let before = agreed_hash::addresses();
    element.hash()?;
    if before == agreed_hash::addresses() {
        return Ok(());
    }
    let kind = element.get_type().name()?;
    Err(BadValue::unsupported(format!(
        "the order of this set differs between replicas, for the hash of an element of type {kind} is an address: give \
         its class __eq__ and __hash__, or '__weakref__' in its __slots__, or keep a dict instead of the set"
    )))
}

#[cold]
fn unsupported(value: &Bound<'_, PyAny>) -> Box<BadValue> {
    let kind = value
        .get_type()
        .name()
        .map_or_else(|_| "this kind".to_owned(), |name| name.to_string());
    BadValue::unsupported(format!("{kind} is not supported"))
}
