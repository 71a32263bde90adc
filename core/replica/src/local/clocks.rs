//! The clocks of all nodes, so that one wrong clock does not become agreed time.
//!
//! Nodes tell each other their wall clocks. A leader stamps with its own clock only within a bound of the
//! median of a majority. While it does not know the clocks of a majority, it advances agreed time from the
//! newest stamp. A majority it is whatever the quorums are: fewer wrong clocks do not move it, and nothing waits for it. The state
//! here is local; the agreed stamps are in the log (`replicated`).

use crate::limits::CLOCK_BOUND;
use crate::{Output, PeerMessage, Replica, ReplicaMessage};
use quorate_ordering::{Lane, Ordering};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{NodeId, NodeSet, Time, Wall};
use std::collections::BTreeMap;

/// A wall clock and the boot time of this node at which it was read.
#[derive(Clone, Copy, Debug)]
struct Reading {
    wall: Wall,
    at: Time,
}

/// All clocks, as far as this node knows.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    peers: BTreeMap<NodeId, Reading>,
    /// The newest stamp that was applied, and when it was applied.
    agreed: Option<Reading>,
    tell_at: Time,
    offset: ClockOffset,
}

/// How far the own clock and agreed time are from a majority's, in nanoseconds; 0 within the bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClockOffset {
    /// Own clock minus the median of a majority's clocks.
    pub own: i64,
    /// Newest stamp minus that median, if it is ahead.
    pub agreed: i64,
}

impl Reading {
    /// The time that the clock shows at `now`, if it runs as fast as this node's.
    fn shows(self, now: Time) -> Wall {
        Wall(self.wall.0.saturating_add(now.since(self.at).0))
    }
}

impl Clocks {
    pub(crate) fn offset(&self) -> ClockOffset {
        self.offset
    }

    /// A link is new: sends the own clock again at the end of the turn.
    pub(crate) fn tell_again(&mut self) {
        self.tell_at = Time::default();
    }

    fn heard(&mut self, from: NodeId, wall: Wall, now: Time) {
        self.peers.insert(from, Reading { wall, at: now });
    }

    /// The median clock of a majority of `acceptors`, the lower one of two.
    fn median(&self, acceptors: NodeSet, own: NodeId, wall: Wall, now: Time) -> Option<Wall> {
        let mut clocks = [Wall::default(); NodeSet::CAPACITY as usize];
        let mut known = 0;
        for node in acceptors.iter() {
            let reading = self.peers.get(&node);
            let clock = if node == own {
                Some(wall)
            } else {
                reading.map(|reading| reading.shows(now))
            };
            if let Some(clock) = clock {
                clocks[known] = clock;
                known += 1;
            }
        }
        let clocks = &mut clocks[..known];
        clocks.sort_unstable();
        let is_majority = clocks.len() > acceptors.len() / 2;
        let middle = clocks.len().checked_sub(1)? / 2;
        is_majority.then(|| clocks[middle])
    }
}

impl<O: Ordering> Replica<O> {
    /// A peer's wall clock arrived.
    pub(crate) fn clock_told(&mut self, now: Time, from: NodeId, wall: Wall) {
        self.clocks.heard(from, wall, now);
    }

    /// At the end of a turn: sends the own clock, and returns the time with which a leader stamps.
    pub(crate) fn clock(
        &mut self,
        now: Time,
        wall: Wall,
        out: &mut Vec<Output<O::Message>>,
    ) -> Wall {
        self.tell_clock(now, wall, out);
        let newest = self.replicated.stamp.wall;
        let agreed = match self.clocks.agreed {
            Some(agreed) if agreed.wall == newest => agreed,
            Some(_) | None => Reading {
                wall: newest,
                at: now,
            },
        };
        self.clocks.agreed = Some(agreed);
        let (acceptors, own) = (self.view().acceptors, self.config.own);
        let Some(median) = self.clocks.median(acceptors, own, wall, now) else {
            // A leader that few elect may know few clocks, and in a new group nobody has stamped anything.
            return match newest {
                Wall::UNKNOWN => Wall::UNKNOWN,
                Wall(_) => agreed.shows(now),
            };
        };
        let offset = ClockOffset {
            own: beyond_bound(wall, median),
            agreed: beyond_bound(newest, median).max(0),
        };
        if (offset == ClockOffset::default()) != (self.clocks.offset == ClockOffset::default()) {
            out.push(Output::ClocksDiffer(offset));
        }
        self.clocks.offset = offset;
        if planted(Plant::LeaderClockAlone) {
            return wall;
        }
        let least = Wall(median.0.saturating_sub(CLOCK_BOUND.0));
        let most = Wall(median.0.saturating_add(CLOCK_BOUND.0));
        wall.clamp(least, most)
    }

    fn tell_clock(&mut self, now: Time, wall: Wall, out: &mut Vec<Output<O::Message>>) {
        if now < self.clocks.tell_at {
            return;
        }
        let members = self.view().acceptors.iter();
        let members = members.chain(self.view().replicas.iter());
        let to: NodeSet = members.filter(|node| *node != self.config.own).collect();
        if to.is_empty() {
            return;
        }
        self.clocks.tell_at = now + self.config.clock_every;
        let votes = self.instances.current().status().votes;
        out.push(Output::Send {
            to,
            lane: Lane::Urgent,
            message: PeerMessage::Replica(ReplicaMessage::Clock { wall, votes }),
        });
        self.repeat_room(to, out);
    }
}

/// How far `clock` is from `median`; 0 within the bound.
fn beyond_bound(clock: Wall, median: Wall) -> i64 {
    let ahead = i64::try_from(clock.0.saturating_sub(median.0)).unwrap_or(i64::MAX);
    let behind = i64::try_from(median.0.saturating_sub(clock.0)).unwrap_or(i64::MAX);
    let off = ahead - behind;
    if off.unsigned_abs() > CLOCK_BOUND.0 {
        off
    } else {
        0
    }
}
