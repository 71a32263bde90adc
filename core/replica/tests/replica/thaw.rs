//! The end of a reset: what the log alone tells a start, who may answer before it, and what a repeated or late request does.

use crate::reset::{ask, assert_all_go_on_from, frozen, held, reset};
use crate::views::change;
use crate::world::{Objects, World, id, meta, refused, view};
use quorate_ordering::{Effect, Entry, Mark, Record};
use quorate_replica::{Input, Output, Quarantine, Remembered, ReplicaConfig, limits};
use quorate_types::{
    Ask, Ballot, Body, Command, Digest, Duration, MemberChange, NodeId, Persistence, Refusal,
    SessionId, Slot, ToClient,
};

/// All nodes start again, with their snapshots at these slots and notes.
fn restart_all(world: &mut World, starts: [(Slot, Option<Quarantine>); 3]) {
    let nodes = std::mem::take(&mut world.nodes);
    for (at, (slot, quarantine)) in starts.into_iter().enumerate() {
        let image = &nodes[at].objects.images[&slot];
        let remembered = Remembered {
            snapshot: Some(image.recovered()),
            quarantine,
            ..Remembered::default()
        };
        let config = ReplicaConfig::new(NodeId(at as u16), 2, view(3));
        world.add_remembering(config, remembered, Objects::restored(image));
    }
    world.lead(0);
    for at in 1..3 {
        world.follow(at, 0);
    }
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        world.link_up(one, other);
        world.link_up(other, one);
    }
    world.pass(Duration::from_millis(2_500));
}

/// Claim rp-53.
#[test]
fn after_all_have_stopped_the_log_alone_tells_what_an_operator_chose() {
    for from in 0..3 {
        let (mut world, session, slot) = frozen();
        let state = world.nodes[from].objects.state;
        reset(&mut world, 0, from);
        let noted = Some(Quarantine::Frozen { slot });
        restart_all(&mut world, [(slot, noted); 3]);
        assert_all_go_on_from(&mut world, session, state);
    }
}

/// Claim rp-52.
#[test]
fn a_start_at_the_reset_answers_only_once_the_log_has_told_it_the_end() {
    let (mut world, session, _) = frozen();
    let state = world.nodes[1].objects.state;
    let at = reset(&mut world, 0, 1);
    world.shared.borrow_mut().deaf.extend([0, 1, 2]);
    restart_all(&mut world, [(at, None); 3]);
    for node in 0..3 {
        let status = world.nodes[node].replica.status();
        assert_eq!(status.reset, Some(at), "n{node}");
        world.call(node, 7, id(session, 2), "b");
        let ask = Ask::Call(id(session, 2));
        assert_eq!(world.take_told(7), [refused(ask, Refusal::NotServing)]);
    }
    world.shared.borrow_mut().deaf.clear();
    world.pass(Duration::from_millis(2_500));
    assert_all_go_on_from(&mut world, session, state);
}

/// Claim rp-52.
#[test]
fn who_knew_of_no_freeze_and_installs_what_was_chosen_waits_for_the_end() {
    let (mut world, session, slot) = frozen();
    let state = world.nodes[0].objects.state;
    let at = reset(&mut world, 0, 0);
    // It starts with what it had before the freeze, which nobody has noted, and its peers have trimmed all up to the reset.
    let image = world.nodes[2].objects.images[&slot].clone();
    assert!(slot < at);
    world.nodes.truncate(2);
    world.shared.borrow_mut().trimmed = at;
    world.shared.borrow_mut().deaf.insert(2);
    let remembered = Remembered {
        snapshot: Some(image.recovered()),
        ..Remembered::default()
    };
    let config = ReplicaConfig::new(NodeId(2), 2, view(3));
    world.add_remembering(config, remembered, Objects::restored(&image));
    world.follow(2, 0);
    world.link_up(0, 2);
    world.link_up(1, 2);
    world.link_up(2, 0);
    world.effect(2, Effect::NeedSnapshot { upto: at });
    world.pass(Duration::from_millis(2_500));
    let status = world.nodes[2].replica.status();
    assert_eq!((status.applied, status.reset), (at, Some(at)), "{status:?}");
    assert!(!status.is_serving);
    world.shared.borrow_mut().deaf.clear();
    world.pass(Duration::from_millis(2_500));
    assert_all_go_on_from(&mut world, session, state);
}

/// Claim rp-51.
#[test]
fn a_request_that_is_sent_again_after_the_end_is_told_what_it_did() {
    let (mut world, _, _) = frozen();
    let named = held(&world, 2);
    let slot = reset(&mut world, 0, 2);
    for asked in 0..3 {
        world.say(asked, 77, ask(2, named));
        let told = ToClient::Checkpointed { request: 8, slot };
        assert_eq!(world.take_told(77), [told], "n{asked}");
    }
}

/// Claim rp-51.
#[test]
fn after_a_reset_that_decides_nothing_a_start_that_heard_no_reports_takes_another() {
    let (mut world, session, slot) = frozen();
    let (named, digest) = held(&world, 1);
    let state = world.nodes[1].objects.state;
    // The start that is named is gone.
    world.decide(vec![meta(Body::Reset {
        node: NodeId(1),
        boot: 9,
        slot: named,
        digest,
    })]);
    let at = held(&world, 0).0;
    assert!(at > slot);
    let noted = Some(Quarantine::Frozen { slot });
    restart_all(&mut world, [(at, noted), (slot, noted), (slot, noted)]);
    let mut request = ask(1, held(&world, 1));
    if let quorate_types::FromClient::Reset { boot, .. } = &mut request {
        *boot = 2;
    }
    world.say(2, 77, request);
    assert!(matches!(
        world.take_told(77)[..],
        [ToClient::Checkpointed { .. }]
    ));
    assert_all_go_on_from(&mut world, session, state);
}

/// Claim rp-51.
#[test]
fn a_replica_that_knows_of_a_majority_without_it_decides_nothing() {
    let (mut world, _, _) = frozen();
    let named = held(&world, 2);
    let agreed = quorate_replica::ReplicaMessage::Agreed {
        slot: named.0,
        digest: Digest {
            replicated: 1,
            state: [2; 32],
        },
    };
    world.input(
        2,
        Input::Peer {
            from: NodeId(0),
            link: quorate_types::LinkEpoch(1),
            message: quorate_replica::PeerMessage::Replica(agreed),
        },
    );
    let slot = reset(&mut world, 0, 2);
    for at in 0..3 {
        let status = world.nodes[at].replica.status();
        assert_eq!(status.reset, Some(slot), "n{at} waits for another word");
    }
}

/// Frozen nodes with logs on disks, the end of whose reset in the slot that is returned is not on disk yet.
fn thawed_on_disk() -> (World, SessionId, Slot) {
    let (mut world, session, slot) = frozen();
    let noted = Some(Quarantine::Frozen { slot });
    let nodes = std::mem::take(&mut world.nodes);
    for (at, node) in nodes.iter().enumerate() {
        let image = &node.objects.images[&slot];
        let remembered = Remembered {
            snapshot: Some(image.recovered()),
            quarantine: noted,
            ..Remembered::default()
        };
        let mut view = view(3);
        view.persistence = Persistence::Disk;
        let config = ReplicaConfig::new(NodeId(at as u16), 1, view);
        world.add_remembering(config, remembered, Objects::restored(image));
    }
    world.lead(0);
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        world.link_up(one, other);
        world.link_up(other, one);
    }
    let at = reset(&mut world, 0, 0);
    world.pass(Duration::from_millis(2_500));
    assert_eq!(world.nodes[1].replica.status().frozen, None);
    assert!(!world.seen.contains(&(1, Output::Healed { slot: at })));
    (world, session, at)
}

fn record(entry: Entry) -> Record {
    let view = quorate_types::ViewId {
        group: quorate_types::GroupId(1),
        number: quorate_types::ViewNumber(1),
    };
    Record { view, entry }
}

/// The log of node `at` is told to begin with the snapshot at `slot`.
fn tell_log(world: &mut World, at: usize, slot: Slot) {
    let digest = Digest::default();
    let base = vec![record(Entry::Agreed { slot, digest })];
    world.effect(at, Effect::Discard { upto: slot, base });
    world.end_turn(at);
}

/// Node `at` writes something, and then that is on disk.
fn write(world: &mut World, at: usize) {
    let ballot = Ballot::default();
    let (mark, record) = (Mark(0), record(Entry::Promise { ballot }));
    world.effect(at, Effect::Persist { mark, record });
    world.end_turn(at);
    let written = world
        .seen
        .iter()
        .rev()
        .find_map(|(node, output)| match output {
            Output::Persist { mark, .. } if *node == at => Some(*mark),
            _ => None,
        });
    let mark = written.expect("it was written");
    world.input(at, Input::Persisted { mark });
}

/// What says that the next view has begun was written before the log was told to begin later. Claims rp-53 and rp-150.
#[test]
fn the_note_of_a_freeze_stays_while_only_what_says_that_a_view_has_begun_is_on_disk() {
    let (mut world, _, slot) = thawed_on_disk();
    let healed = (1, Output::Healed { slot });
    world.decide(vec![meta(Body::ChangeView {
        change: change(1, &[0, 1]),
        who: Box::new(MemberChange::Same),
        first: None,
    })]);
    let begun = world.seen.iter().find_map(|(at, output)| match output {
        Output::Persist { mark, record } if *at == 1 && record.view.number.0 == 2 => Some(*mark),
        _ => None,
    });
    let mark = begun.expect("its log says that it takes part in the view");
    tell_log(&mut world, 1, slot);
    world.input(1, Input::Persisted { mark });
    assert!(!world.seen.contains(&healed), "it begins where it did");
    write(&mut world, 1);
    assert!(world.seen.contains(&healed));
}

/// Claim rp-53.
#[test]
fn the_note_of_a_freeze_stays_until_what_replaces_it_is_on_disk() {
    let (mut world, _, slot) = thawed_on_disk();
    let healed = (1, Output::Healed { slot });
    write(&mut world, 1);
    assert!(
        !world.seen.contains(&healed),
        "a damaged log keeps its begin"
    );
    tell_log(&mut world, 1, slot.previous());
    write(&mut world, 1);
    assert!(!world.seen.contains(&healed), "that is an earlier snapshot");
    tell_log(&mut world, 1, slot);
    assert!(!world.seen.contains(&healed), "that is not on disk");
    write(&mut world, 1);
    assert!(world.seen.contains(&healed));
}

/// Claim rp-53.
#[test]
fn the_note_of_a_freeze_stays_when_that_of_an_earlier_one_may_go() {
    let (mut world, session, _) = thawed_on_disk();
    for at in 0..3 {
        world.nodes[at].objects.state = at as u64;
    }
    world.call(0, 6, id(session, 9), "c");
    let slot = world.checkpoint(0);
    let quarantine = Quarantine::Frozen { slot };
    for at in 0..3 {
        let noted = (at, Output::Quarantined(quarantine));
        assert!(world.seen.contains(&noted), "n{at}");
    }
    world.seen.clear();
    tell_log(&mut world, 1, slot);
    write(&mut world, 1);
    world.pass(Duration::from_millis(2_500));
    assert_eq!(world.nodes[1].replica.status().frozen, Some(slot));
    let forgotten = |(_, output): &(usize, _)| matches!(output, Output::Healed { .. });
    assert!(!world.seen.iter().any(forgotten), "{:?}", world.seen);
}

/// Frozen nodes that a reset in the first slot helped, and that were frozen again in the second.
fn frozen_twice() -> (World, SessionId, Slot, Slot) {
    let (mut world, session, _) = frozen();
    let at = reset(&mut world, 0, 0);
    for at in 0..3 {
        world.nodes[at].objects.state = at as u64;
    }
    world.call(0, 6, id(session, 9), "c");
    let again = world.checkpoint(0);
    for at in 0..3 {
        assert_eq!(world.nodes[at].replica.status().frozen, Some(again));
    }
    (world, session, at, again)
}

/// Claim rp-53.
#[test]
fn a_start_at_or_before_a_reset_does_not_forget_a_freeze_after_it() {
    for is_before in [false, true] {
        let (mut world, session, at, again) = frozen_twice();
        let mut images = world.nodes[0].objects.images.keys().copied();
        let begin = match is_before {
            true => images.find(|slot| *slot < at).expect("of the first freeze"),
            false => at,
        };
        let noted = Some(Quarantine::Frozen { slot: again });
        world.seen.clear();
        restart_all(&mut world, [(begin, noted); 3]);
        for node in 0..3 {
            let status = world.nodes[node].replica.status();
            assert_eq!((status.frozen, status.reset), (Some(again), None));
            assert!(!status.is_serving, "n{node}");
            let is_other = |(n, output): &(usize, Output<u32>)| {
                let noted = Output::Quarantined(Quarantine::Frozen { slot: again });
                *n == node && matches!(output, Output::Quarantined(_)) && *output != noted
            };
            assert!(!world.seen.iter().any(is_other), "n{node} notes another");
        }
        world.checkpoint(0);
        let state = world.nodes[1].objects.state;
        let mut request = ask(1, held(&world, 1));
        if let quorate_types::FromClient::Reset { boot, .. } = &mut request {
            *boot = 2;
        }
        world.say(2, 77, request);
        world.pass(Duration::from_millis(2_500));
        assert_all_go_on_from(&mut world, session, state);
    }
}

/// Claim rp-53.
#[test]
fn a_start_at_a_reset_does_not_forget_that_it_differed_after_it() {
    let (mut world, session, _) = frozen();
    let at = reset(&mut world, 0, 0);
    world.call(0, 6, id(session, 9), "c");
    let image = world.nodes[2].objects.images[&at].clone();
    let (own, agreed) = (Digest::default(), Digest::default());
    let slot = at.next();
    world.nodes.truncate(2);
    let remembered = Remembered {
        snapshot: Some(image.recovered()),
        quarantine: Some(Quarantine::Diverged { slot, own, agreed }),
        ..Remembered::default()
    };
    world.seen.clear();
    world.loses_fetches = true;
    let config = ReplicaConfig::new(NodeId(2), 2, view(3));
    world.add_remembering(config, remembered, Objects::restored(&image));
    world.follow(2, 0);
    world.pass(Duration::from_millis(2_500));
    let status = world.nodes[2].replica.status();
    assert_eq!((status.diverged, status.reset), (Some(slot), None));
    let notes = |(n, output): &(usize, Output<u32>)| {
        *n == 2 && matches!(output, Output::Quarantined(_) | Output::Healed { .. })
    };
    assert!(!world.seen.iter().any(notes), "its note stays");
    world.loses_fetches = false;
    for _ in 0..3 {
        world.pass(Duration::from_millis(5_000));
    }
    let state = world.nodes[0].objects.state;
    assert_all_go_on_from(&mut world, session, state);
}

/// Claim rp-53.
#[test]
fn who_comes_through_a_reset_late_is_frozen_where_the_others_were_frozen_after_it() {
    let mut world = World::new(5);
    world.loses_outcomes = true;
    let session = world.open(0, 5);
    for at in 0..5 {
        world.nodes[at].objects.state = at as u64;
    }
    world.call(0, 5, id(session, 1), "a");
    world.checkpoint(0);
    world.nodes[4].is_cut = true;
    let at = reset(&mut world, 0, 0);
    for node in 0..4 {
        world.nodes[node].objects.state = node as u64;
    }
    world.call(0, 6, id(session, 9), "c");
    let again = world.checkpoint(0);
    assert_eq!(world.nodes[0].replica.status().frozen, Some(again));
    assert_eq!(world.nodes[4].replica.status().reset, Some(at));
    world.nodes[4].is_cut = false;
    for peer in 0..4 {
        world.link_up(peer, 4);
        world.link_up(4, peer);
    }
    world.pass(Duration::from_millis(2_500));
    let status = world.nodes[4].replica.status();
    assert_eq!((status.frozen, status.reset), (Some(again), None));
    let noted = Output::Quarantined(Quarantine::Frozen { slot: again });
    assert!(world.seen.contains(&(4, noted)));
}

/// An operator has chosen the state of node 0, and that a majority holds it is submitted and not decided: returns that command.
fn reset_without_end(world: &mut World) -> (Slot, Command) {
    world.shared.borrow_mut().holds_submissions = true;
    world.say(0, 77, ask(0, held(world, 0)));
    decide_submitted(world, |body| matches!(body, Body::Reset { .. }));
    let slot = world.shared.borrow().last();
    let mut shared = world.shared.borrow_mut();
    let mut submitted = shared.submitted.iter().map(|(_, command)| command);
    let thaw = submitted.find(|command| matches!(command.body, Body::Thaw { .. }));
    let thaw = thaw.expect("a majority holds what was chosen").clone();
    shared.submitted.clear();
    (slot, thaw)
}

/// Decides what nodes have submitted of this kind.
fn decide_submitted(world: &mut World, is_meant: impl Fn(&Body) -> bool) {
    let submitted = std::mem::take(&mut world.shared.borrow_mut().submitted);
    let commands = submitted.into_iter().map(|(_, command)| command);
    let commands: Vec<Command> = commands.filter(|command| is_meant(&command.body)).collect();
    assert!(!commands.is_empty());
    world.decide(commands);
}

/// Claim rp-52.
#[test]
fn who_takes_over_a_later_state_when_it_learns_the_end_of_a_reset_answers_after_that() {
    let mut world = World::new(4);
    world.loses_outcomes = true;
    let session = world.open(0, 5);
    for at in 0..4 {
        world.nodes[at].objects.state = at as u64 % 2;
    }
    world.call(0, 5, id(session, 1), "a");
    world.checkpoint(0);
    // It holds what is chosen, and hears nothing of that.
    world.nodes[2].is_cut = true;
    let (slot, thaw) = reset_without_end(&mut world);
    world.shared.borrow_mut().deaf.insert(2);
    world.shared.borrow_mut().holds_submissions = false;
    world.decide(vec![thaw]);
    world.call(0, 6, id(session, 9), "c");
    let later = world.checkpoint(0);
    assert_eq!(world.nodes[0].replica.status().stable, later);
    world.nodes[2].objects.answers_left = Some(0);
    world.nodes[2].is_cut = false;
    for peer in [0, 1, 3] {
        world.link_up(peer, 2);
        world.link_up(2, peer);
    }
    world.pass(Duration::from_millis(1_500));
    let state = world.nodes[0].objects.state;
    assert_eq!(world.nodes[2].objects.state, state, "it is being restored");
    world.shared.borrow_mut().deaf.remove(&2);
    world.run();
    let status = world.nodes[2].replica.status();
    assert_eq!((status.reset, status.is_serving), (Some(slot), false));
    world.nodes[2].objects.answers_left = None;
    world.run();
    assert_all_go_on_from(&mut world, session, state);
}

/// Claim rp-52.
#[test]
fn who_waits_for_a_survivors_state_at_the_end_of_a_reset_gets_it_after_that() {
    let (mut world, session, frozen) = frozen();
    let (_, thaw) = reset_without_end(&mut world);
    world.loses_fetches = true;
    let died = Slot(frozen.0 - 1);
    world.nodes[1].objects.dies_again(died, 0);
    world.run();
    decide_submitted(&mut world, |body| matches!(body, Body::Died { .. }));
    decide_submitted(&mut world, |body| matches!(body, Body::Survived { .. }));
    world.shared.borrow_mut().holds_submissions = false;
    world.decide(vec![thaw]);
    assert_eq!(world.nodes[1].replica.status().reset, None);
    for sequence in 8..10 {
        world.call(0, 6, id(session, sequence), "c");
    }
    world.loses_fetches = false;
    for _ in 0..4 {
        world.pass(Duration::from_millis(5_000));
    }
    let state = world.nodes[0].objects.state;
    assert_all_go_on_from(&mut world, session, state);
}

/// Claim rp-53.
#[test]
fn a_freeze_that_a_later_reset_has_ended_holds_for_nobody_who_comes_through_the_earlier_one() {
    let (mut world, session, at, again) = frozen_twice();
    let image = world.nodes[2].objects.images[&at].clone();
    world.nodes.truncate(2);
    let second = reset(&mut world, 0, 0);
    assert!(second > again);
    world.call(0, 6, id(session, 10), "c");
    let later = world.checkpoint(0);
    assert_eq!(world.nodes[0].replica.status().stable, later);
    let state = world.nodes[0].objects.state;
    world.shared.borrow_mut().trimmed = later;
    let remembered = Remembered {
        snapshot: Some(image.recovered()),
        quarantine: Some(Quarantine::Frozen { slot: again }),
        ..Remembered::default()
    };
    let config = ReplicaConfig::new(NodeId(2), 2, view(3));
    world.add_remembering(config, remembered, Objects::restored(&image));
    world.follow(2, 0);
    for peer in 0..2 {
        world.link_up(peer, 2);
        world.link_up(2, peer);
    }
    for _ in 0..3 {
        world.pass(Duration::from_millis(5_000));
    }
    assert_all_go_on_from(&mut world, session, state);
}

/// A client may wait for it: no replica takes it before the end of the reset. Claim rp-142.
#[test]
fn a_snapshot_that_was_asked_for_during_a_reset_is_taken_after_its_end() {
    let (mut world, _, _) = frozen();
    let (_, thaw) = reset_without_end(&mut world);
    let asked = world.decide(vec![meta(Body::Checkpoint)]);
    world.pass(Duration::from_millis(3_000));
    let submitted = world.shared.borrow().submitted.clone();
    let mut bodies = submitted.iter().map(|(_, command)| &command.body);
    assert!(
        !bodies.any(|body| *body == Body::Checkpoint),
        "nobody would take it"
    );
    world.shared.borrow_mut().holds_submissions = false;
    world.decide(vec![thaw]);
    let last = world.shared.borrow().last();
    for _ in 0..2 {
        world.pass(limits::CHECKPOINT_AGAIN);
    }
    for (at, node) in world.nodes.iter().enumerate() {
        let status = node.replica.status();
        assert!(status.stable > asked && status.frozen.is_none(), "n{at}");
    }
    assert_eq!(world.shared.borrow().last(), last.next(), "one is enough");
    world.pass(Duration::from_millis(10_000));
    assert_eq!(world.shared.borrow().last(), last.next(), "none follows");
}
