//! What the orderings that share this protocol do differently: who learns by whom, and who is asked for votes.
//!
//! Made from the name in the view, at the start of an instance. Promises, votes and what makes a decision are the same in all.

use quorate_types::OrderingName;

/// The policies of one instance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Policies {
    pub(crate) votes_told: VotesTold,
    pub(crate) asked: AcceptorsAsked,
}

/// To whom acceptors tell their votes, and so how nodes other than the leader learn that a slot is decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum VotesTold {
    /// To the leader, which tells the watermark.
    ToLeader,
    /// To all members, and each counts for itself. Paxos in the Cloud III.D (Libpaxos).
    ToAll,
}

/// Which acceptors a leader asks for their votes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AcceptorsAsked {
    /// All of them.
    All,
    /// All in the first slots of a step, then the best majority. Paxos in the Cloud III.E (Libpaxos+).
    Steps,
}

impl Policies {
    pub(crate) fn of(ordering: OrderingName) -> Policies {
        let (votes_told, asked) = match ordering {
            OrderingName::Paxos => (VotesTold::ToLeader, AcceptorsAsked::All),
            OrderingName::Libpaxos => (VotesTold::ToAll, AcceptorsAsked::All),
            OrderingName::LibpaxosPlus => (VotesTold::ToAll, AcceptorsAsked::Steps),
            OrderingName::FastPaxos => unreachable!("another protocol orders so"),
        };
        Policies { votes_told, asked }
    }
}
