//! Containers of a state that wait for the hashes of their keys and elements until everything else is there.

use crate::bad_value::BadValue;
use crate::hooks::Hooks;
use crate::set_layout;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySet};

/// What was met in a state.
#[derive(Default)]
pub(crate) struct Met<'py> {
    /// In the order in which it was met, and whether it is still without its state.
    pub(crate) met: Vec<(Bound<'py, PyAny>, bool)>,
    /// How often something was met again that has no state yet, and whose hash may follow from its state.
    pub(crate) early: u64,
    /// What waits for the hashes of such keys and elements.
    pub(crate) late: Vec<Late<'py>>,
}

impl<'py> Met<'py> {
    pub(crate) fn take_late(&mut self) -> Vec<Late<'py>> {
        std::mem::take(&mut self.late)
    }
}

/// A container that is filled when everything else is.
pub(crate) enum Late<'py> {
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

impl Late<'_> {
    pub(crate) fn fill(self, hooks: &Hooks) -> Result<(), BadValue> {
        match self {
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
                hooks.fill.bind(object.py()).call1((&object, state))?;
            }
        }
        Ok(())
    }
}

/// What a class says itself with `__reduce__`: it may need its parts at once.
pub(crate) fn is_by_reduce(state: &Bound<'_, PyAny>) -> bool {
    state
        .cast_exact::<PyList>()
        .is_ok_and(|parts| parts.len() == 4)
}

/// Whether an object is hashed by more than by being itself.
pub(crate) fn has_own_hash(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let own = object.get_type().getattr("__hash__")?;
    let plain = object.py().get_type::<PyAny>().getattr("__hash__")?;
    Ok(!own.is_none() && !own.is(&plain))
}

pub(crate) fn fill_set(
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

pub(crate) fn whole_set(length: usize, count: usize) -> Result<(), BadValue> {
    if length == count {
        Ok(())
    } else {
        Err(BadValue::malformed("an element stands twice"))
    }
}
