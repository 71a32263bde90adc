//! Plain values of the log's interface: what it takes, what it recovers, and its status.

use bytes::Bytes;
use quorate_types::{GroupId, Slot};

/// A place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Number of the segment; its file is `log-` and eight hexadecimal digits.
    pub segment: u32,
    /// Byte in the file.
    pub offset: u64,
}

/// What damage has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// A record of this group and slot.
    Record {
        /// Its group.
        group: GroupId,
        /// Its slot.
        slot: Slot,
    },
    /// A base: what it restated of the group is lost, and what it replaced may be gone.
    Base {
        /// Its group.
        group: GroupId,
        /// The slot up to which it spoke.
        upto: Slot,
    },
    /// Any number of records of any group. The node knows neither what it voted nor what it promised.
    Unknown,
}

/// One thing that a log gives back when it is opened, in the order in which it was appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveredRecord {
    /// A record as it was appended.
    Record {
        /// Its group.
        group: GroupId,
        /// Its slot.
        slot: Slot,
        /// Its bytes.
        bytes: Bytes,
    },
    /// The newest base of a group. Records that it replaces are not given any more.
    Base {
        /// Its group.
        group: GroupId,
        /// Records of the group up to here are gone.
        upto: Slot,
        /// Its bytes.
        bytes: Bytes,
    },
    /// Something durable that cannot be read any more. The caller answers `unknown` for it, never `none`. A later record of
    /// the same slot repairs it; otherwise it is given again at every opening until `Log::repaired` or a discard.
    Faulty {
        /// Where.
        position: Position,
        /// What.
        lost: Lost,
    },
}

/// One record on its way into the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    /// The group it belongs to.
    pub group: GroupId,
    /// The highest slot it speaks of, `Slot::ZERO` for none.
    pub slot: Slot,
    /// Its bytes.
    pub record: Bytes,
}

/// How much the log can still take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Room {
    /// The next segment is reserved, or this one is long.
    Plenty,
    /// Little is left on the disk: what snapshots and discards can free should be freed soon.
    Scarce,
    /// The disk is full and only the reserve is left: take no votes and no commands, so that promises still fit.
    Low,
    /// Nothing more fits but a discard.
    Full,
}
