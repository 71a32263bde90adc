//! Strangers that come as a node: what a client is told does not make it one.

use crate::{Group, http, pid};
use bytes::{Bytes, BytesMut};
use quorate_types::{
    ClusterId, FromClient, GroupId, Incarnation, NodeId, Nonce, Reach, Recall, Secret, SessionTerms,
};
use quorate_wire::{
    Frame, FrameReader, Hello, HelloRole, Kind, Reject, RejectReason, VERSION, VERSION_MIN,
    Welcome, limits, put_frame, put_proof, put_request, take_challenge,
};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;

const GROUP: GroupId = GroupId(1);

/// Says hello as `role` and returns the first frame of the answer.
fn greet(node: &Value, cluster: Option<ClusterId>, role: HelloRole) -> (TcpStream, Frame) {
    let mut socket = TcpStream::connect(node["address"].as_str().unwrap()).unwrap();
    let hello = Hello {
        version_min: VERSION_MIN,
        version_max: VERSION,
        cluster,
        role,
        software: "a forger".to_owned(),
        extra: Bytes::from_static(&[7; Nonce::BYTES]),
    };
    let mut frame = BytesMut::new();
    put_frame(&mut frame, Kind::Hello, GROUP, |body| hello.put(body));
    socket.write_all(&frame).unwrap();
    let answer = next_frame(&mut socket);
    (socket, answer)
}

/// Proves to be a node with what was heard: the proof of the other side, and words.
fn guess(socket: &mut TcpStream, challenge: &Frame) -> Frame {
    let (_, proof, speaks) = take_challenge(&challenge.body).unwrap();
    // Further than any node ever comes.
    let far = Reach {
        boot: 1 << 40,
        start: 7,
        commit: 1 << 40,
        recall: Recall::Whole,
        since: quorate_types::ViewNumber(0),
        starts: quorate_types::Starts::default(),
    };
    let mut frame = BytesMut::new();
    put_frame(&mut frame, Kind::Proof, GROUP, |body| {
        put_proof(body, proof, far, speaks.newest());
    });
    socket.write_all(&frame).unwrap();
    next_frame(socket)
}

fn next_frame(socket: &mut TcpStream) -> Frame {
    let mut reader = FrameReader::new(limits::CLIENT_BODY_BYTES_MAX);
    loop {
        if let Some(frame) = reader.next_frame().unwrap() {
            return frame;
        }
        let count = socket.read(reader.space()).unwrap();
        assert!(count > 0, "closed without an answer");
        reader.filled(count);
    }
}

#[test]
fn what_clients_are_told_forges_no_hello_of_a_node() {
    let group = Group::start(&[]);
    assert_eq!(group.add("1"), "1");
    let status = group.status();
    let nodes = status["nodes"].as_array().unwrap();
    let welcomes: Vec<Welcome> = (nodes.iter())
        .map(|node| {
            let (_, frame) = greet(node, None, HelloRole::Client { group: GROUP });
            assert_eq!(frame.kind, Kind::Welcome);
            Welcome::take(&frame.body).unwrap()
        })
        .collect();
    for victim in &welcomes {
        for target in nodes.iter().filter(|node| node["id"] != victim.node.0) {
            let role = HelloRole::Node {
                node: victim.node,
                incarnation: victim.incarnation,
                boot: 1 << 40,
                groups: vec![GROUP],
            };
            let (mut socket, mut frame) = greet(target, Some(victim.cluster), role);
            if frame.kind == Kind::Challenge {
                frame = guess(&mut socket, &frame);
            }
            assert_eq!(frame.kind, Kind::Reject, "{} at {target}", victim.node);
            let reject = Reject::take(&frame.body).unwrap();
            assert_eq!(reject.reason, RejectReason::Identity, "{}", reject.text);
        }
    }
    assert!(
        welcomes
            .iter()
            .all(|told| told.incarnation == Incarnation(0))
    );
    assert_eq!(group.add("1"), "2");
    let after = group.status();
    for (before, after) in nodes.iter().zip(after["nodes"].as_array().unwrap()) {
        assert_eq!(pid(before), pid(after), "no node had to start again");
        assert_eq!(after["up"], true);
    }
    assert!(welcomes.iter().any(|told| told.node == NodeId(1)));
}

/// Whether the text has the secret as it is, in hexadecimal digits, or as numbers.
fn shows(text: &[u8], secret: &str) -> bool {
    let bytes: [u8; 16] = secret.as_bytes().try_into().unwrap();
    let hexadecimal: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let text = String::from_utf8_lossy(text);
    text.contains(secret)
        || text.contains(&hexadecimal)
        || text.contains(&hexadecimal.to_uppercase())
        || text.contains(&u128::from_le_bytes(bytes).to_string())
        || text.contains(&format!("{bytes:?}"))
}

#[test]
fn the_secret_of_a_session_is_in_no_log_no_status_no_metric_and_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let words = [
        "--dir",
        directory.path().to_str().unwrap(),
        "--log",
        "trace",
    ];
    let mut group = Group::start(&words);
    let secret = "of one session !";
    assert!(shows(format!("\u{1}{secret}\u{2}").as_bytes(), secret));
    let leader = group.leader();
    let role = HelloRole::Client { group: GROUP };
    let (mut socket, welcome) = greet(&leader, None, role);
    assert_eq!(welcome.kind, Kind::Welcome);
    let mut frame = BytesMut::new();
    put_frame(&mut frame, Kind::FromClient, GROUP, |body| {
        let terms = SessionTerms::default();
        let secret = Secret::new(secret.as_bytes().try_into().unwrap());
        put_request(body, &FromClient::Open { secret, terms });
    });
    socket.write_all(&frame).unwrap();
    assert_eq!(next_frame(&mut socket).kind, Kind::ToClient, "it is open");
    let snapshot = group.quorate(&["snapshot"]);
    assert!(snapshot.status.success(), "{snapshot:?}");
    let status = group.status();
    assert!(!shows(status.to_string().as_bytes(), secret));
    for node in group.ready["nodes"].as_array().unwrap() {
        let metrics = http(node["admin"].as_str().unwrap(), "/metrics");
        assert!(metrics.contains("quorate_sessions"), "{metrics}");
        assert!(!shows(metrics.as_bytes(), secret));
    }
    group.stop();
    assert!(!shows(group.rest_of_stderr().as_bytes(), secret));
    let mut left = vec![directory.path().to_owned()];
    let mut files = 0;
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(path).unwrap();
            left.extend(entries.map(|entry| entry.unwrap().path()));
        } else if path.is_file() {
            files += 1;
            assert!(!shows(&std::fs::read(&path).unwrap(), secret), "{path:?}");
        }
    }
    assert!(
        files >= 9,
        "logs, snapshots and identities of three nodes: {files}"
    );
}
