//! A member that never came up, and whose directory is gone: it counts among those who must hold a snapshot.

use crate::members::{invited, members};
use crate::{Group, QUORATE, run, text};
use quorate_client::{Client, DriverOptions, Endpoint, Operation};
use quorate_node::{Hex, MemberConfig, NodeConfig};
use quorate_types::{Incarnation, Member, NodeId, Secret, ViewChange, ViewNumber};
use std::net::TcpListener;
use std::process::{Command, Stdio};

/// Tries to let the member leave; each of them takes a whole process.
const TRIES: usize = 100;

fn secret_of(token: &str) -> Secret {
    let digits = token.strip_prefix("quorate-join-").unwrap();
    Secret::new(u128::from_str_radix(digits, 16).unwrap().to_be_bytes())
}

// Longer than a screen: one group, before and after.
#[test]
fn a_member_that_never_came_up_is_made_anew_from_what_the_others_know_and_leaves() {
    let place = tempfile::tempdir().unwrap();
    let home = place.path().join("g");
    let group = Group::start(&[
        "--nodes",
        "1",
        "--level",
        "19",
        "--dir",
        home.to_str().unwrap(),
    ]);
    assert_eq!(group.add("5"), "5");
    let first = group.endpoint().trim_end_matches("/counter");
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = free.local_addr().unwrap();
    drop(free);
    let endpoint: Endpoint = group.endpoint().parse().unwrap();
    let client = Client::connect(&endpoint, DriverOptions::default(), None).unwrap();
    let member = Member {
        node: NodeId(2),
        incarnation: Incarnation(7),
        address: listen.to_string(),
    };
    let change = ViewChange {
        after: ViewNumber(1),
        acceptors: [NodeId(1)].into_iter().collect(),
        window: 1024,
    };
    let secret = secret_of(&invited(first, &[]));
    let join = Operation::Join {
        change,
        member,
        secret,
        speaks: quorate_types::Levels::UNNAMED,
        role: quorate_types::MemberRole::Replica,
    };
    client.perform(join).unwrap();
    assert_eq!(members(first).len(), 2);
    let remove = |seconds| {
        let words = [
            "view",
            "remove",
            "2",
            "--endpoint",
            first,
            "--timeout",
            seconds,
        ];
        run(&words)
    };
    let stuck = remove("2");
    let told = text(&stuck.stderr);
    assert_eq!(stuck.status.code(), Some(7), "{told}");
    assert!(told.contains("the last one is not yet over"), "{told}");

    // What the operator does, who has members-1 of node 1 and its configuration.
    let noted = std::fs::read_to_string(home.join("node-1").join("members-1")).unwrap();
    assert!(
        noted.contains(r#""incarnation":"0000000000000007""#),
        "{noted}"
    );
    let mut config = NodeConfig::read(&home.join("node-1.toml")).unwrap();
    config.known.clone_from(&config.members);
    config.known.push(MemberConfig {
        node: 2,
        incarnation: Hex(7),
        address: listen.to_string(),
        admin: None,
    });
    (config.node, config.listen, config.admin) = (2, listen, None);
    (config.dir, config.known_view) = (place.path().join("anew"), 2);
    let file = place.path().join("anew.toml");
    std::fs::write(&file, config.to_toml()).unwrap();
    let mut command = Command::new(QUORATE);
    command
        .args(["node", "run", "--remake", "--config"])
        .arg(&file);
    let mut anew = command.stderr(Stdio::null()).spawn().unwrap();
    for tries in 0.. {
        let removed = remove("2");
        if removed.status.success() {
            break;
        }
        let told = text(&removed.stderr);
        assert!(told.contains("the last one is not yet over"), "{told}");
        assert!(tries < TRIES, "{told}");
    }
    assert_eq!(anew.wait().unwrap().code(), Some(0));
    let left = members(first);
    assert_eq!(left, [(1, "replica acceptor".to_owned())]);
    assert_eq!(group.add("1"), "6");
}
