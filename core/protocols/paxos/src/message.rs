//! Everything that Multi-Paxos instances of one view say to each other.
//!
//! `core/wire` encodes these; nothing here knows bytes. No message carries a time: clocks are local.
//! Every message may be lost, repeated and reordered: each one says in full what it claims (a ballot,
//! a range of slots, a request number), so that none is understood by its place in a stream.

use quorate_acceptor::{Promise, Testimony};
use quorate_types::{Ballot, Batch, Command, CommandId, Refusal, Slot, ViewNumber};

/// One message from node to node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// Would you promise me a ballot?
    PreVote(PreVote),
    /// The answer to [`PreVote`]; binds nobody.
    PreVoted(PreVoted),
    /// Phase 1a.
    Prepare(Prepare),
    /// Phase 1b, one page: see [`Promise`].
    Promise(Promise),
    /// The receiver's ballot is too low.
    Nack(Nack),
    /// Phase 2a.
    Accept(Accept),
    /// Phase 2b.
    Accepted(Accepted),
    /// The sender, which has no vote, holds what `ballot` proposed in `first..=last`.
    Seen(Seen),
    /// Every slot up to `upto` is decided; for slots that `ballot` proposed, its proposal is what was
    /// decided.
    Decided(Decided),
    /// The leader lives.
    Heartbeat(Heartbeat),
    /// The answer to [`Heartbeat`].
    Heard(Heard),
    /// Tell me decided batches from `from` on.
    Learn(Learn),
    /// Decided batches of consecutive slots, as many as fit a chunk.
    Learned(Learned),
    /// What was asked for, or proposed, lies at or below `upto`.
    Trimmed(Trimmed),
    /// Please order these; answered by their decision or by [`Returned`].
    Forward(Forward),
    /// These forwarded commands are not ordered by the forward that brought them.
    Returned(Returned),
    /// Is `ballot` still the highest that you promised?
    Confirm(Confirm),
    /// It is.
    Confirmed(Confirmed),
    /// To the leader.
    AskBarrier(AskBarrier),
    /// The answer to [`AskBarrier`].
    Barrier(Barrier),
    /// From a leader that leaves.
    TakeOver(TakeOver),
    /// From an acceptor whose log was damaged.
    Survey(Survey),
    /// The answer to [`Survey`].
    Surveyed(Surveyed),
}

impl Message {
    /// Whether every ballot in it is of `view`. One that is not was never sent by an instance of it.
    #[must_use]
    pub fn is_of(&self, view: ViewNumber) -> bool {
        match self {
            Message::Prepare(Prepare { ballot, .. })
            | Message::Accept(Accept { ballot, .. })
            | Message::Accepted(Accepted { ballot, .. })
            | Message::Seen(Seen { ballot, .. })
            | Message::Decided(Decided { ballot, .. })
            | Message::Heartbeat(Heartbeat { ballot, .. })
            | Message::Heard(Heard { ballot, .. })
            | Message::Forward(Forward { ballot, .. })
            | Message::Confirm(Confirm { ballot, .. })
            | Message::Confirmed(Confirmed { ballot, .. })
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
            | Message::Survey(_) => true,
        }
    }

    /// What the message binds its sender to.
    #[must_use]
    pub fn testimony(&self) -> Testimony<'_> {
        match self {
            Message::Prepare(ask) => Testimony::Opens { ballot: ask.ballot },
            Message::Accept(accept) => Testimony::Proposes {
                ballot: accept.ballot,
                slot: accept.slot,
                batch: &accept.batch,
            },
            Message::Accepted(accepted) => Testimony::Votes {
                ballot: accepted.ballot,
                first: accepted.first,
                last: accepted.last,
            },
            Message::Promise(page) => Testimony::Promises(page),
            Message::Heartbeat(heartbeat) if heartbeat.wants_lease => Testimony::AsksLease {
                ballot: heartbeat.ballot,
                beat: heartbeat.beat,
            },
            Message::Heartbeat(heartbeat) => Testimony::Leads {
                ballot: heartbeat.ballot,
            },
            Message::Decided(announced) => Testimony::Leads {
                ballot: announced.ballot,
            },
            Message::Learn(ask) => Testimony::AsksDecided { from: ask.from },
            Message::Learned(_) | Message::Trimmed(_) => Testimony::TellsDecided,
            Message::Heard(heard) if heard.is_granted => Testimony::GrantsLease {
                ballot: heard.ballot,
                beat: heard.beat,
            },
            Message::Confirm(ask) => Testimony::AsksConfirm {
                ballot: ask.ballot,
                epoch: ask.epoch,
            },
            Message::Confirmed(answer) => Testimony::Confirms {
                ballot: answer.ballot,
                epoch: answer.epoch,
            },
            Message::Surveyed(_) => Testimony::Surveyed,
            Message::PreVote(_)
            | Message::PreVoted(_)
            | Message::Nack(_)
            | Message::Seen(_)
            | Message::Heard(_)
            | Message::Forward(_)
            | Message::Returned(_)
            | Message::AskBarrier(_)
            | Message::Barrier(_)
            | Message::TakeOver(_)
            | Message::Survey(_) => Testimony::Nothing,
        }
    }
}

/// Would you promise me a ballot? Sent before any ballot is spent, so that a returning node does
/// not unseat a leader that works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PreVote {
    /// Tells the attempts of the sender apart.
    pub attempt: u64,
    /// The sender's decided prefix.
    pub decided: Slot,
}

/// The answer to [`PreVote`]; binds nobody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PreVoted {
    /// The attempt answered.
    pub attempt: u64,
    /// The answering acceptor misses its leader too and is bound by no lease.
    pub is_granted: bool,
    /// The highest ballot it promised: the next one must beat it.
    pub promised: Ballot,
    /// Its decided prefix.
    pub decided: Slot,
}

/// Phase 1a: take part in no lower ballot, and tell your votes from `from` on. Sent again with a
/// later `from` for each further page of the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prepare {
    /// The ballot to promise.
    pub ballot: Ballot,
    /// The first slot to tell about.
    pub from: Slot,
}

/// The receiver's ballot is too low.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nack {
    /// The ballot refused.
    pub ballot: Ballot,
    /// The ballot promised in its stead.
    pub promised: Ballot,
}

/// Phase 2a: vote for `batch` in `slot`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Accept {
    /// The leader's ballot.
    pub ballot: Ballot,
    /// Where.
    pub slot: Slot,
    /// What.
    pub batch: Batch,
    /// The leader's decided prefix.
    pub decided: Slot,
}

/// Phase 2b: the sender voted, durably, for what `ballot` proposed in every slot of `first..=last`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Accepted {
    /// The ballot voted in.
    pub ballot: Ballot,
    /// First slot of the range.
    pub first: Slot,
    /// Last slot of the range.
    pub last: Slot,
}

/// The sender, which has no vote, holds what `ballot` proposed in `first..=last`: returns credit,
/// counts for no quorum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// The ballot that proposed.
    pub ballot: Ballot,
    /// First slot of the range.
    pub first: Slot,
    /// Last slot of the range.
    pub last: Slot,
}

/// Every slot up to `upto` is decided; for slots that `ballot` proposed, its proposal is what was
/// decided. Sent when nothing else carries the watermark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decided {
    /// The leader's ballot.
    pub ballot: Ballot,
    /// The leader's decided prefix.
    pub upto: Slot,
}

/// The leader lives. On the urgent lane, every heartbeat interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heartbeat {
    /// The leader's ballot.
    pub ballot: Ballot,
    /// Rises with each heartbeat of the ballot; the leader knows when it sent which.
    pub beat: u64,
    /// The leader's decided prefix.
    pub decided: Slot,
    /// The leader asks for a lease (it serves lease reads).
    pub wants_lease: bool,
}

/// The answer to [`Heartbeat`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heard {
    /// The ballot heard.
    pub ballot: Ballot,
    /// Which heartbeat.
    pub beat: u64,
    /// The sender's decided prefix.
    pub decided: Slot,
    /// The sender is an acceptor with a vote; observers count for nothing.
    pub is_voter: bool,
    /// The sender promises no other node a ballot before the lease has run out on its own clock,
    /// counted from when the heartbeat arrived.
    pub is_granted: bool,
}

/// Tell me decided batches from `from` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Learn {
    /// The first slot that the sender lacks.
    pub from: Slot,
}

/// Decided batches of consecutive slots, as many as fit a chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Learned {
    /// Slot of the first batch.
    pub from: Slot,
    /// The decided batches; empty if the sender knows none from there.
    pub batches: Vec<Batch>,
    /// The sender's decided prefix.
    pub decided: Slot,
}

/// What was asked for, or proposed, lies at or below `upto`: it is decided and only in snapshots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trimmed {
    /// The sender's last trimmed slot.
    pub upto: Slot,
}

/// Please order these; answered by their decision or by [`Returned`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forward {
    /// The leadership addressed; the receiver takes the commands only while it leads in it.
    pub ballot: Ballot,
    /// Rises with each forward of the sender, over its restarts too: a leader takes no number twice.
    pub number: u64,
    /// Commands submitted at the sender.
    pub commands: Vec<Command>,
}

/// These forwarded commands are not ordered by the forward that brought them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Returned {
    /// Which forward.
    pub number: u64,
    /// Which commands.
    pub commands: Vec<CommandId>,
    /// [`Refusal::NotOrdered`]: ask the leader. [`Refusal::Overloaded`]: its queue is full.
    /// [`Refusal::Unknown`]: an earlier life of the sender may have proposed them.
    pub refusal: Refusal,
}

/// Is `ballot` still the highest that you promised?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Confirm {
    /// The leader's ballot.
    pub ballot: Ballot,
    /// A number that the leader uses once, opened after the reads that it covers had arrived.
    pub epoch: u64,
}

/// It is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Confirmed {
    /// The ballot confirmed.
    pub ballot: Ballot,
    /// The epoch confirmed.
    pub epoch: u64,
    /// The highest slot in which the sender voted in this ballot; earlier ballots' votes above what
    /// phase 1 found are not decided and never will be.
    pub voted: Slot,
}

/// To the leader: up to which slot must I execute before I answer reads that arrived here?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AskBarrier {
    /// Tells the requests of the sender apart.
    pub request: u64,
}

/// The answer to [`AskBarrier`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Barrier {
    /// The request answered.
    pub request: u64,
    /// The barrier; `None` if the sender cannot confirm that it leads.
    pub barrier: Option<Slot>,
}

/// From a leader that leaves: begin phase 1 at once, without a pre-vote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TakeOver {
    /// The ballot given up.
    pub ballot: Ballot,
}

/// From an acceptor whose log was damaged: what is the highest ballot and slot you know of?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Survey {
    /// Tells the surveys of the sender apart.
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
