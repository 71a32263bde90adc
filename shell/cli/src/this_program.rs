//! This program, to be started once more: for a node, or to ask a group something.
//!
//! It is the file that this process runs and not what its path names: an upgrade may have replaced or removed that meanwhile, and a
//! supervisor that restarts a node must neither fail then nor mix versions.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Linux's link to the file that a process was started from, which works as long as the process does.
const RUNNING: &str = "/proc/self/exe";

/// A command that runs this program, under the name that it has in the list of processes.
pub(crate) fn command() -> std::io::Result<Command> {
    let shown = std::env::current_exe()?;
    let mut command = match cfg!(target_os = "linux") {
        true => Command::new(RUNNING),
        false => Command::new(&shown),
    };
    command.arg0(shown);
    Ok(command)
}
