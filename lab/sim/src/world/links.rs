//! Links between nodes as the world performs them: connecting, messages, silence, and the end of a peer.

use super::World;
use super::events::Event;
use super::fault::KillStep;
use super::life::Death;
use super::network::Packet;
use super::row::Row;
use super::trace::Tag;
use crate::checkers::Property;
use bytes::{BufMut, BytesMut};
use quorate_acceptor::Testimony;
use quorate_any::AnyMessage;
use quorate_ordering::{Lane, LinkState};
use quorate_replica::{Input, PeerMessage};
use quorate_types::{Duration, GroupId, LinkEpoch, NodeId, NodeSet};
use quorate_wire::{FrameReader, Kind, put_frame, take_peer};

/// The group of all frames.
pub(super) const GROUP: GroupId = GroupId(1);

/// Most messages of a run are shorter.
pub(super) const MESSAGE_BYTES: usize = 256;

/// Longer frames than any of a run.
const FRAME_BYTES_MAX: usize = 1 << 20;

/// Between two tries to connect.
const REDIAL: Duration = Duration::from_millis(50);

impl World {
    pub(super) fn send(&mut self, from: NodeId, to: NodeSet, lane: Lane, bytes: &bytes::Bytes) {
        let mut arrivals = Vec::new();
        for peer in to.iter() {
            self.network
                .send(self.now, (from, peer), lane, bytes.clone(), &mut arrivals);
        }
        self.arrive_later(arrivals);
    }

    pub(super) fn arrive_later(&mut self, arrivals: Vec<(super::Moment, Packet)>) {
        for (at, packet) in arrivals {
            self.events.push(at, Event::Arrives(packet));
        }
    }

    pub(super) fn arrives(&mut self, packet: Packet) {
        if !self.network.delivers(&packet) || self.nodes[&packet.to].running.is_none() {
            return;
        }
        // Whatever reaches a life comes over a connection of that life, whose first word tells an older copy that it is one.
        if packet.is_stray && self.nodes[&packet.to].is_old_copy {
            return;
        }
        let Packet {
            from,
            to,
            epoch,
            is_stray,
            flipped,
            bytes,
        } = packet;
        if let Some(bit) = flipped {
            self.arrives_garbled(from, to, bit, &bytes);
            return;
        }
        let message = take_peer(&bytes).expect("what was encoded decodes");
        if is_stray {
            self.exercised(Row::Stray);
        }
        if !self.reads((from, to), &message, is_stray) {
            return;
        }
        let words = [
            Tag::Arrive as u64,
            u64::from(from.0),
            u64::from(to.0),
            bytes.len() as u64,
        ];
        self.trace.note(self.now, &words, || {
            format!("{from} -> {to} {epoch} {message:?}")
        });
        if step_of(&message).is_some_and(|step| self.springs(to, step)) {
            return;
        }
        self.hand_in(
            to,
            Input::Peer {
                from,
                link: epoch,
                message,
            },
        );
    }

    /// A frame of which a bit has changed: its checksum must say so, and its connection is closed.
    fn arrives_garbled(&mut self, from: NodeId, to: NodeId, bit: u64, bytes: &bytes::Bytes) {
        let mut frame = BytesMut::new();
        put_frame(&mut frame, Kind::Peer, GROUP, |body| body.put_slice(bytes));
        let at = bit % (8 * frame.len() as u64);
        frame[(at / 8) as usize] ^= 1 << (at % 8);
        let mut reader = FrameReader::new(FRAME_BYTES_MAX);
        reader.push(&frame);
        if let Ok(Some(read)) = reader.next_frame() {
            let detail = format!("{to} takes a frame of {from} with bit {at} changed: {read:?}");
            self.blame(Property::Invariant, detail);
            return;
        }
        self.exercised(Row::Garbled);
        self.break_link(from, to);
    }

    /// Two running nodes that reach each other connect; else they try again.
    pub(super) fn connect(&mut self, one: NodeId, other: NodeId) {
        if self.network.epoch(one, other).is_some() {
            return;
        }
        let can_run = [one, other].map(|node| self.nodes[&node].is_awake());
        let can_reach = self.network.is_open(one, other) && self.network.is_open(other, one);
        if self.nodes[&one].running.is_none() || self.nodes[&other].is_wiped {
            return;
        }
        if can_run != [true, true] || !can_reach {
            // The other end dials too when it starts; one of the two goes on trying.
            let at = self.now + REDIAL + self.network.latency();
            self.events.push(at, Event::Connect { one, other });
            return;
        }
        if !self.know_each_other(one, other) {
            let at = self.now + REDIAL + self.network.latency();
            self.events.push(at, Event::Connect { one, other });
            return;
        }
        if self.refuse_levels(one, other) {
            let at = self.now + REDIAL + self.network.latency();
            self.events.push(at, Event::Connect { one, other });
            return;
        }
        if self.refuse_each_other(one, other) {
            return;
        }
        let epoch = self.network.connect(one, other);
        let words = [
            Tag::Link as u64,
            u64::from(one.0),
            u64::from(other.0),
            epoch.0,
        ];
        self.trace.note(self.now, &words, || {
            format!("{one} - {other} connect in {epoch}")
        });
        self.greet(one, other);
        for (node, peer) in [(one, other), (other, one)] {
            let state = LinkState::Up(epoch);
            self.hand_in(node, Input::Link { peer, state });
        }
    }

    /// A direction was blocked a while ago; if it still is, both ends give the link up.
    pub(super) fn silent(&mut self, one: NodeId, other: NodeId, epoch: LinkEpoch) {
        let is_open = self.network.is_open(one, other) && self.network.is_open(other, one);
        if !is_open && self.network.epoch(one, other) == Some(epoch) {
            self.break_link(one, other);
        }
    }

    /// Ends a link: both ends notice, and dial again.
    pub(super) fn break_link(&mut self, one: NodeId, other: NodeId) {
        let Some(epoch) = self.network.epoch(one, other) else {
            return;
        };
        self.network.disconnect(one, other);
        let words = [Tag::Link as u64, u64::from(one.0), u64::from(other.0), 0];
        self.trace
            .note(self.now, &words, || format!("{one} - {other} break"));
        for (node, peer) in [(one, other), (other, one)] {
            let life = self.nodes[&node].life;
            let at = self.now + self.network.latency();
            let ends = Event::LinkEnds {
                node,
                life,
                peer,
                epoch,
            };
            self.events.push(at, ends);
        }
        let at = self.now + REDIAL;
        self.events.push(at, Event::Connect { one, other });
    }

    /// A watch on a link that was blocked now.
    pub(super) fn watch_silence(&mut self, one: NodeId, other: NodeId) {
        if let Some(epoch) = self.network.epoch(one, other) {
            let at = self.now + self.network.patience();
            self.events.push(at, Event::Silent { one, other, epoch });
        }
    }

    /// Peers of a dead node notice at once if its system still runs and they hear it, else after their patience.
    pub(super) fn links_of_the_dead(&mut self, dead: NodeId, death: Death) {
        let peers: Vec<NodeId> = self.nodes.ids().filter(|id| *id != dead).collect();
        for peer in peers {
            let Some(epoch) = self.network.epoch(dead, peer) else {
                continue;
            };
            self.network.disconnect(dead, peer);
            let is_heard = death == Death::Killed && self.network.is_open(dead, peer);
            let after = if is_heard {
                self.network.latency()
            } else {
                self.network.patience()
            };
            let life = self.nodes[&peer].life;
            let ends = Event::LinkEnds {
                node: peer,
                life,
                peer: dead,
                epoch,
            };
            self.events.push(self.now + after, ends);
        }
        self.connections_of_the_dead(dead, death);
    }
}

/// The step to which a message brings whom it reaches.
fn step_of(message: &PeerMessage<AnyMessage>) -> Option<KillStep> {
    let PeerMessage::Ordering { message, .. } = message else {
        return None;
    };
    match message.testimony() {
        Testimony::Promises(_) => Some(KillStep::PhaseOne),
        Testimony::AsksDecided { .. } => Some(KillStep::Asked),
        _ => None,
    }
}
