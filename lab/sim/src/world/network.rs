//! Links between nodes: when a message arrives, and which epoch of the link carries it.
//!
//! A link has two directions with rules of their own and one epoch, which rises with each connection. The world asks
//! where a message goes and performs the answer; nothing here knows what a message says.

use super::clock::Moment;
use super::random::Random;
use super::setup::NetworkSetup;
use bytes::Bytes;
use quorate_ordering::Lane;
use quorate_types::{Duration, LinkEpoch, NodeId};
use std::collections::{BTreeMap, VecDeque};

/// Messages that one direction keeps during a silent partition: a socket's buffer; what is more is lost.
const HELD_MAX: usize = 512;

/// A message on its way.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    /// Who sent it.
    pub from: NodeId,
    /// Who gets it.
    pub to: NodeId,
    /// The life of the link when it was sent.
    pub epoch: LinkEpoch,
    /// Whether it may arrive after its link has ended.
    pub is_stray: bool,
    /// The bit that changes on its way.
    pub flipped: Option<u64>,
    /// Its encoded form.
    pub bytes: Bytes,
}

/// What a fault does to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hit {
    /// It does not pass.
    Blocked,
    /// It is lost.
    Lost,
    /// It arrives twice.
    Doubled,
    /// It takes longer.
    Delayed,
    /// It changes.
    Garbled,
}

/// What may change about one direction while faults last. Sums, so that faults overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rules {
    /// Faults that let nothing pass.
    pub blocked: u64,
    /// Percent lost.
    pub loss: u64,
    /// Percent that arrive twice.
    pub duplicate: u64,
    /// Percent of which a bit changes.
    pub garble: u64,
    /// The longest extra delay.
    pub delay: Duration,
}

#[derive(Debug, Default)]
struct Direction {
    rules: Rules,
    last: [Moment; 3],
    held: VecDeque<(Lane, Packet)>,
    /// How often each kind of fault struck a message, by `Hit`.
    hits: [u64; 5],
}

/// A message that is late takes at most so many times as long.
const LATE_TIMES: u64 = 50;

#[derive(Debug, Default, Clone, Copy)]
struct Link {
    epoch: u64,
    is_up: bool,
    /// A message of this epoch was lost: no stream of bytes loses one and goes on.
    is_holed: bool,
}

/// All links.
#[derive(Debug)]
pub(super) struct Network {
    setup: NetworkSetup,
    random: Random,
    directions: BTreeMap<(NodeId, NodeId), Direction>,
    links: BTreeMap<(NodeId, NodeId), Link>,
    epochs: u64,
    /// No fault delays messages any more.
    is_punctual: bool,
}

fn pair(one: NodeId, other: NodeId) -> (NodeId, NodeId) {
    (one.min(other), one.max(other))
}

impl Network {
    /// A network without connections.
    pub(super) fn new(setup: NetworkSetup, random: Random) -> Network {
        Network {
            setup,
            random,
            directions: BTreeMap::new(),
            links: BTreeMap::new(),
            epochs: 0,
            is_punctual: false,
        }
    }

    /// How long a message takes when nothing is wrong.
    pub(super) fn latency(&mut self) -> Duration {
        let (min, max) = (self.setup.latency_min.0, self.setup.latency_max.0);
        let span = self.random.between(min, max.max(min));
        if self.random.chance(self.setup.late_per_mille) {
            Duration(span * self.random.between(2, LATE_TIMES))
        } else {
            Duration(span)
        }
    }

    /// No message is late any more: how long one takes stays within the bounds that hold without faults, and no copy that was
    /// held up arrives.
    pub(super) fn be_punctual(&mut self) {
        self.setup.late_per_mille = 0;
        self.is_punctual = true;
    }

    /// Whether that is so.
    pub(super) fn is_punctual(&self) -> bool {
        self.is_punctual
    }

    /// Whether a message arrives, as the links are now.
    pub(super) fn delivers(&mut self, packet: &Packet) -> bool {
        let is_carried = if packet.is_stray {
            !self.is_punctual
        } else {
            self.epoch(packet.from, packet.to) == Some(packet.epoch)
        };
        let is_open = self.is_open(packet.from, packet.to);
        if is_carried && !is_open && !packet.is_stray {
            self.is_lost(packet.from, packet.to);
        }
        is_carried && is_open
    }

    /// A message of a link that is up is lost.
    fn is_lost(&mut self, from: NodeId, to: NodeId) {
        self.links.entry(pair(from, to)).or_default().is_holed = true;
    }

    /// The links that are up and have lost a message.
    pub(super) fn holed(&self) -> Vec<(NodeId, NodeId)> {
        let holed = self
            .links
            .iter()
            .filter(|(_, link)| link.is_up && link.is_holed);
        holed.map(|(pair, _)| *pair).collect()
    }

    /// How long a silent link is kept.
    pub(super) fn patience(&self) -> Duration {
        self.setup.patience
    }

    /// The link's epoch while it is up.
    pub(super) fn epoch(&self, one: NodeId, other: NodeId) -> Option<LinkEpoch> {
        let link = self.links.get(&pair(one, other))?;
        link.is_up.then_some(LinkEpoch(link.epoch))
    }

    /// Whether messages pass from one node to another.
    pub(super) fn is_open(&self, from: NodeId, to: NodeId) -> bool {
        let direction = self.directions.get(&(from, to));
        direction.is_none_or(|direction| direction.rules.blocked == 0)
    }

    /// Whether no fault disturbs messages from one node to another. Where none overtakes another, one that a fault has delayed
    /// holds up those behind it after the fault has ended.
    pub(super) fn is_clear(&self, now: Moment, from: NodeId, to: NodeId) -> bool {
        let longest = Duration(self.setup.latency_max.0 * LATE_TIMES);
        let in_time = |last: &Moment| *last <= now + longest;
        let direction = self.directions.get(&(from, to));
        direction.is_none_or(|direction| {
            direction.rules == Rules::default() && direction.last.iter().all(in_time)
        })
    }

    /// How often faults did this to messages on these ways.
    pub(super) fn hits(&self, ways: &[(NodeId, NodeId)], hit: Hit) -> u64 {
        let found = ways.iter().filter_map(|way| self.directions.get(way));
        found.map(|direction| direction.hits[hit as usize]).sum()
    }

    /// Connects two nodes in a new epoch.
    pub(super) fn connect(&mut self, one: NodeId, other: NodeId) -> LinkEpoch {
        self.epochs += 1;
        let link = self.links.entry(pair(one, other)).or_default();
        assert!(!link.is_up, "a link is connected once");
        *link = Link {
            epoch: self.epochs,
            is_up: true,
            is_holed: false,
        };
        LinkEpoch(self.epochs)
    }

    /// Ends the link; what was held for it is lost. Says whether it was up.
    pub(super) fn disconnect(&mut self, one: NodeId, other: NodeId) -> bool {
        for key in [(one, other), (other, one)] {
            if let Some(direction) = self.directions.get_mut(&key) {
                direction.held.clear();
            }
        }
        let link = self.links.entry(pair(one, other)).or_default();
        std::mem::replace(&mut link.is_up, false)
    }

    /// Takes a message; appends when and how often it arrives.
    pub(super) fn send(
        &mut self,
        now: Moment,
        (from, to): (NodeId, NodeId),
        lane: Lane,
        bytes: Bytes,
        arrivals: &mut Vec<(Moment, Packet)>,
    ) {
        let Some(epoch) = self.epoch(from, to) else {
            return;
        };
        let mut packet = Packet {
            from,
            to,
            epoch,
            is_stray: false,
            flipped: None,
            bytes,
        };
        if self.random.chance(self.setup.stray_per_mille) {
            let at = now + self.random.millis(100, 20_000);
            let stray = Packet {
                is_stray: true,
                ..packet.clone()
            };
            arrivals.push((at, stray));
        }
        let direction = self.directions.entry((from, to)).or_default();
        let rules = direction.rules;
        if rules.blocked > 0 {
            direction.hits[Hit::Blocked as usize] += 1;
            if self.setup.is_holding && direction.held.len() < HELD_MAX {
                direction.held.push_back((lane, packet));
            } else {
                self.is_lost(from, to);
            }
            return;
        }
        if self.random.below(100) < rules.loss {
            direction.hits[Hit::Lost as usize] += 1;
            self.is_lost(from, to);
            return;
        }
        if rules.garble > 0 && self.random.below(100) < rules.garble {
            direction.hits[Hit::Garbled as usize] += 1;
            packet.flipped = Some(self.random.bits());
        }
        direction.hits[Hit::Delayed as usize] += u64::from(rules.delay > Duration::ZERO);
        if self.random.below(100) < rules.duplicate {
            direction.hits[Hit::Doubled as usize] += 1;
            let at = self.arrival(now, from, to, lane);
            arrivals.push((at, packet.clone()));
        }
        let at = self.arrival(now, from, to, lane);
        arrivals.push((at, packet));
    }

    fn arrival(&mut self, now: Moment, from: NodeId, to: NodeId, lane: Lane) -> Moment {
        let mut at = now + self.latency();
        let direction = self.directions.entry((from, to)).or_default();
        if direction.rules.delay > Duration::ZERO {
            at = at + Duration(self.random.below(direction.rules.delay.0));
        }
        if self.setup.is_fifo {
            let lane = match lane {
                Lane::Urgent => 0,
                Lane::Normal | Lane::Multicast => 1,
                Lane::Bulk => 2,
            };
            at = at.max(direction.last[lane] + Duration(1));
            direction.last[lane] = at;
        }
        at
    }

    /// Changes the rules of one direction; appends what had been held if it is open now.
    pub(super) fn change(
        &mut self,
        now: Moment,
        from: NodeId,
        to: NodeId,
        change: impl FnOnce(&mut Rules),
        arrivals: &mut Vec<(Moment, Packet)>,
    ) {
        let direction = self.directions.entry((from, to)).or_default();
        change(&mut direction.rules);
        if direction.rules.blocked > 0 {
            return;
        }
        for (lane, packet) in std::mem::take(&mut direction.held) {
            let at = self.arrival(now, from, to, lane);
            arrivals.push((at, packet));
        }
    }
}
