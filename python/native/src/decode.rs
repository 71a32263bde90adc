//! Bytes to Python objects, directly, without a value tree between.
//!
//! Nothing here imports or runs what the bytes name: rare kinds go to `quorate._values`, instances of
//! states to `quorate._state`, which know the classes that are allowed.

use crate::bad_value::BadValue;
use crate::hooks::{self, Hooks, hooks};
use crate::layout::*;
use crate::numbers;
use crate::set_layout;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PySet, PyString, PyTuple,
};

/// Decodes a travelling value.
pub(crate) fn value<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    whole(py, data, VALUE_ITEM_DEPTH_MAX, None)
}

/// Decodes a state.
pub(crate) fn state<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    whole(py, data, STATE_DEPTH_MAX, Some(Memory::default()))
}

fn whole<'py>(
    py: Python<'py>,
    data: &[u8],
    depth: u32,
    memory: Option<Memory<'py>>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut reader = Reader {
        py,
        hooks: hooks(py)?,
        scan: ItemScan { rest: data },
        depth,
        memory,
    };
    let value = reader.item().map_err(|fault| refusal(py, fault))?;
    reader
        .fill_late()
        .map_err(|fault| fault.into_error(py, ""))?;
    reader.end().map_err(|fault| fault.into_error(py, ""))?;
    Ok(value)
}

/// What does not decode, as an exception. A key or an element without a hash is malformed like everything else.
#[cold]
fn refusal(py: Python<'_>, fault: BadValue) -> PyErr {
    let error = fault.into_error(py, "");
    if error.is_instance_of::<PyTypeError>(py) {
        return hooks::error(py, "MalformedValue", error.value(py).to_string());
    }
    error
}

/// A call: its method's name, and its arguments.
pub(crate) struct DecodedCall<'a, 'py> {
    pub(crate) method: &'a str,
    pub(crate) args: Bound<'py, PyTuple>,
    pub(crate) kwargs: Option<Bound<'py, PyDict>>,
}

/// Decodes a call.
pub(crate) fn call<'a, 'py>(py: Python<'py>, data: &'a [u8]) -> PyResult<DecodedCall<'a, 'py>> {
    let mut reader = Reader {
        py,
        hooks: hooks(py)?,
        scan: ItemScan { rest: data },
        depth: VALUE_ITEM_DEPTH_MAX,
        memory: None,
    };
    reader.call().map_err(|fault| refusal(py, fault))
}

/// The method of a call, without its arguments.
pub(crate) fn method<'a>(py: Python<'_>, data: &'a [u8]) -> PyResult<&'a str> {
    let mut scan = ItemScan { rest: data };
    let mut read = || {
        if scan.expect(ARRAY)? != 3 {
            return Err(BadValue::malformed("a call has three parts"));
        }
        let length = scan.expect(TEXT)?;
        scan.text(length)
    };
    read().map_err(|fault| fault.into_error(py, ""))
}

/// What was met in a state.
#[derive(Default)]
struct Memory<'py> {
    /// In the order in which it was met, and whether it is still without its state.
    met: Vec<(Bound<'py, PyAny>, bool)>,
    /// How often something was met again that has no state yet, and whose hash may follow from its state.
    early: u64,
    /// What waits for the hashes of such keys and elements.
    late: Vec<Late<'py>>,
}

/// A container that is filled when everything else is.
enum Late<'py> {
    Set {
        set: Bound<'py, PySet>,
        shape: Vec<u8>,
        elements: Vec<Bound<'py, PyAny>>,
    },
    Dict {
        dict: Bound<'py, PyDict>,
        items: Vec<[Bound<'py, PyAny>; 2]>,
    },
    /// An instance of a subclass of these.
    Instance {
        object: Bound<'py, PyAny>,
        state: Bound<'py, PyAny>,
    },
}

struct Reader<'a, 'py> {
    py: Python<'py>,
    hooks: &'py Hooks,
    scan: ItemScan<'a>,
    depth: u32,
    /// `None` for travelling values.
    memory: Option<Memory<'py>>,
}

impl<'a, 'py> Reader<'a, 'py> {
    fn call(&mut self) -> Result<DecodedCall<'a, 'py>, BadValue> {
        if self.scan.expect(ARRAY)? != 3 {
            return Err(BadValue::malformed("a call has three parts"));
        }
        let length = self.scan.expect(TEXT)?;
        let method = self.scan.text(length)?;
        let count = self.scan.expect(ARRAY)?;
        let args = PyTuple::new(self.py, self.items(count)?)?;
        let count = self.scan.expect(MAP)?;
        let kwargs = match count {
            0 => None,
            _ => {
                let kwargs = PyDict::new(self.py);
                self.fill_dict(&kwargs, count)?;
                Some(kwargs)
            }
        };
        self.end()?;
        Ok(DecodedCall {
            method,
            args,
            kwargs,
        })
    }

    fn end(&self) -> Result<(), BadValue> {
        if self.scan.rest.is_empty() {
            Ok(())
        } else {
            Err(BadValue::malformed("bytes are left over after a value"))
        }
    }

    fn items(&mut self, count: u64) -> Result<Vec<Bound<'py, PyAny>>, BadValue> {
        let count = self.scan.count(count)?;
        let mut items = Vec::with_capacity(count.min(1024));
        for _ in 0..count {
            items.push(self.item()?);
        }
        Ok(items)
    }

    fn item(&mut self) -> Result<Bound<'py, PyAny>, BadValue> {
        let py = self.py;
        let (major, number, byte) = self.scan.head()?;
        match major {
            UNSIGNED => Ok(PyInt::new(py, number).into_any()),
            NEGATIVE => match i64::try_from(number) {
                Ok(number) => Ok(PyInt::new(py, !number).into_any()),
                Err(_) => Ok(PyInt::new(py, !i128::from(number)).into_any()),
            },
            BYTES => Ok(PyBytes::new(py, self.scan.take(number)?).into_any()),
            TEXT => Ok(PyString::new(py, self.scan.text(number)?).into_any()),
            SIMPLE => self.simple(number, byte),
            _ => {
                self.depth = self
                    .depth
                    .checked_sub(1)
                    .ok_or_else(|| BadValue::malformed("a value is nested too deeply"))?;
                let item = match major {
                    ARRAY => self.list(number),
                    MAP => {
                        let dict = PyDict::new(py);
                        self.remember(dict.as_any());
                        self.fill_dict(&dict, number)?;
                        Ok(dict.into_any())
                    }
                    _ => self.tagged(number),
                }?;
                self.depth += 1;
                Ok(item)
            }
        }
    }

    fn simple(&mut self, number: u64, byte: u8) -> Result<Bound<'py, PyAny>, BadValue> {
        match byte {
            NULL => Ok(self.py.None().into_bound(self.py)),
            TRUE => Ok(PyBool::new(self.py, true).to_owned().into_any()),
            FALSE => Ok(PyBool::new(self.py, false).to_owned().into_any()),
            FLOAT => Ok(PyFloat::new(self.py, f64::from_bits(number)).into_any()),
            _ => Err(BadValue::malformed("unknown simple value")),
        }
    }

    fn list(&mut self, count: u64) -> Result<Bound<'py, PyAny>, BadValue> {
        if self.memory.is_none() {
            let items = self.items(count)?;
            return Ok(PyList::new(self.py, items)?.into_any());
        }
        // A list may hold itself, so it is remembered before its items are read.
        let list = PyList::empty(self.py);
        self.remember(list.as_any());
        for _ in 0..self.scan.count(count)? {
            list.append(self.item()?)?;
        }
        Ok(list.into_any())
    }

    fn fill_dict(&mut self, dict: &Bound<'py, PyDict>, count: u64) -> Result<(), BadValue> {
        let count = self.scan.count(count)?;
        let mut items = Vec::new();
        for _ in 0..count {
            let early = self.early();
            let key = self.item()?;
            // Later ones wait as well, for their order.
            if items.is_empty() && early == self.early() {
                dict.set_item(key, self.item()?)?;
            } else {
                items.push([key, self.item()?]);
            }
        }
        let length = dict.len() + items.len();
        if let Some(memory) = self.memory.as_mut().filter(|_| !items.is_empty()) {
            let dict = dict.clone();
            memory.late.push(Late::Dict { dict, items });
        }
        if length == count {
            Ok(())
        } else {
            Err(BadValue::malformed("a key stands twice"))
        }
    }

    fn tagged(&mut self, tag: u64) -> Result<Bound<'py, PyAny>, BadValue> {
        let py = self.py;
        match tag {
            TAG_TUPLE => {
                let count = self.scan.expect(ARRAY)?;
                Ok(PyTuple::new(py, self.items(count)?)?.into_any())
            }
            TAG_SET => {
                let set = PySet::empty(py)?;
                self.remember(set.as_any());
                let count = self.scan.expect(ARRAY)?;
                let items = self.items(count)?;
                for item in &items {
                    set.add(item)?;
                }
                whole_set(set.len(), items.len())?;
                Ok(set.into_any())
            }
            TAG_FROZEN_SET => {
                let count = self.scan.expect(ARRAY)?;
                let items = self.items(count)?;
                let set = PyFrozenSet::new(py, &items)?;
                whole_set(set.len(), items.len())?;
                Ok(set.into_any())
            }
            TAG_LAID_SET if self.memory.is_some() => {
                let set = PySet::empty(py)?;
                self.remember(set.as_any());
                let early = self.early();
                let (shape, elements) = self.laid_set()?;
                match self.memory.as_mut() {
                    Some(memory) if memory.early != early => {
                        let (set, shape) = (set.clone(), shape.to_vec());
                        memory.late.push(Late::Set {
                            set,
                            shape,
                            elements,
                        });
                    }
                    _ => fill_set(&set, shape, &elements)?,
                }
                Ok(set.into_any())
            }
            TAG_LAID_FROZEN_SET if self.memory.is_some() => {
                let (shape, elements) = self.laid_set()?;
                let set = PyFrozenSet::new(py, &elements)?;
                whole_set(set.len(), elements.len())?;
                // All empty ones are one object.
                if !elements.is_empty() {
                    set_layout::lay_out(set.as_any(), shape, &elements)?;
                }
                Ok(set.into_any())
            }
            TAG_NAN if self.memory.is_some() => {
                let content = self.item()?;
                let nan = self.nan(&content)?;
                self.remember(&nan);
                Ok(nan)
            }
            TAG_POSITIVE | TAG_NEGATIVE => self.big_integer(tag),
            TAG_INSTANCE if self.memory.is_some() => self.instance(),
            TAG_AGAIN => self.again(),
            _ => {
                let content = self.item()?;
                Ok(self.hooks.build.bind(py).call1((tag, content))?)
            }
        }
    }

    /// By the name that a module has for it, by its bits, or the usual one.
    fn nan(&self, content: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>, BadValue> {
        if let Ok(name) = content.cast_exact::<PyString>() {
            return Ok(self.hooks.find_nan.bind(self.py).call1((name,))?);
        }
        let bits = if content.is_none() {
            NAN_BITS
        } else {
            content.extract::<u64>()?
        };
        let number = f64::from_bits(bits);
        if !number.is_nan() {
            return Err(BadValue::malformed("a number stands where none may"));
        }
        Ok(PyFloat::new(self.py, number).into_any())
    }

    /// The shape of a set, and its elements in the order in which Python went through them.
    fn laid_set(&mut self) -> Result<(&'a [u8], Vec<Bound<'py, PyAny>>), BadValue> {
        if self.scan.expect(ARRAY)? != 2 {
            return Err(BadValue::malformed("a set with its layout has two parts"));
        }
        let length = self.scan.expect(BYTES)?;
        let shape = self.scan.take(length)?;
        let count = self.scan.expect(ARRAY)?;
        Ok((shape, self.items(count)?))
    }

    fn big_integer(&mut self, tag: u64) -> Result<Bound<'py, PyAny>, BadValue> {
        let length = self.scan.expect(BYTES)?;
        if self.memory.is_none() && length > INTEGER_BYTES_MAX as u64 {
            return Err(BadValue::malformed("an integer is too large"));
        }
        let bytes = PyBytes::new(self.py, self.scan.take(length)?);
        let number = self
            .py
            .get_type::<PyInt>()
            .call_method1("from_bytes", (bytes, "big"))?;
        if tag == TAG_POSITIVE {
            Ok(number)
        } else {
            Ok(number.call_method0("__invert__")?)
        }
    }

    fn instance(&mut self) -> Result<Bound<'py, PyAny>, BadValue> {
        let parts = self.scan.expect(ARRAY)?;
        if parts != 3 && parts != 4 {
            return Err(BadValue::malformed("an instance has three parts or four"));
        }
        let length = self.scan.expect(TEXT)?;
        let class = self.scan.text(length)?;
        let arguments = self.item()?;
        let object = self.hooks.make.bind(self.py).call1((class, arguments))?;
        if parts == 4 {
            // Before its state, in which it may be a key.
            numbers::give_number(&object, self.item()?.extract()?);
        }
        self.remember(&object);
        let (number, early) = self.open_newest();
        let state = match self.scan.rest.first() {
            // Fields are not remembered: they were written as the instance's own.
            Some(first) if first >> 5 == MAP => {
                let count = self.scan.expect(MAP)?;
                let fields = PyDict::new(self.py);
                self.fill_dict(&fields, count)?;
                fields.into_any()
            }
            _ => self.item()?,
        };
        let Some(memory) = self.memory.as_mut() else {
            return Ok(object);
        };
        let is_hashed = object.is_instance_of::<PyDict>() || object.is_instance_of::<PySet>();
        if is_hashed && memory.early != early && !is_by_reduce(&state) {
            let object = object.clone();
            memory.late.push(Late::Instance { object, state });
        } else {
            self.hooks.fill.bind(self.py).call1((&object, state))?;
        }
        if let Some(memory) = &mut self.memory {
            memory.met[number].1 = false;
        }
        Ok(object)
    }

    /// Notes that what was remembered last is without its state. Returns its number, and how often such was met again.
    fn open_newest(&mut self) -> (usize, u64) {
        let Some(memory) = &mut self.memory else {
            return (0, 0);
        };
        if let Some((_, is_open)) = memory.met.last_mut() {
            *is_open = true;
        }
        (memory.met.len().saturating_sub(1), memory.early)
    }

    fn early(&self) -> u64 {
        self.memory.as_ref().map_or(0, |memory| memory.early)
    }

    /// Fills what waited, in the order in which it was met.
    fn fill_late(&mut self) -> Result<(), BadValue> {
        let late = self
            .memory
            .as_mut()
            .map(|memory| std::mem::take(&mut memory.late));
        for each in late.into_iter().flatten() {
            match each {
                Late::Set {
                    set,
                    shape,
                    elements,
                } => fill_set(&set, &shape, &elements)?,
                Late::Dict { dict, items } => {
                    let length = dict.len() + items.len();
                    for [key, value] in items {
                        dict.set_item(key, value)?;
                    }
                    if dict.len() != length {
                        return Err(BadValue::malformed("a key stands twice"));
                    }
                }
                Late::Instance { object, state } => {
                    self.hooks.fill.bind(self.py).call1((object, state))?;
                }
            }
        }
        Ok(())
    }

    fn again(&mut self) -> Result<Bound<'py, PyAny>, BadValue> {
        let number = self.scan.expect(UNSIGNED)?;
        let malformed = || BadValue::malformed("a reference to an object that was not met");
        let memory = self.memory.as_mut().ok_or_else(malformed)?;
        let number = usize::try_from(number).map_err(|_| malformed())?;
        let (known, is_open) = memory.met.get(number).ok_or_else(malformed)?;
        if *is_open && has_own_hash(known)? {
            memory.early += 1;
        }
        Ok(known.clone())
    }

    fn remember(&mut self, object: &Bound<'py, PyAny>) {
        if let Some(memory) = &mut self.memory {
            memory.met.push((object.clone(), false));
        }
    }
}

/// What a class says itself with `__reduce__`: it may need its parts at once.
fn is_by_reduce(state: &Bound<'_, PyAny>) -> bool {
    state
        .cast_exact::<PyList>()
        .is_ok_and(|parts| parts.len() == 4)
}

/// Whether an object is hashed by more than by being itself.
fn has_own_hash(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let own = object.get_type().getattr("__hash__")?;
    let plain = object.py().get_type::<PyAny>().getattr("__hash__")?;
    Ok(!own.is_none() && !own.is(&plain))
}

fn fill_set(
    set: &Bound<'_, PySet>,
    shape: &[u8],
    elements: &[Bound<'_, PyAny>],
) -> Result<(), BadValue> {
    for element in elements {
        set.add(element)?;
    }
    whole_set(set.len(), elements.len())?;
    Ok(set_layout::lay_out(set.as_any(), shape, elements)?)
}

fn whole_set(length: usize, count: usize) -> Result<(), BadValue> {
    if length == count {
        Ok(())
    } else {
        Err(BadValue::malformed("an element stands twice"))
    }
}
