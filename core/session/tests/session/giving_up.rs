//! Callers that do not wait any more: what waits for them in the group is cancelled there.

use crate::{SESSION, World, sequences};
use quorate_session::{Operation, SessionOutput, Ticket};
use quorate_types::{CommandId, Duration, FromClient, Refusal, ToClient, cancelled};

impl World {
    /// The sequences that were sent calls cancel, and those calls' own.
    fn cancels(&mut self) -> Vec<(u64, Vec<u64>)> {
        let sent = self.sent();
        let cancels = sent.iter().filter_map(|message| match message {
            FromClient::Call { id, payload, .. } => {
                let named = cancelled(payload)?;
                assert_eq!(id.session, SESSION);
                Some((id.sequence, named.map(|of| of.sequence).collect()))
            }
            _ => None,
        });
        cancels.collect()
    }

    fn is_told(&mut self) -> bool {
        let told = |output: &SessionOutput| matches!(output, SessionOutput::Done { .. });
        self.out.iter().any(told)
    }

    fn tell_parked(&mut self, sequence: u64) {
        let id = CommandId {
            session: SESSION,
            sequence,
        };
        self.receive(ToClient::Parked { id });
    }
}

/// Claim rp-69.
#[test]
fn a_call_that_waits_in_the_group_is_cancelled_there_when_its_caller_gives_up() {
    let mut world = World::open_with(&["get"]);
    world.tell_parked(1);
    world.sent();
    assert!(!world.session.withdraw(Ticket::Call(1)), "it was executed");
    // Silence is no news of a node while all that is open waits in the group.
    world.now = world.now + Duration::from_millis(2_000);
    world.session.give_up(Ticket::Call(1));
    world.wake();
    assert_eq!(world.dialled(), [""; 0]);
    assert_eq!(world.cancels(), [(2, vec![1])]);
    world.reply(1);
    world.reply(2);
    assert!(!world.is_told(), "nobody waits");
    world.wake();
    assert_eq!(world.cancels(), []);
}

#[test]
fn a_call_that_was_given_up_in_flight_is_cancelled_once_it_is_known_to_wait() {
    let mut world = World::open_with(&["get"]);
    world.sent();
    world.session.give_up(Ticket::Call(1));
    world.wake();
    assert_eq!(world.cancels(), [], "it may return");
    world.tell_parked(1);
    assert_eq!(world.cancels(), [(2, vec![1])]);
}

#[test]
fn a_call_whose_deadline_passed_is_cancelled_once_it_is_known_to_wait() {
    let mut world = World::open_with(&["get"]);
    for _ in 0..101 {
        world.now = world.now + Duration::from_millis(100);
        world.receive(ToClient::Leader { leader: None });
        world.wake();
    }
    assert!(world.is_told(), "its outcome is unknown");
    world.sent();
    world.tell_parked(1);
    assert_eq!(world.cancels(), [(2, vec![1])]);
    world.tell_parked(1);
    assert_eq!(world.cancels(), [], "it is forgotten then");
}

#[test]
fn many_are_cancelled_together_and_one_call_after_the_other() {
    let calls = ["get"; 5];
    let mut world = World::open_with(&calls);
    for sequence in 1..=5 {
        world.tell_parked(sequence);
    }
    world.sent();
    world.session.give_up(Ticket::Call(2));
    world.wake();
    assert_eq!(world.cancels(), [(6, vec![2])]);
    for number in [1, 3, 5] {
        world.session.give_up(Ticket::Call(number));
    }
    world.wake();
    assert_eq!(world.cancels(), [], "one is under way");
    world.reply(6);
    assert_eq!(world.cancels(), [(7, vec![1, 3, 5])]);
}

#[test]
fn a_new_connection_is_told_again_what_is_cancelled() {
    let mut world = World::open_with(&["get"]);
    world.tell_parked(1);
    world.session.give_up(Ticket::Call(1));
    world.wake();
    world.sent();
    world.disconnect();
    world.connect(2);
    assert_eq!(sequences(&world.sent()), [2, 1]);
}

#[test]
fn what_was_parked_in_a_session_that_is_over_is_not_cancelled_in_the_next_one() {
    let mut world = World::open_with(&["get"]);
    world.tell_parked(1);
    world.session.give_up(Ticket::Call(1));
    let ask = quorate_types::Ask::Session(SESSION);
    world.receive(ToClient::Refused {
        ask,
        refusal: Refusal::SessionExpired,
    });
    world.wake();
    assert_eq!(world.cancels(), []);
    assert!(!world.is_told());
}

#[test]
fn a_call_that_was_not_sent_is_taken_back() {
    let mut world = World::new();
    let operation = Operation::Call {
        object: quorate_types::ObjectId(0),
        payload: quorate_types::Value::new(),
    };
    let deadline = world.now + Duration::from_millis(10_000);
    let begun = world
        .session
        .begin(world.now, operation, deadline, &mut world.out);
    world.session.give_up(begun.expect("there is room"));
    assert_eq!(world.session.in_flight(), 0);
}
