//! What `quorate verify` says of directories that real groups leave.

use crate::{Group, init_node, pid, run, signal, text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A stopped group of three nodes that has taken a snapshot and gone on.
fn stopped_group() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut group = Group::start(&["--dir", dir.path().to_str().unwrap()]);
    assert_eq!(group.add("3"), "3");
    let snapshot = group.quorate(&["snapshot"]);
    assert!(snapshot.status.success(), "{}", text(&snapshot.stderr));
    assert_eq!(group.add("4"), "7");
    assert_eq!(group.stop(), Some(0));
    dir
}

fn verify(path: &Path) -> (Option<i32>, Value, String) {
    let output = run(&["verify", path.to_str().unwrap(), "-o", "json"]);
    let found = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code(), found, text(&output.stderr))
}

#[test]
fn names_of_files_steer_no_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("node");
    init_node(&home);
    for name in ["code-1\u{1b}[2J.new", "died-1\nnode 1 would start.new"] {
        fs::write(home.join(name), "x").unwrap();
    }
    let said = text(&run(&["verify", home.to_str().unwrap()]).stdout);
    assert!(said.contains("code-1\\u{1b}[2J.new"), "{said}");
    assert!(
        !said.contains('\u{1b}') && !said.contains("\nnode 1 would"),
        "{said}"
    );
}

/// The directory of a node that has left is sound, and nobody starts it: the group goes on with the others.
#[test]
fn a_removed_node_is_told_of_and_left_out_when_its_group_starts_again() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().to_str().unwrap();
    let mut group = Group::start(&["--dir", home]);
    assert_eq!(group.add("3"), "3");
    let endpoint = group.endpoint().trim_end_matches("/counter");
    let words = ["view", "remove", "1", "--force", "--endpoint", endpoint];
    let removed = run(&words);
    assert!(removed.status.success(), "{}", text(&removed.stderr));
    group.wait_for("node 1 was removed from the group in view 2; it does not start again");
    assert_eq!(group.stop(), Some(0));

    let (code, found, said) = verify(dir.path());
    assert_eq!(code, Some(0), "{said}");
    let starts = |node: usize| &found["nodes"][node]["start"];
    assert_eq!(*starts(0), serde_json::json!({"as": "removed", "view": 2}));
    assert_eq!(starts(1)["as"], "voter");
    let alone = text(&run(&["verify", &format!("{home}/node-1")]).stdout);
    let why = "node 1 would not start: it was removed from the group in view 2";
    assert!(alone.contains(why), "{alone}");

    let mut again = Group::start(&["--dir", home]);
    again.wait_for("node 1 was removed from the group in view 2");
    assert_eq!(again.add("4"), "7");
    assert!(again.ready["nodes"][0]["pid"].is_null(), "{}", again.ready);
}

/// What is said of one file of a node's directory.
fn told<'a>(found: &'a Value, node: usize, name: &str) -> &'a Value {
    let files = found["nodes"][node]["files"].as_array().unwrap();
    let file = files.iter().find(|file| file["file"] == name);
    file.unwrap_or_else(|| panic!("{name} is not told of: {found}"))
}

/// The content of every file below `dir`.
fn picture(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(picture(&path)),
            false => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
    found
}

fn flip(path: &Path, at: usize) {
    let mut content = fs::read(path).unwrap();
    content[at] ^= 4;
    fs::write(path, content).unwrap();
}

fn only_snapshot(node: &Path) -> String {
    let mut names: Vec<String> = fs::read_dir(node.join("snapshots"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    names.pop().unwrap()
}

#[test]
fn a_stopped_group_is_sound_and_stays_as_it_was() {
    let dir = stopped_group();
    let before = picture(dir.path());
    let (code, found, stderr) = verify(dir.path());
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{found}");
    assert_eq!(found["sound"], true);
    for (index, node) in found["nodes"].as_array().unwrap().iter().enumerate() {
        assert_eq!(node["node"], index + 1);
        assert_eq!(node["start"]["as"], "voter", "{node}");
        assert_eq!(
            node["start"]["first"].as_array().unwrap().len(),
            0,
            "{node}"
        );
    }
    let segment = told(&found, 0, "log/log-00000001");
    assert_eq!(segment["state"], "sound");
    let table = run(&["verify", dir.path().join("node-2").to_str().unwrap()]);
    assert_eq!(table.status.code(), Some(0));
    let lines = text(&table.stdout);
    assert!(lines.contains("node 2 would start as a voter"), "{lines}");
    assert!(lines.contains("log/log-00000001 "), "{lines}");
    assert_eq!(picture(dir.path()), before, "nothing is changed");
}

#[test]
fn killed_nodes_leave_sound_directories() {
    let dir = tempfile::tempdir().unwrap();
    let mut group = Group::start(&["--no-restart", "--dir", dir.path().to_str().unwrap()]);
    assert_eq!(group.add("3"), "3");
    for node in group.ready["nodes"].as_array().unwrap() {
        signal(pid(node), "KILL");
    }
    group.stop();
    let (code, found, stderr) = verify(dir.path());
    assert_eq!(code, Some(0), "{stderr} {found}");
}

/// A change of the view trims logs for a snapshot of its own, which a node that came back a moment before may have left out.
#[test]
fn a_group_stopped_right_after_a_change_of_the_view_has_the_last_snapshot_at_every_node() {
    let dir = tempfile::tempdir().unwrap();
    let mut group = Group::start(&["--dir", dir.path().to_str().unwrap()]);
    assert_eq!(group.add("3"), "3");
    let status = group.status();
    let mut nodes = status["nodes"].as_array().unwrap().iter();
    let follower = nodes.find(|node| node["id"] != status["leader"]).unwrap();
    signal(pid(follower), "KILL");
    group.wait_for("runs again");
    let words = ["view", "switch", "--ordering", "ring_paxos"];
    let switched = run(&[&words[..], &["--endpoint", group.endpoint()]].concat());
    assert!(switched.status.success(), "{}", text(&switched.stderr));
    assert_eq!(group.stop(), Some(0));
    let (code, found, stderr) = verify(dir.path());
    assert_eq!(code, Some(0), "{stderr} {found}");
    let held = |node: u16| only_snapshot(&dir.path().join(format!("node-{node}")));
    assert_eq!((held(2), held(3)), (held(1), held(1)));
    let words = ["--dir", dir.path().to_str().unwrap()];
    assert_eq!(Group::start(&words).add("1"), "4");
}

#[test]
fn a_flipped_bit_is_named_with_its_file_and_byte_and_with_what_the_node_does() {
    let dir = stopped_group();
    let home = dir.path().join("node-1");
    let snapshot = format!("snapshots/{}", only_snapshot(&home));
    for (name, at) in [
        ("identity-a", 40),
        ("peers-b", 40),
        ("log/log-00000001", 8192 + 100),
        ("log/log-00000001", 4096 + 50),
        (snapshot.as_str(), 700),
        (snapshot.as_str(), 60),
    ] {
        flip(&home.join(name), at);
        let (code, found, stderr) = verify(dir.path());
        assert_eq!(code, Some(1), "{name} {at}: {found}");
        assert_eq!(told(&found, 0, name)["state"], "damaged", "{name} {at}");
        assert!(
            stderr.contains(&format!("node-1/{name} at byte ")),
            "{stderr}"
        );
        assert!(stderr.contains("node 1 would start as a voter"), "{stderr}");
        flip(&home.join(name), at);
    }
    assert_eq!(verify(dir.path()).0, Some(0));
    flip(&home.join("identity-a"), 40);
    flip(&home.join("identity-b"), 41);
    let (code, found, stderr) = verify(&home);
    assert_eq!(code, Some(1));
    assert_eq!(found["nodes"][0]["start"]["as"], "refused");
    assert!(stderr.contains("this node would not start"), "{stderr}");
}

#[test]
fn what_is_said_of_a_damaged_log_is_what_the_node_then_does() {
    let dir = stopped_group();
    let home = dir.path().join("node-1");
    fs::remove_file(home.join("log/log-00000001")).unwrap();
    let (code, found, stderr) = verify(dir.path());
    assert_eq!(code, Some(1), "{found}");
    assert_eq!(found["nodes"][0]["start"]["as"], "observer", "{found}");
    assert!(stderr.contains("without a vote"), "{stderr}");
    let group = Group::start(&["--dir", dir.path().to_str().unwrap()]);
    assert_eq!(group.add("1"), "8");
    let log = fs::read_to_string(dir.path().join("node-1.log")).unwrap();
    assert!(log.contains("this node observes"), "{log}");
}

#[test]
fn files_of_another_node_and_of_another_name_are_refused() {
    let dir = stopped_group();
    let log = |node: &str| dir.path().join(node).join("log/log-00000001");
    let own = fs::read(log("node-1")).unwrap();
    fs::copy(log("node-2"), log("node-1")).unwrap();
    let (code, found, stderr) = verify(dir.path());
    assert_eq!(code, Some(1));
    assert_eq!(found["nodes"][0]["start"]["as"], "refused");
    assert!(
        stderr.contains("it belongs to node 2 of cluster"),
        "{stderr}"
    );
    fs::write(log("node-1"), own).unwrap();
    // Whole directories in each other's place: each is sound, and neither is the node's.
    let path = |name: &str| dir.path().join(name);
    fs::rename(path("node-1"), path("kept")).unwrap();
    fs::rename(path("node-2"), path("node-1")).unwrap();
    fs::rename(path("kept"), path("node-2")).unwrap();
    let (code, found, stderr) = verify(dir.path());
    assert_eq!(code, Some(1));
    assert_eq!(found["nodes"][1]["start"]["as"], "refused");
    assert!(
        stderr.contains("node-1.toml is about another directory"),
        "{stderr}"
    );
    assert_eq!(verify(&path("node-1")).0, Some(0), "alone it is sound");
}

#[test]
fn what_is_no_stopped_node_has_an_exit_code_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let said = |path: &Path, wanted: i32, words: &str| {
        let (code, _, stderr) = verify(path);
        assert_eq!(code, Some(wanted), "{stderr}");
        assert!(stderr.contains(words), "{stderr}");
    };
    said(dir.path(), 3, "holds no data directory");
    said(&dir.path().join("absent"), 3, "absent");
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    said(&file, 1, "it is no backup");
    assert_eq!(run(&["verify"]).status.code(), Some(2));
    // Pipes into which nobody writes.
    let pipe = dir.path().join("pipe");
    let made = |path: &Path| Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made(&pipe).success());
    said(&pipe, 1, "it is no regular file");
    let pipe = pipe.to_str().unwrap();
    let home = dir.path().join("restored");
    let restored = run(&["restore", pipe, "--dir", home.to_str().unwrap()]);
    assert_eq!((restored.status.code(), home.exists()), (Some(1), false));
    let node = dir.path().join("node");
    fs::create_dir_all(node.join("snapshots")).unwrap();
    assert!(made(&node.join("snapshots/snap-00000001-0000000000000009")).success());
    assert!(made(&node.join("identity-a")).success());
    said(&node, 1, "has no identity that can be read");
    let home = dir.path().join("group");
    let _group = Group::start(&["--nodes", "1", "--dir", home.to_str().unwrap()]);
    said(&home, 7, "is locked by");
    said(&home.join("node-1"), 7, "is locked by process");
}

#[test]
fn a_note_that_objects_differ_is_told() {
    let dir = stopped_group();
    let note = dir.path().join("node-3/quarantine-1");
    fs::write(&note, r#"{"state":"frozen","slot":7}"#).unwrap();
    let (code, found, stderr) = verify(dir.path());
    assert_eq!(code, Some(1));
    assert_eq!(told(&found, 2, "quarantine-1")["state"], "noted");
    assert!(stderr.contains("object reset --from"), "{stderr}");
    fs::write(&note, "{").unwrap();
    let (code, found, _) = verify(dir.path());
    assert_eq!(
        (code, &found["nodes"][2]["start"]["as"]),
        (Some(1), &"refused".into())
    );
}

#[test]
fn a_group_that_lacks_a_node_or_its_configuration_is_not_sound() {
    let dir = stopped_group();
    let said = |place: &Path, words: &str| {
        let (code, found, stderr) = verify(place);
        assert_eq!(code, Some(1), "{stderr}");
        let starts = found["nodes"].as_array().unwrap().iter();
        let refused = starts.filter(|node| node["start"]["as"] == "refused");
        assert!(
            refused.count() > 0 && found.to_string().contains(words),
            "{found}"
        );
    };
    let at = |name: &str| dir.path().join(name);
    let config = fs::read(at("node-2.toml")).unwrap();
    fs::remove_file(at("node-2.toml")).unwrap();
    said(dir.path(), "node-2.toml is not here");
    fs::rename(at("node-2"), at("elsewhere")).unwrap();
    said(dir.path(), "its data directory is not here");
    fs::rename(at("elsewhere"), at("node-2")).unwrap();
    fs::write(at("node-2.toml"), config).unwrap();
    assert_eq!(verify(dir.path()).0, Some(0));
    // Configurations that lie elsewhere are nobody's fault.
    for node in 1..=3 {
        fs::remove_file(at(&format!("node-{node}.toml"))).unwrap();
    }
    assert_eq!(verify(dir.path()).0, Some(0));
    // A start or a restore that was interrupted.
    let half = tempfile::tempdir().unwrap();
    let home = half.path().join("node-1");
    init_node(&home);
    said(half.path(), "what made the group was interrupted");
    assert_eq!(verify(&home).0, Some(0), "a new node is");
}
