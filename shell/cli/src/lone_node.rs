//! A node that runs only as long as a command needs it, alone in its group, and does nothing outside.
//!
//! Called by `quorate recover`, which has it execute what survivors know. Its directory is the command's.

use crate::error::CliError;
use crate::group::GroupAccess;
use crate::this_program;
use quorate_client::node_status;
use quorate_node::{NodeConfig, NodeStatus};
use quorate_types::{GroupId, Slot};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// How often it is asked how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// How long it may take to answer.
const ANSWER_MAX: Duration = Duration::from_millis(500);

/// How long it may execute nothing more, beside the time that two calls may take, before it has come as far as its slots go.
const STANDSTILL_MAX: f64 = 60.0;

/// How long it may take to leave before it is killed.
const LEAVE_MAX: Duration = Duration::from_secs(5);

/// Ended when dropped.
pub(crate) struct LoneNode {
    child: Child,
    log: PathBuf,
    address: String,
    /// `None` where a call may take for ever.
    patience: Option<Duration>,
}

impl LoneNode {
    /// Starts the node of `config`, which stands in the file `path`. It writes its log beside that.
    pub(crate) fn start(path: &Path, config: &NodeConfig) -> Result<LoneNode, CliError> {
        let failed =
            |error: std::io::Error| CliError::failed(format!("no node can be started: {error}"));
        let log = path.with_extension("log");
        let said = File::create(&log).map_err(failed)?;
        let child = this_program::command()
            .map_err(failed)?
            .args(["node", "run", "--keep-inside", "--config"])
            .arg(path)
            .args(["--log", "warn", "--supervised-by"])
            .arg(std::process::id().to_string())
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said)
            .spawn()
            .map_err(failed)?;
        Ok(LoneNode {
            child,
            log,
            address: config.listen.to_string(),
            patience: Duration::try_from_secs_f64(STANDSTILL_MAX + 2.0 * config.call_timeout).ok(),
        })
    }

    /// Waits until it has executed all up to `slot` and takes calls.
    pub(crate) fn wait_until_executed(
        &mut self,
        slot: Slot,
        access: &GroupAccess,
    ) -> Result<(), CliError> {
        let (mut executed, mut risen) = (0, Instant::now());
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                let how = format!("the node that executes it ended with {status}");
                return Err(self.failure(&how));
            }
            if let Some(status) = self.status(access) {
                let is_ready = status.is_serving && status.is_host_up && status.leader.is_some();
                if is_ready && status.executed >= slot.0 {
                    return Ok(());
                }
                if status.executed > executed {
                    (executed, risen) = (status.executed, Instant::now());
                }
            }
            if self
                .patience
                .is_some_and(|patience| risen.elapsed() >= patience)
            {
                let how = format!("the objects stand still after slot {executed}");
                return Err(self.failure(&how));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn status(&self, access: &GroupAccess) -> Option<NodeStatus> {
        let report = node_status(&self.address, GroupId::FIRST, ANSWER_MAX, access.tls()).ok()?;
        serde_json::from_slice(&report.status).ok()
    }

    /// What it said last says why.
    fn failure(&self, how: &str) -> CliError {
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        let last = said.lines().rev().find(|line| !line.trim().is_empty());
        let last = last.map_or("nothing", |line| {
            line.strip_prefix("quorate: ").unwrap_or(line)
        });
        CliError::failed(format!("{how}; it said last: {last}; nothing was made"))
            .advise("do what it says, with the classes and the code that the group ran with")
    }
}

impl Drop for LoneNode {
    fn drop(&mut self) {
        // It may have ended by itself: then there is nobody to ask.
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let end = Instant::now() + LEAVE_MAX;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(LOOK_EVERY);
        }
        let ended = self.child.kill().and_then(|()| self.child.wait());
        if let Err(error) = ended {
            eprintln!("quorate: a node of this command still runs: {error}");
        }
    }
}
