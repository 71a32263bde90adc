//! Nodes whose data directory lacks what they had written.

use crate::{Group, init_node, pid, run, signal, text};
use serde_json::Value;
use std::path::Path;

/// Stops a group on disk, has `harm` do something to the directory of node 2, and starts it again.
fn harmed(nodes: &str, harm: impl FnOnce(&Path)) -> (tempfile::TempDir, Group) {
    let dir = tempfile::tempdir().unwrap();
    let words = ["--nodes", nodes, "--dir", dir.path().to_str().unwrap()];
    let mut group = Group::start(&words);
    assert_eq!(group.add("3"), "3");
    assert_eq!(group.stop(), Some(0));
    harm(&dir.path().join("node-2"));
    let group = Group::start(&words);
    (dir, group)
}

/// Waits until node 2 votes again, in the view that names it anew; returns the view's number.
fn votes_again(group: &Group) -> u64 {
    let begun = std::time::Instant::now();
    loop {
        let node = group.status()["nodes"][1].clone();
        if node["roles"].to_string().contains("acceptor") {
            assert!(node["observes"].is_null(), "{node}");
            return group.status()["view"]["number"].as_u64().unwrap();
        }
        assert!(
            begun.elapsed().as_secs() < 60,
            "it never votes again: {node}"
        );
    }
}

/// Claim st-1. Claim rp-102.
#[test]
fn a_node_whose_log_directory_is_gone_says_so_and_votes_again_through_a_view() {
    let (dir, group) = harmed("3", |node| {
        std::fs::remove_dir_all(node.join("log")).unwrap();
    });
    assert_eq!(votes_again(&group), 2);
    let log = std::fs::read_to_string(dir.path().join("node-2.log")).unwrap();
    assert!(log.contains("it has lost votes: the log lacks segments"));
    assert!(log.contains("votes again by itself"), "{log}");
    assert_eq!(group.add("4"), "7");
}

/// Claim st-1. Claim rp-102.
#[test]
fn a_node_whose_newest_segment_is_gone_votes_again_through_a_view() {
    let (_dir, group) = harmed("3", |node| {
        std::fs::remove_file(node.join("log/log-00000001")).unwrap();
    });
    assert_eq!(votes_again(&group), 2);
}

fn rebuild(home: &Path, words: &[&str]) -> (Option<i32>, Value, String) {
    let all = ["node", "rebuild", home.to_str().unwrap(), "-o", "json"];
    let output = run(&[&all[..], words].concat());
    let told = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code(), told, text(&output.stderr))
}

#[test]
fn a_node_whose_log_no_start_would_read_is_rebuilt_from_the_others_and_keeps_its_identity() {
    let (dir, mut group) = harmed("3", |node| {
        let incarnation = |found: &Value| found["nodes"][0]["incarnation"].clone();
        let verified = || {
            let output = run(&["verify", node.to_str().unwrap(), "-o", "json"]);
            serde_json::from_slice::<Value>(&output.stdout).unwrap()
        };
        let before = verified();
        // A segment of another node.
        std::fs::copy(
            node.join("../node-1/log/log-00000001"),
            node.join("log/log-00000001"),
        )
        .unwrap();
        assert_eq!(verified()["nodes"][0]["start"]["as"], "refused");
        let frozen = r#"{"state":"frozen","slot":7}"#;
        std::fs::write(node.join("quarantine-1"), frozen).unwrap();
        let (code, told, stderr) = rebuild(node, &[]);
        assert_eq!(code, Some(0), "{stderr}");
        let moved = serde_json::json!(["log", "snapshots", "quarantine-1"]);
        assert_eq!(told["moved"], moved);
        assert_eq!(told["start"]["as"], "observer");
        assert!(node.join("aside-1/log/log-00000001").exists(), "it is kept");
        assert_eq!(incarnation(&verified()), incarnation(&before));
        let words = text(&run(&["node", "rebuild", node.to_str().unwrap()]).stdout);
        assert!(
            words.contains("lost: what node 2 had promised and voted for"),
            "{words}"
        );
        assert!(words.contains("nothing was left to put aside"), "{words}");
    });
    votes_again(&group);
    let executed = |node: usize| group.status()["nodes"][node]["executed"].as_u64();
    let first = executed(0);
    while executed(1) < first {}
    let home = dir.path().join("node-2");
    let (code, _, stderr) = rebuild(&home, &["--force"]);
    assert_eq!(code, Some(7), "{stderr}");
    assert!(stderr.contains("locked by process"), "{stderr}");
    assert_eq!(group.stop(), Some(0));
}

#[test]
fn what_need_not_be_rebuilt_or_cannot_be_is_refused_and_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let start = |home: &Path, more: &[&str]| {
        let words = ["--dir", home.to_str().unwrap()];
        assert_eq!(Group::start(&[&words[..], more].concat()).stop(), Some(0));
    };
    let refused = |home: &Path, wanted: i32, words: &str| {
        let (code, _, stderr) = rebuild(home, &[]);
        assert_eq!(code, Some(wanted), "{stderr}");
        assert!(stderr.contains(words), "{stderr}");
        assert!(!home.join("aside-1").exists());
    };
    start(&at("disk"), &[]);
    refused(&at("disk/node-1"), 7, "--force");
    for note in ["members-1", "code-1", "died-1"] {
        let note = at("disk/node-1").join(note);
        let before = std::fs::read(&note).ok();
        std::fs::write(&note, "{").unwrap();
        refused(&at("disk/node-1"), 1, "keeps the node from starting");
        match before {
            Some(text) => std::fs::write(&note, text).unwrap(),
            None => std::fs::remove_file(&note).unwrap(),
        }
    }
    for copy in ["identity-a", "identity-b"] {
        std::fs::write(at("disk/node-2").join(copy), "not one").unwrap();
    }
    refused(&at("disk/node-2"), 1, "--remake");
    start(&at("alone"), &["--nodes", "1"]);
    refused(&at("alone/node-1"), 7, "no other node holds a copy");
    start(&at("memory"), &["--persist", "memory"]);
    refused(&at("memory/node-1"), 1, "begins anew at each start");
    refused(dir.path(), 3, "holds no data directory");
    refused(&at(&"x".repeat(300)), 1, "File name too long");
    let new = at("new");
    init_node(&new);
    refused(&new, 3, "whether other nodes hold a copy");
    let config = std::fs::read_to_string(at("disk/node-1.toml")).unwrap();
    let home = |at: &Path| format!("dir = {:?}", at.canonicalize().unwrap());
    let own = config.replace(&home(&at("disk/node-1")), &home(&new));
    assert_ne!(own, config);
    std::fs::write(at("new.toml"), own).unwrap();
    refused(&new, 1, "has never started");
    let alone = at("alone/node-1.toml");
    std::fs::rename(&alone, at("elsewhere.toml")).unwrap();
    refused(&at("alone/node-1"), 3, "--config FILE");
    let elsewhere = at("elsewhere.toml");
    for home in [at("alone/node-1"), at("disk/node-1")] {
        let words = ["--force", "--config", elsewhere.to_str().unwrap()];
        assert_eq!(rebuild(&home, &words).0, Some(7));
    }
    let (code, told, stderr) = rebuild(&at("disk/node-1"), &["--force"]);
    let start = &told["start"]["as"];
    assert_eq!((code, start), (Some(0), &"observer".into()), "{stderr}");
}

/// Claim rp-102. Each node in turn loses all that it had, while the others go on: nothing is lost, and nobody is missing.
#[test]
fn a_node_whose_directory_is_gone_is_made_whole_again_one_after_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["--dir", dir.path().to_str().unwrap()];
    let mut group = Group::start(&words);
    for (lost, sum) in [("1", "1"), ("2", "2"), ("3", "3")] {
        assert_eq!(group.add("1"), sum);
        assert_eq!(group.stop(), Some(0));
        std::fs::remove_dir_all(dir.path().join(format!("node-{lost}"))).unwrap();
        group = Group::start(&words);
        let begun = std::time::Instant::now();
        let is_whole = |group: &Group| {
            let status = group.status();
            let nodes = status["nodes"].as_array().unwrap();
            let votes = nodes.iter().filter(|node| {
                node["roles"].to_string().contains("acceptor") && node["is_serving"] == true
            });
            votes.count() == 3
        };
        while !is_whole(&group) {
            assert!(
                begun.elapsed().as_secs() < 30,
                "node {lost}: {}",
                group.status()
            );
        }
    }
    assert_eq!(group.add("1"), "4");
    let view = group.status()["view"]["number"].clone();
    assert_eq!(view, 4, "one view for each");
    assert_eq!(group.stop(), Some(0));
}

/// Claim rp-102.
#[test]
fn a_node_whose_directory_is_removed_while_it_runs_ends_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["--dir", dir.path().to_str().unwrap()];
    let mut group = Group::start(&words);
    assert_eq!(group.add("1"), "1");
    let home = dir.path().join("node-2");
    // The node may be making a file there at this moment.
    while std::fs::remove_dir_all(&home).is_err() {}
    group.wait_for("node 2 died");
    assert_eq!(group.add("2"), "3");
    group.wait_for("node 2 runs again");
    let begun = std::time::Instant::now();
    while group.status()["view"]["number"] != 2 {
        assert!(begun.elapsed().as_secs() < 30, "it never asks for a view");
    }
    votes_again(&group);
    assert!(dir.path().join("node-2/identity-a").exists());
    assert_eq!(group.stop(), Some(0));
}

/// Claim rp-102.
#[test]
fn a_node_in_memory_mode_comes_back_by_itself_and_a_majority_does_not_form_again() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["--persist", "memory", "--dir", dir.path().to_str().unwrap()];
    let mut group = Group::start(&words);
    assert_eq!(group.add("5"), "5");
    // More deaths than a majority survives at a time, one after the other.
    for sum in ["10", "15", "20"] {
        let killed = group.leader();
        signal(pid(&killed), "KILL");
        group.wait_for("it votes again by itself once it has caught up");
        let since = std::time::Instant::now();
        let voters = |group: &Group| {
            let status = group.status();
            let nodes = status["nodes"].as_array().unwrap().clone();
            let votes = |node: &&serde_json::Value| node["roles"].to_string().contains("acceptor");
            nodes.iter().filter(votes).count()
        };
        while voters(&group) < 3 {
            assert!(
                since.elapsed().as_secs() < 60,
                "it never votes again: {}",
                group.status()
            );
        }
        assert_eq!(group.add("5"), sum);
    }
    assert_eq!(group.stop(), Some(0));
    let all = [&["up", "rust:counter", "-o", "json"], &words[..]].concat();
    let again = run(&all);
    assert_eq!(again.status.code(), Some(4));
    assert!(
        text(&again.stderr).contains("the state is lost"),
        "{}",
        text(&again.stderr)
    );
    assert!(again.stdout.is_empty());
}

/// A majority that lost everything forms no group: the others cannot know what it voted.
#[test]
fn a_majority_whose_directories_are_gone_does_not_vote() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["--dir", dir.path().to_str().unwrap()];
    let mut group = Group::start(&words);
    assert_eq!(group.add("1"), "1");
    assert_eq!(group.stop(), Some(0));
    for lost in ["node-1", "node-2"] {
        std::fs::remove_dir_all(dir.path().join(lost)).unwrap();
    }
    let again = run(&[&["up", "rust:counter"], &words[..]].concat());
    assert_eq!(again.status.code(), Some(4), "{}", text(&again.stderr));
}

/// Claim rp-102. So it is left where somebody removed a directory while the node was writing there.
#[test]
fn what_is_left_of_a_directory_without_its_identity_is_put_aside() {
    let (dir, group) = harmed("3", |node| {
        for copy in ["identity-a", "identity-b"] {
            std::fs::remove_file(node.join(copy)).unwrap();
        }
    });
    assert_eq!(votes_again(&group), 2);
    assert_eq!(group.add("4"), "7");
    let aside = dir.path().join("node-2-aside-1");
    assert!(aside.join("log/log-00000001").exists(), "it is kept");
}

/// Only who is told to makes a directory anew.
#[test]
fn a_node_without_its_directory_does_not_start_by_itself() {
    let (dir, mut group) = harmed("3", |_| {});
    assert_eq!(group.stop(), Some(0));
    std::fs::remove_dir_all(dir.path().join("node-2")).unwrap();
    let config = dir.path().join("node-2.toml");
    let output = run(&["node", "run", "--config", config.to_str().unwrap()]);
    assert_ne!(output.status.code(), Some(0));
    assert!(!dir.path().join("node-2").exists());
}

#[test]
fn a_node_that_decides_alone_does_not_start_without_its_log() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["--nodes", "1", "--dir", dir.path().to_str().unwrap()];
    let mut group = Group::start(&words);
    assert_eq!(group.add("3"), "3");
    assert_eq!(group.stop(), Some(0));
    std::fs::remove_dir_all(dir.path().join("node-1/log")).unwrap();
    let config = dir.path().join("node-1.toml");
    let output = run(&["node", "run", "--config", config.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let says = text(&output.stderr);
    assert!(says.contains("lacks segments"), "{says}");
    assert!(says.contains("no other node holds a copy"), "{says}");
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn put_back(copied: &Path, home: &Path) {
    std::fs::remove_dir_all(home).unwrap();
    copy(copied, home);
}

/// Claim st-2.
#[test]
fn a_node_whose_directory_is_an_older_copy_is_told_by_its_peers_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["--dir", dir.path().to_str().unwrap()];
    let (home, old, newest) = (
        dir.path().join("node-2"),
        dir.path().join("old"),
        dir.path().join("newest"),
    );
    let mut group = Group::start(&words);
    assert_eq!(group.add("1"), "1");
    assert_eq!(group.stop(), Some(0));
    copy(&home, &old);
    let mut group = Group::start(&words);
    assert_eq!(group.add("2"), "3");
    assert_eq!(group.stop(), Some(0));
    copy(&home, &newest);

    // All nodes start anew: what they remember of each other is on disk.
    put_back(&old, &home);
    let mut group = Group::start(&words);
    let begun = std::time::Instant::now();
    let log = || std::fs::read_to_string(dir.path().join("node-2.log")).unwrap();
    while !log().contains("the data directory is an older copy") {
        assert!(begun.elapsed().as_secs() < 20, "never noticed");
    }
    assert_eq!(group.add("4"), "7");
    votes_again(&group);
    executes_though_it_lost_its_notes(&group, &home);
    assert_eq!(group.stop(), Some(0));

    put_back(&newest, &home);
    let mut group = Group::start(&words);
    assert_eq!(group.add("1"), "8");
    votes_again(&group);
    executes_though_it_lost_its_notes(&group, &home);
    assert_eq!(group.stop(), Some(0));
}

/// Node 2 knows that it does not know at which calls its hosts died, and executes what the others execute all the same. Claim rp-49.
fn executes_though_it_lost_its_notes(group: &Group, home: &Path) {
    let notes = std::fs::read_to_string(home.join("died-1")).unwrap();
    assert!(notes.starts_with("unknown"), "{notes}");
    let executed = |node: usize| group.status()["nodes"][node]["executed"].as_u64().unwrap();
    let least = executed(0);
    let begun = std::time::Instant::now();
    while executed(1) < least {
        assert!(begun.elapsed().as_secs() < 20, "it never executes");
    }
}

/// Flips a bit in the record of the log whose payload holds `needle`.
fn flip_at(log: &Path, needle: &[u8]) {
    let path = log.join("log-00000001");
    let mut content = std::fs::read(&path).unwrap();
    let at = content
        .windows(needle.len())
        .position(|window| window == needle)
        .expect("the record is there");
    content[at] ^= 1;
    std::fs::write(&path, content).unwrap();
}

fn log_of(dir: &Path, node: u16) -> std::path::PathBuf {
    dir.join(format!("node-{node}/log"))
}

/// How often the nodes' logs say that they found damage.
fn damage_said(dir: &Path) -> usize {
    let logs = (1..=3).map(|node| std::fs::read_to_string(dir.join(format!("node-{node}.log"))));
    let said = logs.map(|log| log.unwrap().matches("the log is damaged here").count());
    said.sum()
}

/// Claim mp-45.
#[test]
fn two_nodes_of_three_damaged_in_different_records_recover_and_start_clean_after_that() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["--dir", dir.path().to_str().unwrap()];
    let mut group = Group::start(&words);
    assert_eq!(group.add("1000001"), "1000001");
    assert_eq!(group.add("1000002"), "2000003");
    assert_eq!(group.add("1000003"), "3000006");
    group.stop_without_snapshot();
    flip_at(&log_of(dir.path(), 1), &1_000_001_u32.to_be_bytes());
    flip_at(&log_of(dir.path(), 2), &1_000_002_u32.to_be_bytes());
    let mut group = Group::start(&words);
    assert_eq!(group.add("1"), "3000007");
    let said = damage_said(dir.path());
    assert!(said >= 2, "both nodes say so");
    let begun = std::time::Instant::now();
    let repaired = |node: u16| {
        let log = std::fs::read_to_string(dir.path().join(format!("node-{node}.log")));
        log.unwrap().contains("the log is repaired")
    };
    while !(repaired(1) && repaired(2)) {
        assert!(begun.elapsed().as_secs() < 20, "never repaired");
    }
    assert_eq!(group.stop(), Some(0));
    let mut group = Group::start(&words);
    assert_eq!(group.add("1"), "3000008");
    assert_eq!(damage_said(dir.path()), said, "the next start is clean");
    assert_eq!(group.stop(), Some(0));
}
