//! The acceptor: the promises and votes of a node, persisted before anybody is told.
//!
//! It keeps its promise and its votes separately, refuses lower ballots, and releases answers from its
//! gate only when their records are durable. It sends nothing and knows no leader: the protocol that
//! owns it turns ready [`DurableAnswer`]s into its own messages.

use crate::gate::Gate;
use crate::log::{Open, SlotLog};
use crate::{Promise, Vote};
use quorate_ordering::{Effect, Effects, Entry, Mark, Record, Standing};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{
    Ballot, Batch, Digest, NodeId, Persistence, Slot, Time, ValueId, ViewId, VoteKind,
};
use std::collections::BTreeSet;

/// An answer that may be sent once its records are durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DurableAnswer {
    /// `ballot` is promised; `to` asked for the votes from `from` on.
    Promised {
        /// The ballot, as it was when the promise was submitted.
        ballot: Ballot,
        /// The node that asked.
        to: NodeId,
        /// The first slot asked for.
        from: Slot,
    },
    /// The proposal of `ballot` in `slot` has this node's backing.
    Voted {
        /// The ballot, as it was when the vote was submitted.
        ballot: Ballot,
        /// The slot.
        slot: Slot,
        /// Whose choice the vote was.
        kind: VoteKind,
        /// The kind of backing.
        backing: Backing,
    },
    /// Heartbeat `beat` of `ballot` was heard, and `ballot` is promised.
    Heard {
        /// The leader's ballot.
        ballot: Ballot,
        /// The number of the heartbeat.
        beat: u64,
        /// Whether a lease was granted with it.
        is_granted: bool,
    },
}

/// The kind of an answer to a proposal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backing {
    /// A vote, durable unless in memory mode: it counts towards a quorum.
    Vote,
    /// A node without a vote holds the batch: this returns credit and counts towards no quorum.
    Held,
}

/// The acceptor's reaction to a proposal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Voted for, now or before: a [`DurableAnswer::Voted`] follows.
    Voted,
    /// The slot is trimmed here: it was decided long ago.
    Trimmed,
    /// Another value is decided there: the proposer was superseded and may learn it.
    Superseded,
    /// Too far ahead to hold; nothing follows.
    NoRoom,
    /// Logs are to be trimmed for it, and this acceptor holds neither a vote nor a decision in some slot before: it gives its vote
    /// once it does.
    Incomplete,
}

/// One acceptor of one view.
#[derive(Clone, PartialEq, Debug)]
pub struct Acceptor {
    /// Invariant: every ballot promised or voted in is of this view.
    view: ViewId,
    /// Whether it votes. An acceptor that does not vote only holds the batches it hears of.
    is_voter: bool,
    /// Invariant: never falls; at or above the ballot of every vote.
    promised: Ballot,
    promised_mark: Mark,
    /// The highest slot voted in within `promised`.
    voted: Slot,
    /// No other ballot is promised before this time.
    bound_until: Time,
    bound_to: Ballot,
    /// Slots whose vote records were lost. A slot is removed when a vote is cast there again; decided slots are ignored.
    unknown: BTreeSet<Slot>,
    /// Vote records of any slot may be lost, so the last one of a slot may not be the one that counted.
    is_vote_doubted: bool,
    /// The decided watermark last written.
    recorded: Slot,
    /// A snapshot took it past slots, and no base says so yet: votes that it wrote there may be for other batches than the decided
    /// ones.
    is_jump_unstated: bool,
    /// Slots up to this one are decided, and this acceptor learns them by a snapshot only: others have trimmed what it lacks.
    elided: Slot,
    /// The newest snapshot for which the log may be trimmed, restated by each base.
    agreed: Option<(Slot, Digest)>,
    /// Whether the replica is told what this acceptor votes for.
    tells_tentative: bool,
    /// Writes and the answers that wait for them.
    pub gate: Gate<DurableAnswer>,
    /// Batches.
    pub log: SlotLog,
}

impl Acceptor {
    /// An acceptor that remembers nothing.
    #[must_use]
    pub fn new(view: ViewId, standing: Standing, persistence: Persistence) -> Acceptor {
        Acceptor {
            view,
            is_voter: standing == Standing::Voter,
            promised: Ballot::ZERO,
            promised_mark: Mark(0),
            voted: Slot::ZERO,
            bound_until: Time(0),
            bound_to: Ballot::ZERO,
            unknown: BTreeSet::new(),
            is_vote_doubted: false,
            recorded: Slot::ZERO,
            is_jump_unstated: false,
            elided: Slot::ZERO,
            agreed: None,
            tells_tentative: false,
            gate: Gate::new(view, persistence),
            log: SlotLog::default(),
        }
    }

    /// The replica is told of each vote ([`Effect::Tentative`]).
    pub fn set_tells_tentative(&mut self, tells: bool) {
        self.tells_tentative = tells;
    }

    /// Restores the state that an earlier start recorded, and what of it was lost: the votes in some slots, or in any.
    pub(crate) fn restore(
        &mut self,
        promised: Ballot,
        log: SlotLog,
        unknown: BTreeSet<Slot>,
        is_vote_doubted: bool,
    ) {
        self.promised = promised;
        self.unknown = unknown;
        self.is_vote_doubted = is_vote_doubted;
        self.recorded = log.decided();
        self.log = log;
    }

    /// The view of its promises and votes.
    #[must_use]
    pub fn view(&self) -> ViewId {
        self.view
    }

    /// Slots above the decided prefix in which it may have cast a vote that it has lost.
    pub fn unknown(&self) -> impl Iterator<Item = Slot> {
        self.unknown.range(self.log.decided().next()..).copied()
    }

    /// Whether it votes.
    #[must_use]
    pub fn is_voter(&self) -> bool {
        self.is_voter
    }

    /// Makes it a voter again: every promise and vote that it can have lost is known. A ballot that it heard
    /// of while it had no vote was not written; from now on that ballot binds it too.
    pub fn enfranchise<M>(&mut self, promised: Ballot, effects: &mut Effects<M>) {
        self.is_voter = true;
        self.promised = self.promised.max(promised);
        self.voted = Slot::ZERO;
        self.record_promise(effects);
    }

    /// The highest ballot promised; at a node without a vote, the highest heard.
    #[must_use]
    pub fn promised(&self) -> Ballot {
        self.promised
    }

    /// The highest slot voted in within the promised ballot.
    #[must_use]
    pub fn voted(&self) -> Slot {
        self.voted
    }

    /// Whether the promise is durable.
    #[must_use]
    pub fn is_promise_durable(&self) -> bool {
        self.gate.is_durable(self.promised_mark)
    }

    /// Grants a lease: no ballot other than `ballot` is promised before `until`.
    pub fn bind(&mut self, ballot: Ballot, until: Time) {
        self.bound_to = ballot;
        self.bound_until = self.bound_until.max(until);
    }

    /// The time before which only ballots of `node` may be promised.
    #[must_use]
    pub fn bound_until(&self, node: NodeId) -> Time {
        let is_own = self.bound_to != Ballot::ZERO && self.bound_to.node == node;
        if is_own || planted(Plant::LeaseIgnored) {
            Time(0)
        } else {
            self.bound_until
        }
    }

    /// Promises `ballot` and writes the promise; a lower or equal ballot changes nothing.
    pub fn raise<M>(&mut self, ballot: Ballot, effects: &mut Effects<M>) {
        if ballot <= self.promised {
            return;
        }
        assert_eq!(
            ballot.view, self.view.number,
            "a ballot of another view binds nobody here"
        );
        self.promised = ballot;
        self.voted = Slot::ZERO;
        if self.is_voter {
            self.record_promise(effects);
        }
    }

    /// Writes the promise again once damage is repaired. The record that showed it may be a vote, and if new damage takes that
    /// one, only its slot counts as lost.
    pub fn restate_promise<M>(&mut self, effects: &mut Effects<M>) {
        if self.is_voter && self.promised > Ballot::ZERO {
            self.record_promise(effects);
        }
    }

    fn record_promise<M>(&mut self, effects: &mut Effects<M>) {
        let ballot = self.promised;
        self.gate.write(|| Entry::Promise { ballot }, effects);
        self.promised_mark = self.gate.mark();
    }

    /// Phase 1: promises `ballot`, which is at least the promised one, and answers `to` when durable.
    pub fn promise<M>(&mut self, ballot: Ballot, to: NodeId, from: Slot, effects: &mut Effects<M>) {
        assert!(self.is_voter, "an observer promises nothing");
        assert!(ballot >= self.promised, "a lower ballot is refused before");
        self.raise(ballot, effects);
        self.tell(DurableAnswer::Promised { ballot, to, from });
    }

    /// Phase 2: votes for `batch`, unless the slot is decided already. `ballot` is at least the
    /// promised one.
    pub fn vote<M>(
        &mut self,
        ballot: Ballot,
        slot: Slot,
        batch: Batch,
        effects: &mut Effects<M>,
    ) -> Verdict {
        assert!(
            ballot >= self.promised || planted(Plant::AcceptLowerBallot),
            "a lower ballot is refused before"
        );
        self.raise(ballot, effects);
        if slot <= self.log.trimmed() {
            return Verdict::Trimmed;
        }
        let backing = if self.is_voter {
            Backing::Vote
        } else {
            Backing::Held
        };
        let kind = VoteKind::Classic;
        let answer = DurableAnswer::Voted {
            ballot,
            slot,
            kind,
            backing,
        };
        if let Some(chosen) = self.log.chosen(slot) {
            if *chosen != batch {
                return Verdict::Superseded;
            }
            self.tell(answer);
            return Verdict::Voted;
        }
        let is_recorded = self.is_voter && self.gate.is_on_disk();
        if let Some(open) = self.log.open(slot)
            && (open.ballot == ballot && open.kind == kind
                || planted(Plant::VoteNotRewritten) && open.batch == batch)
        {
            assert!(open.batch == batch, "one ballot proposes one batch a slot");
            // A batch held while this node had no vote is not a vote until it is written as one.
            if open.is_recorded || !is_recorded || planted(Plant::HeldTakenForVote) {
                self.gate.after(answer);
                return Verdict::Voted;
            }
        }
        if !self.log.has_room(slot) {
            return Verdict::NoRoom;
        }
        if batch.is_collecting() && !self.may_collect(slot) {
            return Verdict::Incomplete;
        }
        if self.is_voter {
            self.record_vote(ballot, slot, kind, batch.clone(), effects);
        }
        let open = Open {
            ballot,
            kind,
            batch,
            is_recorded,
        };
        self.hold(slot, open, effects);
        self.gate.after(answer);
        Verdict::Voted
    }

    /// Holds what it votes for, and tells the replica so unless it knows that already.
    fn hold<M>(&mut self, slot: Slot, open: Open, effects: &mut Effects<M>) {
        let is_known = |held: &Open| held.batch == open.batch;
        if self.tells_tentative && !self.log.open(slot).is_some_and(is_known) {
            let batch = open.batch.clone();
            effects.push(Effect::Tentative { slot, batch });
        }
        self.log.put(slot, open);
    }

    /// Whether it may vote for a trim in `slot`: it holds a vote or a decision in every slot before, except those that only a snapshot
    /// brings. Who does not vote only holds. Claim mp-61.
    fn may_collect(&self, slot: Slot) -> bool {
        if !self.is_voter || planted(Plant::CollectVotedWithGap) {
            return true;
        }
        let must_be_recorded = self.gate.is_on_disk();
        let mut next = self.log.decided().max(self.elided).next();
        let open = self.log.open_from(next);
        for (held, open) in open {
            if held != next || held >= slot || must_be_recorded && !open.is_recorded {
                break;
            }
            next = next.next();
        }
        next >= slot
    }

    /// Slots up to `upto` are decided, and come by a snapshot only; none where it is slot 0.
    pub fn set_elided(&mut self, upto: Slot) {
        self.elided = upto;
    }

    /// Phase 2 of a fast round of the promised ballot: votes for `batch`, its next value, in `slot`. Declines where it votes or
    /// may have voted in the round already, and where the slot is decided or too far ahead.
    pub fn try_cast<M>(
        &mut self,
        slot: Slot,
        value: ValueId,
        batch: Batch,
        effects: &mut Effects<M>,
    ) -> bool {
        let ballot = self.promised;
        let is_gap_before = batch.is_collecting() && !self.may_collect(slot);
        if !self.may_cast(slot) || is_gap_before {
            return false;
        }
        let kind = VoteKind::Fast(value);
        self.record_vote(ballot, slot, kind, batch.clone(), effects);
        let is_recorded = self.gate.is_on_disk();
        let open = Open {
            ballot,
            kind,
            batch,
            is_recorded,
        };
        self.hold(slot, open, effects);
        self.gate.after(DurableAnswer::Voted {
            ballot,
            slot,
            kind,
            backing: Backing::Vote,
        });
        true
    }

    /// Whether it may vote in the fast round of the promised ballot in `slot`: it has done so in no round of that ballot there,
    /// as far as it remembers, and it remembers its votes in this slot.
    #[must_use]
    pub fn may_cast(&self, slot: Slot) -> bool {
        let open = self.log.open(slot);
        let is_free = open.is_none_or(|open| open.ballot < self.promised)
            || planted(Plant::FastRoundCastTwice);
        let remembers = !self.unknown.contains(&slot) || planted(Plant::UnknownSlotCast);
        self.is_voter
            && self.promised > Ballot::ZERO
            && slot > self.log.decided()
            && self.log.has_room(slot)
            && is_free
            && remembers
    }

    fn record_vote<M>(
        &mut self,
        ballot: Ballot,
        slot: Slot,
        kind: VoteKind,
        batch: Batch,
        effects: &mut Effects<M>,
    ) {
        self.voted = self.voted.max(slot);
        // An earlier vote there had no higher ballot.
        self.unknown.remove(&slot);
        let vote = || Entry::Vote {
            slot,
            ballot,
            kind,
            batch,
        };
        self.gate.write(vote, effects);
    }

    /// Releases `answer` as soon as the promise is durable; it depends on no newer write.
    pub fn tell(&mut self, answer: DurableAnswer) {
        if self.is_promise_durable() || planted(Plant::PromiseBeforeSync) {
            self.gate.at_once(answer);
        } else {
            self.gate.after(answer);
        }
    }

    /// One page of votes for a candidate: slots from `from` on and above the decided prefix.
    #[must_use]
    pub fn page(&self, ballot: Ballot, from: Slot, slots: usize, bytes: usize) -> Promise {
        let mut votes = Vec::new();
        let mut next = None;
        let mut weight = 0;
        // A batch held while this node had no vote has no record and is not a vote.
        let must_be_recorded = self.gate.is_on_disk() && !planted(Plant::HeldTakenForVote);
        let open = self.log.open_from(from);
        for (slot, open) in open.filter(|(_, open)| open.is_recorded || !must_be_recorded) {
            weight += open.batch.weight();
            if votes.len() == slots || (weight > bytes && !votes.is_empty()) {
                next = Some(slot);
                break;
            }
            votes.push(Vote {
                slot,
                ballot: open.ballot,
                kind: open.kind,
                batch: open.batch.clone(),
            });
        }
        Promise {
            ballot,
            from,
            votes,
            unknown: self
                .unknown()
                .filter(|slot| *slot >= from && next.is_none_or(|next| *slot < next))
                .collect(),
            next,
            decided: self.told(self.log.decided()),
            trimmed: self.told(self.log.trimmed()),
            wall: self.log.wall(),
        }
    }

    /// A watermark as promises report it.
    fn told(&self, watermark: Slot) -> Slot {
        if planted(Plant::DecidedNotInPromise) {
            return Slot::ZERO;
        }
        watermark
    }

    /// Extends the decided prefix by one slot, with `learned` or with the batch held for it. A watermark
    /// record requires that the last record of each slot has the decided batch, so a batch without a
    /// matching vote record is written as chosen. So is one whose vote record may be older than a lost one.
    pub fn decide<M>(&mut self, learned: Option<Batch>, effects: &mut Effects<M>) {
        let is_recorded = self.log.decide_next(learned) && !self.is_vote_doubted;
        if !is_recorded && self.gate.is_on_disk() && !planted(Plant::ChosenNotWritten) {
            let slot = self.log.decided();
            let batch = self.log.chosen(slot).expect("it was just decided").clone();
            self.gate.write(|| Entry::Chosen { slot, batch }, effects);
        }
    }

    /// Decided slots that the last written watermark does not cover.
    #[must_use]
    pub fn unrecorded(&self) -> u64 {
        self.log.decided().since(self.recorded)
    }

    /// A snapshot replaces everything up to `upto`, which is above the decided prefix.
    pub fn jump(&mut self, upto: Slot) {
        self.log.jump(upto);
        self.is_jump_unstated = !planted(Plant::WatermarkOverJump);
    }

    /// Writes the decided watermark if it has risen and there is a disk. Nothing waits for this write. It waits itself for a base
    /// if a snapshot replaced slots: it would make every vote that was written there a decision after a restart.
    pub fn record_decided<M>(&mut self, effects: &mut Effects<M>) {
        let upto = self.log.decided();
        if upto > self.recorded && !self.is_jump_unstated {
            self.recorded = upto;
            self.gate.write(|| Entry::Decided { upto }, effects);
        }
    }

    /// The records that the log needs once records up to `trimmed` are removed. A base may become durable
    /// before records written ahead of it. So its watermark is only the trim point: above it an older
    /// vote could be taken for the decided batch. The watermark is written again, in order.
    #[must_use]
    pub fn base(&mut self) -> Vec<Record> {
        self.recorded = self.log.trimmed();
        self.is_jump_unstated = false;
        let ballot = if planted(Plant::BaseWithoutPromise) {
            Ballot::ZERO
        } else {
            self.promised
        };
        let upto = self.log.trimmed();
        let decided = if planted(Plant::BaseWrongWatermark) {
            self.log.decided()
        } else {
            upto
        };
        let agreed = self.agreed;
        let entries = [
            Entry::Promise { ballot },
            Entry::Trimmed { upto },
            Entry::Decided { upto: decided },
        ];
        let agreed = agreed.map(|(slot, digest)| Entry::Agreed { slot, digest });
        let entries = entries.into_iter().chain(agreed);
        entries.map(|entry| self.gate.record(entry)).collect()
    }

    /// What the base of another view's instance has to say of this one, while both are alive.
    #[must_use]
    pub fn statement(&self) -> Vec<Record> {
        let entries = [
            Entry::Promise {
                ballot: self.promised,
            },
            Entry::Trimmed {
                upto: self.log.trimmed(),
            },
        ];
        entries.map(|entry| self.gate.record(entry)).into()
    }

    /// A majority of replicas holds snapshots at `slot` with this digest. Says whether that is news.
    pub fn note_agreed(&mut self, slot: Slot, digest: Digest) -> bool {
        let is_news = self.agreed.is_none_or(|(noted, _)| noted < slot);
        if is_news {
            self.agreed = Some((slot, digest));
        }
        is_news
    }

    /// Panics when an invariant is broken.
    pub fn check(&self) {
        self.gate.check();
        self.log.check();
        assert!(
            self.recorded <= self.log.decided(),
            "only what is decided is recorded so"
        );
        for (slot, open) in self.log.open_from(Slot::ZERO) {
            assert!(
                open.ballot <= self.promised,
                "{slot}: a vote implies its promise"
            );
            assert_eq!(open.ballot.view, self.view.number, "{slot}: a foreign vote");
        }
    }
}

#[cfg(test)]
mod tests;
