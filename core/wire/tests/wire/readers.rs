//! What every reader of bytes promises for any input whatever: an answer, no panic; and what it takes
//! is the one encoding of what it read. Shared by the tests here and the fuzz targets in `fuzz/`.

use bytes::{Bytes, BytesMut};
use quorate_types::{Level, PartsCheck};
use quorate_wire::value::{self, Raised, Value, call};
use quorate_wire::{
    Frame, FrameError, FrameReader, Hello, Kind, Reject, Snapshot, Welcome, answers, image_head,
    put_admin_reply, put_admin_request, put_answer, put_challenge, put_frame, put_peer, put_proof,
    put_reach, put_record, put_request, put_sighting, put_snapshot_core, requests, snapshot_front,
    snapshot_front_bytes, take_admin_reply, take_admin_request, take_challenge, take_peer,
    take_proof, take_reach, take_record, take_sighting, take_snapshot_core,
};

/// The level of links whose frames are read.
const LINK: Level = Level(20);

/// Longest body that the frame reader is given leave to read.
const FRAME_LIMIT: usize = 1 << 16;

/// A byte stream of frames. The first byte says into which pieces the stream is cut.
pub(crate) fn frame(input: &[u8]) {
    let Some((&cut, stream)) = input.split_first() else {
        return;
    };
    let whole = read_frames(stream, stream.len().max(1));
    let in_pieces = read_frames(stream, usize::from(cut) + 1);
    assert_eq!(whole, in_pieces, "pieces change what is read");
    let mut written = BytesMut::new();
    for frame in &whole.0 {
        put_frame(&mut written, frame.kind, frame.group, |body| {
            body.extend_from_slice(&frame.body);
        });
    }
    assert_eq!(written, stream[..written.len()]);
}

fn read_frames(stream: &[u8], piece: usize) -> (Vec<Frame>, Option<FrameError>) {
    let mut reader = FrameReader::new(FRAME_LIMIT);
    let mut frames = Vec::new();
    for piece in stream.chunks(piece) {
        reader.push(piece);
        loop {
            match reader.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
        assert!(reader.pending() <= stream.len());
    }
    (frames, None)
}

/// A frame's body. The first byte is the frame's kind.
pub(crate) fn message(input: &[u8]) {
    let Some((&number, body)) = input.split_first() else {
        return;
    };
    let Some(kind) = Kind::ALL.into_iter().find(|kind| *kind as u8 == number) else {
        return;
    };
    let body = Bytes::copy_from_slice(body);
    let mut written = BytesMut::new();
    let read = match kind {
        Kind::Hello => Hello::take(&body).map(|hello| hello.put(&mut written)),
        Kind::Welcome => Welcome::take(&body).map(|welcome| welcome.put(&mut written)),
        Kind::Reject => Reject::take(&body).map(|reject| reject.put(&mut written)),
        Kind::Peer => take_peer(&body).map(|message| put_peer(&mut written, &message)),
        Kind::FromClient => requests(body.clone())
            .try_for_each(|message| message.map(|message| put_request(&mut written, &message))),
        Kind::ToClient => answers(body.clone())
            .try_for_each(|message| message.map(|message| put_answer(&mut written, &message))),
        Kind::Reach => take_reach(&body, LINK).map(|reach| put_reach(&mut written, reach, LINK)),
        Kind::Sighting => take_sighting(&body).map(|seen| put_sighting(&mut written, seen)),
        Kind::Challenge => take_challenge(&body).map(|(nonce, proof, speaks)| {
            put_challenge(&mut written, (nonce, proof), speaks, speaks.newest());
        }),
        Kind::Proof => take_proof(&body, LINK)
            .map(|(proof, reach)| put_proof(&mut written, proof, reach, LINK)),
        Kind::AdminRequest => {
            take_admin_request(&body).map(|request| put_admin_request(&mut written, &request))
        }
        Kind::AdminReply => {
            take_admin_reply(&body).map(|reply| put_admin_reply(&mut written, &reply))
        }
        Kind::StatusRequest | Kind::StatusReply => return,
    };
    if read.is_ok() {
        assert_eq!(written, body, "{kind:?}");
    }
}

/// An object's value, a call, or an exception.
pub(crate) fn value(input: &[u8]) {
    if let Ok(value) = value::decode(input) {
        assert!(held(&value) <= 128 * input.len() + ROOM, "too much memory");
        assert_eq!(value::encode(&value).expect("was decoded"), input);
        assert!(!value.to_string().is_empty());
    }
    if let Ok(raised) = Raised::decode(input) {
        assert_eq!(raised.encode().expect("was decoded"), input);
    }
    if let Ok(whole) = call::decode(input) {
        let again = call::encode(&whole.method, &whole.args, &whole.kwargs);
        assert_eq!(again.expect("was decoded"), input);
    }
    view(input);
}

/// What each level of nesting may reserve ahead, all levels together.
const ROOM: usize = 64 * 64 * size_of::<(Value, Value)>();

/// Bytes of memory that a value holds outside itself, boxes of fixed size aside.
fn held(value: &Value) -> usize {
    match value {
        Value::Text(text) | Value::Decimal(text) => text.capacity(),
        Value::Bytes(bytes) | Value::ByteArray(bytes) => bytes.capacity(),
        Value::List(items) | Value::Tuple(items) | Value::Set(items) | Value::FrozenSet(items) => {
            held_items(items)
        }
        Value::Map(entries) => held_entries(entries),
        Value::Object(object) | Value::Record(object) => held_named(&object.fields),
        Value::Deque(deque) => held_items(&deque.items),
        Value::MapOf(map) => held_entries(&map.entries),
        Value::Extended(extended) => held(&extended.content),
        Value::Texted(texted) => texted.text.capacity(),
        Value::Range(bounds) | Value::Slice(bounds) => bounds.iter().map(held).sum(),
        Value::Exception(raised) => {
            let texts = raised.message.capacity() + raised.traceback.capacity();
            texts + held_items(&raised.args) + held_named(&raised.details)
        }
        Value::Numbers(numbers) => numbers.data.capacity(),
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::BigInt(_)
        | Value::Float(_)
        | Value::DateTime(_)
        | Value::Date(_)
        | Value::TimeDelta(_)
        | Value::Uuid(_)
        | Value::Enum(_)
        | Value::Time(_)
        | Value::Singleton(_) => 0,
    }
}

fn held_items(items: &Vec<Value>) -> usize {
    items.capacity() * size_of::<Value>() + items.iter().map(held).sum::<usize>()
}

fn held_entries(entries: &Vec<(Value, Value)>) -> usize {
    let inside = entries.iter().map(|(key, value)| held(key) + held(value));
    entries.capacity() * size_of::<(Value, Value)>() + inside.sum::<usize>()
}

fn held_named(fields: &Vec<(String, Value)>) -> usize {
    let inside = fields
        .iter()
        .map(|(name, value)| name.capacity() + held(value));
    fields.capacity() * size_of::<(String, Value)>() + inside.sum::<usize>()
}

/// Reads the arguments one by one, each as whatever it is.
fn view(input: &[u8]) {
    let Ok(mut view) = call::MethodCallView::parse(input) else {
        return;
    };
    while view.args_left() > 0 {
        let left = view.args_left();
        let read = view.int().is_ok()
            || view.text_or_bytes().is_ok()
            || view.flag().is_ok()
            || view.value().is_ok();
        if !read {
            return;
        }
        assert_eq!(view.args_left(), left - 1);
    }
    if view.finish().is_ok() {
        assert!(call::decode(input).is_ok_and(|call| call.kwargs.is_empty()));
    }
}

/// A log record.
pub(crate) fn record(input: &[u8]) {
    let input = Bytes::copy_from_slice(input);
    if let Ok(record) = take_record(&input) {
        let mut written = BytesMut::new();
        put_record(&mut written, &record);
        assert_eq!(written, input);
    }
}

/// A snapshot, a list of parts, and the replica's part alone.
pub(crate) fn snapshot(input: &[u8]) {
    let whole = Bytes::copy_from_slice(input);
    if let Ok(read) = Snapshot::take(&whole) {
        let front = snapshot_front_bytes(&whole).expect("the whole was read");
        let names = read.names.iter().map(String::as_str);
        assert_eq!(snapshot_front(&read.core, names), whole[..front]);
        let images = read.images.iter().flat_map(|stored| {
            let head = image_head(stored.object, stored.image.len() as u64);
            [&head, &stored.image[..]].concat()
        });
        let images: Vec<u8> = images.collect();
        assert!(whole.ends_with(&images));
    }
    let mut parts = PartsCheck::default();
    parts.update(input);
    let _ = parts.digest();
    let core = Bytes::copy_from_slice(input);
    if let Ok(read) = take_snapshot_core(&core) {
        let mut written = BytesMut::new();
        put_snapshot_core(&mut written, &read);
        assert_eq!(written, core);
    }
}
