//! The socket for datagrams that all nodes of a group get at once, on the interface of the address at which a node listens.
//!
//! It sends and receives, and knows nothing of what they say. Nodes on one machine share the port, and hear each other over loopback too.

use bytes::Bytes;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;

/// What the system is asked to keep of what has come: a few batches. It gives what `net.core.rmem_max` allows.
const RECEIVED_BYTES: usize = 8 << 20;

/// Larger than any datagram.
const DATAGRAM_BYTES_MAX: usize = 64 << 10;

/// Datagrams read in one turn: the rest waits for the next one, behind what links brought.
const READ_AT_ONCE: usize = 512;

/// A socket that is a member of one multicast address.
#[derive(Debug)]
pub struct MulticastSocket {
    socket: UdpSocket,
    to: SocketAddrV4,
    /// What the system said when it refused a datagram last.
    refused: Option<io::ErrorKind>,
    buffer: Vec<u8>,
    counters: MulticastCounters,
}

/// What passed a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MulticastCounters {
    /// Bytes sent, each once, however many nodes hear them.
    pub bytes_out: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Datagrams that the system refused to send.
    pub refused: u64,
}

impl MulticastSocket {
    /// Joins `address` on the interface with the address `interface`.
    ///
    /// # Errors
    /// When the system refuses: the interface does no multicast, or another process has the port to itself.
    pub fn join(
        address: SocketAddrV4,
        interface: Ipv4Addr,
        (registry, token): (&Registry, Token),
    ) -> io::Result<MulticastSocket> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(true)?;
        socket.set_nonblocking(true)?;
        // As much as may be had.
        socket.set_recv_buffer_size(RECEIVED_BYTES)?;
        socket.set_send_buffer_size(RECEIVED_BYTES)?;
        // Bound to the multicast address it gets no other datagrams of that port.
        socket.bind(&address.into())?;
        socket.join_multicast_v4(address.ip(), &interface)?;
        socket.set_multicast_if_v4(&interface)?;
        socket.set_multicast_loop_v4(true)?;
        registry.register(
            &mut SourceFd(&socket.as_raw_fd()),
            token,
            Interest::READABLE,
        )?;
        Ok(MulticastSocket {
            socket: socket.into(),
            to: address,
            refused: None,
            buffer: vec![0; DATAGRAM_BYTES_MAX],
            counters: MulticastCounters::default(),
        })
    }

    /// Sends a datagram, or loses it: nobody waits for one.
    pub fn send(&mut self, datagram: &[u8]) {
        match self.socket.send_to(datagram, self.to) {
            Ok(sent) => self.counters.bytes_out += sent as u64,
            Err(error) => {
                self.counters.refused += 1;
                if self.refused.replace(error.kind()) != Some(error.kind()) {
                    tracing::warn!(
                        %error,
                        "a datagram was not sent: check that limits.multicast is reachable from the interface of `listen`"
                    );
                }
            }
        }
    }

    /// Hands on what has come, up to a bound. Returns whether more may be there.
    ///
    /// # Errors
    /// When the socket cannot be read any more.
    pub fn receive(&mut self, mut hand_on: impl FnMut(Bytes)) -> io::Result<bool> {
        for _ in 0..READ_AT_ONCE {
            match self.socket.recv(&mut self.buffer) {
                Ok(length) => {
                    self.counters.bytes_in += length as u64;
                    hand_on(Bytes::copy_from_slice(&self.buffer[..length]));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// What passed so far.
    #[must_use]
    pub fn counters(&self) -> MulticastCounters {
        self.counters
    }
}
