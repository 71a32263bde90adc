//! Checkers of a run: each watches from outside and reports a broken property.
//!
//! None of them trusts the code under test or shares code with it; they take plain numbers and calls. The seeded
//! world calls them at each event; the real-process nemesis passes recorded histories to them.

pub mod ages;
pub mod agreed_time;
pub mod agreement;
pub mod announcements;
pub mod at_most_once;
pub mod catching_up;
pub mod chosen;
pub mod confirmations;
mod demand;
pub mod dialling;
#[cfg(test)]
mod dice;
pub mod durability;
pub mod fetching;
pub mod footprint;
pub mod groups;
pub mod holding;
pub mod invited;
pub mod keepalives;
pub mod leadership;
pub mod leases;
pub mod levels;
pub mod limits;
pub mod linearizability;
pub mod liveness;
pub mod memory;
pub mod model;
pub mod order;
pub mod phase_one;
pub mod recorded;
pub mod rendezvous;
pub mod rounds;
mod search;
pub mod standing;
mod timeline;
pub mod views;
pub mod vouching;
pub mod watching;
pub mod witness;
pub mod written;

use std::fmt;

/// What a checker watches over; a planted bug is expected to break a stated one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Property {
    /// A slot is decided with one value everywhere.
    Agreement,
    /// All votes of one ballot in one slot are for one value.
    OneValuePerBallot,
    /// A ballot is opened once, over restarts too.
    BallotUnique,
    /// A promise or vote that was told survives a restart.
    Remembered,
    /// After a promise, no unreported vote of a lower ballot is told.
    PromiseKept,
    /// A command executes once and with one reply on all replicas.
    AtMostOnce,
    /// Each reply equals replaying the decided log.
    LogWitness,
    /// What clients saw is the behaviour of one sequential object.
    Linearizability,
    /// What was acknowledged is there after a total restart.
    Durability,
    /// Queues and logs stay inside their bounds.
    BoundedMemory,
    /// Once faults stop, operations complete in time.
    Liveness,
    /// An acceptor bound by a lease promises nobody else, and no leader counts on a lease for longer than it binds.
    Lease,
    /// A read outside of the log is confirmed after it arrived, and reflects all that was decided before.
    ReadConfirmed,
    /// A leader proposes what follows from the votes that enough acceptors told it.
    PhaseOne,
    /// A leader that cannot reach a quorum, or was superseded, does not claim to lead for long.
    StepDown,
    /// A healthy, connected majority soon has a leader, and keeps it.
    Election,
    /// A healthy, connected majority with a leader decides what waits.
    Progress,
    /// A session ends as the log says, and not before the expiry time after an answered sign of life.
    SessionKept,
    /// Batches are stamped with the time of a majority's clocks.
    AgreedTime,
    /// A read of any state tells no smaller age than its state has, and no client goes back behind what it has read.
    AnyState,
    /// Calls that wait are answered once, in their order, and none is forgotten.
    Rendezvous,
    /// Each change that is published comes to those who watch once and in order, or they are told how many they lost.
    Watching,
    /// Replicas that executed the same hold the same.
    Digest,
    /// A client that nobody answers tries all nodes, and pauses in between.
    Dialling,
    /// No node is told what its build does not read, nor acts in a view whose level it does not speak; and a group is set only to
    /// levels that all members speak.
    LevelSpoken,
    /// A tentative reply is what objects made of a call ahead of its decision, and one that is confirmed is the answer.
    EarlyTrue,
    /// Votes are told to those that the ordering of their view says.
    Ordered,
    /// The code under test keeps its own rules: no assertion fails.
    Invariant,
}

/// A broken property and what was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What is broken.
    pub property: Property,
    /// Who, where and which values, for a person.
    pub detail: String,
}

impl Violation {
    pub(crate) fn new(property: Property, detail: impl Into<String>) -> Self {
        Self {
            property,
            detail: detail.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.property, self.detail)
    }
}

impl std::error::Error for Violation {}

/// A ballot of the first node in its first life, for the checkers' own tests.
#[cfg(test)]
fn ballot(round: u64) -> quorate_types::Ballot {
    quorate_types::Ballot {
        view: quorate_types::ViewNumber(1),
        round,
        node: quorate_types::NodeId(1),
        boot: 1,
    }
}
