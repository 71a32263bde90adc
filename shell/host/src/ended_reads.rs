//! Reads that ended a host process, and how they were answered.
//!
//! A client that hears nothing for some seconds asks another node, and then this one again. Without a memory
//! its read would end one process after the other and never be answered. Only `other_process` uses it.

use crate::limits::{ENDED_READ_KEPT, ENDED_READS_MAX};
use bytes::Bytes;
use quorate_types::{ObjectId, Outcome};
use std::collections::VecDeque;
use std::time::Instant;

/// The newest reads that ended a process.
#[derive(Default)]
pub(crate) struct EndedReads {
    reads: VecDeque<EndedRead>,
}

struct EndedRead {
    object: ObjectId,
    payload: Bytes,
    outcome: Outcome,
    at: Instant,
}

impl EndedReads {
    /// A read ended its process, and its client was told `outcome`.
    pub(crate) fn note(&mut self, object: ObjectId, payload: Bytes, outcome: Outcome, at: Instant) {
        if self.reads.len() == ENDED_READS_MAX {
            self.reads.pop_front();
        }
        self.reads.push_back(EndedRead {
            object,
            payload,
            outcome,
            at,
        });
    }

    /// What the same read was told a short time ago.
    pub(crate) fn answer(
        &mut self,
        object: ObjectId,
        payload: &[u8],
        now: Instant,
    ) -> Option<Outcome> {
        while let Some(oldest) = self.reads.front()
            && now - oldest.at >= ENDED_READ_KEPT
        {
            self.reads.pop_front();
        }
        let is_same = |read: &&EndedRead| read.object == object && read.payload == payload;
        let found = self.reads.iter().find(is_same)?;
        Some(found.outcome.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_read_is_answered_for_a_while_and_no_other() {
        let (mut reads, at) = (EndedReads::default(), Instant::now());
        let object = ObjectId(1);
        reads.note(object, Bytes::from_static(b"x"), Outcome::Skipped, at);
        assert_eq!(reads.answer(object, b"x", at), Some(Outcome::Skipped));
        assert_eq!(reads.answer(object, b"y", at), None);
        assert_eq!(reads.answer(ObjectId(2), b"x", at), None);
        assert_eq!(reads.answer(object, b"x", at + ENDED_READ_KEPT), None);
        for _ in 0..=ENDED_READS_MAX {
            reads.note(object, Bytes::from_static(b"y"), Outcome::Skipped, at);
        }
        assert_eq!(reads.reads.len(), ENDED_READS_MAX);
        assert_eq!(reads.answer(object, b"x", at), None);
    }
}
