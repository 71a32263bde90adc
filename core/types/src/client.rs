//! What clients and replicas say to each other once they are connected.

use crate::{CommandId, Duration, NodeId, ObjectId, SessionId, Slot, Value};

/// A client's request to the replica that it is connected to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FromClient {
    /// Register a session. Answered by [`ToClient::Opened`] with the same nonce.
    Open {
        /// Drawn by the client, so that it knows its own answer.
        nonce: u64,
    },
    /// Call a method, at most once. May be sent again, to any replica, under the same id.
    Call {
        /// The call's name for ever.
        id: CommandId,
        /// Replies up to and including this sequence need not be kept for the session.
        acknowledged: u64,
        /// The object called.
        object: ObjectId,
        /// Method and arguments.
        payload: Value,
    },
    /// Call a method that changes nothing; nothing is logged unless the level says so.
    Read {
        /// Tells reads of one connection apart.
        request: u64,
        /// The object read.
        object: ObjectId,
        /// Method and arguments.
        payload: Value,
        /// How fresh the answer must be.
        level: ReadLevel,
    },
    /// The session's client is alive.
    KeepAlive {
        /// Whose session.
        session: SessionId,
    },
    /// End a session: its replies are forgotten.
    Close {
        /// Whose session.
        session: SessionId,
    },
    /// Ask every replica for a snapshot at one agreed slot.
    Checkpoint {
        /// Tells requests of one connection apart.
        request: u64,
    },
}

/// How fresh the answer of a read must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadLevel {
    /// In the log like a write, executed by one replica only.
    Ordered,
    /// Linearizable: a majority confirmed the leader after the read had arrived.
    Confirmed,
    /// Linearizable while clocks drift less than the stated bound: answered under the leader's lease.
    Lease,
    /// Inconsistent: whatever this replica has; the answer says slot and age (OpenReplica 3.8).
    Any,
}

/// A replica's answer or notice to a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToClient {
    /// The session is open.
    Opened {
        /// The nonce of the request.
        nonce: u64,
        /// The new session.
        session: SessionId,
        /// Silence after which the session may be expired.
        expiry: Duration,
    },
    /// A call was executed, once, and this is its outcome.
    Replied {
        /// Which call.
        id: CommandId,
        /// What it returned or raised.
        outcome: Outcome,
    },
    /// A read's answer.
    Read {
        /// Which read of this connection.
        request: u64,
        /// The answer reflects at least all slots up to this one.
        slot: Slot,
        /// How long ago the replica last knew itself current; zero for linearizable levels.
        age: Duration,
        /// What it returned or raised.
        outcome: Outcome,
    },
    /// The request named by `ask` is not answered, for this reason.
    Refused {
        /// What is refused.
        ask: Ask,
        /// Why, and with that whether it may have been executed.
        refusal: Refusal,
    },
    /// The keepalive counts: the session lives at least its expiry from when it was sent.
    KeptAlive {
        /// Whose session.
        session: SessionId,
    },
    /// A checkpoint was decided in this slot.
    Checkpointed {
        /// Which request of this connection.
        request: u64,
        /// The agreed slot.
        slot: Slot,
    },
    /// Who leads now; calls reach it one hop sooner. `None` when nobody is known to.
    Leader {
        /// The leader's node, if known.
        leader: Option<NodeId>,
    },
}

/// Names the request that a refusal speaks of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// An open, by nonce.
    Open(u64),
    /// A call, by id.
    Call(CommandId),
    /// A read or checkpoint, by request number.
    Request(u64),
    /// A keepalive or close, by session.
    Session(SessionId),
}

/// What a method did, as every replica saw it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It returned this value.
    Returned(Value),
    /// It raised this exception; what it had changed before stays, as it would locally.
    Raised(Value),
    /// It was skipped by decision because it kills every host; nothing of it was kept.
    Skipped,
}

/// Why a request has no outcome. [`Refusal::may_have_executed`] is what a client must know first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It was not ordered and will not be: send it again.
    NotOrdered,
    /// It may have been ordered: send it again under the same id.
    Unknown,
    /// Queues or windows are full: nothing happened, try later.
    Overloaded,
    /// The session is over: what it had not heard of may have been executed.
    SessionExpired,
    /// It was executed, and its reply has been forgotten since.
    ReplyGone,
    /// The sequence was used before with another payload.
    SequenceReused,
    /// The group has no object of that number.
    NoSuchObject,
    /// This replica does not serve objects (behind, diverged, or leaving): ask another.
    NotServing,
    /// No leader is known here: ask another replica or try again.
    NoLeader,
    /// The request is larger than a batch may be.
    TooLarge,
    /// Nobody votes for this group's snapshots: it runs without.
    NoSnapshots,
    /// This node's storage is full: nothing happened. Another node may have room.
    StorageFull,
}

impl Refusal {
    /// Says whether the request may have been executed all the same.
    #[must_use]
    pub fn may_have_executed(self) -> bool {
        match self {
            Refusal::Unknown | Refusal::SessionExpired | Refusal::ReplyGone => true,
            Refusal::NotOrdered
            | Refusal::Overloaded
            | Refusal::SequenceReused
            | Refusal::NoSuchObject
            | Refusal::NotServing
            | Refusal::NoLeader
            | Refusal::TooLarge
            | Refusal::NoSnapshots
            | Refusal::StorageFull => false,
        }
    }
}
