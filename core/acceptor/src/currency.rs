//! Since when a node knows that what it holds was all that anybody knew to be decided.
//!
//! No clocks are compared. A leader says what was decided when it sent a heartbeat, once a quorum has heard that
//! heartbeat: nobody can have decided more before it was sent. A follower dates the leader's word by its
//! own last answer that the leader had received by then, so the time on the way counts toward the age.

use crate::limits::{ANSWERS, BEATS};
use quorate_ordering::{Effect, Effects};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{NodeId, Slot, Time};
use std::collections::VecDeque;

/// When the leader had received the answers in `heard`, nobody knew a slot above `decided` to be decided:
/// a quorum heard a heartbeat that was sent after that.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Current {
    /// The highest slot that could be decided at that time, as far as the leader knew.
    pub decided: Slot,
    /// For each node that had answered, the highest number of an answer that had come from it.
    pub heard: Vec<(NodeId, u64)>,
}

/// A heartbeat that a leader sent.
#[derive(Clone, PartialEq, Debug)]
struct Beat {
    number: u64,
    sent_at: Time,
    /// What could be decided when it was sent; `None` before everything that phase 1 found was decided.
    held: Option<Current>,
}

/// The recent heartbeats of a leader.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Beats {
    sent: VecDeque<Beat>,
    last: u64,
    /// The newest one that a quorum heard.
    confirmed: u64,
    current: Option<Current>,
}

impl Beats {
    /// Numbers the next heartbeat.
    pub fn send(&mut self, now: Time, held: Option<Current>) -> u64 {
        self.last += 1;
        if self.sent.len() == BEATS {
            self.sent.pop_front();
        }
        self.sent.push_back(Beat {
            number: self.last,
            sent_at: now,
            held,
        });
        self.last
    }

    /// When heartbeat `number` was sent.
    #[must_use]
    pub fn sent_at(&self, number: u64) -> Option<Time> {
        self.find(number).map(|beat| beat.sent_at)
    }

    fn find(&self, number: u64) -> Option<&Beat> {
        let found = self.sent.binary_search_by_key(&number, |beat| beat.number);
        found.ok().map(|index| &self.sent[index])
    }

    /// The newest state that a quorum has confirmed.
    #[must_use]
    pub fn current(&self) -> Option<Box<Current>> {
        self.current.clone().map(Box::new)
    }

    /// Looks whether `needed` acceptors beside the leader have heard another heartbeat, given the newest that each has `heard`. Returns what
    /// was decided when it was sent, and when that was. Where slots are decided without the leader, that may be all in which
    /// somebody `voted` meanwhile.
    pub fn confirm(
        &mut self,
        mut heard: Vec<u64>,
        needed: usize,
        voted: Slot,
    ) -> Option<(Slot, Time)> {
        heard.sort_unstable_by(|a, b| b.cmp(a));
        let number = match needed.checked_sub(1) {
            None => self.last,
            Some(index) => heard.get(index).copied().unwrap_or_default(),
        };
        if number <= self.confirmed {
            return None;
        }
        self.confirmed = number;
        let (held, sent_at) = self
            .find(number)
            .and_then(|beat| Some((beat.held.clone()?, beat.sent_at)))?;
        let decided = held.decided.max(voted);
        self.current = Some(Current { decided, ..held });
        Some((decided, sent_at))
    }
}

/// The answers to heartbeats that a node gave.
#[derive(Clone, PartialEq, Debug)]
pub struct Answers {
    last: u64,
    /// Invariant: numbers rise.
    given: VecDeque<(u64, Time)>,
}

impl Answers {
    /// Numbers rise over restarts because `boot` does: what an earlier life answered is dated by no later one.
    #[must_use]
    pub fn new(boot: u64) -> Answers {
        Answers {
            last: boot << 32,
            given: VecDeque::new(),
        }
    }

    /// Numbers an answer that leaves now.
    pub fn give(&mut self, now: Time) -> u64 {
        self.last += 1;
        if self.given.len() == ANSWERS {
            self.given.pop_front();
        }
        self.given.push_back((self.last, now));
        self.last
    }

    /// A leader told what was all that was decided: tells since when, by the clock of node `own`.
    pub fn told<M>(&mut self, now: Time, own: NodeId, current: &Current, effects: &mut Effects<M>) {
        let slot = current.decided;
        let at = self.date(now, own, current);
        effects.extend(at.map(|at| Effect::Current { slot, at }));
    }

    fn date(&mut self, now: Time, own: NodeId, current: &Current) -> Option<Time> {
        let mut heard = current.heard.iter();
        let number = heard.find_map(|(node, number)| (*node == own).then_some(*number));
        let at = self.given_at(number?)?;
        Some(if planted(Plant::AgeFromReceipt) {
            now
        } else {
            at
        })
    }

    /// When answer `number` left. Older ones are forgotten: a leader names later ones from then on.
    fn given_at(&mut self, number: u64) -> Option<Time> {
        while self.given.front().is_some_and(|(given, _)| *given < number) {
            self.given.pop_front();
        }
        let (given, at) = self.given.front()?;
        (*given == number).then_some(*at)
    }
}
