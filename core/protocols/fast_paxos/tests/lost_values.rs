//! Values that lost, and whose proposers are gone, take no place from others for ever.

use quorate_fast_paxos::FastPaxos;
use quorate_fast_paxos::message::{Accept, Any, Learned, Message, Propose};
use quorate_ordering::{Config, Effect, Effects, Event, LinkState, Ordering};
use quorate_testkit::{VIEW, call, view};
use quorate_types::{
    Ballot, Batch, LinkEpoch, NodeId, Persistence, Slot, Stamp, Time, ValueId, ViewNumber, Wall,
};

const LEADER: NodeId = NodeId(1);
const PROPOSER: NodeId = NodeId(2);

fn value_batch(number: u64) -> Batch {
    let stamp = Stamp {
        wall: Wall(number),
        entropy: number,
    };
    Batch::new(stamp, vec![call(1, number, b"a")])
}

/// Acceptor `n3`, which follows the leader.
struct Acceptor {
    instance: FastPaxos,
    effects: Effects<Message>,
    ballot: Ballot,
}

impl Acceptor {
    fn new() -> Acceptor {
        let view = view(4, 4, Persistence::Memory);
        let config = Config::new(VIEW.group, NodeId(3), 1, view, 7);
        let instance = FastPaxos::new(config, Vec::new(), Time(0)).unwrap();
        let ballot = Ballot::ZERO.next(ViewNumber(1), LEADER, 1);
        let mut acceptor = Acceptor {
            instance,
            effects: Effects::default(),
            ballot,
        };
        acceptor.event(Event::Executed { slot: Slot::ZERO });
        for peer in [LEADER, PROPOSER] {
            let state = LinkState::Up(LinkEpoch(1));
            acceptor.event(Event::Link { peer, state });
        }
        let from = Slot(1);
        acceptor.receive(LEADER, Message::Any(Any { ballot, from }));
        acceptor
    }

    fn event(&mut self, event: Event<Message>) -> Vec<Effect<Message>> {
        self.instance.handle(Time(0), event, &mut self.effects);
        self.instance.check();
        self.effects.drain(..).collect()
    }

    fn receive(&mut self, from: NodeId, message: Message) -> Vec<Effect<Message>> {
        let view = self.instance.view();
        let link = LinkEpoch(1);
        self.event(Event::Receive {
            from,
            link,
            view,
            message,
        })
    }

    /// A value with that number is proposed. Says whether it has this acceptor's vote.
    fn propose(&mut self, number: u64) -> bool {
        let value = ValueId {
            node: PROPOSER,
            boot: 1,
            number,
        };
        let batch = value_batch(number);
        let ballot = self.ballot;
        let effects = self.receive(
            PROPOSER,
            Message::Propose(Propose {
                ballot,
                value,
                batch,
            }),
        );
        let sent = |effect: &Effect<Message>| matches!(effect, Effect::Send { message: Message::Voted(voted), .. } if voted.kind.is_fast());
        effects.iter().any(sent)
    }

    /// The leader decides `slot` otherwise.
    fn lose(&mut self, slot: Slot) {
        let ballot = self.ballot;
        for decided in [slot.previous(), slot] {
            let batch = Batch::noop();
            let accept = Accept {
                ballot,
                slot,
                batch,
                decided,
            };
            self.receive(LEADER, Message::Accept(accept));
        }
        self.event(Event::Executed { slot });
        assert_eq!(self.instance.decided(), slot);
    }
}

/// Claim fp-16.
#[test]
fn values_that_lost_and_are_proposed_no_more_take_no_place_for_ever() {
    let mut acceptor = Acceptor::new();
    for number in 1..=2_000 {
        assert!(acceptor.propose(number), "value {number} has a vote");
        acceptor.lose(Slot(number));
    }
}

/// Claim fp-20.
#[test]
fn copies_that_come_after_a_chunk_of_decisions_get_no_vote() {
    let mut acceptor = Acceptor::new();
    let decided = Slot(256);
    let learned = Learned {
        from: Slot(1),
        batches: (1..=decided.0).map(value_batch).collect(),
        decided,
    };
    acceptor.receive(PROPOSER, Message::Learned(learned));
    assert_eq!(acceptor.instance.decided(), decided);
    acceptor.event(Event::Executed { slot: decided });
    for late in 1..=decided.0 {
        assert!(!acceptor.propose(late), "value {late} is decided");
    }
    assert!(acceptor.propose(decided.0 + 1), "a new value has a vote");
}
