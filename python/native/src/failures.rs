//! What a client answers, as Python values and exceptions.

use crate::{decode, hooks};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use quorate_client::{Answer, CallCause, CallEnd, CallError, ConnectError};
use quorate_types::Outcome;

/// What a skipped call did, and what to do.
pub(crate) const SKIPPED: &str = "every process that executed it died or ran into --call-timeout; it has changed nothing, and \
    the nodes' logs name its slot: correct the method, or start all nodes with a longer --call-timeout";

/// The value of an answer, with slot and age in nanoseconds where it is that of a read.
pub(crate) type Answered<'py> = (Bound<'py, PyAny>, Option<(u64, u64)>);

/// The value that a call returned; raises what it raised, or why it has no answer.
pub(crate) fn answer(py: Python<'_>, ended: CallEnd) -> PyResult<Answered<'_>> {
    match ended.map_err(|error| call_error(py, &error))? {
        Answer::Called(outcome) => Ok((value_of(py, &outcome)?, None)),
        Answer::Read { outcome, slot, age } => Ok((value_of(py, &outcome)?, Some((slot.0, age.0)))),
        Answer::Checkpointed(slot) => Ok((slot.0.into_pyobject(py)?.into_any(), None)),
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
            format!("the group skipped the call: {SKIPPED}"),
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
pub(crate) fn connect_error(py: Python<'_>, error: &ConnectError) -> PyErr {
    let class = match error {
        ConnectError::BadExpiry { .. } | ConnectError::BadDisconnect { .. } => {
            return PyValueError::new_err(error.to_string());
        }
        ConnectError::NoQuorum { .. }
        | ConnectError::NoPlace { .. }
        | ConnectError::Unanswered { .. }
        | ConnectError::System(_) => "Unavailable",
        ConnectError::Rejected { .. }
        | ConnectError::Tls { .. }
        | ConnectError::Unreadable { .. } => "Refused",
        ConnectError::OtherCluster { .. } => "OtherCluster",
        ConnectError::NoSuchObject { .. } | ConnectError::NoSuchGroup { .. } => "NotFound",
        ConnectError::SessionInUse { .. } => "SessionInUse",
    };
    hooks::error(py, class, error.to_string())
}

#[cold]
pub(crate) fn call_error(py: Python<'_>, error: &CallError) -> PyErr {
    hooks::call_error(py, end_of(error), error.cause().name(), error.to_string())
}

fn end_of(error: &CallError) -> &'static str {
    match error {
        CallError::NotExecuted(_) => "not_executed",
        CallError::OutcomeUnknown(_) => "outcome_unknown",
        CallError::Invalid(_) => "invalid",
        CallError::Forked => "forked",
        CallError::Closed => "closed",
    }
}

/// Every cause that a call may end with, by name.
#[pyfunction]
pub(crate) fn call_causes() -> Vec<&'static str> {
    CallCause::ALL.iter().map(|cause| cause.name()).collect()
}
