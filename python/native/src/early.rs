//! Calls that are wanted early: two futures of one call, of its first word and of its end, and what the first word is worth.

use crate::asyncio::LoopEnd;
use crate::client::await_room;
use crate::hooks::call_hooks;
use crate::method::{NativeMethod, PreparedCall};
use crate::pending::{Begun, NativeFuture};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use quorate_client::{AnswerReader, CallCell, Operation, WordState};
use std::sync::Arc;

/// What the first word of a call is worth.
#[pyclass(frozen, name = "FirstWord")]
pub(crate) struct NativeFirstWord {
    word: Arc<quorate_client::FirstWord>,
    number: u64,
}

type EarlyFutures<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, NativeFirstWord);

#[pymethods]
impl NativeFirstWord {
    /// What is known by now.
    #[getter]
    fn state(&self) -> &'static str {
        match self.word.state() {
            WordState::Awaited => "awaited",
            WordState::Tentative => "tentative",
            WordState::Stood => "stood",
            WordState::Fell => "fell",
            WordState::Decided => "decided",
        }
    }

    /// The number of the call.
    #[getter]
    fn number(&self) -> u64 {
        self.number
    }
}

/// Begins a call that is wanted early; the futures have its first word and its end.
#[pyfunction]
pub(crate) fn begin_early<'py>(
    method: &Bound<'py, NativeMethod>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<EarlyFutures<'py>> {
    let py = method.py();
    let prepared = method.get().prepare(py, args, kwargs)?;
    let operation = early(&prepared);
    let client = prepared.client;
    let options = await_room(py, &client, prepared.route.options())?;
    let word = Arc::default();
    let cells: [Arc<CallCell>; 2] = Default::default();
    let [first, last] = &cells;
    let id = client.begin_early_to(operation, options, &word, [first, last]);
    let [first, last] = cells.map(|cell| {
        let future = NativeFuture::make(py)?;
        future.cast::<NativeFuture>()?.get().fill(Begun {
            client: Arc::clone(&client),
            cell,
            id,
            method: method.clone().unbind(),
            at_word: None,
        });
        PyResult::Ok(future)
    });
    py.detach(|| client.flush(AnswerReader::Caller));
    let number = id.0;
    Ok((first?, last?, NativeFirstWord { word, number }))
}

/// Begins such a call in the running event loop; the asyncio futures have its first word and its end.
#[pyfunction]
pub(crate) fn begin_early_in_loop<'py>(
    method: &Bound<'py, NativeMethod>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<EarlyFutures<'py>> {
    let py = method.py();
    let prepared = method.get().prepare(py, args, kwargs)?;
    let operation = early(&prepared);
    let hooks = call_hooks(py)?;
    let running = hooks.running_loop.bind(py).call0()?;
    let (client, route) = (prepared.client, prepared.route);
    let (end, named) = route.looped(&running)?;
    let make = || hooks.loop_call.bind(py).call((), Some(&named));
    let [first, last] = [make()?, make()?];
    let told = [&first, &last].map(|future| {
        let told = end
            .get()
            .ended(future.clone().unbind(), method.clone().unbind(), None);
        Box::new(told) as Box<dyn FnOnce(_) + Send>
    });
    let word = Arc::default();
    let id = client.begin_early_told(operation, route.options(), &word, told);
    for future in [&first, &last] {
        future.setattr(intern!(py, "_number"), id.0)?;
        future.setattr(intern!(py, "_client"), route.client())?;
    }
    LoopEnd::send_soon(&end, &running, client)?;
    let number = id.0;
    Ok((first, last, NativeFirstWord { word, number }))
}

/// A method that only the host has shown to be a read is called: who wants to know early does not gain by another way.
fn early(prepared: &PreparedCall<'_>) -> Operation {
    let operation = match &prepared.at_word {
        Some(word) => word.call(),
        None => prepared.operation.clone(),
    };
    match operation {
        Operation::Call { object, payload } => Operation::EarlyCall { object, payload },
        other => other,
    }
}
