//! The messages between replicas; those of ordering protocols pass through.

use crate::{DiskRoom, KnownSigns, OutcomeTrail};
use quorate_types::{Attachment, Digest, Duration, Refusal, SessionId, Slot, Value, ViewId, Wall};

/// A message from node to node inside one group.
#[derive(Clone, PartialEq, Debug)]
pub enum PeerMessage<M> {
    /// Between the ordering instances of one view.
    Ordering {
        /// The view.
        view: ViewId,
        /// The message.
        message: M,
    },
    /// Between replicas.
    Replica(ReplicaMessage),
}

/// A message from replica to replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReplicaMessage {
    /// To the leader: the client of `session`, which is connected here, is alive.
    KeepAlive {
        /// The session.
        session: SessionId,
        /// Rises with each keepalive that the sender forwards, over its starts too; 0 wants no answer.
        number: u64,
        /// The connection on which it came.
        attachment: Attachment,
    },
    /// From the leader: the keepalive counts.
    KeptAlive {
        /// The session.
        session: SessionId,
        /// The number of the keepalive: a late answer says nothing about another one.
        number: u64,
        /// Why it does not count: the session is expired or about to expire, or another client has it.
        refused: Option<Refusal>,
    },
    /// About the signs of life of sessions.
    Signs(SignsMessage),
    /// The sender has a durable snapshot with these digests.
    Durable {
        /// Its slot.
        slot: Slot,
        /// Its digests.
        digest: Digest,
        /// Bytes of the image.
        bytes: u64,
    },
    /// A majority of the view's replicas took this digest: snapshots with it are correct.
    Agreed {
        /// Their slot.
        slot: Slot,
        /// Their digests.
        digest: Digest,
    },
    /// The sender's wall clock, and whether it votes.
    Clock {
        /// The time it shows.
        wall: Wall,
        /// Whether it votes, or may where it is an acceptor: not if it lost votes.
        votes: bool,
    },
    /// The room on the disk of the sender's log.
    Room {
        /// How much there is.
        room: DiskRoom,
    },
    /// The digest of all outcomes up to a slot that the sender has executed.
    Outcomes {
        /// The slot.
        slot: Slot,
        /// The rolling digest.
        digest: u64,
    },
    /// Digests after the sender's newest slots: it differs from somebody, or was asked by one who does.
    Trail {
        /// Whether the sender wants the receiver's, from the same slot on.
        asks: bool,
        /// The digests.
        trail: Box<OutcomeTrail>,
    },
    /// Asks for a piece of the receiver's newest agreed snapshot at or above `slot`, or of exactly `slot` if
    /// `offset` is not 0.
    Fetch {
        /// The lowest useful slot, or the one being fetched.
        slot: Slot,
        /// The offset at which the piece begins.
        offset: u64,
    },
    /// A piece of a snapshot.
    Chunk {
        /// The slot of the snapshot.
        slot: Slot,
        /// The offset at which the piece begins.
        offset: u64,
        /// Bytes of the whole.
        total: u64,
        /// The piece.
        data: Value,
    },
    /// The sender has no agreed snapshot at or above the slot asked for.
    NoSnapshot {
        /// The slot asked for.
        slot: Slot,
    },
    /// The sender's objects differ, and it finds no agreed snapshot: at slots after `after` and up to `upto` it has no say.
    NoSay {
        /// The last slot that its objects have executed.
        after: Slot,
        /// It takes over no state before this slot.
        upto: Slot,
    },
}

/// What replicas tell each other of the signs of life of sessions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SignsMessage {
    /// From the leader: clients of these sessions gave a sign of life.
    Note {
        /// Rises with each note of the sender, over its starts too.
        number: u64,
        /// The sessions, ascending, and the latest connection of each.
        sessions: Vec<(SessionId, Attachment)>,
    },
    /// The sender has noted that, in memory.
    Noted {
        /// The number of the note.
        number: u64,
    },
    /// What does the receiver know of the signs of life of all sessions? A leader answers once a quorum has confirmed it.
    Ask {
        /// The number of the question, which rises like those of notes.
        number: u64,
    },
    /// The answer.
    Answer {
        /// The number of the question.
        number: u64,
        /// Whether the sender led after the question had come, and had heard a quorum: then it knows all.
        is_all: bool,
        /// What it knows.
        known: Box<KnownSigns>,
    },
    /// The clients of these sessions, or their systems, have closed connections to the sender, or to a node that told it.
    Closed {
        /// The sessions, ascending, which connection it was, and how long ago.
        closes: Vec<(SessionId, Attachment, Duration)>,
    },
}
