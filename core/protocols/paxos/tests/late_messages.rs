//! Single instances driven by hand: what a late, lost or repeated message must not do.

use quorate_ordering::{Config, ConflictingDecisions, Effect, Event, LinkState, Ordering, ReadId};
use quorate_paxos::message::{
    Accept, Accepted, AskBarrier, Heard, Heartbeat, Learned, PreVote, PreVoted, Prepare, TakeOver,
};
use quorate_paxos::{Message, MultiPaxos, Promise};
use quorate_testkit::{VIEW, call, received, turn, view};
use quorate_types::{
    Ballot, Batch, Digest, Duration, GroupId, LinkEpoch, NodeId, NodeSet, Persistence, Slot, Stamp,
    Time, ViewId, ViewNumber, Wall,
};

struct Lone {
    paxos: MultiPaxos,
    now: Time,
    conflicts: Vec<ConflictingDecisions>,
}

impl Lone {
    fn new(config: Config) -> Lone {
        let now = Time(1_000_000_000);
        let mut paxos = MultiPaxos::new(config, Vec::new(), now).unwrap();
        let slot = Slot::ZERO;
        paxos.handle(now, Event::Executed { slot }, &mut Vec::new());
        let conflicts = Vec::new();
        Lone {
            paxos,
            now,
            conflicts,
        }
    }

    fn event(&mut self, event: Event<Message>) -> Vec<(NodeSet, Message)> {
        let effects = turn(&mut self.paxos, self.now, event);
        let sent = effects.into_iter().filter_map(|effect| match effect {
            Effect::Send { to, message, .. } => Some((to, message)),
            Effect::Conflict(conflict) => {
                self.conflicts.push(conflict);
                None
            }
            _ => None,
        });
        sent.collect()
    }

    fn receive(&mut self, from: u16, message: Message) -> Vec<(NodeSet, Message)> {
        self.event(received(from, message))
    }

    fn link(&mut self, peer: u16) {
        let state = LinkState::Up(LinkEpoch(1));
        let peer = NodeId(peer);
        self.event(Event::Link { peer, state });
    }

    fn submit(&mut self, sequence: u64) -> Vec<(NodeSet, Message)> {
        let commands = vec![call(1, sequence, b"")];
        self.event(Event::Submit { commands })
    }
}

fn accepts(sent: &[(NodeSet, Message)]) -> usize {
    let is_accept = |(_, message): &&(NodeSet, Message)| matches!(message, Message::Accept(_));
    sent.iter().filter(is_accept).count()
}

/// Claim mp-16.
#[test]
fn a_barrier_told_to_an_earlier_life_confirms_no_read_of_a_later_one() {
    let request_of = |boot| {
        let mut node = Lone::new(Config::new(
            VIEW.group,
            NodeId(2),
            boot,
            view(3, 3, Persistence::Memory),
            2,
        ));
        node.link(1);
        let ballot = Ballot {
            view: VIEW.number,
            round: 1,
            node: NodeId(1),
            boot: 1,
        };
        let heartbeat = Message::Heartbeat(Heartbeat {
            ballot,
            beat: 1,
            decided: Slot::ZERO,
            wants_lease: false,
            current: None,
        });
        node.receive(1, heartbeat);
        let read = Event::Read {
            id: ReadId(1),
            lease: false,
        };
        let asked = node.event(read).into_iter().find_map(|sent| match sent.1 {
            Message::AskBarrier(AskBarrier { request }) => Some(request),
            _ => None,
        });
        asked.expect("the leader is asked")
    };
    assert_ne!(request_of(1), request_of(2));
}

/// Claim mp-14.
#[test]
fn a_learner_whose_acknowledgements_were_lost_gets_values_again() {
    let mut config = Config::new(VIEW.group, NodeId(1), 1, view(2, 1, Persistence::Memory), 1);
    config.limits.credit_messages = 1;
    let mut node = Lone::new(config);
    node.link(2);
    node.event(Event::Wake);
    assert_eq!(accepts(&node.submit(1)), 1, "the only acceptor leads");
    assert_eq!(accepts(&node.submit(2)), 0, "the credit is used up");
    for _ in 0..40 {
        node.now = node.now + Duration::from_millis(25);
        for (_, message) in node.event(Event::Wake) {
            if let Message::Heartbeat(Heartbeat {
                ballot,
                beat,
                decided,
                ..
            }) = message
            {
                let heard = Message::Heard(Heard {
                    ballot,
                    beat,
                    number: beat,
                    decided,
                    is_voter: false,
                    is_granted: false,
                });
                node.receive(2, heard);
            }
        }
    }
    assert_eq!(
        accepts(&node.submit(3)),
        1,
        "it answers, so it may have more"
    );
}

/// Claim mp-35.
#[test]
fn a_node_that_is_told_another_decision_stops_and_names_both() {
    let learned = |sequence| {
        let commands = vec![call(7, sequence, b"x")];
        let stamp = Stamp {
            wall: Wall(5),
            entropy: 0,
        };
        Message::Learned(Learned {
            from: Slot(1),
            batches: vec![Batch::new(stamp, commands)],
            decided: Slot(1),
        })
    };
    let mut node = Lone::new(Config::new(
        VIEW.group,
        NodeId(2),
        1,
        view(3, 3, Persistence::Memory),
        2,
    ));
    node.receive(1, learned(1));
    node.receive(1, learned(1));
    assert!(node.conflicts.is_empty());
    node.receive(3, learned(2));
    let named: Vec<String> = node.conflicts.iter().map(ToString::to_string).collect();
    assert_eq!(
        named,
        [
            "s1 is decided twice: here as 1 commands from s7:1 on, stamped 5/0, at n3 as 1 commands from s7:2 on, stamped 5/0"
        ]
    );
}

/// Claim mp-38.
#[test]
fn a_candidate_that_lags_by_more_than_one_answer_is_denied_once_and_granted_after_a_while() {
    let mut config = Config::new(VIEW.group, NodeId(2), 1, view(3, 3, Persistence::Memory), 2);
    config.limits.chunk_slots = 2;
    let mut node = Lone::new(config);
    node.link(3);
    node.receive(
        3,
        Message::Learned(Learned {
            from: Slot(1),
            batches: vec![Batch::noop(), Batch::noop(), Batch::noop()],
            decided: Slot(3),
        }),
    );
    let asks = |attempt, decided| Message::PreVote(PreVote { attempt, decided });
    let is_granted = |sent: Vec<(NodeSet, Message)>| {
        let granted = sent.into_iter().find_map(|(_, message)| match message {
            Message::PreVoted(PreVoted { is_granted, .. }) => Some(is_granted),
            _ => None,
        });
        granted.expect("a pre-vote is answered")
    };
    assert!(
        is_granted(node.receive(3, asks(1, Slot(1)))),
        "it lags by one answer only"
    );
    assert!(
        !is_granted(node.receive(3, asks(2, Slot(0)))),
        "it lags far"
    );
    let sent = node.event(Event::Wake);
    let stands = |(_, message): &(NodeSet, Message)| matches!(message, Message::PreVote(_));
    assert!(
        sent.iter().any(stands),
        "the better candidate stands at once"
    );
    node.now = node.now + Duration::from_millis(100);
    assert!(
        is_granted(node.receive(3, asks(3, Slot(0)))),
        "nobody better won"
    );
    let ballot = Ballot::ZERO.next(VIEW.number, NodeId(3), 1);
    let beat = Heartbeat {
        ballot,
        beat: 1,
        decided: Slot(3),
        wants_lease: false,
        current: None,
    };
    node.receive(3, Message::Heartbeat(beat));
    assert!(
        !is_granted(node.receive(3, asks(4, Slot(0)))),
        "a leader was heard: the next search prefers the better candidate again"
    );
}

#[test]
fn what_another_view_or_group_says_is_dropped_and_counted() {
    let mut node = Lone::new(Config::new(
        VIEW.group,
        NodeId(2),
        1,
        view(3, 3, Persistence::Memory),
        2,
    ));
    node.link(1);
    let own = Ballot::ZERO.next(VIEW.number, NodeId(1), 1);
    let prepare = |ballot| {
        Message::Prepare(Prepare {
            ballot,
            from: Slot(1),
        })
    };
    let later = ViewNumber(2);
    let foreign = [
        ViewId {
            group: GroupId(2),
            ..VIEW
        },
        ViewId {
            number: later,
            ..VIEW
        },
    ];
    for view in foreign {
        let sent = node.event(Event::Receive {
            from: NodeId(1),
            link: LinkEpoch(1),
            view,
            message: prepare(own),
        });
        assert!(sent.is_empty(), "{view} is promised nothing");
    }
    let ballot = Ballot { view: later, ..own };
    assert!(node.receive(1, prepare(ballot)).is_empty());
    let accepted = Message::Accepted(Accepted {
        ballot,
        first: Slot(1),
        last: Slot(1),
    });
    assert!(node.receive(1, accepted).is_empty());
    let status = node.paxos.status();
    assert_eq!((status.foreign, status.promised), (4, Ballot::ZERO));
    assert_eq!(node.receive(1, prepare(own)).len(), 1, "its own view's is");
}

/// A leader of three acceptors whose peers are linked and answer nothing by themselves.
fn leader(config: Config) -> (Lone, Ballot) {
    let mut node = Lone::new(config);
    node.link(2);
    node.link(3);
    let ballot = Ballot::ZERO;
    let sent = node.receive(2, Message::TakeOver(TakeOver { ballot }));
    let prepared = sent.into_iter().find_map(|(_, message)| match message {
        Message::Prepare(Prepare { ballot, .. }) => Some(ballot),
        _ => None,
    });
    let ballot = prepared.expect("it stands at once");
    (node, ballot)
}

fn promise(ballot: Ballot, decided: u64) -> Message {
    Message::Promise(Box::new(Promise {
        ballot,
        from: Slot(1),
        votes: Vec::new(),
        unknown: Vec::new(),
        next: None,
        decided: Slot(decided),
        trimmed: Slot::ZERO,
        wall: Wall(0),
    }))
}

fn config() -> Config {
    let view = view(3, 3, Persistence::Memory);
    Config::new(VIEW.group, NodeId(1), 1, view, 1)
}

fn proposed_to(sent: &[(NodeSet, Message)], peer: u16) -> Vec<u64> {
    let proposals = sent.iter().filter_map(|(to, message)| match message {
        Message::Accept(Accept { slot, .. }) if to.contains(NodeId(peer)) => Some(slot.0),
        _ => None,
    });
    proposals.collect()
}

/// Claim mp-35.
#[test]
fn a_node_that_decided_by_counting_votes_and_is_told_another_decision_stops_and_names_both() {
    let (mut node, ballot) = leader(config());
    node.receive(2, promise(ballot, 0));
    assert_eq!(proposed_to(&node.submit(1), 2), [1]);
    let (first, last) = (Slot(1), Slot(1));
    let accepted = Accepted {
        ballot,
        first,
        last,
    };
    node.receive(2, Message::Accepted(accepted));
    assert_eq!(node.paxos.status().decided, Slot(1), "two of three voted");
    let stamp = Stamp {
        wall: Wall(5),
        entropy: 0,
    };
    let other = Batch::new(stamp, vec![call(7, 2, b"x")]);
    let told = Learned {
        from: Slot(1),
        batches: vec![other],
        decided: Slot(1),
    };
    node.receive(3, Message::Learned(told));
    let named: Vec<String> = node.conflicts.iter().map(ToString::to_string).collect();
    assert_eq!(
        named,
        [
            "s1 is decided twice: here as 1 commands from s1:1 on, stamped 1000000000/9e3779b97f4a7c15, at n3 as 1 commands from s7:2 on, stamped 5/0"
        ]
    );
}

/// Claim mp-40.
#[test]
fn no_slot_is_proposed_further_than_the_window_beyond_what_the_replica_applied() {
    let mut config = config();
    config.view.window = 2;
    let (mut node, ballot) = leader(config);
    node.receive(2, promise(ballot, 0));
    for sequence in 1..=4 {
        node.submit(sequence);
    }
    let (first, last) = (Slot(1), Slot(2));
    let accepted = Message::Accepted(Accepted {
        ballot,
        first,
        last,
    });
    assert_eq!(
        accepts(&node.receive(2, accepted)),
        0,
        "decided is not applied"
    );
    let slot = Slot(1);
    let sent = node.event(Event::Executed { slot });
    assert_eq!(
        proposed_to(&sent, 2),
        [3],
        "one slot applied, one more proposed"
    );
}

/// Claim mp-41.
#[test]
fn a_peer_that_is_slow_has_no_more_bytes_in_flight_than_its_credit() {
    let mut config = config();
    config.limits.credit_bytes = 1000;
    config.limits.batch_commands = 1;
    let (mut node, ballot) = leader(config);
    node.receive(2, promise(ballot, 0));
    let mut proposed = Vec::new();
    for sequence in 1..=6 {
        let commands = vec![call(1, sequence, &[0; 600])];
        let sent = node.event(Event::Submit { commands });
        proposed.extend(proposed_to(&sent, 3));
        // Acceptor 2 is as fast as can be, acceptor 3 answers nothing.
        let (first, last) = (Slot(sequence), Slot(sequence));
        node.receive(
            2,
            Message::Accepted(Accepted {
                ballot,
                first,
                last,
            }),
        );
        let slot = last;
        node.event(Event::Executed { slot });
    }
    assert_eq!(proposed, [1, 2], "the second passes the bound, then none");
    let (first, last) = (Slot(1), Slot(2));
    node.receive(
        3,
        Message::Accepted(Accepted {
            ballot,
            first,
            last,
        }),
    );
    let sent = node.submit(7);
    assert_eq!(proposed_to(&sent, 3), [7], "its credit is back");
}

/// Claim mp-27.
#[test]
fn small_commands_behind_large_ones_wait_for_the_pipeline_of_small_ones() {
    let mut config = config();
    config.limits.large_bytes = 1000;
    config.limits.pipeline = 2;
    config.limits.pipeline_large = 4;
    let (mut node, ballot) = leader(config);
    node.receive(2, promise(ballot, 0));
    let payload = |sequence| vec![0; if sequence <= 3 { 1000 } else { 10 }];
    let commands = (1..=5).map(|sequence| call(1, sequence, &payload(sequence)));
    let commands = commands.collect();
    let sent = node.event(Event::Submit { commands });
    assert_eq!(accepts(&sent), 3, "the small ones gather");
    let (first, last) = (Slot(1), Slot(2));
    let accepted = Message::Accepted(Accepted {
        ballot,
        first,
        last,
    });
    assert_eq!(accepts(&node.receive(2, accepted)), 1, "both in one slot");
}

/// Claim mp-36.
#[test]
fn a_leader_that_was_answered_in_vain_by_everybody_pauses_before_it_asks_again() {
    let (mut node, ballot) = leader(config());
    let questions = |sent: Vec<(NodeSet, Message)>| {
        let is_learn = |(_, message): &&(NodeSet, Message)| matches!(message, Message::Learn(_));
        sent.iter().filter(is_learn).count()
    };
    let nothing = || {
        Message::Learned(Learned {
            from: Slot(1),
            batches: Vec::new(),
            decided: Slot::ZERO,
        })
    };
    assert_eq!(questions(node.receive(2, promise(ballot, 3))), 1);
    assert_eq!(
        questions(node.receive(2, nothing())),
        1,
        "the other one at once"
    );
    assert_eq!(
        questions(node.receive(3, nothing())),
        0,
        "nobody else is left"
    );
    node.now = node.now + Duration::from_millis(5);
    assert_eq!(questions(node.event(Event::Wake)), 1);
}

/// Claim mp-38.
#[test]
fn a_lagging_candidate_that_asked_while_a_leader_was_late_is_denied_in_the_next_search_too() {
    let mut node = Lone::new(Config::new(
        VIEW.group,
        NodeId(2),
        1,
        view(3, 3, Persistence::Memory),
        2,
    ));
    node.link(1);
    node.link(3);
    let ballot = Ballot::ZERO.next(VIEW.number, NodeId(1), 1);
    let heartbeat = |beat| {
        Message::Heartbeat(Heartbeat {
            ballot,
            beat,
            decided: Slot(3),
            wants_lease: false,
            current: None,
        })
    };
    node.receive(1, heartbeat(1));
    node.receive(
        1,
        Message::Learned(Learned {
            from: Slot(1),
            batches: vec![Batch::noop(), Batch::noop(), Batch::noop()],
            decided: Slot(3),
        }),
    );
    node.event(Event::Executed { slot: Slot(3) });
    node.event(Event::Trimmable {
        slot: Slot(2),
        digest: Digest::default(),
    });
    let decided = Slot(0);
    let asks = |node: &mut Lone, attempt| {
        let sent = node.receive(3, Message::PreVote(PreVote { attempt, decided }));
        let granted = sent.into_iter().find_map(|(_, message)| match message {
            Message::PreVoted(answer) => Some(answer.is_granted),
            _ => None,
        });
        granted.expect("a pre-vote is answered")
    };
    node.now = node.now + Duration::from_millis(399);
    assert!(!asks(&mut node, 1), "a leader is heard");
    node.now = node.now + Duration::from_millis(1);
    assert!(!asks(&mut node, 2), "it needs a snapshot");
    // The leader was only late; its next silence is another search.
    node.receive(1, heartbeat(2));
    node.now = node.now + Duration::from_millis(800);
    assert!(!asks(&mut node, 3), "it needs a snapshot");
}

/// Claim mp-18.
#[test]
fn a_submission_whose_id_another_command_took_is_not_forgotten() {
    let mut node = Lone::new(Config::new(
        VIEW.group,
        NodeId(2),
        1,
        view(3, 3, Persistence::Memory),
        2,
    ));
    node.link(1);
    node.link(3);
    node.submit(1);
    let other = Batch::new(Stamp::default(), vec![call(1, 1, b"another")]);
    let learned = Message::Learned(Learned {
        from: Slot(1),
        batches: vec![other],
        decided: Slot(1),
    });
    node.receive(3, learned);
    let ballot = Ballot::ZERO.next(VIEW.number, NodeId(1), 1);
    let heartbeat = Message::Heartbeat(Heartbeat {
        ballot,
        beat: 1,
        decided: Slot(1),
        wants_lease: false,
        current: None,
    });
    let sent = node.receive(1, heartbeat);
    let is_forward = |(_, message): &(NodeSet, Message)| matches!(message, Message::Forward(_));
    assert!(sent.iter().any(is_forward), "it is ordered or refused");
}
