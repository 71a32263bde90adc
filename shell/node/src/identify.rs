//! Opens the data directory of a node, and finds out who the node is and what it may have lost.
//!
//! The first part of a start: `start` goes on with it.

use crate::clock::boot_time;
use crate::membership::KnownMembers;
use crate::observing::Observing;
use crate::status::OwnIdentity;
use crate::{NodeConfig, NodeError};
use quorate_storage::{DataDirectory, Identity, MemoryLoss, StorageError};
use quorate_types::{ClusterId, Finding, NodeId, Sighting};
use std::io;
use std::path::Path;

/// What becomes of a data directory that is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LostDirectory {
    /// The node does not start.
    Refused,
    /// It is made anew. The node has lost what it voted: it catches up, and votes again once a view names it anew.
    Remade,
}

pub(crate) fn open_directory(
    config: &NodeConfig,
    lost: LostDirectory,
) -> Result<DataDirectory, NodeError> {
    let opened = Identity::open(&config.dir);
    match opened {
        _ if lost == LostDirectory::Refused => return Ok(opened?),
        Err(StorageError::NotInitialised(_)) => {}
        Err(StorageError::Amnesia) => put_aside(&config.dir)
            .map_err(|error| NodeError::System("cannot put the data directory aside", error))?,
        other => return Ok(other?),
    }
    let own = config.own_member().expect("checked when it was read");
    let own = own.member();
    tracing::warn!(dir = %config.dir.display(), "the data directory is gone: it is made anew, and votes are lost");
    Identity::remake(
        &config.dir,
        config.cluster_id(),
        own.node,
        own.incarnation,
        config.persist.as_storage(),
    )?;
    Ok(Identity::open(&config.dir)?)
}

/// A directory that does not say any more whose it is is kept beside the new one.
pub(crate) fn put_aside(dir: &Path) -> io::Result<()> {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let mut names = (1..).map(|number: u32| dir.with_file_name(format!("{name}-aside-{number}")));
    let aside = names.find(|path| path.symlink_metadata().is_err());
    let aside = aside.expect("numbers do not end");
    tracing::warn!(aside = %aside.display(), "the data directory has lost its identity: it is put aside");
    std::fs::rename(dir, aside)
}

/// Checks that the directory is the one that the configuration speaks of.
pub(crate) fn identify(
    config: &NodeConfig,
    directory: &DataDirectory,
) -> Result<OwnIdentity, NodeError> {
    let found = directory.identity();
    let dir = config.dir.display();
    if (found.cluster, found.node) != (ClusterId(config.cluster.0), NodeId(config.node)) {
        return Err(NodeError::Identity(format!(
            "{dir} belongs to node {} of cluster {:016x}, not to node {} of cluster {:016x}",
            found.node.0, found.cluster.0, config.node, config.cluster.0
        )));
    }
    if let Some(slot) = found.conflict {
        return Err(NodeError::Conflicted {
            dir: config.dir.clone(),
            slot,
        });
    }
    let view = config.view();
    let member = config.own_member().expect("checked when it was read");
    let member = member.member();
    if member.incarnation != found.incarnation {
        return Err(NodeError::Identity(format!(
            "{dir} is incarnation {:016x}, the group's view names {:016x}: this directory is a new one and may not vote",
            found.incarnation.0, member.incarnation.0
        )));
    }
    if config.persist.as_storage() != found.persist {
        return Err(NodeError::Identity(format!(
            "persist: {dir} was made for persist = {:?}, which cannot change",
            found.persist
        )));
    }
    Ok(OwnIdentity {
        group: config.group_id(),
        node: config.node_id(),
        incarnation: member.incarnation,
        boot: found.boot,
        code: None,
        observing: None,
        votes_as: None,
        view,
        started: boot_time(),
    })
}

/// Whether this directory may vote, once its log was read. A node that decides alone stops instead of observing itself.
pub(crate) fn observing(
    config: &NodeConfig,
    directory: &DataDirectory,
    known: &KnownMembers,
) -> Result<Option<Observing>, NodeError> {
    let found = directory.identity();
    let restarted = config.persist == crate::config::PersistConfig::Memory && found.lived;
    match found.loss {
        Some(loss) if known.acceptors == [config.node] => Err(NodeError::Forgotten {
            dir: config.dir.clone(),
            loss,
        }),
        Some(loss) => Ok(Some(Observing::Lost(loss))),
        None => Ok(restarted.then_some(Observing::Restarted)),
    }
}

/// What a peer has seen of this node bounds what it may be from now on.
pub(crate) fn note_sighting(
    directory: &mut DataDirectory,
    sighting: Sighting,
) -> Result<(), NodeError> {
    directory.raise_boot(sighting.boot)?;
    match sighting.finding {
        Finding::OlderCopy => directory.note_loss(MemoryLoss::DirectoryOld)?,
        Finding::BootUsed => {}
    }
    Ok(())
}
