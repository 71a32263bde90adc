//! Who a change of the view names as its first leader, and what the clients of a leader that leaves are told.

use crate::views::{WINDOW, ask, change, fill};
use crate::world::{World, meta};
use quorate_ordering::{Effect, LinkState, Role};
use quorate_replica::{DiskRoom, Input, PeerMessage, ReplicaMessage};
use quorate_types::{
    Ballot, Body, ConnectionId, Duration, FirstBallot, Level, Levels, LinkEpoch, MemberChange,
    NodeId, ToClient, ViewNumber,
};

/// Who a change names first that node 0 submits in this role, after greetings of others, each with its start.
fn named(
    acceptors: &[u16],
    greetings: &[(u16, u64)],
    role: fn(Ballot) -> Role,
) -> Option<(u16, u64)> {
    named_after(&|_| {}, acceptors, greetings, role)
}

/// The same, after something else has happened.
fn named_after(
    then: &dyn Fn(&mut World),
    acceptors: &[u16],
    greetings: &[(u16, u64)],
    role: fn(Ballot) -> Role,
) -> Option<(u16, u64)> {
    let mut world = World::with(4, |config| {
        config.view.window = WINDOW;
        config.view.level = Level::FIRST_BALLOT;
    });
    for (peer, boot) in greetings {
        let (peer, boot) = (NodeId(*peer), *boot);
        let levels = Levels::UNNAMED;
        world.input(0, Input::Greeted { peer, boot, levels });
    }
    let ballot = world.shared.borrow_mut().next_ballot(0);
    world.effect(0, Effect::Role(role(ballot)));
    world.shared.borrow_mut().holds_submissions = true;
    world.shared.borrow_mut().linked = vec![1, 2, 3];
    then(&mut world);
    ask(&mut world, 0, 50, change(1, acceptors));
    let shared = world.shared.borrow();
    let mut submitted = shared.submitted.iter();
    let first = submitted.find_map(|(_, command)| match command.body {
        Body::ChangeView { first, .. } => Some(first),
        _ => None,
    });
    let first = first.expect("the change is submitted");
    first.map(|FirstBallot { node, boot }| (node.0, boot))
}

/// Claim mp-90.
#[test]
fn a_change_names_who_leads_and_nobody_who_only_tries_to() {
    let named = |role| named(&[0], &[], role);
    assert_eq!(named(|ballot| Role::Leader { ballot }), Some((0, 1)));
    assert_eq!(named(|ballot| Role::Candidate { ballot }), None);
    assert_eq!(named(|_| Role::Follower { leader: None }), None);
    // It has promised that one nothing, and does not know in which start it leads.
    assert_eq!(
        named(|_| Role::Follower {
            leader: Some(NodeId(1))
        }),
        None
    );
}

/// Claim mp-90.
#[test]
fn a_change_in_which_the_leader_leaves_names_a_linked_successor_and_its_start() {
    let named =
        |acceptors, greetings| named(acceptors, greetings, |ballot| Role::Leader { ballot });
    assert_eq!(named(&[0, 1], &[(1, 7)]), Some((0, 1)), "it stays");
    assert_eq!(named(&[1, 2], &[(1, 7), (2, 5)]), Some((1, 7)));
    assert_eq!(named(&[1, 2], &[(2, 5), (2, 6)]), Some((2, 6)));
    assert_eq!(named(&[1, 2], &[]), None, "no start of them is known");
}

/// Nobody stands at once in place of who is named: a node that cannot lead, or not soon, costs calls an election. Claim mp-90.
#[test]
fn of_several_successors_a_change_names_one_that_is_up_and_votes_and_lags_least() {
    let named = |then: &dyn Fn(&mut World)| {
        let (acceptors, greetings) = ([1, 2, 3], [(1, 7), (2, 5), (3, 4)]);
        named_after(then, &acceptors, &greetings, |ballot| Role::Leader {
            ballot,
        })
    };
    let votes = |world: &mut World, votes| {
        let wall = world.right_wall();
        let message = PeerMessage::Replica(ReplicaMessage::Clock { wall, votes });
        let (from, link) = (NodeId(1), LinkEpoch(1));
        world.input(
            0,
            Input::Peer {
                from,
                link,
                message,
            },
        );
    };
    let lags = |world: &mut World, lags: &[(u16, u64)]| {
        world.shared.borrow_mut().lags = lags.iter().copied().collect();
    };
    assert_eq!(named(&|_| {}), Some((1, 7)));
    assert_eq!(named(&|world| votes(world, true)), Some((1, 7)));
    assert_eq!(named(&|world| votes(world, false)), Some((2, 5)));
    assert_eq!(named(&|world| lags(world, &[(1, 9), (2, 3)])), Some((3, 4)));
    assert_eq!(
        named(&|world| lags(world, &[(1, 9), (2, 3), (3, 3)])),
        Some((2, 5))
    );
    let full = |world: &mut World| {
        lags(world, &[(2, 3), (3, 4)]);
        let message = PeerMessage::Replica(ReplicaMessage::Room {
            room: DiskRoom::Full,
        });
        let (from, link) = (NodeId(1), LinkEpoch(1));
        let input = Input::Peer {
            from,
            link,
            message,
        };
        world.input(0, input);
    };
    assert_eq!(named(&full), Some((2, 5)), "the disk of the first is full");
    let unlinked = |world: &mut World| {
        let (peer, state) = (NodeId(1), LinkState::Down);
        world.input(0, Input::Link { peer, state });
    };
    assert_eq!(named(&unlinked), Some((2, 5)), "its next start is another");
}

/// It hears of no leader in the new view, and its clients would call it until it ends. A member hears of one. Claim mp-90.
#[test]
fn clients_of_a_leader_that_leaves_are_told_at_once_who_leads_next() {
    let mut world = World::with(3, |config| {
        config.view.window = WINDOW;
        config.view.level = Level::FIRST_BALLOT;
    });
    let ballot = world.shared.borrow_mut().next_ballot(2);
    world.effect(2, Effect::Role(Role::Leader { ballot }));
    world.open(2, 5);
    world.open(0, 6);
    let (node, boot) = (NodeId(1), 7);
    world.decide(vec![meta(Body::ChangeView {
        first: Some(FirstBallot { node, boot }),
        change: change(1, &[0, 1]),
        who: Box::new(MemberChange::Leaves(NodeId(2))),
    })]);
    world.told.clear();
    let told = |world: &World, client| {
        let told = world.told.iter();
        let of_client = told.filter(|(to, _)| *to == ConnectionId(client));
        let leaders = of_client.filter_map(|(_, told)| match told {
            ToClient::Leader { leader } => Some(*leader),
            _ => None,
        });
        leaders.collect::<Vec<_>>()
    };
    fill(&mut world, WINDOW - 2);
    assert_eq!(told(&world, 5), []);
    fill(&mut world, 1);
    assert_eq!(world.nodes[0].replica.view().number, ViewNumber(2));
    assert_eq!(told(&world, 5), [Some(node)]);
    let leader = None;
    world.effect(0, Effect::Role(Role::Follower { leader }));
    let by_member = told(&world, 6);
    assert_eq!(by_member.last(), Some(&leader), "{by_member:?}");
    assert!(!by_member.contains(&Some(node)), "{by_member:?}");
}

/// Whoever begins with a snapshot from between a change and its view knows the same first leader as those who applied the change. Claim
/// mp-90.
#[test]
fn a_snapshot_from_before_a_view_begins_tells_who_is_named_to_lead_it_first() {
    let mut world = World::with(3, |config| {
        config.view.window = WINDOW;
        config.view.level = Level::FIRST_BALLOT;
    });
    let (node, boot) = (NodeId(0), 1);
    let first = Some(FirstBallot { node, boot });
    world.shared.borrow_mut().deaf.insert(2);
    world.decide(vec![meta(Body::ChangeView {
        first,
        change: change(1, &[0, 1]),
        who: Box::new(MemberChange::Same),
    })]);
    let slot = world.checkpoint(0);
    world.shared.borrow_mut().trimmed = slot;
    world.shared.borrow_mut().deaf.remove(&2);
    fill(&mut world, 1);
    world.pass(Duration::from_millis(2_000));
    let applied = world.nodes[2].replica.status().applied;
    assert!(applied > slot, "it has taken the snapshot");
    fill(&mut world, WINDOW);
    for node in &world.nodes {
        let view = node.replica.view();
        assert_eq!((view.number, view.first_ballot), (ViewNumber(2), first));
    }
}
