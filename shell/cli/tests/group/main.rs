//! Whole groups of real processes on this machine, driven by the commands that people use.
//! Nothing here measures time: waits are for lines that the processes write, and `up` and `call` bound them.

mod backup;
mod bench;
mod conflict;
mod crowd;
mod diverged;
mod draining;
mod forged;
mod groups;
mod joining;
mod limits;
mod lost_votes;
mod meeting;
mod members;
mod multicast;
mod never_up;
mod orderings;
mod quorums;
mod reading;
mod recover;
mod replaced;
mod restore;
mod settings;
mod verify;
mod view;

use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

const QUORATE: &str = env!("CARGO_BIN_EXE_quorate");

/// A group started by `quorate up`; asked to end when dropped.
struct Group {
    child: Child,
    stderr: BufReader<ChildStderr>,
    ready: Value,
}

impl Group {
    /// A group that starts again has the ports that it had, and while it was down a connection of another test may have been given
    /// one: then the start is tried again, a few times.
    fn start(words: &[&str]) -> Group {
        Group::start_by(|| Command::new(QUORATE), words)
    }

    /// A group whose processes may open so many files.
    fn start_limited(files: &str, words: &[&str]) -> Group {
        let limited = || {
            let mut command = Command::new("sh");
            command.args(["-c", r#"ulimit -n "$0"; exec "$@""#, files, QUORATE]);
            command
        };
        Group::start_by(limited, words)
    }

    fn start_by(command: impl Fn() -> Command, words: &[&str]) -> Group {
        let mut failure = String::new();
        for _ in 0..5 {
            match Group::try_start(command(), words) {
                Ok(group) => return group,
                Err(why) if why.contains("in use") => failure = why,
                Err(why) => panic!("no group: {why}"),
            }
        }
        panic!("no group after five tries: {failure}");
    }

    fn try_start(mut command: Command, words: &[&str]) -> Result<Group, String> {
        let mut child = command
            .args(["up", "--port", "0", "-o", "json"])
            .args((!words.iter().any(|word| word.starts_with("rust:"))).then_some("rust:counter"))
            .args(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let ready = serde_json::from_str(&line);
        let mut group = Group {
            child,
            stderr,
            ready: Value::Null,
        };
        match ready {
            Ok(ready) => group.ready = ready,
            Err(_) => return Err(group.rest_of_stderr()),
        }
        Ok(group)
    }

    fn endpoint(&self) -> &str {
        self.ready["endpoint"].as_str().unwrap()
    }

    fn quorate(&self, words: &[&str]) -> Output {
        run(&[&[words[0], "--endpoint", self.endpoint()], &words[1..]].concat())
    }

    fn add(&self, amount: &str) -> String {
        let output = self.quorate(&["call", "counter", "add", amount]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).trim().to_owned()
    }

    fn status(&self) -> Value {
        let output = self.quorate(&["status", "-o", "json"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The node that leads, once the nodes that are up agree on one that is.
    fn leader(&self) -> Value {
        loop {
            let status = self.status();
            let nodes = status["nodes"].as_array().unwrap();
            let leads = |node: &&Value| node["id"] == status["leader"] && node["up"] == true;
            if let Some(leader) = nodes.iter().find(leads) {
                return leader.clone();
            }
        }
    }

    fn wait_for(&mut self, words: &str) {
        let mut line = String::new();
        while !line.contains(words) {
            line.clear();
            let read = self.stderr.read_line(&mut line).unwrap();
            assert!(read > 0, "the group ended before it said: {words}");
        }
    }

    fn rest_of_stderr(&mut self) -> String {
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).unwrap();
        rest
    }

    /// Asks the group to end; its exit code.
    fn stop(&mut self) -> Option<i32> {
        signal(self.child.id(), "TERM");
        self.child.wait().unwrap().code()
    }

    /// Leaves each node its log and what its configuration says, because all are killed before the group is stopped.
    fn stop_without_snapshot(&mut self) {
        let nodes = self.ready["nodes"].as_array().unwrap();
        nodes.iter().for_each(|node| signal(pid(node), "KILL"));
        assert_eq!(self.stop(), Some(0));
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.child.try_wait().unwrap().is_none() {
            self.stop();
        }
    }
}

fn run(words: &[&str]) -> Output {
    Command::new(QUORATE).args(words).output().unwrap()
}

/// Makes the directory of node 1 of a new cluster.
fn init_node(dir: &Path) {
    let dir = dir.to_str().unwrap();
    let made = run(&["node", "init", "--node", "1", "--dir", dir]);
    assert!(made.status.success(), "{}", text(&made.stderr));
}

fn signal(pid: u32, name: &str) {
    let status = Command::new("kill")
        .args([&format!("-{name}"), &pid.to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

fn pid(node: &Value) -> u32 {
    u32::try_from(node["pid"].as_u64().unwrap()).unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn a_group_loses_its_leader_and_nothing_else() {
    let mut group = Group::start(&[]);
    assert_eq!(group.ready["nodes"].as_array().unwrap().len(), 3);
    assert_eq!(group.add("5"), "5");
    let killed = group.leader();
    signal(pid(&killed), "KILL");
    assert_eq!(group.add("5"), "10", "the others go on");
    group.wait_for("runs again");
    assert_eq!(group.add("1"), "11");
    assert_eq!(group.stop(), Some(0));
    let nodes = group.ready["nodes"].as_array().unwrap();
    assert!(
        nodes.iter().all(|node| !is_alive(pid(node))),
        "no node outlives the group"
    );
    assert!(!Path::new(group.ready["dir"].as_str().unwrap()).exists());
}

#[test]
fn a_group_on_disk_is_taken_up_again_with_everything_it_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["--dir", dir.path().to_str().unwrap()];
    let mut group = Group::start(&words);
    assert_eq!(group.add("3"), "3");
    let snapshot = group.quorate(&["snapshot"]);
    assert!(snapshot.status.success(), "{}", text(&snapshot.stderr));
    assert_eq!(group.add("4"), "7");
    // Without a chance to put anything in order.
    for node in group.ready["nodes"].as_array().unwrap() {
        signal(pid(node), "KILL");
    }
    assert_eq!(group.stop(), Some(0));
    let mut group = Group::start(&words);
    assert_eq!(group.add("1"), "8");
    assert_eq!(group.stop(), Some(0));
    let other = run(&["up", "rust:kv", "--dir", dir.path().to_str().unwrap()]);
    assert_eq!(other.status.code(), Some(7), "{}", text(&other.stderr));
}

#[test]
fn a_node_that_may_not_come_back_is_left_dead() {
    let mut group = Group::start(&["--no-restart"]);
    let killed = group.leader();
    signal(pid(&killed), "KILL");
    group.wait_for("died");
    assert_eq!(group.add("2"), "2");
    let status = group.status();
    let nodes = status["nodes"].as_array().unwrap();
    let dead = nodes
        .iter()
        .find(|node| node["id"] == killed["id"])
        .unwrap();
    assert_eq!(dead["up"], false);
    assert!(dead["pid"].is_null());
}

#[test]
fn wrong_words_are_usage_errors_and_leave_nothing_behind() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("group");
    let dir = dir.to_str().unwrap();
    let refused = |words: &[&str], says: &str| {
        let output = run(words);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {stderr}");
        assert!(stderr.contains(says), "{words:?}: {stderr}");
        assert!(output.stdout.is_empty());
    };
    refused(&["up", "rust:countr", "--dir", dir], "no built-in object");
    refused(&["up", "counter", "--dir", dir], "module:Class");
    refused(
        &["up", "rust:counter", "--dir", dir, "--args", "[1"],
        "--args",
    );
    refused(&["up", "rust:counter", "--prot", "1"], "--port");
    refused(
        &["node", "run", "--config", "/nonexistent/node.toml"],
        "/nonexistent/node.toml",
    );
    refused(&["node", "init", "--dir", dir, "--node", "64"], "64");
    assert!(!Path::new(dir).exists(), "nothing was made");
}

#[test]
fn a_directory_serves_one_node_and_only_the_one_it_was_made_for() {
    let dir = tempfile::tempdir().unwrap();
    let group = Group::start(&["--nodes", "1", "--dir", dir.path().to_str().unwrap()]);
    let config = dir.path().join("node-1.toml");
    let run_node = |config: &Path| run(&["node", "run", "--config", config.to_str().unwrap()]);
    let second = run_node(&config);
    assert_eq!(second.status.code(), Some(1));
    assert!(
        text(&second.stderr).contains("is locked by"),
        "{}",
        text(&second.stderr)
    );
    drop(group);
    let written = std::fs::read_to_string(&config).unwrap();
    let changed = |from: &str, to: &str| {
        let path = dir.path().join("changed.toml");
        let lines: Vec<String> = written
            .lines()
            .map(|line| {
                if line.starts_with(from) {
                    to.to_owned()
                } else {
                    line.to_owned()
                }
            })
            .collect();
        std::fs::write(&path, lines.join("\n")).unwrap();
        let output = run_node(&path);
        (output.status.code(), text(&output.stderr))
    };
    let (code, says) = changed("cluster = ", "cluster = \"00000000000000aa\"");
    assert_eq!(code, Some(2), "{says}");
    assert!(says.contains("belongs to node 1 of cluster"), "{says}");
    let (code, says) = changed("incarnation = ", "incarnation = \"00000000000000aa\"");
    assert_eq!(code, Some(2), "{says}");
    assert!(says.contains("incarnation"), "{says}");
    let empty = dir.path().join("empty");
    let (code, says) = changed("dir = ", &format!("dir = \"{}\"", empty.display()));
    assert_eq!(code, Some(2), "{says}");
    assert!(says.contains("not initialised"), "{says}");
    let (code, says) = changed("persist = ", "persist = \"memory\"");
    assert_eq!(code, Some(2), "{says}");
    assert!(says.contains("persist"), "{says}");
}

#[test]
fn a_taken_port_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = run(&["up", "rust:counter", "--nodes", "1", "--port", &port]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains(&format!("127.0.0.1:{port} is in use")));
}

#[test]
fn the_admin_port_says_that_the_node_is_ready_and_what_it_counts() {
    let group = Group::start(&["--nodes", "1"]);
    let admin = group.ready["nodes"][0]["admin"].as_str().unwrap();
    let get = |path: &str| http(admin, path);
    assert!(get("/livez").starts_with("HTTP/1.1 200"));
    assert!(get("/readyz").starts_with("HTTP/1.1 200"));
    let metrics = get("/metrics");
    assert!(
        metrics.contains("quorate_leads{group=\"1\",node=\"1\"} 1"),
        "{metrics}"
    );
    assert!(metrics.contains("# EOF"));
    let status = get("/status");
    let json: Value = serde_json::from_str(status.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!(json["leader"], 1);
    assert!(get("/nonsense").starts_with("HTTP/1.1 404"));
}

#[test]
fn a_node_that_was_away_for_longer_than_the_log_reaches_back_catches_up_by_a_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let mut group = Group::start(&["--no-restart", "--dir", dir.path().to_str().unwrap()]);
    group.add("1");
    let leader = group.leader();
    let status = group.status();
    let nodes = status["nodes"].as_array().unwrap();
    let away = nodes
        .iter()
        .find(|node| node["id"] != leader["id"])
        .unwrap();
    signal(pid(away), "KILL");
    group.wait_for("died");
    group.add("1");
    let snapshot = group.quorate(&["snapshot"]);
    let slot: u64 = text(&snapshot.stdout).trim().parse().unwrap();
    // The log may go once a majority holds the snapshot.
    let begun = std::time::Instant::now();
    while group.leader()["trimmed"].as_u64().unwrap() < slot {
        assert!(begun.elapsed().as_secs() < 60, "never trimmed");
    }
    let config = dir.path().join(format!("node-{}.toml", away["id"]));
    let log = dir.path().join("back.log");
    let back = Command::new(QUORATE)
        .args(["node", "run", "--config", config.to_str().unwrap()])
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn();
    let _back = Nodes(vec![back.unwrap()]);
    group.add("1");
    loop {
        let status = group.status();
        let nodes = status["nodes"].as_array().unwrap();
        let node = nodes.iter().find(|node| node["id"] == away["id"]).unwrap();
        if node["digest"] == leader_of(&status)["digest"] {
            assert!(node["executed"].as_u64() > Some(slot));
            break;
        }
        assert!(begun.elapsed().as_secs() < 60, "never caught up: {status}");
    }
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(said.contains("installed a peer's snapshot"), "{said}");
}

fn leader_of(status: &Value) -> &Value {
    let nodes = status["nodes"].as_array().unwrap();
    nodes
        .iter()
        .find(|node| node["id"] == status["leader"])
        .unwrap()
}

struct Nodes(Vec<Child>);

impl Drop for Nodes {
    fn drop(&mut self) {
        for child in &mut self.0 {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

#[test]
fn nodes_with_certificates_form_a_group_and_plain_clients_stay_outside() {
    let dir = tempfile::tempdir().unwrap();
    let certs = dir.path().join("certs");
    let made = run(&["certs", "--dir", certs.to_str().unwrap(), "--nodes", "3"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let again = run(&["certs", "--dir", certs.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(7), "nothing is overwritten");
    let mut group = Group::start(&["--dir", dir.path().to_str().unwrap()]);
    assert_eq!(group.stop(), Some(0));
    let mut nodes = Nodes(Vec::new());
    for number in 1..=3 {
        let config = dir.path().join(format!("node-{number}.toml"));
        let written = std::fs::read_to_string(&config).unwrap();
        let file = |name: &str| certs.join(name).display().to_string();
        let tls = format!(
            "[tls]\nca = \"{}\"\ncert = \"{}\"\nkey = \"{}\"\n",
            file("ca.pem"),
            file(&format!("node-{number}.pem")),
            file(&format!("node-{number}.key"))
        );
        std::fs::write(&config, format!("{written}\n{tls}")).unwrap();
        let child = Command::new(QUORATE)
            .args(["node", "run", "--config", config.to_str().unwrap()])
            .stderr(Stdio::null())
            .spawn();
        nodes.0.push(child.unwrap());
    }
    let begun = std::time::Instant::now();
    for node in group.ready["nodes"].as_array().unwrap() {
        while !http(node["admin"].as_str().unwrap(), "/readyz").starts_with("HTTP/1.1 200") {
            assert!(begun.elapsed().as_secs() < 60, "nobody leads");
        }
    }
    let plain = group.quorate(&["status", "--timeout", "1"]);
    assert!(
        !plain.status.success(),
        "no status for who brings no certificate"
    );
}

// Longer than a screen: one group, asked with each kind of certificate.
#[test]
fn a_group_with_certificates_serves_who_brings_theirs_and_tells_others_what_to_try() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("group");
    let mut group = Group::start(&["--tls", "--dir", home.to_str().unwrap()]);
    let file = |name: &str| group.ready["tls"][name].as_str().unwrap().to_owned();
    let (ca, cert, key) = (file("ca"), file("cert"), file("key"));
    let sealed = |words: &[&str], ca: &str, cert: &str, key: &str| {
        let tls = ["--tls-ca", ca, "--tls-cert", cert, "--tls-key", key];
        group.quorate(&[&words[..1], &tls, &words[1..]].concat())
    };
    let works = |words: &[&str]| {
        let output = sealed(words, &ca, &cert, &key);
        assert!(
            output.status.success(),
            "{words:?}: {}",
            text(&output.stderr)
        );
        text(&output.stdout).trim().to_owned()
    };
    assert_eq!(works(&["call", "counter", "add", "5"]), "5");
    assert_eq!(add_from_rust(group.endpoint(), [&ca, &cert, &key]), b"\x07");
    works(&["snapshot"]);
    let status: Value = serde_json::from_str(&works(&["status", "-o", "json"])).unwrap();
    assert!(
        status["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .all(|node| node["up"] == true)
    );

    let refused = |output: Output, code: i32, says: &str| {
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains(says), "{stderr}");
    };
    let call = ["call", "counter", "add", "1"];
    refused(
        group.quorate(&call),
        6,
        "speaks TLS and this client does not",
    );
    refused(group.quorate(&["status"]), 6, "--tls-ca");
    let foreign = dir.path().join("foreign");
    let made = run(&["certs", "--dir", foreign.to_str().unwrap(), "--nodes", "1"]);
    assert!(made.status.success());
    let other = |name: &str| foreign.join(name).display().to_string();
    let (other_ca, other_cert) = (other("ca.pem"), other("client.pem"));
    let other_key = other("client.key");
    refused(
        sealed(&call, &other_ca, &cert, &key),
        6,
        "not signed by the authority given",
    );
    refused(
        sealed(&call, &ca, &other_cert, &other_key),
        6,
        "refuses this client's certificate",
    );
    refused(
        sealed(&call, &ca, &cert, &other("none.key")),
        2,
        &other("none.key"),
    );
    refused(
        group.quorate(&["call", "--tls-ca", &ca, "counter", "get"]),
        2,
        "--tls-key",
    );
    assert_eq!(
        works(&["call", "counter", "add", "1"]),
        "8",
        "nothing refused was executed"
    );
    let bench = works(&["bench", "--seconds", "0.2", "--warmup", "0", "-o", "json"]);
    let bench: Value = serde_json::from_str(&bench).unwrap();
    assert_eq!(bench["errors"], 0, "{bench}");
    assert_eq!(group.stop(), Some(0));
    let plain = run(&["up", "rust:counter", "--dir", home.to_str().unwrap()]);
    refused(plain, 7, "made with --tls");
}

/// Adds two by the Rust client; the encoded result.
fn add_from_rust(endpoint: &str, [ca, cert, key]: [&String; 3]) -> Vec<u8> {
    use quorate_client::{Answer, Client, DriverOptions, Endpoint, Operation, TlsClient};
    let tls = TlsClient::from_files(Path::new(ca), Path::new(cert), Path::new(key)).unwrap();
    let options = DriverOptions {
        tls: Some(std::sync::Arc::new(tls)),
        ..DriverOptions::default()
    };
    let endpoint: Endpoint = endpoint.parse().unwrap();
    let client = Client::connect(&endpoint, options, None).unwrap();
    let two = quorate_wire::value::Value::Int(2);
    let payload = quorate_wire::value::call::encode("add", &[two], &[]).unwrap();
    let object = client.object(Some("counter")).unwrap();
    match client.perform(Operation::Call { object, payload }).unwrap() {
        Answer::Called(quorate_types::Outcome::Returned(value)) => value.to_vec(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn certificates_for_a_group_without_any_are_told_to_stay_away() {
    let dir = tempfile::tempdir().unwrap();
    let group = Group::start(&["--nodes", "1"]);
    let made = run(&[
        "certs",
        "--dir",
        dir.path().to_str().unwrap(),
        "--nodes",
        "1",
    ]);
    assert!(made.status.success());
    let file = |name: &str| dir.path().join(name).display().to_string();
    let (ca, cert, key) = (file("ca.pem"), file("client.pem"), file("client.key"));
    let tls = ["--tls-ca", &ca, "--tls-cert", &cert, "--tls-key", &key];
    let output = group.quorate(&[&["status"], &tls[..]].concat());
    assert_eq!(output.status.code(), Some(6));
    assert!(
        text(&output.stderr).contains("does not speak TLS"),
        "{}",
        text(&output.stderr)
    );
}

/// The answer of an admin port; empty when nobody listens there.
fn http(admin: &str, path: &str) -> String {
    use std::io::Write;
    let mut answer = String::new();
    if let Ok(mut stream) = std::net::TcpStream::connect(admin) {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        stream.read_to_string(&mut answer).unwrap();
    }
    answer
}
