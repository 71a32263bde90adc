//! Limits of a view, in a group of real processes.

use crate::{Group, run, text};
use quorate_client::{Client, DriverOptions, Endpoint};
use serde_json::{Value, json};

fn view(group: &Group, words: &[&str]) -> (Option<i32>, Value, String) {
    let all = [
        &["view"],
        words,
        &["--endpoint", group.endpoint()],
        &["-o", "json"],
    ];
    let output = run(&all.concat());
    let told = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code(), told, text(&output.stderr))
}

/// Claim rp-152. Claim rp-154.
#[test]
fn limits_are_set_while_the_group_runs_and_one_session_is_enough_to_go_on() {
    let group = Group::start(&["--level", "28"]);
    let usual = json!({"sessions": 1_000_000, "replies": 268_435_456});
    let (_, shown, _) = view(&group, &["show"]);
    assert_eq!(shown["limits"], usual);
    let (code, _, stderr) = view(&group, &["set", "sessions=1"]);
    assert_eq!(code, Some(7), "{stderr}");
    assert!(stderr.contains("quorate view set level=29"), "{stderr}");
    let (code, _, stderr) = view(&group, &["set", "level=29"]);
    assert_eq!(code, Some(0), "{stderr}");
    for (setting, why) in [
        ("sessions=0", "1 to 1000000 sessions"),
        ("sessions=1000001", "1 to 1000000 sessions"),
        ("replies=1024", "16777216 to 536870912 bytes"),
        ("replies=64MiB", "a whole number"),
        ("sessions=1000000", "nothing to change"),
    ] {
        let (code, _, stderr) = view(&group, &["set", setting]);
        assert_eq!(code, Some(2), "{setting}: {stderr}");
        assert!(stderr.contains(why), "{setting}: {stderr}");
    }
    let few = json!({"sessions": 1, "replies": 268_435_456});
    let (code, told, stderr) = view(&group, &["set", "sessions=1", "--dry-run"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!((&told["limits"], &told["before"]), (&few, &usual));
    let (code, told, stderr) = view(&group, &["set", "sessions=1"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(told["limits"], few);
    assert_eq!(group.status()["view"]["limits"], few);
    for sum in 1..4 {
        assert_eq!(group.add("1"), sum.to_string(), "one after the other");
    }
    let (code, told, stderr) = view(&group, &["set", "replies=67108864"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(
        told["limits"],
        json!({"sessions": 1, "replies": 67_108_864})
    );
    let table = run(&["view", "show", "--endpoint", group.endpoint()]);
    let table = text(&table.stdout);
    assert!(table.contains("at most 1 sessions"), "{table}");
    let (code, _, stderr) = view(&group, &["set", "level=28"]);
    assert_eq!(code, Some(7), "{stderr}");
    assert!(stderr.contains("view set sessions=1000000"), "{stderr}");
    for setting in ["sessions=1000000", "replies=268435456", "level=28"] {
        let (code, _, stderr) = view(&group, &["set", setting]);
        assert_eq!(code, Some(0), "{setting}: {stderr}");
    }
    let (_, shown, _) = view(&group, &["show"]);
    assert_eq!(shown["limits"], usual);
    assert_eq!(group.add("1"), "4");
}

#[test]
fn a_client_for_which_there_is_no_place_is_told_so() {
    let group = Group::start(&["--nodes", "1"]);
    let (code, _, stderr) = view(&group, &["set", "sessions=1"]);
    assert_eq!(code, Some(0), "{stderr}");
    let endpoint: Endpoint = group.endpoint().parse().unwrap();
    let client = Client::connect(&endpoint, DriverOptions::default(), None).unwrap();
    let refused = group.quorate(&["call", "--timeout", "2", "counter", "add", "1"]);
    let stderr = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(4), "{stderr}");
    assert!(
        stderr.contains("the group has as many as it may"),
        "{stderr}"
    );
    drop(client);
}
