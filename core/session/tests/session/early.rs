//! Calls that are wanted early: a tentative reply is told once and ends nothing.

use crate::{MS, SESSION, World};
use quorate_session::{Answer, Cause, Operation, SessionOutput, Ticket};
use quorate_types::{
    CommandId, Duration, FromClient, ObjectId, Outcome, Refusal, Time, ToClient, Value,
};

const ID: CommandId = CommandId {
    session: SESSION,
    sequence: 1,
};

/// A client of a node that reads what is wanted early, and a call that is.
fn wanted() -> (World, Ticket) {
    let mut world = World::open();
    world.session.set_early(true);
    let ticket = world.call_early();
    (world, ticket)
}

impl World {
    fn call_early(&mut self) -> Ticket {
        let operation = Operation::EarlyCall {
            object: ObjectId(0),
            payload: Value::from_static(b"early"),
        };
        let deadline = self.now + Duration::from_millis(10_000);
        self.session
            .begin(self.now, operation, deadline, &mut self.out)
            .expect("there is room")
    }

    fn tell(&mut self, text: &'static str) {
        let (id, value) = (ID, Value::from_static(text.as_bytes()));
        self.receive(ToClient::Tentative { id, value });
    }

    fn told(&mut self) -> Vec<(Ticket, Value)> {
        let told = self.out.iter().filter_map(|output| match output {
            SessionOutput::Tentative { ticket, value } => Some((*ticket, value.clone())),
            _ => None,
        });
        let told = told.collect();
        self.out
            .retain(|output| !matches!(output, SessionOutput::Tentative { .. }));
        told
    }
}

fn returned(text: &'static str) -> Outcome {
    Outcome::Returned(Value::from_static(text.as_bytes()))
}

fn early(messages: &[FromClient]) -> usize {
    let is_early = |message: &&FromClient| **message == FromClient::Early { id: ID };
    messages.iter().filter(is_early).count()
}

#[test]
fn a_node_that_reads_it_is_told_behind_each_copy_that_a_call_is_wanted_early() {
    let (mut world, _) = wanted();
    let sent = world.sent();
    assert!(matches!(
        sent[..],
        [
            FromClient::Call { id: ID, .. },
            FromClient::Early { id: ID }
        ]
    ));
    world.disconnect();
    world.session.set_early(false);
    world.connect(2);
    assert_eq!(early(&world.sent()), 0, "an older node does not read it");
    world.disconnect();
    world.session.set_early(true);
    world.connect(3);
    assert_eq!(early(&world.sent()), 1);
    world.call("a");
    let sent = world.sent();
    assert!(matches!(sent[..], [FromClient::Call { .. }]), "{sent:?}");
}

/// Claim rp-132.
#[test]
fn a_tentative_reply_ends_nothing_and_its_confirmation_does() {
    let (mut world, ticket) = wanted();
    world.tell("1");
    assert_eq!(world.told(), [(ticket, Value::from_static(b"1"))]);
    assert_eq!(world.ended(), []);
    world.receive(ToClient::Confirmed { id: ID });
    assert_eq!(world.ended(), [(ticket, Ok(Answer::Called(returned("1"))))]);
}

#[test]
fn the_answer_takes_the_place_of_a_tentative_reply() {
    let (mut world, ticket) = wanted();
    world.tell("1");
    let (id, outcome) = (ID, returned("2"));
    world.receive(ToClient::Replied { id, outcome });
    assert_eq!(world.told().len(), 1);
    assert_eq!(world.ended(), [(ticket, Ok(Answer::Called(returned("2"))))]);
}

/// Claim rp-133.
#[test]
fn what_one_node_told_is_not_confirmed_by_another_one() {
    let (mut world, ticket) = wanted();
    world.tell("1");
    assert_eq!(world.told().len(), 1);
    world.disconnect();
    world.connect(2);
    world.receive(ToClient::Confirmed { id: ID });
    assert_eq!(world.ended(), [], "that node has told nothing");
    world.tell("2");
    assert_eq!(world.told(), [], "it is told once");
    world.receive(ToClient::Confirmed { id: ID });
    assert_eq!(world.ended(), [(ticket, Ok(Answer::Called(returned("2"))))]);
}

#[test]
fn the_outcome_of_a_call_that_was_told_early_may_stay_unknown() {
    let (mut world, ticket) = wanted();
    world.tell("1");
    world.now = Time(10_001 * MS);
    world.wake();
    let ended = world.ended();
    let [(ended, Err(failure))] = &ended[..] else {
        panic!("it ends without an answer, not {ended:?}");
    };
    assert_eq!(*ended, ticket);
    assert_eq!(failure.cause, Cause::DeadlinePassed);
    assert!(failure.may_have_executed);
}

#[test]
fn a_call_that_was_told_early_and_not_ordered_is_sent_and_told_again() {
    let (mut world, ticket) = wanted();
    world.tell("1");
    world.refuse(1, Refusal::NotOrdered);
    world.sent();
    world.now = Time(11 * MS);
    world.wake();
    assert_eq!(early(&world.sent()), 1);
    world.tell("2");
    assert_eq!(world.told().len(), 1, "the caller keeps its first word");
    world.receive(ToClient::Confirmed { id: ID });
    assert_eq!(world.ended(), [(ticket, Ok(Answer::Called(returned("2"))))]);
}

#[test]
fn nothing_is_told_early_of_a_parked_call() {
    let (mut world, _) = wanted();
    world.receive(ToClient::Parked { id: ID });
    world.tell("1");
    assert_eq!(world.told(), []);
    world.receive(ToClient::Confirmed { id: ID });
    assert_eq!(world.ended(), []);
    world.disconnect();
    world.sent();
    world.connect(2);
    assert_eq!(early(&world.sent()), 0);
}

/// Claim rp-133.
#[test]
fn what_was_told_of_a_call_that_parks_is_not_confirmed() {
    let (mut world, ticket) = wanted();
    world.tell("1");
    assert_eq!(world.told().len(), 1);
    world.receive(ToClient::Parked { id: ID });
    world.receive(ToClient::Confirmed { id: ID });
    assert_eq!(world.ended(), []);
    let (id, outcome) = (ID, returned("2"));
    world.receive(ToClient::Replied { id, outcome });
    assert_eq!(world.ended(), [(ticket, Ok(Answer::Called(returned("2"))))]);
}

#[test]
fn nothing_is_told_of_a_call_for_which_nobody_waits() {
    let (mut world, ticket) = wanted();
    world.sent();
    world.session.give_up(ticket);
    world.tell("1");
    assert_eq!(world.told(), []);
    world.receive(ToClient::Confirmed { id: ID });
    assert!(!world.session.has_given_up(), "it has ended");
}

/// A confirmation is the answer to a call, and a tentative reply is no sign that the group keeps the session.
#[test]
fn the_session_lives_longer_by_a_confirmation_alone() {
    let mut world = World::open();
    world.session.set_early(true);
    world.now = Time(10_000 * MS);
    world.call_early();
    let until = |world: &World| world.session.session_life(world.now).until;
    world.tell("1");
    assert_eq!(until(&world), Time(27_000 * MS));
    world.receive(ToClient::Confirmed { id: ID });
    assert_eq!(until(&world), Time(37_000 * MS));
}
