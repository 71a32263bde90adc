//! Places for connections that all transports of a process share: a process without a free descriptor cannot even write its log.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many connections a process has, and may have. Copies are of one account.
#[derive(Clone, Debug)]
pub struct Places(Arc<Account>);

#[derive(Debug)]
struct Account {
    taken: AtomicUsize,
    most: AtomicUsize,
}

impl Places {
    /// Room for `most` connections.
    #[must_use]
    pub fn new(most: usize) -> Places {
        Places(Arc::new(Account {
            taken: AtomicUsize::new(0),
            most: AtomicUsize::new(most),
        }))
    }

    /// The process may have so many from now on. Those above stay until they end.
    pub fn limit(&self, most: usize) {
        self.0.most.store(most, Ordering::Relaxed);
    }

    /// Whether none is free. Threads that ask at once may go a few above: descriptors are kept back for more than that.
    pub(crate) fn is_full(&self) -> bool {
        self.0.taken.load(Ordering::Relaxed) >= self.0.most.load(Ordering::Relaxed)
    }

    pub(crate) fn take(&self) {
        self.0.taken.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn give_back(&self, count: usize) {
        self.0.taken.fetch_sub(count, Ordering::Relaxed);
    }
}
