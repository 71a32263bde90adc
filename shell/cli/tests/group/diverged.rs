//! A node whose objects differ from the majority's, over a restart.

use crate::{Group, Nodes, QUORATE, http, pid, signal, text};
use quorate_node::NodeConfig;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const PATIENCE_S: u64 = 30;

/// The only object begins with another number at this node than at the others.
fn begin_otherwise(config: &Path) {
    begin_with(config, "[100]");
}

fn begin_with(config: &Path, args: &str) {
    let mut changed = NodeConfig::read(config).unwrap();
    changed.objects[0].args = Some(args.to_owned());
    std::fs::write(config, changed.to_toml()).unwrap();
}

/// What the node itself says on its admin port, once `holds` of it.
fn status_when(node: &Value, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let since = Instant::now();
    loop {
        let answer = http(node["admin"].as_str().unwrap(), "/status");
        let body = answer.split("\r\n\r\n").nth(1);
        let status = body.and_then(|body| serde_json::from_str(body).ok());
        if let Some(status) = status.filter(|status| holds(status)) {
            return status;
        }
        let waited = since.elapsed().as_secs();
        assert!(waited < PATIENCE_S, "never {what}: {answer}");
    }
}

/// Claim rp-26.
#[test]
fn a_node_that_differs_is_still_quarantined_after_a_restart_and_heals_from_the_others_visibly() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["--dir", dir.path().to_str().unwrap()];
    Group::start(&words).stop_without_snapshot();
    begin_otherwise(&dir.path().join("node-3.toml"));
    let mut group = Group::start(&words);
    let nodes = group.ready["nodes"].as_array().unwrap().clone();
    let (others, odd) = (&nodes[..2], &nodes[2]);

    // The others agree on a snapshot while the odd one stands still; what they say of it lies in its sockets' buffers.
    signal(pid(odd), "STOP");
    assert_eq!(group.add("7"), "7");
    let snapshot = group.quorate(&["snapshot"]);
    let slot: u64 = text(&snapshot.stdout).trim().parse().unwrap();
    for other in others {
        status_when(other, "agreed", |status| {
            status["trimmed"].as_u64() >= Some(slot)
        });
    }
    others.iter().for_each(|other| signal(pid(other), "STOP"));
    signal(pid(odd), "CONT");
    let differs = |status: &Value| status["diverged"] == slot;
    status_when(odd, "diverged", differs);

    // It ends in quarantine, and nobody is there to tell the next life of it.
    signal(pid(odd), "KILL");
    group.wait_for("node 3 runs again");
    let status = status_when(odd, "quarantined again", |status| status["id"] == 3);
    assert_eq!(status["diverged"], slot, "{status}");
    assert_eq!(status["healed"], Value::Null, "{status}");
    assert!(dir.path().join("node-3/quarantine-1").exists());

    others.iter().for_each(|other| signal(pid(other), "CONT"));
    let status = status_when(odd, "healed", |status| status["healed"].is_u64());
    assert_eq!(status["diverged"], Value::Null, "{status}");
    assert!(status["healed"].as_u64() >= Some(slot), "{status}");
    let since = Instant::now();
    let says = |words: &str| {
        let log = std::fs::read_to_string(dir.path().join("node-3.log"));
        log.unwrap().contains(words)
    };
    // The note goes with the next write, and the log reaches its file by another process.
    assert_eq!(group.add("1"), "8");
    while !(says("objects differ from the majority's") && says("healed: the objects")) {
        let log = std::fs::read_to_string(dir.path().join("node-3.log")).unwrap();
        assert!(since.elapsed().as_secs() < PATIENCE_S, "never said: {log}");
    }
    let agree = || {
        let status = group.status();
        let nodes = status["nodes"].as_array().unwrap();
        let digest = &nodes[0]["digest"];
        !digest.is_null() && nodes.iter().all(|node| node["digest"] == *digest)
    };
    while !agree() {
        assert!(since.elapsed().as_secs() < PATIENCE_S, "{}", group.status());
    }
}

/// Claim rp-38.
#[test]
fn a_node_with_another_outcome_is_named_with_slot_and_method_and_heals() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["--dir", dir.path().to_str().unwrap()];
    Group::start(&words).stop_without_snapshot();
    begin_otherwise(&dir.path().join("node-3.toml"));
    let group = Group::start(&words);
    let nodes = group.ready["nodes"].as_array().unwrap().clone();
    // Whichever node answers, its objects execute this, and nobody takes a snapshot.
    group.add("7");
    for node in &nodes {
        let status = status_when(node, "named", |status| status["drift"].is_object());
        let drift = &status["drift"];
        assert_eq!(drift["node"], 3, "{status}");
        assert_eq!(drift["is_exact"], true, "{status}");
        assert_eq!(
            (&drift["object"], &drift["method"]),
            (&Value::from("counter"), &Value::from("add"))
        );
        assert!(status["diverged"].is_null() || node["id"] == 3, "{status}");
    }
    status_when(&nodes[2], "healed", |status| status["healed"].is_u64());
    let output = group.quorate(&["status"]);
    let named = "node 3 had another outcome than others, first at slot";
    assert!(text(&output.stdout).contains(named), "{output:?}");
    assert_eq!(group.add("1"), "8");
}

/// A group of which no two nodes began alike, once all of them have found that out; and the slot.
fn frozen(dir: &Path) -> (Group, u64) {
    let words = ["--dir", dir.to_str().unwrap()];
    Group::start(&words).stop_without_snapshot();
    begin_with(&dir.join("node-2.toml"), "[100]");
    begin_with(&dir.join("node-3.toml"), "[200]");
    let group = Group::start(&words);
    group.add("7");
    let nodes = group.ready["nodes"].as_array().unwrap();
    let mut slots = nodes.iter().map(|node| {
        let status = status_when(node, "frozen", |status| status["frozen"].is_u64());
        status["frozen"].as_u64().unwrap()
    });
    let slot = slots.next().unwrap();
    assert!(slots.all(|other| other == slot));
    (group, slot)
}

#[test]
fn a_call_of_a_frozen_object_fails_with_object_slot_and_method() {
    let dir = tempfile::tempdir().unwrap();
    let (group, slot) = frozen(dir.path());
    let output = group.quorate(&["call", "counter", "add", "1", "--timeout", "1"]);
    let said = text(&output.stderr);
    assert!(
        said.contains(&format!("the objects are frozen at slot {slot}")),
        "{said}"
    );
    assert!(said.contains("in counter.add"), "{said}");
    let place = slot.to_string();
    let words = ["object", "skip", "--endpoint", group.endpoint(), &place];
    let skip = crate::run(&words);
    assert_eq!(skip.status.code(), Some(7), "{skip:?}");
    let said = text(&skip.stderr);
    assert!(said.contains(&format!("frozen at slot {slot}")), "{said}");
    assert!(said.contains("quorate object reset --from NODE"), "{said}");
}

/// Claim rp-26.
#[test]
fn objects_that_are_frozen_are_so_after_a_restart_that_hears_of_no_other_node() {
    let dir = tempfile::tempdir().unwrap();
    let (mut group, slot) = frozen(dir.path());
    for node in group.ready["nodes"].as_array().unwrap() {
        signal(pid(node), "KILL");
    }
    group.stop();
    let config = dir.path().join("node-1.toml");
    let child = Command::new(QUORATE)
        .args(["node", "run", "--config", config.to_str().unwrap()])
        .stderr(Stdio::null())
        .spawn();
    let _alone = Nodes(vec![child.unwrap()]);
    let node = &group.ready["nodes"][0];
    let status = status_when(node, "up again", |status| status["id"] == 1);
    assert_eq!(status["frozen"], slot, "{status}");
    assert_eq!(status["is_serving"], false, "{status}");
    let ready = http(node["admin"].as_str().unwrap(), "/readyz");
    assert!(ready.starts_with("HTTP/1.1 503"), "{ready}");
}

fn reset(group: &Group, words: &[&str]) -> std::process::Output {
    let endpoint = group.endpoint().to_owned();
    crate::run(&[&["object", "reset", "--endpoint", endpoint.as_str()], words].concat())
}

/// Claim rp-51.
#[test]
fn an_operator_ends_a_freeze_with_the_state_of_one_node_and_a_restart_does_not_bring_it_back() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["--dir", dir.path().to_str().unwrap()];
    Group::start(&words).stop_without_snapshot();
    begin_with(&dir.path().join("node-2.toml"), "[100]");
    begin_with(&dir.path().join("node-3.toml"), "[200]");
    let mut group = Group::start(&words);
    let nodes = group.ready["nodes"].as_array().unwrap().clone();
    let early = reset(&group, &["--from", "2", "--yes"]);
    assert_eq!(early.status.code(), Some(7), "{early:?}");
    assert!(text(&early.stderr).contains("not frozen"), "{early:?}");
    group.add("7");
    for node in &nodes {
        status_when(node, "frozen", |status| status["frozen"].is_u64());
    }
    let unknown = reset(&group, &["--from", "9", "--yes"]);
    assert_eq!(unknown.status.code(), Some(3), "{unknown:?}");
    let unasked = reset(&group, &["--from", "2"]);
    assert_eq!(unasked.status.code(), Some(2), "{unasked:?}");
    assert!(text(&unasked.stderr).contains("may be lost"), "{unasked:?}");

    let done = reset(&group, &["--from", "2", "--yes"]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let slot: u64 = text(&done.stdout).trim().parse().unwrap();
    assert_eq!(group.add("1"), "108", "the state of node 2 counts");
    for node in &nodes {
        let status = status_when(node, "let go on", |status| status["frozen"].is_null());
        assert!(status["executed"].as_u64() >= Some(slot), "{status}");
    }
    assert_eq!(group.stop(), Some(0));
    let group = Group::start(&words);
    assert_eq!(group.add("1"), "109");
    for node in group.ready["nodes"].as_array().unwrap() {
        status_when(node, "sound", |status| {
            status["frozen"].is_null() && status["is_serving"] == true
        });
    }
}
