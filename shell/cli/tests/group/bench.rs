//! What a benchmark tells when calls of its load fail, or when there can be none.

use crate::{Group, run, text};
use serde_json::Value;

#[test]
fn a_load_whose_calls_fail_ends_with_1_and_says_how_many() {
    let group = Group::start(&["--nodes", "1"]);
    // A counter has no keys.
    let load = ["bench", "--object", "rust:kv", "--seconds", "0.2"];
    let ended = group.quorate(&[&load[..], &["--warmup", "0", "-o", "json"]].concat());
    let said = text(&ended.stderr);
    let report: Value = serde_json::from_slice(&ended.stdout).expect("figures all the same");
    let errors = report["errors"].as_u64().unwrap();
    assert!(errors > 0, "{report}");
    assert_eq!(ended.status.code(), Some(1), "{said}");
    let count = format!("{errors} calls of the load");
    assert!(said.contains(&count), "{said}");
}

#[test]
fn a_load_for_which_there_can_be_no_group_says_so_once_with_the_code_of_the_reason() {
    let few = ["bench", "--ordering", "fast_paxos", "--local", "3"];
    let ended = run(&[&few[..], &["--seconds", "0.1", "-o", "json"]].concat());
    assert_eq!(ended.status.code(), Some(7));
    let said: Value = serde_json::from_slice(&ended.stderr).expect("one object");
    assert_eq!(said["error"], "conflict", "{said}");
}
