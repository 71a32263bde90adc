//! Who is a node proves it; nothing that a stranger hears of a node makes it one.

use crate::{GROUP, Node, PATIENCE, answer, free_addresses, hello_with, until};
use bytes::{Bytes, BytesMut};
use quorate_transport::{Arrival, TransportLimits};
use quorate_types::{
    ClusterId, Finding, Incarnation, Level, LinkKey, LinkProof, LinkSide, NodeId, Nonce, Sighting,
};
use quorate_wire::{
    Frame, HelloRole, Kind, Reject, RejectReason, Welcome, put_challenge, put_frame, put_proof,
    put_sighting, take_challenge, take_sighting,
};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

const NONCE: Nonce = Nonce([5; Nonce::BYTES]);

fn member(node: u16, boot: u64) -> HelloRole {
    HelloRole::Node {
        node: NodeId(node),
        incarnation: Incarnation(0),
        boot,
        groups: vec![GROUP],
    }
}

fn framed(kind: Kind, body: impl FnOnce(&mut BytesMut)) -> BytesMut {
    let mut frame = BytesMut::new();
    put_frame(&mut frame, kind, GROUP, body);
    frame
}

/// Says to node 2 to be node 1, and returns what it is asked.
fn greet(two: &mut Node, boot: u64) -> (TcpStream, Nonce, LinkProof) {
    let mut socket = TcpStream::connect(two.transport.address().unwrap()).unwrap();
    let greeting = hello_with(member(1, boot), 7, Bytes::copy_from_slice(&NONCE.0));
    socket.write_all(&greeting).unwrap();
    let asked = answer(two, &mut socket).expect("a challenge");
    let (accepts, theirs, _) = take_challenge(&asked.body).unwrap();
    (socket, accepts, theirs)
}

/// Comes to node 2 as node 1 of this incarnation, and returns the answer to the proof.
fn come(two: &mut Node, incarnation: u64, boot: u64) -> (TcpStream, Frame) {
    let (mut socket, accepts, theirs) = greet(two, boot);
    let own = (NodeId(1), Incarnation(incarnation));
    let key = LinkKey::of(ClusterId(7), own, (NodeId(2), Incarnation(102)));
    let is_theirs = theirs == key.proof(LinkSide::Accepts, NONCE, accepts);
    assert_eq!(is_theirs, incarnation == 101, "it proves itself first");
    let proof = key.proof(LinkSide::Dials, NONCE, accepts);
    let proved = framed(Kind::Proof, |body| {
        put_proof(body, proof, crate::reach(boot), Level(20))
    });
    socket.write_all(&proved).unwrap();
    let answer = answer(two, &mut socket).expect("an answer");
    (socket, answer)
}

#[test]
fn an_older_start_of_a_member_is_refused() {
    let addresses = free_addresses(2);
    let mut two = Node::start(2, 1, &addresses, TransportLimits::default());
    let (_newer, welcome) = come(&mut two, 101, 5);
    assert_eq!(welcome.kind, Kind::Welcome);
    assert_eq!(Welcome::take(&welcome.body).unwrap().node, NodeId(2));
    let (_older, sighting) = come(&mut two, 101, 4);
    assert_eq!(sighting.kind, Kind::Sighting);
    assert_eq!(take_sighting(&sighting.body).unwrap().boot, 5);
    assert!(two.link(1).is_some(), "the newer one stays");
}

#[test]
fn another_incarnation_of_a_member_proves_nothing() {
    let addresses = free_addresses(2);
    let mut two = Node::start(2, 1, &addresses, TransportLimits::default());
    let (_stranger, refusal) = come(&mut two, 999, 1);
    assert_eq!(refusal.kind, Kind::Reject);
    let reject = Reject::take(&refusal.body).unwrap();
    assert_eq!(reject.reason, RejectReason::Identity);
    assert!(two.seen.is_empty(), "nobody came in");
}

#[test]
fn a_proof_that_a_stranger_has_heard_lets_nobody_in() {
    let addresses = free_addresses(2);
    let mut two = Node::start(2, 1, &addresses, TransportLimits::default());
    let (_heard, accepts, _) = greet(&mut two, 1);
    let (own, other) = (Incarnation(101), Incarnation(102));
    let key = LinkKey::of(ClusterId(7), (NodeId(1), own), (NodeId(2), other));
    let proof = key.proof(LinkSide::Dials, NONCE, accepts);
    let heard = framed(Kind::Proof, |body| {
        put_proof(body, proof, crate::reach(1), Level(20))
    });
    let (mut stranger, _, _) = greet(&mut two, 1);
    stranger.write_all(&heard).unwrap();
    let refusal = answer(&mut two, &mut stranger).expect("an answer");
    assert_eq!(refusal.kind, Kind::Reject);
    assert!(two.seen.is_empty(), "nobody came in");
}

/// A stranger that listens where node 2 is down, until node 1 has come and said hello.
struct Listener {
    listener: TcpListener,
    dialled: Option<TcpStream>,
    heard: Vec<u8>,
}

impl Listener {
    /// Reads whatever has come from node 1.
    fn hear(&mut self) {
        if self.dialled.is_none() {
            self.dialled = self.listener.accept().ok().map(|(socket, _)| socket);
        }
        if let Some(socket) = &mut self.dialled {
            socket.set_nonblocking(true).unwrap();
            let mut bytes = [0; 4096];
            match socket.read(&mut bytes) {
                Ok(count) => self.heard.extend_from_slice(&bytes[..count]),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
    }

    fn of_node_two(one: &mut Node, listener: TcpListener) -> Listener {
        listener.set_nonblocking(true).unwrap();
        let mut listener = Listener {
            listener,
            dialled: None,
            heard: Vec::new(),
        };
        let begun = Instant::now();
        while listener.heard.is_empty() {
            assert!(begun.elapsed() < PATIENCE, "node 1 never dials");
            one.turn();
            listener.hear();
        }
        listener
    }
}

#[test]
fn who_listens_where_a_node_is_down_cannot_come_as_the_node_that_dialled() {
    let addresses = free_addresses(3);
    let at_two = TcpListener::bind(addresses[1]).unwrap();
    let mut one = Node::start(1, 1, &addresses, TransportLimits::default());
    let mut three = Node::start(3, 1, &addresses, TransportLimits::default());
    until(&mut [&mut one, &mut three], "a link", |nodes| {
        nodes[0].link(3).is_some() && nodes[1].link(1).is_some()
    });
    let link = three.link(1);
    let mut stranger = Listener::of_node_two(&mut one, at_two);
    for incarnation in [101u64, 102, 103] {
        let bytes = incarnation.to_le_bytes();
        let tells = stranger.heard.windows(8).any(|part| part == bytes);
        assert!(!tells, "the stranger heard incarnation {incarnation}");
    }
    // It says to node 3 what node 1 has said, and asks node 1 what node 3 asks.
    let mut forged = TcpStream::connect(three.transport.address().unwrap()).unwrap();
    forged.write_all(&stranger.heard).unwrap();
    let asked = answer(&mut three, &mut forged).expect("an answer");
    assert_eq!(asked.kind, Kind::Challenge);
    let (nonce, proof, speaks) = take_challenge(&asked.body).unwrap();
    let passed_on = framed(Kind::Challenge, |body| {
        put_challenge(body, (nonce, proof), speaks, speaks.newest())
    });
    stranger.heard.clear();
    let mut dialled = stranger.dialled.take().unwrap();
    dialled.write_all(&passed_on).unwrap();
    dialled.set_nonblocking(true).unwrap();
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < PATIENCE, "node 1 keeps the stranger");
        one.turn();
        match dialled.read(&mut [0; 64]) {
            Ok(0) => break,
            Ok(_) => panic!("node 1 proves itself to a stranger"),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    assert_eq!(three.link(1), link, "the link of the real node stays");
}

#[test]
fn who_listens_where_a_node_is_down_cannot_tell_a_node_that_it_is_an_older_copy() {
    let addresses = free_addresses(2);
    let at_two = TcpListener::bind(addresses[1]).unwrap();
    let mut one = Node::start(1, 1, &addresses, TransportLimits::default());
    let stranger = Listener::of_node_two(&mut one, at_two);
    let lie = Sighting {
        boot: 1 << 40,
        finding: Finding::OlderCopy,
    };
    let told = framed(Kind::Sighting, |body| put_sighting(body, lie));
    let mut dialled = stranger.dialled.as_ref().unwrap();
    dialled.write_all(&told).unwrap();
    let is_sighted = |one: &Node| {
        let sighted = |arrival: &Arrival| matches!(arrival, Arrival::Sighted { .. });
        one.seen.iter().any(sighted)
    };
    until(&mut [&mut one], "the stranger is left", |nodes| {
        let is_left = matches!(dialled.read(&mut [0; 64]), Ok(0) | Err(_) if !is_waiting(dialled));
        is_left || is_sighted(nodes[0])
    });
    assert!(!is_sighted(&one), "node 1 believes a stranger");
}

/// Whether the other side keeps the connection.
fn is_waiting(socket: &TcpStream) -> bool {
    matches!(socket.peek(&mut [0; 1]), Err(error) if error.kind() == ErrorKind::WouldBlock)
}
