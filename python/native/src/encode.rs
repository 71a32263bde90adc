//! Python objects to bytes, directly, without a value tree between.
//!
//! One walker serves two forms. A *value* travels between client and object: plain kinds, no sharing.
//! A *state* is kept in snapshots: everything mutable is remembered when first met and referred to by
//! number afterwards, so cycles and sharing survive; instances go in parts.

use crate::agreed_hash;
use crate::bad_value::BadValue;
use crate::hooks::{self, Hooks, hooks};
use crate::layout::*;
use crate::numbers;
use crate::reads;
use crate::set_layout;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyDict, PyFloat, PyFrozenSet, PyInt, PyIterator, PyList, PySet, PyString,
    PyTuple,
};
use std::collections::HashMap;

type Done = Result<(), Box<BadValue>>;

/// Encodes a travelling value; `root` names it in errors.
pub(crate) fn value(value: &Bound<'_, PyAny>, root: &str) -> PyResult<Vec<u8>> {
    let mut out = Vec::with_capacity(32);
    value_into(&mut out, value, root)?;
    Ok(out)
}

/// Appends a travelling value.
pub(crate) fn value_into(out: &mut Vec<u8>, value: &Bound<'_, PyAny>, root: &str) -> PyResult<()> {
    Walker::of_value(value.py(), out.len())?
        .put(out, value)
        .map_err(|fault| fault.into_error(value.py(), root))
}

/// Appends what a method of `target` returned; `target` itself travels as a mark, and arrives as the proxy.
pub(crate) fn result_into(
    out: &mut Vec<u8>,
    value: &Bound<'_, PyAny>,
    target: &Bound<'_, PyAny>,
    draws: Draws,
) -> PyResult<()> {
    let py = value.py();
    if value.is(target) {
        put_head(out, TAG, TAG_SINGLETON);
        put_text(out, "self");
        return Ok(());
    }
    let mut walker = Walker::of_value(py, out.len())?;
    if draws == Draws::Fresh {
        // Nobody else holds it, and it reads its container only: it is no part of the state.
        let is_fresh = reads::is_held_once(value) && walker.hooks.is_own_iterator(value)?;
        walker.undrawn = Some(if is_fresh { value.as_ptr() as usize } else { 0 });
    }
    walker
        .put(out, value)
        .map_err(|fault| fault.into_error(py, "result"))
}

/// Which iterators in a result are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Draws {
    /// All: the call is ordered, or the method is declared to change nothing.
    All,
    /// Only one that the method has just made: another one may be kept in the state, which drawing it would change.
    Fresh,
}

/// Encodes a call.
pub(crate) fn call(
    method: &str,
    args: &Bound<'_, PyTuple>,
    kwargs: &Bound<'_, PyDict>,
) -> PyResult<Vec<u8>> {
    call_of(&call_head(method), args, Some(kwargs))
}

/// How every call of a method begins.
pub(crate) fn call_head(method: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(method.len() + 4);
    put_head(&mut out, ARRAY, 3);
    put_text(&mut out, method);
    out
}

/// Encodes a call that begins with `head`.
pub(crate) fn call_of(
    head: &[u8],
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<Vec<u8>> {
    let py = args.py();
    let mut walker = Walker::of_value(py, 0)?;
    let mut out = Vec::with_capacity(head.len() + 32);
    out.extend_from_slice(head);
    put_head(&mut out, ARRAY, args.len() as u64);
    for (index, item) in args.iter().enumerate() {
        walker
            .put(&mut out, &item)
            .map_err(|fault| fault.within(format!("[{index}]")).into_error(py, "args"))?;
    }
    put_head(
        &mut out,
        MAP,
        kwargs.map_or(0, |kwargs| kwargs.len()) as u64,
    );
    for (name, item) in kwargs.into_iter().flatten() {
        let name = name.cast::<PyString>()?.to_cow()?.into_owned();
        put_text(&mut out, &name);
        walker
            .put(&mut out, &item)
            .map_err(|fault| fault.within(format!("[{name:?}]")).into_error(py, "kwargs"))?;
    }
    Ok(out)
}

/// Encodes a state.
pub(crate) fn state(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let mut out = Vec::with_capacity(256);
    Walker::of_state(value.py())?
        .put(&mut out, value)
        .map_err(|fault| fault.into_error(value.py(), "self"))?;
    Ok(out)
}

const TOO_DEEP: &str = "nesting this deep, as in a value that contains itself, is not supported";

const CHANGED: &str = "what is in this container changes it while it is read: see __getstate__, __reduce__ and \
                       iterators there; this is not supported";

struct Walker<'py> {
    hooks: &'py Hooks,
    depth: u32,
    items: u32,
    /// Where the buffer may end at most.
    end: usize,
    /// If iterators are not drawn: the address of the one that is all the same.
    undrawn: Option<usize>,
    /// Remembered objects; `None` for travelling values.
    memory: Option<Memory<'py>>,
}

#[derive(Default)]
struct Memory<'py> {
    numbers: HashMap<usize, u64>,
    /// Keeps remembered objects alive, so that no address is used twice.
    alive: Vec<Bound<'py, PyAny>>,
}

impl<'py> Walker<'py> {
    fn of_value(py: Python<'py>, start: usize) -> PyResult<Walker<'py>> {
        Ok(Walker {
            hooks: hooks(py)?,
            depth: VALUE_DEPTH_MAX,
            items: VALUE_ITEMS_MAX,
            end: start + VALUE_BYTES_MAX,
            undrawn: None,
            memory: None,
        })
    }

    fn of_state(py: Python<'py>) -> PyResult<Walker<'py>> {
        Ok(Walker {
            hooks: hooks(py)?,
            depth: STATE_DEPTH_MAX,
            items: u32::MAX,
            end: usize::MAX,
            undrawn: None,
            memory: Some(Memory::default()),
        })
    }

    fn put(&mut self, out: &mut Vec<u8>, value: &Bound<'py, PyAny>) -> Done {
        self.items = self.items.checked_sub(1).ok_or_else(|| {
            BadValue::unsupported("a value of more than a million items is not supported")
        })?;
        if out.len() > self.end {
            return Err(BadValue::unsupported(
                "a value of more than 16 MiB is not supported, for it is too large",
            ));
        }
        if value.is_exact_instance_of::<PyInt>() {
            return put_integer(out, value, self.memory.is_none());
        }
        if let Ok(text) = value.cast_exact::<PyString>() {
            return put_string(out, text);
        }
        if value.is_none() {
            out.push(NULL);
            return Ok(());
        }
        if let Ok(truth) = value.cast_exact::<PyBool>() {
            out.push(if truth.is_true() { TRUE } else { FALSE });
            return Ok(());
        }
        if let Ok(float) = value.cast_exact::<PyFloat>() {
            let number = float.value();
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
            return Ok(());
        }
        if let Ok(bytes) = value.cast_exact::<PyBytes>() {
            let bytes = bytes.as_bytes();
            put_head(out, BYTES, bytes.len() as u64);
            out.extend_from_slice(bytes);
            return Ok(());
        }
        self.depth = self
            .depth
            .checked_sub(1)
            .ok_or_else(|| BadValue::unsupported(TOO_DEEP))?;
        self.put_nested(out, value)?;
        self.depth += 1;
        Ok(())
    }

    /// A number that is none is equal to nothing, and found in a list by being it: so it is remembered, and one that a
    /// module has by a name (`math.nan`) is kept by that name, because the next call may store it again.
    fn put_nan(&mut self, out: &mut Vec<u8>, value: &Bound<'py, PyAny>, number: f64) -> Done {
        if self.is_known(out, value) {
            return Ok(());
        }
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

    fn put_nested(&mut self, out: &mut Vec<u8>, value: &Bound<'py, PyAny>) -> Done {
        if let Ok(tuple) = value.cast_exact::<PyTuple>() {
            put_head(out, TAG, TAG_TUPLE);
            put_head(out, ARRAY, tuple.len() as u64);
            return self.put_each(out, tuple.iter()).map(|_| ());
        }
        if let Ok(set) = value.cast_exact::<PyFrozenSet>() {
            if self.memory.is_some() {
                return self.put_laid_set(out, TAG_LAID_FROZEN_SET, value);
            }
            put_head(out, TAG, TAG_FROZEN_SET);
            return self.put_set(out, set.len(), set.iter());
        }
        if self.is_known(out, value) {
            return Ok(());
        }
        if let Ok(list) = value.cast_exact::<PyList>() {
            self.remember(value);
            let count = list.len();
            put_head(out, ARRAY, count as u64);
            let written = self.put_each(out, list.iter())?;
            return self.check_unchanged(written == count, list.len() == count);
        }
        if let Ok(dict) = value.cast_exact::<PyDict>() {
            self.remember(value);
            return self.put_dict(out, dict);
        }
        if let Ok(set) = value.cast_exact::<PySet>() {
            if self.memory.is_some() {
                self.remember(value);
                return self.put_laid_set(out, TAG_LAID_SET, value);
            }
            put_head(out, TAG, TAG_SET);
            return self.put_set(out, set.len(), set.iter());
        }
        self.put_rare(out, value)
    }

    fn put_each(
        &mut self,
        out: &mut Vec<u8>,
        items: impl Iterator<Item = Bound<'py, PyAny>>,
    ) -> Result<usize, Box<BadValue>> {
        let mut written = 0;
        for (index, item) in items.enumerate() {
            self.put(out, &item)
                .map_err(|fault| fault.within(format!("[{index}]")))?;
            written += 1;
        }
        Ok(written)
    }

    /// Refuses a container that what is in it has changed: its length is written already.
    fn check_unchanged(&self, is_whole: bool, is_same: bool) -> Done {
        if is_whole && (is_same || self.memory.is_none()) {
            return Ok(());
        }
        Err(BadValue::unsupported(CHANGED))
    }

    fn put_dict(&mut self, out: &mut Vec<u8>, dict: &Bound<'py, PyDict>) -> Done {
        let count = dict.len();
        put_head(out, MAP, count as u64);
        // Collected first: what is in the dict may change the dict while it is written.
        let entries: Vec<_> = dict.iter().collect();
        self.put_entries(out, entries.into_iter())?;
        self.check_unchanged(true, dict.len() == count)
    }

    fn put_entries(
        &mut self,
        out: &mut Vec<u8>,
        entries: impl Iterator<Item = (Bound<'py, PyAny>, Bound<'py, PyAny>)>,
    ) -> Done {
        for (index, (key, item)) in entries.enumerate() {
            self.put(out, &key)
                .map_err(|fault| fault.within(format!("{{{index}}}")))?;
            self.put(out, &item).map_err(|fault| {
                let key = key
                    .repr()
                    .map_or_else(|_| index.to_string(), |r| r.to_string());
                fault.within(format!("[{key}]"))
            })?;
        }
        Ok(())
    }

    /// Elements in the order of their encodings: equal sets have equal bytes.
    fn put_set(
        &mut self,
        out: &mut Vec<u8>,
        length: usize,
        items: impl Iterator<Item = Bound<'py, PyAny>>,
    ) -> Done {
        put_head(out, ARRAY, length as u64);
        let mut parts = Vec::with_capacity(length);
        let items: Vec<_> = items.collect();
        for item in items {
            let mut part = Vec::new();
            self.put(&mut part, &item)
                .map_err(|fault| fault.within("{}".to_owned()))?;
            parts.push(part);
        }
        parts.sort();
        out.extend(parts.into_iter().flatten());
        Ok(())
    }

    /// Elements where the set has them: it comes back as it was, down to what `pop` takes next.
    fn put_laid_set(&mut self, out: &mut Vec<u8>, tag: u64, set: &Bound<'py, PyAny>) -> Done {
        let laid = set_layout::read(set)?;
        put_head(out, TAG, tag);
        put_head(out, ARRAY, 2);
        put_head(out, BYTES, laid.shape.len() as u64);
        out.extend_from_slice(&laid.shape);
        put_head(out, ARRAY, laid.elements.len() as u64);
        for element in &laid.elements {
            check_hash(element)
                .and_then(|()| self.put(out, element))
                .map_err(|fault| fault.within("{}".to_owned()))?;
        }
        Ok(())
    }

    /// Kinds that Python knows better: by tag where they are plain, in parts where they have a state.
    fn put_rare(&mut self, out: &mut Vec<u8>, value: &Bound<'py, PyAny>) -> Done {
        let py = value.py();
        let in_state = self.memory.is_some();
        let reduced = self.hooks.reduce.bind(py).call1((value, in_state))?;
        if let Ok(reason) = reduced.cast::<PyString>() {
            return Err(BadValue::unsupported(reason.to_cow()?));
        }
        if let Some((tag, content)) = reduced.extract::<Option<(u64, Bound<'py, PyAny>)>>()? {
            match tag {
                TAG_DRAWN => return self.put_drawn(out, &content),
                TAG_PLAIN => return self.put(out, &content),
                _ => {}
            }
            put_head(out, TAG, tag);
            return self.put_content(out, tag, &content);
        }
        if !in_state {
            return Err(unsupported(value));
        }
        let parts = self.hooks.take_apart.bind(py).call1((value,))?;
        if let Ok(reason) = parts.cast::<PyString>() {
            return Err(BadValue::unsupported(reason.to_cow()?));
        }
        let (class, arguments, state) =
            parts.extract::<(String, Bound<'py, PyAny>, Bound<'py, PyAny>)>()?;
        let number = numbers::number_of(value);
        put_head(out, TAG, TAG_INSTANCE);
        put_head(out, ARRAY, if number.is_some() { 4 } else { 3 });
        put_text(out, &class);
        self.put(out, &arguments)?;
        if let Some(number) = number {
            put_int(out, number);
        }
        self.remember(value);
        if let Ok(fields) = state.cast_exact::<PyDict>() {
            // Fields are named like attributes in errors, and their dict is the instance's own.
            return self.put_fields(out, fields);
        }
        self.put(out, &state)
    }

    /// What an iterator gives, as a list. It is drawn while it is written, so that an endless one ends at a limit.
    fn put_drawn(&mut self, out: &mut Vec<u8>, iterable: &Bound<'py, PyAny>) -> Done {
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
        let mut items = Vec::new();
        let mut count = 0_u64;
        for item in iterable.try_iter()? {
            self.put(&mut items, &item?)
                .map_err(|fault| fault.within(format!("[{count}]")))?;
            count += 1;
        }
        put_head(out, ARRAY, count);
        out.extend_from_slice(&items);
        Ok(())
    }

    /// The content of a tag. A tuple is an array whose places are not named in errors.
    fn put_content(&mut self, out: &mut Vec<u8>, tag: u64, content: &Bound<'py, PyAny>) -> Done {
        let Ok(parts) = content.cast_exact::<PyTuple>() else {
            return self.put(out, content);
        };
        put_head(out, ARRAY, parts.len() as u64);
        for part in parts {
            match part.cast_exact::<PyDict>() {
                Ok(fields) if matches!(tag, TAG_DATA_CLASS | TAG_RECORD) => {
                    self.put_fields(out, fields)?;
                }
                _ => self.put(out, &part)?,
            }
        }
        Ok(())
    }

    fn put_fields(&mut self, out: &mut Vec<u8>, fields: &Bound<'py, PyDict>) -> Done {
        put_head(out, MAP, fields.len() as u64);
        for (name, item) in fields.iter() {
            self.put(out, &name)?;
            self.put(out, &item)
                .map_err(|fault| fault.within(format!(".{name}")))?;
        }
        Ok(())
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

    fn remember(&mut self, value: &Bound<'py, PyAny>) {
        if let Some(memory) = &mut self.memory {
            let number = memory.alive.len() as u64;
            memory.numbers.insert(value.as_ptr() as usize, number);
            memory.alive.push(value.clone());
        }
    }
}

/// Refuses an element of a set whose place in it follows from where it, or something in it, lies in memory.
fn check_hash(element: &Bound<'_, PyAny>) -> Done {
    if element.is_exact_instance_of::<PyString>() || element.is_exact_instance_of::<PyInt>() {
        return Ok(());
    }
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

#[inline]
fn put_string(out: &mut Vec<u8>, text: &Bound<'_, PyString>) -> Done {
    match text.to_str() {
        Ok(text) => {
            put_text(out, text);
            Ok(())
        }
        Err(_) => Err(BadValue::unsupported(
            "text with lone surrogates is not supported",
        )),
    }
}

#[inline]
fn put_integer(out: &mut Vec<u8>, value: &Bound<'_, PyAny>, travels: bool) -> Done {
    if let Ok(number) = value.extract::<i64>() {
        put_int(out, number);
        return Ok(());
    }
    put_big_integer(out, value, travels)
}

/// CBOR keeps `-1 - n` for negative integers, which is Python's `~n`.
#[cold]
fn put_big_integer(out: &mut Vec<u8>, value: &Bound<'_, PyAny>, travels: bool) -> Done {
    let is_negative = value.lt(0)?;
    let (major, tag, stored) = if is_negative {
        (NEGATIVE, TAG_NEGATIVE, value.call_method0("__invert__")?)
    } else {
        (UNSIGNED, TAG_POSITIVE, value.clone())
    };
    if let Ok(small) = stored.extract::<u64>() {
        put_head(out, major, small);
        return Ok(());
    }
    let length = stored
        .call_method0("bit_length")?
        .extract::<usize>()?
        .div_ceil(8);
    if travels && length > INTEGER_BYTES_MAX {
        return Err(BadValue::unsupported(format!(
            "an integer of more than {INTEGER_BYTES_MAX} bytes is not supported"
        )));
    }
    let bytes = stored.call_method1("to_bytes", (length, "big"))?;
    let bytes = bytes.cast::<PyBytes>()?.as_bytes();
    put_head(out, TAG, tag);
    put_head(out, BYTES, bytes.len() as u64);
    out.extend_from_slice(bytes);
    Ok(())
}
