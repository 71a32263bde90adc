//! How many votes decide in a fast round, in which each acceptor votes for what reaches it first.
//!
//! Two values can have votes in one fast round. Whoever recovers the round must be able to tell which of them can have been
//! decided: any two fast quorums and any phase-1 quorum must have an acceptor in common. Majorities for phase 1 and
//! `2t + 1` votes of `3t + 1` acceptors do not do that from `t = 2` on.

use crate::{Quorums, QuorumsError};
use std::fmt;

/// Quorums of both kinds of rounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FastQuorums {
    /// Phase 1, and phase 2 of classic rounds.
    classic: Quorums,
    /// Invariant: `phase1 + 2 * fast > 2 * acceptors`.
    fast: usize,
}

/// Why quorum sizes cannot be used in fast rounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FastQuorumsError {
    /// The sizes cannot be used in any round.
    Classic(QuorumsError),
    /// Two fast quorums can meet outside of a phase-1 quorum.
    Ambiguous {
        /// Phase-1 size asked for.
        phase1: usize,
        /// Fast size asked for.
        fast: usize,
        /// How many acceptors there are.
        acceptors: usize,
    },
    /// That many faults need more acceptors.
    TooFewAcceptors {
        /// How many there are.
        acceptors: usize,
        /// Faults to be tolerated.
        faults: usize,
    },
    /// Fast rounds would need the votes of all acceptors.
    NoSpare {
        /// Phase-1 size asked for.
        phase1: usize,
        /// How many acceptors there are.
        acceptors: usize,
    },
}

impl FastQuorums {
    /// Fast quorums of the size `fast` beside the quorums of classic rounds.
    ///
    /// # Errors
    /// Says which rule the sizes break.
    ///
    /// ```
    /// use quorate_types::{FastQuorums, Quorums};
    /// assert!(FastQuorums::new(Quorums::majority(4)?, 3).is_ok());
    /// assert!(FastQuorums::new(Quorums::majority(7)?, 5).is_err());
    /// # Ok::<(), quorate_types::QuorumsError>(())
    /// ```
    pub fn new(classic: Quorums, fast: usize) -> Result<FastQuorums, FastQuorumsError> {
        let acceptors = classic.acceptors();
        if fast == 0 || fast > acceptors {
            let size = fast;
            let out = QuorumsError::OutOfRange { size, acceptors };
            return Err(FastQuorumsError::Classic(out));
        }
        let phase1 = classic.phase1();
        if phase1 + 2 * fast <= 2 * acceptors {
            return Err(FastQuorumsError::Ambiguous {
                phase1,
                fast,
                acceptors,
            });
        }
        Ok(FastQuorums { classic, fast })
    }

    /// The fast quorums of a view: as large as an operator asked for, else as small as they can be.
    #[must_use]
    pub fn of(classic: Quorums) -> FastQuorums {
        match classic.fast() {
            Some(fast) => FastQuorums { classic, fast },
            None => FastQuorums::least(classic),
        }
    }

    /// The smallest fast quorums that the phase-1 quorums allow.
    #[must_use]
    pub fn least(classic: Quorums) -> FastQuorums {
        let fast = (2 * classic.acceptors() - classic.phase1()) / 2 + 1;
        FastQuorums { classic, fast }
    }

    /// The smallest fast quorums beside majorities, where fast rounds go on without one of the acceptors.
    ///
    /// # Errors
    /// When there are fewer than four: then a fast round needs the votes of all.
    ///
    /// ```
    /// use quorate_types::FastQuorums;
    /// let five = FastQuorums::beside_majorities(5).unwrap();
    /// let told = "5 acceptors: fast rounds need 4, classic ones 3; the group goes on without 2, in fast rounds without 1";
    /// assert_eq!(five.to_string(), told);
    /// assert!(FastQuorums::beside_majorities(3).is_err());
    /// ```
    pub fn beside_majorities(acceptors: usize) -> Result<FastQuorums, FastQuorumsError> {
        let faults = 1;
        let few = FastQuorumsError::TooFewAcceptors { acceptors, faults };
        let classic = Quorums::majority(acceptors).map_err(FastQuorumsError::Classic)?;
        let quorums = FastQuorums::least(classic);
        match quorums.faults() >= faults {
            true => Ok(quorums),
            false => Err(few),
        }
    }

    /// Refuses quorums whose fast rounds need the votes of all: one slow acceptor would turn every round into a classic one.
    ///
    /// # Errors
    /// Says how many acceptors it takes, or which phase-1 quorums.
    pub fn check_spare(self) -> Result<FastQuorums, FastQuorumsError> {
        let acceptors = self.classic.acceptors();
        if self.faults() > 0 {
            return Ok(self);
        }
        Err(match acceptors < 4 || !self.classic.is_asked() {
            true => FastQuorumsError::TooFewAcceptors {
                acceptors,
                faults: 1,
            },
            false => FastQuorumsError::NoSpare {
                phase1: self.classic.phase1(),
                acceptors,
            },
        })
    }

    /// Quorums with which every phase and both kinds of rounds tolerate `faults` acceptors that are gone.
    ///
    /// # Errors
    /// When there are fewer than `3 * faults + 1` acceptors.
    pub fn tolerating(acceptors: usize, faults: usize) -> Result<FastQuorums, FastQuorumsError> {
        if acceptors <= 3 * faults {
            return Err(FastQuorumsError::TooFewAcceptors { acceptors, faults });
        }
        let size = acceptors - faults;
        let classic = Quorums::flexible(acceptors, size, size);
        FastQuorums::new(classic.map_err(FastQuorumsError::Classic)?, size)
    }

    /// Quorums of phase 1 and of classic rounds.
    #[must_use]
    pub fn classic(&self) -> Quorums {
        self.classic
    }

    /// Votes that decide in a fast round.
    #[must_use]
    pub fn fast(&self) -> usize {
        self.fast
    }

    /// Acceptors that may be gone while fast rounds still decide.
    #[must_use]
    pub fn faults(&self) -> usize {
        self.classic.acceptors() - self.fast
    }

    /// Confirmations needed for a read: a set that meets every phase-1 quorum and every fast one, which decides without the leader.
    #[must_use]
    pub fn confirm(&self) -> usize {
        let meets_fast = self.classic.acceptors() + 1 - self.fast;
        self.classic.confirm().max(meets_fast)
    }

    /// Votes for one value, told by `witnesses` acceptors, from which on it may have been decided in a fast round: all
    /// acceptors that told nothing may have voted for it too.
    #[must_use]
    pub fn threshold(&self, witnesses: usize) -> usize {
        (self.fast + witnesses).saturating_sub(self.classic.acceptors())
    }
}

impl fmt::Display for FastQuorums {
    /// What the group tolerates, for operators.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (acceptors, classic) = (self.classic.acceptors(), self.classic.phase2());
        let needed = self.classic.both();
        if self.classic.phase1() != classic {
            return write!(
                f,
                "{acceptors} acceptors: fast rounds need {}, classic ones {classic}, {} elect a leader; the group goes on without {}, \
                 under the leader that it has without {}, in fast rounds without {}",
                self.fast,
                self.classic.phase1(),
                acceptors - needed,
                acceptors - classic,
                self.faults(),
            );
        }
        write!(
            f,
            "{acceptors} acceptors: fast rounds need {}, classic ones {classic}; the group goes on without {}, in fast rounds without {}",
            self.fast,
            acceptors - needed,
            (acceptors - needed).min(self.faults())
        )
    }
}

impl fmt::Display for FastQuorumsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FastQuorumsError::Classic(why) => why.fmt(f),
            FastQuorumsError::Ambiguous {
                phase1,
                fast,
                acceptors,
            } => {
                write!(
                    f,
                    "phase-1 quorums of {phase1} cannot tell which value a fast quorum of {fast} among {acceptors} acceptors has \
                     decided; the one and twice the other must exceed {}: use fast quorums of {}",
                    2 * acceptors,
                    (2 * acceptors - phase1) / 2 + 1,
                )?;
                match (2 * acceptors + 1).saturating_sub(2 * fast) {
                    larger if larger <= *acceptors => write!(f, " or phase-1 quorums of {larger}"),
                    _ => Ok(()),
                }
            }
            FastQuorumsError::TooFewAcceptors { acceptors, faults } => write!(
                f,
                "fast rounds that go on without {faults} of the acceptors need {} acceptors, not {acceptors}",
                3 * faults + 1
            ),
            FastQuorumsError::NoSpare { phase1, acceptors } => write!(
                f,
                "with phase-1 quorums of {phase1} among {acceptors} acceptors every fast round needs the votes of all: use phase-1 \
                 quorums of 3 or more, and fast quorums of fewer than {acceptors}"
            ),
        }
    }
}

impl std::error::Error for FastQuorumsError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn subsets(n: usize, size: usize) -> impl Iterator<Item = u32> + Clone {
        (0u32..1 << n).filter(move |set| set.count_ones() as usize == size)
    }

    #[test]
    fn sizes_are_valid_exactly_when_two_fast_quorums_always_meet_in_a_phase_one_quorum() {
        for n in 1..=7 {
            for q1 in 1..=n {
                for q2 in 1..=n {
                    let Ok(classic) = Quorums::flexible(n, q1, q2) else {
                        continue;
                    };
                    for fast in 0..=n + 1 {
                        let made = FastQuorums::new(classic, fast);
                        let is_told = (1..=n).contains(&fast)
                            && subsets(n, fast).all(|a| {
                                subsets(n, fast)
                                    .all(|b| subsets(n, q1).all(|phase1| a & b & phase1 != 0))
                            });
                        assert_eq!(made.is_ok(), is_told, "n={n} q1={q1} qf={fast}");
                        let Ok(quorums) = made else { continue };
                        assert!(fast >= FastQuorums::least(classic).fast());
                        let confirms = subsets(n, quorums.confirm());
                        for size in [q1, fast] {
                            assert!(
                                confirms
                                    .clone()
                                    .all(|a| subsets(n, size).all(|b| a & b != 0))
                            );
                        }
                    }
                    let least = FastQuorums::least(classic);
                    assert!(FastQuorums::new(classic, least.fast()).is_ok());
                }
            }
        }
    }

    #[test]
    fn the_smallest_fast_quorums_beside_majorities_are_those_of_the_table() {
        let table = [
            (3, 3),
            (4, 3),
            (5, 4),
            (6, 5),
            (7, 6),
            (8, 6),
            (9, 7),
            (10, 8),
            (11, 9),
        ];
        for (n, fast) in table {
            let majority = Quorums::majority(n).unwrap();
            assert_eq!(FastQuorums::least(majority).fast(), fast, "n={n}");
            assert!(FastQuorums::new(majority, fast - 1).is_err(), "n={n}");
        }
    }

    #[test]
    fn majorities_tell_enough_of_two_thirds_for_one_fault_and_for_no_more() {
        for t in 1..=3 {
            let (n, size) = (3 * t + 1, 2 * t + 1);
            let quorums = FastQuorums::tolerating(n, t).unwrap();
            let classic = quorums.classic();
            assert_eq!(
                (classic.phase1(), classic.phase2(), quorums.fast()),
                (size, size, size)
            );
            assert_eq!(quorums.faults(), t);
            let majority = Quorums::majority(n).unwrap();
            assert_eq!(FastQuorums::new(majority, size).is_ok(), t == 1, "t={t}");
            assert_eq!(
                FastQuorums::tolerating(n - 1, t),
                Err(FastQuorumsError::TooFewAcceptors {
                    acceptors: n - 1,
                    faults: t
                })
            );
        }
        let refused = FastQuorums::new(Quorums::majority(7).unwrap(), 5).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "phase-1 quorums of 4 cannot tell which value a fast quorum of 5 among 7 acceptors has decided; \
             the one and twice the other must exceed 14: use fast quorums of 6 or phase-1 quorums of 5"
        );
        let refused = FastQuorums::new(Quorums::flexible(4, 4, 1).unwrap(), 2).unwrap_err();
        let advised = refused.to_string();
        assert!(advised.ends_with("use fast quorums of 3"), "{advised}");
    }
}
