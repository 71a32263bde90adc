//! How a command ends when it does not succeed: one line for people, one exit code for scripts.

use quorate_client::{CallCause, CallError, ConnectError, EndpointError};

/// A failed command.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct CliError {
    /// What went wrong and what to try.
    pub(crate) text: String,
    /// The process's exit code.
    pub(crate) code: u8,
}

/// Exit codes, the same for every command.
pub(crate) mod code {
    pub(crate) const FAILED: u8 = 1;
    pub(crate) const USAGE: u8 = 2;
    pub(crate) const NOT_FOUND: u8 = 3;
    pub(crate) const NO_QUORUM: u8 = 4;
    pub(crate) const OUTCOME_UNKNOWN: u8 = 5;
    pub(crate) const AUTH: u8 = 6;
    pub(crate) const CONFLICT: u8 = 7;
}

impl CliError {
    /// The work failed.
    pub(crate) fn failed(text: impl Into<String>) -> CliError {
        CliError {
            text: text.into(),
            code: code::FAILED,
        }
    }

    /// Something that the command needs does not exist.
    pub(crate) fn not_found(text: impl Into<String>) -> CliError {
        CliError {
            text: text.into(),
            code: code::NOT_FOUND,
        }
    }

    /// The command was called wrongly.
    pub(crate) fn usage(text: impl Into<String>) -> CliError {
        CliError {
            text: text.into(),
            code: code::USAGE,
        }
    }

    /// A malformed endpoint.
    pub(crate) fn endpoint(error: EndpointError) -> CliError {
        CliError::usage(error.to_string())
    }

    /// No connection.
    pub(crate) fn connect(error: ConnectError) -> CliError {
        let code = match &error {
            ConnectError::NoQuorum { .. } | ConnectError::Unanswered { .. } => code::NO_QUORUM,
            ConnectError::Rejected { .. } | ConnectError::Tls { .. } => code::AUTH,
            ConnectError::Unreadable { .. } => code::USAGE,
            ConnectError::NoSuchObject { .. } => code::NOT_FOUND,
            ConnectError::OtherCluster { .. } => code::CONFLICT,
            ConnectError::System(_) => code::FAILED,
        };
        CliError {
            text: error.to_string(),
            code,
        }
    }

    /// A call without an answer.
    pub(crate) fn call(error: CallError) -> CliError {
        let code = match &error {
            CallError::NotExecuted(CallCause::OtherCluster { .. }) => code::CONFLICT,
            CallError::NotExecuted(_) => code::NO_QUORUM,
            CallError::OutcomeUnknown(_) => code::OUTCOME_UNKNOWN,
            CallError::Invalid(_) => code::CONFLICT,
            CallError::Closed | CallError::Forked => code::FAILED,
        };
        CliError {
            text: error.to_string(),
            code,
        }
    }
}
