//! The activity of a host process: memory in which it notes which call it is executing.
//!
//! Four words of 8 bytes: number of the activity; slot (0 while idle, all ones for a query); index in the
//! upper half and object in the lower; 1 while what undoes the call runs. Before it serves, it notes below them what it does to make an
//! object. Behind the first page are names of objects that were created while the group runs. The node reads it, the host writes it.

use quorate_types::{ObjectId, Slot};
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::pread;

/// What the process is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Activity {
    /// Rises with each call.
    pub(crate) number: u64,
    pub(crate) doing: Doing,
    /// Index of the step in its batch; the lower half of a query's id.
    pub(crate) index: u32,
    /// Whose code runs.
    pub(crate) object: ObjectId,
    /// Whether that is what undoes the call, before the call or after.
    pub(crate) is_undo: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Doing {
    Idle,
    Query,
    Call(Slot),
}

/// Where the note of what is done to make an object begins, and how long it is at most: its name and what is done, each with a zero
/// byte at its end.
const NOTE_AT: u64 = 64;
const NOTE_BYTES_MAX: usize = 1024;

/// What the process does, or did last, to make an object, and the object's name. `None` if it has not begun.
pub(crate) fn making(memory: &OwnedFd) -> Option<(String, String)> {
    let mut bytes = [0; NOTE_BYTES_MAX];
    let length = pread(memory, &mut bytes[..], NOTE_AT).ok()?;
    let mut parts = bytes[..length].split(|byte| *byte == 0);
    let mut text = || Some(String::from_utf8_lossy(parts.next()?).into_owned());
    let (name, doing) = (text()?, text()?);
    (!doing.is_empty()).then_some((name, doing))
}

/// Where names of created objects begin, how many there is room for, and the bytes of each: its number, its name, and a zero byte. The
/// number says where: that of a later object may take the place of an earlier one's.
const NAMES_AT: u64 = 4096;
const NAMES_MAX: u64 = 16_384;
const NAME_BYTES: usize = 264;

/// The name of an object that was created while the group runs, where its host has noted it.
pub(crate) fn name(memory: &OwnedFd, object: ObjectId) -> Option<String> {
    let at = NAMES_AT + u64::from(object.0) % NAMES_MAX * NAME_BYTES as u64;
    let mut bytes = [0; NAME_BYTES];
    let length = pread(memory, &mut bytes[..], at).ok()?;
    let (number, name) = bytes[..length].split_first_chunk::<8>()?;
    let name = name.split(|byte| *byte == 0).next()?;
    let is_of_object = u64::from_ne_bytes(*number) == u64::from(object.0) && !name.is_empty();
    is_of_object.then(|| String::from_utf8_lossy(name).into_owned())
}

/// Fresh memory for an activity.
pub(crate) fn create() -> std::io::Result<OwnedFd> {
    let memory = memfd_create("quorate-activity", MemfdFlags::CLOEXEC)?;
    ftruncate(&memory, 4096)?;
    Ok(memory)
}

/// What it says; idle if it cannot be read.
pub(crate) fn read(memory: &OwnedFd) -> Activity {
    let mut bytes = [0; 32];
    let words = match pread(memory, &mut bytes[..], 0) {
        Ok(32) => {
            let (words, _) = bytes.as_chunks::<8>();
            [words[0], words[1], words[2], words[3]].map(u64::from_ne_bytes)
        }
        Ok(_) | Err(_) => [0; 4],
    };
    Activity {
        number: words[0],
        doing: match words[1] {
            0 => Doing::Idle,
            u64::MAX => Doing::Query,
            slot => Doing::Call(Slot(slot)),
        },
        index: (words[2] >> 32) as u32,
        object: ObjectId(words[2] as u32),
        is_undo: words[3] == 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::pwrite;

    #[test]
    fn a_created_object_has_its_name_until_a_later_one_takes_the_place() {
        let memory = create().expect("memory suffices");
        let (first, same_place) = (ObjectId(1 << 16), ObjectId((1 << 16) + NAMES_MAX as u32));
        assert_eq!(name(&memory, first), None);
        let note = |object: ObjectId, name: &str| {
            let number = u64::from(object.0).to_ne_bytes();
            let note = [&number[..], name.as_bytes(), b"\0"].concat();
            let at = NAMES_AT + u64::from(object.0) % NAMES_MAX * NAME_BYTES as u64;
            pwrite(&memory, &note, at).expect("the memory grows");
        };
        note(first, "hall/shelf-1");
        assert_eq!(name(&memory, first).as_deref(), Some("hall/shelf-1"));
        assert_eq!(name(&memory, same_place), None);
        note(same_place, "hall");
        assert_eq!(name(&memory, same_place).as_deref(), Some("hall"));
        assert_eq!(name(&memory, first), None);
    }
}
