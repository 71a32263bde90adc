//! What a client may take of a node: places, time and memory. Time passes only as the tests say.

use crate::{
    Authority, GROUP, Node, PATIENCE, SPEAKS, answer, client, free_addresses, hello, secured, until,
};
use bytes::BytesMut;
use quorate_transport::{Arrival, Places, TransportLimits, node_name};
use quorate_types::{Level, NodeId};
use quorate_wire::{Kind, Reject, RejectReason, put_frame};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

fn node(limits: TransportLimits) -> Node {
    Node::start(1, 1, &free_addresses(1), limits)
}

fn connect(node: &mut Node) -> (TcpStream, Kind) {
    let mut socket = TcpStream::connect(node.transport.address().unwrap()).unwrap();
    socket.write_all(&hello(client(), 7)).unwrap();
    let kind = answer(node, &mut socket).expect("an answer").kind;
    (socket, kind)
}

fn welcomed(node: &mut Node) -> TcpStream {
    let (socket, kind) = connect(node);
    assert_eq!(kind, Kind::Welcome);
    socket
}

fn frame(bytes: usize) -> BytesMut {
    let mut frame = BytesMut::new();
    put_frame(&mut frame, Kind::FromClient, GROUP, |body| {
        body.resize(body.len() + bytes, 7);
    });
    frame
}

fn gone(node: &Node) -> usize {
    let seen = node.seen.iter();
    seen.filter(|arrival| matches!(arrival, Arrival::Gone { .. }))
        .count()
}

/// Frames of clients that have arrived.
fn heard(node: &Node) -> usize {
    let seen = node.seen.iter();
    seen.filter(|arrival| matches!(arrival, Arrival::Client { .. }))
        .count()
}

#[test]
fn a_client_that_says_nothing_for_a_minute_is_closed_and_one_that_does_stays() {
    let mut node = node(TransportLimits::default());
    let _silent = welcomed(&mut node);
    let mut lively = welcomed(&mut node);
    for round in 1..=8 {
        node.pass(Duration::from_secs(10));
        lively.write_all(&frame(5)).unwrap();
        until(&mut [&mut node], "the lively one's frame", |nodes| {
            heard(nodes[0]) == round
        });
    }
    assert_eq!(gone(&node), 1);
    assert_eq!(node.transport.connections(), 1);
}

#[test]
fn a_frame_that_drips_is_given_up_however_often_a_byte_comes() {
    let mut node = node(TransportLimits::default());
    let mut dripping = welcomed(&mut node);
    let whole = frame(1000);
    for byte in whole[..].chunks(1).take(40) {
        // The node may have closed it.
        let _ = dripping.write_all(byte);
        node.pass(Duration::from_secs(1));
        node.turn();
    }
    assert_eq!(gone(&node), 1, "a frame has thirty seconds");
    assert_eq!(heard(&node), 0);
}

#[test]
fn half_frames_of_many_cost_no_more_than_the_bound_and_honest_clients_stay() {
    let mut node = node(TransportLimits {
        clients_bytes: 2 << 20,
        ..TransportLimits::default()
    });
    let mut honest = welcomed(&mut node);
    let mut attackers = Vec::new();
    for round in 0..30 {
        let mut socket = welcomed(&mut node);
        socket.write_all(&frame(1 << 20)[..300 << 10]).unwrap();
        attackers.push(socket);
        honest.write_all(&frame(100)).unwrap();
        until(&mut [&mut node], "the honest one's frame", |nodes| {
            heard(nodes[0]) == round + 1
        });
    }
    until(&mut [&mut node], "the heaviest are closed", |nodes| {
        nodes[0].transport.counters().heavy_clients >= 20
    });
    assert!(node.transport.held() <= 2 << 20);
}

#[test]
fn half_frames_of_a_crowd_take_little_memory_and_large_frames_of_others_arrive() {
    let mut node = node(TransportLimits {
        clients_bytes: 32 << 20,
        ..TransportLimits::default()
    });
    let large = frame(1 << 20);
    let mut honest = welcomed(&mut node);
    let mut crowd: Vec<TcpStream> = (0..40).map(|_| welcomed(&mut node)).collect();
    let mut left: Vec<&[u8]> = crowd.iter().map(|_| &large[..large.len() - 1]).collect();
    honest.set_nonblocking(true).unwrap();
    let (mut own, mut arrived, mut most) = (&large[..], 0, 0);
    let begun = Instant::now();
    while arrived < 5 || left.iter().any(|left| left.len() > large.len() / 2) {
        assert!(begun.elapsed() < PATIENCE, "{arrived} large frames arrived");
        for (one, left) in crowd.iter_mut().zip(&mut left) {
            one.set_nonblocking(true).unwrap();
            match one.write(left) {
                Ok(count) => *left = &left[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => *left = &[],
            }
        }
        if let Ok(count) = honest.write(own) {
            own = &own[count..];
        }
        node.turn();
        most = most.max(node.transport.held());
        for arrival in node.seen.drain(..) {
            if let Arrival::Client { from, .. } = arrival {
                node.transport.hold(from, 0, quorate_types::Time(0));
                (own, arrived) = (&large[..], arrived + 1);
            }
        }
        // The crowd is given up because of the time that passes, and the honest one sends all the time.
        node.pass(Duration::from_millis(5));
    }
    assert!(most <= 8 << 20, "{most} bytes were held");
}

/// What a turn may read of large frames, and the rest of the last read.
const LARGE_TURN: u64 = 2 << 20;

#[test]
fn half_frames_of_a_crowd_at_once_are_read_in_bounded_steps_and_nobody_starves() {
    let mut node = node(TransportLimits::default());
    let mut honest = welcomed(&mut node);
    honest.set_nodelay(true).unwrap();
    let mut crowd: Vec<TcpStream> = (0..40).map(|_| welcomed(&mut node)).collect();
    let large = frame(1 << 20);
    let mut left: Vec<&[u8]> = crowd.iter().map(|_| &large[..]).collect();
    let mut most = 0;
    for turn in 1..=1000 {
        for (one, left) in crowd.iter_mut().zip(&mut left) {
            one.set_nonblocking(true).unwrap();
            while let Ok(count @ 1..) = one.write(left) {
                *left = &left[count..];
            }
        }
        honest.write_all(&frame(100)).unwrap();
        let before = node.transport.counters().bytes_in;
        node.turn();
        most = most.max(node.transport.counters().bytes_in - before);
        let small = node
            .bodies()
            .iter()
            .filter(|body| body.len() == 100)
            .count();
        assert!(small + 1 >= turn, "{small} small frames in {turn} turns");
        if heard(&node) - small == crowd.len() {
            assert!(most <= LARGE_TURN, "{most} bytes in a turn");
            return;
        }
        // What was heard is served at once.
        for arrival in &node.seen {
            if let Arrival::Client { from, .. } = arrival {
                node.transport.hold(*from, 0, quorate_types::Time(0));
            }
        }
    }
    panic!("not all large frames arrive");
}

#[test]
fn the_groups_of_a_process_hold_no_more_than_one_and_those_that_hold_little_keep_it() {
    let limits = TransportLimits {
        clients_bytes: 2 << 20,
        ..TransportLimits::default()
    };
    let places = Places::new(1000);
    let mut groups: Vec<Node> = (0..4)
        .map(|_| {
            let process = (SPEAKS, Level::UNNAMED, places.clone());
            let owned = (limits, None, BTreeMap::new());
            Node::of_process((1, 1), &free_addresses(1), owned, process)
        })
        .collect();
    let small = frame(100 << 10);
    let mut honest = welcomed(&mut groups[0]);
    honest.write_all(&small[..50 << 10]).unwrap();
    let mut crowd = Vec::new();
    for node in &mut groups[1..] {
        for _ in 0..6 {
            let mut socket = welcomed(node);
            // Nobody serves it.
            socket.write_all(&frame(200 << 10)).unwrap();
            crowd.push(socket);
        }
    }
    let mut groups: Vec<&mut Node> = groups.iter_mut().collect();
    let held = |groups: &[&mut Node]| groups.iter().map(|one| one.transport.held()).sum::<usize>();
    until(&mut groups, "some are closed", |groups| {
        let closed = groups.iter().map(|one| one.transport.counters());
        let closed: u64 = closed.map(|counters| counters.heavy_clients).sum();
        closed >= 8 && held(groups) <= 2 << 20
    });
    honest.write_all(&small[50 << 10..]).unwrap();
    until(&mut groups, "the honest one's frame", |groups| {
        heard(groups[0]) == 1
    });
}

#[test]
fn an_address_has_a_bound_of_clients_and_gets_places_back() {
    let mut node = node(TransportLimits {
        connections_per_address: 3,
        ..TransportLimits::default()
    });
    let mut open: Vec<TcpStream> = (0..3).map(|_| welcomed(&mut node)).collect();
    let mut socket = TcpStream::connect(node.transport.address().unwrap()).unwrap();
    socket.write_all(&hello(client(), 7)).unwrap();
    let refusal = answer(&mut node, &mut socket).expect("a reason");
    let reject = Reject::take(&refusal.body).unwrap();
    assert_eq!(reject.reason, RejectReason::Full);
    assert!(reject.text.contains("127.0.0.1"), "{}", reject.text);
    open.pop();
    until(&mut [&mut node], "one has left", |nodes| {
        gone(nodes[0]) == 1
    });
    open.push(welcomed(&mut node));
}

#[test]
fn eleven_hundred_silent_strangers_keep_nobody_out() {
    let mut node = node(TransportLimits {
        connections: 2000,
        ..TransportLimits::default()
    });
    let mut silent = Vec::new();
    for count in 1..=1100 {
        silent.push(TcpStream::connect(node.transport.address().unwrap()).unwrap());
        if count % 50 == 0 {
            until(&mut [&mut node], "they are accepted", |nodes| {
                nodes[0].transport.counters().accepted == count
            });
        }
    }
    assert!(node.transport.connections() <= 1024);
    let _honest = welcomed(&mut node);
    node.pass(Duration::from_secs(6));
    node.turn();
    assert_eq!(
        node.transport.connections(),
        1,
        "strangers have five seconds"
    );
    let mut byte = [0];
    assert_eq!(silent[1099].read(&mut byte).unwrap(), 0);
}

#[test]
fn a_thousand_clients_and_more_connect_on_default_limits() {
    let mut node = node(TransportLimits::default());
    let clients: Vec<TcpStream> = (0..1500).map(|_| welcomed(&mut node)).collect();
    assert_eq!(node.transport.connections(), clients.len());
    assert_eq!(node.transport.counters().refused, 0);
}

/// A connection to the node from this address of this machine.
fn from(address: &str, node: &Node) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let source: SocketAddr = format!("{address}:0").parse().unwrap();
    socket.bind(&source.into()).unwrap();
    socket
        .connect(&node.transport.address().unwrap().into())
        .unwrap();
    socket.into()
}

#[test]
fn many_small_holders_of_one_address_close_nobody_elsewhere() {
    let limits = TransportLimits {
        clients_bytes: 200 << 10,
        ..TransportLimits::default()
    };
    let mut node = node(limits);
    let half = |bytes: usize| frame(bytes).split_to(bytes);
    let mut honest = from("127.0.0.1", &node);
    honest.write_all(&hello(client(), 7)).unwrap();
    answer(&mut node, &mut honest).expect("a welcome");
    honest.write_all(&half(60 << 10)).unwrap();
    let mut crowd = Vec::new();
    while node.transport.counters().heavy_clients == 0 {
        let mut one = from("127.0.0.2", &node);
        one.write_all(&hello(client(), 7)).unwrap();
        answer(&mut node, &mut one).expect("a welcome");
        one.write_all(&half(20 << 10)).unwrap();
        crowd.push(one);
        for _ in 0..3 {
            node.turn();
        }
    }
    assert_eq!(gone(&node), 1);
    honest.set_nonblocking(true).unwrap();
    let closed = honest.read(&mut [0; 1]);
    let waits = |error: std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
    assert!(
        closed.is_err_and(waits),
        "the one that holds most by itself stays"
    );
}

#[test]
fn the_connection_that_holds_most_is_closed_before_others_of_its_address() {
    let limits = TransportLimits {
        clients_bytes: 200 << 10,
        ..TransportLimits::default()
    };
    let mut node = node(limits);
    let mut crowd = Vec::new();
    while node.transport.counters().heavy_clients == 0 {
        let bytes = if crowd.len() == 1 { 60 << 10 } else { 5 << 10 };
        let mut one = welcomed(&mut node);
        one.write_all(&frame(bytes).split_to(bytes)).unwrap();
        crowd.push(one);
        for _ in 0..3 {
            node.turn();
        }
    }
    let closed: Vec<usize> = (0..crowd.len())
        .filter(|at| is_answered(&crowd[*at]))
        .collect();
    assert_eq!(closed, [1], "it holds more than each of the others");
}

/// A node that speaks TLS, 60 connections that it has accepted, and the first words of a handshake, as another node says them.
fn crowd_of_tls() -> (Node, Vec<TcpStream>, Vec<u8>) {
    let authority = Authority::new();
    let addresses = free_addresses(2);
    let listener = TcpListener::bind(addresses[1]).unwrap();
    let mut other = secured(1, &addresses, authority.certify(&node_name(NodeId(1))));
    other.turn();
    let (mut dialled, _) = listener.accept().unwrap();
    other.turn();
    let mut words = vec![0; 4096];
    let count = dialled.read(&mut words).unwrap();
    words.truncate(count);
    drop((other, listener, dialled));
    let mut node = secured(2, &addresses, authority.certify(&node_name(NodeId(2))));
    let crowd: Vec<TcpStream> = (0..60)
        .map(|_| TcpStream::connect(node.transport.address().unwrap()).unwrap())
        .collect();
    until(&mut [&mut node], "all are accepted", |nodes| {
        nodes[0].transport.connections() == 60
    });
    (node, crowd, words)
}

#[test]
fn a_flood_of_tls_handshakes_takes_a_bounded_part_of_a_turn() {
    let (mut node, mut crowd, words) = crowd_of_tls();
    for one in &mut crowd {
        one.write_all(&words).unwrap();
    }
    let mut answered = vec![0];
    while answered.last() != Some(&crowd.len()) {
        node.turn();
        assert!(answered.len() < 1000, "not all are answered: {answered:?}");
        answered.push(crowd.iter().filter(|one| is_answered(one)).count());
    }
    let most = answered.windows(2).map(|turn| turn[1] - turn[0]).max();
    assert!(most <= Some(16), "answered turn by turn: {answered:?}");
}

#[test]
fn strangers_that_say_their_first_words_byte_by_byte_wait_once_each() {
    let (mut node, mut crowd, words) = crowd_of_tls();
    for byte in words[..100].chunks(1) {
        for one in &mut crowd {
            one.write_all(byte).unwrap();
        }
        node.turn();
    }
    let mut turns = 0;
    while node.transport.is_pending() {
        node.turn();
        turns += 1;
    }
    assert!(turns <= 5, "who comes then waits for {turns} turns");
}

fn is_answered(socket: &TcpStream) -> bool {
    socket.set_nonblocking(true).unwrap();
    socket.peek(&mut [0; 1]).is_ok()
}

#[test]
fn strangers_of_a_crowded_address_give_way_before_those_of_others() {
    let limits = TransportLimits {
        connections: 20,
        ..TransportLimits::default()
    };
    let mut node = node(limits);
    let mut honest = from("127.0.0.1", &node);
    until(&mut [&mut node], "the first comes", |nodes| {
        nodes[0].transport.connections() == 1
    });
    let crowd: Vec<TcpStream> = (0..60).map(|_| from("127.0.0.2", &node)).collect();
    until(&mut [&mut node], "the crowd comes", |nodes| {
        nodes[0].transport.counters().accepted == 1 + crowd.len() as u64
    });
    honest.write_all(&hello(client(), 7)).unwrap();
    let said = answer(&mut node, &mut honest).expect("the first to come was sent away");
    assert_eq!(said.kind, Kind::Welcome);
}

/// A client whose small requests wait to be served is not read, and not given up. What there is of a large frame of it counts for nothing:
/// else a few such clients would keep everybody's large frames out until their half minute is over.
#[test]
fn half_frames_behind_requests_that_are_held_keep_no_large_frame_of_others_out() {
    let mut node = node(TransportLimits {
        clients_bytes: 4 << 20,
        ..TransportLimits::default()
    });
    let mut crowd: Vec<TcpStream> = (0..24).map(|_| welcomed(&mut node)).collect();
    let mut honest = welcomed(&mut node);
    let mut bytes = frame(1 << 10).to_vec();
    bytes.extend_from_slice(&frame(1 << 20)[..60 << 10]);
    for one in &mut crowd {
        one.set_nonblocking(true).unwrap();
        let _ = one.write(&bytes);
    }
    for _ in 0..200 {
        node.turn();
        for arrival in node.seen.drain(..) {
            if let Arrival::Client { from, .. } = arrival {
                node.transport.hold(from, 1 << 10, quorate_types::Time(0));
            }
        }
        node.pass(Duration::from_millis(1));
    }
    let held = node.transport.held();
    let large = frame(1 << 20);
    honest.set_nonblocking(true).unwrap();
    let mut own = &large[..];
    let mut waited = 0;
    loop {
        if let Ok(count) = honest.write(own) {
            own = &own[count..];
        }
        node.turn();
        let is_there = node
            .seen
            .drain(..)
            .any(|arrival| matches!(arrival, Arrival::Client { .. }));
        if is_there {
            break;
        }
        node.pass(Duration::from_millis(5));
        waited += 5;
        assert!(
            waited < 10_000,
            "{held} bytes were held, and the honest large frame waits for {waited} ms"
        );
    }
}
