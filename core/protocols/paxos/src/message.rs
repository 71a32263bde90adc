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
    /// Would you promise me a ballot? Sent before any ballot is spent, so that a returning node does
    /// not unseat a leader that works.
    PreVote {
        /// Tells the attempts of the sender apart.
        attempt: u64,
        /// The sender's decided prefix.
        decided: Slot,
    },
    /// The answer to [`Message::PreVote`]; binds nobody.
    PreVoted {
        /// The attempt answered.
        attempt: u64,
        /// The answering acceptor misses its leader too and is bound by no lease.
        is_granted: bool,
        /// The highest ballot it promised: the next one must beat it.
        promised: Ballot,
        /// Its decided prefix.
        decided: Slot,
    },
    /// Phase 1a: take part in no lower ballot, and tell your votes from `from` on. Sent again with a
    /// later `from` for each further page of the answer.
    Prepare {
        /// The ballot to promise.
        ballot: Ballot,
        /// The first slot to tell about.
        from: Slot,
    },
    /// Phase 1b, one page: see [`Promise`].
    Promise(Promise),
    /// The receiver's ballot is too low.
    Nack {
        /// The ballot refused.
        ballot: Ballot,
        /// The ballot promised in its stead.
        promised: Ballot,
    },
    /// Phase 2a: vote for `batch` in `slot`.
    Accept {
        /// The leader's ballot.
        ballot: Ballot,
        /// Where.
        slot: Slot,
        /// What.
        batch: Batch,
        /// The leader's decided prefix.
        decided: Slot,
    },
    /// Phase 2b: the sender voted, durably, for what `ballot` proposed in every slot of `first..=last`.
    Accepted {
        /// The ballot voted in.
        ballot: Ballot,
        /// First slot of the range.
        first: Slot,
        /// Last slot of the range.
        last: Slot,
    },
    /// The sender, which has no vote, holds what `ballot` proposed in `first..=last`: returns credit,
    /// counts for no quorum.
    Seen {
        /// The ballot that proposed.
        ballot: Ballot,
        /// First slot of the range.
        first: Slot,
        /// Last slot of the range.
        last: Slot,
    },
    /// Every slot up to `upto` is decided; for slots that `ballot` proposed, its proposal is what was
    /// decided. Sent when nothing else carries the watermark.
    Decided {
        /// The leader's ballot.
        ballot: Ballot,
        /// The leader's decided prefix.
        upto: Slot,
    },
    /// The leader lives. On the urgent lane, every heartbeat interval.
    Heartbeat {
        /// The leader's ballot.
        ballot: Ballot,
        /// Rises with each heartbeat of the ballot; the leader knows when it sent which.
        beat: u64,
        /// The leader's decided prefix.
        decided: Slot,
        /// The leader asks for a lease (it serves lease reads).
        wants_lease: bool,
    },
    /// The answer to [`Message::Heartbeat`].
    Heard {
        /// The ballot heard.
        ballot: Ballot,
        /// Which heartbeat.
        beat: u64,
        /// The sender's decided prefix.
        decided: Slot,
        /// The sender is an acceptor with a vote; observers count for nothing.
        is_voter: bool,
        /// The sender promises no other node a ballot before the lease has run out on its own clock,
        /// counted from when the heartbeat arrived.
        is_granted: bool,
    },
    /// Tell me decided batches from `from` on.
    Learn {
        /// The first slot that the sender lacks.
        from: Slot,
    },
    /// Decided batches of consecutive slots, as many as fit a chunk.
    Learned {
        /// Slot of the first batch.
        from: Slot,
        /// The decided batches; empty if the sender knows none from there.
        batches: Vec<Batch>,
        /// The sender's decided prefix.
        decided: Slot,
    },
    /// What was asked for, or proposed, lies at or below `upto`: it is decided and only in snapshots.
    Trimmed {
        /// The sender's last trimmed slot.
        upto: Slot,
    },
    /// Please order these; answered by their decision or by [`Message::Returned`].
    Forward {
        /// The leadership addressed; the receiver takes the commands only while it leads in it.
        ballot: Ballot,
        /// Rises with each forward of the sender, over its restarts too: a leader takes no number twice.
        number: u64,
        /// Commands submitted at the sender.
        commands: Vec<Command>,
    },
    /// These forwarded commands are not ordered by the forward that brought them.
    Returned {
        /// Which forward.
        number: u64,
        /// Which commands.
        commands: Vec<CommandId>,
        /// [`Refusal::NotOrdered`]: ask the leader. [`Refusal::Overloaded`]: its queue is full.
        /// [`Refusal::Unknown`]: an earlier life of the sender may have proposed them.
        refusal: Refusal,
    },
    /// Is `ballot` still the highest that you promised?
    Confirm {
        /// The leader's ballot.
        ballot: Ballot,
        /// A number that the leader uses once, opened after the reads that it covers had arrived.
        epoch: u64,
    },
    /// It is.
    Confirmed {
        /// The ballot confirmed.
        ballot: Ballot,
        /// The epoch confirmed.
        epoch: u64,
        /// The highest slot in which the sender voted in this ballot; earlier ballots' votes above what
        /// phase 1 found are not decided and never will be.
        voted: Slot,
    },
    /// To the leader: up to which slot must I execute before I answer reads that arrived here?
    AskBarrier {
        /// Tells the requests of the sender apart.
        request: u64,
    },
    /// The answer to [`Message::AskBarrier`].
    Barrier {
        /// The request answered.
        request: u64,
        /// The barrier; `None` if the sender cannot confirm that it leads.
        barrier: Option<Slot>,
    },
    /// From a leader that leaves: begin phase 1 at once, without a pre-vote.
    TakeOver {
        /// The ballot given up.
        ballot: Ballot,
    },
    /// From an acceptor whose log was damaged: what is the highest ballot and slot you know of?
    Survey {
        /// Tells the surveys of the sender apart.
        request: u64,
    },
    /// The answer to [`Message::Survey`].
    Surveyed {
        /// The survey answered.
        request: u64,
        /// The highest ballot that the sender promised or led, durably.
        promised: Ballot,
        /// The highest slot that the sender voted in, proposed or knows decided.
        voted: Slot,
    },
}

impl Message {
    /// Whether every ballot in it is of `view`. One that is not was never sent by an instance of it.
    #[must_use]
    pub fn is_of(&self, view: ViewNumber) -> bool {
        match self {
            Message::Prepare { ballot, .. }
            | Message::Accept { ballot, .. }
            | Message::Accepted { ballot, .. }
            | Message::Seen { ballot, .. }
            | Message::Decided { ballot, .. }
            | Message::Heartbeat { ballot, .. }
            | Message::Heard { ballot, .. }
            | Message::Forward { ballot, .. }
            | Message::Confirm { ballot, .. }
            | Message::Confirmed { ballot, .. }
            | Message::TakeOver { ballot } => ballot.is_of(view),
            Message::PreVoted { promised, .. } | Message::Surveyed { promised, .. } => {
                promised.is_of(view)
            }
            Message::Nack { ballot, promised } => ballot.is_of(view) && promised.is_of(view),
            Message::Promise(page) => {
                let mut votes = page.votes.iter();
                page.ballot.is_of(view) && votes.all(|vote| vote.ballot.is_of(view))
            }
            Message::PreVote { .. }
            | Message::Learn { .. }
            | Message::Learned { .. }
            | Message::Trimmed { .. }
            | Message::Returned { .. }
            | Message::AskBarrier { .. }
            | Message::Barrier { .. }
            | Message::Survey { .. } => true,
        }
    }

    /// What the message binds its sender to.
    #[must_use]
    pub fn testimony(&self) -> Testimony<'_> {
        match self {
            Message::Prepare { ballot, .. } => Testimony::Opens { ballot: *ballot },
            Message::Accept {
                ballot,
                slot,
                batch,
                ..
            } => Testimony::Proposes {
                ballot: *ballot,
                slot: *slot,
                batch,
            },
            Message::Accepted {
                ballot,
                first,
                last,
            } => Testimony::Votes {
                ballot: *ballot,
                first: *first,
                last: *last,
            },
            Message::Promise(page) => Testimony::Promises(page),
            Message::Surveyed { .. } => Testimony::Surveyed,
            Message::PreVote { .. }
            | Message::PreVoted { .. }
            | Message::Nack { .. }
            | Message::Seen { .. }
            | Message::Decided { .. }
            | Message::Heartbeat { .. }
            | Message::Heard { .. }
            | Message::Learn { .. }
            | Message::Learned { .. }
            | Message::Trimmed { .. }
            | Message::Forward { .. }
            | Message::Returned { .. }
            | Message::Confirm { .. }
            | Message::Confirmed { .. }
            | Message::AskBarrier { .. }
            | Message::Barrier { .. }
            | Message::TakeOver { .. }
            | Message::Survey { .. } => Testimony::Nothing,
        }
    }
}
