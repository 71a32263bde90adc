//! Commands that the replica itself submits, with ids that no other submission has.

use quorate_ordering::ReadId;
use quorate_types::{Body, Command, CommandId, ConnectionId, NodeId, SecretHash, SessionId};
use std::collections::BTreeMap;

/// The purpose of an internal command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// Opens a session for the client with the secret of this hash.
    Open(SecretHash),
    /// Ends an expired session.
    Expire(SessionId),
    /// Has what is due happen.
    Tick,
    /// Marks where this leader begins to judge expiry.
    Lead,
    /// Asks for a checkpoint.
    Checkpoint,
    /// Reports the call at which the own host died, or that the objects are past such a call.
    Poison,
    /// Marks the place of a group of ordered reads.
    Read(ReadId),
    /// An operator's reset, at this request of a client.
    Reset(ConnectionId, u64),
    /// Says that a majority holds the state of a reset.
    Thaw,
    /// Has the logs trimmed.
    Collect,
    /// An operator's change of the view, at this request of a client.
    ChangeView(ConnectionId, u64),
    /// An operator's invitation, at this request of a client.
    Invite(ConnectionId, u64),
    /// An operator's change of the groups, at this request of a client.
    ChangeGroups(ConnectionId, u64),
    /// This node comes back as another incarnation.
    Rejoin,
    /// An operator's word about a poison call, at this request of a client.
    Skip(ConnectionId, u64),
}

/// Internal commands that are being ordered.
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

    /// Makes the command and remembers its purpose.
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

    /// The command is decided or refused: returns its purpose, if this start of this node submitted it.
    pub(crate) fn landed(&mut self, id: CommandId) -> Option<Purpose> {
        if id.session != SessionId::NONE {
            return None;
        }
        self.waiting.remove(&id.sequence)
    }

    /// Operators' words about poison calls that are being ordered.
    pub(crate) fn skips(&self) -> usize {
        let purposes = self.waiting.values();
        purposes
            .filter(|purpose| matches!(purpose, Purpose::Skip(..)))
            .count()
    }

    /// Operators' resets that are being ordered.
    pub(crate) fn resets(&self) -> usize {
        let purposes = self.waiting.values();
        let resets = purposes.filter(|purpose| matches!(purpose, Purpose::Reset(..)));
        resets.count()
    }

    /// Operators' invitations that are being ordered.
    pub(crate) fn invites(&self) -> usize {
        let purposes = self.waiting.values();
        let invites = purposes.filter(|purpose| matches!(purpose, Purpose::Invite(..)));
        invites.count()
    }

    /// Operators' changes of groups that are being ordered.
    pub(crate) fn group_changes(&self) -> usize {
        let purposes = self.waiting.values();
        let changes = purposes.filter(|purpose| matches!(purpose, Purpose::ChangeGroups(..)));
        changes.count()
    }

    /// A snapshot covered slots: commands in flight may have been decided in them.
    pub(crate) fn forget(&mut self) -> Vec<Purpose> {
        std::mem::take(&mut self.waiting).into_values().collect()
    }
}
