//! Operations that find as many others under way as may be.
//!
//! A node here is a thread that opens sessions. What it does with a call, its payload says: it answers it, says that it waits in the
//! group, or says nothing.

mod greeting;

use bytes::{Bytes, BytesMut};
use greeting::{GROUP, welcome};
use quorate_client::{
    CallCause, CallCell, CallEnd, CallError, Client, DriverOptions, Endpoint, Operation,
    OperationOptions,
};
use quorate_types::{
    ClusterId, FromClient, ObjectId, Outcome, SessionId, SessionTerms, ToClient, Value,
};
use quorate_wire::{FrameReader, Kind, put_answer, put_frame, requests};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Much longer than a test may take.
const LONG: Duration = Duration::from_secs(3600);

/// After so long a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

const ANSWERED: &[u8] = &[0x80];
const PARKED: &[u8] = &[0x81];
const UNANSWERED: &[u8] = &[0x82];

fn serve(mut socket: TcpStream) {
    let mut reader = FrameReader::new(1 << 20);
    loop {
        match socket.read(reader.space()) {
            Ok(0) | Err(_) => return,
            Ok(count) => reader.filled(count),
        }
        let mut out = BytesMut::new();
        while let Some(frame) = reader.next_frame().unwrap() {
            if frame.kind == Kind::Hello {
                put_frame(&mut out, Kind::Welcome, GROUP, |body| {
                    welcome(ClusterId(0xa)).put(body)
                });
            }
            for request in requests(frame.body).filter(|_| frame.kind == Kind::FromClient) {
                if let Some(answer) = answer_to(request.unwrap()) {
                    put_frame(&mut out, Kind::ToClient, GROUP, |body| {
                        put_answer(body, &answer);
                    });
                }
            }
        }
        if socket.write_all(&out).is_err() {
            return;
        }
    }
}

fn answer_to(request: FromClient) -> Option<ToClient> {
    match request {
        FromClient::Open { secret, terms } => Some(ToClient::Opened {
            hash: secret.hash(),
            session: SessionId(1 << 16),
            expiry: terms.expiry,
        }),
        FromClient::Call { id, payload, .. } if payload == PARKED => Some(ToClient::Parked { id }),
        FromClient::Call { id, payload, .. } if payload == ANSWERED => {
            let outcome = Outcome::Returned(Bytes::from_static(&[1]));
            Some(ToClient::Replied { id, outcome })
        }
        _ => None,
    }
}

/// A client of such a node, which has so many operations in flight at most.
fn client(in_flight_max: usize, timeout: Duration) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("quorate://{}", listener.local_addr().unwrap());
    let endpoint: Endpoint = endpoint.parse().unwrap();
    std::thread::spawn(move || {
        while let Ok((socket, _)) = listener.accept() {
            std::thread::spawn(move || serve(socket));
        }
    });
    let mut options = DriverOptions {
        timeout,
        ..DriverOptions::default()
    };
    options.session.in_flight_max = in_flight_max;
    // No timer of the session is due soon.
    options.session.terms = SessionTerms::expiring_after(SessionTerms::EXPIRY_MAX);
    options.session.silence = SessionTerms::EXPIRY_MAX;
    options.session.silence_max = SessionTerms::EXPIRY_MAX;
    Client::connect(&endpoint, options, None).unwrap()
}

fn call(payload: &'static [u8]) -> Operation {
    Operation::Call {
        object: ObjectId(0),
        payload: Value::from_static(payload),
    }
}

/// How an operation ended that was begun with this timeout; `None` if it has not within a minute.
fn end_within(client: &Client, payload: &'static [u8], timeout: Duration) -> Option<CallEnd> {
    let options = OperationOptions {
        timeout: Some(timeout),
        ..OperationOptions::default()
    };
    let cells = [Arc::new(CallCell::default())];
    client.begin_to(call(payload), options, &cells[0]);
    let until = Instant::now() + PATIENCE;
    while !client.wait(&cells, &mut 0, Duration::from_millis(20)) && Instant::now() < until {}
    cells[0].take()
}

#[test]
fn an_operation_that_finds_no_room_ends_by_its_own_deadline() {
    let client = client(1, LONG);
    let first = client.begin(call(UNANSWERED));
    let late = CallError::NotExecuted(CallCause::DeadlinePassed);
    let ended = end_within(&client, ANSWERED, Duration::from_millis(100));
    assert_eq!(ended, Some(Err(late)));
    client.close();
    assert!(first.wait().is_err());
}

/// The thread that waits reads the socket, and nothing comes there.
#[test]
fn who_waits_for_long_hears_in_time_that_an_operation_found_no_room() {
    let client = client(1, LONG);
    let first = client.begin(call(UNANSWERED));
    let options = OperationOptions {
        timeout: Some(Duration::from_millis(100)),
        ..OperationOptions::default()
    };
    let cells = [Arc::new(CallCell::default())];
    client.begin_to(call(ANSWERED), options, &cells[0]);
    let begun = Instant::now();
    assert!(client.wait(&cells, &mut 0, PATIENCE));
    assert!(begun.elapsed() < Duration::from_secs(4));
    let late = CallError::NotExecuted(CallCause::DeadlinePassed);
    assert_eq!(cells[0].take(), Some(Err(late)));
    client.close();
    assert!(first.wait().is_err());
}

#[test]
fn what_is_begun_with_the_usual_timeout_ends_by_it_where_no_room_comes() {
    let timeout = Duration::from_secs(1);
    let client = client(1, timeout);
    let begun = Instant::now();
    let calls: Vec<_> = (0..100).map(|_| client.begin(call(UNANSWERED))).collect();
    for call in calls {
        assert!(call.wait().is_err());
    }
    assert!(begun.elapsed() < 10 * timeout, "they waited together");
}

/// One is in flight, the queue has room for 4,096, and the last one's time runs while it waits for that.
#[test]
fn an_operation_that_is_not_even_queued_ends_by_its_own_deadline() {
    let timeout = Duration::from_secs(3);
    let client = client(1, timeout);
    let begun = Instant::now();
    let calls: Vec<_> = (0..4098).map(|_| client.begin(call(UNANSWERED))).collect();
    for call in calls {
        assert!(call.wait().is_err());
    }
    let took = begun.elapsed();
    assert!(took < 2 * timeout - Duration::from_secs(1), "{took:?}");
}

#[test]
fn calls_that_wait_in_the_group_take_no_room_up_to_a_bound_and_then_no_call_begins() {
    let client = client(2048, LONG);
    let park = |count: usize| -> Vec<_> {
        let parked = (0..count).map(|_| client.begin(call(PARKED)));
        parked.collect()
    };
    let most = park(16_383);
    assert!(client.perform(call(ANSWERED)).is_ok());
    let last = park(1);
    // It may have been begun before the last one was known to wait.
    drop(client.perform(call(ANSWERED)));
    let refused = client.perform(call(ANSWERED));
    let many = CallError::NotExecuted(CallCause::TooManyParked);
    assert_eq!(refused, Err(many));
    let text = many.to_string();
    assert!(
        text.contains("16384") && text.contains("connect once more"),
        "{text}"
    );
    client.close();
    assert!(
        most.into_iter()
            .chain(last)
            .all(|call| call.wait().is_err())
    );
}
