//! An object that tries to get out of its host process in twelve ways, on a kernel with Landlock and seccomp and on
//! one without: SECURITY.md has the same table. Needs an interpreter with the package installed, as `python.rs`.

mod driven;

use bytes::Bytes;
use driven::{PATIENCE, drive_until};
use quorate_host::{
    Host, HostConfig, HostEvent, HostedObject, PythonConfig, Sandbox, call_payload,
};
use quorate_types::{Call, CommandId, ObjectId, Outcome, Slot, Stamp};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A way out, and how far it leads.
struct Escape {
    method: &'static str,
    confined: &'static str,
    /// On a kernel without Landlock and seccomp.
    unconfined: &'static str,
}

const ESCAPES: [Escape; 10] = [
    Escape {
        method: "socket",
        confined: "EPERM",
        unconfined: "through",
    },
    Escape {
        method: "udp",
        confined: "EPERM",
        unconfined: "through",
    },
    Escape {
        method: "files",
        confined: "read EACCES, write EACCES",
        unconfined: "read through, write through",
    },
    Escape {
        method: "signal",
        confined: "EPERM",
        unconfined: "through",
    },
    Escape {
        method: "ptrace",
        confined: "EPERM",
        unconfined: "through",
    },
    Escape {
        method: "program",
        confined: "EPERM",
        unconfined: "through",
    },
    Escape {
        method: "proc",
        confined: "EACCES",
        unconfined: "through",
    },
    // These rest on the host alone.
    Escape {
        method: "environment",
        confined: "",
        unconfined: "",
    },
    Escape {
        method: "descriptors",
        confined: "bounded",
        unconfined: "bounded",
    },
    Escape {
        method: "output",
        confined: "printed",
        unconfined: "printed",
    },
];

fn objects() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/objects")
}

fn interpreter() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::env::var_os("QUORATE_PYTHON").map_or_else(|| root.join(".venv/bin/python"), PathBuf::from)
}

fn open(interpreter: PathBuf, change: impl FnOnce(&mut PythonConfig)) -> Host {
    let mut python = PythonConfig {
        interpreter: Some(interpreter),
        paths: vec![objects()],
        ..PythonConfig::default()
    };
    change(&mut python);
    Host::open(HostConfig {
        objects: vec![HostedObject {
            id: ObjectId(1),
            name: "it".to_owned(),
            class: "escapes:Prisoner".to_owned(),
            arguments: Bytes::new(),
        }],
        python,
    })
    .unwrap()
}

/// Executes one call and waits for what comes of it.
fn after<T>(
    host: &mut Host,
    slot: u64,
    method: &str,
    mut wanted: impl FnMut(HostEvent) -> Option<T>,
) -> T {
    let call = Call {
        index: 0,
        id: CommandId::default(),
        object: ObjectId(1),
        payload: call_payload(method, &[]),
    };
    host.execute(Slot(slot), Stamp::default(), vec![call]);
    drive_until(host, |came| came.drain(..).find_map(&mut wanted))
}

/// What a method returned, as text.
fn told(host: &mut Host, slot: u64, method: &str) -> String {
    after(host, slot, method, |event| match event {
        HostEvent::Executed { results, .. } => match results.outcomes().next().unwrap() {
            Outcome::Returned(value) => {
                let length = usize::from(value[0] == 0x78);
                Some(String::from_utf8_lossy(&value[1 + length..]).into_owned())
            }
            other => panic!("{method}: {other:?}"),
        },
        HostEvent::Down { reason, .. } => panic!("{method}: {reason}"),
        _ => None,
    })
}

fn is_alive(process: i32) -> bool {
    let process = rustix::process::Pid::from_raw(process).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
    // A process that has ended may still wait for its parent to notice.
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

fn try_all(host: &mut Host, expected: impl Fn(&Escape) -> &'static str) {
    let mut wrong = Vec::new();
    for (slot, escape) in (1..).zip(&ESCAPES) {
        let outcome = told(host, slot, escape.method);
        println!("{:<12} {outcome}", escape.method);
        if outcome != expected(escape) {
            wrong.push(format!("{}: {outcome}", escape.method));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn twelve_escapes_on_a_kernel_with_landlock_and_seccomp() {
    let mut host = open(interpreter(), |_| {});
    assert_eq!(host.confinement(), Some("full"));
    try_all(&mut host, |escape| escape.confined);
    assert_eq!(told(&mut host, 50, "scratch"), "through");
}

#[test]
fn twelve_escapes_on_a_kernel_without() {
    let mut host = open(objects().join("old_kernel.py"), |_| {});
    let confinement = host.confinement().unwrap().to_owned();
    assert!(confinement.starts_with("partial: "), "{confinement}");
    assert!(confinement.contains("no Landlock"), "{confinement}");
    assert!(confinement.contains("no seccomp"), "{confinement}");
    try_all(&mut host, |escape| escape.unconfined);
    // What the object got through to.
    let _ = std::fs::remove_file("/tmp/quorate-escaped");
}

#[test]
fn a_snapshot_process_gives_way_to_calls_and_no_object_takes_another_priority() {
    let mut host = open(interpreter(), |_| {});
    host.take_snapshot(Slot(0));
    let images = drive_until(&mut host, |came| {
        came.drain(..).find_map(|event| match event {
            HostEvent::Imaged { images, .. } => Some(images),
            HostEvent::ImageFailed { reason, .. } => panic!("{reason}"),
            _ => None,
        })
    });
    let own = rustix::process::getpriority_process(None).unwrap();
    host.restore(Slot(0), images);
    let expected = format!("{own}, a snapshot {}", own.max(10));
    assert_eq!(told(&mut host, 1, "niceness"), expected);
    let expected = "node EPERM, own EPERM, as a snapshot through";
    assert_eq!(told(&mut host, 2, "priority"), expected);
}

#[test]
fn a_forked_process_ends_with_its_host_on_any_kernel() {
    for interpreter in [interpreter(), objects().join("old_kernel.py")] {
        let mut host = open(interpreter, |_| {});
        let child: i32 = told(&mut host, 1, "fork").parse().unwrap();
        assert!(child > 0 && is_alive(child));
        drop(host);
        // The kernel takes the process down in its own time.
        let began = Instant::now();
        while is_alive(child) {
            assert!(began.elapsed() < PATIENCE, "it outlives its host");
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_call_that_takes_all_memory_ends_its_host_and_is_named() {
    let mut host = open(interpreter(), |python| {
        python.memory_bytes_max = Some(256 << 20);
    });
    let (reason, method) = after(&mut host, 1, "memory", |event| match event {
        HostEvent::Down {
            reason,
            call,
            is_final: true,
        } => Some((reason, call.unwrap().method)),
        HostEvent::Executed { results, .. } => panic!("{results:?}"),
        _ => None,
    });
    assert!(reason.contains("--host-memory"), "{reason}");
    assert_eq!(method, "memory");
}

#[test]
fn without_a_sandbox_nothing_is_kept_and_that_is_said() {
    let mut host = open(interpreter(), |python| python.sandbox = Sandbox::Off);
    assert_eq!(host.confinement(), Some("off"));
    assert_eq!(told(&mut host, 1, "socket"), "through");
    assert!(told(&mut host, 2, "environment").contains("CARGO"));
}
