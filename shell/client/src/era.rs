//! What a process has once for all of its clients. A process that is forked off has it anew: it has none of its parent's threads, and may
//! find their locks held.

use crate::poller::Poller;
use crate::resolving::Lookups;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

/// Counts forks: what was opened before this process was forked off belongs to its parent.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The time between two forks.
pub(crate) struct Era {
    pub(crate) poller: OnceLock<Poller>,
    /// Held while the poller starts.
    pub(crate) starting: Mutex<()>,
    pub(crate) lookups: Mutex<Lookups>,
    next: OnceLock<Box<Era>>,
}

static FIRST: Era = Era::new();

/// This process was forked off: the clients of its parent are not its own, and stay as they are.
pub fn after_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// How many forks lie between the first process and this one.
pub(crate) fn era() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

impl Era {
    const fn new() -> Era {
        Era {
            poller: OnceLock::new(),
            starting: Mutex::new(()),
            lookups: Mutex::new(Lookups::new()),
            next: OnceLock::new(),
        }
    }

    /// That of this process.
    pub(crate) fn current() -> &'static Era {
        let mut current = &FIRST;
        for _ in 0..era() {
            current = current.next.get_or_init(|| Box::new(Era::new()));
        }
        current
    }
}
