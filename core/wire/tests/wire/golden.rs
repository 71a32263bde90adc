//! Layouts hold still: each sample's bytes are those of its file in `golden/`.
//!
//! A layout is changed on purpose with `QUORATE_GOLDEN=write cargo test -p quorate-wire golden`, which
//! writes these files and the seeds of `fuzz/corpus`; what changed is then seen in review. A changed
//! layout of what is on disk or between versions needs a new version number.
#![expect(
    clippy::disallowed_methods,
    reason = "the files to compare with are read and written here, by a test"
)]

use crate::samples::{self, Reader, Sample};
use bytes::{Bytes, BytesMut};
use quorate_wire::{Kind, WireError, answers, requests, take_peer, take_record};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

fn golden(sample: &Sample) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("golden")
        .join(format!("{}.hex", sample.name))
}

/// Sixteen bytes a line.
fn hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| -> String {
        let pairs: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        pairs.join(" ") + "\n"
    };
    bytes.chunks(16).map(line).collect()
}

#[test]
fn every_layout_is_the_one_in_its_golden_file() {
    let writes = std::env::var("QUORATE_GOLDEN").is_ok_and(|wish| wish == "write");
    for sample in samples::all() {
        let path = golden(&sample);
        if writes {
            fs::write(&path, hex(&sample.bytes)).expect("the golden folder can be written");
            let corpus = crate::hostile::corpus().join(sample.reader.name());
            fs::create_dir_all(&corpus).expect("the corpus can be written");
            fs::write(corpus.join(sample.name), sample.input()).expect("the corpus can be written");
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(hex(&sample.bytes), kept, "{} changed", sample.name);
    }
}

#[test]
fn no_golden_file_is_without_its_sample() {
    let samples = samples::all();
    let names: BTreeSet<String> = samples
        .iter()
        .map(|sample| format!("{}.hex", sample.name))
        .collect();
    assert_eq!(names.len(), samples.len(), "two samples share a name");
    let files = fs::read_dir(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden"))
        .expect("the golden folder is there")
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names, files);
}

/// The tags at `at` of all samples of one reader that begin with `prefix`.
fn tags(reader: Reader, prefix: &[u8], at: usize) -> BTreeSet<u8> {
    samples::all()
        .iter()
        .filter(|sample| sample.reader == reader && sample.bytes.starts_with(prefix))
        .map(|sample| sample.bytes[at])
        .collect()
}

/// A tag without a sample names nothing: a message without one is noticed.
fn assert_complete(
    tags: &BTreeSet<u8>,
    what: &'static str,
    read: impl Fn(u8) -> Option<WireError>,
) {
    assert!(!tags.is_empty(), "{what}");
    for tag in (1..=u8::MAX).filter(|tag| !tags.contains(tag)) {
        assert_eq!(read(tag), Some(WireError::UnknownTag { what, tag }));
    }
}

#[test]
fn every_message_and_record_has_a_sample() {
    let body = |parts: &[&[u8]]| Bytes::from(parts.concat());
    let asked = tags(Reader::Message(Kind::FromClient), &[], 0);
    assert_complete(&asked, "request", |tag| {
        requests(body(&[&[tag]])).next()?.err()
    });
    let told = tags(Reader::Message(Kind::ToClient), &[], 0);
    assert_complete(&told, "answer", |tag| {
        answers(body(&[&[tag]])).next()?.err()
    });
    let ordering = tags(Reader::Message(Kind::Peer), &[1], 14);
    assert_complete(&ordering, "ordering message", |tag| {
        take_peer(&body(&[&[1], &[0; 12], &[1, tag]])).err()
    });
    let replica = tags(Reader::Message(Kind::Peer), &[2], 1);
    assert_complete(&replica, "replica message", |tag| {
        take_peer(&body(&[&[2, tag]])).err()
    });
    let records = tags(Reader::Record, &[0x84], 13);
    assert_complete(&records, "record", |tag| {
        take_record(&body(&[&[0x84], &[0; 12], &[tag]])).err()
    });
}

#[test]
fn encoding_again_gives_the_same_bytes() {
    let (first, second) = (samples::all(), samples::all());
    for (first, second) in first.iter().zip(&second) {
        assert_eq!(first.bytes, second.bytes, "{}", first.name);
    }
    assert_ne!(BytesMut::new(), first[0].bytes);
}
