//! What the orderings that share this protocol do differently: who learns by whom, and who is asked for votes.
//!
//! Made from the name in the view, at the start of an instance. Promises, votes and what makes a decision are the same in all.

use quorate_ordering::{Limits, ProposalReach, ValuesBy};
use quorate_types::{Level, OrderingName, View};

/// The policies of one instance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Policies {
    pub(crate) votes_told: VotesTold,
    pub(crate) asked: AcceptorsAsked,
    pub(crate) values: ValuesTravel,
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
    /// The majority whose answers come soonest: steps whose first slots go to all only where one was suspected before.
    Nearest,
    /// As in steps, and then one after the other: each passes the proposal on. High Performance State-Machine Replication 3.1 (Ring
    /// Paxos).
    Ring,
}

/// How the commands of a proposal reach the acceptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ValuesTravel {
    /// In the proposal; who does not lead forwards its commands to the leader.
    Proposed,
    /// Apart from it: who is called spreads them to all, and the leader proposes names of what a quorum holds. Paxos in the Cloud III.A
    /// (S-Paxos).
    Spread,
    /// As in proposals, but by multicast where a proposal goes along a ring to nodes that hear it. High Performance State-Machine
    /// Replication 3.1 (Ring Paxos).
    Multicast,
}

impl Policies {
    pub(crate) fn of(view: &View, limits: &Limits) -> Policies {
        let (ordering, reach) = (view.ordering, limits.reach);
        let (votes_told, asked) = match ordering {
            OrderingName::Paxos => (VotesTold::ToLeader, AcceptorsAsked::All),
            OrderingName::Libpaxos => (VotesTold::ToAll, AcceptorsAsked::All),
            OrderingName::LibpaxosPlus => (VotesTold::ToAll, AcceptorsAsked::Steps),
            OrderingName::RingPaxos => (VotesTold::ToLeader, AcceptorsAsked::Ring),
            OrderingName::SPaxos => (VotesTold::ToLeader, AcceptorsAsked::All),
            OrderingName::FastPaxos => unreachable!("another protocol orders so"),
        };
        let values = match ordering {
            OrderingName::SPaxos => ValuesTravel::Spread,
            OrderingName::RingPaxos
                if view.level >= Level::MULTICAST && limits.values == ValuesBy::Multicast =>
            {
                ValuesTravel::Multicast
            }
            OrderingName::Paxos
            | OrderingName::Libpaxos
            | OrderingName::LibpaxosPlus
            | OrderingName::RingPaxos
            | OrderingName::FastPaxos => ValuesTravel::Proposed,
        };
        let asked = match (reach, asked, values) {
            // What is spread goes to all anyway, and the other orderings choose for themselves.
            (ProposalReach::Nearest, AcceptorsAsked::All, ValuesTravel::Proposed) => {
                AcceptorsAsked::Nearest
            }
            (ProposalReach::Nearest | ProposalReach::ByOrdering, _, _) => asked,
        };
        Policies {
            votes_told,
            asked,
            values,
        }
    }
}
