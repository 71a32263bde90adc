//! How a command ends when it does not succeed: one line for people, one exit code and one JSON object for scripts.

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

/// The codes as `quorate --help` and docs/commands.md list them.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed: the method raised, or the work could not be done
  2  usage: the command line, a configuration or a class is wrong
  3  not found: no such object
  4  no quorum: no node answers, or no majority; the call was not executed
  5  outcome unknown: the answer did not come in time; the call may have been executed, at most once
  6  rejected: certificates or versions do not fit
  7  conflict: another cluster, another group's directory, changed code, or a request that this group never takes

With -o json an error is one JSON object on stderr: error, message, advice, exit_code.";

impl CliError {
    /// What scripts compare: one name for each exit code.
    fn name(&self) -> &'static str {
        match self.code {
            code::USAGE => "usage",
            code::NOT_FOUND => "not_found",
            code::NO_QUORUM => "no_quorum",
            code::OUTCOME_UNKNOWN => "outcome_unknown",
            code::AUTH => "rejected",
            code::CONFLICT => "conflict",
            _ => "failed",
        }
    }

    /// What to do next, as far as the exit code alone says it.
    fn advice(&self) -> &'static str {
        match self.code {
            code::USAGE => "correct the command; `quorate COMMAND --help` lists its options",
            code::NOT_FOUND => "name an object that the group has",
            code::NO_QUORUM => "start the missing nodes, look at `quorate status`, and call again",
            code::OUTCOME_UNKNOWN => "read the object's state before you call again",
            code::AUTH => "compare the certificates and versions of this client and the nodes",
            code::CONFLICT => {
                "compare what is named with what the nodes have; the same command fails again"
            }
            _ => "read the message; the nodes' logs say more",
        }
    }

    /// The error for scripts.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "error": self.name(),
            "message": self.text,
            "advice": self.advice(),
            "exit_code": self.code,
        })
    }

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
