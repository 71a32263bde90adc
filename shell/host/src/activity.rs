//! The activity of a host process: memory in which it notes which call it is executing.
//!
//! Four words of 8 bytes: number of the activity; slot (0 while idle, all ones for a query); index in the
//! upper half and object in the lower; 1 while what undoes the call runs. Before it serves, it notes below them what it does to make an
//! object. The node reads it, the host writes it.

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
