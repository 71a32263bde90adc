//! What happens to `quorate node join` before the node is a member.

use crate::members::{Joined, add, invited, members};
use crate::{Group, run, text};
use quorate_node::NodeConfig;
use quorate_storage::Identity;
use quorate_types::{ClusterId, Incarnation, NodeId};
use std::net::TcpListener;
use std::path::Path;

/// What a try to join leaves that wanted to be the member of `joined`, and ended before the group was asked.
fn earlier_try(joined: &Path, dir: &Path) {
    let mut config = NodeConfig::read(&joined.join("node.toml")).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    (config.dir, config.listen) = (dir.to_owned(), free.local_addr().unwrap());
    let mut known = config.known.iter_mut();
    let own = known.find(|member| member.node == config.node).unwrap();
    (own.incarnation.0, own.address) = (own.incarnation.0 ^ 1 << 60, config.listen.to_string());
    let identity = Identity::init(
        dir,
        ClusterId(config.cluster.0),
        NodeId(config.node),
        Incarnation(own.incarnation.0),
        config.persist.as_storage(),
    );
    identity.unwrap();
    std::fs::write(dir.join("node.toml"), config.to_toml()).unwrap();
}

#[test]
fn a_number_that_was_taken_between_choice_and_decision_is_changed_for_another() {
    let place = tempfile::tempdir().unwrap();
    let group = Group::start(&["--nodes", "1"]);
    assert_eq!(group.add("5"), "5");
    let endpoint = group.endpoint().trim_end_matches("/counter");
    let token = invited(endpoint, &[]);
    let second = place.path().join("2");
    let faster = Joined::start(endpoint, &token, &second, &[]);
    assert_eq!(faster.told["node"], 2);
    let slower = place.path().join("3");
    earlier_try(&second, &slower);

    let token = invited(endpoint, &[]);
    let words = ["--endpoint", endpoint, "--token", &token, "--dir"];
    let words = [&["node", "join"], &words[..], &[slower.to_str().unwrap()]].concat();
    let insists = run(&[&words[..], &["--node", "2"]].concat());
    let told = text(&insists.stderr);
    assert_eq!(insists.status.code(), Some(7), "{told}");
    assert!(told.contains("node 2 is a member of the group"), "{told}");
    assert_eq!(members(endpoint).len(), 2);

    let slower = Joined::start(endpoint, &token, &slower, &[]);
    assert_eq!(slower.told["node"], 3);
    assert_eq!(members(endpoint).len(), 3);
    assert_eq!(add(&slower.address(), "1"), "6");
}

#[test]
fn nodes_that_join_at_once_take_a_number_each() {
    let place = tempfile::tempdir().unwrap();
    let group = Group::start(&["--nodes", "1"]);
    let endpoint = group.endpoint().trim_end_matches("/counter");
    let tokens = [0, 1, 2].map(|_| invited(endpoint, &[]));
    let joined: Vec<Joined> = std::thread::scope(|scope| {
        let begun = tokens.iter().enumerate().map(|(at, token)| {
            let dir = place.path().join(at.to_string());
            scope.spawn(move || Joined::start(endpoint, token, &dir, &[]))
        });
        let begun: Vec<_> = begun.collect();
        begun.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let numbers = joined.iter().map(|one| one.told["node"].as_u64().unwrap());
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3, 4]);
    let both = |node| (node, "replica acceptor".to_owned());
    assert_eq!(members(endpoint), [1, 2, 3, 4].map(both));
}
