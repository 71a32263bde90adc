//! What calls, replies and batches cost in nanoseconds: `cargo run --release -p quorate-wire --example speed`.
//!
//! A loose measure for whoever changes a layout; budgets are judged by `quorate bench` on whole runs.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a measure reads the clock; nothing of it is part of the crate"
)]

use bytes::{Bytes, BytesMut};
use quorate_any::paxos::message::Accept;
use quorate_any::{AnyMessage, paxos::Message};
use quorate_replica::PeerMessage;
use quorate_types::*;
use quorate_wire::value::{Value as V, call};
use quorate_wire::*;
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: u32 = 20_000;
const PASSES: u32 = 5;
const CALLS: u64 = 64;

fn main() {
    let id = |sequence| CommandId {
        session: SessionId(1 << 16),
        sequence,
    };
    let payload = Bytes::from_static(b"sixteen bytes...");
    let asked: Vec<FromClient> = (1..=CALLS)
        .map(|sequence| FromClient::Call {
            id: id(sequence),
            acknowledged: 0,
            object: ObjectId(0),
            payload: payload.clone(),
        })
        .collect();
    let mut buf = BytesMut::with_capacity(64 << 10);
    measure("call, encoded in a shared frame", CALLS, || {
        buf.clear();
        put_frame(&mut buf, Kind::FromClient, GroupId(1), |body| {
            for message in &asked {
                put_request(body, message);
            }
        });
        black_box(&buf);
    });
    measure(
        "call, decoded from a shared frame",
        CALLS,
        reading(&buf, requests),
    );
    measure("call, encoded in its own frame", CALLS, || {
        buf.clear();
        for message in &asked {
            put_frame(&mut buf, Kind::FromClient, GroupId(1), |body| {
                put_request(body, message);
            });
        }
        black_box(&buf);
    });
    measure(
        "call, decoded from its own frame",
        CALLS,
        reading(&buf, requests),
    );
    replies(id, &payload);
    batches(id, &payload);
    values();
}

fn replies(id: impl Fn(u64) -> CommandId, payload: &Bytes) {
    let mut buf = BytesMut::new();
    put_frame(&mut buf, Kind::ToClient, GroupId(1), |body| {
        for sequence in 1..=CALLS {
            let outcome = Outcome::Returned(payload.clone());
            let id = id(sequence);
            put_answer(body, &ToClient::Replied { id, outcome });
        }
    });
    measure(
        "reply, decoded from a shared frame",
        CALLS,
        reading(&buf, answers),
    );
}

/// Reads the stream as a connection does, the copy out of the socket included.
fn reading<T, I>(sent: &BytesMut, read: impl Fn(Bytes) -> I) -> impl FnMut()
where
    I: Iterator<Item = Result<T, WireError>>,
{
    let sent = sent.clone();
    let mut reader = FrameReader::new(1 << 20);
    move || {
        reader.push(&sent);
        while let Some(frame) = reader.next_frame().expect("whole frames") {
            for message in read(frame.body) {
                black_box(message.expect("whole messages"));
            }
        }
    }
}

fn batches(id: impl Fn(u64) -> CommandId, payload: &Bytes) {
    let commands: Vec<Command> = (1..=CALLS)
        .map(|sequence| Command {
            id: id(sequence),
            acknowledged: 0,
            body: Body::Call {
                object: ObjectId(0),
                payload: payload.clone(),
            },
        })
        .collect();
    let made = || Batch::new(Stamp::default(), commands.clone());
    measure("command, cloned into a batch", CALLS, || {
        black_box(made());
    });
    measure("command, cloned into a batch and encoded", CALLS, || {
        black_box(encoded_batch(&made()));
    });
    let accept = PeerMessage::Ordering {
        view: ViewId::default(),
        message: AnyMessage::Paxos(Message::Accept(Accept {
            ballot: Ballot::ZERO,
            slot: Slot(1),
            batch: made(),
            decided: Slot(0),
        })),
    };
    let mut buf = BytesMut::with_capacity(64 << 10);
    measure("command, its batch copied into a frame", CALLS, || {
        buf.clear();
        put_frame(&mut buf, Kind::Peer, GroupId(1), |body| {
            put_peer(body, &accept);
        });
        black_box(&buf);
    });
    let mut reader = FrameReader::new(1 << 20);
    measure("command, decoded in its batch and frame", CALLS, || {
        reader.push(&buf);
        let frame = reader.next_frame().expect("whole").expect("whole");
        black_box(take_peer(&frame.body).expect("whole"));
    });
}

fn values() {
    let args = [V::Int(10)];
    let mut buf = BytesMut::with_capacity(1 << 10);
    measure("value: call deposit(10), encoded", 1, || {
        buf.clear();
        call::encode_into(&mut buf, "deposit", &args, &[]).expect("within all limits");
        black_box(&buf);
    });
    let bytes = call::encode("deposit", &args, &[]).expect("within all limits");
    measure("value: call deposit(10), viewed", 1, || {
        let mut view = call::MethodCallView::parse(black_box(&bytes)).expect("a call");
        black_box((view.method(), view.int().expect("an integer")));
        view.finish().expect("one argument");
    });
    measure("value: call deposit(10), decoded whole", 1, || {
        black_box(call::decode(black_box(&bytes)).expect("a call"));
    });
}

/// Prints the best of a few passes: the others were disturbed.
fn measure(what: &str, per_round: u64, mut round: impl FnMut()) {
    let pass = |_| {
        let begin = Instant::now();
        for _ in 0..ROUNDS {
            round();
        }
        begin.elapsed().as_nanos()
    };
    let best = (0..PASSES).map(pass).min().expect("at least one pass");
    let ns = best as f64 / f64::from(ROUNDS) / per_round as f64;
    println!("{ns:8.1} ns  {what}");
}
