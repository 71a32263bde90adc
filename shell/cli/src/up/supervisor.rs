//! The nodes as processes: started, waited for, started again, ended.

use super::UpArgs;
use super::plan::{Plan, PlannedNode};
use super::rotating_log::RotatingLog;
use crate::error::{CliError, code};
use crate::this_program;
use crate::unfinished::leave_signals;
use quorate_node::NodeConfig;
use quorate_types::Levels;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::BTreeMap;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How long a node that died stays down.
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// How long it stays down at most, after it ended by itself several times: each time twice as long.
const RESTART_AFTER_MAX: Duration = Duration::from_secs(60);

/// How long nodes may take to leave before they are killed.
const LEAVE_MAX: Duration = Duration::from_secs(5);

/// What a supervisor noticed.
pub(super) enum Happening {
    /// It was asked to end.
    Stop,
    /// A node's process ended.
    Died { node: u16, how: String },
    /// A node's process ended, or was not started, because the group goes on without it since this view.
    Removed { node: u16, view: u64 },
    /// A node's process runs again.
    Restarted { node: u16, pid: u32 },
    /// Time passed.
    Nothing,
}

enum Report {
    Signal,
    Exit { node: u16, status: ExitStatus },
}

/// Ends all nodes when dropped.
pub(super) struct Supervisor {
    launches: BTreeMap<u16, Launch>,
    running: BTreeMap<u16, u32>,
    due: BTreeMap<u16, Instant>,
    /// How long a node that ended by itself stays down when it does so again.
    pauses: BTreeMap<u16, Duration>,
    restarts: bool,
    /// What first starts are told about changed code. A node that starts again has code that it pinned itself.
    accepts_code: bool,
    sender: Sender<Report>,
    reports: Receiver<Report>,
    last_exit: Option<ExitStatus>,
    /// Nodes that are not started, because the group goes on without them, and since which view.
    removed: Vec<(u16, u64)>,
}

/// How a node is started.
struct Launch {
    config: PathBuf,
    log: PathBuf,
    filter: String,
    speaks: Option<Levels>,
}

impl Supervisor {
    /// Starts every node of the plan.
    pub(super) fn start(plan: &Plan, args: &UpArgs) -> Result<Supervisor, CliError> {
        let (sender, reports) = channel();
        watch_signals(sender.clone())?;
        let launch = |node: &PlannedNode| Launch {
            config: node.config.clone(),
            log: plan.log(node.id),
            filter: args.log.clone(),
            speaks: args.speaks,
        };
        let mut supervisor = Supervisor {
            launches: plan
                .nodes
                .iter()
                .map(|node| (node.id, launch(node)))
                .collect(),
            running: BTreeMap::new(),
            due: BTreeMap::new(),
            pauses: BTreeMap::new(),
            restarts: !args.no_restart,
            accepts_code: args.accept_code,
            sender,
            reports,
            last_exit: None,
            removed: Vec::new(),
        };
        for node in &plan.nodes {
            match removed_in(&node.config) {
                Some(view) => supervisor.removed.push((node.id, view)),
                None => _ = supervisor.launch(node.id)?,
            }
        }
        supervisor.accepts_code = false;
        Ok(supervisor)
    }

    /// Waits for something to happen, at most `patience`.
    pub(super) fn next(&mut self, patience: Option<Duration>) -> Happening {
        if let Some((node, view)) = self.removed.pop() {
            return Happening::Removed { node, view };
        }
        let now = Instant::now();
        if let Some((&node, _)) = self.due.iter().find(|(_, at)| **at <= now) {
            self.due.remove(&node);
            return match self.launch(node) {
                Ok(pid) => Happening::Restarted { node, pid },
                Err(error) => {
                    self.due.insert(node, now + RESTART_AFTER);
                    let how = error.text;
                    Happening::Died { node, how }
                }
            };
        }
        let until_due = self
            .due
            .values()
            .map(|at| at.saturating_duration_since(now))
            .min();
        let wait = patience.into_iter().chain(until_due).min();
        let report = match wait {
            Some(wait) => self.reports.recv_timeout(wait),
            None => self
                .reports
                .recv()
                .map_err(|_| RecvTimeoutError::Disconnected),
        };
        match report {
            Ok(Report::Signal) => Happening::Stop,
            Ok(Report::Exit { node, status }) => self.exited(node, status),
            Err(RecvTimeoutError::Timeout) => Happening::Nothing,
            Err(RecvTimeoutError::Disconnected) => unreachable!("this end holds a sender"),
        }
    }

    fn exited(&mut self, node: u16, status: ExitStatus) -> Happening {
        self.running.remove(&node);
        self.last_exit = Some(status);
        if status.success()
            && let Some(view) = removed_in(&self.launches[&node].config)
        {
            return Happening::Removed { node, view };
        }
        // A node that holds another decision than a peer refuses every start until somebody has looked.
        if self.restarts && status.code() != Some(i32::from(code::CONFLICT)) {
            let pause = self.pause(node, status);
            self.due.insert(node, Instant::now() + pause);
        }
        let how = match (status.signal(), status.code()) {
            (Some(signal), _) => format!("signal {signal}"),
            (None, Some(code)) => format!("exit code {code}"),
            (None, None) => "no reason that is told".to_owned(),
        };
        Happening::Died { node, how }
    }

    /// A node that was killed comes back soon. One that ended by itself has a reason, which rarely goes away at once.
    fn pause(&mut self, node: u16, status: ExitStatus) -> Duration {
        if status.signal().is_some() {
            self.pauses.remove(&node);
            return RESTART_AFTER;
        }
        let next = self.pauses.entry(node).or_insert(RESTART_AFTER);
        let pause = *next;
        *next = (pause * 2).min(RESTART_AFTER_MAX);
        pause
    }

    /// Why the group could not start: how the node ended, what it said last, and its exit code.
    pub(super) fn failure(&self, plan: &Plan, node: u16, how: &str) -> CliError {
        let said = std::fs::read_to_string(plan.log(node)).unwrap_or_default();
        let last = last_words(&said);
        let code = self.last_exit.and_then(|status| status.code());
        let code = code
            .and_then(|code| u8::try_from(code).ok())
            .filter(|code| *code != 0);
        let text = format!("node {node} did not start, it ended with {how}; it said last: {last}");
        CliError::with_code(code.unwrap_or(code::FAILED), text).advise(format!(
            "do what it says; its log is {}",
            plan.log(node).display()
        ))
    }

    fn launch(&mut self, node: u16) -> Result<u32, CliError> {
        let launch = &self.launches[&node];
        let failed =
            |error: std::io::Error| CliError::failed(format!("cannot start node {node}: {error}"));
        let log = RotatingLog::open(&launch.log).map_err(failed)?;
        let speaks = launch.speaks.map(|levels| levels.newest().to_string());
        let child = this_program::command()
            .map_err(failed)?
            .args(["node", "run", "--config"])
            .arg(&launch.config)
            .args([
                "--log",
                &launch.filter,
                "--supervised-by",
                &std::process::id().to_string(),
            ])
            .arg("--remake")
            .args(self.accepts_code.then_some("--accept-code"))
            .args(speaks.iter().flat_map(|level| ["--speaks", level]))
            // A Ctrl-C at the terminal is this program's to pass on: the group takes a snapshot first.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let pid = child.id();
        self.running.insert(node, pid);
        let sender = self.sender.clone();
        std::thread::Builder::new()
            .name(format!("node-{node}"))
            .spawn(move || wait_for(child, log, node, &sender))
            .map_err(failed)?;
        Ok(pid)
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        for signal in [Signal::TERM, Signal::KILL] {
            for pid in self.running.values() {
                if let Some(pid) = Pid::from_raw(*pid as i32) {
                    // It may have ended by itself: then there is nobody to ask.
                    let _ = kill_process(pid, signal);
                }
            }
            let deadline = Instant::now() + LEAVE_MAX;
            while !self.running.is_empty() {
                let left = deadline.saturating_duration_since(Instant::now());
                match self.reports.recv_timeout(left) {
                    Ok(Report::Exit { node, .. }) => {
                        self.running.remove(&node);
                    }
                    Ok(Report::Signal) => {}
                    Err(_) => break,
                }
            }
        }
    }
}

/// The view since which the node of a configuration is no member. A directory that says so starts no node.
/// The last line of a log; of an error with advice both lines.
fn last_words(log: &str) -> String {
    let mut lines = log.lines().rev().filter(|line| !line.trim().is_empty());
    let error = |line: &str| line.strip_prefix("quorate: ").map(str::to_owned);
    let Some(last) = lines.next() else {
        return "nothing".to_owned();
    };
    let advice = last.strip_prefix("  ");
    match (advice, lines.next().and_then(error)) {
        (Some(advice), Some(why)) => format!("{why}; {}", advice.trim_start()),
        _ => error(last).unwrap_or_else(|| last.to_owned()),
    }
}

fn removed_in(config: &Path) -> Option<u64> {
    NodeConfig::read(config).ok()?.removed_in()
}

/// Nothing that a node starts keeps its standard error open, so the log ends with the node.
fn wait_for(mut child: Child, mut log: RotatingLog, node: u16, sender: &Sender<Report>) {
    if let Some(words) = child.stderr.take() {
        log.copy(words);
    }
    let status = child.wait().unwrap_or_else(|_| ExitStatus::from_raw(0));
    // A supervisor that has ended needs no report.
    let _ = sender.send(Report::Exit { node, status });
}

fn watch_signals(sender: Sender<Report>) -> Result<(), CliError> {
    let failed =
        |error: std::io::Error| CliError::failed(format!("cannot take over signals: {error}"));
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    leave_signals();
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for _ in signals.forever() {
                if sender.send(Report::Signal).is_err() {
                    return;
                }
            }
        })
        .map_err(failed)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_of_an_error_are_why_and_what_to_do() {
        let of = |log: &str| last_words(log);
        let error = "INFO x\nquorate: node 1 is no member\n  remove its directory\n\n";
        assert_eq!(of(error), "node 1 is no member; remove its directory");
        assert_eq!(of("quorate: no room\n"), "no room");
        assert_eq!(of("Traceback\n  line 3\n"), "  line 3");
        assert_eq!(of("\n"), "nothing");
    }
}
