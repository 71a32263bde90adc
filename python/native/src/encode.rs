//! Python objects to bytes, directly, without a value tree between.
//!
//! One walker serves two forms. A *value* travels between client and object: plain kinds, no sharing.
//! A *state* is kept in snapshots: everything mutable is remembered when first met and referred to by
//! number afterwards, so cycles and sharing survive; instances go in parts.

use crate::bad_value::BadValue;
use crate::hooks::{Hooks, hooks};
use crate::layout::*;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PySet, PyString, PyTuple,
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
    Walker::of_value(value.py())?
        .put(out, value)
        .map_err(|fault| fault.into_error(value.py(), root))
}

/// Encodes a call.
pub(crate) fn call(
    method: &str,
    args: &Bound<'_, PyTuple>,
    kwargs: &Bound<'_, PyDict>,
) -> PyResult<Vec<u8>> {
    let py = args.py();
    let mut walker = Walker::of_value(py)?;
    let mut out = Vec::with_capacity(method.len() + 32);
    put_head(&mut out, ARRAY, 3);
    put_text(&mut out, method);
    put_head(&mut out, ARRAY, args.len() as u64);
    for (index, item) in args.iter().enumerate() {
        walker
            .put(&mut out, &item)
            .map_err(|fault| fault.within(format!("[{index}]")).into_error(py, "args"))?;
    }
    put_head(&mut out, MAP, kwargs.len() as u64);
    for (name, item) in kwargs.iter() {
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

/// Objects that are followed to find an element's place in a set.
const LOOKED_AT_MAX: usize = 16;

struct Walker<'py> {
    hooks: &'py Hooks,
    depth: u32,
    items: u32,
    /// Remembered objects; `None` for travelling values.
    memory: Option<Memory<'py>>,
}

struct Memory<'py> {
    numbers: HashMap<usize, u64>,
    /// Keeps remembered objects alive, so that no address is used twice.
    alive: Vec<Bound<'py, PyAny>>,
    references: u64,
    /// So many may be remembered while elements of a set are looked at.
    room: usize,
    /// So many instances may be taken apart meanwhile.
    looks: usize,
    is_full: bool,
}

impl Default for Memory<'_> {
    fn default() -> Self {
        Memory {
            numbers: HashMap::new(),
            alive: Vec::new(),
            references: 0,
            room: usize::MAX,
            looks: 0,
            is_full: false,
        }
    }
}

impl Memory<'_> {
    /// Forgets all but the first `count` objects.
    fn forget(&mut self, count: usize) {
        for object in self.alive.drain(count..) {
            self.numbers.remove(&(object.as_ptr() as usize));
        }
    }
}

impl<'py> Walker<'py> {
    fn of_value(py: Python<'py>) -> PyResult<Walker<'py>> {
        Ok(Walker {
            hooks: hooks(py)?,
            depth: VALUE_DEPTH_MAX,
            items: VALUE_ITEMS_MAX,
            memory: None,
        })
    }

    fn of_state(py: Python<'py>) -> PyResult<Walker<'py>> {
        Ok(Walker {
            hooks: hooks(py)?,
            depth: STATE_DEPTH_MAX,
            items: u32::MAX,
            memory: Some(Memory::default()),
        })
    }

    fn put(&mut self, out: &mut Vec<u8>, value: &Bound<'py, PyAny>) -> Done {
        self.items = self.items.checked_sub(1).ok_or_else(|| {
            BadValue::unsupported("a value of more than a million items is not supported")
        })?;
        if value.is_exact_instance_of::<PyInt>() {
            return put_integer(out, value);
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
        if let Ok(number) = value.cast_exact::<PyFloat>() {
            let number = number.value();
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
            .ok_or_else(|| BadValue::unsupported("nesting this deep is not supported"))?;
        self.put_nested(out, value)?;
        self.depth += 1;
        Ok(())
    }

    fn put_nested(&mut self, out: &mut Vec<u8>, value: &Bound<'py, PyAny>) -> Done {
        if let Ok(tuple) = value.cast_exact::<PyTuple>() {
            put_head(out, TAG, TAG_TUPLE);
            put_head(out, ARRAY, tuple.len() as u64);
            return self.put_each(out, tuple.iter());
        }
        if let Ok(set) = value.cast_exact::<PyFrozenSet>() {
            put_head(out, TAG, TAG_FROZEN_SET);
            return self.put_set(out, set.len(), set.iter());
        }
        if self.is_known(out, value) {
            return Ok(());
        }
        if let Ok(list) = value.cast_exact::<PyList>() {
            self.remember(value)?;
            put_head(out, ARRAY, list.len() as u64);
            return self.put_each(out, list.iter());
        }
        if let Ok(dict) = value.cast_exact::<PyDict>() {
            self.remember(value)?;
            return self.put_dict(out, dict);
        }
        if let Ok(set) = value.cast_exact::<PySet>() {
            self.remember(value)?;
            put_head(out, TAG, TAG_SET);
            return self.put_set(out, set.len(), set.iter());
        }
        self.put_rare(out, value)
    }

    fn put_each(
        &mut self,
        out: &mut Vec<u8>,
        items: impl Iterator<Item = Bound<'py, PyAny>>,
    ) -> Done {
        for (index, item) in items.enumerate() {
            self.put(out, &item)
                .map_err(|fault| fault.within(format!("[{index}]")))?;
        }
        Ok(())
    }

    fn put_dict(&mut self, out: &mut Vec<u8>, dict: &Bound<'py, PyDict>) -> Done {
        put_head(out, MAP, dict.len() as u64);
        for (index, (key, item)) in dict.iter().enumerate() {
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
        let mut has_remembered = false;
        for item in items {
            let (part, is_remembered) = self.look_at(&item)?;
            has_remembered |= is_remembered;
            parts.push((part, item));
        }
        parts.sort_by(|(one, _), (other, _)| one.cmp(other));
        let is_looked_at = self.memory.as_ref().is_some_and(|m| m.room < usize::MAX);
        if !has_remembered || is_looked_at {
            out.extend(parts.into_iter().flat_map(|(part, _)| part));
            return Ok(());
        }
        // Numbers are given in the order of writing, so that is settled first.
        for (_, item) in &parts {
            self.put(out, item)
                .map_err(|fault| fault.within("{}".to_owned()))?;
        }
        Ok(())
    }

    /// The encoding of an element as if it came next, and whether remembered objects are in it. Of an element that
    /// holds many of them it is only the beginning: they may reach all of the state. Sets inside it are not followed.
    fn look_at(&mut self, item: &Bound<'py, PyAny>) -> Result<(Vec<u8>, bool), Box<BadValue>> {
        let (depth, before) = (self.depth, self.met());
        let known = self.memory.as_ref().map_or(0, |m| m.alive.len());
        let outer = self.memory.as_mut().map_or(usize::MAX, |m| {
            let is_inside = m.room < usize::MAX;
            let room = known + if is_inside { 0 } else { LOOKED_AT_MAX };
            if !is_inside {
                m.looks = LOOKED_AT_MAX;
            }
            std::mem::replace(&mut m.room, room)
        });
        let mut part = Vec::new();
        let done = self.put(&mut part, item);
        let is_cut = self.memory.as_ref().is_some_and(|m| m.is_full);
        let is_remembered = is_cut || self.met() != before;
        if let Some(memory) = &mut self.memory {
            memory.forget(known);
            memory.room = outer;
            memory.is_full = false;
        }
        match done {
            Err(_) if is_cut => self.depth = depth,
            other => other.map_err(|fault| fault.within("{}".to_owned()))?,
        }
        Ok((part, is_remembered))
    }

    /// Changes when an object is remembered, or referred to again.
    fn met(&self) -> u64 {
        self.memory
            .as_ref()
            .map_or(0, |m| m.references + m.alive.len() as u64)
    }

    /// Kinds that Python knows better: by tag where they are plain, in parts where they have a state.
    fn put_rare(&mut self, out: &mut Vec<u8>, value: &Bound<'py, PyAny>) -> Done {
        let py = value.py();
        if let Some(memory) = self.memory.as_mut().filter(|m| m.room < usize::MAX) {
            let Some(left) = memory.looks.checked_sub(1) else {
                memory.is_full = true;
                return Err(BadValue::unsupported("more than is looked at"));
            };
            memory.looks = left;
        }
        if let Some((tag, content)) = self
            .hooks
            .reduce
            .bind(py)
            .call1((value, self.memory.is_some()))?
            .extract::<Option<(u64, Bound<'py, PyAny>)>>()?
        {
            put_head(out, TAG, tag);
            return self.put_content(out, tag, &content);
        }
        if self.memory.is_none() {
            return Err(unsupported(value));
        }
        let parts = self.hooks.take_apart.bind(py).call1((value,))?;
        if let Ok(reason) = parts.cast::<PyString>() {
            return Err(BadValue::unsupported(reason.to_cow()?));
        }
        let (class, arguments, state) =
            parts.extract::<(String, Bound<'py, PyAny>, Bound<'py, PyAny>)>()?;
        put_head(out, TAG, TAG_INSTANCE);
        put_head(out, ARRAY, 3);
        put_text(out, &class);
        self.put(out, &arguments)?;
        self.remember(value)?;
        if let Ok(fields) = state.cast_exact::<PyDict>() {
            // Fields are named like attributes in errors, and their dict is the instance's own.
            return self.put_fields(out, fields);
        }
        self.put(out, &state)
    }

    fn put_content(&mut self, out: &mut Vec<u8>, tag: u64, content: &Bound<'py, PyAny>) -> Done {
        const TAG_DATA_CLASS: u64 = 60_007;
        if tag != TAG_DATA_CLASS {
            return self.put(out, content);
        }
        let (class, fields) = content.extract::<(String, Bound<'py, PyDict>)>()?;
        put_head(out, ARRAY, 2);
        put_text(out, &class);
        self.put_fields(out, &fields)
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

    fn is_known(&mut self, out: &mut Vec<u8>, value: &Bound<'py, PyAny>) -> bool {
        let Some(memory) = &mut self.memory else {
            return false;
        };
        let Some(number) = memory.numbers.get(&(value.as_ptr() as usize)) else {
            return false;
        };
        put_head(out, TAG, TAG_AGAIN);
        put_head(out, UNSIGNED, *number);
        memory.references += 1;
        true
    }

    fn remember(&mut self, value: &Bound<'py, PyAny>) -> Done {
        if let Some(memory) = &mut self.memory {
            if memory.alive.len() >= memory.room {
                memory.is_full = true;
                return Err(BadValue::unsupported("more than is looked at"));
            }
            let number = memory.alive.len() as u64;
            memory.numbers.insert(value.as_ptr() as usize, number);
            memory.alive.push(value.clone());
        }
        Ok(())
    }
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
fn put_integer(out: &mut Vec<u8>, value: &Bound<'_, PyAny>) -> Done {
    if let Ok(number) = value.extract::<i64>() {
        put_int(out, number);
        return Ok(());
    }
    put_big_integer(out, value)
}

/// CBOR keeps `-1 - n` for negative integers, which is Python's `~n`.
#[cold]
fn put_big_integer(out: &mut Vec<u8>, value: &Bound<'_, PyAny>) -> Done {
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
    let bytes = stored.call_method1("to_bytes", (length, "big"))?;
    let bytes = bytes.cast::<PyBytes>()?.as_bytes();
    put_head(out, TAG, tag);
    put_head(out, BYTES, bytes.len() as u64);
    out.extend_from_slice(bytes);
    Ok(())
}
