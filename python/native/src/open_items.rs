//! What a reader has begun and not ended: a container, an instance, what a tag stands before.

use crate::bad_value::BadValue;
use crate::layout::*;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PySet, PyString};

/// An item of which some is still to be read.
pub(crate) enum OpenItem<'a, 'py> {
    /// A list of a state.
    List {
        list: Bound<'py, PyList>,
        left: usize,
    },
    Items {
        kind: Collection<'a, 'py>,
        items: Vec<Bound<'py, PyAny>>,
        left: usize,
    },
    Dict(OpenDict<'py>),
    /// What a tag stands before.
    Content {
        tag: u64,
        content: Option<Bound<'py, PyAny>>,
    },
    /// An instance before its arguments are there.
    Instance {
        class: &'a str,
        has_number: bool,
        arguments: Option<Bound<'py, PyAny>>,
    },
    /// An instance before its state is there.
    State {
        object: Bound<'py, PyAny>,
        /// Its place in the memory.
        number: usize,
        /// How often something unfinished had been met before.
        early: u64,
        state: Option<Bound<'py, PyAny>>,
    },
}

/// What is made of items when all are there.
pub(crate) enum Collection<'a, 'py> {
    /// A list of a value.
    List,
    Tuple,
    Set(Bound<'py, PySet>),
    FrozenSet,
    LaidSet {
        set: Bound<'py, PySet>,
        shape: &'a [u8],
        early: u64,
    },
    LaidFrozenSet {
        shape: &'a [u8],
    },
}

pub(crate) struct OpenDict<'py> {
    pub(crate) dict: Bound<'py, PyDict>,
    pub(crate) count: usize,
    pub(crate) left: usize,
    /// A key without its value, and whether it waits for its hash.
    pub(crate) key: Option<(Bound<'py, PyAny>, bool)>,
    /// How often something unfinished had been met before the key.
    pub(crate) early: u64,
    /// What waits for hashes, or for its turn after such.
    pub(crate) late: Vec<[Bound<'py, PyAny>; 2]>,
}

impl<'py> OpenItem<'_, 'py> {
    pub(crate) fn is_whole(&self) -> bool {
        match self {
            OpenItem::List { left, .. }
            | OpenItem::Items { left, .. }
            | OpenItem::Dict(OpenDict { left, .. }) => *left == 0,
            OpenItem::Content { content: part, .. }
            | OpenItem::Instance {
                arguments: part, ..
            }
            | OpenItem::State { state: part, .. } => part.is_some(),
        }
    }

    /// Takes the items that follow and have nothing inside.
    pub(crate) fn take_plain(
        &mut self,
        py: Python<'py>,
        scan: &mut ItemScan<'_>,
        early: u64,
    ) -> Result<(), BadValue> {
        match self {
            OpenItem::List { list, left } => {
                while *left > 0
                    && let Some(item) = next_plain(py, scan)?
                {
                    list.append(item)?;
                    *left -= 1;
                }
            }
            OpenItem::Items { items, left, .. } => {
                while *left > 0
                    && let Some(item) = next_plain(py, scan)?
                {
                    items.push(item);
                    *left -= 1;
                }
            }
            OpenItem::Dict(dict) => {
                while dict.left > 0
                    && let Some(item) = next_plain(py, scan)?
                {
                    dict.take(item, early)?;
                }
            }
            OpenItem::Content { .. } | OpenItem::Instance { .. } | OpenItem::State { .. } => {}
        }
        Ok(())
    }

    /// Takes the next item; `early` says how often something unfinished was met until now.
    pub(crate) fn take(&mut self, item: Bound<'py, PyAny>, early: u64) -> Result<(), BadValue> {
        match self {
            OpenItem::List { list, left } => {
                list.append(item)?;
                *left -= 1;
            }
            OpenItem::Items { items, left, .. } => {
                items.push(item);
                *left -= 1;
            }
            OpenItem::Dict(dict) => dict.take(item, early)?,
            OpenItem::Content { content: part, .. }
            | OpenItem::Instance {
                arguments: part, ..
            }
            | OpenItem::State { state: part, .. } => *part = Some(item),
        }
        Ok(())
    }
}

impl<'py> OpenDict<'py> {
    fn take(&mut self, item: Bound<'py, PyAny>, early: u64) -> Result<(), BadValue> {
        let Some((key, waits)) = self.key.take() else {
            // Later ones wait as well, for their order.
            self.key = Some((item, !self.late.is_empty() || self.early != early));
            return Ok(());
        };
        if waits {
            self.late.push([key, item]);
        } else {
            self.dict.set_item(key, item)?;
        }
        self.early = early;
        self.left -= 1;
        Ok(())
    }
}

fn next_plain<'py>(
    py: Python<'py>,
    scan: &mut ItemScan<'_>,
) -> Result<Option<Bound<'py, PyAny>>, BadValue> {
    match scan.rest.first() {
        Some(first) if !matches!(first >> 5, ARRAY | MAP | TAG) => {
            let head = scan.head()?;
            plain(py, scan, head)
        }
        _ => Ok(None),
    }
}

/// The item with this head, if it has nothing inside.
#[inline]
pub(crate) fn plain<'py>(
    py: Python<'py>,
    scan: &mut ItemScan<'_>,
    (major, number, byte): (u8, u64, u8),
) -> Result<Option<Bound<'py, PyAny>>, BadValue> {
    let item = match major {
        UNSIGNED => PyInt::new(py, number).into_any(),
        NEGATIVE => match i64::try_from(number) {
            Ok(number) => PyInt::new(py, !number).into_any(),
            Err(_) => PyInt::new(py, !i128::from(number)).into_any(),
        },
        BYTES => PyBytes::new(py, scan.take(number)?).into_any(),
        TEXT => PyString::new(py, scan.text(number)?).into_any(),
        SIMPLE => match byte {
            NULL => py.None().into_bound(py),
            TRUE => PyBool::new(py, true).to_owned().into_any(),
            FALSE => PyBool::new(py, false).to_owned().into_any(),
            FLOAT => PyFloat::new(py, f64::from_bits(number)).into_any(),
            _ => return Err(BadValue::malformed("unknown simple value")),
        },
        _ => return Ok(None),
    };
    Ok(Some(item))
}
