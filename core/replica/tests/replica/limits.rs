//! Limits of a view: in force from its first slot on, whatever a replica has applied, executed or restored.

use crate::views::{WINDOW, change, fill, refusal};
use crate::world::{Objects, World, call, config, id, meta, open, refused};
use quorate_replica::{KeptLimits, ReplicaConfig};
use quorate_types::zoo::{Plant, plant};
use quorate_types::{
    Ask, Body, FromClient, Level, Levels, LimitChange, MemberChange, Refusal, SessionId, Slot,
    ToClient, ViewNumber,
};
use std::panic::catch_unwind;

/// Bytes of a reply of these objects, at most: leading zeros are not written.
const REPLY: usize = 16;

/// Three replies fit a session, eight the group.
const KEPT: KeptLimits = KeptLimits {
    counted_min: 1,
    session_bytes: 3 * REPLY,
    group_bytes: 8 * REPLY,
};

fn high(config: &mut ReplicaConfig) {
    config.view.window = WINDOW;
    config.view.level = Level::LIMITS;
    config.speaks = Levels::new(Level(19), Level::LIMITS).unwrap();
    config.kept = KEPT;
    config.sessions_max = 3;
}

fn world() -> World {
    let world = World::with(2, high);
    world.shared.borrow_mut().linked = vec![1];
    world
}

fn ask(world: &mut World, after: u64, limit: LimitChange) {
    let request = 50;
    let change = change(after, &[0, 1]);
    let message = FromClient::SetLimit {
        request,
        change,
        limit,
    };
    world.say(0, request, message);
}

fn decide(world: &mut World, after: u64, who: MemberChange) -> Slot {
    world.decide(vec![meta(Body::ChangeView {
        first: None,
        change: change(after, &[0, 1]),
        who: Box::new(who),
    })])
}

/// Decides that `number` wants a session; says how many there are.
fn opened(world: &mut World, number: u64) -> Vec<usize> {
    world.decide(vec![meta(Body::Open {
        hash: crate::world::secret(number).hash(),
        terms: world.terms,
        tenant: quorate_types::SecretHash::default(),
    })]);
    let nodes = world.nodes.iter();
    nodes.map(|node| node.replica.status().sessions).collect()
}

fn write(world: &mut World, session: SessionId, sequences: std::ops::RangeInclusive<u64>) {
    for sequence in sequences {
        world.decide(vec![call(session, sequence, 0, "a")]);
    }
}

fn kept(world: &World) -> Vec<usize> {
    let nodes = world.nodes.iter();
    nodes.map(|node| node.replica.status().kept_bytes).collect()
}

/// Claim rp-152.
#[test]
fn fewer_sessions_are_opened_from_the_first_slot_of_the_view_on_and_none_is_closed() {
    let mut world = world();
    let first = world.open(0, 5);
    world.open(0, 6);
    decide(&mut world, 1, MemberChange::Limit(LimitChange::Sessions(1)));
    fill(&mut world, WINDOW - 2);
    assert_eq!(
        opened(&mut world, 7),
        [3, 3],
        "the last slot of the view before"
    );
    assert_eq!(
        opened(&mut world, 8),
        [3, 3],
        "none is opened, and none closed"
    );
    world.take_told(9);
    world.say(0, 9, open(9));
    assert!(matches!(world.take_told(9)[..], [ToClient::Full { .. }]));
    world.call(0, 5, id(first, 1), "a");
    assert!(matches!(
        world.take_told(5).last(),
        Some(ToClient::Replied { .. })
    ));
    decide(&mut world, 2, MemberChange::Limit(LimitChange::Sessions(5)));
    fill(&mut world, WINDOW - 1);
    assert_eq!(
        opened(&mut world, 8),
        [4, 4],
        "the first slot of the next view"
    );
    assert_eq!(opened(&mut world, 9), [5, 5]);
    assert_eq!(opened(&mut world, 10), [5, 5]);
}

/// Claim rp-153.
#[test]
fn fewer_replies_are_kept_from_the_first_slot_on_that_is_executed_in_the_view() {
    let mut world = world();
    let (session, other) = (world.open(0, 5), world.open(0, 6));
    write(&mut world, session, 1..=3);
    write(&mut world, other, 1..=2);
    world.nodes[1].objects.answers_left = Some(0);
    let limit = LimitChange::Replies(3 * REPLY as u64);
    decide(&mut world, 1, MemberChange::Limit(limit));
    fill(&mut world, WINDOW - 2);
    write(&mut world, other, 3..=3);
    assert!(
        kept(&world)[0] > 5 * REPLY,
        "the view before ends with this slot"
    );
    world.checkpoint(0);
    write(&mut world, other, 4..=4);
    let few = kept(&world)[0];
    assert!(few <= 3 * REPLY, "{few}");
    world.nodes[1].objects.answers_left = None;
    world.run();
    assert_eq!(kept(&world), [few; 2], "whenever they are executed");
    let slot = world.checkpoint(0);
    world.run();
    for node in &world.nodes {
        let status = node.replica.status();
        assert_eq!((status.stable, status.diverged), (slot, None));
    }
    let ask = Ask::Call(id(session, 1));
    world.take_told(5);
    world.call(0, 5, id(session, 1), "a");
    assert_eq!(world.take_told(5), [refused(ask, Refusal::ReplyGone)]);
    decide(
        &mut world,
        2,
        MemberChange::Limit(LimitChange::Replies(6 * REPLY as u64)),
    );
    fill(&mut world, WINDOW);
    write(&mut world, other, 5..=6);
    write(&mut world, session, 4..=6);
    let many = kept(&world);
    assert!(many[0] > 4 * REPLY && many[0] == many[1], "{many:?}");
}

/// A limit that is set leaves the other as it was, also where snapshots and the next view tell both.
#[test]
fn one_limit_changes_and_the_other_stays() {
    let changes = [
        LimitChange::Sessions(1),
        LimitChange::Replies(3 * REPLY as u64),
    ];
    for [first, second] in [changes, [changes[1], changes[0]]] {
        let mut world = world();
        let (session, other) = (world.open(0, 5), world.open(0, 6));
        decide(&mut world, 1, MemberChange::Limit(first));
        fill(&mut world, WINDOW);
        decide(&mut world, 2, MemberChange::Limit(second));
        fill(&mut world, WINDOW);
        write(&mut world, session, 1..=3);
        write(&mut world, other, 1..=3);
        assert!(kept(&world)[0] <= 3 * REPLY, "{:?}", kept(&world));
        assert_eq!(opened(&mut world, 7), [2, 2], "none is opened");
        let limits = world.nodes[0].replica.view().limits;
        let both = (limits.named_sessions(), limits.named_replies());
        assert_eq!(both, (Some(1), Some(3 * REPLY as u64)));
    }
}

/// Nothing is executed in either view when a client asks: how much may be kept is that of the slot in which its call would stand.
#[test]
fn clients_must_acknowledge_sooner_once_a_view_with_fewer_replies_is_in_force() {
    let mut world = World::with(2, |config| {
        high(config);
        config.kept = KeptLimits {
            session_bytes: 8 * REPLY,
            group_bytes: 32 * REPLY,
            ..KEPT
        };
    });
    let session = world.open(0, 5);
    let is_taken = |world: &mut World, sequence, acknowledged| {
        world.take_told(5);
        world.call_acknowledging(0, 5, id(session, sequence), acknowledged, "a");
        match world.take_told(5).last() {
            Some(ToClient::Replied { .. }) => true,
            Some(ToClient::Refused { refusal, .. }) => {
                assert_eq!(*refusal, Refusal::Overloaded);
                false
            }
            told => panic!("{told:?}"),
        }
    };
    write(&mut world, session, 1..=1);
    assert!(is_taken(&mut world, 3, 0));
    let limit = |kept: usize| MemberChange::Limit(LimitChange::Replies((kept * REPLY) as u64));
    decide(&mut world, 1, limit(8));
    fill(&mut world, WINDOW - 2);
    assert!(
        is_taken(&mut world, 4, 0),
        "the last slot of the view before"
    );
    assert!(!is_taken(&mut world, 5, 0), "three of eight are kept");
    assert!(is_taken(&mut world, 5, 4) && is_taken(&mut world, 6, 4));
    assert!(!is_taken(&mut world, 7, 4), "two are not acknowledged");
    decide(&mut world, 2, limit(32));
    fill(&mut world, WINDOW - 2);
    assert!(!is_taken(&mut world, 7, 4), "its view is not in force yet");
    fill(&mut world, 1);
    assert!(is_taken(&mut world, 7, 4));
}

#[test]
fn each_planted_bug_is_found() {
    for bug in Plant::ADMITTED {
        plant(Some(bug));
        let is_missed = catch_unwind(
            clients_must_acknowledge_sooner_once_a_view_with_fewer_replies_is_in_force,
        );
        plant(None);
        assert!(is_missed.is_err(), "no test finds {bug:?}");
    }
}

/// Claim rp-154.
#[test]
fn a_snapshot_from_before_the_first_slot_and_one_from_after_it_tell_the_limits() {
    for after in [1, WINDOW + 2] {
        let mut world = world();
        let session = world.open(0, 5);
        world.open(0, 6);
        write(&mut world, session, 1..=3);
        decide(&mut world, 1, MemberChange::Limit(LimitChange::Sessions(2)));
        fill(&mut world, after - 1);
        world.checkpoint(0);
        let images = &world.nodes[0].objects.images;
        let image = images.last_key_value().unwrap().1.clone();
        let mut late = config(2, 1);
        high(&mut late);
        late.boot = 2;
        let remembered = quorate_replica::Remembered {
            snapshot: Some(image.recovered()),
            ..Default::default()
        };
        let objects = Objects::restored(&image);
        world.restart_remembering(1, late, remembered);
        world.nodes[1].objects = objects;
        fill(&mut world, WINDOW);
        let view = world.nodes[1].replica.view();
        assert_eq!((view.number, view.limits.sessions()), (ViewNumber(2), 2));
        assert_eq!(
            opened(&mut world, 7),
            [2, 2],
            "with a snapshot {after} after"
        );
    }
}

/// Claim rp-154.
#[test]
fn limits_that_cannot_be_or_are_so_already_or_are_below_their_level_are_refused() {
    let mut low = World::with(2, |config| {
        high(config);
        config.view.level = Level::QUORUMS;
    });
    low.shared.borrow_mut().linked = vec![1];
    ask(&mut low, 1, LimitChange::Sessions(2));
    assert_eq!(refusal(&mut low, 50), Some(Refusal::LevelNotSpoken));
    let mut world = world();
    for limit in [
        LimitChange::Sessions(0),
        LimitChange::Sessions(1 << 20),
        LimitChange::Sessions(1_000_000),
        LimitChange::Replies(0),
        LimitChange::Replies(3 * REPLY as u64 - 1),
        LimitChange::Replies(1 << 30),
    ] {
        ask(&mut world, 1, limit);
        assert_eq!(
            refusal(&mut world, 50),
            Some(Refusal::NoSuchView),
            "{limit}"
        );
    }
    ask(&mut world, 1, LimitChange::Sessions(2));
    fill(&mut world, WINDOW);
    let told = world.take_told(50);
    assert!(
        matches!(told[..], [ToClient::Checkpointed { .. }]),
        "{told:?}"
    );
    decide(&mut world, 2, MemberChange::Level(Level::QUORUMS));
    fill(&mut world, WINDOW);
    let level = |world: &World| world.nodes[1].replica.view().level;
    assert_eq!(
        level(&world),
        Level::LIMITS,
        "members of a lower level do not read the limits"
    );
    decide(
        &mut world,
        2,
        MemberChange::Limit(LimitChange::Sessions(1_000_000)),
    );
    fill(&mut world, WINDOW);
    decide(&mut world, 3, MemberChange::Level(Level::QUORUMS));
    fill(&mut world, WINDOW);
    assert_eq!(level(&world), Level::QUORUMS);
}
