//! Restores the acceptor's state from the records of an earlier start. A protocol's constructor calls it once.

use crate::acceptor::Acceptor;
use crate::log::{Open, SlotLog};
use quorate_ordering::{Damage, Entry, Record};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ballot, Batch, Slot, ViewId, VoteKind};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A log has a record of another view's acceptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForeignRecord {
    /// The view of the acceptor.
    pub own: ViewId,
    /// The view of the record.
    pub found: ViewId,
}

impl fmt::Display for ForeignRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ForeignRecord { own, found } = self;
        write!(f, "the log of {own} holds a record of {found}")
    }
}

impl std::error::Error for ForeignRecord {}

#[derive(Default)]
struct Held {
    vote: Option<(Ballot, VoteKind, Batch)>,
    chosen: Option<Batch>,
}

/// Applies `records`, in their order, to `acceptor`. If some are lost, a held vote may be older than the
/// one that was decided: then only batches written as chosen count as decided. The log of the view begins after `before`.
///
/// # Errors
/// When a record is of another view: its promise or vote has no meaning in this one.
pub fn restore(
    acceptor: &mut Acceptor,
    records: Vec<Record>,
    damage: &Damage,
    before: Slot,
) -> Result<(), ForeignRecord> {
    let own = acceptor.view();
    let mut promised = Ballot::ZERO;
    let mut decided = before;
    let mut trimmed = before;
    let mut agreed = None;
    let mut held: BTreeMap<Slot, Held> = BTreeMap::new();
    for record in records {
        check_view(own, &record)?;
        match record.entry {
            Entry::Promise { .. } if planted(Plant::ForgetPromise) => {}
            Entry::Promise { ballot } => promised = promised.max(ballot),
            Entry::Vote {
                slot,
                ballot,
                kind,
                batch,
            } => {
                promised = promised.max(ballot);
                let vote = &mut held.entry(slot).or_default().vote;
                if vote.as_ref().is_none_or(|(old, ..)| *old <= ballot) {
                    *vote = Some((ballot, kind, batch));
                }
            }
            Entry::Chosen { slot, batch } => held.entry(slot).or_default().chosen = Some(batch),
            Entry::Decided { upto } => decided = decided.max(upto),
            Entry::Trimmed { upto } => trimmed = trimmed.max(upto),
            Entry::Agreed { slot, digest } => agreed = agreed.max(Some((slot, digest))),
        }
    }
    let decided = if damage.is_anywhere() {
        trimmed
    } else {
        decided
    };
    for slot in damage.slots() {
        if let Some(entry) = held.get_mut(slot) {
            entry.vote = None;
        }
    }
    held.retain(|_, entry| entry.vote.is_some() || entry.chosen.is_some());
    let mut unknown = damage.slots().clone();
    let log = rebuild(held, decided, trimmed, damage, &mut unknown);
    acceptor.restore(promised, log, unknown, damage.is_anywhere());
    if let Some((slot, digest)) = agreed {
        acceptor.note_agreed(slot, digest);
    }
    Ok(())
}

/// A record whose view, or whose ballot's view, is not the acceptor's.
fn check_view(own: ViewId, record: &Record) -> Result<(), ForeignRecord> {
    let is_own = match &record.entry {
        Entry::Promise { ballot } | Entry::Vote { ballot, .. } => ballot.is_of(own.number),
        Entry::Chosen { .. }
        | Entry::Decided { .. }
        | Entry::Trimmed { .. }
        | Entry::Agreed { .. } => true,
    };
    if record.view == own && is_own {
        Ok(())
    } else {
        Err(ForeignRecord {
            own,
            found: record.view,
        })
    }
}

/// A chosen batch counts only if it continues the prefix. Otherwise only the vote may be reported, and the batch is learned
/// again. If damage cut it off, by a slot or by the watermark that it took, the batch may replace a vote that earlier damage
/// took: then the slot is `unknown`.
fn rebuild(
    mut held: BTreeMap<Slot, Held>,
    decided: Slot,
    trimmed: Slot,
    damage: &Damage,
    unknown: &mut BTreeSet<Slot>,
) -> SlotLog {
    let mut log = SlotLog::default();
    if trimmed > Slot::ZERO {
        log.jump(trimmed);
    }
    held = held.split_off(&trimmed.next());
    for (slot, entry) in held {
        let continues = slot == log.decided().next();
        if continues && (slot <= decided || entry.chosen.is_some()) {
            let vote = entry.vote.map(|(.., batch)| batch);
            let batch = if planted(Plant::OwnVoteOverChosen) {
                vote.or(entry.chosen)
            } else {
                entry.chosen.or(vote)
            };
            log.decide_next(batch);
        } else if damage.was_found() && entry.chosen.is_some() {
            unknown.insert(slot);
        } else if let Some((ballot, kind, batch)) = entry.vote {
            let is_recorded = true;
            log.put(
                slot,
                Open {
                    ballot,
                    kind,
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
    use quorate_ordering::{LostRecord, Past, Standing};
    use quorate_types::{Digest, GroupId, NodeId, Persistence, Stamp, ViewNumber, Wall};

    const VIEW: ViewId = ViewId {
        group: GroupId(1),
        number: ViewNumber(1),
    };

    fn records(entries: Vec<Entry>) -> Vec<Record> {
        let record = |entry| Record { view: VIEW, entry };
        entries.into_iter().map(record).collect()
    }

    fn ballot(round: u64) -> Ballot {
        Ballot {
            view: VIEW.number,
            round,
            node: NodeId(1),
            boot: 1,
        }
    }

    fn batch(wall: u64) -> Batch {
        let wall = Wall(wall);
        Batch::new(Stamp { wall, entropy: 0 }, Vec::new())
    }

    fn vote(slot: u64, round: u64, wall: u64) -> Entry {
        Entry::Vote {
            slot: Slot(slot),
            ballot: ballot(round),
            kind: VoteKind::Classic,
            batch: batch(wall),
        }
    }

    fn chosen(slot: u64, wall: u64) -> Entry {
        Entry::Chosen {
            slot: Slot(slot),
            batch: batch(wall),
        }
    }

    fn restored(entries: Vec<Entry>) -> Acceptor {
        let mut acceptor = Acceptor::new(VIEW, Standing::Voter, Persistence::Disk);
        restore(
            &mut acceptor,
            records(entries),
            &Damage::default(),
            Slot::ZERO,
        )
        .unwrap();
        acceptor.check();
        acceptor
    }

    #[test]
    fn a_vote_of_a_lower_ballot_is_not_taken_for_the_decided_batch() {
        let acceptor = restored(vec![
            vote(1, 1, 10),
            chosen(1, 20),
            Entry::Decided { upto: Slot(1) },
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
            Entry::Decided { upto: Slot(1) },
            vote(2, 2, 12),
            Entry::Promise { ballot: ballot(3) },
        ];
        let twice: Vec<Entry> = records.iter().chain(&records).cloned().collect();
        assert_eq!(restored(records), restored(twice));
    }

    #[test]
    fn records_below_the_trim_point_are_nothing() {
        let acceptor = restored(vec![
            vote(1, 1, 10),
            Entry::Trimmed { upto: Slot(4) },
            Entry::Decided { upto: Slot(4) },
            vote(5, 1, 14),
        ]);
        assert_eq!(acceptor.log.trimmed(), Slot(4));
        assert_eq!(acceptor.log.decided(), Slot(4));
        assert_eq!(acceptor.log.highest(), Slot(5));
    }

    #[test]
    fn a_base_restates_the_newest_agreed_snapshot() {
        let agreed = |slot, replicated| Entry::Agreed {
            slot: Slot(slot),
            digest: Digest {
                replicated,
                state: [7; 32],
            },
        };
        let mut acceptor = restored(vec![agreed(3, 1), agreed(9, 2), agreed(5, 3)]);
        let base = acceptor.base().into_iter().map(|record| record.entry);
        let told: Vec<Entry> = base
            .filter(|entry| matches!(entry, Entry::Agreed { .. }))
            .collect();
        assert_eq!(told, [agreed(9, 2)]);
    }

    #[test]
    fn where_records_are_lost_an_older_vote_is_not_taken_for_the_decided_batch() {
        let entries = vec![vote(1, 1, 10), Entry::Decided { upto: Slot(1) }];
        let mut acceptor = Acceptor::new(VIEW, Standing::Voter, Persistence::Disk);
        restore(
            &mut acceptor,
            records(entries),
            &damage(LostRecord::Anything),
            Slot::ZERO,
        )
        .unwrap();
        assert_eq!(acceptor.log.decided(), Slot::ZERO);
        assert_eq!(acceptor.log.open(Slot(1)).unwrap().batch, batch(10));
    }

    #[test]
    fn a_vote_in_a_slot_that_damage_names_is_unknown_and_those_beside_it_are_not() {
        let entries = vec![
            vote(1, 1, 10),
            vote(2, 1, 11),
            vote(3, 1, 12),
            Entry::Decided { upto: Slot(2) },
        ];
        let mut acceptor = Acceptor::new(VIEW, Standing::Voter, Persistence::Disk);
        restore(
            &mut acceptor,
            records(entries),
            &damage(LostRecord::Slot(Slot(2))),
            Slot::ZERO,
        )
        .unwrap();
        assert_eq!(acceptor.log.decided(), Slot(1));
        let page = acceptor.page(ballot(2), Slot(2), usize::MAX, usize::MAX);
        assert_eq!(page.unknown, [Slot(2)]);
        assert_eq!(page.votes.len(), 1);
        let mut effects: quorate_ordering::Effects<()> = Vec::new();
        acceptor.vote(ballot(2), Slot(2), batch(11), &mut effects);
        assert_eq!(
            acceptor.unknown().next(),
            None,
            "a vote says what it voted for"
        );
    }

    #[test]
    fn a_chosen_batch_that_a_lost_watermark_cut_off_may_stand_for_a_vote_lost_before() {
        let entries = vec![vote(1, 1, 10), chosen(2, 20), vote(3, 1, 12)];
        let lost_watermark = damage(LostRecord::Slot(Slot(3)));
        let mut acceptor = Acceptor::new(VIEW, Standing::Voter, Persistence::Disk);
        restore(&mut acceptor, records(entries), &lost_watermark, Slot::ZERO).unwrap();
        let page = acceptor.page(ballot(2), Slot(1), usize::MAX, usize::MAX);
        assert_eq!(page.votes.len(), 1, "the first slot has its only vote");
        assert_eq!(page.unknown, [Slot(2), Slot(3)]);
    }

    #[test]
    fn what_is_decided_after_a_loss_anywhere_is_written_as_chosen_whatever_the_old_vote() {
        let mut acceptor = Acceptor::new(VIEW, Standing::Voter, Persistence::Disk);
        let entries = records(vec![vote(1, 1, 10)]);
        restore(
            &mut acceptor,
            entries,
            &damage(LostRecord::Anything),
            Slot::ZERO,
        )
        .unwrap();
        let mut effects: quorate_ordering::Effects<()> = Vec::new();
        acceptor.decide(Some(batch(10)), &mut effects);
        let is_chosen = |effect: &quorate_ordering::Effect<()>| {
            matches!(effect, quorate_ordering::Effect::Persist { record, .. }
                if record.entry == chosen(1, 10))
        };
        assert!(effects.iter().any(is_chosen), "{effects:?}");
    }

    fn damage(lost: LostRecord) -> Damage {
        let mut past = Past::default();
        past.lost(lost);
        past.damage
    }

    #[test]
    fn a_base_that_is_durable_before_the_records_ahead_of_it_decides_no_older_vote() {
        let mut acceptor = restored(vec![vote(1, 1, 10)]);
        let mut effects: quorate_ordering::Effects<()> = Vec::new();
        acceptor.decide(Some(batch(20)), &mut effects);
        let mut records = vec![vote(1, 1, 10)];
        records.extend(acceptor.base().into_iter().map(|record| record.entry));
        let after = restored(records);
        assert_ne!(after.log.chosen(Slot(1)), Some(&batch(10)));
        assert_eq!(acceptor.unrecorded(), 1, "the watermark is written again");
    }

    #[test]
    fn a_record_of_another_group_or_view_is_refused() {
        let others = [
            ViewId {
                group: GroupId(2),
                ..VIEW
            },
            ViewId {
                number: ViewNumber(2),
                ..VIEW
            },
        ];
        for found in others {
            let mut records = records(vec![vote(1, 1, 10), vote(2, 1, 11)]);
            records[1].view = found;
            let mut acceptor = Acceptor::new(VIEW, Standing::Voter, Persistence::Disk);
            let refused = restore(&mut acceptor, records, &Damage::default(), Slot::ZERO);
            assert_eq!(refused, Err(ForeignRecord { own: VIEW, found }));
            assert_eq!(acceptor.log.highest(), Slot::ZERO, "nothing of it is kept");
        }
    }

    #[test]
    fn a_record_of_this_view_with_a_ballot_of_another_is_refused() {
        let ballot = Ballot {
            view: ViewNumber(2),
            ..ballot(1)
        };
        let mut acceptor = Acceptor::new(VIEW, Standing::Voter, Persistence::Disk);
        let records = records(vec![Entry::Promise { ballot }]);
        assert!(restore(&mut acceptor, records, &Damage::default(), Slot::ZERO).is_err());
    }
}
