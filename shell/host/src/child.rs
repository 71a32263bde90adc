//! One host process: how it is started, and the stream to it.

use crate::activity::{self, Activity};
use crate::config::{HostedObject, PythonConfig};
use crate::error::HostError;
use crate::limits::{OUTBOX_BYTES_MAX, READ_BYTES, START_PATIENCE};
use crate::protocol::{Broken, Reply, put_hello, take_reply};
use mio::{Interest, Token};
use rustix::fd::OwnedFd;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// A running host process.
pub(crate) struct Process {
    child: Child,
    pub(crate) stream: mio::net::UnixStream,
    activity: OwnedFd,
    outbox: Vec<u8>,
    written: usize,
    inbox: Vec<u8>,
    taken: usize,
}

/// Why a process cannot be used any more.
#[derive(Debug)]
pub(crate) enum ProcessEnd {
    /// The stream ended or broke.
    Stream(Option<io::Error>),
    Broken(Broken),
}

impl Process {
    /// Starts a process and greets it; its first reply says whether it is fit.
    pub(crate) fn start(config: &PythonConfig, objects: &[HostedObject]) -> io::Result<Process> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let activity = activity::create()?;
        let interpreter = interpreter(config.interpreter.as_deref());
        let mut command = Command::new(&interpreter);
        command
            .args(["-m", "quorate._host"])
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::from(activity.try_clone()?))
            .env("PYTHONHASHSEED", hash_seed(config.seed).to_string())
            .env("TZ", "UTC")
            .env("LC_ALL", "C.UTF-8")
            .env("QUORATE_HOST_PARENT", std::process::id().to_string());
        if let Some(bytes) = config.memory_bytes_max {
            command.env("QUORATE_HOST_MEMORY", bytes.to_string());
        }
        let child = command.spawn().map_err(|error| {
            let message = format!(
                "{} cannot be run: {error}; name another with --python or QUORATE_PYTHON",
                interpreter.display()
            );
            io::Error::new(error.kind(), message)
        })?;
        let mut process = Process {
            child,
            stream: mio::net::UnixStream::from_std(ours),
            activity,
            outbox: Vec::new(),
            written: 0,
            inbox: Vec::new(),
            taken: 0,
        };
        put_hello(
            &mut process.outbox,
            objects,
            &config.paths,
            config.seed,
            config.with_snapshots,
        );
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

    /// Reads until nothing more is there, giving each reply to `handle`.
    pub(crate) fn read(&mut self, handle: &mut dyn FnMut(Reply)) -> Result<(), ProcessEnd> {
        loop {
            let length = self.inbox.len();
            self.inbox.resize(length + READ_BYTES, 0);
            let got = self.stream.read(&mut self.inbox[length..]);
            self.inbox
                .truncate(length + got.as_ref().map_or(0, |got| *got));
            match got {
                Ok(0) => return Err(ProcessEnd::Stream(None)),
                Ok(_) => self.take_replies(handle)?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(ProcessEnd::Stream(Some(error))),
            }
        }
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

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it for certain, and says how it ended.
    pub(crate) fn kill(&mut self) -> String {
        // It may have ended by itself; then its own status is reported.
        let _ = self.child.kill();
        match self.child.wait() {
            Ok(status) => status.to_string(),
            Err(error) => format!("unknown: {error}"),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
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
pub(crate) fn await_ready(process: &mut Process) -> Result<(), HostError> {
    let until = Instant::now() + START_PATIENCE;
    let mut poll = mio::Poll::new()?;
    poll.registry().register(
        &mut process.stream,
        Token(0),
        Interest::READABLE | Interest::WRITABLE,
    )?;
    let mut ready = mio::Events::with_capacity(4);
    let ended = |process: &mut Process, ended: ProcessEnd| {
        let status = process.kill();
        HostError::Ended(format!("{status}, {ended:?}"))
    };
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(HostError::Ended("no answer in time".to_owned()));
        }
        process.write().map_err(|e| ended(process, e))?;
        let mut reply = None;
        process
            .read(&mut |first| reply = Some(first))
            .map_err(|e| ended(process, e))?;
        match reply {
            Some(Reply::Ready) => break,
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
    }
    poll.registry().deregister(&mut process.stream)?;
    Ok(())
}
