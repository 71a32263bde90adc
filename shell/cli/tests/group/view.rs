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
        "number": 1, "first_slot": 1, "ordering": "multi-paxos", "window": status["view"]["window"],
        "members": members.collect::<Vec<_>>(),
    });
    assert_eq!(shown(group.endpoint()), expected);
    for node in nodes {
        let one = format!("quorate://{}", node["address"].as_str().unwrap());
        assert_eq!(shown(&one), expected, "asked of {one}");
    }
    let table = run(&["view", "show", "--endpoint", group.endpoint()]);
    assert!(text(&table.stdout).starts_with("view 1, from slot 1 on, multi-paxos, window "));
    assert_eq!(text(&table.stdout).lines().count(), 5);
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
