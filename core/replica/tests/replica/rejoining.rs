//! Nodes that lost their votes: they ask for a view that names them anew, and vote in no other.

use crate::world::{World, config, meta};
use quorate_ordering::{Effect, Entry, Record, Standing};
use quorate_replica::limits::{REJOIN_EVERY, REJOIN_OF_COPY_AFTER};
use quorate_replica::{Output, Remembered, ReplicaConfig, ViewPasts};
use quorate_types::{
    Body, Command, Digest, Duration, GroupId, Incarnation, MemberChange, NodeId, Rejoin, Slot,
    ViewChange, ViewId, ViewNumber,
};

const WINDOW: u64 = 4;
const FRESH: Incarnation = Incarnation(77);

/// Node 2 has lost its votes; it has not heard of a leader.
fn world() -> World {
    let own = |config: &mut ReplicaConfig| {
        config.view.window = WINDOW;
    };
    let mut world = World::with(3, own);
    let mut lost = config(3, 2);
    own(&mut lost);
    (lost.boot, lost.incarnation, lost.fresh) = (2, None, FRESH);
    world.restart_as(2, lost);
    world
}

/// All nodes know who leads, and go on knowing it.
fn led(world: &mut World) {
    world.is_led = true;
    world.lead(0);
}

fn fill(world: &mut World, slots: u64) {
    for _ in 0..slots {
        world.decide(Vec::new());
    }
}

/// What was decided about the incarnation of a node, in order.
fn decided(world: &World) -> Vec<Rejoin> {
    let shared = world.shared.borrow();
    let commands = shared.log.iter().flat_map(|batch| batch.commands());
    let rejoins = commands.filter_map(|command| match &command.body {
        Body::ChangeView { who, .. } => match **who {
            MemberChange::Returns(rejoin) => Some(rejoin),
            _ => None,
        },
        _ => None,
    });
    rejoins.collect()
}

fn standing(world: &World, at: usize, view: u64) -> Option<Standing> {
    let standings = &world.shared.borrow().standings;
    standings.get(&(at, ViewNumber(view))).copied()
}

/// Claim rp-102.
#[test]
fn a_node_that_lost_its_votes_votes_again_from_the_view_on_that_names_it() {
    let mut world = world();
    fill(&mut world, 2);
    led(&mut world);
    world.pass(REJOIN_EVERY);
    let rejoin = Rejoin {
        node: NodeId(2),
        incarnation: FRESH,
    };
    assert_eq!(decided(&world), [rejoin], "it asks once");
    assert!(!world.nodes[2].replica.may_vote(), "not before the view");
    fill(&mut world, WINDOW);
    assert_eq!(standing(&world, 2, 2), Some(Standing::Voter));
    for node in &world.nodes {
        assert_eq!(node.replica.view().incarnation(NodeId(2)), Some(FRESH));
        assert!(node.replica.may_vote());
    }
    let back = |output: &Output<u32>| match output {
        Output::BeginView { number, back } => Some((*number, *back)),
        _ => None,
    };
    let begun = world.seen.iter().filter(|(at, _)| *at == 2);
    let begun: Vec<_> = begun.filter_map(|(_, output)| back(output)).collect();
    assert_eq!(begun.last(), Some(&(ViewNumber(2), Some(ViewNumber(2)))));
    world.pass(REJOIN_EVERY);
    world.pass(REJOIN_EVERY);
    assert_eq!(decided(&world).len(), 1, "it has nothing more to ask");
    let change = ViewChange {
        after: ViewNumber(2),
        acceptors: (0..3).map(NodeId).collect(),
        window: WINDOW + 1,
    };
    let who = MemberChange::Same;
    world.decide(vec![meta(Body::ChangeView {
        first: None,
        change,
        who: Box::new(who),
    })]);
    fill(&mut world, WINDOW);
    let begun = world.seen.iter().filter(|(at, _)| *at == 2);
    let begun: Vec<_> = begun.filter_map(|(_, output)| back(output)).collect();
    let last = begun.last();
    assert_eq!(last, Some(&(ViewNumber(3), None)), "it is told once");
}

/// Claim rp-102.
#[test]
fn a_node_that_is_behind_asks_for_nothing() {
    let mut world = world();
    world.shared.borrow_mut().deaf.insert(2);
    fill(&mut world, 2);
    led(&mut world);
    world.pass(REJOIN_EVERY);
    assert_eq!(decided(&world), []);
    world.shared.borrow_mut().deaf.remove(&2);
    fill(&mut world, 1);
    world.pass(REJOIN_EVERY);
    assert_eq!(decided(&world).len(), 1);
}

/// Claim rp-102.
#[test]
fn a_life_whose_node_is_named_as_another_one_votes_no_more_and_comes_back_as_a_new_one() {
    let mut world = world();
    world.shared.borrow_mut().deaf.insert(2);
    world.decide(Vec::new());
    led(&mut world);
    let other = Rejoin {
        node: NodeId(1),
        incarnation: Incarnation(5),
    };
    let change = ViewChange {
        after: ViewNumber(1),
        acceptors: (0..3).map(NodeId).collect(),
        window: WINDOW,
    };
    let who = MemberChange::Returns(other);
    world.decide(vec![meta(Body::ChangeView {
        first: None,
        change,
        who: Box::new(who),
    })]);
    fill(&mut world, WINDOW);
    assert_eq!(standing(&world, 0, 2), Some(Standing::Voter));
    assert_eq!(standing(&world, 1, 2), Some(Standing::Observer));
    led(&mut world);
    // The snapshot that ends the view before.
    world.pass(Duration::from_millis(3_000));
    assert_eq!(decided(&world), [other], "the other life may be running");
    world.pass(REJOIN_OF_COPY_AFTER);
    let fresh = world.nodes[1].replica.fresh();
    assert_ne!(fresh, config(3, 1).incarnation.unwrap());
    let own = Rejoin {
        node: NodeId(1),
        incarnation: fresh,
    };
    assert_eq!(decided(&world), [other, own]);
    fill(&mut world, WINDOW);
    assert_eq!(standing(&world, 1, 3), Some(Standing::Voter));
}

/// Claim rp-102.
#[test]
fn a_request_that_lost_the_race_lets_nobody_vote() {
    let mut world = world();
    world.shared.borrow_mut().holds_submissions = true;
    fill(&mut world, 1);
    led(&mut world);
    world.pass(REJOIN_EVERY);
    let asks = |(at, command): &&(usize, Command)| {
        *at == 2 && matches!(command.body, Body::ChangeView { .. })
    };
    let submitted = world.shared.borrow().submitted.clone();
    assert_eq!(submitted.iter().filter(asks).count(), 1, "it asks");
    let change = ViewChange {
        after: ViewNumber(1),
        acceptors: [NodeId(0), NodeId(2)].into_iter().collect(),
        window: WINDOW,
    };
    let who = MemberChange::Same;
    world.decide(vec![meta(Body::ChangeView {
        first: None,
        change,
        who: Box::new(who),
    })]);
    world.decide(submitted.into_iter().map(|(_, command)| command).collect());
    fill(&mut world, WINDOW);
    assert_eq!(standing(&world, 2, 2), Some(Standing::Observer));
    let view = world.nodes[0].replica.view();
    assert!(view.rejoined.is_empty(), "{view:?}");
    led(&mut world);
    world.pass(REJOIN_EVERY);
    let submitted = world.shared.borrow().submitted.clone();
    let asked = submitted.iter().filter(asks).count();
    assert_eq!(asked, 1, "no majority has the view before in a snapshot");
    world.shared.borrow_mut().holds_submissions = false;
    let checkpoints = submitted.into_iter().map(|(_, command)| command);
    world.decide(
        checkpoints
            .filter(|command| command.body == Body::Checkpoint)
            .collect(),
    );
    world.pass(REJOIN_EVERY);
    let own = Rejoin {
        node: NodeId(2),
        incarnation: FRESH,
    };
    assert_eq!(decided(&world).last(), Some(&own), "it asks again");
    fill(&mut world, WINDOW);
    assert_eq!(standing(&world, 2, 3), Some(Standing::Voter));
}

/// Node 2 removes records for an agreed snapshot of `view`, or for none. Returns whether that repairs its log.
fn repairs(world: &mut World, view: Option<u64>) -> bool {
    let record = |number| Record {
        view: ViewId {
            group: GroupId::default(),
            number: ViewNumber(number),
        },
        entry: Entry::Agreed {
            slot: Slot(1),
            digest: Digest {
                replicated: 1,
                state: [1; 32],
            },
        },
    };
    let base = view.map(record).into_iter().collect();
    world.seen.clear();
    let upto = Slot(1);
    world.effect(2, Effect::Discard { upto, base });
    let told = (2, Output::Repaired);
    world.seen.contains(&told)
}

/// Claim rp-102.
#[test]
fn damage_of_a_view_in_which_the_node_lost_its_votes_ends_with_what_the_log_has_of_it() {
    let mut world = world();
    let mut lost = config(3, 2);
    lost.view.window = WINDOW;
    (lost.boot, lost.incarnation, lost.fresh) = (3, None, FRESH);
    let views = ViewPasts {
        begun: ViewNumber(1),
        is_damaged: true,
        ..ViewPasts::default()
    };
    let remembered = Remembered {
        views,
        ..Remembered::default()
    };
    world.restart_remembering(2, lost, remembered);
    fill(&mut world, 2);
    led(&mut world);
    world.pass(REJOIN_EVERY);
    assert!(!repairs(&mut world, Some(1)), "it has not come back");
    fill(&mut world, WINDOW);
    assert_eq!(standing(&world, 2, 2), Some(Standing::Voter));
    assert!(!repairs(&mut world, Some(2)), "the view before is needed");
    led(&mut world);
    // The snapshot that ends the view before.
    world.pass(Duration::from_millis(3_000));
    assert!(!repairs(&mut world, None), "a start would look at it");
    assert!(repairs(&mut world, Some(2)));
    assert!(!repairs(&mut world, Some(2)), "it is told once");
}
