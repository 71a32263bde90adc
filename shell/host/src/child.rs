//! One host process: how it is started, and the stream to it.

use crate::activity::{self, Activity};
use crate::config::{HostedObject, PythonConfig, Sandbox};
use crate::error::HostError;
use crate::event::RunningCall;
use crate::limits::{OUTBOX_BYTES_MAX, READ_BYTES, READ_PER_POLL, START_PATIENCE};
use crate::output::{self, LastWords};
use crate::process_end::{ProcessEnd, reason};
use crate::protocol::{Greeted, Liars, Reply, put_hello, take_reply};
use mio::{Interest, Token};
use quorate_types::Slot;
use rustix::fd::OwnedFd;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::Instant;

/// A running host process.
pub(crate) struct Process {
    child: Child,
    /// The thread that passes on what it prints.
    output: Option<JoinHandle<LastWords>>,
    pub(crate) stream: mio::net::UnixStream,
    activity: OwnedFd,
    outbox: Vec<u8>,
    written: usize,
    inbox: Vec<u8>,
    taken: usize,
}

impl Process {
    /// Starts a process and greets it; its first reply says whether it is fit.
    pub(crate) fn start(
        config: &PythonConfig,
        objects: &[HostedObject],
        liars: &Liars,
        told: Slot,
    ) -> io::Result<Process> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let activity = activity::create()?;
        let interpreter = interpreter(config.interpreter.as_deref());
        let mut command = Command::new(&interpreter);
        if config.sandbox == Sandbox::On {
            keep_environment(&mut command, &config.scratch);
        }
        command
            // Without the current directory on the path of modules: it may be any.
            .args(["-P", "-m", "quorate._host"])
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::from(activity.try_clone()?))
            .stderr(Stdio::piped())
            // All that it starts ends with it.
            .process_group(0)
            .env("PYTHONHASHSEED", hash_seed(config.seed).to_string())
            .env("TZ", "UTC")
            .env("LC_ALL", "C.UTF-8")
            .env("QUORATE_HOST_PARENT", std::process::id().to_string());
        if let Some(bytes) = config.memory_bytes_max {
            command.env("QUORATE_HOST_MEMORY", bytes.to_string());
        }
        let mut child = command.spawn().map_err(|error| {
            let message = format!(
                "{} cannot be run: {error}; name another with --python or QUORATE_PYTHON",
                interpreter.display()
            );
            io::Error::new(error.kind(), message)
        })?;
        let output = child.stderr.take().map(output::forward).transpose()?;
        let mut process = Process {
            child,
            output,
            stream: mio::net::UnixStream::from_std(ours),
            activity,
            outbox: Vec::new(),
            written: 0,
            inbox: Vec::new(),
            taken: 0,
        };
        put_hello(&mut process.outbox, config, objects, liars, told);
        Ok(process)
    }

    /// Where frames are put that are to be sent; `None` while enough waits already.
    pub(crate) fn outbox(&mut self) -> Option<&mut Vec<u8>> {
        (self.outbox.len() - self.written < OUTBOX_BYTES_MAX).then_some(&mut self.outbox)
    }

    /// Writes what the socket takes.
    pub(crate) fn write(&mut self) -> Result<(), ProcessEnd> {
        while self.written < self.outbox.len() {
            match self.stream.write(&self.outbox[self.written..]) {
                Ok(0) => return Err(ProcessEnd::Stream(None)),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(ProcessEnd::Stream(Some(error))),
            }
        }
        self.outbox.clear();
        self.written = 0;
        Ok(())
    }

    /// Reads until nothing more is there or it was much, giving each reply to `handle`. Returns whether there may be more.
    pub(crate) fn read(&mut self, handle: &mut dyn FnMut(Reply)) -> Result<bool, ProcessEnd> {
        let mut left = READ_PER_POLL;
        while left > 0 {
            let length = self.inbox.len();
            self.inbox.resize(length + READ_BYTES, 0);
            let got = self.stream.read(&mut self.inbox[length..]);
            self.inbox
                .truncate(length + got.as_ref().map_or(0, |got| *got));
            match got {
                Ok(0) => return Err(ProcessEnd::Stream(None)),
                Ok(count) => {
                    left = left.saturating_sub(count);
                    self.take_replies(handle)?;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(ProcessEnd::Stream(Some(error))),
            }
        }
        Ok(true)
    }

    fn take_replies(&mut self, handle: &mut dyn FnMut(Reply)) -> Result<(), ProcessEnd> {
        while let Some((reply, length)) =
            take_reply(&self.inbox[self.taken..]).map_err(ProcessEnd::Broken)?
        {
            self.taken += length;
            handle(reply);
        }
        self.inbox.drain(..self.taken);
        self.taken = 0;
        Ok(())
    }

    /// The call that it is executing.
    pub(crate) fn activity(&self) -> Activity {
        activity::read(&self.activity)
    }

    /// The call with its object's name, if that was created while the group runs.
    pub(crate) fn named(&self, call: RunningCall) -> RunningCall {
        let name = activity::name(&self.activity, call.object);
        RunningCall { name, ..call }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it for certain, and says how it ended.
    pub(crate) fn kill(&mut self) -> String {
        // It may have ended by itself; then its own status is reported, and what it has started ends.
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        match self.child.wait() {
            Ok(status) => told_status(status),
            Err(error) => format!("unknown: {error}"),
        }
    }

    /// Ends it, and waits until its last words are passed on, which are returned with how it ended.
    fn end_with_its_words(&mut self) -> (String, LastWords) {
        let status = self.kill();
        // A thread that panicked has said so.
        let words = self.output.take().and_then(|output| output.join().ok());
        (status, words.flatten())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What a confined process gets of the node's environment: where programs and modules are, and how many threads
/// libraries start. Anything else may be a secret of the node, and differs between replicas.
const ENVIRONMENT: [&str; 10] = [
    "PATH",
    "HOME",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONNOUSERSITE",
    "VIRTUAL_ENV",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
];

fn keep_environment(command: &mut Command, scratch: &Path) {
    command.env_clear().env("TMPDIR", scratch);
    for name in ENVIRONMENT {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
}

/// The status with which the host ends when memory does not suffice for a call.
const OUT_OF_MEMORY: i32 = 86;

/// The status with which the host ends when what an object has stored is gone or damaged.
const DISK_DAMAGED: i32 = 88;

fn told_status(status: ExitStatus) -> String {
    match status.code() {
        Some(DISK_DAMAGED) => {
            "what an object has stored below the data directory is gone or damaged: it is made anew"
                .to_owned()
        }
        Some(OUT_OF_MEMORY) => "a call needs more memory than --host-memory allows".to_owned(),
        Some(_) | None => status.to_string(),
    }
}

/// The Python interpreter: the one named, else QUORATE_PYTHON, else `python3` beside this program, else the
/// one on PATH.
#[must_use]
pub fn interpreter(named: Option<&Path>) -> PathBuf {
    let beside = || {
        let here = std::env::current_exe().ok()?;
        let candidate = here.parent()?.join("python3");
        candidate.exists().then_some(candidate)
    };
    named
        .map(Path::to_owned)
        .or_else(|| std::env::var_os("QUORATE_PYTHON").map(PathBuf::from))
        .or_else(beside)
        .unwrap_or_else(|| PathBuf::from("python3"))
}

/// The order of sets and the hashes of strings follow from it: one per group, never 0 (random off).
fn hash_seed(seed: u64) -> u32 {
    ((seed ^ seed >> 32) as u32).max(1)
}

/// The first greeting: waited for, so that a wrong class or argument is told before anything is served.
pub(crate) fn await_ready(process: &mut Process) -> Result<Greeted, HostError> {
    let until = Instant::now() + START_PATIENCE;
    let mut poll = mio::Poll::new()?;
    poll.registry().register(
        &mut process.stream,
        Token(0),
        Interest::READABLE | Interest::WRITABLE,
    )?;
    let mut ready = mio::Events::with_capacity(4);
    let ended = |process: &mut Process, ended: ProcessEnd| {
        let (status, words) = process.end_with_its_words();
        let said = words.map_or(String::new(), |words| format!("; it said last: {words}"));
        match activity::making(&process.activity) {
            Some((name, doing)) => HostError::Object {
                name,
                reason: format!("{doing} ended the process ({status}){said}"),
            },
            None => HostError::Ended(format!("{}{said}", reason(&ended, &status))),
        }
    };
    let greeted = loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(HostError::Ended(format!(
                "its objects were not made within {START_PATIENCE:?}: a module or a constructor does not end"
            )));
        }
        process.write().map_err(|e| ended(process, e))?;
        let mut reply = None;
        process
            .read(&mut |first| reply = Some(first))
            .map_err(|e| ended(process, e))?;
        match reply {
            Some(Reply::Ready(greeted)) => break greeted,
            Some(Reply::Unfit { object, reason }) => {
                return Err(HostError::Object {
                    name: object,
                    reason,
                });
            }
            Some(_) | None => {}
        }
        match poll.poll(&mut ready, Some(left)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => {
                return Err(error.into());
            }
            Ok(()) | Err(_) => {}
        }
    };
    poll.registry().deregister(&mut process.stream)?;
    Ok(greeted)
}
