//! Calls at which this node's hosts died for good, for the next start: a file in the data directory.
//!
//! A report that a host died at a call may be decided after the node has started again. The next start must know of
//! it before it executes the call, or the group could skip a call that was answered. So the file is synced before
//! the replica hears of the death. In normal operation it is absent.

use crate::NodeError;
use crate::limits::DEATHS_NOTED_MAX;
use quorate_types::{CallPlace, GroupId, Slot};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The file, and what it says.
#[derive(Debug)]
pub(crate) struct DiedFile {
    directory: PathBuf,
    path: PathBuf,
    /// At most [`DEATHS_NOTED_MAX`].
    places: BTreeSet<CallPlace>,
}

impl DiedFile {
    /// Reads what the lives before have left.
    ///
    /// # Errors
    /// When there is a file that cannot be read: nobody knows then which reports may be on their way.
    pub(crate) fn open(directory: &Path, group: GroupId) -> Result<DiedFile, NodeError> {
        let path = directory.join(format!("died-{}", group.0));
        let unreadable = |reason: String| {
            NodeError::Unreadable(format!(
                "{}: {reason}; remove it only if no call of the group ends hosts at present",
                path.display()
            ))
        };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(unreadable(error.to_string())),
        };
        let places = text.lines().map(place_of).collect::<Option<_>>();
        let places =
            places.ok_or_else(|| unreadable("a line in it is no slot and index".into()))?;
        Ok(DiedFile {
            directory: directory.to_owned(),
            path,
            places,
        })
    }

    /// The calls.
    pub(crate) fn places(&self) -> Vec<CallPlace> {
        self.places.iter().copied().collect()
    }

    /// Makes it durable that a host died at a call.
    pub(crate) fn remember(&mut self, place: CallPlace) -> io::Result<()> {
        if self.places.contains(&place) {
            return Ok(());
        }
        if self.places.len() >= DEATHS_NOTED_MAX {
            return Err(io::Error::other("too many such calls are noted"));
        }
        self.places.insert(place);
        self.write().inspect_err(|_| {
            self.places.remove(&place);
        })
    }

    /// This start begins with the state after `slot`. A call that was only executed or skipped since stays noted: the
    /// next start may execute it before it has learned again what the group decided about it.
    pub(crate) fn begun_at(&mut self, slot: Slot) {
        if self.places.first().is_none_or(|first| first.slot > slot) {
            return;
        }
        self.places.retain(|place| place.slot > slot);
        let outcome = match self.places.is_empty() {
            true => std::fs::remove_file(&self.path),
            false => self.write(),
        };
        if let Err(error) = outcome {
            // The next start asks the group before it executes the call: that takes longer, and is right.
            tracing::warn!(path = %self.path.display(), %error, "cannot forget the calls at which hosts died");
        }
    }

    fn write(&self) -> io::Result<()> {
        let mut text = String::new();
        for place in &self.places {
            writeln!(text, "{} {}", place.slot.0, place.index).expect("a string takes any text");
        }
        let fresh = self.path.with_extension("new");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let mut file = options.open(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&fresh, &self.path)?;
        File::open(&self.directory)?.sync_all()
    }
}

fn place_of(line: &str) -> Option<CallPlace> {
    let (slot, index) = line.split_once(' ')?;
    Some(CallPlace {
        slot: Slot(slot.parse().ok()?),
        index: index.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_at_which_hosts_died_are_known_to_the_next_start_until_one_begins_behind_them() {
        let directory = tempfile::tempdir().unwrap();
        let open = || DiedFile::open(directory.path(), GroupId(1)).unwrap();
        let at = |slot, index| CallPlace {
            slot: Slot(slot),
            index,
        };
        assert_eq!(open().places(), []);
        let mut first = open();
        first.remember(at(9, 2)).unwrap();
        first.remember(at(7, 0)).unwrap();
        assert_eq!(open().places(), [at(7, 0), at(9, 2)]);
        let mut second = open();
        second.begun_at(Slot(8));
        assert_eq!(open().places(), [at(9, 2)]);
        second.begun_at(Slot(9));
        assert_eq!(open().places(), []);
    }

    #[test]
    fn a_file_that_says_something_else_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("died-1"), "9\n").unwrap();
        let error = DiedFile::open(directory.path(), GroupId(1)).unwrap_err();
        assert!(error.to_string().contains("died-1"), "{error}");
    }
}
