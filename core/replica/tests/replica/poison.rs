//! Calls that end every host, and the decision to skip them.

use crate::world::{Objects, value};
use crate::world::{World, call, config, id, meta};
use quorate_replica::{EarlierDeaths, EarlierLives, Input, Output, Remembered};
use quorate_types::{Body, CallPlace, Command, Duration, NodeId, Outcome, Slot};

fn digests(world: &World) -> Vec<u64> {
    let nodes = world.nodes.iter();
    nodes.map(|node| node.replica.status().digest).collect()
}

/// Claim rp-20.
#[test]
fn a_call_that_ends_every_host_is_skipped_once_all_have_reported_it_and_its_caller_told() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    world.call(0, 5, id(session, 1), "a");
    world.call(0, 5, id(session, 2), "poison");
    assert_eq!(world.outcome(5), Some(Outcome::Skipped));
    world.call(0, 5, id(session, 3), "b");
    assert!(matches!(world.outcome(5), Some(Outcome::Returned(_))));
    let digests = digests(&world);
    assert!(digests.iter().all(|digest| *digest == digests[0]));
    let states: Vec<_> = world.nodes.iter().map(|n| value(n.objects.state)).collect();
    assert!(states.iter().all(|state| *state == states[0]));
}

/// Claim rp-21.
#[test]
fn a_call_that_one_replica_survives_is_not_skipped() {
    let mut world = World::new(3);
    world.nodes[2].objects.is_immune = true;
    let session = world.open(2, 5);
    world.call(2, 5, id(session, 1), "poison");
    assert!(matches!(world.outcome(5), Some(Outcome::Returned(_))));
    let first = world.nodes[2].objects.state;
    world.pass(Duration::from_millis(10_000));
    for node in 0..2 {
        let status = world.nodes[node].replica.status();
        assert!(status.is_host_up && status.is_serving, "{status:?}");
        assert_eq!(world.nodes[node].objects.state, first);
    }
}

/// Claim rp-28.
#[test]
fn the_snapshot_of_the_only_survivor_is_taken_over_and_the_log_is_trimmed() {
    let mut world = World::new(3);
    world.nodes[2].objects.is_immune = true;
    let session = world.open(2, 5);
    world.call(2, 5, id(session, 1), "a");
    world.call(2, 5, id(session, 2), "poison");
    let survived = world.outcome(5);
    assert!(matches!(survived, Some(Outcome::Returned(_))));
    world.call(2, 5, id(session, 3), "b");
    world.pass(Duration::from_millis(10_000));
    for node in 0..3 {
        let status = world.nodes[node].replica.status();
        assert!(status.is_serving, "{status:?}");
        assert!(status.stable > Slot::ZERO, "the log is trimmed: {status:?}");
        assert_eq!(
            world.nodes[node].objects.state,
            world.nodes[2].objects.state
        );
    }
    world.call(0, 6, id(session, 2), "poison");
    assert_eq!(
        world.outcome(6),
        survived,
        "its reply came with the snapshot"
    );
    let later = world.checkpoint(0);
    for node in 0..3 {
        assert_eq!(world.nodes[node].replica.status().stable, later);
    }
}

/// The survivor takes a snapshot of an earlier slot when the replicas that died ask for one, and so takes none for them.
#[test]
fn a_survivor_that_was_busy_when_a_snapshot_was_asked_for_is_asked_again_at_once() {
    let mut world = World::new(3);
    world.nodes[2].objects.is_immune = true;
    let session = world.open(2, 5);
    for down in 0..2 {
        world.nodes[down].objects.answers_left = Some(0);
    }
    world.call(2, 5, id(session, 1), "poison");
    assert!(matches!(world.outcome(5), Some(Outcome::Returned(_))));
    world.nodes[2].objects.answers_left = Some(0);
    let early = world.checkpoint(2);
    let later = world.decide(vec![call(session, 2, 0, "a")]);
    for down in 0..2 {
        world.nodes[down].objects.answers_left = None;
    }
    world.run();
    assert!(!world.nodes[0].replica.status().is_serving);
    world.nodes[2].objects.answers_left = None;
    world.run();
    for node in 0..3 {
        let status = world.nodes[node].replica.status();
        assert!(
            status.is_serving,
            "{early} is of no use after {later}: {status:?}"
        );
        assert_eq!(
            world.nodes[node].objects.state,
            world.nodes[2].objects.state
        );
    }
}

/// Claim rp-29.
#[test]
fn a_call_that_was_answered_once_is_not_skipped_whoever_dies_at_it_later() {
    let mut world = World::new(3);
    for deaf in 0..2 {
        world.shared.borrow_mut().deaf.insert(deaf);
    }
    world.nodes[2].objects.is_immune = true;
    let session = world.open(2, 5);
    world.call(2, 5, id(session, 1), "poison");
    assert!(matches!(world.outcome(5), Some(Outcome::Returned(_))));
    let executed = world.nodes[2].replica.status().executed;
    world.nodes.pop();
    world.shared.borrow_mut().deaf.clear();
    world.run();
    for earlier in [EarlierLives::Upto(executed), EarlierLives::Unknown] {
        let remembered = Remembered {
            earlier,
            ..Remembered::default()
        };
        world.add_remembering(config(3, 2), remembered, Objects::default());
        world.follow(2, 0);
        world.pass(Duration::from_millis(5_000));
        let skips = |(_, output): &(usize, Output<u32>)| matches!(output, Output::Skip { .. });
        assert!(
            !world.seen.iter().any(skips),
            "it was answered: {earlier:?}"
        );
        assert!(!world.nodes[2].replica.status().is_host_up);
        world.nodes.pop();
    }
}

/// Claim rp-47.
#[test]
fn a_start_executes_a_call_at_which_the_host_of_an_earlier_start_died_after_its_report_is_taken_back()
 {
    let mut world = World::new(2);
    let session = world.open(0, 5);
    world.call(0, 5, id(session, 1), "a");
    let executed = world.nodes[1].replica.status().executed;
    world.nodes[0].objects.answers_left = Some(0);
    world.call(1, 5, id(session, 2), "poison");
    assert!(!world.nodes[1].replica.status().is_host_up);
    let place = CallPlace {
        slot: executed.next(),
        index: 0,
    };
    world.nodes.pop();
    let mut objects = Objects::default();
    objects.is_immune = true;
    let remembered = Remembered {
        earlier: EarlierLives::Upto(executed),
        died: EarlierDeaths::At(vec![place]),
        ..Remembered::default()
    };
    world.shared.borrow_mut().holds_submissions = true;
    world.add_remembering(config(2, 1), remembered, objects);
    world.follow(1, 0);
    let status = world.nodes[1].replica.status();
    assert_eq!(status.executed, executed, "the report still stands");
    let submitted = world.shared.borrow().submitted.clone();
    let retry = submitted.into_iter().map(|(_, command)| command);
    let mut retry = retry.filter(|command| matches!(command.body, Body::Retry { .. }));
    let retry = retry.next().expect("it asks for the call");
    world.decide(vec![retry]);
    world.run();
    assert!(world.nodes[1].replica.status().executed >= place.slot);
    world.shared.borrow_mut().holds_submissions = false;
    world.nodes[0].objects.answers_left = None;
    world.pass(Duration::from_millis(5_000));
    let skips = |(_, output): &(usize, Output<u32>)| matches!(output, Output::Skip { .. });
    assert!(!world.seen.iter().any(skips), "it may be answered");
}

/// The replicas whose hosts are down, as node 0 has it.
fn down(world: &World) -> Vec<NodeId> {
    let standing = world.nodes[0].replica.status().poison;
    let down = standing.iter().flat_map(|one| one.reports.down.iter());
    down.collect()
}

/// The reports about a call are in no snapshot: who takes one over that is past it may not know of its own. Claim rp-160.
#[test]
fn who_takes_over_a_state_past_the_call_at_which_its_host_died_tells_so_whatever_it_remembers() {
    let mut world = World::new(3);
    for at in [0, 2] {
        world.nodes[at].objects.is_immune = true;
    }
    let session = world.open(0, 5);
    world.loses_fetches = true;
    world.call(0, 5, id(session, 1), "poison");
    assert_eq!(down(&world), [NodeId(1)]);
    world.shared.borrow_mut().deaf.insert(1);
    world.call(0, 5, id(session, 2), "a");
    let slot = world.checkpoint(0);
    world.loses_fetches = false;
    world.shared.borrow_mut().trimmed = slot;
    world.shared.borrow_mut().deaf.clear();
    world.pass(Duration::from_millis(10_000));
    let status = world.nodes[1].replica.status();
    assert!(status.is_serving && status.snapshot >= slot, "{status:?}");
    assert_eq!(down(&world), []);
}

/// A start that begins with such a snapshot knows by its files at which calls hosts of earlier starts died. Claim rp-160.
#[test]
fn a_start_that_begins_past_a_call_at_which_its_host_died_tells_so() {
    let mut world = World::new(3);
    for at in [0, 1] {
        world.nodes[at].objects.is_immune = true;
    }
    let session = world.open(0, 5);
    world.loses_fetches = true;
    world.call(0, 5, id(session, 1), "poison");
    assert_eq!(down(&world), [NodeId(2)]);
    let place = world.nodes[0].replica.status().poison[0].reports.place;
    world.nodes.pop();
    let slot = world.checkpoint(0);
    let image = world.nodes[0].objects.images[&slot].clone();
    let remembered = Remembered {
        snapshot: Some(image.recovered()),
        died: EarlierDeaths::At(vec![place]),
        ..Remembered::default()
    };
    let mut later = config(3, 2);
    later.boot = 2;
    world.add_remembering(later, remembered, Objects::restored(&image));
    world.follow(2, 0);
    world.pass(Duration::from_millis(1_000));
    assert_eq!(down(&world), []);
}

/// Starts are counted anew in a new directory, and so are the numbers of reports. Claim rp-160.
#[test]
fn a_word_that_does_not_count_is_told_once() {
    let mut world = World::new(2);
    for at in [0, 1] {
        world.nodes[at].objects.is_immune = true;
    }
    let mut earlier = config(3, 2);
    earlier.boot = 9;
    world.add_remembering(earlier, Remembered::default(), Objects::default());
    world.follow(2, 0);
    world.loses_fetches = true;
    let session = world.open(0, 5);
    world.call(0, 5, id(session, 1), "poison");
    world.nodes.pop();
    world.shared.borrow_mut().holds_submissions = true;
    let mut objects = Objects::default();
    objects.is_immune = true;
    world.add_remembering(config(3, 2), Remembered::default(), objects);
    world.follow(2, 0);
    let mut told = 0;
    for _ in 0..3 {
        let submitted = std::mem::take(&mut world.shared.borrow_mut().submitted);
        let survived = submitted.into_iter().map(|(_, command)| command);
        let own = |command: &Command| matches!(command.body, Body::Survived { reporter, .. } if reporter == NodeId(2));
        let survived: Vec<_> = survived.filter(own).collect();
        told += survived.len();
        world.decide(survived);
        world.run();
        world.pass(Duration::from_millis(1_000));
    }
    assert_eq!(told, 1);
}

/// What a node with the files of an earlier start remembers.
fn lived(earlier: EarlierLives, died: EarlierDeaths) -> Remembered {
    Remembered {
        earlier,
        died,
        ..Remembered::default()
    }
}

/// Its directory may be an older copy, and peers say so when they hear it first. Claim rp-49.
#[test]
fn a_start_after_another_one_executes_nothing_before_a_leader_has_heard_it() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    world.call(0, 5, id(session, 1), "a");
    let executed = world.nodes[0].replica.status().executed;
    world.nodes.pop();
    let remembered = lived(EarlierLives::Upto(executed), EarlierDeaths::default());
    world.add_remembering(config(3, 2), remembered, Objects::default());
    let status = world.nodes[2].replica.status();
    assert_eq!(status.applied, world.shared.borrow().last());
    let executes =
        |(at, output): &(usize, Output<u32>)| *at == 2 && matches!(output, Output::Execute { .. });
    world.seen.clear();
    world.pass(Duration::from_millis(1_000));
    assert!(!world.seen.iter().any(executes));
    world.follow(2, 0);
    assert!(world.seen.iter().any(executes));
    let digests = digests(&world);
    assert_eq!(digests[2], digests[0]);
}

/// Claim rp-49.
#[test]
fn a_start_on_an_older_directory_executes_nothing_before_all_calls_are_kept_that_lost_starts_may_have_reported()
 {
    let mut world = World::new(2);
    let session = world.open(0, 5);
    world.nodes[0].objects.answers_left = Some(0);
    world.call(1, 5, id(session, 1), "poison");
    assert!(!world.nodes[1].replica.status().is_host_up, "it reports");
    world.nodes.pop();
    let mut objects = Objects::default();
    objects.is_immune = true;
    world.shared.borrow_mut().holds_submissions = true;
    let remembered = lived(EarlierLives::None, EarlierDeaths::Unknown);
    world.add_remembering(config(2, 1), remembered, objects);
    world.follow(1, 0);
    let handed = |(at, output): &(usize, Output<u32>)| match output {
        Output::Execute { slot, .. } if *at == 1 => Some(*slot),
        _ => None,
    };
    world.seen.clear();
    let submitted = world.shared.borrow().submitted.clone();
    let keep = submitted.into_iter().map(|(_, command)| command);
    let mut keep = keep.filter(|command| matches!(command.body, Body::Keep { .. }));
    let keep = keep.next().expect("it asks for all earlier calls");
    assert_eq!(world.seen.iter().find_map(handed), None, "a report stands");
    let kept = world.decide(vec![keep]);
    world.run();
    let slot = world.seen.iter().find_map(handed);
    assert!(slot.is_some_and(|slot| slot < kept), "{slot:?}");
    world.shared.borrow_mut().holds_submissions = false;
    world.nodes[0].objects.answers_left = None;
    world.pass(Duration::from_millis(5_000));
    let skips = |(_, output): &(usize, Output<u32>)| matches!(output, Output::Skip { .. });
    assert!(!world.seen.iter().any(skips), "it may be answered");
}

/// Claim rp-50.
#[test]
fn a_start_that_does_not_know_what_earlier_ones_answered_has_new_calls_skipped_all_the_same() {
    let mut world = World::new(2);
    let session = world.open(0, 5);
    world.call(0, 5, id(session, 1), "a");
    world.nodes.pop();
    let remembered = lived(EarlierLives::Unknown, EarlierDeaths::default());
    world.add_remembering(config(2, 1), remembered, Objects::default());
    world.follow(1, 0);
    world.call(0, 5, id(session, 2), "poison");
    assert_eq!(world.outcome(5), Some(Outcome::Skipped));
    world.call(0, 5, id(session, 1), "a");
    assert!(matches!(world.outcome(5), Some(Outcome::Returned(_))));
}

/// Claim rp-29.
#[test]
fn a_replica_that_was_down_when_the_call_was_decided_still_says_that_it_died_at_it() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    world.call(0, 5, id(session, 1), "a");
    let executed = world.nodes[2].replica.status().executed;
    world.nodes.pop();
    world.take_told(5);
    world.call(0, 5, id(session, 2), "poison");
    assert_eq!(world.outcome(5), None);
    let remembered = Remembered {
        earlier: EarlierLives::Upto(executed),
        ..Remembered::default()
    };
    world.add_remembering(config(3, 2), remembered, Objects::default());
    world.follow(2, 0);
    assert_eq!(world.outcome(5), Some(Outcome::Skipped));
}

#[test]
fn a_death_counts_for_nothing_once_a_replica_survived() {
    let mut world = World::new(2);
    let session = world.open(0, 5);
    world.nodes[0].objects.answers_left = Some(0);
    world.nodes[1].objects.answers_left = Some(0);
    let slot = world.decide(vec![call(session, 1, 0, "a")]);
    let (index, may_have_answered) = (0, false);
    let reporter = NodeId(1);
    world.decide(vec![meta(Body::Survived {
        reporter,
        slot,
        index,
    })]);
    for reporter in [NodeId(0), NodeId(1)] {
        world.decide(vec![meta(Body::Died {
            reporter,
            slot,
            index,
            may_have_answered,
        })]);
    }
    for node in &mut world.nodes {
        node.objects.answers_left = None;
    }
    world.run();
    world.call(0, 5, id(session, 1), "a");
    assert!(matches!(world.outcome(5), Some(Outcome::Returned(_))));
}

/// Claim rp-48.
#[test]
fn hosts_that_are_down_at_different_calls_of_one_slot_keep_nobody_from_going_on() {
    let mut world = World::new(3);
    world.nodes[2].objects.survives = vec!["poison first"];
    let session = world.open(0, 5);
    let slot = world.decide(vec![
        call(session, 1, 0, "a"),
        call(session, 2, 0, "poison first"),
        call(session, 3, 0, "b"),
        call(session, 4, 0, "poison second"),
    ]);
    world.run();
    for (index, sequence) in (0..4).zip(1..) {
        let text = ["a", "poison first", "b", "poison second"][index];
        world.call(0, 5, id(session, sequence), text);
        let is_skipped = world.outcome(5) == Some(Outcome::Skipped);
        assert_eq!(is_skipped, index % 2 == 1, "call {index} of {slot}");
    }
    let digests = digests(&world);
    assert!(digests.iter().all(|digest| *digest == digests[0]));
    let states: Vec<_> = world.nodes.iter().map(|n| value(n.objects.state)).collect();
    assert!(states.iter().all(|state| *state == states[0]));
    assert!(world.nodes.iter().all(|n| n.replica.status().is_host_up));
}

#[test]
fn reports_about_different_slots_and_about_calls_not_decided_yet_skip_nothing() {
    let mut world = World::new(2);
    let session = world.open(0, 5);
    world.nodes[0].objects.answers_left = Some(0);
    world.nodes[1].objects.answers_left = Some(0);
    let first = world.decide(vec![call(session, 1, 0, "a")]);
    let second = world.decide(vec![call(session, 2, 0, "b")]);
    let died = |reporter, slot, index| {
        let reporter = NodeId(reporter);
        meta(Body::Died {
            reporter,
            slot,
            index,
            may_have_answered: false,
        })
    };
    let later = Slot(second.0 + 4);
    world.decide(vec![died(0, first, 0), died(1, second, 0)]);
    world.decide(vec![died(0, later, 0), died(1, later, 0)]);
    world.decide(vec![meta(Body::Skip {
        slot: later,
        index: 0,
        is_unsafe: true,
    })]);
    world.decide(vec![call(session, 3, 0, "c")]);
    for node in &mut world.nodes {
        node.objects.answers_left = None;
    }
    world.run();
    for sequence in 1..=3 {
        world.call(
            0,
            5,
            id(session, sequence),
            ["a", "b", "c"][sequence as usize - 1],
        );
        let outcome = world.outcome(5);
        assert!(matches!(outcome, Some(Outcome::Returned(_))), "{outcome:?}");
    }
}

#[test]
fn an_operator_skips_a_call_without_the_evidence() {
    let mut world = World::new(2);
    let session = world.open(0, 5);
    world.shared.borrow_mut().deaf.insert(1);
    world.call(0, 5, id(session, 1), "poison");
    assert_eq!(world.outcome(5), None, "node 1 has not reported");
    let slot = world.shared.borrow().last();
    let slot = (1..=slot.0).rev().map(Slot).find(|slot| {
        let shared = world.shared.borrow();
        let commands = shared.log[slot.0 as usize - 1].commands();
        commands.iter().any(|c| matches!(c.body, Body::Call { .. }))
    });
    let slot = slot.expect("the call is decided");
    world.decide(vec![meta(Body::Skip {
        slot,
        index: 0,
        is_unsafe: true,
    })]);
    assert_eq!(world.outcome(5), Some(Outcome::Skipped));
}

#[test]
fn a_replica_that_starts_again_skips_what_the_log_says_and_dies_no_second_time() {
    let mut world = World::new(2);
    let session = world.open(0, 5);
    world.call(0, 5, id(session, 1), "poison");
    world.call(0, 5, id(session, 2), "a");
    world.nodes.pop();
    world.add(config(2, 1), None, Objects::default());
    let digests = digests(&world);
    assert_eq!(digests[1], digests[0]);
    assert!(world.nodes[1].replica.status().is_host_up);
}

#[test]
fn a_report_that_ordering_refused_is_made_again() {
    let mut world = World::new(1);
    let session = world.open(0, 5);
    world.shared.borrow_mut().holds_submissions = true;
    let place = (Slot(9), 0);
    let (slot, index) = place;
    world.input(0, Input::HostDied { slot, index });
    let reports = |world: &World| {
        let shared = world.shared.borrow();
        let submitted = shared.submitted.iter();
        let bodies = submitted.filter(|(_, c)| matches!(c.body, Body::Died { .. }));
        bodies.map(|(_, c)| c.id).collect::<Vec<_>>()
    };
    let first = reports(&world);
    assert_eq!(first.len(), 1);
    let refusal = quorate_types::Refusal::NotOrdered;
    let command = first[0];
    world.effect(0, quorate_ordering::Effect::Refuse { command, refusal });
    world.run();
    assert_eq!(reports(&world).len(), 1, "not at once");
    world.now = world.now + quorate_types::Duration::from_millis(600);
    world.input(0, Input::Wake);
    assert_eq!(reports(&world).len(), 2);
    let _ = session;
}

/// Claim rp-29.
#[test]
fn a_call_that_was_answered_is_not_skipped_when_every_host_dies_at_it_later_in_the_same_start() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    world.call(0, 5, id(session, 1), "a");
    assert!(matches!(world.outcome(5), Some(Outcome::Returned(_))));
    let slot = world.nodes[0].replica.status().executed;
    world.shared.borrow_mut().holds_submissions = true;
    for node in 0..3 {
        world.nodes[node].objects.dies_again(slot, 0);
    }
    world.run();
    let reports: Vec<Body> = {
        let shared = world.shared.borrow();
        let bodies = shared.submitted.iter().map(|(_, c)| c.body.clone());
        bodies
            .filter(|body| matches!(body, Body::Died { .. }))
            .collect()
    };
    assert_eq!(reports.len(), 3);
    world.decide(reports.into_iter().map(meta).collect());
    let answered = world.nodes[0].objects.state;
    world.nodes.pop();
    world.add(config(3, 2), None, Objects::default());
    assert_eq!(
        world.nodes[2].objects.state, answered,
        "a replica that starts again executes what a client was answered"
    );
}

/// Claim rp-28.
#[test]
fn a_replica_that_dies_again_at_a_call_that_it_answered_takes_over_the_state_of_who_does_not() {
    let mut world = World::new(3);
    let session = world.open(2, 5);
    world.call(2, 5, id(session, 1), "a");
    let slot = world.nodes[2].replica.status().executed;
    for node in 0..2 {
        world.nodes[node].objects.dies_again(slot, 0);
    }
    world.run();
    world.call(2, 5, id(session, 2), "b");
    world.pass(Duration::from_millis(10_000));
    for node in 0..3 {
        let status = world.nodes[node].replica.status();
        assert!(status.is_host_up && status.is_serving, "{status:?}");
        assert_eq!(
            world.nodes[node].objects.state,
            world.nodes[2].objects.state
        );
    }
}
