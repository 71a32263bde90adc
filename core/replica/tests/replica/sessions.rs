//! Which sessions live, and who may end them.

use crate::world::{World, call, id, meta, open, refused, secret};
use quorate_replica::{Input, PeerMessage, limits};
use quorate_types::{
    Ask, Body, ClosedBy, Command, ConnectionId, Duration, FromClient, Outcome, Refusal, SessionId,
    SessionTerms, Slot, ToClient,
};

const EXPIRY: Duration = Duration::from_millis(1_600);
pub(crate) const STEP: Duration = Duration::from_millis(100);

pub(crate) fn world(nodes: u16) -> World {
    let mut world = World::new(nodes);
    world.terms = SessionTerms::expiring_after(EXPIRY);
    world.is_led = true;
    world
}

pub(crate) fn is_open(world: &World, at: usize) -> bool {
    world.nodes[at].replica.status().sessions == 1
}

fn keep_alive(world: &mut World, at: usize, session: SessionId) -> Vec<ToClient> {
    world.attach(at, 5, session);
    world.take_told(5);
    world.say(at, 5, FromClient::KeepAlive { session });
    world.take_told(5)
}

/// What client `number` is told while so many stand before it.
fn full(number: u64, ahead: u64) -> ToClient {
    ToClient::Full {
        hash: secret(number).hash(),
        retry_after: Duration(limits::LINE_RETRY_MIN.0 + ahead * limits::LINE_RETRY_STEP.0),
    }
}

pub(crate) fn pass_steps(world: &mut World, steps: u64) {
    for _ in 0..steps {
        world.pass(STEP);
    }
}

#[test]
fn a_silent_session_expires_on_all_replicas_and_not_too_early() {
    let mut world = world(3);
    world.open(0, 5);
    pass_steps(&mut world, 15);
    assert!(is_open(&world, 0));
    pass_steps(&mut world, 4);
    for at in 0..3 {
        assert!(!is_open(&world, at));
    }
}

#[test]
fn calls_keep_a_session_alive_and_so_do_keepalives_through_any_replica() {
    let mut world = world(3);
    let session = world.open(0, 5);
    for round in 1..=4 {
        pass_steps(&mut world, 10);
        world.call(0, 5, id(session, round), "a");
    }
    for _ in 0..4 {
        pass_steps(&mut world, 10);
        let kept = ToClient::KeptAlive { session };
        assert_eq!(keep_alive(&mut world, 1, session), [kept]);
    }
    assert!(is_open(&world, 2));
    pass_steps(&mut world, 20);
    assert!(!is_open(&world, 2));
    let over = refused(Ask::Session(session), Refusal::SessionExpired);
    assert_eq!(keep_alive(&mut world, 1, session), [over]);
}

/// Claim rp-65.
#[test]
fn each_session_expires_after_the_time_that_its_client_chose() {
    let mut world = world(3);
    world.open(0, 5);
    world.terms = SessionTerms::expiring_after(Duration(3 * EXPIRY.0));
    let patient = world.open(1, 6);
    world.terms = SessionTerms::expiring_after(Duration(2 * EXPIRY.0));
    world.open(2, 7);
    let open = |world: &World| world.nodes[1].replica.status().sessions;
    for left in [3, 2, 1] {
        pass_steps(&mut world, 15);
        assert_eq!(open(&world), left);
        pass_steps(&mut world, 1);
    }
    world.attach(1, 6, patient);
    world.take_told(6);
    world.say(1, 6, FromClient::KeepAlive { session: patient });
    assert_eq!(
        world.take_told(6),
        [ToClient::KeptAlive { session: patient }]
    );
    pass_steps(&mut world, 47);
    assert_eq!(open(&world), 1);
    pass_steps(&mut world, 2);
    assert_eq!(open(&world), 0);
}

#[test]
fn a_client_gets_no_expiry_time_out_of_bounds_and_a_copy_of_its_request_changes_none() {
    let mut world = World::new(1);
    let mut granted = |number, millis| {
        let terms = SessionTerms::expiring_after(Duration::from_millis(millis));
        let secret = secret(number);
        world.take_told(5);
        world.say(0, 5, FromClient::Open { secret, terms });
        match world.take_told(5)[..] {
            [ToClient::Opened { expiry, .. }] => expiry.as_millis(),
            ref told => panic!("{told:?}"),
        }
    };
    assert_eq!(granted(1, 0), 1_000);
    assert_eq!(granted(2, u64::MAX / 2_000_000), 3_600_000);
    assert_eq!(granted(3, 7_000), 7_000);
    assert_eq!(granted(3, 9_000), 7_000);
}

/// Claim rp-10.
#[test]
fn an_expiry_does_nothing_when_a_later_command_was_executed() {
    let mut world = world(1);
    let session = world.open(0, 5);
    let judged_by = world.shared.borrow().last();
    world.decide(vec![call(session, 1, 0, "a")]);
    world.decide(vec![meta(Body::Expire { session, judged_by })]);
    assert!(is_open(&world, 0));
    let judged_by = world.shared.borrow().last();
    world.decide(vec![meta(Body::Expire { session, judged_by })]);
    assert!(!is_open(&world, 0));
}

/// Claim rp-11.
#[test]
fn an_expiry_judged_under_an_older_leader_is_void() {
    let mut world = world(2);
    let session = world.open(0, 5);
    let judged_by = world.shared.borrow().last();
    world.lead(1);
    let kept = ToClient::KeptAlive { session };
    assert_eq!(keep_alive(&mut world, 1, session), [kept]);
    world.decide(vec![meta(Body::Expire { session, judged_by })]);
    assert!(is_open(&world, 0), "the new leader's promise holds");
}

#[test]
fn a_late_lead_of_a_lower_ballot_gives_no_power_back() {
    let mut world = world(2);
    let session = world.open(0, 5);
    let old = world.shared.borrow_mut().next_ballot(0);
    world.lead(1);
    world.believe(0, old);
    let judged_by = world.shared.borrow().last();
    world.decide(vec![meta(Body::Lead { ballot: old })]);
    let kept = ToClient::KeptAlive { session };
    assert_eq!(keep_alive(&mut world, 1, session), [kept]);
    pass_steps(&mut world, 10);
    assert_eq!(
        keep_alive(&mut world, 1, session),
        [ToClient::KeptAlive { session }]
    );
    pass_steps(&mut world, 12);
    assert!(is_open(&world, 0), "node 0 judges nobody, {judged_by}");
}

/// Claim rp-12.
#[test]
fn a_keepalive_is_not_acknowledged_before_a_majority_confirmed_the_leader() {
    let mut world = world(1);
    let session = world.open(0, 5);
    world.shared.borrow_mut().holds_reads = true;
    assert_eq!(keep_alive(&mut world, 0, session), []);
    let read = world.shared.borrow().asked[0].1;
    world.effect(
        0,
        quorate_ordering::Effect::Confirmed {
            read,
            barrier: Slot::ZERO,
            until: None,
        },
    );
    assert_eq!(world.take_told(5), [ToClient::KeptAlive { session }]);
}

#[test]
fn a_keepalive_is_not_acknowledged_before_the_leaders_care_has_begun_in_the_log() {
    let mut world = world(2);
    let session = world.open(0, 5);
    world.shared.borrow_mut().holds_submissions = true;
    world.lead(1);
    assert_eq!(keep_alive(&mut world, 1, session), []);
    let submitted = std::mem::take(&mut world.shared.borrow_mut().submitted);
    let commands = submitted.into_iter().map(|(_, command)| command).collect();
    world.decide(commands);
    let kept = ToClient::KeptAlive { session };
    assert_eq!(keep_alive(&mut world, 1, session), [kept]);
}

/// Claim rp-13.
#[test]
fn no_keepalive_is_acknowledged_once_an_expiry_is_proposed() {
    let mut world = world(1);
    let session = world.open(0, 5);
    world.shared.borrow_mut().holds_submissions = true;
    pass_steps(&mut world, 20);
    let proposed = world.shared.borrow().submitted.clone();
    assert!(
        proposed
            .iter()
            .any(|(_, command)| matches!(command.body, Body::Expire { .. })),
        "{proposed:?}"
    );
    assert_eq!(keep_alive(&mut world, 0, session), []);
    let commands = proposed.into_iter().map(|(_, command)| command).collect();
    world.decide(commands);
    let over = refused(Ask::Session(session), Refusal::SessionExpired);
    assert_eq!(keep_alive(&mut world, 0, session), [over]);
}

#[test]
fn an_expiry_of_unknown_fate_and_one_that_is_void_let_no_keepalive_through() {
    let mut world = world(1);
    let session = world.open(0, 5);
    world.shared.borrow_mut().holds_submissions = true;
    pass_steps(&mut world, 20);
    let is_expiry = |(_, command): &&(usize, Command)| matches!(command.body, Body::Expire { .. });
    let proposed = world
        .shared
        .borrow()
        .submitted
        .iter()
        .find(is_expiry)
        .cloned();
    let (_, proposed) = proposed.expect("it is silent");
    let judged_by = Slot::ZERO;
    world.decide(vec![meta(Body::Expire { session, judged_by })]);
    assert_eq!(
        keep_alive(&mut world, 0, session),
        [],
        "its own is on the way"
    );
    let (command, refusal) = (proposed.id, Refusal::Unknown);
    world.effect(0, quorate_ordering::Effect::Refuse { command, refusal });
    assert_eq!(
        keep_alive(&mut world, 0, session),
        [],
        "it may be decided yet"
    );
    assert!(is_open(&world, 0));
    world.decide(vec![proposed]);
    assert!(!is_open(&world, 0));
}

/// Claim rp-66.
#[test]
fn a_new_leader_goes_on_counting_where_a_quorum_had_come_to() {
    let mut world = world(3);
    let session = world.open(0, 5);
    pass_steps(&mut world, 10);
    let kept = ToClient::KeptAlive { session };
    assert_eq!(keep_alive(&mut world, 0, session), [kept]);
    pass_steps(&mut world, 10);
    world.lead(1);
    pass_steps(&mut world, 5);
    assert!(is_open(&world, 0), "the keepalive counts");
    pass_steps(&mut world, 2);
    assert!(!is_open(&world, 0), "and the time before this leader");
}

#[test]
fn a_new_leader_that_no_quorum_answers_counts_every_session_from_its_own_beginning() {
    let mut world = world(3);
    world.open(0, 5);
    pass_steps(&mut world, 14);
    world.nodes[0].is_cut = true;
    world.nodes[2].is_cut = true;
    world.lead(1);
    pass_steps(&mut world, 15);
    assert!(is_open(&world, 1));
    pass_steps(&mut world, 3);
    assert!(!is_open(&world, 1));
}

#[test]
fn time_without_a_leader_counts_for_no_session() {
    let mut world = world(3);
    world.open(0, 5);
    pass_steps(&mut world, 10);
    world.is_led = false;
    pass_steps(&mut world, 100);
    world.is_led = true;
    world.lead(1);
    pass_steps(&mut world, 5);
    assert!(is_open(&world, 0));
    pass_steps(&mut world, 16);
    assert!(!is_open(&world, 0));
}

#[test]
fn a_node_that_stood_still_ends_no_session_for_that() {
    let mut world = world(1);
    let session = world.open(0, 5);
    pass_steps(&mut world, 10);
    world.now = world.now + Duration(10 * EXPIRY.0);
    world.pass(STEP);
    assert!(is_open(&world, 0));
    let kept = ToClient::KeptAlive { session };
    assert_eq!(keep_alive(&mut world, 0, session), [kept]);
    pass_steps(&mut world, 15);
    assert!(is_open(&world, 0));
}

/// Claim rp-67.
#[test]
fn a_keepalive_is_not_acknowledged_before_a_quorum_has_noted_it() {
    let mut world = world(3);
    let session = world.open(0, 5);
    world.nodes[1].is_cut = true;
    world.nodes[2].is_cut = true;
    assert_eq!(keep_alive(&mut world, 0, session), []);
    world.nodes[2].is_cut = false;
    let kept = ToClient::KeptAlive { session };
    assert_eq!(keep_alive(&mut world, 0, session), [kept]);
}

/// Claim rp-68.
#[test]
fn a_dead_client_is_found_while_leaders_are_killed_more_often_than_sessions_expire() {
    let mut world = world(3);
    world.open(2, 5);
    for (kill, boot) in (2..8).enumerate() {
        let (leader, next) = (kill % 2, (kill + 1) % 2);
        assert!(kill < 5, "it is not found");
        pass_steps(&mut world, 6);
        if !is_open(&world, 2) {
            break;
        }
        world.lead(next);
        world.restart(leader, boot);
        world.lead(next);
    }
    assert!(!is_open(&world, 2));
}

/// Claim rp-68. The next leader asks what others know once it has been heard itself: ages that it was told before would look younger
/// by the election.
#[test]
fn an_election_makes_no_dead_client_younger() {
    let mut world = world(3);
    world.open(2, 5);
    pass_steps(&mut world, 8);
    world.is_led = false;
    world.pass(Duration::from_millis(200));
    world.lead(1);
    world.is_led = true;
    pass_steps(&mut world, 5);
    assert!(is_open(&world, 1));
    pass_steps(&mut world, 3);
    assert!(
        !is_open(&world, 1),
        "it lives for 200 ms longer than it may"
    );
}

#[test]
fn leaders_are_told_while_there_are_sessions() {
    let mut world = world(3);
    let told = |world: &World| world.shared.borrow().attended.clone();
    assert_eq!(told(&world), []);
    world.open(2, 5);
    pass_steps(&mut world, 1);
    let all = |is_attended| [0, 1, 2].map(|at| (at, is_attended)).to_vec();
    assert_eq!(told(&world), all(true));
    pass_steps(&mut world, 20);
    let mut over = told(&world).split_off(3);
    over.sort_unstable();
    assert_eq!(over, all(false));
}

#[test]
fn a_live_client_keeps_its_session_while_leaders_are_killed() {
    let mut world = world(3);
    let session = world.open(2, 5);
    for (kill, boot) in (2..12).enumerate() {
        let (leader, next) = (kill % 2, (kill + 1) % 2);
        pass_steps(&mut world, 6);
        let kept = ToClient::KeptAlive { session };
        assert_eq!(keep_alive(&mut world, 2, session), [kept], "{kill}");
        world.lead(next);
        world.restart(leader, boot);
        world.lead(next);
        assert!(is_open(&world, 2));
    }
}

#[test]
fn a_forwarded_keepalive_that_is_lost_can_be_sent_again() {
    let mut world = world(2);
    let session = world.open(1, 5);
    world.nodes[0].is_cut = true;
    assert_eq!(keep_alive(&mut world, 1, session), []);
    world.nodes[0].is_cut = false;
    let kept = ToClient::KeptAlive { session };
    assert_eq!(keep_alive(&mut world, 1, session), [kept]);
    let stray = PeerMessage::Replica(quorate_replica::ReplicaMessage::KeptAlive {
        session,
        number: 1 << 32 | 1,
        refused: Some(Refusal::SessionExpired),
    });
    world.input(
        1,
        quorate_replica::Input::Peer {
            from: quorate_types::NodeId(9),
            link: quorate_types::LinkEpoch(1),
            message: stray,
        },
    );
    assert_eq!(world.take_told(5), [], "only the leader is believed");
}

#[test]
fn a_copy_of_an_answer_acknowledges_no_later_keepalive() {
    let mut world = world(2);
    let session = world.open(1, 5);
    let kept = || ToClient::KeptAlive { session };
    assert_eq!(keep_alive(&mut world, 1, session), [kept()]);
    let answer = |number: u64| quorate_replica::Input::Peer {
        from: quorate_types::NodeId(0),
        link: quorate_types::LinkEpoch(1),
        message: PeerMessage::Replica(quorate_replica::ReplicaMessage::KeptAlive {
            session,
            number: (1 << 32) | number,
            refused: None,
        }),
    };
    world.nodes[0].is_cut = true;
    assert_eq!(keep_alive(&mut world, 1, session), []);
    assert_eq!(keep_alive(&mut world, 1, session), []);
    world.input(1, answer(1));
    assert_eq!(
        world.take_told(5),
        [],
        "the leader has not heard the later one"
    );
    world.input(1, answer(2));
    assert_eq!(world.take_told(5), [kept()]);
    world.input(1, answer(2));
    assert_eq!(world.take_told(5), []);
    world.input(1, answer(3));
    assert_eq!(world.take_told(5), [kept()]);
}

/// Claim rp-27.
#[test]
fn a_session_whose_keepalive_was_acknowledged_goes_for_no_other() {
    let mut world = World::with(2, |config| config.sessions_max = 2);
    world.terms = SessionTerms::expiring_after(EXPIRY);
    world.is_led = true;
    let kept = world.open(0, 5);
    let busy = world.open(0, 6);
    world.call(0, 6, id(busy, 1), "a");
    world.pass(Duration(EXPIRY.0 / 2));
    let alive = ToClient::KeptAlive { session: kept };
    assert_eq!(keep_alive(&mut world, 0, kept), [alive]);
    world.take_told(7);
    world.say(0, 7, open(9));
    assert_eq!(world.take_told(7), [full(9, 0)], "nobody made room");
    world.call(0, 5, id(kept, 1), "b");
    assert!(matches!(world.outcome(5), Some(Outcome::Returned(_))));
    for _ in 0..40 {
        world.pass(Duration(EXPIRY.0 / 16));
        keep_alive(&mut world, 0, kept);
    }
    world.open(0, 7);
    for at in 0..2 {
        assert_eq!(
            world.nodes[at].replica.status().sessions,
            2,
            "the other expired"
        );
    }
}

/// Claim rp-32.
#[test]
fn a_client_that_asks_two_nodes_for_its_session_gets_one() {
    let mut world = World::with(2, |config| config.sessions_max = 2);
    let opened = |world: &mut World, at, from| {
        world.take_told(from);
        world.say(at, from, open(9));
        world.take_told(from)
    };
    let first = opened(&mut world, 0, 5);
    assert!(matches!(first[..], [.., ToClient::Opened { .. }]));
    let second = opened(&mut world, 1, 6);
    assert_eq!(first.last(), second.last());
    world.open(0, 7);
    assert_eq!(opened(&mut world, 0, 5).last(), first.last());
    for node in &world.nodes {
        assert_eq!(node.replica.status().sessions, 2);
    }
}

#[test]
fn an_open_that_finds_no_place_is_refused_without_a_log_entry() {
    let mut world = World::with(2, |config| config.sessions_max = 1);
    world.open(0, 5);
    let applied = world.nodes[0].replica.status().applied;
    world.take_told(6);
    world.say(0, 6, open(9));
    assert_eq!(world.take_told(6), [full(9, 0)]);
    assert_eq!(world.nodes[0].replica.status().applied, applied);
}

/// Claim rp-36.
#[test]
fn a_place_goes_to_who_has_waited_longest_and_all_are_told_when_to_ask_again() {
    let mut world = World::with(1, |config| config.sessions_max = 1);
    let ask = |world: &mut World, number: u64| {
        world.say(0, number, open(number));
        world.take_told(number)
    };
    let taken = world.open(0, 5);
    assert_eq!(ask(&mut world, 11), [full(11, 0)]);
    assert_eq!(ask(&mut world, 12), [full(12, 1)]);
    world.say(0, 5, FromClient::Close { session: taken });
    for newcomer in 13..23 {
        let behind = full(newcomer, newcomer - 11);
        assert_eq!(ask(&mut world, newcomer), [behind], "not before others");
    }
    assert!(matches!(ask(&mut world, 11)[..], [ToClient::Opened { .. }]));
    assert_eq!(ask(&mut world, 12), [full(12, 0)]);
}

#[test]
fn a_closed_session_is_over_for_late_calls() {
    let mut world = World::new(2);
    let session = world.open(0, 5);
    world.say(0, 5, FromClient::Close { session });
    world.take_told(6);
    world.call(1, 6, id(session, 1), "a");
    let asks = [Ask::Session(session), Ask::Call(id(session, 1))];
    let over = asks.map(|ask| refused(ask, Refusal::SessionExpired));
    assert_eq!(world.take_told(6), over);
    assert!(world.nodes[1].objects.executed.is_empty());
}

#[test]
fn keepalives_of_clients_that_went_away_unanswered_take_no_room() {
    let mut world = world(2);
    let session = world.open(1, 5);
    world.nodes[0].is_cut = true;
    let client = |world: &mut World, input| world.half_turn(1, input);
    for silent in 0..limits::KEEPALIVES_WAITING as u64 {
        let from = ConnectionId(100 + silent);
        let message = FromClient::KeepAlive {
            session: SessionId(1 << 40 | silent),
        };
        client(&mut world, Input::Client { from, message });
        client(
            &mut world,
            Input::Disconnected {
                connection: from,
                by: ClosedBy::Client,
            },
        );
    }
    world.run();
    world.nodes[0].is_cut = false;
    let kept = ToClient::KeptAlive { session };
    assert_eq!(keep_alive(&mut world, 1, session), [kept]);
}
