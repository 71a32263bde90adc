//! What a protocol adds to the stage.

use quorate_ordering::{Damage, Ordering, Record};
use quorate_types::{Ballot, NodeId, Time, View};

/// A message of the instances that `P` plays with.
pub(crate) type MessageOf<P> = <<P as ScriptedProtocol>::Instance as Ordering>::Message;

/// A protocol whose scripts are to be played.
pub trait ScriptedProtocol {
    /// The state machine under test.
    type Instance: Ordering;

    /// What its claims in `docs/papers.md` begin with: `mp` for `mp-7`.
    const CLAIMS: &'static str;

    /// A node starts.
    fn start(start: Start) -> Self::Instance;

    /// What makes a node that promised `ballot` stand for election at once.
    fn stand(ballot: Ballot) -> MessageOf<Self>;

    /// Whether the message is so frequent that scripts do not list it, as heartbeats are.
    fn is_unlisted(message: &MessageOf<Self>) -> bool;

    /// What the message says, after its name.
    fn render(message: &MessageOf<Self>) -> String;
}

/// What a node has when it starts.
pub struct Start {
    /// Which node.
    pub own: NodeId,
    /// Which of its starts this is; the first is 1.
    pub boot: u64,
    /// The view that is ordered.
    pub view: View,
    /// Slots that a leader proposes at once, where the script says so.
    pub pipeline: Option<usize>,
    /// Slots of each step in which all acceptors are asked, where the script says so.
    pub first_slots: Option<u64>,
    /// What it may have forgotten.
    pub memory: Memory,
    /// What its log holds.
    pub records: Vec<Record>,
    /// The stage's clock.
    pub now: Time,
}

/// What a starting node remembers of its earlier life.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Memory {
    /// Everything it wrote.
    Whole,
    /// Records are lost, and this is what it knows of that.
    Damaged(Damage),
    /// It may have forgotten votes, so it must not vote.
    Forgotten,
}
