//! Fetching a snapshot from a peer. The other side is in `serving.rs`.
//!
//! There is one fetch at a time, in pieces of bounded size, with two requested ahead. A silent peer is
//! replaced by another; the pieces received so far are kept only if that peer reported the same snapshot.
//! The node keeps its two newest images, so a fetch survives one checkpoint.

use crate::limits::{CHUNK_BYTES, CHUNKS_ASKED, FETCH_DOUBLINGS, FETCH_PATIENCE};
use crate::local::agreement::SnapshotReport;
use crate::{DiskRoom, Output, PeerMessage, Replica, ReplicaMessage};
use quorate_ordering::{Lane, LinkState, Ordering};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Digest, Duration, LinkEpoch, NodeId, NodeSet, Slot, Time, Value};

#[derive(Debug, Default)]
pub(crate) struct Fetch {
    /// The lowest slot that helps, while a snapshot is needed.
    needed: Option<Slot>,
    /// No snapshot below this slot helps, wherever the logs of peers begin. Invariant: not above `needed`, if that is set.
    least: Slot,
    state: State,
    /// The peer asked last.
    last: Option<NodeId>,
    /// Peers whose link went down: nothing is asked of them while another is left.
    down: NodeSet,
    /// Peers whose link is up.
    up: NodeSet,
    /// The agreed digest at the slot of the snapshot that is being fetched.
    expected: Digest,
    /// Answers without a useful piece since the last pause: after a round of all peers, a pause.
    refusals: usize,
    /// Images that could not be installed since the last pause, which follows after one of each peer: the cause may be here.
    unusable: usize,
    /// Pieces of this fetch that did not come in time: over a slow link the next ones may take longer.
    missed: u32,
    /// A peer was busy with an older snapshot when one that helps was asked for: it is asked for once more.
    is_outpaced: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    /// The first piece is asked for.
    Asking { since: Time },
    /// No peer that can be asked helps; they are asked again after a while.
    Pausing { since: Time },
    /// Pieces arrive.
    Pulling {
        slot: Slot,
        total: u64,
        stored: u64,
        asked: u64,
        since: Time,
    },
    /// The node verifies and restores.
    Installing { slot: Slot },
}

impl Fetch {
    /// Whether the objects wait for a snapshot.
    pub(crate) fn is_active(&self) -> bool {
        self.needed.is_some()
    }

    /// The lowest slot whose snapshot helps, while one is needed.
    pub(crate) fn needed(&self) -> Option<Slot> {
        self.needed
    }

    pub(crate) fn is_installing(&self) -> bool {
        matches!(self.state, State::Installing { .. })
    }

    /// The snapshot is installed.
    pub(crate) fn done(&mut self) {
        self.needed = None;
        self.least = Slot::ZERO;
        self.state = State::Idle;
        self.refusals = 0;
        self.unusable = 0;
        self.missed = 0;
        self.is_outpaced = false;
    }

    fn pause(&mut self, now: Time) {
        self.refusals = 0;
        self.unusable = 0;
        self.state = State::Pausing { since: now };
    }

    /// Whether `peer` was asked and has not answered.
    fn waits_for(&self, peer: NodeId) -> bool {
        match self.state {
            State::Asking { .. } | State::Pulling { .. } => self.last == Some(peer),
            State::Idle | State::Pausing { .. } | State::Installing { .. } => false,
        }
    }

    pub(crate) fn next_wake(&self) -> Option<Time> {
        match self.state {
            State::Idle | State::Installing { .. } => None,
            State::Pausing { since } => Some(since + FETCH_PATIENCE),
            State::Asking { since } | State::Pulling { since, .. } => {
                let doublings = self.missed.min(FETCH_DOUBLINGS);
                Some(since + Duration(FETCH_PATIENCE.0 << doublings))
            }
        }
    }
}

impl<O: Ordering> Replica<O> {
    /// A message of a peer's replica layer.
    pub(crate) fn peer(
        &mut self,
        now: Time,
        (from, link): (NodeId, LinkEpoch),
        message: ReplicaMessage,
        out: &mut Vec<Output<O::Message>>,
    ) {
        match message {
            ReplicaMessage::KeepAlive {
                session,
                number,
                attachment,
            } => self.peer_keepalive(now, (from, number), (session, attachment), out),
            ReplicaMessage::KeptAlive {
                session,
                number,
                refused,
            } => {
                if self.leader() == Some(from) {
                    self.forwarded_keepalive_answered(session, number, refused, out);
                }
            }
            ReplicaMessage::Signs(message) => self.signs_message(now, from, message, out),
            ReplicaMessage::Durable {
                slot,
                digest,
                bytes,
            } => self.peer_reported(
                now,
                from,
                SnapshotReport {
                    slot,
                    digest,
                    bytes,
                },
                out,
            ),
            ReplicaMessage::Clock { wall, votes } => {
                self.clock_told(now, (from, link), (wall, votes));
                self.peer_clock_came(from);
            }
            ReplicaMessage::Outcomes { slot, digest } => self.outcomes_told(from, slot, digest),
            ReplicaMessage::Trail { asks, trail } => self.trail(now, from, asks, *trail, out),
            ReplicaMessage::Room { room } => self.peer_room(from, room),
            ReplicaMessage::Agreed { slot, digest } => {
                self.agreed(now, slot, digest, out);
                if slot > self.replicated.applied && self.leader().is_none() {
                    // Whoever leads may not know this node in the view that it is in.
                    self.passed(now, out);
                }
            }
            ReplicaMessage::Fetch { slot, offset } => self.serve(now, from, slot, offset, out),
            ReplicaMessage::Chunk {
                slot,
                offset,
                total,
                data,
            } => self.chunk(now, from, slot, offset, total, data, out),
            ReplicaMessage::NoSnapshot { .. } => {
                if self.fetch.waits_for(from) {
                    self.no_say.is_refused(from);
                    self.was_no_help(now, out);
                }
            }
            ReplicaMessage::NoSay { after, upto } => {
                self.peer_has_no_say(now, from, (after, upto), out);
            }
        }
    }

    /// A log begins after `upto`, a peer's or the own: what this node lacks before comes only in a snapshot. One from which any
    /// of the logs goes on helps: one that lost records may begin after the newest snapshot on which a majority agreed.
    pub(crate) fn need_snapshot(
        &mut self,
        now: Time,
        upto: Slot,
        out: &mut Vec<Output<O::Message>>,
    ) {
        if upto <= self.pipeline.executed(self.replicated.applied) {
            return;
        }
        let needed = match self.fetch.needed {
            None => upto,
            // The one that is being installed does not help with this log.
            Some(needed) if self.fetch.is_installing() => needed.max(upto),
            Some(needed) => needed.min(upto).max(self.fetch.least),
        };
        self.need(now, needed, out);
    }

    /// Fetches a snapshot at or above `least`: the objects go on only from there.
    pub(crate) fn fetch_at_least(
        &mut self,
        now: Time,
        least: Slot,
        out: &mut Vec<Output<O::Message>>,
    ) {
        self.fetch.least = self.fetch.least.max(least);
        let needed = self.fetch.needed.map_or(least, |needed| needed.max(least));
        self.need(now, needed, out);
    }

    fn need(&mut self, now: Time, needed: Slot, out: &mut Vec<Output<O::Message>>) {
        self.fetch.needed = Some(needed);
        if self.fetch.state == State::Idle {
            self.ask_another(now, out);
        }
    }

    /// Whether the objects need a snapshot in any case.
    fn is_held(&self) -> bool {
        self.quarantine.is_diverged()
            || self.quarantine.reset().is_some()
            || self.own_poison.is_stranded()
    }

    /// The peer asked last did not help: the next one may, but a round without help ends in a pause.
    fn was_no_help(&mut self, now: Time, out: &mut Vec<Output<O::Message>>) {
        self.fetch.refusals += 1;
        if self.fetch.refusals < self.teachers().len() {
            self.ask_another(now, out);
        } else {
            self.fetch.pause(now);
            self.tell_no_say(now, out);
        }
    }

    /// Drops the backlog that a stable snapshot covers once it is past its bound. Ends the need for a
    /// snapshot once the objects have passed it by themselves.
    pub(crate) fn tend_backlog(&mut self, now: Time, out: &mut Vec<Output<O::Message>>) {
        let executed = self.pipeline.executed(self.replicated.applied);
        let may_drop = !self.fetch.is_installing() && !self.is_held();
        let has = match self.is_replica() || self.fetch.least == Slot::ZERO {
            true => executed,
            false => self.kept_and_applied(),
        };
        if may_drop && self.fetch.needed.is_some_and(|needed| needed <= has) {
            self.fetch.done();
        }
        let stable = self.agreement.stable();
        let image = self.agreement.own().map_or(0, |own| own.bytes);
        let is_shed = self.pipeline.shed(stable, self.replicated.applied, image);
        if is_shed && stable > executed {
            self.fetch_at_least(now, stable, out);
        }
    }

    /// Asks the next peer that may have a useful snapshot, the leader last. The pieces received so far are
    /// kept if the peer is known to have the same snapshot.
    fn ask_another(&mut self, now: Time, out: &mut Vec<Output<O::Message>>) {
        let Some(needed) = self.fetch.needed else {
            return;
        };
        let Some(peer) = self.next_peer(needed) else {
            self.fetch.pause(now);
            return;
        };
        self.ask(now, peer, needed, out);
    }

    fn ask(&mut self, now: Time, peer: NodeId, needed: Slot, out: &mut Vec<Output<O::Message>>) {
        let before = self.fetch.last.replace(peer);
        self.no_say.asks(peer, self.agreement.newest_difference());
        let resumed = match self.fetch.state {
            State::Pulling {
                slot,
                total,
                stored,
                ..
            } if self.holds_same(before, peer, slot) => Some((slot, total, stored)),
            _ => None,
        };
        match resumed {
            Some((slot, total, stored)) => {
                self.fetch.state = State::Pulling {
                    slot,
                    total,
                    stored,
                    asked: stored,
                    since: now,
                };
                self.ask_on(out);
            }
            None => {
                self.fetch.state = State::Asking { since: now };
                self.ask_for(peer, needed, 0, out);
            }
        }
    }

    /// Whether the link to `peer` is up.
    pub(crate) fn is_linked(&self, peer: NodeId) -> bool {
        self.fetch.up.contains(peer)
    }

    /// A peer whose link went down will not answer. A peer whose link is new has lost the question, or may be the only one that
    /// has the snapshot.
    pub(crate) fn fetch_link_changed(
        &mut self,
        now: Time,
        peer: NodeId,
        state: LinkState,
        out: &mut Vec<Output<O::Message>>,
    ) {
        match state {
            LinkState::Up(_) => {
                self.fetch.down = self.fetch.down.without(peer);
                self.fetch.up.insert(peer);
                self.may_have_snapshot(now, peer, out);
            }
            LinkState::Down => {
                self.peer_room(peer, DiskRoom::Plenty);
                self.fetch.down.insert(peer);
                self.fetch.up = self.fetch.up.without(peer);
                if self.fetch.waits_for(peer) {
                    self.ask_another(now, out);
                }
            }
        }
    }

    /// A peer has taken a snapshot at `slot`. If that is too old here, the peer has taken none at the checkpoints decided while it
    /// was busy with this one, also where this node had asked for them.
    pub(crate) fn fetch_missed(&mut self, slot: Slot) {
        let is_old = self.fetch.needed.is_some_and(|needed| slot < needed);
        self.fetch.is_outpaced |= is_old && self.is_held();
    }

    /// At the end of a turn: asks once more for the snapshot that a peer has missed.
    pub(crate) fn tend_missed(&mut self) {
        if self.fetch.is_outpaced && !self.checkpoints.is_submitted() {
            self.fetch.is_outpaced = false;
            self.want_checkpoint();
        }
    }

    /// A peer holds a snapshot up to `slot`: the end of a pause is not awaited.
    pub(crate) fn fetch_reported(
        &mut self,
        now: Time,
        peer: NodeId,
        slot: Slot,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let is_pausing = matches!(self.fetch.state, State::Pausing { .. });
        let is_missed = planted(Plant::ExactSnapshotNotAsked) && Some(slot) == self.fetch.needed;
        if is_pausing && Some(slot) >= self.fetch.needed && !is_missed {
            self.may_have_snapshot(now, peer, out);
        }
    }

    /// A peer may have what the others had not: it is asked at once, unless pieces come from another.
    fn may_have_snapshot(&mut self, now: Time, peer: NodeId, out: &mut Vec<Output<O::Message>>) {
        let is_free = match self.fetch.state {
            State::Asking { .. } | State::Pausing { .. } => true,
            State::Pulling { .. } => self.fetch.last == Some(peer),
            State::Idle | State::Installing { .. } => false,
        };
        if let Some(needed) = self.fetch.needed
            && is_free
            && self.teachers().contains(peer)
        {
            self.ask(now, peer, needed, out);
        }
    }

    /// Who may have a snapshot: the other members, and where all of those are gone, members that the view here does not name yet.
    fn teachers(&self) -> NodeSet {
        let keepers = self.other_keepers();
        match keepers.iter().any(|node| self.fetch.up.contains(node)) {
            true => keepers,
            false => keepers.iter().chain(self.fetch.up.iter()).collect(),
        }
    }

    fn next_peer(&self, needed: Slot) -> Option<NodeId> {
        let linked = self.teachers();
        let linked: NodeSet = (linked.iter())
            .filter(|node| !self.fetch.down.contains(*node))
            .collect();
        let others = if linked.is_empty() {
            self.teachers()
        } else {
            linked
        };
        let holders = self.agreement.holders(needed).without(self.config.own);
        let known: Vec<NodeId> = others
            .iter()
            .filter(|node| holders.contains(*node))
            .collect();
        let candidates = if known.is_empty() {
            others.iter().collect()
        } else {
            known
        };
        let leader = self.leader();
        let mut order: Vec<NodeId> = candidates;
        order.sort_by_key(|node| Some(*node) == leader);
        let last = self.fetch.last;
        let place = order.iter().position(|node| Some(*node) == last);
        let next = place.map_or(0, |place| (place + 1) % order.len());
        order.get(next).copied()
    }

    fn holds_same(&self, before: Option<NodeId>, peer: NodeId, slot: Slot) -> bool {
        let Some(before) = before else { return false };
        let one = self.agreement.report_of(before, slot);
        before == peer || (one.is_some() && one == self.agreement.report_of(peer, slot))
    }

    fn ask_for(&self, peer: NodeId, slot: Slot, offset: u64, out: &mut Vec<Output<O::Message>>) {
        out.push(Output::Send {
            to: NodeSet::only(peer),
            lane: Lane::Bulk,
            message: PeerMessage::Replica(ReplicaMessage::Fetch { slot, offset }),
        });
    }

    /// Asks for pieces ahead of what is stored.
    fn ask_on(&mut self, out: &mut Vec<Output<O::Message>>) {
        let Some(peer) = self.fetch.last else { return };
        let State::Pulling {
            slot,
            total,
            stored,
            mut asked,
            since,
        } = self.fetch.state
        else {
            return;
        };
        let piece = u64::from(CHUNK_BYTES);
        while asked < total && asked < stored + CHUNKS_ASKED * piece {
            self.ask_for(peer, slot, asked, out);
            asked += piece;
        }
        self.fetch.state = State::Pulling {
            slot,
            total,
            stored,
            asked,
            since,
        };
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    fn chunk(
        &mut self,
        now: Time,
        from: NodeId,
        slot: Slot,
        offset: u64,
        total: u64,
        data: Value,
        out: &mut Vec<Output<O::Message>>,
    ) {
        if self.fetch.last != Some(from) || data.is_empty() {
            return;
        }
        let (stored, asked) = match self.fetch.state {
            State::Asking { .. } if offset == 0 && Some(slot) >= self.fetch.needed => {
                // The sender of a snapshot tells first what is agreed at its slot.
                let Some(agreed) = self.agreement.agreed_at(slot) else {
                    return;
                };
                self.fetch.expected = agreed;
                (0, u64::from(CHUNK_BYTES))
            }
            State::Pulling {
                slot: pulled,
                total: whole,
                stored,
                asked,
                ..
            } if pulled == slot && whole == total && stored == offset => (stored, asked),
            State::Idle
            | State::Asking { .. }
            | State::Pausing { .. }
            | State::Pulling { .. }
            | State::Installing { .. } => return,
        };
        let stored = stored + data.len() as u64;
        self.fetch.refusals = 0;
        if stored > total || data.len() > CHUNK_BYTES as usize {
            return;
        }
        out.push(Output::StoreChunk {
            slot,
            offset,
            total,
            data,
        });
        self.fetch.state = State::Pulling {
            slot,
            total,
            stored,
            asked: asked.max(stored),
            since: now,
        };
        if stored == total {
            self.install(now, slot, out);
        } else {
            self.ask_on(out);
        }
    }

    fn install(&mut self, now: Time, slot: Slot, out: &mut Vec<Output<O::Message>>) {
        let is_old = match self.is_replica() {
            true => slot < self.pipeline.handed_out(self.replicated.applied),
            false => slot <= self.kept_and_applied(),
        };
        if is_old && !planted(Plant::HealsWhereItDiffers) {
            // The objects caught up by themselves while the pieces came.
            self.fetched(now, slot, out);
            return;
        }
        if !self.is_only_kept(slot) {
            self.undo_all(out);
            self.pipeline.hold(self.replicated.applied);
        }
        self.fetch.state = State::Installing { slot };
        let digest = self.fetch.expected;
        out.push(Output::Install { slot, digest });
    }

    /// The snapshot fetched up to `slot` is no longer needed. If a later one became needed meanwhile, it is
    /// fetched next.
    pub(crate) fn fetched(&mut self, now: Time, slot: Slot, out: &mut Vec<Output<O::Message>>) {
        let later = self.fetch.needed.filter(|needed| *needed > slot);
        let least = self.fetch.least;
        self.fetch.done();
        if least > slot {
            self.fetch_at_least(now, least, out);
        } else if let Some(upto) = later {
            self.need_snapshot(now, upto, out);
        }
    }

    /// The image was damaged, or the disk here took none: another peer's is fetched from its beginning.
    pub(crate) fn install_failed(
        &mut self,
        now: Time,
        slot: Slot,
        out: &mut Vec<Output<O::Message>>,
    ) {
        if self.fetch.state == (State::Installing { slot }) {
            if !self.is_held() {
                self.pipeline.release();
            }
            self.fetch.state = State::Idle;
            self.fetch.unusable += 1;
            if self.fetch.unusable < self.teachers().len() {
                self.ask_another(now, out);
            } else {
                self.fetch.pause(now);
            }
        }
    }

    /// Replaces a peer that made no progress.
    pub(crate) fn tend_fetch(&mut self, now: Time, out: &mut Vec<Output<O::Message>>) {
        if self.fetch.next_wake().is_some_and(|due| due <= now) {
            let is_pausing = matches!(self.fetch.state, State::Pausing { .. });
            self.fetch.missed += u32::from(!is_pausing);
            self.ask_another(now, out);
        }
    }
}
