//! What differs from the majority spreads nowhere, stays quarantined over a restart, and heals.

use crate::views::change;
use crate::world::{Objects, World, config, id, meta, refused};
use quorate_replica::{
    Input, Output, PeerMessage, Quarantine, Remembered, ReplicaMessage, SnapshotReport,
};
use quorate_types::{
    Ask, Body, Digest, Duration, FromClient, LinkEpoch, MemberChange, NodeId, Outcome, Refusal,
    SessionId, Slot,
};

/// How many slots ahead members change.
const WINDOW: u64 = 64;

/// Three nodes with a session. `n2` hears nothing of the log while `n1`, whose objects differ from a
/// moment on, and `n0` take a snapshot that no majority can agree on. Says where that stands.
fn with_a_split_and_one_behind() -> (World, SessionId, Slot) {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    world.call(0, 5, id(session, 1), "a");
    world.checkpoint(0);
    world.shared.borrow_mut().deaf.insert(2);
    world.nodes[1].objects.state ^= 666;
    world.call(0, 5, id(session, 2), "b");
    let slot = world.checkpoint(0);
    for at in 0..2 {
        let status = world.nodes[at].replica.status();
        assert_eq!((status.snapshot, status.diverged), (slot, None));
        assert!(status.stable < slot);
    }
    (world, session, slot)
}

pub(crate) fn fetch(world: &mut World, at: usize, from: u16, slot: Slot) -> Vec<Output<u32>> {
    world.seen.clear();
    let message = PeerMessage::Replica(ReplicaMessage::Fetch { slot, offset: 0 });
    let (from, link) = (NodeId(from), LinkEpoch(1));
    let mut out = Vec::new();
    let input = Input::Peer {
        from,
        link,
        message,
    };
    world.nodes[at].replica.handle(world.now, input, &mut out);
    out
}

/// Claim rp-24.
#[test]
fn a_snapshot_that_no_majority_agrees_on_is_neither_sent_nor_installed() {
    let (mut world, _, slot) = with_a_split_and_one_behind();
    for at in 0..2 {
        let out = fetch(&mut world, at, 2, slot);
        let is_chunk = |output: &Output<u32>| matches!(output, Output::SendChunk { .. });
        assert!(!out.iter().any(is_chunk), "{out:?}");
    }
    world.effect(2, quorate_ordering::Effect::NeedSnapshot { upto: slot });
    world.run();
    assert!(world.nodes[2].replica.status().is_fetching);
    assert!(world.nodes[2].replica.status().snapshot < slot);
    assert_eq!(
        world.nodes[0].replica.status().diverged,
        None,
        "who is right stays right"
    );
    // The third replica executes the slots itself: then two agree, and the one that differs is known.
    world.shared.borrow_mut().deaf.clear();
    world.loses_fetches = true;
    world.run();
    assert_eq!(world.nodes[1].replica.status().diverged, Some(slot));
    assert_eq!(world.nodes[2].objects.state, world.nodes[0].objects.state);
}

/// Claim rp-25.
#[test]
fn a_replica_that_differs_fetches_the_majoritys_snapshot_and_serves_again() {
    let mut world = World::new(3);
    world.loses_outcomes = true;
    let session = world.open(2, 5);
    world.nodes[2].objects.state ^= 666;
    world.call(2, 5, id(session, 1), "a");
    let wrong = world.outcome(5);
    world.loses_fetches = true;
    let slot = world.checkpoint(0);
    let status = world.nodes[2].replica.status();
    assert_eq!(status.diverged, Some(slot));
    assert!(!status.is_serving && status.is_fetching);
    for sequence in 2..5 {
        world.call(0, 6, id(session, sequence), "b");
    }
    world.loses_fetches = false;
    world.pass(Duration::from_millis(8_000));
    let status = world.nodes[2].replica.status();
    assert_eq!(status.diverged, None);
    assert!(
        status.healed > Some(slot) && status.is_serving,
        "{status:?}"
    );
    assert_eq!(status.executed, status.applied);
    assert_eq!(world.nodes[2].objects.state, world.nodes[0].objects.state);
    assert_eq!(status.digest, world.nodes[0].replica.status().digest);
    let healed = status.healed.unwrap();
    assert!(world.seen.contains(&(2, Output::Healed { slot: healed })));
    world.call(2, 5, id(session, 1), "a");
    let right = world.outcome(5);
    assert_ne!(right, wrong, "its own reply is forgotten");
    world.call(0, 6, id(session, 1), "a");
    assert_eq!(world.outcome(6), right);
    world.call(2, 5, id(session, 5), "c");
    assert!(matches!(world.outcome(5), Some(Outcome::Returned(_))));
    let later = world.checkpoint(0);
    for at in 0..3 {
        let status = world.nodes[at].replica.status();
        assert_eq!((status.diverged, status.stable), (None, later));
    }
}

/// Claim rp-25.
#[test]
fn a_replica_that_differs_heals_at_the_very_slot_at_which_it_differed() {
    let mut world = World::new(3);
    let session = world.open(2, 5);
    world.call(2, 5, id(session, 1), "a");
    world.nodes[2].objects.state ^= 666;
    let slot = world.checkpoint(0);
    let status = world.nodes[2].replica.status();
    assert_eq!((status.diverged, status.healed), (None, Some(slot)));
    assert!(status.is_serving && !status.is_fetching, "{status:?}");
    assert_eq!(world.nodes[2].objects.state, world.nodes[0].objects.state);
}

/// Claim rp-26.
#[test]
fn a_quarantine_survives_a_restart_and_heals_after_it() {
    let mut world = World::new(3);
    world.loses_outcomes = true;
    let session = world.open(2, 5);
    world.nodes[2].objects.state ^= 666;
    world.call(2, 5, id(session, 1), "a");
    world.loses_fetches = true;
    let slot = world.checkpoint(0);
    let quarantine = world.seen.iter().find_map(|(at, output)| match output {
        Output::Quarantined(quarantine) if *at == 2 => Some(*quarantine),
        _ => None,
    });
    assert!(matches!(quarantine, Some(Quarantine::Diverged { slot: at, .. }) if at == slot));
    restart_from_own_snapshot(&mut world, slot, quarantine);
    let status = world.nodes[2].replica.status();
    assert_eq!(status.diverged, Some(slot));
    world.call(2, 5, id(session, 2), "b");
    let ask = Ask::Call(id(session, 2));
    assert_eq!(
        world.take_told(5).last(),
        Some(&refused(ask, Refusal::NotServing))
    );
    let out = fetch(&mut world, 2, 1, Slot(1));
    let is_chunk = |output: &Output<u32>| matches!(output, Output::SendChunk { .. });
    assert!(!out.iter().any(is_chunk), "its own state goes nowhere");
    world.loses_fetches = false;
    world.pass(Duration::from_millis(8_000));
    assert!(world.nodes[2].replica.status().is_serving);
    assert_eq!(world.nodes[2].objects.state, world.nodes[0].objects.state);
}

fn restart_from_own_snapshot(world: &mut World, slot: Slot, quarantine: Option<Quarantine>) {
    let image = world.nodes[2].objects.images[&slot].clone();
    let remembered = Remembered {
        snapshot: Some(image.recovered()),
        quarantine,
        ..Remembered::default()
    };
    world.nodes.truncate(2);
    world.add_remembering(config(3, 2), remembered, Objects::restored(&image));
    world.follow(2, 0);
    world.link_up(0, 2);
    world.link_up(1, 2);
}

/// What `world`'s third node remembers if all it has left is what its log was trimmed for.
fn restart_with_nothing_but(world: &mut World, agreed: Option<(Slot, Digest)>) {
    let remembered = Remembered {
        agreed,
        ..Remembered::default()
    };
    world.nodes.truncate(2);
    world.add_remembering(config(3, 2), remembered, Objects::default());
    world.link_up(1, 2);
}

/// Claim rp-31.
#[test]
fn who_trimmed_for_a_snapshot_tells_its_holder_after_a_restart_that_it_is_agreed() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    world.call(0, 5, id(session, 1), "a");
    let slot = world.checkpoint(0);
    let image = world.nodes[1].objects.images[&slot].clone();
    let recovered = image.recovered();
    let digest = Digest {
        replicated: recovered.core.digest(),
        state: recovered.digest,
    };
    // The second node restarts as well, from a log that was not trimmed: it executed the same again. The
    // first is gone.
    world.nodes.truncate(1);
    world.nodes[0].is_cut = true;
    let remembered = Remembered {
        snapshot: Some(recovered),
        ..Remembered::default()
    };
    world.add_remembering(config(3, 1), remembered, Objects::restored(&image));
    let out = fetch(&mut world, 1, 2, slot);
    let is_chunk = |output: &Output<u32>| matches!(output, Output::SendChunk { .. });
    assert!(!out.iter().any(is_chunk), "nobody vouches for it: {out:?}");
    restart_with_nothing_but(&mut world, Some((slot, digest)));
    let out = fetch(&mut world, 1, 2, slot);
    assert!(out.iter().any(is_chunk), "{out:?}");
}

/// Claim rp-37.
#[test]
fn a_snapshot_newer_than_the_start_is_served_and_reported_once_it_is_known_to_be_agreed() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    world.call(0, 5, id(session, 1), "a");
    let older = world.checkpoint(0);
    world.call(0, 5, id(session, 2), "b");
    let slot = world.checkpoint(0);
    let start = world.nodes[1].objects.images[&older].clone();
    let image = world.nodes[1].objects.images[&slot].clone();
    let newest = image.recovered();
    let digest = Digest {
        replicated: newest.core.digest(),
        state: newest.digest,
    };
    let report = SnapshotReport {
        slot,
        digest,
        bytes: newest.bytes,
    };
    let differing = SnapshotReport {
        digest: Digest {
            replicated: 1,
            ..digest
        },
        ..report
    };
    // The first node is gone; the third has nothing, and a log that was trimmed for the newest snapshot. So the second
    // cannot execute up to the newest snapshot on its own disk.
    for (other, is_agreed) in [(report, true), (differing, false)] {
        world.nodes.truncate(1);
        world.nodes[0].is_cut = true;
        world.shared.borrow_mut().trimmed = slot;
        let remembered = Remembered {
            snapshot: Some(start.recovered()),
            others: vec![other],
            ..Remembered::default()
        };
        let mut objects = Objects::restored(&start);
        objects.images.insert(slot, image.clone());
        world.add_remembering(config(3, 1), remembered, objects);
        let out = fetch(&mut world, 1, 2, slot);
        let is_chunk = |output: &Output<u32>| matches!(output, Output::SendChunk { .. });
        assert!(!out.iter().any(is_chunk), "nobody vouches for it: {out:?}");
        restart_with_nothing_but(&mut world, Some((slot, digest)));
        world.link_up(2, 1);
        let out = fetch(&mut world, 1, 2, slot);
        assert_eq!(out.iter().any(is_chunk), is_agreed, "{out:?}");
        let status = world.nodes[1].replica.status();
        assert_eq!(status.snapshot == slot, is_agreed);
        assert_eq!(status.diverged, None, "the objects come from another one");
    }
}

/// Claim rp-31.
#[test]
fn a_log_that_begins_after_the_own_snapshot_does_not_show_that_it_is_agreed() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    world.call(0, 5, id(session, 1), "a");
    let slot = world.checkpoint(0);
    let image = world.nodes[1].objects.images[&slot].clone();
    // The second node lost its log: it goes on after its snapshot, of which nobody else tells.
    world.nodes.truncate(1);
    world.nodes[0].is_cut = true;
    world.shared.borrow_mut().trimmed = slot;
    let remembered = Remembered {
        snapshot: Some(image.recovered()),
        ..Remembered::default()
    };
    world.add_remembering(config(3, 1), remembered, Objects::restored(&image));
    let out = fetch(&mut world, 1, 2, slot);
    let is_chunk = |output: &Output<u32>| matches!(output, Output::SendChunk { .. });
    assert!(!out.iter().any(is_chunk), "nobody vouches for it: {out:?}");
}

/// Claim rp-31.
#[test]
fn who_reports_a_snapshot_hears_that_it_is_agreed() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    world.call(0, 5, id(session, 1), "a");
    let slot = world.checkpoint(0);
    let image = world.nodes[1].objects.images[&slot].clone();
    let recovered = image.recovered();
    let digest = Digest {
        replicated: recovered.core.digest(),
        state: recovered.digest,
    };
    let report = ReplicaMessage::Durable {
        slot,
        digest,
        bytes: recovered.bytes,
    };
    let input = Input::Peer {
        from: NodeId(2),
        link: LinkEpoch(1),
        message: PeerMessage::Replica(report),
    };
    let mut out = Vec::new();
    world.nodes[0].replica.handle(world.now, input, &mut out);
    let agreed = PeerMessage::Replica(ReplicaMessage::Agreed { slot, digest });
    let told = out.iter().any(|output| {
        matches!(output, Output::Send { to, message, .. } if to.contains(NodeId(2)) && *message == agreed)
    });
    assert!(told, "{out:?}");
}

#[test]
fn a_replica_that_stopped_before_it_noted_its_difference_is_told_again() {
    let mut world = World::new(3);
    world.loses_outcomes = true;
    let session = world.open(2, 5);
    world.nodes[2].objects.state ^= 666;
    world.call(2, 5, id(session, 1), "a");
    world.loses_fetches = true;
    let slot = world.checkpoint(0);
    restart_from_own_snapshot(&mut world, slot, None);
    assert!(world.nodes[2].replica.status().diverged >= Some(slot));
}

#[test]
fn a_replica_that_stopped_before_it_noted_that_it_healed_finds_it_out() {
    let mut world = World::new(3);
    let session = world.open(0, 5);
    world.call(0, 5, id(session, 1), "a");
    let slot = world.checkpoint(0);
    let digest = |replicated| Digest {
        replicated,
        state: [0; 32],
    };
    let stale = Quarantine::Diverged {
        slot: slot.previous(),
        own: digest(1),
        agreed: digest(2),
    };
    world.loses_fetches = true;
    restart_from_own_snapshot(&mut world, slot, Some(stale));
    let status = world.nodes[2].replica.status();
    assert_eq!((status.diverged, status.healed), (None, Some(slot)));
    assert!(status.is_serving);
}

/// Claim rp-26.
#[test]
fn frozen_objects_stay_frozen_over_a_restart() {
    let mut world = World::new(3);
    world.loses_outcomes = true;
    let session = world.open(0, 5);
    world.nodes[1].objects.state = 1;
    world.nodes[2].objects.state = 2;
    world.call(0, 5, id(session, 1), "a");
    world.say(0, 5, FromClient::Checkpoint { request: 1 });
    let slot = world.nodes[2].replica.status().frozen.expect("none agree");
    let frozen = Quarantine::Frozen { slot };
    assert!(world.seen.contains(&(2, Output::Quarantined(frozen))));
    restart_from_own_snapshot(&mut world, slot, Some(frozen));
    let status = world.nodes[2].replica.status();
    assert_eq!(status.frozen, Some(slot));
    assert!(!status.is_serving);
}

/// Whether node 3 tells that a snapshot is agreed when `from` reports it.
fn is_judged(world: &mut World, from: u16, slot: Slot) -> bool {
    let digest = Digest {
        replicated: 7,
        state: [7; 32],
    };
    let bytes = 100;
    let message = PeerMessage::Replica(ReplicaMessage::Durable {
        slot,
        digest,
        bytes,
    });
    let (from, link) = (NodeId(from), LinkEpoch(1));
    let input = Input::Peer {
        from,
        link,
        message,
    };
    let mut out = Vec::new();
    world.nodes[3].replica.handle(world.now, input, &mut out);
    let agreed = ReplicaMessage::Agreed { slot, digest };
    let is_told = |output: &Output<u32>| matches!(output, Output::Send { message: PeerMessage::Replica(told), .. } if *told == agreed);
    out.iter().any(is_told)
}

/// Claim rp-24.
#[test]
fn a_snapshot_is_not_judged_at_a_slot_whose_members_may_be_others() {
    let mut world = World::new(4);
    let applied = world.nodes[3].replica.status().applied;
    let known = applied.plus(WINDOW);
    for slot in [known, known.next()] {
        assert!(!is_judged(&mut world, 0, slot) && !is_judged(&mut world, 1, slot));
        assert_eq!(is_judged(&mut world, 2, slot), slot == known, "{slot}");
    }
}

/// Claim rp-24.
#[test]
fn a_snapshot_is_judged_by_the_view_of_its_slot() {
    let mut world = World::new(4);
    let decided = world.decide(vec![meta(Body::ChangeView {
        first: None,
        change: change(1, &[0, 1, 3]),
        who: Box::new(MemberChange::Leaves(NodeId(2))),
    })]);
    world.run();
    let first = decided.plus(WINDOW);
    for slot in [first.previous(), first] {
        assert!(!is_judged(&mut world, 0, slot));
        assert_eq!(
            is_judged(&mut world, 1, slot),
            slot == first,
            "two of three"
        );
    }
}
