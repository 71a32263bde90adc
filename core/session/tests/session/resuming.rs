//! A client that goes on with the session of one before, and one whose session another one has.

use super::*;
use quorate_session::SessionState;
use quorate_types::{Attachment, Tenancy};

const TENANT: Secret = Secret::new([9; Secret::BYTES]);

fn second() -> Tenancy {
    Tenancy::FIRST.next().unwrap()
}

fn resuming(terms: SessionTerms) -> World {
    let config = SessionConfig {
        terms,
        ..SessionConfig::default()
    };
    let addresses = vec!["a:1".to_string(), "b:1".to_string(), "c:1".to_string()];
    let session = ClientSession::resuming(config, addresses, 3, (SECRET, TENANT), Time(0));
    let mut world = World {
        session,
        now: Time(0),
        out: Vec::new(),
    };
    world.wake();
    world.connect(1);
    let request = FromClient::Resume {
        secret: SECRET,
        tenant: TENANT.hash(),
        terms,
    };
    assert_eq!(world.sent(), [request]);
    world
}

fn resumed_in(terms: SessionTerms) -> World {
    let mut world = resuming(terms);
    world.receive(ToClient::Resumed {
        hash: SECRET.hash(),
        session: SESSION,
        terms,
        tenancy: second(),
    });
    world
}

#[test]
fn a_resumed_client_counts_its_calls_and_connections_above_all_of_the_one_before() {
    let mut world = resumed_in(SessionTerms::default());
    world.call("a");
    world.call("b");
    let floor = second().floor();
    let sent = world.sent();
    assert_eq!(sequences(&sent), [floor + 1, floor + 2]);
    let FromClient::Call { acknowledged, .. } = sent[0] else {
        panic!("{sent:?}");
    };
    assert_eq!(acknowledged, floor);
    world.reply(1);
    assert_eq!(world.session.in_flight(), 2, "an answer to the one before");
    world.reply(floor + 1);
    assert_eq!(world.session.in_flight(), 1);
    world.disconnect();
    world.connect(2);
    let sent = world.sent();
    let attachment = second().attachment();
    let attached = |message: &FromClient| matches!(message, FromClient::Attach { attachment: a, .. } if *a == attachment);
    assert!(attached(&sent[0]), "{sent:?}");
    assert_eq!(sequences(&sent), [floor + 2]);
    assert!(world.session.session_life(world.now).is_resumed);
}

#[test]
fn where_there_is_no_session_it_has_a_new_one() {
    let mut world = resuming(SessionTerms::default());
    world.receive(ToClient::Opened {
        hash: SECRET.hash(),
        session: SESSION,
        expiry: SessionTerms::default().expiry,
    });
    world.call("a");
    assert_eq!(sequences(&world.sent()), [1]);
    assert!(!world.session.session_life(world.now).is_resumed);
}

/// Claim rp-90.
#[test]
fn a_client_whose_session_another_one_resumed_counts_it_as_lost_and_says_why() {
    let mut world = World::open();
    let ticket = world.call("a");
    world.out.clear();
    let (ask, refusal) = (Ask::Session(SESSION), Refusal::Superseded);
    world.receive(ToClient::Refused { ask, refusal });
    let result = Err(Failure::refused(Refusal::Superseded));
    assert!(world.out.contains(&SessionOutput::Done { ticket, result }));
    let life = world.session.session_life(world.now);
    assert_eq!((life.state, life.ended), (SessionState::Lost, 1));
    assert!(life.is_superseded);
    assert_eq!(world.sent(), [open(SECRET.next())]);
}

#[test]
fn clients_that_had_the_same_session_ask_for_different_ones_next() {
    let mut world = resumed_in(SessionTerms::default());
    world.sent();
    let (ask, refusal) = (Ask::Session(SESSION), Refusal::SessionExpired);
    world.receive(ToClient::Refused { ask, refusal });
    let next = FromClient::Resume {
        secret: TENANT.next(),
        tenant: TENANT.next().next().hash(),
        terms: SessionTerms::default(),
    };
    assert_eq!(world.sent(), [next]);
    assert!(!world.session.session_life(world.now).is_superseded);
}

#[test]
fn a_client_that_never_heard_of_its_session_before_it_was_resumed_asks_for_another() {
    let mut world = World::new();
    world.connect(1);
    world.sent();
    let (ask, refusal) = (Ask::Open(SECRET.hash()), Refusal::Superseded);
    world.receive(ToClient::Refused { ask, refusal });
    assert_eq!(world.sent(), [open(SECRET.next())]);
}

/// The node of the client before may yet report that one's death.
#[test]
fn it_counts_on_the_shorter_time_until_a_keepalive_is_acknowledged() {
    let terms = SessionTerms {
        expiry: Duration::from_millis(10_000),
        on_disconnect: Some(Duration::from_millis(1_000)),
    };
    let mut world = resumed_in(terms);
    let first = Attachment(second().attachment().0 + 1);
    let numbered = |message: &FromClient| matches!(message, FromClient::Attach { attachment, .. } if *attachment == first);
    let sent = world.sent();
    assert!(sent.iter().any(numbered), "{sent:?}");
    assert!(sent.contains(&FromClient::KeepAlive { session: SESSION }));
    world.now = Time(901 * MS);
    assert_eq!(
        world.session.session_life(world.now).state,
        SessionState::Lost
    );
    world.receive(ToClient::KeptAlive { session: SESSION });
    let life = world.session.session_life(world.now);
    assert_eq!(life.state, SessionState::Connected);
}
