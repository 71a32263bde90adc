//! What the node drives: calls, queries, snapshots and restores go in, [`HostEvent`]s come out.
//!
//! Work is done in the order in which it is handed in. Nothing here blocks: Rust objects execute at
//! once, Python objects in a process of their own. The host refuses nothing that the log decided: while
//! the process is down, work waits for its return.

use crate::in_process::InProcess;
use crate::other_process::OtherProcess;
use crate::outcomes;
use bytes::Bytes;
use mio::{Poll, Token, Waker};
use quorate_ordering::ReadId;
use quorate_types::{Call, ObjectId, Outcome, Slot, Stamp};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One object as it was created.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectSpec {
    /// Its number in the group.
    pub id: ObjectId,
    /// Its name for people.
    pub name: String,
    /// `rust:counter`, `rust:register`, `rust:kv`, or `module:Class` for Python.
    pub class: String,
    /// `[args, kwargs]` of its constructor as the wire encodes values; empty when there are none.
    pub arguments: Bytes,
}

impl ObjectSpec {
    /// Whether the object is one of the built-ins.
    #[must_use]
    pub fn is_rust(&self) -> bool {
        self.class.starts_with("rust:")
    }

    pub(crate) fn builtin(&self) -> &str {
        self.class.strip_prefix("rust:").unwrap_or(&self.class)
    }
}

/// The encoded state of one object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectImage {
    /// Whose.
    pub object: ObjectId,
    /// Its state; equal states have equal images.
    pub image: Bytes,
}

/// What the host has to tell.
#[derive(Clone, PartialEq, Debug)]
pub enum HostEvent {
    /// The calls of `slot` were executed; slots come in the order in which they were handed in.
    Executed {
        /// Which slot.
        slot: Slot,
        /// One outcome per call.
        outcomes: Vec<Outcome>,
    },
    /// A query was answered.
    Queried {
        /// Which.
        read: ReadId,
        /// What it returned or raised.
        outcome: Outcome,
    },
    /// The state frozen at `slot` is encoded.
    Imaged {
        /// Which slot.
        slot: Slot,
        /// One image per object, ascending by object.
        images: Vec<ObjectImage>,
        /// blake3 over all images: equal on replicas whose objects are equal by value.
        digest: [u8; 32],
    },
    /// The state at `slot` could not be frozen or encoded; calls go on.
    ImageFailed {
        /// Which slot.
        slot: Slot,
        /// Why, with the path of the value that cannot be encoded if that is the reason.
        reason: String,
    },
    /// The objects hold the state of the images.
    Restored {
        /// The slot of the images.
        slot: Slot,
    },
    /// The images could not be restored; the objects are as they were before.
    RestoreFailed {
        /// The slot of the images.
        slot: Slot,
        /// Why.
        reason: String,
    },
    /// The host process works (again).
    Up,
    /// The host process stopped; it is started again unless `is_final`.
    Down {
        /// What happened to it.
        reason: String,
        /// The call that it was executing, if any.
        culprit: Option<Culprit>,
        /// It died at one call again and again and is not started any more. Nothing is skipped: only a
        /// decision of the group may do that.
        is_final: bool,
    },
    /// A call has not returned for a while; the host waits on, or kills the process after
    /// `call_timeout` if one was set.
    Hanging {
        /// Which call.
        culprit: Culprit,
        /// For how long.
        since: Duration,
    },
}

/// The call that the host process was executing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Culprit {
    /// Its slot; `None` for a query.
    pub slot: Option<Slot>,
    /// Its index in the batch.
    pub index: u32,
    /// The object called.
    pub object: ObjectId,
    /// The method called.
    pub method: String,
}

/// Everything that a host needs to know to start.
#[derive(Clone, Debug, Default)]
pub struct HostConfig {
    /// The objects, ascending by id; all Rust or all Python.
    pub objects: Vec<ObjectSpec>,
    /// How Python objects are run; of no meaning to Rust objects.
    pub python: PythonConfig,
}

/// How the process of Python objects is run.
#[derive(Clone, Debug)]
pub struct PythonConfig {
    /// The interpreter; `None` for QUORATE_PYTHON, else `python3` beside this program, else on PATH.
    pub interpreter: Option<PathBuf>,
    /// Directories in which modules are found, before all others.
    pub paths: Vec<PathBuf>,
    /// An existing directory for images on their way.
    pub scratch: PathBuf,
    /// The same on all replicas of the group, and secret to clients: order of sets, randomness of
    /// constructors. Draw it from the cluster's id and the group.
    pub seed: u64,
    /// Whether the state is encoded at all; tested when the objects are made.
    pub with_snapshots: bool,
    /// A call that runs longer has its process killed; it is never answered for.
    pub call_timeout: Option<Duration>,
    /// Address space that the process may use.
    pub memory_bytes_max: Option<u64>,
}

impl Default for PythonConfig {
    fn default() -> PythonConfig {
        PythonConfig {
            interpreter: None,
            paths: Vec::new(),
            scratch: std::env::temp_dir(),
            seed: 1,
            with_snapshots: true,
            call_timeout: None,
            memory_bytes_max: None,
        }
    }
}

/// Why a host cannot be made or started.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// An object cannot be made: mend the class path or the arguments.
    #[error("object {name}: {reason}")]
    Object {
        /// Its name.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// Rust and Python objects share a group: give each kind its own group.
    #[error("a group holds Rust objects or Python objects, not both: {0} and {1}")]
    Mixed(String, String),
    /// The host process ended, or was of no use, before it could serve.
    #[error("the host process cannot serve: {0}")]
    Ended(String),
    /// The operating system refused a thread, a process or a descriptor.
    #[error("the host cannot be started: {0}")]
    System(#[from] io::Error),
}

/// The objects of one group at one node.
pub struct Host {
    objects: Objects,
    poll: Poll,
    ready: mio::Events,
}

enum Objects {
    InProcess(InProcess),
    OtherProcess(Box<OtherProcess>),
}

const WAKER: Token = Token(0);
const PROCESS: Token = Token(1);

impl Host {
    /// Makes the objects and starts what they need. Waits until a host process has made its objects.
    ///
    /// # Errors
    /// When an object cannot be made, or the system refuses.
    pub fn open(config: HostConfig) -> Result<Host, HostError> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let (rust, python): (Vec<_>, Vec<_>) =
            config.objects.into_iter().partition(ObjectSpec::is_rust);
        let objects = match (rust.first(), python.first()) {
            (Some(rust), Some(python)) => {
                return Err(HostError::Mixed(rust.name.clone(), python.name.clone()));
            }
            (_, None) => Objects::InProcess(InProcess::open(rust, waker)?),
            (None, Some(_)) => {
                let registry = poll.registry().try_clone()?;
                let host = OtherProcess::open(config.python, python, registry, PROCESS, waker)?;
                Objects::OtherProcess(Box::new(host))
            }
        };
        let ready = mio::Events::with_capacity(4);
        Ok(Host {
            objects,
            poll,
            ready,
        })
    }

    /// Executes `calls` after everything handed in before.
    pub fn execute(&mut self, slot: Slot, stamp: Stamp, calls: Vec<Call>) {
        match &mut self.objects {
            Objects::InProcess(objects) => objects.execute(slot, stamp, calls),
            Objects::OtherProcess(objects) => objects.execute(slot, stamp, calls),
        }
    }

    /// The group skips a call: unless its outcome was told already, it is not executed and its outcome is
    /// [`Outcome::Skipped`]. A host that stayed down for this call starts again.
    pub fn skip(&mut self, slot: Slot, index: u32) {
        match &mut self.objects {
            Objects::InProcess(objects) => objects.skip(slot, index),
            Objects::OtherProcess(objects) => objects.skip(slot, index),
        }
    }

    /// Answers a call that changes nothing, after everything handed in before.
    pub fn query(&mut self, read: ReadId, object: ObjectId, payload: Bytes) {
        match &mut self.objects {
            Objects::InProcess(objects) => objects.query(read, object, payload),
            Objects::OtherProcess(objects) => objects.query(read, object, payload),
        }
    }

    /// Freezes the state after everything handed in before; its images follow as an event.
    pub fn take_snapshot(&mut self, slot: Slot) {
        match &mut self.objects {
            Objects::InProcess(objects) => objects.take_snapshot(slot),
            Objects::OtherProcess(objects) => objects.take_snapshot(slot),
        }
    }

    /// Gives the objects the state of `images`, in place of everything handed in before.
    pub fn restore(&mut self, slot: Slot, images: Vec<ObjectImage>) {
        match &mut self.objects {
            Objects::InProcess(objects) => objects.restore(slot, images),
            Objects::OtherProcess(objects) => objects.restore(slot, images),
        }
    }

    /// Sends what was handed in to where it is executed. Call once per turn, after the outputs.
    pub fn flush(&mut self) {
        match &mut self.objects {
            Objects::InProcess(_) => {}
            Objects::OtherProcess(objects) => objects.flush(),
        }
    }

    /// Moves what happened into `events`. Call when [`Host::fd`] is readable, when
    /// [`Host::next_wake`] has come, and after handing in work.
    pub fn poll(&mut self, events: &mut Vec<HostEvent>) {
        let before = events.len();
        match &mut self.objects {
            Objects::InProcess(objects) => {
                if objects.is_waiting_for_thread() {
                    // An interrupted poll is repeated by the next turn.
                    let _ = self.poll.poll(&mut self.ready, Some(Duration::ZERO));
                }
                objects.poll(events);
            }
            Objects::OtherProcess(objects) => {
                self.ready.clear();
                let _ = self.poll.poll(&mut self.ready, Some(Duration::ZERO));
                let is_readable = self.ready.iter().any(|event| event.token() == PROCESS);
                objects.poll(is_readable, events);
            }
        }
        events[before..].iter_mut().for_each(outcomes::fit);
    }

    /// The descriptor to watch for reading; the same for the host's whole life.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.poll.as_raw_fd()
    }

    /// When [`Host::poll`] must be called at the latest.
    #[must_use]
    pub fn next_wake(&self) -> Option<Instant> {
        match &self.objects {
            Objects::InProcess(_) => None,
            Objects::OtherProcess(objects) => objects.next_wake(),
        }
    }

    /// The host process that runs at present, if objects run in one.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        match &self.objects {
            Objects::InProcess(_) => None,
            Objects::OtherProcess(objects) => objects.process_id(),
        }
    }
}

/// Makes the objects once, tests their state, and lets them go: a wrong class path, constructor argument
/// or state is told before a group is formed.
///
/// # Errors
/// As [`Host::open`].
pub fn check(config: HostConfig) -> Result<(), HostError> {
    Host::open(config).map(drop)
}
