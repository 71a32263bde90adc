//! The faults: one value is one fault of a schedule.
//!
//! A fault names a node, or a role at the moment when the fault begins. `faults` performs it, `fault_text` writes and reads
//! it as text, `row` counts its effects.

use quorate_types::{Duration, NodeId, NodeSet};

/// Whom a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// This node.
    Node(NodeId),
    /// Who leads when the fault begins, by its own word; of several the one of the highest ballot.
    Leader,
    /// Whom the newest fault with `leader` struck.
    Struck,
    /// Whoever comes first to what the fault waits for.
    Any,
}

/// A call of the disk that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadCall {
    /// The next write.
    Write,
    /// The next sync.
    Sync,
    /// The next reading, when the node starts.
    Read,
}

/// A part of a node's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The log's segments.
    Log,
    /// The snapshots.
    Snapshots,
    /// One copy of the identity.
    Identity,
    /// The end of the log, as far back as it has records of the newest view.
    View,
}

impl Part {
    /// A quarter of what strikes the log takes its end. The bit decides: a draw of its own would change all that is drawn after it.
    pub(super) fn drawn(self, bit: u64) -> Part {
        match self {
            Part::Log if bit >> 62 == 0 => Part::View,
            part => part,
        }
    }
}

/// Files that vanish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// All of the log.
    Whole,
    /// The newest segment.
    Newest,
}

/// A step at which a process may be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KillStep {
    /// A candidate asks for promises or gets one.
    PhaseOne,
    /// A node keeps a piece of a snapshot.
    Fetch,
    /// A node takes a fetched snapshot over: before it is durable, after it, and when the objects hold it.
    Install,
    /// A node is asked for decided slots that a peer lacks.
    Asked,
    /// A node writes a snapshot; `after` counts changes of the disk.
    Save,
    /// A node writes a base and removes what it replaces; `after` counts changes of the disk.
    Trim,
    /// A node takes part in a view for the first time; `after` counts milliseconds, and the end of its log is damaged while it is
    /// down, as far back as it has records of that view.
    Turn,
}

/// One thing that goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "a field reads as the text of the schedule has it"
)]
pub enum Fault {
    /// The process is killed after so many more outputs; what it wrote stays in the system's cache.
    Crash {
        node: Who,
        outputs: u64,
        down: Duration,
    },
    /// The machine loses power after so many more changes of its disk; what was not synced may be lost or torn.
    PowerCut {
        node: Who,
        changes: u64,
        down: Duration,
    },
    /// All machines lose power at once.
    Blackout { down: Duration },
    /// Nothing passes from one node to another.
    Partition {
        from: NodeId,
        to: NodeId,
        span: Duration,
    },
    /// Nothing passes between two nodes.
    Cut {
        one: NodeId,
        other: NodeId,
        span: Duration,
    },
    /// Nothing passes between a node and the other nodes; clients reach it.
    Strand { node: Who, span: Duration },
    /// Nothing passes between a node and anybody, clients included.
    Isolate { node: Who, span: Duration },
    /// Messages are lost.
    Loss {
        from: NodeId,
        to: NodeId,
        percent: u64,
        span: Duration,
    },
    /// Messages arrive twice.
    Duplicate {
        from: NodeId,
        to: NodeId,
        percent: u64,
        span: Duration,
    },
    /// Messages take longer, each by up to `by`.
    Delay {
        from: NodeId,
        to: NodeId,
        by: Duration,
        span: Duration,
    },
    /// Bits of messages change on their way.
    Garble {
        from: NodeId,
        to: NodeId,
        percent: u64,
        span: Duration,
    },
    /// The connection between two nodes breaks; what was on its way is lost.
    Reset { one: NodeId, other: NodeId },
    /// The process stands still (SIGSTOP) and goes on.
    Pause { node: Who, span: Duration },
    /// The process stands still between reading its clock and reading its sockets.
    Stall { node: Who, span: Duration },
    /// Each commit takes longer.
    SlowDisk {
        node: Who,
        by: Duration,
        span: Duration,
    },
    /// A call of the disk fails once: the process stops and is started again.
    DiskError {
        node: Who,
        call: BadCall,
        down: Duration,
    },
    /// The disk takes no more bytes.
    DiskFull { node: Who, span: Duration },
    /// The process is killed and a bit of its files changes while it is down.
    Flip {
        node: NodeId,
        part: Part,
        bit: u64,
        down: Duration,
    },
    /// After `by` the machine dies and comes back with its disks as they were when the fault began.
    Rollback {
        node: NodeId,
        by: Duration,
        down: Duration,
    },
    /// The process is killed and files of its log vanish while it is down.
    LoseLog {
        node: NodeId,
        files: Lost,
        down: Duration,
    },
    /// The process is killed when it comes to a step for the `after`-th time from now, counted from 0.
    Trap {
        node: Who,
        step: KillStep,
        after: u64,
        down: Duration,
    },
    /// The directory is emptied: the node must not come back.
    Wipe { node: NodeId },
    /// Somebody sets the wall clock.
    WallJump { node: Who, ms: i64 },
    /// The objects do not answer.
    Hang { node: Who, span: Duration },
    /// The next call that a client makes ends every host of these nodes that executes it later than `after` from now.
    Poison {
        kills: NodeSet,
        after: Duration,
        lasts: Lasts,
    },
    /// The node leaves in good order and comes back.
    Leave { node: Who, down: Duration },
    /// The objects hold something that no call put there.
    Diverge { node: NodeId },
    /// The objects of every node hold something else; an operator sees to it once they are frozen.
    Differ,
    /// The objects answer a call otherwise than they should.
    Misanswer { node: NodeId },
    /// An operator asks for a snapshot.
    Checkpoint { node: NodeId },
    /// A client reaches nobody.
    ClientCut { client: u64, span: Duration },
}

/// How long a call goes on to end hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lasts {
    /// Whenever it is executed.
    Always,
    /// Until the host of a node stayed down at it; the next start of the node executes it, as when memory was short.
    Once,
}
