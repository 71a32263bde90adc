//! The client of `shell/client` for Python: converts, releases the interpreter, calls, converts.

use crate::{decode, encode, hooks};
use bytes::Bytes;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use quorate_client::{
    Answer, CallCause, CallError, Client, ConnectError, DriverOptions, Endpoint, Operation,
    Preference, TlsClient,
};
use quorate_types::{ObjectId, Outcome, ReadLevel};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How long a waiting call leaves signals (Ctrl-C) unseen.
const SIGNALS_EVERY: Duration = Duration::from_millis(50);

type Ended = Result<Answer, CallError>;

/// A session with a group, and the object that is called.
#[pyclass(frozen, name = "Client")]
pub(crate) struct NativeClient {
    connection: Mutex<Option<Arc<Client>>>,
    object: ObjectId,
}

#[derive(Default)]
struct Cell {
    ended: Mutex<Option<Ended>>,
    filled: Condvar,
}

#[pymethods]
impl NativeClient {
    /// Connects and opens a session, within `timeout` seconds.
    #[new]
    #[pyo3(signature = (endpoint, timeout, name=None, *, anyone=false, tls=None))]
    fn new(
        py: Python<'_>,
        endpoint: &str,
        timeout: f64,
        name: Option<String>,
        anyone: bool,
        tls: Option<[PathBuf; 3]>,
    ) -> PyResult<NativeClient> {
        let endpoint: Endpoint = endpoint
            .parse()
            .map_err(|error| PyValueError::new_err(format!("{error}")))?;
        let timeout = Duration::try_from_secs_f64(timeout)
            .map_err(|error| PyValueError::new_err(format!("timeout: {error}")))?;
        let mut options = DriverOptions {
            timeout,
            ..DriverOptions::default()
        };
        if let Some([ca, cert, key]) = tls {
            let read = TlsClient::from_files(&ca, &cert, &key);
            let read = read.map_err(|error| connect_error(py, &error))?;
            options.tls = Some(Arc::new(read));
        }
        if anyone {
            options.session.preference = Preference::Anyone;
        }
        let name = endpoint.object.clone().or(name);
        let (connection, object) = py
            .detach(|| {
                let connection = Client::connect(&endpoint, options, Some(timeout))?;
                let object = connection.object(name.as_deref())?;
                Ok((connection, object))
            })
            .map_err(|error| connect_error(py, &error))?;
        Ok(NativeClient {
            connection: Mutex::new(Some(Arc::new(connection))),
            object,
        })
    }

    /// Calls, waits, and returns (value, slot, age in nanoseconds); slot and age are 0 for calls.
    fn call<'py>(
        &self,
        py: Python<'py>,
        method: &str,
        args: &Bound<'py, PyTuple>,
        kwargs: &Bound<'py, PyDict>,
        level: Option<&str>,
    ) -> PyResult<(Bound<'py, PyAny>, u64, u64)> {
        let operation = self.operation(method, args, kwargs, level)?;
        let connection = self.connection(py)?;
        let cell = Arc::new(Cell::default());
        let filled = Arc::clone(&cell);
        py.detach(|| {
            connection.begin_with(operation, move |ended| {
                *filled.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
                filled.filled.notify_one();
            });
        });
        loop {
            if let Some(ended) = py.detach(|| cell.wait()) {
                return answer(py, ended);
            }
            py.check_signals()?;
        }
    }

    /// Begins a call; `done(value, error, slot, age)` hears its end on a thread of the client.
    fn begin<'py>(
        &self,
        py: Python<'py>,
        method: &str,
        args: &Bound<'py, PyTuple>,
        kwargs: &Bound<'py, PyDict>,
        level: Option<&str>,
        done: Py<PyAny>,
    ) -> PyResult<()> {
        let operation = self.operation(method, args, kwargs, level)?;
        let connection = self.connection(py)?;
        py.detach(|| {
            connection.begin_with(operation, move |ended| {
                Python::attach(|py| tell(py, &done, ended));
            });
        });
        Ok(())
    }

    /// Ends the session.
    fn close(&self, py: Python<'_>) {
        let connection = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        py.detach(|| drop(connection));
    }
}

impl NativeClient {
    fn connection(&self, py: Python<'_>) -> PyResult<Arc<Client>> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
            .ok_or_else(|| call_error(py, &CallError::Closed))
    }

    fn operation(
        &self,
        method: &str,
        args: &Bound<'_, PyTuple>,
        kwargs: &Bound<'_, PyDict>,
        level: Option<&str>,
    ) -> PyResult<Operation> {
        let payload = Bytes::from(encode::call(method, args, kwargs)?);
        let object = self.object;
        let Some(level) = level else {
            return Ok(Operation::Call { object, payload });
        };
        let level = match level {
            "ordered" => ReadLevel::Ordered,
            "confirmed" => ReadLevel::Confirmed,
            "lease" => ReadLevel::Lease,
            "any" => ReadLevel::Any,
            "loose" => ReadLevel::Loose,
            other => return Err(PyValueError::new_err(format!("no read level {other:?}"))),
        };
        Ok(Operation::Read {
            object,
            payload,
            level,
        })
    }
}

impl Drop for NativeClient {
    fn drop(&mut self) {
        let Some(connection) = self
            .connection
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
        else {
            return;
        };
        // The client's thread may be waiting for the interpreter, and is joined here.
        Python::attach(|py| py.detach(|| drop(connection)));
    }
}

impl Cell {
    /// The end, or `None` when it is time to look at signals.
    fn wait(&self) -> Option<Ended> {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut ended, _) = self
            .filled
            .wait_timeout_while(ended, SIGNALS_EVERY, |ended| ended.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        ended.take()
    }
}

fn tell(py: Python<'_>, done: &Py<PyAny>, ended: Ended) {
    let told = match answer(py, ended) {
        Ok((value, slot, age)) => done.call1(py, (value, py.None(), slot, age)),
        Err(error) => done.call1(py, (py.None(), error.into_value(py), 0, 0)),
    };
    if let Err(error) = told {
        error.write_unraisable(py, None);
    }
}

fn answer(py: Python<'_>, ended: Ended) -> PyResult<(Bound<'_, PyAny>, u64, u64)> {
    match ended.map_err(|error| call_error(py, &error))? {
        Answer::Called(outcome) => Ok((value_of(py, &outcome)?, 0, 0)),
        Answer::Read { outcome, slot, age } => Ok((value_of(py, &outcome)?, slot.0, age.0)),
        Answer::Checkpointed(slot) => Ok((slot.0.into_pyobject(py)?.into_any(), slot.0, 0)),
    }
}

fn value_of<'py>(py: Python<'py>, outcome: &Outcome) -> PyResult<Bound<'py, PyAny>> {
    match outcome {
        Outcome::Returned(value) => decode::value(py, value).map_err(|error| unreadable(py, error)),
        Outcome::Raised(raised) => {
            let exception = py
                .import("quorate._values")?
                .call_method1("exception", (PyBytes::new(py, raised),))?;
            Err(PyErr::from_value(exception))
        }
        Outcome::Skipped => Err(hooks::error(
            py,
            "MethodSkipped",
            "the call was skipped by decision: it ends every process that executes it".to_owned(),
        )),
    }
}

/// A result of a class that is not known here: the call was executed all the same.
#[cold]
fn unreadable(py: Python<'_>, error: PyErr) -> PyErr {
    if !hooks::is_error(&error, py, "MalformedValue") {
        return error;
    }
    let text = format!(
        "the method was executed; its result cannot be read here: {}",
        error.value(py)
    );
    hooks::error(py, "UnsupportedResult", text)
}

#[cold]
fn connect_error(py: Python<'_>, error: &ConnectError) -> PyErr {
    let class = match error {
        ConnectError::NoQuorum { .. }
        | ConnectError::Unanswered { .. }
        | ConnectError::System(_) => "Unavailable",
        ConnectError::Rejected { .. }
        | ConnectError::Tls { .. }
        | ConnectError::Unreadable { .. } => "Refused",
        ConnectError::OtherCluster { .. } => "OtherCluster",
        ConnectError::NoSuchObject { .. } => "NotFound",
    };
    hooks::error(py, class, error.to_string())
}

#[cold]
fn call_error(py: Python<'_>, error: &CallError) -> PyErr {
    hooks::call_error(py, end_of(error), error.cause().name(), error.to_string())
}

fn end_of(error: &CallError) -> &'static str {
    match error {
        CallError::NotExecuted(_) => "not_executed",
        CallError::OutcomeUnknown(_) => "outcome_unknown",
        CallError::Invalid(_) => "invalid",
        CallError::Closed => "closed",
    }
}

/// Every cause that a call may end with, by name.
#[pyfunction]
pub(crate) fn call_causes() -> Vec<&'static str> {
    CallCause::ALL.iter().map(|cause| cause.name()).collect()
}
