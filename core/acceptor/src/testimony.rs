//! What a message binds its sender to, in the same terms for all protocols.
//!
//! The messages of protocols differ, but the commitments of acceptors and proposers do not. The lab's checkers
//! ask each message for its testimony, so they do not depend on a protocol.

use crate::Promise;
use quorate_types::{Ballot, Batch, BroadcastId, Command, NodeSet, Slot, Stamp, ValueId, VoteKind};

/// The commitment that a message makes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Testimony<'a> {
    /// Nothing: the message asks, informs or returns credit.
    Nothing,
    /// It asks for promises in this ballot. No other node ever asks for them.
    Opens {
        /// The ballot.
        ballot: Ballot,
    },
    /// It proposes a batch to all acceptors, in whichever slot each has free: the only batch of this name.
    ProposesValue {
        /// The ballot in whose fast rounds it is proposed.
        ballot: Ballot,
        /// The name of the value.
        value: ValueId,
        /// The value.
        batch: &'a Batch,
    },
    /// It proposes one batch, the only one of the classic round of this ballot in this slot.
    Proposes {
        /// The ballot.
        ballot: Ballot,
        /// The slot.
        slot: Slot,
        /// The batch.
        batch: &'a Batch,
        /// Every slot up to here is decided, those that the ballot proposed as it proposed them.
        decided: Slot,
    },
    /// It spreads commands under a name, so that a leader can propose them by it: the only commands of this name.
    Spreads {
        /// The name.
        value: ValueId,
        /// The commands.
        commands: &'a [Command],
    },
    /// As [`Testimony::Proposes`], of the batch with this stamp and the commands spread under these names, one after the other.
    ProposesNamed {
        /// The ballot.
        ballot: Ballot,
        /// The slot.
        slot: Slot,
        /// The stamp of the batch.
        stamp: Stamp,
        /// Whose commands it has.
        values: &'a [ValueId],
        /// Every slot up to here is decided, those that the ballot proposed as it proposed them.
        decided: Slot,
    },
    /// It voted, durably, in each slot of `first..=last`: for what the ballot proposed, or in a fast round for the value named.
    Votes {
        /// The ballot.
        ballot: Ballot,
        /// The round, and the value of a fast one.
        kind: VoteKind,
        /// The first slot.
        first: Slot,
        /// The last slot.
        last: Slot,
    },
    /// It passes on what the leader of this ballot proposes, or is that leader and lets others pass it on.
    Passes {
        /// The ballot.
        ballot: Ballot,
        /// The slot.
        slot: Slot,
        /// The batch.
        batch: &'a Batch,
        /// As the leader vouched when it proposed.
        decided: Slot,
    },
    /// As [`Testimony::Passes`], of a value that travels apart.
    PassesId {
        /// The ballot.
        ballot: Ballot,
        /// As the leader vouched when it proposed.
        decided: Slot,
    },
    /// Each of these voted, durably, for what the ballot proposed in each slot of `first..=last`; the sender may be among them.
    Gathers {
        /// The ballot.
        ballot: Ballot,
        /// The first slot.
        first: Slot,
        /// The last slot.
        last: Slot,
        /// Who voted.
        voters: NodeSet,
    },
    /// It takes part in no lower ballot, and these are its votes.
    Promises(&'a Promise),
    /// As a leader, it asks for a lease with this heartbeat.
    AsksLease {
        /// Its ballot.
        ballot: Ballot,
        /// The number of the heartbeat.
        beat: u64,
        /// Every slot up to here is decided, those that the ballot proposed as it proposed them.
        decided: Slot,
    },
    /// It promises no other node a ballot before the lease that this heartbeat asked for has run out.
    GrantsLease {
        /// The leader's ballot.
        ballot: Ballot,
        /// The number of the heartbeat.
        beat: u64,
    },
    /// As a leader, it opens a round that confirms reads.
    AsksConfirm {
        /// Its ballot.
        ballot: Ballot,
        /// The number of the round.
        epoch: u64,
    },
    /// It knows of no higher ballot.
    Confirms {
        /// The leader's ballot.
        ballot: Ballot,
        /// The number of the round.
        epoch: u64,
    },
    /// It heard of a read from its client, and knows of no higher ballot.
    Attests {
        /// The ballot of the leader that it follows.
        ballot: Ballot,
        /// The read.
        read: BroadcastId,
    },
    /// It is sent as the leader of this ballot and vouches for what the ballot decided.
    Leads {
        /// The ballot.
        ballot: Ballot,
        /// Every slot up to here is decided, those that the ballot proposed as it proposed them.
        decided: Slot,
    },
    /// It lacks decided slots and asks for them.
    AsksDecided {
        /// The first slot that it lacks.
        from: Slot,
    },
    /// It answers a question for decided slots: these batches were decided, in consecutive slots.
    TellsDecided {
        /// The slot of the first batch.
        from: Slot,
        /// What was decided.
        batches: &'a [Batch],
    },
    /// It asks whether the receiver would promise it a ballot.
    AsksPreVote {
        /// The number of the question.
        attempt: u64,
        /// The end of the sender's decided prefix.
        decided: Slot,
    },
    /// It answers that.
    AnswersPreVote {
        /// The number of the question.
        attempt: u64,
        /// Whether it would.
        is_granted: bool,
    },
    /// It is a damaged acceptor and asks what it may have promised and voted for.
    Surveys {
        /// Tells one survey of the sender from the next.
        request: u64,
    },
    /// It tells a damaged acceptor what that one may have promised and voted for.
    Surveyed {
        /// The survey answered.
        request: u64,
        /// The highest ballot that the sender promised.
        promised: Ballot,
        /// The highest slot that the sender voted or proposed in.
        voted: Slot,
    },
}
