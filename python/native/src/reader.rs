//! Makes Python objects of an item's bytes, for `decode`.
//!
//! What is open is kept on a stack of its own and not on the thread's, so that objects which are linked one to the next
//! are made however many they are.

use crate::bad_value::BadValue;
use crate::decode::DecodedCall;
use crate::hooks::{Hooks, hooks};
use crate::late::{Late, Met, fill_set, has_own_hash, is_by_reduce, whole_set};
use crate::layout::*;
use crate::numbers;
use crate::open_items::{Collection, OpenDict, OpenItem, plain};
use crate::set_layout;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PySet, PyString, PyTuple};

type Item<'py> = Result<Bound<'py, PyAny>, BadValue>;
/// An item, or none if what was begun is open.
type Begun<'py> = Result<Option<Bound<'py, PyAny>>, BadValue>;

pub(crate) struct ObjectReader<'a, 'py> {
    py: Python<'py>,
    hooks: &'py Hooks,
    scan: ItemScan<'a>,
    /// Items of which some is still to be read, each inside the one before.
    open: Vec<OpenItem<'a, 'py>>,
    depth: usize,
    /// `None` for travelling values.
    memory: Option<Met<'py>>,
}

impl<'a, 'py> ObjectReader<'a, 'py> {
    pub(crate) fn of_value(py: Python<'py>, data: &'a [u8]) -> PyResult<ObjectReader<'a, 'py>> {
        Ok(ObjectReader {
            py,
            hooks: hooks(py)?,
            scan: ItemScan { rest: data },
            open: Vec::new(),
            depth: VALUE_ITEM_DEPTH_MAX,
            memory: None,
        })
    }

    pub(crate) fn of_state(py: Python<'py>, data: &'a [u8]) -> PyResult<ObjectReader<'a, 'py>> {
        Ok(ObjectReader {
            depth: STATE_ITEM_DEPTH_MAX,
            memory: Some(Met::default()),
            ..ObjectReader::of_value(py, data)?
        })
    }

    pub(crate) fn py(&self) -> Python<'py> {
        self.py
    }

    pub(crate) fn call(&mut self) -> Result<DecodedCall<'a, 'py>, BadValue> {
        if self.scan.expect(ARRAY)? != 3 {
            return Err(BadValue::malformed("a call has three parts"));
        }
        let length = self.scan.expect(TEXT)?;
        let method = self.scan.text(length)?;
        let count = self.scan.expect(ARRAY)?;
        let count = self.scan.count(count)?;
        let mut args = Vec::with_capacity(count.min(1024));
        for _ in 0..count {
            args.push(self.item()?);
        }
        let count = self.scan.expect(MAP)?;
        let kwargs = match count {
            0 => None,
            _ => {
                let kwargs = PyDict::new(self.py);
                self.begin_dict(kwargs.clone(), count)?;
                self.go_on()?;
                Some(kwargs)
            }
        };
        self.end()?;
        Ok(DecodedCall {
            method,
            args: PyTuple::new(self.py, args)?,
            kwargs,
        })
    }

    pub(crate) fn end(&self) -> Result<(), BadValue> {
        if self.scan.rest.is_empty() {
            Ok(())
        } else {
            Err(BadValue::malformed("bytes are left over after a value"))
        }
    }

    /// The next item with all that is in it.
    pub(crate) fn item(&mut self) -> Item<'py> {
        match self.begin()? {
            Some(item) => Ok(item),
            None => self.go_on(),
        }
    }

    /// Reads what is open to its end.
    fn go_on(&mut self) -> Item<'py> {
        loop {
            let early = self.early();
            let open = self.open.last_mut();
            let open = open.expect("an item is open while it is read");
            open.take_plain(self.py, &mut self.scan, early)?;
            let read = if open.is_whole() {
                self.close()?
            } else {
                self.begin()?
            };
            let Some(item) = read else {
                continue;
            };
            let early = self.early();
            match self.open.last_mut() {
                Some(open) => open.take(item, early)?,
                None => return Ok(item),
            }
        }
    }

    fn begin(&mut self) -> Begun<'py> {
        let py = self.py;
        let head = self.scan.head()?;
        if let Some(item) = plain(py, &mut self.scan, head)? {
            return Ok(Some(item));
        }
        let (major, number, _) = head;
        match major {
            _ if self.open.len() >= self.depth => {
                return Err(BadValue::malformed("a value is nested too deeply"));
            }
            ARRAY if self.memory.is_none() => self.begin_items(Collection::List, number)?,
            ARRAY => {
                // A list may hold itself, so it is remembered before its items are read.
                let list = PyList::empty(py);
                self.remember(list.as_any());
                let left = self.scan.count(number)?;
                self.open.push(OpenItem::List { list, left });
            }
            MAP => {
                let dict = PyDict::new(py);
                self.remember(dict.as_any());
                self.begin_dict(dict, number)?;
            }
            _ => return self.begin_tagged(number),
        }
        Ok(None)
    }

    fn begin_items(&mut self, kind: Collection<'a, 'py>, count: u64) -> Result<(), BadValue> {
        let left = self.scan.count(count)?;
        let items = Vec::with_capacity(left.min(1024));
        self.open.push(OpenItem::Items { kind, items, left });
        Ok(())
    }

    fn begin_dict(&mut self, dict: Bound<'py, PyDict>, count: u64) -> Result<(), BadValue> {
        let count = self.scan.count(count)?;
        self.open.push(OpenItem::Dict(OpenDict {
            dict,
            count,
            left: count,
            key: None,
            early: self.early(),
            late: Vec::new(),
        }));
        Ok(())
    }

    fn begin_tagged(&mut self, tag: u64) -> Begun<'py> {
        let in_state = self.memory.is_some();
        match tag {
            TAG_TUPLE => {
                let count = self.scan.expect(ARRAY)?;
                self.begin_items(Collection::Tuple, count)?;
            }
            TAG_SET => {
                let set = PySet::empty(self.py)?;
                self.remember(set.as_any());
                let count = self.scan.expect(ARRAY)?;
                self.begin_items(Collection::Set(set), count)?;
            }
            TAG_FROZEN_SET => {
                let count = self.scan.expect(ARRAY)?;
                self.begin_items(Collection::FrozenSet, count)?;
            }
            TAG_LAID_SET if in_state => {
                let set = PySet::empty(self.py)?;
                self.remember(set.as_any());
                let early = self.early();
                let (shape, count) = self.shape()?;
                self.begin_items(Collection::LaidSet { set, shape, early }, count)?;
            }
            TAG_LAID_FROZEN_SET if in_state => {
                let (shape, count) = self.shape()?;
                self.begin_items(Collection::LaidFrozenSet { shape }, count)?;
            }
            TAG_POSITIVE | TAG_NEGATIVE => return self.big_integer(tag).map(Some),
            TAG_AGAIN => return self.again().map(Some),
            TAG_INSTANCE if in_state => self.begin_instance()?,
            _ => self.open.push(OpenItem::Content { tag, content: None }),
        }
        Ok(None)
    }

    /// The shape of a set, and how many elements follow, in the order in which Python went through them.
    fn shape(&mut self) -> Result<(&'a [u8], u64), BadValue> {
        if self.scan.expect(ARRAY)? != 2 {
            return Err(BadValue::malformed("a set with its layout has two parts"));
        }
        let length = self.scan.expect(BYTES)?;
        let shape = self.scan.take(length)?;
        Ok((shape, self.scan.expect(ARRAY)?))
    }

    fn big_integer(&mut self, tag: u64) -> Item<'py> {
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

    fn again(&mut self) -> Item<'py> {
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

    fn begin_instance(&mut self) -> Result<(), BadValue> {
        let parts = self.scan.expect(ARRAY)?;
        if parts != 3 && parts != 4 {
            return Err(BadValue::malformed("an instance has three parts or four"));
        }
        let length = self.scan.expect(TEXT)?;
        self.open.push(OpenItem::Instance {
            class: self.scan.text(length)?,
            has_number: parts == 4,
            arguments: None,
        });
        Ok(())
    }

    /// Makes what was begun last of what was read of it; none if more of it is to be read.
    fn close(&mut self) -> Begun<'py> {
        let open = self.open.pop();
        match open.expect("an item is open while it is read") {
            OpenItem::List { list, .. } => Ok(Some(list.into_any())),
            OpenItem::Items { kind, items, .. } => self.close_items(kind, items).map(Some),
            OpenItem::Dict(dict) => self.close_dict(dict).map(Some),
            OpenItem::Content { tag, content } => self.build(tag, content).map(Some),
            OpenItem::Instance {
                class,
                has_number,
                arguments,
            } => {
                self.begin_state(class, has_number, arguments)?;
                Ok(None)
            }
            OpenItem::State {
                object,
                number,
                early,
                state,
            } => {
                self.fill(&object, early, state)?;
                if let Some(memory) = &mut self.memory {
                    memory.met[number].1 = false;
                }
                Ok(Some(object))
            }
        }
    }

    fn close_items(
        &mut self,
        kind: Collection<'a, 'py>,
        items: Vec<Bound<'py, PyAny>>,
    ) -> Item<'py> {
        let py = self.py;
        match kind {
            Collection::List => Ok(PyList::new(py, items)?.into_any()),
            Collection::Tuple => Ok(PyTuple::new(py, items)?.into_any()),
            Collection::Set(set) => {
                for item in &items {
                    set.add(item)?;
                }
                whole_set(set.len(), items.len())?;
                Ok(set.into_any())
            }
            Collection::FrozenSet => {
                let set = PyFrozenSet::new(py, &items)?;
                whole_set(set.len(), items.len())?;
                Ok(set.into_any())
            }
            Collection::LaidSet { set, shape, early } => {
                match self.memory.as_mut() {
                    Some(memory) if memory.early != early => memory.late.push(Late::Set {
                        set: set.clone(),
                        shape: shape.to_vec(),
                        elements: items,
                    }),
                    _ => fill_set(&set, shape, &items)?,
                }
                Ok(set.into_any())
            }
            Collection::LaidFrozenSet { shape } => {
                let set = PyFrozenSet::new(py, &items)?;
                whole_set(set.len(), items.len())?;
                // All empty ones are one object.
                if !items.is_empty() {
                    set_layout::lay_out(set.as_any(), shape, &items)?;
                }
                Ok(set.into_any())
            }
        }
    }

    fn close_dict(&mut self, open: OpenDict<'py>) -> Item<'py> {
        let OpenDict {
            dict, count, late, ..
        } = open;
        let length = dict.len() + late.len();
        if let Some(memory) = self.memory.as_mut().filter(|_| !late.is_empty()) {
            let (dict, items) = (dict.clone(), late);
            memory.late.push(Late::Dict { dict, items });
        }
        if length == count {
            Ok(dict.into_any())
        } else {
            Err(BadValue::malformed("a key stands twice"))
        }
    }

    fn build(&mut self, tag: u64, content: Option<Bound<'py, PyAny>>) -> Item<'py> {
        let content = content.unwrap_or_else(|| self.py.None().into_bound(self.py));
        if tag == TAG_NAN && self.memory.is_some() {
            let nan = self.nan(&content)?;
            self.remember(&nan);
            return Ok(nan);
        }
        Ok(self.hooks.build.bind(self.py).call1((tag, content))?)
    }

    /// By the name that a module has for it, by its bits, or the usual one.
    fn nan(&self, content: &Bound<'py, PyAny>) -> Item<'py> {
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

    /// Makes an instance, which may be met from then on, and begins its state.
    fn begin_state(
        &mut self,
        class: &str,
        has_number: bool,
        arguments: Option<Bound<'py, PyAny>>,
    ) -> Result<(), BadValue> {
        let object = self.hooks.make.bind(self.py).call1((class, arguments))?;
        if has_number {
            // Before its state, in which it may be a key.
            let number = match self.begin()? {
                Some(number) => number.extract()?,
                None => return Err(BadValue::malformed("another kind of item expected")),
            };
            numbers::give_number(&object, number);
        }
        self.remember(&object);
        let (number, early) = self.open_newest();
        self.open.push(OpenItem::State {
            object,
            number,
            early,
            state: None,
        });
        // Fields are not remembered: they were written as the instance's own.
        if self
            .scan
            .rest
            .first()
            .is_some_and(|first| first >> 5 == MAP)
        {
            let count = self.scan.expect(MAP)?;
            self.begin_dict(PyDict::new(self.py), count)?;
        }
        Ok(())
    }

    fn fill(
        &mut self,
        object: &Bound<'py, PyAny>,
        early: u64,
        state: Option<Bound<'py, PyAny>>,
    ) -> Result<(), BadValue> {
        let state = state.unwrap_or_else(|| self.py.None().into_bound(self.py));
        let is_hashed = object.is_instance_of::<PyDict>() || object.is_instance_of::<PySet>();
        match self.memory.as_mut() {
            Some(memory) if is_hashed && memory.early != early && !is_by_reduce(&state) => {
                let object = object.clone();
                memory.late.push(Late::Instance { object, state });
            }
            _ => {
                self.hooks.fill.bind(self.py).call1((object, state))?;
            }
        }
        Ok(())
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
    pub(crate) fn fill_late(&mut self) -> Result<(), BadValue> {
        let late = self.memory.as_mut().map(Met::take_late);
        for each in late.into_iter().flatten() {
            each.fill(self.hooks)?;
        }
        Ok(())
    }

    fn remember(&mut self, object: &Bound<'py, PyAny>) {
        if let Some(memory) = &mut self.memory {
            memory.met.push((object.clone(), false));
        }
    }
}
