//! The byte stream of one connection: plain TCP or TLS. Works over a socket that blocks and
//! over one that does not; knows no frames.

use crate::tls::is_certified_as;
use crate::{TlsClient, TlsProblem};
use quorate_receiving::append;
use quorate_types::NodeId;
use quorate_wire::FrameReader;
use rustix::buffer::spare_capacity;
use rustls::ClientConnection;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;

/// Bytes of the largest TLS record: a session gives no more at once.
const RECORD_BYTES: usize = 16 << 10;

/// A connection's bytes, over the socket `S`.
pub(crate) enum ClientStream<S> {
    /// Without TLS.
    Plain {
        socket: S,
        /// Whether anything was read.
        heard: bool,
    },
    /// TLS, with certificates on both sides.
    Sealed(Box<SealedStream<S>>),
}

/// A TLS session and the socket below it.
pub(crate) struct SealedStream<S> {
    socket: S,
    session: ClientConnection,
}

impl<S: Read + Write + AsFd> ClientStream<S> {
    pub(crate) fn new(socket: S, tls: Option<&TlsClient>) -> io::Result<ClientStream<S>> {
        Ok(match tls {
            None => ClientStream::Plain {
                socket,
                heard: false,
            },
            Some(tls) => ClientStream::Sealed(Box::new(SealedStream {
                socket,
                session: tls.session()?,
            })),
        })
    }

    pub(crate) fn socket(&mut self) -> &mut S {
        match self {
            ClientStream::Plain { socket, .. } => socket,
            ClientStream::Sealed(sealed) => &mut sealed.socket,
        }
    }

    /// Reads what comes next of the frames: how much was offered, and how much came; 0 when the other side has ended
    /// the stream.
    pub(crate) fn receive(&mut self, reader: &mut FrameReader) -> (usize, io::Result<usize>) {
        match self {
            ClientStream::Plain { socket, heard } => {
                let room = reader.room();
                let (at, offered) = (room.len(), room.capacity() - room.len());
                let mut result = append(&*socket, room);
                if result.is_ok() && !std::mem::replace(heard, true) && is_fatal_alert(&room[at..])
                {
                    result = Err(TlsProblem::Wanted.into());
                }
                reader.appended(offered);
                (offered, result)
            }
            ClientStream::Sealed(sealed) => {
                let space = reader.space();
                let offered = space.len();
                let result = sealed.read(space);
                reader.filled(*result.as_ref().unwrap_or(&0));
                (offered, result)
            }
        }
    }

    /// Appends what there is to `frame`, up to its capacity, once anything was read before.
    pub(crate) fn read_to(&mut self, frame: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            ClientStream::Plain { socket, .. } => {
                Ok(rustix::io::read(&*socket, spare_capacity(frame))?)
            }
            ClientStream::Sealed(sealed) => {
                let at = frame.len();
                frame.resize(frame.capacity().min(at + RECORD_BYTES), 0);
                let read = sealed.read(&mut frame[at..]);
                frame.truncate(at + *read.as_ref().unwrap_or(&0));
                read
            }
        }
    }

    /// Takes some of `bytes`.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            ClientStream::Plain { socket, .. } => socket.write(bytes),
            ClientStream::Sealed(sealed) => sealed.write(bytes),
        }
    }

    /// Writes what was taken and not yet written, as far as the socket takes it.
    pub(crate) fn push(&mut self) -> io::Result<()> {
        match self {
            ClientStream::Plain { .. } => Ok(()),
            ClientStream::Sealed(sealed) => sealed.push(),
        }
    }

    /// Whether bytes pass through a TLS session: then a short read proves nothing, and what was read
    /// may have made room for what is written.
    pub(crate) fn is_sealed(&self) -> bool {
        match self {
            ClientStream::Plain { .. } => false,
            ClientStream::Sealed(_) => true,
        }
    }

    /// Compares the name in the other side's certificate, if there is one, with the number that it gives.
    pub(crate) fn check_node(&self, node: NodeId) -> Result<(), TlsProblem> {
        match self {
            ClientStream::Sealed(sealed) if !is_certified_as(&sealed.session, node) => {
                Err(TlsProblem::OtherNode { node })
            }
            ClientStream::Plain { .. } | ClientStream::Sealed(_) => Ok(()),
        }
    }
}

impl<S: Read + Write> SealedStream<S> {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(space) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                other => return other,
            }
            if self.session.read_tls(&mut self.socket)? == 0 {
                return match self.session.is_handshaking() {
                    // A node that dies resets the connection; one that knows no TLS ends it.
                    true => Err(TlsProblem::Unspoken.into()),
                    false => Ok(0),
                };
            }
            let processed = self.session.process_new_packets();
            // The other side is told even when its bytes are refused.
            let pushed = self.push();
            processed.map_err(|error| TlsProblem::from(&error))?;
            pushed?;
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut taken = self.session.writer().write(bytes)?;
        self.push()?;
        if taken == 0 {
            taken = self.session.writer().write(bytes)?;
            self.push()?;
        }
        match taken {
            0 => Err(ErrorKind::WouldBlock.into()),
            taken => Ok(taken),
        }
    }

    fn push(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Whether a node that speaks TLS answers to plain bytes: a record of type alert, two bytes long,
/// fatal. No frame begins so, because its sixth byte is zero.
fn is_fatal_alert(bytes: &[u8]) -> bool {
    matches!(bytes, [0x15, 0x03, _, 0, 2, 2, ..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::GroupId;
    use quorate_wire::{Kind, put_frame};

    #[test]
    fn no_frame_is_taken_for_an_alert() {
        assert!(is_fatal_alert(&[0x15, 3, 3, 0, 2, 2, 50]));
        let mut frame = bytes::BytesMut::new();
        put_frame(&mut frame, Kind::Welcome, GroupId(1), |body| {
            body.extend_from_slice(&[0; 0x0315]);
        });
        assert_eq!(frame[..2], [0x15, 0x03]);
        assert!(!is_fatal_alert(&frame));
    }
}
