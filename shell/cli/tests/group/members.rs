//! Nodes join a group that runs, and leave it: every machine that it began on is replaced.

use crate::{Group, QUORATE, run, signal, text};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A node started by `quorate node join`; asked to end when dropped.
pub(crate) struct Joined {
    pub(crate) child: Child,
    pub(crate) told: Value,
}

impl Joined {
    pub(crate) fn start(endpoint: &str, token: &str, dir: &Path, words: &[&str]) -> Joined {
        let mut child = Command::new(QUORATE)
            .args([
                "node",
                "join",
                "-o",
                "json",
                "--endpoint",
                endpoint,
                "--token",
                token,
                "--dir",
            ])
            .arg(dir)
            .args(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = child.stderr.take().unwrap();
        // The node's log: it must not fill the pipe.
        let rest = std::thread::spawn(move || {
            let mut all = Vec::new();
            stderr.read_to_end(&mut all).unwrap();
            all
        });
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        match serde_json::from_str(&line) {
            Ok(told) => Joined { child, told },
            Err(_) => panic!("no node has joined: {}", text(&rest.join().unwrap())),
        }
    }

    pub(crate) fn address(&self) -> String {
        format!("quorate://{}", self.told["address"].as_str().unwrap())
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        if self.child.try_wait().unwrap().is_none() {
            signal(self.child.id(), "TERM");
            self.child.wait().unwrap();
        }
    }
}

pub(crate) fn json_of(words: &[&str]) -> Value {
    let output = run(&[words, &["-o", "json"]].concat());
    assert!(
        output.status.success(),
        "{words:?}: {}",
        text(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

pub(crate) fn invited(endpoint: &str, words: &[&str]) -> String {
    let told = json_of(&[&["node", "invite", "--endpoint", endpoint], words].concat());
    told["token"].as_str().unwrap().to_owned()
}

pub(crate) fn members(endpoint: &str) -> Vec<(u64, String)> {
    let view = json_of(&["view", "show", "--endpoint", endpoint]);
    let members = view["members"].as_array().unwrap().iter();
    let member = |member: &Value| {
        let roles = member["roles"].as_array().unwrap().iter();
        let roles: Vec<&str> = roles.map(|role| role.as_str().unwrap()).collect();
        (member["node"].as_u64().unwrap(), roles.join(" "))
    };
    members.map(member).collect()
}

pub(crate) fn add(endpoint: &str, amount: &str) -> String {
    let output = run(&["call", "--endpoint", endpoint, "counter", "add", amount]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).trim().to_owned()
}

// Longer than a screen: one group, from its first machine to its last.
/// Claim rp-103.
#[test]
fn a_group_goes_on_while_every_machine_that_it_began_on_is_replaced() {
    let place = tempfile::tempdir().unwrap();
    let home = place.path().join("g");
    let mut group = Group::start(&["--nodes", "1", "--dir", home.to_str().unwrap()]);
    assert_eq!(group.add("5"), "5");
    let first = group.endpoint().trim_end_matches("/counter").to_owned();

    let token = invited(&first, &[]);
    let mut second = Joined::start(&first, &token, &place.path().join("2"), &[]);
    assert_eq!(
        (&second.told["node"], &second.told["view"]),
        (&json!(2), &json!(3))
    );
    let both = "replica acceptor";
    assert_eq!(
        members(&second.address()),
        [(1, both.to_owned()), (2, both.to_owned())]
    );
    assert_eq!(add(&second.address(), "1"), "6");

    let again = run(&[
        "node",
        "join",
        "--endpoint",
        &first,
        "--token",
        &token,
        "--dir",
        "unused",
    ]);
    assert_eq!(again.status.code(), Some(7), "{}", text(&again.stderr));
    assert!(text(&again.stderr).contains("this token was used"));

    // The one that leads leaves, and its process ends by itself.
    let removed = json_of(&["view", "remove", "1", "--endpoint", &second.address()]);
    assert_eq!(
        (&removed["left"], &removed["acceptors"]),
        (&json!(1), &json!([2]))
    );
    group.wait_for("node 1 was removed from the group in view 4; it does not start again");
    assert_eq!(add(&second.address(), "1"), "7");
    let mut late = Command::new(QUORATE);
    late.args(["node", "run", "--config"])
        .arg(home.join("node-1.toml"));
    let refused = late.output().unwrap();
    assert_eq!(refused.status.code(), Some(7));
    assert!(text(&refused.stderr).contains("no member of its group since view 4"));

    // A directory without a vote, from the number that became free on: the highest ones first.
    let token = invited(&second.address(), &[]);
    let words = ["--roles", "replica"];
    let third = Joined::start(&second.address(), &token, &place.path().join("3"), &words);
    assert_eq!(third.told["node"], 3);
    let alone = [(2, both.to_owned()), (3, "replica".to_owned())];
    assert_eq!(members(&third.address()), alone);
    assert_eq!(add(&third.address(), "1"), "8");
    json_of(&["view", "replace", "2", "3", "--endpoint", &third.address()]);
    assert_eq!(members(&third.address()), [(3, both.to_owned())]);
    assert_eq!(add(&third.address(), "1"), "9");

    // What the second one leaves behind is a sound directory, and nobody any more.
    assert_eq!(second.child.wait().unwrap().code(), Some(0));
    let [left, here] = ["2", "3"].map(|name| place.path().join(name).display().to_string());
    let verified = run(&["verify", &left]);
    assert!(verified.status.success(), "{}", text(&verified.stdout));
    assert!(text(&verified.stdout).contains("1 members in view"));
    let token = invited(&third.address(), &[]);
    let words = [
        "--endpoint",
        &third.address(),
        "--token",
        &token,
        "--dir",
        &left,
    ];
    let back = run(&[&["node", "join"], &words[..]].concat());
    assert_eq!(back.status.code(), Some(7), "{}", text(&back.stderr));
    assert!(text(&back.stderr).contains("no member of its group"));
    assert_eq!(members(&third.address()), [(3, both.to_owned())]);
    drop(third);
    let new = place.path().join("new").display().to_string();
    let recovered = run(&["recover", &left, &here, "--dir", &new]);
    assert_eq!(
        recovered.status.code(),
        Some(7),
        "{}",
        text(&recovered.stderr)
    );
    assert!(text(&recovered.stderr).contains("no member since view"));
}

#[test]
fn a_node_that_joined_and_was_killed_goes_on_from_its_directory() {
    let place = tempfile::tempdir().unwrap();
    let group = Group::start(&["--persist", "memory"]);
    assert_eq!(group.add("5"), "5");
    let endpoint = group.endpoint().trim_end_matches("/counter");
    let token = invited(endpoint, &[]);
    let dir = place.path().join("4");
    let mut joined = Joined::start(endpoint, &token, &dir, &[]);
    signal(joined.child.id(), "KILL");
    joined.child.wait().unwrap();
    // The same command, though the token is used: its directory is a member's.
    let joined = Joined::start(endpoint, &token, &dir, &[]);
    assert_eq!(joined.told["node"], 4);
    assert_eq!(add(&joined.address(), "1"), "6");
    assert_eq!(members(endpoint).len(), 4);
}

#[test]
fn what_cannot_join_or_leave_is_refused_and_changes_nothing() {
    let place = tempfile::tempdir().unwrap();
    let group = Group::start(&["--nodes", "1"]);
    let endpoint = group.endpoint().trim_end_matches("/counter");
    let dir = place.path().join("n");
    let dir = dir.to_str().unwrap();
    let good = invited(endpoint, &[]);
    let short = invited(endpoint, &["--lasts", "0.001"]);
    assert_eq!(group.add("5"), "5", "agreed time goes on");
    let unknown = format!("quorate-join-{}", "0".repeat(32));
    let used = place.path().join("used");
    std::fs::create_dir(&used).unwrap();
    std::fs::write(used.join("mine"), "").unwrap();
    let refused: [(&[&str], i32, &str); 7] = [
        (
            &["--token", "nonsense", "--dir", dir],
            2,
            "quorate node invite printed",
        ),
        (
            &["--token", &unknown, "--dir", dir],
            7,
            "the group never gave it",
        ),
        (&["--token", &short, "--dir", dir], 7, "its time is over"),
        (
            &["--token", &good, "--dir", dir, "--node", "1"],
            7,
            "node 1 is a member",
        ),
        (
            &["--token", &good, "--dir", dir, "--roles", "names"],
            2,
            "a member executes, votes, or both",
        ),
        (
            &["--token", &good, "--dir", dir, "--address", "nowhere"],
            2,
            "host:port",
        ),
        (
            &["--token", &good, "--dir", used.to_str().unwrap()],
            7,
            "empty",
        ),
    ];
    for (words, code, why) in refused {
        let output = run(&[&["node", "join", "--endpoint", endpoint], words].concat());
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {told}");
        assert!(told.contains(why), "{words:?}: {told}");
    }
    let last = run(&["view", "remove", "1", "--endpoint", endpoint]);
    assert_eq!(last.status.code(), Some(7));
    assert!(text(&last.stderr).contains("the last one that votes"));
    let view = json_of(&["view", "show", "--endpoint", endpoint]);
    assert_eq!(view["number"], 1);
    assert_eq!(group.add("1"), "6");
}
