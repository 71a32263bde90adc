//! Requests to the log, and the bounded queue in which they wait for the next commit.
//!
//! Plain data: the log's thread keeps the inbox behind a lock, the simulator uses it directly.

use std::collections::VecDeque;

use bytes::Bytes;
use quorate_types::{GroupId, Slot};

use crate::limits::{WRITER_BYTES_MAX, WRITER_REQUESTS_MAX};
use crate::recovered::{Append, Position};

/// One request to the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogRequest {
    /// Make records durable; then the durable mark reaches `mark`. Marks grow.
    Append {
        /// The caller's number for these records and all before them.
        mark: u64,
        /// The records, in order.
        records: Vec<Append>,
    },
    /// `Log::discard`.
    Discard {
        /// The group.
        group: GroupId,
        /// The slot up to which `base` replaces its records.
        upto: Slot,
        /// What restates them.
        base: Bytes,
    },
    /// `Log::repaired`.
    Repaired(Position),
}

impl LogRequest {
    fn bytes(&self) -> usize {
        match self {
            LogRequest::Append { records, .. } => {
                records.iter().map(|append| append.record.len()).sum()
            }
            LogRequest::Discard { base, .. } => base.len(),
            LogRequest::Repaired(_) => 0,
        }
    }

    pub(crate) fn is_discard(&self) -> bool {
        matches!(self, LogRequest::Discard { .. })
    }
}

/// Requests that wait for the log, and whether space was freed since it looked last.
#[derive(Debug, Default)]
pub struct LogInbox {
    /// Invariant: at most `WRITER_REQUESTS_MAX`, of at most `WRITER_BYTES_MAX` together unless it is one.
    requests: VecDeque<LogRequest>,
    bytes: usize,
    has_freed: bool,
}

impl LogInbox {
    /// Takes a request, or gives it back if the inbox is full: offer it again after the next commit.
    pub fn offer(&mut self, request: LogRequest) -> Result<(), LogRequest> {
        let bytes = request.bytes();
        // One request of any size passes an empty inbox, or it would never pass.
        let fits = self.requests.is_empty() || self.bytes + bytes <= WRITER_BYTES_MAX;
        if self.requests.len() >= WRITER_REQUESTS_MAX || !fits {
            return Err(request);
        }
        self.bytes += bytes;
        self.requests.push_back(request);
        Ok(())
    }

    /// Notes that a segment was removed: a log that is short of room tries again.
    pub fn freed(&mut self) {
        self.has_freed = true;
    }

    /// Requests that wait.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether no request waits.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    pub(crate) fn has_freed(&self) -> bool {
        self.has_freed
    }

    pub(crate) fn has_discard(&self) -> bool {
        self.requests.iter().any(LogRequest::is_discard)
    }

    /// The log looks for room now.
    pub(crate) fn forget_freed(&mut self) {
        self.has_freed = false;
    }

    pub(crate) fn take(&mut self) -> VecDeque<LogRequest> {
        self.bytes = 0;
        std::mem::take(&mut self.requests)
    }

    /// Takes the discards only; the others keep their places.
    pub(crate) fn take_discards(&mut self) -> VecDeque<LogRequest> {
        let (discards, rest): (VecDeque<_>, VecDeque<_>) =
            self.requests.drain(..).partition(LogRequest::is_discard);
        self.requests = rest;
        self.bytes -= discards.iter().map(LogRequest::bytes).sum::<usize>();
        discards
    }
}
