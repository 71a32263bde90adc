//! Objects whose calls are followed: each call that left a trace is told the feed, in the step in which it took effect.

use super::Server;
use crate::encode;
use crate::turn::{self, followed};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use quorate_types::SessionId;

impl Server<'_> {
    /// A call of an object has ended, or parks.
    #[inline]
    pub(super) fn tell_followers(
        &mut self,
        object: u32,
        payload: &[u8],
        is_spent: bool,
    ) -> PyResult<()> {
        if is_spent || !followed::is_followed(object) {
            return Ok(());
        }
        if quorate_types::cancelled(payload).is_some() || !turn::leaves_trace() {
            return Ok(());
        }
        // The feed keeps it.
        self.undoing.spoil();
        let payload = PyBytes::new(self.host.py(), payload);
        let told = (object, self.slot, self.wall_ns, payload);
        self.host.call_method1("followed", told)?;
        Ok(())
    }

    /// An object was told of the end of a session.
    #[inline]
    pub(super) fn tell_followers_of_end(
        &mut self,
        object: u32,
        session: SessionId,
        is_spent: bool,
    ) -> PyResult<()> {
        if !followed::is_followed(object) {
            return Ok(());
        }
        let py = self.host.py();
        let arguments = PyTuple::new(py, [session.0])?;
        let call = encode::call(
            super::sessions::ON_SESSION_END,
            &arguments,
            &PyDict::new(py),
        )?;
        self.tell_followers(object, &call, is_spent)
    }
}
