//! The bounds of every queue of an ordering protocol, each with its reason.
//!
//! The numbers are defaults of [`Limits`]; the lab runs other ones on purpose.

use quorate_types::Duration;

/// What a leader does about a peer that does not keep up. Everything but the credit is for the lab, to produce the stalls of the
/// papers on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Flow {
    /// No more than its credit is sent to it, and nobody waits for it.
    #[default]
    Credit,
    /// Everything is sent to it: what it has not taken piles up. Paxos in the Cloud III.D (Libpaxos).
    Unbounded,
    /// Nobody is sent anything while some linked peer has so many values that it did not acknowledge. Paxos in the Cloud III.A
    /// (S-Paxos).
    Blocking(usize),
    /// Everything is sent to it, and what it has not acknowledged for so long is sent again. Paxos in the Cloud III.B (OpenReplica).
    Retry(Duration),
}

/// Which acceptors a leader asks for their votes, where the ordering names all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ProposalReach {
    /// Those that the ordering names.
    #[default]
    ByOrdering,
    /// The majority whose answers come soonest; all of them after one of that majority is suspected.
    Nearest,
}

/// By what the values of a ring's proposals may travel from this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ValuesBy {
    /// By links, with the proposals.
    #[default]
    Links,
    /// Once to all, on [`crate::Lane::Multicast`].
    Multicast,
}

/// How much may wait, travel or be told at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Commands of one batch: enough that the cost of a slot vanishes beside that of its commands.
    pub batch_commands: usize,
    /// Bytes of one batch: a larger one delays the heartbeats of a slow link behind it.
    pub batch_bytes: usize,
    /// Bytes from which a command is a batch of its own: it then lies alone in the frame that brings it, so that who keeps
    /// its payload keeps no others and need not copy it.
    pub large_bytes: usize,
    /// Undecided slots that the leader proposes at once, inside ω. Small, so that commands gather
    /// into batches while earlier ones are voted on.
    pub pipeline: usize,
    /// The same while large commands come next, or none where the rest of a view is filled: these do not gather.
    pub pipeline_large: usize,
    /// Commands waiting at one node to be proposed or decided elsewhere; more are refused.
    pub queue_commands: usize,
    /// Bytes of those commands.
    pub queue_bytes: usize,
    /// Values sent to one peer and not acknowledged. More are not sent: a slow peer learns later.
    pub credit_messages: usize,
    /// Bytes of those values.
    pub credit_bytes: usize,
    /// Bytes of one page of a promise and of one chunk of learned batches (one batch always fits).
    pub chunk_bytes: usize,
    /// Slots of one page or chunk.
    pub chunk_slots: usize,
    /// Values sent again at once when a peer's answers fail to come.
    pub resend: usize,
    /// Reads waiting at one node for their barrier; more are answered as unconfirmed.
    pub reads: usize,
    /// Confirmation rounds that a leader keeps open; reads that arrive meanwhile share the next.
    pub epochs: usize,
    /// Announced reads that a leader keeps confirmations of before it has the read itself, for one heartbeat; what comes beyond is
    /// ignored, and the leader asks for it once it has the read.
    pub announced: usize,
    /// Slots of one step of a leader that spares slow acceptors: after so many it looks anew who is slow.
    pub step_slots: u64,
    /// What happens where a peer does not keep up.
    pub flow: Flow,
    /// Which acceptors are asked for votes.
    pub reach: ProposalReach,
    /// Whether a leader may multicast values.
    pub values: ValuesBy,
    /// The first slots of a step, in which all acceptors are asked: each costs a slow one as much as without steps.
    pub step_first_slots: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            batch_commands: 1024,
            batch_bytes: 1 << 20,
            large_bytes: 32 << 10,
            pipeline: 8,
            pipeline_large: 64,
            queue_commands: 1 << 16,
            queue_bytes: 64 << 20,
            credit_messages: 256,
            credit_bytes: 16 << 20,
            chunk_bytes: 512 << 10,
            chunk_slots: 256,
            resend: 16,
            reads: 1 << 16,
            epochs: 4,
            announced: 1 << 14,
            step_slots: 128,
            step_first_slots: 8,
            flow: Flow::Credit,
            reach: ProposalReach::ByOrdering,
            values: ValuesBy::Links,
        }
    }
}
