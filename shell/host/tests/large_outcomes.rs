//! Calls that return much at once: neither the host process nor the node holds all of it, and every call has an outcome.
//!
//! Needs an interpreter with the package installed, as `python.rs`.

mod driven;

use bytes::Bytes;
use driven::drive_until;
use quorate_host::{Host, HostConfig, HostEvent, HostedObject, PythonConfig, call_payload};
use quorate_types::{Call, CommandId, ObjectId, Outcome, PAYLOAD_BYTES_MAX, Slot, Stamp};
use std::path::{Path, PathBuf};

/// What the process may take beside Python itself.
const HOST_KIB_MAX: u64 = 160 << 10;

fn account() -> Host {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let interpreter = std::env::var_os("QUORATE_PYTHON")
        .map_or_else(|| root.join("../../.venv/bin/python"), PathBuf::from);
    Host::open(HostConfig {
        objects: vec![HostedObject {
            id: ObjectId(1),
            name: "it".to_owned(),
            class: "subjects:Account".to_owned(),
            arguments: Bytes::new(),
        }],
        python: PythonConfig {
            interpreter: Some(interpreter),
            paths: vec![root.join("tests/objects")],
            // How fast the machine makes hundreds of mebibytes is not asked here.
            call_timeout: None,
            ..PythonConfig::default()
        },
    })
    .unwrap()
}

fn call(index: u32, method: &str, arguments: &[i64]) -> Call {
    Call {
        index,
        id: CommandId::default(),
        object: ObjectId(1),
        payload: call_payload(method, arguments),
    }
}

/// Executes a slot, and returns its outcomes. A host that dies fails the test.
fn outcomes(host: &mut Host, slot: u64, calls: Vec<Call>) -> Vec<Outcome> {
    host.execute(Slot(slot), Stamp::default(), calls);
    let of_event = |event| match event {
        HostEvent::Executed { slot: at, results } => {
            assert_eq!(at, Slot(slot));
            Some(results.outcomes().cloned().collect())
        }
        HostEvent::Down { reason, .. } => panic!("{reason}"),
        HostEvent::Hanging { .. } => None,
        other => panic!("{other:?}"),
    };
    drive_until(host, |came| came.drain(..).find_map(of_event))
}

/// The most memory that the host process has had, in KiB.
fn peak_kib(host: &Host) -> u64 {
    let id = host.process_id().unwrap();
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let number = line.unwrap().split_whitespace().nth(1);
    number.unwrap().parse().unwrap()
}

fn is_not_sent(outcome: &Outcome) -> bool {
    let Outcome::Raised(value) = outcome else {
        return false;
    };
    String::from_utf8_lossy(value).contains("quorate.UnsupportedResult")
}

#[test]
fn two_hundred_calls_of_a_slot_return_eight_mebibytes_each() {
    let mut host = account();
    let size = PAYLOAD_BYTES_MAX as i64 - 5;
    let calls = (0..200).map(|index| call(index, "large", &[size]));
    let outcomes_of_slot = outcomes(&mut host, 1, calls.collect());
    assert_eq!(outcomes_of_slot.len(), 200);
    let (sent, not_sent): (Vec<_>, Vec<_>) =
        (0..200).partition(|&at| matches!(&outcomes_of_slot[at], Outcome::Returned(_)));
    assert_eq!(sent, Vec::from_iter(0..16), "128 MiB of a slot are sent");
    assert!(
        not_sent
            .iter()
            .all(|&at| is_not_sent(&outcomes_of_slot[at]))
    );
    let peak = peak_kib(&host);
    assert!(peak < HOST_KIB_MAX, "the host process took {peak} KiB");
    let after = outcomes(&mut host, 2, vec![call(0, "deposit", &[1])]);
    assert_eq!(after, [Outcome::Returned(Bytes::from_static(&[0x18, 201]))]);
}

#[test]
fn a_result_or_an_exception_larger_than_any_frame_is_told_as_an_error() {
    let mut host = account();
    let size = 32 << 20;
    let calls = vec![
        call(0, "large", &[size]),
        call(1, "fail_at_length", &[size]),
        call(2, "deposit", &[1]),
    ];
    let told = outcomes(&mut host, 1, calls);
    assert!(is_not_sent(&told[0]), "{:?}", told[0]);
    // Its class and the beginning of its text are told.
    assert!(matches!(&told[1], Outcome::Raised(value) if value.len() < 20_000));
    assert_eq!(told[2], Outcome::Returned(Bytes::from_static(&[2])));
    // What the results took is given back, or else the next ones would add to it.
    let again = outcomes(&mut host, 2, vec![call(0, "large", &[size])]);
    assert!(is_not_sent(&again[0]));
}
