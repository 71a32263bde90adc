//! Calls at which this node's hosts died for good, for the next start: a file in the data directory.
//!
//! A report that a host died at a call may be decided after the node has started again. The next start must know of
//! it before it executes the call, or the group could skip a call that was answered. So the file is synced before
//! the replica hears of the death. In normal operation it is absent. Where starts ran on another state of the directory, it says
//! that their calls are unknown.

use crate::NodeError;
use crate::limits::DEATHS_NOTED_MAX;
use quorate_replica::EarlierDeaths;
use quorate_types::{CallPlace, GroupId, Slot};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The file, and what it says.
#[derive(Debug)]
pub(crate) struct DiedFile {
    directory: PathBuf,
    path: PathBuf,
    notes: Notes,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Notes {
    /// At most [`DEATHS_NOTED_MAX`].
    places: BTreeSet<CallPlace>,
    /// The calls of starts that ran on another state of the directory are unknown.
    unknown: Option<Unknown>,
}

/// Which calls are unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unknown {
    /// Any.
    All,
    /// Those before this slot.
    Before(Slot),
}

/// How a line begins that is no call.
const UNKNOWN: &str = "unknown";

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
        let notes = Notes::read(&text);
        let notes = notes.ok_or_else(|| unreadable("a line in it is no slot and index".into()))?;
        Ok(DiedFile {
            directory: directory.to_owned(),
            path,
            notes,
        })
    }

    /// The calls.
    pub(crate) fn deaths(&self) -> EarlierDeaths {
        match self.notes.unknown {
            Some(_) => EarlierDeaths::Unknown,
            None => EarlierDeaths::At(self.notes.places.iter().copied().collect()),
        }
    }

    /// Makes it durable that starts ran of which this directory knows nothing.
    pub(crate) fn forget(&mut self) -> io::Result<()> {
        self.notes.unknown = Some(Unknown::All);
        self.write()
    }

    /// All of those starts executed no call from `slot` on, and a snapshot of it or a later one is durable: a start that begins with it needs
    /// to know no more.
    pub(crate) fn bound(&mut self, slot: Slot) {
        if self.notes.unknown == Some(Unknown::All) {
            self.notes.unknown = Some(Unknown::Before(slot));
            warn_unless(&self.path, self.write());
        }
    }

    /// Makes it durable that a host died at a call.
    pub(crate) fn remember(&mut self, place: CallPlace) -> io::Result<()> {
        let places = &mut self.notes.places;
        if places.contains(&place) {
            return Ok(());
        }
        if places.len() >= DEATHS_NOTED_MAX {
            return Err(io::Error::other("too many such calls are noted"));
        }
        places.insert(place);
        self.write().inspect_err(|_| {
            self.notes.places.remove(&place);
        })
    }

    /// This start begins with the state after `slot`, or a later one, and so does the next, whichever snapshot is damaged then. A call that was only executed or skipped since stays noted: the
    /// next start may execute it before it has learned again what the group decided about it.
    pub(crate) fn begun_at(&mut self, slot: Slot) {
        let before = self.notes.clone();
        let is_over =
            |unknown: &mut Unknown| matches!(unknown, Unknown::Before(end) if *end <= slot);
        self.notes.unknown.take_if(is_over);
        self.notes.places.retain(|place| place.slot > slot);
        if self.notes == before {
            return;
        }
        let outcome = match self.notes == Notes::default() {
            true => std::fs::remove_file(&self.path),
            false => self.write(),
        };
        warn_unless(&self.path, outcome);
    }

    fn write(&self) -> io::Result<()> {
        let text = self.notes.text();
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

/// The next start asks the group before it executes the calls: that takes longer, and is right.
fn warn_unless(path: &Path, outcome: io::Result<()>) {
    if let Err(error) = outcome {
        tracing::warn!(path = %path.display(), %error, "cannot forget the calls at which hosts died");
    }
}

impl Notes {
    fn read(text: &str) -> Option<Notes> {
        let mut notes = Notes::default();
        for line in text.lines() {
            match line.split_once(' ') {
                None if line == UNKNOWN => notes.unknown = Some(Unknown::All),
                None => return None,
                Some((UNKNOWN, slot)) => {
                    notes.unknown = Some(Unknown::Before(Slot(slot.parse().ok()?)));
                }
                Some((slot, index)) => {
                    notes.places.insert(CallPlace {
                        slot: Slot(slot.parse().ok()?),
                        index: index.parse().ok()?,
                    });
                }
            }
        }
        Some(notes)
    }

    fn text(&self) -> String {
        let unknown = self.unknown.map(|unknown| match unknown {
            Unknown::All => format!("{UNKNOWN}\n"),
            Unknown::Before(slot) => format!("{UNKNOWN} {}\n", slot.0),
        });
        let places = self.places.iter();
        let places = places.map(|place| format!("{} {}\n", place.slot.0, place.index));
        unknown.into_iter().chain(places).collect()
    }
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
        let known = |places: &[CallPlace]| EarlierDeaths::At(places.to_vec());
        assert_eq!(open().deaths(), known(&[]));
        let mut first = open();
        first.remember(at(9, 2)).unwrap();
        first.remember(at(7, 0)).unwrap();
        assert_eq!(open().deaths(), known(&[at(7, 0), at(9, 2)]));
        let mut second = open();
        second.begun_at(Slot(8));
        assert_eq!(open().deaths(), known(&[at(9, 2)]));
        second.begun_at(Slot(9));
        assert_eq!(open().deaths(), known(&[]));
        assert!(!directory.path().join("died-1").exists());
    }

    #[test]
    fn hosts_may_die_at_many_calls_in_one_start() {
        let directory = tempfile::tempdir().unwrap();
        let mut file = DiedFile::open(directory.path(), GroupId(1)).unwrap();
        let at = |slot| CallPlace {
            slot: Slot(slot),
            index: 0,
        };
        let places: Vec<CallPlace> = (1..=DEATHS_NOTED_MAX as u64).map(at).collect();
        for place in &places[..100] {
            file.remember(*place).unwrap();
        }
        file.notes.places.extend(&places);
        assert!(file.remember(at(u64::MAX)).is_err());
        file.write().unwrap();
        let next = DiedFile::open(directory.path(), GroupId(1)).unwrap();
        assert_eq!(next.deaths(), EarlierDeaths::At(places));
    }

    #[test]
    fn calls_of_starts_elsewhere_stay_unknown_until_a_start_begins_behind_all_of_them() {
        let directory = tempfile::tempdir().unwrap();
        let open = || DiedFile::open(directory.path(), GroupId(1)).unwrap();
        let place = CallPlace {
            slot: Slot(30),
            index: 1,
        };
        open().remember(place).unwrap();
        open().forget().unwrap();
        open().begun_at(Slot(20));
        assert_eq!(open().deaths(), EarlierDeaths::Unknown);
        open().bound(Slot(25));
        open().bound(Slot(40));
        open().begun_at(Slot(24));
        assert_eq!(open().deaths(), EarlierDeaths::Unknown);
        open().begun_at(Slot(25));
        assert_eq!(open().deaths(), EarlierDeaths::At(vec![place]));
    }

    #[test]
    fn a_file_that_says_something_else_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("died-1"), "9\n").unwrap();
        let error = DiedFile::open(directory.path(), GroupId(1)).unwrap_err();
        assert!(error.to_string().contains("died-1"), "{error}");
    }
}
