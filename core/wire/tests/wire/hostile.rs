//! Any bytes whatever get an answer: the corpus is replayed, and damaged samples are read by the
//! tens of thousands. The readers' promises are asserted in `readers.rs`.
//!
//! QUORATE_SEED=n draws other damage; `make night` does that.
#![expect(
    clippy::disallowed_methods,
    reason = "the corpus is read from its files here, by a test"
)]

use crate::draw::Draw;
use crate::samples::{self, Reader};
use quorate_wire::Kind;
use std::path::PathBuf;

/// Damaged inputs made of each sample.
const DAMAGED: u64 = 1000;

pub(crate) fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus")
}

/// Where drawing begins.
fn first_seed() -> u64 {
    let named = std::env::var("QUORATE_SEED").ok();
    named.map_or(0, |seed| seed.parse().expect("QUORATE_SEED is a number"))
}

#[test]
fn every_input_of_the_corpus_gets_an_answer() {
    let readers = [
        Reader::Frame,
        Reader::Message(Kind::Peer),
        Reader::Value,
        Reader::Record,
        Reader::Snapshot,
    ];
    for reader in readers {
        let folder = std::fs::read_dir(corpus().join(reader.name())).expect("a corpus per target");
        let mut count = 0;
        for entry in folder {
            reader.read(&std::fs::read(entry.unwrap().path()).unwrap());
            count += 1;
        }
        assert!(count > 0, "the corpus of {} is empty", reader.name());
    }
}

#[test]
fn every_damaged_sample_gets_an_answer() {
    let samples = samples::all();
    for (number, sample) in samples.iter().enumerate() {
        let input = sample.input();
        for round in 0..DAMAGED {
            let place = (number as u64) << 32 | round;
            let mut draw = Draw::seeded(place ^ first_seed().rotate_right(16));
            let other = samples[draw.below(samples.len() as u64) as usize].input();
            let mut damaged = input.clone();
            for _ in 0..=draw.below(3) {
                damage(&mut draw, &mut damaged, &other);
            }
            sample.reader.read(&damaged);
        }
    }
}

#[test]
fn every_cut_sample_gets_an_answer() {
    for sample in samples::all() {
        let input = sample.input();
        for length in 0..input.len() {
            sample.reader.read(&input[..length]);
        }
    }
}

#[test]
fn random_bytes_get_an_answer() {
    for round in 0..10_000 {
        let mut draw = Draw::seeded(round ^ first_seed().rotate_right(16));
        let mut input = draw.bytes(200);
        for reader in [
            Reader::Frame,
            Reader::Value,
            Reader::Record,
            Reader::Snapshot,
        ] {
            reader.read(&input);
        }
        if let Some(first) = input.first_mut() {
            *first = *first % 10 + 1;
        }
        Reader::Message(Kind::Peer).read(&input);
    }
}

fn damage(draw: &mut Draw, bytes: &mut Vec<u8>, other: &[u8]) {
    let at = draw.below(bytes.len() as u64 + 1) as usize;
    match draw.below(7) {
        0 => bytes.truncate(at),
        1 => bytes.insert(at, draw.number() as u8),
        2 => bytes.extend(other[..draw.below(other.len() as u64) as usize].iter()),
        3 => {
            let from = draw.below(other.len() as u64) as usize;
            bytes.splice(at.., other[from..].iter().copied());
        }
        4 => {
            const HARD: [u64; 6] = [0, 1, 1 << 31, u32::MAX as u64, 1 << 63, u64::MAX];
            let number = HARD[draw.below(6) as usize].to_le_bytes();
            let width = 1 << draw.below(4);
            let end = bytes.len().min(at + width);
            bytes[at..end].copy_from_slice(&number[..end - at]);
        }
        5 if at < bytes.len() => bytes[at] = draw.number() as u8,
        6 if at < bytes.len() => bytes[at] ^= 1 << draw.below(8),
        _ => {}
    }
}
