//! How many acceptors each phase of agreement needs.

use std::fmt;

/// How many acceptors a phase needs: any phase-1 quorum meets any phase-2 quorum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quorums {
    acceptors: usize,
    phase1: usize,
    phase2: usize,
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
        })
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

    /// Confirmations needed for a read: a set that meets every phase-1 and every phase-2 quorum.
    #[must_use]
    pub fn confirm(&self) -> usize {
        self.acceptors + 1 - self.phase1.min(self.phase2)
    }
}

impl fmt::Display for Quorums {
    /// What the group tolerates, for operators.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Quorums {
            acceptors,
            phase1,
            phase2,
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
                 their sum must exceed {acceptors}"
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

    #[test]
    fn valid_quorums_always_meet_and_confirmations_meet_both_phases() {
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
                    for phase in [q1, q2] {
                        assert!(subsets(n, confirm).all(|a| subsets(n, phase).all(|b| a & b != 0)));
                    }
                }
            }
        }
    }
}
