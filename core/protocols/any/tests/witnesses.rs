//! A witness votes and never stands for election: a view that has some is led by one of those that execute.

use quorate_any::{AnyMessage, AnyOrdering, fast_paxos, paxos};
use quorate_ordering::{Config, Effect, Event, LinkState, Ordering, Role};
use quorate_testkit::{VIEW, view};
use quorate_types::{
    Duration, LinkEpoch, NodeId, NodeSet, OrderingName, Persistence, Slot, Time, Wall,
};
use std::collections::BTreeMap;

/// The last of the acceptors, which has no objects.
const WITNESS: u16 = 4;

/// Four acceptors in memory.
struct World {
    now: Time,
    nodes: BTreeMap<u16, AnyOrdering>,
}

impl World {
    fn new(ordering: OrderingName) -> World {
        let now = Time(1_000_000_000);
        let mut world = World {
            now,
            nodes: BTreeMap::new(),
        };
        for node in 1..=WITNESS {
            let mut first = view(WITNESS, WITNESS, Persistence::Memory);
            first.replicas.remove(NodeId(WITNESS));
            (first.ordering, first.level) = (ordering, ordering.level());
            let config = Config::new(VIEW.group, NodeId(node), 1, first, u64::from(node));
            let instance = AnyOrdering::new(config, Vec::new(), now).unwrap();
            world.nodes.insert(node, instance);
        }
        for node in 1..=WITNESS {
            world.event(node, Event::Executed { slot: Slot::ZERO });
            for peer in (1..=WITNESS).filter(|peer| *peer != node) {
                world.link(node, peer, LinkState::Up(LinkEpoch(1)));
            }
        }
        world
    }

    fn link(&mut self, node: u16, peer: u16, state: LinkState) {
        let peer = NodeId(peer);
        self.event(node, Event::Link { peer, state });
    }

    /// Handles an event, and everything that is said for it.
    fn event(&mut self, node: u16, event: Event<AnyMessage>) {
        let mut waiting = vec![(node, event)];
        while let Some((node, event)) = waiting.pop() {
            let Some(instance) = self.nodes.get_mut(&node) else {
                continue;
            };
            let mut effects = Vec::new();
            instance.handle(self.now, event, &mut effects);
            let wall = Wall(self.now.0);
            instance.handle(self.now, Event::TurnEnd { wall, entropy: 0 }, &mut effects);
            for effect in effects {
                let Effect::Send { to, message, .. } = effect else {
                    continue;
                };
                assert!(
                    !(is_take_over(&message) && to.contains(NodeId(WITNESS))),
                    "nobody hands it leadership"
                );
                for peer in to.iter() {
                    let (from, link, view) = (NodeId(node), LinkEpoch(1), VIEW);
                    let message = message.clone();
                    let event = Event::Receive {
                        from,
                        link,
                        view,
                        message,
                    };
                    waiting.insert(0, (peer.0, event));
                }
            }
        }
    }

    fn pass(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now = self.now + Duration::from_millis(1);
            for node in self.nodes.keys().copied().collect::<Vec<_>>() {
                let due = self.nodes[&node].next_wake();
                if due.is_some_and(|due| due <= self.now) {
                    self.event(node, Event::Wake);
                }
            }
        }
    }

    fn leader(&self) -> Option<u16> {
        let mut nodes = self.nodes.iter();
        let leads = |instance: &AnyOrdering| matches!(instance.status().role, Role::Leader { .. });
        nodes
            .find(|(_, instance)| leads(instance))
            .map(|(node, _)| *node)
    }

    fn crash(&mut self, node: u16) {
        self.nodes.remove(&node);
        for other in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.link(other, node, LinkState::Down);
        }
    }
}

fn is_take_over(message: &AnyMessage) -> bool {
    match message {
        AnyMessage::Paxos(message) => matches!(message, paxos::Message::TakeOver(_)),
        AnyMessage::FastPaxos(message) => matches!(message, fast_paxos::Message::TakeOver(_)),
    }
}

/// Claim mp-63.
#[test]
fn a_witness_votes_for_others_and_never_stands() {
    for ordering in OrderingName::ALL {
        let mut world = World::new(ordering);
        world.pass(3_000);
        let first = world.leader().expect("all are up");
        assert_ne!(first, WITNESS, "{ordering}");
        let to = NodeSet::only(NodeId(WITNESS));
        world.event(first, Event::TransferLeadership { to });
        world.pass(3_000);
        let leader = world.leader().expect("somebody leads still");
        assert_ne!(leader, WITNESS, "{ordering}: it does not take over");
        world.crash(leader);
        world.pass(5_000);
        let next = world
            .leader()
            .expect("its vote makes the quorum of three of four");
        assert_ne!(next, WITNESS, "{ordering}");
        world.crash(next);
        world.pass(5_000);
        assert_eq!(world.leader(), None, "{ordering}");
        let elections = world.nodes[&WITNESS].status().elections;
        assert_eq!(elections, 0, "{ordering}");
    }
}
