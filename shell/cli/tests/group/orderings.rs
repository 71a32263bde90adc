//! How a group orders its commands, from its start on and switched while clients call.

use crate::{Group, pid, run, signal, text};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

fn switch(group: &Group, words: &[&str]) -> (Option<i32>, Value, String) {
    let all = [
        &["view"],
        words,
        &["--endpoint", group.endpoint()],
        &["-o", "json"],
    ]
    .concat();
    let output = run(&all);
    let told = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code(), told, text(&output.stderr))
}

fn switched(group: &Group, ordering: &str) -> Value {
    let (code, told, stderr) = switch(group, &["switch", "--ordering", ordering]);
    assert_eq!(code, Some(0), "{ordering}: {stderr}");
    told
}

fn refused(group: &Group, words: &[&str], code: i32, why: &str) {
    let (ended, _, stderr) = switch(group, words);
    assert_eq!(ended, Some(code), "{words:?}: {stderr}");
    assert!(stderr.contains(why), "{words:?}: {stderr}");
}

/// Ends what clients do in the background, also where the test has failed.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What three clients add, one call after the other, while something is done with the group.
fn added_meanwhile(group: &Group, act: impl FnOnce()) -> u64 {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let callers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let mut added = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        group.add("1");
                        added += 1;
                    }
                    added
                })
            })
            .collect();
        let over = Over(&is_over);
        act();
        drop(over);
        callers
            .into_iter()
            .map(|caller| caller.join().unwrap())
            .sum()
    })
}

/// Returns once every node is linked to all others.
fn all_linked(group: &Group) {
    let is_linked = |node: &Value| {
        let mut peers = node["peers"].as_array().into_iter().flatten();
        node["up"] == true && peers.all(|peer| peer["connected"] == true)
    };
    while !group.status()["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .all(is_linked)
    {}
}

fn ordering_of(group: &Group) -> (Value, Value) {
    let view = group.status()["view"].clone();
    (view["ordering"].clone(), view["level"].clone())
}

#[test]
fn a_group_is_switched_while_it_runs_and_outlives_its_leader() {
    let mut group = Group::start(&["--ordering", "libpaxos", "--level", "21"]);
    assert_eq!(ordering_of(&group), (json!("libpaxos"), json!(21)));
    assert_eq!(group.add("5"), "5");
    refused(
        &group,
        &["switch", "--ordering", "libpaxos"],
        2,
        "there is nothing to change",
    );
    refused(&group, &["set", "level=20"], 7, "takes level 21");
    let words = ["switch", "--ordering", "libpaxos+", "--dry-run"];
    let (code, told, stderr) = switch(&group, &words);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(
        told,
        json!({
            "after": 1, "ordering": "libpaxos+", "before": "libpaxos", "up": 3, "needed": 2, "warning": null,
        })
    );
    let told = switched(&group, "libpaxos+");
    assert_eq!(
        (&told["number"], &told["ordering"]),
        (&json!(2), &json!("libpaxos+"))
    );
    assert_eq!(ordering_of(&group).0, "libpaxos+");
    for sum in 6..30 {
        assert_eq!(group.add("1"), sum.to_string());
    }
    let killed = group.leader();
    signal(pid(&killed), "KILL");
    assert_eq!(group.add("1"), "30", "the others go on");
    group.wait_for("runs again");
    assert_eq!(group.add("1"), "31");
    switched(&group, "paxos");
    assert_eq!(group.add("1"), "32");
    assert_eq!(group.stop(), Some(0));
}

#[test]
fn what_cannot_be_switched_leaves_the_group_as_it_is() {
    let group = Group::start(&["--level", "19"]);
    assert_eq!(ordering_of(&group), (json!("paxos"), json!(19)));
    refused(
        &group,
        &["switch", "--ordering", "libpaxos"],
        7,
        "quorate view set level=21",
    );
    refused(&group, &["switch", "--ordering", "raft"], 2, "libpaxos+");
    refused(&group, &["switch"], 2, "--ordering");
    assert_eq!(group.add("5"), "5");
    assert_eq!(ordering_of(&group), (json!("paxos"), json!(19)));
    let low = run(&[
        "up",
        "rust:counter",
        "--port",
        "0",
        "--speaks",
        "20",
        "--ordering",
        "libpaxos",
    ]);
    assert_eq!(low.status.code(), Some(7), "{}", text(&low.stderr));
    assert!(
        text(&low.stderr).contains("level 21"),
        "{}",
        text(&low.stderr)
    );
    let unspoken = ["--level", "21", "--speaks", "20"];
    let above = run(&[&["up", "rust:counter", "--port", "0"], &unspoken[..]].concat());
    assert_eq!(above.status.code(), Some(2), "{}", text(&above.stderr));
}

#[test]
fn no_command_is_lost_or_doubled_by_switches_under_load() {
    let group = Group::start(&["--ordering", "paxos"]);
    let added = added_meanwhile(&group, || {
        for ordering in [
            "libpaxos",
            "libpaxos+",
            "ring_paxos",
            "paxos",
            "ring_paxos",
            "libpaxos",
            "ring_paxos",
            "s_paxos",
            "libpaxos+",
            "s_paxos",
            "paxos",
            "s_paxos",
        ] {
            switched(&group, ordering);
        }
    });
    assert_eq!(group.add("0"), added.to_string());
}

#[test]
fn a_group_with_fast_rounds_outlives_its_leader_and_a_follower() {
    let few = run(&[
        "up",
        "rust:counter",
        "--port",
        "0",
        "--ordering",
        "fast_paxos",
    ]);
    assert_eq!(few.status.code(), Some(7), "{}", text(&few.stderr));
    assert!(
        text(&few.stderr).contains("need 4 acceptors, not 3"),
        "{}",
        text(&few.stderr)
    );
    let mut group = Group::start(&["--nodes", "5", "--ordering", "fast_paxos", "--level", "23"]);
    assert_eq!(ordering_of(&group), (json!("fast_paxos"), json!(23)));
    refused(&group, &["set", "level=22"], 7, "takes level 23");
    let added = added_meanwhile(&group, || {
        let leader = group.leader();
        let nodes = group.status()["nodes"].clone();
        let mut others = nodes.as_array().unwrap().iter();
        let follower = others.find(|node| node["id"] != leader["id"]);
        for killed in [&leader, follower.unwrap()] {
            signal(pid(killed), "KILL");
            group.add("0");
        }
        // A switch needs as many links as elect with fast quorums: four of five.
        all_linked(&group);
        for ordering in [
            "libpaxos",
            "fast_paxos",
            "paxos",
            "fast_paxos",
            "libpaxos+",
            "fast_paxos",
        ] {
            switched(&group, ordering);
        }
    });
    assert_eq!(group.add("0"), added.to_string());
    assert_eq!(group.stop(), Some(0));
}

/// What the nodes that the group was started with tell of the rounds in which they decided.
fn rounds(group: &Group) -> Vec<(Value, Value)> {
    let nodes = group.status()["nodes"].clone();
    let nodes = nodes.as_array().unwrap().iter();
    nodes
        .map(|node| (node["id"].clone(), node["rounds"].clone()))
        .collect()
}

/// Claim fp-21.
#[test]
fn the_leader_of_a_group_with_fast_rounds_tells_how_many_it_decided_in_each_kind() {
    let group = Group::start(&["--nodes", "4", "--ordering", "fast_paxos"]);
    let calls = 10;
    for _ in 0..calls {
        group.add("1");
    }
    let leader = group.leader()["id"].clone();
    for (node, rounds) in rounds(&group) {
        let [fast, classic, collisions] =
            ["fast", "classic", "collisions"].map(|kind| rounds[kind].as_u64().unwrap());
        assert!(collisions <= classic, "n{node}: {rounds}");
        if node == leader {
            assert!(fast > 0 && fast + classic >= calls, "n{node}: {rounds}");
        } else {
            assert_eq!((fast, classic), (0, 0), "n{node} has not led");
        }
    }
    switched(&group, "paxos");
    for (node, rounds) in rounds(&group) {
        assert_eq!(rounds, Value::Null, "n{node} has no fast rounds");
    }
}
