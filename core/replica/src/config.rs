//! The configuration of a replica.

use crate::limits::CLOCK_EVERY;
use quorate_types::{
    Duration, GroupLimits, Incarnation, Levels, MemberRole, NodeId, PAYLOAD_BYTES_MAX,
    SessionTerms, View,
};

/// Settings of one replica. `sessions_max`, `kept` and `snapshots` must be equal on all nodes of a group.
#[derive(Clone, PartialEq, Debug)]
pub struct ReplicaConfig {
    /// This node.
    pub own: NodeId,
    /// Whether this node has objects. Where the view names it, the view says the same.
    pub role: MemberRole,
    /// The number of this start of the node's data directory, as in its ballots.
    pub boot: u64,
    /// The incarnation whose promises and votes this node remembers, all of them: it votes where the view names this one.
    pub incarnation: Option<Incarnation>,
    /// Drawn at random by this start. Where the view names another incarnation than the above, the node asks for a view that names
    /// this one.
    pub fresh: Incarnation,
    /// This node's directory is an older copy: another life of it may be running elsewhere.
    pub may_run_elsewhere: bool,
    /// The levels that this node's build speaks.
    pub speaks: Levels,
    /// Whether this group decides which other groups its cluster has: the first one does.
    pub decides_groups: bool,
    /// How often this node tells the others its wall clock.
    pub clock_every: Duration,
    /// The view in force.
    pub view: View,
    /// The longest expiry time that this node's clients get for their sessions.
    pub expiry_max: Duration,
    /// Sessions that may be open at a time where the view does not say so; no more are opened until one ends.
    pub sessions_max: usize,
    /// Bytes of replies that sessions keep.
    pub kept: KeptLimits,
    /// The largest payload of a call or read, in bytes.
    pub payload_max: usize,
    /// When snapshots are taken.
    pub snapshots: Snapshots,
    /// How many slots the objects may execute before they are decided; 0: none. The ordering must tell them
    /// ([`quorate_ordering::Config::tells_tentative`]).
    pub speculation: usize,
    /// Weight of the log since the last stable snapshot above which calls are refused, in bytes.
    pub log_bytes_max: u64,
    /// Commands in the log since the last stable snapshot above which calls are refused.
    pub log_commands_max: u64,
}

/// How many bytes of replies are kept for clients; equal on all nodes of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeptLimits {
    /// Replies below this size count by their number only: a session keeps at most `SESSION_WINDOW` of them, 16 MiB.
    pub counted_min: usize,
    /// Bytes of larger replies that one session keeps: two of the largest, so that the newest stays. Beyond it the lowest
    /// sequences lose theirs: a client that asks for one again is told that it was executed. A session is refused further
    /// calls above half of it, or above a sixteenth while the group's replies take an eighth of their room, until its client
    /// acknowledges.
    pub session_bytes: usize,
    /// Bytes of larger replies that all sessions keep together where the view does not say so. Beyond it the session that holds most
    /// loses some. Every replica holds them in memory and in each snapshot.
    pub group_bytes: usize,
}

impl Default for KeptLimits {
    fn default() -> KeptLimits {
        KeptLimits {
            counted_min: 4 << 10,
            session_bytes: GroupLimits::REPLIES_MIN as usize,
            group_bytes: GroupLimits::REPLIES_DEFAULT as usize,
        }
    }
}

/// Whether and when the leader proposes a checkpoint.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Snapshots {
    /// When both soft marks are passed, or bytes alone are many, or one hard mark is passed.
    Every(CheckpointPolicy),
    /// Never: the objects' state cannot be encoded. The log keeps everything and is bounded.
    Disabled,
}

/// When the leader proposes a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckpointPolicy {
    /// τ: commands since the last checkpoint.
    pub commands: u64,
    /// Bytes of the log since the last checkpoint.
    pub bytes: u64,
    /// Bytes since the last checkpoint at which one is due, however few commands there are. A log of large calls is held to
    /// this, or to the size of the image where that is larger: every node has it in memory.
    pub bytes_large: u64,
    /// Bytes of the log since the last checkpoint as percent of the last image: a large image is
    /// written less often.
    pub image_percent: u64,
    /// Bytes of an image from which on a linked replica that lags a little is waited for before the log is trimmed: to fetch the
    /// snapshot takes it much longer than to learn the slots.
    pub bytes_dear: u64,
    /// Commands since the last checkpoint at which one is due, however few bytes they have.
    pub commands_hard: u64,
    /// Bytes since the last checkpoint at which one is due, however few commands there are and however large the image is,
    /// even if the last one is not done with.
    pub bytes_hard: u64,
    /// Bytes that a slot counts at least. A log on disk writes whole sectors: a group with one client fills a hundred
    /// megabytes with slots of a few bytes each.
    pub slot_bytes: u64,
    /// What executing may have taken since the last checkpoint: a node that starts again repeats it.
    pub execution: Duration,
}

impl Default for CheckpointPolicy {
    fn default() -> CheckpointPolicy {
        CheckpointPolicy {
            commands: 100_000,
            bytes: 16 << 20,
            bytes_large: 64 << 20,
            image_percent: 100,
            bytes_dear: 64 << 20,
            commands_hard: 5_000_000,
            bytes_hard: 1 << 30,
            slot_bytes: 1024,
            execution: Duration::from_millis(2_000),
        }
    }
}

impl ReplicaConfig {
    /// The default settings of a group, for a node that has lost nothing. Nodes that may run twice must draw `fresh`.
    #[must_use]
    pub fn new(own: NodeId, boot: u64, view: View) -> ReplicaConfig {
        ReplicaConfig {
            own,
            role: match view.witnesses().contains(own) {
                true => MemberRole::Witness,
                false => MemberRole::Replica,
            },
            boot,
            incarnation: view.incarnation(own),
            fresh: Incarnation(u64::from(own.0) << 48 | boot),
            may_run_elsewhere: false,
            speaks: Levels::UNNAMED,
            decides_groups: true,
            clock_every: CLOCK_EVERY,
            view,
            expiry_max: SessionTerms::EXPIRY_MAX,
            sessions_max: GroupLimits::SESSIONS_DEFAULT as usize,
            kept: KeptLimits::default(),
            payload_max: PAYLOAD_BYTES_MAX,
            snapshots: Snapshots::Every(CheckpointPolicy::default()),
            speculation: 0,
            log_bytes_max: 2 << 30,
            log_commands_max: 20_000_000,
        }
    }
}
