//! Commands and the batches in which they are ordered.

use crate::{
    Ballot, Digest, Duration, FirstBallot, GroupChange, Level, MemberChange, MemberRole, NodeId,
    ObjectId, SecretHash, SessionId, SessionTerms, Slot, Tenancy, ViewChange, Wall,
};
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;

/// Bytes that a client, an object or a snapshot owns; shared, never copied.
pub type Value = Bytes;

/// Bytes of the largest payload of a call or read. A payload travels in one frame and is persisted in one
/// record, both of at most 8 MiB; 4 KiB of that are left for everything else in them.
pub const PAYLOAD_BYTES_MAX: usize = (8 << 20) - (4 << 10);

/// The id of one command, for good. Execution at most once is per id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CommandId {
    /// The session of the command.
    pub session: SessionId,
    /// Counts the session's commands from 1.
    pub sequence: u64,
}

/// A call, or a change of sessions, snapshots or expiry, that is to be ordered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Command {
    /// The session, and the number of the command in it.
    pub id: CommandId,
    /// The session needs no reply up to and including this sequence any more.
    pub acknowledged: u64,
    /// The content.
    pub body: Body,
}

// Each node moves every command several times, from a frame to a batch to the objects. What only rare ones have is boxed: with 136
// bytes each, calls took a thirtieth more processor time.
const _: () = assert!(size_of::<Command>() <= 96);

/// The place of a call: its slot, and its index in the batch of that slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CallPlace {
    /// The slot.
    pub slot: Slot,
    /// The index.
    pub index: u32,
}

/// The content of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    /// A call of a method of an object; only the object reads `payload`.
    Call {
        /// The object called.
        object: ObjectId,
        /// Method and arguments, as the object's host reads them.
        payload: Value,
    },
    /// Opens a session for the client that knows the secret of this hash. An open session with the same hash is the
    /// answer to a copy of the request.
    Open {
        /// The hash of the secret.
        hash: SecretHash,
        /// The terms of the session; those of a copy change nothing.
        terms: SessionTerms,
        /// Stands for the client that may resume it later, of all zeros for one that does not.
        tenant: SecretHash,
    },
    /// Begins another tenancy of the session, unless `tenant` has it already: calls, signs of life and closes of earlier ones
    /// have no effect from here on. It does nothing if a tenancy after `after` has begun.
    Resume {
        /// The session.
        session: SessionId,
        /// Stands for the client that resumes it.
        tenant: SecretHash,
        /// The tenancy that the proposer knew.
        after: Tenancy,
    },
    /// Ends a session at its client's request.
    Close,
    /// Ends `session`, unless a command of it, or the [`Body::Lead`] of a newer leader, was decided in a slot
    /// after `judged_by`.
    Expire {
        /// The session whose client gave no sign of life.
        session: SessionId,
        /// The last slot that the proposer had applied when it judged.
        judged_by: Slot,
    },
    /// The leader of `ballot` begins to judge which sessions have expired: expiries judged before this slot
    /// have no effect after it. It does nothing if a higher ballot has begun already.
    Lead {
        /// The leader's ballot.
        ballot: Ballot,
    },
    /// Agreed time has come so far that a deadline or a timer of the objects is due: what is due at the batch's stamp happens.
    Tick,
    /// Marks the place of reads in the log. One replica executes the reads; elsewhere it has no effect.
    Read {
        /// The node that answers the reads.
        reader: NodeId,
        /// The start of that node that asked; marks of an earlier start have no effect.
        boot: u64,
    },
    /// Every replica takes a snapshot of the state after this command's slot.
    Checkpoint,
    /// A replica's host died for good at one call. The call is skipped once every replica of the view has
    /// reported this and none of them can ever have executed it.
    Died {
        /// The node of the host.
        reporter: NodeId,
        /// The slot of the call.
        slot: Slot,
        /// Its index in the batch of that slot.
        index: u32,
        /// Whether an earlier start of the reporter may have executed and answered the call: then reports
        /// never skip it.
        may_have_answered: bool,
    },
    /// A replica's objects are past a call at which another replica's host died: reports never skip it.
    Survived {
        /// The node of the objects.
        reporter: NodeId,
        /// The slot of the call.
        slot: Slot,
        /// Its index in the batch of that slot.
        index: u32,
    },
    /// A replica whose earlier start reported that its host died at a call is about to execute the call again: its
    /// earlier reports count no more.
    Retry {
        /// The node of the host.
        reporter: NodeId,
        /// The slot of the call.
        slot: Slot,
        /// Its index in the batch of that slot.
        index: u32,
    },
    /// A replica that does not know which calls its earlier starts answered, or reported that their hosts died at, is
    /// about to execute them again: reports skip no call of an earlier slot any more.
    Keep {
        /// The node of the replica.
        reporter: NodeId,
    },
    /// An operator asks for the skip of one call. It counts as executed with the outcome [`crate::Outcome::Skipped`].
    Skip {
        /// The slot of the command to skip.
        slot: Slot,
        /// Its index in the batch of that slot.
        index: u32,
        /// Whatever the replicas have reported, the call is skipped where it is not executed yet. Without this the command
        /// changes nothing: its place in the log shows whether the reports before it have the call skipped.
        is_unsafe: bool,
    },
    /// At an operator's request, the state of one replica becomes every replica's: no majority agrees. All stop after this
    /// command's slot, and go on from the state that the replica has there. It does nothing where an earlier one has ended and
    /// `slot` is not after it.
    Reset {
        /// The node whose state counts.
        node: NodeId,
        /// Its start; a later one does not speak for it.
        boot: u64,
        /// The slot of a snapshot of that node.
        slot: Slot,
        /// What it holds. If it holds something else by now, the node says nothing and the objects stay frozen.
        digest: Digest,
    },
    /// A majority of the replicas holds the state that the [`Body::Reset`] of this slot made theirs: the objects may answer.
    Thaw {
        /// The slot of the reset.
        slot: Slot,
        /// What is held there: whoever reads the log again knows it from here.
        digest: Digest,
    },
    /// A majority of the replicas holds this snapshot durably: every node trims its log for it. An acceptor votes for it only where it
    /// holds a vote or a decision in every slot before. It does nothing if `slot` is not before the command's own.
    Collect {
        /// The last slot whose effects the snapshot holds.
        slot: Slot,
        /// What the majority holds.
        digest: Digest,
    },
    /// An operator invites a node: who knows the secret of this hash may join within a time.
    Invite {
        /// The hash of the secret.
        invitation: SecretHash,
        /// For how long, in agreed time.
        lasts: Duration,
    },
    /// At the request of an operator, or of a node that joins or comes back, another view follows, in force ω slots after this command's slot. It does nothing where that
    /// cannot be, above all where an earlier change has named the next view.
    ChangeView {
        /// What changes.
        change: ViewChange,
        /// What becomes of a member.
        who: Box<MemberChange>,
        /// Who leads the next view without phase 1, if it leads this one until then.
        first: Option<FirstBallot>,
    },
    /// An operator creates or drops a group beside this one.
    ChangeGroups {
        /// What changes.
        change: GroupChange,
    },
}

impl Body {
    /// The session that a command with this content may end; `id` is the command's.
    #[must_use]
    pub fn ended_session(&self, id: CommandId) -> Option<SessionId> {
        match self {
            Body::Close => Some(id.session),
            Body::Expire { session, .. } => Some(*session),
            Body::Call { .. }
            | Body::Open { .. }
            | Body::Resume { .. }
            | Body::Lead { .. }
            | Body::Tick
            | Body::Read { .. }
            | Body::Checkpoint
            | Body::Died { .. }
            | Body::Survived { .. }
            | Body::Retry { .. }
            | Body::Keep { .. }
            | Body::Skip { .. }
            | Body::Reset { .. }
            | Body::Thaw { .. }
            | Body::Collect { .. }
            | Body::Invite { .. }
            | Body::ChangeGroups { .. }
            | Body::ChangeView { .. } => None,
        }
    }
}

impl Command {
    /// What a node must speak that is to read it.
    #[must_use]
    pub fn level(&self) -> Level {
        match &self.body {
            Body::ChangeView { first, who, .. } => {
                let named = first.map_or(Level::UNNAMED, |_| Level::FIRST_BALLOT);
                named.max(level_of(who))
            }
            Body::Collect { .. } => Level::COLLECTED,
            Body::ChangeGroups { change } => change.level(),
            _ => Level::UNNAMED,
        }
    }

    /// The weight of this command in queues and windows, in bytes: payload and a fixed part.
    #[must_use]
    pub fn weight(&self) -> usize {
        const FIXED: usize = 64;
        FIXED
            + match &self.body {
                Body::Call { payload, .. } => payload.len(),
                Body::ChangeGroups { change } => change.bytes(),
                Body::ChangeView { who, .. } => match who.as_ref() {
                    MemberChange::Joins { member, .. } => member.address.len(),
                    MemberChange::Same
                    | MemberChange::Returns(_)
                    | MemberChange::Leaves(_)
                    | MemberChange::Level(_)
                    | MemberChange::Ordering(_)
                    | MemberChange::Quorums(_)
                    | MemberChange::Limit(_) => 0,
                },
                Body::Open { .. }
                | Body::Resume { .. }
                | Body::Close
                | Body::Expire { .. }
                | Body::Lead { .. }
                | Body::Tick
                | Body::Read { .. }
                | Body::Checkpoint
                | Body::Died { .. }
                | Body::Survived { .. }
                | Body::Retry { .. }
                | Body::Keep { .. }
                | Body::Skip { .. }
                | Body::Reset { .. }
                | Body::Thaw { .. }
                | Body::Collect { .. }
                | Body::Invite { .. } => 0,
            }
    }
}

/// What a node must speak that is to read what else a change of the view does.
fn level_of(who: &MemberChange) -> Level {
    match who {
        MemberChange::Level(_) => Level::NAMED,
        MemberChange::Ordering(ordering) => ordering.change_level(),
        MemberChange::Quorums(_) => Level::QUORUMS,
        MemberChange::Limit(_) => Level::LIMITS,
        MemberChange::Joins { role, .. } if *role == MemberRole::Witness => Level::WITNESSES,
        MemberChange::Same
        | MemberChange::Returns(_)
        | MemberChange::Joins { .. }
        | MemberChange::Leaves(_) => Level::UNNAMED,
    }
}

/// The environment in which a batch executes, equal on all replicas.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stamp {
    /// Time for the objects; rises from batch to batch over all leaders.
    pub wall: Wall,
    /// Seed of the objects' randomness, drawn by the leader.
    pub entropy: u64,
}

/// Commands ordered together in one slot. A batch without commands is a NOOP. Cloning shares.
#[derive(Clone)]
pub struct Batch(Arc<Inner>);

struct Inner {
    stamp: Stamp,
    commands: Vec<Command>,
    weight: usize,
    is_collecting: bool,
    encoded: std::sync::OnceLock<Bytes>,
}

impl Batch {
    /// The most commands of one batch; a session's id has 16 bits for the index.
    pub const COMMANDS_MAX: usize = 1 << 16;

    /// Makes a batch of `commands` with one stamp.
    #[must_use]
    pub fn new(stamp: Stamp, commands: Vec<Command>) -> Batch {
        assert!(
            commands.len() <= Self::COMMANDS_MAX,
            "a batch holds at most 65,536 commands"
        );
        let weight = 64 + commands.iter().map(Command::weight).sum::<usize>();
        let is_collect = |command: &Command| matches!(command.body, Body::Collect { .. });
        let is_collecting = commands.iter().any(is_collect);
        Batch(Arc::new(Inner {
            stamp,
            commands,
            weight,
            is_collecting,
            encoded: std::sync::OnceLock::new(),
        }))
    }

    /// A batch that was read from `encoded`, which is kept for [`Batch::encoded_with`], so that a node that
    /// forwards or logs it writes the same bytes again.
    #[must_use]
    pub fn decoded(stamp: Stamp, commands: Vec<Command>, encoded: Bytes) -> Batch {
        let batch = Batch::new(stamp, commands);
        let kept = batch.0.encoded.set(encoded);
        assert!(kept.is_ok(), "a new batch has no encoded form yet");
        batch
    }

    /// A batch that fills a slot and does nothing.
    #[must_use]
    pub fn noop() -> Batch {
        Batch::new(Stamp::default(), Vec::new())
    }

    /// The agreed environment.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        self.0.stamp
    }

    /// The commands in their order.
    #[must_use]
    pub fn commands(&self) -> &[Command] {
        &self.0.commands
    }

    /// The weight of the batch in queues and windows, in bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.0.weight
    }

    /// Whether a command of it is a [`Body::Collect`].
    #[must_use]
    pub fn is_collecting(&self) -> bool {
        self.0.is_collecting
    }

    /// The batch's encoded form; `encode` makes it on the first call, later calls share it.
    pub fn encoded_with(&self, encode: impl FnOnce(&Batch) -> Bytes) -> &Bytes {
        self.0.encoded.get_or_init(|| encode(self))
    }

    /// The batch's encoded form, if it is kept.
    #[must_use]
    pub fn encoded(&self) -> Option<&Bytes> {
        self.0.encoded.get()
    }

    /// Whether both are the same allocation, and so equal.
    #[must_use]
    pub fn is_same(&self, other: &Batch) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl PartialEq for Batch {
    fn eq(&self, other: &Batch) -> bool {
        self.is_same(other)
            || (self.0.stamp == other.0.stamp && self.0.commands == other.0.commands)
    }
}
impl Eq for Batch {}

impl fmt::Display for CommandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.session, self.sequence)
    }
}

impl fmt::Debug for CommandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.commands.is_empty() {
            return f.write_str("noop");
        }
        write!(f, "{:?}", self.0.commands)
    }
}
