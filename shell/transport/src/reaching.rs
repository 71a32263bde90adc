//! Reach: tells peers how far this node has come, and remembers and judges how far they have come.
//!
//! `quorate_types` compares. A peer that comes with less than was seen of it is told so and refused.

use crate::limits::{PASTS_NOTED_EVERY, REACH_TOLD_EVERY};
use crate::peers::RemotePeer;
use crate::transport::{Arrival, Transport};
use quorate_types::{
    Level, LinkEpoch, NodeId, PeerPast, Reach, Recall, Sighting, Starts, Time, ViewNumber,
};
use quorate_wire::{
    Frame, Kind, Reject, RejectReason, put_reach, put_sighting, take_reach, take_sighting,
};

/// When what was told and handed over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reaching {
    tell_at: Time,
    is_start_new: bool,
    is_commit_new: bool,
    note_at: Time,
}

impl Reaching {
    pub(crate) fn new(now: Time) -> Reaching {
        Reaching {
            tell_at: now,
            is_start_new: false,
            is_commit_new: false,
            note_at: now,
        }
    }
}

impl Transport {
    /// The newest durable commit of this node's log: peers are told of it before later frames.
    pub fn set_commit(&mut self, commit: u64) {
        let reach = &mut self.settings.own.reach;
        reach.commit = reach.commit.max(commit);
    }

    /// What this start began with: whether it remembers what it voted for, since which view, the newest durable commit, and the starts
    /// of its directory. Called before the first [`Transport::tick`].
    pub fn begin(&mut self, recall: Recall, since: ViewNumber, commit: u64, starts: Starts) {
        let reach = &mut self.settings.own.reach;
        (reach.recall, reach.since) = (recall, since);
        (reach.commit, reach.starts) = (commit, starts);
    }

    /// The random number of this start.
    #[must_use]
    pub fn start_number(&self) -> u64 {
        self.settings.own.reach.start
    }

    /// This node came back with a view: it remembers what it promised and voted from that one on. The linked peers are told at once,
    /// before any vote.
    pub fn came_back(&mut self, since: ViewNumber) {
        let reach = &mut self.settings.own.reach;
        (reach.recall, reach.since) = (Recall::Whole, since);
        let links: Vec<usize> = self.peers.values().filter_map(RemotePeer::link).collect();
        for slot in links {
            self.greet_with_reach(slot);
        }
    }

    /// What is to be remembered of the others over a restart, if it is time to write it: at once when a peer has started anew,
    /// otherwise now and then.
    pub fn pasts_to_note(&self, now: Time) -> Option<Vec<(NodeId, PeerPast)>> {
        let reaching = &self.reaching;
        let is_due = reaching.is_start_new || (reaching.is_commit_new && now >= reaching.note_at);
        is_due.then(|| self.pasts())
    }

    /// They are being written.
    pub fn pasts_noted(&mut self, now: Time) {
        self.reaching.is_start_new = false;
        self.reaching.is_commit_new = false;
        self.reaching.note_at = now + PASTS_NOTED_EVERY;
    }

    /// What is known of the others.
    #[must_use]
    pub fn pasts(&self) -> Vec<(NodeId, PeerPast)> {
        let pasts = self.peers.iter().map(|(node, peer)| (*node, peer.past));
        pasts.collect()
    }

    /// Tells the linked peers how far the log has come. A peer that is about to be sent anything is told in the same write,
    /// ahead of everything that waited for the commit; the others are told now and then.
    pub(crate) fn tell_reach(&mut self, now: Time) {
        let commit = self.settings.own.reach.commit;
        let is_time = now >= self.reaching.tell_at;
        let mut due = Vec::new();
        for peer in self.peers.values_mut().filter(|peer| peer.told < commit) {
            let Some(slot) = peer.link() else {
                continue;
            };
            let connection = self.slots[slot].as_ref().expect("a linked slot is taken");
            if is_time || connection.waiting() > 0 {
                peer.told = commit;
                due.push(slot);
            }
        }
        if is_time && !due.is_empty() {
            self.reaching.tell_at = now + REACH_TOLD_EVERY;
        }
        for slot in due {
            self.greet_again(slot);
        }
    }

    /// Queues this node's reach ahead of what is queued in the slower lanes, for a peer that has met this start.
    fn greet_again(&mut self, slot: usize) {
        let connection = self.slots[slot].as_ref().expect("a linked slot is taken");
        let own = self.settings.own.reach;
        // Before there were starts, the newest of them was told each time.
        let starts = match connection.level {
            Level::UNNAMED => own.starts,
            _ => Starts::default(),
        };
        self.greet(slot, Reach { starts, ..own });
    }

    /// Queues this node's reach and the starts of its directory, for a peer that may not have met this start.
    pub(crate) fn greet_with_reach(&mut self, slot: usize) {
        self.greet(slot, self.settings.own.reach);
    }

    fn greet(&mut self, slot: usize, reach: Reach) {
        let connection = self.slots[slot].as_mut().expect("a linked slot is taken");
        let level = connection.level;
        connection.greet(Kind::Reach, |body| put_reach(body, reach, level));
        self.list(slot);
    }

    /// A frame on a link: reach is judged here, the rest goes up once it was.
    pub(crate) fn peer_frame(
        &mut self,
        slot: usize,
        from: NodeId,
        link: LinkEpoch,
        frame: Frame,
        now: Time,
    ) {
        let connection = self.slots[slot].as_ref().expect("it has just spoken");
        match frame.kind {
            Kind::Reach => match take_reach(&frame.body, connection.level) {
                Ok(reach) => {
                    self.reached(slot, from, reach, now);
                }
                Err(error) => {
                    self.reject(slot, RejectReason::Malformed, error.to_string(), now);
                }
            },
            Kind::Sighting => self.sighted(from, &frame),
            Kind::Reject => {
                self.note_dismissal(from, &frame);
                let text = Reject::take(&frame.body).map_or_else(|e| e.to_string(), |r| r.text);
                tracing::warn!(peer = %from, text, "the peer ends the link");
                self.close(slot, now);
            }
            Kind::Peer
            | Kind::Hello
            | Kind::Welcome
            | Kind::FromClient
            | Kind::ToClient
            | Kind::StatusRequest
            | Kind::StatusReply
            | Kind::AdminRequest
            | Kind::AdminReply
            | Kind::Challenge
            | Kind::Proof => {
                if connection.is_judged {
                    self.arrivals.push(Arrival::Peer { from, link, frame });
                } else {
                    let text = "say first how far you have come".to_owned();
                    self.reject(slot, RejectReason::Malformed, text, now);
                }
            }
        }
    }

    /// Judges what a peer says of itself; one that comes with less than was seen is told and refused.
    pub(crate) fn reached(&mut self, slot: usize, node: NodeId, reach: Reach, now: Time) -> bool {
        let peer = self.peers.get_mut(&node).expect("checked to be a member");
        match peer.past.judge(reach) {
            Ok(()) => {
                let before = peer.past;
                peer.past.note(reach);
                self.reaching.is_start_new |= before.newest != peer.past.newest;
                self.reaching.is_commit_new |= before.commit != peer.past.commit;
                let connection = self.slots[slot].as_mut().expect("it has just spoken");
                connection.is_judged = true;
                true
            }
            Err(sighting) => {
                let past = peer.past;
                if peer.may_log_refusal(now) {
                    tracing::warn!(peer = %node, ?reach, ?past, finding = ?sighting.finding,
                        "peer refused: it comes with less than was seen of it");
                }
                self.refuse_sighted(slot, sighting, now);
                false
            }
        }
    }

    fn refuse_sighted(&mut self, slot: usize, sighting: Sighting, now: Time) {
        let connection = self.slots[slot].as_mut().expect("it has just spoken");
        connection.put(Kind::Sighting, |body| put_sighting(body, sighting));
        let text = format!(
            "a later state of this node was seen, in boot {}: {:?}",
            sighting.boot, sighting.finding
        );
        self.reject(slot, RejectReason::StaleBoot, text, now);
    }

    /// A peer has seen more of this node.
    pub(crate) fn sighted(&mut self, peer: NodeId, frame: &Frame) {
        match take_sighting(&frame.body) {
            Ok(sighting) => self.arrivals.push(Arrival::Sighted { peer, sighting }),
            Err(error) => tracing::warn!(%peer, %error, "unreadable sighting"),
        }
    }
}
