//! What can go wrong, by what the caller may do next.

use crate::{Cause, Failure};
use quorate_types::Refusal;
use std::time::Duration;

/// Why no connection to a group could be made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConnectError {
    /// No address answered with a leader in time: try again, or look at the nodes.
    #[error("no quorum at {addresses} within {timeout:?}{}", last.as_ref().map(|e| format!(" (last: {e})")).unwrap_or_default())]
    NoQuorum {
        /// Where it was tried.
        addresses: String,
        /// For how long.
        timeout: Duration,
        /// The last thing an address said.
        last: Option<String>,
    },
    /// A node answered and turned the client away: nothing to try again.
    #[error("{address} refused the connection: {reason}")]
    Rejected {
        /// Which address.
        address: String,
        /// Its words.
        reason: String,
    },
    /// The group has no object of that name.
    #[error("no object named '{name}'; this group has: {known}")]
    NoSuchObject {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The system refused what every client needs.
    #[error("cannot start a client: {0}")]
    System(String),
}

/// Why an operation has no answer. Says first whether it may have been executed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CallError {
    /// Nothing happened and nothing will: safe to call again.
    #[error("not executed: {0}")]
    NotExecuted(String),
    /// It may have been executed or may yet be; at most once.
    #[error("outcome unknown: {0}")]
    OutcomeUnknown(String),
    /// The request can never succeed as it is.
    #[error("refused: {0}")]
    Invalid(String),
    /// The client was closed.
    #[error("this client is closed")]
    Closed,
}

impl From<Failure> for CallError {
    fn from(failure: Failure) -> CallError {
        let words = match failure.cause {
            Cause::DeadlinePassed => "the deadline passed".to_string(),
            Cause::Refused(refusal) => refusal_words(refusal).to_string(),
        };
        match failure.cause {
            Cause::Refused(
                Refusal::SequenceReused
                | Refusal::NoSuchObject
                | Refusal::TooLarge
                | Refusal::NoSnapshots,
            ) => CallError::Invalid(words),
            Cause::DeadlinePassed | Cause::Refused(_) if failure.may_have_executed => {
                CallError::OutcomeUnknown(words)
            }
            Cause::DeadlinePassed | Cause::Refused(_) => CallError::NotExecuted(words),
        }
    }
}

fn refusal_words(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::NotOrdered => "it was not ordered",
        Refusal::Unknown => "the leader changed while it was being ordered",
        Refusal::Overloaded => "the group is overloaded",
        Refusal::SessionExpired => "the session expired",
        Refusal::ReplyGone => "it was executed, and its reply is gone",
        Refusal::SequenceReused => "its sequence was used with another payload",
        Refusal::NoSuchObject => "the group has no such object",
        Refusal::NotServing => "the replica does not serve objects",
        Refusal::NoLeader => "no leader is known",
        Refusal::TooLarge => "it is larger than a batch may be",
        Refusal::NoSnapshots => "this group runs without snapshots",
        Refusal::StorageFull => "the storage is full, nothing happened",
    }
}
