//! The address of a name, asked for on a thread of its own: a name service that does not answer holds up nobody's timeout.
//!
//! Called by the driver, and by questions to one node. Whoever asks for a name that is being looked up waits for that answer: one thread for each name.

use crate::era::Era;
use crate::limits::{LOOKUP_WAITERS_MAX, LOOKUPS_MAX};
use mio::net::UnixStream;
use mio::{Interest, Registry, Token};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Instant;

type Found = Result<SocketAddr, String>;

/// A lookup under way.
pub(crate) struct Resolving {
    /// `host:port`.
    pub(crate) address: String,
    bell: UnixStream,
    copy: Arc<OwnedFd>,
    answer: Receiver<Found>,
}

/// Names that are being looked up by this process, with those who wait.
pub(crate) type Lookups = BTreeMap<String, Vec<Waiter>>;

/// Where an answer goes: the channel carries it, the bell wakes the loop.
pub(crate) struct Waiter {
    answer: Sender<Found>,
    /// `None` for who waits for the channel alone.
    bell: Option<std::os::unix::net::UnixStream>,
}

/// The address of `host:port`, if it is known by `end`.
pub(crate) fn resolve_by(address: &str, end: Instant) -> io::Result<SocketAddr> {
    if let Ok(resolved) = address.parse() {
        return Ok(resolved);
    }
    let (sender, answer) = channel();
    let waiter = Waiter {
        answer: sender,
        bell: None,
    };
    ask(address, waiter)?;
    match answer.recv_timeout(end.saturating_duration_since(Instant::now())) {
        Ok(found) => found.map_err(|error| io::Error::new(ErrorKind::NotFound, error)),
        Err(_) => Err(ErrorKind::TimedOut.into()),
    }
}

impl Resolving {
    /// Asks for `address`; the answer makes `token` readable.
    pub(crate) fn start(address: &str, registry: &Registry, token: Token) -> io::Result<Resolving> {
        let (far, near) = std::os::unix::net::UnixStream::pair()?;
        near.set_nonblocking(true)?;
        let copy = Arc::new(near.as_fd().try_clone_to_owned()?);
        let mut bell = UnixStream::from_std(near);
        registry.register(&mut bell, token, Interest::READABLE)?;
        let (sender, answer) = channel();
        ask(
            address,
            Waiter {
                answer: sender,
                bell: Some(far),
            },
        )?;
        Ok(Resolving {
            address: address.to_string(),
            bell,
            copy,
            answer,
        })
    }

    /// The answer, once it is there.
    pub(crate) fn answer(&self) -> Option<Found> {
        self.answer.try_recv().ok()
    }

    /// A copy of the descriptor that becomes readable with the answer.
    pub(crate) fn copy(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.copy)
    }

    /// Takes the bell out of the loop.
    pub(crate) fn leave(&mut self, registry: &Registry) {
        // A bell that is registered no longer has nothing to deregister.
        drop(registry.deregister(&mut self.bell));
    }
}

fn ask(address: &str, waiter: Waiter) -> io::Result<()> {
    let era = Era::current();
    let mut lookups = lookups_of(era);
    if let Some(waiting) = lookups.get_mut(address) {
        if waiting.len() >= LOOKUP_WAITERS_MAX {
            // The oldest of them has given up long ago.
            waiting.remove(0);
        }
        waiting.push(waiter);
        return Ok(());
    }
    if lookups.len() >= LOOKUPS_MAX {
        let why = format!("{LOOKUPS_MAX} other names are being looked up");
        return Err(io::Error::new(ErrorKind::WouldBlock, why));
    }
    let name = address.to_string();
    std::thread::Builder::new()
        .name("quorate-resolve".into())
        .spawn(move || look_up(&name, era))?;
    lookups.insert(address.to_string(), vec![waiter]);
    Ok(())
}

fn lookups_of(era: &'static Era) -> MutexGuard<'static, Lookups> {
    era.lookups.lock().unwrap_or_else(PoisonError::into_inner)
}

fn look_up(name: &str, era: &'static Era) {
    let found = match name.to_socket_addrs() {
        Ok(mut found) => found
            .next()
            .ok_or_else(|| "the name has no address".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    let waiting = lookups_of(era).remove(name).unwrap_or_default();
    for mut waiter in waiting {
        // Who gave up has dropped both ends.
        drop(waiter.answer.send(found.clone()));
        drop(waiter.bell.as_mut().map(|bell| bell.write_all(&[1])));
    }
}
