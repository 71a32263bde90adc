//! The byte stream of one connection: plain TCP, or TLS over it. Knows no frames.

use crate::tls::TlsStream;
use mio::event::Source;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use quorate_receiving::append;
use quorate_types::NodeId;
use quorate_wire::FrameReader;
use rustix::buffer::spare_capacity;
use std::io::{self, IoSlice, Write};

/// A non-blocking stream.
pub(crate) enum SocketStream {
    /// Bytes as they are: loopback, or by the operator's wish.
    Plain(TcpStream),
    /// Sealed, with certificates on both sides.
    Tls(Box<TlsStream>),
}

impl SocketStream {
    /// Reads what comes next of the frames: how much was offered, and how much came; 0 when the other side has ended
    /// the stream.
    pub(crate) fn receive(&mut self, reader: &mut FrameReader) -> (usize, io::Result<usize>) {
        match self {
            SocketStream::Plain(socket) => {
                let room = reader.room();
                let offered = room.capacity() - room.len();
                let result = append(&*socket, room);
                reader.appended(offered);
                (offered, result)
            }
            SocketStream::Tls(tls) => {
                let space = reader.space();
                let offered = space.len();
                let result = tls.read(space);
                reader.filled(*result.as_ref().unwrap_or(&0));
                (offered, result)
            }
        }
    }

    /// Appends what there is to `frame`, up to its capacity; 0 when the other side has ended the stream.
    pub(crate) fn read_to(&mut self, frame: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            SocketStream::Plain(socket) => Ok(rustix::io::read(&*socket, spare_capacity(frame))?),
            SocketStream::Tls(tls) => tls.read_to(frame),
        }
    }

    /// Writes some of `pieces`.
    pub(crate) fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            SocketStream::Plain(socket) => socket.write_vectored(pieces),
            SocketStream::Tls(tls) => tls.write(pieces),
        }
    }

    /// Whether a short read proves that nothing is left to read.
    pub(crate) fn is_drained_by_short_read(&self) -> bool {
        match self {
            SocketStream::Plain(_) => true,
            SocketStream::Tls(_) => false,
        }
    }

    /// Writes what was taken and not yet written, as far as the socket takes it.
    pub(crate) fn push(&mut self) -> io::Result<()> {
        match self {
            SocketStream::Plain(_) => Ok(()),
            SocketStream::Tls(tls) => tls.push(),
        }
    }

    /// Whether something that was taken is not yet written.
    pub(crate) fn is_holding(&self) -> bool {
        match self {
            SocketStream::Plain(_) => false,
            SocketStream::Tls(tls) => tls.is_sealed_waiting(),
        }
    }

    /// Whether the other side may call itself `node`: without certificates there is nothing to check.
    pub(crate) fn may_be(&self, node: NodeId) -> bool {
        match self {
            SocketStream::Plain(_) => true,
            SocketStream::Tls(tls) => tls.is_certified_as(node),
        }
    }

    /// The socket below.
    pub(crate) fn socket(&mut self) -> &mut TcpStream {
        match self {
            SocketStream::Plain(socket) => socket,
            SocketStream::Tls(tls) => &mut tls.socket,
        }
    }

    /// Watches for both directions at once. Readiness is told by edges, so an idle writable socket
    /// costs nothing and no later system call is needed to wait for room.
    pub(crate) fn watch(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.socket()
            .register(registry, token, Interest::READABLE | Interest::WRITABLE)
    }
}
