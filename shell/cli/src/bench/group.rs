//! A group of this machine for one run: started by `quorate up`, ended with the run.

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a group may take to end after it was asked to.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

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
    pub(super) fn start(words: &[String], path: &Path) -> Result<LocalGroup, String> {
        let exe = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut child = Command::new(exe)
            .args(words)
            .current_dir(path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start a group in {}: {error}", path.display()))?;
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
            None => return Err("the group did not become ready (see above)".to_string()),
        }
        Ok(group)
    }
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
