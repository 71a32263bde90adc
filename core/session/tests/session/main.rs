//! What a client does when replicas answer, refuse, fall silent or die.

mod belonging;
mod early;
mod giving_up;
mod keeping;
mod leaving;
mod life;
mod once;
mod parked;
mod reading;
mod resuming;

use quorate_session::{
    Answer, Cause, ClientSession, Failure, Operation, SessionConfig, SessionInput, SessionOutput,
    Ticket,
};
use quorate_types::{
    Ask, ClosedBy, CommandId, Duration, FromClient, NodeId, ObjectId, Outcome, PAYLOAD_BYTES_MAX,
    ReadLevel, Refusal, Secret, SessionId, SessionTerms, Slot, Time, ToClient, Value,
};

/// The node has ended the connection.
const BROKEN: SessionInput = SessionInput::Disconnected { by: ClosedBy::Node };

const MS: u64 = 1_000_000;
const SESSION: SessionId = SessionId(1 << 16);
const SECRET: Secret = Secret::new([3; Secret::BYTES]);

fn open(secret: Secret) -> FromClient {
    let terms = SessionTerms::default();
    FromClient::Open { secret, terms }
}

struct World {
    session: ClientSession,
    now: Time,
    out: Vec<SessionOutput>,
}

impl World {
    fn new() -> World {
        World::asking(SessionTerms::default())
    }

    fn asking(terms: SessionTerms) -> World {
        let addresses = vec!["a:1".to_string(), "b:1".to_string(), "c:1".to_string()];
        let config = SessionConfig {
            terms,
            ..SessionConfig::default()
        };
        let session = ClientSession::new(config, addresses, 3, SECRET, Time(0));
        let mut world = World {
            session,
            now: Time(0),
            out: Vec::new(),
        };
        world.wake();
        world
    }

    fn open() -> World {
        World::open_asking(SessionTerms::default())
    }

    fn open_asking(terms: SessionTerms) -> World {
        let mut world = World::asking(terms);
        world.connect(1);
        assert_eq!(
            world.sent(),
            [FromClient::Open {
                secret: SECRET,
                terms
            }]
        );
        world.receive(ToClient::Opened {
            hash: SECRET.hash(),
            session: SESSION,
            expiry: Duration::from_millis(30_000),
        });
        world.out.clear();
        world
    }

    /// With these calls sent and not answered.
    fn open_with(calls: &[&'static str]) -> World {
        let mut world = World::open();
        for text in calls {
            world.call(text);
        }
        world
    }

    fn wake(&mut self) {
        self.session
            .handle(self.now, SessionInput::Wake, &mut self.out);
    }

    fn disconnect(&mut self) {
        self.session.handle(self.now, BROKEN, &mut self.out);
    }

    fn connect(&mut self, node: u16) {
        let members = [(1, "a:1"), (2, "b:1"), (3, "c:1")];
        let members = members.map(|(n, a)| (NodeId(n), a.to_string())).to_vec();
        let input = SessionInput::Connected {
            node: NodeId(node),
            members,
        };
        self.session.handle(self.now, input, &mut self.out);
    }

    fn receive(&mut self, message: ToClient) {
        self.session
            .handle(self.now, SessionInput::Received(message), &mut self.out);
    }

    fn call(&mut self, text: &'static str) -> Ticket {
        let payload = Value::from_static(text.as_bytes());
        let operation = Operation::Call {
            object: ObjectId(0),
            payload,
        };
        let deadline = self.now + Duration::from_millis(10_000);
        self.session
            .begin(self.now, operation, deadline, &mut self.out)
            .expect("there is room")
    }

    fn reply(&mut self, sequence: u64) {
        let id = CommandId {
            session: SESSION,
            sequence,
        };
        self.receive(ToClient::Replied {
            id,
            outcome: Outcome::Returned(Value::new()),
        });
    }

    fn refuse(&mut self, sequence: u64, refusal: Refusal) {
        let id = CommandId {
            session: SESSION,
            sequence,
        };
        let ask = Ask::Call(id);
        self.receive(ToClient::Refused { ask, refusal });
    }

    fn sent(&mut self) -> Vec<FromClient> {
        let sent = self.out.iter().filter_map(|output| match output {
            SessionOutput::Send(message) => Some(message.clone()),
            SessionOutput::Dial { .. }
            | SessionOutput::Announce(_)
            | SessionOutput::Tentative { .. }
            | SessionOutput::Done { .. } => None,
        });
        let sent = sent.collect();
        self.out
            .retain(|output| !matches!(output, SessionOutput::Send(_)));
        sent
    }

    fn keepalives(&mut self) -> usize {
        let keeps = |message: &FromClient| *message == FromClient::KeepAlive { session: SESSION };
        self.sent().into_iter().filter(keeps).count()
    }

    fn dialled(&mut self) -> Vec<String> {
        let dialled = self.out.iter().filter_map(|output| match output {
            SessionOutput::Dial { address } => Some(address.clone()),
            _ => None,
        });
        let dialled = dialled.collect();
        self.out
            .retain(|output| !matches!(output, SessionOutput::Dial { .. }));
        dialled
    }
}

fn sequences(messages: &[FromClient]) -> Vec<u64> {
    let calls = messages.iter().filter_map(|message| match message {
        FromClient::Call { id, .. } => Some(id.sequence),
        _ => None,
    });
    calls.collect()
}

#[test]
fn calls_wait_for_the_session_and_then_go_in_order() {
    let mut world = World::new();
    world.connect(1);
    world.call("a");
    world.call("b");
    assert_eq!(sequences(&world.sent()), []);
    let mut world = World::open();
    world.call("a");
    world.call("b");
    assert_eq!(sequences(&world.sent()), [1, 2]);
}

#[test]
fn a_new_connection_gets_every_unanswered_call_under_its_old_id() {
    let mut world = World::open_with(&["a", "b", "c"]);
    world.reply(2);
    world.out.clear();
    world.disconnect();
    assert_eq!(world.dialled(), ["b:1"]);
    world.connect(2);
    assert_eq!(sequences(&world.sent()), [1, 3]);
}

#[test]
fn acknowledgement_never_passes_an_unanswered_call() {
    let mut world = World::open_with(&["a", "b", "c"]);
    world.reply(1);
    world.reply(3);
    world.out.clear();
    world.call("d");
    let acknowledged = world.sent().into_iter().find_map(|message| match message {
        FromClient::Call { acknowledged, .. } => Some(acknowledged),
        _ => None,
    });
    assert_eq!(acknowledged, Some(1));
}

#[test]
fn a_silent_node_is_left_for_the_next_one() {
    let mut world = World::open();
    world.call("a");
    world.out.clear();
    world.now = Time(251 * MS);
    world.wake();
    assert_eq!(world.dialled(), ["b:1"]);
}

#[test]
fn an_expired_session_leaves_sent_calls_unknown_and_goes_on_with_a_new_one() {
    let mut world = World::open();
    let ticket = world.call("a");
    world.out.clear();
    world.refuse(1, Refusal::SessionExpired);
    let done = world.out.iter().find_map(|output| match output {
        SessionOutput::Done { ticket, result } => Some((*ticket, result.clone())),
        _ => None,
    });
    let (ended, result) = done.expect("the call ends");
    assert_eq!(ended, ticket);
    assert!(
        result
            .expect_err("nothing is known of it")
            .may_have_executed
    );
    let messages = world.sent();
    let [FromClient::Open { secret, .. }] = messages[..] else {
        panic!("a new session is asked for")
    };
    assert_ne!(secret, SECRET, "the old one ended with its session");
    world.call("b");
    let expiry = Duration::from_millis(30_000);
    world.receive(ToClient::Opened {
        hash: secret.hash(),
        session: SessionId(2 << 16),
        expiry,
    });
    assert_eq!(sequences(&world.sent()), [1]);
}

#[test]
fn a_deadline_tells_whether_the_call_had_left() {
    let mut world = World::open();
    let ticket = world.call("a");
    world.now = Time(10_001 * MS);
    world.wake();
    let failed = world.out.iter().any(|output| {
        matches!(output, SessionOutput::Done { ticket: t, result: Err(failure) }
            if *t == ticket && failure.may_have_executed && failure.cause == Cause::DeadlinePassed)
    });
    assert!(failed);
}

#[test]
fn a_refused_call_is_sent_again_after_a_pause_under_the_same_id() {
    let mut world = World::open();
    world.call("a");
    world.out.clear();
    world.refuse(1, Refusal::Overloaded);
    assert_eq!(sequences(&world.sent()), []);
    world.now = Time(11 * MS);
    world.wake();
    assert_eq!(sequences(&world.sent()), [1]);
    world.reply(1);
    let answered = world.out.iter().any(|output| {
        matches!(
            output,
            SessionOutput::Done {
                result: Ok(Answer::Called(_)),
                ..
            }
        )
    });
    assert!(answered);
}

#[test]
fn a_leader_hint_moves_the_client() {
    let mut world = World::open();
    world.now = Time(100 * MS);
    world.receive(ToClient::Leader {
        leader: Some(NodeId(3)),
    });
    assert_eq!(world.dialled(), ["c:1"]);
}

#[test]
fn a_hint_that_comes_with_the_first_answer_is_followed_and_the_next_one_not_at_once() {
    let mut world = World::open();
    let to = |node| ToClient::Leader {
        leader: Some(NodeId(node)),
    };
    world.receive(to(3));
    assert_eq!(world.dialled(), ["c:1"]);
    world.receive(to(2));
    assert!(
        world.dialled().iter().all(|address| address != "b:1"),
        "two nodes that disagree do not chase it"
    );
}

/// The leader does not serve and the others name it as the leader: they get the time to answer themselves.
#[test]
fn a_hint_leads_back_to_none_of_the_nodes_that_refused() {
    let mut world = World::open();
    world.call("a");
    let id = CommandId {
        session: SESSION,
        sequence: 1,
    };
    let ask = Ask::Call(id);
    for (refusal, next) in [(Refusal::NotServing, "b:1"), (Refusal::StorageFull, "c:1")] {
        world.now = world.now + Duration::from_millis(20);
        world.dialled();
        world.receive(ToClient::Refused { ask, refusal });
        assert_eq!(world.dialled(), [next]);
        world.connect(if next == "b:1" { 2 } else { 3 });
        for named in [1, 2] {
            world.now = world.now + Duration::from_millis(20);
            let leader = Some(NodeId(named));
            if named == 1 || next == "c:1" {
                world.receive(ToClient::Leader { leader });
            }
            assert_eq!(world.dialled(), [""; 0], "{next} names n{named}");
        }
    }
    world.reply(1);
    assert_eq!(world.session.in_flight(), 0);
}

#[test]
fn what_no_node_would_read_is_refused_here_and_leaves_no_gap_in_the_session() {
    let mut world = World::open();
    for length in [PAYLOAD_BYTES_MAX + 1, PAYLOAD_BYTES_MAX] {
        let operation = Operation::Call {
            object: ObjectId(0),
            payload: Value::from(vec![0; length]),
        };
        let deadline = Time(10_000 * MS);
        world
            .session
            .begin(world.now, operation, deadline, &mut world.out)
            .expect("there is room");
    }
    let refused = world.out.iter().any(|output| {
        matches!(output, SessionOutput::Done { result: Err(failure), .. }
            if failure.cause == Cause::Refused(Refusal::TooLarge) && !failure.may_have_executed)
    });
    assert!(refused);
    assert_eq!(sequences(&world.sent()), [1]);
}

#[test]
fn no_more_than_the_bound_is_in_flight() {
    let mut world = World::open();
    for _ in 0..SessionConfig::default().in_flight_max {
        world.call("a");
    }
    let operation = Operation::Checkpoint;
    assert_eq!(
        world
            .session
            .begin(world.now, operation, Time(MS), &mut world.out),
        None
    );
}

fn full(ask: Ask) -> ToClient {
    let refusal = Refusal::StorageFull;
    ToClient::Refused { ask, refusal }
}

fn failure(world: &mut World) -> Option<Failure> {
    let mut outputs = world.out.drain(..);
    outputs.find_map(|output| match output {
        SessionOutput::Done { result, .. } => result.err(),
        _ => None,
    })
}

#[test]
fn a_call_that_no_node_has_room_for_fails_as_not_executed_after_each_was_asked_once() {
    let mut world = World::open();
    world.call("a");
    let id = CommandId {
        session: SESSION,
        sequence: 1,
    };
    for node in [2, 3] {
        world.receive(full(Ask::Call(id)));
        assert_eq!(failure(&mut world), None, "another node may have room");
        world.wake();
        world.connect(node);
    }
    world.receive(full(Ask::Call(id)));
    let failed = failure(&mut world).expect("no node is left");
    assert_eq!(failed.cause, Cause::Refused(Refusal::StorageFull));
    assert!(!failed.may_have_executed);
}

#[test]
fn a_call_that_may_be_on_its_way_elsewhere_does_not_fail_for_want_of_room() {
    let mut world = World::open();
    world.call("a");
    let id = CommandId {
        session: SESSION,
        sequence: 1,
    };
    world.session.handle(world.now, BROKEN, &mut world.out);
    for node in [2, 3, 1, 2] {
        world.wake();
        world.connect(node);
        world.receive(full(Ask::Call(id)));
        assert_eq!(
            failure(&mut world),
            None,
            "the first node may have ordered it"
        );
    }
}

#[test]
fn a_client_without_room_for_a_session_anywhere_stays_connected_for_its_reads() {
    let mut world = World::new();
    let mut is_usable = Vec::new();
    for node in [1, 2, 3, 1] {
        world.connect(node);
        is_usable.push(world.session.is_usable());
        let opens = world
            .sent()
            .into_iter()
            .filter_map(|message| match message {
                FromClient::Open { secret, .. } => Some(secret),
                _ => None,
            });
        let secret = opens.last().expect("a session is asked for");
        world.receive(full(Ask::Open(secret.hash())));
        if node != 1 || is_usable.len() == 1 {
            world.now = world.now + Duration::from_millis(2_000);
            world.wake();
        }
    }
    assert_eq!(is_usable, [false, false, false, true]);
    assert!(!world.session.is_open());
    world.out.clear();
    let operation = Operation::Read {
        object: ObjectId(0),
        payload: Value::new(),
        level: ReadLevel::Confirmed,
    };
    let deadline = world.now + Duration::from_millis(10_000);
    world
        .session
        .begin(world.now, operation, deadline, &mut world.out)
        .expect("there is room");
    assert!(
        matches!(world.sent()[..], [FromClient::Read { .. }]),
        "the connection is there"
    );
}

/// Claim rp-22.
#[test]
fn a_client_that_only_reads_keeps_its_session_alive() {
    let mut world = World::open();
    let mut kept_at = world.now;
    // One confirmed read each 5 s, for ten minutes.
    for request in 1..=120 {
        world.now = world.now + Duration::from_millis(5_000);
        world.wake();
        let operation = Operation::Read {
            object: ObjectId(0),
            payload: Value::new(),
            level: ReadLevel::Confirmed,
        };
        let deadline = world.now + Duration::from_millis(1_000);
        world
            .session
            .begin(world.now, operation, deadline, &mut world.out)
            .expect("there is room");
        if world.keepalives() > 0 {
            kept_at = world.now;
            world.receive(ToClient::KeptAlive { session: SESSION });
        }
        world.receive(ToClient::Read {
            request,
            slot: Slot(1),
            age: Duration::ZERO,
            outcome: Outcome::Returned(Value::new()),
        });
        assert!(world.now.since(kept_at) < Duration::from_millis(30_000));
    }
}

/// Claim rp-22.
#[test]
fn a_keepalive_that_nobody_answers_is_sent_again_to_the_next_node() {
    let mut world = World::open();
    world.now = world.now + Duration::from_millis(10_000);
    world.wake();
    assert_eq!(world.keepalives(), 1);
    world.now = world.now + Duration::from_millis(4_000);
    world.wake();
    assert_eq!(world.dialled(), ["b:1"]);
    world.connect(2);
    assert_eq!(world.keepalives(), 1);
    world.receive(ToClient::KeptAlive { session: SESSION });
    world.now = world.now + Duration::from_millis(9_000);
    world.wake();
    assert_eq!((world.keepalives(), world.dialled()), (0, vec![]));
}

#[test]
fn an_open_that_finds_no_room_is_asked_for_again_after_a_pause() {
    let mut world = World::new();
    world.connect(1);
    let sent = world.sent();
    let [FromClient::Open { secret, .. }] = sent[..] else {
        panic!("{sent:?}");
    };
    world.receive(ToClient::Refused {
        ask: Ask::Open(secret.hash()),
        refusal: Refusal::Overloaded,
    });
    world.wake();
    assert_eq!(world.sent(), [], "not at once");
    world.now = world.now + SessionConfig::default().retry_pause;
    world.wake();
    assert_eq!(world.sent(), [open(secret)]);
    world.wake();
    assert_eq!(world.sent(), [], "once");
}

#[test]
fn an_open_that_finds_no_room_again_and_again_is_asked_for_less_often() {
    let config = SessionConfig::default();
    let mut world = World::new();
    world.connect(1);
    let sent = world.sent();
    let [FromClient::Open { secret, .. }] = sent[..] else {
        panic!("{sent:?}");
    };
    let mut asked = 0;
    for step in 0..100 {
        if step == 0 || !world.sent().is_empty() {
            asked += 1;
            world.receive(ToClient::Refused {
                ask: Ask::Open(secret.hash()),
                refusal: Refusal::Overloaded,
            });
        }
        world.now = world.now + config.retry_pause;
        world.wake();
    }
    assert!((8..15).contains(&asked), "{asked} times in a second");
}

#[test]
fn a_refused_call_whose_session_ended_waits_for_the_next_session() {
    let mut world = World::open();
    world.call("x");
    world.refuse(1, Refusal::Overloaded);
    world.receive(ToClient::Refused {
        ask: Ask::Session(SESSION),
        refusal: Refusal::SessionExpired,
    });
    world.out.clear();
    world.now = world.now + SessionConfig::default().retry_pause;
    world.wake();
    assert_eq!(world.sent(), [], "there is no session to send it in");
    assert!(world.session.next_wake() > world.now);
}
