//! What the first group's node tells the node of another group, which runs on a thread of its own.

use crate::limits::PASSED_WAITING;
use crate::node::Node;
use mio::Waker;
use quorate_transport::Passed;
use quorate_types::Time;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Shared by the two threads.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    letters: Mutex<Letters>,
    /// Somebody waits for the word to stop.
    stopped: Condvar,
}

#[derive(Debug, Default)]
struct Letters {
    passed: VecDeque<Passed>,
    stop: Option<Stop>,
    waker: Option<Arc<Waker>>,
    state: GroupState,
    /// Why it could not begin the last time, until its loop runs.
    failed: Option<String>,
}

/// Why a group's node has to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// The process does.
    Process,
    /// There is no such group any more.
    Dropped,
}

/// How a group's node is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum GroupState {
    /// It makes or reads its directory.
    #[default]
    Starting,
    /// Its loop runs.
    Running,
    /// It ended, and begins again after a pause.
    Failed(String),
    /// It ended for good: it is no member of the group any more.
    Left,
}

impl Mailbox {
    fn open(&self) -> MutexGuard<'_, Letters> {
        self.letters
            .lock()
            .expect("nobody panics with the mailbox in hand")
    }

    /// Hands over a connection. Gives back, with the reason, the newest of too many, and all where nobody would read them: who sent them
    /// comes again. A client does not wait for what has failed and is tried again.
    pub(crate) fn pass(&self, passed: Passed) -> Option<(Passed, String)> {
        let mut letters = self.open();
        let why = match (&letters.state, &letters.failed) {
            _ if letters.stop.is_some() => "it ends".to_owned(),
            (GroupState::Failed(why), _) => why.clone(),
            (GroupState::Left, _) => "it has left the group".to_owned(),
            (GroupState::Starting, Some(why)) if passed.is_client() => why.clone(),
            (GroupState::Starting | GroupState::Running, _) => {
                if letters.passed.len() < PASSED_WAITING {
                    letters.passed.push_back(passed);
                    letters.wake();
                    return None;
                }
                "too many connections wait for it".to_owned()
            }
        };
        Some((passed, why))
    }

    /// Has the group's node end. A group that was dropped stays so.
    pub(crate) fn stop(&self, why: Stop) {
        let mut letters = self.open();
        if letters.stop != Some(Stop::Dropped) {
            letters.stop = Some(why);
        }
        letters.passed.clear();
        letters.wake();
        self.stopped.notify_all();
    }

    pub(crate) fn stopped(&self) -> Option<Stop> {
        self.open().stop
    }

    /// How the group is served. What has failed stays so while it is tried again, until it runs: that would hide the reason.
    pub(crate) fn state(&self) -> GroupState {
        let letters = self.open();
        match (&letters.state, &letters.failed) {
            (GroupState::Starting, Some(why)) => GroupState::Failed(why.clone()),
            (state, _) => state.clone(),
        }
    }

    pub(crate) fn is_now(&self, state: GroupState) {
        let mut letters = self.open();
        if let GroupState::Failed(_) | GroupState::Left = state {
            letters.passed.clear();
        }
        if let GroupState::Failed(why) = &state {
            letters.failed = Some(why.clone());
        }
        letters.state = state;
    }

    /// Waits for the word to stop; says whether it came within `pause`.
    pub(crate) fn stops_within(&self, pause: Duration) -> bool {
        let waits = |letters: &mut Letters| letters.stop.is_none();
        let waited = self.stopped.wait_timeout_while(self.open(), pause, waits);
        let (letters, _) = waited.expect("nobody panics with the mailbox in hand");
        letters.stop.is_some()
    }

    /// A loop reads it from here on, until the next one does.
    pub(crate) fn read_by(&self, waker: Arc<Waker>) {
        let mut letters = self.open();
        letters.waker = Some(waker);
        letters.state = GroupState::Running;
        letters.failed = None;
    }
}

impl Letters {
    fn wake(&self) {
        // A loop that has ended reads nothing any more.
        if let Some(Err(error)) = self.waker.as_ref().map(|waker| waker.wake()) {
            tracing::warn!(%error, "cannot wake a group's loop");
        }
    }
}

impl Node {
    /// Takes what the first group's node has for this one.
    pub(crate) fn take_letters(&mut self, now: Time) {
        let Some(mailbox) = self.place.mailbox() else {
            return;
        };
        let (passed, stop) = {
            let mut letters = mailbox.open();
            (std::mem::take(&mut letters.passed), letters.stop)
        };
        for passed in passed {
            self.transport.adopt(passed, now);
        }
        if stop.is_some() {
            self.stop(now);
        }
    }
}
