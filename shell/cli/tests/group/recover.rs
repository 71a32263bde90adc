//! New groups of what survivors know: all that was answered and is known to them, no more promised than that, and nothing made where
//! the directories cannot be relied on.

use crate::{Group, pid, run, signal, text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn recover(survivors: &[&Path], dir: &Path, words: &[&str]) -> (Option<i32>, Value, String) {
    let survivors: Vec<&str> = survivors.iter().map(|dir| dir.to_str().unwrap()).collect();
    let more = ["--dir", dir.to_str().unwrap(), "--port", "0", "-o", "json"];
    let output = run(&[&["recover"], &survivors[..], &more, words].concat());
    let told = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code(), told, text(&output.stderr))
}

fn recovered(survivors: &[&Path], dir: &Path, words: &[&str]) -> Value {
    let (code, told, stderr) = recover(survivors, dir, &[&["--unsafe"], words].concat());
    assert_eq!(code, Some(0), "{stderr}");
    told
}

/// The group of a directory; it has stopped with everything that it answered.
fn stopped<T>(home: &Path, and: impl FnOnce(&Group) -> T) -> T {
    let mut group = Group::start(&["--no-restart", "--dir", home.to_str().unwrap()]);
    let told = and(&group);
    assert_eq!(group.stop(), Some(0));
    told
}

/// What the counter of a recovered group holds, once one was added.
fn goes_on(dir: &Path, nodes: &str) -> String {
    let mut group = Group::start(&["--dir", dir.to_str().unwrap(), "--nodes", nodes]);
    let status = group.status();
    assert!(!status.to_string().contains("observer"), "{status}");
    let count = group.add("1");
    assert_eq!(group.stop(), Some(0));
    count
}

/// Every file below, with what it holds.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut found = BTreeMap::new();
    for path in entries {
        match path.is_dir() {
            true => found.extend(contents(&path)),
            false => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
    found
}

#[test]
fn one_of_three_directories_is_enough_for_all_that_was_answered_and_stays_as_it_is() {
    let place = tempfile::tempdir().unwrap();
    let [home, new, again] = ["old", "new", "again"].map(|name| place.path().join(name));
    stopped(&home, |group| {
        assert_eq!(group.add("5"), "5");
        let snapshot = group.quorate(&["snapshot"]);
        assert!(snapshot.status.success(), "{}", text(&snapshot.stderr));
        // Executed again, after the snapshot.
        for count in 6..40 {
            assert_eq!(group.add("1"), count.to_string());
        }
    });
    fs::remove_dir_all(home.join("node-1")).unwrap();
    fs::remove_dir_all(home.join("node-3")).unwrap();
    let before = contents(&home);
    let (code, told, stderr) = recover(&[&home], &new, &[]);
    assert_eq!((code, new.exists()), (Some(7), false), "{stderr}");
    assert!(stderr.contains("of the 3 voters, 1 is here"), "{stderr}");
    assert_eq!(told["may_lack_answered_calls"], true);
    assert_eq!(told["survivors"][0]["node"], 2);
    let made = recovered(&[&home], &new, &[]);
    assert_eq!(made["recovered"], told, "it is what was said");
    assert!(told["included"].as_u64() >= told["decided"].as_u64());
    assert!(made["slot"].as_u64() > told["included"].as_u64());
    assert_eq!(made["nodes"].as_array().unwrap().len(), 3);
    assert_eq!(goes_on(&new, "3"), "40");
    // From the node's configuration, as where it runs on a machine of its own.
    recovered(&[&home.join("node-2.toml")], &again, &["--nodes", "1"]);
    assert_eq!(goes_on(&again, "1"), "40");
    assert_eq!(contents(&home), before, "nothing of the survivor changes");
    let left = fs::read_dir(place.path()).unwrap().count();
    assert_eq!(left, 3, "nothing else is left");
}

#[test]
fn a_survivor_that_was_down_lacks_what_the_others_decided_and_of_several_the_newest_counts() {
    let place = tempfile::tempdir().unwrap();
    let [home, late, all] = ["old", "late", "all"].map(|name| place.path().join(name));
    let down = stopped(&home, |group| {
        assert_eq!(group.add("5"), "5");
        let (leader, status) = (group.leader(), group.status());
        let mut nodes = status["nodes"].as_array().unwrap().iter();
        let down = nodes.find(|node| node["id"] != leader["id"]).unwrap();
        signal(pid(down), "KILL");
        assert_eq!(group.add("2"), "7");
        down["id"].clone()
    });
    let down = home.join(format!("node-{down}"));
    recovered(&[&down], &late, &["--nodes", "1"]);
    assert_eq!(goes_on(&late, "1"), "6", "what it could not know is lost");
    let others = (1..=3).map(|node| home.join(format!("node-{node}")));
    let mut others = others.filter(|home| *home != down);
    let made = recovered(&[&down, &others.next().unwrap()], &all, &["--nodes", "1"]);
    assert_eq!(made["recovered"]["may_lack_answered_calls"], false);
    assert_eq!(goes_on(&all, "1"), "8");
}

#[test]
fn a_group_whose_voters_changed_after_its_snapshot_is_recovered() {
    let without = |node| vec!["remove", node, "--role", "acceptor"];
    // The second one is left with a voter of the number that recovers it.
    let groups = [
        ("3", vec![vec!["set", "window=8"], without("3")]),
        ("2", vec![without("2")]),
    ];
    for (nodes, changes) in groups {
        let place = tempfile::tempdir().unwrap();
        let [home, new] = ["old", "new"].map(|name| place.path().join(name));
        let words = ["--nodes", nodes, "--dir", home.to_str().unwrap()];
        let mut group = Group::start(&words);
        assert_eq!(group.add("5"), "5");
        let snapshot = group.quorate(&["snapshot"]);
        assert!(snapshot.status.success(), "{}", text(&snapshot.stderr));
        for words in changes {
            let endpoint = ["--endpoint", group.endpoint()];
            let changed = run(&[&["view"], &words[..], &endpoint].concat());
            assert!(changed.status.success(), "{}", text(&changed.stderr));
            assert_eq!(group.add("0"), "5");
        }
        assert_eq!(group.add("2"), "7");
        assert_eq!(group.stop(), Some(0));
        for lost in ["node-2", "node-3"] {
            let lost = home.join(lost);
            assert!(fs::remove_dir_all(&lost).is_ok() || !lost.exists());
        }
        recovered(&[&home], &new, &[]);
        assert_eq!(goes_on(&new, nodes), "8");
    }
}

#[test]
fn what_cannot_be_recovered_is_said_and_leaves_nothing_behind() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    let (home, other, new) = (path("old"), path("other"), path("new"));
    stopped(&other, |group| assert_eq!(group.add("1"), "1"));
    let refused = |survivors: &[&Path], code: i32, words: &str| {
        let (ended, _, stderr) = recover(survivors, &new, &["--unsafe"]);
        assert_eq!(ended, Some(code), "{stderr}");
        assert!(stderr.contains(words), "{words}: {stderr}");
        assert!(!new.exists(), "nothing is made");
    };
    stopped(&home, |group| {
        assert_eq!(group.add("5"), "5");
        refused(&[&home], 7, "is locked by");
        refused(&[&home.join("node-1.toml")], 7, "stop the node");
    });
    let (ended, _, stderr) = recover(&[&home], &new, &[]);
    assert_eq!(ended, Some(7), "{stderr}");
    assert!(stderr.contains("start these nodes, and nothing is lost"));
    assert!(!stderr.contains("--unsafe"), "{stderr}");
    refused(&[place.path()], 3, "holds no node of a group");
    refused(&[&path("absent")], 3, "holds no node of a group");
    refused(&[&path(&"x".repeat(300))], 1, "File name too long");
    refused(&[&home, &other], 7, "two clusters");
    let copy = path("node-1");
    let copied = Command::new("cp")
        .arg("-r")
        .args([&home.join("node-1"), &copy])
        .status();
    assert!(copied.unwrap().success());
    refused(&[&copy], 3, "its objects are");
    fs::copy(home.join("node-1.toml"), path("node-1.toml")).unwrap();
    refused(&[&home, &copy], 7, "both are of the same node");
    let log = copy.join("log").join("log-00000001");
    let mut bytes = fs::read(&log).unwrap();
    // Every record of the only commit that begins with it.
    bytes[8192..9216].fill(0xff);
    fs::write(&log, bytes).unwrap();
    refused(&[&copy], 1, "is damaged");
    fs::remove_file(&log).unwrap();
    refused(&[&copy], 1, "lacks segments");
    let note = home.join("node-2").join("quarantine-1");
    fs::write(&note, r#"{"state":"frozen","slot":7}"#).unwrap();
    refused(&[&home], 1, "no majority agrees with its objects' state");
    fs::remove_file(note).unwrap();
    fs::create_dir(path("used")).unwrap();
    fs::write(path("used").join("photo"), "x").unwrap();
    let (ended, _, stderr) = recover(&[&home], &path("used"), &["--unsafe"]);
    assert_eq!(ended, Some(7), "{stderr}");
    let memory = path("memory");
    let words = ["--persist", "memory", "--dir", memory.to_str().unwrap()];
    assert_eq!(Group::start(&words).stop(), Some(0));
    refused(&[&memory], 1, "nothing of them is left");
}
