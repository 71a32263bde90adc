//! The rule O4 by counting, against its definition: a value may have been decided in a fast round exactly if some fast quorum
//! exists of which everybody who answered voted for it. All vote vectors of up to seven acceptors.

use quorate_fast_paxos::selection::{Selection, select};
use quorate_types::{Ballot, FastQuorums, NodeId, Quorums, ValueId, ViewNumber, VoteKind};

fn ballot(round: u64) -> Ballot {
    Ballot {
        view: ViewNumber(1),
        round,
        node: NodeId(1),
        boot: 1,
    }
}

fn fast(number: u64) -> VoteKind {
    VoteKind::Fast(ValueId {
        node: NodeId(1),
        boot: 1,
        number,
    })
}

/// What a witness may tell: nothing, an older vote, or a vote for one of three values in the newest fast round.
fn told(choice: usize) -> Option<(Ballot, VoteKind)> {
    match choice {
        0 => None,
        1 => Some((ballot(1), VoteKind::Classic)),
        value => Some((ballot(2), fast(value as u64))),
    }
}

fn all_quorums() -> impl Iterator<Item = FastQuorums> {
    let sizes = |n: usize| (1..=n).flat_map(move |q1| (1..=n).map(move |qf| (n, q1, qf)));
    (1..=7).flat_map(sizes).filter_map(|(n, q1, qf)| {
        let classic = Quorums::flexible(n, q1, n + 1 - q1).ok()?;
        FastQuorums::new(classic, qf).ok()
    })
}

#[test]
fn a_value_is_bound_exactly_if_a_fast_quorum_can_have_voted_for_it() {
    let mut vectors = 0;
    for quorums in all_quorums() {
        let n = quorums.classic().acceptors();
        let fast_quorums: Vec<u32> = (0..1_u32 << n)
            .filter(|set| set.count_ones() as usize == quorums.fast())
            .collect();
        for witnesses in quorums.classic().phase1()..=n {
            for code in 0..5_usize.pow(witnesses as u32) {
                let choices: Vec<usize> = (0..witnesses as u32)
                    .map(|place| code / 5_usize.pow(place) % 5)
                    .collect();
                check(&quorums, &fast_quorums, &choices);
                vectors += 1;
            }
        }
    }
    assert_eq!(vectors, 1_727_210);
}

fn check(quorums: &FastQuorums, fast_quorums: &[u32], choices: &[usize]) {
    let votes: Vec<_> = choices.iter().filter_map(|choice| told(*choice)).collect();
    let selected = select(&votes, choices.len(), quorums);
    let has_newest = choices.iter().any(|choice| *choice > 1);
    if !has_newest {
        let is_old = |selected| matches!(selected, Selection::Bound(_));
        assert_eq!(is_old(selected), !votes.is_empty(), "{choices:?}");
        return;
    }
    let witnesses = (1_u32 << choices.len()) - 1;
    let possible: Vec<usize> = (2..5)
        .filter(|value| {
            let voters = choices
                .iter()
                .enumerate()
                .filter(|(_, choice)| *choice == value);
            let voters = voters.fold(0, |set, (place, _)| set | 1_u32 << place);
            (fast_quorums.iter()).any(|quorum| quorum & witnesses & !voters == 0)
        })
        .collect();
    assert!(possible.len() <= 1, "{quorums:?} {choices:?}");
    let kind = |place: usize| votes[place].1;
    match (selected, possible.as_slice()) {
        (Selection::Bound(place), [value]) => assert_eq!(kind(place), fast(*value as u64)),
        (Selection::Collided(place), []) => {
            let count = |kind| votes.iter().filter(|vote| vote.1 == kind).count();
            let own = count(kind(place));
            assert!(kind(place).is_fast());
            assert!((2..5).all(|value| count(fast(value)) <= own), "{choices:?}");
        }
        (selected, possible) => {
            panic!("{quorums:?} {choices:?}: {selected:?}, and possible are {possible:?}")
        }
    }
}

#[test]
fn votes_are_counted_and_not_values() {
    let quorums = FastQuorums::least(Quorums::majority(5).unwrap());
    assert_eq!(quorums.fast(), 4);
    let vote = |number| (ballot(2), fast(number));
    for (votes, place) in [
        ([vote(1), vote(1), vote(2)], 0),
        ([vote(2), vote(1), vote(1)], 1),
        ([vote(2), vote(1), vote(2)], 0),
    ] {
        assert_eq!(select(&votes, 3, &quorums), Selection::Bound(place));
    }
    // Of five witnesses two votes are too few: three others voted otherwise.
    let votes = [vote(1), vote(1), vote(2), vote(3), vote(3)];
    assert_eq!(select(&votes, 5, &quorums), Selection::Collided(0));
}

#[test]
fn a_classic_vote_is_the_only_one_of_its_round_and_comes_after_the_fast_ones_of_its_ballot() {
    let quorums = FastQuorums::least(Quorums::majority(4).unwrap());
    let votes = [
        (ballot(2), fast(1)),
        (ballot(2), VoteKind::Classic),
        (ballot(2), fast(1)),
    ];
    assert_eq!(select(&votes, 3, &quorums), Selection::Bound(1));
    let votes = [(ballot(3), fast(1)), (ballot(2), VoteKind::Classic)];
    assert_eq!(select(&votes, 3, &quorums), Selection::Collided(0));
    assert_eq!(select(&[], 3, &quorums), Selection::Free);
}
