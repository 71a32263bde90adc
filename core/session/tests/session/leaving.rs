//! How often a client that nobody serves goes from node to node.

use crate::{SESSION, World};
use quorate_session::{Operation, SessionOutput};
use quorate_types::{
    Ask, Duration, FromClient, NodeId, ObjectId, Outcome, ReadLevel, Refusal, Slot, ToClient, Value,
};

/// Lets a second pass in which each node welcomes the client, answers its reads and refuses its calls. Counts the dials.
fn dials_in_a_second(world: &mut World, refusal: Refusal) -> usize {
    let end = world.now + Duration::from_millis(1_000);
    let mut dials = 0;
    while world.now < end {
        for output in std::mem::take(&mut world.out) {
            match output {
                SessionOutput::Dial { address } => {
                    dials += 1;
                    world.connect(node_at(&address));
                    let leader = Some(NodeId(1));
                    world.receive(ToClient::Leader { leader });
                }
                SessionOutput::Send(FromClient::Call { id, .. }) => {
                    let ask = Ask::Call(id);
                    world.receive(ToClient::Refused { ask, refusal });
                }
                SessionOutput::Send(FromClient::Read { request, .. }) => {
                    world.receive(read(request))
                }
                SessionOutput::Send(_)
                | SessionOutput::Announce(_)
                | SessionOutput::Tentative { .. }
                | SessionOutput::Done { .. } => {}
            }
        }
        world.now = world.now + Duration::from_millis(1);
        world.wake();
    }
    dials
}

fn node_at(address: &str) -> u16 {
    match address {
        "a:1" => 1,
        "b:1" => 2,
        _ => 3,
    }
}

fn read(request: u64) -> ToClient {
    ToClient::Read {
        request,
        slot: Slot(1),
        age: Duration::ZERO,
        outcome: Outcome::Returned(Value::new()),
    }
}

#[test]
fn a_client_that_every_node_refuses_to_serve_pauses_between_dials() {
    let mut world = World::open_with(&["a"]);
    let dials = dials_in_a_second(&mut world, Refusal::NotServing);
    assert!((12..30).contains(&dials), "{dials} dials in a second");
}

#[test]
fn a_client_that_was_answered_goes_on_to_the_next_node_at_once_again() {
    let mut world = World::open_with(&["a"]);
    dials_in_a_second(&mut world, Refusal::NotServing);
    world.now = world.now + Duration::from_millis(100);
    world.wake();
    world.dialled();
    world.connect(2);
    world.receive(ToClient::KeptAlive { session: SESSION });
    world.refuse(1, Refusal::NotServing);
    assert_eq!(world.dialled().len(), 1, "without a pause");
}

/// A node refuses all calls that it was sent at once; a client with one for each node would come back to the same node for ever.
#[test]
fn refusals_of_several_calls_at_one_node_lead_to_the_next_node_and_shun_no_other() {
    for calls in 1..=6 {
        let mut world = World::open_with(&["a"; 6][..calls]);
        for next in [("b:1", 2), ("c:1", 3)] {
            (1..=calls as u64).for_each(|sequence| world.refuse(sequence, Refusal::NotServing));
            world.now = world.now + Duration::from_millis(100);
            world.wake();
            assert_eq!(world.dialled(), [next.0], "{calls} calls were refused");
            world.connect(next.1);
        }
    }
    let mut world = World::open_with(&["a", "b"]);
    world.refuse(1, Refusal::NotServing);
    world.refuse(2, Refusal::NotServing);
    world.now = world.now + Duration::from_millis(100);
    world.wake();
    world.dialled();
    world.connect(3);
    let leader = Some(NodeId(2));
    world.receive(ToClient::Leader { leader });
    assert_eq!(world.dialled(), ["b:1"], "it refused nothing");
}

/// A connection that was left ends late: its client waits to dial another node by then.
#[test]
fn the_end_of_a_connection_that_was_left_leads_no_further() {
    let mut world = World::open_with(&["a"]);
    dials_in_a_second(&mut world, Refusal::NotServing);
    world.now = world.now + Duration::from_millis(1_000);
    world.wake();
    let here = world.dialled();
    let next = match here.last().map(String::as_str) {
        Some("a:1") => ("a:1", "b:1"),
        Some("b:1") => ("b:1", "c:1"),
        _ => ("c:1", "a:1"),
    };
    world.connect(node_at(next.0));
    world.refuse(1, Refusal::NotServing);
    world.disconnect();
    world.now = world.now + Duration::from_millis(1_000);
    world.wake();
    assert_eq!(world.dialled(), [next.1]);
}

/// The call may be on its way, so it cannot fail. Reads are answered meanwhile.
#[test]
fn a_call_in_doubt_that_no_disk_has_room_for_does_not_drive_its_client_around() {
    let mut world = World::open_with(&["a"]);
    world.sent();
    world.disconnect();
    let mut dials = 0;
    let deadline = world.now + Duration::from_millis(20_000);
    for _ in 0..5 {
        let operation = Operation::Read {
            object: ObjectId(0),
            payload: Value::from_static(b"get"),
            level: ReadLevel::Loose,
        };
        let begun = (world.session).begin(world.now, operation, deadline, &mut world.out);
        begun.expect("there is room");
        dials += dials_in_a_second(&mut world, Refusal::StorageFull);
    }
    assert!(dials < 200, "{dials} dials in five seconds");
    assert_eq!(world.session.in_flight(), 1, "the reads were answered");
}

/// The leader does not know how old its state is, a follower names it again and again, and the third node would answer.
#[test]
fn a_client_whose_reads_of_any_state_the_leader_refuses_tries_every_node() {
    let mut world = World::open();
    let operation = Operation::Read {
        object: ObjectId(0),
        payload: Value::from_static(b"get"),
        level: ReadLevel::Any,
    };
    let deadline = world.now + Duration::from_millis(20_000);
    (world.session)
        .begin(world.now, operation, deadline, &mut world.out)
        .expect("there is room");
    world.sent();
    let mut visited = vec!["a:1".to_owned()];
    for _ in 0..12 {
        let at = node_at(visited.last().expect("it began somewhere"));
        if at == 2 {
            let leader = Some(NodeId(1));
            world.receive(ToClient::Leader { leader });
        }
        let (ask, refusal) = (Ask::Request(1), Refusal::NotServing);
        world.receive(ToClient::Refused { ask, refusal });
        world.now = world.now + Duration::from_millis(100);
        world.wake();
        visited.extend(world.dialled().pop());
        let here = visited.last().expect("it began somewhere").clone();
        world.connect(node_at(&here));
    }
    assert!(
        visited.contains(&"c:1".to_owned()),
        "it went to {visited:?}"
    );
}

/// The leader is dead, and a follower that has not noticed names it: it gets the time to answer itself.
#[test]
fn a_hint_does_not_lead_back_to_a_dead_node_round_after_round() {
    let mut world = World::open_with(&["a"]);
    let leader = Some(NodeId(3));
    let mut dead_dials = 0;
    for _ in 0..10 {
        world.now = world.now + Duration::from_millis(100);
        world.receive(ToClient::Leader { leader });
        let Some(address) = world.dialled().pop() else {
            break;
        };
        assert_eq!(address, "c:1");
        dead_dials += 1;
        world.disconnect();
        world.now = world.now + Duration::from_millis(100);
        world.wake();
        assert_eq!(world.dialled(), ["a:1"]);
        world.connect(1);
    }
    assert!(dead_dials <= 4, "{dead_dials} dials of a dead node");
    world.reply(1);
    world.now = world.now + Duration::from_millis(100);
    world.receive(ToClient::Leader { leader });
    assert_eq!(
        world.dialled(),
        ["c:1"],
        "it leads again, and somebody answered meanwhile"
    );
}
