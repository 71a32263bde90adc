//! Operations that are sent once, and operations that are taken back.

use crate::{SECRET, SESSION, World, sequences};
use quorate_session::{Answer, Attempts, Cause, Failure, Operation, SessionOutput, Ticket};
use quorate_types::{
    Ask, CommandId, Duration, FromClient, NodeId, ObjectId, Outcome, ReadLevel, Refusal, ToClient,
    Value,
};

impl World {
    pub(crate) fn call_once(&mut self) -> Ticket {
        let operation = Operation::Call {
            object: ObjectId(0),
            payload: Value::from_static(b"once"),
        };
        let deadline = self.now + Duration::from_millis(10_000);
        (self.session)
            .attempt(self.now, operation, deadline, Attempts::One, &mut self.out)
            .expect("there is room")
    }

    pub(crate) fn ended(&mut self) -> Vec<(Ticket, Result<Answer, Failure>)> {
        let ended = self.out.iter().filter_map(|output| match output {
            SessionOutput::Done { ticket, result } => Some((*ticket, result.clone())),
            SessionOutput::Dial { .. }
            | SessionOutput::Announce(_)
            | SessionOutput::Tentative { .. }
            | SessionOutput::Send(_) => None,
        });
        let ended = ended.collect();
        self.out
            .retain(|output| !matches!(output, SessionOutput::Done { .. }));
        ended
    }
}

fn lost() -> Failure {
    Failure {
        cause: Cause::ConnectionLost,
        may_have_executed: true,
    }
}

#[test]
fn a_call_that_is_sent_once_ends_with_its_connection_and_others_are_sent_again() {
    let mut world = World::open_with(&["a"]);
    let once = world.call_once();
    assert_eq!(sequences(&world.sent()), [1, 2]);
    world.disconnect();
    assert_eq!(world.ended(), [(once, Err(lost()))]);
    world.connect(2);
    assert_eq!(sequences(&world.sent()), [1]);
}

#[test]
fn a_call_that_is_sent_once_ends_when_its_node_is_left_for_its_silence() {
    let mut world = World::open();
    let once = world.call_once();
    assert_eq!(sequences(&world.sent()), [1]);
    world.now = world.now + Duration::from_millis(300);
    world.wake();
    assert_eq!(world.dialled(), ["b:1"]);
    world.connect(2);
    assert_eq!(sequences(&world.sent()), [], "not sent again");
    assert_eq!(world.ended(), [(once, Err(lost()))]);
}

#[test]
fn a_read_goes_out_once_on_a_connection_that_opens_a_session() {
    let mut world = World::new();
    let operation = Operation::Read {
        object: ObjectId(0),
        payload: Value::from_static(b"get"),
        level: ReadLevel::Confirmed,
    };
    let deadline = world.now + Duration::from_millis(10_000);
    (world.session)
        .attempt(
            world.now,
            operation,
            deadline,
            Attempts::One,
            &mut world.out,
        )
        .expect("there is room");
    world.connect(1);
    world.receive(ToClient::Opened {
        hash: SECRET.hash(),
        session: SESSION,
        expiry: Duration::from_millis(30_000),
    });
    let is_read = |message: &FromClient| matches!(message, FromClient::Read { .. });
    let reads = world.sent().into_iter().filter(is_read).count();
    assert_eq!(reads, 1);
}

#[test]
fn a_call_that_is_sent_once_waits_for_a_connection() {
    let mut world = World::open();
    world.disconnect();
    world.call_once();
    assert_eq!(world.ended(), []);
    world.connect(2);
    assert_eq!(sequences(&world.sent()), [1]);
    world.reply(1);
    let answer = Answer::Called(Outcome::Returned(Value::new()));
    assert_eq!(world.ended(), [(Ticket::Call(1), Ok(answer))]);
}

#[test]
fn the_refusal_of_a_call_that_is_sent_once_is_its_end() {
    for refusal in [Refusal::Overloaded, Refusal::NoLeader, Refusal::NotServing] {
        let mut world = World::open();
        let once = world.call_once();
        world.refuse(1, refusal);
        assert_eq!(world.ended(), [(once, Err(Failure::refused(refusal)))]);
    }
}

#[test]
fn a_client_moves_to_the_leader_after_what_is_sent_once_was_answered() {
    let mut world = World::open();
    world.call_once();
    let leader = Some(NodeId(2));
    world.receive(ToClient::Leader { leader });
    assert_eq!(world.dialled(), [] as [String; 0]);
    world.reply(1);
    world.receive(ToClient::Leader { leader });
    assert_eq!(world.dialled(), ["b:1"]);
}

#[test]
fn a_call_that_was_not_sent_can_be_taken_back_and_is_never_sent() {
    let mut world = World::open();
    world.disconnect();
    let first = world.call("a");
    world.call("b");
    assert!(world.session.withdraw(first));
    assert!(!world.session.withdraw(first));
    world.connect(2);
    assert_eq!(sequences(&world.sent()), [2]);
    assert_eq!(world.session.in_flight(), 1);
}

#[test]
fn a_call_that_was_sent_cannot_be_taken_back_until_it_was_refused() {
    let mut world = World::open();
    let call = world.call("a");
    assert!(!world.session.withdraw(call));
    let id = CommandId {
        session: SESSION,
        sequence: 1,
    };
    let (ask, refusal) = (Ask::Call(id), Refusal::Overloaded);
    world.receive(ToClient::Refused { ask, refusal });
    assert!(world.session.withdraw(call));
    assert_eq!(world.session.in_flight(), 0);
}
