//! Commands that the replica itself submits, under names no other submission has.

use quorate_ordering::ReadId;
use quorate_types::{Body, Command, CommandId, NodeId, SessionId};
use std::collections::BTreeMap;

/// What an internal command is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// Opens a session for the client with this nonce.
    Open(u64),
    /// Ends an expired session.
    Expire(SessionId),
    /// Says from where on this leader judges expiry.
    Lead,
    /// Asks for a checkpoint.
    Checkpoint,
    /// Says at which call the own host died for good, or that the objects are past one.
    Poison,
    /// Marks the place of a group of ordered reads.
    Read(ReadId),
}

/// Internal commands on the way to being ordered.
#[derive(Debug)]
pub(crate) struct Internals {
    /// Node and start in the high bits; counts in the low 32.
    last: u64,
    waiting: BTreeMap<u64, Purpose>,
}

impl Internals {
    pub(crate) fn new(own: NodeId, boot: u64) -> Internals {
        Internals {
            last: u64::from(own.0) << 48 | (boot & 0xffff) << 32,
            waiting: BTreeMap::new(),
        }
    }

    /// Makes the command and remembers what it is for.
    pub(crate) fn command(&mut self, purpose: Purpose, body: Body) -> Command {
        self.last += 1;
        self.waiting.insert(self.last, purpose);
        Command {
            id: CommandId {
                session: SessionId::NONE,
                sequence: self.last,
            },
            acknowledged: 0,
            body,
        }
    }

    /// The command is decided or refused: what it was for, if it is one of this start of this node.
    pub(crate) fn landed(&mut self, id: CommandId) -> Option<Purpose> {
        if id.session != SessionId::NONE {
            return None;
        }
        self.waiting.remove(&id.sequence)
    }

    /// Slots were passed over: whatever was on the way may have been decided in them.
    pub(crate) fn forget(&mut self) {
        self.waiting.clear();
    }
}
