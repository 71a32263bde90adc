//! What one connection has sent and nobody has served, and one visit of it.
//!
//! [`crate::client_turns`] says whose line is visited; `serve` of [`crate::node::Node`] takes what is served.

use crate::awaited_answers::AwaitedAnswers;
use crate::limits::{DEBT_MAX, DEBT_PAUSE, DEBT_REPAID, VISIT_WORK, WORK_BYTES};
use bytes::Bytes;
use quorate_types::{ClosedBy, ConnectionId, FromClient, Time};
use quorate_wire::{Requests, WireError};
use std::collections::VecDeque;
use std::net::IpAddr;

/// Where a client connects from; unknown for one that has gone before it said anything.
pub(crate) type ClientPlace = Option<IpAddr>;

/// What one connection has sent and nobody has served.
#[derive(Debug, Default)]
pub(crate) struct ClientLine {
    pub(crate) place: ClientPlace,
    pub(crate) waiting: VecDeque<Unserved>,
    pub(crate) state: LineState,
    pub(crate) debt: u32,
    /// Until when the debt has been counted down.
    pub(crate) repaid: Time,
    pub(crate) answers: AwaitedAnswers,
    /// What it counts of the bytes that are awaited.
    pub(crate) counted: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum LineState {
    /// Nothing waits.
    #[default]
    Idle,
    Listed,
    Paused(Time),
    Crowded(u64),
}

/// One frame, or the end of the connection.
#[derive(Debug)]
pub(crate) enum Unserved {
    Requests(Requests),
    Status,
    Admin(Bytes),
    Gone(ClosedBy),
}

/// A line that is being served. Hand it back with [`crate::client_turns::ClientTurns::visited`].
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) from: ConnectionId,
    pub(crate) line: ClientLine,
    pub(crate) work: usize,
    /// Bytes of large answers that it may ask for.
    pub(crate) room: usize,
}

/// What is served next.
#[derive(Debug)]
pub(crate) enum Asked {
    Request(Result<FromClient, WireError>),
    Status,
    /// The body of a frame.
    Admin(Bytes),
    /// The connection is over; nothing follows.
    Gone(ClosedBy),
}

impl ClientLine {
    pub(crate) fn bytes(&self) -> usize {
        let bytes = |waiting: &Unserved| match waiting {
            Unserved::Requests(requests) => requests.bytes_left().max(1),
            Unserved::Admin(body) => body.len().max(1),
            Unserved::Status | Unserved::Gone(_) => 1,
        };
        self.waiting.iter().map(bytes).sum()
    }

    /// Keeps the bytes of its answers in the sum.
    pub(crate) fn count(&mut self, sum: &mut usize) {
        let bytes = self.answers.bytes();
        *sum = *sum - self.counted + bytes;
        self.counted = bytes;
    }

    /// Whether its next request is served only where there is room for large answers.
    pub(crate) fn is_to_wait(&self) -> bool {
        match self.waiting.front() {
            Some(Unserved::Requests(requests)) => {
                requests.bytes_left() > 0 && self.answers.need_room()
            }
            Some(Unserved::Status | Unserved::Admin(_) | Unserved::Gone(_)) | None => false,
        }
    }

    /// Nobody waits for the answers.
    pub(crate) fn forget_requests(&mut self) {
        self.waiting.clear();
        self.state = LineState::Idle;
        self.debt = 0;
    }

    /// Keeps nothing but the end.
    pub(crate) fn drop_rest(&mut self) {
        self.waiting
            .retain(|waiting| matches!(waiting, Unserved::Gone(_)));
    }

    /// Debt is repaid with time.
    pub(crate) fn repay(&mut self, now: Time) {
        let steps = now.since(self.repaid).0 / DEBT_PAUSE.0;
        if steps > 0 {
            let repaid = u64::from(DEBT_REPAID).saturating_mul(steps);
            let repaid = u32::try_from(repaid).unwrap_or(u32::MAX);
            self.debt = self.debt.saturating_sub(repaid);
            self.repaid = now;
        }
    }
}

impl Visit {
    /// What is served next in this visit.
    pub(crate) fn next(&mut self) -> Option<Asked> {
        if self.work >= VISIT_WORK || self.line.debt > DEBT_MAX {
            return None;
        }
        loop {
            let has_room = self.has_room();
            let asked = match self.line.waiting.front_mut()? {
                Unserved::Requests(requests) if requests.bytes_left() > 0 && !has_room => {
                    return None;
                }
                Unserved::Requests(requests) => requests.next().map(Asked::Request),
                Unserved::Status => Some(Asked::Status),
                Unserved::Admin(body) => Some(Asked::Admin(std::mem::take(body))),
                Unserved::Gone(by) => Some(Asked::Gone(*by)),
            };
            match asked {
                Some(Asked::Request(request)) => {
                    self.work += 1 + weight(&request) / WORK_BYTES;
                    self.line.answers.asked(&request);
                    return Some(Asked::Request(request));
                }
                Some(other) => {
                    self.work += 1;
                    self.line.waiting.pop_front();
                    return Some(other);
                }
                None => drop(self.line.waiting.pop_front()),
            }
        }
    }

    fn has_room(&self) -> bool {
        let line = &self.line;
        let more = line.answers.bytes().saturating_sub(line.counted);
        more < self.room || !line.answers.need_room()
    }

    /// What was served orders no call: it is repaid with time.
    pub(crate) fn lend(&mut self, debt: u32) {
        self.line.debt += debt;
    }

    /// The connection was refused: nothing of it counts any more.
    pub(crate) fn drop_rest(&mut self) {
        self.line.drop_rest();
    }
}

fn weight(request: &Result<FromClient, WireError>) -> usize {
    match request {
        Ok(
            FromClient::Call { payload, .. }
            | FromClient::Read { payload, .. }
            | FromClient::Broadcast { payload, .. },
        ) => payload.len(),
        Ok(
            FromClient::Open { .. }
            | FromClient::Resume { .. }
            | FromClient::Attach { .. }
            | FromClient::KeepAlive { .. }
            | FromClient::Announce { .. }
            | FromClient::Early { .. }
            | FromClient::Close { .. }
            | FromClient::Checkpoint { .. }
            | FromClient::Reset { .. }
            | FromClient::Skip { .. }
            | FromClient::Invite { .. }
            | FromClient::ChangeGroups { .. }
            | FromClient::MoveLeader { .. }
            | FromClient::Join { .. }
            | FromClient::SetLevel { .. }
            | FromClient::SwitchOrdering { .. }
            | FromClient::SetQuorums { .. }
            | FromClient::SetLimit { .. }
            | FromClient::ChangeView { .. },
        )
        | Err(_) => 0,
    }
}
