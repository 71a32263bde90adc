//! Events from a host to the node: outcomes, images, and the state of its process.

use crate::image::ObjectImage;
use quorate_ordering::ReadId;
use quorate_types::{ObjectId, Outcome, PartsList, Slot, SlotResults, Wall};
use std::time::Duration;

/// What the host has to tell.
#[derive(Clone, PartialEq, Debug)]
pub enum HostEvent {
    /// The steps of `slot` were executed; slots come in the order in which they were handed in.
    Executed {
        /// The slot of the batch.
        slot: Slot,
        /// What came of them.
        results: SlotResults,
    },
    /// The agreed time at which the objects have something to do first has changed. Comes before the event of what changed it.
    Due {
        /// That time, if they have anything to do at all.
        at: Option<Wall>,
    },
    /// A query was answered.
    Queried {
        /// The id of the query.
        read: ReadId,
        /// What it returned or raised.
        outcome: Outcome,
    },
    /// The state frozen at `slot` is encoded.
    Imaged {
        /// The slot of the batch.
        slot: Slot,
        /// One image per object, ascending by object.
        images: Vec<ObjectImage>,
        /// Their parts. The digest is equal on replicas whose objects are equal by value.
        parts: PartsList,
    },
    /// The state at `slot` could not be frozen or encoded; calls go on.
    ImageFailed {
        /// The slot of the batch.
        slot: Slot,
        /// Why, with the path of the value that cannot be encoded if that is the reason.
        reason: String,
    },
    /// The objects hold the state of the images.
    Restored {
        /// The slot of the images.
        slot: Slot,
    },
    /// The images could not be restored; the objects are as they were before.
    RestoreFailed {
        /// The slot of the images.
        slot: Slot,
        /// The reason.
        reason: String,
    },
    /// The objects have the state back that they had after this slot.
    Undone {
        /// The last slot that is executed in it.
        after: Slot,
    },
    /// The host process works (again).
    Up,
    /// The host process stopped; it is started again unless `is_final`.
    Down {
        /// What happened to it.
        reason: String,
        /// The call that it was executing, if any.
        call: Option<RunningCall>,
        /// It died repeatedly at one call and is not started again. Nothing is skipped: only a decision of
        /// the group may do that.
        is_final: bool,
    },
    /// A call has not returned for some time. The process is killed after `call_timeout`. Comes again while
    /// the call runs.
    Hanging {
        /// The call that does not return.
        call: RunningCall,
        /// How long ago it began.
        since: Duration,
    },
}

/// A call that keeps its host from going on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StuckCall {
    /// Which call.
    pub call: RunningCall,
    /// How long the host has been at it, starts anew included.
    pub since: Duration,
    /// What happens next.
    pub held: StuckUntil,
}

/// What happens to a call that keeps its host from going on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StuckUntil {
    /// Its process is killed when it has taken this long.
    Timeout(Duration),
    /// Nothing ends it.
    Endless,
    /// It ended several processes: the host stays down until the group skips it or a snapshot is past it.
    Down,
}

/// The call that the host process was executing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunningCall {
    /// The slot of its batch; `None` for a query.
    pub slot: Option<Slot>,
    /// Its index in the batch.
    pub index: u32,
    /// The object called.
    pub object: ObjectId,
    /// Its name, if it was created while the group runs and the process has noted it.
    pub name: Option<String>,
    /// The method called.
    pub method: String,
}

impl RunningCall {
    /// What tells it from every other one.
    pub(crate) fn place(&self) -> (Option<Slot>, u32, ObjectId, &str) {
        (self.slot, self.index, self.object, &self.method)
    }
}
