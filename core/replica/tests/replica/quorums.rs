//! Quorums that an operator asks for: who gets them, what follows when others vote, and what must be up before a view changes.

use crate::views::{WINDOW, change, fill, refusal};
use crate::world::{World, config, meta};
use quorate_replica::ReplicaConfig;
use quorate_replica::limits::REJOIN_EVERY;
use quorate_types::{
    Body, FromClient, Incarnation, Level, Levels, MemberChange, NodeId, Persistence, QuorumRule,
    QuorumSizes, Refusal, ToClient, ViewNumber,
};

const ALL: [u16; 5] = [0, 1, 2, 3, 4];
const FRESH: Incarnation = Incarnation(77);

fn sizes(phase1: usize, phase2: usize) -> QuorumRule {
    QuorumRule::Sizes(QuorumSizes {
        phase1,
        phase2,
        fast: None,
    })
}

/// Has views of a level at which quorums can be asked for.
fn high(config: &mut ReplicaConfig) {
    config.view.window = WINDOW;
    config.view.level = Level::QUORUMS;
    config.view.persistence = Persistence::Disk;
    config.speaks = Levels::new(Level(19), Level::QUORUMS).unwrap();
}

/// Five nodes, of which node 0 leads; it is linked to all others.
fn world(adjust: impl Fn(&mut ReplicaConfig)) -> World {
    let world = World::with(5, |config| {
        high(config);
        adjust(config);
    });
    world.shared.borrow_mut().linked = vec![1, 2, 3, 4];
    world
}

fn ask(world: &mut World, after: u64, rule: QuorumRule) {
    let request = 50;
    let change = change(after, &ALL);
    let message = FromClient::SetQuorums {
        request,
        change,
        rule,
    };
    world.say(0, request, message);
}

fn decided(world: &mut World, (after, acceptors): (u64, &[u16]), who: MemberChange) {
    let change = change(after, acceptors);
    world.decide(vec![meta(Body::ChangeView {
        first: None,
        change,
        who: Box::new(who),
    })]);
    fill(world, WINDOW);
}

/// The number of the view in force, and how many of how many elect and decide in it.
fn counts(world: &World) -> (u64, [usize; 3]) {
    let view = world.nodes[1].replica.view();
    let quorums = view.quorums;
    let counts = [quorums.acceptors(), quorums.phase1(), quorums.phase2()];
    (view.number.0, counts)
}

/// Claim mp-85. Claim rp-140.
#[test]
fn quorums_are_set_and_follow_the_acceptors() {
    let mut world = world(|_| {});
    ask(&mut world, 1, sizes(4, 2));
    fill(&mut world, WINDOW);
    let told = world.take_told(50);
    assert!(
        matches!(told[..], [ToClient::Checkpointed { .. }]),
        "{told:?}"
    );
    assert_eq!(counts(&world), (2, [5, 4, 2]));
    let same = MemberChange::Same;
    decided(&mut world, (2, &ALL[..4]), same.clone());
    assert_eq!(counts(&world), (3, [4, 3, 2]), "as many decide as before");
    decided(&mut world, (3, &ALL[..1]), same.clone());
    assert_eq!(counts(&world), (3, [4, 3, 2]), "two cannot be left of one");
    decided(&mut world, (3, &ALL[..2]), same.clone());
    assert_eq!(counts(&world), (4, [2, 1, 2]));
    decided(&mut world, (4, &ALL), same.clone());
    assert_eq!(counts(&world), (5, [5, 4, 2]));
    let majority = MemberChange::Quorums(QuorumRule::Majority);
    decided(&mut world, (5, &ALL), majority);
    decided(&mut world, (6, &ALL[..3]), same);
    assert_eq!(counts(&world), (7, [3, 2, 2]), "majorities again");
}

/// Claim rp-140.
#[test]
fn what_cannot_be_or_is_so_already_or_is_below_its_level_is_refused() {
    let mut low = world(|config| config.view.level = Level::EARLY);
    ask(&mut low, 1, sizes(4, 2));
    assert_eq!(refusal(&mut low, 50), Some(Refusal::LevelNotSpoken));
    let mut memory = world(|config| config.view.persistence = Persistence::Memory);
    ask(&mut memory, 1, sizes(4, 2));
    assert_eq!(refusal(&mut memory, 50), Some(Refusal::NoSuchView));
    let mut world = world(|_| {});
    ask(&mut world, 1, sizes(3, 2));
    assert_eq!(
        refusal(&mut world, 50),
        Some(Refusal::NoSuchView),
        "two could miss three of five"
    );
    ask(&mut world, 1, QuorumRule::Majority);
    assert_eq!(refusal(&mut world, 50), Some(Refusal::NoSuchView));
    decided(&mut world, (1, &ALL), MemberChange::Quorums(sizes(4, 2)));
    decided(&mut world, (2, &ALL), MemberChange::Level(Level::EARLY));
    let view = world.nodes[0].replica.view();
    assert_eq!(
        (view.number, view.level),
        (ViewNumber(2), Level::QUORUMS),
        "members of a lower level do not read the quorums"
    );
}

/// Claim rp-141.
#[test]
fn no_view_is_begun_that_the_nodes_that_are_up_could_not_elect_a_leader_of_or_decide_in() {
    for (rule, up) in [(sizes(4, 2), 4), (sizes(2, 4), 4), (sizes(5, 1), 5)] {
        let mut world = world(|_| {});
        world.shared.borrow_mut().linked = (1..up - 1).collect();
        ask(&mut world, 1, rule);
        assert_eq!(refusal(&mut world, 50), Some(Refusal::ViewNotReady));
        world.shared.borrow_mut().linked = (1..up).collect();
        ask(&mut world, 1, rule);
        fill(&mut world, WINDOW);
        assert_eq!(counts(&world).0, 2, "{rule} with {up}");
    }
}

/// Two decide under the leader that they have; the view that names a life anew needs another leader, whom four elect. Claim rp-141.
#[test]
fn a_node_that_lost_its_votes_asks_for_no_view_that_would_have_no_leader() {
    let quorums = sizes(4, 2).quorums(5).unwrap();
    let mut world = world(|config| config.view.quorums = quorums);
    let mut lost = config(5, 4);
    high(&mut lost);
    lost.view.quorums = quorums;
    (lost.boot, lost.incarnation, lost.fresh) = (2, None, FRESH);
    world.shared.borrow_mut().linked = vec![0, 1];
    world.restart_as(4, lost);
    fill(&mut world, 2);
    world.is_led = true;
    world.lead(0);
    for _ in 0..3 {
        world.pass(REJOIN_EVERY);
        fill(&mut world, WINDOW);
    }
    assert_eq!(counts(&world).0, 1, "three of them are too few");
    world.shared.borrow_mut().linked = vec![0, 1, 2];
    world.pass(REJOIN_EVERY);
    world.pass(REJOIN_EVERY);
    fill(&mut world, WINDOW);
    let view = world.nodes[0].replica.view();
    assert_eq!(view.incarnation(NodeId(4)), Some(FRESH));
    assert_eq!(counts(&world), (2, [5, 4, 2]), "the quorums stay");
}
