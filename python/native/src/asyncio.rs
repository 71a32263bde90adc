//! The end of an event loop at the clients: one descriptor that the loop watches, one wake for many answers.
//!
//! Calls that a turn of the loop begins are sent together at its end. Answers wait in a list; the thread that adds the first one wakes
//! the loop, which reads them all and resolves their futures under one hold of the interpreter.

use crate::at_word::AtWord;
use crate::entrance;
use crate::failures::{answer, connect_error};
use crate::method::NativeMethod;
use pyo3::exceptions::{PyStopAsyncIteration, PyStopIteration};
use pyo3::intern;
use pyo3::prelude::*;
use quorate_client::{AnswerReader, CallCause, CallEnd, Client, ConnectError};
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One event loop's end.
#[pyclass(frozen, weakref)]
pub(crate) struct LoopEnd {
    inbox: Arc<Inbox>,
    /// Clients whose calls wait to be sent.
    unsent: Mutex<Vec<Arc<Client>>>,
    /// `send` runs in the loop's next turn.
    sends_soon: AtomicBool,
}

/// What has ended and the loop has not heard. Bounded by the futures that exist.
struct Inbox {
    bell: OwnedFd,
    /// `None` once the loop is closed.
    letters: Mutex<Option<Vec<Letter>>>,
}

struct Letter {
    future: Py<PyAny>,
    content: Content,
}

enum Content {
    Ended(CallEnd, Py<NativeMethod>, Option<Box<AtWord>>),
    Opened(Result<(), ConnectError>),
}

#[pymethods]
impl LoopEnd {
    #[new]
    fn new() -> PyResult<LoopEnd> {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
        let bell = bell.map_err(std::io::Error::from)?;
        let letters = Mutex::new(Some(Vec::new()));
        Ok(LoopEnd {
            inbox: Arc::new(Inbox { bell, letters }),
            unsent: Mutex::default(),
            sends_soon: AtomicBool::new(false),
        })
    }

    /// The descriptor that the loop watches.
    fn fileno(&self) -> RawFd {
        self.inbox.bell.as_raw_fd()
    }

    /// Sends what this turn of the loop has begun.
    fn send(&self, py: Python<'_>) {
        self.sends_soon.store(false, Ordering::Release);
        let unsent = std::mem::take(&mut *lock(&self.unsent));
        py.detach(|| {
            for client in unsent {
                client.flush(AnswerReader::Background);
            }
        });
    }

    /// The loop is closed: nobody hears what ends. The futures hold the loop, so they are let go.
    fn close(&self) {
        let unheard = lock(&self.inbox.letters).take();
        drop(unheard);
    }

    /// Resolves the futures of everything that has ended.
    fn receive(&self, py: Python<'_>) {
        let mut count = [0; 8];
        // The bell may have been answered before: then there is nothing to read, and perhaps nothing in the inbox.
        rustix::io::read(&self.inbox.bell, &mut count).ok();
        // Taken out before any is read: that runs Python, and whoever adds one meanwhile holds the connection.
        let letters = lock(&self.inbox.letters).as_mut().map(std::mem::take);
        for letter in letters.into_iter().flatten() {
            entrance::without_signals(py, || letter.deliver(py, self));
        }
    }
}

impl LoopEnd {
    /// What a client calls with the end of the call behind `future`.
    pub(crate) fn ended(
        &self,
        future: Py<PyAny>,
        method: Py<NativeMethod>,
        at_word: Option<Box<AtWord>>,
    ) -> impl FnOnce(CallEnd) + Send + 'static {
        let inbox = Arc::clone(&self.inbox);
        move |ended| {
            let content = Content::Ended(ended, method, at_word);
            inbox.add(Letter { future, content });
        }
    }

    /// What a client calls when it is connected, or cannot be.
    pub(crate) fn opened(
        &self,
        future: Py<PyAny>,
    ) -> impl FnOnce(Result<(), ConnectError>) + Send + 'static {
        let inbox = Arc::clone(&self.inbox);
        move |opened| {
            let content = Content::Opened(opened);
            inbox.add(Letter { future, content });
        }
    }

    /// Has what `client` was given sent in the loop's next turn.
    pub(crate) fn send_soon(
        slf: &Bound<'_, Self>,
        running: &Bound<'_, PyAny>,
        client: Arc<Client>,
    ) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        {
            let mut unsent = lock(&this.unsent);
            if !unsent.last().is_some_and(|last| Arc::ptr_eq(last, &client)) {
                unsent.push(client);
            }
        }
        if !this.sends_soon.swap(true, Ordering::AcqRel) {
            let send = slf.getattr(intern!(py, "send"))?;
            running.call_method1(intern!(py, "call_soon"), (send,))?;
        }
        Ok(())
    }
}

impl Inbox {
    fn add(&self, letter: Letter) {
        let is_first = {
            let mut letters = lock(&self.letters);
            let Some(letters) = letters.as_mut() else {
                return;
            };
            letters.push(letter);
            letters.len() == 1
        };
        if is_first {
            // The bell takes 2^64 rings.
            rustix::io::write(&self.bell, &1_u64.to_ne_bytes()).ok();
        }
    }
}

impl Content {
    /// Whether a call ended because this side closed the connection.
    fn is_closed(&self) -> bool {
        match self {
            Content::Ended(Err(error), ..) => error.cause() == CallCause::ClientClosed,
            Content::Ended(Ok(_), ..) | Content::Opened(_) => false,
        }
    }
}

impl Letter {
    fn deliver(self, py: Python<'_>, end: &LoopEnd) -> PyResult<()> {
        let future = self.future.bind(py);
        if future.call_method0(intern!(py, "done"))?.is_truthy()? {
            return Ok(());
        }
        let is_closed = self.content.is_closed();
        let result = match self.content {
            Content::Opened(opened) => opened
                .map(|()| py.None().into_bound(py))
                .map_err(|error| connect_error(py, &error)),
            Content::Ended(ended, method, at_word) => {
                let answered = answer(py, ended);
                if let (Err(error), Some(word)) = (&answered, at_word)
                    && word.is_taken_back(py, error)?
                {
                    let told = end.ended(self.future, method, None);
                    word.client.begin_told(word.call(), word.options, told);
                    py.detach(|| word.client.flush(AnswerReader::Background));
                    return Ok(());
                }
                let settled = NativeMethod::settle(method.bind(py), answered);
                if let Err(error) = &settled
                    && method.get().is_explained_later(py, future, error)?
                {
                    return Ok(());
                }
                settled
            }
        };
        match result {
            Ok(value) => future.call_method1(intern!(py, "set_result"), (value,))?,
            Err(error) => future.call_method1(intern!(py, "set_exception"), (fit(py, error),))?,
        };
        if is_closed {
            // Who closes the connection need not be told that its calls have ended.
            future.setattr(intern!(py, "_log_traceback"), false)?;
        }
        Ok(())
    }
}

/// No future of asyncio takes StopIteration: a coroutine raises the other one.
fn fit(py: Python<'_>, error: PyErr) -> Bound<'_, PyAny> {
    let error = error.into_value(py).into_bound(py);
    if !error.is_instance_of::<PyStopIteration>() {
        return error.into_any();
    }
    let value = error.getattr("value").ok().map(Bound::unbind);
    let other = PyStopAsyncIteration::new_err((value,));
    other.into_value(py).into_bound(py).into_any()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
