//! From the records of an earlier life to the acceptor's state. Called once, by a protocol's constructor.

use crate::acceptor::Acceptor;
use crate::log::{Log, Open};
use quorate_ordering::Record;
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ballot, Batch, Slot};
use std::collections::BTreeMap;

#[derive(Default)]
struct Held {
    vote: Option<(Ballot, Batch)>,
    chosen: Option<Batch>,
}

/// Folds `records`, in their order, into `acceptor`. Where some are lost, a held vote may be older than
/// the one that was decided: only batches written as chosen count as decided then.
pub fn restore(acceptor: &mut Acceptor, records: Vec<Record>, is_damaged: bool) {
    let mut promised = Ballot::ZERO;
    let mut decided = Slot::ZERO;
    let mut trimmed = Slot::ZERO;
    let mut held: BTreeMap<Slot, Held> = BTreeMap::new();
    for record in records {
        match record {
            Record::Promise { .. } if planted(Plant::ForgetPromise) => {}
            Record::Promise { ballot } => promised = promised.max(ballot),
            Record::Vote {
                slot,
                ballot,
                batch,
            } => {
                promised = promised.max(ballot);
                let vote = &mut held.entry(slot).or_default().vote;
                if vote.as_ref().is_none_or(|(old, _)| *old <= ballot) {
                    *vote = Some((ballot, batch));
                }
            }
            Record::Chosen { slot, batch } => held.entry(slot).or_default().chosen = Some(batch),
            Record::Decided { upto } => decided = decided.max(upto),
            Record::Trimmed { upto } => trimmed = trimmed.max(upto),
        }
    }
    let decided = if is_damaged { trimmed } else { decided };
    let log = rebuild(held, decided, trimmed);
    acceptor.restore(promised, log);
}

/// A chosen batch beyond the watermark counts only where it continues the prefix: elsewhere the vote
/// is what may be told, and the batch is learned again.
fn rebuild(mut held: BTreeMap<Slot, Held>, decided: Slot, trimmed: Slot) -> Log {
    let mut log = Log::default();
    if trimmed > Slot::ZERO {
        log.jump(trimmed);
    }
    held = held.split_off(&trimmed.next());
    for (slot, entry) in held {
        let continues = slot == log.decided().next();
        if continues && (slot <= decided || entry.chosen.is_some()) {
            let vote = entry.vote.map(|(_, batch)| batch);
            let batch = if planted(Plant::OwnVoteOverChosen) {
                vote.or(entry.chosen)
            } else {
                entry.chosen.or(vote)
            };
            log.decide_next(batch);
        } else if let Some((ballot, batch)) = entry.vote {
            let is_recorded = true;
            log.put(
                slot,
                Open {
                    ballot,
                    batch,
                    is_recorded,
                },
            );
        }
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::{NodeId, Persistence, Stamp, Wall};

    fn ballot(round: u64) -> Ballot {
        Ballot {
            round,
            node: NodeId(1),
            boot: 1,
        }
    }

    fn batch(wall: u64) -> Batch {
        let wall = Wall(wall);
        Batch::new(Stamp { wall, entropy: 0 }, Vec::new())
    }

    fn vote(slot: u64, round: u64, wall: u64) -> Record {
        Record::Vote {
            slot: Slot(slot),
            ballot: ballot(round),
            batch: batch(wall),
        }
    }

    fn chosen(slot: u64, wall: u64) -> Record {
        Record::Chosen {
            slot: Slot(slot),
            batch: batch(wall),
        }
    }

    fn restored(records: Vec<Record>) -> Acceptor {
        let mut acceptor = Acceptor::new(true, Persistence::Disk);
        restore(&mut acceptor, records, false);
        acceptor.check();
        acceptor
    }

    #[test]
    fn a_vote_of_a_lower_ballot_is_not_taken_for_the_decided_batch() {
        let acceptor = restored(vec![
            vote(1, 1, 10),
            chosen(1, 20),
            Record::Decided { upto: Slot(1) },
        ]);
        assert_eq!(acceptor.log.chosen(Slot(1)), Some(&batch(20)));
        assert_eq!(acceptor.promised(), ballot(1));
    }

    #[test]
    fn a_chosen_batch_beyond_a_gap_is_forgotten_and_its_vote_is_kept() {
        let acceptor = restored(vec![vote(1, 1, 10), vote(2, 1, 11), chosen(2, 21)]);
        assert_eq!(acceptor.log.decided(), Slot::ZERO);
        assert_eq!(acceptor.log.open(Slot(2)).unwrap().batch, batch(11));
    }

    #[test]
    fn folding_the_records_twice_gives_the_same_state() {
        let records = vec![
            vote(1, 1, 10),
            vote(2, 1, 11),
            Record::Decided { upto: Slot(1) },
            vote(2, 2, 12),
            Record::Promise { ballot: ballot(3) },
        ];
        let twice: Vec<Record> = records.iter().chain(&records).cloned().collect();
        assert_eq!(restored(records), restored(twice));
    }

    #[test]
    fn records_below_the_trim_point_are_nothing() {
        let acceptor = restored(vec![
            vote(1, 1, 10),
            Record::Trimmed { upto: Slot(4) },
            Record::Decided { upto: Slot(4) },
            vote(5, 1, 14),
        ]);
        assert_eq!(acceptor.log.trimmed(), Slot(4));
        assert_eq!(acceptor.log.decided(), Slot(4));
        assert_eq!(acceptor.log.highest(), Slot(5));
    }

    #[test]
    fn where_records_are_lost_an_older_vote_is_not_taken_for_the_decided_batch() {
        let records = vec![vote(1, 1, 10), Record::Decided { upto: Slot(1) }];
        let mut acceptor = Acceptor::new(true, Persistence::Disk);
        restore(&mut acceptor, records, true);
        assert_eq!(acceptor.log.decided(), Slot::ZERO);
        assert_eq!(acceptor.log.open(Slot(1)).unwrap().batch, batch(10));
    }

    #[test]
    fn a_base_that_is_durable_before_the_records_ahead_of_it_decides_no_older_vote() {
        let mut acceptor = restored(vec![vote(1, 1, 10)]);
        let mut effects: quorate_ordering::Effects<()> = Vec::new();
        acceptor.decide(Some(batch(20)), &mut effects);
        let mut records = vec![vote(1, 1, 10)];
        records.extend(acceptor.base());
        let after = restored(records);
        assert_ne!(after.log.chosen(Slot(1)), Some(&batch(10)));
        assert_eq!(acceptor.unrecorded(), 1, "the watermark is written again");
    }
}
