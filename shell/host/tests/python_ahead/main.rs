//! Python objects that execute slots ahead of decisions: a process that has something that is undone is replaced.
//!
//! Needs an interpreter with the package installed, as `python.rs`.

#[path = "../driven/mod.rs"]
mod driven;
mod driving;
mod in_place;
mod undone;

use driving::{OBJECT, call, drive, executed, host_of, one};
use quorate_host::{Host, HostEvent, call_payload, returned_int};
use quorate_ordering::ReadId;
use quorate_types::{Call, Outcome, Slot, Stamp};
use std::collections::BTreeMap;

fn account() -> Host {
    host_of("subjects:Account", |_| {})
}

fn deposit(amount: i64) -> Vec<Call> {
    one("deposit", &[amount])
}

/// The next `count` events that tell of calls, reads and going back.
fn events(host: &mut Host, count: usize) -> Vec<HostEvent> {
    let tells = |event: &HostEvent| {
        if let HostEvent::Down { reason, .. } = event {
            assert!(reason.contains("--budget"), "{event:?}");
        }
        !matches!(
            event,
            HostEvent::Up | HostEvent::Due { .. } | HostEvent::Down { .. }
        )
    };
    let seen = drive(host, |seen| {
        seen.iter().filter(|event| tells(event)).count() >= count
    });
    seen.into_iter().filter(tells).collect()
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
    host.query(read, OBJECT, call_payload("balance_now", &[]));
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
    let note = || call(0, "note", &[7]);
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
    let budgets = BTreeMap::from([(OBJECT, 10_000)]);
    let mut host = host_of("subjects:Account", |python| python.budgets = budgets);
    let stamp = Stamp::default();
    host.execute(Slot(1), stamp, deposit(1));
    host.speculate(Slot(2), stamp, one("spin", &[1_000_000]));
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
