//! The native half of the Python package: the value codec, the client, the loop of the host process, and
//! the agreed environment. Thin: it converts and calls; what a value of a rare kind means is said in
//! Python (`quorate._values`, `quorate._state`).
//!
//! `unsafe` stands in `activity.rs` (shared memory), `agreed_clock.rs` (the C functions behind clocks), `wait.rs` (poll),
//! `reads.rs` (getrusage) and where `serve.rs` takes its descriptor over, nowhere else.

mod activity;
mod agreed_clock;
mod bad_value;
mod client;
mod confine;
mod decode;
mod encode;
mod environment;
mod forbidden_calls;
mod frames;
mod hooks;
mod layout;
mod reads;
mod serve;
mod wait;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

/// Encodes one value as it travels.
#[pyfunction]
fn dumps<'py>(py: Python<'py>, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let out = encode::value(value, "value")?;
    Ok(PyBytes::new(py, &out))
}

/// Decodes one value that travelled.
#[pyfunction]
fn loads<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    decode::value(py, data)
}

/// Encodes a call: method, arguments, keyword arguments.
#[pyfunction]
fn dump_call<'py>(
    py: Python<'py>,
    method: &str,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyBytes>> {
    let out = encode::call(method, args, kwargs)?;
    Ok(PyBytes::new(py, &out))
}

/// Encodes an object's state, with cycles and sharing.
#[pyfunction]
fn dump_state<'py>(py: Python<'py>, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let out = encode::state(value)?;
    Ok(PyBytes::new(py, &out))
}

/// Decodes an object's state.
#[pyfunction]
fn load_state<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    decode::state(py, data)
}

/// blake3 of bytes, as replicas compare it.
#[pyfunction]
fn digest<'py>(py: Python<'py>, data: &[u8]) -> Bound<'py, PyBytes> {
    PyBytes::new(py, blake3::hash(data).as_bytes())
}

/// The native half of quorate.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(dumps, module)?)?;
    module.add_function(wrap_pyfunction!(loads, module)?)?;
    module.add_function(wrap_pyfunction!(dump_call, module)?)?;
    module.add_function(wrap_pyfunction!(dump_state, module)?)?;
    module.add_function(wrap_pyfunction!(load_state, module)?)?;
    module.add_function(wrap_pyfunction!(digest, module)?)?;
    module.add_function(wrap_pyfunction!(environment::agreed_time_ns, module)?)?;
    module.add_function(wrap_pyfunction!(environment::agreed_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(
        agreed_clock::install_agreed_clock,
        module
    )?)?;
    module.add_function(wrap_pyfunction!(environment::set_environment, module)?)?;
    module.add_function(wrap_pyfunction!(wait::die_with_parent, module)?)?;
    module.add_function(wrap_pyfunction!(confine::confine, module)?)?;
    module.add_function(wrap_pyfunction!(serve::serve, module)?)?;
    module.add_function(wrap_pyfunction!(client::call_causes, module)?)?;
    module.add_class::<client::NativeClient>()?;
    Ok(())
}
