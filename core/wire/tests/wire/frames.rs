//! Frames on a stream: cut anywhere, harmed anywhere, announced at any length.

use bytes::{BufMut, BytesMut};
use quorate_types::GroupId;
use quorate_wire::limits::{READ_BYTES_MAX, READ_BYTES_MIN};
use quorate_wire::{
    FrameError, FrameReader, HEADER_BYTES, Kind, begin_frame, end_frame, put_frame,
};

fn stream(body: &[u8]) -> BytesMut {
    let mut buf = BytesMut::new();
    put_frame(&mut buf, Kind::Peer, GroupId(3), |buf| buf.put_slice(body));
    buf
}

#[test]
fn kinds_are_numbered_in_order_from_one() {
    for (index, kind) in Kind::ALL.into_iter().enumerate() {
        assert_eq!(usize::from(kind as u8), index + 1);
    }
}

#[test]
fn bodies_of_one_read_are_slices_of_one_buffer() {
    let mut sent = stream(b"first");
    sent.extend_from_slice(&stream(b"second"));
    let mut reader = FrameReader::new(100);
    reader.push(&sent);
    let first = reader.next_frame().unwrap().unwrap();
    let second = reader.next_frame().unwrap().unwrap();
    assert_eq!(
        (&first.body[..], &second.body[..]),
        (&b"first"[..], &b"second"[..])
    );
    let between = second.body.as_ptr() as usize - first.body.as_ptr() as usize;
    assert_eq!(between, b"first".len() + HEADER_BYTES);
    assert_eq!(reader.next_frame(), Ok(None));
    assert_eq!(reader.pending(), 0);
}

#[test]
fn every_single_changed_bit_is_noticed() {
    let sent = stream(b"payload");
    for bit in 0..sent.len() * 8 {
        let mut harmed = sent.clone();
        harmed[bit / 8] ^= 1 << (bit % 8);
        let mut reader = FrameReader::new(100);
        reader.push(&harmed);
        let read = reader.next_frame();
        assert!(!matches!(read, Ok(Some(_))), "bit {bit}: {read:?}");
    }
}

#[test]
fn a_frame_that_is_too_long_is_refused_before_its_body_arrives() {
    for length in [101, 1 << 31, u32::MAX] {
        let mut reader = FrameReader::new(100);
        let mut header = stream(&[]).to_vec();
        header[..4].copy_from_slice(&length.to_le_bytes());
        reader.push(&header);
        let expected = FrameError::TooLong {
            length: length as usize,
            limit: 100,
        };
        assert_eq!(reader.next_frame(), Err(expected.clone()));
        assert_eq!(reader.next_frame(), Err(expected), "it stays refused");
        assert!(
            reader.space().len() <= READ_BYTES_MIN,
            "no memory was taken"
        );
    }
}

#[test]
fn memory_follows_what_has_arrived_and_not_what_is_announced() {
    let limit = 32 << 20;
    let body = vec![7; 3 << 20];
    let sent = stream(&body);
    let mut reader = FrameReader::new(limit);
    let mut arrived = 0;
    for piece in sent.chunks(1000) {
        reader.push(piece);
        arrived += piece.len();
        let held = reader.pending() + reader.space().len();
        assert!(
            held <= 2 * arrived + READ_BYTES_MAX,
            "{held} held for {arrived}"
        );
        if arrived < sent.len() {
            assert_eq!(reader.next_frame(), Ok(None));
        }
    }
    assert_eq!(reader.next_frame().unwrap().unwrap().body, body);
}

#[test]
fn an_empty_body_is_a_frame() {
    let mut reader = FrameReader::new(0);
    reader.push(&stream(&[]));
    assert!(reader.next_frame().unwrap().unwrap().body.is_empty());
}

#[test]
fn unknown_kinds_and_flags_are_refused() {
    for (at, refusal) in [
        (4, FrameError::UnknownKind { kind: 200 }),
        (5, FrameError::UnknownFlags),
        (7, FrameError::UnknownFlags),
    ] {
        let mut sent = stream(b"x");
        sent[at] = 200;
        let mut reader = FrameReader::new(100);
        reader.push(&sent);
        assert_eq!(reader.next_frame(), Err(refusal));
    }
}

#[test]
fn a_frame_may_be_filled_step_by_step_behind_others() {
    let mut buf = stream(b"before");
    let open = begin_frame(&mut buf, Kind::ToClient, GroupId(9));
    buf.put_slice(b"one ");
    buf.put_slice(b"two");
    assert_eq!(open.body_len(&buf), 7);
    end_frame(&mut buf, open);
    let mut reader = FrameReader::new(100);
    reader.push(&buf);
    assert_eq!(&reader.next_frame().unwrap().unwrap().body[..], b"before");
    let second = reader.next_frame().unwrap().unwrap();
    assert_eq!(
        (second.kind, &second.body[..]),
        (Kind::ToClient, &b"one two"[..])
    );
}

#[test]
fn a_busy_reader_reads_more_at_once_and_a_quiet_one_less() {
    let frame = stream(&[0; 48]);
    let mut reader = FrameReader::new(100);
    let mut read = |wanted: Option<usize>| {
        let space = reader.space();
        let offered = space.len();
        let count = wanted.unwrap_or(offered);
        for part in space[..count].chunks_exact_mut(frame.len()) {
            part.copy_from_slice(&frame);
        }
        reader.filled(count);
        while let Some(frame) = reader.next_frame().expect("whole frames were sent") {
            assert_eq!(frame.body.len(), 48);
        }
        assert_eq!(reader.pending(), 0);
        offered
    };
    let mut expected = READ_BYTES_MIN;
    for _ in 0..10 {
        assert_eq!(read(None), expected);
        expected = (expected * 2).min(READ_BYTES_MAX);
    }
    let mut quiet_reads = 0..2 * READ_BYTES_MAX / frame.len();
    assert!(quiet_reads.any(|_| read(Some(frame.len())) == READ_BYTES_MIN));
}
