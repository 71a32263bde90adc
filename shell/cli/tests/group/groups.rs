//! Further groups on the nodes of a cluster: created, served, found from any node, and dropped.

use crate::{Group, pid, run, signal, text};
use quorate_client::node_status;
use quorate_types::GroupId;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The endpoint of a group, by the addresses of the cluster's.
fn at(group: &Group, name: &str) -> String {
    let nodes = group.endpoint().trim_end_matches("/counter");
    nodes.replace("quorate://", &format!("quorate://{name}@"))
}

fn create(group: &Group, words: &[&str]) -> Output {
    let all = ["group", "create", "--endpoint", group.endpoint()];
    run(&[&all[..], words].concat())
}

fn created(group: &Group, words: &[&str]) -> String {
    let output = create(group, words);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).trim().to_owned()
}

fn listed(group: &Group) -> Vec<Value> {
    let output = run(&[
        "group",
        "list",
        "--endpoint",
        group.endpoint(),
        "-o",
        "json",
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn call(endpoint: &str, words: &[&str]) -> Result<String, (Option<i32>, String)> {
    let output = run(&[&["call", "--endpoint", endpoint], words].concat());
    match output.status.success() {
        true => Ok(text(&output.stdout).trim().to_owned()),
        false => Err((output.status.code(), text(&output.stderr))),
    }
}

fn add(endpoint: &str, amount: &str) -> String {
    call(endpoint, &["counter", "add", amount]).unwrap()
}

fn dropped(group: &Group, name: &str) -> Output {
    run(&["group", "drop", name, "--endpoint", group.endpoint()])
}

/// The directories of a group's nodes.
fn directories(dir: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for node in std::fs::read_dir(dir).unwrap() {
        let groups = node.unwrap().path().join("groups");
        let inside = std::fs::read_dir(groups).into_iter().flatten();
        let paths = inside.map(|entry| entry.unwrap().path());
        let is_its = |path: &PathBuf| path.display().to_string().contains(&format!("/{name}@"));
        found.extend(paths.filter(is_its));
    }
    found.sort();
    found
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !holds() {
        assert!(begun.elapsed().as_secs() < 60, "not yet: {what}");
    }
}

/// Claim rp-105.
#[test]
fn a_group_has_a_log_of_its_own_until_it_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["--dir", dir.path().to_str().unwrap()];
    let mut group = Group::start(&words);
    let orders = created(&group, &["orders", "rust:counter", "--nodes", "1,2,3"]);
    assert_eq!(orders, at(&group, "orders"));
    assert_eq!(add(&orders, "5"), "5");
    assert_eq!(group.add("1"), "1", "the first group's counter is another");
    assert_eq!(
        created(&group, &["orders", "rust:counter"]),
        orders,
        "asked twice"
    );
    let told = &listed(&group)[0];
    assert_eq!(told["name"], "orders");
    assert_eq!(told["nodes"], serde_json::json!([1, 2, 3]));
    assert_eq!(told["objects"][0]["class"], "rust:counter");
    // The leader of both may be the same node.
    signal(pid(&group.leader()), "KILL");
    assert_eq!(add(&orders, "5"), "10", "the others go on");
    group.wait_for("runs again");
    assert_eq!(group.stop(), Some(0));

    let mut group = Group::start(&words);
    let orders = at(&group, "orders");
    assert_eq!(add(&orders, "1"), "11", "nothing is lost when all stop");
    assert_eq!(directories(dir.path(), "orders").len(), 3);
    let gone = dropped(&group, "orders");
    assert!(gone.status.success(), "{}", text(&gone.stderr));
    until("its directories are gone", || {
        directories(dir.path(), "orders").is_empty()
    });
    let (code, says) = call(&orders, &["counter", "get"]).unwrap_err();
    assert_eq!(code, Some(3), "{says}");
    let again = dropped(&group, "orders");
    assert_eq!(again.status.code(), Some(3));
    assert!(text(&again.stderr).contains("no group beside its first one"));
    let orders = created(&group, &["orders", "rust:counter"]);
    assert_eq!(add(&orders, "2"), "2", "another group of that name");
    assert_eq!(group.stop(), Some(0));
}

/// Its leader speaks once a second while nobody has a session, and more often while there is one that may have to end.
#[test]
fn a_session_in_a_group_ends_when_its_client_is_killed() {
    let group = Group::start(&["--persist", "memory"]);
    let words = ["left", "rust:counter", "--persist", "memory"];
    let left = created(&group, &words);
    let sessions = || {
        let output = run(&["status", "--endpoint", &left, "-o", "json"]);
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        status["nodes"][0]["counts"]["sessions"].as_u64().unwrap()
    };
    let words = ["bench", "--endpoint", &left, "--seconds", "600"];
    let mut client = Command::new(crate::QUORATE)
        .args(words)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until("a client has a session", || sessions() > 0);
    client.kill().unwrap();
    client.wait().unwrap();
    until("it has ended", || sessions() == 0);
}

/// Claim rp-105.
#[test]
fn a_group_is_found_from_a_node_that_does_not_serve_it() {
    let group = Group::start(&["--nodes", "5", "--persist", "memory"]);
    let words = [
        "small",
        "rust:counter",
        "--nodes",
        "2,4,5",
        "--persist",
        "memory",
    ];
    created(&group, &words);
    let first = group.ready["nodes"][0]["address"].as_str().unwrap();
    let small = format!("quorate://small@{first}");
    assert_eq!(add(&small, "4"), "4");
    created(
        &group,
        &["one", "rust:counter", "--nodes", "3", "--persist", "memory"],
    );
    let one = format!("quorate://one@{first}");
    assert_eq!(add(&one, "2"), "2", "of one node only");
    let output = run(&["status", "--endpoint", &small, "-o", "json"]);
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    let nodes = status["nodes"].as_array().unwrap();
    let ids: Vec<u64> = nodes
        .iter()
        .map(|node| node["id"].as_u64().unwrap())
        .collect();
    assert_eq!(ids, [2, 4, 5]);
}

/// Claim rp-105.
#[test]
fn a_node_that_lost_a_groups_directory_comes_back_to_the_group_as_another_incarnation() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["--dir", dir.path().to_str().unwrap()];
    let mut group = Group::start(&words);
    let orders = created(&group, &["orders", "rust:counter"]);
    assert_eq!(add(&orders, "5"), "5");
    assert_eq!(group.stop(), Some(0));
    let lost = &directories(dir.path(), "orders")[1];
    std::fs::remove_dir_all(lost).unwrap();
    let mut group = Group::start(&words);
    let orders = at(&group, "orders");
    assert_eq!(add(&orders, "1"), "6");
    until("it votes again through a view", || {
        let output = run(&["status", "--endpoint", &orders, "-o", "json"]);
        let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let roles = status["nodes"][1]["roles"].to_string();
        status["view"]["number"] == 2 && roles.contains("acceptor")
    });
    assert_eq!(group.stop(), Some(0));
}

#[test]
fn a_group_whose_class_the_nodes_lack_is_told_at_once_and_by_its_status() {
    let group = Group::start(&["--persist", "memory"]);
    let begun = Instant::now();
    let words = ["wrong", "absent_module:Shop", "--persist", "memory"];
    let output = create(&group, &[&words[..], &["--timeout", "600"]].concat());
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(begun.elapsed().as_secs() < 60, "it waited for a leader");
    let why = "no module 'absent_module'";
    assert!(stderr.contains(why), "{stderr}");
    assert!(stderr.contains("quorate group drop wrong"), "{stderr}");
    until("the status says why", || {
        let output = run(&["status", "--endpoint", &at(&group, "wrong")]);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{stderr}");
        assert!(!stderr.contains("end of file"), "{stderr}");
        // A node that tries again is starting for a moment.
        stderr.contains(why)
    });
    until("a call is told what the status says", || {
        let words = ["counter", "add", "1", "--timeout", "1"];
        let (code, stderr) = call(&at(&group, "wrong"), &words).unwrap_err();
        assert_eq!(code, Some(4), "{stderr}");
        assert!(!stderr.contains("end of file"), "{stderr}");
        stderr.contains(why) && stderr.contains("no node of the group wrong answers")
    });
    let first = group.ready["nodes"][0]["address"].as_str().unwrap();
    let wrong = GroupId::named("wrong");
    until("the node itself says why", || {
        let told = node_status(first, wrong, Duration::from_secs(5), None).unwrap_err();
        let told = told.to_string();
        told.contains("this node does not serve the group: ") && told.contains(why)
    });
}

#[test]
fn what_no_group_can_be_is_refused_and_changes_nothing() {
    let group = Group::start(&["--persist", "memory"]);
    let refused = |words: &[&str], wanted: i32, says: &str| {
        let output = create(&group, words);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(wanted), "{words:?}: {stderr}");
        assert!(stderr.contains(says), "{words:?}: {stderr}");
    };
    refused(&["a/b", "rust:counter"], 2, "not the name of a group");
    refused(&["orders", "counter"], 2, "not a class");
    refused(&["orders", "rust:counter", "--args", "[1"], 2, "--args");
    refused(
        &["orders", "rust:counter", "--nodes", "1,9"],
        3,
        "node 9 is no replica",
    );
    assert!(listed(&group).is_empty());
    created(&group, &["orders", "rust:counter", "--persist", "memory"]);
    refused(
        &["orders", "rust:kv", "--persist", "memory"],
        7,
        "there is a group orders",
    );
    let (code, says) = call(group.endpoint(), &["orders", "add", "1"]).unwrap_err();
    assert_eq!(code, Some(3), "{says}");
    assert!(says.contains("which has: counter"), "{says}");
    assert!(says.contains("--group orders"), "{says}");
    let inside = at(&group, "orders");
    let words = [
        "group",
        "create",
        "b",
        "rust:counter",
        "--endpoint",
        &inside,
    ];
    let output = run(&words);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let unknown = call(&at(&group, "ordres"), &["counter", "get"]).unwrap_err();
    assert_eq!(unknown.0, Some(3), "{}", unknown.1);
    assert_eq!(listed(&group).len(), 1);
    refused(&["broken", "rust:countr"], 2, "no built-in object");
    refused(
        &["broken", "rust:counter", "--args", "[true]"],
        2,
        "counter",
    );
    // Only the nodes know which modules they have.
    let output = create(&group, &["broken", "nosuch:Thing"]);
    let says = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{says}");
    assert!(says.contains("; node "), "{says}");
    assert!(dropped(&group, "broken").status.success());
    let words = ["node", "invite", "--endpoint", &inside];
    let output = run(&words);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}

/// Claim rp-105.
#[test]
fn a_node_that_left_a_group_names_those_that_serve_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut group = Group::start(&["--dir", dir.path().to_str().unwrap()]);
    let orders = created(&group, &["orders", "rust:counter"]);
    assert_eq!(add(&orders, "5"), "5");
    let left = run(&["view", "remove", "3", "--force", "--endpoint", &orders]);
    assert!(left.status.success(), "{}", text(&left.stderr));
    until("its node has left", || {
        let told = listed(&group)[0]["states"].to_string();
        told.contains("left")
    });
    let third = group.ready["nodes"][2]["address"].as_str().unwrap();
    let by_third = format!("quorate://orders@{third}");
    until("it sends clients to the others", || {
        call(&by_third, &["counter", "get", "--timeout", "2"]).is_ok_and(|told| told == "5")
    });
    assert!(dropped(&group, "orders").status.success());
    until("its directories are gone", || {
        directories(dir.path(), "orders").is_empty()
    });
    assert_eq!(group.stop(), Some(0));
}

/// Claim rp-105.
#[test]
fn nodes_that_came_back_serve_new_groups() {
    let mut group = Group::start(&["--persist", "memory"]);
    assert_eq!(group.add("1"), "1");
    for node in 0..3 {
        let status = group.status();
        signal(pid(&status["nodes"][node]), "KILL");
        group.wait_for("runs again");
        until("it votes again", || {
            let status = group.status();
            let nodes = status["nodes"].as_array().unwrap().iter();
            let votes = nodes.filter(|node| node["roles"].to_string().contains("acceptor"));
            votes.count() == 3
        });
    }
    let words = ["later", "rust:counter", "--persist", "memory"];
    let later = created(&group, &words);
    assert_eq!(add(&later, "3"), "3");
}

/// What is called for by features of the newest level works in a new group too; repeating the command changes nothing.
#[test]
fn a_group_begins_at_the_level_of_the_first_one() {
    let group = Group::start(&["--level", "27"]);
    let words = ["low", "rust:counter", "--nodes", "1,2,3"];
    let low = created(&group, &words);
    let first = |endpoint: &str| {
        let view = shown(endpoint);
        (view["number"].clone(), view["level"].clone())
    };
    assert_eq!(first(&low), (1.into(), 19.into()));
    let set = ["view", "set", "level=28", "--endpoint", group.endpoint()];
    let output = run(&set);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(created(&group, &words), low, "it is the same group");
    let high = created(&group, &["high", "rust:counter"]);
    assert_eq!(first(&high), (1.into(), 28.into()));
    assert_eq!(add(&high, "1"), "1");
    assert_eq!(first(&low), (1.into(), 19.into()));
}

/// The view that `endpoint` shows.
fn shown(endpoint: &str) -> Value {
    let output = run(&["view", "show", "--endpoint", endpoint, "-o", "json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}
