//! Calls that wait in the group: they were executed, whatever a node says of them afterwards.

use crate::{SESSION, World, sequences};
use quorate_session::{Cause, Failure, Ticket};
use quorate_types::{Ask, CommandId, Duration, Refusal, ToClient};

impl World {
    fn park(&mut self, sequence: u64) {
        let id = CommandId {
            session: SESSION,
            sequence,
        };
        self.receive(ToClient::Parked { id });
    }
}

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
