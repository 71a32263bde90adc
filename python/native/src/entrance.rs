//! How threads without the interpreter come to run Python: callbacks of futures, and the log. Not after the interpreter has begun
//! to end: a thread that asked for it then would never come back.

use crate::pending::NativeFuture;
use pyo3::exceptions::{PyKeyboardInterrupt, PySystemExit};
use pyo3::prelude::*;
use quorate_client::ClientNote;
use std::ffi::c_ulong;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long the end of the interpreter waits for a callback that runs: so long until it is interrupted, and so long after that.
const LEAVE_MAX: Duration = Duration::from_secs(1);

struct Inside {
    /// As Python names them. A thread stands here again for each callback that runs in one of its callbacks.
    threads: Vec<c_ulong>,
    is_closed: bool,
}

static INSIDE: Mutex<Inside> = Mutex::new(Inside {
    threads: Vec::new(),
    is_closed: false,
});
static LEFT: Condvar = Condvar::new();

/// Futures with callbacks that have ended. Bounded by the futures that exist.
static ENDED: Mutex<Vec<Py<NativeFuture>>> = Mutex::new(Vec::new());
static HAS_ENDED: AtomicBool = AtomicBool::new(false);

/// A future with callbacks has ended; they run once the thread that read the answer holds no lock.
pub(crate) fn add_ended(future: Py<NativeFuture>) {
    lock(&ENDED).push(future);
    HAS_ENDED.store(true, Ordering::Release);
}

/// Runs the callbacks of the futures that have ended, under one hold of the interpreter.
pub(crate) fn run_callbacks() {
    if !HAS_ENDED.swap(false, Ordering::AcqRel) {
        return;
    }
    enter(|py| {
        // Taken out before any runs: a callback may call, and what it waits for may end futures with callbacks.
        let ended = std::mem::take(&mut *lock(&ENDED));
        for future in ended {
            // The interpreter ends as soon as the one that runs is over.
            if lock(&INSIDE).is_closed {
                return;
            }
            NativeFuture::call_back(future.bind(py));
        }
    });
}

/// Tells Python's log what happened to a connection.
pub(crate) fn log(notes: &[ClientNote]) {
    enter(|py| {
        for note in notes {
            without_signals(py, || log_note(py, note));
        }
    });
}

fn log_note(py: Python<'_>, note: &ClientNote) -> PyResult<()> {
    let level = match note {
        ClientNote::Connected { .. } => "info",
        ClientNote::Lost { .. } | ClientNote::Unreached { .. } | ClientNote::NotKept { .. } => {
            "warning"
        }
        ClientNote::Left { .. } => "debug",
    };
    let logger = py.import("quorate._log")?.getattr("logger")?;
    logger
        .call_method1(level, ("%s", note.to_string()))
        .map(drop)
}

/// Runs Python of which nobody hears what it raises. In the main thread a signal may have come that raises KeyboardInterrupt in
/// whatever runs next: that is not to be this, and is not lost. The main thread gets it again when it goes on.
pub(crate) fn without_signals(py: Python<'_>, run: impl FnOnce() -> PyResult<()>) {
    let raised = [py.check_signals().err(), run().err()];
    for error in raised.into_iter().flatten() {
        if error.is_instance_of::<PyKeyboardInterrupt>(py) {
            // SAFETY: the interpreter is held.
            unsafe { pyo3::ffi::PyErr_SetInterrupt() };
        } else {
            error.write_unraisable(py, None);
        }
    }
}

/// The interpreter ends: no thread of a client asks for it any more. A callback that goes on is interrupted: what still ran when the
/// interpreter is gone would take the process with it.
#[pyfunction]
pub(crate) fn leave(py: Python<'_>) {
    lock(&INSIDE).is_closed = true;
    if py.detach(is_left) {
        return;
    }
    let inside = lock(&INSIDE).threads.clone();
    for thread in inside {
        let raised = py.get_type::<PySystemExit>();
        // SAFETY: the interpreter is held. A thread that has come out meanwhile is one of no interpreter, and not found. The number
        // is passed as Python passes it.
        unsafe { pyo3::ffi::PyThreadState_SetAsyncExc(thread as _, raised.as_ptr()) };
    }
    py.detach(is_left);
}

/// Whether no thread is inside, within the time that each has.
fn is_left() -> bool {
    let (inside, _) = LEFT
        .wait_timeout_while(lock(&INSIDE), LEAVE_MAX, |inside| {
            !inside.threads.is_empty()
        })
        .unwrap_or_else(PoisonError::into_inner);
    inside.threads.is_empty()
}

/// This process was forked off: the threads that were inside are its parent's, and so are the callbacks that wait.
pub(crate) fn after_fork() {
    // A lock that another thread held at the fork is held for ever.
    if let Ok(mut inside) = INSIDE.try_lock() {
        inside.threads.clear();
    }
    let waiting = ENDED
        .try_lock()
        .map(|mut ended| std::mem::take(&mut *ended));
    drop(waiting);
}

fn enter(run: impl FnOnce(Python<'_>)) {
    // SAFETY: it needs no interpreter.
    let own = unsafe { pyo3::ffi::PyThread_get_thread_ident() };
    {
        let mut inside = lock(&INSIDE);
        if inside.is_closed {
            return;
        }
        inside.threads.push(own);
    }
    // `None` when the interpreter ends after all.
    let _ = Python::try_attach(run);
    let mut inside = lock(&INSIDE);
    // A callback that forks comes out in both processes, and is counted in one.
    if let Some(place) = inside.threads.iter().rposition(|thread| *thread == own) {
        inside.threads.swap_remove(place);
    }
    drop(inside);
    LEFT.notify_all();
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
