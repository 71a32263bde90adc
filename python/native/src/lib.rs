//! The native half of the Python package: the value codec, the client, the loop of the host process, and
//! the agreed environment. Thin: it converts and calls; what a value of a rare kind means is said in
//! Python (`quorate._values`, `quorate._state`).
//!
//! `unsafe` stands in `activity.rs` (shared memory), `agreed_clock.rs` (the C functions behind clocks), `wait.rs` (poll),
//! `reads.rs` (getrusage, counts of references), `set_layout.rs` (the tables of sets), `agreed_hash.rs`, `agreed_text.rs`, `numbers.rs` and `type_slots.rs` (hashes) and where `serve.rs` takes its descriptor over, nowhere else.

mod activity;
mod agreed_clock;
mod agreed_hash;
mod agreed_text;
mod asyncio;
mod at_word;
mod bad_value;
mod client;
mod confine;
mod decode;
mod early;
mod encode;
mod entrance;
mod environment;
mod failures;
mod forbidden_calls;
mod frames;
mod hooks;
mod inquiry;
mod late;
mod layout;
mod method;
mod numbers;
mod open_items;
mod open_parts;
mod pending;
mod reader;
mod reads;
mod rehearsal;
mod scalars;
mod serve;
mod set_layout;
mod steps;
mod turn;
mod type_slots;
mod wait;
mod walker;

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

/// Encodes an object's state if it is small, and no code of its classes runs for that; None otherwise.
#[pyfunction]
fn dump_small_state<'py>(
    value: &Bound<'py, PyAny>,
    bytes_max: usize,
) -> Option<Bound<'py, PyBytes>> {
    let out = encode::small_state(value, bytes_max)?;
    Some(PyBytes::new(value.py(), &out))
}

/// Decodes an object's state.
#[pyfunction]
fn load_state<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    environment::apart(|| decode::state(py, data))
}

/// A set's shape as bytes, and its elements in the order in which Python goes through them.
#[pyfunction]
fn set_parts<'py>(
    set: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyBytes>, Vec<Bound<'py, PyAny>>)> {
    let laid = set_layout::read(set)?;
    Ok((PyBytes::new(set.py(), &laid.shape), laid.elements))
}

/// Gives a set that holds just these elements the shape that it had.
#[pyfunction]
fn lay_out_set(
    set: &Bound<'_, PyAny>,
    shape: &[u8],
    elements: Vec<Bound<'_, PyAny>>,
) -> PyResult<()> {
    set_layout::lay_out(set, shape, &elements)
}

/// blake3 of bytes, as replicas compare it.
#[pyfunction]
fn digest<'py>(py: Python<'py>, data: &[u8]) -> Bound<'py, PyBytes> {
    PyBytes::new(py, blake3::hash(data).as_bytes())
}

/// The native half of quorate.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(dumps, module)?)?;
    module.add_function(wrap_pyfunction!(loads, module)?)?;
    module.add_function(wrap_pyfunction!(dump_call, module)?)?;
    module.add_function(wrap_pyfunction!(dump_state, module)?)?;
    module.add_function(wrap_pyfunction!(dump_small_state, module)?)?;
    module.add_function(wrap_pyfunction!(load_state, module)?)?;
    module.add_function(wrap_pyfunction!(set_parts, module)?)?;
    module.add_function(wrap_pyfunction!(lay_out_set, module)?)?;
    module.add_function(wrap_pyfunction!(digest, module)?)?;
    module.add_function(wrap_pyfunction!(environment::agreed_time_ns, module)?)?;
    module.add_function(wrap_pyfunction!(environment::agreed_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(
        agreed_clock::install_agreed_clock,
        module
    )?)?;
    module.add_function(wrap_pyfunction!(agreed_hash::install_agreed_hash, module)?)?;
    module.add_function(wrap_pyfunction!(agreed_hash::rehash_set, module)?)?;
    module.add_function(wrap_pyfunction!(numbers::begin_import, module)?)?;
    module.add_function(wrap_pyfunction!(numbers::end_import, module)?)?;
    module.add_function(wrap_pyfunction!(environment::set_environment, module)?)?;
    module.add_function(wrap_pyfunction!(wait::die_with_parent, module)?)?;
    module.add_function(wrap_pyfunction!(confine::confine, module)?)?;
    module.add_function(wrap_pyfunction!(serve::serve, module)?)?;
    module.add_class::<turn::Parked>()?;
    module.add_function(wrap_pyfunction!(turn::current_call, module)?)?;
    module.add_function(wrap_pyfunction!(turn::park, module)?)?;
    module.add_function(wrap_pyfunction!(turn::can_undo, module)?)?;
    module.add_function(wrap_pyfunction!(turn::followed::follow_calls, module)?)?;
    module.add_function(wrap_pyfunction!(turn::outside::next_capture, module)?)?;
    module.add_function(wrap_pyfunction!(turn::outside::tell_outside, module)?)?;
    module.add_function(wrap_pyfunction!(turn::outside::waits_at, module)?)?;
    reads::add_to(module)?;
    module.add_function(wrap_pyfunction!(turn::undo_call, module)?)?;
    module.add_function(wrap_pyfunction!(turn::wait_again, module)?)?;
    module.add_function(wrap_pyfunction!(turn::read_at, module)?)?;
    module.add_function(wrap_pyfunction!(turn::is_parked, module)?)?;
    module.add_function(wrap_pyfunction!(turn::running_object, module)?)?;
    module.add_function(wrap_pyfunction!(turn::running_number, module)?)?;
    module.add_function(wrap_pyfunction!(turn::object_of, module)?)?;
    module.add_function(wrap_pyfunction!(turn::outside_of_methods, module)?)?;
    module.add_function(wrap_pyfunction!(turn::waiting_at, module)?)?;
    module.add_function(wrap_pyfunction!(turn::timers::send_message, module)?)?;
    module.add_function(wrap_pyfunction!(environment::run_apart, module)?)?;
    module.add_function(wrap_pyfunction!(turn::timers::set_timer, module)?)?;
    module.add_function(wrap_pyfunction!(turn::timers::cancel_timer, module)?)?;
    module.add_function(wrap_pyfunction!(turn::timers::is_timer_set, module)?)?;
    module.add_function(wrap_pyfunction!(turn::answer_parked, module)?)?;
    module.add_function(wrap_pyfunction!(serve::dump_result, module)?)?;
    module.add_function(wrap_pyfunction!(agreed_clock::swap_agreed_clock, module)?)?;
    module.add_function(wrap_pyfunction!(failures::call_causes, module)?)?;
    module.add_function(wrap_pyfunction!(client::after_fork, module)?)?;
    module.add_function(wrap_pyfunction!(entrance::leave, module)?)?;
    module.add_function(wrap_pyfunction!(pending::gather_calls, module)?)?;
    module.add_function(wrap_pyfunction!(early::begin_early, module)?)?;
    module.add_function(wrap_pyfunction!(early::begin_early_in_loop, module)?)?;
    steps::add_to(module)?;
    module.add_class::<client::NativeClient>()?;
    module.add_class::<client::SessionOptions>()?;
    module.add_class::<client::News>()?;
    module.add_class::<method::NativeRoute>()?;
    module.add_class::<method::NativeMethod>()?;
    module.add_class::<pending::NativeFuture>()?;
    module.add_class::<early::NativeFirstWord>()?;
    module.add_class::<asyncio::LoopEnd>()?;
    module.add_class::<rehearsal::NativeRehearsal>()?;
    Ok(())
}
