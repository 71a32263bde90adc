//! A new group is made of a backup: each of its nodes gets the snapshot, and a log that begins after it.
//!
//! What the nodes then start from is what nodes have after they trimmed their logs for a snapshot that all of them hold. The
//! cluster is a new one, so clients and nodes of the old one are refused. Its slots begin far above those of the old one: fencing
//! tokens and numbers of sessions are made of slots, and none may be given twice. Called by `quorate restore`, before any node has
//! started; it makes nothing of the directories that it is not told to make, and leaves them to its caller when it fails.

use crate::code_file::short_hash;
use crate::host_restore;
use crate::journal::put_base;
use crate::limits::{SLOT_BY_CLOCK_MAX, SLOT_RESTORED_MAX, SLOTS_A_SECOND, SLOTS_LEFT_OUT};
use crate::{AboutGroup, NodeConfig, NodeError, OtherCode};
use bytes::{Bytes, BytesMut};
use quorate_host::{Host, ObjectImage};
use quorate_ordering::{Entry, Record};
use quorate_replica::SnapshotCore;
use quorate_storage::{
    BodySize, DataDirectory, Identity, Log, SnapshotStore, StorageLimits, WholeBackup,
};
use quorate_types::{Ballot, Digest, NodeId, Slot, View, ViewId};
use quorate_wire::{Snapshot, SnapshotFront, put_record, snapshot_front};

/// Where a new group goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The slot of the snapshot that all its nodes hold.
    pub slot: Slot,
    /// What they hold there.
    pub digest: Digest,
}

/// Gives the state of `backup` to the nodes of `configs`, whose directories are made and were never opened. `now` is in seconds
/// since 1970.
///
/// # Errors
/// When the objects' classes are missing or refuse the state, their code is other code and that is not accepted, or a directory
/// cannot be written.
pub fn restore(
    configs: &[NodeConfig],
    (backup, about): (&WholeBackup, &AboutGroup),
    other: OtherCode,
    now: u64,
) -> Result<Restored, NodeError> {
    let first = configs.first().expect("a group has a node");
    let rest = read_rest(backup)?;
    let core = core_for(first, backup, now)?;
    let restored = Restored {
        slot: core.core.slot,
        digest: Digest {
            replicated: core.core.digest(),
            state: backup.head.digest.state,
        },
    };
    let front = snapshot_front(&core.core, core.names.iter().map(String::as_str));
    let whole: Bytes = [&front[..], &rest].concat().into();
    drop(rest);
    try_out(first, &whole, about, other)?;
    let size = BodySize {
        front: front.len() as u64,
        whole: whole.len() as u64,
    };
    configs
        .iter()
        .try_for_each(|config| fill(config, &core.core, restored, (&whole, size)))?;
    Ok(restored)
}

/// The slot at which a group goes on that is made at `now` of the state at `slot`; `None` where no slots are left. No group comes as
/// far as this by deciding slots: neither the one whose state it is, nor one that was made of the same state before.
fn goes_on_at(slot: Slot, now: u64) -> Option<Slot> {
    let by_clock = now.saturating_mul(SLOTS_A_SECOND).min(SLOT_BY_CLOCK_MAX);
    let at = slot.0.checked_add(SLOTS_LEFT_OUT)?.max(by_clock);
    (at <= SLOT_RESTORED_MAX).then_some(Slot(at))
}

/// What follows the front of the snapshot.
fn read_rest(backup: &WholeBackup) -> Result<BytesMut, NodeError> {
    let body = &backup.body;
    let front = body.front.len() as u64;
    let mut rest = BytesMut::zeroed((body.bytes - front) as usize);
    body.read(front, &mut rest)
        .map_err(|error| NodeError::System("cannot read the backup", error))?;
    Ok(rest)
}

/// The front of the snapshot with the view of the new group, and at a slot of its own.
fn core_for(
    config: &NodeConfig,
    backup: &WholeBackup,
    now: u64,
) -> Result<SnapshotFront, NodeError> {
    let unreadable = |reason: String| NodeError::Unreadable(format!("the backup: {reason}"));
    let read = SnapshotFront::take(&backup.body.front);
    let SnapshotFront { mut core, names } = read.map_err(|error| unreadable(error.to_string()))?;
    if let Some(next) = &core.next {
        return Err(unreadable(format!(
            "it was taken while the group turned to view {}: take another one",
            next.number.0
        )));
    }
    core.view = View {
        number: core.view.number,
        first_slot: core.view.first_slot,
        ..config.view()
    };
    core.previous = None;
    assert_eq!(
        core.digest(),
        backup.head.digest.replicated,
        "members are not part of what replicas agree on"
    );
    // The other groups of its cluster are not in the backup.
    core.groups = Vec::new();
    let slot = core.slot.0;
    move_on(&mut core, now)
        .ok_or_else(|| unreadable(format!("no slots are left after its slot {slot}")))?;
    Ok(SnapshotFront { core, names })
}

/// Puts a state at a slot of its own, and in a view whose leaders are above all that it knows: where a change of the view was left
/// behind, leaders of a later one have judged its sessions. `None` where no slots are left.
fn move_on(core: &mut SnapshotCore, now: u64) -> Option<()> {
    core.view.number = core.view.number.max(core.lead_ballot.view);
    core.slot = goes_on_at(core.slot, now)?;
    Some(())
}

/// Lets a host of the new group take the state, as each node will at its start.
fn try_out(
    config: &NodeConfig,
    whole: &Bytes,
    about: &AboutGroup,
    other: OtherCode,
) -> Result<(), NodeError> {
    let mut host = Host::open(config.host_config())?;
    let code = host.fingerprint().and_then(short_hash);
    if code != about.code && other == OtherCode::Refused {
        let shown = |code: &Option<String>| code.clone().unwrap_or_else(|| "none".to_owned());
        return Err(NodeError::OtherCode {
            dir: config.dir.clone(),
            changes: format!(
                "the hash of their sources, packages and interpreter is {} here, and {} in the backup",
                shown(&code),
                shown(&about.code)
            ),
        });
    }
    let refused =
        |reason: String| NodeError::Unreadable(format!("the backup cannot be restored: {reason}"));
    let snapshot = Snapshot::take(whole).map_err(|error| refused(error.to_string()))?;
    let images = snapshot.images.into_iter().map(|stored| ObjectImage {
        object: stored.object,
        image: stored.image.into(),
    });
    let restored = host_restore::restore(&mut host, snapshot.core.slot, images.collect());
    restored.map(drop).map_err(refused)
}

/// Writes the snapshot and the log of one node.
fn fill(
    config: &NodeConfig,
    core: &SnapshotCore,
    Restored { slot, digest }: Restored,
    (whole, size): (&Bytes, BodySize),
) -> Result<(), NodeError> {
    let directory = Identity::open_unborn(&config.dir)?;
    let group = config.group_id();
    let store = SnapshotStore::open(directory.snapshot_disk()?, config.cluster_id())?;
    store.save_from(group, slot, digest.state, size, slot, |sink| sink(whole))?;
    let number = core.view.number;
    let entries = [
        Entry::Promise {
            ballot: promised(core),
        },
        Entry::Trimmed { upto: slot },
        Entry::Decided { upto: slot },
        Entry::Agreed { slot, digest },
    ];
    let view = ViewId { group, number };
    let records = entries.map(|entry| Record { view, entry });
    begin_log(config, &directory, (slot, &records), [])
}

/// What acceptors of the new group have promised: it has the round of the newest leader that the state knows, so that the leaders
/// of the new group have higher ballots. Ballots of a later view are above all of an earlier one.
pub(crate) fn promised(core: &SnapshotCore) -> Ballot {
    match core.lead_ballot.view == core.view.number {
        false => Ballot::ZERO,
        true => Ballot {
            node: NodeId(0),
            boot: 0,
            ..core.lead_ballot
        },
    }
}

/// A log that was trimmed for the snapshot at `upto`, and goes on with `records`. All are of one view.
pub(crate) fn begin_log(
    config: &NodeConfig,
    directory: &DataDirectory,
    (upto, base): (Slot, &[Record]),
    records: impl IntoIterator<Item = Record>,
) -> Result<(), NodeError> {
    let group = config.group_id();
    let view = base[0].view.number;
    let limits = StorageLimits::of_node(config.node_id());
    let (mut log, _) = Log::open_of(directory.log_disk()?, directory.identity_file(), limits)?;
    log.discard(group, upto, &put_base(base))?;
    let mut bytes = BytesMut::new();
    for record in records {
        put_record(&mut bytes, &record);
        let slot = record.slot().unwrap_or(Slot::ZERO);
        log.append(group, slot, &bytes.split())?;
    }
    log.commit()?;
    log.seal()?;
    directory
        .identity_file()
        .change(|identity| identity.view = view)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::past;
    use crate::snapshot_thread::tests::core;
    use quorate_any::AnyOrdering;
    use quorate_ordering::{Config, Past};
    use quorate_storage::Persist;
    use quorate_types::{GroupId, Incarnation, Time, ViewNumber};
    use std::path::Path;

    const CONFIG: &str = r#"
        cluster = "00000000000000aa"
        node = 1
        dir = "."
        listen = "127.0.0.1:7400"
        [[objects]]
        name = "counter"
        class = "rust:counter"
        [[members]]
        node = 1
        incarnation = "0000000000000001"
        address = "127.0.0.1:7400"
    "#;

    /// The log with which a node would start that is restored in `view`, where the newest leader of the state had `lead`.
    fn log_of(dir: &Path, view: u64, lead: Ballot) -> (SnapshotCore, Past) {
        let mut config = NodeConfig::parse(CONFIG).expect("it is right");
        config.dir = dir.to_owned();
        let (cluster, node) = (config.cluster_id(), config.node_id());
        let made = Identity::init(dir, cluster, node, Incarnation(1), Persist::Disk);
        made.expect("the directory is empty");
        let mut core = core(Slot(9));
        (core.view.number, core.lead_ballot) = (ViewNumber(view), lead);
        let restored = Restored {
            slot: core.slot,
            digest: Digest {
                replicated: core.digest(),
                state: [7; 32],
            },
        };
        let (whole, size) = (
            Bytes::from_static(b"state"),
            BodySize { front: 5, whole: 5 },
        );
        fill(&config, &core, restored, (&whole, size)).expect("there is room");
        let directory = Identity::open_unborn(dir).expect("no node has started");
        assert_eq!(directory.identity().view, core.view.number);
        let limits = StorageLimits::of_node(node);
        let disk = directory.log_disk().expect("it is there");
        let (_, found) =
            Log::open_of(disk, directory.identity_file(), limits).expect("it is whole");
        let past = past(found, config.group_id()).expect("it can be read").past;
        (core, past)
    }

    #[test]
    fn a_restored_log_belongs_to_its_view_and_the_next_leader_is_above_that_of_the_state() {
        let lead = |view| {
            Ballot::ZERO
                .next(ViewNumber(view), NodeId(3), 4)
                .next(ViewNumber(view), NodeId(3), 5)
        };
        // A leader of the view itself, and of the view before it, whose ballot is none of this one's.
        for (lead, round) in [(lead(2), lead(2).round), (lead(1), 0)] {
            let dir = tempfile::tempdir().expect("there is room");
            let (core, past) = log_of(dir.path(), 2, lead);
            assert_eq!(past.whole_after(), Some(Slot(9)));
            assert_eq!(past.agreed().map(|(slot, _)| slot), Some(Slot(9)));
            let promised = past.records.iter().filter_map(|record| match record.entry {
                Entry::Promise { ballot } => Some(ballot.round),
                _ => None,
            });
            assert_eq!(promised.max(), Some(round));
            let (past, others) = past.part(ViewNumber(2), ViewNumber(2));
            assert!(others.is_empty() && !past.damage.is_open());
            let config = Config::new(GroupId(1), NodeId(1), 1, core.view, 7);
            let made = AnyOrdering::new(config, past.records, Time(0));
            assert!(made.is_ok(), "no record is of another view");
            assert!(lead < promised_next(round));
        }
    }

    #[test]
    fn a_state_that_knows_leaders_of_a_later_view_goes_on_in_that() {
        let mut core = core(Slot(9));
        core.lead_ballot = Ballot::ZERO.next(ViewNumber(3), NodeId(2), 4);
        move_on(&mut core, 0).expect("slots are left");
        assert_eq!(
            (core.view.number, core.slot),
            (ViewNumber(3), Slot(9 + SLOTS_LEFT_OUT))
        );
        assert_eq!(promised(&core).round, core.lead_ballot.round);
    }

    /// The first ballot of a leader that starts for the first time.
    fn promised_next(round: u64) -> Ballot {
        let promised = Ballot {
            round,
            ..Ballot::ZERO.next(ViewNumber(2), NodeId(0), 0)
        };
        promised.next(ViewNumber(2), NodeId(1), 1)
    }

    #[test]
    fn no_group_reaches_the_slots_of_one_that_is_made_of_its_state() {
        let made_at = 1_800_000_000;
        let first = goes_on_at(Slot(412), made_at).expect("slots are left");
        assert!(first.0 >= 412 + SLOTS_LEFT_OUT);
        // Made of the same state a second later, while the first group went on.
        let second = goes_on_at(Slot(412), made_at + 1).expect("slots are left");
        assert!(second.0 >= first.0 + SLOTS_A_SECOND);
        // A clock that is far behind, and one that is far ahead.
        let behind = goes_on_at(first, 0).expect("slots are left");
        assert_eq!(behind.0, first.0 + SLOTS_LEFT_OUT);
        let ahead = goes_on_at(Slot(412), u64::MAX).expect("slots are left");
        assert!(goes_on_at(ahead, u64::MAX).is_some());
        assert!(SLOT_RESTORED_MAX < (i64::MAX >> 16).cast_unsigned());
        assert_eq!(goes_on_at(Slot(SLOT_RESTORED_MAX), made_at), None);
        assert_eq!(goes_on_at(Slot(u64::MAX), made_at), None);
    }
}
