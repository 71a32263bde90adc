//! A group in one process for tests in Python: `quorate_rehearsal` with objects that a Python object keeps.
//!
//! Thin: what a node asks of its object becomes a method call, and what it raises ends the wait of the caller.

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use quorate_rehearsal::limits::{CALLERS_MAX, NODES_MAX};
use quorate_rehearsal::{
    Answer, Cause, EndedOperation, ExecutedCall, Operation, Rehearsal, RehearsalConfig,
    RehearsedObjects, Ticket,
};
use quorate_types::{Duration, Level, NodeId, ObjectId, Outcome, ReadLevel, Stamp, Value, Wall};

/// The only object of a group.
const OBJECT: ObjectId = ObjectId(0);

/// Seconds that an operation or a wait may take: a year of virtual time.
const SECONDS_MAX: f64 = 366.0 * 24.0 * 3600.0;

/// A group in virtual time.
#[pyclass(name = "Rehearsal")]
pub(crate) struct NativeRehearsal {
    group: Rehearsal,
    objects: Py<PyAny>,
}

/// How an operation ended: client, whether it is a call, its number, how, what, and the slot of a read or snapshot.
type Told<'py> = (usize, bool, u64, String, Option<Bound<'py, PyBytes>>, u64);

#[pymethods]
impl NativeRehearsal {
    #[new]
    #[pyo3(signature = (objects, nodes, callers, seed, snapshot_every, copies_per_mille, wall_ns))]
    fn new(
        objects: Bound<'_, PyAny>,
        nodes: u16,
        callers: usize,
        seed: u64,
        snapshot_every: u64,
        copies_per_mille: u64,
        wall_ns: u64,
    ) -> PyResult<NativeRehearsal> {
        if !(1..=NODES_MAX).contains(&nodes) {
            let text = format!("a group has 1 to {NODES_MAX} nodes, not {nodes}");
            return Err(PyValueError::new_err(text));
        }
        if !(1..=CALLERS_MAX).contains(&callers) {
            let text = format!("a group has 1 to {CALLERS_MAX} clients, not {callers}");
            return Err(PyValueError::new_err(text));
        }
        let config = RehearsalConfig {
            level: Level::UNNAMED,
            nodes,
            callers,
            seed,
            snapshot_every: snapshot_every.max(1),
            wall: Wall(wall_ns),
            copies_per_mille: copies_per_mille.min(1000),
            ordering: quorate_types::OrderingName::Paxos,
        };
        let mut asked = Asked::of(&objects);
        let group = Rehearsal::new(config, &mut asked);
        asked.end()?;
        Ok(NativeRehearsal {
            group,
            objects: objects.unbind(),
        })
    }

    /// Begins a call, or a read at a level. Returns whether it is a call, and its number.
    fn begin(
        &mut self,
        caller: usize,
        payload: Vec<u8>,
        level: Option<&str>,
        seconds: f64,
    ) -> PyResult<(bool, u64)> {
        let (object, payload) = (OBJECT, Value::from(payload));
        let operation = match level {
            None => Operation::Call { object, payload },
            Some(level) => Operation::Read {
                object,
                payload,
                level: level_of(level)?,
            },
        };
        self.attempt(caller, operation, seconds)
    }

    /// Begins a snapshot on every replica.
    fn begin_snapshot(&mut self, caller: usize, seconds: f64) -> PyResult<(bool, u64)> {
        self.attempt(caller, Operation::Checkpoint, seconds)
    }

    /// Lets time pass until operations have ended, and tells how.
    fn run_until_ended<'py>(&mut self, py: Python<'py>) -> PyResult<Vec<Told<'py>>> {
        let mut asked = Asked::of(self.objects.bind(py));
        let has_ended = self.group.run_until_ended(&mut asked);
        asked.end()?;
        if !has_ended {
            return Err(PyRuntimeError::new_err("the group makes no progress"));
        }
        Ok(self.take_ended(py))
    }

    /// Lets virtual time pass, and tells which operations have ended.
    fn pass_time<'py>(&mut self, py: Python<'py>, seconds: f64) -> PyResult<Vec<Told<'py>>> {
        let span = span(seconds)?;
        let mut asked = Asked::of(self.objects.bind(py));
        self.group.pass(span, &mut asked);
        asked.end()?;
        Ok(self.take_ended(py))
    }

    fn crash(&mut self, node: u16) -> PyResult<()> {
        let node = self.node(node)?;
        self.group.crash(node);
        Ok(())
    }

    fn restart(&mut self, py: Python<'_>, node: u16) -> PyResult<()> {
        let node = self.node(node)?;
        let mut asked = Asked::of(self.objects.bind(py));
        self.group.restart(node, &mut asked);
        asked.end()
    }

    fn cut(&mut self, node: u16, from_clients: bool) -> PyResult<()> {
        let node = self.node(node)?;
        self.group.cut(node, from_clients);
        Ok(())
    }

    fn heal(&mut self, py: Python<'_>, node: u16) -> PyResult<()> {
        let node = self.node(node)?;
        let mut asked = Asked::of(self.objects.bind(py));
        self.group.heal(node, &mut asked);
        asked.end()
    }

    fn set_clock_off(&mut self, node: u16, nanoseconds: i64) -> PyResult<()> {
        let node = self.node(node)?;
        self.group.set_clock_off(node, nanoseconds);
        Ok(())
    }

    /// How a node is.
    fn report<'py>(&self, py: Python<'py>, node: u16) -> PyResult<Bound<'py, PyDict>> {
        let told = self.group.report(self.node(node)?);
        let told = told.expect("the node was looked up");
        let report = PyDict::new(py);
        report.set_item("is_running", told.is_running)?;
        report.set_item("is_cut", told.is_cut)?;
        report.set_item("leader", told.leader.map(|node| node.0))?;
        report.set_item("executed", told.executed.0)?;
        report.set_item("decided", told.decided.0)?;
        report.set_item("snapshot", told.snapshot.0)?;
        report.set_item("diverged", told.diverged.map(|slot| slot.0))?;
        report.set_item("failure", told.failure)?;
        Ok(report)
    }

    /// Nanoseconds of virtual time since the beginning.
    fn elapsed_ns(&self) -> u64 {
        self.group.elapsed().0
    }
}

impl NativeRehearsal {
    fn attempt(
        &mut self,
        caller: usize,
        operation: Operation,
        seconds: f64,
    ) -> PyResult<(bool, u64)> {
        let patience = span(seconds)?;
        if caller >= self.group.callers() {
            return Err(PyValueError::new_err(format!(
                "there is no client {caller}"
            )));
        }
        match self.group.begin(caller, operation, patience) {
            Some(Ticket::Call(number)) => Ok((true, number)),
            Some(Ticket::Request(number)) => Ok((false, number)),
            None => Err(PyRuntimeError::new_err("too many calls are under way")),
        }
    }

    fn node(&self, node: u16) -> PyResult<NodeId> {
        match self.group.report(NodeId(node)) {
            Some(_) => Ok(NodeId(node)),
            None => Err(PyValueError::new_err(format!("there is no node {node}"))),
        }
    }

    fn take_ended<'py>(&mut self, py: Python<'py>) -> Vec<Told<'py>> {
        let ended = self.group.take_ended();
        ended.into_iter().map(|each| told(py, each)).collect()
    }
}

fn span(seconds: f64) -> PyResult<Duration> {
    if !(0.0..=SECONDS_MAX).contains(&seconds) {
        let text = format!("{seconds} is no number of seconds up to {SECONDS_MAX}");
        return Err(PyValueError::new_err(text));
    }
    Ok(Duration((seconds * 1e9) as u64))
}

fn level_of(level: &str) -> PyResult<ReadLevel> {
    match level {
        "ordered" => Ok(ReadLevel::Ordered),
        "confirmed" => Ok(ReadLevel::Confirmed),
        "broadcast" => Ok(ReadLevel::Broadcast),
        "lease" => Ok(ReadLevel::Lease),
        "any" => Ok(ReadLevel::Any),
        "loose" => Ok(ReadLevel::Loose),
        other => Err(PyValueError::new_err(format!("no read level {other:?}"))),
    }
}

fn told(py: Python<'_>, ended: EndedOperation) -> Told<'_> {
    let (is_call, number) = match ended.ticket {
        Ticket::Call(number) => (true, number),
        Ticket::Request(number) => (false, number),
    };
    let (how, what, slot) = match ended.result {
        Ok(Answer::Called(outcome)) => outcome_of(py, &outcome, 0),
        Ok(Answer::Read { outcome, slot, .. }) => outcome_of(py, &outcome, slot.0),
        Ok(Answer::Checkpointed(slot)) => ("snapshot".to_owned(), None, slot.0),
        Err(failure) => {
            let certainty = match failure.may_have_executed {
                true => "unknown",
                false => "not executed",
            };
            let why = match failure.cause {
                Cause::DeadlinePassed => "no answer in time".to_owned(),
                Cause::Refused(refusal) => format!("refused: {refusal:?}"),
                Cause::ConnectionLost => "the connection was lost".to_owned(),
                Cause::TooManyParked => "too many calls of its client wait".to_owned(),
                Cause::OtherCluster { .. } => "another cluster answers".to_owned(),
            };
            (format!("{certainty}: {why}"), None, 0)
        }
    };
    (ended.caller, is_call, number, how, what, slot)
}

fn outcome_of<'py>(
    py: Python<'py>,
    outcome: &Outcome,
    slot: u64,
) -> (String, Option<Bound<'py, PyBytes>>, u64) {
    let (how, value) = match outcome {
        Outcome::Returned(value) => ("returned", Some(value)),
        Outcome::Raised(value) => ("raised", Some(value)),
        Outcome::Skipped => ("skipped", None),
    };
    let value = value.map(|value| PyBytes::new(py, value));
    (how.to_owned(), value, slot)
}

/// The Python object that keeps the objects, for the length of one wait.
struct Asked<'a, 'py> {
    objects: &'a Bound<'py, PyAny>,
    /// What it raised first; nothing is asked of it from there on.
    failure: Option<PyErr>,
}

impl<'a, 'py> Asked<'a, 'py> {
    fn of(objects: &'a Bound<'py, PyAny>) -> Asked<'a, 'py> {
        Asked {
            objects,
            failure: None,
        }
    }

    fn end(self) -> PyResult<()> {
        self.failure.map_or(Ok(()), Err)
    }

    fn ask<T>(&mut self, make: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<T>) -> Option<T> {
        if self.failure.is_some() {
            return None;
        }
        match make(self.objects) {
            Ok(answer) => Some(answer),
            Err(error) => {
                self.failure = Some(error);
                None
            }
        }
    }

    fn outcome(
        &mut self,
        make: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>,
    ) -> Outcome {
        let answer = self.ask(|objects| make(objects)?.extract::<(bool, Vec<u8>)>());
        match answer {
            Some((false, value)) => Outcome::Returned(value.into()),
            Some((true, value)) => Outcome::Raised(value.into()),
            None => Outcome::Skipped,
        }
    }

    /// A text says why it cannot be done.
    fn done(
        &mut self,
        make: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>,
    ) -> Result<(), String> {
        match self.ask(|objects| make(objects)?.extract::<Option<String>>()) {
            Some(None) => Ok(()),
            Some(Some(reason)) => Err(reason),
            None => Err("the objects cannot be asked".to_owned()),
        }
    }
}

impl RehearsedObjects for Asked<'_, '_> {
    fn start(&mut self, node: NodeId, image: Option<&Value>) -> Result<(), String> {
        self.done(|objects| {
            let image = image.map(|image| PyBytes::new(objects.py(), image));
            objects.call_method1("start", (node.0, image))
        })
    }

    fn restore(&mut self, node: NodeId, image: &Value) -> Result<(), String> {
        self.done(|objects| {
            let image = PyBytes::new(objects.py(), image);
            objects.call_method1("restore", (node.0, image))
        })
    }

    fn execute(&mut self, node: NodeId, call: &ExecutedCall<'_>) -> Outcome {
        self.outcome(|objects| {
            let place = (call.slot.0, call.index);
            let stamp = (call.stamp.wall.0, call.stamp.entropy);
            let payload = PyBytes::new(objects.py(), call.payload);
            let who = (call.caller, call.sequence);
            objects.call_method1("execute", (node.0, who, place, stamp, payload))
        })
    }

    fn query(&mut self, node: NodeId, stamp: Stamp, payload: &Value) -> Outcome {
        self.outcome(|objects| {
            let payload = PyBytes::new(objects.py(), payload);
            objects.call_method1("query", (node.0, stamp.wall.0, payload))
        })
    }

    fn image(&mut self, node: NodeId) -> Result<Value, String> {
        let answer = self.ask(|objects| {
            let image = objects.call_method1("image", (node.0,))?;
            match image.cast::<PyBytes>() {
                Ok(bytes) => Ok(Ok(Value::copy_from_slice(bytes.as_bytes()))),
                Err(_) => Ok(Err(image.extract::<String>()?)),
            }
        });
        answer.unwrap_or_else(|| Err("the objects cannot be asked".to_owned()))
    }
}
