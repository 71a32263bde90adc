//! Witnesses: members without objects, which keep what the replicas agreed on, and what a group may trim that has some.

use crate::views::{change, fill, of_view};
use crate::world::{World, call, config, meta};
use quorate_replica::{Input, Remembered, ReplicaConfig, SnapshotReport};
use quorate_types::{
    Ask, Body, Digest, Duration, Level, Levels, MemberChange, MemberRole, NodeId, NodeSet, Quorums,
    ReadLevel, Refusal, Slot, ViewChange, ViewChangeError, ViewNumber,
};

/// So many nodes vote, the last of them without objects.
fn world(nodes: u16, witnesses: u16) -> World {
    World::with(nodes, |config| without_objects(config, witnesses))
}

/// The last nodes of the view have no objects.
fn without_objects(config: &mut ReplicaConfig, witnesses: u16) {
    let replicas = config.view.acceptors.len() as u16 - witnesses;
    config.view.level = Level::WITNESSES;
    config.view.replicas = (0..replicas).map(NodeId).collect();
    config.speaks = Levels::new(Level::UNNAMED, Level::WITNESSES).unwrap();
    config.role = match config.own.0 < replicas {
        true => MemberRole::Replica,
        false => MemberRole::Witness,
    };
}

/// A call of a session, and the checkpoint after it.
fn call_and_checkpoint(world: &mut World, from: u64, sequence: u64) -> Slot {
    let session = world.open(0, from);
    world.decide(vec![call(session, sequence, 0, "x")]);
    world.run();
    let slot = world.decide(vec![meta(Body::Checkpoint)]);
    world.run();
    slot
}

fn trimmed(world: &World, node: usize) -> Vec<Slot> {
    let trimmable = world.shared.borrow().trimmable.clone();
    let of_node = trimmable.into_iter().filter(|(at, _)| *at == node);
    of_node.map(|(_, slot)| slot).collect()
}

/// Claim rp-124.
#[test]
fn a_witness_executes_nothing_and_keeps_what_the_replicas_agreed_on() {
    let mut world = world(3, 1);
    let slot = call_and_checkpoint(&mut world, 1, 1);
    let witness = world.nodes[2].replica.status();
    assert!(witness.is_witness && witness.is_keeping && !witness.is_serving);
    assert_eq!(
        witness.applied,
        world.nodes[0].replica.status().applied,
        "it applies what is no call"
    );
    assert_eq!(witness.snapshot, slot, "it took none, so it was fetched");
    assert_eq!(
        witness.snapshot_digest,
        world.nodes[0].replica.status().snapshot_digest
    );
    let refused = |ask, refusal| quorate_types::ToClient::Refused { ask, refusal };
    world.read(2, 9, 5, ReadLevel::Confirmed);
    assert_eq!(
        world.take_told(9),
        [refused(Ask::Request(5), Refusal::NotServing)],
        "clients ask another member"
    );
}

/// Claim rp-125.
#[test]
fn a_witness_lets_its_log_go_only_for_a_snapshot_that_it_keeps() {
    let mut world = world(3, 1);
    world.loses_fetches = true;
    let slot = call_and_checkpoint(&mut world, 1, 1);
    assert_eq!(trimmed(&world, 0), [slot], "both replicas hold it");
    assert_eq!(trimmed(&world, 2), [], "the witness does not");
    world.loses_fetches = false;
    world.pass(Duration::from_millis(10_000));
    assert_eq!(world.nodes[2].replica.status().snapshot, slot);
    assert_eq!(trimmed(&world, 2), [slot], "what was decided is remembered");
}

/// Claim rp-125.
#[test]
fn a_witness_keeps_the_logs_of_all_views_of_which_it_keeps_no_snapshot() {
    let mut world = world(3, 1);
    world.loses_fetches = true;
    for view in 1..=4 {
        world.decide(vec![meta(Body::ChangeView {
            first: None,
            change: change(view, &[0, 1, 2]),
            who: Box::new(MemberChange::Same),
        })]);
        fill(&mut world, 64);
        world.lead(0);
        let slot = call_and_checkpoint(&mut world, view, 1);
        assert_eq!(trimmed(&world, 0).last(), Some(&slot), "the replicas do");
    }
    assert_eq!(world.nodes[2].replica.view().number, ViewNumber(5));
    assert_eq!(trimmed(&world, 2), []);
    let takes_part = |world: &mut World, message| {
        world.input(2, of_view(1, message));
        let received = (2, ViewNumber(1), message);
        world.shared.borrow().received.contains(&received)
    };
    assert!(takes_part(&mut world, 1), "who lacks slots of it asks here");
    world.loses_fetches = false;
    world.pass(Duration::from_millis(10_000));
    assert!(!takes_part(&mut world, 2), "it is in a snapshot");
}

/// Claim rp-126.
#[test]
fn logs_are_trimmed_once_every_quorum_has_somebody_who_holds_the_snapshot() {
    let mut world = world(5, 2);
    // A majority of the replicas agrees; three of five may be lost before a quorum is.
    world.nodes[2].is_cut = true;
    world.loses_fetches = true;
    let slot = call_and_checkpoint(&mut world, 1, 1);
    let status = world.nodes[0].replica.status();
    assert_eq!(status.snapshot, slot);
    assert_eq!(status.stable, Slot::ZERO, "two of five hold it");
    assert_eq!(trimmed(&world, 0), []);
    world.loses_fetches = false;
    world.pass(Duration::from_millis(10_000));
    assert_eq!(world.nodes[0].replica.status().stable, slot);
    assert_eq!(trimmed(&world, 0), [slot]);
}

/// Claim rp-126.
#[test]
fn a_witness_makes_no_majority_of_those_whose_digests_agree() {
    let mut world = world(3, 1);
    world.nodes[1].is_cut = true;
    let slot = call_and_checkpoint(&mut world, 1, 1);
    world.pass(Duration::from_millis(10_000));
    assert_eq!(world.nodes[0].replica.status().snapshot, slot);
    assert_eq!(
        world.nodes[2].replica.status().snapshot,
        Slot::ZERO,
        "one of two replicas is no majority"
    );
    assert_eq!(trimmed(&world, 0), []);
}

/// Claim rp-127.
#[test]
fn a_view_has_witnesses_at_their_level_only_and_never_nothing_else_that_votes() {
    let world = world(3, 1);
    let view = world.nodes[0].replica.view();
    let change = |acceptors: &[u16]| ViewChange {
        after: ViewNumber(1),
        acceptors: acceptors.iter().copied().map(NodeId).collect(),
        window: 64,
    };
    let changed =
        |acceptors: &[u16], who: &MemberChange| view.changed(Slot(9), change(acceptors), who);
    assert_eq!(
        changed(&[2], &MemberChange::Same),
        Err(ViewChangeError::OnlyWitnesses)
    );
    let lower = MemberChange::Level(Level::COLLECTED);
    assert_eq!(
        changed(&[0, 1, 2], &lower),
        Err(ViewChangeError::WitnessesNotSpoken(Level::COLLECTED))
    );
    assert!(changed(&[0, 2], &MemberChange::Leaves(NodeId(1))).is_ok());
    assert!(view.may_lead(NodeId(1)) && !view.may_lead(NodeId(2)));
    let holders = |nodes: &[u16]| nodes.iter().copied().map(NodeId).collect::<NodeSet>();
    assert!(view.meets_quorums(holders(&[0, 2])) && !view.meets_quorums(holders(&[0])));
    let mut unequal = view.clone();
    unequal.quorums = Quorums::flexible(3, 3, 1).unwrap();
    assert!(!unequal.meets_quorums(holders(&[0, 2])), "one vote decides");
}

/// Claim rp-124.
#[test]
fn a_witness_asks_for_no_tick_whatever_a_snapshot_said_was_due() {
    let mut world = world(3, 1);
    let at = Some(world.right_wall());
    world.input(2, Input::Due { at });
    world.pass(Duration::from_millis(5_000));
    let shared = world.shared.borrow();
    let mut commands = shared.log.iter().flat_map(|batch| batch.commands());
    assert!(
        !commands.any(|command| command.body == Body::Tick),
        "nothing happens there, so it would ask for ever"
    );
}

/// Claim rp-125.
#[test]
fn a_witness_takes_over_what_an_earlier_start_kept_when_its_log_lacks_slots_before() {
    let mut world = world(3, 1);
    let slot = call_and_checkpoint(&mut world, 1, 1);
    let kept = world.nodes[2].objects.images[&slot].clone();
    let digest = Digest {
        replicated: kept.recovered().core.digest(),
        state: kept.recovered().digest,
    };
    // Its vote for a later slot was lost with the power: nothing says that the snapshot is agreed, and the others let the log go.
    let session = world.open(0, 2);
    world.decide(vec![call(session, 1, 0, "y")]);
    world.run();
    world.shared.borrow_mut().trimmed = slot;
    let remembered = Remembered {
        others: vec![SnapshotReport {
            slot,
            digest,
            bytes: kept.recovered().bytes,
        }],
        ..Remembered::default()
    };
    let mut config = config(3, 2);
    without_objects(&mut config, 1);
    config.boot = 2;
    world.restart_remembering(2, config, remembered);
    world.nodes[2].objects.images.insert(slot, kept);
    world.link_up(0, 2);
    world.link_up(2, 0);
    world.pass(Duration::from_millis(10_000));
    assert_eq!(
        world.nodes[2].replica.status().applied,
        world.nodes[0].replica.status().applied
    );
}
