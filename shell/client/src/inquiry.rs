//! One question to one node, without a session: what is your status?

use crate::driver::is_passing;
use crate::resolving::resolve_by;
use crate::stream::ClientStream;
use crate::{ConnectError, TlsClient, TlsProblem};
use bytes::{Buf, Bytes, BytesMut};
use quorate_types::GroupId;
use quorate_wire::limits::CLIENT_BODY_BYTES_MAX;
use quorate_wire::{
    Frame, FrameError, FrameReader, Hello, HelloRole, Kind, Reject, RejectReason, VERSION,
    VERSION_MIN, Welcome, put_frame,
};
use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// What a node says of itself.
#[derive(Clone, Debug)]
pub struct NodeReport {
    /// Its welcome: cluster, members, objects.
    pub welcome: Welcome,
    /// Its status document, JSON.
    pub status: Bytes,
}

/// Asks the node at `address` for its status, within `timeout`; sealed when there are certificates.
///
/// # Errors
/// [`ConnectError::Unanswered`] when it cannot be reached, is full or stopping, or does not answer in time,
/// [`ConnectError::Rejected`] when it turns the client away, [`ConnectError::Tls`] when certificates do
/// not fit.
pub fn node_status(
    address: &str,
    group: GroupId,
    timeout: Duration,
    tls: Option<&TlsClient>,
) -> Result<NodeReport, ConnectError> {
    ask(address, group, timeout, tls).map_err(|error| unanswered(address, timeout, &error))
}

/// The error of a question to which no answer came.
pub(crate) fn unanswered(address: &str, timeout: Duration, error: &io::Error) -> ConnectError {
    let address = address.to_string();
    if let Some(problem) = TlsProblem::of(error) {
        return ConnectError::Tls {
            address,
            problem: problem.clone(),
        };
    }
    let reason = error.to_string();
    match error.kind() {
        ErrorKind::PermissionDenied => ConnectError::Rejected { address, reason },
        NO_SUCH_GROUP => ConnectError::no_group(address, reason),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => ConnectError::Unanswered {
            address,
            reason: format!("nothing came within {timeout:?}"),
        },
        _ => ConnectError::Unanswered { address, reason },
    }
}

/// The kind of the error of a question about a group that the node does not know.
const NO_SUCH_GROUP: ErrorKind = ErrorKind::Unsupported;

/// Asks one node; if that says that others serve the group, these.
fn ask(
    address: &str,
    group: GroupId,
    timeout: Duration,
    tls: Option<&TlsClient>,
) -> io::Result<NodeReport> {
    let end = Instant::now() + timeout;
    let (welcome, status) = ask_one(address, group, (timeout, end), tls)?;
    let is_elsewhere = welcome
        .members
        .iter()
        .all(|(node, _)| *node != welcome.node);
    match status {
        Ok(status) => Ok(NodeReport { welcome, status }),
        Err(error) if is_elsewhere => {
            let asked = welcome.members.iter().map(|(_, address)| {
                let (welcome, status) = ask_one(address, group, (timeout, end), tls).ok()?;
                let status = status.ok()?;
                Some(NodeReport { welcome, status })
            });
            asked.flatten().next().ok_or(error)
        }
        Err(error) => Err(error),
    }
}

/// The node's welcome, and what it said then.
fn ask_one(
    address: &str,
    group: GroupId,
    (timeout, end): (Duration, Instant),
    tls: Option<&TlsClient>,
) -> io::Result<(Welcome, io::Result<Bytes>)> {
    let mut reader = FrameReader::new(CLIENT_BODY_BYTES_MAX);
    let also = |out: &mut BytesMut| put_frame(out, Kind::StatusRequest, group, |_| {});
    let (mut stream, welcome) = greet(address, group, (timeout, end), tls, &mut reader, also)?;
    loop {
        match next_frame(&mut stream, &mut reader, end) {
            // Notices for clients may come between.
            Ok(frame) if frame.kind != Kind::StatusReply => {}
            answer => return Ok((welcome, answer.map(|frame| frame.body))),
        }
    }
}

/// Connects, says hello and what `also` adds, and waits for the welcome.
pub(crate) fn greet(
    address: &str,
    group: GroupId,
    (timeout, end): (Duration, Instant),
    tls: Option<&TlsClient>,
    reader: &mut FrameReader,
    also: impl FnOnce(&mut BytesMut),
) -> io::Result<(ClientStream<TcpStream>, Welcome)> {
    let resolved = resolve_by(address, end)?;
    let left = end.saturating_duration_since(Instant::now());
    let left = left.max(Duration::from_millis(1));
    let mut stream = ClientStream::new(TcpStream::connect_timeout(&resolved, left)?, tls)?;
    stream.socket().set_write_timeout(Some(timeout))?;
    let hello = Hello {
        version_min: VERSION_MIN,
        version_max: VERSION,
        cluster: None,
        role: HelloRole::Client { group },
        software: concat!("quorate ", env!("CARGO_PKG_VERSION")).to_string(),
        extra: Bytes::new(),
    };
    let mut out = BytesMut::new();
    put_frame(&mut out, Kind::Hello, group, |body| hello.put(body));
    also(&mut out);
    write_whole(&mut stream, out)?;
    loop {
        let frame = next_frame(&mut stream, reader, end)?;
        if frame.kind == Kind::Welcome {
            let welcome = Welcome::take(&frame.body).map_err(invalid)?;
            stream.check_node(welcome.node)?;
            return Ok((stream, welcome));
        }
    }
}

/// The next frame but a refusal, which is an error.
pub(crate) fn next_frame(
    stream: &mut ClientStream<TcpStream>,
    reader: &mut FrameReader,
    end: Instant,
) -> io::Result<Frame> {
    loop {
        if let Some(frame) = reader.next_frame().map_err(no_frame)? {
            if frame.kind == Kind::Reject {
                let reject = Reject::take(&frame.body).map_err(invalid)?;
                let kind = match reject.reason {
                    RejectReason::Group => NO_SUCH_GROUP,
                    reason if is_passing(reason) => ErrorKind::ConnectionRefused,
                    _ => ErrorKind::PermissionDenied,
                };
                return Err(io::Error::new(kind, reject.text));
            }
            return Ok(frame);
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.socket().set_read_timeout(Some(left))?;
        match stream.receive(reader).1 {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            // A signal that the process handles says nothing of the node.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            received => {
                received?;
            }
        }
    }
}

/// Writes all of it; a signal that the process handles does not end that.
pub(crate) fn write_whole(
    stream: &mut ClientStream<TcpStream>,
    mut out: BytesMut,
) -> io::Result<()> {
    while !out.is_empty() {
        match stream.write(&out) {
            Ok(taken) => out.advance(taken),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Why what came is no frame. An answer in HTTP, as a node's admin port gives one, has its first word where a frame has its length.
pub(crate) fn no_frame(error: FrameError) -> io::Error {
    const HTTP: usize = u32::from_le_bytes(*b"HTTP") as usize;
    if let FrameError::TooLong { length: HTTP, .. } = error {
        let told = "HTTP is spoken there, as at a node's admin port: name the port at which the node listens";
        return io::Error::new(ErrorKind::InvalidData, told);
    }
    invalid(error)
}

pub(crate) fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_in_http_is_told_as_that_of_an_admin_port() {
        let told = |answer: &[u8]| {
            let mut reader = FrameReader::new(CLIENT_BODY_BYTES_MAX);
            reader.space()[..answer.len()].copy_from_slice(answer);
            reader.filled(answer.len());
            no_frame(reader.next_frame().unwrap_err()).to_string()
        };
        let http = told(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        assert!(http.contains("admin port"), "{http}");
        let other = told(b"SSH-2.0-OpenSSH_9.2 and what else comes with it\r\n");
        assert!(other.starts_with("a frame of"), "{other}");
    }
}
