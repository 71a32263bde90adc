//! How a command ends when it does not succeed: one line for people, one exit code and one JSON object for scripts.

use quorate_client::{CallCause, CallError, ConnectError, EndpointError};
use quorate_host::HostError;
use quorate_node::NodeError;
use quorate_storage::StorageError;
use quorate_wire::value::Raised;
use serde::Deserialize;

/// A failed command.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct CliError {
    /// What went wrong and what to try.
    pub(crate) text: String,
    /// The process's exit code.
    pub(crate) code: u8,
    /// What to do next, where more is known than the exit code says.
    advice: Option<String>,
}

/// An error as another command tells it with `-o json`.
#[derive(Debug, Deserialize)]
pub(crate) struct ToldError {
    message: String,
    advice: String,
    exit_code: u8,
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
  7  conflict: another cluster, a directory or file that is there already, changed code, or a request that this group
     never takes

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
    fn usual_advice(&self) -> &'static str {
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

    /// The same error with what to do about it.
    pub(crate) fn advise(self, advice: impl Into<String>) -> CliError {
        CliError {
            advice: Some(advice.into()),
            ..self
        }
    }

    /// The same error with what its exit code says to do, unless more is known: shown to people, too.
    pub(crate) fn advise_as_usual(self) -> CliError {
        let usual = self.usual_advice();
        match self.advice {
            Some(_) => self,
            None => self.advise(usual),
        }
    }

    /// What to do about it, where that is more than the exit code says and the message does not say it.
    pub(crate) fn more_advice(&self) -> Option<&str> {
        let advice = self.advice.as_deref()?;
        (!self.text.contains(advice)).then_some(advice)
    }

    /// The error for scripts.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "error": self.name(),
            "message": self.text,
            "advice": self.advice.as_deref().unwrap_or_else(|| self.usual_advice()),
            "exit_code": self.code,
        })
    }

    /// An error with one of the exit codes.
    pub(crate) fn with_code(code: u8, text: impl Into<String>) -> CliError {
        CliError {
            text: text.into(),
            code,
            advice: None,
        }
    }

    /// The error of another command, as it told it with `-o json`.
    pub(crate) fn told(told: ToldError) -> CliError {
        CliError::with_code(told.exit_code, told.message).advise(told.advice)
    }

    /// The work failed.
    pub(crate) fn failed(text: impl Into<String>) -> CliError {
        CliError::with_code(code::FAILED, text)
    }

    /// Something that the command needs does not exist.
    pub(crate) fn not_found(text: impl Into<String>) -> CliError {
        CliError::with_code(code::NOT_FOUND, text)
    }

    /// The command was called wrongly.
    pub(crate) fn usage(text: impl Into<String>) -> CliError {
        CliError::with_code(code::USAGE, text)
    }

    /// What is there is not what the command means, and it fails again.
    pub(crate) fn conflict(text: impl Into<String>) -> CliError {
        CliError::with_code(code::CONFLICT, text)
    }

    /// A node that could not start or had to stop, with the exit code that says whose fault it was.
    pub(crate) fn node(error: &NodeError) -> CliError {
        let told = CliError::with_code(error.exit_code(), error.to_string());
        let advice = match error {
            NodeError::OtherCode { .. } => {
                "put the old code back, or start all nodes with --accept-code"
            }
            NodeError::CodeNotCovered { .. } => {
                "start with the old code, run `quorate snapshot`, stop, and start with --accept-code"
            }
            NodeError::Host(HostError::Ended(_)) => {
                "read what the interpreter says; it needs the package quorate: name another one with --python or QUORATE_PYTHON"
            }
            NodeError::Host(HostError::Object { .. }) => {
                "correct the class or its arguments; `quorate check MODULE:CLASS` says more"
            }
            NodeError::Storage(StorageError::Amnesia) => {
                "put the newest copy of the directory back; without one, move it away: `quorate up`, or `quorate node run --remake`, makes it anew"
            }
            NodeError::Storage(StorageError::AlreadyInitialised(_)) => {
                "start it with `quorate node run`, or name another directory"
            }
            NodeError::Storage(StorageError::NotEmpty(_)) => {
                "name a directory that is empty or does not exist"
            }
            NodeError::Conflict { .. } | NodeError::Conflicted { .. } => {
                "stop the group, keep the data directories of all nodes and report this"
            }
            NodeError::Removed { .. } => {
                "let a new node join with a directory of its own: quorate node invite, quorate node join"
            }
            NodeError::LevelNotSpoken { .. } | NodeError::LevelRefused { .. } => {
                "start a version that speaks the level of the group, without --speaks; docs/upgrades.md says how a group goes to another level"
            }
            NodeError::Multicast { .. } => {
                "name an address of 239.0.0.0/8 that the interface of `listen` reaches, or leave limits.multicast out"
            }
            NodeError::Forgotten { .. } => "put the newest data directory back",
            NodeError::Unrecoverable(_) => {
                "leave out the nodes that are named, and name others; without any, restore a backup"
            }
            NodeError::DirectoryRemoved { .. } => "start it with --remake",
            NodeError::Descriptors { .. } => {
                "raise the limit: ulimit -n, or LimitNOFILE= of its service"
            }
            NodeError::Config { path, .. } if !path.exists() => {
                "name the configuration of the node; one that is lost is that of another member with other node, dir, listen, admin and \
                 certificates"
            }
            NodeError::Config { .. } | NodeError::Identity(_) | NodeError::Tls(_) => {
                "correct the configuration of the node"
            }
            NodeError::Storage(_)
            | NodeError::Transport(_)
            | NodeError::Host(_)
            | NodeError::Unreadable(_)
            | NodeError::NotRebuilt(_)
            | NodeError::Sighted { .. }
            | NodeError::System(..) => return told,
        };
        told.advise(advice)
    }

    /// What a method raised, or the host in its place.
    pub(crate) fn raised(raised: &Raised) -> CliError {
        let code = match raised.class.as_str() {
            "quorate.NotFound" => code::NOT_FOUND,
            "quorate.NameTaken" | "quorate.Refused" => code::CONFLICT,
            _ => code::FAILED,
        };
        let told = CliError::with_code(code, format!("{}: {}", raised.class, raised.message));
        told.advise(match raised.class.as_str() {
            "quorate.NotFound" => "`quorate object list` names the objects of the group",
            "quorate.NameTaken" => "choose another name, or say --if-missing to leave it as it is",
            "quorate.Refused" => {
                "nothing has changed: name another object, or correct what the error names"
            }
            "quorate.NotReplicable" => {
                "nothing has changed: install the class on all nodes, or correct it or its arguments"
            }
            "quorate.BudgetExceeded" => {
                "give the call less to do, or bound the method's loops; `--budget STEPS` with --accept-code allows the group more"
            }
            "quorate.NoSuchMethod" => "`quorate call OBJECT` lists the object's methods",
            "quorate.NotReadOnly" => "call it without --read",
            "quorate.UnsupportedResult" => {
                "it was executed: let the method return plain values, data classes, or classes that are registered"
            }
            "quorate.WaitsOutside" => {
                "it was executed up to there: do in the client what waits for something outside of the object"
            }
            "quorate.ReadEnded" => {
                "it changed nothing: correct the method, or start the nodes with a longer --call-timeout"
            }
            _ => "the method raised this, and what it changed before stays: correct the arguments or the class",
        })
    }

    /// A call that the group skipped.
    pub(crate) fn skipped(method: &str) -> CliError {
        CliError::failed(format!(
            "the group skipped the call of `{method}`: every process that executed it died or ran into --call-timeout; it has changed nothing, and the nodes' logs name its slot"
        ))
        .advise("correct the method, or start all nodes with a longer --call-timeout: the same call would be skipped again")
    }

    /// A malformed endpoint.
    pub(crate) fn endpoint(error: EndpointError) -> CliError {
        CliError::usage(error.to_string())
    }

    /// No connection.
    pub(crate) fn connect(error: ConnectError) -> CliError {
        let code = match &error {
            ConnectError::NoQuorum { .. }
            | ConnectError::NoPlace { .. }
            | ConnectError::Unanswered { .. } => code::NO_QUORUM,
            ConnectError::Rejected { .. } | ConnectError::Tls { .. } => code::AUTH,
            ConnectError::Unreadable { .. }
            | ConnectError::BadExpiry { .. }
            | ConnectError::BadDisconnect { .. } => code::USAGE,
            ConnectError::NoSuchObject { .. } | ConnectError::NoSuchGroup { .. } => code::NOT_FOUND,
            ConnectError::OtherCluster { .. } | ConnectError::SessionInUse { .. } => code::CONFLICT,
            ConnectError::System(_) => code::FAILED,
        };
        CliError::with_code(code, error.to_string())
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
        CliError::with_code(code, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_group_refuses_to_do_is_a_conflict_and_has_changed_nothing() {
        let raised = |class: &str| {
            CliError::raised(&Raised {
                class: class.to_owned(),
                message: "'a//b' is not a name".to_owned(),
                args: Vec::new(),
                traceback: String::new(),
                details: Vec::new(),
            })
        };
        let refused = raised("quorate.Refused");
        assert_eq!(refused.code, code::CONFLICT);
        assert!(refused.advice.unwrap().starts_with("nothing has changed"));
        assert_eq!(raised("bank.Refused").code, code::FAILED, "a method's own");
    }
}
