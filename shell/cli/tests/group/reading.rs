//! Reads that a client announces to every node.

use crate::{Group, pid, run, signal, text};
use quorate_client::{Answer, Client, DriverOptions, Endpoint, Operation};
use quorate_types::{ObjectId, Outcome, ReadLevel};
use quorate_wire::value::{self, Value, call};
use serde_json::json;
use std::time::{Duration, Instant};

/// Longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A read of the counter at the level; what it shows.
fn count(client: &Client, object: ObjectId) -> Value {
    let payload = call::encode("get", &[], &[]).unwrap();
    let level = ReadLevel::Broadcast;
    let read = Operation::Read {
        object,
        payload,
        level,
    };
    match client.perform(read).unwrap() {
        Answer::Read {
            outcome: Outcome::Returned(bytes),
            ..
        } => value::decode(&bytes).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Reads until every node that is up has a connection of the client.
fn reads_until_heard_by(group: &Group, nodes: usize, mut read: impl FnMut()) {
    let end = Instant::now() + PATIENCE;
    loop {
        read();
        let status = group.status();
        let hearing = status["nodes"].as_array().unwrap().iter();
        // A question for the status is none of them.
        let hearing = hearing.filter(|node| node["counts"]["clients"].as_u64() > Some(0));
        if hearing.count() == nodes {
            return;
        }
        assert!(Instant::now() < end, "not all hear it: {status}");
    }
}

#[test]
fn a_client_tells_every_node_of_its_reads_and_loses_none_with_one_of_them() {
    let group = Group::start(&["--persist", "memory", "--level", "19"]);
    let endpoint: Endpoint = group.endpoint().parse().unwrap();
    let client = Client::connect(&endpoint, DriverOptions::default(), None).unwrap();
    let object = client.object(Some("counter")).unwrap();
    group.add("1");
    assert_eq!(count(&client, object), Value::Int(1), "below its level");
    let words = ["view", "set", "level=26", "--endpoint", group.endpoint()];
    let raised = run(&words);
    assert!(raised.status.success(), "{}", text(&raised.stderr));
    reads_until_heard_by(&group, 3, || {
        assert_eq!(count(&client, object), Value::Int(1));
    });
    for sum in 2..20 {
        assert_eq!(group.add("1"), sum.to_string());
        assert_eq!(count(&client, object), Value::Int(sum), "after its write");
    }
    let leader = group.leader()["id"].clone();
    let nodes = group.status()["nodes"].as_array().unwrap().clone();
    let other = nodes.iter().find(|node| node["id"] != leader).unwrap();
    signal(pid(other), "KILL");
    for sum in 20..30 {
        assert_eq!(json!(group.add("1")), json!(sum.to_string()));
        assert_eq!(count(&client, object), Value::Int(sum), "with one fewer");
    }
}

#[test]
fn any_state_is_read_as_long_as_one_node_is_up() {
    let group = Group::start(&["--no-restart"]);
    assert_eq!(group.add("5"), "5");
    let nodes = group.status()["nodes"].as_array().unwrap().clone();
    let leader = group.leader()["id"].clone();
    let others = nodes.iter().filter(|node| node["id"] != leader);
    for node in others {
        signal(pid(node), "KILL");
    }
    let at = ["--endpoint", group.endpoint(), "--timeout", "5"];
    let words = ["call", "counter", "get", "--read", "any"];
    let any = run(&[&words[..], &at].concat());
    assert_eq!(text(&any.stdout), "5\n", "{}", text(&any.stderr));
    assert!(text(&any.stderr).contains("ms old"));
    let at = ["--endpoint", group.endpoint(), "--timeout", "1"];
    let confirmed = run(&[&["call", "counter", "get"], &at[..]].concat());
    assert_ne!(confirmed.status.code(), Some(0));
}
