//! Why a value cannot be encoded or decoded, with the path to it.

use crate::hooks;
use pyo3::prelude::*;

/// A refusal; the path grows from the refused part outwards while it travels up.
#[derive(Debug)]
pub(crate) struct BadValue {
    reason: Reason,
    path: Vec<String>,
}

#[derive(Debug)]
enum Reason {
    /// A value of a kind that does not travel.
    Unsupported(String),
    /// Bytes that are not the encoding of a value.
    Malformed(String),
    /// Python raised.
    Python(PyErr),
}

impl BadValue {
    #[cold]
    pub(crate) fn unsupported(what: impl Into<String>) -> Box<BadValue> {
        Box::new(BadValue {
            reason: Reason::Unsupported(what.into()),
            path: Vec::new(),
        })
    }

    #[cold]
    pub(crate) fn malformed(what: impl Into<String>) -> BadValue {
        BadValue {
            reason: Reason::Malformed(what.into()),
            path: Vec::new(),
        }
    }

    /// The same fault seen from one level further out.
    #[cold]
    pub(crate) fn within(mut self: Box<Self>, step: String) -> Box<BadValue> {
        self.path.push(step);
        self
    }

    pub(crate) fn into_error(self, py: Python<'_>, root: &str) -> PyErr {
        let mut path = root.to_owned();
        for step in self.path.iter().rev() {
            path.push_str(step);
        }
        match self.reason {
            Reason::Unsupported(what) => {
                let place = if path.is_empty() {
                    String::new()
                } else {
                    format!("{path}: ")
                };
                hooks::error(py, "UnsupportedValue", format!("{place}{what}"))
            }
            Reason::Malformed(what) => hooks::error(py, "MalformedValue", what),
            Reason::Python(error) => error,
        }
    }
}

impl From<PyErr> for BadValue {
    fn from(error: PyErr) -> BadValue {
        BadValue {
            reason: Reason::Python(error),
            path: Vec::new(),
        }
    }
}

impl From<PyErr> for Box<BadValue> {
    fn from(error: PyErr) -> Box<BadValue> {
        Box::new(BadValue::from(error))
    }
}

impl From<pyo3::CastError<'_, '_>> for Box<BadValue> {
    fn from(error: pyo3::CastError<'_, '_>) -> Box<BadValue> {
        Box::new(BadValue::from(PyErr::from(error)))
    }
}
