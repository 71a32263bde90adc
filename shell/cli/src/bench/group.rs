//! A group of this machine for one run: started by `quorate up`, ended with the run.

use crate::error::{CliError, ToldError};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long a group may take to end after it was asked to.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the reason may take that a group gave which has ended.
const REASON_TIMEOUT: Duration = Duration::from_secs(2);

/// What `quorate up -o json` prints when the group is ready.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct GroupReady {
    pub(super) endpoint: String,
    pub(super) nodes: Vec<ReadyNode>,
}

/// One node of it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct ReadyNode {
    pub(super) pid: u32,
}

/// A running group; asked to end when dropped.
pub(super) struct LocalGroup {
    child: Child,
    pub(super) ready: GroupReady,
}

impl LocalGroup {
    /// Starts `quorate` with these words, where the object's module is, and waits for its ready line.
    pub(super) fn start(words: &[String], path: &Path) -> Result<LocalGroup, CliError> {
        let exe = std::env::current_exe().map_err(|error| CliError::failed(error.to_string()))?;
        let mut child = Command::new(exe)
            .args(words)
            .current_dir(path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| {
                CliError::usage(format!(
                    "cannot start a group in {}: {error}",
                    path.display()
                ))
            })?;
        let reason = child.stderr.take().map(pass_on);
        let stdout = child.stdout.take().expect("the output is piped");
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line);
        let ready = read.ok().and_then(|_| serde_json::from_str(&line).ok());
        let mut group = LocalGroup {
            child,
            ready: GroupReady {
                endpoint: String::new(),
                nodes: Vec::new(),
            },
        };
        match ready {
            Some(ready) => group.ready = ready,
            None => {
                let told = reason.and_then(|reason| reason.recv_timeout(REASON_TIMEOUT).ok());
                let unsaid = || CliError::failed("the group did not become ready (see above)");
                return Err(told.map_or_else(unsaid, CliError::told));
            }
        }
        Ok(group)
    }
}

/// Passes on what a group says, line by line, and gives the error with which it ends to whoever started it.
fn pass_on(stderr: ChildStderr) -> Receiver<ToldError> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            match serde_json::from_str(&line) {
                // Who started the group may have ended.
                Ok(told) => drop(sender.send(told)),
                Err(_) => eprintln!("{line}"),
            }
        }
    });
    receiver
}

impl Drop for LocalGroup {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            // It may have ended by itself: then there is nobody to ask.
            kill_process(pid, Signal::TERM).ok();
        }
        let end = Instant::now() + STOP_TIMEOUT;
        while Instant::now() < end {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(10)),
                Ok(Some(_)) | Err(_) => return,
            }
        }
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
