//! A node that has found two decisions for one slot.

use crate::{Group, pid, run, signal, text};
use mio::{Events, Poll, Token, Waker};
use quorate_any::AnyMessage;
use quorate_any::paxos::Message;
use quorate_any::paxos::message::{Learn, Learned};
use quorate_node::NodeConfig;
use quorate_replica::PeerMessage;
use quorate_storage::Identity;
use quorate_transport::{
    Arrival, FrameLane, GroupLevel, Own, PeerAddress, Places, Settings, Transport, TransportLimits,
};
use quorate_types::{
    Batch, NodeId, NodeSet, Reach, Recall, Slot, Stamp, StartOfNode, Starts, Time, ViewId, Wall,
};
use quorate_wire::{put_peer_shared, take_peer};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Claim mp-35.
#[test]
fn a_node_that_found_conflicting_decisions_refuses_every_start() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["--nodes", "3", "--dir", dir.path().to_str().unwrap()];
    let mut group = Group::start(&words);
    assert_eq!(group.add("3"), "3");
    assert_eq!(group.stop(), Some(0));
    let mut directory = Identity::open(&dir.path().join("node-2")).unwrap();
    directory.note_conflict(Slot(41)).unwrap();
    directory.note_conflict(Slot(42)).unwrap();
    drop(directory);
    let config = dir.path().join("node-2.toml");
    for _ in 0..2 {
        let output = run(&["node", "run", "--config", config.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(7));
        let says = text(&output.stderr);
        assert!(says.contains("different decisions for s41"), "{says}");
        assert!(
            says.contains("keep the data directories of all nodes"),
            "{says}"
        );
    }
    let help = run(&["node", "run", "--help"]);
    assert!(text(&help.stdout).contains("another decision for a slot"));
}

/// Speaks in the place of a node that does not run, with its identity.
struct Impostor {
    poll: Poll,
    transport: Transport,
    view: ViewId,
    begun: Instant,
}

impl Impostor {
    fn of(config: &Path) -> Impostor {
        let config = NodeConfig::read(config).unwrap();
        let (view, node) = (config.view(), config.node_id());
        let poll = Poll::new().unwrap();
        let members = view.members.iter().map(|member| PeerAddress {
            node: member.node,
            incarnation: member.incarnation,
            address: member.address.clone(),
        });
        // Further than the node ever came: it is taken for no older copy.
        let mut starts = Starts::default();
        starts.note(StartOfNode {
            boot: 1 << 20,
            number: 7,
            begun: 1 << 20,
        });
        let settings = Settings {
            began: quorate_wire::began_with(&config.view()),
            speaks: quorate_wire::SPEAKS,
            level: GroupLevel {
                level: view.level,
                view: view.number,
            },
            places: Places::new(10_000),
            own: Own {
                cluster: config.cluster_id(),
                group: config.group_id(),
                node,
                incarnation: view.member(node).unwrap().incarnation,
                reach: Reach {
                    boot: 1 << 20,
                    start: 7,
                    commit: 1 << 20,
                    recall: Recall::Whole,
                    since: quorate_types::ViewNumber(0),
                    starts,
                },
            },
            listen: Some(config.listen),
            members: members.collect(),
            pasts: BTreeMap::new(),
            view: view.number,
            objects: Vec::new(),
            tls: None,
            limits: TransportLimits::default(),
            seed: [7; 32],
            first_token: 1,
        };
        let registry = poll.registry().try_clone().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        Impostor {
            transport: Transport::listen(settings, registry, waker, Time(0)).unwrap(),
            poll,
            view: ViewId {
                group: config.group_id(),
                number: view.number,
            },
            begun: Instant::now(),
        }
    }

    fn now(&self) -> Time {
        Time(u64::try_from(self.begun.elapsed().as_nanos()).unwrap())
    }

    /// Turns until something arrives of which `is_it` is true.
    fn wait(&mut self, what: &str, is_it: impl Fn(&Arrival) -> bool) {
        let mut events = Events::with_capacity(64);
        let mut arrivals = Vec::new();
        let since = Instant::now();
        while !arrivals.drain(..).any(|arrival| is_it(&arrival)) {
            assert!(since.elapsed().as_secs() < 20, "never: {what}");
            let patience = Some(Duration::from_millis(1));
            self.poll.poll(&mut events, patience).unwrap();
            let now = self.now();
            self.transport.read_on(now);
            for event in events.iter().filter(|event| event.token() != Token(0)) {
                self.transport.ready(event, now);
            }
            self.transport.tick(now);
            self.transport.take_arrivals(&mut arrivals);
            self.transport.flush(now);
        }
    }

    /// Queues a message, without sending it.
    fn say(&mut self, peer: NodeId, message: Message) {
        let message = PeerMessage::Ordering {
            view: self.view,
            message: AnyMessage::Paxos(message),
        };
        let (to, now) = (NodeSet::only(peer), self.now());
        self.transport.send(to, FrameLane::Normal, now, |body| {
            put_peer_shared(body, &message);
        });
    }

    /// Tells `peer` that the first slot was decided otherwise, until it is gone. Whether it answered what came with that.
    fn contradict(&mut self, peer: NodeId) -> bool {
        self.wait(
            "a link",
            |arrival| matches!(arrival, Arrival::Up { peer: up, .. } if *up == peer),
        );
        // Nothing is decided there, which is an answer too.
        let from = Slot(1 << 40);
        self.say(peer, Message::Learn(Learn { from }));
        self.wait("an answer", is_answer);
        let stamp = Stamp {
            wall: Wall(5),
            entropy: 6,
        };
        let learned = Learned {
            from: Slot(1),
            batches: vec![Batch::new(stamp, Vec::new())],
            decided: Slot(1),
        };
        self.say(peer, Message::Learned(learned));
        self.say(peer, Message::Learn(Learn { from }));
        let is_answered = Cell::new(false);
        self.wait("the end of the node", |arrival| {
            is_answered.set(is_answered.get() || is_answer(arrival));
            matches!(arrival, Arrival::Down { peer: down } if *down == peer)
        });
        is_answered.get()
    }
}

fn is_answer(arrival: &Arrival) -> bool {
    let Arrival::Peer { frame, .. } = arrival else {
        return false;
    };
    let message = take_peer(&frame.body).unwrap();
    matches!(
        message,
        PeerMessage::Ordering {
            message: AnyMessage::Paxos(Message::Learned(_)),
            ..
        }
    )
}

/// Claim mp-35.
#[test]
fn a_leader_that_is_told_another_decision_than_its_own_stops_notes_the_slot_and_stays_down() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["--no-restart", "--dir", dir.path().to_str().unwrap()];
    let mut group = Group::start(&words);
    assert_eq!(group.add("3"), "3");
    let leader = group.leader();
    let told = u16::try_from(leader["id"].as_u64().unwrap()).unwrap();
    let replaced = told % 3 + 1;
    let config = |node| dir.path().join(format!("node-{node}.toml"));
    signal(
        pid(&group.ready["nodes"][usize::from(replaced) - 1]),
        "KILL",
    );
    group.wait_for(&format!("node {replaced} died (signal 9)"));
    let is_answered = Impostor::of(&config(replaced)).contradict(NodeId(told));
    assert!(!is_answered, "nothing of that turn leaves the node");
    group.wait_for(&format!("node {told} died (exit code 7)"));
    let says = std::fs::read_to_string(dir.path().join(format!("node-{told}.log"))).unwrap();
    let names = [
        "two values are decided for one slot: s1 is decided twice: here as ",
        &format!("at n{replaced} as a noop stamped 5/6"),
        "does not start again",
    ];
    assert!(names.iter().all(|name| says.contains(name)), "{says}");
    let directory = Identity::open(&dir.path().join(format!("node-{told}"))).unwrap();
    assert_eq!(directory.identity().conflict, Some(Slot(1)));
    drop(directory);
    for _ in 0..2 {
        let path = config(told);
        let output = run(&["node", "run", "--config", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(7));
        let says = text(&output.stderr);
        assert!(says.contains("different decisions for s1"), "{says}");
    }
}
