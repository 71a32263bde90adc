//! New groups that go on from backups: the same state at the slot, a cluster of their own, and nothing left where it fails.

use crate::{Group, QUORATE, run, text};
use quorate_client::{Answer, CallCause, CallError, Client, DriverOptions, Operation};
use quorate_types::{ObjectId, Outcome};
use quorate_wire::value::{Value as Word, call};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

fn taken(group: &Group, file: &Path) -> Value {
    let output = group.quorate(&["backup", file.to_str().unwrap(), "-o", "json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn restore(file: &Path, dir: &Path, words: &[&str]) -> (Option<i32>, Value, String) {
    let all = [
        "restore",
        file.to_str().unwrap(),
        "--dir",
        dir.to_str().unwrap(),
    ];
    let output = run(&[&all[..], &["-o", "json"], words].concat());
    let told = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code(), told, text(&output.stderr))
}

fn restored(file: &Path, dir: &Path, words: &[&str]) -> Value {
    let (code, told, stderr) = restore(file, dir, words);
    assert_eq!(code, Some(0), "{stderr}");
    told
}

/// The objects' part of a digest.
fn state(told: &Value) -> &str {
    let (_, state) = told["digest"].as_str().unwrap().split_once(':').unwrap();
    state
}

fn client(endpoint: &str) -> Client {
    let options = DriverOptions::default().expiring_after(Duration::from_secs(2));
    Client::connect(&endpoint.parse().unwrap(), options, None).unwrap()
}

fn perform(client: &Client, method: &str, words: &[Word]) -> Result<Outcome, CallError> {
    let payload = call::encode(method, words, &[]).unwrap();
    let object = ObjectId(0);
    match client.perform(Operation::Call { object, payload })? {
        Answer::Called(outcome) => Ok(outcome),
        Answer::Read { .. } | Answer::Checkpointed(_) => {
            panic!("a call was answered as another thing")
        }
    }
}

/// A fencing token.
fn acquire(client: &Client, words: &[Word]) -> i64 {
    let Outcome::Returned(token) = perform(client, "acquire", words).unwrap() else {
        panic!("nothing is wrong with the question");
    };
    match quorate_wire::value::decode(&token).unwrap() {
        Word::Int(token @ 1..) => token,
        other => panic!("the lock is not given: {other:?}"),
    }
}

#[test]
fn a_restored_group_has_the_digest_of_the_backup_and_goes_on_from_there() {
    let dir = tempfile::tempdir().unwrap();
    let [file, home] = ["a.backup", "new"].map(|name| dir.path().join(name));
    let mut old = Group::start(&[]);
    assert_eq!(old.add("5"), "5");
    let backup = taken(&old, &file);
    assert_eq!(old.add("90"), "95");
    let told = restored(&file, &home, &["--port", "0"]);
    assert_eq!(
        (&told["restored_slot"], &told["restored_digest"]),
        (&backup["slot"], &backup["digest"])
    );
    assert_eq!(state(&told), state(&backup), "of the objects");
    assert_ne!(told["cluster"], backup["cluster"], "it is another cluster");
    let verified = run(&["verify", home.to_str().unwrap()]);
    assert_eq!(
        verified.status.code(),
        Some(0),
        "{}",
        text(&verified.stderr)
    );
    assert_eq!(old.stop(), Some(0));
    let words = ["--dir", home.to_str().unwrap()];
    let mut new = Group::start(&words);
    let status = new.status();
    for node in status["nodes"].as_array().unwrap() {
        let held = (&node["snapshot"], &node["snapshot_digest"], &node["stable"]);
        assert_eq!(
            held,
            (&told["slot"], &told["digest"], &told["slot"]),
            "{node}"
        );
        assert!(!node["roles"].to_string().contains("observer"), "{node}");
    }
    assert_eq!(new.add("1"), "6");
    let snapshot = new.quorate(&["snapshot"]);
    assert!(snapshot.status.success(), "{}", text(&snapshot.stderr));
    assert_eq!(new.stop(), Some(0));
    let again = Group::start(&words);
    assert_eq!(again.add("1"), "7", "it is a group like any other");
    let second = dir.path().join("b.backup");
    assert_ne!(taken(&again, &second)["cluster"], backup["cluster"]);
}

#[test]
fn clients_of_the_old_group_are_refused_and_what_they_held_is_free_when_their_sessions_expire() {
    let dir = tempfile::tempdir().unwrap();
    let [file, home, before] = ["a.backup", "new", "old"].map(|name| dir.path().join(name));
    let words = ["rust:lock", "--nodes", "1", "--dir"];
    let start = |dir: &Path| Group::start(&[&words[..], &[dir.to_str().unwrap()]].concat());
    // Its leader has a higher ballot than the first of a new group: that one must be able to judge sessions all the same.
    assert_eq!(start(&before).stop(), Some(0));
    let mut old = start(&before);
    let endpoint = old.endpoint().to_owned();
    let holder = client(&endpoint);
    acquire(&holder, &[]);
    taken(&old, &file);
    // Tokens that the old group grants behind the backup's back.
    let mut granted = Vec::new();
    for _ in 0..20 {
        perform(&holder, "release", &[]).unwrap();
        granted.push(acquire(&holder, &[]));
    }
    assert_eq!(old.stop(), Some(0));
    let (_, port) = endpoint.trim_end_matches("/lock").rsplit_once(':').unwrap();
    restored(&file, &home, &["--port", port]);
    let new = start(&home);
    assert_eq!(
        new.endpoint(),
        endpoint,
        "clients look for the group where it was"
    );
    let refused = perform(&holder, "release", &[]).expect_err("it is another cluster");
    assert!(
        matches!(
            refused,
            CallError::NotExecuted(CallCause::OtherCluster { .. })
                | CallError::OutcomeUnknown(CallCause::OtherCluster { .. })
        ),
        "{refused:?}"
    );
    // The holder's session is there, without its client, until it expires like any other.
    let next = client(&endpoint);
    let patience = [Word::Bool(true), Word::Float(20.0)];
    let token = acquire(&next, &patience);
    assert!(
        granted.iter().all(|granted| *granted < token),
        "{token} after {granted:?}"
    );
    // A group that is made of the same backup once more grants none of those tokens either.
    let (twice, words) = (dir.path().join("twice"), ["--port", "0"]);
    let (first, second) = (new.status(), restored(&file, &twice, &words));
    let first = first["nodes"][0]["decided"].as_u64().unwrap();
    assert!(
        second["slot"].as_u64().unwrap() > first,
        "{second} after {first}"
    );
}

#[test]
fn a_large_state_comes_back_piece_by_piece_on_another_number_of_nodes() {
    let dir = tempfile::tempdir().unwrap();
    let [file, home] = ["a.backup", "new"].map(|name| dir.path().join(name));
    let old = Group::start(&["rust:kv"]);
    let writer = client(old.endpoint());
    let value = |number: u8| Word::Bytes(vec![number; (1 << 20) + usize::from(number)]);
    let key = |number: u8| Word::Text(format!("key {number}"));
    for number in 0..12 {
        perform(&writer, "put", &[key(number), value(number)]).unwrap();
    }
    let backup = taken(&old, &file);
    assert!(backup["bytes"].as_u64().unwrap() > 12 << 20);
    drop((writer, old));
    let told = restored(&file, &home, &["--port", "0", "--nodes", "1"]);
    assert_eq!(told["nodes"].as_array().unwrap().len(), 1);
    let new = Group::start(&["rust:kv", "--nodes", "1", "--dir", home.to_str().unwrap()]);
    let status = new.status();
    assert_eq!(status["nodes"][0]["snapshot_digest"], told["digest"]);
    assert_eq!(state(&told), state(&backup));
    let reader = client(new.endpoint());
    for number in [0, 7, 11] {
        let Outcome::Returned(found) = perform(&reader, "get", &[key(number)]).unwrap() else {
            panic!("it is there");
        };
        assert_eq!(quorate_wire::value::decode(&found).unwrap(), value(number));
    }
}

#[test]
fn a_restored_group_has_the_nodes_and_the_window_that_the_old_one_had_then() {
    let dir = tempfile::tempdir().unwrap();
    let [file, home] = ["a.backup", "new"].map(|name| dir.path().join(name));
    let old = Group::start(&[]);
    assert_eq!(old.add("5"), "5");
    let at = ["--force", "--endpoint", old.endpoint()];
    for change in [["view", "remove", "3"], ["view", "set", "window=64"]] {
        let output = run(&[&change[..], &at].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    assert_eq!(taken(&old, &file)["nodes"], 2);
    let told = restored(&file, &home, &["--port", "0"]);
    assert_eq!(told["nodes"].as_array().unwrap().len(), 2);
    let new = Group::start(&["--nodes", "2", "--dir", home.to_str().unwrap()]);
    assert_eq!(new.status()["view"]["window"], 64);
}

#[test]
fn what_cannot_be_restored_is_said_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let [file, home] = ["a.backup", "new"].map(|name| dir.path().join(name));
    let old = Group::start(&[
        "--nodes",
        "1",
        "--dir",
        dir.path().join("old").to_str().unwrap(),
    ]);
    taken(&old, &file);
    let whole = fs::read(&file).unwrap();
    let changed = dir.path().join("changed");
    let refused = |content: &[u8], words: &str| {
        fs::write(&changed, content).unwrap();
        let (code, _, stderr) = restore(&changed, &home, &["--port", "0"]);
        assert_eq!(code, Some(1), "{stderr}");
        assert!(stderr.contains(words), "{stderr}");
        assert!(!home.exists(), "nothing is made");
    };
    refused(&whole[..whole.len() / 2], "it is cut");
    refused(&[9; 4096], "it is no backup");
    let mut other = whole.clone();
    other[11] = b'9';
    refused(&other, "of another version");
    let mut flipped = whole.clone();
    let last = flipped.len() - 1;
    flipped[last] ^= 1;
    refused(&flipped, "a part is not what the list of parts says");
    let (code, ..) = restore(&dir.path().join("absent"), &home, &[]);
    assert_eq!((code, home.exists()), (Some(3), false));
    // Directories that hold something stay as they are.
    let (code, _, stderr) = restore(&file, &dir.path().join("old"), &[]);
    assert_eq!(code, Some(7), "{stderr}");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("photo"), "x").unwrap();
    let (code, _, stderr) = restore(&file, &home, &["--port", "0"]);
    assert_eq!(code, Some(7), "{stderr}");
    assert!(stderr.contains("photo"), "{stderr}");
    assert_eq!(fs::read_dir(&home).unwrap().count(), 1);
    // No room for a segment of the log.
    fs::remove_file(home.join("photo")).unwrap();
    let mut limited = Command::new("sh");
    limited
        .args([
            "-c",
            r#"trap "" XFSZ; ulimit -f 1024; exec "$@""#,
            "sh",
            QUORATE,
            "restore",
        ])
        .args([
            file.to_str().unwrap(),
            "--dir",
            home.to_str().unwrap(),
            "--port",
            "0",
        ]);
    let output = limited.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert_eq!(
        fs::read_dir(&home).unwrap().count(),
        0,
        "nothing is left of it"
    );
    let words = ["--port", "0", "--tls"];
    let told = restored(&file, &home, &words);
    assert!(told["start"].as_str().unwrap().ends_with("--nodes 1 --tls"));
    let group = Group::start(&["--nodes", "1", "--tls", "--dir", home.to_str().unwrap()]);
    assert!(group.ready["tls"]["ca"].is_string());
}
