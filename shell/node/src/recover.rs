//! A node is given what the survivors of a group know, so that it goes on from there alone.
//!
//! Replicas execute what the log holds after a snapshot: so the node that gets the survivors' newest snapshot and the slots after it
//! comes to the state that their group had, and a backup of that is restored like any other. The node is a cluster of its own and its only
//! acceptor, so all that it gets counts as decided. Called by `quorate recover`, for a directory that was made and never opened.

use crate::refused_opens::refused_opens;
use crate::restore::{begin_log, promised};
use crate::survivors::{HeldBody, Survivors};
use crate::{NodeConfig, NodeError};
use bytes::{Bytes, BytesMut};
use quorate_ordering::{Entry, Record};
use quorate_replica::SnapshotCore;
use quorate_storage::{BodySize, DataDirectory, Identity, SnapshotStore};
use quorate_types::{
    Ballot, Batch, Body, Command, Digest, GroupChange, MemberChange, NodeId, SessionId, Slot, View,
    ViewId, ViewNumber,
};
use quorate_wire::snapshot_front;
use std::collections::BTreeSet;

/// Gives the node of `config`, the only one of its group, what the survivors know. Their directories stay as they are.
///
/// # Errors
/// When a directory cannot be read or written.
pub fn recover(config: &NodeConfig, survivors: &Survivors) -> Result<(), NodeError> {
    let directory = Identity::open_unborn(&config.dir)?;
    let mut ballot = Ballot::ZERO;
    let mut view = ViewId {
        group: config.group_id(),
        number: ViewNumber(1),
    };
    let mut entries = Vec::new();
    if let Some(held) = survivors.snapshot() {
        let core = core_for(config, &held.front.core);
        (view.number, ballot) = (core.view.number, promised(&core));
        let digest = save(config, &directory, held, &core)?;
        let slot = core.slot;
        entries.push(Entry::Trimmed { upto: slot });
        entries.push(Entry::Agreed { slot, digest });
    }
    entries.push(Entry::Promise { ballot });
    entries.push(Entry::Decided {
        upto: survivors.included(),
    });
    let begins = survivors.begins_after();
    let slots = || (begins.0 + 1..).map(Slot).zip(&survivors.batches);
    let held = survivors.snapshot().map(|held| &held.front.core.sessions);
    let held = held.into_iter().flatten();
    let refused = refused_opens(slots(), held.map(|session| (session.hash, session.id)));
    let filled = slots().map(|(slot, batch)| {
        let batch = without_opens(slot, of_the_new_group(slot, batch), &refused);
        Entry::Chosen { slot, batch }
    });
    let record = |entry| Record { view, entry };
    let base: Vec<Record> = entries.into_iter().map(record).collect();
    begin_log(config, &directory, (begins, &base), filled.map(record))?;
    keep_code(config, survivors)
}

/// The survivors' snapshot in the view of the new node. A view that was to follow does not.
fn core_for(config: &NodeConfig, found: &SnapshotCore) -> SnapshotCore {
    SnapshotCore {
        view: View {
            number: found.view.number,
            first_slot: found.view.first_slot,
            ..config.view()
        },
        previous: None,
        next: None,
        // The nodes of the other groups are not this one's to begin.
        groups: Vec::new(),
        ..found.clone()
    }
}

fn save(
    config: &NodeConfig,
    directory: &DataDirectory,
    held: &HeldBody,
    core: &SnapshotCore,
) -> Result<Digest, NodeError> {
    let (front, body) = (&held.front, &held.body);
    let old = body.front.len() as u64;
    let mut rest = BytesMut::zeroed((body.bytes - old) as usize);
    body.read(old, &mut rest)
        .map_err(|error| NodeError::System("cannot read the survivor's snapshot", error))?;
    let front = snapshot_front(core, front.names.iter().map(String::as_str));
    let size = BodySize {
        front: front.len() as u64,
        whole: (front.len() + rest.len()) as u64,
    };
    let store = SnapshotStore::open(directory.snapshot_disk()?, config.cluster_id())?;
    let (group, slot) = (config.group_id(), core.slot);
    let (front, rest): (Bytes, Bytes) = (front, rest.freeze());
    store.save_from(group, slot, body.digest, size, slot, |sink| {
        sink(&front)?;
        sink(&rest)
    })?;
    Ok(Digest {
        replicated: core.digest(),
        state: body.digest,
    })
}

/// The batch, but for changes of the old group's views and of other groups, and for its trims: those of the new one are its own. A trim
/// names what the old group's replicas agreed on. What the new node holds there has another digest, because it tells another view.
fn of_the_new_group(decided: Slot, batch: &Batch) -> Batch {
    let changes = |command: &Command| {
        matches!(
            command.body,
            Body::ChangeView { .. } | Body::ChangeGroups { .. } | Body::Collect { .. }
        )
    };
    if !batch.commands().iter().any(changes) {
        return batch.clone();
    }
    let commands = batch.commands().iter().cloned().map(|mut command| {
        if let Body::ChangeView { change, who, first } = &mut command.body {
            // There is no such view, so the change has no effect, as one that came too late.
            change.after = ViewNumber(0);
            *first = None;
            if matches!(
                who.as_ref(),
                MemberChange::Level(_)
                    | MemberChange::Ordering(_)
                    | MemberChange::Quorums(_)
                    | MemberChange::Limit(_)
            ) {
                // Every build reads this one.
                **who = MemberChange::Same;
            }
        } else if let Body::ChangeGroups { change } = &mut command.body {
            // No group has such a name.
            let name = String::new();
            *change = GroupChange::Drop { name };
        } else if let Body::Collect { slot, .. } = &mut command.body {
            // Only a slot before its own is trimmed for.
            *slot = decided;
        }
        command
    });
    Batch::new(batch.stamp(), commands.collect())
}

/// The batch, but for opens that the old group refused: the new one has room for more sessions than that may have had.
fn without_opens(decided: Slot, batch: Batch, refused: &BTreeSet<SessionId>) -> Batch {
    let at = |index| SessionId::opened_at(decided, index);
    if !(0..batch.commands().len()).any(|index| refused.contains(&at(index))) {
        return batch;
    }
    let commands = batch.commands().iter().cloned().enumerate();
    let commands = commands.map(|(index, mut command)| {
        if refused.contains(&at(index)) {
            // No start of a node waits for it.
            let (reader, boot) = (NodeId(0), 0);
            command.body = Body::Read { reader, boot };
        }
        command
    });
    Batch::new(batch.stamp(), commands.collect())
}

/// The calls are executed again with the code that executed them.
fn keep_code(config: &NodeConfig, survivors: &Survivors) -> Result<(), NodeError> {
    let name = format!("code-{}", config.group);
    let code = survivors.best().join(&name);
    let copied = match code.exists() {
        true => std::fs::copy(&code, config.dir.join(&name)).map(drop),
        false => Ok(()),
    };
    copied.map_err(|error| NodeError::System("cannot copy which code the group runs with", error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::{CommandId, Level, NodeSet, SecretHash, SessionTerms, Stamp, ViewChange};

    #[test]
    fn a_change_of_the_old_groups_view_keeps_its_place_and_loses_its_effect() {
        let change = |after| ViewChange {
            after: ViewNumber(after),
            acceptors: NodeSet::empty(),
            window: 8,
        };
        let command = |body| Command {
            id: CommandId::default(),
            acknowledged: 0,
            body,
        };
        let changed = |after| {
            let body = Body::ChangeView {
                first: None,
                change: change(after),
                who: Box::new(quorate_types::MemberChange::Same),
            };
            Batch::new(Stamp::default(), vec![command(Body::Tick), command(body)])
        };
        assert_eq!(of_the_new_group(Slot(9), &changed(3)), changed(0));
        let raised = command(Body::ChangeView {
            first: None,
            change: change(3),
            who: Box::new(MemberChange::Level(Level(20))),
        });
        let raised = Batch::new(Stamp::default(), vec![command(Body::Tick), raised]);
        assert_eq!(
            of_the_new_group(Slot(9), &raised),
            changed(0),
            "the new group is at the lowest level, which all builds read"
        );
        let other = Batch::new(Stamp::default(), vec![command(Body::Tick)]);
        assert!(of_the_new_group(Slot(9), &other).is_same(&other));
    }

    #[test]
    fn an_open_that_was_refused_keeps_its_place_and_opens_nothing() {
        let body = || Body::Open {
            hash: SecretHash::default(),
            terms: SessionTerms::default(),
            tenant: SecretHash::default(),
        };
        let command = |body| Command {
            id: CommandId::default(),
            acknowledged: 0,
            body,
        };
        let bodies = [Body::Tick, body(), body()];
        let batch = Batch::new(Stamp::default(), bodies.map(command).to_vec());
        let refused = BTreeSet::from([SessionId::opened_at(Slot(9), 1)]);
        let recovered = without_opens(Slot(9), batch.clone(), &refused);
        assert_eq!(recovered.stamp(), batch.stamp());
        let [tick, read, open] = recovered.commands() else {
            panic!("all keep their places: {recovered:?}");
        };
        assert_eq!((tick, open), (&batch.commands()[0], &batch.commands()[2]));
        assert!(matches!(read.body, Body::Read { .. }), "{read:?}");
        assert!(without_opens(Slot(8), batch.clone(), &refused).is_same(&batch));
    }

    /// The new node would differ from what the old group's replicas agreed on.
    #[test]
    fn what_the_old_group_trimmed_for_is_agreed_by_nobody_in_the_new_one() {
        let command = |body| Command {
            id: CommandId::default(),
            acknowledged: 0,
            body,
        };
        let (slot, digest) = (Slot(7), Digest::default());
        let bodies = [Body::Checkpoint, Body::Collect { slot, digest }, Body::Tick];
        let batch = Batch::new(Stamp::default(), bodies.map(command).to_vec());
        let recovered = of_the_new_group(Slot(9), &batch);
        let [checkpoint, trim, tick] = recovered.commands() else {
            panic!("all keep their places: {recovered:?}");
        };
        assert_eq!(
            (checkpoint, tick),
            (&batch.commands()[0], &batch.commands()[2])
        );
        let Body::Collect { slot, .. } = trim.body else {
            panic!("{trim:?}");
        };
        assert_eq!(slot, Slot(9), "not before its own, so without effect");
    }
}
