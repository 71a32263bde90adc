//! A client whose address changes hands: another cluster listens where its own did.
//!
//! A node here is a thread that says Welcome for a cluster, opens sessions and answers every call with the number 1.
//! Another one leaves before it opens a session: it stops, or it has no majority.

mod greeting;

use bytes::{Bytes, BytesMut};
use greeting::{GROUP, welcome};
use quorate_client::{
    CallCause, CallError, Client, ConnectError, DriverOptions, Endpoint, Operation, node_status,
};
use quorate_types::{ClusterId, FromClient, ObjectId, Outcome, SessionId, ToClient, Value};
use quorate_wire::{FrameReader, Kind, Reject, RejectReason, put_answer, put_frame, requests};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Instant;

const OWN: ClusterId = ClusterId(0xa);
const OTHER: ClusterId = ClusterId(0xb);

/// Serves one connection for `cluster`, until it ends or so many calls have come.
fn serve(mut socket: TcpStream, cluster: ClusterId, calls_max: usize, calls: &AtomicUsize) {
    let mut reader = FrameReader::new(1 << 20);
    let mut taken = 0;
    loop {
        match socket.read(reader.space()) {
            Ok(0) | Err(_) => return,
            Ok(count) => reader.filled(count),
        }
        while let Some(frame) = reader.next_frame().unwrap() {
            let mut out = BytesMut::new();
            if frame.kind == Kind::Hello {
                put_frame(&mut out, Kind::Welcome, GROUP, |body| {
                    welcome(cluster).put(body);
                });
            }
            for request in requests(frame.body).filter(|_| frame.kind == Kind::FromClient) {
                let answer = match request.unwrap() {
                    FromClient::Open { secret, terms } => ToClient::Opened {
                        hash: secret.hash(),
                        session: SessionId(1 << 16),
                        expiry: terms.expiry,
                    },
                    FromClient::Call { id, .. } => {
                        taken += 1;
                        calls.fetch_add(1, Ordering::SeqCst);
                        if taken > calls_max {
                            return;
                        }
                        let outcome = Outcome::Returned(Bytes::from_static(&[1]));
                        ToClient::Replied { id, outcome }
                    }
                    _ => continue,
                };
                put_frame(&mut out, Kind::ToClient, GROUP, |body| {
                    put_answer(body, &answer);
                });
            }
            socket.write_all(&out).unwrap();
        }
    }
}

/// Much longer than a test may take: who waits for its end is seen.
const LONG: std::time::Duration = std::time::Duration::from_secs(3600);

/// Says Welcome for `cluster`, opens no session and closes with a reason.
fn leave(mut socket: TcpStream, cluster: ClusterId, reason: RejectReason) {
    let mut reader = FrameReader::new(1 << 20);
    let count = socket.read(reader.space()).unwrap();
    reader.filled(count);
    let reject = Reject {
        reason,
        text: "this node stops".to_owned(),
    };
    let mut out = BytesMut::new();
    put_frame(&mut out, Kind::Welcome, GROUP, |body| {
        welcome(cluster).put(body);
    });
    put_frame(&mut out, Kind::Reject, GROUP, |body| reject.put(body));
    socket.write_all(&out).unwrap();
    // What the client still says would otherwise reset the connection before it has read.
    drop(socket.shutdown(std::net::Shutdown::Write));
    drop(std::io::copy(&mut socket, &mut std::io::sink()));
}

fn listen() -> (TcpListener, Endpoint) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("quorate://{}", listener.local_addr().unwrap());
    (listener, endpoint.parse().unwrap())
}

#[test]
fn a_client_that_comes_to_a_node_that_stops_goes_on_to_the_next() {
    let (listener, endpoint) = listen();
    std::thread::spawn(move || {
        leave(listener.accept().unwrap().0, OWN, RejectReason::Stopping);
        leave(listener.accept().unwrap().0, OWN, RejectReason::Full);
        serve(listener.accept().unwrap().0, OWN, 1, &AtomicUsize::new(0));
    });
    let client = Client::connect(&endpoint, DriverOptions::default(), Some(LONG));
    assert!(client.is_ok(), "{:?}", client.err());
}

#[test]
fn a_question_to_a_node_that_stops_is_not_answered_and_not_rejected() {
    let (listener, endpoint) = listen();
    std::thread::spawn(move || leave(listener.accept().unwrap().0, OWN, RejectReason::Stopping));
    let asked = node_status(&endpoint.addresses[0], GROUP, LONG, None);
    let error = asked.expect_err("it stops");
    assert!(matches!(error, ConnectError::Unanswered { .. }), "{error}");
}

#[test]
fn a_client_without_a_session_that_finds_another_cluster_everywhere_gives_up_at_once() {
    let (listener, endpoint) = listen();
    std::thread::spawn(move || {
        leave(listener.accept().unwrap().0, OWN, RejectReason::Stopping);
        while let Ok((socket, _)) = listener.accept() {
            leave(socket, OTHER, RejectReason::Stopping);
        }
    });
    let client = Client::connect(&endpoint, DriverOptions::default(), Some(LONG));
    let error = client.err().expect("there is no session");
    assert!(
        matches!(
            error,
            ConnectError::OtherCluster {
                pinned: OWN,
                found: OTHER,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn what_is_begun_on_an_idle_connection_goes_to_no_node_that_has_stopped() {
    let (listener, endpoint) = listen();
    let (give, given) = channel();
    std::thread::spawn(move || {
        let own = listener.accept().unwrap().0;
        give.send(own.try_clone().unwrap()).unwrap();
        serve(own, OWN, usize::MAX, &AtomicUsize::new(0));
        while let Ok((socket, _)) = listener.accept() {
            serve(socket, OTHER, usize::MAX, &AtomicUsize::new(0));
        }
    });
    let client = Client::connect(&endpoint, DriverOptions::default(), None).unwrap();
    assert!(client.perform(call()).is_ok());
    let answered = Instant::now();
    let node = given.recv().unwrap();
    node.shutdown(std::net::Shutdown::Both).unwrap();
    while answered.elapsed() < std::time::Duration::from_millis(5) {}
    let (tell, told) = channel();
    client.begin_with(call(), move |ended| tell.send(ended).unwrap());
    let cause = CallCause::OtherCluster {
        pinned: OWN,
        found: OTHER,
    };
    let ended = told.recv().unwrap();
    assert_eq!(ended, Err(CallError::NotExecuted(cause)), "it was not sent");
}

fn call() -> Operation {
    Operation::Call {
        object: ObjectId(0),
        payload: Value::from_static(&[0x80]),
    }
}

#[test]
fn a_client_sends_nothing_to_another_cluster_and_says_which_two_they_are() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint: Endpoint = format!("quorate://{}", listener.local_addr().unwrap())
        .parse()
        .unwrap();
    let foreign_calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&foreign_calls);
    std::thread::spawn(move || {
        // The own cluster answers one call and goes away with the next.
        serve(listener.accept().unwrap().0, OWN, 1, &AtomicUsize::new(0));
        while let Ok((socket, _)) = listener.accept() {
            serve(socket, OTHER, usize::MAX, &counted);
        }
    });
    let client = Client::connect(&endpoint, DriverOptions::default(), None).unwrap();
    assert!(client.perform(call()).is_ok());
    let cause = CallCause::OtherCluster {
        pinned: OWN,
        found: OTHER,
    };
    let lost = client.perform(call());
    assert_eq!(lost, Err(CallError::OutcomeUnknown(cause)), "it had left");
    let refused = client.perform(call());
    assert_eq!(refused, Err(CallError::NotExecuted(cause)));
    let text = refused.expect_err("refused").to_string();
    assert!(
        text.contains("000000000000000a") && text.contains("000000000000000b"),
        "{text}"
    );
    assert_eq!(foreign_calls.load(Ordering::SeqCst), 0);
}
