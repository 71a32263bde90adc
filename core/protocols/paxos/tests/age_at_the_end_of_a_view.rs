//! Where acceptors tell their votes to all, the others may know the last slot of a view before its leader does, go on in the
//! next view without it, and decide there. A heartbeat that the old leader sends after that is still heard by a quorum of its view,
//! and must not say that the last slot was all that could be decided. Claim mp-60.

use quorate_ordering::{Config, Effect, Event, LinkState, Ordering, Standing, ViewPast};
use quorate_paxos::{Message, MultiPaxos};
use quorate_testkit::{VIEW, call, view};
use quorate_types::{
    Duration, Level, LinkEpoch, NodeId, NodeSet, OrderingName, Persistence, Quorums, Slot, Time,
    View, ViewId, ViewNumber, Wall,
};
use std::collections::BTreeMap;

type Mail = Vec<(u16, u16, ViewId, Message)>;

struct World {
    now: Time,
    nodes: BTreeMap<(u16, u64), MultiPaxos>,
    mail: Mail,
    decided: Vec<(u16, Slot, Time)>,
    current: Vec<(u16, Slot, Time)>,
}

impl World {
    fn event(&mut self, node: u16, number: u64, event: Event<Message>) {
        let paxos = self.nodes.get_mut(&(node, number)).unwrap();
        let view = paxos.view();
        let mut effects = Vec::new();
        paxos.handle(self.now, event, &mut effects);
        let wall = Wall(self.now.0);
        paxos.handle(self.now, Event::TurnEnd { wall, entropy: 0 }, &mut effects);
        paxos.check();
        let mut executed = None;
        for effect in effects {
            match effect {
                Effect::Send { to, message, .. } => {
                    for peer in to.iter() {
                        self.mail.push((node, peer.0, view, message.clone()));
                    }
                }
                Effect::Decide { slot, .. } => {
                    self.decided.push((node, slot, self.now));
                    executed = Some(slot);
                }
                Effect::Current { slot, at } => self.current.push((node, slot, at)),
                _ => {}
            }
        }
        if let Some(slot) = executed {
            self.event(node, number, Event::Executed { slot });
        }
    }

    /// Delivers everything but what `lost` says, until nothing is in flight.
    fn run(&mut self, lost: impl Fn(u16, u16, &Message) -> bool) {
        while !self.mail.is_empty() {
            for (from, to, view, message) in std::mem::take(&mut self.mail) {
                if lost(from, to, &message) || !self.nodes.contains_key(&(to, view.number.0)) {
                    continue;
                }
                let from = NodeId(from);
                let link = LinkEpoch(1);
                self.event(
                    to,
                    view.number.0,
                    Event::Receive {
                        from,
                        link,
                        view,
                        message,
                    },
                );
            }
        }
    }

    fn pass(&mut self, ms: u64, lost: impl Fn(u16, u16, &Message) -> bool) {
        for _ in 0..ms {
            self.now = self.now + Duration::from_millis(1);
            let keys: Vec<(u16, u64)> = self.nodes.keys().copied().collect();
            for (node, number) in keys {
                let due = self.nodes[&(node, number)].next_wake();
                if due.is_some_and(|due| due <= self.now) {
                    self.event(node, number, Event::Wake);
                }
            }
            self.run(&lost);
        }
    }
}

fn world(ordering: OrderingName) -> World {
    let now = Time(1_000_000_000);
    let mut world = World {
        now,
        nodes: BTreeMap::new(),
        mail: Vec::new(),
        decided: Vec::new(),
        current: Vec::new(),
    };
    for node in 1..=3 {
        let mut first = view(3, 3, Persistence::Memory);
        (first.level, first.ordering) = (Level::ORDERINGS, ordering);
        let config = Config::new(VIEW.group, NodeId(node), 1, first, u64::from(node));
        let paxos = MultiPaxos::new(config, Vec::new(), now).unwrap();
        world.nodes.insert((node, 1), paxos);
        let slot = Slot::ZERO;
        world.event(node, 1, Event::Executed { slot });
        for peer in (1..=3).filter(|peer| *peer != node) {
            let (peer, state) = (NodeId(peer), LinkState::Up(LinkEpoch(1)));
            world.event(node, 1, Event::Link { peer, state });
        }
    }
    world
}

/// View 2: nodes 2 and 3 vote, node 1 is a replica only.
fn next_view(ordering: OrderingName) -> View {
    let mut next = view(3, 3, Persistence::Memory);
    (next.level, next.ordering) = (Level::ORDERINGS, ordering);
    next.number = ViewNumber(2);
    next.first_slot = Slot(2);
    next.acceptors.remove(NodeId(1));
    next.quorums = Quorums::majority(2).unwrap();
    next
}

/// Three nodes, led by the first.
fn led(ordering: OrderingName) -> World {
    let mut world = world(ordering);
    let deadline = world.now + Duration::from_millis(5_000);
    while !world
        .nodes
        .values()
        .any(|node| node.status().role.leader(NodeId(1)).is_some())
        && world.now < deadline
    {
        world.pass(1, |_, _, _| false);
    }
    let leads = (1..=3).find(|node| {
        matches!(
            world.nodes[&(*node, 1)].status().role,
            quorate_ordering::Role::Leader { .. }
        )
    });
    if leads != Some(1) {
        world.event(
            leads.unwrap(),
            1,
            Event::TransferLeadership {
                to: NodeSet::only(NodeId(1)),
            },
        );
        world.pass(200, |_, _, _| false);
    }
    let role = world.nodes[&(1, 1)].status().role;
    assert!(
        matches!(role, quorate_ordering::Role::Leader { .. }),
        "{role:?}"
    );
    world
}

fn outrun(ordering: OrderingName) -> World {
    let mut world = led(ordering);
    // Slot 1 is the last one of the view.
    for node in 1..=3 {
        world.event(node, 1, Event::Close { last: Slot(1) });
    }
    // Votes reach node 1 late; everything on the urgent lane reaches it.
    let late = |from: u16, to: u16, message: &Message| {
        to == 1 && from != 1 && !matches!(message, Message::Heard(_))
    };
    world.event(
        1,
        1,
        Event::Submit {
            commands: vec![call(1, 1, b"last")],
        },
    );
    world.run(late);
    assert_eq!(world.nodes[&(1, 1)].decided(), Slot::ZERO);
    assert_eq!(world.nodes[&(2, 1)].decided(), Slot(1));
    assert_eq!(world.nodes[&(3, 1)].decided(), Slot(1));
    // Nodes 2 and 3 go on in view 2, as the replica does it.
    for node in [2, 3] {
        let of_next = world.nodes[&(node, 1)].of_view(
            world.now,
            next_view(ordering),
            Standing::Voter,
            ViewPast::None,
        );
        world.event(node, 1, Event::Over);
        world.nodes.insert((node, 2), of_next);
        world.event(node, 2, Event::Executed { slot: Slot(1) });
    }
    let mut ms = 0;
    while !world.decided.iter().any(|(_, slot, _)| *slot == Slot(2)) && ms < 1_000 {
        world.pass(1, late);
        ms += 1;
        if ms % 10 == 1 {
            for node in [2, 3] {
                let commands = vec![call(node.into(), ms, b"next")];
                if world.nodes[&(node, 2)].status().role.leader(NodeId(node)) == Some(NodeId(node))
                {
                    world.event(node, 2, Event::Submit { commands });
                }
            }
        }
    }
    // The old leader goes on with its heartbeats.
    world.pass(200, late);
    world
}

fn check(world: &World) {
    let first_of_next = world.decided.iter().find(|(_, slot, _)| *slot == Slot(2));
    let (by, slot, decided_at) = first_of_next.expect("the next view decides");
    for (node, upto, at) in &world.current {
        assert!(
            upto >= slot || at <= decided_at,
            "n{node} is told that {upto} was the newest at {at:?}, but n{by} decided {slot} at {decided_at:?}"
        );
    }
}

#[test]
fn with_libpaxos_no_age_is_wrong_at_the_end_of_a_view() {
    check(&outrun(OrderingName::Libpaxos));
}
