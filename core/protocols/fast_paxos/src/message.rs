//! The messages between Fast Paxos instances of one view.
//!
//! No message contains a time, because clocks are local. Every message may be lost, repeated and reordered. So each contains
//! everything it claims (a ballot, a slot, a value, a request number), and none depends on its place in a stream.

pub use quorate_acceptor::Current;
pub use quorate_acceptor::message::{
    Accept, AskBarrier, Barrier, Confirm, Decided, Learn, Learned, Nack, PreVote, PreVoted,
    Prepare, TakeOver, Trimmed,
};
use quorate_acceptor::{Promise, Testimony};
use quorate_types::{Ballot, Batch, Command, Slot, ValueId, ViewNumber, VoteKind};

/// One message from node to node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// Would you promise me a ballot?
    PreVote(PreVote),
    /// The answer to [`PreVote`]; it binds nobody.
    PreVoted(PreVoted),
    /// Phase 1a.
    Prepare(Prepare),
    /// Phase 1b, one page: see [`Promise`].
    Promise(Box<Promise>),
    /// The receiver's ballot is too low.
    Nack(Nack),
    /// Phase 2a of the fast rounds of all slots from one on: vote for what is proposed to you.
    Any(Any),
    /// A value for the next free slot of the receiver, in the fast rounds of `ballot`.
    Propose(Propose),
    /// Phase 2a of a classic round.
    Accept(Accept),
    /// Phase 2b of either round.
    Voted(Voted),
    /// The sender, which has no vote, holds the proposal of `ballot` in `slot`.
    Seen(Seen),
    /// Every slot up to `upto` is decided; where `ballot` proposed in a classic round, its proposal is decided.
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
    /// Please order these: classic rounds go on.
    Forward(Forward),
    /// Is `ballot` still the highest that you promised?
    Confirm(Confirm),
    /// The answer to [`Confirm`].
    Confirmed(Confirmed),
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
}

impl Message {
    /// Whether every ballot in it is of `view`. An instance of `view` sends no other.
    #[must_use]
    pub fn is_of(&self, view: ViewNumber) -> bool {
        match self {
            Message::Prepare(Prepare { ballot, .. })
            | Message::Any(Any { ballot, .. })
            | Message::Propose(Propose { ballot, .. })
            | Message::Accept(Accept { ballot, .. })
            | Message::Voted(Voted { ballot, .. })
            | Message::Seen(Seen { ballot, .. })
            | Message::Decided(Decided { ballot, .. })
            | Message::Heartbeat(Heartbeat { ballot, .. })
            | Message::Heard(Heard { ballot, .. })
            | Message::Forward(Forward { ballot, .. })
            | Message::Confirm(Confirm { ballot, .. })
            | Message::Confirmed(Confirmed { ballot, .. })
            | Message::TakeOver(TakeOver { ballot }) => ballot.is_of(view),
            Message::PreVoted(PreVoted { promised, .. })
            | Message::Survey(Survey {
                above: promised, ..
            })
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
            | Message::AskBarrier(_)
            | Message::Barrier(_) => true,
        }
    }

    /// What the message binds its sender to. Fast rounds grant no leases.
    // Longer than a screen: one arm a message.
    #[must_use]
    pub fn testimony(&self) -> Testimony<'_> {
        match self {
            Message::Prepare(ask) => Testimony::Opens { ballot: ask.ballot },
            Message::Propose(propose) => Testimony::ProposesValue {
                ballot: propose.ballot,
                value: propose.value,
                batch: &propose.batch,
            },
            Message::Accept(accept) => accept.testimony(),
            Message::Voted(voted) => Testimony::Votes {
                ballot: voted.ballot,
                kind: voted.kind,
                first: voted.slot,
                last: voted.slot,
            },
            Message::Promise(page) => Testimony::Promises(page),
            Message::Heartbeat(Heartbeat {
                ballot, decided, ..
            })
            | Message::Decided(Decided {
                ballot,
                upto: decided,
            }) => Testimony::Leads {
                ballot: *ballot,
                decided: *decided,
            },
            Message::Learn(ask) => Testimony::AsksDecided { from: ask.from },
            Message::Learned(learned) => learned.testimony(),
            Message::Trimmed(trimmed) => trimmed.testimony(),
            Message::Confirm(ask) => ask.testimony(),
            Message::Confirmed(answer) => Testimony::Confirms {
                ballot: answer.ballot,
                epoch: answer.epoch,
            },
            Message::Survey(ask) => Testimony::Surveys {
                request: ask.request,
            },
            Message::Surveyed(answer) => Testimony::Surveyed {
                request: answer.request,
                promised: answer.promised,
                voted: answer.voted,
            },
            Message::PreVote(ask) => ask.testimony(),
            Message::PreVoted(answer) => answer.testimony(),
            Message::Nack(_)
            | Message::Any(_)
            | Message::Seen(_)
            | Message::Heard(_)
            | Message::Forward(_)
            | Message::AskBarrier(_)
            | Message::Barrier(_)
            | Message::TakeOver(_) => Testimony::Nothing,
        }
    }
}

/// Phase 2a of fast rounds: in every slot from `from` on the receiver may vote for the value that it chooses. Also: who submits
/// commands may propose them to all acceptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Any {
    /// The leader's ballot.
    pub ballot: Ballot,
    /// The first slot of which phase 1 found nothing and in which the leader proposes nothing.
    pub from: Slot,
}

/// A value that its proposer sends to all acceptors. Sent again, it asks those that voted for it to say so again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Propose {
    /// The ballot in whose fast rounds it is proposed.
    pub ballot: Ballot,
    /// The name of the value.
    pub value: ValueId,
    /// The value.
    pub batch: Batch,
}

/// Phase 2b: the sender voted, durably, in `slot` of `ballot`: in the fast round for the value named, or in the classic one
/// for the leader's proposal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Voted {
    /// The ballot voted in.
    pub ballot: Ballot,
    /// The slot.
    pub slot: Slot,
    /// The round, and the value of a fast one.
    pub kind: VoteKind,
}

/// The sender, which has no vote, holds the proposal of `ballot` in `slot`. This returns credit and counts towards no quorum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// The ballot of the proposal.
    pub ballot: Ballot,
    /// The slot.
    pub slot: Slot,
}

/// A sign of life of the leader, sent on the urgent lane at every heartbeat interval.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Heartbeat {
    /// The leader's ballot.
    pub ballot: Ballot,
    /// Rises with each heartbeat of the ballot.
    pub beat: u64,
    /// The leader's decided prefix.
    pub decided: Slot,
    /// Where fast rounds begin, while there are any: [`Any`] for those who missed it.
    pub any: Option<Slot>,
    /// The end of what phase 1 found, once all of that is decided.
    pub recovered: Option<Slot>,
    /// What is known to have been all that was decided, and since when.
    pub current: Option<Box<Current>>,
}

/// The answer to [`Heartbeat`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heard {
    /// The ballot heard.
    pub ballot: Ballot,
    /// The number of the heartbeat.
    pub beat: u64,
    /// The number of this answer. It rises with each, also over restarts.
    pub number: u64,
    /// The sender's decided prefix.
    pub decided: Slot,
    /// The highest slot in which the sender holds a vote of any ballot or lost one, else `decided`.
    pub voted: Slot,
    /// The sender is an acceptor with a vote; observers count towards no quorum.
    pub is_voter: bool,
}

/// Please order these. The sender keeps them, and sends them again to another leader.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forward {
    /// The leader's ballot; the receiver takes the commands only while it leads in this ballot.
    pub ballot: Ballot,
    /// Commands submitted at the sender.
    pub commands: Vec<Command>,
}

/// The answer to [`Confirm`]: `ballot` is the highest promised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Confirmed {
    /// The ballot confirmed.
    pub ballot: Ballot,
    /// The epoch confirmed.
    pub epoch: u64,
    /// The highest slot in which the sender voted in this ballot, in either round, or may have: a fast round is decided without the
    /// leader.
    pub voted: Slot,
}

/// From an acceptor whose log was damaged: what is the highest ballot and slot you know of?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Survey {
    /// The number of the sender's survey.
    pub request: u64,
    /// Once all have answered, the highest ballot in which the sender may have voted: it needs a leader of a higher one.
    pub above: Ballot,
}

/// The answer to [`Survey`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Surveyed {
    /// The survey answered.
    pub request: u64,
    /// The highest ballot that the sender promised or led, durably.
    pub promised: Ballot,
    /// The highest slot that the sender voted in, proposed, heard a vote in or knows decided.
    pub voted: Slot,
}
