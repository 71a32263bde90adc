//! A node that is asked to stop answers what it has received.

use crate::{Group, pid, signal};
use bytes::{Bytes, BytesMut};
use quorate_types::{FromClient, GroupId, ObjectId, ReadLevel, Slot};
use quorate_wire::{
    FrameReader, Hello, HelloRole, Kind, VERSION, VERSION_MIN, answers, limits, put_frame,
    put_request,
};
use std::io::{Read, Write};
use std::net::TcpStream;

const GROUP: GroupId = GroupId(1);

/// Many turns of the node's loop.
const READS: u64 = 200_000;

/// All in one frame: the node has received them when it answers the first.
fn reads() -> BytesMut {
    let hello = Hello {
        version_min: VERSION_MIN,
        version_max: VERSION,
        cluster: None,
        role: HelloRole::Client { group: GROUP },
        software: "test".to_owned(),
        extra: Bytes::new(),
    };
    let mut frames = BytesMut::new();
    put_frame(&mut frames, Kind::Hello, GROUP, |body| hello.put(body));
    put_frame(&mut frames, Kind::FromClient, GROUP, |body| {
        for request in 0..READS {
            let read = FromClient::Read {
                request,
                object: ObjectId(0),
                payload: Bytes::from_static(b"\x83\x63get\x80\xa0"),
                level: ReadLevel::Loose,
                after: Slot::ZERO,
            };
            put_request(body, &read);
        }
    });
    frames
}

#[test]
fn a_node_that_stops_answers_what_it_has_received() {
    let group = Group::start(&["--nodes", "1"]);
    assert_eq!(group.add("1"), "1");
    let node = group.leader();
    let mut socket = TcpStream::connect(node["address"].as_str().unwrap()).unwrap();
    let mut writing = socket.try_clone().unwrap();
    let writer = std::thread::spawn(move || writing.write_all(&reads()).unwrap());
    let mut reader = FrameReader::new(limits::CLIENT_BODY_BYTES_MAX);
    let mut answered = 0;
    while let Ok(count) = socket.read(reader.space()) {
        if count == 0 {
            break;
        }
        reader.filled(count);
        let before = answered;
        while let Some(frame) = reader.next_frame().unwrap() {
            if frame.kind == Kind::ToClient {
                answered += answers(frame.body).map(Result::unwrap).count();
            }
        }
        if before == 0 && answered > 0 {
            signal(pid(&node), "TERM");
        }
    }
    assert_eq!(answered as u64, READS);
    writer.join().unwrap();
}
