//! Transports that speak with each other, with plain sockets, and with those who should not come in.
//! Every wait is for a condition and bounded.

mod levels;
mod proving;
mod shares;
mod sighted;

use bytes::{Bytes, BytesMut};
use mio::{Events, Poll, Token, Waker};
use quorate_transport::{
    Arrival, FrameLane, GroupLevel, Own, PeerAddress, Places, Settings, Tls, Transport,
    TransportLimits, node_name,
};
use quorate_types::{
    BeganWith, ClusterId, ConnectionId, GroupId, Incarnation, Level, Levels, LinkEpoch, NodeId,
    NodeSet, Nonce, PeerPast, Reach, Recall, Starts, Time, ViewNumber,
};
use quorate_wire::{
    Frame, FrameReader, Hello, HelloRole, Kind, Reject, RejectReason, SPEAKS, VERSION, VERSION_MIN,
    greeting, put_frame,
};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

const GROUP: GroupId = GroupId(1);
const PATIENCE: Duration = Duration::from_secs(20);

struct Node {
    poll: Poll,
    transport: Transport,
    started: Instant,
    /// How far its clock is ahead of the time that has passed.
    ahead: Duration,
    seen: Vec<Arrival>,
}

impl Node {
    fn start(own: u16, boot: u64, addresses: &[SocketAddr], limits: TransportLimits) -> Node {
        Node::start_with(own, boot, addresses, limits, None)
    }

    fn start_with(
        own: u16,
        boot: u64,
        addresses: &[SocketAddr],
        limits: TransportLimits,
        tls: Option<Tls>,
    ) -> Node {
        Node::make(own, boot, addresses, (limits, tls, BTreeMap::new()))
    }

    /// With what an earlier life remembered of the others.
    fn start_after(
        own: u16,
        boot: u64,
        addresses: &[SocketAddr],
        pasts: BTreeMap<NodeId, PeerPast>,
    ) -> Node {
        Node::make(
            own,
            boot,
            addresses,
            (TransportLimits::default(), None, pasts),
        )
    }

    fn make(
        own: u16,
        boot: u64,
        addresses: &[SocketAddr],
        (limits, tls, pasts): (TransportLimits, Option<Tls>, BTreeMap<NodeId, PeerPast>),
    ) -> Node {
        let own_limits = (limits, tls, pasts);
        Node::of_build((own, boot), addresses, own_limits, (SPEAKS, Level::UNNAMED))
    }

    /// Of a build that speaks this, in a group at this level.
    fn of_build(
        (own, boot): (u16, u64),
        addresses: &[SocketAddr],
        (limits, tls, pasts): (TransportLimits, Option<Tls>, BTreeMap<NodeId, PeerPast>),
        (speaks, level): (Levels, Level),
    ) -> Node {
        let of_process = (speaks, level, Places::new(10_000));
        Node::of_process((own, boot), addresses, (limits, tls, pasts), of_process)
    }

    /// In a process whose places these are.
    fn of_process(
        (own, boot): (u16, u64),
        addresses: &[SocketAddr],
        (limits, tls, pasts): (TransportLimits, Option<Tls>, BTreeMap<NodeId, PeerPast>),
        (speaks, level, places): (Levels, Level, Places),
    ) -> Node {
        let poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let members = (1..).zip(addresses).map(|(node, address)| PeerAddress {
            node: NodeId(node),
            incarnation: Incarnation(100 + u64::from(node)),
            address: address.to_string(),
        });
        let settings = Settings {
            began: BeganWith([0; 16]),
            places,
            own: Own {
                cluster: ClusterId(7),
                group: GROUP,
                node: NodeId(own),
                incarnation: Incarnation(100 + u64::from(own)),
                reach: reach(boot),
            },
            pasts,
            listen: Some(addresses[usize::from(own) - 1]),
            members: members.collect(),
            view: ViewNumber(1),
            speaks,
            level: GroupLevel {
                level,
                view: ViewNumber(1),
            },
            objects: Vec::new(),
            tls,
            limits,
            seed: [u8::try_from(own).unwrap(); 32],
            first_token: 1,
        };
        let registry = poll.registry().try_clone().unwrap();
        let transport = Transport::listen(settings, registry, waker, Time(0)).unwrap();
        Node {
            poll,
            transport,
            started: Instant::now(),
            ahead: Duration::ZERO,
            seen: Vec::new(),
        }
    }

    fn now(&self) -> Time {
        let passed = self.started.elapsed() + self.ahead;
        Time(u64::try_from(passed.as_nanos()).unwrap())
    }

    fn pass(&mut self, span: Duration) {
        self.ahead += span;
    }

    fn turn(&mut self) {
        let mut events = Events::with_capacity(64);
        self.poll
            .poll(&mut events, Some(Duration::from_millis(1)))
            .unwrap();
        let now = self.now();
        self.transport.read_on(now);
        for event in events.iter().filter(|event| event.token() != Token(0)) {
            self.transport.ready(event, now);
        }
        self.transport.tick(now);
        self.transport.take_arrivals(&mut self.seen);
        self.transport.flush(now);
    }

    fn send(&mut self, to: u16, lane: FrameLane, body: &[u8]) {
        let now = self.now();
        self.transport
            .send(NodeSet::only(NodeId(to)), lane, now, |frame| {
                frame.buf().extend_from_slice(body);
            });
    }

    fn link(&self, peer: u16) -> Option<LinkEpoch> {
        let mut link = None;
        for arrival in &self.seen {
            match arrival {
                Arrival::Up {
                    peer: of, link: up, ..
                } if of.0 == peer => link = Some(*up),
                Arrival::Down { peer: of } if of.0 == peer => link = None,
                _ => {}
            }
        }
        link
    }

    fn bodies(&self) -> Vec<Bytes> {
        let frames = self.seen.iter().filter_map(|arrival| match arrival {
            Arrival::Peer { frame, .. } | Arrival::Client { frame, .. } => Some(frame.body.clone()),
            _ => None,
        });
        frames.collect()
    }
}

fn reach(boot: u64) -> Reach {
    Reach {
        boot,
        start: 70 + boot,
        commit: 0,
        recall: Recall::Whole,
        since: ViewNumber(0),
        starts: Starts::default(),
    }
}

fn free_addresses(count: usize) -> Vec<SocketAddr> {
    let listeners: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    let addresses = listeners.iter().map(|l| l.local_addr().unwrap());
    addresses.collect()
}

fn until(nodes: &mut [&mut Node], what: &str, mut holds: impl FnMut(&[&mut Node]) -> bool) {
    let begun = Instant::now();
    while !holds(nodes) {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        for node in nodes.iter_mut() {
            node.turn();
        }
    }
}

fn hello(role: HelloRole, cluster: u64) -> BytesMut {
    hello_with(role, cluster, Bytes::from_static(&[5; Nonce::BYTES]))
}

fn hello_with(role: HelloRole, cluster: u64, extra: Bytes) -> BytesMut {
    let hello = Hello {
        version_min: VERSION_MIN,
        version_max: VERSION,
        cluster: Some(ClusterId(cluster)),
        role,
        software: "test".to_owned(),
        extra,
    };
    let mut bytes = BytesMut::new();
    put_frame(&mut bytes, Kind::Hello, GROUP, |body| hello.put(body));
    bytes
}

fn client() -> HelloRole {
    HelloRole::Client { group: GROUP }
}

/// Turns the node until a stranger's socket brought a frame, or was closed.
fn answer(node: &mut Node, stranger: &mut TcpStream) -> Option<Frame> {
    stranger.set_nonblocking(true).unwrap();
    let mut reader = FrameReader::new(1 << 20);
    let mut is_over = false;
    let mut frame = None;
    until(&mut [node], "an answer", |_| {
        match stranger.read(reader.space()) {
            Ok(0) => is_over = true,
            Ok(count) => reader.filled(count),
            Err(error) => is_over = error.kind() == std::io::ErrorKind::ConnectionReset,
        }
        frame = reader.next_frame().unwrap();
        is_over || frame.is_some()
    });
    frame
}

fn rejection(node: &mut Node, greeting: &[u8]) -> RejectReason {
    let mut stranger = TcpStream::connect(node.transport.address().unwrap()).unwrap();
    stranger.write_all(greeting).unwrap();
    let frame = answer(node, &mut stranger).expect("a refusal has words");
    assert_eq!(frame.kind, Kind::Reject);
    Reject::take(&frame.body).unwrap().reason
}

#[test]
fn two_nodes_link_whoever_starts_first_and_frames_come_whole() {
    let addresses = free_addresses(2);
    let mut one = Node::start(1, 1, &addresses, TransportLimits::default());
    for _ in 0..20 {
        one.turn();
    }
    let mut two = Node::start(2, 1, &addresses, TransportLimits::default());
    until(&mut [&mut one, &mut two], "a link", |nodes| {
        nodes[0].link(2).is_some() && nodes[1].link(1).is_some()
    });
    two.send(1, FrameLane::Urgent, b"first");
    two.send(1, FrameLane::Normal, b"second");
    one.send(2, FrameLane::Bulk, &[7; 3 << 20]);
    until(&mut [&mut one, &mut two], "all frames", |nodes| {
        nodes[0].bodies().len() == 2 && nodes[1].bodies().len() == 1
    });
    assert_eq!(two.bodies()[0], [7; 3 << 20][..]);
    assert_eq!(one.bodies(), [&b"first"[..], b"second"]);
}

#[test]
fn what_is_said_in_the_turn_of_a_link_does_not_overtake_the_welcome() {
    let addresses = free_addresses(2);
    let mut one = Node::start(1, 1, &addresses, TransportLimits::default());
    let mut two = Node::start(2, 1, &addresses, TransportLimits::default());
    let begun = Instant::now();
    while two.link(1).is_none() {
        assert!(begun.elapsed() < PATIENCE);
        one.turn();
        // As the node does: what has arrived is answered before the flush of the same turn.
        let mut events = Events::with_capacity(64);
        two.poll
            .poll(&mut events, Some(Duration::from_millis(1)))
            .unwrap();
        let now = two.now();
        for event in events.iter().filter(|event| event.token() != Token(0)) {
            two.transport.ready(event, now);
        }
        two.transport.take_arrivals(&mut two.seen);
        if two.link(1).is_some() {
            two.send(1, FrameLane::Urgent, b"at once");
        }
        two.transport.flush(now);
    }
    until(&mut [&mut one, &mut two], "the frame", |nodes| {
        nodes[0].bodies() == [&b"at once"[..]]
    });
    assert_eq!(one.link(2), Some(LinkEpoch(1)), "the first link stayed");
}

#[test]
fn a_peer_that_goes_shows_as_down_at_once_and_comes_back_in_another_life() {
    let addresses = free_addresses(2);
    let mut one = Node::start(1, 1, &addresses, TransportLimits::default());
    let mut two = Node::start(2, 1, &addresses, TransportLimits::default());
    until(&mut [&mut one, &mut two], "a link", |nodes| {
        nodes[0].link(2).is_some() && nodes[1].link(1).is_some()
    });
    let first = one.link(2);
    drop(two);
    until(&mut [&mut one], "the link is down", |nodes| {
        nodes[0].link(2).is_none()
    });
    let mut two = Node::start(2, 2, &addresses, TransportLimits::default());
    until(&mut [&mut one, &mut two], "another link", |nodes| {
        nodes[0].link(2).is_some()
    });
    assert!(one.link(2) > first);
}

#[test]
fn strangers_of_the_wrong_kind_are_turned_away_with_the_reason() {
    let addresses = free_addresses(2);
    let mut two = Node::start(2, 1, &addresses, TransportLimits::default());
    let member = |node| HelloRole::Node {
        node: NodeId(node),
        incarnation: Incarnation(100 + u64::from(node)),
        boot: 1,
        groups: vec![GROUP],
    };
    assert_eq!(
        rejection(&mut two, &hello(client(), 8)),
        RejectReason::Cluster
    );
    let extra = greeting(Nonce([1; Nonce::BYTES]), Some(BeganWith([1; 16])));
    let began_otherwise = hello_with(member(1), 7, extra);
    assert_eq!(rejection(&mut two, &began_otherwise), RejectReason::Cluster);
    let other_group = HelloRole::Client { group: GroupId(9) };
    assert_eq!(
        rejection(&mut two, &hello(other_group, 7)),
        RejectReason::Group
    );
    for no_other_member in [2, 5] {
        assert_eq!(
            rejection(&mut two, &hello(member(no_other_member), 7)),
            RejectReason::NotAMember
        );
    }
    assert_eq!(
        rejection(&mut two, &hello_with(member(1), 7, Bytes::new())),
        RejectReason::Malformed,
        "no nonce"
    );
    assert_eq!(rejection(&mut two, &[0xff; 64]), RejectReason::Malformed);
    assert_eq!(two.transport.counters().refused, 7);
    assert!(two.seen.is_empty(), "nobody came in");
}

#[test]
fn a_damaged_frame_closes_its_connection_and_no_other() {
    let addresses = free_addresses(1);
    let mut node = Node::start(1, 1, &addresses, TransportLimits::default());
    let mut good = TcpStream::connect(node.transport.address().unwrap()).unwrap();
    let mut bad = TcpStream::connect(node.transport.address().unwrap()).unwrap();
    good.write_all(&hello(client(), 7)).unwrap();
    bad.write_all(&hello(client(), 7)).unwrap();
    answer(&mut node, &mut good).expect("a welcome");
    answer(&mut node, &mut bad).expect("a welcome");
    let mut frame = BytesMut::new();
    put_frame(&mut frame, Kind::FromClient, GROUP, |body| {
        body.extend_from_slice(b"words")
    });
    frame[17] ^= 1;
    bad.write_all(&frame).unwrap();
    let refusal = answer(&mut node, &mut bad).expect("a refusal");
    assert_eq!(refusal.kind, Kind::Reject);
    frame[17] ^= 1;
    good.write_all(&frame[..10]).unwrap();
    node.turn();
    assert!(node.bodies().is_empty(), "a cut frame waits for its rest");
    good.write_all(&frame[10..]).unwrap();
    until(&mut [&mut node], "the good frame", |nodes| {
        nodes[0].bodies() == [&b"words"[..]]
    });
}

#[test]
fn a_client_that_does_not_read_is_closed() {
    let addresses = free_addresses(1);
    let limits = TransportLimits {
        client_queue: 1 << 20,
        ..TransportLimits::default()
    };
    let mut node = Node::start(1, 1, &addresses, limits);
    let mut deaf = TcpStream::connect(node.transport.address().unwrap()).unwrap();
    deaf.write_all(&hello(client(), 7)).unwrap();
    answer(&mut node, &mut deaf).expect("a welcome");
    let id = connection_of(&mut node, &mut deaf);
    let begun = Instant::now();
    while node.transport.counters().slow_clients == 0 {
        assert!(begun.elapsed() < PATIENCE, "its queue is bounded");
        node.transport
            .answer(id, |body| body.buf().extend_from_slice(&[1; 64 << 10]));
        node.turn();
    }
    node.turn();
    assert!(
        node.seen.iter().any(
            |arrival| matches!(arrival, Arrival::Gone { connection, .. } if *connection == id)
        )
    );
}

fn connection_of(node: &mut Node, stranger: &mut TcpStream) -> ConnectionId {
    let mut frame = BytesMut::new();
    put_frame(&mut frame, Kind::StatusRequest, GROUP, |_| {});
    stranger.write_all(&frame).unwrap();
    let mut id = None;
    until(&mut [node], "the client's frame", |nodes| {
        id = nodes[0].seen.iter().find_map(|arrival| match arrival {
            Arrival::Client { from, .. } => Some(*from),
            _ => None,
        });
        id.is_some()
    });
    id.unwrap()
}

#[test]
fn silent_strangers_give_way_when_all_connections_are_taken() {
    let addresses = free_addresses(1);
    let limits = TransportLimits {
        connections: 8,
        ..TransportLimits::default()
    };
    let mut node = Node::start(1, 1, &addresses, limits);
    let silent: Vec<TcpStream> = (0..20)
        .map(|_| TcpStream::connect(node.transport.address().unwrap()).unwrap())
        .collect();
    until(&mut [&mut node], "all were accepted", |nodes| {
        nodes[0].transport.counters().accepted == 20
    });
    assert!(node.transport.connections() <= 8);
    drop(silent);
    until(&mut [&mut node], "all are gone", |nodes| {
        nodes[0].transport.connections() == 0
    });
    let mut honest = TcpStream::connect(node.transport.address().unwrap()).unwrap();
    honest.write_all(&hello(client(), 7)).unwrap();
    let welcome = answer(&mut node, &mut honest).expect("an answer");
    assert_eq!(welcome.kind, Kind::Welcome);
}

#[test]
fn a_taken_address_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let poll = Poll::new().unwrap();
    let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
    let settings = Settings {
        began: BeganWith([0; 16]),
        places: Places::new(10_000),
        own: Own {
            cluster: ClusterId(7),
            group: GROUP,
            node: NodeId(1),
            incarnation: Incarnation(101),
            reach: reach(1),
        },
        pasts: BTreeMap::new(),
        listen: Some(address),
        members: Vec::new(),
        view: ViewNumber(1),
        speaks: SPEAKS,
        level: GroupLevel {
            level: Level::UNNAMED,
            view: ViewNumber(1),
        },
        objects: Vec::new(),
        tls: None,
        limits: TransportLimits::default(),
        seed: [1; 32],
        first_token: 1,
    };
    let registry = poll.registry().try_clone().unwrap();
    let error = Transport::listen(settings, registry, waker, Time(0))
        .err()
        .expect("somebody listens there");
    assert!(error.to_string().contains(&address.to_string()));
}

struct Authority {
    pem: String,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let mut params = rcgen::CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = rcgen::Issuer::new(params, key);
        Authority { pem, issuer }
    }

    /// Certificates for who is called `name`, trusting this authority.
    fn certify(&self, name: &str) -> Tls {
        let params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let chain = params.signed_by(&key, &self.issuer).unwrap().pem();
        Tls::from_pem(
            self.pem.as_bytes(),
            chain.as_bytes(),
            key.serialize_pem().as_bytes(),
        )
        .unwrap()
    }
}

fn secured(own: u16, addresses: &[SocketAddr], tls: Tls) -> Node {
    Node::start_with(own, 1, addresses, TransportLimits::default(), Some(tls))
}

#[test]
fn certified_nodes_link_and_large_frames_come_whole_both_ways() {
    let authority = Authority::new();
    let addresses = free_addresses(2);
    let mut one = secured(1, &addresses, authority.certify(&node_name(NodeId(1))));
    let mut two = secured(2, &addresses, authority.certify(&node_name(NodeId(2))));
    until(&mut [&mut one, &mut two], "a link", |nodes| {
        nodes[0].link(2).is_some() && nodes[1].link(1).is_some()
    });
    one.send(2, FrameLane::Bulk, &[1; 3 << 20]);
    two.send(1, FrameLane::Bulk, &[2; 3 << 20]);
    until(&mut [&mut one, &mut two], "both frames", |nodes| {
        nodes.iter().all(|node| node.bodies().len() == 1)
    });
    assert_eq!(one.bodies()[0], [2; 3 << 20][..]);
    assert_eq!(two.bodies()[0], [1; 3 << 20][..]);
}

#[test]
fn a_certificate_of_another_name_or_authority_makes_nobody_a_member() {
    let authority = Authority::new();
    let addresses = free_addresses(2);
    let mut two = secured(2, &addresses, authority.certify(&node_name(NodeId(2))));
    let mut impostor = secured(1, &addresses, authority.certify("client.quorate"));
    until(
        &mut [&mut impostor, &mut two],
        "a refusal of the name",
        |nodes| nodes[1].transport.counters().refused > 0,
    );
    drop(impostor);
    let foreign = Authority::new().certify(&node_name(NodeId(1)));
    let mut foreigner = secured(1, &addresses, foreign);
    let before = two.transport.counters().accepted;
    until(&mut [&mut foreigner, &mut two], "three tries", |nodes| {
        nodes[1].transport.counters().accepted >= before + 3
    });
    assert!(two.seen.is_empty(), "nobody came in");
    assert!(foreigner.seen.is_empty());
}

#[test]
fn plain_words_at_a_sealed_port_are_not_answered_in_plain() {
    let authority = Authority::new();
    let addresses = free_addresses(1);
    let mut node = secured(1, &addresses, authority.certify(&node_name(NodeId(1))));
    let mut plain = TcpStream::connect(node.transport.address().unwrap()).unwrap();
    plain.write_all(&hello(client(), 7)).unwrap();
    until(&mut [&mut node], "the connection is closed", |nodes| {
        nodes[0].transport.counters().accepted == 1 && nodes[0].transport.connections() == 0
    });
    assert!(node.seen.is_empty());
}
