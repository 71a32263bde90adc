//! Proposals along a ring: votes of what was before the view count for nothing, and no member sends a value twice.

use quorate_ordering::{Config, Effect, Event, LinkState, Ordering};
use quorate_paxos::message::{Accepted, Gathered, TakeOver};
use quorate_paxos::{Message, MultiPaxos, Promise};
use quorate_testkit::{VIEW, call, view};
use quorate_types::{
    Ballot, Incarnation, LinkEpoch, NodeId, NodeSet, OrderingName, Persistence, Slot, Time, View,
    ViewId, ViewNumber, Wall,
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
