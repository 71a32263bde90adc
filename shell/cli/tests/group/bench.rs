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

#[test]
fn a_method_that_there_is_not_is_told_like_that_of_a_call_and_nothing_is_measured() {
    for more in [&[][..], &["--python-client"], &["--unreplicated"]] {
        let load = ["bench", "--object", "collections:Counter.most_comon"];
        let load = [
            &load[..],
            &["--persist", "memory", "--local", "1", "--seconds", "0.1"],
            more,
        ]
        .concat();
        let ended = run(&load);
        let said = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert_eq!(text(&ended.stdout), "");
        let told = "quorate: quorate.NoSuchMethod: Counter has no public method `most_comon`";
        assert!(said.starts_with(told), "{said}");
        assert!(
            said.contains("did you mean `most_common`? (its methods: "),
            "{said}"
        );
    }
    // Special methods are called, though no list has them.
    let sized = [
        "bench",
        "--object",
        "collections:Counter.__len__",
        "--call-args",
        "[]",
    ];
    let ended = run(&[
        &sized[..],
        &["--persist", "memory", "--local", "1", "--seconds", "0.1"],
    ]
    .concat());
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended.stderr));
}

#[test]
fn an_object_that_there_is_not_is_a_wrong_command_that_says_which_there_are() {
    let wrong = |object: &str| {
        let ended = run(&["bench", "--object", object, "--seconds", "0.1"]);
        assert_eq!(ended.status.code(), Some(2), "{object}");
        assert_eq!(text(&ended.stdout), "", "{object}");
        text(&ended.stderr)
    };
    assert!(wrong("wrong").contains("use rust:counter, rust:register, rust:kv or module:Class"));
    assert!(wrong("rust:wrong").contains("use rust:counter"));
    let said = wrong("absent_module:Account.deposit");
    assert!(
        said.starts_with("quorate: object Account: module: there is no module 'absent_module'"),
        "{said}"
    );
    assert!(!said.contains("exit_code"), "{said}");
    let said = wrong("collections:Wrong.get");
    assert!(
        said.contains("module 'collections' has no class 'Wrong'; its classes: "),
        "{said}"
    );
    assert!(said.contains("Counter"), "{said}");

    let group = Group::start(&["--nodes", "1"]);
    let endpoint = group.ready["endpoint"].as_str().unwrap();
    let endpoint = format!("{}/wrong", endpoint.rsplit_once('/').unwrap().0);
    let ended = run(&["bench", "--endpoint", &endpoint, "--seconds", "0.1"]);
    assert_eq!(ended.status.code(), Some(3));
    assert_eq!(text(&ended.stdout), "");
    let said = text(&ended.stderr);
    assert!(said.contains("this group began with: counter"), "{said}");
}
