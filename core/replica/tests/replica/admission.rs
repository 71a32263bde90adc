//! At most once, whoever asks and however often.

use crate::world::{World, call, id, refused};
use quorate_ordering::Effect;
use quorate_replica::{CheckpointPolicy, Input, Output, Snapshots, limits};
use quorate_types::{
    Ask, ClosedBy, ConnectionId, FromClient, ObjectId, Refusal, SessionId, Time, ToClient, Value,
    Wall,
};

#[test]
fn a_call_is_answered_by_the_replica_that_took_it() {
    let mut world = World::new(3);
    let session = world.open(2, 5);
    world.take_told(5);
    world.call(2, 5, id(session, 1), "a");
    assert!(world.outcome(5).is_some());
    for node in &world.nodes {
        assert_eq!(node.objects.executed.len(), 1);
        assert_eq!(node.objects.state, world.nodes[0].objects.state);
    }
}

/// Claim rp-1.
#[test]
fn parallel_retries_at_two_replicas_execute_once_and_get_the_same_reply() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    world.shared.borrow_mut().holds_submissions = true;
    world.call(1, 11, id(session, 1), "a");
    world.call(2, 12, id(session, 1), "a");
    let submitted = std::mem::take(&mut world.shared.borrow_mut().submitted);
    let copies: Vec<_> = submitted
        .into_iter()
        .map(|(_, command)| command)
        .filter(|command| command.id == id(session, 1))
        .collect();
    assert_eq!(copies.len(), 2);
    for copy in copies {
        world.decide(vec![copy]);
    }
    let (one, two) = (world.outcome(11), world.outcome(12));
    assert!(one.is_some());
    assert_eq!(one, two);
}

/// Claim rp-2.
#[test]
fn a_client_that_moves_gets_the_kept_reply_and_after_acknowledging_none() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    world.call(0, 5, id(session, 1), "a");
    let first = world.outcome(5);
    world.call(1, 6, id(session, 1), "a");
    assert_eq!(world.outcome(6), first);
    world.call_acknowledging(1, 6, id(session, 2), 1, "b");
    world.take_told(6);
    world.call(2, 7, id(session, 1), "a");
    let gone = refused(Ask::Call(id(session, 1)), Refusal::ReplyGone);
    assert_eq!(world.take_told(7), [gone]);
}

#[test]
fn two_connections_of_one_replica_may_wait_for_the_same_call() {
    let mut world = World::new(1);
    let session = world.open(0, 5);
    world.nodes[0].objects.answers_left = Some(0);
    world.call(0, 5, id(session, 1), "a");
    world.call(0, 6, id(session, 1), "a");
    assert_eq!(world.shared.borrow().last().0, 3, "submitted once");
    world.nodes[0].objects.answers_left = None;
    world.run();
    let reply = world.outcome(5);
    assert!(reply.is_some());
    assert_eq!(world.outcome(6), reply);
}

/// Claim rp-3.
#[test]
fn a_sequence_used_again_with_another_payload_is_refused_everywhere() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    let reused = refused(Ask::Call(id(session, 1)), Refusal::SequenceReused);
    world.call(0, 5, id(session, 1), "a");
    world.take_told(5);
    world.call(0, 5, id(session, 1), "b");
    assert_eq!(world.take_told(5), [reused], "known here");
    world.shared.borrow_mut().deaf.insert(1);
    world.call(0, 5, id(session, 2), "a");
    world.call(1, 6, id(session, 2), "b");
    assert_eq!(world.take_told(6), [], "not known there yet");
    world.shared.borrow_mut().deaf.clear();
    world.run();
    let reused = refused(Ask::Call(id(session, 2)), Refusal::SequenceReused);
    assert_eq!(world.take_told(6), [reused]);
}

#[test]
fn who_waits_with_another_payload_does_not_get_the_first_ones_reply() {
    let mut world = World::new(1);
    let session = world.open(0, 5);
    world.take_told(5);
    world.shared.borrow_mut().holds_submissions = true;
    world.call(0, 5, id(session, 1), "b");
    world.decide(vec![call(session, 1, 0, "a")]);
    assert_eq!(world.take_told(5), [], "executed, but not what was asked");
    world.decide(vec![call(session, 1, 0, "b")]);
    let ask = Ask::Call(id(session, 1));
    assert_eq!(world.take_told(5), [refused(ask, Refusal::SequenceReused)]);
    assert_eq!(world.nodes[0].replica.status().in_flight, 0);
}

#[test]
fn what_names_nothing_is_refused() {
    let mut world = World::new(1);
    let session = world.open(0, 5);
    world.take_told(5);
    let message = FromClient::Call {
        id: id(session, 1),
        acknowledged: 0,
        object: ObjectId(9),
        payload: Value::new(),
    };
    world.say(0, 5, message);
    let ask = Ask::Call(id(session, 1));
    assert_eq!(world.take_told(5), [refused(ask, Refusal::NoSuchObject)]);
    let stranger = id(SessionId(1 << 16 | 77), 1);
    world.call(0, 5, stranger, "a");
    let ask = Ask::Call(stranger);
    assert_eq!(world.take_told(5), [refused(ask, Refusal::SessionExpired)]);
    assert!(world.nodes[0].objects.executed.is_empty());
}

#[test]
fn a_session_opened_elsewhere_may_call_once_its_opening_is_known() {
    let mut world = World::new(2);
    world.shared.borrow_mut().deaf.insert(1);
    let session = world.open(0, 5);
    world.call(1, 6, id(session, 1), "a");
    let elsewhere = [
        refused(Ask::Session(session), Refusal::NotServing),
        refused(Ask::Call(id(session, 1)), Refusal::NotServing),
    ];
    assert_eq!(world.take_told(6), elsewhere, "nobody can judge the secret");
    world.shared.borrow_mut().deaf.clear();
    world.run();
    world.call(1, 6, id(session, 1), "a");
    assert!(world.outcome(6).is_some());
}

/// Claim rp-4.
#[test]
fn a_refused_submission_is_reported_unless_a_copy_of_it_was_decided() {
    let mut world = World::new(2);
    let session = world.open(0, 5);
    world.take_told(5);
    world.shared.borrow_mut().holds_submissions = true;
    let refuse = |command| Effect::Refuse {
        command,
        refusal: Refusal::NotOrdered,
    };
    world.call(0, 5, id(session, 1), "a");
    world.effect(0, refuse(id(session, 1)));
    let ask = Ask::Call(id(session, 1));
    assert_eq!(world.take_told(5), [refused(ask, Refusal::NotOrdered)]);
    world.call(0, 5, id(session, 2), "b");
    world.nodes[0].objects.answers_left = Some(0);
    world.decide(vec![call(session, 2, 0, "b")]);
    world.effect(0, refuse(id(session, 2)));
    assert_eq!(world.take_told(5), []);
    world.nodes[0].objects.answers_left = None;
    world.run();
    assert!(world.outcome(5).is_some());
    assert_eq!(world.nodes[0].replica.status().in_flight, 0);
}

#[test]
fn a_retry_after_disconnecting_does_not_submit_again() {
    let mut world = World::new(1);
    let session = world.open(0, 5);
    world.shared.borrow_mut().holds_submissions = true;
    world.call(0, 5, id(session, 1), "a");
    let connection = ConnectionId(5);
    world.input(
        0,
        Input::Disconnected {
            connection,
            by: ClosedBy::Client,
        },
    );
    world.call(0, 6, id(session, 1), "a");
    let calls = |world: &World| {
        let shared = world.shared.borrow();
        let submitted = shared.submitted.iter();
        submitted.filter(|(_, c)| c.id == id(session, 1)).count()
    };
    assert_eq!(calls(&world), 1);
    world.decide(vec![call(session, 1, 0, "a")]);
    assert!(world.outcome(6).is_some());
    assert!(world.outcome(5).is_none());
}

#[test]
fn a_session_may_run_out_of_order_inside_its_window_and_not_beyond() {
    let mut world = World::new(1);
    let session = world.open(0, 5);
    world.take_told(5);
    for sequence in [3, 1, 4096, 2] {
        world.call(0, 5, id(session, sequence), "a");
    }
    let told = world.take_told(5);
    assert!(
        told.iter()
            .all(|told| matches!(told, ToClient::Replied { .. })),
        "{told:?}"
    );
    assert_eq!(told.len(), 4);
    world.call(0, 5, id(session, 4097), "a");
    let ask = Ask::Call(id(session, 4097));
    assert_eq!(world.take_told(5), [refused(ask, Refusal::Overloaded)]);
}

/// Claim rp-5.
#[test]
fn a_hung_object_stops_neither_agreement_nor_the_other_replicas() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    world.nodes[1].objects.answers_left = Some(0);
    for sequence in 1..=20 {
        world.call(0, 5, id(session, sequence), "a");
    }
    assert!(world.outcome(5).is_some());
    let status = world.nodes[1].replica.status();
    assert_eq!(status.applied, world.nodes[0].replica.status().applied);
    assert_eq!(status.backlog, 20);
    assert!(status.executed < status.applied);
    world.nodes[1].objects.answers_left = None;
    world.run();
    assert_eq!(
        world.nodes[1].replica.status().digest,
        world.nodes[0].replica.status().digest
    );
}

#[test]
fn a_draining_node_hands_over_and_refuses_once_it_does_not_lead() {
    let mut world = World::new(2);
    let session = world.open(0, 5);
    world.input(0, Input::Drain);
    assert_eq!(world.shared.borrow().transferred.len(), 1);
    world.call(0, 5, id(session, 1), "a");
    assert!(world.outcome(5).is_some());
    world.lead(1);
    world.take_told(5);
    world.call(0, 5, id(session, 2), "a");
    let ask = Ask::Call(id(session, 2));
    assert_eq!(world.take_told(5), [refused(ask, Refusal::NotServing)]);
}

#[test]
fn clients_are_told_who_leads_at_first_contact_and_on_change() {
    let mut world = World::new(2);
    world.open(1, 5);
    world.open(0, 6);
    let hints = |world: &World, to| {
        let told = world.told.iter();
        told.filter(|(c, m)| *c == ConnectionId(to) && matches!(m, ToClient::Leader { .. }))
            .count()
    };
    assert_eq!(hints(&world, 5), 1, "it asked a follower");
    assert_eq!(hints(&world, 6), 0, "it asked the leader");
    world.lead(1);
    assert_eq!(hints(&world, 5), 2);
    assert_eq!(hints(&world, 6), 1);
}

#[test]
fn a_window_filled_behind_one_slow_reply_opens_again_once_the_client_acknowledges() {
    let mut world = World::new(1);
    let session = world.open(0, 5);
    let window = limits::SESSION_WINDOW;
    let calls = (1..=window).map(|sequence| call(session, sequence, 0, "a"));
    world.decide(calls.collect());
    world.take_told(5);
    world.call(0, 5, id(session, window + 1), "b");
    let beyond = refused(Ask::Call(id(session, window + 1)), Refusal::Overloaded);
    assert_eq!(world.take_told(5), [beyond]);
    world.call_acknowledging(0, 5, id(session, window + 1), window, "b");
    assert!(world.outcome(5).is_some(), "its acknowledgement makes room");
}

#[test]
fn time_goes_on_for_the_objects_where_recovered_batches_were_stamped_out_of_order() {
    let mut world = World::new(2);
    let session = world.open(0, 5);
    world.now = Time(3_000_000_000);
    world.decide(vec![call(session, 1, 0, "a")]);
    world.now = Time(2_000_000_000);
    world.decide(vec![call(session, 2, 0, "b")]);
    let stamps = |node: usize| -> Vec<Wall> {
        let of_node = world.seen.iter().filter(|(at, _)| *at == node);
        of_node
            .filter_map(|(_, output)| match output {
                Output::Execute { stamp, .. } => Some(stamp.wall),
                _ => None,
            })
            .collect()
    };
    assert_eq!(stamps(0).len(), 2);
    assert!(stamps(0)[0] < stamps(0)[1], "{:?}", stamps(0));
    assert_eq!(stamps(0), stamps(1));
}

#[test]
fn what_a_hung_object_was_sent_and_what_waits_for_it_are_bounded_in_bytes_too() {
    let never = CheckpointPolicy {
        bytes: u64::MAX,
        bytes_large: u64::MAX,
        bytes_hard: u64::MAX,
        ..CheckpointPolicy::default()
    };
    let mut world = World::with(3, |config| config.snapshots = Snapshots::Every(never));
    let session = world.open(0, 5);
    world.nodes[2].objects.answers_left = Some(0);
    let text = "a".repeat(4 << 20);
    let calls = (limits::BACKLOG_BYTES / text.len()) as u64 + 1;
    for sequence in 1..=calls {
        world.decide(vec![call(session, sequence, sequence - 1, &text)]);
    }
    let sent = world.nodes[2].objects.unanswered();
    assert!(
        (1..=limits::HANDED_BYTES / text.len()).contains(&sent),
        "{sent}"
    );
    let next = id(session, calls + 1);
    world.call(2, 6, next, "a");
    assert_eq!(
        world.take_told(6),
        [refused(Ask::Call(next), Refusal::Overloaded)]
    );
    world.call(1, 6, next, "a");
    assert!(
        world.outcome(6).is_some(),
        "the others have executed everything"
    );
}
