//! What a user of any ordering may rely on, whatever its messages are: one suite, which runs for each name that a view can have.
//!
//! The scripts of a protocol say how its messages go; this says what must come of them. A new ordering takes part by being named.
//! Live switches between orderings, damaged disks and changes of members are the simulator's.

mod group;

use group::{CALLERS, Group};
use quorate_types::{Duration, NodeId, OrderingName, ReadLevel};

/// Seeds of each behaviour, for each ordering and size.
const SEEDS: u64 = 8;

/// Runs a behaviour for every ordering and size.
fn each(behaviour: impl FnMut(&mut Group)) {
    each_seed(SEEDS, behaviour);
}

fn each_seed(seeds: u64, mut behaviour: impl FnMut(&mut Group)) {
    for name in OrderingName::ALL {
        let least = match name {
            OrderingName::FastPaxos => 4,
            _ => 3,
        };
        for nodes in [least, 5] {
            for seed in 0..seeds {
                let mut group = Group::new(name, nodes, seed);
                behaviour(&mut group);
                group.judge();
            }
        }
    }
}

/// A node that does not lead.
fn follower(group: &Group, nth: u64) -> NodeId {
    let leader = group.leader();
    let others: Vec<NodeId> = group.ids().filter(|id| *id != leader).collect();
    others[nth as usize % others.len()]
}

#[test]
fn a_group_at_rest_answers_every_level_of_read_and_every_call() {
    each(|group| {
        group.work(60, |_, _| {});
        assert!(group.answered() >= 60, "{}", group.title());
    });
}

#[test]
fn a_killed_leader_loses_nothing_and_its_group_goes_on() {
    each(|group| {
        group.work(10, |_, _| {});
        for _ in 0..3 {
            let leader = group.leader();
            let since = group.elapsed();
            group.crash(leader);
            group.work(20, |_, _| {});
            // An election timeout, an election, and now and then a second one.
            let longest = group.longest(since);
            assert!(
                longest <= Duration::from_millis(400),
                "{}: {longest:?}",
                group.title()
            );
            group.restart(leader);
            group.work(10, |_, _| {});
        }
    });
}

#[test]
fn as_many_as_may_be_down_are_missed_by_nobody() {
    each(|group| {
        group.work(10, |_, _| {});
        let down: Vec<NodeId> = (0..u64::from(group.spare()))
            .map(|nth| follower(group, nth + group.seed))
            .collect();
        for id in &down {
            group.crash(*id);
        }
        // No longer than it takes to suspect who is silent.
        let since = group.elapsed();
        group.work(60, |_, _| {});
        let longest = group.longest(since);
        assert!(
            longest <= Duration::from_millis(200),
            "{}: {longest:?}",
            group.title()
        );
    });
}

#[test]
fn without_a_quorum_nothing_is_answered_and_afterwards_everything_is_once() {
    each(|group| {
        group.work(10, |_, _| {});
        let down: Vec<NodeId> = group.ids().take(usize::from(group.spare()) + 1).collect();
        for id in &down {
            group.crash(*id);
        }
        // What was decided when they died may still be told.
        group.pass(Duration::from_millis(50));
        let before = group.answered();
        for caller in 0..CALLERS {
            group.begin(caller, None);
            group.begin(caller, Some(ReadLevel::Confirmed));
        }
        group.pass(Duration::from_millis(4_000));
        assert_eq!(group.answered(), before, "{}", group.title());
        for id in down {
            group.restart(id);
        }
        group.settle();
        group.work(10, |_, _| {});
    });
}

#[test]
fn a_leader_that_is_cut_off_answers_no_old_read() {
    each(|group| {
        group.work(10, |_, _| {});
        let leader = group.leader();
        group.work(40, |group, round| match round {
            5 => group.cut(leader),
            30 => group.heal(leader),
            _ => {}
        });
    });
}

#[test]
fn all_nodes_may_end_at_once_and_come_back_with_everything() {
    each(|group| {
        for _ in 0..3 {
            group.work(15, |_, _| {});
            for caller in 0..CALLERS {
                group.begin(caller, None);
            }
            group.pass(Duration::from_micros(200 * group.seed));
            for id in group.ids() {
                group.crash(id);
            }
            for id in group.ids() {
                group.restart(id);
            }
            group.settle();
        }
    });
}

#[test]
fn who_was_away_for_long_comes_back_by_a_snapshot() {
    let mut restored = 0;
    each(|group| {
        group.work(10, |_, _| {});
        let away = follower(group, group.seed);
        group.crash(away);
        group.work(120, |_, _| {});
        let before = group.restored();
        group.restart(away);
        group.work(40, |_, _| {});
        group.pass(Duration::from_millis(2_000));
        restored += usize::from(group.restored() > before);
    });
    assert!(restored > 0, "some came back by an image");
}

#[test]
fn nodes_that_fail_one_after_the_other_cost_no_call() {
    each(|group| {
        group.work(120, |group, round| {
            let victim = NodeId(((round / 8 + group.seed) % u64::from(group.nodes)) as u16 + 1);
            match (round % 8, group.seed % 2) {
                (0, 0) => group.crash(victim),
                (0, _) => group.cut(victim),
                (5, 0) => group.restart(victim),
                (5, _) => group.heal(victim),
                _ => {}
            }
        });
    });
}

#[test]
fn whatever_ends_or_is_cut_off_when_nothing_is_lost() {
    each_seed(2 * SEEDS, |group| {
        let mut state = group.seed;
        let mut draw = move |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..60 {
            for caller in 0..CALLERS {
                let level = [
                    None,
                    None,
                    Some(ReadLevel::Confirmed),
                    Some(ReadLevel::Broadcast),
                    Some(ReadLevel::Lease),
                ];
                group.begin_if_idle(caller, level[draw(5) as usize]);
            }
            // Within a call's way, so that writes and messages are under way when something happens.
            group.pass(Duration::from_micros(draw(1_500)));
            let id = NodeId(draw(u64::from(group.nodes)) as u16 + 1);
            match draw(12) {
                0 | 1 => group.crash(id),
                2 => group.cut(id),
                3..6 => group.restart(id),
                6 | 7 => group.heal(id),
                8 => group.pass(Duration::from_millis(draw(300))),
                _ => {}
            }
        }
    });
}
