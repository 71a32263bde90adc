//! What is left of slots that were executed ahead of decisions by a Python object, and undone.
//!
//! Hosts are driven as the replica does it: it undoes everything when it hears that the host is down, and hands in the same slots again
//! when the host is up.

use crate::driven::PATIENCE;
use crate::driving::{OBJECT, call, drive, executed, host_of, one};
use bytes::Bytes;
use quorate_host::limits::CATCHING_UP_MAX;
use quorate_host::{Host, HostEvent, Image, ObjectImage, PythonConfig, call_payload, returned_int};
use quorate_ordering::ReadId;
use quorate_types::{Call, Outcome, Slot, SlotResults, Stamp, Wall};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn host_with(change: impl FnOnce(&mut PythonConfig)) -> Host {
    host_of("ahead:Ahead", change)
}

fn stamp() -> Stamp {
    Stamp {
        wall: Wall(1_000_000_000),
        ..Stamp::default()
    }
}

/// Drives the host until an event of these comes; gives back all that came.
fn until(host: &mut Host, is_last: impl Fn(&HostEvent) -> bool) -> Vec<HostEvent> {
    drive(host, |seen| seen.iter().any(&is_last))
}

fn is_executed(slot: u64) -> impl Fn(&HostEvent) -> bool {
    move |event| matches!(event, HostEvent::Executed { slot: at, .. } if at.0 == slot)
}

fn is_up(event: &HostEvent) -> bool {
    matches!(event, HostEvent::Up)
}

fn is_down(event: &HostEvent) -> bool {
    matches!(event, HostEvent::Down { .. })
}

fn read(host: &mut Host, method: &str) -> Outcome {
    let read = ReadId(9);
    host.query(read, OBJECT, call_payload(method, &[]));
    let seen = until(host, |event| matches!(event, HostEvent::Queried { .. }));
    let mut outcomes = seen.into_iter().filter_map(|event| match event {
        HostEvent::Queried { outcome, .. } => Some(outcome),
        _ => None,
    });
    outcomes.next().unwrap()
}

/// The host dies at a call that is not decided, is undone and works again, as often as it takes for a call that is: nothing of
/// that call is decided, so nothing may skip it, and what is decided in its place must be executed.
#[test]
fn deaths_at_a_call_that_is_undone_each_time_end_no_host_for_good() {
    let mut host = host_with(|_| {});
    host.execute(Slot(1), stamp(), one("deposit", &[1]));
    until(&mut host, is_executed(1));
    for _ in 0..3 {
        host.speculate(Slot(2), stamp(), one("crash", &[]));
        let seen = until(&mut host, is_down);
        host.undo(Slot(1));
        let is_for_good =
            |event: &HostEvent| matches!(event, HostEvent::Down { is_final: true, .. });
        assert!(!seen.iter().any(is_for_good), "nothing decided: {seen:?}");
        until(&mut host, is_up);
    }
    host.execute(Slot(2), stamp(), one("deposit", &[5]));
    let seen = until(&mut host, is_executed(2));
    assert!(seen.contains(&executed(2, 6)), "{seen:?}");
}

const CHILD: &str = "QUORATE_TEST_PRINTS";

/// What a host prints in this test, which runs again in a process of its own: an object's output is passed on to standard error.
fn printed(test: &str) -> Option<String> {
    if std::env::var_os(CHILD).is_some() {
        return None;
    }
    let own = std::env::current_exe().unwrap();
    let ran = std::process::Command::new(own)
        .args(["--exact", &format!("undone::{test}"), "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{printed}");
    Some(printed)
}

#[test]
fn what_is_decided_is_printed_after_something_else_was_undone() {
    if let Some(printed) = printed("what_is_decided_is_printed_after_something_else_was_undone") {
        assert!(printed.contains("object> said 10"), "ahead: {printed}");
        assert!(printed.contains("object> said 5"), "decided: {printed}");
        return;
    }
    let mut host = host_with(|_| {});
    host.execute(Slot(1), stamp(), one("deposit", &[1]));
    host.speculate(Slot(2), stamp(), one("say", &[10]));
    until(&mut host, is_executed(2));
    host.undo(Slot(1));
    host.execute(Slot(2), stamp(), one("say", &[5]));
    let seen = until(&mut host, is_executed(2));
    assert!(seen.contains(&executed(2, 6)), "{seen:?}");
}

/// The host ends in a slot behind the one that is undone, so the new process has nothing of it yet when it is undone: but it
/// was told at its start what was printed already.
#[test]
fn what_is_decided_is_printed_after_a_death_ahead() {
    if let Some(printed) = printed("what_is_decided_is_printed_after_a_death_ahead") {
        assert!(printed.contains("object> said 10"), "ahead: {printed}");
        assert!(printed.contains("object> said 5"), "decided: {printed}");
        return;
    }
    let mut host = host_with(|_| {});
    host.execute(Slot(1), stamp(), one("deposit", &[1]));
    host.speculate(Slot(2), stamp(), one("say", &[10]));
    until(&mut host, is_executed(2));
    host.speculate(Slot(3), stamp(), one("crash", &[]));
    until(&mut host, is_down);
    host.undo(Slot(1));
    until(&mut host, is_up);
    host.execute(Slot(2), stamp(), one("say", &[5]));
    let seen = until(&mut host, is_executed(2));
    assert!(seen.contains(&executed(2, 6)), "{seen:?}");
}

/// The replica asks for ticks as long as something is due.
#[test]
fn what_is_due_of_an_undone_slot_is_not_due_after_a_death_ahead() {
    let mut host = host_with(|_| {});
    host.execute(Slot(1), stamp(), one("deposit", &[1]));
    host.speculate(Slot(2), stamp(), one("later", &[]));
    let mut seen = until(&mut host, is_executed(2));
    host.speculate(Slot(3), stamp(), one("crash", &[]));
    seen.extend(until(&mut host, is_down));
    host.undo(Slot(1));
    seen.extend(until(&mut host, is_up));
    host.execute(Slot(2), stamp(), one("deposit", &[5]));
    seen.extend(until(&mut host, is_executed(2)));
    let dues = seen.iter().filter_map(|event| match event {
        HostEvent::Due { at } => Some(*at),
        _ => None,
    });
    let dues: Vec<Option<Wall>> = dues.collect();
    assert!(dues.iter().any(Option::is_some), "it was due: {seen:?}");
    assert_eq!(dues.last(), Some(&None), "it is undone: {seen:?}");
}

/// The read ends the process in the undecided state, and in no decided one.
#[test]
fn a_read_that_ended_the_host_in_an_undone_state_is_asked_again() {
    let mut host = host_with(|_| {});
    host.execute(Slot(1), stamp(), one("deposit", &[1]));
    host.speculate(Slot(2), stamp(), one("deposit", &[100]));
    until(&mut host, is_executed(2));
    let wrong = read(&mut host, "weigh");
    assert_ne!(wrong, returned_int(1), "the process ends");
    host.undo(Slot(1));
    assert_eq!(read(&mut host, "weigh"), returned_int(1));
}

/// A slot that went ahead without calls is decided with one that the group skips: the replica undoes what is behind it, and hands it
/// in with the skip.
#[test]
fn a_skip_of_a_slot_that_was_taken_for_an_empty_one_counts() {
    let mut host = host_with(|_| {});
    host.execute(Slot(1), stamp(), one("deposit", &[1]));
    host.speculate(Slot(3), stamp(), one("deposit", &[100]));
    until(&mut host, is_executed(3));
    host.undo(Slot(1));
    host.skip(Slot(2), 0);
    host.execute(Slot(2), stamp(), one("deposit", &[10]));
    let seen = until(&mut host, is_executed(2));
    let results = SlotResults::from(vec![Outcome::Skipped]);
    let slot = Slot(2);
    assert!(
        seen.contains(&HostEvent::Executed { slot, results }),
        "{seen:?}"
    );
}

/// About a megabyte of numbers that change nothing.
fn numbers() -> Call {
    call(1, "swallow", &[i64::MAX; 100_000])
}

/// Executes slots from 2 on, until the work log is almost so large that the host makes an image of its own; gives the next slot.
fn fill(host: &mut Host) -> u64 {
    let numbers = numbers();
    let most = quorate_host::limits::WORK_LOG_BYTES_MAX;
    let slots = most / (numbers.payload.len() + 1_000);
    let next = 2 + slots as u64;
    for slot in 2..next {
        host.execute(Slot(slot), stamp(), vec![numbers.clone()]);
    }
    until(host, is_executed(next - 1));
    next
}

/// A slot that makes the work log so large.
fn large(amount: i64) -> Vec<Call> {
    let others = (1..4).map(|index| Call { index, ..numbers() });
    std::iter::once(call(0, "deposit", &[amount]))
        .chain(others)
        .collect()
}

/// Polls until the image of `slot` has been read from its file, and nobody has asked for it yet.
fn until_image_is_read(host: &mut Host, scratch: &Path, slot: u64) {
    let id = host.process_id().unwrap();
    let path = scratch.join(format!("image-{id}-{slot}.tmp"));
    let began = Instant::now();
    let mut was_there = false;
    let mut seen = Vec::new();
    loop {
        assert!(began.elapsed() < PATIENCE, "no image: {seen:?}");
        if !was_there || path.exists() {
            host.flush();
            host.poll(&mut seen);
        }
        for _ in 0..50 {
            let is_there = path.exists();
            was_there |= is_there;
            if was_there && !is_there {
                // It is handed over at once.
                std::thread::sleep(Duration::from_millis(20));
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// An image of an undone state is on its way from its file when the state is undone, and the same slot is executed anew.
#[test]
fn an_image_of_an_undone_state_is_not_taken_for_one_of_the_same_slot() {
    let mut scratch = PathBuf::new();
    let mut host = host_with(|config| scratch = config.scratch.clone());
    host.execute(Slot(1), stamp(), one("deposit", &[1]));
    let slot = fill(&mut host);
    host.speculate(Slot(slot), stamp(), large(100));
    until(&mut host, is_executed(slot));
    until_image_is_read(&mut host, &scratch, slot);
    host.undo(Slot(slot - 1));
    host.speculate(Slot(slot), stamp(), large(10));
    until(&mut host, is_executed(slot));
    host.confirm(Slot(slot));
    assert_eq!(read(&mut host, "balance_now"), returned_int(11));
    // Whatever ends the process: the next one begins with what the host keeps.
    host.speculate(Slot(slot + 1), stamp(), one("deposit", &[1_000]));
    until(&mut host, is_executed(slot + 1));
    host.undo(Slot(slot));
    assert_eq!(read(&mut host, "balance_now"), returned_int(11));
}

/// As the node takes a snapshot of a decided slot: its image is of what was decided.
#[test]
fn a_snapshot_of_a_slot_is_not_of_what_was_undone_in_it() {
    let mut scratch = PathBuf::new();
    let mut host = host_with(|config| scratch = config.scratch.clone());
    host.execute(Slot(1), stamp(), one("deposit", &[1]));
    let slot = fill(&mut host);
    host.speculate(Slot(slot), stamp(), large(100));
    until(&mut host, is_executed(slot));
    until_image_is_read(&mut host, &scratch, slot);
    host.undo(Slot(slot - 1));
    host.execute(Slot(slot), stamp(), large(10));
    host.take_snapshot(Slot(slot));
    let seen = until(&mut host, |event| matches!(event, HostEvent::Imaged { .. }));
    let images = seen.into_iter().find_map(|event| match event {
        HostEvent::Imaged { images, .. } => Some(images),
        _ => None,
    });
    let mut other = host_with(|_| {});
    other.restore(Slot(slot), images.unwrap());
    until(&mut other, |event| {
        matches!(event, HostEvent::Restored { .. })
    });
    assert_eq!(read(&mut other, "balance_now"), returned_int(11));
}

/// A fetched snapshot that cannot be restored confirms nothing.
#[test]
fn a_restore_that_fails_makes_no_image_of_an_undecided_state_a_base() {
    let mut scratch = PathBuf::new();
    let mut host = host_with(|config| scratch = config.scratch.clone());
    host.execute(Slot(1), stamp(), one("deposit", &[1]));
    let slot = fill(&mut host);
    let image = Image::from(Bytes::from_static(b"damaged"));
    let object = OBJECT;
    host.restore(Slot(slot + 100), vec![ObjectImage { object, image }]);
    until(&mut host, |event| {
        matches!(event, HostEvent::RestoreFailed { .. })
    });
    host.speculate(Slot(slot), stamp(), large(100));
    until(&mut host, is_executed(slot));
    until_image_is_read(&mut host, &scratch, slot);
    host.poll(&mut Vec::new());
    host.undo(Slot(slot - 1));
    assert_eq!(read(&mut host, "balance_now"), returned_int(1));
}

/// Few bytes of work may have taken minutes: what is repeated is what took less than a second or so.
#[test]
fn what_took_long_is_in_an_image_when_objects_go_back() {
    const ROUNDS: i64 = 20_000;
    let mut host = host_with(|_| {});
    let began = Instant::now();
    let mut slot = 0;
    while began.elapsed() < 4 * CATCHING_UP_MAX {
        slot += 1;
        host.speculate(Slot(slot), stamp(), one("spin", &[ROUNDS]));
        until(&mut host, is_executed(slot));
        host.confirm(Slot(slot));
    }
    host.speculate(Slot(slot + 1), stamp(), one("deposit", &[1]));
    until(&mut host, is_executed(slot + 1));
    host.undo(Slot(slot));
    let calls = i64::try_from(slot).unwrap();
    assert_eq!(
        read(&mut host, "balance_now"),
        returned_int(calls * ROUNDS),
        "the state is that of all calls but the undone one"
    );
    let all_again = returned_int(calls);
    assert_ne!(read(&mut host, "spins_here"), all_again, "of {calls} calls");
}
