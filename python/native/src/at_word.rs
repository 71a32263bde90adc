//! Reads at the host's word: methods that no class declares to be reads, and the host has shown to be.
//!
//! The host may take its word back: it refuses the read before it runs, or saw that the read changed the object, and that replica is
//! rebuilt. Nothing of the read counts, and the client makes the call instead.

use crate::hooks::call_hooks;
use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::{PySet, PyString};
use quorate_client::{CallCell, Client, Operation, OperationId, OperationOptions};
use quorate_types::ObjectId;
use std::sync::Arc;

/// What makes a call of such a read.
pub(crate) struct AtWord {
    pub(crate) client: Arc<Client>,
    pub(crate) options: OperationOptions,
    pub(crate) object: ObjectId,
    pub(crate) payload: Bytes,
    /// The names of the methods that the host has shown to be reads, of all proxies of the connection.
    pub(crate) proven: Py<PySet>,
    pub(crate) name: Py<PyString>,
}

impl AtWord {
    /// Whether `error` says that the method is no read any more; the next ones are calls.
    pub(crate) fn is_taken_back(&self, py: Python<'_>, error: &PyErr) -> PyResult<bool> {
        let is_refused = error
            .value(py)
            .is_instance(call_hooks(py)?.not_read_only.bind(py))?;
        if is_refused {
            self.proven.bind(py).discard(self.name.bind(py))?;
        }
        Ok(is_refused)
    }

    /// The call instead of the read.
    pub(crate) fn call(&self) -> Operation {
        Operation::Call {
            object: self.object,
            payload: self.payload.clone(),
        }
    }

    /// Begins the call instead of the read.
    pub(crate) fn begin(&self, cell: &Arc<CallCell>) -> OperationId {
        self.client.begin_to(self.call(), self.options, cell)
    }
}
