//! Quorums of other sizes than majorities, in groups of real processes.

use crate::{Group, pid, run, signal, text};
use serde_json::{Value, json};

fn view(group: &Group, words: &[&str]) -> (Option<i32>, Value, String) {
    let all = [
        &["view"],
        words,
        &["--endpoint", group.endpoint()],
        &["-o", "json"],
    ];
    let output = run(&all.concat());
    let told = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code(), told, text(&output.stderr))
}

fn refused(words: &[&str], code: i32, why: &str) {
    let output = run(&[&["up", "rust:counter", "--port", "0"], words].concat());
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{words:?}: {stderr}");
    assert!(stderr.contains(why), "{words:?}: {stderr}");
}

/// Kills nodes that do not lead, so many.
fn kill_others(group: &Group, count: usize) -> Vec<u32> {
    let leader = group.leader()["id"].clone();
    let status = group.status();
    let nodes = status["nodes"].as_array().unwrap();
    let others = nodes.iter().filter(|node| node["id"] != leader);
    let killed: Vec<u32> = others.take(count).map(pid).collect();
    for pid in &killed {
        signal(*pid, "KILL");
    }
    killed
}

/// Claim mp-85. Claim mp-86.
#[test]
fn of_five_nodes_two_answer_calls_and_reads_while_their_leader_stands() {
    let group = Group::start(&["--nodes", "5", "--quorums", "4,2", "--no-restart"]);
    let (_, shown, _) = view(&group, &["show"]);
    assert_eq!(
        shown["quorums"],
        json!({"rule": "4,2", "phase1": 4, "phase2": 2, "fast": null})
    );
    assert_eq!(group.add("5"), "5");
    kill_others(&group, 3);
    for sum in 6..20 {
        assert_eq!(group.add("1"), sum.to_string(), "two of five decide");
    }
    let read = group.quorate(&["call", "counter", "get"]);
    assert!(read.status.success(), "{}", text(&read.stderr));
    assert_eq!(text(&read.stdout).trim(), "19", "and confirm who leads");
    for words in [&["set", "quorums=majority"][..], &["set", "window=64"]] {
        let (code, _, stderr) = view(&group, words);
        assert_eq!(code, Some(7), "{words:?}: {stderr}");
        assert!(stderr.contains("the group would stop"), "{stderr}");
    }
    let leader = group.leader();
    signal(pid(&leader), "KILL");
    let call = ["call", "counter", "add", "1", "--timeout", "3"];
    let stopped = group.quorate(&call);
    assert!(!stopped.status.success(), "one is left, and four elect");
}

/// Claim rp-140.
#[test]
fn quorums_are_changed_while_the_group_runs_and_follow_who_votes() {
    let group = Group::start(&["--nodes", "4", "--level", "19"]);
    let (code, _, stderr) = view(&group, &["set", "quorums=3,2"]);
    assert_eq!(code, Some(7), "{stderr}");
    assert!(stderr.contains("quorate view set level=28"), "{stderr}");
    let (code, _, stderr) = view(&group, &["set", "level=28"]);
    assert_eq!(code, Some(0), "{stderr}");
    let (code, _, stderr) = view(&group, &["set", "quorums=2,2"]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("use 3,2 or 2,3"), "{stderr}");
    let (code, told, stderr) = view(&group, &["set", "quorums=3,2", "--dry-run"]);
    assert_eq!(code, Some(0), "{stderr}");
    let tolerates = "4 acceptors: 2 decide, 3 elect a leader; the group goes on without 1, under the leader that it has without 2";
    assert_eq!(told["tolerates"], tolerates);
    let (code, told, stderr) = view(&group, &["set", "quorums=3,2"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(told["tolerates"], tolerates);
    assert_eq!(group.add("5"), "5");
    let (code, told, stderr) = view(&group, &["remove", "4", "--role", "acceptor"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(
        told["tolerates"],
        "3 acceptors: 2 decide; the group goes on without 1"
    );
    let (code, _, stderr) = view(&group, &["add", "4"]);
    assert_eq!(code, Some(0), "{stderr}");
    let rule = group.status()["view"]["quorums"]["rule"].clone();
    assert_eq!(
        rule, "3,2",
        "what was asked for is kept, not what three happen to need"
    );
    assert_eq!(group.add("1"), "6");
    let (code, _, stderr) = view(&group, &["set", "level=27"]);
    assert_eq!(code, Some(7), "{stderr}");
    let (code, _, stderr) = view(&group, &["set", "quorums=majority"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(group.add("1"), "7");
}

/// Claim rp-140.
#[test]
fn quorums_that_cannot_be_are_refused_before_anything_is_made() {
    refused(&["--nodes", "5", "--quorums", "3,2"], 2, "use 4,2 or 3,3");
    refused(
        &["--nodes", "3", "--quorums", "4,1"],
        2,
        "not between 1 and 3",
    );
    refused(&["--quorums", "two"], 2, "PHASE1,PHASE2");
    refused(&["--quorums", "2,2,3"], 2, "has no fast rounds");
    refused(&["--quorums", "3,1", "--persist", "memory"], 7, "in memory");
    let fast = ["--nodes", "5", "--ordering", "fast_paxos", "--quorums"];
    refused(
        &[&fast[..], &["4,2,3"]].concat(),
        2,
        "use fast quorums of 4",
    );
    refused(&[&fast[..], &["2,4"]].concat(), 7, "needs the votes of all");
}
