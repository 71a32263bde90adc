//! One connection to one node: bytes out, frames in. Decides nothing.

use crate::TlsClient;
use crate::inquiry::no_frame;
use crate::limits::{DRAINED_MAX, FRAME_BYTES, READ_TURN_BYTES, WAITING_BYTES_MAX};
use crate::stream::ClientStream;
use bytes::{Buf, BytesMut};
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use quorate_types::{FromClient, GroupId, NodeId};
use quorate_wire::limits::{CLIENT_BODY_BYTES_MAX, HELLO_BODY_BYTES_MAX, LARGE_FRAME_BYTES};
use quorate_wire::{
    Frame, FrameReader, Hello, HelloRole, Kind, OpenFrame, VERSION, VERSION_MIN, begin_frame,
    end_frame, put_frame, put_request,
};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// A connection that is being made or stands.
pub(crate) struct NodeConnection {
    stream: ClientStream<TcpStream>,
    /// For a caller that waits for the socket while another thread may replace it.
    copy: Arc<OwnedFd>,
    pub(crate) address: String,
    /// Whether the node has welcomed the client here.
    pub(crate) is_welcomed: bool,
    reader: FrameReader,
    out: BytesMut,
    open: Option<OpenFrame>,
    group: GroupId,
    waits_for_writable: bool,
}

impl NodeConnection {
    /// Begins to connect and queues the greeting.
    pub(crate) fn dial(
        address: &str,
        resolved: SocketAddr,
        group: GroupId,
        registry: &Registry,
        token: Token,
        tls: Option<&TlsClient>,
    ) -> io::Result<NodeConnection> {
        let mut socket = TcpStream::connect(resolved)?;
        registry.register(&mut socket, token, Interest::READABLE | Interest::WRITABLE)?;
        let copy = Arc::new(socket.as_fd().try_clone_to_owned()?);
        let stream = ClientStream::new(socket, tls)?;
        let mut out = BytesMut::new();
        let hello = Hello {
            version_min: VERSION_MIN,
            version_max: VERSION,
            cluster: None,
            role: HelloRole::Client { group },
            software: concat!("quorate-client ", env!("CARGO_PKG_VERSION")).to_string(),
            extra: bytes::Bytes::new(),
        };
        put_frame(&mut out, Kind::Hello, group, |body| hello.put(body));
        let mut reader = FrameReader::new(HELLO_BODY_BYTES_MAX);
        reader.raise_limit(CLIENT_BODY_BYTES_MAX);
        Ok(NodeConnection {
            stream,
            copy,
            address: address.to_string(),
            is_welcomed: false,
            reader,
            out,
            open: None,
            group,
            waits_for_writable: true,
        })
    }

    /// Queues a request; requests of one turn share a frame. A large one has its own, which the node keeps as it is.
    pub(crate) fn queue(&mut self, message: &FromClient) {
        let is_large = matches!(message, FromClient::Call { payload, .. } if payload.len() >= LARGE_FRAME_BYTES);
        let open = match self.open.take() {
            Some(open) if is_large || open.body_len(&self.out) >= FRAME_BYTES => {
                end_frame(&mut self.out, open);
                begin_frame(&mut self.out, Kind::FromClient, self.group)
            }
            Some(open) => open,
            None => begin_frame(&mut self.out, Kind::FromClient, self.group),
        };
        put_request(&mut self.out, message);
        if is_large {
            end_frame(&mut self.out, open);
        } else {
            self.open = Some(open);
        }
    }

    /// Queues a frame without a body, such as a request for the node's status.
    pub(crate) fn queue_empty(&mut self, kind: Kind) {
        if let Some(open) = self.open.take() {
            end_frame(&mut self.out, open);
        }
        put_frame(&mut self.out, kind, self.group, |_| {});
    }

    /// Whether enough waits to be written that nothing should be added.
    pub(crate) fn is_full(&self) -> bool {
        self.out.len() >= WAITING_BYTES_MAX
    }

    /// Bytes that wait to be written.
    pub(crate) fn waiting(&self) -> usize {
        self.out.len()
    }

    /// The socket can be written again, or for the first time.
    pub(crate) fn on_writable(&mut self) {
        self.waits_for_writable = false;
    }

    /// Writes what is queued as far as the socket takes it.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if let Some(open) = self.open.take() {
            end_frame(&mut self.out, open);
        }
        while !self.waits_for_writable && !self.out.is_empty() {
            match self.stream.write(&self.out) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.out.advance(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.waits_for_writable = true;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.stream.push()
    }

    /// Reads what has arrived; true when more may lie in the socket.
    pub(crate) fn fill(&mut self) -> io::Result<bool> {
        let mut read = 0;
        while read < READ_TURN_BYTES {
            let (offered, result) = self.read();
            match result {
                // What came before the end is taken first.
                Ok(0) if read > 0 => return Ok(true),
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    read += count;
                    if self.stream.is_sealed() {
                        self.waits_for_writable = false;
                    } else if count < offered {
                        return Ok(false);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// One read: how much was offered to it, and what came of it.
    fn read(&mut self) -> (usize, io::Result<usize>) {
        if let Some(frame) = self.reader.large_frame() {
            let offered = frame.capacity() - frame.len();
            return (offered, self.stream.read_to(frame));
        }
        self.stream.receive(&mut self.reader)
    }

    /// The next frame that has arrived whole.
    pub(crate) fn next_frame(&mut self) -> io::Result<Option<Frame>> {
        self.reader.next_frame().map_err(no_frame)
    }

    /// A copy of the socket's descriptor, and whether it is awaited to take bytes.
    pub(crate) fn copy(&self) -> (Arc<OwnedFd>, bool) {
        (Arc::clone(&self.copy), self.waits_for_writable)
    }

    /// Lets the loop watch the socket, from what is due at it now on.
    pub(crate) fn watch(&mut self, registry: &Registry, token: Token, is_watched: bool) {
        let interest = Interest::READABLE | Interest::WRITABLE;
        let socket = self.stream.socket();
        // A socket that cannot be watched falls silent, and the session leaves it.
        drop(match is_watched {
            true => registry.reregister(socket, token, interest),
            false => registry.register(socket, token, interest),
        });
    }

    /// Takes what has arrived: a socket that is closed before that resets the connection, and the other side may lose what it has not
    /// read yet.
    pub(crate) fn drain(&mut self) {
        let mut rest = Vec::with_capacity(4096);
        for _ in 0..DRAINED_MAX {
            rest.clear();
            match self.stream.read_to(&mut rest) {
                Ok(1..) => {}
                Ok(0) | Err(_) => return,
            }
        }
    }

    /// Takes the socket out of the loop; it closes with the connection.
    pub(crate) fn leave(&mut self, registry: &Registry) {
        // A socket that was never registered, or is closed, has nothing to deregister.
        drop(registry.deregister(self.stream.socket()));
    }

    /// Compares the number that the node gives with its certificate, if it has one.
    pub(crate) fn check_node(&self, node: NodeId) -> io::Result<()> {
        Ok(self.stream.check_node(node)?)
    }

    /// The connection is made: send small frames at once.
    pub(crate) fn on_connected(&mut self) -> io::Result<()> {
        if let Some(error) = self.stream.socket().take_error()? {
            return Err(error);
        }
        self.stream.socket().set_nodelay(true)
    }
}
