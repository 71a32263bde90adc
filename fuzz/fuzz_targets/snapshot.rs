//! Snapshots, and the replica's part alone.
#![no_main]
#![expect(
    dead_code,
    reason = "each target uses one reader of those shared with the tests"
)]

#[path = "../../core/wire/tests/wire/readers.rs"]
mod readers;

libfuzzer_sys::fuzz_target!(|input: &[u8]| readers::snapshot(input));
