//! The loop of the host process: read what waits, execute it in order, answer.
//!
//! One thread. Frames that arrived together are answered together. Objects are called by name, as
//! `quorate._data_model` allows: public methods and attributes of their class, and the special methods that it defines. What needs no speed (making objects, snapshots, describing
//! exceptions) is asked of the Python object `host`.

mod budgets;
mod created;
mod followed;
mod images;
mod queries;
mod sessions;
mod ticks;
mod tries;
mod undoing;

use crate::activity::SharedActivity;
use crate::encode::Draws;
use crate::frames::{
    FrameBody, Inbox, NONE, OpenOutcomes, Outbox, PARKED, RAISED, RETURNED, reply, request,
};
use crate::reads::{Checking, ReadGuard};
use crate::{agreed_text, decode, encode, environment, hooks, layout, numbers, steps, turn, wait};
use pyo3::exceptions::{PyConnectionError, PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTraceback, PyTuple};
use quorate_types::{PAYLOAD_BYTES_MAX, Wall};
use sessions::may_park;
use std::collections::{HashMap, HashSet};
use std::io::{ErrorKind, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::net::UnixStream;
use undoing::Undoing;

/// Replies that are gathered before they are written: more only delays the first of them.
const OUTBOX_BYTES_MAX: usize = 128 << 10;

/// Capacity that the outbox keeps: a large result takes its memory only until it is sent.
const OUTBOX_BYTES_KEPT: usize = 16 << 20;

/// Exit status of a process whose memory does not suffice for a call.
const OUT_OF_MEMORY: i32 = 86;

/// Methods whose names are kept interned; a class has fewer.
const METHODS_KNOWN_MAX: usize = 1024;

/// Serves the node at the other end of `fd` until it closes the stream.
///
/// `host` is a `quorate._host.Host`.
#[pyfunction]
pub(crate) fn serve(fd: RawFd, activity_fd: RawFd, host: Bound<'_, PyAny>) -> PyResult<()> {
    let types = host.py().import("types")?;
    let unfinished = ["CoroutineType", "AsyncGeneratorType"];
    let [coroutine, generator] = unfinished.map(|name| types.getattr(name));
    let mut server = Server {
        draws: Draws::All,
        unfinished: [coroutine?.as_ptr() as usize, generator?.as_ptr() as usize],
        activity: SharedActivity::map(activity_fd)?,
        // SAFETY: the caller hands over a descriptor that nothing else in this process uses.
        stream: unsafe { UnixStream::from_raw_fd(fd) },
        outbox: Outbox::default(),
        objects: HashMap::new(),
        budgets: Vec::new(),
        ended_at: None,
        waiters: HashMap::new(),
        methods: HashMap::new(),
        reads: ReadGuard::new(),
        quiet_upto: None,
        is_over: false,
        children: Vec::new(),
        wall_ns: 0,
        entropy: 0,
        slot: 0,
        undoing: Undoing::new(),
        result: None,
        host,
    };
    server.run()
}

struct Server<'py> {
    activity: SharedActivity,
    stream: UnixStream,
    outbox: Outbox,
    objects: HashMap<u32, Bound<'py, PyAny>>,
    /// Steps that a call of each object may take; a group has few objects.
    budgets: Vec<(u32, i64)>,
    /// Where the call that used up its budget was then.
    ended_at: Option<Bound<'py, PyTraceback>>,
    /// Methods of each object that may wait until something holds.
    waiters: HashMap<u32, HashSet<String>>,
    /// How methods are called, by class and name.
    methods: HashMap<(usize, Box<str>), Way<'py>>,
    /// What a method returns that is not finished yet: coroutines and asynchronous generators.
    unfinished: [usize; 2],
    /// Which iterators in results are drawn.
    draws: Draws,
    reads: ReadGuard,
    /// Slots up to here were executed by an earlier process, which printed what there was to print.
    quiet_upto: Option<u64>,
    /// Nothing more is executed.
    is_over: bool,
    /// Snapshot processes: slot, and the pipe whose end tells theirs.
    children: Vec<(u64, RawFd)>,
    wall_ns: u64,
    entropy: u64,
    slot: u64,
    /// What is kept of slots that may be undone.
    undoing: Undoing<'py>,
    /// What the last call returned, where that is kept.
    result: Option<Bound<'py, PyAny>>,
    host: Bound<'py, PyAny>,
}

/// How a call ended that did not raise.
enum Ended {
    /// With a value.
    Answered,
    /// Its caller waits.
    Waits,
}

/// How a method is called.
#[derive(Clone)]
enum Way<'py> {
    /// By this name.
    Method(Bound<'py, PyString>),
    /// By a function that takes the object first: attributes, and what the interpreter does beyond a method.
    Function(Bound<'py, PyAny>),
}

impl<'py> Server<'py> {
    fn run(&mut self) -> PyResult<()> {
        let mut inbox = Inbox::default();
        loop {
            while let Some((kind, body)) = inbox.next() {
                self.handle(kind, inbox.slice(body))?;
                if self.is_over {
                    return self.flush();
                }
                if self.outbox.0.len() > OUTBOX_BYTES_MAX {
                    self.flush()?;
                }
            }
            self.reap()?;
            self.reap_trial(0.0)?;
            self.flush()?;
            if !self.wait_and_read(&mut inbox)? {
                return Ok(());
            }
        }
    }

    fn wait_and_read(&mut self, inbox: &mut Inbox) -> PyResult<bool> {
        let py = self.host.py();
        let trial = self.undoing.trial();
        if self.children.is_empty() && trial.is_none() {
            let stream = &mut self.stream;
            return Ok(py.detach(|| inbox.read(stream))?);
        }
        let mut fds = vec![self.stream.as_raw_fd()];
        fds.extend(self.children.iter().map(|(_, fd)| *fd));
        fds.extend(trial);
        py.detach(|| wait::until_readable(&fds))?;
        self.stream.set_nonblocking(true)?;
        let read = inbox.read(&mut self.stream);
        self.stream.set_nonblocking(false)?;
        match read {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(true),
            other => Ok(other?),
        }
    }

    fn flush(&mut self) -> PyResult<()> {
        if !self.outbox.0.is_empty() {
            self.stream.write_all(&self.outbox.0)?;
            self.outbox.0.clear();
            self.outbox.0.shrink_to(OUTBOX_BYTES_KEPT);
        }
        Ok(())
    }

    fn handle(&mut self, kind: u8, body: &[u8]) -> PyResult<()> {
        let mut body = FrameBody(body);
        match kind {
            request::HELLO => self.hello(body.0),
            request::EXECUTE => {
                // What comes before a slot that is decided is decided too.
                self.undoing.decided(u64::MAX);
                self.execute(&mut body)
            }
            request::EXECUTE_AHEAD => self.execute_ahead(&mut body),
            request::UNDO => self.undo(&mut body),
            request::QUERY => self.query(&mut body),
            request::SNAPSHOT => self.snapshot(&mut body),
            request::RESTORE => self.restore(&mut body),
            unknown => Err(PyConnectionError::new_err(format!(
                "the node sent a frame of unknown kind {unknown}: it speaks another protocol version"
            ))),
        }
    }

    fn hello(&mut self, body: &[u8]) -> PyResult<()> {
        type Prepared<'py> = (
            Vec<u8>,
            HashMap<u32, Bound<'py, PyAny>>,
            String,
            Vec<(u32, String)>,
            u64,
            Vec<(u32, i64)>,
        );
        let (answer, objects, checking, liars, quiet_upto, budgets): Prepared<'py> = self
            .host
            .call_method1("prepare", (PyBytes::new(self.host.py(), body),))?
            .extract()?;
        self.waiters = self.host.call_method0("waiters")?.extract()?;
        self.take_objects(objects)?;
        self.budgets = budgets;
        // Reads ask for it too, for a cache by instance.
        let mut numbers: Vec<&u32> = self.objects.keys().collect();
        numbers.sort_unstable();
        for number in numbers {
            numbers::touch(&self.objects[number]);
        }
        self.quiet_upto = Some(quiet_upto);
        let checking = match checking.as_str() {
            "never" => Checking::Never,
            "all" => Checking::All,
            _ => Checking::Sample,
        };
        self.reads.begin(checking, liars);
        self.undoing.begin(checking);
        let start = self.outbox.begin(reply::READY);
        self.outbox.0.extend_from_slice(&answer);
        self.outbox.end(start);
        Ok(())
    }

    fn take_objects(&mut self, objects: HashMap<u32, Bound<'py, PyAny>>) -> PyResult<()> {
        let known = objects.iter();
        let known = known.map(|(number, object)| (*number, object.clone().unbind()));
        turn::objects_are(known.collect());
        self.objects = objects;
        let methods = self.host.call_method0("undo_methods")?;
        self.undoing.objects_are(methods.extract()?);
        Ok(())
    }

    fn execute(&mut self, body: &mut FrameBody<'_>) -> PyResult<()> {
        self.slot = body.u64()?;
        self.wall_ns = body.u64()?;
        self.entropy = body.u64()?;
        let count = body.u32()?;
        if self.quiet_upto.is_some_and(|upto| self.slot > upto) {
            self.quiet_upto = None;
            self.host.call_method0("speak")?;
        }
        let mut part = self.outbox.begin_part(self.slot);
        for _ in 0..count {
            let index = body.u32()?;
            environment::enter(self.wall_ns, self.entropy, self.slot, index);
            let answer = self.outbox.0.len();
            let Some(answers) = self.step(body, index)? else {
                return match self.undoing.take_failed() {
                    Some(failed) => self.tell_not_kept(&part, answer, &failed),
                    None => self.tell_spent(&part, index, answer),
                };
            };
            self.appended(&mut part)?;
            for answer in answers {
                self.outbox.0.extend_from_slice(&answer);
                self.appended(&mut part)?;
            }
        }
        self.activity.idle();
        if let Some(due) = turn::due_news(false) {
            self.outbox.put_before(&mut part, &due_frame(due));
        }
        if turn::outside::take_outside() {
            self.outbox.put_before(&mut part, &outside_frame());
        }
        let kind = self.end_slot();
        self.outbox.end_part(&part, kind);
        Ok(())
    }

    /// One more entry of a slot was appended: sends those so far if they are many bytes, because a frame is bounded.
    #[inline]
    fn appended(&mut self, part: &mut OpenOutcomes) -> PyResult<()> {
        if self.outbox.is_large_with_one_more(part) {
            // No call runs while the node is slow to read.
            self.activity.idle();
            self.outbox.end_part(part, reply::OUTCOMES);
            self.flush()?;
            *part = self.outbox.begin_part(self.slot);
        }
        Ok(())
    }

    /// Calls, and appends how the call ended: a byte, a length and the encoded value.
    fn answer(&mut self, object: u32, payload: &[u8]) -> PyResult<()> {
        let start = self.outbox.0.len();
        self.outbox.0.extend_from_slice(&[RETURNED, 0, 0, 0, 0]);
        if let Some(ids) = quorate_types::cancelled(payload) {
            turn::cancel(ids);
            self.outbox.0.extend_from_slice(NONE);
            self.close(start);
            return Ok(());
        }
        agreed_text::forget_shown();
        let ended = match self.keep_before(object, payload) {
            Ok(before) => {
                let ended = self.run_method(start, object, payload);
                let ended = self.left_trace(before, object, payload, ended)?;
                if matches!(ended, Ok(Ended::Waits)) {
                    turn::park_call();
                }
                ended
            }
            Err(error) => Err(error),
        };
        match ended {
            Ok(Ended::Answered) => self.close(start),
            Ok(Ended::Waits) => {
                self.outbox.0.truncate(start);
                self.outbox.0.push(PARKED);
            }
            // Whether memory suffices depends on the machine, so it is no outcome.
            Err(error) if error.is_instance_of::<PyMemoryError>(self.host.py()) => {
                std::process::exit(OUT_OF_MEMORY)
            }
            Err(error) => {
                self.outbox.0.truncate(start);
                if steps::is_spent() {
                    self.ended_at = error.traceback(self.host.py());
                }
                self.raised(start, error)?;
            }
        }
        Ok(())
    }

    /// Calls, and appends what the method returned.
    fn run_method(&mut self, start: usize, object: u32, payload: &[u8]) -> PyResult<Ended> {
        let (value, target) = self.call(object, payload)?;
        if turn::parks() {
            may_park(&value)?;
            return Ok(Ended::Waits);
        }
        if self.undoing.is_open() {
            self.result = Some(value.clone());
        }
        encode::result_into(&mut self.outbox.0, &value, &target, self.draws)
            .map_err(|error| of_a_result(value.py(), error))?;
        is_sendable(value.py(), &self.outbox.0[start + 5..])?;
        Ok(Ended::Answered)
    }

    /// Appends a call that raised.
    #[cold]
    fn raised(&mut self, start: usize, error: PyErr) -> PyResult<()> {
        self.outbox.0.extend_from_slice(&[RAISED, 0, 0, 0, 0]);
        let described = self.outbox.0.len();
        if self.describe(error).is_err() {
            // An exception that cannot even be described is told as the same one on every replica.
            let out = &mut self.outbox.0;
            out.truncate(described);
            layout::put_head(out, layout::ARRAY, 5);
            layout::put_text(out, "builtins.Exception");
            layout::put_text(out, "(the exception could not be described)");
            layout::put_head(out, layout::ARRAY, 0);
            layout::put_text(out, "");
            layout::put_head(out, layout::MAP, 0);
        }
        self.close(start);
        Ok(())
    }

    /// Fills in the length of the answer that begins at `start`.
    fn close(&mut self, start: usize) {
        let length = (self.outbox.0.len() - start - 5) as u32;
        self.outbox.0[start + 1..start + 5].copy_from_slice(&length.to_le_bytes());
    }

    /// Calls, and returns the result with the object.
    #[inline]
    fn call(
        &mut self,
        object: u32,
        payload: &[u8],
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let py = self.host.py();
        let call = decode::call(py, payload)?;
        let Some(target) = self.objects.get(&object).cloned() else {
            return Err(hooks::error(
                py,
                "NotFound",
                format!("no object number {object}"),
            ));
        };
        let value = match self.way(&target, call.method)? {
            Way::Method(name) => target
                .getattr(&name)?
                .call(call.args, call.kwargs.as_ref())?,
            Way::Function(function) => {
                let target = PyTuple::new(py, [&target])?;
                let args = target.as_sequence().concat(call.args.as_sequence())?;
                function.call(args.to_tuple()?, call.kwargs.as_ref())?
            }
        };
        if self.unfinished.contains(&(value.get_type_ptr() as usize)) {
            let finished = self
                .host
                .call_method1("finish", (&target, call.method, value))?;
            return Ok((finished, target));
        }
        Ok((value, target))
    }

    /// How a method of the object is called; refuses what is none.
    #[inline]
    fn way(&mut self, target: &Bound<'py, PyAny>, method: &str) -> PyResult<Way<'py>> {
        let key = (target.get_type_ptr() as usize, method.into());
        if let Some(way) = self.methods.get(&key) {
            return Ok(way.clone());
        }
        let function = self
            .host
            .call_method1("way_of", (target.get_type(), method))?;
        let way = if function.is_none() {
            Way::Method(PyString::intern(target.py(), method))
        } else {
            Way::Function(function)
        };
        if self.methods.len() < METHODS_KNOWN_MAX {
            self.methods.insert(key, way.clone());
        }
        Ok(way)
    }

    /// Appends the exception: [class, message, args, traceback, details], or less of it where that is too much.
    #[cold]
    fn describe(&mut self, error: PyErr) -> PyResult<()> {
        let error = error.into_value(self.host.py());
        for is_brief in [false, true] {
            let parts = self.host.call_method1("describe", (&error, is_brief))?;
            match encode::value(&parts, "exception") {
                Ok(told) if told.len() <= PAYLOAD_BYTES_MAX => {
                    self.outbox.0.extend_from_slice(&told);
                    return Ok(());
                }
                Ok(_) | Err(_) => {}
            }
        }
        Err(PyValueError::new_err("the exception cannot be told"))
    }
}

/// Says when the objects have something to do first.
fn due_frame(due: Option<Wall>) -> Outbox {
    let mut frame = Outbox::default();
    let start = frame.begin(reply::DUE);
    frame.u64(due.map_or(0, |due| due.0));
    frame.end(start);
    frame
}

/// Says that something is to be done outside of the objects.
fn outside_frame() -> Outbox {
    let mut frame = Outbox::default();
    let start = frame.begin(reply::OUTSIDE);
    frame.end(start);
    frame
}

/// Encodes what a method of `target` returned as a host does; raises as the call would have ended.
#[pyfunction]
pub(crate) fn dump_result<'py>(
    value: &Bound<'py, PyAny>,
    target: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    let py = value.py();
    let mut out = Vec::new();
    agreed_text::forget_shown();
    encode::result_into(&mut out, value, target, Draws::All)
        .map_err(|error| of_a_result(py, error))?;
    is_sendable(py, &out)?;
    Ok(PyBytes::new(py, &out))
}

/// A result that cannot be sent: unlike an argument, it belongs to a call that was executed. What an iterator raises
/// while it is drawn is what the call raised.
#[cold]
fn of_a_result(py: Python<'_>, error: PyErr) -> PyErr {
    if !hooks::is_error(&error, py, "UnsupportedValue") {
        return error;
    }
    let text = format!("the method was executed; {}", error.value(py));
    hooks::error(py, "UnsupportedResult", text)
}

/// Refuses a result that no client could be told, or that another replica would tell otherwise.
pub(crate) fn is_sendable(py: Python<'_>, result: &[u8]) -> PyResult<()> {
    let bytes = result.len();
    let text = if bytes > PAYLOAD_BYTES_MAX {
        format!(
            "the method was executed; its result has {bytes} bytes, and at most {PAYLOAD_BYTES_MAX} can be sent"
        )
    } else if let Some(kind) = agreed_text::address_in(result) {
        format!(
            "the method was executed; its result has a text with the address of an object of type {kind}, which differs \
             between replicas: give the class a __repr__, or leave that out"
        )
    } else {
        return Ok(());
    };
    Err(hooks::error(py, "UnsupportedResult", text))
}
