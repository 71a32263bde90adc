//! The byte stream of one connection: plain TCP, or TLS over it. Knows no frames.

use mio::event::Source;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use std::io::{self, IoSlice, Read, Write};

/// A non-blocking stream.
pub(crate) enum Stream {
    /// Bytes as they are: loopback, or by the operator's wish.
    Plain(TcpStream),
}

impl Stream {
    /// Reads into `space`; 0 when the other side has ended the stream.
    pub(crate) fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(space),
        }
    }

    /// Writes some of `pieces`.
    pub(crate) fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write_vectored(pieces),
        }
    }

    /// Whether a short read proves that nothing is left to read.
    pub(crate) fn is_drained_by_short_read(&self) -> bool {
        match self {
            Stream::Plain(_) => true,
        }
    }

    /// The socket below.
    pub(crate) fn socket(&mut self) -> &mut TcpStream {
        match self {
            Stream::Plain(socket) => socket,
        }
    }

    /// Watches for both directions at once. Readiness is told by edges, so an idle writable socket
    /// costs nothing and no later system call is needed to wait for room.
    pub(crate) fn watch(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.socket()
            .register(registry, token, Interest::READABLE | Interest::WRITABLE)
    }
}
