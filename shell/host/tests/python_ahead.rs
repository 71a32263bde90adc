//! Python objects that execute slots ahead of decisions: a process that has something that is undone is replaced.
//!
//! Needs an interpreter with the package installed, as `python.rs`.

use bytes::Bytes;
use quorate_host::{
    Host, HostConfig, HostEvent, HostedObject, PythonConfig, call_payload, returned_int,
};
use quorate_ordering::ReadId;
use quorate_types::{Call, CommandId, ObjectId, Outcome, Slot, SlotResults, Stamp};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// No test waits longer for anything.
const PATIENCE: Duration = Duration::from_secs(30);

fn account() -> Host {
    account_of(PythonConfig::default().budgets)
}

fn account_of(budgets: BTreeMap<ObjectId, u64>) -> Host {
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
            budgets,
            ..PythonConfig::default()
        },
    })
    .unwrap()
}

fn deposit(amount: i64) -> Vec<Call> {
    vec![Call {
        index: 0,
        id: CommandId::default(),
        object: ObjectId(1),
        payload: call_payload("deposit", &[amount]),
    }]
}

/// The next `count` events that tell of calls, reads and going back, as the node waits for them.
fn events(host: &mut Host, count: usize) -> Vec<HostEvent> {
    let mut poll = mio::Poll::new().unwrap();
    let fd = host.fd();
    let mut source = mio::unix::SourceFd(&fd);
    poll.registry()
        .register(&mut source, mio::Token(7), mio::Interest::READABLE)
        .unwrap();
    let began = Instant::now();
    let (mut seen, mut new) = (Vec::new(), Vec::new());
    while seen.len() < count {
        host.flush();
        host.poll(&mut new);
        seen.extend(new.drain(..).filter(|event| {
            if let HostEvent::Down { reason, .. } = event {
                assert!(reason.contains("--budget"), "{event:?}");
            }
            !matches!(
                event,
                HostEvent::Up | HostEvent::Due { .. } | HostEvent::Down { .. }
            )
        }));
        assert!(began.elapsed() < PATIENCE, "only these came: {seen:?}");
        let wake = host.next_wake().unwrap_or(began + PATIENCE);
        let wait = wake.saturating_duration_since(Instant::now());
        let wait = wait.min(Duration::from_millis(100));
        poll.poll(&mut mio::Events::with_capacity(4), Some(wait))
            .unwrap();
    }
    seen
}

fn executed(slot: u64, sum: i64) -> HostEvent {
    let results = SlotResults::from(vec![returned_int(sum)]);
    let slot = Slot(slot);
    HostEvent::Executed { slot, results }
}

/// Claim rp-130.
#[test]
fn a_process_that_executed_what_is_undone_is_replaced_and_its_reads_are_answered_anew() {
    let mut host = account();
    let stamp = Stamp::default();
    host.execute(Slot(1), stamp, deposit(1));
    host.speculate(Slot(2), stamp, deposit(10));
    host.speculate(Slot(3), stamp, deposit(100));
    let told = [executed(1, 1), executed(2, 11), executed(3, 111)];
    assert_eq!(events(&mut host, 3), told);
    let first = host.process_id();
    host.confirm(Slot(2));
    host.undo(Slot(2));
    host.execute(Slot(3), stamp, deposit(5));
    let read = ReadId(9);
    host.query(read, ObjectId(1), call_payload("balance_now", &[]));
    let outcome = returned_int(16);
    assert_eq!(
        events(&mut host, 3),
        [
            HostEvent::Undone { after: Slot(2) },
            executed(3, 16),
            HostEvent::Queried { read, outcome },
        ]
    );
    assert_ne!(host.process_id(), first);
}

#[test]
fn what_no_process_had_is_undone_without_another_process() {
    let mut host = account();
    let stamp = Stamp::default();
    host.execute(Slot(1), stamp, deposit(1));
    assert_eq!(events(&mut host, 1), [executed(1, 1)]);
    let first = host.process_id();
    host.speculate(Slot(2), stamp, deposit(10));
    host.undo(Slot(1));
    host.execute(Slot(2), stamp, deposit(5));
    let undone = HostEvent::Undone { after: Slot(1) };
    assert_eq!(events(&mut host, 2), [undone, executed(2, 6)]);
    assert_eq!(host.process_id(), first);
}

/// The image that the host makes for itself, once it keeps much work, is of a state that is undone.
#[test]
fn an_image_of_an_undecided_state_is_no_base_of_the_next_process() {
    let mut host = account();
    let stamp = Stamp::default();
    host.execute(Slot(1), stamp, deposit(1));
    let note = || Call {
        index: 0,
        id: CommandId::default(),
        object: ObjectId(1),
        payload: call_payload("note", &[7]),
    };
    let most = quorate_host::limits::WORK_LOG_BYTES_MAX;
    // Each weighs more than a hundred bytes in the work log.
    let slots = most as u64 / 100;
    let many = slots / 1_000;
    for slot in 2..2 + many {
        host.speculate(
            Slot(slot),
            stamp,
            (0..1_000).map(|_| note()).collect::<Vec<_>>(),
        );
    }
    events(&mut host, 1 + many as usize);
    host.undo(Slot(1));
    host.execute(Slot(2), stamp, deposit(5));
    let undone = HostEvent::Undone { after: Slot(1) };
    assert_eq!(events(&mut host, 2), [undone, executed(2, 6)]);
}

#[test]
fn a_process_that_has_not_answered_what_is_undone_is_replaced() {
    let mut host = account();
    let stamp = Stamp::default();
    host.execute(Slot(1), stamp, deposit(1));
    assert_eq!(events(&mut host, 1), [executed(1, 1)]);
    let first = host.process_id();
    host.speculate(Slot(2), stamp, deposit(10));
    // The process has it, and nobody reads its answer.
    host.flush();
    host.undo(Slot(1));
    host.execute(Slot(2), stamp, deposit(5));
    let undone = HostEvent::Undone { after: Slot(1) };
    assert_eq!(events(&mut host, 2), [undone, executed(2, 6)]);
    assert_ne!(host.process_id(), first);
}

#[test]
fn a_call_that_took_too_many_steps_is_left_out_no_longer_than_it_is_there() {
    let mut host = account_of(BTreeMap::from([(ObjectId(1), 10_000)]));
    let stamp = Stamp::default();
    host.execute(Slot(1), stamp, deposit(1));
    let payload = call_payload("spin", &[1_000_000]);
    let spins = deposit(0).into_iter();
    let spins = spins.map(|call| Call {
        payload: payload.clone(),
        ..call
    });
    host.speculate(Slot(2), stamp, spins.collect::<Vec<_>>());
    let told = events(&mut host, 2);
    let HostEvent::Executed { results, .. } = &told[1] else {
        panic!("{told:?}")
    };
    let is_raised = |outcome: &Outcome| matches!(outcome, Outcome::Raised(_));
    assert!(results.outcomes().all(is_raised), "{results:?}");
    host.undo(Slot(1));
    host.execute(Slot(2), stamp, deposit(5));
    let undone = HostEvent::Undone { after: Slot(1) };
    assert_eq!(events(&mut host, 2), [undone, executed(2, 6)]);
}
