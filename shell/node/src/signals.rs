//! SIGTERM and SIGINT as readiness of a socket, so that the loop has one place to wait.

use mio::net::UnixStream;
use mio::{Interest, Registry, Token};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{self, Read};

/// The receiving end of the process's signals.
pub(crate) struct Signals {
    socket: UnixStream,
}

impl Signals {
    /// Takes both signals over for the rest of the process's life.
    pub(crate) fn take() -> io::Result<Signals> {
        let (socket, sender) = std::os::unix::net::UnixStream::pair()?;
        for signal in [SIGTERM, SIGINT] {
            signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
        }
        socket.set_nonblocking(true)?;
        Ok(Signals {
            socket: UnixStream::from_std(socket),
        })
    }

    pub(crate) fn watch(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut self.socket, token, Interest::READABLE)
    }

    /// Forgets what was signalled so far.
    pub(crate) fn clear(&mut self) {
        let mut bytes = [0; 64];
        while self.socket.read(&mut bytes).is_ok_and(|count| count > 0) {}
    }
}
