//! What a client may count on by its own clock.

use crate::{SESSION, World};
use quorate_session::{Attempts, Failure, Operation, SessionInput, SessionState, Ticket};
use quorate_types::{
    Ask, ClosedBy, CommandId, Duration, FromClient, ObjectId, Refusal, SessionTerms, Time,
    ToClient, Value,
};

impl World {
    fn state_at(&self, ms: u64) -> SessionState {
        let now = Time(0) + Duration::from_millis(ms);
        self.session.session_life(now).state
    }
}

/// Claim rp-71.
#[test]
fn a_session_of_which_nothing_is_acknowledged_is_lost_before_the_group_may_end_it() {
    let world = World::open();
    assert_eq!(world.state_at(14_999), SessionState::Connected);
    assert_eq!(world.state_at(15_000), SessionState::Suspended);
    assert_eq!(world.state_at(26_999), SessionState::Suspended);
    assert_eq!(world.state_at(27_000), SessionState::Lost);
    let life = world.session.session_life(Time(0));
    assert_eq!(life.until, Time(0) + Duration::from_millis(27_000));
}

/// Claim rp-71. When the answer comes says nothing: the group may count from when the keepalive arrived.
#[test]
fn a_keepalive_counts_from_when_it_was_sent_and_only_once_it_is_acknowledged() {
    let mut world = World::open();
    world.now = world.now + Duration::from_millis(10_000);
    world.wake();
    assert_eq!(world.keepalives(), 1);
    assert_eq!(world.state_at(27_000), SessionState::Lost);
    world.now = world.now + Duration::from_millis(3_000);
    world.receive(ToClient::KeptAlive { session: SESSION });
    assert_eq!(world.state_at(36_999), SessionState::Suspended);
    assert_eq!(world.state_at(37_000), SessionState::Lost);
}

/// Claim rp-71. The group may have executed the first copy, and then it has never heard of the second.
#[test]
fn an_answered_call_counts_from_when_its_first_copy_was_sent() {
    let mut world = World::open_with(&["a"]);
    world.now = world.now + Duration::from_millis(4_000);
    world.disconnect();
    world.connect(2);
    world.now = world.now + Duration::from_millis(4_000);
    world.reply(1);
    assert_eq!(world.state_at(27_000), SessionState::Lost);
}

/// Claim rp-71. The answer may be to a keepalive of the connection before.
#[test]
fn what_was_sent_on_a_connection_that_ended_is_not_acknowledged_by_the_next() {
    let mut world = World::open();
    world.now = world.now + Duration::from_millis(10_000);
    world.wake();
    world.disconnect();
    world.connect(2);
    world.receive(ToClient::KeptAlive { session: SESSION });
    world.receive(ToClient::KeptAlive { session: SESSION });
    assert_eq!(world.keepalives(), 2);
    assert_eq!(world.state_at(36_999), SessionState::Suspended);
    assert_eq!(world.state_at(37_000), SessionState::Lost);
}

#[test]
fn a_client_is_suspended_while_no_node_answers_and_connected_when_one_does() {
    let mut world = World::open();
    for _ in 0..3 {
        world.disconnect();
        world.now = world.now + Duration::from_millis(100);
        world.wake();
    }
    assert_eq!(world.state_at(300), SessionState::Suspended);
    world.connect(1);
    world.call("a");
    world.reply(1);
    assert_eq!(world.state_at(300), SessionState::Connected);
}

#[test]
fn a_session_that_the_group_has_ended_is_lost_and_counted_until_the_next_is_open() {
    let mut world = World::open();
    let ask = Ask::Session(SESSION);
    world.receive(ToClient::Refused {
        ask,
        refusal: Refusal::SessionExpired,
    });
    let life = world.session.session_life(world.now);
    assert_eq!((life.state, life.ended), (SessionState::Lost, 1));
}

fn call_in_session(world: &mut World, ended: u64) -> Ticket {
    let operation = Operation::Call {
        object: ObjectId(0),
        payload: Value::from_static(b"bound"),
    };
    let deadline = world.now + Duration::from_millis(10_000);
    let attempts = Attempts::InSession(ended);
    (world.session)
        .attempt(world.now, operation, deadline, attempts, &mut world.out)
        .expect("there is room")
}

/// What it releases may be held by the next session, for another reason.
#[test]
fn a_call_for_one_session_is_never_sent_in_the_next() {
    let mut world = World::open();
    let bound = call_in_session(&mut world, 0);
    world.call("other");
    for sequence in [1, 2] {
        let ask = Ask::Call(CommandId {
            session: SESSION,
            sequence,
        });
        let refusal = Refusal::NotOrdered;
        world.receive(ToClient::Refused { ask, refusal });
    }
    world.receive(ToClient::Refused {
        ask: Ask::Session(SESSION),
        refusal: Refusal::SessionExpired,
    });
    let expired = Err(Failure::refused(Refusal::SessionExpired));
    assert_eq!(world.ended(), [(bound, expired.clone())]);
    let late = call_in_session(&mut world, 0);
    assert_eq!(world.ended(), [(late, expired)]);
    call_in_session(&mut world, 1);
    assert_eq!(world.ended(), []);
}

/// Sessions of it end within six seconds once a connection is closed.
fn short_lived() -> World {
    let mut world = World::open_asking(SessionTerms {
        on_disconnect: Some(Duration::from_millis(6_000)),
        ..SessionTerms::default()
    });
    world.receive(ToClient::KeptAlive { session: SESSION });
    world
}

fn attachments(sent: &[FromClient]) -> Vec<u64> {
    let numbers = sent.iter().filter_map(|message| match message {
        FromClient::Attach { attachment, .. } => Some(attachment.0),
        _ => None,
    });
    numbers.collect()
}

/// Claim rp-89.
#[test]
fn a_client_numbers_its_connections_and_gives_a_sign_of_life_on_each_at_once() {
    let mut world = short_lived();
    for number in 2..5 {
        world.out.clear();
        world.disconnect();
        world.connect(2);
        let sent = world.sent();
        assert_eq!(attachments(&sent), [number]);
        assert!(sent.contains(&FromClient::KeepAlive { session: SESSION }));
    }
}

/// Claim rp-89. A node may have reported what this client closed.
#[test]
fn a_client_that_closed_its_connection_counts_on_the_shorter_time_until_it_is_heard() {
    let mut world = short_lived();
    world.now = world.now + Duration::from_millis(2_000);
    let by = ClosedBy::Client;
    let left = SessionInput::Disconnected { by };
    world.session.handle(world.now, left, &mut world.out);
    assert_eq!(world.state_at(4_999), SessionState::Connected);
    assert_eq!(world.state_at(5_000), SessionState::Suspended);
    assert_eq!(world.state_at(7_399), SessionState::Suspended);
    assert_eq!(world.state_at(7_400), SessionState::Lost);
    world.connect(2);
    assert_eq!(world.state_at(7_400), SessionState::Lost, "not heard yet");
    world.receive(ToClient::KeptAlive { session: SESSION });
    assert_eq!(world.state_at(28_999), SessionState::Suspended);
    assert_eq!(world.state_at(29_000), SessionState::Lost);
}

/// Claim rp-89. The first may have been reported, and the others never heard of.
#[test]
fn a_client_that_closes_one_connection_after_another_counts_from_the_first() {
    let mut world = short_lived();
    for (ms, node) in [(2_000, 2), (3_000, 3)] {
        world.now = Time(0) + Duration::from_millis(ms);
        let by = ClosedBy::Client;
        let left = SessionInput::Disconnected { by };
        world.session.handle(world.now, left, &mut world.out);
        world.connect(node);
    }
    assert_eq!(world.state_at(7_399), SessionState::Suspended);
    assert_eq!(world.state_at(7_400), SessionState::Lost);
}

/// Claim rp-89. Whoever acts on it may be at it when the connection is closed.
#[test]
fn what_a_client_was_told_as_certain_is_not_taken_back_when_it_closes_its_connection() {
    let mut world = short_lived();
    world.now = world.now + Duration::from_millis(2_000);
    let certain = world.session.session_life(world.now).until;
    assert_eq!(certain, Time(0) + Duration::from_millis(7_400));
    let by = ClosedBy::Client;
    let left = SessionInput::Disconnected { by };
    world.session.handle(world.now, left, &mut world.out);
    let later = world.now + Duration::from_millis(1_000);
    assert_eq!(world.session.session_life(later).until, certain);
    assert_eq!(world.state_at(7_399), SessionState::Suspended);
}

/// Claim rp-89. Else each end of a node would cost clients what they hold.
#[test]
fn a_client_counts_on_its_session_beyond_the_end_of_its_node() {
    let mut world = short_lived();
    world.now = world.now + Duration::from_millis(2_000);
    world.disconnect();
    assert_eq!(world.state_at(26_999), SessionState::Suspended);
    assert_eq!(world.state_at(27_000), SessionState::Lost);
}

/// Claim rp-89.
#[test]
fn a_client_that_is_not_heard_on_its_new_connection_tries_again_within_the_shorter_time() {
    let mut world = short_lived();
    world.disconnect();
    world.connect(2);
    world.out.clear();
    world.now = world.now + Duration::from_millis(1_000);
    world.wake();
    assert_eq!(
        world.dialled(),
        ["c:1"],
        "a node that does not answer is left"
    );
}
