//! Multicast between the nodes of a run: datagrams that are lost, come twice, late or out of turn, and nodes that hear none.
//!
//! Datagrams are small here, so that most values come in several. One that is not of the right shape is not played: its checksum says so.

use super::World;
use super::clock::Moment;
use super::events::Event;
use super::random::Random;
use super::setup::{Setup, founding};
use bytes::Bytes;
use quorate_any::AnyMessage;
use quorate_ordering::ValuesBy;
use quorate_replica::{Input, PeerMessage};
use quorate_types::{ClusterId, Duration, Level, NodeId};
use quorate_wire::{Assembly, Cutter};

/// The cluster of every run.
const CLUSTER: ClusterId = ClusterId(1);

/// How datagrams fare in a run.
#[derive(Debug)]
pub(super) struct Multicasting {
    random: Random,
    datagram_bytes: usize,
    lost_percent: u64,
    twice_percent: u64,
    late: Duration,
    /// Who hears nothing, and from when until when.
    deaf: Vec<(NodeId, Moment, Moment)>,
}

impl Multicasting {
    /// What follows from the seed.
    pub(super) fn new(setup: &Setup) -> Multicasting {
        let mut random = Random::new(setup.seed, "datagrams", 0);
        let mut deaf = Vec::new();
        for _ in 0..random.below(4) {
            let node = NodeId(random.between(1, u64::from(setup.nodes)) as u16);
            let from = Moment::default() + random.millis(0, 30_000);
            let until = match random.chance(300) {
                true => Moment(u64::MAX),
                false => from + random.millis(10, 10_000),
            };
            deaf.push((node, from, until));
        }
        if random.chance(200) {
            let node = NodeId(random.between(1, u64::from(setup.nodes)) as u16);
            deaf.push((node, Moment::default(), Moment(u64::MAX)));
        }
        Multicasting {
            datagram_bytes: random.between(150, 600) as usize,
            lost_percent: *random.pick(&[0, 1, 5, 20]),
            twice_percent: *random.pick(&[0, 2, 20]),
            late: random.millis(0, 20),
            deaf,
            random,
        }
    }

    fn hears(&self, node: NodeId, now: Moment) -> bool {
        let mut deaf = self.deaf.iter();
        !deaf.any(|(deaf, from, until)| *deaf == node && *from <= now && now < *until)
    }

    /// What a node begins with that cuts values for datagrams.
    pub(super) fn cutter(&self) -> Cutter {
        Cutter::new(CLUSTER, self.datagram_bytes)
    }
}

/// What a node begins with that puts values together.
pub(super) fn assembly() -> Assembly {
    Assembly::new(CLUSTER, super::links::GROUP)
}

impl Setup {
    /// Whether leaders may multicast: in most runs, whose first view allows it in most cases where it names an ordering.
    pub(super) fn draw_multicast(&mut self) {
        let mut random = Random::new(self.seed, "multicast", 0);
        if !random.chance(600) {
            return;
        }
        self.limits.values = ValuesBy::Multicast;
        if self.ordering.0 >= Level::ORDERINGS && random.chance(800) {
            self.ordering.0 = Level::MULTICAST;
        }
    }
}

impl World {
    /// A node multicasts a value: with the others of this turn.
    pub(super) fn multicast(&mut self, id: NodeId, message: &PeerMessage<AnyMessage>) {
        self.running(id).cutter.push(founding(id), message);
    }

    /// The end of a turn of `id`.
    pub(super) fn send_datagrams(&mut self, id: NodeId) {
        let Some(running) = &mut self.node(id).running else {
            return;
        };
        let datagrams = running.cutter.finish();
        let others: Vec<NodeId> = self.nodes.ids().filter(|other| *other != id).collect();
        for bytes in datagrams {
            for to in &others {
                self.send_datagram(id, *to, &bytes);
            }
        }
    }

    fn send_datagram(&mut self, from: NodeId, to: NodeId, bytes: &Bytes) {
        let is_calm = self.network.is_punctual();
        let multicasting = &mut self.multicasting;
        let random = &mut multicasting.random;
        let mut copies = 1;
        if !is_calm && random.below(100) < multicasting.lost_percent {
            copies = 0;
        }
        if !is_calm && random.below(100) < multicasting.twice_percent {
            copies += 1;
        }
        for _ in 0..copies {
            let late = match is_calm {
                true => 0,
                false => random.below(multicasting.late.0 + 1),
            };
            let at = self.now + self.network.latency() + Duration(late);
            let bytes = bytes.clone();
            self.events.push(at, Event::Datagram { from, to, bytes });
        }
    }

    /// A datagram arrives, where the node hears any.
    pub(super) fn datagram_arrives(&mut self, from: NodeId, to: NodeId, bytes: &Bytes) {
        let is_heard = self.multicasting.hears(to, self.now) && self.network.is_open(from, to);
        let Some(link) = self.network.epoch(from, to).filter(|_| is_heard) else {
            return;
        };
        if self.nodes[&to].running.is_none() {
            return;
        }
        let (from, messages) = self
            .running(to)
            .assembly
            .take(bytes, |node| Some(founding(node)));
        for message in messages {
            self.hand_in(
                to,
                Input::Peer {
                    from,
                    link,
                    message,
                },
            );
        }
    }
}
