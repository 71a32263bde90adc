//! Crowds that hold connections: they take the places of clients from their own address, and nothing else of a node.

use crate::{Group, QUORATE, is_alive, pid};
use bytes::{Bytes, BytesMut};
use quorate_types::{FromClient, GroupId, SessionId};
use quorate_wire::{Hello, HelloRole, Kind, VERSION, VERSION_MIN, put_frame, put_request};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

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

/// The soft and the hard limit of a process's open files.
fn limits_of_files(pid: u32) -> (String, String) {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let mut fields = line.unwrap().split_whitespace().skip(3);
    let mut next = || fields.next().unwrap().to_owned();
    (next(), next())
}

#[test]
fn a_node_takes_all_files_that_the_hard_limit_allows_it() {
    let few = || {
        let mut command = Command::new("sh");
        command.args(["-c", r#"ulimit -S -n 200; exec "$0" "$@""#, QUORATE]);
        command
    };
    let group = Group::start_by(few, &["--nodes", "1"]);
    let (soft, hard) = limits_of_files(pid(&group.leader()));
    assert_eq!(soft, hard);
    assert_ne!(soft, "200", "that is fewer than a node needs to start");
}

/// Sets the soft limit of a process's open files.
fn limit_files(pid: u32, files: &str) {
    let status = Command::new("prlimit")
        .args(["--pid", &pid.to_string(), &format!("--nofile={files}:")])
        .status();
    assert!(status.unwrap().success());
}

/// The name of the newest file of the log that begins with `kind`; older ones may have been trimmed.
fn newest(dir: &Path, kind: &str) -> Option<String> {
    let entries = std::fs::read_dir(dir.join("node-1/log")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(kind)).max()
}

#[test]
fn a_node_without_a_free_descriptor_begins_its_next_segment_and_then_refuses_calls_until_it_has_some()
 {
    use quorate_client::{CallCause, CallError, Client, DriverOptions, Operation};
    let dir = tempfile::tempdir().unwrap();
    let group = Group::start(&["--nodes", "1", "--dir", dir.path().to_str().unwrap()]);
    let node = pid(&group.leader());
    let endpoint = group.endpoint().parse().unwrap();
    let client = Client::connect(&endpoint, DriverOptions::default(), None).unwrap();
    let object = client.object(Some("counter")).unwrap();
    // It is ordered and logged like any other, and refused by the object.
    let large = quorate_wire::value::Value::Bytes(vec![0; 1 << 20]);
    let payload = quorate_wire::value::call::encode("add", &[large], &[]).unwrap();
    let call = || {
        let payload = payload.clone();
        client.perform(Operation::Call { object, payload })
    };
    let until_taken = || {
        let begun = Instant::now();
        while let Err(refused) = call() {
            assert!(begun.elapsed().as_secs() < 30, "{refused}");
        }
    };
    // The file of the next segment is seen before it is ready: if the descriptors are taken between, the log waits before that segment.
    let has_begun = (0..20).any(|_| {
        until_taken();
        let begun = Instant::now();
        while newest(dir.path(), "next-").is_none() {
            assert!(
                begun.elapsed().as_secs() < 30,
                "the next segment is prepared"
            );
        }
        let is_free = |file: &u32| !Path::new(&format!("/proc/{node}/fd/{file}")).exists();
        let free = (0..).find(is_free).unwrap();
        limit_files(node, &free.to_string());
        let before = newest(dir.path(), "log-");
        let refused = (0..100).find_map(|_| call().err());
        // The call whose commit needs the segment is held until there is one, so its outcome is not known before.
        let is_expected = matches!(
            refused,
            None | Some(
                CallError::NotExecuted(CallCause::StorageFull)
                    | CallError::OutcomeUnknown(CallCause::DeadlinePassed)
            )
        );
        assert!(is_expected, "{refused:?}");
        let has_begun = newest(dir.path(), "log-") > before;
        limit_files(node, "1024");
        has_begun
    });
    assert!(
        has_begun,
        "a prepared segment is begun without a descriptor"
    );
    until_taken();
    assert_eq!(pid(&group.leader()), node, "it never ended");
}
