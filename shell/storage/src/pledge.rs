//! The pledge: what the log must at least contain. It is kept in the identity, and a log that contains less is a loss.
//!
//! A log that lost its newest records looks like one that never had them. So the identity, a separate file with two copies,
//! says how far the log had come. Called by `Log`. Claim st-1. Reasons: docs/storage.md.

use std::collections::BTreeSet;

use crate::disk::Disk;
use crate::error::StorageError;
use crate::identity::{Identity, IdentityFile, MemoryLoss};
use crate::{segment, spare};

/// How far a log had come when this was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogPledge {
    /// The newest segment, 0 for none. Invariant: it exists, as a segment or made ahead, and none newer.
    pub segment: u32,
    /// A commit that is durable in the log, 0 for none.
    pub commit: u64,
}

/// Compares the files of a log with what the identity says of them, before anything is read or removed. What is lost is noted
/// durably, and the pledge takes what there is.
pub(crate) fn judge_files<D: Disk>(
    identity: &IdentityFile<D>,
    names: &[String],
) -> Result<(), StorageError> {
    match identity.get().log.lost_files(names) {
        Some((loss, newest)) => note(identity, loss, |log| log.segment = newest),
        None => Ok(()),
    }
}

impl LogPledge {
    /// What files with these `names` lack of the log, and the newest segment among them.
    pub(crate) fn lost_files(&self, names: &[String]) -> Option<(MemoryLoss, u32)> {
        let segments: BTreeSet<u32> = names
            .iter()
            .filter_map(|name| segment::number(name))
            .collect();
        let spares: BTreeSet<u32> = names
            .iter()
            .filter_map(|name| spare::number(name))
            .collect();
        let newest = segments.last().copied().unwrap_or(0);
        let pledged = self.segment;
        let is_ahead = newest.checked_add(1) == Some(pledged) && spares.contains(&pledged);
        if newest == pledged || is_ahead {
            None
        } else if newest > pledged {
            Some((MemoryLoss::IdentityOld, newest))
        } else {
            Some((MemoryLoss::LogShort, newest))
        }
    }
}

/// Compares the newest commit that was found in an undamaged log with what the identity says.
pub(crate) fn judge_commits<D: Disk>(
    identity: &IdentityFile<D>,
    newest: u64,
) -> Result<(), StorageError> {
    if newest >= identity.get().log.commit {
        return Ok(());
    }
    note(identity, MemoryLoss::LogShort, |log| log.commit = newest)
}

fn note<D: Disk>(
    identity: &IdentityFile<D>,
    loss: MemoryLoss,
    take: impl FnOnce(&mut LogPledge),
) -> Result<(), StorageError> {
    identity.change(|identity: &mut Identity| {
        identity.loss.get_or_insert(loss);
        take(&mut identity.log);
    })
}
