//! What an operator asks for: majorities, or quorums of other sizes. Its text is that of the command line and of node files.

use crate::{FastQuorumsError, QuorumSizes, Quorums};
use std::fmt;
use std::str::FromStr;

/// How many acceptors each phase is to need.
///
/// ```
/// use quorate_types::QuorumRule;
/// let rule: QuorumRule = "4,2".parse().unwrap();
/// assert_eq!(rule.quorums(5).unwrap().phase2(), 2);
/// assert!(rule.quorums(6).is_err(), "they could miss each other");
/// assert_eq!("majority".parse(), Ok(QuorumRule::Majority));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum QuorumRule {
    /// Majorities of whoever votes.
    #[default]
    Majority,
    /// These sizes.
    Sizes(QuorumSizes),
}

/// The text is neither `majority` nor two or three sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoQuorumRule;

impl QuorumRule {
    /// The quorums of so many acceptors.
    ///
    /// # Errors
    /// Says which rule the sizes break, and which sizes keep it.
    pub fn quorums(self, acceptors: usize) -> Result<Quorums, FastQuorumsError> {
        match self {
            QuorumRule::Majority => Quorums::majority(acceptors).map_err(FastQuorumsError::Classic),
            QuorumRule::Sizes(sizes) => Quorums::asked(acceptors, sizes),
        }
    }
}

impl FromStr for QuorumRule {
    type Err = NoQuorumRule;

    fn from_str(text: &str) -> Result<QuorumRule, NoQuorumRule> {
        if text == "majority" {
            return Ok(QuorumRule::Majority);
        }
        let sizes = text.split(',').map(|size| size.trim().parse());
        let sizes: Vec<usize> = sizes.collect::<Result<_, _>>().map_err(|_| NoQuorumRule)?;
        let (phase1, phase2, fast) = match sizes[..] {
            [phase1, phase2] => (phase1, phase2, None),
            [phase1, phase2, fast] => (phase1, phase2, Some(fast)),
            _ => return Err(NoQuorumRule),
        };
        Ok(QuorumRule::Sizes(QuorumSizes {
            phase1,
            phase2,
            fast,
        }))
    }
}

impl fmt::Display for QuorumRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QuorumRule::Majority => f.write_str("majority"),
            QuorumRule::Sizes(QuorumSizes {
                phase1,
                phase2,
                fast,
            }) => {
                write!(f, "{phase1},{phase2}")?;
                fast.map_or(Ok(()), |fast| write!(f, ",{fast}"))
            }
        }
    }
}

impl fmt::Display for NoQuorumRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "quorums are PHASE1,PHASE2, for example 4,2: how many acceptors elect a leader and how many decide; with fast_paxos \
             PHASE1,PHASE2,FAST; or majority",
        )
    }
}

impl std::error::Error for NoQuorumRule {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_nothing_else_is_a_rule() {
        for text in ["majority", "4,2", "4,2,5", "1,1"] {
            let rule: QuorumRule = text.parse().unwrap();
            assert_eq!(rule.to_string(), text);
        }
        for text in ["", "4", "4,2,5,1", "-1,2", "a,b", "4;2", "Majority"] {
            assert_eq!(text.parse::<QuorumRule>(), Err(NoQuorumRule), "{text}");
        }
    }
}
