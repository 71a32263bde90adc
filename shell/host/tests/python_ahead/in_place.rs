//! Slots that were executed ahead of decisions, and that the process undoes itself because the class says how.

use crate::driving::{OBJECT, call, drive, executed, host_of, one};
use quorate_host::{Host, HostEvent, call_payload, returned_int};
use quorate_ordering::ReadId;
use quorate_types::{Outcome, Slot, SlotResults, Stamp, Wall};
use std::time::Instant;

fn ledger() -> Host {
    // An image of its own, which the host makes where calls take long, would have the process replaced.
    let mut host = host_of("undoing:Ledger", |python| python.with_snapshots = false);
    host.execute(Slot(1), stamp(1), one("deposit", &[1]));
    until_executed(&mut host, 1);
    host
}

fn stamp(seconds: u64) -> Stamp {
    Stamp {
        wall: Wall(seconds * 1_000_000_000),
        entropy: seconds,
    }
}

fn until(host: &mut Host, is_last: impl Fn(&HostEvent) -> bool) -> Vec<HostEvent> {
    drive(host, |seen| seen.iter().any(&is_last))
}

fn until_executed(host: &mut Host, slot: u64) -> Vec<HostEvent> {
    until(
        host,
        |event| matches!(event, HostEvent::Executed { slot: at, .. } if at.0 == slot),
    )
}

fn until_undone(host: &mut Host, after: u64) -> Vec<HostEvent> {
    until(host, |event| {
        *event == HostEvent::Undone { after: Slot(after) }
    })
}

fn read(host: &mut Host, method: &str) -> Outcome {
    host.query(ReadId(9), OBJECT, call_payload(method, &[]));
    let seen = until(host, |event| matches!(event, HostEvent::Queried { .. }));
    let mut outcomes = seen.into_iter().filter_map(|event| match event {
        HostEvent::Queried { outcome, .. } => Some(outcome),
        _ => None,
    });
    outcomes.next().unwrap()
}

/// The reason why the host went down, if it did.
fn down(seen: &[HostEvent]) -> Option<&str> {
    seen.iter().find_map(|event| match event {
        HostEvent::Down { reason, .. } => Some(&reason[..]),
        _ => None,
    })
}

/// Calls that are told as those at which the host went down.
fn blamed(seen: &[HostEvent]) -> Vec<&HostEvent> {
    let is_blamed = |event: &&HostEvent| matches!(event, HostEvent::Down { call, is_final, .. } if call.is_some() || *is_final);
    seen.iter().filter(is_blamed).collect()
}

/// Claim rp-145.
#[test]
fn what_the_class_can_undo_is_undone_in_the_process_from_the_last_slot_to_the_first() {
    let mut host = ledger();
    let first = host.process_id();
    host.speculate(Slot(2), stamp(2), one("deposit", &[10]));
    host.speculate(
        Slot(3),
        stamp(3),
        vec![call(0, "double", &[]), call(1, "deposit", &[4])],
    );
    host.speculate(Slot(4), stamp(4), one("note", &[7, 8]));
    assert!(until_executed(&mut host, 4).contains(&executed(2, 11)));
    host.undo(Slot(2));
    until_undone(&mut host, 2);
    assert_eq!(read(&mut host, "total"), returned_int(11));
    assert_eq!(read(&mut host, "entries"), returned_int(0));
    host.undo(Slot(1));
    until_undone(&mut host, 1);
    host.execute(Slot(2), stamp(2), one("plain", &[5]));
    assert!(until_executed(&mut host, 2).contains(&executed(2, 6)));
    assert_eq!(host.process_id(), first, "it was never replaced");
}

/// Claim rp-145.
#[test]
fn what_is_decided_is_not_undone_and_nothing_is_kept_of_it() {
    let mut host = ledger();
    let first = host.process_id();
    for slot in 2..6 {
        host.speculate(Slot(slot), stamp(slot), one("deposit", &[10]));
        until_executed(&mut host, slot);
        host.confirm(Slot(slot - 1));
    }
    host.undo(Slot(4));
    until_undone(&mut host, 4);
    assert_eq!(read(&mut host, "total"), returned_int(31));
    assert_eq!(host.process_id(), first);
}

/// Claim rp-146.
#[test]
fn time_randomness_and_timers_are_as_if_what_is_undone_had_never_run() {
    let mut host = ledger();
    let first = host.process_id();
    let mut other = ledger();
    host.speculate(Slot(2), stamp(7), one("gamble", &[]));
    host.speculate(Slot(3), stamp(9), one("later", &[100]));
    let seen = until_executed(&mut host, 3);
    let is_second = |event: &&HostEvent| matches!(event, HostEvent::Executed { slot: Slot(2), .. });
    let ahead = seen.iter().find(is_second).cloned();
    let due = Some(Wall(14_000_000_000));
    assert!(seen.contains(&HostEvent::Due { at: due }), "{seen:?}");
    host.undo(Slot(1));
    let seen = until_undone(&mut host, 1);
    assert!(seen.contains(&HostEvent::Due { at: None }), "{seen:?}");
    assert_eq!(
        read(&mut host, "now"),
        returned_int(1),
        "the time of the last slot that counts"
    );
    assert_eq!(read(&mut host, "drawn"), returned_int(0));
    let mut told = Vec::new();
    for each in [&mut host, &mut other] {
        each.execute(Slot(2), stamp(7), one("gamble", &[]));
        each.execute(Slot(3), stamp(8), one("later", &[1]));
        let mut seen = until_executed(each, 3);
        seen.retain(|event| !matches!(event, HostEvent::Up));
        told.push(seen);
    }
    assert_eq!(told[0], told[1], "as a host that executed nothing ahead");
    let decided = told[1].iter().find(is_second).cloned();
    assert_eq!(
        ahead, decided,
        "what runs before the call draws nothing of it"
    );
    assert_eq!(host.process_id(), first);
}

/// Claim rp-146.
#[test]
fn a_call_that_raised_or_that_the_class_cannot_undo_has_the_process_replaced() {
    for calls in [
        vec![call(0, "half", &[10])],
        vec![call(0, "fail", &[10])],
        vec![call(0, "plain", &[10])],
        vec![call(0, "deposit", &[10]), call(1, "plain", &[10])],
    ] {
        let mut host = ledger();
        let first = host.process_id();
        host.speculate(Slot(2), stamp(2), calls.clone());
        host.speculate(Slot(3), stamp(3), one("deposit", &[100]));
        until_executed(&mut host, 3);
        // The last one alone can be undone.
        host.undo(Slot(2));
        until_undone(&mut host, 2);
        assert_eq!(host.process_id(), first, "{calls:?}");
        host.undo(Slot(1));
        until_undone(&mut host, 1);
        assert_eq!(read(&mut host, "total"), returned_int(1), "{calls:?}");
        assert_ne!(host.process_id(), first, "{calls:?}");
    }
}

/// Claim rp-147.
#[test]
fn an_undo_that_lies_is_named_and_not_used_again() {
    let mut host = ledger();
    let first = host.process_id();
    host.speculate(Slot(2), stamp(2), one("lie", &[3]));
    host.speculate(Slot(3), stamp(3), one("deposit", &[100]));
    until_executed(&mut host, 3);
    host.undo(Slot(1));
    let seen = until_undone(&mut host, 1);
    let reason = down(&seen).expect("it is told");
    for part in [
        "`_undo_lie` of Ledger",
        "`lie`",
        "`lies`",
        "@quorate.undoes",
    ] {
        assert!(reason.contains(part), "{part} in {reason}");
    }
    assert_eq!(read(&mut host, "total"), returned_int(1));
    let second = host.process_id();
    assert_ne!(second, first);
    host.speculate(Slot(2), stamp(2), one("lie", &[3]));
    until_executed(&mut host, 2);
    host.undo(Slot(1));
    let seen = until_undone(&mut host, 1);
    assert_eq!(down(&seen), None, "it is replaced without a try");
    assert_eq!(read(&mut host, "total"), returned_int(1));
    assert_ne!(host.process_id(), second);
    let third = host.process_id();
    host.speculate(Slot(2), stamp(2), one("deposit", &[3]));
    until_executed(&mut host, 2);
    host.undo(Slot(1));
    until_undone(&mut host, 1);
    assert_eq!(host.process_id(), third, "others are used");
}

/// Claim rp-148.
#[test]
fn an_undo_that_raises_or_does_not_end_is_as_if_there_were_none() {
    // Whichever comes first on this machine: the steps that a call may take, or two seconds.
    let endless = ["it does not end", "does not end in time"];
    for (method, parts) in [("stumble", ["no way back"; 2]), ("linger", endless)] {
        let mut host = ledger();
        host.speculate(Slot(2), stamp(2), one(method, &[10]));
        until_executed(&mut host, 2);
        host.undo(Slot(1));
        let seen = until_undone(&mut host, 1);
        let reason = down(&seen).expect("it is told");
        let is_named = parts.iter().any(|part| reason.contains(part));
        assert!(is_named, "{parts:?} in {reason}");
        assert_eq!(read(&mut host, "total"), returned_int(1));
    }
}

/// Claim rp-148.
#[test]
fn an_undo_that_ends_its_process_is_blamed_itself_and_not_used_again() {
    // Looping in Python is ended by the budget, or by the node after two seconds.
    for (method, part) in [("leave", "ended the host process"), ("linger", "`linger`")] {
        let mut host = ledger();
        host.speculate(Slot(2), stamp(2), one(method, &[10]));
        until_executed(&mut host, 2);
        host.undo(Slot(1));
        // What is executed in the same slot afterwards has no part in it.
        host.speculate(Slot(2), stamp(2), one("deposit", &[7]));
        let seen = until_executed(&mut host, 2);
        let reason = down(&seen).expect("it is told");
        assert!(reason.contains(part), "{part} in {reason}");
        assert!(reason.contains(method), "{method} in {reason}");
        assert!(seen.contains(&executed(2, 8)), "{seen:?}");
        assert!(blamed(&seen).is_empty(), "{seen:?}");
        host.confirm(Slot(2));
        host.speculate(Slot(3), stamp(3), one(method, &[10]));
        until_executed(&mut host, 3);
        host.undo(Slot(2));
        let seen = until_undone(&mut host, 2);
        assert_eq!(down(&seen), None, "it is replaced without a try");
        assert_eq!(read(&mut host, "total"), returned_int(8));
    }
}

/// Claim rp-148.
#[test]
fn what_runs_before_a_call_and_fails_costs_a_start_and_no_result() {
    for (method, part) in [
        ("peek", "changes the object before its `yield`"),
        ("give_up", "changes the object before its `yield`"),
        ("barge", "ended the host process"),
        ("dawdle", "does not end in time"),
    ] {
        let mut host = ledger();
        let first = host.process_id();
        host.speculate(
            Slot(2),
            stamp(2),
            vec![call(0, "deposit", &[2]), call(1, method, &[10])],
        );
        let seen = until_executed(&mut host, 2);
        let reason = down(&seen).expect("it is told");
        assert!(reason.contains(part), "{part} in {reason}");
        assert!(reason.contains(method), "{method} in {reason}");
        assert!(blamed(&seen).is_empty(), "{seen:?}");
        assert_eq!(read(&mut host, "total"), returned_int(13));
        let second = host.process_id();
        assert_ne!(second, first);
        host.speculate(Slot(3), stamp(3), one(method, &[10]));
        let seen = until_executed(&mut host, 3);
        assert!(seen.contains(&executed(3, 23)), "{seen:?}");
        assert_eq!(host.process_id(), second, "it does without from then on");
        host.undo(Slot(2));
        until_undone(&mut host, 2);
        assert_eq!(read(&mut host, "total"), returned_int(13));
    }
}

/// As many as would end the host for good at one call.
#[test]
fn undos_that_fail_one_after_the_other_cost_a_start_each_and_no_more() {
    let mut host = ledger();
    for (method, slot) in ["peek", "barge", "give_up", "deposit"].iter().zip(2..) {
        host.speculate(Slot(slot), stamp(slot), one(method, &[10]));
    }
    let seen = until_executed(&mut host, 5);
    let is_down = |event: &&HostEvent| matches!(event, HostEvent::Down { .. });
    assert_eq!(seen.iter().filter(is_down).count(), 3, "{seen:?}");
    assert!(blamed(&seen).is_empty(), "{seen:?}");
    assert_eq!(read(&mut host, "total"), returned_int(41));
}

/// The next process has nothing of what is undone, whenever that comes.
#[test]
fn what_is_undone_while_an_undo_has_the_host_start_anew_is_gone() {
    for method in ["peek", "barge"] {
        let mut host = ledger();
        host.speculate(Slot(2), stamp(2), one("deposit", &[5]));
        host.speculate(Slot(3), stamp(3), one(method, &[10]));
        until(&mut host, |event| matches!(event, HostEvent::Down { .. }));
        host.undo(Slot(1));
        host.speculate(Slot(2), stamp(2), one("deposit", &[7]));
        let seen = until_executed(&mut host, 2);
        assert!(seen.contains(&executed(2, 8)), "{seen:?}");
        assert!(
            seen.contains(&HostEvent::Undone { after: Slot(1) }),
            "{seen:?}"
        );
        host.undo(Slot(1));
        until_undone(&mut host, 1);
        assert_eq!(read(&mut host, "total"), returned_int(1));
    }
}

#[test]
fn what_is_undone_further_while_it_is_being_undone_is_gone() {
    for last in ["deposit", "linger", "leave"] {
        let mut host = ledger();
        for (method, slot) in ["deposit", "deposit", last].iter().zip(2..) {
            host.speculate(Slot(slot), stamp(slot), one(method, &[10]));
        }
        until_executed(&mut host, 4);
        host.undo(Slot(3));
        host.undo(Slot(1));
        host.speculate(Slot(2), stamp(2), one("deposit", &[7]));
        let seen = until_executed(&mut host, 2);
        assert!(seen.contains(&executed(2, 8)), "{seen:?}");
        assert!(blamed(&seen).is_empty(), "{seen:?}");
        assert_eq!(read(&mut host, "total"), returned_int(8));
    }
}

/// A read that was asked of the state that is undone is answered before that is told, so that the replica asks again.
#[test]
fn a_read_of_the_undone_state_is_answered_before_it_is_told_as_undone() {
    let mut host = ledger();
    let first = host.process_id();
    host.speculate(Slot(2), stamp(2), one("deposit", &[10]));
    until_executed(&mut host, 2);
    host.query(ReadId(5), OBJECT, call_payload("total", &[]));
    host.flush();
    host.undo(Slot(1));
    let undone = HostEvent::Undone { after: Slot(1) };
    let answered = HostEvent::Queried {
        read: ReadId(5),
        outcome: returned_int(11),
    };
    let seen = until_undone(&mut host, 1);
    assert_eq!(seen, [answered, HostEvent::Due { at: None }, undone]);
    assert_eq!(read(&mut host, "total"), returned_int(1));
    assert_eq!(host.process_id(), first);
}

/// The process ends in the middle of undoing.
#[test]
fn a_process_that_is_killed_while_it_undoes_is_replaced() {
    let mut host = ledger();
    let first = host.process_id().unwrap();
    host.speculate(Slot(2), stamp(2), one("linger", &[10]));
    until_executed(&mut host, 2);
    host.undo(Slot(1));
    host.flush();
    let killed = rustix::process::Pid::from_raw(first.cast_signed()).unwrap();
    rustix::process::kill_process(killed, rustix::process::Signal::KILL).unwrap();
    let seen = until_undone(&mut host, 1);
    assert!(down(&seen).is_some(), "{seen:?}");
    assert_eq!(read(&mut host, "total"), returned_int(1));
    host.execute(Slot(2), stamp(2), one("deposit", &[5]));
    let results = SlotResults::from(vec![returned_int(6)]);
    let slot = Slot(2);
    let seen = until_executed(&mut host, 2);
    assert!(seen.contains(&HostEvent::Executed { slot, results }));
}

/// How long it takes until the first answer after sixteen slots were undone, with an undo and without, for an object of so many
/// entries of 100 letters: `QUORATE_UNDO_ENTRIES=500000 cargo test -p quorate-host --test python_ahead -- first_answer --nocapture`.
#[test]
fn the_first_answer_after_sixteen_slots_were_undone_comes_from_the_same_process() {
    let entries = std::env::var("QUORATE_UNDO_ENTRIES").map_or(100, |told| told.parse().unwrap());
    for (method, is_undone_in_place) in [("deposit", true), ("plain", false)] {
        let mut host = host_of("undoing:Ledger", |_| {});
        host.execute(Slot(1), stamp(1), one("fill", &[entries]));
        until_executed(&mut host, 1);
        // The next process begins with this image, as it would in a group that has taken snapshots.
        host.take_snapshot(Slot(1));
        until(&mut host, |event| matches!(event, HostEvent::Imaged { .. }));
        let first = host.process_id();
        for slot in 2..18 {
            host.speculate(Slot(slot), stamp(slot), one(method, &[1]));
        }
        until_executed(&mut host, 17);
        let began = Instant::now();
        host.undo(Slot(1));
        until_undone(&mut host, 1);
        host.execute(Slot(2), stamp(2), one("deposit", &[5]));
        assert!(until_executed(&mut host, 2).contains(&executed(2, 5)));
        println!("{entries} entries, {method}: {:?}", began.elapsed());
        assert_eq!(host.process_id() == first, is_undone_in_place, "{method}");
    }
}
