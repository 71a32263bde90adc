//! Collects what the checkers need to know of a run while it happens.
//!
//! The world tells it each event once; the first broken property ends the run. It reads messages and batches, and trusts
//! no status of the code under test but for sizes.

mod agreed_time;
mod casts;
mod collects;
mod group;
mod kept;
mod losses;
mod replies;
mod resets;
mod skips;
mod spread;
mod told;
mod verdict;
mod views;
mod writes;

use super::clock::Moment;
use super::feed;
use super::workload::{self, Drawn, lets_wait};
use crate::checkers::ages::Ages;
use crate::checkers::agreement::{Agreement, Fingerprint};
use crate::checkers::at_most_once::{AtMostOnce, Place};
use crate::checkers::chosen::Chosen;
use crate::checkers::durability::Durability;
use crate::checkers::groups::OtherGroups;
use crate::checkers::invited::Invited;
use crate::checkers::liveness::Liveness;
use crate::checkers::phase_one::PhaseOne;
use crate::checkers::recorded::Call;
use crate::checkers::rendezvous::Rendezvous;
use crate::checkers::views::Views;
use crate::checkers::vouching::Vouching;
use crate::checkers::watching::Watching;
use crate::checkers::witness::{LogWitness, ReadReply};
use crate::checkers::written::Written;
use crate::checkers::{Property, Violation};
use crate::history::{Recorded, Recorder};
use bytes::Bytes;
use group::{Group, GroupCall};
use losses::Forgetful;
use quorate_types::{
    Ballot, Batch, CommandId, Digest, Incarnation, LaterAnswer, Level, NodeId, NodeSet, ObjectId,
    Outcome, Persistence, ReadLevel, Slot, SlotResults, Stamp, Step, View, ViewNumber, cancelled,
};
use quorate_wire::encoded_batch;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use twox_hash::XxHash3_64;

/// What a checker says.
pub(super) type Judged = Result<(), Violation>;

/// An operation of a client that has not ended.
#[derive(Clone, Debug)]
pub(super) struct Open {
    drawn: Drawn,
    number: u64,
    /// `None` for reads of any state, which promise nothing about time.
    recorded: Option<Recorded>,
    /// What was decided when it began.
    decided: Slot,
    /// Whose it is.
    client: u64,
    /// What its client had read when it began.
    read: Slot,
}

impl Open {
    /// Whether the state of any replica is enough for it.
    pub(super) fn wants_any(&self) -> bool {
        self.drawn.is_any()
    }

    /// Whether it waits for an item of the queue, for the lock or for a change.
    pub(super) fn takes(&self) -> bool {
        waits(&self.drawn.call)
    }

    /// Whether it does for as long as it takes.
    pub(super) fn takes_patiently(&self) -> bool {
        matches!(self.drawn.call, Call::Take(None) | Call::Watch(_, None))
    }

    /// Whether a lease's answer is enough for it.
    pub(super) fn wants_lease(&self) -> bool {
        self.drawn.level == Some(ReadLevel::Lease)
    }
}

/// Whether a call may wait for others.
fn waits(call: &Call) -> bool {
    matches!(call, Call::Take(_) | Call::Acquire(_) | Call::Watch(..))
}

/// Where an answer comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    /// The execution of a command.
    Command(CommandId),
    /// The state after a slot, read without a command.
    StateAfter(Slot),
}

/// The checkers of one run.
pub(super) struct Judge {
    /// By view; decisions are under view 0.
    agreement: BTreeMap<ViewNumber, Agreement>,
    /// What is in force where, by the decided changes in the slots up to here.
    views: (Views, Slot),
    /// Views that began with another level, with that of the one before and their own, until somebody looks.
    levels_set: Vec<(ViewNumber, Level, Level)>,
    /// Who may join, after the same slot.
    invited: Invited,
    groups: OtherGroups,
    /// The view that first names an incarnation of a member that came back.
    came_back: BTreeMap<(NodeId, Incarnation), ViewNumber>,
    chosen: Chosen,
    phase_one: PhaseOne,
    vouching: Vouching,
    cast: casts::Casts,
    spread: spread::SpreadValues,
    /// What is on the disks; `None` in memory mode.
    written: Option<BTreeMap<ViewNumber, Written>>,
    /// Which replies are kept, where anybody has sessions.
    kept: Option<kept::KeptJudge>,
    once: AtMostOnce,
    durability: Durability,
    witness: LogWitness<Group>,
    rendezvous: Rendezvous,
    watching: Watching,
    /// Calls that end the waiting of others, and those.
    cancels: BTreeMap<CommandId, Vec<CommandId>>,
    recorder: Recorder,
    /// How old reads of any state may be.
    pub ages: Ages,
    /// When answers are owed.
    pub liveness: Liveness,
    /// What each ballot's leader proposed.
    proposed: BTreeMap<(Slot, Ballot), Fingerprint>,
    opened: BTreeSet<(NodeId, u64, Ballot)>,
    /// The last slot that each node has decided in this life, or whose state it holds.
    decided_by: BTreeMap<NodeId, Slot>,
    log: BTreeMap<Slot, Batch>,
    /// The newest snapshot that each node has made durable.
    snapshots: BTreeMap<NodeId, Slot>,
    /// Who took a snapshot, by slot and digest.
    takers: BTreeMap<(Slot, Digest), NodeSet>,
    /// The snapshot that a node was keeping when it ended.
    cut_short: BTreeMap<NodeId, (Slot, Digest)>,
    resets: resets::Resets,
    collects: collects::Collects,
    /// Who told votes, by slot and ballot.
    voters: BTreeMap<(Slot, Ballot), NodeSet>,
    /// How many snapshots let the log go.
    replica_majority: usize,
    /// Nodes without objects; a number keeps its role, whoever has it.
    witnesses: NodeSet,
    /// Nodes that lost records.
    forgetful: BTreeMap<NodeId, Forgetful>,
    /// Nodes that run on a log of which something is lost.
    damaged: BTreeSet<NodeId>,
    /// Places whose call took effect somewhere.
    executed: BTreeSet<(Slot, u32)>,
    /// Before which slot each start of a node had all calls kept.
    keeps: BTreeMap<(NodeId, u16), Slot>,
    /// Calls that the group skipped, by their places.
    skipped: BTreeMap<(Slot, u32), CommandId>,
    stamps: BTreeMap<Slot, Stamp>,
    payloads: BTreeMap<(ObjectId, Bytes), Call>,
    calls: BTreeMap<CommandId, GroupCall>,
    /// The client that sent a call first.
    callers: BTreeMap<CommandId, u64>,
    /// The operations of calls that were answered.
    answered_calls: BTreeMap<CommandId, Recorded>,
    /// The operations of answered reads, each with the slot that it shows.
    answered_reads: Vec<(Slot, Recorded)>,
    operations: u64,
    /// Operations that ended with an answer.
    pub answered: u64,
    /// Calls that ended without one.
    pub failed: u64,
}

fn fingerprint(batch: &Batch) -> Fingerprint {
    XxHash3_64::oneshot(encoded_batch(batch))
}

fn broken(property: Property, detail: String) -> Judged {
    Err(Violation::new(property, detail))
}

impl Judge {
    /// Judges a group with this view, which owes answers as `liveness` says.
    pub(super) fn new(liveness: Liveness, view: &View) -> Judge {
        let begun = views::begun(view);
        let rounds = begun.newest().1.quorums();
        Judge {
            agreement: BTreeMap::new(),
            views: (begun, Slot::ZERO),
            levels_set: Vec::new(),
            invited: Invited::default(),
            groups: OtherGroups::default(),
            came_back: BTreeMap::new(),
            chosen: Chosen::new(rounds),
            phase_one: PhaseOne::new(rounds),
            vouching: Vouching::default(),
            cast: casts::Casts::default(),
            spread: spread::SpreadValues::new(),
            written: (view.persistence == Persistence::Disk).then(BTreeMap::new),
            kept: None,
            once: AtMostOnce::default(),
            durability: Durability::default(),
            witness: LogWitness::new(Group),
            rendezvous: Rendezvous::default(),
            watching: Watching::new(feed::KEPT_MAX),
            cancels: BTreeMap::new(),
            recorder: Recorder::default(),
            ages: Ages::default(),
            liveness,
            proposed: BTreeMap::new(),
            opened: BTreeSet::new(),
            decided_by: BTreeMap::new(),
            log: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            takers: BTreeMap::new(),
            cut_short: BTreeMap::new(),
            resets: resets::Resets::default(),
            collects: collects::Collects::new(view.level),
            voters: BTreeMap::new(),
            replica_majority: view.replica_majority(),
            witnesses: view.witnesses(),
            forgetful: BTreeMap::new(),
            damaged: BTreeSet::new(),
            executed: BTreeSet::new(),
            keeps: BTreeMap::new(),
            skipped: BTreeMap::new(),
            stamps: BTreeMap::new(),
            payloads: BTreeMap::new(),
            calls: BTreeMap::new(),
            callers: BTreeMap::new(),
            answered_calls: BTreeMap::new(),
            answered_reads: Vec::new(),
            operations: 0,
            answered: 0,
            failed: 0,
        }
    }

    /// A snapshot is durable at `node`.
    pub(super) fn keeps(&mut self, node: NodeId, slot: Slot) {
        let kept = self.snapshots.entry(node).or_default();
        *kept = slot.max(*kept);
    }

    /// Whether a node has no objects.
    pub(super) fn is_witness(&self, node: NodeId) -> bool {
        self.witnesses.contains(node)
    }

    /// The newest snapshot that was ever durable at `node`.
    pub(super) fn newest_kept(&self, node: NodeId) -> Option<Slot> {
        self.snapshots.get(&node).copied()
    }

    /// A snapshot that `node` took itself, with this digest, is durable there.
    pub(super) fn took(&mut self, node: NodeId, slot: Slot, digest: Digest) {
        let takers = self.takers.entry((slot, digest)).or_default();
        takers.insert(node);
        self.holds(node, slot, digest);
    }

    /// `node` ended while it kept a snapshot that it took: a start may find it whole.
    pub(super) fn cut_short(&mut self, node: NodeId, slot: Slot, digest: Digest) {
        self.cut_short.insert(node, (slot, digest));
    }

    /// `node` starts, and finds this snapshot on its disk.
    pub(super) fn starts_with(&mut self, node: NodeId, slot: Slot, digest: Digest) {
        if self.cut_short.remove(&node) == Some((slot, digest)) {
            self.took(node, slot, digest);
        }
    }

    /// Who took a snapshot at `slot` with this digest.
    pub(super) fn takers(&self, slot: Slot, digest: Digest) -> NodeSet {
        let takers = self.takers.get(&(slot, digest));
        takers.copied().unwrap_or_default()
    }

    /// `node` lets its log up to `upto` go: a majority holds a snapshot there, or it holds one itself.
    pub(super) fn trims(&mut self, node: NodeId, upto: Slot) -> Judged {
        self.collects.trimmed(upto);
        let holders = self.snapshots.iter().filter(|(_, kept)| **kept >= upto);
        let holders: Vec<NodeId> = holders.map(|(holder, _)| *holder).collect();
        let goes_nothing = upto == Slot::ZERO;
        if self.is_witness(node) && !goes_nothing && !holders.contains(&node) {
            return broken(
                Property::Durability,
                format!(
                    "{node} is a witness that trims its log up to {upto} and keeps no such snapshot"
                ),
            );
        }
        if goes_nothing || holders.contains(&node) || holders.len() >= self.least_majority() {
            return Ok(());
        }
        broken(
            Property::Durability,
            format!("{node} trims its log up to {upto}; only {holders:?} hold a snapshot there"),
        )
    }

    fn agreement_in(&mut self, view: ViewNumber) -> &mut Agreement {
        self.agreement.entry(view).or_default()
    }

    /// What acceptors of a view have written; `None` in memory mode.
    fn written_in(&mut self, view: ViewNumber) -> Option<&mut Written> {
        let governing = self.views.0.of(view);
        let begins = governing.map_or(Slot::ZERO, |governing| governing.first.previous());
        let views = self.written.as_mut()?;
        Some(views.entry(view).or_insert_with(|| Written::after(begins)))
    }

    /// `node` decides.
    pub(super) fn decided(&mut self, node: NodeId, slot: Slot, batch: &Batch) -> Judged {
        let value = fingerprint(batch);
        // Slots belong to the group, whichever view decides them.
        self.agreement_in(ViewNumber::default())
            .decided(node, slot, value)?;
        self.chosen.decided(node, slot, value)?;
        self.vouching.decided(slot, value);
        self.knows(node, slot);
        if self.log.contains_key(&slot) {
            return Ok(());
        }
        self.log.insert(slot, batch.clone());
        self.note_keeps(slot, batch);
        self.note_resets(slot, batch)?;
        self.follow_views()?;
        self.check_collects(slot, batch)?;
        if self.has_quorum(node, slot) {
            return Ok(());
        }
        broken(
            Property::Agreement,
            format!("{node} decides {slot}, for which no quorum told its votes"),
        )
    }

    /// `node` took steps with its objects.
    pub(super) fn executed(
        &mut self,
        node: NodeId,
        slot: Slot,
        stamp: Stamp,
        steps: &[Step],
        results: &SlotResults,
    ) -> Judged {
        self.stamped(node, slot, stamp)?;
        for (step, result) in steps.iter().zip(&results.steps) {
            let Some(call) = step.call() else { continue };
            let place = Place {
                slot,
                index: call.index as usize,
            };
            if result.outcome() == Some(&Outcome::Skipped) {
                self.skipped(node, call.id, place)?;
                continue;
            }
            self.executed.insert((slot, call.index));
            let hash = match result.outcome().filter(|_| !lets_wait(call.object)) {
                Some(outcome) => reply_hash(outcome),
                None => WAITS,
            };
            self.once.executed(node, call.id, place, hash)?;
            if let Some(outcome) = result.outcome() {
                self.taken(call.id, outcome, Some(node))?;
            }
        }
        for LaterAnswer { id, outcome, .. } in &results.answers {
            self.taken(*id, outcome, Some(node))?;
        }
        self.follow_replies(slot, Some((steps, results)));
        Ok(())
    }

    /// `node` holds the state after `slot`, from a snapshot.
    pub(super) fn moved(&mut self, node: NodeId, slot: Slot) {
        let place = (slot > Slot::ZERO).then_some(Place {
            slot,
            index: usize::MAX,
        });
        self.once.moved(node, place);
        self.collects.moved(node, slot);
        self.knows(node, slot);
    }

    /// `node` begins a life with the state after `slot`.
    pub(super) fn begun_at(&mut self, node: NodeId, slot: Slot) {
        self.decided_by.insert(node, slot);
        self.moved(node, slot);
    }

    /// `client` begins an operation.
    pub(super) fn calls(
        &mut self,
        now: Moment,
        client: u64,
        drawn: Drawn,
        payload: &Bytes,
    ) -> Open {
        let key = (drawn.object, payload.clone());
        self.payloads.insert(key, drawn.call.clone());
        self.operations += 1;
        let number = self.operations;
        // A taker's answer is owed once there is an item, or its time is over: `feed_takers`.
        if !waits(&drawn.call) {
            self.liveness.invoked(now.0, client, number);
        }
        let name = workload::OBJECTS[drawn.object.0 as usize].0;
        let recorded = (!drawn.is_any() && !lets_wait(drawn.object)).then(|| {
            self.recorder
                .invoked(now.0, client, name, drawn.call.clone())
        });
        Open {
            drawn,
            number,
            recorded,
            decided: self.last_decided(),
            client,
            read: self.ages.read_by(client),
        }
    }

    /// An operation ended with an answer. Says the answer as the models see it.
    pub(super) fn ended(
        &mut self,
        now: Moment,
        open: Open,
        outcome: &Outcome,
        source: Source,
    ) -> Result<(Call, Json), Violation> {
        let result = workload::result(&open.drawn.call, outcome);
        self.answered += 1;
        if let Some(recorded) = open.recorded.filter(|_| *outcome == Outcome::Skipped) {
            self.recorder.refused(recorded);
        } else if let Some(recorded) = open.recorded {
            self.recorder.returned(now.0, recorded, result.clone());
            match source {
                Source::Command(id) => {
                    self.answered_calls.insert(id, recorded);
                }
                Source::StateAfter(slot) => self.answered_reads.push((slot, recorded)),
            }
        }
        if let Source::StateAfter(slot) = source {
            if open.drawn.level == Some(ReadLevel::Any) {
                self.ages.goes_on(open.client, open.read, slot)?;
            }
            self.ages.got(open.client, slot);
            if open.recorded.is_some() && slot < open.decided {
                let detail = format!(
                    "{:?} read {:?} after {slot}; {} was decided before it began",
                    open.drawn.level, open.drawn.call, open.decided
                );
                return Err(Violation::new(Property::ReadConfirmed, detail));
            }
            self.witness.read(ReadReply {
                slot,
                call: (open.drawn.object, open.drawn.call.clone()),
                reply: result.clone(),
            });
        }
        self.liveness.completed(now.0, open.number)?;
        self.heard(&open, &result)?;
        Ok((open.drawn.call, result))
    }

    /// An operation ended without an answer.
    pub(super) fn gave_up(&mut self, now: Moment, open: Open, may_have_executed: bool) -> Judged {
        self.failed += 1;
        if let Some(recorded) = open.recorded
            && !may_have_executed
        {
            self.recorder.refused(recorded);
        }
        self.liveness.completed(now.0, open.number)
    }

    /// Whether a client has sent a call before.
    pub(super) fn was_called(&self, id: CommandId) -> bool {
        self.callers.contains_key(&id)
    }

    /// A client sends a call under a name.
    pub(super) fn called(
        &mut self,
        client: u64,
        id: CommandId,
        object: ObjectId,
        payload: &Bytes,
    ) -> Judged {
        self.callers.entry(id).or_insert(client);
        if let Some(ids) = cancelled(payload) {
            self.cancels.entry(id).or_insert_with(|| ids.collect());
            return Ok(());
        }
        let call = (object, self.payloads[&(object, payload.clone())].clone());
        let first = self.calls.entry(id).or_insert_with(|| call.clone());
        if *first == call {
            return Ok(());
        }
        broken(
            Property::AtMostOnce,
            format!("a client uses {id} for {first:?} and for {call:?}"),
        )
    }

    /// The commands of decided slots up to `upto`: what a snapshot there covers.
    pub(super) fn commands_upto(&self, upto: Slot) -> BTreeSet<CommandId> {
        self.log
            .range(..=upto)
            .flat_map(|(_, batch)| batch.commands().iter().map(|command| command.id))
            .collect()
    }

    /// All nodes are down: looks at what each disk holds.
    pub(super) fn check_disks(
        &self,
        disks: &[(NodeId, BTreeSet<CommandId>)],
        quorum: usize,
    ) -> Judged {
        self.durability.check_disks(disks, quorum)
    }

    /// What is decided in `slot`.
    pub(super) fn decided_batch(&self, slot: Slot) -> Option<&Batch> {
        self.log.get(&slot)
    }

    /// Whether a slot was chosen in a fast round, or after one of the same ballot.
    pub(super) fn by_fast_round(&self, slot: Slot) -> (bool, bool) {
        self.chosen.by_fast_round(slot)
    }

    /// Up to where promises told the leader of `ballot` that all is decided.
    pub(super) fn floor(&self, ballot: Ballot) -> Slot {
        self.phase_one.floor(ballot)
    }

    /// The last slot that was decided.
    pub(super) fn last_decided(&self) -> Slot {
        self.log
            .last_key_value()
            .map_or(Slot::ZERO, |(slot, _)| *slot)
    }

    /// How many commands were decided.
    pub(super) fn commands(&self) -> usize {
        self.once.executions()
    }
}

/// In place of the reply's hash, where another call may give the reply.
const WAITS: u64 = 2;

fn reply_hash(outcome: &Outcome) -> u64 {
    match outcome {
        Outcome::Returned(bytes) => XxHash3_64::oneshot(bytes),
        Outcome::Raised(bytes) => !XxHash3_64::oneshot(bytes),
        Outcome::Skipped => 1,
    }
}
