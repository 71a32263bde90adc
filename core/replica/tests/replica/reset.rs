//! Where no majority agrees, an operator says whose state counts: all take it over, nobody answers before a majority holds it, and
//! nobody forgets that over a restart.

use crate::world::{Objects, World, config, id, meta, refused};
use quorate_replica::{Input, Output, PeerMessage, Quarantine, Remembered, ReplicaMessage};
use quorate_types::{
    Ask, Body, Digest, Duration, FromClient, LinkEpoch, NodeId, Outcome, Refusal, SessionId, Slot,
    ToClient,
};

/// Three nodes whose objects hold three different states and are frozen. Says at which slot.
pub(crate) fn frozen() -> (World, SessionId, Slot) {
    let mut world = World::new(3);
    world.loses_outcomes = true;
    let session = world.open(0, 5);
    world.nodes[1].objects.state = 1;
    world.nodes[2].objects.state = 2;
    world.call(0, 5, id(session, 1), "a");
    world.take_told(5);
    let slot = world.checkpoint(0);
    for at in 0..3 {
        assert_eq!(world.nodes[at].replica.status().frozen, Some(slot));
    }
    (world, session, slot)
}

/// What node `at` holds in its newest snapshot.
pub(crate) fn held(world: &World, at: usize) -> (Slot, Digest) {
    let status = world.nodes[at].replica.status();
    (status.snapshot, status.snapshot_digest.expect("it has one"))
}

pub(crate) fn ask(at: usize, (slot, digest): (Slot, Digest)) -> FromClient {
    FromClient::Reset {
        request: 8,
        node: NodeId(at as u16),
        boot: 1,
        slot,
        digest,
    }
}

/// The operator asks node `at` for the state of node `from`; the slot that it is told.
pub(crate) fn reset(world: &mut World, at: usize, from: usize) -> Slot {
    let named = held(world, from);
    world.say(at, 77, ask(from, named));
    let told = world.take_told(77);
    let [ToClient::Checkpointed { request: 8, slot }] = told[..] else {
        panic!("{told:?}");
    };
    slot
}

pub(crate) fn assert_all_go_on_from(world: &mut World, session: SessionId, state: u64) {
    for at in 0..3 {
        let status = world.nodes[at].replica.status();
        assert_eq!((status.frozen, status.reset), (None, None), "n{at}");
        assert!(status.is_serving && !status.is_fetching, "n{at} {status:?}");
        assert_eq!(world.nodes[at].objects.state, state, "n{at}");
    }
    for (at, sequence) in [(0, 11), (1, 12), (2, 13)] {
        world.call(at, 6, id(session, sequence), "c");
        assert!(matches!(world.outcome(6), Some(Outcome::Returned(_))));
    }
    let slot = world.checkpoint(0);
    for at in 0..3 {
        assert_eq!(world.nodes[at].replica.status().stable, slot, "n{at}");
    }
}

/// Claim rp-51.
#[test]
fn the_state_that_an_operator_names_becomes_that_of_every_replica() {
    for (asked, from) in [(0, 0), (0, 1), (2, 1), (1, 2)] {
        let (mut world, session, _) = frozen();
        let state = world.nodes[from].objects.state;
        let slot = reset(&mut world, asked, from);
        assert_all_go_on_from(&mut world, session, state);
        for at in 0..3 {
            let healed = (at, Output::Healed { slot });
            assert!(world.seen.contains(&healed), "n{at} notes the end");
        }
    }
}

/// Claim rp-51.
#[test]
fn calls_ordered_since_the_named_snapshot_are_executed_on_the_state_that_counts() {
    let (mut world, session, _) = frozen();
    let named = held(&world, 1);
    world.decide(vec![crate::world::call(session, 2, 0, "b")]);
    let state = world.nodes[1].objects.state;
    assert_ne!(
        state, world.nodes[0].objects.state,
        "each executed it on its own state"
    );
    world.say(0, 77, ask(1, named));
    assert_all_go_on_from(&mut world, session, state);
    world.call(2, 6, id(session, 2), "b");
    assert_eq!(
        world.outcome(6),
        Some(crate::world::value(state)),
        "the other answer is forgotten"
    );
}

#[test]
fn no_call_is_skipped_while_the_objects_are_frozen() {
    let (mut world, _, slot) = frozen();
    let message = FromClient::Skip {
        request: 8,
        slot,
        index: 0,
        is_unsafe: true,
    };
    world.say(0, 77, message);
    let ask = Ask::Request(8);
    assert_eq!(world.take_told(77), [refused(ask, Refusal::Frozen)]);
}

/// Claim rp-52.
#[test]
fn nobody_answers_before_a_majority_holds_the_state_that_counts() {
    let (mut world, session, _) = frozen();
    let state = world.nodes[2].objects.state;
    world.loses_fetches = true;
    let slot = reset(&mut world, 0, 2);
    for at in 0..3 {
        let status = world.nodes[at].replica.status();
        assert_eq!(status.reset, Some(slot), "n{at}");
        world.call(at, 7, id(session, 2), "b");
        let ask = Ask::Call(id(session, 2));
        assert_eq!(world.take_told(7), [refused(ask, Refusal::NotServing)]);
    }
    assert_eq!(world.nodes[2].replica.status().stable, Slot::ZERO);
    world.loses_fetches = false;
    world.pass(Duration::from_millis(2_500));
    assert_all_go_on_from(&mut world, session, state);
}

/// Claim rp-51.
#[test]
fn a_reset_that_cannot_have_its_effect_is_refused_and_changes_nothing() {
    let mut sound = World::new(3);
    sound.open(0, 5);
    sound.checkpoint(0);
    let named = held(&sound, 1);
    sound.say(0, 77, ask(1, named));
    assert_eq!(
        sound.take_told(77),
        [refused(Ask::Request(8), Refusal::NotFrozen)]
    );
    let (mut world, _, slot) = frozen();
    let (at, digest) = held(&world, 1);
    let other = held(&world, 0).1;
    let last = world.shared.borrow().last();
    for (node, named) in [
        (9, (at, digest)),
        (1, (at, other)),
        (1, (at.next(), digest)),
        (1, (at.previous(), digest)),
    ] {
        world.say(0, 77, ask(node, named));
        let refusal = refused(Ask::Request(8), Refusal::NoSuchSnapshot);
        assert_eq!(world.take_told(77), [refusal], "n{node} {named:?}");
    }
    assert_eq!(world.shared.borrow().last(), last, "nothing is ordered");
    assert_eq!(world.nodes[1].replica.status().frozen, Some(slot));
}

/// Claim rp-53.
#[test]
fn a_node_that_holds_something_else_by_now_does_not_decide_and_another_one_can_be_named() {
    let (mut world, session, _) = frozen();
    let (slot, digest) = held(&world, 1);
    let state = world.nodes[0].objects.state;
    let other = held(&world, 0).1;
    for (boot, digest) in [(2, digest), (1, other)] {
        let node = NodeId(1);
        world.decide(vec![meta(Body::Reset {
            node,
            boot,
            slot,
            digest,
        })]);
        for at in 0..3 {
            assert!(!world.nodes[at].replica.status().is_serving, "n{at}");
        }
    }
    reset(&mut world, 2, 0);
    assert_all_go_on_from(&mut world, session, state);
}

/// Node 1 was told what was agreed before, where it took no snapshot itself. Claim rp-53.
#[test]
fn what_was_agreed_before_the_freeze_keeps_nobody_from_deciding() {
    let (mut world, session, slot) = frozen();
    let state = world.nodes[1].objects.state;
    let (at, digest) = (slot.previous(), Digest::default());
    let agreed = ReplicaMessage::Agreed { slot: at, digest };
    world.input(
        1,
        Input::Peer {
            from: NodeId(0),
            link: LinkEpoch(1),
            message: PeerMessage::Replica(agreed),
        },
    );
    reset(&mut world, 2, 1);
    assert_all_go_on_from(&mut world, session, state);
}

/// Claim rp-51.
#[test]
fn an_operator_may_choose_anew_as_often_as_no_majority_holds_what_was_chosen() {
    let (mut world, session, _) = frozen();
    let state = world.nodes[2].objects.state;
    world.loses_fetches = true;
    for from in [0, 1, 2] {
        reset(&mut world, 0, from);
    }
    world.loses_fetches = false;
    world.pass(Duration::from_millis(2_500));
    assert_all_go_on_from(&mut world, session, state);
}

/// Nodes 0 and 1 agree after the freeze. What they took then is forgotten where the state that was chosen first was fetched. Claim rp-51.
#[test]
fn who_took_over_what_an_earlier_reset_chose_may_be_named_though_it_forgot_what_it_held_before() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    let state = world.nodes[0].objects.state;
    world.nodes[1].objects.state = 1;
    world.nodes[2].objects.state = 2;
    let frozen = world.checkpoint(0);
    assert_eq!(world.nodes[2].replica.status().frozen, Some(frozen));
    world.nodes[1].objects.state = state;
    let slot = world.checkpoint(0);
    let digest = held(&world, 0).1;
    assert_eq!(held(&world, 1), (slot, digest), "two agree");
    world.shared.borrow_mut().holds_submissions = true;
    for (node, boot) in [(0, 1), (2, 1)] {
        let (slot, digest) = held(&world, node);
        world.decide(vec![meta(Body::Reset {
            node: NodeId(node as u16),
            boot,
            slot,
            digest,
        })]);
        world.pass(Duration::from_millis(500));
        assert_eq!(world.nodes[2].objects.state, state, "it has fetched that");
        let reset = world.nodes[2].replica.status().reset;
        assert!(reset.is_some(), "no majority is said to hold it");
    }
    world.shared.borrow_mut().holds_submissions = false;
    world.pass(Duration::from_millis(2_500));
    assert_all_go_on_from(&mut world, session, state);
}

/// Claim rp-52.
#[test]
fn a_state_that_lacks_what_was_answered_since_a_reset_is_chosen_by_no_later_one() {
    let (mut world, session, slot) = frozen();
    let old = held(&world, 0);
    let state = world.nodes[2].objects.state;
    reset(&mut world, 0, 2);
    let (node, boot) = (NodeId(0), 1);
    for named in [old.0, slot] {
        world.decide(vec![meta(Body::Reset {
            node,
            boot,
            slot: named,
            digest: old.1,
        })]);
    }
    assert_all_go_on_from(&mut world, session, state);
}

/// `world`'s third node starts again with its snapshot at `slot`, or with nothing, and knows that it froze.
fn restart(world: &mut World, slot: Option<Slot>, frozen: Slot) {
    let image = slot.map(|slot| world.nodes[2].objects.images[&slot].clone());
    let remembered = Remembered {
        snapshot: image.as_ref().map(|image| image.recovered()),
        quarantine: Some(Quarantine::Frozen { slot: frozen }),
        ..Remembered::default()
    };
    let objects = image.as_ref().map(Objects::restored).unwrap_or_default();
    world.nodes.truncate(2);
    world.add_remembering(config(3, 2), remembered, objects);
    world.follow(2, 0);
    world.link_up(0, 2);
    world.link_up(1, 2);
    world.pass(Duration::from_millis(2_500));
}

/// Claim rp-53.
#[test]
fn the_end_of_a_freeze_survives_a_restart_from_before_at_and_after_the_reset() {
    for from in [0, 2] {
        let (mut world, session, slot) = frozen();
        let state = world.nodes[from].objects.state;
        let at = reset(&mut world, 0, from);
        restart(&mut world, Some(at), slot);
        assert_all_go_on_from(&mut world, session, state);
        let state = world.nodes[0].objects.state;
        let later = held(&world, 2).0;
        assert!(later > at);
        restart(&mut world, Some(later), slot);
        assert_eq!(world.nodes[2].replica.status().frozen, None);
        assert_eq!(world.nodes[2].objects.state, state);
        restart(&mut world, None, slot);
        assert_eq!(world.nodes[2].replica.status().frozen, None);
        assert_eq!(world.nodes[2].objects.state, state);
    }
}

/// Claim rp-53.
#[test]
fn a_replica_that_missed_the_reset_and_whose_slots_are_trimmed_takes_over_what_counts() {
    let (mut world, session, _) = frozen();
    world.shared.borrow_mut().deaf.insert(2);
    let state = world.nodes[1].objects.state;
    let slot = reset(&mut world, 0, 1);
    assert_eq!(world.nodes[0].replica.status().frozen, None);
    world.shared.borrow_mut().trimmed = slot;
    world.shared.borrow_mut().deaf.clear();
    world.input(2, Input::Wake);
    world.run();
    world.pass(Duration::from_millis(6_000));
    assert_all_go_on_from(&mut world, session, state);
}

/// Claim rp-51.
#[test]
fn what_an_operator_did_not_choose_freezes_nobody_who_has_not_heard_of_the_reset() {
    let mut world = World::new(5);
    world.loses_outcomes = true;
    let session = world.open(0, 5);
    for at in 0..5 {
        world.nodes[at].objects.state = at as u64;
    }
    world.call(0, 5, id(session, 1), "a");
    world.shared.borrow_mut().deaf.insert(4);
    world.nodes[4].is_cut = true;
    world.checkpoint(0);
    world.loses_fetches = true;
    let at = reset(&mut world, 0, 0);
    world.nodes[4].is_cut = false;
    for peer in 0..4 {
        world.link_up(peer, 4);
    }
    for peer in 0..4 {
        let status = world.nodes[peer].replica.status();
        assert_eq!((status.reset, status.snapshot), (Some(at), at), "n{peer}");
    }
    assert_eq!(world.nodes[4].replica.status().frozen, None);
}
