//! One method of one proxy: encodes a call, begins it, and waits for it or gives a future.

use crate::asyncio::LoopEnd;
use crate::at_word::AtWord;
use crate::client::{NativeClient, await_cells, await_room, level_of, seconds};
use crate::encode;
use crate::failures::{Answered, SKIPPED, answer, call_error};
use crate::hooks::{self, call_hooks};
use crate::pending::{Begun, NativeFuture};
use bytes::Bytes;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PySet, PyString, PyTuple};
use quorate_client::{
    AnswerReader, Attempts, CallCell, CallError, Client, Operation, OperationOptions,
};
use quorate_types::ReadLevel;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Calls that are begun before they are sent, where nobody waits for them yet: a power of two.
const SENT_TOGETHER: u64 = 128;

/// How the calls of one proxy are made, and what its newest read showed.
#[pyclass(frozen, name = "Route")]
pub(crate) struct NativeRoute {
    client: Py<NativeClient>,
    options: OperationOptions,
    freshness: Freshness,
    /// The names of the methods that the host has shown to be reads.
    proven: Py<PySet>,
    /// The event loop that called last, and its end.
    looped: Mutex<Option<Looped>>,
}

struct Looped {
    running: Py<PyAny>,
    end: Py<LoopEnd>,
    /// `{"loop": running}`, with which futures are made.
    named: Py<PyDict>,
}

/// Slot and age in nanoseconds of a proxy's newest read.
#[derive(Default)]
struct Freshness {
    slot: AtomicU64,
    age: AtomicU64,
}

/// One method of one proxy.
#[pyclass(frozen, subclass, name = "Method")]
pub(crate) struct NativeMethod {
    /// `None` for a proxy without a connection.
    route: Option<Py<NativeRoute>>,
    name: Py<PyString>,
    head: Vec<u8>,
    /// `None`: a call, or a read while the host says that it is one.
    level: Option<ReadLevel>,
}

/// The module that explains why a call is late; error, client and the call's timeout in seconds.
type Late<'py> = (Bound<'py, PyModule>, (Py<PyAny>, Py<NativeClient>, f64));

/// A call that can begin, where there is room for it.
pub(crate) struct PreparedCall<'a> {
    pub(crate) route: &'a NativeRoute,
    pub(crate) client: Arc<Client>,
    pub(crate) operation: Operation,
    pub(crate) at_word: Option<Box<AtWord>>,
}

#[pymethods]
impl NativeRoute {
    #[new]
    fn new(
        client: Py<NativeClient>,
        timeout: Option<f64>,
        retry: bool,
        session: Option<u64>,
        proven: Py<PySet>,
    ) -> PyResult<NativeRoute> {
        let attempts = match (session, retry) {
            (Some(ended), _) => Attempts::InSession(ended),
            (None, true) => Attempts::Many,
            (None, false) => Attempts::One,
        };
        let timeout = timeout.map(seconds).transpose()?;
        Ok(NativeRoute {
            client,
            options: OperationOptions { timeout, attempts },
            freshness: Freshness::default(),
            proven,
            looped: Mutex::new(None),
        })
    }

    /// Slot and age in nanoseconds of the newest read.
    fn freshness(&self) -> (u64, u64) {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        (read(&self.freshness.slot), read(&self.freshness.age))
    }
}

impl NativeRoute {
    pub(crate) fn options(&self) -> OperationOptions {
        self.options
    }

    pub(crate) fn client(&self) -> &Py<NativeClient> {
        &self.client
    }

    /// The end of the running loop, and the arguments with which its futures are made.
    pub(crate) fn looped<'py>(
        &self,
        running: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, LoopEnd>, Bound<'py, PyDict>)> {
        let py = running.py();
        {
            let looped = self.looped.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(looped) = looped.as_ref().filter(|l| l.running.is(running)) {
                let (end, named) = (looped.end.bind(py), looped.named.bind(py));
                return Ok((end.clone(), named.clone()));
            }
        }
        let end = call_hooks(py)?.loop_end.bind(py).call1((running,))?;
        let end = end.cast_into::<LoopEnd>()?;
        let named = PyDict::new(py);
        named.set_item("loop", running)?;
        let looped = Looped {
            running: running.clone().unbind(),
            end: end.clone().unbind(),
            named: named.clone().unbind(),
        };
        let before = self
            .looped
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .replace(looped);
        drop(before);
        Ok((end, named))
    }
}

impl Freshness {
    fn note(&self, slot: u64, age: u64) {
        self.slot.store(slot, Ordering::Relaxed);
        self.age.store(age, Ordering::Relaxed);
    }
}

#[pymethods]
impl NativeMethod {
    #[new]
    fn new(
        route: Option<Py<NativeRoute>>,
        name: Bound<'_, PyString>,
        level: Option<&str>,
    ) -> PyResult<NativeMethod> {
        let level = level.map(level_of).transpose()?;
        let head = encode::call_head(name.to_str()?);
        Ok(NativeMethod {
            route,
            name: name.unbind(),
            head,
            level,
        })
    }

    /// The method's name.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> &Bound<'py, PyString> {
        self.name.bind(py)
    }

    /// Calls, waits, and returns what the method returns.
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let prepared = slf.get().prepare(py, args, kwargs)?;
        let (client, options) = (prepared.client, prepared.route.options);
        let options =
            await_room(py, &client, options).map_err(|error| slf.get().explained(py, error))?;
        let mut answered = perform(py, &client, prepared.operation, options);
        if let (Err(error), Some(word)) = (&answered, prepared.at_word)
            && word.is_taken_back(py, error)?
        {
            answered = perform(py, &client, word.call(), options);
        }
        NativeMethod::settle(slf, answered).map_err(|error| slf.get().explained(py, error))
    }

    /// Begins a call; the future has its end.
    fn begin<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let prepared = slf.get().prepare(py, args, kwargs)?;
        let client = prepared.client;
        let options = await_room(py, &client, prepared.route.options)?;
        let future = NativeFuture::make(py)?;
        let cell = Arc::new(CallCell::default());
        let id = client.begin_to(prepared.operation, options, &cell);
        client.linger();
        if id.0 % SENT_TOGETHER == 0 {
            py.detach(|| client.flush(AnswerReader::Caller));
        }
        future.cast::<NativeFuture>()?.get().fill(Begun {
            client,
            cell,
            id,
            method: slf.clone().unbind(),
            at_word: prepared.at_word,
        });
        Ok(future)
    }

    /// Begins a call in the running event loop; the asyncio future has its end. The loop never waits for room: what waits is bounded by
    /// the futures that exist.
    fn begin_in_loop<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let prepared = slf.get().prepare(py, args, kwargs)?;
        let hooks = call_hooks(py)?;
        let running = hooks.running_loop.bind(py).call0()?;
        let (end, named) = prepared.route.looped(&running)?;
        let future = hooks.loop_call.bind(py).call((), Some(&named))?;
        let (client, route) = (prepared.client, prepared.route);
        let method = slf.clone().unbind();
        let told = end
            .get()
            .ended(future.clone().unbind(), method, prepared.at_word);
        let id = client.begin_told(prepared.operation, route.options, told);
        future.setattr(intern!(py, "_number"), id.0)?;
        future.setattr(intern!(py, "_client"), &route.client)?;
        LoopEnd::send_soon(&end, &running, client)?;
        Ok(future)
    }
}

impl NativeMethod {
    /// What the caller gets of an answer, and what the proxy learns from it.
    pub(crate) fn settle<'py>(
        slf: &Bound<'py, Self>,
        answered: PyResult<Answered<'py>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let (value, read) = answered.map_err(|error| named(error, slf))?;
        if let (Some((slot, age)), Some(route)) = (read, &slf.get().route) {
            route.get().freshness.note(slot, age);
        }
        if value.is(&call_hooks(py)?.itself) {
            return slf.call_method0(intern!(py, "itself"));
        }
        Ok(value)
    }

    /// The error with what the nodes say that keeps calls from their answers; asks them if a deadline has passed.
    #[cold]
    pub(crate) fn explained(&self, py: Python<'_>, error: PyErr) -> PyErr {
        let asked = self.hindrance(py, &error).and_then(|hindrance| {
            hindrance.map_or(Ok(()), |(module, more)| {
                module.call_method1(intern!(py, "explain"), more).map(drop)
            })
        });
        if let Err(failure) = asked {
            failure.write_unraisable(py, None);
        }
        error
    }

    /// As [`explained`](NativeMethod::explained), in a thread that gives `future` the error then; false if it may have it at once.
    pub(crate) fn is_explained_later(
        &self,
        py: Python<'_>,
        future: &Bound<'_, PyAny>,
        error: &PyErr,
    ) -> PyResult<bool> {
        let Some((module, (error, client, timeout))) = self.hindrance(py, error)? else {
            return Ok(false);
        };
        let more = (future, error, client, timeout);
        module
            .call_method1(intern!(py, "explain_later"), more)?
            .is_truthy()
    }

    /// The module that explains, and the error with client and timeout; `None` for errors that need no explanation.
    fn hindrance<'py>(&self, py: Python<'py>, error: &PyErr) -> PyResult<Option<Late<'py>>> {
        let is_late = ["TimedOut", "Unavailable"]
            .iter()
            .any(|class| hooks::is_error(error, py, class));
        let Some(route) = self.route.as_ref().map(Py::get).filter(|_| is_late) else {
            return Ok(None);
        };
        let timeout = route.options.timeout;
        let timeout = timeout.unwrap_or_else(|| route.client.get().timeout());
        let more = (
            error.value(py).clone().into_any().unbind(),
            route.client.clone_ref(py),
            timeout.as_secs_f64(),
        );
        Ok(Some((py.import("quorate._hindrance")?, more)))
    }

    /// What a call needs: how it is made, where it goes, and its bytes.
    pub(crate) fn prepare<'a>(
        &'a self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PreparedCall<'a>> {
        let route = self.route.as_ref().map(Py::get);
        let route = route.ok_or_else(|| call_error(py, &CallError::Closed))?;
        let native = route.client.get();
        let client = native.client(py)?;
        let payload = Bytes::from(encode::call_of(&self.head, args, kwargs)?);
        let object = native.object();
        let is_at_word =
            self.level.is_none() && route.proven.bind(py).contains(self.name.bind(py))?;
        let at_word = is_at_word.then(|| {
            Box::new(AtWord {
                client: Arc::clone(&client),
                options: route.options,
                object,
                payload: payload.clone(),
                proven: route.proven.clone_ref(py),
                name: self.name.clone_ref(py),
            })
        });
        let level = self.level.or(is_at_word.then(|| native.read_level()));
        let operation = match level {
            None => Operation::Call { object, payload },
            Some(level) => Operation::Read {
                object,
                payload,
                level,
            },
        };
        Ok(PreparedCall {
            route,
            client,
            operation,
            at_word,
        })
    }
}

/// Who asks for many calls at once should know which of them was skipped.
#[cold]
fn named(error: PyErr, method: &Bound<'_, NativeMethod>) -> PyErr {
    let py = method.py();
    if !hooks::is_error(&error, py, "MethodSkipped") {
        return error;
    }
    let name = method.get().name.bind(py);
    let text = format!("the group skipped the call of `{name}`: {SKIPPED}");
    hooks::error(py, "MethodSkipped", text)
}

/// Runs an operation and waits for its answer.
fn perform<'py>(
    py: Python<'py>,
    client: &Client,
    operation: Operation,
    options: OperationOptions,
) -> PyResult<Answered<'py>> {
    let cells = [Arc::new(CallCell::default())];
    let id = client.begin_to(operation, options, &cells[0]);
    if let Err(interrupted) = await_cells(py, client, &cells) {
        // Nobody hears how it ends.
        py.detach(|| client.give_up(id));
        return Err(interrupted);
    }
    answer(py, cells[0].take().unwrap_or(Err(CallError::Closed)))
}
