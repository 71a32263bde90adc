//! The future of a call, with the methods of `concurrent.futures.Future`; `quorate._futures` makes a subclass of both.
//!
//! An answer stays bytes until somebody asks for it, so the thread that reads the socket needs no interpreter.

use crate::at_word::AtWord;
use crate::client::{SPAN_MAX, await_cells, await_cells_until};
use crate::entrance;
use crate::failures::{answer, call_error};
use crate::hooks::call_hooks;
use crate::method::NativeMethod;
use pyo3::exceptions::PyTimeoutError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use quorate_client::{CallCell, CallEnd, CallError, Client, OperationId};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The future of one call.
#[pyclass(frozen, subclass, name = "Pending")]
pub(crate) struct NativeFuture {
    begun: OnceLock<Begun>,
    state: Mutex<State>,
    callbacks: Mutex<Vec<Py<PyAny>>>,
}

/// A call that was begun.
pub(crate) struct Begun {
    pub(crate) client: Arc<Client>,
    pub(crate) cell: Arc<CallCell>,
    pub(crate) id: OperationId,
    pub(crate) method: Py<NativeMethod>,
    /// Where it is a read at the host's word.
    pub(crate) at_word: Option<Box<AtWord>>,
}

enum State {
    /// Nobody has asked yet, or it has not ended.
    Unread,
    Value(Py<PyAny>),
    Error(Py<PyAny>),
    Cancelled,
}

#[pymethods]
impl NativeFuture {
    #[new]
    fn new() -> NativeFuture {
        NativeFuture {
            begun: OnceLock::new(),
            state: Mutex::new(State::Unread),
            callbacks: Mutex::default(),
        }
    }

    /// Takes the call back if no replica has executed it or will. False, and nothing is changed, if it was sent or has ended.
    fn cancel(slf: &Bound<'_, Self>) -> bool {
        let this = slf.get();
        if this.cancelled() {
            return true;
        }
        let Some(begun) = this.begun.get() else {
            return false;
        };
        // The interpreter is kept: a thread that waits must not see the end of the call before the state.
        let is_withdrawn = begun.client.withdraw(begun.id);
        if is_withdrawn {
            let before = std::mem::replace(&mut *this.state(), State::Cancelled);
            drop(before);
            NativeFuture::call_back(slf);
        }
        is_withdrawn
    }

    /// Whether it was taken back.
    fn cancelled(&self) -> bool {
        matches!(*self.state(), State::Cancelled)
    }

    /// Whether it has not ended. It may wait to be sent.
    fn running(&self) -> bool {
        !self.done()
    }

    /// Whether it has ended, or was taken back.
    fn done(&self) -> bool {
        let is_filled = |begun: &Begun| begun.cell.is_filled();
        self.begun.get().is_some_and(is_filled) || self.cancelled()
    }

    /// What the method returned, once it has; raises what it raised.
    #[pyo3(signature = (timeout=None))]
    fn result<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        let error = match self.read(py, timeout)? {
            Ok(value) => return Ok(value),
            Err(error) => PyErr::from_value(error),
        };
        Err(match self.begun.get() {
            Some(begun) => begun.method.get().explained(py, error),
            None => error,
        })
    }

    /// What the method raised, once it has ended; None if it returned.
    #[pyo3(signature = (timeout=None))]
    fn exception<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.read(py, timeout)?.err())
    }

    /// Has `callback` called with the future when it has ended; at once if it has.
    fn add_done_callback(slf: &Bound<'_, Self>, callback: Py<PyAny>) {
        let this = slf.get();
        let is_first = {
            let mut callbacks = lock(&this.callbacks);
            callbacks.push(callback);
            callbacks.len() == 1
        };
        let future = slf.clone().unbind();
        let listens = !this.cancelled()
            && this.begun.get().is_some_and(|begun| {
                !is_first && !begun.cell.is_filled()
                    || begun.cell.listen(move || entrance::add_ended(future))
            });
        if !listens {
            NativeFuture::call_back(slf);
        }
    }
}

impl NativeFuture {
    /// A future of the class that Python sees.
    pub(crate) fn make(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let hooks = call_hooks(py)?;
        hooks.make_future.bind(py).call1((&hooks.future,))
    }

    pub(crate) fn fill(&self, begun: Begun) {
        self.begun.get_or_init(|| begun);
    }

    /// Runs the callbacks that were added and have not run.
    pub(crate) fn call_back(slf: &Bound<'_, Self>) {
        let py = slf.py();
        let callbacks = std::mem::take(&mut *lock(&slf.get().callbacks));
        if callbacks.is_empty() {
            return;
        }
        entrance::without_signals(py, || {
            call_hooks(py)?
                .call_back
                .bind(py)
                .call1((slf, callbacks))
                .map(drop)
        });
    }

    /// Waits for the end, and reads it: a value, or an exception.
    fn read<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
    ) -> PyResult<Result<Bound<'py, PyAny>, Bound<'py, PyAny>>> {
        let begun = self
            .begun
            .get()
            .ok_or_else(|| call_error(py, &CallError::Closed))?;
        if !self.done() {
            self.wait(py, begun, timeout)?;
        }
        self.read_ended(py, begun)
    }

    /// The end, which is there.
    fn read_ended<'py>(
        &self,
        py: Python<'py>,
        begun: &Begun,
    ) -> PyResult<Result<Bound<'py, PyAny>, Bound<'py, PyAny>>> {
        if let Some(known) = self.known(py) {
            return known;
        }
        // Reading may run Python, so no lock is held.
        let Some(ended) = begun.cell.take() else {
            // Another thread reads it at this moment: it holds what this one waits for.
            return self.known_soon(py);
        };
        let state = match begun.answer(py, ended) {
            Ok(value) => State::Value(value.unbind()),
            Err(error) => State::Error(error.into_value(py).into_any()),
        };
        *self.state() = state;
        self.known(py)
            .unwrap_or_else(|| Err(call_error(py, &CallError::Closed)))
    }

    fn known<'py>(
        &self,
        py: Python<'py>,
    ) -> Option<PyResult<Result<Bound<'py, PyAny>, Bound<'py, PyAny>>>> {
        match &*self.state() {
            State::Unread => None,
            State::Value(value) => Some(Ok(Ok(value.bind(py).clone()))),
            State::Error(error) => Some(Ok(Err(error.bind(py).clone()))),
            State::Cancelled => Some(Err(cancelled_error(py))),
        }
    }

    fn known_soon<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Result<Bound<'py, PyAny>, Bound<'py, PyAny>>> {
        loop {
            py.detach(std::thread::yield_now);
            if let Some(known) = self.known(py) {
                return known;
            }
            py.check_signals()?;
        }
    }

    fn wait(&self, py: Python<'_>, begun: &Begun, timeout: Option<f64>) -> PyResult<()> {
        let cells = [Arc::clone(&begun.cell)];
        let Some(timeout) = timeout else {
            return await_cells(py, &begun.client, &cells);
        };
        // What no duration holds is longer than all of them.
        let span = Duration::try_from_secs_f64(timeout.max(0.0)).unwrap_or(SPAN_MAX);
        let until = Instant::now() + span.min(SPAN_MAX);
        match await_cells_until(py, &begun.client, &cells, Some(until))? {
            true => Ok(()),
            false => Err(PyTimeoutError::new_err(())),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Begun {
    /// The value of the end. A read that the host no longer takes for one is made a call, and that is waited for.
    fn answer<'py>(&self, py: Python<'py>, ended: CallEnd) -> PyResult<Bound<'py, PyAny>> {
        let mut answered = answer(py, ended);
        if let (Err(error), Some(word)) = (&answered, &self.at_word)
            && word.is_taken_back(py, error)?
        {
            let cells = [Arc::new(CallCell::default())];
            word.begin(&cells[0]);
            await_cells(py, &self.client, &cells)?;
            answered = answer(py, cells[0].take().unwrap_or(Err(CallError::Closed)));
        }
        NativeMethod::settle(self.method.bind(py), answered)
    }
}

/// Waits for all futures, and returns their results in order, or None if one of them is no call's. The first error is raised at the end.
#[pyfunction]
pub(crate) fn gather_calls<'py>(
    py: Python<'py>,
    futures: &Bound<'py, PyTuple>,
) -> PyResult<Option<Bound<'py, PyList>>> {
    let mut calls: Vec<Bound<'py, NativeFuture>> = Vec::with_capacity(futures.len());
    for future in futures {
        match future.cast_into::<NativeFuture>() {
            Ok(call) if call.get().begun.get().is_some() => calls.push(call),
            Ok(_) | Err(_) => return Ok(None),
        }
    }
    let mut rest = &calls[..];
    while let Some(call) = rest.first() {
        let client = Arc::clone(&begun(call).client);
        let of_client =
            |call: &&Bound<'py, NativeFuture>| Arc::ptr_eq(&begun(call).client, &client);
        let run = rest.iter().take_while(of_client).count();
        let awaited = rest[..run].iter().filter(|call| !call.get().cancelled());
        let cells: Vec<Arc<CallCell>> = awaited.map(|call| Arc::clone(&begun(call).cell)).collect();
        await_cells(py, &client, &cells)?;
        rest = &rest[run..];
    }
    let results = PyList::empty(py);
    let mut first_error = None;
    for call in &calls {
        match call.get().read_ended(py, begun(call))? {
            Ok(value) => results.append(value)?,
            Err(error) => {
                first_error.get_or_insert((error, call));
            }
        }
    }
    match first_error {
        Some((error, call)) => {
            let method = begun(call).method.get();
            Err(method.explained(py, PyErr::from_value(error)))
        }
        None => Ok(Some(results)),
    }
}

/// What was begun for a future that is known to be a call's.
fn begun<'a>(call: &'a Bound<'_, NativeFuture>) -> &'a Begun {
    call.get().begun.get().expect("the future is a call's")
}

#[cold]
fn cancelled_error(py: Python<'_>) -> PyErr {
    let made = py
        .import("concurrent.futures")
        .and_then(|futures| futures.getattr("CancelledError"))
        .and_then(|class| class.call0());
    made.map_or_else(|error| error, PyErr::from_value)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
