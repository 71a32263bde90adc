//! Views that change while the group runs: from which slot on, whom it is told, and what becomes of messages of other views.

use crate::world::{World, config, meta};
use quorate_ordering::{Effect, Lane, Ordering, Standing, ViewPast};
use quorate_replica::{
    Input, Output, PeerMessage, Recovered, Remembered, Replica, ReplicaMessage, Snapshots,
    ViewPasts,
};
use quorate_types::{
    Ask, Body, Duration, FromClient, GroupId, Incarnation, LinkEpoch, MemberChange, NodeId,
    NodeSet, Persistence, Quorums, Refusal, SessionTerms, Slot, ToClient, ViewChange, ViewId,
    ViewNumber,
};
use std::collections::BTreeMap;

/// ω of the views here.
pub(crate) const WINDOW: u64 = 4;

pub(crate) fn world() -> World {
    World::with(3, |config| config.view.window = WINDOW)
}

/// The change of view `after` to one in which only these nodes vote.
pub(crate) fn change(after: u64, acceptors: &[u16]) -> ViewChange {
    ViewChange {
        after: ViewNumber(after),
        acceptors: acceptors.iter().copied().map(NodeId).collect(),
        window: WINDOW,
    }
}

pub(crate) fn ask(world: &mut World, at: usize, from: u64, change: ViewChange) {
    let request = from;
    world.say(
        at,
        from,
        FromClient::ChangeView {
            request,
            change,
            leaves: None,
        },
    );
}

pub(crate) fn refusal(world: &mut World, to: u64) -> Option<Refusal> {
    match world.take_told(to).pop()? {
        ToClient::Refused {
            ask: Ask::Request(_),
            refusal,
        } => Some(refusal),
        other => panic!("no refusal: {other:?}"),
    }
}

pub(crate) fn fill(world: &mut World, slots: u64) -> Slot {
    for _ in 0..slots {
        world.decide(Vec::new());
    }
    world.shared.borrow().last()
}

pub(crate) fn view_of(world: &World, at: usize) -> (u64, Slot, NodeSet) {
    let view = world.nodes[at].replica.view();
    (view.number.0, view.first_slot, view.acceptors)
}

/// Takes the group to view 2, in which node 0 votes alone; returns its first slot.
fn turned() -> (World, Slot) {
    let mut world = world();
    let slot = world.decide(vec![meta(Body::ChangeView {
        first: None,
        change: change(1, &[0]),
        who: Box::new(MemberChange::Same),
    })]);
    fill(&mut world, WINDOW);
    (world, slot.plus(WINDOW))
}

/// Claim rp-97.
#[test]
fn a_change_is_in_force_a_window_after_its_slot_and_not_before() {
    let mut world = world();
    fill(&mut world, 3);
    ask(&mut world, 0, 50, change(1, &[0]));
    let slot = world.shared.borrow().last();
    let first = slot.plus(WINDOW);
    for _ in 1..WINDOW {
        for at in 0..3 {
            assert_eq!(view_of(&world, at).0, 1);
        }
        assert_eq!(world.take_told(50), []);
        fill(&mut world, 1);
    }
    let voter: NodeSet = [NodeId(0)].into_iter().collect();
    for at in 0..3 {
        assert_eq!(view_of(&world, at), (2, first, voter), "node {at}");
        let closed = (at, ViewNumber(1), first.previous());
        assert!(
            world.shared.borrow().closed.contains(&closed),
            "the old view's instance at {at} knows where it ends"
        );
    }
    let told = ToClient::Checkpointed {
        request: 50,
        slot: first,
    };
    assert_eq!(world.take_told(50), [told]);
}

/// Claim rp-97.
#[test]
fn of_two_changes_the_first_counts_and_the_same_one_asked_twice_is_answered_twice() {
    let mut world = world();
    ask(&mut world, 0, 50, change(1, &[0]));
    let first = world.shared.borrow().last().plus(WINDOW);
    ask(&mut world, 0, 51, change(1, &[0, 1]));
    assert_eq!(refusal(&mut world, 51), Some(Refusal::ViewConflict));
    // It lost its answer, or asks another node.
    ask(&mut world, 0, 50, change(1, &[0]));
    ask(&mut world, 1, 52, change(1, &[0]));
    let late = world.decide(vec![meta(Body::ChangeView {
        first: None,
        change: change(1, &[0, 1, 2]),
        who: Box::new(MemberChange::Same),
    })]);
    assert!(late < first, "it is decided before the first one's view");
    fill(&mut world, WINDOW);
    assert_eq!(view_of(&world, 2).0, 2);
    for to in [50, 52] {
        let told = ToClient::Checkpointed {
            request: to,
            slot: first,
        };
        assert_eq!(world.take_told(to), [told]);
    }
    ask(&mut world, 1, 53, change(1, &[0]));
    assert_eq!(world.take_told(53).len(), 1, "it is in force");
    ask(&mut world, 1, 54, change(1, &[0, 2]));
    assert_eq!(refusal(&mut world, 54), Some(Refusal::ViewConflict));
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut world = world();
    let cases = [
        (change(1, &[7]), Refusal::NoSuchView),
        (change(1, &[]), Refusal::NoSuchView),
        (
            ViewChange {
                window: 0,
                ..change(1, &[0])
            },
            Refusal::NoSuchView,
        ),
        (change(2, &[0]), Refusal::ViewConflict),
        (change(0, &[0]), Refusal::ViewConflict),
        // None of them is linked to the node that is asked.
        (change(1, &[1, 2]), Refusal::ViewNotReady),
    ];
    for (to, (change, expected)) in (50..).zip(cases) {
        ask(&mut world, 0, to, change);
        assert_eq!(refusal(&mut world, to), Some(expected), "{change:?}");
    }
    fill(&mut world, 2 * WINDOW);
    assert_eq!(view_of(&world, 0).0, 1);
    let mut world = World::with(3, |config| config.snapshots = Snapshots::Disabled);
    ask(&mut world, 0, 50, change(1, &[0]));
    assert_eq!(refusal(&mut world, 50), Some(Refusal::NoSnapshots));
}

/// Claim rp-101.
#[test]
fn a_change_of_acceptors_ends_no_session_of_a_client_that_was_heard_before() {
    let expiry = Duration::from_millis(6_000);
    let mut world = World::with(3, |config| {
        config.view.window = WINDOW;
        config.view.acceptors = [NodeId(0)].into_iter().collect();
        config.view.quorums = Quorums::majority(1).unwrap();
    });
    world.terms = SessionTerms::expiring_after(expiry);
    world.is_led = true;
    world.pass(Duration::from_millis(600));
    let session = world.open(0, 10);
    world.pass(Duration::from_millis(5_500));
    world.say(0, 10, FromClient::KeepAlive { session });
    assert!(
        world
            .take_told(10)
            .contains(&ToClient::KeptAlive { session })
    );
    // Only node 0 has noted that.
    ask(&mut world, 1, 50, change(1, &[1]));
    fill(&mut world, WINDOW);
    world.lead(1);
    let open = |world: &World| world.nodes[1].replica.status().sessions;
    for _ in 0..30 {
        world.pass(Duration::from_millis(100));
    }
    assert_eq!(open(&world), 1, "it was heard three seconds ago");
    for _ in 0..60 {
        world.pass(Duration::from_millis(100));
    }
    assert_eq!(open(&world), 0, "it ends when its time is over");
}

/// Its instance begins without knowing of any.
#[test]
fn the_orderers_of_a_further_view_are_told_that_there_are_sessions() {
    let mut world = world();
    world.open(0, 10);
    let all: Vec<_> = [0, 1, 2].map(|at| (at, true)).into();
    for after in 1..=2 {
        world.pass(Duration::from_millis(100));
        let mut told = std::mem::take(&mut world.shared.borrow_mut().attended);
        told.sort_unstable();
        assert_eq!(told, all, "in view {after}");
        ask(&mut world, 0, 50, change(after, &[0]));
        fill(&mut world, WINDOW);
    }
}

fn view(number: u64) -> ViewId {
    ViewId {
        group: GroupId::default(),
        number: ViewNumber(number),
    }
}

/// What node 0 says in a view.
pub(crate) fn of_view(number: u64, message: u32) -> Input<u32> {
    Input::Peer {
        from: NodeId(0),
        link: LinkEpoch(1),
        message: PeerMessage::Ordering {
            view: view(number),
            message,
        },
    }
}

/// Claim rp-98.
#[test]
fn a_message_of_a_later_view_waits_for_it_and_one_of_a_gone_view_is_answered() {
    let mut world = world();
    world.input(2, of_view(2, 77));
    world.run();
    assert_eq!(world.shared.borrow().received, []);
    ask(&mut world, 0, 50, change(1, &[0]));
    fill(&mut world, WINDOW);
    let received = (2, ViewNumber(2), 77);
    assert_eq!(world.shared.borrow().received, [received]);
    let mut out = Vec::new();
    let now = world.now;
    world.nodes[2].replica.handle(now, of_view(0, 78), &mut out);
    let is_answer = |output: &Output<u32>| {
        matches!(output, Output::Send { to, lane: Lane::Bulk, message: PeerMessage::Ordering { view: told, .. } }
            if *to == NodeSet::only(NodeId(0)) && *told == view(0))
    };
    assert!(
        out.iter().any(is_answer),
        "who is in a view that is gone is told how far it is gone"
    );
}

/// Claim rp-99.
#[test]
fn a_snapshot_has_the_view_in_force_and_the_one_that_follows() {
    let (mut world, first) = turned();
    let voters: NodeSet = [NodeId(0)].into_iter().collect();
    world.shared.borrow_mut().deaf.insert(2);
    world.decide(vec![meta(Body::ChangeView {
        first: None,
        change: change(2, &[0, 1]),
        who: Box::new(MemberChange::Same),
    })]);
    let slot = world.checkpoint(0);
    let taken = world.nodes[0].replica.view().clone();
    assert_eq!((taken.number.0, taken.first_slot), (2, first));
    world.shared.borrow_mut().trimmed = slot;
    world.shared.borrow_mut().deaf.remove(&2);
    fill(&mut world, 1);
    world.pass(Duration::from_millis(2_000));
    assert_eq!(view_of(&world, 2), (2, first, voters));
    let behind = world.nodes[2].replica.status().applied;
    assert!(behind > slot, "it has taken the snapshot");
    fill(&mut world, WINDOW);
    assert_eq!(view_of(&world, 2).0, 3);
    assert_eq!(view_of(&world, 2), view_of(&world, 0));
}

/// Claim rp-100.
#[test]
fn the_directory_says_that_a_view_began_only_after_the_log_says_so() {
    let mut world = World::with(3, |config| {
        config.view.window = WINDOW;
        config.view.persistence = Persistence::Disk;
    });
    world.seen.clear();
    ask(&mut world, 0, 50, change(1, &[0]));
    fill(&mut world, WINDOW);
    let of_node = world.seen.iter().filter(|(at, _)| *at == 0);
    let of_node: Vec<&Output<u32>> = of_node.map(|(_, output)| output).collect();
    let written = of_node.iter().position(|output| {
        matches!(output, Output::Persist { record, .. } if record.view.number == ViewNumber(2))
    });
    let begun = |output: &&Output<u32>| matches!(output, Output::BeginView { .. });
    let written = written.expect("the log says that the view began");
    let mark = match of_node[written] {
        Output::Persist { mark, .. } => *mark,
        _ => unreachable!(),
    };
    assert!(
        !of_node[..written].iter().any(begun),
        "the directory does not come first"
    );
    world.seen.clear();
    world.input(0, Input::Persisted { mark });
    world.run();
    let begins = |output: &Output<u32>| matches!(output, Output::BeginView { number, .. } if *number == ViewNumber(2));
    assert!(
        world
            .seen
            .iter()
            .any(|(at, output)| *at == 0 && begins(output))
    );
}

#[test]
fn the_log_of_a_view_stays_where_its_last_slot_is_in_no_snapshot() {
    let mut world = world();
    ask(&mut world, 0, 50, change(1, &[0]));
    fill(&mut world, WINDOW - 3);
    let slot = world.decide(vec![meta(Body::Checkpoint)]);
    world.run();
    let end = fill(&mut world, 1);
    assert_eq!(end, slot.next());
    assert_eq!(
        view_of(&world, 0).1,
        end.next(),
        "the next view is in force"
    );
    let told = refused_at(&mut world, 0, 60);
    assert_eq!(
        told,
        Some(Refusal::ViewConflict),
        "the snapshot ends before"
    );
}

/// What a node refuses a change with that only it refuses: the others are not linked to it.
fn refused_at(world: &mut World, at: usize, to: u64) -> Option<Refusal> {
    ask(world, at, to, change(2, &[0, 1, 2]));
    refusal(world, to)
}

#[test]
fn a_leader_asks_for_the_snapshot_that_ends_a_view_until_there_is_one() {
    let (mut world, _) = turned();
    assert_eq!(
        refused_at(&mut world, 0, 60),
        Some(Refusal::ViewConflict),
        "nobody has a snapshot of the view before"
    );
    // Whoever led at the turn is gone.
    world.lead(1);
    world.pass(Duration::from_millis(3_000));
    for at in 0..3 {
        let told = refused_at(&mut world, at, 61 + at as u64);
        assert_eq!(told, Some(Refusal::ViewNotReady), "node {at}");
    }
}

/// View 2 begins while node 2 hears nothing but a message of view `early`, and takes a snapshot of view 2 later.
fn behind_at_the_turn(early: Option<u64>) -> World {
    let mut world = world();
    world.shared.borrow_mut().deaf.insert(2);
    world.decide(vec![meta(Body::ChangeView {
        first: None,
        change: change(1, &[0]),
        who: Box::new(MemberChange::Same),
    })]);
    fill(&mut world, WINDOW);
    let slot = world.checkpoint(0);
    if let Some(early) = early {
        world.input(2, of_view(early, 77));
        world.run();
    }
    world.shared.borrow_mut().trimmed = slot;
    world.shared.borrow_mut().deaf.remove(&2);
    fill(&mut world, 1);
    world.pass(Duration::from_millis(5_000));
    assert_eq!(view_of(&world, 2).0, 2);
    world
}

/// Else it asks for ever for a slot that is not decided, and does not come back while it thinks that it is behind.
#[test]
fn a_snapshot_of_the_view_that_a_node_was_told_of_leaves_nothing_to_ask_for() {
    let in_new_view = (2, ViewNumber(2));
    for (early, is_asking) in [(None, false), (Some(2), false), (Some(3), true)] {
        let world = behind_at_the_turn(early);
        let passed = world.shared.borrow().passed.contains(&in_new_view);
        assert_eq!(passed, is_asking, "told of view {early:?}");
    }
}

#[test]
fn a_node_that_was_behind_at_the_turn_takes_the_next_change() {
    let mut world = behind_at_the_turn(None);
    let told = refused_at(&mut world, 2, 70);
    assert_eq!(told, Some(Refusal::ViewNotReady));
}

#[test]
fn a_node_that_lost_votes_makes_no_majority_of_a_new_view() {
    let mut world = world();
    let wall = world.right_wall();
    let told = |link, votes| {
        let message = PeerMessage::Replica(ReplicaMessage::Clock { wall, votes });
        let (from, link) = (NodeId(1), LinkEpoch(link));
        Input::Peer {
            from,
            link,
            message,
        }
    };
    world.shared.borrow_mut().linked = vec![1, 2];
    // The second word is one of its life before, and comes late.
    world.link_up(0, 1);
    for (link, votes) in [(2, false), (1, true)] {
        world.input(0, told(link, votes));
        world.run();
        ask(&mut world, 0, 50, change(1, &[0, 1]));
        assert_eq!(refusal(&mut world, 50), Some(Refusal::ViewNotReady));
    }
    world.input(0, told(2, true));
    world.run();
    ask(&mut world, 0, 51, change(1, &[0, 1]));
    assert_eq!(
        world.take_told(51),
        [],
        "it is decided, and not yet in force"
    );
    fill(&mut world, WINDOW);
    assert_eq!(view_of(&world, 0).0, 2);
}

/// Claim rp-100.
#[test]
fn a_start_from_a_snapshot_of_a_view_that_the_directory_does_not_name_notes_the_view() {
    let (mut world, _) = turned();
    world.checkpoint(0);
    let mut taken = world.seen.iter().rev();
    let core = taken.find_map(|(at, output)| match output {
        Output::FinishSnapshot { core, .. } if *at == 0 => Some(core.clone()),
        _ => None,
    });
    let core = *core.expect("a snapshot is taken");
    for (persistence, standing) in [
        (Persistence::Disk, Standing::Voter),
        (Persistence::Memory, Standing::Observer),
    ] {
        let mut config = config(3, 0);
        (config.boot, config.view.persistence) = (2, persistence);
        config.incarnation = (config.incarnation).filter(|_| standing == Standing::Voter);
        config.fresh = Incarnation(77);
        let view = core.view.configured(&config.view);
        let remembered = Remembered {
            snapshot: Some(Recovered {
                core: core.clone(),
                digest: [0; 32],
                bytes: 1,
                due: None,
            }),
            views: ViewPasts {
                begun: ViewNumber(1),
                records: BTreeMap::from([(ViewNumber(1), Vec::new())]),
                is_damaged: false,
            },
            ..Remembered::default()
        };
        let ordering = world.nodes[0].replica.ordering();
        let ordering = ordering.of_view(world.now, view, Standing::Voter, ViewPast::None);
        world.shared.borrow_mut().closed.clear();
        let (_, outputs) = Replica::new(config, ordering, remembered, world.now);
        let notes = |output: &Output<u32>| match output {
            Output::BeginView { number, .. } => *number == ViewNumber(2),
            Output::Persist { record, .. } => record.view.number == ViewNumber(2),
            _ => false,
        };
        assert!(outputs.iter().any(notes), "{persistence:?}");
        let (closed, last) = (
            &world.shared.borrow().closed,
            core.view.first_slot.previous(),
        );
        assert_eq!(
            closed.last(),
            Some(&(0, ViewNumber(1), last)),
            "of the view before it has votes: that one is over, and nobody leads there"
        );
        let standings = &world.shared.borrow().standings;
        let before = standings.get(&(0, ViewNumber(1)));
        assert_eq!(before, Some(&standing), "what it lost it votes for nowhere");
    }
}

/// A leader that is behind may not know that its view has ended, and that others order in the next one. Claim rp-143.
#[test]
fn what_the_leader_of_a_view_vouches_for_at_its_end_is_no_word_of_the_next_one() {
    let mut world = world();
    fill(&mut world, 3);
    ask(&mut world, 0, 50, change(1, &[0]));
    let last = world.shared.borrow().last().plus(WINDOW).previous();
    let known_at = world.now;
    for slot in [last.previous(), last] {
        let at = world.now;
        world.effect(1, Effect::Current { slot, at });
        world.pass(Duration::from_millis(1));
    }
    fill(&mut world, WINDOW + 3);
    assert_eq!(view_of(&world, 1).0, 2);
    let status = world.nodes[1].replica.status();
    assert!(status.executed > last);
    assert_eq!(
        status.current_at,
        Some(known_at),
        "of the slot before the last one"
    );
}

/// Nor is it where a snapshot brings the replica past a whole view. Claim rp-143.
#[test]
fn what_a_leader_vouched_for_two_views_before_is_no_word_of_a_later_one() {
    let mut world = world();
    world.shared.borrow_mut().deaf.insert(2);
    for after in [1, 2] {
        ask(&mut world, 0, 50 + after, change(after, &[0]));
        fill(&mut world, WINDOW + 1);
        world.checkpoint(0);
    }
    let slot = world.shared.borrow().last();
    let vouched = Effect::Current {
        slot: Slot(2),
        at: world.now,
    };
    world.effect(2, vouched);
    world.shared.borrow_mut().trimmed = slot;
    world.shared.borrow_mut().deaf.clear();
    world.effect(2, Effect::NeedSnapshot { upto: slot });
    world.run();
    assert_eq!(view_of(&world, 2).0, 3);
    assert_eq!(world.nodes[2].replica.status().current_at, None);
}
