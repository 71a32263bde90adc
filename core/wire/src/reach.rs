//! Bytes of `Reach`, the first frame of a link in both directions and repeated later, and of `Sighting`, the answer to a node
//! that comes with less than was seen of it. Nothing is decided here: `quorate_types` compares.

use crate::WireError;
use crate::codec::{Reader, in_range};
use bytes::{BufMut, Bytes, BytesMut};
use quorate_types::{Finding, Level, Reach, Recall, Sighting, StartOfNode, Starts, ViewNumber};

/// Since this level a node tells the starts of its directory; before, it told of the newest only.
const STARTS: Level = Level(20);

/// Appends the body of a frame of kind `Reach`, for a link of this level.
pub fn put_reach(buf: &mut BytesMut, reach: Reach, level: Level) {
    buf.put_u64_le(reach.boot);
    buf.put_u64_le(reach.start);
    buf.put_u64_le(reach.commit);
    let starts = reach.starts.kept();
    if level < STARTS {
        buf.put_u64_le(starts.last().map_or(0, |newest| newest.begun));
    }
    buf.put_u8(match reach.recall {
        Recall::Whole => 1,
        Recall::Damaged => 2,
        Recall::Lost => 3,
    });
    buf.put_u64_le(reach.since.0);
    if level < STARTS {
        return;
    }
    buf.put_u8(starts.len() as u8);
    for start in starts {
        buf.put_u64_le(start.boot);
        buf.put_u64_le(start.number);
        buf.put_u64_le(start.begun);
    }
}

/// Reads the body of a frame of kind `Reach` of a link of this level.
///
/// # Errors
/// When it is not one.
pub fn take_reach(body: &Bytes, level: Level) -> Result<Reach, WireError> {
    let mut r = Reader::new(body);
    let reach = reach(&mut r, level)?;
    r.end("reach")?;
    Ok(reach)
}

pub(crate) fn reach(r: &mut Reader<'_>, level: Level) -> Result<Reach, WireError> {
    let (boot, start) = (r.counter("boot")?, r.u64("start")?);
    let commit = r.counter("commit")?;
    let mut starts = Starts::default();
    if level < STARTS {
        starts.note(StartOfNode {
            boot,
            number: start,
            begun: r.counter("commit at the start")?,
        });
    }
    Ok(Reach {
        boot,
        start,
        commit,
        recall: match r.u8("recall")? {
            1 => Recall::Whole,
            2 => Recall::Damaged,
            3 => Recall::Lost,
            tag => {
                return Err(WireError::UnknownTag {
                    what: "recall",
                    tag,
                });
            }
        },
        since: ViewNumber(r.counter("view")?),
        starts: if level < STARTS {
            starts
        } else {
            take_starts(r)?
        },
    })
}

fn take_starts(r: &mut Reader<'_>) -> Result<Starts, WireError> {
    let mut starts = Starts::default();
    let count = in_range("starts", r.u8("starts")?.into(), Starts::MAX as u64 + 1)?;
    for _ in 0..count {
        starts.note(StartOfNode {
            boot: r.counter("boot of a start")?,
            number: r.u64("start")?,
            begun: r.counter("commit at a start")?,
        });
    }
    in_range(
        "starts that count as one",
        count - starts.kept().len() as u64,
        1,
    )?;
    Ok(starts)
}

/// Appends the body of a frame of kind `Sighting`.
pub fn put_sighting(buf: &mut BytesMut, sighting: Sighting) {
    buf.put_u64_le(sighting.boot);
    buf.put_u8(match sighting.finding {
        Finding::OlderCopy => 1,
        Finding::BootUsed => 2,
    });
}

/// Reads the body of a frame of kind `Sighting`.
///
/// # Errors
/// When it is not one.
pub fn take_sighting(body: &Bytes) -> Result<Sighting, WireError> {
    let mut r = Reader::new(body);
    let sighting = Sighting {
        boot: r.counter("boot")?,
        finding: match r.u8("finding")? {
            1 => Finding::OlderCopy,
            2 => Finding::BootUsed,
            tag => {
                return Err(WireError::UnknownTag {
                    what: "finding",
                    tag,
                });
            }
        },
    };
    r.end("sighting")?;
    Ok(sighting)
}
