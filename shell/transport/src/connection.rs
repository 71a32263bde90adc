//! One connection: its phase, its received bytes and its queued frames.
//!
//! It reads, queues and writes frames and does not interpret them. Owned and called by
//! [`crate::Transport`].

use crate::lanes::{FrameLane, Lanes};
use crate::limits::{CLIENT_READ_PER_TURN, HALF_FRAME_MAX, IDLE_MAX, READ_PER_TURN, REPLY_FRAME};
use crate::proving::Proving;
use crate::stream::SocketStream;
use crate::unfinished::UnfinishedFrame;
use bytes::{Bytes, BytesMut};
use quorate_types::{ClosedBy, ConnectionId, GroupId, Level, LinkEpoch, NodeId, Time};
use quorate_wire::{
    Frame, FrameError, FramePieces, FrameReader, Kind, OpenFrame, SharedBody, begin_frame,
    end_frame, end_frame_shared, limits, put_frame,
};
use std::io;
use std::net::IpAddr;

/// What a connection is at this moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Dialled, TCP has not answered.
    Connecting(NodeId),
    /// Dialled, our Hello is on its way, no Welcome yet.
    Greeting(NodeId),
    /// Accepted, has not said who it is.
    Stranger,
    /// A link to a peer.
    Peer(NodeId, LinkEpoch),
    /// A client.
    Client(ConnectionId),
    /// Refused: closed once the reason is written.
    Closing,
}

/// Why a connection is over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    #[error("the other side closed it")]
    Closed,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Frame(#[from] FrameError),
}

impl Ended {
    /// Who ended it, as the system says: a process that dies closes its connections, or resets them if something was not read.
    pub(crate) fn by(&self) -> ClosedBy {
        match self {
            Ended::Closed => ClosedBy::Client,
            Ended::Io(error) => match error.kind() {
                io::ErrorKind::UnexpectedEof
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe => ClosedBy::Client,
                _ => ClosedBy::Node,
            },
            Ended::Frame(_) => ClosedBy::Node,
        }
    }
}

/// What a round of reading left behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Left {
    Nothing,
    /// The round was cut for the sake of other sockets.
    More,
}

pub(crate) struct Connection {
    pub(crate) stream: SocketStream,
    pub(crate) phase: Phase,
    /// When the transport looks at it next: until then the handshake must be over, or a client must have spoken.
    pub(crate) deadline: Option<Time>,
    /// Where it came from; `None` where this node dialled.
    pub(crate) address: Option<IpAddr>,
    /// When the last whole frame of it arrived.
    heard: Time,
    /// Since when a frame of it has begun and is not whole.
    begun: Option<Time>,
    /// Bytes that the transport has counted for it.
    pub(crate) counted: usize,
    /// Bytes of its frames that the node has not served.
    pub(crate) unserved: usize,
    /// Whether it is not read until the node has served it.
    pub(crate) is_held: bool,
    /// Whether there was something to read while it was held.
    pub(crate) is_unread: bool,
    /// Whether it waits for its turn to be read.
    pub(crate) is_to_read: bool,
    /// A large frame of it that has begun and is not whole.
    pub(crate) unfinished: Option<UnfinishedFrame>,
    /// The other side has closed its half, so that a short read does not prove that all was read.
    pub(crate) is_ending: bool,
    pub(crate) group: GroupId,
    /// The level whose layouts are spoken on it, once both ends have said what they speak.
    pub(crate) level: Level,
    /// How far both nodes have shown who they are.
    pub(crate) proving: Proving,
    /// Whether what the peer says of its reach was judged well.
    pub(crate) is_judged: bool,
    /// Whether it is listed for the flush at the end of the turn.
    pub(crate) is_listed: bool,
    reader: FrameReader,
    lanes: Lanes,
    /// Answers of this turn, in a frame that is still open.
    replies: BytesMut,
    open: Option<OpenFrame>,
    /// Large values of the open frame, each with its place in `replies`.
    shared: Vec<(usize, Bytes)>,
    /// The last write found no room: writing waits for the socket.
    is_full: bool,
}

impl Connection {
    pub(crate) fn new(
        stream: SocketStream,
        phase: Phase,
        group: GroupId,
        deadline: Time,
        address: Option<IpAddr>,
    ) -> Connection {
        Connection {
            stream,
            phase,
            deadline: Some(deadline),
            address,
            heard: deadline,
            begun: None,
            counted: 0,
            unserved: 0,
            is_held: false,
            is_unread: false,
            is_to_read: false,
            unfinished: None,
            is_ending: false,
            group,
            level: Level::UNNAMED,
            proving: Proving::NotBegun,
            is_judged: false,
            is_listed: false,
            reader: FrameReader::new(limits::HELLO_BODY_BYTES_MAX),
            lanes: Lanes::default(),
            replies: BytesMut::new(),
            open: None,
            shared: Vec::new(),
            is_full: false,
        }
    }

    /// The same connection for the transport of another group.
    pub(crate) fn passed_to(mut self, group: GroupId, phase: Phase) -> Connection {
        self.group = group;
        self.phase = phase;
        (self.is_to_read, self.is_listed) = (false, false);
        self
    }

    /// The handshake is over: frames may be as long as `phase` allows.
    pub(crate) fn settle(&mut self, phase: Phase) {
        self.phase = phase;
        match phase {
            Phase::Peer(..) => self.reader.raise_limit(limits::PEER_BODY_BYTES_MAX),
            Phase::Client(_) => self.reader.raise_limit(limits::CLIENT_BODY_BYTES_MAX),
            Phase::Connecting(_) | Phase::Greeting(_) | Phase::Stranger | Phase::Closing => {
                unreachable!("only peers and clients settle")
            }
        }
    }

    /// A Welcome names all members and objects and may be long.
    pub(crate) fn expect_welcome(&mut self) {
        self.reader.raise_limit(limits::CLIENT_BODY_BYTES_MAX);
    }

    /// Reads what is there, up to a bound; says how much. A client's large frame has `large_room`.
    pub(crate) fn receive(&mut self, large_room: usize) -> (usize, Result<Left, Ended>) {
        let most = match self.phase {
            // The first requests of a client may come with its Hello.
            Phase::Stranger | Phase::Client(_) => CLIENT_READ_PER_TURN,
            Phase::Connecting(_) | Phase::Greeting(_) | Phase::Peer(..) | Phase::Closing => {
                READ_PER_TURN
            }
        };
        let mut read = 0;
        loop {
            let (offered, result) = self.read();
            match result {
                Ok(0) => return (read, Err(Ended::Closed)),
                Ok(count) => {
                    if !self.stream.is_drained_by_short_read() {
                        // A TLS session's progress may be what writing waited for.
                        self.is_full = false;
                    }
                    read += count;
                    let is_short = count < offered;
                    if is_short && !self.is_ending && self.stream.is_drained_by_short_read() {
                        return (read, Ok(Left::Nothing));
                    }
                    if read >= most || (read >= large_room && self.is_large_client()) {
                        return (read, Ok(Left::More));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return (read, Ok(Left::Nothing));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (read, Err(Ended::Io(error))),
            }
        }
    }

    /// Whether reading it means to go on with the handshake of a stranger.
    pub(crate) fn greets_by_tls(&self) -> bool {
        self.phase == Phase::Stranger && matches!(self.stream, SocketStream::Tls(_))
    }

    /// Whether it is a client in the middle of a large frame.
    pub(crate) fn is_large_client(&self) -> bool {
        matches!(self.phase, Phase::Client(_)) && self.reader.lacks_of_large()
    }

    /// Bytes of memory of what it has sent and what is not a whole frame.
    pub(crate) fn held_in_frames(&self) -> usize {
        self.reader.held()
    }

    /// Bytes that have arrived of frames that are not whole.
    pub(crate) fn arrived(&self) -> usize {
        self.reader.pending()
    }

    /// There is something to read, and it waits: the client does not.
    pub(crate) fn waits(&mut self) {
        if let Some(frame) = &mut self.unfinished {
            frame.is_drained = false;
        }
    }

    /// It is read again, after this node let it wait.
    pub(crate) fn resumes(&mut self, now: Time) {
        self.begun = self.begun.map(|_| now);
    }

    /// Whether it is not read at present; what there is to read is read later.
    pub(crate) fn is_to_wait(&mut self) -> bool {
        self.is_unread |= self.is_held;
        self.is_held
    }

    /// One read: how much was offered to it, and what came of it.
    fn read(&mut self) -> (usize, io::Result<usize>) {
        if let Some(frame) = self.reader.large_frame() {
            let offered = frame.capacity() - frame.len();
            return (offered, self.stream.read_to(frame));
        }
        self.stream.receive(&mut self.reader)
    }

    /// The next whole frame that has arrived.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        self.reader.next_frame()
    }

    /// A round of reading is over: whole frames of it were taken, or not.
    pub(crate) fn was_read(&mut self, frames: usize, now: Time) {
        if frames > 0 {
            self.heard = now;
            self.begun = None;
        }
        if self.reader.pending() == 0 {
            self.begun = None;
        } else {
            self.begun.get_or_insert(now);
        }
    }

    /// Until when a client must have said the rest of a frame, or anything.
    pub(crate) fn patience_ends(&self) -> Time {
        let idle = self.heard + IDLE_MAX;
        // What is to come may lie in the socket, and this node does not read it.
        let waits_here = self.unfinished.is_some_and(|frame| !frame.is_drained);
        let begun = self.begun.filter(|_| !waits_here);
        let half = begun.map(|begun| begun + HALF_FRAME_MAX);
        half.map_or(idle, |half| half.min(idle))
    }

    /// Gives back the memory of a quiet connection.
    pub(crate) fn rest(&mut self) {
        self.reader.rest();
    }

    /// Bytes of buffers.
    pub(crate) fn held(&self) -> usize {
        self.reader.held() + self.waiting() + self.unserved
    }

    /// Bytes that wait to be written.
    pub(crate) fn waiting(&self) -> usize {
        self.lanes.len() + self.replies.len() + usize::from(self.stream.is_holding())
    }

    /// Queues a whole frame.
    pub(crate) fn push(&mut self, lane: FrameLane, frame: &FramePieces) {
        self.lanes.push_pieces(lane, frame);
    }

    /// Queues a frame of the handshake: nothing said later may overtake it.
    pub(crate) fn greet(&mut self, kind: Kind, body: impl FnOnce(&mut BytesMut)) {
        let mut frame = BytesMut::new();
        put_frame(&mut frame, kind, self.group, body);
        self.lanes.adopt(FrameLane::Urgent, frame.freeze());
    }

    /// Queues one frame whose body `body` appends.
    pub(crate) fn put(&mut self, kind: Kind, body: impl FnOnce(&mut BytesMut)) {
        self.close_frame();
        put_frame(&mut self.replies, kind, self.group, body);
    }

    /// Queues one answer; answers of a turn share a frame.
    pub(crate) fn answer(&mut self, put: impl FnOnce(&mut SharedBody<'_>)) {
        if self.open.is_none() {
            self.open = Some(begin_frame(&mut self.replies, Kind::ToClient, self.group));
        }
        put(&mut SharedBody::new(&mut self.replies, &mut self.shared));
        if let Some(open) = &self.open
            && (!self.shared.is_empty() || open.body_len(&self.replies) >= REPLY_FRAME)
        {
            self.close_frame();
        }
    }

    /// Writes what waits. `Ok(true)` when nothing waits any more.
    pub(crate) fn flush(&mut self, counted: &mut u64) -> io::Result<bool> {
        self.close_frame();
        if !self.replies.is_empty() {
            // What is split off shares its memory with what is left, so an idle connection would keep a large reply.
            let frames = if self.replies.capacity() > 2 * REPLY_FRAME {
                std::mem::take(&mut self.replies)
            } else {
                self.replies.split()
            };
            self.lanes.adopt(FrameLane::Normal, frames.freeze());
        }
        if self.is_full || matches!(self.phase, Phase::Connecting(_)) {
            return Ok(false);
        }
        let before = self.lanes.len();
        let stream = &mut self.stream;
        stream.push()?;
        let is_empty = self.lanes.flush(|pieces| stream.write(pieces))? && !stream.is_holding();
        *counted += (before - self.lanes.len()) as u64;
        self.is_full = !is_empty;
        Ok(is_empty)
    }

    /// The socket has room again.
    pub(crate) fn has_room(&mut self) {
        self.is_full = false;
    }

    fn close_frame(&mut self) {
        let Some(open) = self.open.take() else {
            return;
        };
        if self.shared.is_empty() {
            end_frame(&mut self.replies, open);
        } else {
            let shared = std::mem::take(&mut self.shared);
            let frames = end_frame_shared(&mut self.replies, open, shared);
            self.lanes.push_pieces(FrameLane::Normal, &frames);
        }
    }
}
