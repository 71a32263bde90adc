//! What a command has made and not finished: removed also where a signal ends the command.
//!
//! Called by the commands that make files which count for nothing before they are whole, or that only a while are needed. A process
//! that is killed leaves them.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// Tries to remove a directory: what the command, or a node of it, makes meanwhile may be in the way.
const TRIES: usize = 5;

/// By number, in the order in which they were noted.
static MADE: Mutex<BTreeMap<u64, PathBuf>> = Mutex::new(BTreeMap::new());
static WATCHED: Once = Once::new();
static HANDLED: AtomicBool = AtomicBool::new(false);

/// Something that goes if a signal ends the command while this lives. Whether it stays then, its maker says.
pub(crate) struct Unfinished(u64);

impl Unfinished {
    /// Notes a file or directory that is made here.
    pub(crate) fn note(path: &Path) -> Unfinished {
        WATCHED.call_once(watch);
        let mut made = made();
        let number = made.last_key_value().map_or(0, |(last, _)| last + 1);
        made.insert(number, path.to_owned());
        Unfinished(number)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        made().remove(&self.0);
    }
}

/// The command handles signals itself from here on: none ends it, and nothing is removed for it here.
pub(crate) fn leave_signals() {
    HANDLED.store(true, Ordering::SeqCst);
}

fn made() -> MutexGuard<'static, BTreeMap<u64, PathBuf>> {
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where signals cannot be watched, they end the command as ever.
fn watch() {
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else {
        return;
    };
    let spawned = std::thread::Builder::new().name("signals".to_owned());
    let spawned = spawned.spawn(move || {
        let is_ours = |_: &i32| !HANDLED.load(Ordering::SeqCst);
        if let Some(signal) = signals.forever().next().filter(is_ours) {
            // Nothing is finished from here on: its maker waits for the lock.
            let made = made();
            made.values().for_each(|path| remove(path));
            let _ = emulate_default_handler(signal);
        }
    });
    if let Err(error) = spawned {
        eprintln!("quorate: a signal leaves unfinished files: {error}");
    }
}

fn remove(path: &Path) {
    for _ in 0..TRIES {
        let removed = match path.is_dir() {
            true => std::fs::remove_dir_all(path),
            false => std::fs::remove_file(path),
        };
        if removed.is_ok() || path.symlink_metadata().is_err() {
            return;
        }
    }
    eprintln!("quorate: {} cannot be removed", path.display());
}
