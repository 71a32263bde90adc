//! Questions of operators' tools to one node, one after the other on one connection, without a session.

use crate::inquiry::{greet, invalid, next_frame, unanswered, write_whole};
use crate::stream::ClientStream;
use crate::{ConnectError, TlsClient};
use bytes::BytesMut;
use quorate_types::GroupId;
use quorate_wire::limits::CLIENT_BODY_BYTES_MAX;
use quorate_wire::{
    AdminReply, AdminRequest, FrameReader, Kind, Welcome, put_admin_request, put_frame,
    take_admin_reply,
};
use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A connection to one node.
pub struct AdminConnection {
    address: String,
    group: GroupId,
    timeout: Duration,
    stream: ClientStream<TcpStream>,
    reader: FrameReader,
    welcome: Welcome,
}

impl AdminConnection {
    /// Connects to the node at `address`. Each question may take `timeout`.
    ///
    /// # Errors
    /// As [`crate::node_status`].
    pub fn open(
        address: &str,
        group: GroupId,
        timeout: Duration,
        tls: Option<&TlsClient>,
    ) -> Result<AdminConnection, ConnectError> {
        let end = Instant::now() + timeout;
        let mut reader = FrameReader::new(CLIENT_BODY_BYTES_MAX);
        let greeted = greet(address, group, (timeout, end), tls, &mut reader, |_| {});
        let (stream, welcome) = greeted.map_err(|error| unanswered(address, timeout, &error))?;
        Ok(AdminConnection {
            address: address.to_owned(),
            group,
            timeout,
            stream,
            reader,
            welcome,
        })
    }

    /// What the node said of itself: cluster, members, objects.
    #[must_use]
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// As [`crate::node_status`]. Nothing more can be asked then.
    pub fn ask(&mut self, request: &AdminRequest) -> Result<AdminReply, ConnectError> {
        let reply = self.exchange(request);
        reply.map_err(|error| unanswered(&self.address, self.timeout, &error))
    }

    fn exchange(&mut self, request: &AdminRequest) -> io::Result<AdminReply> {
        let end = Instant::now() + self.timeout;
        let mut out = BytesMut::new();
        put_frame(&mut out, Kind::AdminRequest, self.group, |body| {
            put_admin_request(body, request);
        });
        write_whole(&mut self.stream, out)?;
        loop {
            let frame = next_frame(&mut self.stream, &mut self.reader, end)?;
            // Notices for clients may come between.
            if frame.kind == Kind::AdminReply {
                return take_admin_reply(&frame.body).map_err(invalid);
            }
        }
    }
}
