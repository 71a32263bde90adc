//! The record that this node's objects must answer no calls, kept in the data directory over restarts.
//!
//! It is a small JSON file that is replaced as a whole and synced before any other output leaves the node.
//! In normal operation it is absent. The replica decides when to write and when to remove it.

use crate::NodeError;
use quorate_replica::Quarantine;
use quorate_types::{Digest, GroupId, Slot};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The file in the data directory.
#[derive(Debug)]
pub(crate) struct QuarantineFile {
    directory: PathBuf,
    path: PathBuf,
}

/// What the file says.
#[derive(Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
enum Note {
    Diverged {
        slot: u64,
        own: [String; 2],
        agreed: [String; 2],
    },
    Frozen {
        slot: u64,
    },
}

impl QuarantineFile {
    /// The note of `group` in the data directory.
    pub(crate) fn in_directory(directory: &Path, group: GroupId) -> QuarantineFile {
        QuarantineFile {
            directory: directory.to_owned(),
            path: directory.join(format!("quarantine-{}", group.0)),
        }
    }

    /// What the last life left.
    ///
    /// # Errors
    /// When there is a note that cannot be read: nobody knows then whether the objects are right.
    pub(crate) fn read(&self) -> Result<Option<Quarantine>, NodeError> {
        let unreadable = |reason: String| {
            NodeError::Unreadable(format!(
                "{}: {reason}; remove it only if the objects are known to be right",
                self.path.display()
            ))
        };
        let text = match std::fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(error.to_string())),
        };
        let note = serde_json::from_slice(&text).map_err(|error| unreadable(error.to_string()))?;
        quarantine_of(&note)
            .map(Some)
            .ok_or_else(|| unreadable("a digest in it is no digest".to_owned()))
    }

    /// Makes the note durable. A node that cannot write it is quarantined until it stops, and finds the
    /// difference again when it next compares digests.
    pub(crate) fn remember(&self, quarantine: Quarantine) {
        if let Err(error) = self.write(quarantine) {
            tracing::error!(path = %self.path.display(), %error, "the quarantine cannot be written: it will be lost when this process ends");
        }
    }

    fn write(&self, quarantine: Quarantine) -> io::Result<()> {
        let fresh = self.path.with_extension("new");
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&fresh)?;
        let text =
            serde_json::to_vec(&note_of(quarantine)).expect("every field has a form in JSON");
        file.write_all(&text)?;
        file.sync_all()?;
        std::fs::rename(&fresh, &self.path)?;
        File::open(&self.directory)?.sync_all()
    }

    /// Removes the note. One that stays is found unfounded at the next start.
    pub(crate) fn forget(&self) {
        match std::fs::remove_file(&self.path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "the quarantine has ended, but its file cannot be removed");
            }
        }
    }
}

fn note_of(quarantine: Quarantine) -> Note {
    match quarantine {
        Quarantine::Diverged { slot, own, agreed } => Note::Diverged {
            slot: slot.0,
            own: halves(&own),
            agreed: halves(&agreed),
        },
        Quarantine::Frozen { slot } => Note::Frozen { slot: slot.0 },
    }
}

fn quarantine_of(note: &Note) -> Option<Quarantine> {
    Some(match note {
        Note::Diverged { slot, own, agreed } => Quarantine::Diverged {
            slot: Slot(*slot),
            own: digest_of(own)?,
            agreed: digest_of(agreed)?,
        },
        Note::Frozen { slot } => Quarantine::Frozen { slot: Slot(*slot) },
    })
}

fn halves(digest: &Digest) -> [String; 2] {
    let state: String = digest.state.iter().map(|b| format!("{b:02x}")).collect();
    [format!("{:016x}", digest.replicated), state]
}

fn digest_of([replicated, state]: &[String; 2]) -> Option<Digest> {
    let byte = |at: usize| u8::from_str_radix(state.get(2 * at..2 * at + 2)?, 16).ok();
    let mut bytes = [0; 32];
    for (at, kept) in bytes.iter_mut().enumerate() {
        *kept = byte(at)?;
    }
    Some(Digest {
        replicated: u64::from_str_radix(replicated, 16).ok()?,
        state: bytes,
    })
}

/// A digest as logs and status documents show it.
#[must_use]
pub fn hex(digest: &Digest) -> String {
    let [replicated, state] = halves(digest);
    format!("{replicated}:{state}")
}

/// The digest that a status document shows.
#[must_use]
pub fn digest_of_text(text: &str) -> Option<Digest> {
    let (replicated, state) = text.split_once(':')?;
    digest_of(&[replicated.to_owned(), state.to_owned()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(byte: u8) -> Digest {
        Digest {
            replicated: u64::from(byte) << 40,
            state: [byte; 32],
        }
    }

    #[test]
    fn a_quarantine_is_read_back_until_it_is_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let open = || QuarantineFile::in_directory(directory.path(), GroupId(1));
        assert_eq!(open().read().unwrap(), None);
        let (own, agreed, slot) = (digest(1), digest(0xfe), Slot(77));
        for quarantine in [
            Quarantine::Diverged { slot, own, agreed },
            Quarantine::Frozen { slot },
        ] {
            open().remember(quarantine);
            assert_eq!(open().read().unwrap(), Some(quarantine));
        }
        open().forget();
        open().forget();
        assert_eq!(open().read().unwrap(), None);
    }

    #[test]
    fn a_digest_is_read_back_from_its_text() {
        assert_eq!(digest_of_text(&hex(&digest(0xfe))), Some(digest(0xfe)));
        assert_eq!(digest_of_text("12"), None);
        assert_eq!(digest_of_text("12:34"), None);
    }

    #[test]
    fn a_note_that_cannot_be_read_stops_the_start() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("quarantine-1"), "{").unwrap();
        let file = QuarantineFile::in_directory(directory.path(), GroupId(1));
        assert!(matches!(file.read(), Err(NodeError::Unreadable(_))));
    }
}
