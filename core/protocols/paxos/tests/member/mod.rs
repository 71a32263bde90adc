//! One member of a group whose nodes spread values.
#![allow(dead_code, reason = "each test uses a part of it")]

use quorate_ordering::{Config, Effect, Event, LinkState, Ordering, Standing};
use quorate_paxos::message::{Holds, Learned, Spread};
use quorate_paxos::{Message, MultiPaxos};
use quorate_testkit::{VIEW, call, view};
use quorate_types::{
    Batch, Command, Digest, Duration, LinkEpoch, NodeId, NodeSet, OrderingName, Persistence, Slot,
    Stamp, Time, ValueId, View, Wall,
};

const OWN: NodeId = NodeId(1);
pub(crate) const NOW: Time = Time(1_000_000_000);
pub(crate) const PAYLOAD: [u8; 1000] = [7; 1000];

/// Node 1 of three, linked with both others, in which nobody leads.
pub(crate) struct Member {
    pub(crate) instance: MultiPaxos,
    pub(crate) now: Time,
}

impl Member {
    pub(crate) fn new(standing: Standing) -> Member {
        let view = View {
            level: OrderingName::SPaxos.level(),
            ordering: OrderingName::SPaxos,
            ..view(3, 3, Persistence::Memory)
        };
        let mut config = Config::new(VIEW.group, OWN, 1, view, 7);
        config.standing = standing;
        let instance = MultiPaxos::new(config, Vec::new(), NOW).expect("an empty log");
        let mut member = Member { instance, now: NOW };
        member.event(Event::Executed { slot: Slot::ZERO });
        for peer in [NodeId(2), NodeId(3)] {
            let state = LinkState::Up(LinkEpoch(1));
            member.event(Event::Link { peer, state });
        }
        member
    }

    /// Handles an event and ends the turn. Returns what is sent.
    pub(crate) fn event(&mut self, event: Event<Message>) -> Vec<Message> {
        let sent = self.sends(event).into_iter();
        sent.map(|(_, message)| message).collect()
    }

    /// The same, and to whom.
    pub(crate) fn sends(&mut self, event: Event<Message>) -> Vec<(NodeSet, Message)> {
        let mut effects = Vec::new();
        self.instance.handle(self.now, event, &mut effects);
        let (wall, entropy) = (Wall(1), 1);
        let turn = Event::TurnEnd { wall, entropy };
        self.instance.handle(self.now, turn, &mut effects);
        self.instance.check();
        let sent = effects.into_iter().filter_map(|effect| match effect {
            Effect::Send { to, message, .. } => Some((to, message)),
            _ => None,
        });
        sent.collect()
    }

    pub(crate) fn hears(&mut self, from: u16, message: Message) -> Vec<Message> {
        self.event(Event::Receive {
            from: NodeId(from),
            link: LinkEpoch(1),
            view: VIEW,
            message,
        })
    }

    /// Node 2 spreads its value of this number. Returns whether this node tells that it holds it.
    pub(crate) fn is_kept(&mut self, number: u64) -> bool {
        let value = value(2, number);
        let commands = vec![call(2, number, &PAYLOAD)];
        let sent = self.hears(2, Message::Spread(Spread { value, commands }));
        let holds = Message::Holds(Holds {
            values: vec![value],
        });
        sent.contains(&holds)
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.instance.status().held_bytes
    }

    /// Somebody tells that these were decided in the first slot.
    pub(crate) fn learns(&mut self, commands: Vec<Command>) {
        self.learns_in(Slot(1), commands);
    }

    /// Somebody tells that these were decided in the next slot.
    pub(crate) fn learns_in(&mut self, slot: Slot, commands: Vec<Command>) {
        let stamp = Stamp {
            wall: Wall(8 + slot.0),
            entropy: 0,
        };
        let learned = Learned {
            from: slot,
            batches: vec![Batch::new(stamp, commands)],
            decided: slot,
        };
        self.hears(2, Message::Learned(learned));
    }

    /// The same; and that slot is executed, and forgotten.
    pub(crate) fn executes(&mut self, slot: Slot, commands: Vec<Command>) {
        self.learns_in(slot, commands);
        self.event(Event::Executed { slot });
        let digest = Digest::default();
        self.event(Event::Trimmable { slot, digest });
    }
}

pub(crate) fn value(node: u16, number: u64) -> ValueId {
    let (node, boot) = (NodeId(node), 1);
    ValueId { node, boot, number }
}

pub(crate) fn is_spread(message: &Message) -> bool {
    matches!(message, Message::Spread(_))
}

/// What one node spreads is kept up to a bound, and for a time.
pub(crate) fn keeps_what_is_bounded() {
    let mut member = Member::new(Standing::Voter);
    let kept = (1..=3000).filter(|number| member.is_kept(*number)).count();
    assert_eq!(kept, 1024, "no more of one node, which may be dead");
    let most = member.held_bytes();
    assert!(!member.is_kept(4000) && member.held_bytes() == most);
    let value_of_other = value(3, 1);
    let commands = vec![call(3, 1, b"x")];
    let spread = Spread {
        value: value_of_other,
        commands,
    };
    let sent = member.hears(3, Message::Spread(spread));
    assert!(!sent.is_empty(), "another node has its own share");
    let due = member.instance.next_wake().expect("values expire");
    assert!(due < NOW + Duration::from_millis(10_000));
    member.now = NOW + Duration::from_millis(3_000);
    member.event(Event::Wake);
    assert_eq!(member.held_bytes(), 0, "its sender has given it up");
    assert!(member.is_kept(4001));
}
