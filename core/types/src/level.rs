//! Levels: what a build speaks and writes, as one number, and the lowest one that every member of a group must speak.

use std::fmt;

/// A version of everything that nodes tell each other and keep: the version of the wire is the same number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Level(pub u16);

/// The levels that a build speaks, from the oldest to the newest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Levels {
    /// Invariant: not above `newest`.
    oldest: Level,
    newest: Level,
}

impl Level {
    /// The level of a view that names none, as views did before there were levels.
    pub const UNNAMED: Level = Level(19);
    /// Since this one views and commands can name a level; builds of earlier ones do not read those that do.
    pub const NAMED: Level = Level(20);
    /// Since this one a view can name another ordering than [`crate::OrderingName::Paxos`].
    pub const ORDERINGS: Level = Level(21);
    /// Since this one logs are trimmed for a command that was decided; builds of earlier ones do not read it.
    pub const COLLECTED: Level = Level(21);
    /// Since this one a group can have witnesses: [`crate::View::witnesses`].
    pub const WITNESSES: Level = Level(22);
    /// Since this one a view can name [`crate::OrderingName::FastPaxos`], and its log holds votes of fast rounds.
    pub const FAST_ROUNDS: Level = Level(23);
    /// Since this one a view can name [`crate::OrderingName::RingPaxos`].
    pub const RING: Level = Level(24);
    /// Since this one a view can name [`crate::OrderingName::SPaxos`].
    pub const SPREAD_VALUES: Level = Level(25);
    /// Since this one clients announce reads to every node: [`crate::ReadLevel::Broadcast`].
    pub const BROADCAST: Level = Level(26);
    /// Since this one clients may ask for tentative replies: [`crate::FromClient::Early`].
    pub const EARLY: Level = Level(27);
    /// Since this one a change of the view can name who leads the next one without phase 1: [`crate::FirstBallot`].
    pub const FIRST_BALLOT: Level = Level(28);
    /// Since this one a leader may multicast values, where a view names [`crate::OrderingName::RingPaxos`].
    pub const MULTICAST: Level = Level(28);
    /// Since this one operators ask for quorums of other sizes than majorities: [`crate::QuorumRule`].
    pub const QUORUMS: Level = Level(28);
    /// Since this one a further group begins at the level that the first one is at: [`crate::GroupChange::Create`].
    pub const FURTHER_GROUPS: Level = Level(28);
    /// Since this one operators ask for other limits: [`crate::GroupLimits`].
    pub const LIMITS: Level = Level(29);
}

impl Levels {
    /// What a node speaks that says nothing of levels.
    pub const UNNAMED: Levels = Levels {
        oldest: Level::UNNAMED,
        newest: Level::UNNAMED,
    };

    /// Those of a build; `None` if there are none.
    ///
    /// ```
    /// use quorate_types::{Level, Levels};
    /// let build = Levels::new(Level(19), Level(20)).unwrap();
    /// assert!(build.has(Level(20)) && !build.has(Level(21)));
    /// assert_eq!(build.upto(Level(19)), Some(Levels::UNNAMED));
    /// assert_eq!(build.common(Levels::UNNAMED), Some(Level(19)));
    /// ```
    #[must_use]
    pub const fn new(oldest: Level, newest: Level) -> Option<Levels> {
        if oldest.0 <= newest.0 {
            Some(Levels { oldest, newest })
        } else {
            None
        }
    }

    /// The oldest.
    #[must_use]
    pub fn oldest(self) -> Level {
        self.oldest
    }

    /// The newest.
    #[must_use]
    pub fn newest(self) -> Level {
        self.newest
    }

    /// Whether `level` is one of them.
    #[must_use]
    pub fn has(self, level: Level) -> bool {
        (self.oldest..=self.newest).contains(&level)
    }

    /// Those of them up to `newest`, if there are any.
    #[must_use]
    pub fn upto(self, newest: Level) -> Option<Levels> {
        Levels::new(self.oldest, self.newest.min(newest))
    }

    /// The newest that two builds speak, if there is one.
    #[must_use]
    pub fn common(self, other: Levels) -> Option<Level> {
        let newest = self.newest.min(other.newest);
        (newest >= self.oldest.max(other.oldest)).then_some(newest)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.oldest == self.newest {
            true => write!(f, "level {}", self.newest),
            false => write!(f, "levels {} to {}", self.oldest, self.newest),
        }
    }
}
