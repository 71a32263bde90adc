//! What a group says of its view.

use crate::{Group, run, text};
use serde_json::{Value, json};

fn shown(endpoint: &str) -> Value {
    let output = run(&["view", "show", "--endpoint", endpoint, "-o", "json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_view_is_shown_with_its_members_by_any_node_that_is_asked() {
    let group = Group::start(&[]);
    let status = group.status();
    let nodes = status["nodes"].as_array().unwrap();
    let members = nodes.iter().map(|node| {
        json!({
            "node": node["id"], "incarnation": node["incarnation"], "roles": ["replica", "acceptor"],
            "address": node["address"],
        })
    });
    let expected = json!({
        "number": 1, "first_slot": 1, "ordering": "paxos", "window": status["view"]["window"],
        "quorums": {"rule": "majority", "phase1": 2, "phase2": 2, "fast": null},
        "limits": {"sessions": 1_000_000, "replies": 268_435_456},
        "level": quorate_wire::VERSION, "members": members.collect::<Vec<_>>(),
    });
    assert_eq!(shown(group.endpoint()), expected);
    for node in nodes {
        let one = format!("quorate://{}", node["address"].as_str().unwrap());
        assert_eq!(shown(&one), expected, "asked of {one}");
    }
    let table = run(&["view", "show", "--endpoint", group.endpoint()]);
    assert!(text(&table.stdout).starts_with("view 1, from slot 1 on, paxos, window "));
    assert_eq!(text(&table.stdout).lines().count(), 6);
}

#[test]
fn a_view_that_nobody_can_tell_is_no_quorum() {
    let output = run(&[
        "view",
        "show",
        "--endpoint",
        "quorate://127.0.0.1:1",
        "--timeout",
        "0.5",
    ]);
    assert_eq!(output.status.code(), Some(4));
    assert!(text(&output.stderr).contains("no node of quorate://127.0.0.1:1 answers"));
}

fn change(endpoint: &str, words: &[&str]) -> (Option<i32>, Value, String) {
    let all = [&["view"], words, &["--endpoint", endpoint, "-o", "json"]].concat();
    let output = run(&all);
    let told = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code(), told, text(&output.stderr))
}

fn changed(group: &Group, words: &[&str]) -> Value {
    let (code, told, stderr) = change(group.endpoint(), words);
    assert_eq!(code, Some(0), "{words:?}: {stderr}");
    told
}

#[test]
fn an_operator_says_who_leads() {
    let group = Group::start(&[]);
    assert_eq!(group.add("5"), "5");
    for node in ["1", "3", "3", "2"] {
        let told = changed(&group, &["move-leader", node]);
        assert_eq!(told["leader"].to_string(), node);
        assert_eq!(group.leader()["id"].to_string(), node);
    }
    assert_eq!(group.add("1"), "6");
    let view = shown(group.endpoint());
    assert_eq!(view["number"], 1, "the view stays");
    changed(&group, &["remove", "1", "--role", "acceptor"]);
    for (node, code, why) in [("9", 3, "no member"), ("1", 7, "does not vote")] {
        let (ended, _, stderr) = change(group.endpoint(), &["move-leader", node]);
        assert_eq!(ended, Some(code), "{stderr}");
        assert!(stderr.contains(why), "{stderr}");
    }
}

fn voters(view: &Value) -> Vec<u64> {
    let members = view["members"].as_array().unwrap().iter();
    let voting = members.filter(|member| member["roles"].to_string().contains("acceptor"));
    voting
        .map(|member| member["node"].as_u64().unwrap())
        .collect()
}

#[test]
fn a_view_changes_while_the_group_runs_and_outlives_restarts_and_restores() {
    let dir = tempfile::tempdir().unwrap();
    let [home, file, other] = ["g", "a.backup", "r"].map(|name| dir.path().join(name));
    let words = ["--dir", home.to_str().unwrap()];
    let mut group = Group::start(&words);
    assert_eq!(group.add("5"), "5");
    let told = changed(&group, &["remove", "3", "--role", "acceptor"]);
    assert_eq!(
        (&told["number"], &told["acceptors"]),
        (&json!(2), &json!([1, 2]))
    );
    let view = shown(group.endpoint());
    assert_eq!(
        (&view["number"], &view["first_slot"]),
        (&told["number"], &told["first_slot"])
    );
    assert_eq!(voters(&view), [1, 2]);
    assert_eq!(group.add("1"), "6");
    changed(&group, &["replace", "1", "3", "--role", "acceptor"]);
    assert_eq!(voters(&shown(group.endpoint())), [2, 3]);
    assert_eq!(group.add("1"), "7");
    changed(&group, &["set", "window=64"]);
    let view = shown(group.endpoint());
    assert_eq!((&view["number"], &view["window"]), (&json!(4), &json!(64)));
    changed(&group, &["add", "1"]);
    assert_eq!(group.add("1"), "8");
    let view = shown(group.endpoint());
    assert_eq!(group.stop(), Some(0));

    let mut group = Group::start(&words);
    assert_eq!(group.add("1"), "9");
    let again = shown(group.endpoint());
    assert_eq!(
        (&again["number"], &again["first_slot"], &again["window"]),
        (&json!(5), &view["first_slot"], &json!(64))
    );
    let status = group.status();
    for node in status["nodes"].as_array().unwrap() {
        assert!(!node["roles"].to_string().contains("observer"), "{node}");
    }
    let taken = group.quorate(&["backup", file.to_str().unwrap()]);
    assert!(taken.status.success(), "{}", text(&taken.stderr));
    assert_eq!(group.stop(), Some(0));

    let (backup, new) = (file.to_str().unwrap(), other.to_str().unwrap());
    let restored = run(&["restore", backup, "--dir", new, "--nodes", "1"]);
    assert!(restored.status.success(), "{}", text(&restored.stderr));
    let mut group = Group::start(&["--dir", new, "--nodes", "1"]);
    assert_eq!(group.add("1"), "10");
    let view = shown(group.endpoint());
    assert_eq!(
        (&view["number"], voters(&view)),
        (&json!(5), vec![1]),
        "it goes on in the view of the old group, with its own node"
    );
    assert_eq!(group.stop(), Some(0));
}

#[test]
fn changes_that_cannot_be_are_refused_and_of_two_at_once_one_counts() {
    let group = Group::start(&[]);
    let refused: [(&[&str], i32, &str); 10] = [
        (&["add", "9"], 3, "name a member"),
        (&["move-leader", "9"], 3, "members are 1, 2, 3"),
        (&["set", "level=18"], 7, "node 1 speaks levels 19 to"),
        (&["add", "1"], 7, "node 1 votes in view 1 already"),
        (&["replace", "1", "2"], 7, "node 2 votes in view 1 already"),
        (
            &["replace", "9", "1"],
            3,
            "node 9 is no member of the group",
        ),
        (&["set", "window=0"], 2, "1 to 16384 slots"),
        (&["set", "speed=9"], 2, "window=SLOTS"),
        (&["set", "window=1024"], 2, "nothing to change"),
        (&["remove", "1", "--role", "names"], 2, "acceptor"),
    ];
    for (words, code, why) in refused {
        let (ended, _, stderr) = change(group.endpoint(), words);
        assert_eq!(ended, Some(code), "{words:?}: {stderr}");
        assert!(stderr.contains(why), "{words:?}: {stderr}");
    }
    let planned = changed(&group, &["remove", "1", "--dry-run", "--role", "acceptor"]);
    assert_eq!(
        (&planned["acceptors"], &planned["leave"]),
        (&json!([2, 3]), &json!([1]))
    );
    assert_eq!(shown(group.endpoint())["number"], 1, "nothing has changed");
    let endpoint = group.endpoint();
    let ended = std::thread::scope(|scope| {
        let both = ["2", "3"].map(|node| {
            scope.spawn(move || change(endpoint, &["remove", node, "--role", "acceptor"]).0)
        });
        both.map(|racer| racer.join().unwrap())
    });
    let mut codes = ended.map(Option::unwrap);
    codes.sort_unstable();
    assert_eq!(
        codes,
        [0, 7],
        "the second one was asked of a view that is gone"
    );
    assert_eq!(shown(endpoint)["number"], 2);
    assert_eq!(group.add("5"), "5");
}
