//! The messages between Multi-Paxos instances of one view.
//!
//! `core/wire` encodes them. No message contains a time, because clocks are local. Every message may be
//! lost, repeated and reordered. So each contains everything it claims (a ballot, a range of slots, a
//! request number), and none depends on its place in a stream.

mod multicast;
mod spread;

use crate::repair::OF_LEADER;
pub use multicast::{Carried, Hears, PassId};
pub use quorate_acceptor::Current;
pub use quorate_acceptor::message::{
    Accept, AskBarrier, Barrier, Confirm, Decided, Learn, Learned, Nack, PreVote, PreVoted,
    Prepare, TakeOver, Trimmed,
};
use quorate_acceptor::{Promise, Testimony};
use quorate_types::{
    Ballot, Batch, BroadcastId, Command, CommandId, NodeId, NodeSet, Refusal, Slot, ViewNumber,
    VoteKind,
};
pub use spread::{Holds, Named, Spread, Want};

/// One message from node to node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// Would you promise me a ballot?
    PreVote(PreVote),
    /// The answer to [`PreVote`]; it binds nobody.
    PreVoted(PreVoted),
    /// Phase 1a.
    Prepare(Prepare),
    /// Phase 1b, one page: see [`Promise`]. In a box, so that the messages of every slot stay small.
    Promise(Box<Promise>),
    /// The receiver's ballot is too low.
    Nack(Nack),
    /// Phase 2a.
    Accept(Accept),
    /// Phase 2b.
    Accepted(Accepted),
    /// The sender, which has no vote, holds the proposals of `ballot` in `first..=last`.
    Seen(Seen),
    /// Every slot up to `upto` is decided; for slots that `ballot` proposed, its proposal is decided.
    Decided(Decided),
    /// A sign of life of the leader.
    Heartbeat(Heartbeat),
    /// The answer to [`Heartbeat`].
    Heard(Heard),
    /// Tell me decided batches from `from` on.
    Learn(Learn),
    /// Decided batches of consecutive slots, as many as fit a chunk.
    Learned(Learned),
    /// The slots asked for, or proposed, are at or below `upto`.
    Trimmed(Trimmed),
    /// Please order these; answered by their decision or by [`Returned`].
    Forward(Forward),
    /// The forward that brought these commands does not order them.
    Returned(Returned),
    /// Is `ballot` still the highest that you promised?
    Confirm(Confirm),
    /// The answer to [`Confirm`].
    Confirmed(Confirmed),
    /// The sender heard of a client's read, and `ballot` is the highest that it promised.
    Attested(Attested),
    /// Asks the leader for the barrier of reads.
    AskBarrier(AskBarrier),
    /// The answer to [`AskBarrier`].
    Barrier(Barrier),
    /// A leader that shuts down names the receiver as its successor.
    TakeOver(TakeOver),
    /// A question of an acceptor whose log was damaged.
    Survey(Survey),
    /// The answer to [`Survey`].
    Surveyed(Surveyed),
    /// Phase 2a along a ring: vote, and pass it on.
    Pass(Pass),
    /// Phase 2b along a ring: who voted so far.
    Gathered(Gathered),
    /// Keep these: their name may be proposed.
    Spread(Spread),
    /// The sender holds these values.
    Holds(Holds),
    /// Phase 2a by names.
    Named(Named),
    /// Send me the proposal with its value.
    Want(Want),
    /// The value of a proposal, from the leader to all at once; a datagram, which may be lost.
    Multicast(Carried),
    /// The value of a proposal, to who asked for it.
    Fetched(Carried),
    /// Phase 2a along a ring, without the value.
    PassId(PassId),
    /// Whether what is multicast comes here.
    Hears(Hears),
}

impl Message {
    /// Whether every ballot in it is of `view`. An instance of `view` sends no other.
    #[must_use]
    pub fn is_of(&self, view: ViewNumber) -> bool {
        match self {
            Message::Prepare(Prepare { ballot, .. })
            | Message::Accept(Accept { ballot, .. })
            | Message::Accepted(Accepted { ballot, .. })
            | Message::Seen(Seen { ballot, .. })
            | Message::Pass(Pass { ballot, .. })
            | Message::Multicast(Carried { ballot, .. })
            | Message::Fetched(Carried { ballot, .. })
            | Message::PassId(PassId { ballot, .. })
            | Message::Hears(Hears { ballot, .. })
            | Message::Gathered(Gathered { ballot, .. })
            | Message::Named(Named { ballot, .. })
            | Message::Want(Want { ballot, .. })
            | Message::Decided(Decided { ballot, .. })
            | Message::Heartbeat(Heartbeat { ballot, .. })
            | Message::Heard(Heard { ballot, .. })
            | Message::Forward(Forward { ballot, .. })
            | Message::Confirm(Confirm { ballot, .. })
            | Message::Confirmed(Confirmed { ballot, .. })
            | Message::Attested(Attested { ballot, .. })
            | Message::TakeOver(TakeOver { ballot }) => ballot.is_of(view),
            Message::PreVoted(PreVoted { promised, .. })
            | Message::Surveyed(Surveyed { promised, .. }) => promised.is_of(view),
            Message::Nack(Nack { ballot, promised }) => ballot.is_of(view) && promised.is_of(view),
            Message::Promise(page) => {
                let mut votes = page.votes.iter();
                page.ballot.is_of(view) && votes.all(|vote| vote.ballot.is_of(view))
            }
            Message::PreVote(_)
            | Message::Learn(_)
            | Message::Learned(_)
            | Message::Trimmed(_)
            | Message::Returned(_)
            | Message::AskBarrier(_)
            | Message::Barrier(_)
            | Message::Spread(_)
            | Message::Holds(_)
            | Message::Survey(_) => true,
        }
    }

    /// What the message binds its sender to.
    // Longer than a screen: one arm a message.
    #[must_use]
    pub fn testimony(&self) -> Testimony<'_> {
        match self {
            Message::Prepare(ask) => Testimony::Opens { ballot: ask.ballot },
            Message::Accept(accept) => accept.testimony(),
            Message::Accepted(accepted) => Testimony::Votes {
                ballot: accepted.ballot,
                kind: VoteKind::Classic,
                first: accepted.first,
                last: accepted.last,
            },
            Message::Pass(pass) => Testimony::Passes {
                ballot: pass.ballot,
                slot: pass.slot,
                batch: &pass.batch,
                decided: pass.decided,
            },
            Message::Gathered(gathered) => Testimony::Gathers {
                ballot: gathered.ballot,
                first: gathered.first,
                last: gathered.last,
                voters: gathered.voters,
            },
            Message::Spread(spread) => spread.testimony(),
            Message::Multicast(carried) | Message::Fetched(carried) => carried.testimony(),
            Message::PassId(pass) => pass.testimony(),
            Message::Named(named) => named.testimony(),
            Message::Promise(page) => Testimony::Promises(page),
            Message::Heartbeat(heartbeat) if heartbeat.wants_lease => Testimony::AsksLease {
                ballot: heartbeat.ballot,
                beat: heartbeat.beat,
                decided: heartbeat.decided,
            },
            Message::Heartbeat(heartbeat) => Testimony::Leads {
                ballot: heartbeat.ballot,
                decided: heartbeat.decided,
            },
            Message::Decided(announced) => Testimony::Leads {
                ballot: announced.ballot,
                decided: announced.upto,
            },
            Message::Learn(ask) => Testimony::AsksDecided { from: ask.from },
            Message::Learned(learned) => learned.testimony(),
            Message::Trimmed(trimmed) => trimmed.testimony(),
            Message::Heard(heard) if heard.is_granted => Testimony::GrantsLease {
                ballot: heard.ballot,
                beat: heard.beat,
            },
            Message::Confirm(ask) => ask.testimony(),
            Message::Confirmed(answer) => Testimony::Confirms {
                ballot: answer.ballot,
                epoch: answer.epoch,
            },
            Message::Attested(told) => Testimony::Attests {
                ballot: told.ballot,
                read: told.read,
            },
            Message::Survey(ask) => Testimony::Surveys {
                request: ask.request & !OF_LEADER,
            },
            Message::Surveyed(answer) => Testimony::Surveyed {
                request: answer.request & !OF_LEADER,
                promised: answer.promised,
                voted: answer.voted,
            },
            Message::PreVote(ask) => ask.testimony(),
            Message::PreVoted(answer) => answer.testimony(),
            Message::Nack(_)
            | Message::Seen(_)
            | Message::Heard(_)
            | Message::Forward(_)
            | Message::Returned(_)
            | Message::AskBarrier(_)
            | Message::Barrier(_)
            | Message::Holds(_)
            | Message::Want(_)
            | Message::Hears(_)
            | Message::TakeOver(_) => Testimony::Nothing,
        }
    }
}

/// Phase 2b: the sender voted, durably, for the proposal of `ballot` in every slot of `first..=last`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Accepted {
    /// The ballot voted in.
    pub ballot: Ballot,
    /// First slot of the range.
    pub first: Slot,
    /// Last slot of the range.
    pub last: Slot,
}

/// The sender, which has no vote, holds the proposals of `ballot` in `first..=last`. This returns credit
/// and counts towards no quorum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// The ballot of the proposals.
    pub ballot: Ballot,
    /// First slot of the range.
    pub first: Slot,
    /// Last slot of the range.
    pub last: Slot,
}

/// A sign of life of the leader, sent on the urgent lane at every heartbeat interval.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Heartbeat {
    /// The leader's ballot.
    pub ballot: Ballot,
    /// Rises with each heartbeat of the ballot; the leader remembers when it sent each.
    pub beat: u64,
    /// The leader's decided prefix.
    pub decided: Slot,
    /// The leader asks for a lease (it serves lease reads).
    pub wants_lease: bool,
    /// What the leader knows to have been all that was decided, and since when.
    pub current: Option<Box<Current>>,
}

/// The answer to [`Heartbeat`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heard {
    /// The ballot heard.
    pub ballot: Ballot,
    /// The number of the heartbeat.
    pub beat: u64,
    /// The number of this answer. It rises with each, also over restarts: the sender knows by its own clock when it
    /// gave the answer, and so what [`Current`] says since when.
    pub number: u64,
    /// The sender's decided prefix.
    pub decided: Slot,
    /// The sender is an acceptor with a vote; observers count towards no quorum.
    pub is_voter: bool,
    /// The sender promises no other node a ballot before the lease has run out on its own clock,
    /// counted from when the heartbeat arrived.
    pub is_granted: bool,
}

/// Please order these; answered by their decision or by [`Returned`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forward {
    /// The leader's ballot; the receiver accepts the commands only while it leads in this ballot.
    pub ballot: Ballot,
    /// Rises with each forward of the sender, also over its restarts: a leader accepts each number once.
    pub number: u64,
    /// Commands submitted at the sender.
    pub commands: Vec<Command>,
}

/// The forward that brought these commands does not order them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Returned {
    /// The number of the forward.
    pub number: u64,
    /// The commands.
    pub commands: Vec<CommandId>,
    /// [`Refusal::NotOrdered`]: ask the leader. [`Refusal::Overloaded`]: its queue is full.
    /// [`Refusal::Unknown`]: an earlier start of the sender may have proposed them.
    pub refusal: Refusal,
}

/// The answer to [`Confirm`]: `ballot` is the highest promised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Confirmed {
    /// The ballot confirmed.
    pub ballot: Ballot,
    /// The epoch confirmed.
    pub epoch: u64,
    /// The highest slot in which the sender voted in this ballot. Votes of earlier ballots above the slots
    /// that phase 1 found are not decided and never will be.
    pub voted: Slot,
}

/// To the leader of `ballot`, unasked: the sender heard of a read from its client, and promised no higher ballot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attested {
    /// The highest ballot promised.
    pub ballot: Ballot,
    /// The read. Nothing is said of another one.
    pub read: BroadcastId,
    /// The highest slot in which the sender voted in this ballot.
    pub voted: Slot,
}

/// From an acceptor whose log was damaged: what is the highest ballot and slot you know of?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Survey {
    /// The number of the sender's survey.
    pub request: u64,
}

/// The answer to [`Survey`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Surveyed {
    /// The survey answered.
    pub request: u64,
    /// The highest ballot that the sender promised or led, durably.
    pub promised: Ballot,
    /// The highest slot that the sender voted in, proposed or knows decided.
    pub voted: Slot,
}

/// Phase 2a along a ring: vote for `batch` in `slot`, and pass it on to the next of `way`. The way is the leader's, as the batch is: who
/// passes it on changes nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pass {
    /// The leader's ballot.
    pub ballot: Ballot,
    /// The slot.
    pub slot: Slot,
    /// The batch.
    pub batch: Batch,
    /// The leader's decided prefix.
    pub decided: Slot,
    /// By whom it goes.
    pub way: RingWay,
}

/// Phase 2b along a ring: each of `voters` voted, durably, for the proposal of `ballot` in every slot of `first..=last`. The view of the
/// ballot names the incarnation of each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gathered {
    /// The ballot voted in.
    pub ballot: Ballot,
    /// First slot of the range.
    pub first: Slot,
    /// Last slot of the range.
    pub last: Slot,
    /// Who voted; nobody where those before the receiver do not vote.
    pub voters: NodeSet,
}

/// The nodes by which a proposal goes, in their order. The leader, where it begins and where the votes end, is not among them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RingWay {
    /// Invariant: none is named twice.
    nodes: Vec<NodeId>,
    /// So many of the first gather their votes. Invariant: at least one, and no more than there are.
    gathering: usize,
}

impl RingWay {
    /// By `nodes`, of which the first `gathering` gather their votes; `None` if one is named twice, or so many are not there.
    #[must_use]
    pub fn new(nodes: Vec<NodeId>, gathering: usize) -> Option<RingWay> {
        let named: NodeSet = nodes.iter().copied().collect();
        let is_one = named.len() == nodes.len() && (1..=nodes.len()).contains(&gathering);
        is_one.then_some(RingWay { nodes, gathering })
    }

    /// The nodes.
    #[must_use]
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// How many of the first gather their votes.
    #[must_use]
    pub fn gathering(&self) -> usize {
        self.gathering
    }

    /// Where `node` is on it.
    #[must_use]
    pub fn place(&self, node: NodeId) -> Option<usize> {
        self.nodes.iter().position(|named| *named == node)
    }
}
