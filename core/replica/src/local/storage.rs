//! A full disk: the replica accepts nothing new, offers leadership to a peer, and continues to serve reads.
//!
//! The log's thread holds votes back while there is no room, so a call accepted here might wait for ever.
//! It is refused instead, before anything has happened. The node reports changes of the log's room.

use crate::Replica;
use quorate_ordering::{Event, Ordering, Role};

/// What is known of the log's room.
#[derive(Debug)]
pub(crate) struct Storage {
    has_room: bool,
    /// Leadership is offered once for each time that the disk is full: a group whose disks are all
    /// full does not pass it round.
    is_offered: bool,
}

impl Default for Storage {
    fn default() -> Storage {
        Storage {
            has_room: true,
            is_offered: false,
        }
    }
}

impl<O: Ordering> Replica<O> {
    /// The log has room again, or has none.
    pub(crate) fn room_changed(&mut self, has_room: bool) {
        self.storage.has_room = has_room;
        self.storage.is_offered &= !has_room;
        self.leave_to_who_has_room();
    }

    /// Whether new calls can be accepted here.
    pub(crate) fn has_room(&self) -> bool {
        self.storage.has_room
    }

    /// A leader without room offers leadership to the peer that acknowledged most; a peer with a full disk
    /// has not.
    pub(crate) fn leave_to_who_has_room(&mut self) {
        let leads = matches!(self.role, Role::Leader { .. });
        if leads && !self.storage.has_room && !self.storage.is_offered {
            self.storage.is_offered = true;
            self.raise(Event::TransferLeadership);
        }
    }
}
