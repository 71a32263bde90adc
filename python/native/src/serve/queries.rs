//! Reads: methods that change nothing, executed by one replica alone.

use super::Server;
use crate::activity::QUERY;
use crate::encode::Draws;
use crate::frames::{FrameBody, RETURNED, reply};
use crate::reads::Declared;
use crate::{decode, encode, environment, hooks, numbers, turn};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

/// A read of this name asks which methods are reads; no public method has it.
const WHICH_READ: &str = "__quorate_reads__";

/// A read of this name asks for all methods, with their signatures.
const WHICH_METHODS: &str = "__quorate_methods__";

impl<'py> Server<'py> {
    pub(super) fn query(&mut self, body: &mut FrameBody<'_>) -> PyResult<()> {
        let number = body.u64()?;
        let object = body.u32()?;
        let start = self.outbox.begin(reply::QUERIED);
        self.outbox.u64(number);
        environment::enter(self.wall_ns, number, 0, 0);
        self.activity.begin(QUERY, number as u32, object);
        numbers::begin_aside();
        let answer = self.outbox.0.len();
        turn::set_read(Some(object));
        let read = self.read(object, body.0);
        turn::set_read(None);
        let wrote = match read {
            Ok(wrote) => wrote,
            Err(refusal) => {
                self.outbox.0.truncate(answer);
                self.raised(answer, refusal)?;
                None
            }
        };
        numbers::end_aside(self.host.py());
        self.activity.idle();
        self.outbox.end(start);
        if let Some(method) = wrote {
            let start = self.outbox.begin(reply::READ_WROTE);
            self.outbox.u32(object);
            self.outbox.0.extend_from_slice(method.as_bytes());
            self.outbox.end(start);
            // The node replaces this process: what it executes from here on would rest on a wrong state.
            self.is_over = true;
        }
        Ok(())
    }

    /// Executes a read. Returns its method if it changed the object, and then the answer says so.
    fn read(&mut self, object: u32, payload: &[u8]) -> PyResult<Option<String>> {
        let py = self.host.py();
        let method = decode::method(py, payload)?;
        let Some(target) = self.objects.get(&object).cloned() else {
            self.answer(object, payload)?;
            return Ok(None);
        };
        if method == WHICH_READ {
            self.tell_reads(object, &target)?;
            return Ok(None);
        }
        if method == WHICH_METHODS {
            self.tell_methods(object, &target)?;
            return Ok(None);
        }
        self.way(&target, method)?;
        let host = &self.host;
        let ask = || {
            host.call_method1("kind_of", (object, method, &target))?
                .extract()
        };
        let declared = self.reads.declared(object, method, ask)?;
        match declared {
            Declared::Read | Declared::Proven => {}
            other @ (Declared::Call | Declared::Lied) => {
                return Err(not_readonly(host, &target, method, other)?);
            }
        }
        let before = self.reads.before(object, method, &target)?;
        let answer = self.outbox.0.len();
        self.draws = match declared {
            Declared::Proven => Draws::Fresh,
            Declared::Read | Declared::Call | Declared::Lied => Draws::All,
        };
        let answered = self.is_spent_by(object, payload);
        self.draws = Draws::All;
        answered?;
        if self.reads.is_unchanged(&before, &target)? {
            return Ok(None);
        }
        self.outbox.0.truncate(answer);
        let image = before.image().map(|image| PyBytes::new(py, image));
        let error = self
            .host
            .call_method1("wrote", (&target, method, image))
            .map_or_else(|failure| failure, PyErr::from_value);
        self.raised(answer, error)?;
        Ok(Some(method.to_owned()))
    }

    /// Wakes which methods are reads: a list of names.
    fn tell_reads(&mut self, object: u32, target: &Bound<'py, PyAny>) -> PyResult<()> {
        let told = self.host.call_method1("reads", (object, target))?;
        let mut names: Vec<String> = told.extract()?;
        names.retain(|name| !self.reads.is_liar(object, name));
        let start = self.outbox.0.len();
        self.outbox.0.extend_from_slice(&[RETURNED, 0, 0, 0, 0]);
        let names = PyList::new(self.host.py(), names)?;
        encode::value_into(&mut self.outbox.0, names.as_any(), "result")?;
        self.close(start);
        Ok(())
    }

    /// The methods that callers may name, each with its signature.
    fn tell_methods(&mut self, object: u32, target: &Bound<'py, PyAny>) -> PyResult<()> {
        let told = self.host.call_method1("methods", (object, target))?;
        let start = self.outbox.0.len();
        self.outbox.0.extend_from_slice(&[RETURNED, 0, 0, 0, 0]);
        encode::value_into(&mut self.outbox.0, &told, "result")?;
        self.close(start);
        Ok(())
    }
}

/// Why a method does not run as a read.
#[cold]
fn not_readonly(
    host: &Bound<'_, PyAny>,
    target: &Bound<'_, PyAny>,
    method: &str,
    declared: Declared,
) -> PyResult<PyErr> {
    match declared {
        Declared::Lied => {
            let class = target.get_type().name()?;
            let text = format!(
                "`{method}` of {class} is held for read-only and was seen to change its object: remove the declaration or \
                 the change"
            );
            Ok(hooks::error(target.py(), "NotReadOnly", text))
        }
        Declared::Call | Declared::Read | Declared::Proven => {
            let error = host.call_method1("not_read", (target, method))?;
            Ok(PyErr::from_value(error))
        }
    }
}
