//! The worker of a node that leads: a process of its own, which does outside of the objects what they ask for.
//!
//! It is a client of the group, and ends when its standard input does. The objects' host never runs what it runs.

use crate::NodeConfig;
use crate::limits::{WORKER_LOOKS, WORKER_REST};
use quorate_host::interpreter;
use quorate_types::Time;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Started when it is wanted first.
pub(crate) struct OutsideWorker {
    interpreter: PathBuf,
    /// It is never started.
    is_forbidden: bool,
    /// What it reads first: where the group is, and where modules are.
    task: String,
    child: Option<Child>,
    begun_at: Option<Time>,
    looked_at: Time,
}

impl OutsideWorker {
    pub(crate) fn new(config: &NodeConfig) -> OutsideWorker {
        let tls = config.tls.as_ref();
        let task = serde_json::json!({
            "endpoint": endpoint(config),
            "paths": config.host_config().python.paths,
            "tls": tls.map(|tls| [&tls.ca, &tls.cert, &tls.key]),
        });
        OutsideWorker {
            interpreter: interpreter(config.python.as_deref()),
            is_forbidden: config.keeps_inside,
            task: format!("{task}\n"),
            child: None,
            begun_at: None,
            looked_at: Time(0),
        }
    }

    /// Has it run exactly while it is wanted, apart from the time that it takes to begin and to end.
    pub(crate) fn look_after(&mut self, is_wanted: bool, now: Time) {
        let is_wanted = is_wanted && !self.is_forbidden;
        let is_idle = !is_wanted && self.child.is_none();
        if is_idle || now.since(self.looked_at) < WORKER_LOOKS {
            return;
        }
        self.looked_at = now;
        if let Some(child) = &mut self.child {
            if !is_wanted {
                // It takes leave, so that what it had taken is another's at once.
                drop(child.stdin.take());
            } else if child.stdin.is_none() {
                self.end();
            }
        }
        if let Some(Ok(Some(status))) = self.child.as_mut().map(Child::try_wait) {
            tracing::info!(%status, "the worker ended");
            self.child = None;
        }
        let rests = self
            .begun_at
            .is_some_and(|begun| now.since(begun) < WORKER_REST);
        if is_wanted && self.child.is_none() && !rests {
            self.begun_at = Some(now);
            match self.start() {
                Ok(child) => self.child = Some(child),
                Err(error) => {
                    tracing::warn!(%error, "the worker cannot be started: nothing is done outside");
                }
            }
        }
    }

    fn start(&self) -> io::Result<Child> {
        let mut child = Command::new(&self.interpreter)
            .args(["-P", "-m", "quorate._worker"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()?;
        tracing::info!(
            process = child.id(),
            "a worker does what objects ask for outside"
        );
        if let Some(stdin) = &mut child.stdin {
            // It fits a pipe that nobody has read yet.
            stdin.write_all(self.task.as_bytes())?;
        }
        Ok(child)
    }

    fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            let ended = child.kill().and_then(|()| child.wait());
            if let Err(error) = ended {
                tracing::warn!(%error, "the worker cannot be ended");
            }
        }
    }
}

impl Drop for OutsideWorker {
    fn drop(&mut self) {
        self.end();
    }
}

/// The group, by this node.
fn endpoint(config: &NodeConfig) -> String {
    let address = own_address(config);
    match &config.name {
        Some(group) => format!("quorate://{group}@{address}"),
        None => format!("quorate://{address}"),
    }
}

fn own_address(config: &NodeConfig) -> &str {
    config.own_member().map_or("", |member| &member.address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_started_where_nothing_may_be_done_outside() {
        let wanted = |is_forbidden| {
            let mut worker = OutsideWorker {
                interpreter: PathBuf::from("true"),
                is_forbidden,
                task: String::new(),
                child: None,
                begun_at: None,
                looked_at: Time(0),
            };
            worker.look_after(true, Time(0) + WORKER_LOOKS);
            worker.child.is_some()
        };
        assert!(wanted(false) && !wanted(true));
    }
}
