//! From a configuration to a running node: identity, objects, recovery, listening, the loop.
//!
//! Everything that can be refused is refused before the first peer is dialled.

use crate::admin;
use crate::begun_ordering::begun_ordering;
use crate::certificates::read_certificates;
use crate::client_turns::ClientTurns;
use crate::clock::{Entropy, boot_time};
use crate::code_file::{CodeFile, FoundCode, OtherCode, short_hash};
use crate::descriptors;
use crate::died_file::DiedFile;
use crate::executed_file::ExecutedFile;
use crate::groups::{NodePlace, OtherGroups};
use crate::host_restore;
use crate::identify::{LostDirectory, identify, note_sighting, observing, open_directory};
use crate::joining::Template;
use crate::journal::{Journal, past};
use crate::membership::{KnownMembers, Membership};
use crate::multicasting::NodeMulticast;
use crate::node::{Node, TRANSPORT, shared};
use crate::observing::Observing;
use crate::quarantine_file::QuarantineFile;
use crate::questions::questions;
use crate::signals::Signals;
use crate::snapshot_thread::{open, to_start_from};
use crate::snapshots::SnapshotQueue;
use crate::status::OwnIdentity;
use crate::timings::{Histograms, Timings};
use crate::worker::OutsideWorker;
use crate::{NodeConfig, NodeError};
use mio::{Poll, Waker};
use quorate_host::{Host, UnkeptState};
use quorate_ordering::Past;
use quorate_replica::limits::{CLOCK_EVERY, CLOCK_OF_MANY_EVERY};
use quorate_replica::{
    EarlierDeaths, EarlierLives, Recovered, Remembered, Replica, ReplicaConfig, SnapshotReport,
    ViewPasts,
};
use quorate_storage::{DataDirectory, Log, MemoryLoss, PeerMemory, SnapshotStore};
use quorate_transport::{GroupLevel, Own, Places, Settings, Tls, Transport};
use quorate_types::{
    ClusterId, Digest, GroupId, Incarnation, Level, MemberRole, NodeId, ObjectId, PeerPast, Reach,
    Recall, Slot, Starts, View, ViewNumber,
};
use quorate_wire::{ObjectEntry, began_with};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// Runs the node of `config` on this thread until it is asked to stop. `other` says what becomes of objects whose code
/// has changed since the last start; `lost` what becomes of a data directory that is gone.
///
/// # Errors
/// Why it could not start, or had to stop.
pub fn run(config: &NodeConfig, other: OtherCode, lost: LostDirectory) -> Result<(), NodeError> {
    config.check_exposure().map_err(NodeError::Tls)?;
    let (config, connections) = &descriptors::fitted(config)?;
    let process = (*connections, Places::new(*connections));
    run_at(config, (other, lost), process.1.clone(), || {
        let others = OtherGroups::begin(config, other, process)?;
        Ok(NodePlace::First(Box::new(others)))
    })
}

/// Runs the node of one group, in a process that may run others.
pub(crate) fn run_at(
    config: &NodeConfig,
    (other, lost): (OtherCode, LostDirectory),
    places: Places,
    place: impl FnOnce() -> Result<NodePlace, NodeError>,
) -> Result<(), NodeError> {
    let mut directory = open_directory(config, lost)?;
    let mut node = assemble(config, &mut directory, other, (places, place))?;
    node.watch()
        .map_err(system("cannot watch the object host"))?;
    let ended = node.run();
    if let Err(error @ NodeError::Sighted { sighting, .. }) = &ended {
        tracing::warn!(%error, "starting again");
        // First: whoever starts with a higher boot must know that it knows nothing of the lower ones.
        DiedFile::open(&config.dir, config.group_id())?
            .forget()
            .map_err(system("cannot note that earlier starts are unknown"))?;
        note_sighting(&mut directory, *sighting)?;
    }
    if let Err(NodeError::Conflict { conflict, .. }) = &ended {
        directory.note_conflict(conflict.slot)?;
    }
    // The lock is held until nothing is written any more.
    drop(directory);
    ended
}

/// Opens and recovers everything that the node consists of.
// Longer than a screen: one line a part.
pub(crate) fn assemble(
    config: &NodeConfig,
    directory: &mut DataDirectory,
    other: OtherCode,
    (places, place): (Places, impl FnOnce() -> Result<NodePlace, NodeError>),
) -> Result<Node, NodeError> {
    let mut identity = identify(config, directory)?;
    let known = KnownMembers::read(config, (identity.node, identity.incarnation))?;
    check_level(config, (known.view, Level(known.level)))?;
    known.check_role(config)?;
    let tls = config.tls.as_ref().map(read_certificates).transpose()?;
    let is_first = config.group_id() == GroupId::FIRST;
    let signals = is_first.then(Signals::take).transpose();
    let signals = signals.map_err(system("cannot take over signals"))?;
    let poll = Poll::new().map_err(system("cannot watch sockets"))?;
    let (registry, waker) = shared(&poll)?;
    let now = boot_time();
    let mut entropy = Entropy::new();
    let mut settings = settings(
        config,
        (&identity, &known),
        (entropy.next(), places),
        tls.clone(),
    );
    (settings.seed, settings.pasts) = (entropy.seed(), remembered(directory));
    let multicast = NodeMulticast::open(config, &registry)?;
    let mut transport = Transport::listen(settings, registry, waker.clone(), now)?;
    let ((asker, questions), histograms) = (questions(waker.clone()), Histograms::new());
    let admin = admin::serve(config.admin, tls.as_ref(), asker, histograms.clone())?;
    let executed_file = ExecutedFile::open(&config.dir, identity.group, identity.boot);
    let mut host = open_host(config, executed_file.earlier(), directory)?;
    let code = found_code(config, &mut identity, &host, other)?;
    let (journal, past) = journal(
        config,
        (&identity, &known),
        directory,
        (&waker, &histograms),
    )?;
    identity.observing = observing(config, directory, &known)?;
    identity.votes_as = match identity.observing {
        Some(_) => None,
        None => Some(directory.identity().votes_as()),
    };
    let names = object_names(&identity);
    let store = SnapshotStore::open(directory.snapshot_disk()?, ClusterId(config.cluster.0))?;
    let found = (&past, code, directory.identity().loss);
    let (mut remembered, died_file) = begin(config, &store, found, &names, &mut host)?;
    remembered.earlier = executed_file.earlier();
    let since = directory.identity().rejoined.map(|back| back.view);
    introduce(
        &mut transport,
        (&identity, since),
        &past,
        (journal.as_ref(), directory),
    )?;
    let first = part_views(&identity, past, directory, &mut remembered);
    check_level(config, (first.0.number.0, first.0.level))?;
    // A start that was refused so far leaves a memory-mode node as able to vote as before.
    directory.mark_lived()?;
    let disks = (store, directory.disk().clone());
    let snapshots = SnapshotQueue::start(config, disks, &identity, names, waker.clone())
        .map_err(system("cannot start the snapshot thread"))?;
    let ordering = begun_ordering(&identity, first, (entropy.next(), config.limits), now)?;
    let own = ReplicaConfig {
        fresh: Incarnation(entropy.next()),
        ..replica_config(config, &identity)
    };
    let (replica, outputs) = Replica::new(own, ordering, remembered, now);
    tell_start((&identity, &known), &transport, admin);
    let place = place()?;
    if let Some(mailbox) = place.mailbox() {
        mailbox.read_by(waker);
    }
    Ok(Node {
        dir: config.dir.clone(),
        membership: Membership::new(config, known),
        template: Template::of(config),
        directory: directory.disk().clone(),
        look_at: now,
        identity,
        role: replica.status().ordering.role,
        replica,
        transport,
        multicast,
        host,
        worker: OutsideWorker::new(config),
        journal,
        snapshots,
        identity_file: directory.identity_file().clone(),
        quarantine_file: QuarantineFile::in_directory(&config.dir, GroupId(config.group)),
        executed_file,
        died_file,
        questions,
        signals,
        place,
        poll,
        entropy,
        outputs,
        arrivals: Vec::new(),
        clients: ClientTurns::default(),
        host_events: Vec::new(),
        is_answering: false,
        is_fed: true,
        sighted: None,
        conflict: None,
        unspoken: None,
        speaks: config.speaks,
        unsure: None,
        draining: None,
        turns: 0,
        timings: Timings::new(histograms),
        told: None,
    })
}

/// Refuses a group that is at a level which this program does not speak.
fn check_level(config: &NodeConfig, (view, level): (u64, Level)) -> Result<(), NodeError> {
    match config.speaks.has(level) {
        true => Ok(()),
        false => Err(NodeError::LevelNotSpoken {
            dir: config.dir.clone(),
            view,
            level,
            speaks: config.speaks,
        }),
    }
}

/// Starts the objects. What they print for slots of an earlier start was printed then.
fn open_host(
    config: &NodeConfig,
    earlier: EarlierLives,
    directory: &DataDirectory,
) -> Result<Host, NodeError> {
    if config.witness {
        return Ok(Host::without_objects()?);
    }
    let mut wished = config.host_config();
    wished.python.unkept_state = match directory.identity().lived {
        true => UnkeptState::Told,
        false => UnkeptState::Refused,
    };
    wished.python.quiet_upto = match earlier {
        EarlierLives::Upto(slot) => slot,
        EarlierLives::None | EarlierLives::Unknown => Slot::ZERO,
    };
    let host = Host::open(wished)?;
    match host.confinement() {
        None | Some("full") => {}
        Some(sandbox) => tracing::warn!(
            sandbox,
            "the object host is not confined in full: see SECURITY.md for what that means"
        ),
    }
    Ok(host)
}

/// The code of the objects, compared with the pinned one. A group in memory starts empty: it executes nothing again.
fn found_code(
    config: &NodeConfig,
    identity: &mut OwnIdentity,
    host: &Host,
    other: OtherCode,
) -> Result<Option<FoundCode>, NodeError> {
    identity.code = host.fingerprint().and_then(short_hash);
    let told = host
        .fingerprint()
        .filter(|_| config.persist == crate::config::PersistConfig::Disk);
    let file = CodeFile::in_directory(&config.dir, config.group_id());
    told.map(|told| file.compare(told, other)).transpose()
}

/// What peers are told about this start: how much the node remembers, how far its log is durable, and with what its starts began.
fn introduce(
    transport: &mut Transport,
    (identity, since): (&OwnIdentity, Option<ViewNumber>),
    past: &Past,
    (journal, directory): (Option<&Journal>, &mut DataDirectory),
) -> Result<(), NodeError> {
    let recall = match identity.observing {
        Some(_) => Recall::Lost,
        None if past.damage.was_found() => Recall::Damaged,
        None => Recall::Whole,
    };
    let number = transport.start_number();
    let (commit, starts) = match journal.map(Journal::newest_commit) {
        Some(commit) => (commit, directory.note_start(number, commit)?),
        None => (0, Starts::default()),
    };
    transport.begin(recall, since.unwrap_or_default(), commit, starts);
    Ok(())
}

fn tell_start(
    (identity, known): (&OwnIdentity, &KnownMembers),
    transport: &Transport,
    admin: Option<SocketAddr>,
) {
    if let Some(observing) = identity.observing {
        let others = known
            .acceptors
            .iter()
            .filter(|node| **node != identity.node.0);
        tracing::warn!(boot = identity.boot, reason = %observing, to_do = observing.advice(others.count()),
            "this node observes: it serves calls and does not vote yet");
    }
    tracing::info!(
        node = %identity.node, address = transport.address().map(|a| a.to_string()), admin = admin.map(|a| a.to_string()),
        boot = identity.boot, objects = identity.view.objects.len(), "node started"
    );
}

fn object_names(identity: &OwnIdentity) -> Vec<String> {
    let objects = identity.view.objects.iter();
    objects.map(|object| object.name.clone()).collect()
}

/// What an earlier life remembered of the other nodes.
fn remembered(directory: &DataDirectory) -> BTreeMap<NodeId, PeerPast> {
    let peers = PeerMemory::load(directory.disk()).into_iter();
    let pasts = peers.map(|peer| {
        let past = PeerPast {
            incarnation: peer.incarnation,
            newest: peer.newest,
            voting: peer.voting,
            commit: peer.commit,
            since: peer.since,
        };
        (peer.node, past)
    });
    pasts.collect()
}

fn settings(
    config: &NodeConfig,
    (identity, known): (&OwnIdentity, &KnownMembers),
    (start, places): (u64, Places),
    tls: Option<Tls>,
) -> Settings {
    let view = &identity.view;
    let objects = (0..)
        .zip(&view.objects)
        .map(|(number, object)| ObjectEntry {
            id: ObjectId(number),
            name: object.name.clone(),
            class: object.class.clone(),
        });
    Settings {
        own: Own {
            cluster: config.cluster_id(),
            group: identity.group,
            node: identity.node,
            incarnation: identity.incarnation,
            reach: Reach {
                boot: identity.boot,
                start,
                commit: 0,
                recall: Recall::Whole,
                since: ViewNumber(0),
                starts: Starts::default(),
            },
        },
        pasts: BTreeMap::new(),
        listen: (identity.group == GroupId::FIRST).then_some(config.listen),
        members: known.addresses(),
        view: ViewNumber(known.view),
        began: began_with(&config.view()),
        speaks: config.speaks,
        level: GroupLevel {
            level: Level(known.level),
            view: ViewNumber(known.view),
        },
        objects: objects.collect(),
        tls,
        places,
        limits: quorate_transport::TransportLimits {
            connections: config.limits.connections,
            connections_per_address: config.limits.connections_per_address,
            client_queue: config.limits.client_queue,
            clients_bytes: config.limits.clients_bytes,
            peer_queue: config.limits.peer_queue,
        },
        seed: [0; 32],
        first_token: TRANSPORT,
    }
}

fn journal(
    config: &NodeConfig,
    (identity, known): (&OwnIdentity, &KnownMembers),
    directory: &mut DataDirectory,
    (waker, histograms): (&Arc<Waker>, &Histograms),
) -> Result<(Option<Journal>, Past), NodeError> {
    if config.persist == crate::config::PersistConfig::Memory {
        return Ok((None, Past::default()));
    }
    let limits = quorate_storage::StorageLimits::of_node(identity.node);
    let (log, recovered) = Log::open_of(directory.log_disk()?, directory.identity_file(), limits)?;
    let found = past(recovered, identity.group)?;
    if found.newest_boot(identity.node) >= Some(identity.boot) {
        directory.note_loss(MemoryLoss::IdentityOld)?;
    }
    if found.past.damage.is_open() && known.acceptors == [identity.node.0] {
        return Err(NodeError::Unreadable(
            "the log is damaged and no other node holds a copy: restore the directory".to_owned(),
        ));
    }
    let journal = Journal::start(
        log,
        &config.dir,
        identity.group,
        found.damaged,
        waker.clone(),
        {
            let histograms = histograms.clone();
            move |took| histograms.synced(took)
        },
    );
    Ok((Some(journal), found.past))
}

/// What the node remembers by its snapshots, and of its hosts. The objects have the state of the one to start from.
fn begin(
    config: &NodeConfig,
    store: &SnapshotStore<quorate_storage::DirectoryDisk>,
    (past, code, loss): (&Past, Option<FoundCode>, Option<MemoryLoss>),
    names: &[String],
    host: &mut Host,
) -> Result<(Remembered, DiedFile), NodeError> {
    let mut remembered = recover(config, store, past, names, host)?;
    let start = remembered.snapshot.as_ref().map(|held| held.core.slot);
    if let Some(code) = code {
        code.pin(past, start.unwrap_or(Slot::ZERO))?;
    }
    let mut died_file = DiedFile::open(&config.dir, GroupId(config.group))?;
    let noted = died_file.deaths();
    if let Some(start) = start {
        let others = remembered.others.iter().map(|other| other.slot);
        died_file.begun_at(others.fold(start, Slot::min));
    }
    if loss.is_some() {
        // The loss is over once the node has come back; what was lost with it is not.
        died_file
            .forget()
            .map_err(system("cannot note that earlier starts are unknown"))?;
    }
    // Those that the snapshot covers are told to be over: others may not know.
    remembered.died = match (noted, died_file.deaths()) {
        (noted @ EarlierDeaths::At(_), EarlierDeaths::At(_)) => noted,
        (_, left) => left,
    };
    remembered.agreed = past.agreed();
    Ok((remembered, died_file))
}

/// What the node remembers by its snapshots. The objects have the state of the one to start from.
fn recover(
    config: &NodeConfig,
    store: &SnapshotStore<quorate_storage::DirectoryDisk>,
    past: &Past,
    names: &[String],
    host: &mut Host,
) -> Result<Remembered, NodeError> {
    let quarantine = QuarantineFile::in_directory(&config.dir, GroupId(config.group)).read()?;
    let snapshot = restored(config, store, (past, quarantine.is_some()), names, host)?;
    Ok(Remembered {
        others: other_snapshots(config, store, snapshot.as_ref(), names)?,
        snapshot,
        quarantine,
        ..Remembered::default()
    })
}

/// Gives the objects the snapshot to start from, and waits until they hold it.
fn restored(
    config: &NodeConfig,
    store: &SnapshotStore<quorate_storage::DirectoryDisk>,
    past: (&Past, bool),
    names: &[String],
    host: &mut Host,
) -> Result<Option<Recovered>, NodeError> {
    let Some(newest) = to_start_from(store, GroupId(config.group), past)? else {
        return Ok(None);
    };
    let refused = |reason: String| {
        NodeError::Unreadable(format!("the snapshot at slot {}: {reason}", newest.slot))
    };
    let (core, images) = open(&newest.bytes, names).map_err(refused)?;
    let due = host_restore::restore(host, core.slot, images).map_err(refused)?;
    tracing::info!(slot = %core.slot, bytes = newest.bytes.len(), "snapshot restored");
    Ok(Some(Recovered {
        core,
        digest: newest.digest,
        bytes: newest.bytes.len() as u64,
        due,
    }))
}

/// The whole snapshots on the disk except the one that the objects start from.
fn other_snapshots(
    config: &NodeConfig,
    store: &SnapshotStore<quorate_storage::DirectoryDisk>,
    started: Option<&Recovered>,
    names: &[String],
) -> Result<Vec<SnapshotReport>, NodeError> {
    let started = started.map(|recovered| recovered.core.slot);
    let mut others = Vec::new();
    for other in store.others(GroupId(config.group), started)? {
        match open(&other.bytes, names) {
            Ok((core, _)) => others.push(SnapshotReport {
                slot: core.slot,
                digest: Digest {
                    replicated: core.digest(),
                    state: other.digest,
                },
                bytes: other.bytes.len() as u64,
            }),
            Err(reason) => {
                tracing::warn!(
                    slot = %other.slot,
                    reason,
                    "a snapshot is not served to peers"
                );
            }
        }
    }
    Ok(others)
}

/// The view with which the ordering begins, and what the log has of it. What it has of others goes to the replica.
fn part_views(
    identity: &OwnIdentity,
    past: Past,
    directory: &DataDirectory,
    remembered: &mut Remembered,
) -> (View, Past) {
    let begun = directory.identity().view;
    let is_damaged = past.damage.was_found();
    let first = remembered.snapshot.as_ref();
    let first = first.map_or_else(
        || identity.view.clone(),
        |held| held.core.view.configured(&identity.view),
    );
    let (past, records) = past.part(first.number, begun);
    remembered.views = ViewPasts {
        begun,
        records,
        is_damaged,
    };
    (first, past)
}

fn replica_config(config: &NodeConfig, identity: &OwnIdentity) -> ReplicaConfig {
    let snapshots = if config.snapshot.enabled {
        quorate_replica::Snapshots::Every(quorate_replica::CheckpointPolicy {
            commands: config.snapshot.commands,
            bytes: config.snapshot.bytes,
            slot_bytes: match config.persist {
                crate::config::PersistConfig::Disk => {
                    quorate_storage::StorageLimits::default().commit_bytes_min()
                }
                crate::config::PersistConfig::Memory => 0,
            },
            ..quorate_replica::CheckpointPolicy::default()
        })
    } else {
        quorate_replica::Snapshots::Disabled
    };
    let is_first = identity.group == GroupId::FIRST;
    ReplicaConfig {
        snapshots,
        speculation: config.limits.speculation,
        role: match config.witness {
            true => MemberRole::Witness,
            false => MemberRole::Replica,
        },
        incarnation: identity.votes_as,
        speaks: config.speaks,
        decides_groups: is_first,
        clock_every: match is_first {
            true => CLOCK_EVERY,
            false => CLOCK_OF_MANY_EVERY,
        },
        may_run_elsewhere: identity.observing == Some(Observing::Lost(MemoryLoss::DirectoryOld)),
        ..ReplicaConfig::new(identity.node, identity.boot, identity.view.clone())
    }
}

fn system(what: &'static str) -> impl FnOnce(std::io::Error) -> NodeError {
    move |error| NodeError::System(what, error)
}
