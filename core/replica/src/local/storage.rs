//! A disk without room. While it is scarce, the replica asks for checkpoints more often, so that the log is trimmed before the
//! disk is full. On a full disk it accepts nothing new, offers leadership to a peer that has room, and continues to serve reads.
//!
//! The log's thread holds votes back while there is no room, so a call accepted here might wait for ever.
//! It is refused instead, before anything has happened. The node reports changes of the log's room.

use crate::limits::{CLOCKS_WITHOUT_SHORTAGE, SHORTAGE_EVERY};
use crate::{Output, PeerMessage, Replica, ReplicaMessage, Snapshots};
use quorate_ordering::{Event, Lane, Ordering, Role};
use quorate_types::{NodeId, NodeSet, Time};
use std::collections::BTreeMap;

/// How much room there is on the disk of the log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DiskRoom {
    /// Enough.
    Plenty,
    /// Little: snapshots and trims must make room soon.
    Scarce,
    /// The log takes no new votes.
    Full,
}

/// A scarce disk asks for a checkpoint after this part of the log that otherwise makes one due.
const SHORTAGE_PART: u64 = 16;

/// It does not wait for the next time to ask when this part has been written: a busy group fills what is left within a second.
const SHORTAGE_PART_AT_ONCE: u64 = 2;

/// What is known of the log's room.
#[derive(Debug)]
pub(crate) struct Storage {
    room: DiskRoom,
    /// Peers whose disks are full, as they told, and how many of their clocks came since. They tell it again with each clock.
    full_peers: BTreeMap<NodeId, u32>,
    /// When a checkpoint may be asked for again because of a shortage.
    ask_at: Time,
    /// While this node leads and its disk is full: to whom it offered leadership. It offers it again when somebody else can take it,
    /// and never to a full disk: a group whose disks are all full does not pass it round.
    offered: NodeSet,
}

impl Default for Storage {
    fn default() -> Storage {
        Storage {
            room: DiskRoom::Plenty,
            full_peers: BTreeMap::new(),
            ask_at: Time::default(),
            offered: NodeSet::empty(),
        }
    }
}

impl<O: Ordering> Replica<O> {
    /// The log has more room, or less.
    pub(crate) fn room_changed(&mut self, room: DiskRoom, out: &mut Vec<Output<O::Message>>) {
        let was_full = std::mem::replace(&mut self.storage.room, room) == DiskRoom::Full;
        if was_full != (room == DiskRoom::Full) {
            let others = self.view().nodes().without(self.config.own);
            self.tell_room(others, out);
        }
        if !was_full && room == DiskRoom::Full {
            // The log's reserve has a place for a checkpoint, and calls are refused from here on: nothing else makes room.
            self.storage.ask_at = Time::default();
        }
    }

    /// Tells `to` again that this node's disk is full: who is new, or lost the link, does not know.
    pub(crate) fn repeat_room(&self, to: NodeSet, out: &mut Vec<Output<O::Message>>) {
        if !self.has_room() {
            self.tell_room(to, out);
        }
    }

    fn tell_room(&self, to: NodeSet, out: &mut Vec<Output<O::Message>>) {
        if to.is_empty() {
            return;
        }
        let room = self.storage.room;
        out.push(Output::Send {
            to,
            lane: Lane::Urgent,
            message: PeerMessage::Replica(ReplicaMessage::Room { room }),
        });
    }

    /// A peer's disk has more room, or less.
    pub(crate) fn peer_room(&mut self, peer: NodeId, room: DiskRoom) {
        if room == DiskRoom::Full {
            self.storage.full_peers.insert(peer, 0);
            self.storage.offered.remove(peer);
        } else {
            self.storage.full_peers.remove(&peer);
        }
    }

    /// A peer's clock came. If the peer does not say with it that its disk is full, the disk has room again, though the message
    /// that said so was lost or overtaken by an older one.
    pub(crate) fn peer_clock_came(&mut self, peer: NodeId) {
        if let Some(clocks) = self.storage.full_peers.get_mut(&peer) {
            *clocks += 1;
            if *clocks >= CLOCKS_WITHOUT_SHORTAGE {
                self.storage.full_peers.remove(&peer);
            }
        }
    }

    /// Whether new commands can be accepted: this node has room, and so have enough acceptors to vote for them. A command that
    /// was ordered beyond that would wait for a disk, and every later read with it.
    pub(crate) fn can_order(&self) -> bool {
        let view = self.view();
        let acceptors = view.acceptors.iter();
        let with_room = acceptors.filter(|node| !self.is_full(*node));
        self.has_room() && with_room.count() >= view.quorums.phase2()
    }

    /// Whether the disk of `node` is full, as far as it told.
    pub(crate) fn is_full(&self, node: NodeId) -> bool {
        match node == self.config.own {
            true => !self.has_room(),
            false => self.storage.full_peers.contains_key(&node),
        }
    }

    /// The peers to which this node can leave leadership, and whose disks have room.
    fn successors_with_room(&self) -> NodeSet {
        let view = self.view();
        let up = self.up_of(view, false).iter();
        up.filter(|node| view.may_lead(*node) && !self.is_full(*node))
            .collect()
    }

    /// To whom a node that stops leaves leadership: to those that have room, if there are any.
    pub(crate) fn successors(&self) -> NodeSet {
        let with_room = self.successors_with_room();
        match with_room.is_empty() {
            true => self.view().acceptors,
            false => with_room,
        }
    }

    /// Whether this node's disk has room.
    pub(crate) fn has_room(&self) -> bool {
        self.storage.room < DiskRoom::Full
    }

    /// Whether this node's disk has more than enough room.
    pub(crate) fn has_plenty_of_room(&self) -> bool {
        self.storage.room == DiskRoom::Plenty
    }

    /// At the end of a turn: whether this node's disk needs a checkpoint that would otherwise not be due. Every node asks for its own
    /// disk; a small part of the log must have grown, because on a disk that others fill a checkpoint makes no room.
    pub(crate) fn needs_checkpoint(&mut self, now: Time) -> bool {
        let Snapshots::Every(policy) = self.config.snapshots else {
            return false;
        };
        let is_short = self.storage.room > DiskRoom::Plenty;
        let is_time = now >= self.storage.ask_at;
        let is_needed = is_short
            && ((is_time && self.has_log_grown(policy, SHORTAGE_PART))
                || self.has_log_grown(policy, SHORTAGE_PART_AT_ONCE));
        if is_needed {
            self.storage.ask_at = now + SHORTAGE_EVERY;
        }
        is_needed
    }

    /// At the end of a turn: a leader without room offers leadership to those that have room. The ordering chooses who lags least.
    pub(crate) fn leave_to_who_has_room(&mut self) {
        let leads = matches!(self.role, Role::Leader { .. });
        if !leads || self.has_room() {
            self.storage.offered = NodeSet::empty();
            return;
        }
        let to = self.successors_with_room();
        if to.iter().any(|node| !self.storage.offered.contains(node)) {
            self.storage.offered = to;
            self.raise(Event::TransferLeadership { to });
        }
    }
}
