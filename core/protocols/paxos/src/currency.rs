//! Since when a node knows that what it holds was all that any leader knew to be decided.
//!
//! No clocks are compared. A leader says what was decided when it sent a heartbeat, once a quorum has heard that
//! heartbeat: no other leader can have decided more before it was sent. A follower dates the leader's word by its
//! own last answer that the leader had received by then, so the time on the way counts toward the age.

use crate::Seat;
use crate::limits::{ANSWERS, BEATS};
use crate::message::{Current, Message};
use crate::policies::VotesTold;
use quorate_ordering::{Effect, Effects};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Slot, Time};
use std::collections::VecDeque;

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
pub(crate) struct Beats {
    sent: VecDeque<Beat>,
    last: u64,
    /// The newest one that a quorum heard.
    confirmed: u64,
    current: Option<Current>,
}

impl Beats {
    /// Numbers the next heartbeat.
    pub(crate) fn send(&mut self, now: Time, held: Option<Current>) -> u64 {
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
    pub(crate) fn sent_at(&self, number: u64) -> Option<Time> {
        self.find(number).map(|beat| beat.sent_at)
    }

    fn find(&self, number: u64) -> Option<&Beat> {
        let found = self.sent.binary_search_by_key(&number, |beat| beat.number);
        found.ok().map(|index| &self.sent[index])
    }

    /// The newest state that a quorum has confirmed.
    pub(crate) fn current(&self) -> Option<Box<Current>> {
        self.current.clone().map(Box::new)
    }

    /// Takes note that a quorum has heard heartbeat `number`. Returns what was decided when it was sent, and when
    /// that was.
    fn confirm(&mut self, number: u64) -> Option<(Slot, Time)> {
        if number <= self.confirmed {
            return None;
        }
        self.confirmed = number;
        let (held, sent_at) = self
            .find(number)
            .and_then(|beat| Some((beat.held.clone()?, beat.sent_at)))?;
        let decided = held.decided;
        self.current = Some(held);
        Some((decided, sent_at))
    }

    /// Looks whether a quorum has heard another heartbeat.
    pub(crate) fn count(&mut self, seat: &Seat, effects: &mut Effects<Message>) {
        let needed = seat.config.view.quorums.confirm() - 1;
        let mut heard: Vec<u64> = (seat.peers.iter())
            .filter(|peer| peer.is_acceptor)
            .map(|peer| peer.beat)
            .collect();
        heard.sort_unstable_by(|a, b| b.cmp(a));
        let number = match needed.checked_sub(1) {
            None => self.last,
            Some(index) => heard.get(index).copied().unwrap_or_default(),
        };
        if let Some((slot, at)) = self.confirm(number) {
            effects.push(Effect::Current { slot, at });
        }
    }
}

/// The answers to heartbeats that this node gave.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Answers {
    last: u64,
    /// Invariant: numbers rise.
    given: VecDeque<(u64, Time)>,
}

impl Answers {
    /// Numbers rise over restarts because `boot` does: what an earlier life answered is dated by no later one.
    pub(crate) fn new(boot: u64) -> Answers {
        Answers {
            last: boot << 32,
            given: VecDeque::new(),
        }
    }

    /// Numbers an answer that leaves now.
    pub(crate) fn give(&mut self, now: Time) -> u64 {
        self.last += 1;
        if self.given.len() == ANSWERS {
            self.given.pop_front();
        }
        self.given.push_back((self.last, now));
        self.last
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

impl Seat {
    /// A leader said since when what it told was all that was decided.
    pub(crate) fn told_current(
        &mut self,
        now: Time,
        current: &Current,
        effects: &mut Effects<Message>,
    ) {
        let own = self.config.own;
        let mut heard = current.heard.iter();
        let number = heard.find_map(|(node, number)| (*node == own).then_some(*number));
        let Some(at) = number.and_then(|number| self.answers.given_at(number)) else {
            return;
        };
        let at = if planted(Plant::AgeFromReceipt) {
            now
        } else {
            at
        };
        let slot = current.decided;
        effects.push(Effect::Current { slot, at });
    }

    /// What can be decided by now where a leader has proposed up to `proposed`, and for each peer the highest number of its answers that
    /// arrived here. Where acceptors tell all, others may know a slot to be decided before the leader does. Claim mp-60.
    pub(crate) fn held_now(&self, proposed: Slot) -> Current {
        let answered = self.peers.iter().filter(|peer| peer.answer > 0);
        Current {
            decided: match self.policies.votes_told {
                VotesTold::ToLeader => self.acceptor.log.decided(),
                VotesTold::ToAll if planted(Plant::AgeByLeaderOnly) => self.acceptor.log.decided(),
                VotesTold::ToAll => proposed,
            },
            heard: answered.map(|peer| (peer.node, peer.answer)).collect(),
        }
    }
}
