//! Options of `quorate up` on a directory that has a group already: they hold, or they are refused.

use crate::{Group, run, text};
use std::fs::OpenOptions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Instant;

fn config(dir: &Path, node: u16) -> String {
    std::fs::read_to_string(dir.join(format!("node-{node}.toml"))).unwrap()
}

#[test]
fn an_option_holds_from_the_next_start_on_and_stays_when_it_is_left_out() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().to_str().unwrap();
    Group::start(&["--dir", dir]).stop();
    assert!(config(home.path(), 1).contains("call_timeout = 10.0"));
    let mut group = Group::start(&["--dir", dir, "--call-timeout", "60", "--no-snapshot"]);
    assert_eq!(group.ready["settings"]["call_timeout"], 60.0);
    group.stop();
    for node in 1..=3 {
        let config = config(home.path(), node);
        assert!(config.contains("call_timeout = 60.0"), "{config}");
        assert!(config.contains("enabled = false"), "{config}");
    }
    let mut group = Group::start(&["--dir", dir]);
    assert_eq!(group.ready["settings"]["call_timeout"], 60.0);
    group.stop();
    assert!(config(home.path(), 2).contains("enabled = true"));
    let mut group = Group::start(&["--dir", dir, "--call-timeout", "never"]);
    assert!(group.ready["settings"]["call_timeout"].is_null());
    group.stop();
}

#[test]
fn a_second_group_in_a_directory_is_refused_and_others_of_the_machine_see_nothing() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("group");
    let words = ["--dir", dir.to_str().unwrap()];
    let group = Group::start(&words);
    let second = run(&[&["up", "rust:counter", "--port", "0"], &words[..]].concat());
    assert_eq!(second.status.code(), Some(7));
    let said = text(&second.stderr);
    assert!(said.contains("another `quorate up`"), "{said}");
    for (path, mode) in [("", 0o700), ("node-1", 0o700), ("node-1.log", 0o600)] {
        let found = std::fs::metadata(dir.join(path)).unwrap().permissions();
        assert_eq!(found.mode() & 0o777, mode, "{path}");
    }
    drop(group);
}

#[test]
fn another_object_than_that_of_the_directory_is_refused_before_it_is_tried() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().to_str().unwrap();
    Group::start(&["--dir", dir]).stop();
    let refused = |words: &[&str], why: &str| {
        let refused = run(&[&["up"], words, &["--dir", dir]].concat());
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(7), "{said}");
        assert!(said.contains(why), "{said}");
    };
    refused(&["absent:Account"], "it replicates rust:counter");
    refused(
        &["rust:counter", "--args", "[1]"],
        "its object was made without --args and --kwargs",
    );
    let class = "class = \"rust:counter\"";
    let with_arguments = format!("{class}\nargs = '[\"A-1\", 100]'");
    let changed = config(home.path(), 1).replace(class, &with_arguments);
    std::fs::write(home.path().join("node-1.toml"), changed).unwrap();
    refused(
        &["rust:counter"],
        r#"its object was made with --args '["A-1", 100]'"#,
    );
}

#[test]
fn a_configuration_that_is_lost_is_named_with_how_it_comes_back() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().to_str().unwrap();
    Group::start(&["--dir", dir]).stop();
    let lost = home.path().join("node-2.toml");
    std::fs::remove_file(&lost).unwrap();
    for words in [
        &["up", "rust:counter", "--dir", dir][..],
        &["node", "run", "--config", lost.to_str().unwrap()],
    ] {
        let refused = run(words);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains("node-2.toml: No such file"), "{said}");
        assert!(
            said.contains("is that of another member with other node, dir"),
            "{said}"
        );
    }
}

#[test]
fn another_port_than_that_of_the_directory_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().to_str().unwrap();
    Group::start(&["--dir", dir]).stop();
    let refused = run(&["up", "rust:counter", "--dir", dir, "--port", "9"]);
    assert_eq!(refused.status.code(), Some(7));
    let said = text(&refused.stderr);
    assert!(said.contains("leave --port out"), "{said}");
}

#[test]
fn the_full_log_of_a_node_is_put_aside_and_a_new_one_begun() {
    const FULL: u64 = 16 << 20;
    let home = tempfile::tempdir().unwrap();
    let words = ["--nodes", "1", "--dir", home.path().to_str().unwrap()];
    Group::start(&words).stop();
    let log = home.path().join("node-1.log");
    let file = OpenOptions::new().append(true).open(&log).unwrap();
    file.set_len(FULL).unwrap();
    let mut group = Group::start(&words);
    let aside = home.path().join("node-1.log.1");
    let begun = Instant::now();
    // What a node says reaches its file by another process.
    while !aside.exists() {
        assert!(begun.elapsed().as_secs() < 30, "the log grows on");
    }
    group.stop();
    assert_eq!(std::fs::metadata(&aside).unwrap().len(), FULL);
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(said.contains("leading"), "{said}");
    let mode = std::fs::metadata(&log).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
