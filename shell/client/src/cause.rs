//! Why an operation has no answer, as a type for programs and as text for people.
//!
//! [`CallError`](crate::CallError) says whether the operation may have been executed; a cause alone does not.

use crate::{Cause, Failure};
use quorate_session::PARKED_MAX;
use quorate_types::{ClusterId, PAYLOAD_BYTES_MAX, Refusal};

/// What kept an operation from its answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error)]
pub enum CallCause {
    /// It timed out.
    #[error("the deadline passed")]
    DeadlinePassed,
    /// The connection was lost on which it was sent, and it was to be sent once.
    #[error("the connection was lost, and the call was not to be sent again")]
    ConnectionLost,
    /// It was not ordered.
    #[error("it was not ordered")]
    NotOrdered,
    /// It was being ordered while the leader changed.
    #[error("the leader changed while it was being ordered")]
    LeaderChanged,
    /// The queues of the group are full: retry, more slowly.
    #[error("the group is overloaded")]
    Overloaded,
    /// Too many calls of the client wait in the group: connect once more for others.
    #[error(
        "{PARKED_MAX} calls of this connection wait in the group already, as many as one lets wait: connect once more for others, or \
         try again when some were answered"
    )]
    TooManyParked,
    /// The session ended while the operation was under way.
    #[error("the session expired")]
    SessionExpired,
    /// Another client resumed the session while the operation was under way.
    #[error("another process has resumed the session")]
    Superseded,
    /// It was executed, and its reply is no longer kept.
    #[error("it was executed, and its reply is gone")]
    ReplyGone,
    /// Its sequence was used before, with another payload.
    #[error("its sequence was used with another payload")]
    SequenceReused,
    /// The group replicates no such object.
    #[error("the group has no such object")]
    NoSuchObject,
    /// The replica no longer serves objects, for example because it diverged.
    #[error("the replica does not serve its objects")]
    NotServing,
    /// No leader is known.
    #[error("no leader is known")]
    NoLeader,
    /// Its payload is too large.
    #[error(
        "it is too large: a call or read carries at most {max} bytes (8 MiB less 4 KiB), the method's name included",
        max = PAYLOAD_BYTES_MAX
    )]
    TooLarge,
    /// Snapshots are off in this group.
    #[error("this group runs without snapshots")]
    NoSnapshots,
    /// Nothing is frozen there: no reset is to be made.
    #[error("the objects are not frozen, and nothing has changed")]
    NotFrozen,
    /// The replica named has no such snapshot, as far as the node that was asked knows.
    #[error(
        "the replica has no snapshot with this digest at this slot any more, and nothing has changed"
    )]
    NoSuchSnapshot,
    /// The objects do not stand still at the call named: no skip is to be made.
    #[error("the objects do not stand still at this call, and nothing has changed")]
    NoStuckCall,
    /// Not every replica has reported that its host died at the call.
    #[error(
        "not every replica has reported that its host died at the call before it could answer it, and nothing has changed"
    )]
    NotSkipped,
    /// An operator must choose the objects' state first.
    #[error("the objects are frozen, and nothing has changed")]
    Frozen,
    /// The view is another one by now, or about to be.
    #[error("another change of the view came first or is not yet over, and nothing has changed")]
    ViewConflict,
    /// No view can be like this.
    #[error(
        "there can be no such view: it takes acceptors that are members, and a window of 1 to 16384 slots; nothing has changed"
    )]
    NoSuchView,
    /// A majority of the acceptors named cannot take over.
    #[error(
        "too few of the acceptors that the view would have are up and have caught up, and nothing has changed"
    )]
    ViewNotReady,
    /// The invitation to join the group is not open: it was used, its time is over, or nobody made it.
    #[error("the invitation to join is used, over or unknown, and nothing has changed")]
    NotInvited,
    /// Another group has this name.
    #[error("another group has this name, and nothing has changed")]
    GroupExists,
    /// No group has this name.
    #[error("no group has this name, and nothing has changed")]
    UnknownGroup,
    /// No group can be like this.
    #[error(
        "there can be no such group: its nodes are members of the first group, at least one, and a cluster has at most 256 groups; \
         nothing has changed"
    )]
    ImpossibleGroup,
    /// Not every member speaks the level, as far as the node that was asked knows; or who joins does not.
    #[error(
        "a member does not speak this level, or is not linked to the node that was asked; or the node that joins does not speak the level of the group; nothing has changed"
    )]
    LevelNotSpoken,
    /// This node's storage is full; another may have room.
    #[error("the storage is full, nothing has happened")]
    StorageFull,
    /// The addresses belong to another cluster now: nothing was sent to it.
    #[error(
        "cluster {:016x} answers where cluster {:016x} did when this client connected, and nothing was sent to it: connect anew if it is the one you mean", .found.0, .pinned.0
    )]
    OtherCluster {
        /// The cluster that the client first spoke to.
        pinned: ClusterId,
        /// The one that answers.
        found: ClusterId,
    },
    /// The client was closed while the operation was under way.
    #[error("this client was closed")]
    ClientClosed,
}

impl CallCause {
    /// Every cause.
    pub const ALL: [CallCause; 31] = [
        CallCause::DeadlinePassed,
        CallCause::ConnectionLost,
        CallCause::NotOrdered,
        CallCause::LeaderChanged,
        CallCause::Overloaded,
        CallCause::TooManyParked,
        CallCause::SessionExpired,
        CallCause::Superseded,
        CallCause::ReplyGone,
        CallCause::SequenceReused,
        CallCause::NoSuchObject,
        CallCause::NotServing,
        CallCause::NoLeader,
        CallCause::TooLarge,
        CallCause::NoSnapshots,
        CallCause::NotFrozen,
        CallCause::NoSuchSnapshot,
        CallCause::NoStuckCall,
        CallCause::NotSkipped,
        CallCause::Frozen,
        CallCause::ViewConflict,
        CallCause::NoSuchView,
        CallCause::ViewNotReady,
        CallCause::NotInvited,
        CallCause::GroupExists,
        CallCause::UnknownGroup,
        CallCause::ImpossibleGroup,
        CallCause::LevelNotSpoken,
        CallCause::StorageFull,
        CallCause::OtherCluster {
            pinned: ClusterId(0),
            found: ClusterId(0),
        },
        CallCause::ClientClosed,
    ];

    /// Its name for programs in other languages; never changes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CallCause::DeadlinePassed => "deadline_passed",
            CallCause::ConnectionLost => "connection_lost",
            CallCause::NotOrdered => "not_ordered",
            CallCause::LeaderChanged => "leader_changed",
            CallCause::Overloaded => "overloaded",
            CallCause::TooManyParked => "too_many_parked",
            CallCause::SessionExpired => "session_expired",
            CallCause::Superseded => "superseded",
            CallCause::ReplyGone => "reply_gone",
            CallCause::SequenceReused => "sequence_reused",
            CallCause::NoSuchObject => "no_such_object",
            CallCause::NotServing => "not_serving",
            CallCause::NoLeader => "no_leader",
            CallCause::TooLarge => "too_large",
            CallCause::NoSnapshots => "no_snapshots",
            CallCause::NotFrozen => "not_frozen",
            CallCause::NoSuchSnapshot => "no_such_snapshot",
            CallCause::NoStuckCall => "no_stuck_call",
            CallCause::NotSkipped => "not_skipped",
            CallCause::Frozen => "frozen",
            CallCause::ViewConflict => "view_conflict",
            CallCause::NoSuchView => "no_such_view",
            CallCause::ViewNotReady => "view_not_ready",
            CallCause::NotInvited => "not_invited",
            CallCause::GroupExists => "group_exists",
            CallCause::UnknownGroup => "unknown_group",
            CallCause::ImpossibleGroup => "impossible_group",
            CallCause::LevelNotSpoken => "level_not_spoken",
            CallCause::StorageFull => "storage_full",
            CallCause::OtherCluster { .. } => "other_cluster",
            CallCause::ClientClosed => "client_closed",
        }
    }

    /// Whether every retry fails: the request itself is wrong.
    pub(crate) fn is_final(self) -> bool {
        match self {
            CallCause::SequenceReused
            | CallCause::NoSuchObject
            | CallCause::TooLarge
            | CallCause::NoSnapshots
            | CallCause::NotFrozen
            | CallCause::NoSuchSnapshot
            | CallCause::NoStuckCall
            | CallCause::NotSkipped
            | CallCause::Frozen
            | CallCause::ViewConflict
            | CallCause::NoSuchView
            | CallCause::ViewNotReady
            | CallCause::NotInvited
            | CallCause::GroupExists
            | CallCause::UnknownGroup
            | CallCause::ImpossibleGroup
            | CallCause::LevelNotSpoken => true,
            CallCause::DeadlinePassed
            | CallCause::ConnectionLost
            | CallCause::NotOrdered
            | CallCause::LeaderChanged
            | CallCause::Overloaded
            | CallCause::TooManyParked
            | CallCause::SessionExpired
            | CallCause::Superseded
            | CallCause::ReplyGone
            | CallCause::NotServing
            | CallCause::NoLeader
            | CallCause::StorageFull
            | CallCause::OtherCluster { .. }
            | CallCause::ClientClosed => false,
        }
    }
}

impl From<Failure> for CallCause {
    fn from(failure: Failure) -> CallCause {
        match failure.cause {
            Cause::DeadlinePassed => CallCause::DeadlinePassed,
            Cause::ConnectionLost => CallCause::ConnectionLost,
            Cause::TooManyParked => CallCause::TooManyParked,
            Cause::OtherCluster { pinned, found } => CallCause::OtherCluster { pinned, found },
            Cause::Refused(refusal) => match refusal {
                Refusal::NotOrdered => CallCause::NotOrdered,
                Refusal::Unknown => CallCause::LeaderChanged,
                Refusal::Overloaded => CallCause::Overloaded,
                Refusal::SessionExpired => CallCause::SessionExpired,
                Refusal::Superseded => CallCause::Superseded,
                Refusal::ReplyGone => CallCause::ReplyGone,
                Refusal::SequenceReused => CallCause::SequenceReused,
                Refusal::NoSuchObject => CallCause::NoSuchObject,
                Refusal::NotServing | Refusal::Behind => CallCause::NotServing,
                Refusal::NoLeader => CallCause::NoLeader,
                Refusal::TooLarge => CallCause::TooLarge,
                Refusal::NoSnapshots => CallCause::NoSnapshots,
                Refusal::NotFrozen => CallCause::NotFrozen,
                Refusal::NoSuchSnapshot => CallCause::NoSuchSnapshot,
                Refusal::NoStuckCall => CallCause::NoStuckCall,
                Refusal::NotSkipped => CallCause::NotSkipped,
                Refusal::Frozen => CallCause::Frozen,
                Refusal::ViewConflict => CallCause::ViewConflict,
                Refusal::NoSuchView => CallCause::NoSuchView,
                Refusal::ViewNotReady => CallCause::ViewNotReady,
                Refusal::NotInvited => CallCause::NotInvited,
                Refusal::GroupExists => CallCause::GroupExists,
                Refusal::UnknownGroup => CallCause::UnknownGroup,
                Refusal::ImpossibleGroup => CallCause::ImpossibleGroup,
                Refusal::LevelNotSpoken => CallCause::LevelNotSpoken,
                Refusal::StorageFull => CallCause::StorageFull,
            },
        }
    }
}
