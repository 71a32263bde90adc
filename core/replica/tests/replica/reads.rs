//! Reads of every level.

use crate::world::{World, call, id, refused};
use quorate_ordering::Effect;
use quorate_replica::{Input, Output, limits};
use quorate_types::{
    Ask, Body, BroadcastId, ClosedBy, ConnectionId, Duration, FromClient, NodeId, ObjectId,
    ReadLevel, Refusal, SecretHash, Slot, Time, ToClient, Value,
};

/// Claim rp-6.
#[test]
fn a_confirmed_read_waits_until_its_barrier_is_executed() {
    let mut world = World::new(2);
    let session = world.open(0, 5);
    world.shared.borrow_mut().deaf.insert(1);
    world.call(0, 5, id(session, 1), "a");
    world.read(1, 6, 1, ReadLevel::Confirmed);
    assert_eq!(world.take_told(6), [], "it lacks the write");
    world.shared.borrow_mut().deaf.clear();
    world.run();
    let wrote = world.outcome(5);
    assert_eq!(world.outcome(6), wrote);
}

#[test]
fn a_read_behind_a_slow_object_sees_everything_before_its_barrier() {
    let mut world = World::new(1);
    let session = world.open(0, 5);
    world.nodes[0].objects.answers_left = Some(0);
    world.call(0, 5, id(session, 1), "a");
    world.read(0, 6, 1, ReadLevel::Confirmed);
    world.nodes[0].objects.answers_left = None;
    world.run();
    let wrote = world.outcome(5);
    assert!(wrote.is_some());
    assert_eq!(world.outcome(6), wrote);
}

/// Claim rp-7.
#[test]
fn reads_of_one_turn_share_a_confirmation_that_no_later_read_uses() {
    let mut world = World::new(1);
    world.shared.borrow_mut().holds_reads = true;
    world.read(0, 5, 1, ReadLevel::Confirmed);
    world.read(0, 5, 2, ReadLevel::Confirmed);
    let asked = world.shared.borrow().asked.clone();
    assert_eq!(asked.len(), 2, "two turns, two confirmations");
    let confirmed = |read| Effect::Confirmed {
        read,
        barrier: Slot::ZERO,
        until: None,
    };
    world.effect(0, confirmed(asked[1].1));
    world.effect(0, confirmed(asked[1].1));
    world.run();
    let told = world.take_told(5);
    assert_eq!(told.len(), 1);
    assert!(matches!(told[0], ToClient::Read { request: 2, .. }));
}

#[test]
fn an_unconfirmed_read_is_refused_and_promised_nothing() {
    let mut world = World::new(1);
    world.shared.borrow_mut().holds_reads = true;
    world.read(0, 5, 1, ReadLevel::Confirmed);
    let read = world.shared.borrow().asked[0].1;
    world.effect(0, Effect::Unconfirmed { read });
    let ask = Ask::Request(1);
    assert_eq!(world.take_told(5), [refused(ask, Refusal::NotOrdered)]);
    assert_eq!(world.nodes[0].replica.status().reads, 0);
}

/// Claim rp-8.
#[test]
fn a_lease_that_ends_while_the_value_is_read_is_confirmed_anew() {
    let mut world = World::new(1);
    let ends = world.now + Duration::from_millis(100);
    world.shared.borrow_mut().lease_ends = Some(ends);
    world.nodes[0].objects.answers_left = Some(0);
    world.read(0, 5, 1, ReadLevel::Lease);
    world.now = ends;
    world.shared.borrow_mut().holds_reads = true;
    world.nodes[0].objects.answers_left = Some(1);
    world.run();
    assert_eq!(world.take_told(5), [], "nothing stale leaves");
    let asked = world.shared.borrow().asked.clone();
    let again = asked.last().expect("it asks again");
    assert!(!again.2, "by a confirmation, not by the lease");
    world.nodes[0].objects.answers_left = None;
    let read = again.1;
    let barrier = Slot::ZERO;
    world.effect(
        0,
        Effect::Confirmed {
            read,
            barrier,
            until: None,
        },
    );
    world.run();
    assert!(world.outcome(5).is_some());
}

#[test]
fn a_lease_in_force_answers_at_once() {
    let mut world = World::new(1);
    world.shared.borrow_mut().lease_ends = Some(Time(u64::MAX));
    world.read(0, 5, 1, ReadLevel::Lease);
    assert!(world.outcome(5).is_some());
    assert!(world.shared.borrow().asked.is_empty());
}

/// Claim rp-9.
#[test]
fn an_ordered_read_is_executed_at_its_place_by_one_replica_only() {
    let mut world = World::new(2);
    let session = world.open(0, 5);
    world.call(0, 5, id(session, 1), "a");
    let wrote = world.outcome(5);
    world.seen.clear();
    world.read(1, 6, 1, ReadLevel::Ordered);
    assert_eq!(world.outcome(6), wrote);
    let queries = world.seen.iter();
    let queried: Vec<usize> = queries
        .filter(|(_, output)| matches!(output, Output::Query { .. }))
        .map(|(at, _)| *at)
        .collect();
    assert_eq!(queried, [1]);
}

#[test]
fn the_mark_of_an_earlier_start_answers_no_read() {
    let mut world = World::new(1);
    world.shared.borrow_mut().holds_submissions = true;
    world.read(0, 5, 1, ReadLevel::Ordered);
    let marks = std::mem::take(&mut world.shared.borrow_mut().submitted);
    let mark = marks
        .into_iter()
        .map(|(_, command)| command)
        .find(|command| matches!(command.body, Body::Read { .. }))
        .expect("it has a place in the log");
    let (mut earlier, mut stranger) = (mark.clone(), mark.clone());
    let reader = NodeId(0);
    earlier.body = Body::Read { reader, boot: 0 };
    let reader = NodeId(1);
    stranger.body = Body::Read { reader, boot: 1 };
    world.decide(vec![earlier, stranger]);
    assert_eq!(world.take_told(5), []);
    world.decide(vec![mark]);
    assert!(world.outcome(5).is_some());
}

/// One node whose objects answer nothing and have not been handed all that is decided.
fn with_calls_not_handed_out() -> World {
    let mut world = World::new(1);
    let session = world.open(0, 5);
    world.nodes[0].objects.answers_left = Some(0);
    let each = limits::HANDED_CALLS as u64 / 20;
    for slot in 0..30 {
        let calls = (1..=each).map(|n| slot * each + n);
        let calls = calls.map(|sequence| call(session, sequence, sequence - 1, "a"));
        let calls = calls.collect();
        world.decide(calls);
    }
    world
}

#[test]
fn a_read_waits_while_calls_before_its_barrier_are_not_handed_out() {
    let mut world = with_calls_not_handed_out();
    world.read(0, 6, 1, ReadLevel::Confirmed);
    let is_query = |(_, output): &&(usize, Output<u32>)| matches!(output, Output::Query { .. });
    assert_eq!(world.seen.iter().filter(is_query).count(), 0);
    world.nodes[0].objects.answers_left = None;
    world.run();
    let last = crate::world::value(world.nodes[0].objects.state);
    assert_eq!(world.outcome(6), Some(last));
}

/// Claim rp-33.
#[test]
fn any_state_is_as_old_as_the_newest_mark_that_it_has_reached() {
    let mut world = World::new(2);
    let session = world.open(0, 5);
    world.shared.borrow_mut().deaf.insert(1);
    let slot = world.shared.borrow().last();
    let at = world.now;
    world.effect(1, Effect::Current { slot, at });
    let slot = world.decide(vec![call(session, 1, 0, "a")]);
    world.pass(Duration::from_millis(250));
    // The leader was heard just now, and what it told is not executed here.
    let at = world.now;
    world.effect(1, Effect::Current { slot, at });
    world.read(1, 6, 1, ReadLevel::Any);
    let (read, age) = last_read(&mut world, 6);
    assert!(read < slot);
    assert_eq!(age, Duration::from_millis(250));
    world.shared.borrow_mut().deaf.clear();
    world.run();
    world.read(1, 6, 2, ReadLevel::Any);
    let (read, age) = last_read(&mut world, 6);
    assert_eq!((read, age), (slot, Duration::ZERO));
}

/// Claim rp-33.
#[test]
fn any_state_is_as_old_as_what_the_objects_have_and_not_as_what_is_applied() {
    let mut world = World::new(1);
    let session = world.open(0, 5);
    let (slot, at) = (world.shared.borrow().last(), world.now);
    world.effect(0, Effect::Current { slot, at });
    world.nodes[0].objects.answers_left = Some(0);
    let each = limits::HANDED_CALLS as u64 / 20;
    for slot in 0..30 {
        let calls = (1..=each).map(|n| slot * each + n);
        let calls = calls.map(|sequence| call(session, sequence, sequence - 1, "a"));
        let calls = calls.collect();
        world.decide(calls);
    }
    world.pass(Duration::from_millis(250));
    let (slot, at) = (world.shared.borrow().last(), world.now);
    assert_eq!(world.nodes[0].replica.status().applied, slot);
    world.effect(0, Effect::Current { slot, at });
    world.read(0, 6, 1, ReadLevel::Any);
    world.nodes[0].objects.answers_left = None;
    world.run();
    let (read, age) = last_read(&mut world, 6);
    assert!(read < slot, "the rest waits behind slow objects");
    assert_eq!(age, Duration::from_millis(250));
}

/// Claim rp-33.
#[test]
fn a_replica_knows_the_age_of_its_state_while_its_objects_execute_what_is_newer() {
    let mut world = World::new(1);
    let session = world.open(0, 5);
    let (slot, known_at) = (world.shared.borrow().last(), world.now);
    let at = known_at;
    world.effect(0, Effect::Current { slot, at });
    world.nodes[0].objects.answers_left = Some(0);
    world.call(0, 5, id(session, 1), "a");
    for _ in 0..3 {
        world.pass(Duration::from_millis(250));
        let (slot, at) = (world.shared.borrow().last(), world.now);
        world.effect(0, Effect::Current { slot, at });
        let status = world.nodes[0].replica.status();
        assert_eq!((status.lag, status.current_at), (1, Some(known_at)));
    }
    world.nodes[0].objects.answers_left = None;
    world.run();
    let status = world.nodes[0].replica.status();
    assert_eq!((status.lag, status.current_at), (0, Some(world.now)));
}

/// Claim rp-33.
#[test]
fn a_replica_that_never_knew_itself_current_answers_no_read_of_any_state() {
    let mut world = World::new(2);
    world.link_up(0, 1);
    let ask = Ask::Request(1);
    for level in [ReadLevel::Any, ReadLevel::Loose] {
        world.read(1, 6, 1, level);
        let told = world.take_told(6);
        assert_eq!(told.last(), Some(&refused(ask, Refusal::NotServing)));
    }
    assert_eq!(world.nodes[1].replica.status().current_at, None);
    assert_eq!(world.nodes[1].replica.status().reads, 0);
}

/// Claim rp-34.
#[test]
fn a_client_that_has_seen_more_waits_a_little_and_is_sent_elsewhere() {
    let mut world = World::new(2);
    let session = world.open(0, 5);
    world.shared.borrow_mut().deaf.insert(1);
    let (slot, at) = (Slot::ZERO, world.now);
    world.effect(1, Effect::Current { slot, at });
    let seen = world.decide(vec![call(session, 1, 0, "a")]);
    world.read_after(1, 6, 1, seen);
    assert!(!world.take_told(6).iter().any(is_read), "it is behind");
    world.pass(limits::BEHIND_MAX);
    let ask = Ask::Request(1);
    assert_eq!(world.take_told(6), [refused(ask, Refusal::Behind)]);
    world.read_after(1, 6, 2, seen);
    world.shared.borrow_mut().deaf.clear();
    world.run();
    assert!(world.take_told(6).iter().any(is_read), "it has caught up");
    assert_eq!(world.nodes[1].replica.status().reads, 0);
}

/// Slot and age of the last answer that a connection was told, which answers a read.
fn last_read(world: &mut World, connection: u64) -> (Slot, Duration) {
    match world.take_told(connection).last() {
        Some(ToClient::Read { slot, age, .. }) => (*slot, *age),
        other => panic!("{other:?}"),
    }
}

fn is_read(told: &ToClient) -> bool {
    matches!(told, ToClient::Read { .. })
}

#[test]
fn a_read_whose_barrier_the_next_leader_never_fills_is_confirmed_by_it_anew() {
    for ahead in [1, 5] {
        let mut world = World::new(2);
        world.shared.borrow_mut().holds_reads = true;
        world.read(1, 5, 1, ReadLevel::Confirmed);
        let read = world.shared.borrow().asked[0].1;
        let barrier = world.shared.borrow().last().plus(ahead);
        let until = None;
        world.effect(
            1,
            Effect::Confirmed {
                read,
                barrier,
                until,
            },
        );
        world.shared.borrow_mut().holds_reads = false;
        world.run();
        assert_eq!(world.take_told(5), [], "the barrier lies {ahead} ahead");
        // The new leader decides nothing yet, so only its confirmation can answer the read.
        world.shared.borrow_mut().holds_submissions = true;
        world.lead(1);
        assert!(world.outcome(5).is_some(), "the barrier lay {ahead} ahead");
        assert_eq!(world.nodes[1].replica.status().reads, 0);
    }
}

#[test]
fn reads_that_know_their_barrier_take_no_place_either_once_their_connection_ended() {
    let mut world = World::new(1);
    world.shared.borrow_mut().holds_reads = true;
    world.read(0, 6, 1, ReadLevel::Confirmed);
    let read = world.shared.borrow().asked[0].1;
    let barrier = world.shared.borrow().last().plus(5);
    let until = None;
    world.effect(
        0,
        Effect::Confirmed {
            read,
            barrier,
            until,
        },
    );
    assert_eq!(world.nodes[0].replica.status().reads, 1, "it waits");
    let connection = ConnectionId(6);
    world.input(
        0,
        Input::Disconnected {
            connection,
            by: ClosedBy::Client,
        },
    );
    world.run();
    assert_eq!(world.nodes[0].replica.status().reads, 0);
}

#[test]
fn the_reads_of_a_connection_that_ended_take_no_place() {
    let mut world = World::new(1);
    world.shared.borrow_mut().holds_reads = true;
    let waiting = |world: &World| world.nodes[0].replica.status().reads;
    for connection in 10..20 {
        for (request, level) in [(1, ReadLevel::Confirmed), (2, ReadLevel::Lease)] {
            world.read(0, connection, request, level);
        }
        world.read_after(0, connection, 3, Slot(9));
        let connection = ConnectionId(connection);
        world.input(
            0,
            Input::Disconnected {
                connection,
                by: ClosedBy::Client,
            },
        );
    }
    world.read(0, 5, 1, ReadLevel::Confirmed);
    assert_eq!(waiting(&world), 1, "only the last client is still there");
    let asked = world.shared.borrow().asked.clone();
    let (_, read, _) = *asked.last().expect("it was asked for");
    let (barrier, until) = (Slot::ZERO, None);
    world.effect(
        0,
        Effect::Confirmed {
            read,
            barrier,
            until,
        },
    );
    world.run();
    assert!(world.outcome(5).is_some());
    assert_eq!(waiting(&world), 0);
}

#[test]
fn reads_that_wait_are_bounded_in_bytes_and_leave_room_when_they_are_answered() {
    let mut world = World::new(1);
    world.shared.borrow_mut().holds_reads = true;
    let payload = Value::from(vec![b'?'; 4 << 20]);
    let read = |request| FromClient::Read {
        request,
        object: ObjectId(0),
        payload: payload.clone(),
        level: ReadLevel::Confirmed,
        after: Slot::ZERO,
    };
    let most = limits::READS_BYTES / payload.len();
    for request in 1..=most as u64 {
        world.say(0, 6, read(request));
    }
    assert_eq!(world.take_told(6), []);
    assert_eq!(world.nodes[0].replica.status().reads, most);
    world.say(0, 7, read(1));
    let overloaded = refused(Ask::Request(1), Refusal::Overloaded);
    assert_eq!(world.take_told(7), [overloaded]);
    let asked = world.shared.borrow().asked.clone();
    for (_, id, _) in asked {
        let barrier = Slot::ZERO;
        let until = None;
        world.effect(
            0,
            Effect::Confirmed {
                read: id,
                barrier,
                until,
            },
        );
    }
    world.run();
    assert_eq!(world.take_told(6).len(), most);
    world.say(0, 7, read(2));
    assert_eq!(world.take_told(7), [], "there is room again");
}

/// Keepalives are answered all the same, so the client would not go on to another node.
#[test]
fn a_read_at_a_host_that_stays_down_is_refused() {
    for is_final in [true, false] {
        let mut world = World::new(1);
        world.nodes[0].objects.answers_left = Some(0);
        world.read(0, 5, 1, ReadLevel::Confirmed);
        world.input(0, Input::Host { is_up: false });
        assert_eq!(world.take_told(5), [], "it may start again soon");
        if is_final {
            let (slot, index) = (Slot(1), 0);
            world.input(0, Input::HostDied { slot, index });
        } else {
            let due = world.nodes[0].replica.next_wake();
            assert!(due.is_some_and(|due| due <= world.now + limits::HOST_DOWN_MAX));
            world.pass(limits::HOST_DOWN_MAX);
        }
        let ask = Ask::Request(1);
        assert_eq!(world.take_told(5), [refused(ask, Refusal::NotServing)]);
        world.nodes[0].objects.answers_left = None;
        world.input(0, Input::Host { is_up: true });
        world.run();
        assert_eq!(world.take_told(5), [], "its answer comes too late");
        world.read(0, 5, 2, ReadLevel::Confirmed);
        assert!(world.outcome(5).is_some());
        assert_eq!(world.nodes[0].replica.status().reads, 0);
    }
}

#[test]
fn a_read_at_a_host_that_starts_again_soon_is_answered() {
    let mut world = World::new(1);
    world.nodes[0].objects.answers_left = Some(0);
    world.read(0, 5, 1, ReadLevel::Confirmed);
    world.input(0, Input::Host { is_up: false });
    world.input(0, Input::Host { is_up: true });
    world.pass(limits::HOST_DOWN_MAX);
    assert_eq!(world.take_told(5), []);
    world.nodes[0].objects.answers_left = None;
    world.run();
    assert!(world.outcome(5).is_some());
}

#[test]
fn a_read_whose_barrier_a_host_that_is_down_never_reaches_is_refused() {
    let mut world = with_calls_not_handed_out();
    world.read(0, 6, 1, ReadLevel::Confirmed);
    assert_eq!(world.take_told(6), [], "its barrier is not handed out");
    world.input(0, Input::Host { is_up: false });
    let ask = Ask::Request(1);
    assert_eq!(world.take_told(6), [refused(ask, Refusal::NotServing)]);
    assert_eq!(world.nodes[0].replica.status().reads, 0);
}

#[test]
fn reads_that_a_host_keeps_though_they_were_refused_take_their_place_until_it_answers() {
    let mut world = World::new(1);
    world.nodes[0].objects.answers_left = Some(0);
    let payload = Value::from(vec![b'?'; 4 << 20]);
    let read = |request| FromClient::Read {
        request,
        object: ObjectId(0),
        payload: payload.clone(),
        level: ReadLevel::Confirmed,
        after: Slot::ZERO,
    };
    let most = limits::READS_BYTES / payload.len();
    for request in 1..=most as u64 {
        world.say(0, 6, read(request));
    }
    world.input(0, Input::Host { is_up: false });
    world.pass(limits::HOST_DOWN_MAX);
    assert_eq!(world.take_told(6).len(), most, "all are refused");
    world.input(0, Input::Host { is_up: true });
    world.say(0, 7, read(1));
    let overloaded = refused(Ask::Request(1), Refusal::Overloaded);
    assert_eq!(world.take_told(7), [overloaded]);
    world.nodes[0].objects.answers_left = None;
    world.run();
    world.say(0, 7, read(2));
    assert!(world.outcome(7).is_some());
}

/// Claim mp-65.
#[test]
fn announced_reads_of_one_turn_are_asked_for_one_by_one_and_under_their_names() {
    let mut world = World::new(2);
    let client = SecretHash::default();
    let name = |number| BroadcastId { client, number };
    for number in [7, 8] {
        let (object, payload) = (ObjectId(0), Value::new());
        let read = FromClient::Broadcast {
            read: name(number),
            object,
            payload,
        };
        world.say(0, 5, read);
    }
    world.say(1, 5, FromClient::Announce { read: name(7) });
    world.run();
    let announced = world.shared.borrow().announced.clone();
    assert_eq!(announced, [(0, name(7)), (0, name(8)), (1, name(7))]);
    let told = world.take_told(5);
    let answered = told.iter().filter_map(|message| match message {
        ToClient::Read { request, .. } => Some(*request),
        _ => None,
    });
    assert_eq!(answered.collect::<Vec<_>>(), [7, 8]);
}
