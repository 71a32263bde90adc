//! Tells threads whether their client's session lives: the newest state and a count of changes, never a queue of them.

use crate::driver::boot_time;
use crate::driving::{Core, SharedDriver};
use quorate_session::{SessionLife, SessionState};
use quorate_types::Time;
use std::sync::PoisonError;
use std::time::Duration;

/// What a client may count on at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionNews {
    /// Whether its session lives.
    pub life: SessionLife,
    /// Changes so far that something heard has caused, and times that waiting threads were stirred.
    pub count: u64,
}

/// What waiting threads were told last.
#[derive(Default)]
pub(crate) struct Announced {
    newest: Option<(SessionState, u64)>,
    /// When the state was to change if nothing was heard.
    changes_at: Option<Time>,
    count: u64,
}

impl SharedDriver {
    pub(crate) fn news(&self) -> Option<SessionNews> {
        let core = self.core();
        (!core.is_closed).then(|| core.newest())
    }

    pub(crate) fn await_news(&self, known: SessionNews, slice: Duration) -> Option<SessionNews> {
        let core = self.core();
        if core.is_closed {
            return None;
        }
        let found = core.newest();
        if found.count != known.count || found.life.state != known.life.state {
            return Some(found);
        }
        // A state that ends by the clock is told by nobody.
        let left = found.life.changes_at.map(|at| at.since(boot_time()));
        let patience = left.map_or(slice, |left| slice.min(Duration::from_nanos(left.0)));
        let (core, _) = self
            .changed
            .wait_timeout(core, patience)
            .unwrap_or_else(PoisonError::into_inner);
        (!core.is_closed).then(|| core.newest())
    }

    pub(crate) fn stir(&self) {
        self.core().news.count += 1;
        self.changed.notify_all();
    }

    /// Wakes those who wait where the state has changed.
    pub(crate) fn note_life(&self, core: &mut Core) {
        let life = core.driver.session_life();
        let told = Some((life.state, life.ended));
        // Where the state may change earlier than was told, they wait for less.
        let is_earlier = life.changes_at < core.news.changes_at;
        core.news.changes_at = life.changes_at;
        if core.news.newest != told || is_earlier {
            core.news.newest = told;
            core.news.count += 1;
            self.changed.notify_all();
        }
    }
}

impl Core {
    fn newest(&self) -> SessionNews {
        SessionNews {
            life: self.driver.session_life(),
            count: self.news.count,
        }
    }
}
