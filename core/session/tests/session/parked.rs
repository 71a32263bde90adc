//! Calls that wait in the group: they were executed, whatever a node says of them afterwards.

use crate::{SESSION, World, sequences};
use quorate_session::{Cause, Failure, Operation, PARKED_MAX, Ticket};
use quorate_types::{
    Ask, CommandId, Duration, ObjectId, ReadLevel, Refusal, Time, ToClient, Value,
};

impl World {
    fn park(&mut self, sequence: u64) {
        let id = CommandId {
            session: SESSION,
            sequence,
        };
        self.receive(ToClient::Parked { id });
    }

    /// So many calls wait in the group.
    fn park_all(&mut self, count: usize) {
        for sequence in 1..=count as u64 {
            self.call("park");
            self.park(sequence);
        }
        self.out.clear();
    }
}

/// The calls that a group lets wait at once, of all its sessions.
const PARKED_OF_GROUP: usize = 10_000;

#[test]
fn a_parked_call_that_is_sent_once_counts_as_executed_when_its_node_stops_answering() {
    let mut world = World::open();
    let once = world.call_once();
    world.park(1);
    world.refuse(1, Refusal::NotServing);
    let failure = Failure {
        cause: Cause::Refused(Refusal::NotServing),
        may_have_executed: true,
    };
    assert_eq!(world.ended(), [(once, Err(failure))]);
}

#[test]
fn a_parked_call_cannot_be_taken_back_after_its_node_sent_it_away() {
    let mut world = World::open_with(&["park"]);
    world.park(1);
    world.refuse(1, Refusal::NotServing);
    assert!(!world.session.withdraw(Ticket::Call(1)), "it was executed");
}

#[test]
fn a_parked_call_that_was_sent_away_is_not_sent_in_a_new_session() {
    let mut world = World::open_with(&["park"]);
    world.park(1);
    world.sent();
    // One read of the connection brings both.
    world.refuse(1, Refusal::NotServing);
    let (ask, refusal) = (Ask::Session(SESSION), Refusal::SessionExpired);
    world.receive(ToClient::Refused { ask, refusal });
    let failure = Failure::refused(Refusal::SessionExpired);
    assert_eq!(world.ended(), [(Ticket::Call(1), Err(failure))]);
}

#[test]
fn a_parked_call_that_was_sent_away_is_sent_again_under_its_id() {
    let mut world = World::open_with(&["park"]);
    world.park(1);
    world.sent();
    world.refuse(1, Refusal::NotServing);
    assert_eq!(world.dialled(), ["b:1"]);
    world.connect(2);
    assert_eq!(sequences(&world.sent()), [1]);
}

/// Their pauses end one after the other.
#[test]
fn parked_calls_that_were_refused_are_sent_again_each_in_its_time() {
    let mut world = World::open_with(&["park", "park"]);
    world.park(1);
    world.park(2);
    world.sent();
    let pause = Duration::from_millis(11);
    world.refuse(1, Refusal::Overloaded);
    world.now = world.now + Duration::from_millis(5);
    world.refuse(2, Refusal::Overloaded);
    assert_eq!(sequences(&world.sent()), []);
    world.now = Time(0) + pause;
    world.wake();
    assert_eq!(sequences(&world.sent()), [1]);
    world.now = world.now + pause;
    world.wake();
    assert_eq!(sequences(&world.sent()), [2]);
}

#[test]
fn no_deadline_ends_a_parked_call() {
    let mut world = World::open_with(&["park"]);
    world.park(1);
    world.now = world.now + Duration::from_millis(10_001);
    world.wake();
    assert_eq!(world.ended(), []);
    world.reply(1);
    assert!(matches!(world.ended()[..], [(Ticket::Call(1), Ok(_))]));
}

#[test]
fn as_many_calls_as_a_group_lets_wait_hold_up_no_other_call_of_their_session() {
    let mut world = World::open();
    world.park_all(PARKED_OF_GROUP);
    let release = world.call("release");
    let sequence = PARKED_OF_GROUP as u64 + 1;
    assert_eq!(sequences(&world.sent()), [sequence]);
    world.reply(sequence);
    assert!(matches!(world.ended()[..], [(ended, Ok(_))] if ended == release));
}

#[test]
fn a_call_beyond_the_bound_of_those_that_wait_is_refused_at_once_and_begins_once_one_was_answered()
{
    let mut world = World::open();
    world.park_all(PARKED_MAX);
    assert!(world.session.has_room(), "reads and others can begin");
    let refused = world.call("one too many");
    let failure = Failure {
        cause: Cause::TooManyParked,
        may_have_executed: false,
    };
    assert_eq!(world.ended(), [(refused, Err(failure))]);
    assert_eq!(sequences(&world.sent()), [], "it was not sent");
    world.reply(7);
    let ended = world.ended();
    assert!(matches!(ended[..], [(Ticket::Call(7), Ok(_))]));
    world.call("there is room");
    assert_eq!(sequences(&world.sent()), [PARKED_MAX as u64 + 1]);
}

#[test]
fn a_read_begins_beside_as_many_calls_as_may_wait() {
    let mut world = World::open();
    world.park_all(PARKED_MAX);
    let operation = Operation::Read {
        object: ObjectId(0),
        payload: Value::new(),
        level: ReadLevel::Confirmed,
    };
    let deadline = world.now + Duration::from_millis(10_000);
    let read = world
        .session
        .begin(world.now, operation, deadline, &mut world.out);
    assert!(read.is_some());
    assert_eq!(world.ended(), [], "it waits for its answer");
    assert_eq!(world.sent().len(), 1);
}
