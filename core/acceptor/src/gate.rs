//! Writes to the log, and the answers that must wait until these are durable.
//!
//! An answer goes in with [`Gate::after`] and comes out of [`Gate::take_ready`] when every earlier
//! write is durable. Its content, above all its ballot, is that of the moment when the write was
//! submitted, whatever has happened since. In memory mode nothing is written and every answer is ready
//! at once. Every acceptor owns one.

use quorate_ordering::{Effect, Effects, Entry, Mark, Record};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Persistence, ViewId};
use std::collections::VecDeque;

/// Numbers writes, and holds back answers of type `A` until they may be sent.
#[derive(Clone, PartialEq, Debug)]
pub struct Gate<A> {
    /// The view of all records.
    view: ViewId,
    persistence: Persistence,
    submitted: Mark,
    durable: Mark,
    /// Invariant: marks ascend and lie in `(durable, submitted]`.
    waiting: VecDeque<(Mark, A)>,
    ready: VecDeque<A>,
}

impl<A> Gate<A> {
    /// An open gate; marks begin at 1.
    #[must_use]
    pub fn new(view: ViewId, persistence: Persistence) -> Gate<A> {
        Gate {
            view,
            persistence,
            submitted: Mark(0),
            durable: Mark(0),
            waiting: VecDeque::new(),
            ready: VecDeque::new(),
        }
    }

    /// Submits one record. In memory mode `entry` is never made.
    pub fn write<M>(&mut self, entry: impl FnOnce() -> Entry, effects: &mut Effects<M>) {
        match self.persistence {
            Persistence::Memory => {}
            Persistence::Disk => {
                self.submitted = Mark(self.submitted.0 + 1);
                effects.push(Effect::Persist {
                    mark: self.submitted,
                    record: self.record(entry()),
                });
            }
        }
    }

    /// `entry` as a record of this view.
    #[must_use]
    pub fn record(&self, entry: Entry) -> Record {
        Record {
            view: self.view,
            entry,
        }
    }

    /// The newest write.
    #[must_use]
    pub fn mark(&self) -> Mark {
        self.submitted
    }

    /// Whether the write `mark` is durable.
    #[must_use]
    pub fn is_durable(&self, mark: Mark) -> bool {
        mark <= self.durable
    }

    /// Whether records are written at all.
    #[must_use]
    pub fn is_on_disk(&self) -> bool {
        self.persistence == Persistence::Disk
    }

    /// Holds `answer` back until everything written so far is durable.
    pub fn after(&mut self, answer: A) {
        let is_told_early = planted(Plant::AcknowledgeBeforeSync);
        if self.submitted == self.durable || is_told_early {
            self.ready.push_back(answer);
        } else {
            self.waiting.push_back((self.submitted, answer));
        }
    }

    /// Releases `answer` at once: everything it depends on is durable already.
    pub fn at_once(&mut self, answer: A) {
        self.ready.push_back(answer);
    }

    /// Every write up to `mark` is durable.
    pub fn persisted(&mut self, mark: Mark) {
        assert!(
            mark <= self.submitted,
            "only submitted writes become durable"
        );
        self.durable = self.durable.max(mark);
        while let Some((due, _)) = self.waiting.front() {
            if *due > self.durable {
                break;
            }
            self.ready
                .extend(self.waiting.pop_front().map(|(_, answer)| answer));
        }
    }

    /// The next answer that may be sent.
    pub fn take_ready(&mut self) -> Option<A> {
        self.ready.pop_front()
    }

    /// Panics when an invariant is broken.
    pub fn check(&self) {
        assert!(
            self.durable <= self.submitted,
            "nothing unwritten is durable"
        );
        let mut last = self.durable;
        for (mark, _) in &self.waiting {
            assert!(*mark >= last, "answers wait in the order of their writes");
            assert!(*mark > self.durable, "what is durable does not wait");
            assert!(*mark <= self.submitted, "answers wait for submitted writes");
            last = *mark;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::Ballot;

    fn promise() -> Entry {
        Entry::Promise {
            ballot: Ballot::ZERO,
        }
    }

    #[test]
    fn an_answer_waits_for_the_writes_before_it_and_not_for_later_ones() {
        let mut gate = Gate::new(ViewId::default(), Persistence::Disk);
        let mut effects: Effects<()> = Vec::new();
        gate.write(promise, &mut effects);
        gate.after("first");
        gate.write(promise, &mut effects);
        gate.after("second");
        assert_eq!(gate.take_ready(), None);
        gate.persisted(Mark(1));
        assert_eq!(gate.take_ready(), Some("first"));
        assert_eq!(gate.take_ready(), None);
        gate.persisted(Mark(2));
        assert_eq!(gate.take_ready(), Some("second"));
        assert_eq!(effects.len(), 2);
    }

    #[test]
    fn in_memory_mode_nothing_is_written_and_nothing_waits() {
        let mut gate = Gate::new(ViewId::default(), Persistence::Memory);
        let mut effects: Effects<()> = Vec::new();
        gate.write(|| unreachable!("no record is made"), &mut effects);
        gate.after("answer");
        assert_eq!(gate.take_ready(), Some("answer"));
        assert!(effects.is_empty());
    }
}
