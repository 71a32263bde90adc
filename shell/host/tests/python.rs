//! Python objects behind the host: real processes that serve, crash, hang and are restored.
//!
//! Needs an interpreter with the package installed: QUORATE_PYTHON, else the repository's `.venv`.

use bytes::Bytes;
use quorate_host::{
    Host, HostConfig, HostError, HostEvent, HostedObject, ObjectImage, PythonConfig, ReadChecks,
    StuckUntil, call_payload, returned_int,
};
use quorate_ordering::ReadId;
use quorate_types::{Call, CommandId, ObjectId, Outcome, Slot, Stamp, Wall};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// No test waits longer for anything.
const PATIENCE: Duration = Duration::from_secs(30);

fn interpreter() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python = std::env::var_os("QUORATE_PYTHON")
        .map_or_else(|| root.join(".venv/bin/python"), PathBuf::from);
    assert!(python.exists(), "no {python:?}: run `make build` first");
    python
}

fn config(class: &str) -> HostConfig {
    HostConfig {
        objects: vec![HostedObject {
            id: ObjectId(1),
            name: "it".to_owned(),
            class: class.to_owned(),
            arguments: Bytes::new(),
        }],
        python: PythonConfig {
            interpreter: Some(interpreter()),
            paths: vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/objects")],
            seed: 7,
            ..PythonConfig::default()
        },
    }
}

fn account() -> Host {
    Host::open(config("subjects:Account")).unwrap()
}

fn call(index: u32, method: &str, arguments: &[i64]) -> Call {
    Call {
        index,
        id: CommandId::default(),
        object: ObjectId(1),
        payload: call_payload(method, arguments),
    }
}

fn stamp(wall: u64) -> Stamp {
    Stamp {
        wall: Wall(wall),
        entropy: 99,
    }
}

fn deposit(host: &mut Host, slot: u64, amount: i64) {
    host.execute(Slot(slot), stamp(slot), vec![call(0, "deposit", &[amount])]);
}

/// Drives the host as the node does, until `wanted` picks an event; fails with what came instead.
fn until<T>(host: &mut Host, mut wanted: impl FnMut(&HostEvent) -> Option<T>) -> T {
    let mut poll = mio::Poll::new().unwrap();
    let fd = host.fd();
    poll.registry()
        .register(
            &mut mio::unix::SourceFd(&fd),
            mio::Token(7),
            mio::Interest::READABLE,
        )
        .unwrap();
    let began = Instant::now();
    let mut seen = Vec::new();
    let mut events = Vec::new();
    loop {
        host.flush();
        host.poll(&mut events);
        for event in events.drain(..) {
            if let Some(found) = wanted(&event) {
                return found;
            }
            seen.push(event);
        }
        assert!(began.elapsed() < PATIENCE, "only these came: {seen:?}");
        let wake = host.next_wake().unwrap_or(began + PATIENCE);
        let wait = wake.saturating_duration_since(Instant::now()).min(PATIENCE);
        poll.poll(&mut mio::Events::with_capacity(4), Some(wait))
            .unwrap();
    }
}

fn outcomes(host: &mut Host, slot: u64) -> Vec<Outcome> {
    let results = until(host, |event| match event {
        HostEvent::Executed { slot: at, results } if at.0 == slot => Some(results.clone()),
        _ => None,
    });
    results.outcomes().cloned().collect()
}

fn kill(host: &Host) {
    let id = host.process_id().unwrap() as i32;
    let id = rustix::process::Pid::from_raw(id).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
}

fn image(host: &mut Host) -> (Vec<ObjectImage>, [u8; 32]) {
    until(host, |event| match event {
        HostEvent::Imaged { images, parts, .. } => Some((images.clone(), parts.digest())),
        HostEvent::ImageFailed { reason, .. } => panic!("{reason}"),
        _ => None,
    })
}

fn text_of(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Raised(value) | Outcome::Returned(value) => {
            String::from_utf8_lossy(value).into_owned()
        }
        Outcome::Skipped => "skipped".to_owned(),
    }
}

#[test]
fn calls_of_many_slots_are_executed_in_order() {
    let mut host = account();
    for slot in 1..=500 {
        deposit(&mut host, slot, 1);
    }
    let calls = vec![
        call(0, "deposit", &[1]),
        call(1, "fail", &[]),
        call(2, "deposit", &[1]),
    ];
    host.execute(Slot(501), stamp(1), calls);
    let last = outcomes(&mut host, 501);
    assert_eq!(last[0], returned_int(501));
    assert!(text_of(&last[1]).contains("builtins.ValueError"));
    assert!(text_of(&last[1]).contains("subjects.py:"));
    assert_eq!(
        last[2],
        returned_int(1502),
        "what it changed before it raised stays"
    );
}

#[test]
fn private_unknown_and_wrong_calls_are_raised_and_change_nothing() {
    let mut host = account();
    let methods = [
        "_hidden",
        "__class__",
        "balance",
        "nothing",
        "__init__",
        "lock",
    ];
    let calls: Vec<Call> = methods.iter().map(|m| call(0, m, &[])).collect();
    host.execute(Slot(1), stamp(1), calls);
    for (outcome, method) in outcomes(&mut host, 1).iter().zip(methods) {
        let text = text_of(outcome);
        assert!(
            text.contains("quorate.NoSuchMethod") && text.contains(method),
            "{text}"
        );
    }
    let mut garbage = call(0, "x", &[]);
    garbage.payload = Bytes::from_static(b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff");
    host.execute(Slot(2), stamp(1), vec![garbage, call(1, "deposit", &[])]);
    let last = outcomes(&mut host, 2);
    assert!(text_of(&last[0]).contains("quorate.MalformedValue"));
    assert!(text_of(&last[1]).contains("builtins.TypeError"));
}

#[test]
fn two_hosts_see_the_same_time_and_the_same_randomness() {
    let draws = |slot| {
        let mut host = account();
        host.execute(
            Slot(slot),
            stamp(5_000),
            vec![call(0, "draw", &[]), call(1, "draw", &[])],
        );
        outcomes(&mut host, slot)
    };
    let one = draws(3);
    assert_eq!(one, draws(3));
    assert_ne!(one[0], one[1]);
    assert_ne!(one, draws(4));
}

#[test]
fn effects_on_the_outside_are_refused() {
    let mut host = account();
    host.execute(Slot(1), stamp(1), vec![call(0, "escape", &[])]);
    let text = text_of(&outcomes(&mut host, 1)[0]);
    assert!(text.contains("objects cannot start threads"), "{text}");
}

#[test]
fn a_host_restored_from_an_image_has_its_digest_and_continues() {
    let mut host = account();
    deposit(&mut host, 1, 5);
    host.take_snapshot(Slot(1));
    deposit(&mut host, 2, 1);
    assert_eq!(outcomes(&mut host, 2), [returned_int(6)]);
    let (images, digest) = image(&mut host);
    let mut other = account();
    deposit(&mut other, 1, 77);
    other.restore(Slot(1), images);
    deposit(&mut other, 2, 1);
    assert_eq!(outcomes(&mut other, 2), [returned_int(6)]);
    other.restore(
        Slot(9),
        vec![ObjectImage {
            object: ObjectId(1),
            image: Bytes::from_static(b"damaged").into(),
        }],
    );
    deposit(&mut other, 10, -1);
    assert_eq!(
        outcomes(&mut other, 10),
        [returned_int(5)],
        "a damaged image changes nothing"
    );
    other.take_snapshot(Slot(10));
    assert_eq!(image(&mut other).1, digest, "equal by value");
}

#[test]
fn a_killed_host_comes_back_with_an_image_larger_than_a_socket_takes_at_once() {
    let mut host = account();
    host.execute(Slot(1), stamp(1), vec![call(0, "grow", &[4 << 20])]);
    host.take_snapshot(Slot(1));
    image(&mut host);
    kill(&host);
    host.execute(Slot(2), stamp(2), vec![call(0, "grow", &[1])]);
    assert_eq!(outcomes(&mut host, 2), [returned_int(2)]);
}

#[test]
fn a_killed_host_comes_back_with_everything_it_had_executed() {
    let mut host = account();
    deposit(&mut host, 1, 1);
    host.take_snapshot(Slot(1));
    image(&mut host);
    for slot in 2..=100 {
        deposit(&mut host, slot, 1);
    }
    assert_eq!(outcomes(&mut host, 100), [returned_int(100)]);
    let id = host.process_id();
    kill(&host);
    deposit(&mut host, 101, 1);
    host.query(ReadId(1), ObjectId(1), call_payload("balance_now", &[]));
    let mut told = 0;
    let outcome = until(&mut host, |event| match event {
        HostEvent::Executed { slot, results } => {
            assert_eq!((slot.0, results), (101, &vec![returned_int(101)].into()));
            told += 1;
            None
        }
        HostEvent::Queried { outcome, .. } => Some(outcome.clone()),
        _ => None,
    });
    assert_eq!((told, outcome), (1, returned_int(101)));
    assert_ne!(host.process_id(), id);
}

#[test]
fn a_call_that_ends_every_process_leaves_the_host_down_and_is_named() {
    let mut host = account();
    deposit(&mut host, 1, 1);
    host.execute(
        Slot(2),
        stamp(1),
        vec![call(0, "deposit", &[1]), call(4, "crash", &[])],
    );
    let mut deaths = 0;
    let call = until(&mut host, |event| match event {
        HostEvent::Down { call, is_final, .. } => {
            deaths += 1;
            is_final.then(|| call.clone().unwrap())
        }
        HostEvent::Executed { slot, .. } => {
            assert_eq!(*slot, Slot(1), "nothing is answered for it");
            None
        }
        _ => None,
    });
    assert_eq!(deaths, 3);
    assert_eq!(call.slot, Some(Slot(2)));
    assert_eq!((call.index, call.method.as_str()), (4, "crash"));
}

fn answer(host: &mut Host, read: u64, method: &str, arguments: &[i64]) -> String {
    host.query(ReadId(read), ObjectId(1), call_payload(method, arguments));
    until(host, |event| match event {
        HostEvent::Queried { outcome, .. } => Some(text_of(outcome)),
        _ => None,
    })
}

#[test]
fn a_method_that_is_not_declared_read_only_is_not_read() {
    let mut host = account();
    let told = answer(&mut host, 1, "grow", &[5]);
    assert!(told.contains("quorate.NotReadOnly"), "{told}");
    assert!(told.contains("@quorate.readonly"), "{told}");
    // An instance may have what its class does not; this one has it neither.
    assert!(answer(&mut host, 2, "nothing", &[]).contains("quorate.NoSuchMethod"));
    host.execute(Slot(1), stamp(1), vec![call(0, "grow", &[1])]);
    assert_eq!(outcomes(&mut host, 1), [returned_int(1)]);
}

/// The method that lied is named, the state made anew, and the work behind the read not lost.
fn lies(method: &str, arguments: &[i64], changed: &str) {
    let mut host = account();
    deposit(&mut host, 1, 3);
    host.take_snapshot(Slot(1));
    let (_, honest) = image(&mut host);
    host.query(ReadId(5), ObjectId(1), call_payload(method, arguments));
    deposit(&mut host, 2, 1);
    let mut told = Vec::new();
    let outcome = until(&mut host, |event| match event {
        HostEvent::Queried { outcome, .. } => {
            told.push(text_of(outcome));
            None
        }
        HostEvent::Down { reason, .. } => {
            told.push(reason.clone());
            None
        }
        HostEvent::Executed { slot, results } if slot.0 == 2 => results.outcomes().next().cloned(),
        _ => None,
    });
    assert_eq!(outcome, returned_int(4));
    assert!(told[0].contains("quorate.NotReadOnly"), "{told:?}");
    assert!(told[0].contains(changed), "{told:?}");
    assert!(
        told[1].contains(&format!("`{method}` of object 1")),
        "{told:?}"
    );
    deposit(&mut host, 3, -1);
    host.take_snapshot(Slot(3));
    assert_eq!(image(&mut host).1, honest, "the replica is rebuilt");
    let process = host.process_id();
    let again = answer(&mut host, 6, method, arguments);
    assert!(again.contains("was seen to change its object"), "{again}");
    assert_eq!(host.process_id(), process, "a second lie costs nothing");
}

#[test]
fn a_read_that_binds_an_attribute_anew_is_named_and_the_replica_rebuilt() {
    lies("deposit", &[10], "`balance`");
}

#[test]
fn a_read_that_changes_a_nested_container_is_named_and_the_replica_rebuilt() {
    lies("peek", &[], "`blobs`");
}

#[test]
fn a_large_state_is_not_encoded_for_a_read() {
    for (size, is_encoded) in [(0, true), (200 << 20, false)] {
        let mut host = account();
        host.execute(Slot(1), stamp(1), vec![call(0, "count_encoding", &[])]);
        host.execute(Slot(2), stamp(1), vec![call(0, "fill", &[size])]);
        answer(&mut host, 1, "balance_now", &[]);
        let told = answer(&mut host, 2, "encoded", &[]);
        assert_eq!(told != "\u{0}", is_encoded, "{told:?}");
    }
}

#[test]
fn every_read_is_checked_where_that_is_wished() {
    let mut config = config("subjects:Account");
    config.python.read_checks = ReadChecks::All;
    let mut host = Host::open(config).unwrap();
    for read in 1..50 {
        answer(&mut host, read, "sly", &[50]);
    }
    host.query(ReadId(50), ObjectId(1), call_payload("sly", &[50]));
    let told = until(&mut host, |event| match event {
        HostEvent::Down { reason, .. } => Some(reason.clone()),
        _ => None,
    });
    assert!(told.contains("`sly`"), "{told}");
}

#[test]
fn a_host_that_stayed_down_starts_again_when_the_group_skips_the_call() {
    let mut host = account();
    deposit(&mut host, 1, 5);
    outcomes(&mut host, 1);
    let calls = vec![
        call(0, "deposit", &[1]),
        call(1, "crash", &[]),
        call(2, "deposit", &[1]),
    ];
    host.execute(Slot(2), stamp(2), calls);
    host.execute(Slot(3), stamp(3), vec![call(4, "crash", &[])]);
    stays_down(&mut host);
    host.skip(Slot(2), 1);
    stays_down(&mut host);
    host.skip(Slot(3), 4);
    let told = outcomes(&mut host, 2);
    assert_eq!(told[1], Outcome::Skipped);
    assert_eq!(told[2], returned_int(7), "its neighbours are executed");
    host.skip(Slot(1), 0);
    host.skip(Slot(4), 0);
    host.execute(Slot(4), stamp(4), vec![call(0, "crash", &[])]);
    assert_eq!(outcomes(&mut host, 4), [Outcome::Skipped]);
    deposit(&mut host, 5, 1);
    assert_eq!(outcomes(&mut host, 5), [returned_int(8)]);
}

fn stays_down(host: &mut Host) {
    until(host, |event| match event {
        HostEvent::Down { is_final: true, .. } => Some(()),
        _ => None,
    });
}

#[test]
fn a_host_that_stayed_down_takes_over_a_state_behind_the_call() {
    let mut survivor = account();
    deposit(&mut survivor, 1, 5);
    deposit(&mut survivor, 2, 2);
    outcomes(&mut survivor, 2);
    survivor.take_snapshot(Slot(2));
    let (images, _) = image(&mut survivor);
    for is_early in [false, true] {
        let mut host = account();
        deposit(&mut host, 1, 5);
        outcomes(&mut host, 1);
        host.execute(Slot(2), stamp(2), vec![call(0, "crash", &[])]);
        host.execute(Slot(3), stamp(3), vec![call(0, "deposit", &[100])]);
        if !is_early {
            stays_down(&mut host);
        }
        host.restore(Slot(3), images.clone());
        until(&mut host, |event| match event {
            HostEvent::Restored { slot } => (*slot == Slot(3)).then_some(()),
            _ => None,
        });
        deposit(&mut host, 4, 1);
        assert_eq!(outcomes(&mut host, 4), [returned_int(8)]);
    }
}

#[test]
fn a_query_that_ends_the_process_is_given_up() {
    let mut host = account();
    deposit(&mut host, 1, 3);
    host.query(ReadId(5), ObjectId(1), call_payload("crash", &[]));
    deposit(&mut host, 2, 1);
    let mut answer = None;
    let outcome = until(&mut host, |event| match event {
        HostEvent::Queried { outcome, .. } => {
            answer = Some(text_of(outcome));
            None
        }
        HostEvent::Executed { slot, results } if slot.0 == 2 => results.outcomes().next().cloned(),
        _ => None,
    });
    assert_eq!(outcome, returned_int(4));
    let answer = answer.unwrap();
    assert!(answer.contains("quorate.ReadEnded"), "{answer}");
    assert!(
        answer.contains("`crash` ended the host process"),
        "{answer}"
    );
}

#[test]
fn a_query_that_never_returns_is_ended_in_time_and_answered_and_its_neighbours_too() {
    let mut config = config("subjects:Account");
    config.python.call_timeout = Some(Duration::from_millis(1500));
    let mut host = Host::open(config).unwrap();
    deposit(&mut host, 1, 3);
    host.query(ReadId(5), ObjectId(1), call_payload("draw", &[]));
    for read in [6, 7] {
        host.query(ReadId(read), ObjectId(1), call_payload("hang", &[]));
    }
    deposit(&mut host, 2, 1);
    let mut answers = Vec::new();
    let mut stuck = None;
    let began = Instant::now();
    let outcome = until(&mut host, |event| match event {
        HostEvent::Queried { read, outcome } => {
            answers.push((read.0, text_of(outcome)));
            None
        }
        HostEvent::Hanging { call, .. } => {
            stuck = Some(call.clone());
            None
        }
        HostEvent::Executed { slot, results } if slot.0 == 2 => results.outcomes().next().cloned(),
        _ => None,
    });
    assert!(began.elapsed() >= Duration::from_millis(1500));
    assert_eq!(outcome, returned_int(4));
    assert_eq!(stuck.map(|call| call.method).as_deref(), Some("hang"));
    answers.sort();
    assert!(!answers[0].1.contains("ReadEnded"), "{answers:?}");
    assert!(answers[1].1.contains("quorate.ReadEnded"), "{answers:?}");
    assert!(answers[1].1.contains("--call-timeout"), "{answers:?}");
    assert!(answers[2].1.contains("quorate.ReadEnded"), "{answers:?}");
    assert_eq!(answers.len(), 3);
    assert_eq!(host.stuck(), None);
    let process = host.process_id();
    host.query(ReadId(8), ObjectId(1), call_payload("hang", &[]));
    let again = until(&mut host, |event| match event {
        HostEvent::Queried { outcome, .. } => Some(text_of(outcome)),
        _ => None,
    });
    assert_eq!(
        again, answers[2].1,
        "a client that asks again is told the same"
    );
    assert_eq!(host.process_id(), process);
}

#[test]
fn a_hanging_call_is_reported_and_its_process_killed_after_the_whole_timeout_each_time() {
    let mut config = config("subjects:Account");
    config.python.call_timeout = Some(Duration::from_millis(1500));
    let mut host = Host::open(config).unwrap();
    host.execute(Slot(1), stamp(1), vec![call(0, "hang", &[])]);
    let (call, since) = until(&mut host, |event| match event {
        HostEvent::Hanging { call, since } => Some((call.clone(), *since)),
        _ => None,
    });
    assert_eq!(call.method, "hang");
    assert!(since >= Duration::from_secs(1));
    let stuck = host.stuck().unwrap();
    assert_eq!(stuck.call, call);
    assert_eq!(stuck.held, StuckUntil::Timeout(Duration::from_millis(1500)));
    let mut downs = Vec::new();
    until(&mut host, |event| match event {
        HostEvent::Down {
            reason, is_final, ..
        } => {
            assert!(reason.contains("--call-timeout"), "{reason}");
            downs.push(Instant::now());
            is_final.then_some(())
        }
        HostEvent::Executed { .. } => panic!("nothing is answered for it"),
        _ => None,
    });
    assert_eq!(downs.len(), 3);
    for pair in downs.windows(2) {
        assert!(pair[1] - pair[0] >= Duration::from_millis(1500));
    }
    let stuck = host.stuck().unwrap();
    assert_eq!((&stuck.call, stuck.held), (&call, StuckUntil::Down));
    assert!(stuck.since >= Duration::from_millis(4500), "{stuck:?}");
    host.skip(Slot(1), 0);
    assert_eq!(outcomes(&mut host, 1), [Outcome::Skipped]);
    assert_eq!(host.stuck(), None);
}

#[test]
fn a_state_that_cannot_be_kept_fails_its_snapshot_by_path_and_calls_go_on() {
    let mut host = account();
    host.execute(Slot(1), stamp(1), vec![call(0, "spoil", &[])]);
    host.take_snapshot(Slot(1));
    let reason = until(&mut host, |event| match event {
        HostEvent::ImageFailed { reason, .. } => Some(reason.clone()),
        _ => None,
    });
    assert!(reason.contains("self.file: TextIOWrapper"), "{reason}");
    deposit(&mut host, 2, 1);
    assert_eq!(outcomes(&mut host, 2), [returned_int(1)]);
}

#[test]
fn unfit_objects_are_refused_with_the_reason() {
    let refusal = |class: &str| match quorate_host::check(config(class)) {
        Ok(_) => panic!("{class} was accepted"),
        Err(HostError::Object { reason, .. }) => reason,
        Err(other) => panic!("{other}"),
    };
    assert!(refusal("nowhere:Account").contains("there is no module 'nowhere'"));
    assert!(refusal("subjects:Acount").contains("its classes: Counted, Account, "));
    assert!(refusal("subjects").contains("MODULE:CLASS"));
    assert!(refusal("subjects:Unkeepable").contains("self.me['owner'][1]: TextIOWrapper"));
    let mut wrong = config("subjects:Account");
    wrong.objects[0].arguments = Bytes::from_static(b"\x82\x82\x01\x02\xa0");
    let error = quorate_host::check(wrong).unwrap_err().to_string();
    assert!(
        error.contains("(balance=0)") && error.contains("--args"),
        "{error}"
    );
}
