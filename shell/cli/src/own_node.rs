//! The process of the node that `quorate node join` runs, and what becomes of both when somebody asks the command to end.
//!
//! Before the node has joined, its process ends first, and the command says that it goes on when it is said again. Afterwards the node is
//! asked to end, and the command ends as the node does.

use crate::error::{CliError, code};
use crate::this_program;
use quorate_types::Levels;
use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The process, once it runs.
pub(crate) struct OwnNode {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    process: Option<Child>,
    has_joined: bool,
}

impl OwnNode {
    /// One that does not run yet. From here on, signals end the command as this says.
    pub(crate) fn new(as_json: bool) -> Result<OwnNode, CliError> {
        let failed =
            |error: io::Error| CliError::failed(format!("cannot take over signals: {error}"));
        let state = Arc::new(Mutex::new(State::default()));
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
        let watched = state.clone();
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                for _ in signals.forever() {
                    asked_to_end(&mut locked(&watched), as_json);
                }
            })
            .map_err(failed)?;
        Ok(OwnNode { state })
    }

    /// Starts it.
    pub(crate) fn start(
        &self,
        config: &Path,
        insecure: bool,
        speaks: Option<Levels>,
    ) -> Result<(), CliError> {
        let cannot =
            |error: io::Error| CliError::failed(format!("the node cannot be started: {error}"));
        let mut command = this_program::command().map_err(cannot)?;
        command.args(["node", "run", "--config"]).arg(config);
        command
            .arg("--supervised-by")
            .arg(std::process::id().to_string());
        if insecure {
            command.arg("--insecure");
        }
        if let Some(levels) = speaks {
            command.args(["--speaks", &levels.newest().to_string()]);
        }
        let mut state = locked(&self.state);
        state.process = Some(command.stdin(Stdio::null()).spawn().map_err(cannot)?);
        Ok(())
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&self) -> bool {
        let mut state = locked(&self.state);
        let process = state.process.as_mut();
        process.is_some_and(|process| matches!(process.try_wait(), Ok(Some(_))))
    }

    /// It has joined: signals are for the node from here on.
    pub(crate) fn has_joined(&self) {
        locked(&self.state).has_joined = true;
    }

    /// Ends it: it may go on with the next try.
    pub(crate) fn kill(&self) {
        let process = locked(&self.state).process.take();
        if let Some(mut process) = process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Waits until it has ended.
    pub(crate) fn wait(&self) -> io::Result<ExitStatus> {
        let pid = locked(&self.state).process.as_ref().and_then(pid_of);
        if let Some(pid) = pid {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            // Without the lock, for signals are passed on meanwhile. If this fails, the wait below reports it.
            let _ = retry_on_intr(|| waitid(WaitId::Pid(pid), options));
        }
        let mut process = locked(&self.state).process.take();
        let process = process.as_mut().expect("it was started");
        process.wait()
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pid_of(process: &Child) -> Option<Pid> {
    Pid::from_raw(process.id().cast_signed())
}

/// A signal has come. Returns only if the node has joined: before that, nothing of the command goes on while its process ends.
fn asked_to_end(state: &mut State, as_json: bool) {
    if let Some(process) = &mut state.process
        && matches!(process.try_wait(), Ok(None))
        && let Some(pid) = pid_of(process)
    {
        // It cannot be gone: nobody but its owner, who holds the lock, takes its exit code.
        let _ = kill_process(pid, Signal::TERM);
    }
    if state.has_joined {
        return;
    }
    if let Some(mut process) = state.process.take() {
        let _ = process.wait();
    }
    let ended = CliError::with_code(code::OUTCOME_UNKNOWN, "ended before the node had joined")
        .advise("say the same command again: it goes on where this one ended");
    crate::tell(&ended, as_json);
    std::process::exit(ended.code.into());
}
