//! Crowds that hold connections: they take the places of clients from their own address, and nothing else of a node.

use crate::{Group, is_alive, pid};
use bytes::{Bytes, BytesMut};
use quorate_types::{FromClient, GroupId, SessionId};
use quorate_wire::{Hello, HelloRole, Kind, VERSION, VERSION_MIN, put_frame, put_request};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Files that a node of these tests may open: fewer than the crowd has connections.
const FILES: &str = "400";

/// A connection from an address of its own, which waits until it is made.
fn crowded(to: &str) -> TcpStream {
    let to: SocketAddr = to.parse().unwrap();
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let from: SocketAddr = "127.0.0.2:0".parse().unwrap();
    socket.bind(&from.into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.into()
}

fn hello() -> BytesMut {
    let hello = Hello {
        version_min: VERSION_MIN,
        version_max: VERSION,
        cluster: None,
        role: HelloRole::Client { group: GroupId(1) },
        software: "a crowd".to_owned(),
        extra: Bytes::new(),
    };
    let mut frame = BytesMut::new();
    put_frame(&mut frame, Kind::Hello, GroupId(1), |body| hello.put(body));
    frame
}

fn open_files(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .count()
}

/// Closes of somebody else's session, as many as one frame takes.
fn frame_of_closes() -> BytesMut {
    let session = SessionId(1 << 16);
    let mut frame = BytesMut::new();
    put_frame(&mut frame, Kind::FromClient, GroupId(1), |body| {
        for _ in 0..900_000 {
            put_request(body, &FromClient::Close { session });
        }
    });
    frame
}

/// Memory of a process in MiB.
fn resident(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.unwrap().split_whitespace().nth(1).unwrap();
    kib.parse::<usize>().unwrap() >> 10
}

#[test]
fn idle_clients_of_one_address_leave_descriptors_and_places_to_others() {
    let group = Group::start_limited(FILES, &["--nodes", "1"]);
    let node = group.leader();
    let mut crowd = Vec::new();
    for count in 1..=450 {
        let mut socket = crowded(node["address"].as_str().unwrap());
        // A node that refuses the client may have closed it by now.
        let _ = socket.write_all(&hello());
        crowd.push(socket);
        if count % 150 == 0 {
            group.add("1");
        }
    }
    assert_eq!(group.add("1"), "4");
    assert!(is_alive(pid(&node)));
    assert!(open_files(pid(&node)) < 300, "the log has descriptors left");
}

#[test]
fn silent_connections_to_the_admin_port_keep_no_probe_waiting() {
    let group = Group::start_limited(FILES, &["--nodes", "1"]);
    let node = group.leader();
    let address = group.ready["nodes"][0]["admin"].as_str().unwrap();
    let crowd: Vec<TcpStream> = (0..450).map(|_| crowded(address)).collect();
    let mut probe = TcpStream::connect(address).unwrap();
    let asks = b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    probe.write_all(asks).unwrap();
    let mut answer = String::new();
    probe.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(group.add("1"), "1");
    assert!(open_files(pid(&node)) < 300, "silent ones give way");
    drop(crowd);
}

#[test]
fn millions_of_closes_in_a_few_frames_keep_no_call_waiting_and_no_memory() {
    let group = Group::start(&["--nodes", "1"]);
    let node = group.leader();
    let before = resident(pid(&node));
    let closes = frame_of_closes();
    let mut crowd = Vec::new();
    for count in 1..=5 {
        let mut socket = crowded(node["address"].as_str().unwrap());
        socket.write_all(&hello()).unwrap();
        socket.write_all(&closes).unwrap();
        crowd.push(socket);
        assert_eq!(group.add("1"), count.to_string());
    }
    assert!(is_alive(pid(&node)));
    // The frames themselves wait at the node: 40 MiB.
    let grown = resident(pid(&node)) - before.min(resident(pid(&node)));
    assert!(grown < 120, "{grown} MiB for frames of 40");
}
