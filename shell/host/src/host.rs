//! The host of a group's objects: calls, queries, snapshots and restores go in, [`HostEvent`]s come out.
//!
//! Work is done in the order in which it is handed in. Nothing here blocks: Rust objects execute on
//! the caller's thread, Python objects in a separate process. The host refuses nothing that the log decided: while the process
//! is down, work waits until it is back.

use crate::config::{HostConfig, HostedObject};
use crate::error::HostError;
use crate::event::{HostEvent, StuckCall};
use crate::image::ObjectImage;
use crate::in_process::InProcess;
use crate::no_objects::NoObjects;
use crate::other_process::OtherProcess;
use bytes::Bytes;
use mio::{Poll, Token, Waker};
use quorate_ordering::ReadId;
use quorate_types::{ObjectId, Slot, SlotSteps, Stamp};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The objects of one group at one node.
pub struct Host {
    objects: Objects,
    poll: Poll,
    ready: mio::Events,
}

enum Objects {
    InProcess(Box<InProcess>),
    OtherProcess(Box<OtherProcess>),
    None(NoObjects),
}

/// The core hands no work to a node without objects.
const NOTHING_EXECUTES: &str = "a witness executes nothing";

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
            config.objects.into_iter().partition(HostedObject::is_rust);
        let objects = match (rust.first(), python.first()) {
            (Some(rust), Some(python)) => {
                return Err(HostError::Mixed(rust.name.clone(), python.name.clone()));
            }
            (_, None) => Objects::InProcess(Box::new(InProcess::open(rust, waker)?)),
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

    /// The host of a witness, which has no objects.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn without_objects() -> Result<Host, HostError> {
        Ok(Host {
            objects: Objects::None(NoObjects::default()),
            poll: Poll::new()?,
            ready: mio::Events::with_capacity(4),
        })
    }

    /// Executes `steps` after everything handed in before.
    pub fn execute(&mut self, slot: Slot, stamp: Stamp, steps: impl Into<SlotSteps>) {
        let steps = steps.into();
        match &mut self.objects {
            Objects::InProcess(objects) => objects.execute(slot, stamp, steps),
            Objects::OtherProcess(objects) => objects.execute(slot, stamp, steps),
            Objects::None(_) => unreachable!("{NOTHING_EXECUTES}"),
        }
    }

    /// Executes `steps`, of a slot that is not decided, like [`Host::execute`]. [`Host::confirm`] or [`Host::undo`] follows.
    pub fn speculate(&mut self, slot: Slot, stamp: Stamp, steps: impl Into<SlotSteps>) {
        let steps = steps.into();
        match &mut self.objects {
            Objects::InProcess(objects) => objects.speculate(slot, stamp, steps),
            Objects::OtherProcess(objects) => objects.speculate(slot, stamp, steps),
            Objects::None(_) => unreachable!("{NOTHING_EXECUTES}"),
        }
    }

    /// Everything up to `slot` is decided as it was handed in.
    pub fn confirm(&mut self, slot: Slot) {
        match &mut self.objects {
            Objects::InProcess(objects) => objects.confirm(slot),
            Objects::OtherProcess(objects) => objects.confirm(slot),
            Objects::None(_) => unreachable!("{NOTHING_EXECUTES}"),
        }
    }

    /// Gives the objects the state back that they had after `after`, as if later slots had never been handed in;
    /// [`HostEvent::Undone`] follows what was told of them.
    pub fn undo(&mut self, after: Slot) {
        match &mut self.objects {
            Objects::InProcess(objects) => objects.undo(after),
            Objects::OtherProcess(objects) => objects.undo(after),
            Objects::None(_) => unreachable!("{NOTHING_EXECUTES}"),
        }
    }

    /// The group skips a call: unless its outcome was told already, it is not executed and its outcome is
    /// [`Outcome::Skipped`]. A host that stayed down for this call starts again.
    pub fn skip(&mut self, slot: Slot, index: u32) {
        match &mut self.objects {
            Objects::InProcess(objects) => objects.skip(slot, index),
            Objects::OtherProcess(objects) => objects.skip(slot, index),
            Objects::None(_) => {}
        }
    }

    /// Answers a call that changes nothing, after everything handed in before.
    pub fn query(&mut self, read: ReadId, object: ObjectId, payload: Bytes) {
        match &mut self.objects {
            Objects::InProcess(objects) => objects.query(read, object, payload),
            Objects::OtherProcess(objects) => objects.query(read, object, payload),
            Objects::None(_) => unreachable!("{NOTHING_EXECUTES}"),
        }
    }

    /// Freezes the state after everything handed in before; its images follow as an event.
    pub fn take_snapshot(&mut self, slot: Slot) {
        match &mut self.objects {
            Objects::InProcess(objects) => objects.take_snapshot(slot),
            Objects::OtherProcess(objects) => objects.take_snapshot(slot),
            Objects::None(_) => unreachable!("{NOTHING_EXECUTES}"),
        }
    }

    /// Has Rust objects encode the state that was frozen at `slot`: large states are encoded by one replica after another.
    pub fn encode(&mut self, slot: Slot) {
        match &mut self.objects {
            Objects::InProcess(objects) => objects.encode(slot),
            // The process that was forked off has begun.
            Objects::OtherProcess(_) => {}
            Objects::None(_) => unreachable!("{NOTHING_EXECUTES}"),
        }
    }

    /// Gives the objects the state of `images`, in place of everything handed in before.
    pub fn restore(&mut self, slot: Slot, images: Vec<ObjectImage>) {
        match &mut self.objects {
            Objects::InProcess(objects) => objects.restore(slot, images),
            Objects::OtherProcess(objects) => objects.restore(slot, images),
            Objects::None(objects) => objects.restore(slot),
        }
    }

    /// Has what was handed in executed: Rust objects do it before this returns, or what a few milliseconds are enough for; see
    /// [`Host::is_behind`]. Call after handing in work, and after sending what does not depend on it.
    pub fn flush(&mut self) {
        match &mut self.objects {
            Objects::InProcess(objects) => objects.flush(),
            Objects::OtherProcess(objects) => objects.flush(),
            Objects::None(_) => {}
        }
    }

    /// Moves what happened into `events`. Call when [`Host::fd`] is readable, when
    /// [`Host::next_wake`] has come, and after handing in work.
    pub fn poll(&mut self, events: &mut Vec<HostEvent>) {
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
            Objects::None(objects) => objects.poll(events),
        }
    }

    /// The descriptor to watch for reading; the same for the host's whole life.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.poll.as_raw_fd()
    }

    /// Whether the objects may print: a start repeats nothing that an earlier one printed.
    #[must_use]
    pub fn prints(&self) -> bool {
        match &self.objects {
            Objects::InProcess(_) | Objects::None(_) => false,
            Objects::OtherProcess(_) => true,
        }
    }

    /// Whether objects have asked for something that is to be done outside of them.
    #[must_use]
    pub fn is_outside(&self) -> bool {
        match &self.objects {
            Objects::InProcess(_) | Objects::None(_) => false,
            Objects::OtherProcess(objects) => objects.is_outside,
        }
    }

    /// How long Rust objects execute in one [`Host::flush`], for tests of what happens between two: with none at all it is one slot
    /// or one read.
    pub fn executes_for(&mut self, span: Duration) {
        match &mut self.objects {
            Objects::InProcess(objects) => objects.executes_for = span,
            Objects::OtherProcess(_) | Objects::None(_) => {}
        }
    }

    /// Whether the last [`Host::flush`] left work for the next one.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        match &self.objects {
            Objects::InProcess(objects) => objects.is_behind(),
            Objects::OtherProcess(_) | Objects::None(_) => false,
        }
    }

    /// When [`Host::flush`] and [`Host::poll`] must be called at the latest.
    #[must_use]
    pub fn next_wake(&self) -> Option<Instant> {
        match &self.objects {
            Objects::InProcess(objects) => objects.is_behind().then(Instant::now),
            Objects::None(_) => None,
            Objects::OtherProcess(objects) => objects.next_wake(),
        }
    }

    /// The call that keeps the objects from going on, if one does.
    #[must_use]
    pub fn stuck(&self) -> Option<StuckCall> {
        match &self.objects {
            Objects::InProcess(_) | Objects::None(_) => None,
            Objects::OtherProcess(objects) => objects.stuck(),
        }
    }

    /// How the host process is confined, if objects run in one: `full`, `off`, or `partial:` and what is missing.
    #[must_use]
    pub fn confinement(&self) -> Option<&str> {
        match &self.objects {
            Objects::InProcess(_) | Objects::None(_) => None,
            Objects::OtherProcess(objects) => Some(objects.confinement()),
        }
    }

    /// The interpreter, packages and sources of the host process as JSON text, if objects run in one.
    #[must_use]
    pub fn fingerprint(&self) -> Option<&str> {
        match &self.objects {
            Objects::InProcess(_) | Objects::None(_) => None,
            Objects::OtherProcess(objects) => objects.fingerprint(),
        }
    }

    /// The host process that runs at present, if objects run in one.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        match &self.objects {
            Objects::InProcess(_) | Objects::None(_) => None,
            Objects::OtherProcess(objects) => objects.process_id(),
        }
    }
}

/// Makes the objects once, tests their state, and lets them go: a wrong class path, constructor argument
/// or state is told before a group is formed. Returns the host's fingerprint.
///
/// # Errors
/// As [`Host::open`].
pub fn check(config: HostConfig) -> Result<Option<String>, HostError> {
    Host::open(config).map(|host| host.fingerprint().map(str::to_owned))
}
