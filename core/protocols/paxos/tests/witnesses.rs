//! A witness votes and never stands for election: a view that has some is led by one of those that execute.

use quorate_ordering::{Config, Effect, Event, LinkState, Ordering, Role};
use quorate_paxos::{Message, MultiPaxos};
use quorate_testkit::{VIEW, view};
use quorate_types::{Duration, LinkEpoch, NodeId, Persistence, Slot, Time, Wall};
use std::collections::BTreeMap;

/// Three acceptors in memory, of which the third has no objects.
struct World {
    now: Time,
    nodes: BTreeMap<u16, MultiPaxos>,
}

impl World {
    fn new() -> World {
        let now = Time(1_000_000_000);
        let mut world = World {
            now,
            nodes: BTreeMap::new(),
        };
        for node in 1..=3 {
            let mut first = view(3, 3, Persistence::Memory);
            first.replicas.remove(NodeId(3));
            let config = Config::new(VIEW.group, NodeId(node), 1, first, u64::from(node));
            let paxos = MultiPaxos::new(config, Vec::new(), now).unwrap();
            world.nodes.insert(node, paxos);
        }
        for node in 1..=3 {
            world.event(node, Event::Executed { slot: Slot::ZERO });
            for peer in (1..=3).filter(|peer| *peer != node) {
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
    fn event(&mut self, node: u16, event: Event<Message>) {
        let mut waiting = vec![(node, event)];
        while let Some((node, event)) = waiting.pop() {
            let Some(paxos) = self.nodes.get_mut(&node) else {
                continue;
            };
            let mut effects = Vec::new();
            paxos.handle(self.now, event, &mut effects);
            let wall = Wall(self.now.0);
            paxos.handle(self.now, Event::TurnEnd { wall, entropy: 0 }, &mut effects);
            paxos.check();
            for effect in effects {
                let Effect::Send { to, message, .. } = effect else {
                    continue;
                };
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
        let leads = |paxos: &MultiPaxos| matches!(paxos.status().role, Role::Leader { .. });
        nodes.find(|(_, paxos)| leads(paxos)).map(|(node, _)| *node)
    }

    fn crash(&mut self, node: u16) {
        self.nodes.remove(&node);
        for other in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.link(other, node, LinkState::Down);
        }
    }
}

/// Claim mp-63.
#[test]
fn a_witness_votes_for_others_and_never_stands() {
    let mut world = World::new();
    world.pass(3_000);
    let first = world.leader().expect("a majority is up");
    assert_ne!(first, 3);
    world.event(
        first,
        Event::TransferLeadership {
            to: Some(NodeId(3)),
        },
    );
    world.pass(3_000);
    assert_ne!(world.leader(), Some(3), "it does not take over");
    let leader = world.leader().expect("somebody leads still");
    world.crash(leader);
    world.pass(5_000);
    assert_eq!(
        world.leader(),
        Some(3 - leader),
        "its vote makes the majority"
    );
    world.crash(3 - leader);
    world.pass(5_000);
    assert_eq!(world.leader(), None);
    assert_eq!(world.nodes[&3].status().elections, 0);
}
