//! Rust objects behind the host, as the node drives them.

use quorate_host::{
    Host, HostConfig, HostError, HostEvent, HostedObject, call_payload, returned_int,
};
use quorate_ordering::ReadId;
use quorate_types::{Call, CommandId, ObjectId, Outcome, Slot, Stamp};
use std::time::{Duration, Instant};

fn host_of(class: &str) -> Result<Host, HostError> {
    Host::open(HostConfig {
        objects: vec![HostedObject {
            id: ObjectId(1),
            name: "it".to_owned(),
            class: class.to_owned(),
            arguments: bytes::Bytes::new(),
        }],
        ..HostConfig::default()
    })
}

fn call(index: u32, object: u32, method: &str, arguments: &[i64]) -> Call {
    Call {
        index,
        id: CommandId::default(),
        object: ObjectId(object),
        payload: call_payload(method, arguments),
    }
}

/// Waits on the host's descriptor, as the node does.
fn next_events(host: &mut Host) -> Vec<HostEvent> {
    let mut poll = mio::Poll::new().unwrap();
    let fd = host.fd();
    poll.registry()
        .register(
            &mut mio::unix::SourceFd(&fd),
            mio::Token(7),
            mio::Interest::READABLE,
        )
        .unwrap();
    let mut events = Vec::new();
    loop {
        host.flush();
        host.poll(&mut events);
        if !events.is_empty() {
            return events;
        }
        poll.poll(&mut mio::Events::with_capacity(1), None).unwrap();
    }
}

#[test]
fn calls_and_queries_are_answered_in_the_order_handed_in() {
    let mut host = host_of("rust:counter").unwrap();
    let stamp = Stamp::default();
    host.execute(
        Slot(1),
        stamp,
        vec![call(0, 1, "add", &[2]), call(1, 1, "add", &[3])],
    );
    host.query(ReadId(9), ObjectId(1), call_payload("get", &[]));
    host.execute(Slot(2), stamp, vec![call(0, 4, "add", &[1])]);
    let events = next_events(&mut host);
    assert_eq!(
        events[..2],
        [
            HostEvent::Executed {
                slot: Slot(1),
                results: vec![returned_int(2), returned_int(5)].into(),
            },
            HostEvent::Queried {
                read: ReadId(9),
                outcome: returned_int(5),
            },
        ]
    );
    let HostEvent::Executed { results, .. } = &events[2] else {
        panic!("{events:?}")
    };
    let outcomes: Vec<&Outcome> = results.outcomes().collect();
    assert!(matches!(outcomes[..], [Outcome::Raised(_)]), "no object 4");
}

/// Objects that catch up do so on the thread that votes and answers.
#[test]
fn what_has_piled_up_is_executed_piece_by_piece_and_in_order() {
    let mut host = host_of("rust:counter").unwrap();
    let (slots, calls) = (200, 2_000);
    for slot in 1..=slots {
        let calls = (0..calls).map(|index| call(index, 1, "add", &[1]));
        host.execute(Slot(slot), Stamp::default(), calls.collect::<Vec<_>>());
    }
    host.query(ReadId(9), ObjectId(1), call_payload("get", &[]));
    let mut events = Vec::new();
    host.flush();
    host.poll(&mut events);
    assert!(
        (1..slots as usize).contains(&events.len()),
        "{}",
        events.len()
    );
    while host.is_behind() {
        assert!(host.next_wake().unwrap() <= Instant::now());
        let before = events.len();
        host.flush();
        host.poll(&mut events);
        assert!(events.len() > before, "each piece is one slot at least");
    }
    assert_eq!(host.next_wake(), None);
    let executed = events.iter().filter_map(|event| match event {
        HostEvent::Executed { slot, .. } => Some(slot.0),
        _ => None,
    });
    assert!(executed.eq(1..=slots));
    let Some(HostEvent::Queried { outcome, .. }) = events.last() else {
        panic!("the read comes last")
    };
    assert_eq!(*outcome, returned_int(slots as i64 * i64::from(calls)));
}

/// An operator may have a call skipped that objects have not come to. What is before it is executed when there is time.
#[test]
fn a_call_that_waits_is_skipped_and_nothing_is_executed_for_that() {
    let mut host = host_of("rust:counter").unwrap();
    host.executes_for(Duration::ZERO);
    for slot in 1..=3 {
        host.execute(Slot(slot), Stamp::default(), one("add", &[10]));
    }
    host.flush();
    host.skip(Slot(3), 0);
    let mut events = Vec::new();
    host.poll(&mut events);
    assert_eq!(events, [], "the first piece says that a slot is decided");
    while host.is_behind() {
        host.flush();
    }
    // A later slot has a call with the same number.
    host.execute(Slot(4), Stamp::default(), one("add", &[1]));
    while host.is_behind() {
        host.flush();
    }
    host.poll(&mut events);
    let outcomes: Vec<&Outcome> = (events.iter())
        .filter_map(|event| match event {
            HostEvent::Executed { results, .. } => Some(results.outcomes()),
            _ => None,
        })
        .flatten()
        .collect();
    let (first, second) = (returned_int(10), returned_int(20));
    assert_eq!(
        outcomes,
        [&first, &second, &Outcome::Skipped, &returned_int(21)]
    );
}

#[test]
fn a_restored_host_continues_from_the_image_and_has_its_digest() {
    let mut host = host_of("rust:kv").unwrap();
    let stamp = Stamp::default();
    host.execute(Slot(1), stamp, vec![call(0, 1, "fill", &[50, 8])]);
    host.take_snapshot(Slot(1));
    host.encode(Slot(1));
    let mut seen = Vec::new();
    while seen.len() < 2 {
        seen.extend(next_events(&mut host));
    }
    assert!(
        matches!(seen[0], HostEvent::Executed { .. }),
        "the call comes first"
    );
    let Some(HostEvent::Imaged { images, parts, .. }) = seen.pop() else {
        panic!("the image follows")
    };
    let mut other = host_of("rust:kv").unwrap();
    other.restore(Slot(1), images);
    other.take_snapshot(Slot(2));
    other.encode(Slot(2));
    other.query(ReadId(1), ObjectId(1), call_payload("len", &[]));
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.extend(next_events(&mut other));
    }
    assert_eq!(seen[0], HostEvent::Restored { slot: Slot(1) });
    assert!(seen.contains(&HostEvent::Queried {
        read: ReadId(1),
        outcome: returned_int(50),
    }));
    let copied = seen.iter().find_map(|event| match event {
        HostEvent::Imaged { parts, .. } => Some(parts.clone()),
        _ => None,
    });
    assert_eq!(copied, Some(parts));
}

#[test]
fn a_state_is_encoded_when_that_is_asked_for_as_it_was_when_it_was_frozen() {
    let mut host = host_of("rust:kv").unwrap();
    let stamp = Stamp::default();
    host.execute(Slot(1), stamp, vec![call(0, 1, "fill", &[50, 8])]);
    host.take_snapshot(Slot(1));
    host.execute(Slot(2), stamp, vec![call(0, 1, "fill", &[60, 8])]);
    host.query(ReadId(1), ObjectId(1), call_payload("len", &[]));
    let seen = next_events(&mut host);
    assert_eq!(seen.len(), 3, "calls do not wait: {seen:?}");
    host.encode(Slot(2));
    host.encode(Slot(1));
    let [
        HostEvent::Imaged {
            slot: Slot(1),
            images,
            ..
        },
    ] = &next_events(&mut host)[..]
    else {
        panic!("the image follows")
    };
    let mut other = host_of("rust:kv").unwrap();
    other.restore(Slot(1), images.clone());
    other.query(ReadId(1), ObjectId(1), call_payload("len", &[]));
    let outcome = returned_int(50);
    let mut seen = next_events(&mut other);
    while seen.len() < 2 {
        seen.extend(next_events(&mut other));
    }
    assert_eq!(
        seen[1],
        HostEvent::Queried {
            read: ReadId(1),
            outcome
        }
    );
}

#[test]
fn a_damaged_image_is_refused_and_the_objects_stay() {
    let mut host = host_of("rust:counter").unwrap();
    host.execute(Slot(1), Stamp::default(), vec![call(0, 1, "add", &[2])]);
    host.restore(
        Slot(9),
        vec![quorate_host::ObjectImage {
            object: ObjectId(1),
            image: b"damaged".to_vec().into(),
        }],
    );
    host.query(ReadId(1), ObjectId(1), call_payload("get", &[]));
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.extend(next_events(&mut host));
    }
    assert!(
        matches!(seen[1], HostEvent::RestoreFailed { .. }),
        "{seen:?}"
    );
    let outcome = returned_int(2);
    assert_eq!(
        seen[2],
        HostEvent::Queried {
            read: ReadId(1),
            outcome
        }
    );
}

#[test]
fn an_unknown_built_in_is_refused_with_the_known_ones() {
    let Err(error) = host_of("rust:bank") else {
        panic!("there is no rust:bank")
    };
    assert!(error.to_string().contains("rust:counter"), "{error}");
}

fn one(method: &str, arguments: &[i64]) -> Vec<Call> {
    vec![call(0, 1, method, arguments)]
}

/// Claim rp-130. What a counter answered to the calls of slots that were executed ahead, and after it went back.
#[test]
fn objects_go_back_to_before_what_is_decided_otherwise() {
    let mut host = host_of("rust:counter").unwrap();
    let stamp = Stamp::default();
    host.execute(Slot(1), stamp, one("add", &[1]));
    host.speculate(Slot(2), stamp, one("add", &[10]));
    host.speculate(Slot(3), stamp, one("add", &[100]));
    host.confirm(Slot(2));
    host.speculate(Slot(4), stamp, one("add", &[1_000]));
    host.undo(Slot(2));
    host.execute(Slot(3), stamp, one("add", &[5]));
    host.query(ReadId(9), ObjectId(1), call_payload("get", &[]));
    let mut seen = Vec::new();
    while seen.len() < 7 {
        seen.extend(next_events(&mut host));
    }
    let executed = |slot, sum| HostEvent::Executed {
        slot: Slot(slot),
        results: vec![returned_int(sum)].into(),
    };
    let read = ReadId(9);
    let outcome = returned_int(16);
    assert_eq!(
        seen,
        [
            executed(1, 1),
            executed(2, 11),
            executed(3, 111),
            executed(4, 1_111),
            HostEvent::Undone { after: Slot(2) },
            executed(3, 16),
            HostEvent::Queried { read, outcome },
        ]
    );
}

#[test]
fn timers_of_what_is_undone_are_undone_and_told() {
    let mut host = host_of("rust:queue").unwrap();
    let stamp = Stamp::default();
    host.execute(Slot(1), stamp, one("put", &[7]));
    host.speculate(Slot(2), stamp, one("put_later", &[8, 3]));
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.extend(next_events(&mut host));
    }
    let is_due = |event: &HostEvent| matches!(event, HostEvent::Due { at: Some(_) });
    assert!(seen.iter().any(is_due), "something is put later: {seen:?}");
    host.undo(Slot(1));
    let mut seen = Vec::new();
    while seen.len() < 2 {
        seen.extend(next_events(&mut host));
    }
    let after = Slot(1);
    assert_eq!(
        seen,
        [HostEvent::Due { at: None }, HostEvent::Undone { after }]
    );
}

/// A slot that went ahead without calls is decided with one that the group skips: the replica undoes what is behind it, and hands it
/// in with the skip.
#[test]
fn a_skip_of_a_slot_that_was_taken_for_an_empty_one_counts() {
    let mut host = host_of("rust:counter").unwrap();
    let stamp = Stamp::default();
    host.execute(Slot(1), stamp, one("add", &[1]));
    host.speculate(Slot(3), stamp, one("add", &[100]));
    host.flush();
    host.undo(Slot(1));
    let mut seen = Vec::new();
    while !seen.contains(&HostEvent::Undone { after: Slot(1) }) {
        seen.extend(next_events(&mut host));
    }
    host.skip(Slot(2), 0);
    host.execute(Slot(2), stamp, one("add", &[10]));
    let seen = next_events(&mut host);
    let slot = Slot(2);
    let results = vec![Outcome::Skipped].into();
    assert_eq!(seen, [HostEvent::Executed { slot, results }]);
}

/// The group skips the call after another leader proposed it anew. The objects may have come to it, or not.
#[test]
fn a_call_that_was_executed_and_undone_can_be_skipped() {
    for is_executed in [false, true] {
        let mut host = host_of("rust:counter").unwrap();
        let stamp = Stamp::default();
        host.speculate(Slot(1), stamp, one("add", &[1]));
        if is_executed {
            host.flush();
        }
        host.undo(Slot::ZERO);
        host.skip(Slot(1), 0);
        host.execute(Slot(1), stamp, one("add", &[1]));
        let mut seen = Vec::new();
        while seen.len() < 3 {
            seen.extend(next_events(&mut host));
        }
        let HostEvent::Executed { results, .. } = &seen[2] else {
            panic!("{seen:?}")
        };
        let outcomes: Vec<&Outcome> = results.outcomes().collect();
        assert_eq!(outcomes, [&Outcome::Skipped]);
    }
}

/// The thread that makes them tells when it is done, and nobody asks before.
#[test]
fn objects_that_are_being_made_anew_are_not_behind() {
    let mut host = host_of("rust:counter").unwrap();
    let stamp = Stamp::default();
    host.speculate(Slot(1), stamp, one("add", &[1]));
    host.flush();
    host.undo(Slot::ZERO);
    host.execute(Slot(1), stamp, one("add", &[10]));
    host.flush();
    assert!(!host.is_behind());
    assert_eq!(host.next_wake(), None);
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.extend(next_events(&mut host));
    }
    let (after, slot) = (Slot::ZERO, Slot(1));
    let results = vec![returned_int(10)].into();
    assert_eq!(
        seen[1..],
        [
            HostEvent::Undone { after },
            HostEvent::Executed { slot, results }
        ]
    );
}
