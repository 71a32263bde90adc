//! How many acceptors each phase of agreement needs.

use crate::zoo::{Plant, planted};
use crate::{FastQuorums, FastQuorumsError, QuorumRule};
use std::fmt;

/// How many acceptors a phase needs: any phase-1 quorum meets any phase-2 quorum. Two phase-2 quorums need not meet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quorums {
    acceptors: usize,
    phase1: usize,
    phase2: usize,
    wish: Wish,
}

/// Whether somebody asked for these sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wish {
    /// Nobody did: other acceptors count by majorities.
    None,
    /// An operator did: other acceptors count as [`Quorums::after`] says. So many votes were asked for in fast rounds, if any.
    Sizes { fast: Option<usize> },
}

/// The sizes that an operator asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuorumSizes {
    /// Promises needed to lead.
    pub phase1: usize,
    /// Votes needed to decide, in classic rounds.
    pub phase2: usize,
    /// Votes needed to decide in fast rounds; none: as few as are safe.
    pub fast: Option<usize>,
}

/// Why quorum sizes cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuorumsError {
    /// There is no acceptor.
    NoAcceptors,
    /// A size is zero or larger than the number of acceptors.
    OutOfRange {
        /// The size asked for.
        size: usize,
        /// How many acceptors there are.
        acceptors: usize,
    },
    /// Two quorums of these sizes can miss each other.
    NoIntersection {
        /// Phase-1 size asked for.
        phase1: usize,
        /// Phase-2 size asked for.
        phase2: usize,
        /// How many acceptors there are.
        acceptors: usize,
    },
    /// So few acceptors would be left that the phase-2 quorums that were asked for do not exist.
    TooFewLeft {
        /// Phase-2 size asked for.
        phase2: usize,
        /// How many acceptors would be left.
        acceptors: usize,
    },
}

impl Quorums {
    /// Majorities of `acceptors` for both phases.
    ///
    /// # Errors
    /// [`QuorumsError::NoAcceptors`] when there is none.
    pub fn majority(acceptors: usize) -> Result<Quorums, QuorumsError> {
        Quorums::flexible(acceptors, acceptors / 2 + 1, acceptors / 2 + 1)
    }

    /// Sizes of one's own choice, valid when `phase1 + phase2 > acceptors` (Flexible Paxos).
    ///
    /// # Errors
    /// Says which rule the sizes break.
    ///
    /// ```
    /// use quorate_types::Quorums;
    /// assert!(Quorums::flexible(5, 4, 2).is_ok());
    /// assert!(Quorums::flexible(4, 2, 2).is_err());
    /// ```
    pub fn flexible(
        acceptors: usize,
        phase1: usize,
        phase2: usize,
    ) -> Result<Quorums, QuorumsError> {
        if acceptors == 0 {
            return Err(QuorumsError::NoAcceptors);
        }
        for size in [phase1, phase2] {
            if size == 0 || size > acceptors {
                return Err(QuorumsError::OutOfRange { size, acceptors });
            }
        }
        if phase1 + phase2 <= acceptors {
            return Err(QuorumsError::NoIntersection {
                phase1,
                phase2,
                acceptors,
            });
        }
        Ok(Quorums {
            acceptors,
            phase1,
            phase2,
            wish: Wish::None,
        })
    }

    /// Sizes that an operator asks for, and that are kept when other acceptors vote: see [`Quorums::after`].
    ///
    /// # Errors
    /// Says which rule the sizes break, and which sizes keep it.
    ///
    /// ```
    /// use quorate_types::{QuorumSizes, Quorums};
    /// let sizes = QuorumSizes { phase1: 4, phase2: 2, fast: None };
    /// let six = Quorums::asked(5, sizes).unwrap().after(6).unwrap();
    /// assert_eq!((six.phase1(), six.phase2()), (5, 2));
    /// ```
    pub fn asked(acceptors: usize, sizes: QuorumSizes) -> Result<Quorums, FastQuorumsError> {
        let QuorumSizes {
            phase1,
            phase2,
            fast,
        } = sizes;
        let made = Quorums::flexible(acceptors, phase1, phase2);
        let mut made = made.map_err(FastQuorumsError::Classic)?;
        if let Some(fast) = fast {
            FastQuorums::new(made, fast)?;
        }
        made.wish = Wish::Sizes { fast };
        Ok(made)
    }

    /// The quorums of so many acceptors after these. Majorities stay majorities. Where sizes were asked for, as many as before decide,
    /// and as few as are safe elect a leader; in fast rounds as few as are safe decide. Claim mp-85.
    ///
    /// # Errors
    /// [`QuorumsError::NoAcceptors`], and [`QuorumsError::TooFewLeft`] when fewer are left than decided before.
    pub fn after(&self, acceptors: usize) -> Result<Quorums, QuorumsError> {
        match self.wish {
            Wish::None => Quorums::majority(acceptors),
            Wish::Sizes { .. } if acceptors == self.acceptors => Ok(*self),
            Wish::Sizes { .. } if acceptors == 0 => Err(QuorumsError::NoAcceptors),
            Wish::Sizes { .. } => {
                let phase2 = self.phase2;
                if phase2 > acceptors {
                    return Err(QuorumsError::TooFewLeft { phase2, acceptors });
                }
                let phase1 = match planted(Plant::KeptPhaseOneMisses) {
                    true => self.phase1.min(acceptors),
                    false => acceptors - phase2 + 1,
                };
                Ok(Quorums {
                    acceptors,
                    phase1,
                    phase2,
                    wish: Wish::Sizes { fast: None },
                })
            }
        }
    }

    /// Whether an operator asked for these sizes, whatever they are.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.wish != Wish::None
    }

    /// What leads to these quorums.
    #[must_use]
    pub fn rule(&self) -> QuorumRule {
        match self.wish {
            Wish::None => QuorumRule::Majority,
            Wish::Sizes { fast } => QuorumRule::Sizes(QuorumSizes {
                phase1: self.phase1,
                phase2: self.phase2,
                fast,
            }),
        }
    }

    /// The votes that an operator asked for in fast rounds.
    #[must_use]
    pub fn fast(&self) -> Option<usize> {
        match self.wish {
            Wish::None => None,
            Wish::Sizes { fast } => fast,
        }
    }

    /// How many acceptors must be up so that a leader can be elected and decides: after each change of the view it must.
    #[must_use]
    pub fn both(&self) -> usize {
        self.phase1.max(self.phase2)
    }

    /// Acceptors of the view.
    #[must_use]
    pub fn acceptors(&self) -> usize {
        self.acceptors
    }

    /// Promises needed to lead.
    #[must_use]
    pub fn phase1(&self) -> usize {
        self.phase1
    }

    /// Votes needed to decide.
    #[must_use]
    pub fn phase2(&self) -> usize {
        self.phase2
    }

    /// Confirmations needed for a read, or for a lease, where only leaders propose: a set that meets every phase-1 quorum, so that
    /// nobody else can have begun to lead. It is never larger than a phase-2 quorum: who can decide can answer reads. Claim mp-86.
    #[must_use]
    pub fn confirm(&self) -> usize {
        self.acceptors + 1 - self.phase1
    }
}

impl fmt::Display for Quorums {
    /// What the group tolerates, for operators.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Quorums {
            acceptors,
            phase1,
            phase2,
            wish: _,
        } = *self;
        let word = if acceptors == 1 {
            "acceptor"
        } else {
            "acceptors"
        };
        let without = acceptors - phase1.max(phase2);
        write!(f, "{acceptors} {word}: ")?;
        if phase1 == phase2 {
            return write!(f, "{phase2} decide; the group goes on without {without}");
        }
        let deciding = acceptors - phase2;
        write!(
            f,
            "{phase2} decide, {phase1} elect a leader; the group goes on without {without}, under the leader that it has without {deciding}"
        )
    }
}

impl fmt::Display for QuorumsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QuorumsError::NoAcceptors => f.write_str("a view needs at least one acceptor"),
            QuorumsError::OutOfRange { size, acceptors } => {
                write!(f, "quorum size {size} is not between 1 and {acceptors}")
            }
            QuorumsError::NoIntersection {
                phase1,
                phase2,
                acceptors,
            } => write!(
                f,
                "quorums of {phase1} and {phase2} among {acceptors} acceptors can miss each other; \
                 their sum must exceed {acceptors}: use {},{phase2} or {phase1},{}",
                acceptors + 1 - phase2,
                acceptors + 1 - phase1,
            ),
            QuorumsError::TooFewLeft { phase2, acceptors } => write!(
                f,
                "{acceptors} acceptors would be left, and {phase2} are to decide: ask for other quorums first, for example majorities"
            ),
        }
    }
}

impl std::error::Error for QuorumsError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn subsets(n: usize, size: usize) -> impl Iterator<Item = u32> {
        (0u32..1 << n).filter(move |set| set.count_ones() as usize == size)
    }

    #[test]
    fn what_a_group_tolerates_is_said_in_a_line() {
        let told = |n, q1, q2| Quorums::flexible(n, q1, q2).unwrap().to_string();
        assert_eq!(
            told(1, 1, 1),
            "1 acceptor: 1 decide; the group goes on without 0"
        );
        assert_eq!(
            told(5, 3, 3),
            "5 acceptors: 3 decide; the group goes on without 2"
        );
        assert_eq!(
            told(5, 4, 2),
            "5 acceptors: 2 decide, 4 elect a leader; the group goes on without 1, under the leader that it has without 3"
        );
    }

    /// Claim mp-85.
    #[test]
    fn sizes_that_were_asked_for_meet_after_every_change_of_the_acceptors() {
        let sizes = |phase1, phase2, fast| QuorumSizes {
            phase1,
            phase2,
            fast,
        };
        for n in 1..=7 {
            for (q1, q2) in (1..=n).flat_map(|q1| (1..=n).map(move |q2| (q1, q2))) {
                let Ok(asked) = Quorums::asked(n, sizes(q1, q2, None)) else {
                    assert!(q1 + q2 <= n);
                    continue;
                };
                assert_eq!(asked.after(n), Ok(asked), "replaced, not resized");
                for left in 1..=8 {
                    match asked.after(left) {
                        Ok(next) => {
                            assert!(next.phase1() + next.phase2() > left && next.is_asked());
                            assert_eq!((next.acceptors(), next.phase2()), (left, q2));
                        }
                        Err(why) => {
                            let (phase2, acceptors) = (q2, left);
                            assert_eq!(why, QuorumsError::TooFewLeft { phase2, acceptors });
                            assert!(q2 > left);
                        }
                    }
                }
            }
            let majority = Quorums::majority(n).unwrap();
            assert_eq!(majority.after(n + 2), Quorums::majority(n + 2));
        }
        let with_fast = Quorums::asked(5, sizes(4, 2, Some(5))).unwrap();
        assert_eq!(with_fast.fast(), Some(5));
        assert_eq!(with_fast.after(6).unwrap().fast(), None);
        assert!(Quorums::asked(5, sizes(4, 2, Some(3))).is_err());
        let few = Quorums::asked(5, sizes(2, 2, None))
            .unwrap_err()
            .to_string();
        assert!(few.ends_with("must exceed 5: use 4,2 or 2,4"), "{few}");
    }

    /// Claim mp-86.
    #[test]
    fn valid_quorums_always_meet_and_confirmations_meet_every_election() {
        for n in 1..=7 {
            for q1 in 0..=n + 1 {
                for q2 in 0..=n + 1 {
                    let meets = q1 >= 1
                        && q2 >= 1
                        && q1 <= n
                        && q2 <= n
                        && subsets(n, q1).all(|a| subsets(n, q2).all(|b| a & b != 0));
                    let made = Quorums::flexible(n, q1, q2);
                    assert_eq!(made.is_ok(), meets, "n={n} q1={q1} q2={q2}");
                    let Ok(quorums) = made else { continue };
                    let confirm = quorums.confirm();
                    assert!(subsets(n, confirm).all(|a| subsets(n, q1).all(|b| a & b != 0)));
                    assert!(confirm <= q2, "who can decide can confirm");
                }
            }
        }
    }
}
