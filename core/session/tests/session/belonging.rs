//! Whom a client belongs to: its own cluster, the nodes that know its session, and its place in a line.

use crate::{SECRET, SESSION, World, open, sequences};
use quorate_session::{Cause, Failure, SessionConfig, SessionInput, SessionOutput};
use quorate_types::{Ask, Attachment, ClusterId, Duration, FromClient, Refusal, ToClient};

#[test]
fn every_connection_shows_the_secret_before_it_uses_the_session() {
    let mut world = World::open_with(&["a"]);
    world.out.clear();
    world.disconnect();
    world.connect(2);
    let sent = world.sent();
    let attach = FromClient::Attach {
        session: SESSION,
        secret: SECRET,
        attachment: Attachment::NONE,
    };
    assert_eq!(sent[0], attach);
    assert_eq!(sequences(&sent), [1]);
}

#[test]
fn a_node_that_does_not_know_the_session_yet_is_left_for_another() {
    let mut world = World::open_with(&["a"]);
    world.out.clear();
    world.disconnect();
    assert_eq!(world.dialled(), ["b:1"]);
    world.connect(2);
    world.out.clear();
    world.receive(ToClient::Refused {
        ask: Ask::Session(SESSION),
        refusal: Refusal::NotServing,
    });
    world.now = world.now + SessionConfig::default().retry_pause;
    world.wake();
    assert_eq!(world.dialled(), ["c:1"]);
    world.connect(3);
    assert_eq!(sequences(&world.sent()), [1], "under its old id");
}

#[test]
fn another_cluster_at_one_address_is_passed_over_and_at_all_ends_what_waits() {
    let mut world = World::open();
    let sent = world.call("a");
    let foreign = SessionInput::OtherCluster {
        pinned: ClusterId(1),
        found: ClusterId(2),
    };
    let cause = Cause::OtherCluster {
        pinned: ClusterId(1),
        found: ClusterId(2),
    };
    world.disconnect();
    let unsent = world.call("b");
    world.out.clear();
    for address in ["c:1", "a:1"] {
        world
            .session
            .handle(world.now, foreign.clone(), &mut world.out);
        world.now = world.now + SessionConfig::default().retry_pause;
        world.wake();
        assert_eq!(world.dialled(), [address]);
        assert!(world.out.is_empty(), "the rest may be the own cluster's");
    }
    world.session.handle(world.now, foreign, &mut world.out);
    let done = |ticket, may_have_executed| SessionOutput::Done {
        ticket,
        result: Err(Failure {
            cause,
            may_have_executed,
        }),
    };
    world
        .out
        .retain(|output| matches!(output, SessionOutput::Done { .. }));
    assert_eq!(world.out, [done(sent, true), done(unsent, false)]);
}

#[test]
fn a_client_in_line_asks_when_it_was_told_to_and_does_not_leave() {
    let mut world = World::new();
    world.connect(1);
    world.call("a");
    world.out.clear();
    let full = ToClient::Full {
        hash: SECRET.hash(),
        retry_after: Duration::from_millis(3_000),
    };
    for _ in 0..2 {
        world.receive(full.clone());
        world.now = world.now + Duration::from_millis(2_999);
        world.wake();
        assert!(world.out.is_empty(), "{:?}", world.out);
        world.now = world.now + Duration::from_millis(1);
        world.wake();
        assert_eq!(world.sent(), [open(SECRET)]);
    }
    world.now = world.now + SessionConfig::default().silence;
    world.wake();
    assert_eq!(world.dialled(), ["b:1"], "no answer came this time");
}
