//! How far this node's objects had executed when anybody was told, for the next start: a number in the data directory.
//!
//! A replica may report a call as new to it only if none of its starts can have answered it. The number is set before the
//! answers of a turn leave, without a sync, so it survives the process but not the machine. A turn without answers sets it
//! only where the objects print: their next start repeats nothing that they had printed. After a restart of the machine, or
//! without the file, nothing is known, and the replica is told so.

use quorate_lasting::{LastingNumber, OWNER_BYTES};
use quorate_replica::EarlierLives;
use quorate_types::{GroupId, Slot};
use std::io;
use std::path::{Path, PathBuf};

/// The id of this start of the machine.
const MACHINE_BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// The file, and what it said at the start.
#[derive(Debug)]
pub(crate) struct ExecutedFile {
    path: PathBuf,
    file: Option<LastingNumber>,
    machine_boot: String,
    earlier: EarlierLives,
    /// `None`: the number is not of this start.
    written: Option<Slot>,
}

impl ExecutedFile {
    /// Reads the number of the last start; `boot` counts the starts of the directory from 1.
    pub(crate) fn open(directory: &Path, group: GroupId, boot: u64) -> ExecutedFile {
        let machine_boot = std::fs::read_to_string(MACHINE_BOOT).unwrap_or_default();
        let path = directory.join(format!("executed-{}", group.0));
        ExecutedFile::of_machine(path, machine_boot.trim().to_owned(), boot)
    }

    fn of_machine(path: PathBuf, machine_boot: String, boot: u64) -> ExecutedFile {
        let earlier = match quorate_lasting::read(&path) {
            Ok(Some((owner, upto))) if is_of(&machine_boot, owner) => earlier_of(upto),
            Ok(_) => EarlierLives::Unknown,
            Err(error) if error.kind() == io::ErrorKind::NotFound && boot <= 1 => {
                EarlierLives::None
            }
            Err(_) => EarlierLives::Unknown,
        };
        let mut file = ExecutedFile {
            path,
            file: None,
            machine_boot,
            earlier,
            written: None,
        };
        // The start after one that answers nobody knows it.
        file.note(Slot::ZERO);
        file
    }

    /// What earlier starts may have executed.
    pub(crate) fn earlier(&self) -> EarlierLives {
        self.earlier
    }

    /// Notes that somebody may have been told of the slots up to `slot`; costs nothing when that is not new.
    pub(crate) fn note(&mut self, slot: Slot) {
        if self.written.is_some_and(|written| slot <= written) {
            return;
        }
        match self.write(slot) {
            Ok(()) => self.written = Some(slot),
            Err(error) => {
                // An old number must not be taken for a true one.
                tracing::warn!(path = %self.path.display(), %error, "cannot write how far the objects have executed");
                let _ = std::fs::write(&self.path, "unknown\n");
            }
        }
    }

    fn write(&mut self, slot: Slot) -> io::Result<()> {
        let upto = match self.earlier {
            EarlierLives::None => slot,
            EarlierLives::Upto(upto) => slot.max(upto),
            // Once unknown, always unknown: this life does not know what the ones before it did.
            EarlierLives::Unknown => Slot(u64::MAX),
        };
        match &mut self.file {
            Some(file) => file.set(upto.0),
            None => {
                let owner = owner(&self.machine_boot);
                self.file = Some(LastingNumber::create(&self.path, &owner, upto.0)?);
                Ok(())
            }
        }
    }
}

/// The start of the machine that a number is of, as it stands in the file.
fn owner(machine_boot: &str) -> [u8; OWNER_BYTES] {
    let mut owner = [b' '; OWNER_BYTES];
    let length = machine_boot.len().min(OWNER_BYTES);
    owner[..length].copy_from_slice(&machine_boot.as_bytes()[..length]);
    owner
}

fn is_of(machine_boot: &str, found: [u8; OWNER_BYTES]) -> bool {
    !machine_boot.is_empty() && found == owner(machine_boot)
}

fn earlier_of(upto: u64) -> EarlierLives {
    match upto {
        u64::MAX => EarlierLives::Unknown,
        upto => EarlierLives::Upto(Slot(upto)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(directory: &Path, machine_boot: &str, boot: u64) -> ExecutedFile {
        ExecutedFile::of_machine(directory.join("executed-1"), machine_boot.to_owned(), boot)
    }

    #[test]
    fn a_start_after_one_that_answered_nobody_knows_it() {
        let directory = tempfile::tempdir().unwrap();
        open(directory.path(), "m", 1);
        let second = open(directory.path(), "m", 2);
        assert_eq!(second.earlier(), EarlierLives::Upto(Slot::ZERO));
    }

    #[test]
    fn a_life_knows_how_far_the_lives_before_it_came() {
        let directory = tempfile::tempdir().unwrap();
        let mut first = open(directory.path(), "m", 1);
        assert_eq!(first.earlier(), EarlierLives::None);
        first.note(Slot(7));
        first.note(Slot(120));
        first.note(Slot(9));
        let mut second = open(directory.path(), "m", 2);
        assert_eq!(second.earlier(), EarlierLives::Upto(Slot(120)));
        second.note(Slot(40));
        let third = open(directory.path(), "m", 3);
        assert_eq!(third.earlier(), EarlierLives::Upto(Slot(120)));
    }

    #[test]
    fn after_a_restart_of_the_machine_nothing_is_known_any_more() {
        let directory = tempfile::tempdir().unwrap();
        open(directory.path(), "m", 1).note(Slot(7));
        let mut second = open(directory.path(), "other", 2);
        assert_eq!(second.earlier(), EarlierLives::Unknown);
        second.note(Slot(8));
        assert_eq!(
            open(directory.path(), "other", 3).earlier(),
            EarlierLives::Unknown
        );
        assert_eq!(
            open(directory.path(), "", 3).earlier(),
            EarlierLives::Unknown
        );
    }

    #[test]
    fn a_later_start_without_the_number_knows_nothing() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(
            open(directory.path(), "m", 2).earlier(),
            EarlierLives::Unknown
        );
    }
    #[test]
    fn a_file_that_holds_no_number_tells_nothing() {
        let directory = tempfile::tempdir().unwrap();
        open(directory.path(), "m", 1).note(Slot(7));
        std::fs::write(directory.path().join("executed-1"), "unknown\n").unwrap();
        assert_eq!(
            open(directory.path(), "m", 2).earlier(),
            EarlierLives::Unknown
        );
    }
}
