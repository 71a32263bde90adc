//! What an acceptor votes for, and what it keeps.

use super::*;
use quorate_types::{GroupId, ViewNumber};

fn trim() -> Batch {
    let command = quorate_types::Command {
        id: quorate_types::CommandId::default(),
        acknowledged: 0,
        body: quorate_types::Body::Collect {
            slot: Slot(1),
            digest: Digest::default(),
        },
    };
    Batch::new(quorate_types::Stamp::default(), vec![command])
}

/// Claim mp-61.
#[test]
fn a_vote_for_a_trim_needs_a_vote_or_a_decision_in_every_slot_before() {
    let view = ViewId {
        group: GroupId(1),
        number: ViewNumber(1),
    };
    let mut acceptor = Acceptor::new(view, Standing::Voter, Persistence::Disk);
    let mut effects: Effects<()> = Vec::new();
    let ballot = Ballot::ZERO.next(view.number, NodeId(1), 1);
    acceptor.decide(Some(Batch::noop()), &mut effects);
    acceptor.vote(ballot, Slot(3), Batch::noop(), &mut effects);
    let verdict = acceptor.vote(ballot, Slot(4), trim(), &mut effects);
    assert_eq!(verdict, Verdict::Incomplete, "nothing is held in slot 2");
    assert!(acceptor.log.open(Slot(4)).is_none());
    acceptor.vote(ballot, Slot(2), Batch::noop(), &mut effects);
    let verdict = acceptor.vote(ballot, Slot(4), trim(), &mut effects);
    assert_eq!(verdict, Verdict::Voted);
}

/// Claim mp-62.
#[test]
fn slots_that_only_a_snapshot_brings_hold_back_no_vote_and_others_behind_them_do() {
    let view = ViewId {
        group: GroupId(1),
        number: ViewNumber(1),
    };
    let mut acceptor = Acceptor::new(view, Standing::Voter, Persistence::Disk);
    let mut effects: Effects<()> = Vec::new();
    let ballot = Ballot::ZERO.next(view.number, NodeId(1), 1);
    acceptor.set_elided(Slot(8));
    let verdict = acceptor.vote(ballot, Slot(10), trim(), &mut effects);
    assert_eq!(verdict, Verdict::Incomplete, "slot 9 is not decided");
    let verdict = acceptor.vote(ballot, Slot(9), trim(), &mut effects);
    assert_eq!(verdict, Verdict::Voted);
    let mut observer = Acceptor::new(view, Standing::Observer, Persistence::Disk);
    let verdict = observer.vote(ballot, Slot(10), trim(), &mut effects);
    assert_eq!(verdict, Verdict::Voted, "who has no vote only holds");
}

/// Claim mp-61.
#[test]
fn what_is_only_held_is_no_vote_before_a_trim() {
    let view = ViewId {
        group: GroupId(1),
        number: ViewNumber(1),
    };
    let mut acceptor = Acceptor::new(view, Standing::Observer, Persistence::Disk);
    let mut effects: Effects<()> = Vec::new();
    let ballot = Ballot::ZERO.next(view.number, NodeId(1), 1);
    acceptor.vote(ballot, Slot(1), Batch::noop(), &mut effects);
    acceptor.enfranchise(ballot, &mut effects);
    let verdict = acceptor.vote(ballot, Slot(2), trim(), &mut effects);
    assert_eq!(verdict, Verdict::Incomplete, "slot 1 has no record");
    acceptor.vote(ballot, Slot(1), Batch::noop(), &mut effects);
    let verdict = acceptor.vote(ballot, Slot(2), trim(), &mut effects);
    assert_eq!(verdict, Verdict::Voted);
}

/// A node that got its snapshot from a peer has nothing to trim when a majority holds it. After a restart its disk must name it.
#[test]
fn a_base_names_the_snapshot_that_logs_are_trimmed_for_where_nothing_is_left_to_trim() {
    let view = ViewId {
        group: GroupId(1),
        number: ViewNumber(1),
    };
    let (slot, digest) = (Slot(9), Digest::default());
    let mut acceptor = Acceptor::new(view, Standing::Voter, Persistence::Disk);
    assert!(!acceptor.trim(slot, digest, Slot::ZERO), "it lacks all");
    let mut acceptor = Acceptor::new(view, Standing::Voter, Persistence::Disk);
    acceptor.jump(slot);
    assert!(acceptor.trim(slot, digest, slot));
    let mut effects: Effects<()> = Vec::new();
    acceptor.discard(&mut effects);
    let [Effect::Discard { upto, base }] = &effects[..] else {
        panic!("{effects:?}");
    };
    let agreed = Entry::Agreed { slot, digest };
    assert_eq!(*upto, slot);
    assert!(base.iter().any(|record| record.entry == agreed));
    assert!(!acceptor.trim(slot, digest, slot), "once");
}

#[test]
fn pages_follow_each_other_and_leave_no_vote_out() {
    let view = ViewId {
        group: GroupId(1),
        number: ViewNumber(1),
    };
    let mut acceptor = Acceptor::new(view, Standing::Voter, Persistence::Memory);
    let mut effects: Effects<()> = Vec::new();
    let ballot = Ballot::ZERO.next(view.number, NodeId(1), 1);
    let slots: Vec<Slot> = (1..=7).map(Slot).collect();
    for slot in &slots {
        acceptor.vote(ballot, *slot, Batch::noop(), &mut effects);
    }
    let batch = Batch::noop().weight();
    for (most, bytes) in [(1, usize::MAX), (3, usize::MAX), (7, 2 * batch), (7, 0)] {
        let mut told = Vec::new();
        let mut next = Some(Slot(1));
        while let Some(from) = next {
            let page = acceptor.page(ballot, from, most, bytes);
            assert!(page.votes.len() <= most);
            told.extend(page.votes.iter().map(|vote| vote.slot));
            next = page.next;
        }
        assert_eq!(told, slots, "{most} slots or {bytes} bytes a page");
    }
}

#[test]
fn the_replica_is_told_of_another_batch_in_a_slot_and_not_twice_of_one() {
    let view = ViewId {
        group: GroupId(1),
        number: ViewNumber(1),
    };
    let mut acceptor = Acceptor::new(view, Standing::Voter, Persistence::Disk);
    acceptor.set_tells_tentative(true);
    let mut effects: Effects<()> = Vec::new();
    let first = Ballot::ZERO.next(view.number, NodeId(1), 1);
    let second = first.next(view.number, NodeId(2), 1);
    let third = second.next(view.number, NodeId(1), 1);
    let mut told = |ballot, batch: Batch| {
        acceptor.vote(ballot, Slot(2), batch, &mut effects);
        let told = effects.drain(..).filter_map(|effect| match effect {
            Effect::Tentative { slot, batch } => Some((slot, batch)),
            _ => None,
        });
        told.collect::<Vec<_>>()
    };
    assert_eq!(told(first, Batch::noop()), [(Slot(2), Batch::noop())]);
    assert_eq!(told(second, Batch::noop()), [], "it knows that");
    let command = quorate_types::Command {
        id: quorate_types::CommandId::default(),
        acknowledged: 0,
        body: quorate_types::Body::Close,
    };
    let other = Batch::new(quorate_types::Stamp::default(), vec![command]);
    assert_eq!(told(third, other.clone()), [(Slot(2), other)]);
}
