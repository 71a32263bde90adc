//! The one background thread of a process's clients: it watches the connections that no caller watches, keeps their timers, and
//! sends what was begun and is awaited by nobody.
//!
//! It begins with the first client. It knows connections by token and decides nothing about them.

use crate::driver::boot_time;
use crate::driving::SharedDriver;
use crate::era::Era;
use crate::limits::EVENTS_MAX;
use mio::{Events, Poll, Registry, Token, Waker};
use quorate_types::Time;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::ThreadId;
use std::time::Duration;

const WAKE: Token = Token(0);

pub(crate) struct Poller {
    registry: Registry,
    waker: Waker,
    thread: ThreadId,
    members: Mutex<Members>,
    /// Until when the thread sleeps; zero while it is awake and will look for itself.
    sleeps_until: AtomicU64,
}

#[derive(Default)]
struct Members {
    last: usize,
    by_token: BTreeMap<Token, Weak<SharedDriver>>,
}

impl Poller {
    /// The poller of this process, started if there is none.
    pub(crate) fn current() -> io::Result<&'static Poller> {
        let current = Era::current();
        let _one = current
            .starting
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(poller) = current.poller.get() {
            return Ok(poller);
        }
        let poll = Poll::new()?;
        let (registry, waker) = (
            poll.registry().try_clone()?,
            Waker::new(poll.registry(), WAKE)?,
        );
        let (give, given) = std::sync::mpsc::sync_channel::<&'static Poller>(1);
        let thread = std::thread::Builder::new()
            .name("quorate-client".into())
            .spawn(move || {
                if let Ok(poller) = given.recv() {
                    poller.run(poll);
                }
            })?;
        let poller = current.poller.get_or_init(|| Poller {
            registry,
            waker,
            thread: thread.thread().id(),
            members: Mutex::default(),
            sleeps_until: AtomicU64::new(0),
        });
        // The thread waits for it.
        give.send(poller).ok();
        Ok(poller)
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Adds what `make` makes of the next token.
    pub(crate) fn add(
        &self,
        make: impl FnOnce(Token) -> io::Result<Arc<SharedDriver>>,
    ) -> io::Result<Arc<SharedDriver>> {
        let token = {
            let mut members = self.members();
            members.last += 1;
            Token(members.last)
        };
        let shared = make(token)?;
        self.members()
            .by_token
            .insert(token, Arc::downgrade(&shared));
        Ok(shared)
    }

    pub(crate) fn remove(&self, token: Token) {
        self.members().by_token.remove(&token);
    }

    /// Whether the calling thread is the poller's: nobody else watches for it meanwhile.
    pub(crate) fn is_own_thread(&self) -> bool {
        std::thread::current().id() == self.thread
    }

    /// Something is due at `time`: wakes the thread if it would sleep longer.
    pub(crate) fn expect(&self, time: u64) {
        if time < self.sleeps_until.load(Ordering::SeqCst) {
            self.sleeps_until.store(0, Ordering::SeqCst);
            // A waker fails only when its poll is gone, which lives as long as the process.
            drop(self.waker.wake());
        }
    }

    fn members(&self) -> std::sync::MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut poll: Poll) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut due = Vec::new();
        loop {
            let sleep = self.fall_asleep();
            // An interrupted wait is a turn without events.
            drop(poll.poll(&mut events, sleep));
            self.sleeps_until.store(0, Ordering::SeqCst);
            for event in events.iter().filter(|event| event.token() != WAKE) {
                let member = self.members().by_token.get(&event.token()).cloned();
                if let Some(shared) = member.and_then(|member| member.upgrade()) {
                    shared.on_event(event);
                }
            }
            let now = boot_time();
            due.extend(
                self.members()
                    .by_token
                    .values()
                    .filter_map(Weak::upgrade)
                    .filter(|shared| shared.due() <= now.0),
            );
            for shared in due.drain(..) {
                shared.visit(now);
            }
        }
    }

    /// Says until when the thread sleeps. Whoever has something due earlier wakes it from here on.
    fn fall_asleep(&self) -> Option<Duration> {
        loop {
            let first = self.first_due();
            self.sleeps_until.store(first, Ordering::SeqCst);
            if self.first_due() >= first {
                let now = boot_time();
                let span = Time(first).since(now);
                return (first != u64::MAX).then(|| Duration::from_nanos(span.0));
            }
        }
    }

    fn first_due(&self) -> u64 {
        let members = self.members();
        let due = members.by_token.values().filter_map(Weak::upgrade);
        due.map(|shared| shared.due()).min().unwrap_or(u64::MAX)
    }
}
