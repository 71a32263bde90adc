//! What all transports of a process share: places for connections, because a process without a free descriptor cannot even write its
//! log, and the memory of clients' buffers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many connections a process has, and may have. Copies are of one account.
#[derive(Clone, Debug)]
pub struct Places(Arc<Account>);

#[derive(Debug)]
struct Account {
    taken: AtomicUsize,
    most: AtomicUsize,
    /// Transports that share it.
    transports: AtomicUsize,
    /// Bytes that their strangers and clients hold.
    held: AtomicUsize,
}

impl Places {
    /// Room for `most` connections.
    #[must_use]
    pub fn new(most: usize) -> Places {
        Places(Arc::new(Account {
            taken: AtomicUsize::new(0),
            most: AtomicUsize::new(most),
            transports: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
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

    /// One more transport shares it.
    pub(crate) fn join(&self) {
        self.0.transports.fetch_add(1, Ordering::Relaxed);
    }

    /// A transport ends, with so many connections and bytes.
    pub(crate) fn leave(&self, connections: usize, held: usize) {
        self.give_back(connections);
        self.hold(held, 0);
        self.0.transports.fetch_sub(1, Ordering::Relaxed);
    }

    /// A transport holds `after` bytes in the place of `before`.
    pub(crate) fn hold(&self, before: usize, after: usize) {
        self.0.held.fetch_add(after, Ordering::Relaxed);
        self.0.held.fetch_sub(before, Ordering::Relaxed);
    }

    /// Whether a transport that holds `own` bytes is to give some up: all hold more than `most`, and it no less than the average.
    /// So the one that holds most always is, and one that holds little never for the others.
    pub(crate) fn is_heavy(&self, own: usize, most: usize) -> bool {
        let held = self.0.held.load(Ordering::Relaxed);
        let transports = self.0.transports.load(Ordering::Relaxed);
        held > most && own.saturating_mul(transports) >= held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transport_that_holds_most_gives_up_and_one_that_holds_little_does_not() {
        let places = Places::new(1);
        let held = [100, 20, 20];
        for bytes in held {
            places.join();
            places.hold(0, bytes);
        }
        let heavy = |most| held.map(|own| places.is_heavy(own, most));
        assert_eq!(heavy(139), [true, false, false]);
        assert_eq!(heavy(140), [false; 3]);
        places.leave(0, 100);
        assert!(places.is_heavy(20, 39), "both hold as much");
    }
}
