//! One simulated node: the parts that survive a crash, and those that run while it is up.

use super::clock::{Clock, Moment};
use super::durable::{Disks, Storage};
use super::fault::BadCall;
use super::notes::Notes;
use super::objects::Objects;
use super::random::Random;
use super::row::Row;
use super::speculating::Ahead;
use super::stall::Stalled;
use super::watched::{Seen, Watched};
use bytes::Bytes;
use quorate_any::AnyMessage;
use quorate_ordering::Role;
use quorate_replica::{Input, Quarantine, Replica, SnapshotCore};
use quorate_types::{Ballot, Duration, Levels, NodeId, Recall, Slot, Starts, View, ViewNumber};
use quorate_wire::{Assembly, Cutter};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A node, up or down.
pub(super) struct Node {
    /// Which.
    pub id: NodeId,
    /// What survives a crash.
    pub disks: Disks,
    /// Its clocks.
    pub clock: Clock,
    /// Counts starts and stops: events of an earlier life are void.
    pub life: u64,
    /// What runs; `None` while it is down.
    pub running: Option<Box<Running>>,
    /// Its directory was emptied: it stays down.
    pub is_wiped: bool,
    /// The members that its directory names, and of which view.
    pub known: Option<View>,
    /// Its directory is a new one, and it has not started on it.
    pub is_new: bool,
    /// Its directory is an older copy; nobody has told it, and it has not come back from a loss that it found itself.
    pub is_old_copy: bool,
    /// What its build speaks.
    pub speaks: Levels,
    /// The build with which it is started next; none: any.
    pub next_build: Option<Levels>,
    /// Faults that keep its process still.
    pub paused: u64,
    /// The fault that stops its process in its next turn.
    pub stall_due: Option<usize>,
    /// Its process stands still in a turn.
    pub stalled: Option<Stalled>,
    /// The call of the disk that was made to fail last.
    pub bad_call: BadCall,
    /// Effects of faults that are counted once a fault.
    pub felt: BTreeSet<Row>,
    /// Faults that keep clients from it.
    pub isolated: u64,
    /// Faults that keep its objects still.
    pub hung: u64,
    /// Extra time of each commit.
    pub slow: Duration,
    /// Faults that keep its disks full.
    pub full: u64,
    /// How it is going to die.
    pub doom: Option<Doom>,
    /// The note that its objects must answer nobody; on disk, and durable at once.
    pub quarantine: Option<Quarantine>,
    /// What its lives executed and at which calls their hosts died, as far as it knows.
    pub notes: Notes,
    /// How far its objects had executed when this life last answered a client.
    pub answered: Slot,
    /// Its own choices.
    pub random: Random,
}

/// All nodes of a run, whose ids begin at 1. Every event looks up one or more: the place in the list is the id.
#[derive(Default)]
pub(super) struct Nodes(Vec<Node>);

impl Nodes {
    /// Adds the node with the next id.
    pub(super) fn add(&mut self, node: Node) {
        self.0.push(node);
        let last = self.0.len();
        assert_eq!(usize::from(self.0[last - 1].id.0), last, "ids have no gaps");
    }

    /// Says whether the run has this node.
    pub(super) fn contains(&self, id: NodeId) -> bool {
        (1..=self.0.len()).contains(&usize::from(id.0))
    }

    /// A node, to be changed.
    pub(super) fn node(&mut self, id: NodeId) -> &mut Node {
        assert!(
            self.contains(id),
            "faults and messages name nodes of the run"
        );
        &mut self.0[usize::from(id.0) - 1]
    }

    /// All nodes, by id.
    pub(super) fn values(&self) -> impl Iterator<Item = &Node> {
        self.0.iter()
    }

    /// All ids.
    pub(super) fn ids(&self) -> impl Iterator<Item = NodeId> {
        self.0.iter().map(|node| node.id)
    }
}

impl std::ops::Index<&NodeId> for Nodes {
    type Output = Node;
    fn index(&self, id: &NodeId) -> &Node {
        &self.0[usize::from(id.0) - 1]
    }
}

/// How a node is going to die.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doom {
    /// It dies after so many more outputs.
    pub outputs: u64,
    /// How long it stays down.
    pub down: Duration,
}

/// What the log's thread of a node is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogStep {
    /// Nothing, until something is due.
    Waits,
    /// Nothing, until something is due or it tries a full disk again at this moment.
    WaitsUntil(Moment),
    /// It writes and syncs; with a base among what it writes.
    Trims,
    /// It writes and syncs.
    Commits,
}

impl LogStep {
    /// Whether it writes.
    pub(super) fn is_under_way(self) -> bool {
        match self {
            LogStep::Waits | LogStep::WaitsUntil(_) => false,
            LogStep::Trims | LogStep::Commits => true,
        }
    }
}

/// What is lost when the process ends.
pub(super) struct Running {
    /// Which start of its directory this is.
    pub boot: u64,
    /// How much it remembers of what it promised and voted for.
    pub recall: Recall,
    /// The starts of its directory, this one last.
    pub starts: Starts,
    /// The view with which it came back, if it ever did.
    pub since: Option<ViewNumber>,
    /// Sessions, order, execution.
    pub replica: Replica<Watched>,
    /// What the ordering was given and decided.
    pub seen: Rc<RefCell<Seen>>,
    /// The open files.
    pub storage: Storage,
    /// The objects.
    pub objects: Objects,
    /// What they have of slots that are not decided.
    pub ahead: Ahead,
    /// What has arrived and was not handed in.
    pub inbox: Vec<Input<AnyMessage>>,
    /// A turn is coming.
    pub is_turn_due: bool,
    /// When the replica wants to be woken, as far as that is scheduled.
    pub alarm: Option<Moment>,
    /// Until when its replica may believe that the disk is full.
    pub full_until: Moment,
    /// What the log's thread is doing.
    pub commit: LogStep,
    /// A file of the log is being removed.
    pub is_removing: bool,
    /// A piece of work of the objects is under way.
    pub is_working: bool,
    /// Images that wait for the replica's part.
    pub images: BTreeMap<Slot, Vec<Bytes>>,
    /// Replica's parts that wait for images.
    pub cores: BTreeMap<Slot, (Box<SnapshotCore>, Slot)>,
    /// The snapshot that is being fetched.
    pub fetched: Option<(Slot, Vec<u8>)>,
    /// What its ordering had counted of steps when it was last looked at.
    pub steps: (u64, u64),
    /// Values that it multicasts, with the others of the turn.
    pub cutter: Cutter,
    /// Values that come by multicast.
    pub assembly: Assembly,
    /// Turns so far, for checks that need not follow each.
    pub turns: u64,
}

impl Running {
    /// The ballot in which it says that it leads.
    pub(super) fn leads(&self) -> Option<Ballot> {
        match self.seen.borrow().role {
            Some(Role::Leader { ballot }) => Some(ballot),
            Some(Role::Candidate { .. } | Role::Follower { .. }) | None => None,
        }
    }
}

impl Node {
    /// Whether its process runs and is not stopped.
    pub(super) fn is_awake(&self) -> bool {
        self.running.is_some() && self.paused == 0
    }
}
