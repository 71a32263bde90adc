//! Values that a leader multicasts over loopback: heard, not heard by a node, and refused where they cannot be.

use crate::{Group, run, text};
use serde_json::{Value, json};
use std::net::UdpSocket;
use std::path::Path;
use std::thread;

/// An address that no other test of this machine uses: the port is free.
fn address() -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    format!("239.77.0.1:{}", socket.local_addr().unwrap().port())
}

/// Four clients add 1 so often, one call after the other.
fn add_from_four(group: &Group, times: u64) {
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..times {
                    group.add("1");
                }
            });
        }
    });
}

fn nodes(status: &Value) -> Vec<Value> {
    status["nodes"].as_array().unwrap().clone()
}

fn number(node: &Value, field: &str) -> u64 {
    node["multicast"][field].as_u64().unwrap()
}

/// Claim mp-80. Claim mp-82.
#[test]
fn values_are_multicast_to_those_that_hear_and_a_deaf_node_gets_them_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().to_str().unwrap();
    let multicast = address();
    let words = ["--dir", dir, "--nodes", "5"];
    let ring = ["--ordering", "ring_paxos", "--multicast", &multicast];
    let mut group = Group::start(&[&words[..], &ring].concat());
    add_from_four(&group, 20);
    assert_eq!(group.add("0"), "80");
    let leader = group.leader();
    let newest = json!(quorate_wire::VERSION);
    assert_eq!(group.status()["view"]["level"], newest);
    assert!(number(&leader, "sent") > 0, "{leader}");
    for node in nodes(&group.status()) {
        if node["id"] != leader["id"] {
            assert!(number(&node, "heard") > 0, "{node}");
            assert!(number(&node, "bytes_in") > 0, "{node}");
        }
    }
    assert_eq!(group.stop(), Some(0));

    // One listens elsewhere.
    let deaf = [1, 2, 3, 4, 5]
        .into_iter()
        .find(|node| leader["id"] != *node);
    let deaf = deaf.unwrap();
    let file = Path::new(dir).join(format!("node-{deaf}.toml"));
    let config = std::fs::read_to_string(&file).unwrap();
    assert!(config.contains(&multicast), "{config}");
    let elsewhere = config.replace("239.77.0.1", "239.77.0.2");
    std::fs::write(&file, elsewhere).unwrap();
    let mut group = Group::start(&words);
    add_from_four(&group, 20);
    let mut sum = 160;
    assert_eq!(group.add("0"), sum.to_string());
    // A node that started a little later hears in the next step.
    let is_told = |group: &Group| {
        let leader = group.leader();
        leader["id"] == deaf || leader["multicast"]["deaf"] == json!([deaf])
    };
    while !is_told(&group) && sum < 160 + 80 * 40 {
        add_from_four(&group, 20);
        sum += 80;
    }
    assert_eq!(group.add("0"), sum.to_string());
    let status = group.status();
    let leader = group.leader();
    if leader["id"] != deaf {
        assert_eq!(leader["multicast"]["deaf"], json!([deaf]), "{leader}");
        let shown = text(&group.quorate(&["status"]).stdout);
        assert!(shown.contains("do not hear what it multicasts"), "{shown}");
    }
    let mut nodes = nodes(&status).into_iter();
    assert!(nodes.all(|node| node["diverged"].is_null()), "{status}");
    assert_eq!(group.stop(), Some(0));
}

#[test]
fn where_multicast_cannot_be_had_the_start_says_what_to_try() {
    let up = ["up", "rust:counter", "--port", "0", "--multicast"];
    let no_group = run(&[&up[..], &["10.0.0.1:7600"]].concat());
    assert_eq!(no_group.status.code(), Some(2));
    let said = text(&no_group.stderr);
    assert!(said.contains("239.1.2.3:7600"), "{said}");
    let in_clear = run(&[&up[..], &["239.1.2.3:7600", "--tls"]].concat());
    assert_eq!(in_clear.status.code(), Some(2));
    let said = text(&in_clear.stderr);
    assert!(said.contains("--tls"), "{said}");
}

/// A view of another ordering, or below level 28, does as without the option.
#[test]
fn other_orderings_ignore_the_address() {
    let multicast = address();
    let group = Group::start(&["--ordering", "paxos", "--multicast", &multicast]);
    add_from_four(&group, 5);
    assert_eq!(group.add("0"), "20");
    let leader = group.leader();
    assert_eq!(number(&leader, "sent"), 0, "{leader}");
    assert_eq!(leader["multicast"]["deaf"], json!([]), "{leader}");
}
