//! A new group is made of a backup: each of its nodes gets the snapshot, and a log that begins after it.
//!
//! What the nodes then start from is what nodes have after they trimmed their logs for a snapshot that all of them hold. The
//! cluster is a new one, so clients and nodes of the old one are refused. Called by `quorate restore`, before any node has
//! started; it makes nothing of the directories that it is not told to make, and leaves them to its caller when it fails.

use crate::code_file::short_hash;
use crate::host_restore;
use crate::journal::put_base;
use crate::{AboutGroup, NodeConfig, NodeError, OtherCode};
use bytes::{Bytes, BytesMut};
use quorate_host::{Host, ObjectImage};
use quorate_ordering::{Entry, Record};
use quorate_storage::{
    BodySize, DataDirectory, Identity, Log, SnapshotStore, StorageLimits, WholeBackup,
};
use quorate_types::{Ballot, NodeId, View, ViewId};
use quorate_wire::{Snapshot, SnapshotFront, snapshot_front};

/// Gives the state of `backup` to the nodes of `configs`, whose directories are made and were never opened.
///
/// # Errors
/// When the objects' classes are missing or refuse the state, their code is other code and that is not accepted, or a directory
/// cannot be written.
pub fn restore(
    configs: &[NodeConfig],
    (backup, about): (&WholeBackup, &AboutGroup),
    other: OtherCode,
) -> Result<(), NodeError> {
    let first = configs.first().expect("a group has a node");
    let rest = read_rest(backup)?;
    let front = front_for(first, backup)?;
    let whole: Bytes = [&front[..], &rest].concat().into();
    drop(rest);
    try_out(first, &whole, about, other)?;
    let size = BodySize {
        front: front.len() as u64,
        whole: whole.len() as u64,
    };
    configs
        .iter()
        .try_for_each(|config| fill(config, backup, &whole, size))
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

/// The front of the snapshot with the view of the new group. What replicas agree on does not change by that.
fn front_for(config: &NodeConfig, backup: &WholeBackup) -> Result<Bytes, NodeError> {
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
    Ok(snapshot_front(&core, names.iter().map(String::as_str)))
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
    backup: &WholeBackup,
    whole: &Bytes,
    size: BodySize,
) -> Result<(), NodeError> {
    let directory = Identity::open_unborn(&config.dir)?;
    let (group, head) = (config.group_id(), &backup.head);
    let store = SnapshotStore::open(directory.snapshot_disk()?, config.cluster_id())?;
    let state = head.digest.state;
    store.save_from(group, head.slot, state, size, head.slot, |sink| sink(whole))?;
    begin_log(config, &directory, backup)
}

/// A log that was trimmed for the snapshot, on which all agree. Its promise has the round of the newest leader that the state
/// knows: the leaders of the new group have higher ballots.
fn begin_log(
    config: &NodeConfig,
    directory: &DataDirectory,
    backup: &WholeBackup,
) -> Result<(), NodeError> {
    let (group, head) = (config.group_id(), &backup.head);
    let unreadable = |error: quorate_wire::WireError| NodeError::Unreadable(error.to_string());
    let core = SnapshotFront::take(&backup.body.front)
        .map_err(unreadable)?
        .core;
    let (lead, number) = (core.lead_ballot, core.view.number);
    // Ballots of a later view are above all of an earlier one.
    let ballot = match lead.view == number {
        false => Ballot::ZERO,
        true => Ballot {
            node: NodeId(0),
            boot: 0,
            ..lead
        },
    };
    let (upto, digest) = (head.slot, head.digest);
    let view = ViewId { group, number };
    let entries = [
        Entry::Promise { ballot },
        Entry::Trimmed { upto },
        Entry::Decided { upto },
        Entry::Agreed { slot: upto, digest },
    ];
    let records = entries.map(|entry| Record { view, entry });
    let limits = StorageLimits::of_node(config.node_id());
    let (mut log, _) = Log::open_of(directory.log_disk()?, directory.identity_file(), limits)?;
    log.discard(group, upto, &put_base(&records))?;
    log.seal()?;
    directory
        .identity_file()
        .change(|identity| identity.view = number)?;
    Ok(())
}
