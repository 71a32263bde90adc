//! Nodes whose data directory lacks what they had written.

use crate::{Group, http, run, text};
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

fn shows_that_node_2_observes(group: &Group) {
    let status = group.status();
    let node = &status["nodes"][1];
    assert_eq!(node["roles"], serde_json::json!(["replica", "observer"]));
    let why = node["observes"].as_str().unwrap();
    assert!(why.contains("lost votes"), "{why}");
    assert!(why.contains("newest data directory back"), "{why}");
    let shown = text(&group.quorate(&["status"]).stdout);
    assert!(shown.contains("node 2 does not vote"), "{shown}");
    let admin = group.ready["nodes"][1]["admin"].as_str().unwrap();
    assert!(http(admin, "/metrics").contains("quorate_observes{group=\"1\",node=\"2\"} 1"));
    assert!(http(admin, "/readyz").contains("does not vote"));
    assert_eq!(group.add("4"), "7", "the others go on");
}

/// Claim st-1.
#[test]
fn a_node_whose_log_directory_is_gone_observes_and_says_so_everywhere() {
    let (_dir, group) = harmed("3", |node| {
        std::fs::remove_dir_all(node.join("log")).unwrap();
    });
    shows_that_node_2_observes(&group);
}

#[test]
fn a_node_whose_newest_segment_is_gone_observes_and_says_so_everywhere() {
    let (_dir, group) = harmed("3", |node| {
        std::fs::remove_file(node.join("log/log-00000001")).unwrap();
    });
    shows_that_node_2_observes(&group);
}

#[test]
fn a_group_starts_without_a_node_whose_directory_is_gone_and_names_it() {
    let (_dir, mut group) = harmed("3", |node| {
        std::fs::remove_dir_all(node).unwrap();
    });
    group.wait_for("node 2 did not start");
    assert_eq!(group.add("4"), "7", "the others go on");
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
fn a_node_whose_directory_is_an_older_copy_is_told_by_its_peers_and_observes_until_the_newest_is_back()
 {
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
    while group.status()["nodes"][1]["observes"].is_null() {
        assert!(begun.elapsed().as_secs() < 20, "never noticed");
    }
    let why = group.status()["nodes"][1]["observes"].clone();
    assert!(why.as_str().unwrap().contains("older copy"), "{why}");
    assert_eq!(group.add("4"), "7");
    executes_though_it_lost_its_notes(&group, &home);
    assert_eq!(group.stop(), Some(0));

    put_back(&newest, &home);
    let mut group = Group::start(&words);
    assert_eq!(group.add("1"), "8");
    let status = group.status();
    let roles = status["nodes"][1]["roles"].to_string();
    assert!(roles.contains("acceptor"), "{status}");
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
    assert_eq!(group.stop(), Some(0));
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
