//! Options of `quorate up` on a directory that has a group already: they hold, or they are refused.

use crate::{Group, run, text};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

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
fn another_port_than_that_of_the_directory_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().to_str().unwrap();
    Group::start(&["--dir", dir]).stop();
    let refused = run(&["up", "rust:counter", "--dir", dir, "--port", "9"]);
    assert_eq!(refused.status.code(), Some(7));
    let said = text(&refused.stderr);
    assert!(said.contains("leave --port out"), "{said}");
}
