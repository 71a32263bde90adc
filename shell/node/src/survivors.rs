//! What stopped nodes of a group that lost its majority for good still know: snapshots, decided slots, and votes above them.
//!
//! It reads the directories as a scrub does, changes nothing, and keeps their nodes from starting as long as it lives. It relies
//! on no directory that is damaged, has lost votes, or differs from the others: whoever recovers a group leaves those out. Called by
//! `quorate recover`; `recover` makes a node of what is found.

use crate::config::MemberConfig;
use crate::journal::past;
use crate::membership::KnownMembers;
use crate::quarantine_file::QuarantineFile;
use crate::verify::content_of;
use crate::{NodeConfig, NodeError, Unrecoverable};
use quorate_ordering::{Entry, Past, Record};
use quorate_replica::Quarantine;
use quorate_storage::{
    Identity, Persist, StoppedDirectory, WholeBody, scrub_identity, scrub_log, scrub_snapshots,
};
use quorate_types::{Ballot, Batch, Body, Digest, NodeId, NodeSet, Quorums, Slot, ViewNumber};
use quorate_wire::SnapshotFront;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What the survivors know together.
#[derive(Debug)]
pub struct Survivors {
    nodes: Vec<Survivor>,
    /// The node with the newest snapshot.
    best: usize,
    /// What fills the slots after that snapshot, without a gap.
    pub(crate) batches: Vec<Batch>,
    decided: Slot,
    behind_gap: usize,
    acceptors: NodeSet,
    quorums: Quorums,
}

/// One stopped node.
#[derive(Debug)]
struct Survivor {
    dir: PathBuf,
    node: NodeId,
    snapshot: Option<HeldBody>,
    slots: BTreeMap<Slot, Known>,
    /// The node does not start meanwhile.
    _stopped: StoppedDirectory,
}

/// A snapshot that is whole and can be read.
#[derive(Debug)]
pub(crate) struct HeldBody {
    pub(crate) front: SnapshotFront,
    pub(crate) body: WholeBody,
}

/// A directory whose node is no member any more, by what another one knows, counts as no voter: its number may be another's.
fn refuse_removed(
    nodes: &[(PathBuf, NodeConfig)],
    survivors: &[Survivor],
) -> Result<(), NodeError> {
    let Some((best, newest)) = KnownMembers::newest(nodes)? else {
        return Ok(());
    };
    let own = |config: &NodeConfig| {
        let own = config.own_member().map(MemberConfig::member);
        own.map(|member| (member.node, member.incarnation))
    };
    let mut all = nodes.iter().zip(survivors);
    let removed = all.find(|((_, config), _)| own(config).is_none_or(|own| !newest.names(own)));
    match removed {
        None => Ok(()),
        Some((_, removed)) => {
            let what = format!(
                "by what that one knows, the other is no member since view {} or before: leave it out",
                newest.view
            );
            Err(disagree(removed, &survivors[best], what).into())
        }
    }
}

/// What a node knows of a slot.
#[derive(Clone, Debug)]
struct Known {
    batch: Batch,
    /// The ballot in which it voted for the batch; `None` where the slot is decided.
    vote: Option<Ballot>,
}

impl Survivors {
    /// Reads the directories, each with what its node was configured with. `read` is told how many bytes were read.
    ///
    /// # Errors
    /// [`NodeError::Unrecoverable`], and `Locked` where a node runs.
    pub fn of(
        nodes: &[(PathBuf, NodeConfig)],
        read: &mut dyn FnMut(u64),
    ) -> Result<Survivors, NodeError> {
        let first = &nodes.first().expect("the caller names a node").1;
        let mut survivors: Vec<Survivor> = Vec::new();
        for (dir, config) in nodes {
            let next = Survivor::read(dir, config, read)?;
            let twin = survivors.iter().find(|other| other.node == next.node);
            let is_foreign = config.cluster != first.cluster;
            match (survivors.first().filter(|_| is_foreign), twin) {
                (Some(other), _) => {
                    return Err(disagree(&next, other, "they are of two clusters").into());
                }
                (None, Some(other)) => {
                    return Err(disagree(&next, other, "both are of the same node").into());
                }
                (None, None) => survivors.push(next),
            }
        }
        refuse_removed(nodes, &survivors)?;
        compare_snapshots(&survivors)?;
        let view = first.view();
        Ok(Survivors::join(survivors, (view.acceptors, view.quorums))?)
    }

    fn join(
        nodes: Vec<Survivor>,
        began_with: (NodeSet, Quorums),
    ) -> Result<Survivors, Unrecoverable> {
        let newest = nodes.iter().enumerate().rev();
        let best = newest.max_by_key(|(_, node)| node.begins_after());
        let (best, begins) = best.map_or((0, Slot::ZERO), |(at, node)| (at, node.begins_after()));
        let mut slots: BTreeMap<Slot, (usize, Known)> = BTreeMap::new();
        for (at, node) in nodes.iter().enumerate() {
            for (slot, known) in node.slots.range(begins.next()..) {
                if let Some((other, held)) = slots.get(slot) {
                    let agrees = agree(held, known);
                    agrees.map_err(|what| {
                        let what = format!("slot {}: {what}", slot.0);
                        disagree(node, &nodes[*other], what)
                    })?;
                    if !outranks(known, held) {
                        continue;
                    }
                }
                slots.insert(*slot, (at, known.clone()));
            }
        }
        let (mut batches, mut decided, mut slot) = (Vec::new(), begins, begins.next());
        let behind = loop {
            let Some((_, known)) = slots.remove(&slot) else {
                break slots.len();
            };
            if known.vote.is_none() && decided.next() == slot {
                decided = slot;
            }
            batches.push(known.batch);
            slot = slot.next();
        };
        if let Some(index) = batches.iter().position(is_reset) {
            let slot = begins.plus(index as u64 + 1);
            return Err(Unrecoverable::Reset { slot });
        }
        let newest = nodes[best].snapshot.as_ref();
        let counts = newest.map(|held| {
            let view = &held.front.core.view;
            (view.acceptors, view.quorums)
        });
        let (acceptors, quorums) = counts.unwrap_or(began_with);
        Ok(Survivors {
            acceptors,
            quorums,
            nodes,
            best,
            batches,
            decided,
            behind_gap: behind,
        })
    }

    /// The snapshot to go on from; `None` where none was taken yet.
    pub(crate) fn snapshot(&self) -> Option<&HeldBody> {
        self.nodes[self.best].snapshot.as_ref()
    }

    /// The directory that has it.
    pub(crate) fn best(&self) -> &Path {
        &self.nodes[self.best].dir
    }

    /// The slot of the newest snapshot; 0 if there is none.
    #[must_use]
    pub fn begins_after(&self) -> Slot {
        self.nodes[self.best].begins_after()
    }

    /// Up to here the survivors know that the slots are decided.
    #[must_use]
    pub fn decided(&self) -> Slot {
        self.decided
    }

    /// Up to here a survivor voted for what fills the slots, in the highest ballot that is known.
    #[must_use]
    pub fn included(&self) -> Slot {
        self.begins_after().plus(self.batches.len() as u64)
    }

    /// Slots after a slot of which no survivor knows anything.
    #[must_use]
    pub fn behind_gap(&self) -> usize {
        self.behind_gap
    }

    /// Who votes, by the newest snapshot, else by the first view.
    #[must_use]
    pub fn acceptors(&self) -> NodeSet {
        self.acceptors
    }

    /// How many of those elect a leader and how many decide.
    #[must_use]
    pub fn quorums(&self) -> Quorums {
        self.quorums
    }

    /// The nodes and their directories.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Path)> {
        self.nodes.iter().map(|node| (node.node, &*node.dir))
    }
}

impl Survivor {
    fn read(
        dir: &Path,
        config: &NodeConfig,
        read: &mut dyn FnMut(u64),
    ) -> Result<Survivor, NodeError> {
        let stopped = StoppedDirectory::open(dir)?;
        let damaged = |what| Unrecoverable::Damaged {
            dir: dir.to_owned(),
            what,
        };
        let identity = scrub_identity(&stopped.home()).1?;
        judge_identity(dir, config, &identity)?;
        let log = stopped.log();
        let log = log.ok_or_else(|| damaged("it has no log".to_owned()))?;
        let scrubbed = scrub_log(&log, Some(&identity), read)?;
        let mut findings = scrubbed.files.iter().flat_map(|file| {
            let findings = file.findings.iter().map(move |flaw| (file, flaw));
            findings.filter(|(_, flaw)| !flaw.kind.is_normal())
        });
        let finding = findings.next().map_or_else(String::new, |(file, flaw)| {
            format!("{} at byte {}: {}", file.name, flaw.offset, flaw.what)
        });
        if scrubbed.is_refused {
            return Err(damaged(finding).into());
        }
        if let Some(loss) = identity.loss.or(scrubbed.loss) {
            return Err(doubtful(dir, loss.to_string()).into());
        }
        let past = past(scrubbed.recovered, config.group_id())?.past;
        if past.damage.is_open() {
            return Err(damaged(finding).into());
        }
        let snapshot = newest_snapshot(&stopped, config, read)?;
        judge_snapshot(dir, &past, snapshot.as_ref())?;
        Ok(Survivor {
            dir: dir.to_owned(),
            node: identity.node,
            snapshot,
            slots: known(&past.records),
            _stopped: stopped,
        })
    }

    fn begins_after(&self) -> Slot {
        let snapshot = self.snapshot.as_ref();
        snapshot.map_or(Slot::ZERO, |held| held.body.slot)
    }
}

impl HeldBody {
    pub(crate) fn digest(&self) -> Digest {
        Digest {
            replicated: self.front.core.digest(),
            state: self.body.digest,
        }
    }
}

fn doubtful(dir: &Path, what: impl Into<String>) -> Unrecoverable {
    Unrecoverable::Doubtful {
        dir: dir.to_owned(),
        what: what.into(),
    }
}

/// Whether the node is the one that the configuration speaks of, and may be relied on.
fn judge_identity(dir: &Path, config: &NodeConfig, found: &Identity) -> Result<(), NodeError> {
    if (found.cluster, found.node) != (config.cluster_id(), config.node_id()) {
        let what = "its configuration is about another directory";
        return Err(doubtful(dir, what).into());
    }
    if found.persist == Persist::Memory {
        let dir = dir.to_owned();
        return Err(Unrecoverable::InMemory { dir }.into());
    }
    if let Some(Slot(slot)) = found.conflict {
        let what = format!("it and a peer hold different decisions for slot {slot}");
        return Err(doubtful(dir, what).into());
    }
    match QuarantineFile::in_directory(dir, config.group_id()).read()? {
        None => Ok(()),
        Some(Quarantine::Diverged { slot, .. } | Quarantine::Frozen { slot }) => {
            let slot = slot.0;
            let what = format!("no majority agrees with its objects' state at slot {slot}");
            Err(doubtful(dir, what).into())
        }
    }
}

/// Whether the log goes on from the snapshot, and the snapshot is what was agreed.
fn judge_snapshot(
    dir: &Path,
    past: &Past,
    snapshot: Option<&HeldBody>,
) -> Result<(), Unrecoverable> {
    let trimmed = past.records.iter().filter_map(|record| match record.entry {
        Entry::Trimmed { upto } => Some(upto),
        Entry::Promise { .. }
        | Entry::Vote { .. }
        | Entry::Chosen { .. }
        | Entry::Decided { .. }
        | Entry::Agreed { .. } => None,
    });
    let trimmed = trimmed.max().unwrap_or(Slot::ZERO);
    if snapshot.map_or(Slot::ZERO, |held| held.body.slot) < trimmed {
        return Err(Unrecoverable::Damaged {
            dir: dir.to_owned(),
            what: format!(
                "its log begins after slot {}, and no whole snapshot of that is here",
                trimmed.0
            ),
        });
    }
    match (snapshot, past.agreed()) {
        (Some(held), Some((slot, agreed))) if slot == held.body.slot && agreed != held.digest() => {
            let what = "is not what a majority agreed on";
            Err(doubtful(
                dir,
                format!("its snapshot at slot {} {what}", slot.0),
            ))
        }
        (Some(_) | None, Some(_) | None) => Ok(()),
    }
}

/// The newest snapshot from which a node would start.
fn newest_snapshot(
    stopped: &StoppedDirectory,
    config: &NodeConfig,
    read: &mut dyn FnMut(u64),
) -> Result<Option<HeldBody>, NodeError> {
    let Some(disk) = stopped.snapshots() else {
        return Ok(None);
    };
    let scrubbed = scrub_snapshots(&disk, Some(config.cluster_id()), read)?;
    let whole = scrubbed.into_iter().filter_map(|scrubbed| scrubbed.whole);
    let held = whole.filter_map(|body| {
        let content = content_of(&body.front, body.bytes, |at, data| body.read(at, data)).ok()?;
        let is_right = body.group == config.group_id() && content.front.core.slot == body.slot;
        let front = content.front;
        is_right.then_some(HeldBody { front, body })
    });
    Ok(held.max_by_key(|held| held.body.slot))
}

/// What a log knows of its slots: as an acceptor reads it, for each view.
fn known(records: &[Record]) -> BTreeMap<Slot, Known> {
    let mut votes: BTreeMap<Slot, (ViewNumber, Ballot, Batch)> = BTreeMap::new();
    let mut chosen: BTreeMap<Slot, Batch> = BTreeMap::new();
    let mut decided: BTreeMap<ViewNumber, Slot> = BTreeMap::new();
    for Record { view, entry } in records {
        match entry {
            Entry::Vote {
                slot,
                ballot,
                batch,
                ..
            } => {
                let is_newer = |(_, held, _): &(_, Ballot, _)| held <= ballot;
                if votes.get(slot).is_none_or(is_newer) {
                    votes.insert(*slot, (view.number, *ballot, batch.clone()));
                }
            }
            Entry::Chosen { slot, batch } => {
                chosen.insert(*slot, batch.clone());
            }
            Entry::Decided { upto } => {
                let held = decided.entry(view.number).or_default();
                *held = upto.max(held).to_owned();
            }
            Entry::Promise { .. } | Entry::Trimmed { .. } | Entry::Agreed { .. } => {}
        }
    }
    let votes = votes.into_iter().map(|(slot, (view, ballot, batch))| {
        let is_decided = decided.get(&view).is_some_and(|upto| slot <= *upto);
        let vote = (!is_decided).then_some(ballot);
        (slot, Known { batch, vote })
    });
    let mut slots: BTreeMap<Slot, Known> = votes.collect();
    slots.extend(chosen.into_iter().map(|(slot, batch)| {
        let vote = None;
        (slot, Known { batch, vote })
    }));
    slots
}

/// Whether two nodes can both be right about a slot.
fn agree(one: &Known, other: &Known) -> Result<(), &'static str> {
    match (one.vote, other.vote) {
        (None, None) if one.batch != other.batch => Err("different batches are decided"),
        (Some(ballot), Some(same)) if ballot == same && one.batch != other.batch => {
            Err("different batches have votes in one ballot")
        }
        (None | Some(_), None | Some(_)) => Ok(()),
    }
}

/// What is decided stands, else the vote in the higher ballot: if any vote was part of a decision, that one is for the same batch.
fn outranks(known: &Known, held: &Known) -> bool {
    match (known.vote, held.vote) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(ballot), Some(other)) => ballot > other,
    }
}

/// Nodes that hold snapshots of one slot hold the same.
fn compare_snapshots(nodes: &[Survivor]) -> Result<(), Unrecoverable> {
    let mut held: BTreeMap<Slot, (&Survivor, Digest)> = BTreeMap::new();
    for node in nodes {
        let Some(snapshot) = &node.snapshot else {
            continue;
        };
        let slot = snapshot.body.slot;
        let (other, digest) = held.entry(slot).or_insert((node, snapshot.digest()));
        if *digest != snapshot.digest() {
            let what = format!("they hold different states at slot {}", slot.0);
            return Err(disagree(node, other, what));
        }
    }
    Ok(())
}

fn disagree(node: &Survivor, other: &Survivor, what: impl Into<String>) -> Unrecoverable {
    Unrecoverable::Disagree {
        dir: other.dir.clone(),
        other: node.dir.clone(),
        what: what.into(),
    }
}

/// Whether replicas go on from a state that no log tells.
fn is_reset(batch: &Batch) -> bool {
    let mut commands = batch.commands().iter();
    commands.any(|command| matches!(command.body, Body::Reset { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::{GroupId, Stamp, ViewId, Wall};

    fn batch(number: u64) -> Batch {
        let stamp = Stamp {
            wall: Wall(number),
            entropy: 0,
        };
        Batch::new(stamp, Vec::new())
    }

    fn ballot(view: u64, boot: u64) -> Ballot {
        Ballot::ZERO.next(ViewNumber(view), NodeId(1), boot)
    }

    fn record(view: u64, entry: Entry) -> Record {
        let (group, number) = (GroupId(1), ViewNumber(view));
        let view = ViewId { group, number };
        Record { view, entry }
    }

    fn vote(view: u64, slot: u64, number: u64) -> Record {
        let (slot, ballot, batch) = (Slot(slot), ballot(view, number), batch(number));
        let entry = Entry::Vote {
            slot,
            ballot,
            kind: quorate_types::VoteKind::Classic,
            batch,
        };
        record(view, entry)
    }

    fn decided(view: u64, upto: u64) -> Record {
        record(view, Entry::Decided { upto: Slot(upto) })
    }

    fn chosen(slot: u64, number: u64) -> Record {
        let (slot, batch) = (Slot(slot), batch(number));
        record(1, Entry::Chosen { slot, batch })
    }

    /// Each node by its records, in directories that are not looked at again.
    fn joined(logs: &[&[Record]]) -> Result<Survivors, Unrecoverable> {
        let home = tempfile::tempdir().expect("there is room");
        let nodes = logs.iter().zip(1..).map(|(records, node)| Survivor {
            dir: PathBuf::from(format!("node-{node}")),
            node: NodeId(node),
            snapshot: None,
            slots: known(records),
            _stopped: StoppedDirectory::open(home.path()).expect("nobody runs there"),
        });
        let majority = Quorums::majority(1).expect("there is one");
        Survivors::join(nodes.collect(), (NodeSet::empty(), majority))
    }

    fn walls(found: &Survivors) -> Vec<u64> {
        let stamps = found.batches.iter().map(Batch::stamp);
        stamps.map(|stamp| stamp.wall.0).collect()
    }

    #[test]
    fn what_is_decided_stands_and_votes_above_it_are_taken_up_to_a_gap() {
        let log = [
            vote(1, 1, 1),
            vote(1, 2, 2),
            chosen(2, 9),
            vote(1, 3, 3),
            vote(1, 5, 5),
            decided(1, 2),
        ];
        let found = joined(&[&log]).expect("nothing is wrong");
        assert_eq!((found.decided(), found.included()), (Slot(2), Slot(3)));
        assert_eq!((walls(&found), found.behind_gap()), (vec![1, 9, 3], 1));
    }

    #[test]
    fn of_several_votes_the_highest_ballot_counts_unless_the_slot_is_decided() {
        let one = [vote(1, 1, 1), vote(1, 2, 2), decided(1, 1)];
        let other = [vote(1, 1, 7), vote(1, 2, 8), vote(2, 3, 3)];
        for logs in [[&one[..], &other], [&other, &one]] {
            let found = joined(&logs).expect("votes may differ");
            assert_eq!((found.decided(), walls(&found)), (Slot(1), vec![1, 8, 3]));
        }
    }

    #[test]
    fn what_one_view_knows_as_decided_says_nothing_of_a_vote_in_another() {
        let log = [vote(1, 1, 1), vote(2, 2, 2), decided(2, 2)];
        let found = joined(&[&log]).expect("nothing is wrong");
        assert_eq!((found.decided(), found.included()), (Slot::ZERO, Slot(2)));
    }

    #[test]
    fn two_decisions_for_one_slot_are_no_group() {
        let told = joined(&[&[chosen(1, 1)], &[chosen(1, 2)]]).expect_err("they differ");
        assert!(
            told.to_string().contains("slot 1: different batches"),
            "{told}"
        );
        let told = joined(&[&[vote(1, 1, 4)], &[chosen(1, 4)]]);
        assert!(told.is_ok(), "a vote is no decision");
    }
}
