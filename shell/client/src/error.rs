//! The errors of a client; each variant says what the caller may do next.

use crate::{CallCause, Failure, TlsProblem};
use quorate_types::{ClusterId, SessionTerms};
use std::path::PathBuf;
use std::time::Duration;

/// Why no connection to a group could be made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConnectError {
    /// No address answered with a leader in time: try again, or look at the nodes.
    #[error("no quorum at {addresses} within {timeout:?}{}", last.as_ref().map(|e| format!(" (last: {e})")).unwrap_or_default())]
    NoQuorum {
        /// The addresses that were tried.
        addresses: String,
        /// How long they were tried.
        timeout: Duration,
        /// The last answer of an address.
        last: Option<String>,
    },
    /// As many sessions are open as the group may have: try again, or allow more.
    #[error(
        "no place for another session at {addresses} within {timeout:?}: the group has as many as it may; that of a client that has \
         ended is over when it expires, and `quorate view set sessions=COUNT` allows more"
    )]
    NoPlace {
        /// The addresses that were tried.
        addresses: String,
        /// How long they were tried.
        timeout: Duration,
    },
    /// A node answered and rejected the client: a retry is rejected as well.
    #[error("{address} rejected this client: {reason}")]
    Rejected {
        /// The address that was dialled.
        address: String,
        /// The reason that the node gave.
        reason: String,
    },
    /// The addresses of the endpoint belong to different clusters.
    #[error("{address} belongs to cluster {:016x}, and this client first spoke to cluster {:016x}: name addresses of one cluster", .found.0, .pinned.0)]
    OtherCluster {
        /// The address that was dialled.
        address: String,
        /// The cluster that the client first spoke to.
        pinned: ClusterId,
        /// That of the address.
        found: ClusterId,
    },
    /// The TLS handshake failed; the problem says what to try.
    #[error("no connection to {address}: {problem}")]
    Tls {
        /// The address that was dialled.
        address: String,
        /// What is wrong.
        problem: TlsProblem,
    },
    /// A file with certificates or a key cannot be used.
    #[error("{}: {why}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A client that lives has the session of this file: wait for its end, or name another file.
    #[error("{}: a process that has this session open is running", path.display())]
    SessionInUse {
        /// Which file.
        path: PathBuf,
    },
    /// One node gave no answer to a question.
    #[error("{address} does not answer: {reason}")]
    Unanswered {
        /// The address that was dialled.
        address: String,
        /// What happened instead.
        reason: String,
    },
    /// The node knows no such group, or does not serve it and does not know who does: look at `quorate group list`.
    #[error(
        "{address} knows no {}", name.as_ref().map_or_else(|| format!("such group: {reason}"),
        |name| format!("group {name}: `quorate group list` shows those that there are"))
    )]
    NoSuchGroup {
        /// The address that was dialled.
        address: String,
        /// The name of the group, where one was asked for by its name.
        name: Option<String>,
        /// What the node said.
        reason: String,
    },
    /// The group has no object of that name.
    #[error("no object named '{name}'; this group began with: {known}")]
    NoSuchObject {
        /// The name asked for.
        name: String,
        /// The names of the objects that the group began with; those that were created since are in its directory.
        known: String,
    },
    /// No session has such an expiry time: ask for one within the bounds.
    #[error(
        "a session cannot live for {} s without a sign of life: use {} to {} s, at least as long as an election takes and as \
         short as what the session owns may wait", .asked.as_secs_f64(), SessionTerms::EXPIRY_MIN.as_millis() / 1000,
        SessionTerms::EXPIRY_MAX.as_millis() / 1000
    )]
    BadExpiry {
        /// The expiry time that was asked for.
        asked: Duration,
    },
    /// No session ends so long after its client's connection was closed: ask for a time within the bounds.
    #[error(
        "a session cannot end {} s after its client's connection is closed: use {} s, in which a client that lives reaches another node, \
         up to the {} s after which it ends in any case", .asked.as_secs_f64(), SessionTerms::EXPIRY_MIN.as_millis() / 1000,
        .expiry.as_secs_f64()
    )]
    BadDisconnect {
        /// The time that was asked for.
        asked: Duration,
        /// The session's expiry time.
        expiry: Duration,
    },
    /// The system refused what every client needs.
    #[error("cannot start a client: {0}")]
    System(String),
}

impl ConnectError {
    pub(crate) fn no_group(address: String, reason: String) -> ConnectError {
        let name = None;
        ConnectError::NoSuchGroup {
            address,
            name,
            reason,
        }
    }

    /// The same, where the group was asked for by this name: a node knows only its number.
    pub(crate) fn of_group(self, name: Option<&String>) -> ConnectError {
        match self {
            ConnectError::NoSuchGroup {
                address, reason, ..
            } => ConnectError::NoSuchGroup {
                address,
                name: name.cloned(),
                reason,
            },
            other => other,
        }
    }
}

/// Why an operation has no answer. Says first whether it may have been executed, then the cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CallError {
    /// It was not executed and will not be: safe to retry.
    #[error("not executed: {0}")]
    NotExecuted(CallCause),
    /// It may have been executed, or may still be; at most once.
    #[error("outcome unknown: {0}")]
    OutcomeUnknown(CallCause),
    /// The request can never succeed as it is.
    #[error("refused: {0}")]
    Invalid(CallCause),
    /// The client belongs to the process that this one was forked off; the operation was not begun.
    #[error(
        "this connection belongs to the process that this one was forked off: connect in this process"
    )]
    Forked,
    /// The client was closed before the operation was begun.
    #[error("this client is closed")]
    Closed,
}

impl CallError {
    /// What kept the operation from its answer.
    #[must_use]
    pub fn cause(self) -> CallCause {
        match self {
            CallError::NotExecuted(cause)
            | CallError::OutcomeUnknown(cause)
            | CallError::Invalid(cause) => cause,
            CallError::Forked | CallError::Closed => CallCause::ClientClosed,
        }
    }
}

impl From<Failure> for CallError {
    fn from(failure: Failure) -> CallError {
        let cause = CallCause::from(failure);
        if cause.is_final() {
            CallError::Invalid(cause)
        } else if failure.may_have_executed {
            CallError::OutcomeUnknown(cause)
        } else {
            CallError::NotExecuted(cause)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cause;
    use quorate_types::Refusal;

    #[test]
    fn one_cause_ends_either_way_and_the_error_says_which() {
        let late = |may_have_executed| {
            CallError::from(Failure {
                cause: Cause::DeadlinePassed,
                may_have_executed,
            })
        };
        assert_eq!(
            late(true),
            CallError::OutcomeUnknown(CallCause::DeadlinePassed)
        );
        assert_eq!(
            late(false),
            CallError::NotExecuted(CallCause::DeadlinePassed)
        );
    }

    #[test]
    fn what_can_never_succeed_is_invalid() {
        let refused = CallError::from(Failure::refused(Refusal::TooLarge));
        assert_eq!(refused, CallError::Invalid(CallCause::TooLarge));
        assert_eq!(refused.cause(), CallCause::TooLarge);
    }

    #[test]
    fn no_two_causes_share_a_name() {
        let mut names: Vec<&str> = CallCause::ALL.iter().map(|cause| cause.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CallCause::ALL.len());
    }
}
