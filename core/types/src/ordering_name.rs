//! The orderings that a view can name.

use crate::Level;
use std::fmt;
use std::str::FromStr;

/// How the commands of a view are ordered. All members order in the same way; another view may name another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum OrderingName {
    /// Multi-Paxos: the leader counts votes and tells what is decided. A view that names none has this one.
    #[default]
    Paxos,
    /// Acceptors tell their votes to all learners, which count for themselves.
    Libpaxos,
    /// As Libpaxos, and slow acceptors are spared: most proposals are sent to the best majority only.
    LibpaxosPlus,
    /// Fast Paxos: who submits a command proposes it to all acceptors, which choose.
    FastPaxos,
    /// Acceptors in a ring: each passes the proposals on to the next, and votes are gathered along it.
    RingPaxos,
    /// S-Paxos: every node spreads what it is called with to all, and the leader orders names of it.
    SPaxos,
}

impl OrderingName {
    /// All of them.
    pub const ALL: [OrderingName; 6] = [
        OrderingName::Paxos,
        OrderingName::Libpaxos,
        OrderingName::LibpaxosPlus,
        OrderingName::FastPaxos,
        OrderingName::RingPaxos,
        OrderingName::SPaxos,
    ];

    /// The word for it, on the command line and in documents.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            OrderingName::Paxos => "paxos",
            OrderingName::Libpaxos => "libpaxos",
            OrderingName::LibpaxosPlus => "libpaxos+",
            OrderingName::FastPaxos => "fast_paxos",
            OrderingName::RingPaxos => "ring_paxos",
            OrderingName::SPaxos => "s_paxos",
        }
    }

    /// Whether the node that is called proposes, and not the leader for it: clients then stay with the node that they found.
    ///
    /// ```
    /// use quorate_types::OrderingName;
    /// assert!(OrderingName::SPaxos.proposes_where_called());
    /// assert!(!OrderingName::Paxos.proposes_where_called());
    /// ```
    #[must_use]
    pub fn proposes_where_called(self) -> bool {
        match self {
            OrderingName::FastPaxos | OrderingName::SPaxos => true,
            OrderingName::Paxos
            | OrderingName::Libpaxos
            | OrderingName::LibpaxosPlus
            | OrderingName::RingPaxos => false,
        }
    }

    /// The lowest level at which a view can name it.
    ///
    /// ```
    /// use quorate_types::{Level, OrderingName};
    /// assert_eq!(OrderingName::Paxos.level(), Level::UNNAMED);
    /// assert_eq!("libpaxos+".parse(), Ok(OrderingName::LibpaxosPlus));
    /// assert_eq!(OrderingName::LibpaxosPlus.level(), Level::ORDERINGS);
    /// assert_eq!(OrderingName::FastPaxos.level(), Level::FAST_ROUNDS);
    /// ```
    #[must_use]
    pub fn level(self) -> Level {
        match self {
            OrderingName::Paxos => Level::UNNAMED,
            OrderingName::Libpaxos | OrderingName::LibpaxosPlus => Level::ORDERINGS,
            OrderingName::FastPaxos => Level::FAST_ROUNDS,
            OrderingName::RingPaxos => Level::RING,
            OrderingName::SPaxos => Level::SPREAD_VALUES,
        }
    }

    /// The lowest level at which a change of the view can name it: those who read the change know that there are several.
    ///
    /// ```
    /// use quorate_types::{Level, OrderingName};
    /// assert_eq!(OrderingName::Paxos.change_level(), Level::ORDERINGS);
    /// assert_eq!(OrderingName::FastPaxos.change_level(), Level::FAST_ROUNDS);
    /// ```
    #[must_use]
    pub fn change_level(self) -> Level {
        self.level().max(Level::ORDERINGS)
    }
}

/// A word that names no ordering.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoOrdering(String);

impl FromStr for OrderingName {
    type Err = NoOrdering;

    fn from_str(word: &str) -> Result<OrderingName, NoOrdering> {
        let mut all = OrderingName::ALL.into_iter();
        all.find(|name| name.word() == word)
            .ok_or_else(|| NoOrdering(word.to_owned()))
    }
}

impl fmt::Display for OrderingName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl fmt::Display for NoOrdering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = OrderingName::ALL.map(OrderingName::word).join(", ");
        write!(f, "there is no ordering \"{}\"; there are {known}", self.0)
    }
}

impl std::error::Error for NoOrdering {}
