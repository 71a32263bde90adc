//! What the orderings cost without faults, what a slow acceptor costs with each flow, and whom a leader asks. Messages arrive in the order
//! in which they were sent, writes are durable at once, and time stands still unless a test has it pass.

use quorate_ordering::{Config, Effect, Event, Flow, Limits, LinkState, Ordering, ProposalReach};
use quorate_paxos::message::{Learned, TakeOver};
use quorate_paxos::{Message, MultiPaxos};
use quorate_testkit::{VIEW, call, view};
use quorate_types::{
    Ballot, Batch, Duration, LinkEpoch, NodeId, OrderingName, Persistence, Slot, Stamp, Time, View,
    Wall,
};
use std::collections::{BTreeMap, VecDeque};

const NOW: Time = Time(1_000_000_000);
const LEADER: NodeId = NodeId(1);

struct Group {
    nodes: BTreeMap<NodeId, MultiPaxos>,
    under_way: VecDeque<(NodeId, NodeId, Message)>,
    /// Messages sent, heartbeats left out.
    sent: usize,
    /// How many of them brought a value, by who sent them.
    values: BTreeMap<NodeId, usize>,
    /// What is sent to this node stays under way.
    slow: Option<NodeId>,
    submitted: u64,
    now: Time,
}

impl Group {
    /// One that node 1 leads.
    fn new(nodes: u16, ordering: OrderingName, limits: Limits) -> Group {
        let view = View {
            level: ordering.level(),
            ordering,
            window: 1 << 14,
            ..view(nodes, nodes, Persistence::Disk)
        };
        let made = view.nodes().iter().map(|own| {
            let mut config = Config::new(VIEW.group, own, 1, view.clone(), 7);
            config.limits = limits;
            let instance = MultiPaxos::new(config, Vec::new(), NOW).expect("an empty log");
            (own, instance)
        });
        let mut group = Group {
            nodes: made.collect(),
            under_way: VecDeque::new(),
            sent: 0,
            values: BTreeMap::new(),
            slow: None,
            submitted: 0,
            now: NOW,
        };
        for own in view.nodes().iter() {
            group.event(own, Event::Executed { slot: Slot::ZERO });
            for peer in view.nodes().without(own).iter() {
                let state = LinkState::Up(LinkEpoch(1));
                group.event(own, Event::Link { peer, state });
            }
        }
        let stand = Message::TakeOver(TakeOver {
            ballot: Ballot::ZERO,
        });
        group.receive(NodeId(2), LEADER, stand);
        group.carry();
        group
    }

    fn event(&mut self, at: NodeId, event: Event<Message>) {
        let node = self.nodes.get_mut(&at).expect("a member");
        let mut effects = Vec::new();
        node.handle(self.now, event, &mut effects);
        let mut done = 0;
        loop {
            let turn = Event::TurnEnd {
                wall: Wall(1),
                entropy: 1,
            };
            node.handle(self.now, turn, &mut effects);
            let mut marks = effects[done..].iter().filter_map(|effect| match effect {
                Effect::Persist { mark, .. } => Some(*mark),
                _ => None,
            });
            let newest = marks.next_back();
            done = effects.len();
            let Some(mark) = newest else { break };
            node.handle(self.now, Event::Persisted { mark }, &mut effects);
        }
        node.check();
        for effect in effects {
            if let Effect::Send { to, message, .. } = effect {
                let is_beat = matches!(message, Message::Heartbeat(_) | Message::Heard(_));
                self.sent += if is_beat { 0 } else { to.len() };
                if matches!(message, Message::Accept(_) | Message::Pass(_)) && !to.is_empty() {
                    *self.values.entry(at).or_default() += to.len();
                }
                let posted = to.iter().map(|to| (at, to, message.clone()));
                self.under_way.extend(posted);
            }
        }
    }

    fn receive(&mut self, from: NodeId, at: NodeId, message: Message) {
        let (link, view) = (LinkEpoch(1), VIEW);
        let received = Event::Receive {
            from,
            link,
            view,
            message,
        };
        self.event(at, received);
    }

    /// Delivers everything but what is for a slow node.
    fn carry(&mut self) {
        let mut kept = VecDeque::new();
        while let Some((from, to, message)) = self.under_way.pop_front() {
            match self.slow == Some(to) {
                true => kept.push_back((from, to, message)),
                false => self.receive(from, to, message),
            }
        }
        self.under_way = kept;
    }

    /// The leader orders one command, and what that causes arrives.
    fn order(&mut self) {
        self.submitted += 1;
        let commands = vec![call(9, self.submitted, b"x")];
        self.event(LEADER, Event::Submit { commands });
        self.carry();
    }

    /// How many messages one more command costs. What the leader says of a decision waits for no other message.
    fn cost(&mut self) -> usize {
        let before = self.sent;
        self.order();
        let due = self.now + Duration::from_millis(6);
        let mut effects = Vec::new();
        let leader = self.nodes.get_mut(&LEADER).expect("it leads");
        leader.handle(due, Event::Wake, &mut effects);
        let announced = effects.iter().map(|effect| match effect {
            Effect::Send {
                to,
                message: Message::Decided(_),
                ..
            } => to.len(),
            _ => 0,
        });
        self.sent - before + announced.sum::<usize>()
    }

    fn status(&self) -> quorate_ordering::OrderingStatus {
        self.nodes[&LEADER].status()
    }

    /// Time passes, and the leader does what is due.
    fn pass(&mut self, ms: u64) {
        self.now = self.now + Duration::from_millis(ms);
        self.event(LEADER, Event::Wake);
        self.carry();
    }

    /// The leader's next heartbeat takes 10 ms to this node.
    fn beat_far(&mut self, far: NodeId) {
        self.slow = Some(far);
        self.pass(25);
        self.now = self.now + Duration::from_millis(10);
        self.slow = None;
        self.carry();
    }

    fn waits_for_slow(&self) -> usize {
        let accepts = self.under_way.iter();
        let accepts = accepts.filter(|(.., message)| matches!(message, Message::Accept(_)));
        accepts.count()
    }
}

/// Claim mp-73.
#[test]
fn a_command_alone_costs_as_many_messages_as_the_documents_say() {
    let all = [
        (OrderingName::Paxos, [(3, 6), (5, 12)]),
        (OrderingName::Libpaxos, [(3, 8), (5, 24)]),
        // The first slot of a ring's step; the others of it cost as many.
        (OrderingName::RingPaxos, [(3, 6), (5, 12)]),
        (OrderingName::SPaxos, [(3, 12), (5, 32)]),
    ];
    for (ordering, costs) in all {
        for (nodes, cost) in costs {
            let mut group = Group::new(nodes, ordering, Limits::default());
            assert_eq!(group.cost(), cost, "{ordering} on {nodes} nodes");
        }
    }
    for (nodes, first, later) in [(3, 8, 5), (5, 24, 14)] {
        let mut group = Group::new(nodes, OrderingName::LibpaxosPlus, Limits::default());
        assert_eq!(group.cost(), first, "a first slot on {nodes} nodes");
        (0..8).for_each(|_| group.order());
        assert!(group.status().spared > 0);
        let later_cost = {
            let before = group.sent;
            group.event(
                LEADER,
                Event::Submit {
                    commands: vec![call(9, 1_000, b"x")],
                },
            );
            let asked = group.under_way.len();
            group.carry();
            assert!(asked > 0);
            group.sent - before
        };
        assert_eq!(later_cost, later, "a later slot on {nodes} nodes");
    }
}

/// What is on its way to a slow acceptor after so many commands, and how many of them are decided.
fn backlog(ordering: OrderingName, flow: Flow) -> (usize, u64) {
    let limits = Limits {
        flow,
        batch_commands: 1,
        ..Limits::default()
    };
    let mut group = Group::new(3, ordering, limits);
    group.slow = Some(NodeId(3));
    (0..1_000).for_each(|_| group.order());
    (group.waits_for_slow(), group.status().decided.0)
}

/// Claim mp-58.
#[test]
fn a_slow_acceptor_is_bounded_by_its_credit_piles_up_without_blocks_a_leader_that_blocks_and_is_spared_by_steps()
 {
    let credit = Limits::default().credit_messages;
    assert_eq!(backlog(OrderingName::Paxos, Flow::Credit), (credit, 1_000));
    assert_eq!(
        backlog(OrderingName::Libpaxos, Flow::Unbounded),
        (1_000, 1_000)
    );
    assert_eq!(
        backlog(OrderingName::Paxos, Flow::Blocking(64)),
        (64, 64),
        "the group goes at the pace of its slowest"
    );
    let (spared, decided) = backlog(OrderingName::LibpaxosPlus, Flow::Unbounded);
    assert!(spared <= 8 * 8, "{spared} of the first slots of its steps");
    assert_eq!(decided, 1_000);
}

/// Limits with short steps: all are asked in the first 8 of their 16 slots. One command a slot.
fn short_steps() -> Limits {
    Limits {
        step_first_slots: 8,
        step_slots: 16,
        batch_commands: 1,
        ..Limits::default()
    }
}

impl Group {
    /// The slots in which nodes that take nothing are asked for their votes.
    fn asked_of_slow(&self) -> Vec<u64> {
        let accepts = self.under_way.iter().filter_map(|(.., message)| {
            let Message::Accept(accept) = message else {
                return None;
            };
            Some(accept.slot.0)
        });
        accepts.collect()
    }
}

/// Claim mp-58.
#[test]
fn each_step_has_128_slots_and_asks_all_in_the_first_8() {
    let limits = Limits {
        batch_commands: 1,
        ..Limits::default()
    };
    let mut group = Group::new(3, OrderingName::LibpaxosPlus, limits);
    group.slow = Some(NodeId(3));
    (0..300).for_each(|_| group.order());
    let first_ones = (1..=300).filter(|slot| (slot - 1) % 128 < 8);
    let expected: Vec<u64> = first_ones.collect();
    assert_eq!(group.asked_of_slow(), expected);
}

/// Claim mp-58.
#[test]
fn who_was_best_in_earlier_steps_and_is_slow_in_this_one_is_spared() {
    let mut group = Group::new(3, OrderingName::LibpaxosPlus, short_steps());
    group.slow = Some(NodeId(3));
    (0..32).for_each(|_| group.order());
    group.slow = Some(NodeId(2));
    (0..16).for_each(|_| group.order());
    assert_eq!(group.status().decided, Slot(48));
}

/// Claim mp-58.
#[test]
fn a_step_that_begins_while_slots_are_undecided_asks_who_was_spared() {
    let mut group = Group::new(3, OrderingName::LibpaxosPlus, short_steps());
    group.slow = Some(NodeId(3));
    (0..12).for_each(|_| group.order());
    assert_eq!(group.asked_of_slow(), Vec::from_iter(1..=8));
    let commands = (100..108).map(|sequence| call(9, sequence, b"x"));
    let commands = commands.collect();
    group.event(LEADER, Event::Submit { commands });
    group.carry();
    let asked = group.asked_of_slow();
    assert!(asked.ends_with(&[17, 18, 19, 20]), "{asked:?}");
}

/// Claim mp-70.
#[test]
fn along_a_ring_a_command_costs_as_many_messages_and_nobody_sends_it_twice() {
    for (nodes, cost) in [(3, 6), (5, 12)] {
        let mut group = Group::new(nodes, OrderingName::RingPaxos, Limits::default());
        (0..9).for_each(|_| group.order());
        group.values.clear();
        assert_eq!(group.cost(), cost, "on {nodes} nodes");
        let values: Vec<usize> = group.values.values().copied().collect();
        assert_eq!(values, vec![1; usize::from(nodes) - 1], "on {nodes} nodes");
    }
}

fn retrying() -> Limits {
    Limits {
        flow: Flow::Retry(Duration::from_millis(30)),
        batch_commands: 1,
        ..Limits::default()
    }
}

/// Claim mp-78.
#[test]
fn what_a_slow_acceptor_does_not_acknowledge_is_sent_again_where_the_leader_retries() {
    let most = retrying().credit_messages;
    let mut group = Group::new(3, OrderingName::Paxos, retrying());
    group.slow = Some(NodeId(3));
    (0..300).for_each(|_| group.order());
    assert_eq!(group.status().decided, Slot(300));
    let mut waiting = Vec::new();
    for _ in 0..5 {
        waiting.push(group.waits_for_slow());
        group.pass(25);
    }
    // Looked at with each heartbeat: not yet; the oldest; the others; the oldest again.
    assert_eq!(
        waiting,
        [300, 300, 300 + most, 600, 600 + most],
        "decided values, twice and more"
    );
    group.slow = None;
    group.carry();
    let peers = group.status().peers;
    assert!(peers.iter().all(|peer| peer.in_flight == 0), "{peers:?}");
    group.values.clear();
    (0..5).for_each(|_| group.pass(25));
    assert!(group.values.is_empty(), "all is acknowledged");
}

/// Claim mp-78.
#[test]
fn what_was_decided_for_another_leader_is_not_sent_again() {
    let mut group = Group::new(3, OrderingName::Paxos, retrying());
    let commands = vec![call(9, 1, b"mine")];
    group.event(LEADER, Event::Submit { commands });
    let asked = group.asked_of_slow();
    assert_eq!(asked, [1, 1], "both others");
    group.under_way.clear();
    let (wall, entropy) = (Wall(9), 0);
    let batch = Batch::new(Stamp { wall, entropy }, vec![call(8, 1, b"theirs")]);
    let learned = Learned {
        from: Slot(1),
        batches: vec![batch],
        decided: Slot(1),
    };
    group.receive(NodeId(2), LEADER, Message::Learned(learned));
    assert!(group.status().decided >= Slot(1));
    for _ in 0..4 {
        group.now = group.now + Duration::from_millis(25);
        group.event(LEADER, Event::Wake);
    }
    assert!(
        !group.asked_of_slow().contains(&1),
        "ballot and slot are one value's"
    );
}

fn nearest() -> Limits {
    Limits {
        reach: ProposalReach::Nearest,
        ..short_steps()
    }
}

/// Claim mp-79.
#[test]
fn the_nearest_majority_alone_is_asked() {
    for (ordering, costs) in [
        (OrderingName::Paxos, [(3, 4), (5, 8)]),
        (OrderingName::Libpaxos, [(3, 5), (5, 14)]),
    ] {
        for (nodes, cost) in costs {
            let mut group = Group::new(nodes, ordering, nearest());
            (0..9).for_each(|_| group.order());
            assert_eq!(group.cost(), cost, "{ordering} on {nodes} nodes");
        }
    }
}

/// Claim mp-79.
#[test]
fn who_answers_heartbeats_sooner_is_asked_in_the_next_step_without_counting() {
    let mut group = Group::new(3, OrderingName::Paxos, nearest());
    (0..16).for_each(|_| group.order());
    group.beat_far(NodeId(2));
    group.slow = Some(NodeId(2));
    (0..32).for_each(|_| group.order());
    assert_eq!(group.asked_of_slow(), Vec::<u64>::new());
    assert_eq!(
        (group.status().decided, group.status().suspicions),
        (Slot(48), 0)
    );
}

/// Claim mp-79.
#[test]
fn all_are_asked_when_one_of_the_nearest_is_suspected_and_who_stays_silent_is_far() {
    let mut group = Group::new(3, OrderingName::Paxos, nearest());
    (0..16).for_each(|_| group.order());
    group.beat_far(NodeId(2));
    group.order();
    group.slow = Some(NodeId(3));
    group.order();
    assert_eq!(
        group.status().decided,
        Slot(17),
        "it is asked of node 3 alone"
    );
    group.pass(50);
    assert_eq!(
        (group.status().decided, group.status().suspicions),
        (Slot(18), 1)
    );
    // The first slots after a suspicion are counted; then no step has node 3, which has not answered since.
    group.pass(25);
    (0..60).for_each(|_| group.order());
    assert_eq!(
        (group.status().decided, group.status().suspicions),
        (Slot(78), 1)
    );
}
