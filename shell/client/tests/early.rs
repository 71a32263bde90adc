//! Calls that are wanted early: the first word comes while the call is under way, and the end says whether it stood.
//!
//! A node here is a thread that tells early of the first call, and ends it when another one says how.

mod greeting;

use bytes::{Bytes, BytesMut};
use greeting::{GROUP, welcome};
use quorate_client::{
    Answer, CallError, Client, DriverOptions, EarlyCall, Endpoint, Operation, WordState,
};
use quorate_types::{
    ClusterId, CommandId, FromClient, Level, ObjectId, Outcome, SessionId, ToClient, Value,
};
use quorate_wire::{FrameReader, Kind, put_answer, put_frame, requests};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

const HELD: &[u8] = &[0x80];
const CONFIRM: &[u8] = &[0x81];
const REPLACE: &[u8] = &[0x82];

fn serve(mut socket: TcpStream, level: Level) {
    let (mut reader, mut held) = (FrameReader::new(1 << 20), None);
    loop {
        match socket.read(reader.space()) {
            Ok(0) | Err(_) => return,
            Ok(count) => reader.filled(count),
        }
        let mut out = BytesMut::new();
        while let Some(frame) = reader.next_frame().unwrap() {
            if frame.kind == Kind::Hello {
                let mut welcome = welcome(ClusterId(0xa));
                welcome.version = level.0;
                put_frame(&mut out, Kind::Welcome, GROUP, |body| welcome.put(body));
            }
            for request in requests(frame.body).filter(|_| frame.kind == Kind::FromClient) {
                let request = request.unwrap();
                assert!(
                    level >= Level::EARLY || !matches!(request, FromClient::Early { .. }),
                    "an older node does not read it"
                );
                for answer in answers_to(request, &mut held) {
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

fn answers_to(request: FromClient, held: &mut Option<CommandId>) -> Vec<ToClient> {
    match request {
        FromClient::Open { secret, terms } => vec![ToClient::Opened {
            hash: secret.hash(),
            session: SessionId(1 << 16),
            expiry: terms.expiry,
        }],
        FromClient::Call { id, payload, .. } if payload == HELD => {
            *held = Some(id);
            Vec::new()
        }
        FromClient::Early { id } => {
            let value = Value::from_static(&[1]);
            vec![ToClient::Tentative { id, value }]
        }
        FromClient::Call { id, payload, .. } => {
            let first = held.take().expect("one is held");
            let ended = match payload == CONFIRM {
                true => ToClient::Confirmed { id: first },
                false => replied(first, 2),
            };
            vec![ended, replied(id, 0)]
        }
        _ => Vec::new(),
    }
}

fn replied(id: CommandId, byte: u8) -> ToClient {
    let outcome = returned(byte);
    ToClient::Replied { id, outcome }
}

fn returned(byte: u8) -> Outcome {
    Outcome::Returned(Bytes::from(vec![byte]))
}

/// A client of a node of that level, and a call that is wanted early.
fn early(level: Level) -> (Client, EarlyCall) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("quorate://{}", listener.local_addr().unwrap());
    let endpoint: Endpoint = endpoint.parse().unwrap();
    std::thread::spawn(move || {
        while let Ok((socket, _)) = listener.accept() {
            std::thread::spawn(move || serve(socket, level));
        }
    });
    let client = Client::connect(&endpoint, DriverOptions::default(), None).unwrap();
    let call = client.begin_early(ObjectId(0), Value::from_static(HELD));
    (client, call)
}

fn end(client: &Client, how: &'static [u8]) {
    let (object, payload) = (ObjectId(0), Value::from_static(how));
    client.perform(Operation::Call { object, payload }).unwrap();
}

fn called(byte: u8) -> Result<Answer, CallError> {
    Ok(Answer::Called(returned(byte)))
}

#[test]
fn a_first_word_that_is_confirmed_has_stood() {
    let (client, call) = early(Level::EARLY);
    assert_eq!(call.first(), called(1));
    assert_eq!(call.state(), WordState::Tentative);
    end(&client, CONFIRM);
    assert_eq!(
        (call.confirmed(), call.state()),
        (called(1), WordState::Stood)
    );
}

#[test]
fn a_first_word_that_is_replaced_has_fallen() {
    let (client, call) = early(Level::EARLY);
    assert_eq!(call.first(), called(1));
    end(&client, REPLACE);
    assert_eq!(
        (call.confirmed(), call.state()),
        (called(2), WordState::Fell)
    );
}

#[test]
fn an_older_node_gives_the_answer_first() {
    let (client, call) = early(Level::BROADCAST);
    assert_eq!(call.state(), WordState::Awaited);
    end(&client, REPLACE);
    assert_eq!(
        (call.first(), call.state()),
        (called(2), WordState::Decided)
    );
    assert_eq!(call.confirmed(), called(2));
}

#[test]
fn a_client_that_is_closed_leaves_what_was_told_early_unknown() {
    let (client, call) = early(Level::EARLY);
    assert_eq!(call.first(), called(1));
    client.close();
    assert!(matches!(
        call.confirmed(),
        Err(CallError::OutcomeUnknown(_))
    ));
    assert_eq!(call.state(), WordState::Fell);
}
