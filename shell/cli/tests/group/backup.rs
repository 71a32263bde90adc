//! Backups of groups that run: what is in the file, what is refused, and what is found in one that was changed.

use crate::{Group, QUORATE, run, signal, text};
use serde_json::Value;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

fn backup(group: &Group, file: &Path, words: &[&str]) -> Output {
    let all = [&["backup", file.to_str().unwrap(), "-o", "json"], words].concat();
    group.quorate(&all)
}

fn taken(group: &Group, file: &Path) -> Value {
    let output = backup(group, file, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn verify(file: &Path) -> (Option<i32>, Value, String) {
    let output = run(&["verify", file.to_str().unwrap(), "-o", "json"]);
    let found = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code(), found, text(&output.stderr))
}

#[test]
fn a_backup_holds_what_a_majority_agreed_on_and_only_its_owner_reads_it() {
    let dir = tempfile::tempdir().unwrap();
    let group = Group::start(&["--dir", dir.path().join("group").to_str().unwrap()]);
    assert_eq!(group.add("5"), "5");
    let file = dir.path().join("a.backup");
    let told = taken(&group, &file);
    let status = group.status();
    let node = &status["nodes"][0];
    assert_eq!(told["slot"], node["snapshot"]);
    assert_eq!(told["digest"], node["snapshot_digest"]);
    assert_eq!(told["classes"], serde_json::json!(["rust:counter"]));
    assert_eq!(told["objects"][0]["name"], "counter");
    let metadata = fs::metadata(&file).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    assert_eq!(told["bytes"], metadata.len());
    let (code, found, stderr) = verify(&file);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert_eq!(
        (&found["sound"], &found["digest"]),
        (&true.into(), &told["digest"])
    );
    let names: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(names.len(), 2, "no other file is left");
    // What proves to a node that a peer is one is in the members' configurations only.
    let content = fs::read(&file).unwrap();
    let config = fs::read_to_string(dir.path().join("group/node-1.toml")).unwrap();
    let secrets = config
        .lines()
        .filter_map(|line| line.strip_prefix("incarnation = "));
    let secrets: Vec<u64> = secrets
        .map(|hex| u64::from_str_radix(hex.trim_matches('"'), 16).unwrap())
        .collect();
    assert_eq!(secrets.len(), 3);
    for secret in secrets {
        let bytes = secret.to_le_bytes();
        assert!(
            !content.windows(8).any(|part| part == bytes),
            "an incarnation is told"
        );
    }
}

#[test]
fn what_cannot_be_backed_up_is_said_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let group = Group::start(&["--nodes", "1"]);
    let file = dir.path().join("a.backup");
    let refused = |output: Output, code: i32, words: &str| {
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains(words), "{stderr}");
    };
    refused(backup(&group, &file, &["--existing"]), 3, "no snapshot yet");
    refused(
        backup(&group, &dir.path().join("no/a"), &[]),
        1,
        "/no/a cannot be written: there is no directory ",
    );
    let nobody = ["--endpoint", "quorate://127.0.0.1:1", "--timeout", "0.5"];
    let nobody = [&["backup", file.to_str().unwrap()], &nobody[..]].concat();
    refused(run(&nobody), 4, "");
    let mut limited = Command::new("sh");
    limited
        .args([
            "-c",
            r#"trap "" XFSZ; ulimit -f 1; exec "$@""#,
            "sh",
            QUORATE,
            "backup",
        ])
        .args([file.to_str().unwrap(), "--endpoint", group.endpoint()]);
    refused(limited.output().unwrap(), 1, "nothing is left of it");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    taken(&group, &file);
    let before = fs::read(&file).unwrap();
    refused(backup(&group, &file, &[]), 7, "exists");
    assert_eq!(fs::read(&file).unwrap(), before);
    let again = dir.path().join("b.backup");
    let output = backup(&group, &again, &["--existing"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(
        verify(&again).1["slot"],
        verify(&file).1["slot"],
        "the same snapshot"
    );
}

#[test]
fn a_signal_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    // A node that takes the connection, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("quorate://{}", silent.local_addr().unwrap());
    let left = || fs::read_dir(dir.path()).unwrap().count();
    let mut command = Command::new(QUORATE)
        .args(["backup", "--endpoint", &endpoint])
        .arg(dir.path().join("a.backup"))
        .spawn()
        .unwrap();
    let _taken = silent.accept().unwrap();
    assert_eq!(left(), 1, "it has begun to write");
    signal(command.id(), "TERM");
    assert_eq!(command.wait().unwrap().signal(), Some(15));
    assert_eq!(left(), 0);
}

#[test]
fn a_changed_backup_is_not_sound_wherever_it_was_changed() {
    let dir = tempfile::tempdir().unwrap();
    let group = Group::start(&["--nodes", "1"]);
    let file = dir.path().join("a.backup");
    taken(&group, &file);
    drop(group);
    let whole = fs::read(&file).unwrap();
    let told = |content: &[u8], words: &str| {
        fs::write(&file, content).unwrap();
        let (code, found, stderr) = verify(&file);
        assert_eq!(
            (code, &found["sound"]),
            (Some(1), &false.into()),
            "{stderr}"
        );
        assert!(stderr.contains(words), "{stderr}");
    };
    for at in (0..whole.len()).step_by(whole.len() / 60) {
        let mut changed = whole.clone();
        changed[at] ^= 2;
        told(&changed, " at byte ");
    }
    told(&whole[..whole.len() - 1], "it is cut: 1 bytes");
    told(&whole[..100], "cut before its head ends");
    told(&[&whole[..], b"x"].concat(), "goes on after its end");
    told(&[7; 5000], "it is no backup");
    told(b"", "it is no backup");
    let mut newer = whole.clone();
    newer[11] = b'2';
    told(&newer, "of another version");
    fs::write(&file, &whole).unwrap();
    assert_eq!(verify(&file).0, Some(0));
}

#[test]
fn a_group_in_memory_and_one_with_certificates_are_backed_up() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let group = Group::start(&["--persist", "memory"]);
    assert_eq!(group.add("5"), "5");
    taken(&group, &file("memory"));
    drop(group);
    let home = file("group");
    let group = Group::start(&["--tls", "--dir", home.to_str().unwrap()]);
    let output = backup(&group, &file("stranger"), &["--timeout", "3"]);
    assert_ne!(
        output.status.code(),
        Some(0),
        "who has no certificate gets nothing"
    );
    let tls = &group.ready["tls"];
    let word = |name: &str| tls[name].as_str().unwrap();
    let words = [
        "--tls-ca",
        word("ca"),
        "--tls-cert",
        word("cert"),
        "--tls-key",
        word("key"),
    ];
    let output = backup(&group, &file("tls"), &words);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(
        (verify(&file("memory")).0, verify(&file("tls")).0),
        (Some(0), Some(0))
    );
    assert!(!file("stranger").exists());
}
