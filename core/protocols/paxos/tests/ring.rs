//! Proposals along a ring: votes of what was before the view count for nothing, and no member sends a value twice.

use quorate_ordering::{Config, Effect, Event, LinkState, Mark, Ordering};
use quorate_paxos::message::{Accepted, Gathered, Pass, RingWay, TakeOver};
use quorate_paxos::{Message, MultiPaxos, Promise};
use quorate_testkit::{VIEW, call, view};
use quorate_types::{
    Ballot, Batch, Incarnation, LinkEpoch, NodeId, NodeSet, OrderingName, Persistence, Slot, Time,
    View, ViewId, ViewNumber, Wall,
};

const NOW: Time = Time(1_000_000_000);
const LEADER: NodeId = NodeId(1);
const SECOND: ViewId = ViewId {
    group: VIEW.group,
    number: ViewNumber(2),
};

struct Lead(MultiPaxos);

impl Lead {
    fn event(&mut self, event: Event<Message>) -> Vec<Message> {
        let mut effects = Vec::new();
        self.0.handle(NOW, event, &mut effects);
        let (wall, entropy) = (Wall(1), 1);
        let turn = Event::TurnEnd { wall, entropy };
        self.0.handle(NOW, turn, &mut effects);
        self.0.check();
        let sent = effects.into_iter().filter_map(|effect| match effect {
            Effect::Send { message, .. } => Some(message),
            _ => None,
        });
        sent.collect()
    }

    /// Commands are ordered one after the other, all with the votes of the others, until `slot` is decided. Returns whether a proposal
    /// went along a ring.
    fn orders_upto(&mut self, ballot: Ballot, slot: Slot) -> bool {
        let mut is_ring = false;
        while self.0.status().decided < slot {
            let next = self.0.status().decided.next();
            let executed = next.previous();
            self.event(Event::Executed { slot: executed });
            let commands = vec![call(9, next.0, b"x")];
            let sent = self.event(Event::Submit { commands });
            is_ring |= sent.iter().any(is_pass);
            let accepted = Accepted {
                ballot,
                first: next,
                last: next,
            };
            self.hears(2, Message::Accepted(accepted));
            self.hears(3, Message::Accepted(accepted));
            assert!(self.0.status().decided >= next, "{next} has a quorum");
        }
        is_ring
    }

    fn hears(&mut self, from: u16, message: Message) -> Vec<Message> {
        self.event(Event::Receive {
            from: NodeId(from),
            link: LinkEpoch(1),
            view: SECOND,
            message,
        })
    }
}

fn is_pass(message: &Message) -> bool {
    matches!(message, Message::Pass(_))
}

/// The leader of three in view 2, in which node 2 is another incarnation than before, and the ballot in which it leads. All proposals
/// go along a ring.
fn leading() -> (Lead, Ballot) {
    let view = View {
        number: SECOND.number,
        rejoined: [(NodeId(2), Incarnation(7))].into_iter().collect(),
        level: OrderingName::RingPaxos.level(),
        ordering: OrderingName::RingPaxos,
        ..view(3, 3, Persistence::Memory)
    };
    let mut config = Config::new(VIEW.group, LEADER, 1, view, 7);
    config.limits.step_first_slots = 0;
    let mut lead = Lead(MultiPaxos::new(config, Vec::new(), NOW).expect("an empty log"));
    lead.event(Event::Executed { slot: Slot::ZERO });
    for peer in [NodeId(2), NodeId(3)] {
        let state = LinkState::Up(LinkEpoch(1));
        lead.event(Event::Link { peer, state });
    }
    let ballot = Ballot::ZERO;
    let asked = lead.hears(2, Message::TakeOver(TakeOver { ballot }));
    let mut asked = asked.iter().filter_map(|message| match message {
        Message::Prepare(ask) => Some(ask.ballot),
        _ => None,
    });
    let ballot = asked.next().expect("it stands");
    let promise = Promise {
        ballot,
        from: Slot(1),
        votes: Vec::new(),
        unknown: Vec::new(),
        next: None,
        decided: Slot::ZERO,
        trimmed: Slot::ZERO,
        wall: Wall(0),
    };
    lead.hears(3, Message::Promise(Box::new(promise)));
    (lead, ballot)
}

/// Claim mp-70.
#[test]
fn a_vote_of_an_incarnation_before_the_view_counts_no_more_for_having_been_passed_on() {
    let (mut lead, ballot) = leading();
    let commands = vec![call(9, 1, b"x")];
    let sent = lead.event(Event::Submit { commands });
    assert!(sent.iter().any(is_pass), "{sent:?}");
    let (first, last, voters) = (Slot(1), Slot(1), NodeSet::only(NodeId(2)));
    // Node 3 passes on what node 2 said before it lost its disk: the ballot names the view, and the view the incarnation.
    let before = Ballot {
        view: VIEW.number,
        ..ballot
    };
    for ballot in [before, ballot] {
        let gathered = Gathered {
            ballot,
            first,
            last,
            voters,
        };
        assert_eq!(lead.0.status().decided, Slot::ZERO);
        lead.hears(3, Message::Gathered(gathered));
    }
    assert_eq!(lead.0.status().decided, Slot(1));
    assert_eq!(lead.0.status().foreign, 1);
}

/// Claim mp-70.
#[test]
fn a_repeated_relayed_vote_counts_once_and_one_of_an_observer_never() {
    let (mut lead, ballot) = leading();
    let commands = vec![call(9, 1, b"x")];
    lead.event(Event::Submit { commands });
    let gathered = |voters| {
        Message::Gathered(Gathered {
            ballot,
            first: Slot(1),
            last: Slot(1),
            voters,
        })
    };
    for node in [LEADER, NodeId(9), LEADER] {
        lead.hears(3, gathered(NodeSet::only(node)));
        assert_eq!(lead.0.status().decided, Slot::ZERO, "of {node}");
    }
    lead.hears(3, gathered(NodeSet::only(NodeId(2))));
    assert_eq!(lead.0.status().decided, Slot(1));
}

/// Claim mp-72.
#[test]
fn a_ring_is_tried_again_however_many_failed() {
    let (mut lead, ballot) = leading();
    for failed in 1..=12 {
        let begun = lead.0.status().decided;
        let is_ring = (1..=16).any(|more| lead.orders_upto(ballot, begun.plus(more << 10)));
        assert!(is_ring, "after {failed} rings");
        let peer = NodeId(2);
        lead.event(Event::Link {
            peer,
            state: LinkState::Down,
        });
        lead.event(Event::Link {
            peer,
            state: LinkState::Up(LinkEpoch(1)),
        });
        let peer = NodeId(3);
        lead.event(Event::Link {
            peer,
            state: LinkState::Down,
        });
        lead.event(Event::Link {
            peer,
            state: LinkState::Up(LinkEpoch(1)),
        });
    }
}

/// Claim mp-71.
#[test]
fn a_node_that_is_linked_after_a_ring_began_is_on_the_way_of_the_next_proposal() {
    let (mut lead, ballot) = leading();
    let peer = NodeId(3);
    let state = LinkState::Down;
    lead.event(Event::Link { peer, state });
    assert!(lead.orders_upto(ballot, Slot(4)), "a ring of two");
    let state = LinkState::Up(LinkEpoch(2));
    lead.event(Event::Link { peer, state });
    let commands = vec![call(9, 5, b"x")];
    let sent = lead.event(Event::Submit { commands });
    let reached = sent.iter().find_map(|message| match message {
        Message::Pass(pass) => Some(pass.way.nodes().to_vec()),
        _ => None,
    });
    assert_eq!(reached, Some(vec![NodeId(2), peer]));
}

/// Node 3 of five, which the ballots of nodes 1 and 2 reach along rings.
fn following(persistence: Persistence) -> MultiPaxos {
    let view = View {
        level: OrderingName::RingPaxos.level(),
        ordering: OrderingName::RingPaxos,
        ..view(5, 5, persistence)
    };
    let config = Config::new(VIEW.group, NodeId(3), 1, view, 7);
    let mut instance = MultiPaxos::new(config, Vec::new(), NOW).expect("an empty log");
    let executed = Event::Executed { slot: Slot::ZERO };
    instance.handle(NOW, executed, &mut Vec::new());
    for peer in [1, 2, 4, 5].map(NodeId) {
        let state = LinkState::Up(LinkEpoch(1));
        let up = Event::Link { peer, state };
        instance.handle(NOW, up, &mut Vec::new());
    }
    instance
}

fn passed(from: u16, ballot: Ballot, slot: u64, way: [u16; 2]) -> Event<Message> {
    let way = RingWay::new(way.map(NodeId).to_vec(), 2).expect("two nodes");
    received(
        from,
        Message::Pass(Pass {
            ballot,
            slot: Slot(slot),
            batch: Batch::noop(),
            decided: Slot::ZERO,
            way,
        }),
    )
}

fn received(from: u16, message: Message) -> Event<Message> {
    Event::Receive {
        from: NodeId(from),
        link: LinkEpoch(1),
        view: VIEW,
        message,
    }
}

/// The votes that a node gathered and lets go on at the end of a turn with these events.
fn gathered(node: &mut MultiPaxos, events: Vec<Event<Message>>) -> Vec<Gathered> {
    let mut effects = Vec::new();
    let (wall, entropy) = (Wall(1), 1);
    let turn = Event::TurnEnd { wall, entropy };
    for event in events.into_iter().chain([turn]) {
        node.handle(NOW, event, &mut effects);
    }
    let sent = effects.into_iter().filter_map(|effect| match effect {
        Effect::Send {
            message: Message::Gathered(gathered),
            ..
        } => Some(gathered),
        _ => None,
    });
    sent.collect()
}

/// Claim mp-70.
#[test]
fn votes_in_neighbouring_slots_are_told_together_only_where_the_same_nodes_gave_them() {
    let mut node = following(Persistence::Memory);
    let ballot = Ballot::ZERO.next(ViewNumber(1), LEADER, 1);
    let two = NodeSet::only(NodeId(2));
    let before = [two, two, NodeSet::empty()];
    let mut events: Vec<_> = (1..=3)
        .map(|slot| passed(2, ballot, slot, [2, 3]))
        .collect();
    for (slot, voters) in (1..).map(Slot).zip(before) {
        let (first, last) = (slot, slot);
        let told = Gathered {
            ballot,
            first,
            last,
            voters,
        };
        events.push(received(2, Message::Gathered(told)));
    }
    let three = NodeSet::only(NodeId(3));
    let both = [NodeId(2), NodeId(3)].into_iter().collect();
    let told = gathered(&mut node, events);
    let told: Vec<_> = told
        .iter()
        .map(|told| (told.first, told.last, told.voters))
        .collect();
    let expected = [(Slot(1), Slot(2), both), (Slot(3), Slot(3), three)];
    assert_eq!(told, expected);
}

/// Claim mp-70.
#[test]
fn a_durable_vote_of_an_earlier_ballot_does_not_go_on_as_one_of_a_later() {
    let mut node = following(Persistence::Disk);
    let first = Ballot::ZERO.next(ViewNumber(1), LEADER, 1);
    let second = first.next(ViewNumber(1), NodeId(2), 1);
    let events = vec![
        passed(1, first, 1, [3, 4]),
        passed(2, second, 1, [3, 4]),
        // Of the promise and the vote of each ballot, in that order, the first two are durable.
        Event::Persisted { mark: Mark(2) },
    ];
    assert_eq!(gathered(&mut node, events), []);
    let durable = Event::Persisted { mark: Mark(4) };
    let told = gathered(&mut node, vec![durable]);
    let told: Vec<_> = told.iter().map(|told| (told.ballot, told.voters)).collect();
    assert_eq!(told, [(second, NodeSet::only(NodeId(3)))]);
}
