//! What was written is what is read, for every kind of message, record, snapshot and value; and it is
//! written the same way each time.

use crate::draw::Draw;
use crate::{drawn, drawn_handshake, drawn_values};
use bytes::{Bytes, BytesMut};
use quorate_any::{AnyMessage, paxos};
use quorate_replica::PeerMessage;
use quorate_types::{
    Ballot, Batch, Body, Command, CommandId, FromClient, GroupId, Level, ObjectId, Slot, Stamp,
    ViewId,
};
use quorate_wire::value::{self, Raised, call};
use quorate_wire::*;
use std::fmt::Debug;

const SEEDS: u64 = 3000;

fn written(put: impl Fn(&mut BytesMut)) -> Bytes {
    let mut buf = BytesMut::new();
    put(&mut buf);
    buf.freeze()
}

fn each_seed<T: PartialEq + Debug>(
    draw: impl Fn(&mut Draw) -> T,
    put: impl Fn(&mut BytesMut, &T),
    take: impl Fn(&Bytes) -> Result<T, WireError>,
) {
    for seed in 0..SEEDS {
        let item = draw(&mut Draw::seeded(seed));
        let bytes = written(|buf| put(buf, &item));
        let read = take(&bytes).unwrap_or_else(|error| panic!("seed {seed}: {error}: {item:?}"));
        assert_eq!(read, item, "seed {seed}");
        assert_eq!(written(|buf| put(buf, &read)), bytes, "seed {seed}");
    }
}

#[test]
fn handshakes_are_read_as_they_were_written() {
    each_seed(
        drawn_handshake::hello,
        |buf, hello| hello.put(buf),
        Hello::take,
    );
    each_seed(
        drawn_handshake::welcome,
        |buf, welcome| welcome.put(buf),
        Welcome::take,
    );
    each_seed(
        drawn_handshake::reach,
        |buf, reach| put_reach(buf, *reach, Level(20)),
        |body| take_reach(body, Level(20)),
    );
    each_seed(
        drawn_handshake::sighting,
        |buf, seen| put_sighting(buf, *seen),
        take_sighting,
    );
    each_seed(
        drawn_handshake::reject,
        |buf, reject| reject.put(buf),
        Reject::take,
    );
}

#[test]
fn peer_messages_are_read_as_they_were_written() {
    each_seed(drawn::peer, put_peer, take_peer);
}

#[test]
fn records_are_read_as_they_were_written() {
    each_seed(drawn::record, put_record, take_record);
}

#[test]
fn snapshot_cores_are_read_as_they_were_written() {
    each_seed(drawn::snapshot_core, put_snapshot_core, take_snapshot_core);
}

#[test]
fn snapshots_are_read_as_they_were_written() {
    for seed in 0..300 {
        let mut draw = Draw::seeded(seed);
        let names: Vec<String> = draw.list(4, |draw| draw.text(10));
        let created = draw.list(3, |draw| draw.below(5) as u32 + 1);
        let mut last = ObjectId::CREATED_MIN.0;
        let created = created.iter().map(|step| {
            last += step;
            last
        });
        let numbers: Vec<u32> = (0..).take(names.len()).chain(created).collect();
        let images = numbers.iter().map(|number| StoredImage {
            object: ObjectId(*number),
            image: draw.bytes(300).into(),
        });
        let images: Vec<StoredImage> = images.collect();
        let snapshot = Snapshot {
            core: drawn::snapshot_core(&mut draw),
            names,
            images,
        };
        let names = snapshot.names.iter().map(String::as_str);
        let bytes = small_snapshot(&snapshot.core, names, &snapshot.images);
        let head = SnapshotHead::take(bytes.first_chunk().unwrap()).unwrap();
        let core = bytes.slice(SNAPSHOT_HEAD_BYTES..SNAPSHOT_HEAD_BYTES + head.core_bytes as usize);
        assert_eq!(take_snapshot_core(&core).as_ref(), Ok(&snapshot.core));
        assert_eq!(Snapshot::take(&bytes), Ok(snapshot), "seed {seed}");
    }
}

#[test]
fn messages_of_clients_share_a_body_and_are_read_in_order() {
    for seed in 0..SEEDS {
        let mut draw = Draw::seeded(seed);
        let asked = draw.list(5, drawn::request);
        let told = draw.list(5, drawn::answer);
        let body = written(|buf| asked.iter().for_each(|message| put_request(buf, message)));
        assert_eq!(requests(body).collect::<Result<Vec<_>, _>>(), Ok(asked));
        let body = written(|buf| told.iter().for_each(|message| put_answer(buf, message)));
        assert_eq!(answers(body).collect::<Result<Vec<_>, _>>(), Ok(told));
    }
}

#[test]
fn a_follower_logs_the_bytes_that_the_leader_sent() {
    use quorate_any::paxos::message::Accept;
    use quorate_any::{AnyMessage, paxos::Message};
    use quorate_ordering::{Entry, Record};
    use quorate_replica::PeerMessage;
    use quorate_types::{Ballot, Slot, ViewId};

    let batch = drawn::batch(&mut Draw::seeded(4));
    assert!(!batch.commands().is_empty());
    let accept = PeerMessage::Ordering {
        view: ViewId::default(),
        message: AnyMessage::Paxos(Message::Accept(Accept {
            ballot: Ballot::ZERO,
            slot: Slot(1),
            batch,
            decided: Slot(0),
        })),
    };
    let body = written(|buf| put_peer(buf, &accept));
    let Ok(PeerMessage::Ordering {
        message: AnyMessage::Paxos(Message::Accept(Accept { batch, .. })),
        ..
    }) = take_peer(&body)
    else {
        panic!("an accept was written");
    };
    let kept = batch.encoded_with(|_: &Batch| panic!("encoded again"));
    assert!(
        body.as_ptr_range().contains(&kept.as_ptr()),
        "a slice of the frame, not a copy"
    );
    let entry = Entry::Vote {
        slot: Slot(1),
        ballot: Ballot::ZERO,
        kind: quorate_types::VoteKind::Classic,
        batch: batch.clone(),
    };
    let record = Record {
        view: ViewId::default(),
        entry,
    };
    let logged = written(|buf| put_record(buf, &record));
    assert!(logged.ends_with(kept));
    assert_eq!(take_record(&logged), Ok(record));
}

#[test]
fn values_calls_and_exceptions_are_read_as_they_were_written() {
    for seed in 0..SEEDS {
        let mut draw = Draw::seeded(seed);
        let drawn = drawn_values::value(&mut draw, 4);
        let bytes = value::encode(&drawn).expect("drawn within all limits");
        assert_eq!(value::decode(&bytes), Ok(drawn), "seed {seed}");

        let args = draw.list(4, |draw| drawn_values::value(draw, 2));
        let kwargs = vec![("who".to_owned(), drawn_values::value(&mut draw, 2))];
        let bytes = call::encode("deposit", &args, &kwargs).expect("drawn within all limits");
        let mut view = call::MethodCallView::parse(&bytes).expect("a call");
        for arg in &args {
            assert_eq!(view.value().as_ref(), Ok(arg), "seed {seed}");
        }
        assert!(view.finish().is_err(), "the named argument is left over");
        let read = call::decode(&bytes).expect("a call");
        assert_eq!((read.args, read.kwargs), (args.clone(), kwargs));

        let raised = Raised {
            class: draw.text(20),
            message: draw.text(20),
            args,
            traceback: draw.text(40),
            details: vec![("attributes".to_owned(), drawn_values::value(&mut draw, 2))],
        };
        let bytes = raised.encode().expect("drawn within all limits");
        assert_eq!(Raised::decode(&bytes), Ok(raised), "seed {seed}");
    }
}

#[test]
fn a_proposal_of_large_payloads_has_the_same_bytes_shared_and_copied() {
    let lengths: [&[usize]; 3] = [&[40_000, 5_000, 10, 70_000], &[70_000], &[10, 5_000]];
    for lengths in lengths {
        let commands = lengths.iter().map(|length| Command {
            id: CommandId::default(),
            acknowledged: 0,
            body: Body::Call {
                object: ObjectId(0),
                payload: vec![*length as u8; *length].into(),
            },
        });
        let batch = Batch::new(Stamp::default(), commands.collect());
        let accept = paxos::message::Accept {
            ballot: Ballot::ZERO,
            slot: Slot(1),
            decided: Slot(0),
            batch,
        };
        let message = PeerMessage::Ordering {
            view: ViewId::default(),
            message: AnyMessage::Paxos(paxos::Message::Accept(accept)),
        };
        let mut copied = BytesMut::new();
        put_frame(&mut copied, Kind::Peer, GroupId(1), |body| {
            put_peer(body, &message);
        });
        let buf = &mut BytesMut::new();
        let pieces = put_frame_shared(buf, Kind::Peer, GroupId(1), |body| {
            put_peer_shared(body, &message);
        });
        let shared: Vec<u8> = pieces.iter().flat_map(|piece| piece.to_vec()).collect();
        assert_eq!(shared, copied, "{lengths:?}");
        let body = copied.freeze().slice(HEADER_BYTES..);
        let read = take_peer(&body).expect("it was written so");
        assert_eq!(read, message);
        let mut again = BytesMut::new();
        put_peer(&mut again, &read);
        assert_eq!(again, body, "what was read is written as it was");
    }
}

/// An object may keep the value of a large payload for ever.
#[test]
fn no_large_payload_holds_the_frame_that_it_shares_with_others() {
    let lengths = [40_000, 10, 40_000, 40_000];
    let payload = |length: usize| Bytes::from(vec![length as u8; length]);
    let mut body = BytesMut::new();
    for length in lengths {
        let (id, object) = (CommandId::default(), ObjectId(0));
        put_call(&mut body, id, 0, object, &payload(length));
    }
    let body = body.freeze();
    let mut calls: Vec<_> = requests(body.clone()).collect();
    calls.retain(|call| matches!(call, Ok(FromClient::Call { payload, .. }) if payload.len() > 10));
    assert_eq!(calls.len(), 3);
    assert!(body.is_unique(), "calls of a client");

    let commands = lengths.map(|length| Command {
        id: CommandId::default(),
        acknowledged: 0,
        body: Body::Call {
            object: ObjectId(0),
            payload: payload(length),
        },
    });
    let batch = |commands: &[Command]| Batch::new(Stamp::default(), commands.to_vec());
    let forward = paxos::Message::Forward(paxos::message::Forward {
        ballot: Ballot::ZERO,
        number: 1,
        commands: commands.to_vec(),
    });
    let learned = paxos::Message::Learned(paxos::message::Learned {
        from: Slot(1),
        batches: vec![batch(&commands[..1]), batch(&commands[2..])],
        decided: Slot(2),
    });
    for message in [learned, forward] {
        let message = PeerMessage::Ordering {
            view: ViewId::default(),
            message: AnyMessage::Paxos(message),
        };
        let mut body = BytesMut::new();
        put_peer(&mut body, &message);
        let body = body.freeze();
        let read = take_peer(&body).expect("it was written so");
        assert_eq!(read, message);
        assert!(body.is_unique(), "{} bytes", body.len());
    }
}

#[test]
fn a_snapshot_whose_images_are_not_those_of_its_objects_is_refused() {
    let core = drawn::snapshot_core(&mut Draw::seeded(1));
    let first = ObjectId::CREATED_MIN.0;
    let cases: [(&[u32], bool); 8] = [
        (&[0, 1], true),
        (&[0, 1, first, first + 7, u32::MAX], true),
        (&[0], false),
        (&[1, 0], false),
        (&[0, 1, 2], false),
        (&[0, 1, first - 1], false),
        (&[0, 1, first, first], false),
        (&[0, 1, first + 7, first], false),
    ];
    for (numbers, is_whole) in cases {
        let images = numbers.iter().map(|number| StoredImage {
            object: ObjectId(*number),
            image: "state".into(),
        });
        let bytes = small_snapshot(&core, ["a", "b"], &images.collect::<Vec<_>>());
        assert_eq!(Snapshot::take(&bytes).is_ok(), is_whole, "{numbers:?}");
    }
}
