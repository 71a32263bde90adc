//! The clocks of all nodes, so that one wrong clock does not become agreed time.
//!
//! Nodes tell each other their wall clocks. A leader stamps with its own clock only within a bound of the acceptors'
//! [`Middle`]. Where it knows too few clocks to say where that is, it advances agreed time from where it was. Majorities count here
//! whatever the quorums are: fewer wrong clocks do not move agreed time, and nothing waits for the others. The state here is local;
//! the agreed stamps are in the log (`replicated`).

use crate::limits::{CLOCK_BOUND, CLOCKS_AWAITED, STAMPS_LATE};
use crate::{Output, PeerMessage, Replica, ReplicaMessage};
use quorate_ordering::{Lane, Ordering, Role};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Duration, LinkEpoch, NodeId, NodeSet, OrderingName, Slot, Time, Wall};
use std::collections::BTreeMap;

/// A wall clock and the boot time of this node at which it was read.
#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    wall: Wall,
    at: Time,
}

/// All clocks, as far as this node knows.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    peers: BTreeMap<NodeId, Reading>,
    /// Agreed time at the end of the last turn: the newest stamp that was applied, and what passed since.
    agreed: Reading,
    /// The newest stamp that was applied by then.
    newest: Wall,
    /// While this node leads: the last slot of which it knew when it began. Others have stamped what is up to there.
    led_after: Option<Slot>,
    /// How far agreed time was ahead of the newest stamp when this node applied that, where all nodes stamp.
    ahead: Duration,
    /// Since when a new group waits for clocks that say which of the known ones is right.
    awaited_since: Option<Time>,
    tell_at: Time,
    offset: ClockOffset,
}

/// Who made the stamps that are applied next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stamper {
    /// This node, which leads.
    Own,
    /// Those that led before this node, which leads.
    Earlier,
    /// Another node, which leads.
    Leader,
    /// Any node, this one too.
    Any,
}

/// Where the median of all acceptors' clocks is, if fewer than a majority are wrong: between two of the known clocks.
///
/// A majority is not behind `least`, and a majority not ahead of `most`: each has a right clock on its other side, whatever those
/// that are not known show. With all clocks known, and an odd number of them, both are the median.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Middle {
    least: Wall,
    most: Wall,
    /// The median of the known clocks, the lower one of two.
    known: Wall,
    /// No clock is left that could say more.
    is_of_all: bool,
}

/// How far the own clock and agreed time are from a majority's, in nanoseconds; 0 within the bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClockOffset {
    /// Own clock minus the median of the acceptors' clocks.
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

    /// The link to `peer` is down: its clock may be set before it tells it again.
    pub(crate) fn unlinked(&mut self, peer: NodeId) {
        self.peers.remove(&peer);
    }

    fn heard(&mut self, from: NodeId, wall: Wall, now: Time) {
        self.peers.insert(from, Reading { wall, at: now });
    }

    /// Where agreed time is, once `newest` is the newest stamp that was applied: it has gone on since the last turn. A node takes a new
    /// stamp of others for where it is: those that made it may know more clocks, for which agreed time stood still. What others have
    /// stamped and a new leader has not applied says more than its own reckoning. Where all nodes stamp, each knows of the stamps only
    /// what they were a while ago, and does not go back by that; time would stand still for all. One that leads then does, or time
    /// would leap at each change of the leader. Claims rp-156, rp-159.
    fn goes_on(&mut self, newest: Wall, stamper: Stamper, now: Time) -> Wall {
        let is_news = std::mem::replace(&mut self.newest, newest) != newest;
        if newest == Wall::UNKNOWN {
            return newest;
        }
        if stamper != Stamper::Any {
            let ahead = std::mem::take(&mut self.ahead);
            self.agreed.wall = Wall(self.agreed.wall.0.saturating_sub(ahead.0));
        }
        let goes_on = newest.max(self.agreed.shows(now));
        match stamper {
            Stamper::Earlier => newest,
            Stamper::Leader if is_news => newest,
            Stamper::Any if is_news => {
                self.ahead = Duration(goes_on.0 - newest.0).min(STAMPS_LATE);
                Wall(newest.0.saturating_add(self.ahead.0))
            }
            Stamper::Own | Stamper::Leader | Stamper::Any => goes_on,
        }
    }

    /// The middle of the clocks of `acceptors`; none while those of a majority are not known.
    fn middle(&self, acceptors: NodeSet, own: NodeId, wall: Wall, now: Time) -> Option<Middle> {
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
        let majority = acceptors.len() / 2 + 1;
        let clocks = &mut clocks[..known];
        clocks.sort_unstable();
        let least = known.checked_sub(majority)?;
        let most = majority - 1;
        let known = clocks[least.midpoint(most)];
        let (least, most) = match planted(Plant::MiddleOfKnownClocks) {
            true => (known, known),
            false => (clocks[least], clocks[most]),
        };
        Some(Middle {
            least,
            most,
            known,
            is_of_all: clocks.len() == acceptors.len(),
        })
    }

    /// The time to stamp with in a new group, for a leader whose clock shows `wall`: there is no agreed time that could go on. Where the
    /// known clocks differ it waits for the others, and if they do not come takes the median of those that are known.
    fn first_stamp(&mut self, middle: Middle, wall: Wall, now: Time) -> Wall {
        if middle.is_certain() {
            return middle.stamp(wall, middle.known);
        }
        let since = *self.awaited_since.get_or_insert(now);
        let is_over = middle.is_of_all || now.since(since) >= CLOCKS_AWAITED;
        match is_over {
            true => middle.stamp(wall, middle.known),
            false => Wall::UNKNOWN,
        }
    }
}

impl Middle {
    /// Whether the known clocks say where the median is.
    fn is_certain(self) -> bool {
        self.most.0 <= self.least.0.saturating_add(CLOCK_BOUND.0)
    }

    /// The time to stamp with, for a leader whose clock shows `wall` and for whom agreed time is at `agreed`.
    fn stamp(self, wall: Wall, agreed: Wall) -> Wall {
        let early = |clock: Wall| Wall(clock.0.saturating_sub(CLOCK_BOUND.0));
        let late = |clock: Wall| Wall(clock.0.saturating_add(CLOCK_BOUND.0));
        if self.is_certain() {
            return wall.clamp(early(self.most), late(self.least));
        }
        // The known clocks differ, and which of them is right the others would have to say.
        agreed.clamp(early(self.least), late(self.most))
    }

    /// How far `clock` is outside; 0 within the bound.
    fn offset(self, clock: Wall) -> i64 {
        let ahead = i64::try_from(clock.0.saturating_sub(self.most.0)).unwrap_or(i64::MAX);
        let behind = i64::try_from(self.least.0.saturating_sub(clock.0)).unwrap_or(i64::MAX);
        let off = ahead - behind;
        if off.unsigned_abs() > CLOCK_BOUND.0 {
            off
        } else {
            0
        }
    }
}

impl<O: Ordering> Replica<O> {
    /// A peer's wall clock arrived, and whether it votes. An earlier start of it may have told what comes on an older link.
    pub(crate) fn clock_told(
        &mut self,
        now: Time,
        (from, link): (NodeId, LinkEpoch),
        wall: Wall,
        votes: bool,
    ) {
        if self.instances.is_newest_link(from, link) {
            self.clocks.heard(from, wall, now);
            self.peer_votes(from, votes);
        }
        self.peer_clock_came(from);
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
        let stamper = self.stamper();
        let goes_on = self.clocks.goes_on(newest, stamper, now);
        let (acceptors, own) = (self.view().acceptors, self.config.own);
        let middle = self.clocks.middle(acceptors, own, wall, now);
        let stamp = match middle {
            None => goes_on,
            Some(middle) if newest == Wall::UNKNOWN => self.clocks.first_stamp(middle, wall, now),
            Some(middle) => middle.stamp(wall, goes_on),
        };
        self.clocks.agreed = Reading {
            // It does not run away from stamps that stand still.
            wall: goes_on.min(stamp).max(newest),
            at: now,
        };
        // A leader that few elect may know few clocks.
        let Some(middle) = middle else {
            return stamp;
        };
        let offset = ClockOffset {
            own: middle.offset(wall),
            agreed: middle.offset(newest).max(0),
        };
        if (offset == ClockOffset::default()) != (self.clocks.offset == ClockOffset::default()) {
            out.push(Output::ClocksDiffer(offset));
        }
        self.clocks.offset = offset;
        if planted(Plant::LeaderClockAlone) {
            return wall;
        }
        stamp
    }

    fn stamper(&mut self) -> Stamper {
        if !matches!(self.role, Role::Leader { .. }) {
            self.clocks.led_after = None;
            return match self.view().ordering == OrderingName::FastPaxos {
                true => Stamper::Any,
                false => Stamper::Leader,
            };
        }
        let instances = &self.instances;
        let after = *self.clocks.led_after.get_or_insert_with(|| {
            let status = instances.current().status();
            status.known.max(status.voted)
        });
        match self.replicated.applied < after {
            true => Stamper::Earlier,
            false => Stamper::Own,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The last turn was three seconds ago, and agreed time at 100 s. Claims rp-156, rp-159.
    #[test]
    fn a_new_stamp_says_where_agreed_time_is_unless_this_node_made_it_and_an_old_one_does_not() {
        let at = |ms: u64| Wall(ms * 1_000_000);
        let now = Time(4_000_000_000);
        let goes_on = |stamper, is_news| {
            let mut clocks = Clocks {
                agreed: Reading {
                    wall: at(100_000),
                    at: Time(1_000_000_000),
                },
                newest: at(if is_news { 100_000 } else { 100_200 }),
                ..Clocks::default()
            };
            clocks.goes_on(at(100_200), stamper, now)
        };
        for (stamper, old, new) in [
            (Stamper::Own, 103_000, 103_000),
            (Stamper::Earlier, 100_200, 100_200),
            (Stamper::Leader, 103_000, 100_200),
            (Stamper::Any, 103_000, 100_700),
        ] {
            let found = [false, true].map(|is_news| goes_on(stamper, is_news));
            assert_eq!(found, [at(old), at(new)], "{stamper:?}");
        }
    }

    /// Claim rp-159.
    #[test]
    fn who_was_ahead_where_all_nodes_stamp_is_so_no_more_when_it_leads() {
        let at = |ms: u64| Wall(ms * 1_000_000);
        let mut clocks = Clocks::default();
        clocks.agreed.wall = at(100_000);
        let now = Time(4_000_000_000);
        clocks.agreed.wall = clocks.goes_on(at(99_000), Stamper::Any, now);
        clocks.agreed.at = now;
        assert_eq!(clocks.agreed.wall, at(99_500));
        let later = Time(5_000_000_000);
        assert_eq!(clocks.goes_on(at(99_000), Stamper::Own, later), at(100_000));
    }

    /// Claim rp-155.
    #[test]
    fn where_the_clocks_differ_agreed_time_goes_on_and_is_within_the_bound_of_one_of_them() {
        let bound = CLOCK_BOUND.0;
        let (least, most) = (Wall(10 * bound), Wall(20 * bound));
        let middle = Middle {
            least,
            most,
            known: least,
            is_of_all: false,
        };
        for own in [0, 15, 100].map(|bounds| Wall(bounds * bound)) {
            let stamp = |bounds: u64| middle.stamp(own, Wall(bounds * bound)).0 / bound;
            assert_eq!([2, 9, 15, 21, 30].map(stamp), [9, 9, 15, 21, 21]);
        }
    }
}
