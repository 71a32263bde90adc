//! Frames between node and host process, as specified in docs/host-protocol.md.
//!
//! All numbers are little-endian. A frame is its length (4 bytes, counting kind and body), its kind
//! (1 byte) and its body. A host that breaks the protocol is treated like one that died.

use crate::arguments::{Arguments, StringKind, put_int, put_list, put_map, put_string, string_of};
use crate::config::{HostedObject, PythonConfig, Sandbox, UnkeptState};
use crate::image::ObjectImage;
use crate::limits::REPLY_BYTES_MAX;
use crate::sending::{LeftOut, is_sent};
use bytes::Bytes;
use quorate_ordering::ReadId;
use quorate_types::{
    Call, CommandId, ObjectId, Outcome, SessionId, Slot, Stamp, Step, StepResult, Wall,
};
use std::collections::BTreeSet;
use std::path::Path;

/// Version of this protocol; a host that speaks another says so in its answer to the greeting.
pub const HOST_PROTOCOL_VERSION: i64 = 10;

const HELLO: u8 = 1;
const EXECUTE: u8 = 2;
const QUERY: u8 = 3;
const SNAPSHOT: u8 = 4;
const RESTORE: u8 = 5;
const EXECUTE_AHEAD: u8 = 6;
const UNDO: u8 = 7;

const STEP_CALL: u8 = 0;
const STEP_END: u8 = 1;
const STEP_END_UNTOLD: u8 = 2;
const STEP_TICK: u8 = 3;
const STEP_TICK_UNTOLD: u8 = 4;
const STEP_SKIPPED: u8 = 5;
const STEP_RESUME: u8 = 6;

const TOLD_RETURNED: u8 = 0;
const TOLD_RAISED: u8 = 1;
const TOLD_PARKED: u8 = 2;
const TOLD_DONE: u8 = 3;
const TOLD_ANSWER: u8 = 4;

const READY: u8 = 0x81;
const OUTCOMES: u8 = 0x82;
const EXECUTED: u8 = 0x83;
const QUERIED: u8 = 0x84;
const IMAGED: u8 = 0x85;
const IMAGE_FAILED: u8 = 0x86;
const RESTORED: u8 = 0x87;
const RESTORE_FAILED: u8 = 0x88;
const READ_WROTE: u8 = 0x89;
const SPENT: u8 = 0x8a;
const DUE: u8 = 0x8b;
const OUTSIDE: u8 = 0x8c;
const EXECUTED_UNDOABLE: u8 = 0x8d;
const UNDONE: u8 = 0x8e;
const UNDO_FAILED: u8 = 0x8f;

/// What a host says.
#[derive(Debug, PartialEq)]
pub(crate) enum Reply {
    /// It can serve, and says how it is confined and which code it runs.
    Ready(Greeted),
    /// It cannot serve this object.
    Unfit {
        object: String,
        reason: String,
    },
    /// The next results of a slot; others follow.
    Outcomes {
        slot: Slot,
        told: Vec<Told>,
    },
    /// The last results of a slot.
    Executed {
        slot: Slot,
        told: Vec<Told>,
        undoable: Undoable,
    },
    Queried {
        read: ReadId,
        outcome: Outcome,
    },
    Imaged {
        slot: Slot,
    },
    ImageFailed {
        slot: Slot,
        reason: String,
    },
    Restored {
        slot: Slot,
    },
    RestoreFailed {
        slot: Slot,
        reason: String,
    },
    /// The agreed time at which its objects have something to do first, if any.
    Due {
        at: Option<Wall>,
    },
    /// Something is to be done outside of the objects.
    Outside,
    /// The objects have the state back that they had after this slot.
    Undone {
        after: Slot,
    },
    /// What the class says does not undo a call of this method; the process executes nothing more.
    UndoFailed {
        object: ObjectId,
        method: String,
        reason: String,
    },
    /// A call took more steps than it may and must leave no trace; the process executes nothing more.
    Spent {
        slot: Slot,
        index: u32,
        outcome: Outcome,
    },
    /// A method that is declared read-only changed its object; the process executes nothing more.
    ReadWrote {
        object: ObjectId,
        method: String,
    },
}

/// Whether the process can undo what it has executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Undoable {
    No,
    Yes,
}

/// One entry of what came of a slot, in the order in which it came.
#[derive(Debug, PartialEq)]
pub(crate) enum Told {
    /// The result of the next step.
    Result(StepResult),
    /// The answer to a parked call; it belongs to the step before it.
    Answer(CommandId, Outcome),
}

/// What a host that can serve says of itself.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Greeted {
    /// How it is confined, in its own words.
    pub(crate) confinement: String,
    /// Its interpreter, packages and sources, as JSON text; `None` from a host that tells none.
    pub(crate) fingerprint: Option<String>,
}

/// A host sent what the protocol does not have.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("the host broke the protocol: {0}")]
pub(crate) struct Broken(&'static str);

fn frame(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.push(kind);
    body(out);
    let length = u32::try_from(out.len() - start - 4).expect("a batch is far below 4 GiB");
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// Methods of objects that do not keep what their class declares of them.
#[derive(Default)]
pub(crate) struct Liars {
    /// They are declared read-only and changed their object.
    pub(crate) reads: BTreeSet<(ObjectId, String)>,
    /// What the class says does not undo them.
    pub(crate) undos: BTreeSet<(ObjectId, String)>,
}

/// The greeting: a map of what the host must know.
pub(crate) fn put_hello(
    out: &mut Vec<u8>,
    config: &PythonConfig,
    objects: &[HostedObject],
    liars: &Liars,
    told: Slot,
) {
    let text = |out: &mut Vec<u8>, s: &str| put_string(out, StringKind::Text, s.as_bytes());
    frame(out, HELLO, |out| {
        put_map(out, 13);
        text(out, "version");
        put_int(out, HOST_PROTOCOL_VERSION);
        text(out, "seed");
        // Half of the seed is enough, and fits the integers that every language has.
        put_int(out, (config.seed >> 1).cast_signed());
        text(out, "snapshots");
        out.push(if config.with_snapshots { 0xf5 } else { 0xf4 });
        text(out, "refuses");
        out.push(match config.unkept_state {
            UnkeptState::Refused => 0xf5,
            UnkeptState::Told => 0xf4,
        });
        text(out, "paths");
        put_list(out, config.paths.len());
        for path in &config.paths {
            text(out, &path.to_string_lossy());
        }
        text(out, "allow");
        put_list(out, config.allow.len());
        for package in &config.allow {
            text(out, package);
        }
        text(out, "checks");
        text(out, config.read_checks.word());
        text(out, "sandbox");
        out.push(match config.sandbox {
            Sandbox::On => 0xf5,
            Sandbox::Off => 0xf4,
        });
        text(out, "scratch");
        text(out, &config.scratch.to_string_lossy());
        text(out, "quiet");
        put_int(out, told.0.cast_signed());
        for (key, methods) in [("liars", &liars.reads), ("unreliable", &liars.undos)] {
            text(out, key);
            put_list(out, methods.len());
            for (object, method) in methods {
                put_list(out, 2);
                put_int(out, i64::from(object.0));
                text(out, method);
            }
        }
        text(out, "objects");
        put_list(out, objects.len());
        for object in objects {
            put_list(out, 5);
            put_int(out, i64::from(object.id.0));
            text(out, &object.name);
            text(out, &object.class);
            match &object.arguments[..] {
                [] => out.extend_from_slice(&[0x82, 0x80, 0xa0]),
                pair => out.extend_from_slice(pair),
            }
            put_int(out, config.budget_of(object.id).cast_signed());
        }
    });
}

/// Work for the objects, ahead of decisions where `slot` is behind the last that is `confirmed`. A call that took too many steps is not sent, and of one that the group skips only its object; of the end of
/// a session that is left out no object is told, and in such a tick no timer runs.
pub(crate) fn put_execute(
    out: &mut Vec<u8>,
    slot: Slot,
    stamp: Stamp,
    steps: &[Step],
    (left_out, confirmed): (&LeftOut, Slot),
) {
    let sent = |step: &&Step| is_sent(slot, step, left_out);
    let count = match left_out.is_empty() {
        true => steps.len(),
        false => steps.iter().filter(sent).count(),
    };
    let is_ahead = slot > confirmed;
    frame(out, if is_ahead { EXECUTE_AHEAD } else { EXECUTE }, |out| {
        if is_ahead {
            out.extend_from_slice(&confirmed.0.to_le_bytes());
        }
        out.extend_from_slice(&slot.0.to_le_bytes());
        out.extend_from_slice(&stamp.wall.0.to_le_bytes());
        out.extend_from_slice(&stamp.entropy.to_le_bytes());
        out.extend_from_slice(&(count as u32).to_le_bytes());
        for step in steps {
            let is_left_out = !left_out.is_empty() && left_out.contains_key(&(slot, step.index()));
            if is_left_out && !is_sent(slot, step, left_out) {
                continue;
            }
            out.extend_from_slice(&step.index().to_le_bytes());
            match step {
                Step::Call(call) if is_left_out => {
                    out.push(STEP_SKIPPED);
                    out.extend_from_slice(&call.object.0.to_le_bytes());
                }
                Step::Call(call) => put_call(out, call),
                Step::End(end) => {
                    out.push(if is_left_out {
                        STEP_END_UNTOLD
                    } else {
                        STEP_END
                    });
                    out.extend_from_slice(&end.session.0.to_le_bytes());
                }
                Step::Resume(resume) => {
                    out.push(STEP_RESUME);
                    out.extend_from_slice(&resume.session.0.to_le_bytes());
                }
                Step::Tick { .. } => out.push(if is_left_out {
                    STEP_TICK_UNTOLD
                } else {
                    STEP_TICK
                }),
            }
        }
    });
}

fn put_call(out: &mut Vec<u8>, call: &Call) {
    out.push(STEP_CALL);
    out.extend_from_slice(&call.id.session.0.to_le_bytes());
    out.extend_from_slice(&call.id.sequence.to_le_bytes());
    out.extend_from_slice(&call.object.0.to_le_bytes());
    out.extend_from_slice(&(call.payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&call.payload);
}

pub(crate) fn put_query(out: &mut Vec<u8>, read: ReadId, object: ObjectId, payload: &[u8]) {
    frame(out, QUERY, |out| {
        out.extend_from_slice(&read.0.to_le_bytes());
        out.extend_from_slice(&object.0.to_le_bytes());
        out.extend_from_slice(payload);
    });
}

pub(crate) fn put_snapshot(out: &mut Vec<u8>, slot: Slot, path: &Path) {
    frame(out, SNAPSHOT, |out| {
        out.extend_from_slice(&slot.0.to_le_bytes());
        out.extend_from_slice(path.to_string_lossy().as_bytes());
    });
}

pub(crate) fn put_restore(out: &mut Vec<u8>, slot: Slot, images: &[ObjectImage]) {
    frame(out, RESTORE, |out| {
        out.extend_from_slice(&slot.0.to_le_bytes());
        out.extend_from_slice(&(images.len() as u32).to_le_bytes());
        for image in images {
            out.extend_from_slice(&image.object.0.to_le_bytes());
            out.extend_from_slice(&(image.image.len() as u64).to_le_bytes());
            for piece in image.image.pieces() {
                out.extend_from_slice(piece);
            }
        }
    });
}

pub(crate) fn put_undo(out: &mut Vec<u8>, after: Slot) {
    frame(out, UNDO, |out| {
        out.extend_from_slice(&after.0.to_le_bytes())
    });
}

/// Takes the next whole reply off the front of `bytes`, and says how many bytes it was.
pub(crate) fn take_reply(bytes: &[u8]) -> Result<Option<(Reply, usize)>, Broken> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(*length) as usize;
    if length == 0 {
        return Err(Broken("an empty frame"));
    }
    if length > REPLY_BYTES_MAX {
        return Err(Broken("a frame that is longer than any answer"));
    }
    let Some(frame) = rest.get(..length) else {
        return Ok(None);
    };
    let mut body = Body(&frame[1..]);
    let reply = match frame[0] {
        READY => ready(body.0)?,
        OUTCOMES => {
            let (slot, told) = body.told()?;
            Reply::Outcomes { slot, told }
        }
        EXECUTED => body.executed(Undoable::No)?,
        EXECUTED_UNDOABLE => body.executed(Undoable::Yes)?,
        UNDONE => Reply::Undone {
            after: Slot(body.u64()?),
        },
        UNDO_FAILED => body.undo_failed()?,
        QUERIED => Reply::Queried {
            read: ReadId(body.u64()?),
            outcome: body.outcome()?,
        },
        IMAGED => Reply::Imaged {
            slot: Slot(body.u64()?),
        },
        RESTORED => Reply::Restored {
            slot: Slot(body.u64()?),
        },
        IMAGE_FAILED => Reply::ImageFailed {
            slot: Slot(body.u64()?),
            reason: body.text(),
        },
        RESTORE_FAILED => Reply::RestoreFailed {
            slot: Slot(body.u64()?),
            reason: body.text(),
        },
        DUE => Reply::Due {
            at: Some(Wall(body.u64()?)).filter(|at| at.0 > 0),
        },
        OUTSIDE => Reply::Outside,
        SPENT => Reply::Spent {
            slot: Slot(body.u64()?),
            index: body.u32()?,
            outcome: body.outcome()?,
        },
        READ_WROTE => Reply::ReadWrote {
            object: ObjectId(body.u32()?),
            method: body.text(),
        },
        _ => return Err(Broken("a frame of unknown kind")),
    };
    Ok(Some((reply, 4 + length)))
}

/// `["ready", confinement, version, process, fingerprint]` or `["unfit", object, kind, reason]`.
fn ready(body: &[u8]) -> Result<Reply, Broken> {
    // As a pair with empty keywords, the list reads like arguments.
    let pair = [&[0x82], body, &[0xa0]].concat();
    let mut parts = Arguments::parse(&pair).map_err(|_| Broken("an unreadable answer"))?;
    let mut next = || {
        let item = parts.next_item().ok().flatten();
        item.and_then(|item| string_of(item))
            .map(|(text, _)| String::from_utf8_lossy(text).into_owned())
    };
    let mut text = || next().ok_or(Broken("an unreadable answer"));
    match text()?.as_str() {
        "ready" => {
            let confinement = text()?;
            let (_version, _process) = (next(), next());
            let fingerprint = next();
            Ok(Reply::Ready(Greeted {
                confinement,
                fingerprint,
            }))
        }
        "unfit" => {
            let (object, kind, reason) = (text()?, text()?, text()?);
            Ok(Reply::Unfit {
                object,
                reason: format!("{kind}: {reason}"),
            })
        }
        _ => Err(Broken("an answer that is neither ready nor unfit")),
    }
}

struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], Broken> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or(Broken("a cut frame"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32, Broken> {
        let bytes = self.bytes(4)?.try_into().expect("four bytes were taken");
        Ok(u32::from_le_bytes(bytes))
    }

    fn u64(&mut self) -> Result<u64, Broken> {
        let bytes = self.bytes(8)?.try_into().expect("eight bytes were taken");
        Ok(u64::from_le_bytes(bytes))
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(self.0).into_owned()
    }

    fn told(&mut self) -> Result<(Slot, Vec<Told>), Broken> {
        let slot = Slot(self.u64()?);
        let count = self.u32()?;
        let mut told = Vec::with_capacity((count as usize).min(self.0.len()));
        for _ in 0..count {
            told.push(match self.0.first() {
                Some(&TOLD_PARKED) => self.plain(StepResult::Parked)?,
                Some(&TOLD_DONE) => self.plain(StepResult::Done)?,
                Some(&TOLD_ANSWER) => self.answer()?,
                Some(_) | None => Told::Result(StepResult::Answered(self.outcome()?)),
            });
        }
        Ok((slot, told))
    }

    fn executed(&mut self, undoable: Undoable) -> Result<Reply, Broken> {
        let (slot, told) = self.told()?;
        Ok(Reply::Executed {
            slot,
            told,
            undoable,
        })
    }

    fn undo_failed(&mut self) -> Result<Reply, Broken> {
        let object = ObjectId(self.u32()?);
        let length = self.u32()? as usize;
        let method = String::from_utf8_lossy(self.bytes(length)?).into_owned();
        Ok(Reply::UndoFailed {
            object,
            method,
            reason: self.text(),
        })
    }

    fn plain(&mut self, result: StepResult) -> Result<Told, Broken> {
        self.bytes(1)?;
        Ok(Told::Result(result))
    }

    fn answer(&mut self) -> Result<Told, Broken> {
        self.bytes(1)?;
        let id = CommandId {
            session: SessionId(self.u64()?),
            sequence: self.u64()?,
        };
        Ok(Told::Answer(id, self.outcome()?))
    }

    fn outcome(&mut self) -> Result<Outcome, Broken> {
        let kind = self.bytes(1)?[0];
        let length = self.u32()? as usize;
        // Copied: a kept reply must not hold the whole buffer it came in.
        let value = Bytes::copy_from_slice(self.bytes(length)?);
        match kind {
            TOLD_RETURNED => Ok(Outcome::Returned(value)),
            TOLD_RAISED => Ok(Outcome::Raised(value)),
            _ => Err(Broken("an outcome of unknown kind")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_reply_waits_and_a_wrong_one_is_refused() {
        let mut whole = vec![0, 0, 0, 0, EXECUTED];
        whole.extend_from_slice(&7u64.to_le_bytes());
        whole.extend_from_slice(&1u32.to_le_bytes());
        whole.extend_from_slice(&[0, 1, 0, 0, 0, 0xf6]);
        let length = whole.len() as u32 - 4;
        whole[..4].copy_from_slice(&length.to_le_bytes());
        for length in 0..whole.len() {
            assert_eq!(take_reply(&whole[..length]), Ok(None));
        }
        let outcome = Outcome::Returned(Bytes::from_static(&[0xf6]));
        let told = vec![Told::Result(StepResult::Answered(outcome))];
        let slot = Slot(7);
        let undoable = Undoable::No;
        let reply = Reply::Executed {
            slot,
            told,
            undoable,
        };
        assert_eq!(take_reply(&whole), Ok(Some((reply, whole.len()))));
        whole[4] = 0x7f;
        assert!(take_reply(&whole).is_err());
        assert!(take_reply(&[0, 0, 0, 0]).is_err());
        assert!(take_reply(&[0xff, 0xff, 0xff, 0xff]).is_err());
    }

    #[test]
    fn a_call_that_took_too_many_steps_is_told_with_its_place_and_outcome() {
        let mut whole = vec![0, 0, 0, 0, SPENT];
        whole.extend_from_slice(&7u64.to_le_bytes());
        whole.extend_from_slice(&3u32.to_le_bytes());
        whole.extend_from_slice(&[1, 1, 0, 0, 0, 0xf6]);
        let length = whole.len() as u32 - 4;
        whole[..4].copy_from_slice(&length.to_le_bytes());
        let spent = Reply::Spent {
            slot: Slot(7),
            index: 3,
            outcome: Outcome::Raised(Bytes::from_static(&[0xf6])),
        };
        assert_eq!(take_reply(&whole), Ok(Some((spent, whole.len()))));
    }

    #[test]
    fn an_unfit_answer_names_object_and_reason() {
        let body = b"\x84\x65unfit\x61A\x65class\x64gone";
        assert_eq!(
            ready(body),
            Ok(Reply::Unfit {
                object: "A".to_owned(),
                reason: "class: gone".to_owned(),
            })
        );
        let greeted = |fingerprint: Option<&str>| {
            Reply::Ready(Greeted {
                confinement: "x".to_owned(),
                fingerprint: fingerprint.map(str::to_owned),
            })
        };
        assert_eq!(ready(b"\x83\x65ready\x61x\x01"), Ok(greeted(None)));
        let told = b"\x85\x65ready\x61x\x61v\x01\x62{}";
        assert_eq!(ready(told), Ok(greeted(Some("{}"))));
        assert!(ready(b"\x01").is_err());
    }
}
