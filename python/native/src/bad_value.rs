//! Why a value cannot be encoded or decoded, with the path to it.

use crate::hooks;
use pyo3::prelude::*;

/// How a refusal ends that says nothing but that.
const NO_MORE: &str = " is not supported";

/// What a caller does about an argument of which nothing more is known.
const WAY_OUT: &str =
    ": send what is needed of it as plain values or as a data class, see docs/values.md";

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
                // What a class or the state says has its own way out, and outcomes are the same on all replicas.
                let is_bare = matches!(root, "args" | "kwargs") && what.ends_with(NO_MORE);
                let way_out = if is_bare { WAY_OUT } else { "" };
                hooks::error(py, "UnsupportedValue", format!("{place}{what}{way_out}"))
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
