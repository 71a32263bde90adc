//! Confinement of the host process, before any module of a user is imported: Landlock decides about files, the
//! network and signals, seccomp about system calls. Both hold for every process that this one starts.
//!
//! What the kernel does not have is left out and reported: the caller tells the node, which says so in its log and
//! its status. Only `quorate._host` calls it. SECURITY.md says what is promised.

use crate::forbidden_calls;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope, path_beneath_rules,
};
use pyo3::prelude::*;
use seccompiler::{BpfProgram, apply_filter_all_threads};

/// The newest rules that this build knows; the kernel may know fewer.
const RULES: ABI = ABI::V6;

/// Confines this process for good. Returns what is not enforced and why; empty when everything is.
#[pyfunction]
pub(crate) fn confine(readable: Vec<String>, writable: Vec<String>) -> Vec<String> {
    let mut missing = Vec::new();
    match restrict_access(&readable, &writable) {
        Ok(RulesetStatus::FullyEnforced) => {}
        Ok(RulesetStatus::PartiallyEnforced) => {
            missing.push(
                "Landlock of this kernel is older than 6.12, so some rules are absent".into(),
            );
        }
        Ok(RulesetStatus::NotEnforced) => {
            missing.push("this kernel has no Landlock: files are open to the node's user".into());
        }
        Err(error) => missing.push(format!(
            "no Landlock ({error}): files are open to the node's user"
        )),
    }
    if let Err(error) = forbid_calls() {
        missing.push(format!(
            "no seccomp ({error}): sockets, signals and programs are not forbidden"
        ));
    }
    missing
}

/// Reading below `readable`, everything but executing below `writable`, and nothing else.
fn restrict_access(
    readable: &[String],
    writable: &[String],
) -> Result<RulesetStatus, landlock::RulesetError> {
    let reading: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
    let everything = AccessFs::from_all(RULES) & !AccessFs::Execute;
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(RULES))?
        .handle_access(AccessNet::from_all(RULES))?
        .scope(Scope::from_all(RULES))?
        .create()?
        .add_rules(path_beneath_rules(readable, reading))?
        .add_rules(path_beneath_rules(writable, everything))?
        .restrict_self()?;
    Ok(status.ruleset)
}

fn forbid_calls() -> Result<(), String> {
    let programs: Vec<BpfProgram> =
        forbidden_calls::filters(std::process::id()).map_err(|error| error.to_string())?;
    for program in &programs {
        apply_filter_all_threads(program).map_err(|error| error.to_string())?;
    }
    Ok(())
}
