//! A member that was down while all that it knew left the group.

use crate::joining::ended;
use crate::members::{Joined, add, invited, json_of, members};
use crate::{Group, QUORATE, run, signal, text};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Tries to let a node leave; each of them takes a whole process.
const TRIES: usize = 500;

fn stop(joined: &mut Joined) {
    signal(joined.child.id(), "TERM");
    assert_eq!(joined.child.wait().unwrap().code(), Some(0));
}

/// Nodes 1 to 3 vote; then 4 and 5 do, 1 and 2 leave, and 3, in `dir`, is down meanwhile.
fn all_but_one_replaced(group: &Group, place: &Path, dir: &Path) -> (String, [Joined; 2]) {
    let first = group.endpoint().trim_end_matches("/counter").to_owned();
    let joins = |endpoint: &str, dir: &Path, words: &[&str]| {
        Joined::start(endpoint, &invited(endpoint, &[]), dir, words)
    };
    let second = joins(&first, &place.join("2"), &[]);
    let mut third = joins(&first, dir, &[]);
    let own = third.told["address"].as_str().unwrap().to_owned();
    stop(&mut third);
    let fourth = joins(&first, &place.join("4"), &[]);
    let fifth = joins(&first, &place.join("5"), &[]);
    remove(&fourth.address(), "1");
    remove(&fourth.address(), "2");
    drop(second);
    (own, [fourth, fifth])
}

/// The node that is asked may not be linked to the newest one yet.
fn remove(endpoint: &str, node: &str) {
    for _ in 0..TRIES {
        let words = ["view", "remove", node, "--force", "--endpoint", endpoint];
        let removed = run(&words);
        if removed.status.success() {
            return;
        }
        let told = text(&removed.stderr);
        assert!(
            told.contains("are linked to the node that was asked"),
            "{told}"
        );
    }
    panic!("node {node} cannot leave");
}

fn runs(dir: &Path, words: &[&str]) -> Child {
    let mut command = Command::new(QUORATE);
    command
        .args(["node", "run", "--config"])
        .arg(dir.join("node.toml"));
    command.args(words).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until a node serves in the view of the others.
fn wait_until_serving(node: &mut Child, address: &str, view: &Value) {
    loop {
        assert!(node.try_wait().unwrap().is_none(), "it runs");
        let asked = run(&[
            "status",
            "-o",
            "json",
            "--endpoint",
            &format!("quorate://{address}"),
        ]);
        let status: Value = serde_json::from_slice(&asked.stdout).unwrap_or_default();
        let nodes = status["nodes"].as_array().into_iter().flatten();
        let mut own = nodes.filter(|node| node["address"] == address);
        if own.any(|node| node["is_serving"] == true) && status["view"]["number"] == *view {
            return;
        }
    }
}

#[test]
fn a_member_that_was_down_while_all_others_were_replaced_is_told_one_address() {
    let place = tempfile::tempdir().unwrap();
    let group = Group::start(&["--nodes", "1"]);
    assert_eq!(group.add("5"), "5");
    let dir = place.path().join("3");
    let (own, [fourth, _fifth]) = all_but_one_replaced(&group, place.path(), &dir);
    drop(group);
    let living = fourth.address();
    let view = json_of(&["view", "show", "--endpoint", &living]);

    let unknown = format!("quorate-join-{}", "0".repeat(32));
    for (words, code, why) in [
        (
            &["--endpoint", &living, "--token", &unknown][..],
            7,
            "the group never gave it",
        ),
        (
            &["--endpoint", &living, "--token", "x"],
            2,
            "quorate node invite printed",
        ),
        (
            &["--endpoint", "quorate://127.0.0.1:1", "--token", &unknown],
            4,
            "127.0.0.1:1",
        ),
    ] {
        let refused = runs(&dir, words).wait_with_output().unwrap();
        let told = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(code), "{told}");
        assert!(told.contains(why), "{told}");
    }
    let token = invited(&living, &[]);
    let mut third = runs(&dir, &["--endpoint", &living, "--token", &token]);
    wait_until_serving(&mut third, &own, &view["number"]);
    assert_eq!(add(&format!("quorate://{own}"), "1"), "6");
    assert_eq!(members(&living).len(), 3);
    let (code, said) = ended(third);
    assert_eq!(code, Some(0), "{said}");

    // From then on its directory knows whom to reach.
    let mut third = runs(&dir, &[]);
    wait_until_serving(&mut third, &own, &view["number"]);
    assert_eq!(ended(third).0, Some(0));
}

#[test]
fn a_directory_that_was_removed_while_its_node_was_down_does_not_join_again() {
    let place = tempfile::tempdir().unwrap();
    let group = Group::start(&["--nodes", "1"]);
    let endpoint = group.endpoint().trim_end_matches("/counter");
    let dir = place.path().join("2");
    let words = ["--roles", "replica"];
    let mut gone = Joined::start(endpoint, &invited(endpoint, &[]), &dir, &words);
    stop(&mut gone);
    json_of(&["view", "remove", "2", "--endpoint", endpoint]);
    let token = invited(endpoint, &[]);
    let to = ["--endpoint", endpoint, "--token", &token];
    let config = dir.join("node.toml");
    let again = [
        &["node", "join", "--dir", dir.to_str().unwrap()][..],
        &["node", "run", "--config", config.to_str().unwrap()],
    ];
    for words in again {
        let refused = run(&[words, &to].concat());
        let told = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(7), "{told}");
        assert!(told.contains("no member of its group since view"), "{told}");
    }
    assert_eq!(members(endpoint).len(), 1);
}
