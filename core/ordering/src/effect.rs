//! The outputs of an ordering protocol.

use crate::{ConflictingDecisions, Mark, ReadId, Record, Role};
use quorate_types::{Batch, Command, CommandId, NodeSet, Refusal, Slot, Time};

/// Effects in the order in which the caller must perform them. The caller owns and empties the list.
pub type Effects<M> = Vec<Effect<M>>;

/// Which queue of a link a message takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    /// Heartbeats, elections, confirmations: small messages that never wait behind large ones.
    Urgent,
    /// Agreement.
    Normal,
    /// Catch-up and snapshots.
    Bulk,
    /// No queue of a link: a datagram to all members at once, which each may get late, twice or never. Only where
    /// [`crate::Limits::values`] says that there is multicast.
    Multicast,
}

/// What was decided for a slot.
#[derive(Clone, PartialEq, Debug)]
pub enum Decision {
    /// This batch, for good.
    Batch(Batch),
}

/// One output of an ordering protocol.
#[derive(Clone, PartialEq, Debug)]
pub enum Effect<M> {
    /// Send `message` to each node of `to`. Never names this node.
    Send {
        /// Receivers.
        to: NodeSet,
        /// Queue of the link.
        lane: Lane,
        /// The message.
        message: M,
    },
    /// Append `record` to the log; [`crate::Event::Persisted`] tells when it is durable.
    Persist {
        /// Number of this write, one more than the last.
        mark: Mark,
        /// The record.
        record: Record,
    },
    /// `slot` is decided. Slots are decided in ascending order without gaps.
    Decide {
        /// The slot.
        slot: Slot,
        /// Its batch.
        decision: Decision,
    },
    /// This node votes for `batch` in `slot`: it is ordered there unless a later round decides otherwise. A later one for the same
    /// slot takes the place of an earlier one. Only where [`crate::Config::tells_tentative`] asks for it; nothing may leave the
    /// replica that depends on it.
    Tentative {
        /// The slot.
        slot: Slot,
        /// The batch.
        batch: Batch,
    },
    /// At `at`, on this node's clock, no leader knew a slot above `slot` to be decided: a replica that has executed
    /// `slot` has a state that was the newest then.
    Current {
        /// The slot.
        slot: Slot,
        /// The time.
        at: Time,
    },
    /// The node's role changed.
    Role(Role),
    /// The read may be answered once everything up to `barrier` is executed.
    Confirmed {
        /// The read.
        read: ReadId,
        /// The highest slot the answer must reflect.
        barrier: Slot,
        /// Until when the confirmation holds, for a read under a lease: checked after the value was
        /// read and before the reply leaves.
        until: Option<quorate_types::Time>,
    },
    /// The read cannot be confirmed here and now; nothing was promised.
    Unconfirmed {
        /// The read.
        read: ReadId,
    },
    /// The view is over, and these submissions are in none of its slots that this node proposed or applied. A copy may be: whoever
    /// executes them does so once.
    Unordered {
        /// The commands.
        commands: Vec<Command>,
    },
    /// Agreement is broken: stop at once, send nothing more, and do not vote again.
    Conflict(ConflictingDecisions),
    /// Everything that was lost from a damaged log is known and written again. The next start need not report the damage.
    Repaired,
    /// Peers have trimmed slots that this node lacks: it needs a snapshot at or above `upto`.
    NeedSnapshot {
        /// The lowest slot of a snapshot that helps.
        upto: Slot,
    },
    /// This submission does not order the command: [`Refusal::NotOrdered`] if that is certain,
    /// [`Refusal::Unknown`] if a forwarded copy may still be ordered, [`Refusal::Overloaded`] if queues are full.
    Refuse {
        /// The command.
        command: CommandId,
        /// The reason.
        refusal: Refusal,
    },
    /// Records of slots up to `upto` may be removed from the log once `base` is durable in it. The base
    /// records restate everything that must remain.
    Discard {
        /// The last slot whose records may be removed.
        upto: Slot,
        /// The records that must be written first.
        base: Vec<Record>,
    },
}

impl<M> Effect<M> {
    /// Converts the message of the effect, if it has one, with `wrap`.
    pub fn map<N>(self, wrap: impl FnOnce(M) -> N) -> Effect<N> {
        match self {
            Effect::Send { to, lane, message } => Effect::Send {
                to,
                lane,
                message: wrap(message),
            },
            Effect::Persist { mark, record } => Effect::Persist { mark, record },
            Effect::Decide { slot, decision } => Effect::Decide { slot, decision },
            Effect::Tentative { slot, batch } => Effect::Tentative { slot, batch },
            Effect::Role(role) => Effect::Role(role),
            Effect::Confirmed {
                read,
                barrier,
                until,
            } => Effect::Confirmed {
                read,
                barrier,
                until,
            },
            Effect::Unconfirmed { read } => Effect::Unconfirmed { read },
            Effect::Current { slot, at } => Effect::Current { slot, at },
            Effect::Unordered { commands } => Effect::Unordered { commands },
            Effect::Conflict(conflict) => Effect::Conflict(conflict),
            Effect::Repaired => Effect::Repaired,
            Effect::NeedSnapshot { upto } => Effect::NeedSnapshot { upto },
            Effect::Refuse { command, refusal } => Effect::Refuse { command, refusal },
            Effect::Discard { upto, base } => Effect::Discard { upto, base },
        }
    }
}
