//! Where the end of one operation is awaited. It is filled once, by whichever thread read the answer.

use crate::{Answer, CallError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How an operation ended.
pub type CallEnd = Result<Answer, CallError>;

type Listener = Box<dyn FnOnce() + Send>;

/// The end of one operation, once it is there.
#[derive(Default)]
pub struct CallCell {
    is_filled: AtomicBool,
    state: Mutex<State>,
    filled: Condvar,
}

#[derive(Default)]
struct State {
    ended: Option<CallEnd>,
    waiters: usize,
    listener: Option<Listener>,
}

impl CallCell {
    /// Whether the operation has ended.
    #[must_use]
    pub fn is_filled(&self) -> bool {
        self.is_filled.load(Ordering::Acquire)
    }

    /// The end; only the first caller gets it.
    pub fn take(&self) -> Option<CallEnd> {
        self.state().ended.take()
    }

    /// Has `listener` called once, after the operation has ended, by the thread that read the answer. False, and nothing is
    /// called, if it has ended already.
    pub fn listen(&self, listener: impl FnOnce() + Send + 'static) -> bool {
        let mut state = self.state();
        let is_open = !self.is_filled();
        if is_open {
            state.listener = Some(Box::new(listener));
        }
        is_open
    }

    pub(crate) fn fill(&self, ended: CallEnd) {
        let mut state = self.state();
        state.ended = Some(ended);
        self.is_filled.store(true, Ordering::Release);
        let listener = state.listener.take();
        if state.waiters > 0 {
            self.filled.notify_all();
        }
        drop(state);
        if let Some(listener) = listener {
            listener();
        }
    }

    /// Waits for another thread to fill it, at most until `until`.
    pub(crate) fn wait(&self, until: Instant) {
        let mut state = self.state();
        state.waiters += 1;
        let left = until.saturating_duration_since(Instant::now());
        let (mut state, _) = self
            .filled
            .wait_timeout_while(state, left.max(Duration::from_micros(1)), |_| {
                !self.is_filled()
            })
            .unwrap_or_else(PoisonError::into_inner);
        state.waiters -= 1;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
