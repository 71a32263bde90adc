//! Watches who is let stand for leader: a candidate that lags far is denied its pre-vote at first, in favour of a better one.
//!
//! Fed by the seeded world with questions as they are handled and answers as they leave.

use std::collections::BTreeMap;

use quorate_types::NodeId;

use super::{Property, Violation};

/// One question: whose, and its number.
type Ask = (NodeId, u64);

/// Questions of candidates, and who was denied.
#[derive(Debug)]
pub struct Standing {
    /// A candidate that lags by more slots lags far.
    far: u64,
    /// A better candidate has so long to stand.
    within_ns: u64,
    /// How far behind the acceptor a candidate was when it asked.
    lags: BTreeMap<(NodeId, Ask), u64>,
    /// When an acceptor first denied somebody, or stood back itself, since it knew a leader.
    denied_ns: BTreeMap<NodeId, u64>,
}

impl Standing {
    /// Candidates that lag by more than `far` slots are denied for `within_ns`.
    pub fn new(far: u64, within_ns: u64) -> Standing {
        Standing {
            far,
            within_ns,
            lags: BTreeMap::new(),
            denied_ns: BTreeMap::new(),
        }
    }

    /// Takes note that `acceptor` handles a question of a candidate whose decided prefix lags by `lag` slots.
    pub fn asked(&mut self, acceptor: NodeId, ask: Ask, lag: u64) {
        let known = self.lags.entry((acceptor, ask)).or_insert(lag);
        // Attempts are counted anew in each life.
        *known = lag.min(*known);
    }

    /// Takes note that `acceptor` denies somebody its pre-vote.
    pub fn denied(&mut self, now_ns: u64, acceptor: NodeId, ask: Ask) {
        self.lags.remove(&(acceptor, ask));
        self.denied_ns.entry(acceptor).or_insert(now_ns);
    }

    /// Takes note that `acceptor` lacks a snapshot while it knows no leader: it stands back itself, and waits for better ones then,
    /// once in its search for a leader.
    pub fn stands_back(&mut self, now_ns: u64, acceptor: NodeId) {
        self.denied_ns.entry(acceptor).or_insert(now_ns);
    }

    /// Takes note that `acceptor` grants a candidate its pre-vote.
    ///
    /// # Errors
    /// [`Property::Election`] when that one lags far, and nobody had the time to stand in its place.
    pub fn granted(&mut self, now_ns: u64, acceptor: NodeId, ask: Ask) -> Result<(), Violation> {
        let lag = self.lags.remove(&(acceptor, ask)).unwrap_or(0);
        let denied_ns = self.denied_ns.get(&acceptor);
        let is_early = denied_ns.is_none_or(|since| now_ns - since < self.within_ns);
        if lag > self.far && is_early {
            return Err(Violation::new(
                Property::Election,
                format!("{acceptor} lets {} stand, which lags by {lag} slots", ask.0),
            ));
        }
        Ok(())
    }

    /// Takes note that `acceptor` knows a leader, or that its life ended.
    pub fn ended(&mut self, acceptor: NodeId) {
        self.denied_ns.remove(&acceptor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: NodeId = NodeId(1);
    const TWO: NodeId = NodeId(2);

    #[test]
    fn a_candidate_that_lags_far_and_is_let_stand_at_once_is_found() {
        let mut standing = Standing::new(4, 100);
        standing.asked(ONE, (TWO, 1), 4);
        standing.granted(0, ONE, (TWO, 1)).unwrap();
        standing.asked(ONE, (TWO, 2), 5);
        standing.asked(ONE, (TWO, 3), 0);
        standing.granted(0, ONE, (TWO, 3)).unwrap();
        assert!(standing.granted(0, ONE, (TWO, 2)).is_err());
        standing.denied(10, ONE, (TWO, 4));
        standing.denied(50, ONE, (TWO, 5));
        standing.asked(ONE, (TWO, 6), 5);
        standing.granted(110, ONE, (TWO, 6)).unwrap();
        standing.ended(ONE);
        standing.asked(ONE, (TWO, 7), 5);
        assert!(standing.granted(120, ONE, (TWO, 7)).is_err());
        standing.stands_back(200, ONE);
        standing.stands_back(290, ONE);
        standing.asked(ONE, (TWO, 8), 5);
        standing.asked(ONE, (TWO, 9), 5);
        assert!(standing.granted(299, ONE, (TWO, 8)).is_err());
        standing.granted(300, ONE, (TWO, 9)).unwrap();
    }
}
