//! What clients and replicas say to each other once they are connected.

use crate::{
    Attachment, CommandId, Digest, Duration, GroupChange, Level, Levels, LimitChange, Member,
    MemberRole, NodeId, ObjectId, OrderingName, QuorumRule, Secret, SecretHash, SessionId,
    SessionTerms, Slot, Tenancy, Value, ViewChange,
};

/// A client's request to the replica that it is connected to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FromClient {
    /// Register a session, and use it on this connection. Answered by [`ToClient::Opened`]. A copy, sent on any connection
    /// to any replica, gets the same session.
    Open {
        /// Drawn by the client.
        secret: Secret,
        /// What the client asks of it.
        terms: SessionTerms,
    },
    /// Go on with the session that was opened with this secret, in the place of the client that used it, or register one where
    /// there is none. Answered by [`ToClient::Resumed`] or [`ToClient::Opened`]. Copies for one tenant resume once.
    Resume {
        /// The secret of the session.
        secret: Secret,
        /// Stands for the client that asks: the hash of what it drew when it started.
        tenant: SecretHash,
        /// What the client asks of a session that is opened; one that is resumed keeps its terms.
        terms: SessionTerms,
    },
    /// Use an open session on this connection, before the first call or keepalive for it there. Answered only when
    /// refused.
    Attach {
        /// The session.
        session: SessionId,
        /// The secret of its open.
        secret: Secret,
        /// Which connection of the session this is. When it is numbered, the request is a sign of life.
        attachment: Attachment,
    },
    /// Call a method, at most once. May be sent again, to any replica, under the same id.
    Call {
        /// The id of the call, for good.
        id: CommandId,
        /// Replies up to and including this sequence need not be kept for the session.
        acknowledged: u64,
        /// The object called.
        object: ObjectId,
        /// Method and arguments.
        payload: Value,
    },
    /// The client of a call that was sent on this connection wants a tentative reply, if objects here execute the call before it is
    /// decided. Not answered by itself: a [`ToClient::Tentative`] may come before the answer to the call.
    Early {
        /// The id of the call.
        id: CommandId,
    },
    /// Call a method that changes nothing; nothing is logged unless the level says so.
    Read {
        /// The number of the read on this connection.
        request: u64,
        /// The object read.
        object: ObjectId,
        /// Method and arguments.
        payload: Value,
        /// How fresh the answer must be.
        level: ReadLevel,
        /// At level `Any`: the highest slot that an answer to this client reflected. The answer reflects it too.
        after: Slot,
    },
    /// A read at level [`ReadLevel::Broadcast`], sent to the replica in use; the other nodes hear of it by
    /// [`FromClient::Announce`]. Answered as [`FromClient::Read`] is, by the read's number.
    Broadcast {
        /// Which read it is.
        read: BroadcastId,
        /// The object read.
        object: ObjectId,
        /// Method and arguments.
        payload: Value,
    },
    /// The client has begun this read: the receiver confirms the leader that it follows for it. Not answered.
    Announce {
        /// Which read it is.
        read: BroadcastId,
    },
    /// A sign of life of the session's client.
    KeepAlive {
        /// The session.
        session: SessionId,
    },
    /// End a session and drop its replies.
    Close {
        /// The session.
        session: SessionId,
    },
    /// Ask every replica for a snapshot at one agreed slot.
    Checkpoint {
        /// The number of the request on this connection.
        request: u64,
    },
    /// An operator's word in a frozen group: the state of one replica becomes every replica's. Answered by
    /// [`ToClient::Checkpointed`] with the slot after which that replica's state counts.
    Reset {
        /// The number of the request on this connection.
        request: u64,
        /// The node of the replica.
        node: NodeId,
        /// The start of that node.
        boot: u64,
        /// The slot of its snapshot, at or after the one at which the objects froze.
        slot: Slot,
        /// What that snapshot holds.
        digest: Digest,
    },
    /// An operator's word about a call at which objects stand still. Answered by [`ToClient::Checkpointed`] with the slot of
    /// the call once the group skips it.
    Skip {
        /// The number of the request on this connection.
        request: u64,
        /// The slot of the call.
        slot: Slot,
        /// Its index in the batch of that slot.
        index: u32,
        /// It is skipped even if a replica may have executed it.
        is_unsafe: bool,
    },
    /// An operator changes the view. Answered by [`ToClient::Checkpointed`] with the first slot of the next view once that is in
    /// force where the request came.
    ChangeView {
        /// The number of the request on this connection.
        request: u64,
        /// What changes.
        change: ViewChange,
        /// Who is no member any more from then on.
        leaves: Option<NodeId>,
    },
    /// An operator changes the level of the group. Answered as [`FromClient::ChangeView`] is.
    SetLevel {
        /// The number of the request on this connection.
        request: u64,
        /// The view that is changed, with its acceptors and its window.
        change: ViewChange,
        /// The level from then on.
        level: Level,
    },
    /// An operator changes how the group's commands are ordered. Answered as [`FromClient::ChangeView`] is.
    SwitchOrdering {
        /// The number of the request on this connection.
        request: u64,
        /// The view that is changed, with its acceptors and its window.
        change: ViewChange,
        /// The ordering from then on.
        ordering: OrderingName,
    },
    /// An operator changes how many acceptors elect a leader and decide. Answered as [`FromClient::ChangeView`] is.
    SetQuorums {
        /// The number of the request on this connection.
        request: u64,
        /// The view that is changed, with its acceptors and its window.
        change: ViewChange,
        /// How many acceptors each phase needs from then on.
        rule: QuorumRule,
    },
    /// An operator changes a limit of the group. Answered as [`FromClient::ChangeView`] is.
    SetLimit {
        /// The number of the request on this connection.
        request: u64,
        /// The view that is changed, with its acceptors and its window.
        change: ViewChange,
        /// The limit from then on.
        limit: LimitChange,
    },
    /// An operator has the leader hand on to another node. Answered by [`ToClient::Checkpointed`] once the leader has begun to, or
    /// where that node leads: it may yet fail.
    MoveLeader {
        /// The number of the request on this connection.
        request: u64,
        /// Who is to lead, an acceptor of the view.
        node: NodeId,
    },
    /// An operator invites a node. Answered by [`ToClient::Checkpointed`] with the slot in which that is decided.
    Invite {
        /// The number of the request on this connection.
        request: u64,
        /// The hash of the secret that it must come with.
        invitation: SecretHash,
        /// For how long it may come.
        lasts: Duration,
    },
    /// A node that was invited joins the group. Answered by [`ToClient::Checkpointed`] with the first slot of the view that names it
    /// once that is in force where the request came.
    Join {
        /// The number of the request on this connection.
        request: u64,
        /// What changes besides.
        change: ViewChange,
        /// The node.
        member: Member,
        /// What it was invited with.
        secret: Secret,
        /// What it speaks.
        speaks: Levels,
        /// What it does as a member.
        role: MemberRole,
    },
    /// An operator creates or drops a group. Answered by [`ToClient::Checkpointed`] with the slot in which that is decided, or was
    /// before.
    ChangeGroups {
        /// The number of the request on this connection.
        request: u64,
        /// What changes.
        change: GroupChange,
    },
}

/// Names a read that its client announces to every node. No two reads have one name: it stands for the read, however often that is
/// sent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BroadcastId {
    /// Stands for the client: the hash of what it drew when it started.
    pub client: SecretHash,
    /// The number of the read at that client.
    pub number: u64,
}

/// How fresh the answer of a read must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadLevel {
    /// In the log like a write, executed by one replica only.
    Ordered,
    /// Linearizable: a majority confirmed the leader after the read had arrived.
    Confirmed,
    /// Linearizable like `Confirmed`: the client announces the read to every node, so that the confirmations are on their way
    /// before the leader could ask for them (X-Paxos). One message delay less; no two reads share confirmations.
    Broadcast,
    /// Linearizable while clocks drift less than the stated bound: answered under the leader's lease.
    Lease,
    /// Possibly stale: the state of this replica; the answer tells slot and age (OpenReplica 3.8). It is no older than
    /// what this client has read before, also at another replica.
    Any,
    /// Like `Any`, and it may be older than what this client has read before.
    Loose,
}

impl ReadLevel {
    /// All of them.
    pub const ALL: [ReadLevel; 6] = [
        ReadLevel::Ordered,
        ReadLevel::Confirmed,
        ReadLevel::Broadcast,
        ReadLevel::Lease,
        ReadLevel::Any,
        ReadLevel::Loose,
    ];

    /// The name that callers write.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ReadLevel::Ordered => "ordered",
            ReadLevel::Confirmed => "confirmed",
            ReadLevel::Broadcast => "broadcast",
            ReadLevel::Lease => "lease",
            ReadLevel::Any => "any",
            ReadLevel::Loose => "loose",
        }
    }

    /// The level of that name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<ReadLevel> {
        ReadLevel::ALL
            .into_iter()
            .find(|level| level.name() == name)
    }
}

/// A replica's answer or notice to a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToClient {
    /// The session is open.
    Opened {
        /// The hash of the secret in the request.
        hash: SecretHash,
        /// The new session.
        session: SessionId,
        /// Time without a sign of life after which the session may expire.
        expiry: Duration,
    },
    /// The session is this client's from here on. What the one before asked in it is refused or has its outcome.
    Resumed {
        /// The hash of the secret in the request.
        hash: SecretHash,
        /// The session.
        session: SessionId,
        /// Those with which it was opened.
        terms: SessionTerms,
        /// The client's sequences and attachments begin with this tenancy.
        tenancy: Tenancy,
    },
    /// There is no place for another session: ask again. A client that does keeps its place in the line.
    Full {
        /// The hash of the secret in the request.
        hash: SecretHash,
        /// After how long to ask again.
        retry_after: Duration,
    },
    /// A call was executed, once, and this is its outcome.
    Replied {
        /// The id of the call.
        id: CommandId,
        /// The value returned or the exception raised.
        outcome: Outcome,
    },
    /// A call that is not decided returned this value where it was executed ahead of that. It is no answer: one follows, or the call is
    /// refused, or its outcome stays unknown.
    Tentative {
        /// The id of the call, which this connection wanted early.
        id: CommandId,
        /// The value returned.
        value: Value,
    },
    /// A call was executed, once, and returned what the newest [`ToClient::Tentative`] of it on this connection said.
    Confirmed {
        /// The id of the call.
        id: CommandId,
    },
    /// A call was executed and waits: another call will answer it. Its reply follows on this connection, or is asked for
    /// again on another.
    Parked {
        /// The id of the call.
        id: CommandId,
    },
    /// A read's answer.
    Read {
        /// The number of the read.
        request: u64,
        /// The answer reflects at least all slots up to this one.
        slot: Slot,
        /// At most so long ago a leader knew nothing newer to be decided; zero for linearizable levels.
        age: Duration,
        /// The value returned or the exception raised.
        outcome: Outcome,
    },
    /// The request named by `ask` is not answered, for this reason.
    Refused {
        /// The request that is refused.
        ask: Ask,
        /// The reason, which also says whether it may have been executed.
        refusal: Refusal,
    },
    /// The keepalive counts: the session stays open for at least the expiry time from its sending.
    KeptAlive {
        /// The session.
        session: SessionId,
    },
    /// A checkpoint was decided in this slot.
    Checkpointed {
        /// The number of the request.
        request: u64,
        /// The agreed slot.
        slot: Slot,
    },
    /// The current leader; calls sent to it save a hop. `None` if no leader is known.
    Leader {
        /// The leader's node, if known.
        leader: Option<NodeId>,
    },
}

/// The request that a refusal is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// An open, by the hash of its secret.
    Open(SecretHash),
    /// A call, by id.
    Call(CommandId),
    /// A read or checkpoint, by request number.
    Request(u64),
    /// An attach, keepalive or close, by session.
    Session(SessionId),
}

/// The result of a call, the same on every replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It returned this value.
    Returned(Value),
    /// It raised this exception; what it had changed before stays, as it would locally.
    Raised(Value),
    /// The group skipped it because it ends every host; it changed nothing.
    Skipped,
}

/// Why a request has no outcome. [`Refusal::may_have_executed`] is what a client must know first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It was not ordered and will not be: send it again.
    NotOrdered,
    /// It may have been ordered: send it again under the same id.
    Unknown,
    /// Queues or windows are full: nothing has happened, try later.
    Overloaded,
    /// This connection has not proven that an open session of this id is its own. For the client that opened the session
    /// this means that it has ended: its calls without an answer may have been executed. Nobody learns from it which
    /// sessions exist.
    SessionExpired,
    /// It was executed or given up, and its reply is no longer kept.
    ReplyGone,
    /// The sequence was used before with another payload.
    SequenceReused,
    /// The group has no object of that number.
    NoSuchObject,
    /// This replica does not serve objects (behind, diverged, or stopping): ask another.
    NotServing,
    /// No leader is known here: ask another replica or try again.
    NoLeader,
    /// The payload is larger than allowed.
    TooLarge,
    /// The group runs without snapshots.
    NoSnapshots,
    /// This node's storage is full: nothing has happened. Another node may have room.
    StorageFull,
    /// This replica has not executed what this client has seen elsewhere: ask another.
    Behind,
    /// Nothing is to be reset: the objects here are not frozen. Nothing has changed.
    NotFrozen,
    /// The replica named has no snapshot with this digest at this slot, as far as is known here. Nothing has changed.
    NoSuchSnapshot,
    /// Nothing is to be skipped: the objects here do not stand still at this call, and no host is down at it. Nothing has changed.
    NoStuckCall,
    /// Not every replica has reported that its host died at the call before it answered it; or, where it was to be skipped all the
    /// same, a majority is past it. Nothing has changed.
    NotSkipped,
    /// The objects are frozen: first an operator must choose their state. Nothing has changed.
    Frozen,
    /// Another change of the view came first, or is not yet over. Nothing has changed.
    ViewConflict,
    /// There can be no such view: it names a node that is no member, no acceptor, or a window out of range. Nothing has changed.
    NoSuchView,
    /// Too few of the acceptors that the view would have are linked to the leader, or have what was decided. Nothing has changed.
    ViewNotReady,
    /// The invitation to join was used, its time is over, or nobody made it. Nothing has changed.
    NotInvited,
    /// Another group has this name. Nothing has changed.
    GroupExists,
    /// No group has this name. Nothing has changed.
    UnknownGroup,
    /// There can be no such group: it names nodes that are no members, its name is none, or there are as many groups as can be.
    /// Nothing has changed.
    ImpossibleGroup,
    /// A member is not linked to the node that was asked, or does not speak the level; or the node that joins does not; or the level
    /// of the group and its ordering would not go together. Nothing has changed.
    LevelNotSpoken,
    /// Another client has resumed the session: it is this client's no more. Calls without an answer may have been executed
    /// before, and are not from then on.
    Superseded,
}

impl Refusal {
    /// Whether the request may have been executed nevertheless.
    #[must_use]
    pub fn may_have_executed(self) -> bool {
        match self {
            Refusal::Unknown
            | Refusal::SessionExpired
            | Refusal::Superseded
            | Refusal::ReplyGone => true,
            Refusal::NotOrdered
            | Refusal::Overloaded
            | Refusal::SequenceReused
            | Refusal::NoSuchObject
            | Refusal::NotServing
            | Refusal::NoLeader
            | Refusal::TooLarge
            | Refusal::NoSnapshots
            | Refusal::StorageFull
            | Refusal::Behind
            | Refusal::NotFrozen
            | Refusal::NoSuchSnapshot
            | Refusal::NoStuckCall
            | Refusal::NotSkipped
            | Refusal::Frozen
            | Refusal::ViewConflict
            | Refusal::NoSuchView
            | Refusal::ViewNotReady
            | Refusal::NotInvited
            | Refusal::GroupExists
            | Refusal::UnknownGroup
            | Refusal::ImpossibleGroup
            | Refusal::LevelNotSpoken => false,
        }
    }
}
