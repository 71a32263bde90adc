//! What fixed layouts refuse, and that false counts reserve nothing.

use bytes::{BufMut, Bytes, BytesMut};
use quorate_types::{CommandId, FromClient, Level, ObjectId, SessionId};
use quorate_wire::*;

fn call(sequence: u64) -> BytesMut {
    let mut body = BytesMut::new();
    let id = CommandId {
        session: SessionId(1 << 16),
        sequence,
    };
    put_call(&mut body, id, 0, ObjectId(0), b"payload");
    body
}

#[test]
fn a_call_that_is_cut_is_short() {
    let body = call(1).freeze();
    for length in 1..body.len() {
        let read: Result<Vec<FromClient>, _> = requests(body.slice(..length)).collect();
        assert!(matches!(read, Err(WireError::Short { .. })), "{length}");
    }
}

#[test]
fn nothing_follows_a_request_that_cannot_be_read() {
    let mut body = call(1);
    body.put_u8(99);
    body.extend_from_slice(&call(2));
    let read: Vec<_> = requests(body.freeze()).collect();
    assert_eq!(read.len(), 2);
    assert!(read[0].is_ok());
    assert_eq!(
        read[1],
        Err(WireError::UnknownTag {
            what: "request",
            tag: 99
        })
    );
}

#[test]
fn counters_near_overflow_are_refused() {
    let read = requests(call(u64::MAX).freeze()).next().unwrap();
    assert_eq!(
        read,
        Err(WireError::OutOfRange {
            what: "sequence",
            value: u64::MAX
        })
    );
}

#[test]
fn a_node_that_no_set_holds_is_refused() {
    let mut body = BytesMut::new();
    body.put_slice(&[7, 1]);
    body.put_u16_le(64);
    assert_eq!(
        answers(body.freeze()).next(),
        Some(Err(WireError::OutOfRange {
            what: "node",
            value: 64
        }))
    );
}

/// The beginning of a record with this tag.
fn record(tag: u8) -> BytesMut {
    let mut body = BytesMut::from(&[0x84][..]);
    body.put_slice(&[0; 12]);
    body.put_u8(tag);
    body
}

#[test]
fn a_record_of_the_layout_without_a_view_is_refused() {
    let mut body = BytesMut::from(&[4][..]);
    body.put_u64_le(9);
    assert_eq!(
        take_record(&body.freeze()),
        Err(WireError::UnknownTag {
            what: "layout of records",
            tag: 4
        })
    );
}

#[test]
fn a_slot_that_no_session_can_name_is_refused() {
    let mut body = record(4);
    body.put_u64_le(1 << 47);
    assert!(matches!(
        take_record(&body.freeze()),
        Err(WireError::OutOfRange { what: "slot", .. })
    ));
}

#[test]
fn a_false_count_is_refused_before_anything_is_reserved() {
    // A vote whose batch says that it holds 65,536 commands and holds none.
    let mut body = record(3);
    body.put_u64_le(1);
    body.put_u32_le(20);
    body.put_slice(&[0; 16]);
    body.put_u32_le(65_536);
    assert!(matches!(
        take_record(&body.clone().freeze()),
        Err(WireError::Short {
            what: "commands",
            ..
        })
    ));
    let at = body.len() - 4;
    body[at..].copy_from_slice(&65_537u32.to_le_bytes());
    assert!(matches!(
        take_record(&body.freeze()),
        Err(WireError::TooMany {
            what: "commands",
            ..
        })
    ));
}

#[test]
fn bytes_behind_the_commands_of_a_batch_are_refused() {
    let mut body = record(3);
    body.put_u64_le(1);
    body.put_u32_le(21);
    body.put_slice(&[0; 21]);
    assert_eq!(
        take_record(&body.freeze()),
        Err(WireError::Trailing {
            what: "batch",
            left: 1
        })
    );
}

#[test]
fn bytes_behind_a_message_are_refused() {
    let mut body = BytesMut::new();
    Reject {
        reason: RejectReason::Full,
        text: "full".into(),
    }
    .put(&mut body);
    body.put_u8(0);
    assert_eq!(
        Reject::take(&body.freeze()),
        Err(WireError::Trailing {
            what: "reject",
            left: 1
        })
    );
}

#[test]
fn a_stranger_of_another_protocol_is_no_hello() {
    let read = Hello::take(&Bytes::from_static(b"GET / HTTP/1.1\r\n\r\n"));
    assert!(matches!(
        read,
        Err(WireError::OutOfRange {
            what: "magic number",
            ..
        })
    ));
}

#[test]
fn versions_meet_where_both_speak_one() {
    let hello = |version_min, version_max| Hello {
        version_min,
        version_max,
        cluster: None,
        role: HelloRole::Client {
            group: quorate_types::GroupId(1),
        },
        software: String::new(),
        extra: Bytes::new(),
    };
    let common = |hello: Hello| hello.speaks().and_then(|speaks| speaks.common(SPEAKS));
    assert_eq!(common(hello(1, 1)), None);
    assert_eq!(common(hello(2, VERSION + 1)), Some(Level(VERSION)));
    assert_eq!(common(hello(VERSION + 1, VERSION + 2)), None);
    assert_eq!(common(hello(5, 2)), None);
    assert_eq!(common(hello(0, 0)), None);
}

#[test]
fn a_long_explanation_is_cut_at_a_character() {
    let reject = Reject {
        reason: RejectReason::Malformed,
        text: "é".repeat(1000),
    };
    let mut body = BytesMut::new();
    reject.put(&mut body);
    assert_eq!(Reject::take(&body.freeze()).unwrap().text, "é".repeat(512));
}

#[test]
fn a_chunk_past_the_end_of_its_snapshot_is_refused() {
    use quorate_replica::{PeerMessage, ReplicaMessage};
    let message = PeerMessage::Replica(ReplicaMessage::Chunk {
        slot: quorate_types::Slot(1),
        offset: 8,
        total: 10,
        data: Bytes::from_static(b"abc"),
    });
    let mut body = BytesMut::new();
    put_peer(&mut body, &message);
    assert!(matches!(
        take_peer(&body.freeze()),
        Err(WireError::Inconsistent { .. })
    ));
}
