//! Sessions whose clients asked for an earlier end when their connection is closed by their death.

use crate::world::World;
use quorate_replica::Input;
use quorate_types::{
    Attachment, Body, ClosedBy, ConnectionId, Duration, FromClient, SessionId, SessionTerms,
    ToClient,
};

const EXPIRY: Duration = Duration::from_millis(6_000);
const SHORT: Duration = Duration::from_millis(1_000);
const STEP: Duration = Duration::from_millis(100);

fn world() -> World {
    let mut world = World::new(3);
    world.terms = SessionTerms {
        expiry: EXPIRY,
        on_disconnect: Some(SHORT),
    };
    world.is_led = true;
    // The first leader has asked a quorum.
    pass(&mut world, 600);
    world
}

fn pass(world: &mut World, ms: u64) {
    for _ in 0..ms / STEP.as_millis() {
        world.pass(STEP);
    }
}

fn is_open(world: &World) -> bool {
    let open = |at: usize| world.nodes[at].replica.status().sessions == 1;
    assert!(open(0) == open(1) && open(1) == open(2), "all agree");
    open(0)
}

/// The client uses its session on another connection, its `number`-th.
fn attach(world: &mut World, at: usize, session: SessionId, number: u64) {
    let attach = FromClient::Attach {
        session,
        secret: world.secrets[&session],
        attachment: Attachment(number),
    };
    world.say(at, 10 + number, attach);
}

/// It does, and a keepalive on it is acknowledged.
fn settle(world: &mut World, at: usize, session: SessionId, number: u64) {
    attach(world, at, session, number);
    world.say(at, 10 + number, FromClient::KeepAlive { session });
    let told = world.take_told(10 + number);
    assert!(told.contains(&ToClient::KeptAlive { session }));
}

fn close(world: &mut World, at: usize, number: u64, by: ClosedBy) {
    let connection = ConnectionId(10 + number);
    world.input(at, Input::Disconnected { connection, by });
}

/// Claim rp-88.
#[test]
fn the_session_of_a_client_that_died_ends_after_its_shorter_time() {
    for at in [0, 1] {
        let mut world = world();
        let session = world.open(at, 5);
        settle(&mut world, at, session, 1);
        close(&mut world, at, 1, ClosedBy::Client);
        pass(&mut world, 900);
        assert!(is_open(&world));
        pass(&mut world, 300);
        assert!(!is_open(&world));
    }
}

#[test]
fn a_connection_that_its_node_closed_or_that_is_not_numbered_says_nothing() {
    for (number, by) in [(1, ClosedBy::Node), (0, ClosedBy::Client)] {
        let mut world = world();
        let session = world.open(1, 5);
        settle(&mut world, 1, session, number);
        close(&mut world, 1, number, by);
        pass(&mut world, 5_500);
        assert!(is_open(&world));
        pass(&mut world, 900);
        assert!(!is_open(&world), "it expires as others do");
    }
}

/// Claim rp-88.
#[test]
fn a_report_that_comes_late_ends_no_session_of_a_client_that_was_heard_elsewhere() {
    type Heard = fn(&mut World, usize, SessionId, u64);
    for heard in [settle as Heard, attach as Heard] {
        let mut world = world();
        let session = world.open(1, 5);
        settle(&mut world, 1, session, 1);
        world.nodes[1].is_cut = true;
        close(&mut world, 1, 1, ClosedBy::Client);
        heard(&mut world, 2, session, 2);
        world.nodes[1].is_cut = false;
        pass(&mut world, 5_500);
        assert!(is_open(&world));
    }
}

/// Claim rp-88.
#[test]
fn a_client_that_was_heard_before_the_leader_knew_its_session_keeps_it() {
    type Heard = fn(&mut World, usize, SessionId, u64);
    let asks: Heard = |world, at, session, number| {
        attach(world, at, session, number);
        world.say(at, 10 + number, FromClient::KeepAlive { session });
    };
    for heard in [asks, attach as Heard] {
        let mut world = world();
        world.shared.borrow_mut().deaf.insert(0);
        let session = world.open(1, 5);
        asks(&mut world, 1, session, 1);
        heard(&mut world, 2, session, 2);
        assert!(world.take_told(12).is_empty(), "the leader cannot know");
        world.shared.borrow_mut().deaf.remove(&0);
        world.input(0, Input::Wake);
        world.run();
        close(&mut world, 1, 1, ClosedBy::Client);
        pass(&mut world, 5_000);
        assert!(is_open(&world));
    }
}

#[test]
fn the_second_connection_of_a_client_counts_as_the_first_did() {
    let mut world = world();
    let session = world.open(1, 5);
    settle(&mut world, 1, session, 1);
    settle(&mut world, 2, session, 2);
    close(&mut world, 1, 1, ClosedBy::Client);
    pass(&mut world, 2_000);
    assert!(is_open(&world));
    close(&mut world, 2, 2, ClosedBy::Client);
    pass(&mut world, 1_200);
    assert!(!is_open(&world));
}

/// Claim rp-88.
#[test]
fn a_new_leader_knows_on_which_connection_the_client_was_heard() {
    let mut world = world();
    let session = world.open(1, 5);
    settle(&mut world, 1, session, 1);
    world.nodes[1].is_cut = true;
    close(&mut world, 1, 1, ClosedBy::Client);
    settle(&mut world, 0, session, 2);
    world.nodes[1].is_cut = false;
    world.lead(1);
    world.restart(0, 2);
    world.lead(1);
    pass(&mut world, 4_000);
    assert!(is_open(&world));
}

/// Claim rp-88. Those that noted the newer connection have forgotten it, and the one that knows the old one leads.
#[test]
fn what_nodes_have_forgotten_ends_no_session() {
    let mut world = world();
    let session = world.open(1, 5);
    settle(&mut world, 1, session, 1);
    world.nodes[1].is_cut = true;
    close(&mut world, 1, 1, ClosedBy::Client);
    settle(&mut world, 0, session, 2);
    for at in [0, 2] {
        world.restart(at, 2);
    }
    world.nodes[1].is_cut = false;
    world.lead(1);
    pass(&mut world, 4_000);
    assert!(is_open(&world));
    // Sessions that are opened from then on are known from their beginning, also to those that have learned from this leader.
    pass(&mut world, 3_000);
    assert!(!is_open(&world));
    let session = world.open(2, 5);
    settle(&mut world, 2, session, 1);
    world.lead(0);
    close(&mut world, 2, 1, ClosedBy::Client);
    pass(&mut world, 1_500);
    assert!(!is_open(&world));
}

/// Claim rp-88.
#[test]
fn a_stall_of_the_group_does_not_count_to_the_shorter_time() {
    let mut world = world();
    let session = world.open(1, 5);
    settle(&mut world, 1, session, 1);
    close(&mut world, 1, 1, ClosedBy::Client);
    pass(&mut world, 500);
    world.is_led = false;
    pass(&mut world, 3_000);
    world.lead(2);
    world.is_led = true;
    pass(&mut world, 300);
    assert!(is_open(&world));
    // What comes after a stall looks a little younger than it is.
    let mut left = 0;
    while is_open(&world) {
        pass(&mut world, 100);
        left += 100;
    }
    assert!((500..=1_500).contains(&left), "{left}");
}

#[test]
fn a_report_is_repeated_to_each_leader_with_its_age() {
    let mut world = world();
    let session = world.open(1, 5);
    settle(&mut world, 1, session, 1);
    world.nodes[1].is_cut = true;
    close(&mut world, 1, 1, ClosedBy::Client);
    world.nodes[1].is_cut = false;
    for leader in [2, 0] {
        pass(&mut world, 400);
        assert!(is_open(&world));
        world.lead(leader);
    }
    pass(&mut world, 400);
    assert!(!is_open(&world), "it is told at once, and how old it is");
}

/// Clients are connected to the leader mostly, and may die shortly before it.
#[test]
fn a_report_outlives_the_node_that_made_it() {
    let mut world = world();
    let session = world.open(0, 5);
    settle(&mut world, 0, session, 1);
    close(&mut world, 0, 1, ClosedBy::Client);
    pass(&mut world, 100);
    world.lead(1);
    world.restart(0, 2);
    world.lead(1);
    pass(&mut world, 1_500);
    assert!(!is_open(&world));
}

#[test]
fn a_client_that_comes_back_in_time_keeps_its_session() {
    let mut world = world();
    let session = world.open(1, 5);
    settle(&mut world, 1, session, 1);
    for number in 2..8 {
        close(&mut world, 1, number - 1, ClosedBy::Client);
        pass(&mut world, 800);
        settle(&mut world, 1, session, number);
    }
    pass(&mut world, 5_000);
    assert!(is_open(&world));
}

/// A refusal of one copy would say that the session is safe, and the other copy could still end it.
#[test]
fn the_end_of_a_session_is_proposed_once_although_two_reasons_are_due() {
    let mut world = world();
    let session = world.open(2, 5);
    settle(&mut world, 2, session, 1);
    world.nodes[2].is_cut = true;
    close(&mut world, 2, 1, ClosedBy::Client);
    world.run();
    for step in 1..=14 {
        // Its reports are lost.
        world.nodes[2].is_cut = step % 5 == 0;
        pass(&mut world, 100);
    }
    world.nodes[2].is_cut = true;
    world.lead(1);
    world.nodes[2].is_cut = false;
    // The new leader is told between its gathering and its first look.
    world.follow(2, 1);
    assert!(is_open(&world));
    world.shared.borrow_mut().holds_submissions = true;
    pass(&mut world, 100);
    let submitted = &world.shared.borrow().submitted;
    let is_end = |body: &Body| matches!(body, Body::Expire { session: id, .. } if *id == session);
    let ends = submitted
        .iter()
        .filter(|(_, command)| is_end(&command.body));
    assert_eq!(ends.count(), 1);
}

/// Claim rp-88. A keepalive of the earlier connection may be under way for long.
#[test]
fn a_keepalive_that_comes_late_does_not_hide_a_later_connection() {
    let mut world = world();
    let session = world.open(1, 5);
    settle(&mut world, 1, session, 1);
    settle(&mut world, 2, session, 2);
    world.say(1, 11, FromClient::KeepAlive { session });
    close(&mut world, 1, 1, ClosedBy::Client);
    pass(&mut world, 4_000);
    assert!(is_open(&world));
}

/// Claim rp-88. The only other node that a new leader hears knows the earlier connection, and its close.
#[test]
fn what_a_new_leader_itself_has_forgotten_ends_no_session() {
    let mut world = world();
    let session = world.open(1, 5);
    settle(&mut world, 1, session, 1);
    world.nodes[1].is_cut = true;
    close(&mut world, 1, 1, ClosedBy::Client);
    settle(&mut world, 0, session, 2);
    world.nodes[0].is_cut = true;
    world.restart(2, 2);
    world.nodes[1].is_cut = false;
    world.lead(2);
    pass(&mut world, 4_000);
    assert!(is_open(&world));
}

/// Claim rp-88. The other two have forgotten the later connection, and have learned since that they know of none.
#[test]
fn who_remembers_an_earlier_connection_believes_those_that_have_forgotten_the_later_one() {
    let mut world = world();
    let session = world.open(1, 5);
    settle(&mut world, 1, session, 1);
    world.nodes[1].is_cut = true;
    close(&mut world, 1, 1, ClosedBy::Client);
    settle(&mut world, 0, session, 2);
    for at in [0, 2] {
        world.restart(at, 2);
    }
    world.lead(0);
    pass(&mut world, 1_200);
    world.nodes[1].is_cut = false;
    world.nodes[0].is_cut = true;
    world.lead(1);
    pass(&mut world, 3_000);
    assert!(is_open(&world));
}
