//! Reach: how far a node has come, what its peers remember of that, and how they detect an older copy of its directory.
//!
//! A directory that was restored from a copy looks whole to its own node. Its peers have seen a later state: later starts, later
//! commits. The rules are here; the shell makes the memory durable and sends the messages. Claim st-2.

use crate::zoo::{Plant, planted};
use crate::{Incarnation, Starts, ViewNumber};

/// How far a node has come, as it reports itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reach {
    /// The number of this start of its directory.
    pub boot: u64,
    /// Drawn at random by each process, so that two starts with one boot differ.
    pub start: u64,
    /// The number of the newest durable commit of its log, 0 in memory mode. It never falls.
    pub commit: u64,
    /// Whether it remembers its promises and votes.
    pub recall: Recall,
    /// The view from which on it does: it came back with it as another incarnation. 0 for a node that never lost any.
    pub since: ViewNumber,
    /// The starts of its directory, this one last: what a start writes, having learned it from others, does not make up for what it lacks.
    /// Empty in memory mode, and where the peer has met this start before.
    pub starts: Starts,
}

/// Whether a node remembers its promises and votes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recall {
    /// It remembers all: it votes.
    Whole,
    /// It may lack some and asks the others before it votes. Its last commits may be unreadable.
    Damaged,
    /// It does not vote.
    Lost,
}

/// The answer of a peer to a node that comes with less than the peer has seen of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sighting {
    /// The highest boot that the peer has seen; the node must use a higher one.
    pub boot: u64,
    /// The kind of difference.
    pub finding: Finding,
}

/// The kind of difference between a node's reach and what a peer has seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finding {
    /// The directory is an older copy: the node may have lost votes, and observes.
    OlderCopy,
    /// Only the boot was used before; with a higher one the node is accepted unchanged.
    BootUsed,
}

/// What a node remembers of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerPast {
    /// The incarnation of the peer.
    pub incarnation: Incarnation,
    /// The newest start seen, as boot and random number.
    pub newest: (u64, u64),
    /// The newest start seen that could vote.
    pub voting: (u64, u64),
    /// The highest commit seen of a start that could vote.
    pub commit: u64,
    /// The newest view seen from which on it remembers its votes.
    pub since: ViewNumber,
}

impl PeerPast {
    /// Nothing is known of the peer yet.
    #[must_use]
    pub fn new(incarnation: Incarnation) -> PeerPast {
        PeerPast {
            incarnation,
            newest: (0, 0),
            voting: (0, 0),
            commit: 0,
            since: ViewNumber(0),
        }
    }

    /// Compares what the peer says with what is remembered.
    ///
    /// # Errors
    /// The answer to send when it comes with less.
    pub fn judge(&self, reach: Reach) -> Result<(), Sighting> {
        let is_older = match reach.recall {
            Recall::Lost => false,
            // What was seen of the incarnation before is another's.
            _ if reach.since != self.since && !planted(Plant::EarlierIncarnationMeasured) => {
                reach.since < self.since
            }
            Recall::Whole => is_before(reach, self.voting) || self.held(reach) < self.commit,
            Recall::Damaged => is_before(reach, self.voting),
        };
        let finding = if is_older {
            Finding::OlderCopy
        } else if is_before(reach, self.newest) {
            Finding::BootUsed
        } else {
            return Ok(());
        };
        let boot = self.newest.0;
        Err(Sighting { boot, finding })
    }

    /// The commit up to which the peer holds what the start that was met wrote: all that it tells of where that one runs still, and
    /// where not, what the next one began with.
    fn held(&self, reach: Reach) -> u64 {
        let (boot, number) = self.voting;
        let is_met = (reach.boot, reach.start) == self.voting;
        if is_met || planted(Plant::LearnedCountsAsHeld) {
            reach.commit
        } else if planted(Plant::LastStartMeasured) {
            let starts = reach.starts.kept();
            starts.last().map_or(0, |start| start.begun)
        } else {
            reach.starts.begun_after(boot, number)
        }
    }

    /// Remembers a reach of the peer that was accepted.
    pub fn note(&mut self, reach: Reach) {
        self.newest = (reach.boot, reach.start);
        match reach.recall {
            Recall::Whole => {
                self.voting = self.newest;
                let is_same = self.since == reach.since;
                self.commit = reach.commit.max(if is_same { self.commit } else { 0 });
                self.since = reach.since;
            }
            // Commits that cannot be read any more are not asked of it again.
            Recall::Damaged => {
                self.voting = self.newest;
                self.commit = reach.commit;
                self.since = reach.since;
            }
            Recall::Lost => {}
        }
    }
}

/// Whether `reach` is of an earlier start than `seen`, or of another start with the same boot.
fn is_before(reach: Reach, seen: (u64, u64)) -> bool {
    reach.boot < seen.0 || (reach.boot == seen.0 && reach.start != seen.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StartOfNode;

    /// Of a directory that knows of its starts 1 to `boot`, with the random numbers before `start`: it had nothing at the first, and has
    /// `commit` since the second.
    fn reach(boot: u64, start: u64, commit: u64, recall: Recall) -> Reach {
        let mut starts = Starts::default();
        for earlier in (1..=boot).rev() {
            starts.note(StartOfNode {
                boot: 1 + boot - earlier,
                number: start + 1 - earlier,
                begun: if earlier == boot { 0 } else { commit },
            });
        }
        Reach {
            boot,
            start,
            commit,
            recall,
            since: ViewNumber(0),
            starts,
        }
    }

    /// A start of a directory, whose starts each began with a commit.
    fn after(starts: &[(u64, u64, u64)], commit: u64) -> Reach {
        let mut known = Starts::default();
        for (boot, number, begun) in starts.iter().copied() {
            known.note(StartOfNode {
                boot,
                number,
                begun,
            });
        }
        let (boot, start, _) = starts[starts.len() - 1];
        Reach {
            starts: known,
            ..reach(boot, start, commit, Recall::Whole)
        }
    }

    fn past(seen: &[Reach]) -> PeerPast {
        let mut past = PeerPast::new(Incarnation(1));
        for reach in seen {
            assert_eq!(past.judge(*reach), Ok(()));
            past.note(*reach);
        }
        past
    }

    fn older(boot: u64) -> Result<(), Sighting> {
        let finding = Finding::OlderCopy;
        Err(Sighting { boot, finding })
    }

    #[test]
    fn a_node_that_restarts_and_goes_on_is_welcome() {
        past(&[
            reach(1, 10, 0, Recall::Whole),
            reach(1, 10, 500, Recall::Whole),
            reach(2, 11, 500, Recall::Whole),
            reach(2, 11, 501, Recall::Whole),
        ]);
    }

    #[test]
    fn a_copy_from_before_the_last_commits_is_older_even_with_a_new_boot() {
        let past = past(&[reach(1, 10, 500, Recall::Whole)]);
        assert_eq!(past.judge(reach(2, 11, 300, Recall::Whole)), older(1));
    }

    /// It was let in by a peer that saw less of it, and wrote down what that one told.
    #[test]
    fn a_copy_that_has_learned_more_than_was_seen_is_older_still() {
        let mut past = past(&[reach(1, 10, 500, Recall::Whole)]);
        assert_eq!(
            past.judge(after(&[(1, 10, 0), (2, 11, 300)], 600)),
            older(1)
        );
        let whole = after(&[(1, 10, 0), (2, 11, 500)], 600);
        assert_eq!(past.judge(whole), Ok(()));
        past.note(whole);
        let later = Reach {
            commit: 700,
            starts: Starts::default(),
            ..whole
        };
        assert_eq!(past.judge(later), Ok(()), "it was met before");
    }

    /// Its next start finds in its log what the one before has learned.
    #[test]
    fn a_copy_that_has_learned_and_starts_again_is_older_still() {
        let past = past(&[reach(1, 10, 500, Recall::Whole)]);
        let copy = after(&[(1, 10, 0), (2, 11, 300), (3, 12, 600)], 600);
        assert_eq!(past.judge(copy), older(1));
        let whole = after(&[(1, 10, 0), (2, 11, 500), (3, 12, 600)], 600);
        assert_eq!(past.judge(whole), Ok(()));
    }

    /// It was taken before the start that the peer has met, and had a start of the same boot.
    #[test]
    fn a_copy_of_an_earlier_start_is_older_however_often_it_starts() {
        let past = past(&[
            reach(1, 10, 100, Recall::Whole),
            reach(2, 11, 500, Recall::Whole),
        ]);
        let copy = after(&[(1, 10, 0), (2, 21, 100), (3, 22, 600)], 600);
        assert_eq!(past.judge(copy), older(2));
    }

    #[test]
    fn a_boot_that_another_process_had_is_an_older_copy() {
        let past = past(&[reach(3, 10, 0, Recall::Whole)]);
        assert_eq!(past.judge(reach(3, 11, 0, Recall::Whole)), older(3));
        assert_eq!(past.judge(reach(2, 11, 9, Recall::Damaged)), older(3));
    }

    #[test]
    fn damage_at_the_end_of_the_log_is_no_older_copy() {
        let mut past = past(&[reach(1, 10, 500, Recall::Whole)]);
        let damaged = reach(2, 11, 498, Recall::Damaged);
        assert_eq!(past.judge(damaged), Ok(()));
        past.note(damaged);
        assert_eq!(past.judge(reach(3, 12, 499, Recall::Whole)), Ok(()));
    }

    #[test]
    fn a_node_that_came_back_through_a_view_is_measured_anew_and_its_earlier_directory_is_a_copy() {
        let since = |reach: Reach, view| Reach {
            since: ViewNumber(view),
            ..reach
        };
        let mut past = past(&[
            reach(3, 10, 500, Recall::Whole),
            reach(4, 11, 0, Recall::Lost),
        ]);
        let back = since(reach(4, 11, 2, Recall::Whole), 5);
        assert_eq!(past.judge(back), Ok(()));
        past.note(back);
        assert_eq!(
            past.judge(since(reach(5, 12, 1, Recall::Whole), 5)),
            older(4)
        );
        assert_eq!(past.judge(reach(5, 12, 500, Recall::Whole)), older(4));
        assert_eq!(
            past.judge(since(reach(5, 12, 2, Recall::Damaged), 5)),
            Ok(())
        );
    }

    #[test]
    fn the_newest_directory_may_be_put_back_after_a_copy_has_observed_with_higher_boots() {
        let past = past(&[
            reach(3, 10, 500, Recall::Whole),
            reach(4, 11, 20, Recall::Lost),
            reach(5, 12, 20, Recall::Lost),
        ]);
        let finding = Finding::BootUsed;
        assert_eq!(
            past.judge(reach(4, 13, 500, Recall::Whole)),
            Err(Sighting { boot: 5, finding })
        );
        assert_eq!(past.judge(reach(6, 14, 500, Recall::Whole)), Ok(()));
    }
}
