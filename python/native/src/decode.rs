//! Bytes to Python objects, directly, without a value tree between.
//!
//! Nothing here imports or runs what the bytes name: rare kinds go to `quorate._values`, instances of
//! states to `quorate._state`, which know the classes that are allowed.

use crate::bad_value::BadValue;
use crate::hooks;
use crate::layout::*;
use crate::reader::ObjectReader;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// Decodes a travelling value.
pub(crate) fn value<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    whole(ObjectReader::of_value(py, data)?)
}

/// Decodes a state.
pub(crate) fn state<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    whole(ObjectReader::of_state(py, data)?)
}

fn whole<'py>(mut reader: ObjectReader<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
    let py = reader.py();
    let value = reader.item().map_err(|fault| refusal(py, fault))?;
    reader
        .fill_late()
        .and_then(|()| reader.end())
        .map_err(|fault| fault.into_error(py, ""))?;
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
    let mut reader = ObjectReader::of_value(py, data)?;
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
