//! What happens to `quorate node join` before the node is a member.

use crate::members::{Joined, add, invited, json_of, members};
use crate::{Group, QUORATE, run, signal, text};
use quorate_node::NodeConfig;
use quorate_storage::Identity;
use quorate_types::{ClusterId, Incarnation, NodeId};
use std::fs::Permissions;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What a try to join as `node` leaves that ended before the group was asked; the rest of it is as in the directory `joined`.
fn earlier_try(joined: &Path, dir: &Path, node: u16) {
    let mut config = NodeConfig::read(&joined.join("node.toml")).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    (config.dir, config.listen) = (dir.to_owned(), free.local_addr().unwrap());
    let mut known = config.known.iter_mut();
    let own = known.find(|member| member.node == config.node).unwrap();
    (own.incarnation.0, own.address) = (own.incarnation.0 ^ 1 << 60, config.listen.to_string());
    (own.node, config.node) = (node, node);
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
    earlier_try(&second, &slower, 2);

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
fn a_later_try_takes_another_interpreter_and_other_directories_of_modules() {
    let place = tempfile::tempdir().unwrap();
    let group = Group::start(&["--nodes", "1"]);
    let endpoint = group.endpoint().trim_end_matches("/counter");
    let token = invited(endpoint, &[]);
    let second = place.path().join("2");
    let _second = Joined::start(endpoint, &token, &second, &[]);
    let third = place.path().join("3");
    earlier_try(&second, &third, 9);
    let file = third.join("node.toml");
    let before = std::fs::read_to_string(&file).unwrap();
    // The token is used: the try ends before anybody is asked for more.
    let again = |words: &[&str]| {
        let dir = ["--dir", third.to_str().unwrap()];
        let join = ["node", "join", "--endpoint", endpoint, "--token", &token];
        let refused = run(&[&join[..], &dir, words].concat());
        let told = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(7), "{told}");
        NodeConfig::read(&file).unwrap()
    };
    let named = again(&["--python", "/opt/python", "--path", "/srv/bank"]);
    assert_eq!(named.python.as_deref(), Some(Path::new("/opt/python")));
    let paths = named.objects.iter().flat_map(|object| &object.path);
    assert_eq!(paths.collect::<Vec<_>>(), [Path::new("/srv/bank")]);
    let kept = again(&["--python", "/opt/python"]);
    assert_eq!(kept.to_toml(), named.to_toml(), "what is not said stays");
    assert_ne!(before, kept.to_toml());
}

/// Asks the command of a node to end; its exit code, and what it said last.
pub(crate) fn ended(mut child: Child) -> (Option<i32>, String) {
    signal(child.id(), "TERM");
    let mut said = String::new();
    let mut stderr = child.stderr.take().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    (child.wait().unwrap().code(), said)
}

fn starts(words: &[&str]) -> Child {
    let mut command = Command::new(QUORATE);
    command.args(words).stderr(Stdio::piped());
    command.spawn().unwrap()
}

// Longer than a screen: the same signal at each stage of a join.
#[test]
fn a_join_that_is_asked_to_end_says_how_far_it_is_and_goes_on_from_there() {
    let place = tempfile::tempdir().unwrap();
    let group = Group::start(&["--nodes", "1"]);
    assert_eq!(group.add("5"), "5");
    let endpoint = group.endpoint().trim_end_matches("/counter");
    let [second, third, fourth] = ["2", "3", "4"].map(|name| place.path().join(name));
    let stop = |mut joined: Joined| {
        signal(joined.child.id(), "TERM");
        joined.child.wait().unwrap().code()
    };
    let tokens = [0, 1, 2].map(|_| invited(endpoint, &[]));
    let kept = Joined::start(endpoint, &tokens[0], &second, &[]);
    let listener = Joined::start(endpoint, &tokens[1], &third, &["--roles", "replica"]);
    let address = listener.told["address"].as_str().unwrap().to_owned();
    assert_eq!(stop(listener), Some(0), "it had joined");
    assert_eq!(stop(kept), Some(0), "and this one votes");

    // One of two that vote is left: nobody joins, and nobody begins to vote.
    let words = |token, dir| {
        let dir: &Path = dir;
        let dir = dir.to_str().unwrap();
        [
            "node",
            "join",
            "--endpoint",
            endpoint,
            "--token",
            token,
            "--dir",
            dir,
        ]
    };
    let mut runs = starts(&words(&tokens[1], &third));
    let up = || TcpStream::connect(&address).is_ok();
    while !up() {
        assert!(runs.try_wait().unwrap().is_none(), "it starts its node");
    }
    let (code, said) = ended(runs);
    assert_eq!(code, Some(5), "{said}");
    assert!(
        said.contains("  say the same command again: it goes on where this one ended\n"),
        "{said}"
    );
    assert!(!up(), "its node has ended before");

    earlier_try(&second, &fourth, 4);
    let mut asks = starts(&words(&tokens[2], &fourth));
    let lock = || std::fs::read_to_string(fourth.join("lock")).unwrap_or_default();
    while lock().trim() != asks.id().to_string() {
        assert!(
            asks.try_wait().unwrap().is_none(),
            "it waits for a majority"
        );
    }
    let (code, said) = ended(asks);
    assert_eq!(code, Some(5), "{said}");
    assert_eq!(
        said,
        "quorate: ended before the node had joined\n  say the same command again: it goes on where this one ended\n"
    );

    let _second = Joined::start(
        endpoint,
        "quorate-join-00000000000000000000000000000000",
        &second,
        &[],
    );
    for (token, dir, node) in [(&tokens[1], &third, 3), (&tokens[2], &fourth, 4)] {
        // The directory of the last one is from before there was the second one, which leads.
        json_of(&["view", "move-leader", "2", "--endpoint", endpoint]);
        let joined = Joined::start(endpoint, token, dir, &[]);
        assert_eq!(joined.told["node"], node);
        assert_eq!(stop(joined), Some(0));
    }
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

// Longer than a screen: one group, and each certificate that it would refuse.
#[test]
fn certificates_that_others_would_refuse_are_found_before_the_group_is_asked() {
    let place = tempfile::tempdir().unwrap();
    let home = place.path().join("g");
    let group = Group::start(&["--tls", "--nodes", "1", "--dir", home.to_str().unwrap()]);
    let endpoint = group.endpoint().trim_end_matches("/counter");
    let [own, foreign] = [home.join("certs"), place.path().join("foreign")];
    let add = |words: &[&str]| run(&[&["certs", "--dir", own.to_str().unwrap()], words].concat());
    let made = add(&["--node", "2", "--node", "5"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let again = add(&["--node", "4", "--node", "5"]);
    assert_eq!(again.status.code(), Some(7), "{}", text(&again.stderr));
    assert!(text(&again.stderr).contains("node-5.pem exists and is not overwritten"));
    assert!(!own.join("node-4.pem").exists());
    let made = run(&["certs", "--dir", foreign.to_str().unwrap()]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    std::fs::remove_file(foreign.join("ca.key")).unwrap();
    let keyless = run(&["certs", "--dir", foreign.to_str().unwrap(), "--node", "9"]);
    assert_eq!(keyless.status.code(), Some(3), "{}", text(&keyless.stderr));
    assert!(!foreign.join("node-9.pem").exists());

    let open = place.path().join("open.key");
    std::fs::copy(own.join("node-2.key"), &open).unwrap();
    std::fs::set_permissions(&open, Permissions::from_mode(0o644)).unwrap();
    let tls = |ca: &Path, cert: &Path, key: &Path| -> Vec<String> {
        let files = [("--tls-ca", ca), ("--tls-cert", cert), ("--tls-key", key)];
        let words = files.map(|(option, file)| [option.to_owned(), file.display().to_string()]);
        words.concat()
    };
    let of = |dir: &Path, name: &str| {
        let [cert, key] = ["pem", "key"].map(|ending| dir.join(format!("{name}.{ending}")));
        tls(&dir.join("ca.pem"), &cert, &key)
    };
    let [ca, two] = ["ca.pem", "node-2.pem"].map(|name| own.join(name));
    let client = of(&own, "client");
    let client: Vec<&str> = client.iter().map(String::as_str).collect();
    let view = || json_of(&[&["view", "show", "--endpoint", endpoint], &client[..]].concat());
    let (before, token) = (view(), invited(endpoint, &client));
    let dir = place.path().join("n");
    let refused: [(Vec<String>, &[&str], i32, &str); 7] = [
        (of(&own, "client"), &[], 2, "names no node"),
        (
            of(&own, "node-2"),
            &["--node", "3"],
            2,
            "of node 2, and --node 3 needs its own",
        ),
        (of(&own, "node-1"), &[], 7, "of node 1, which is a member"),
        (
            tls(&ca, &two, &own.join("node-5.key")),
            &[],
            2,
            "not the key of",
        ),
        (tls(&ca, &two, &open), &[], 2, "chmod 600"),
        (
            tls(
                &ca,
                &foreign.join("node-2.pem"),
                &foreign.join("node-2.key"),
            ),
            &[],
            2,
            "has not signed it",
        ),
        (
            of(&foreign, "node-2"),
            &[],
            6,
            "not signed by the authority given",
        ),
    ];
    for (files, words, code, why) in refused {
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        let to = [
            "--endpoint",
            endpoint,
            "--token",
            &token,
            "--dir",
            dir.to_str().unwrap(),
        ];
        let output = run(&[&["node", "join"], &to[..], &files, words].concat());
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{files:?}: {told}");
        assert!(told.contains(why), "{files:?}: {told}");
        assert!(!dir.exists(), "{files:?}: {told}");
    }
    assert_eq!(view(), before);
    let files = of(&own, "node-5");
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let joined = Joined::start(endpoint, &token, &dir, &files);
    assert_eq!(joined.told["node"], 5, "its certificate says so");
}
