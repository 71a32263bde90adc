//! What the commands make of words: options where people write them, and values that cannot be meant.

use serde_json::Value;
use std::process::{Command, Output, Stdio};

fn quorate(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quorate"))
        .args(words)
        .output()
        .unwrap()
}

#[test]
fn an_option_behind_the_arguments_of_a_call_is_an_option() {
    let nowhere = "quorate://127.0.0.1:1";
    let call = ["call", "--endpoint", nowhere, "counter", "add"];
    let mistyped = quorate(&[&call[..], &["1", "--tiemout", "5"]].concat());
    assert_eq!(mistyped.status.code(), Some(2));
    for amount in [&["-5"][..], &["--", "--tiemout"]] {
        let options = ["--timeout", "0.01"];
        let words = [&call[..3], &options, &call[3..], amount].concat();
        assert_eq!(quorate(&words).status.code(), Some(4), "{amount:?}");
    }
}

#[test]
fn values_that_cannot_be_meant_are_refused_before_anything_starts() {
    for words in [
        &["call", "--timeout", "1e300", "counter", "add"][..],
        &["status", "--timeout", "1e300"],
        &["snapshot", "--timeout", "nan"],
        &["bench", "--seconds", "0"],
        &["bench", "--read-ratio", "2"],
        &["bench", "--local", "0"],
        &["up", "rust:counter", "--call-timeout=-1"],
        &["view", "add", "4", "--role", "acceptor"],
        &["view", "set", "window=64", "--role", "acceptor"],
        &[
            "view",
            "switch",
            "--ordering",
            "libpaxos",
            "--role=acceptor",
        ],
    ] {
        let output = quorate(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(output.stdout.is_empty(), "{words:?}");
    }
}

#[test]
fn bench_starts_a_group_of_its_own_and_prints_one_document() {
    let words = ["bench", "--seconds", "0.1", "--warmup", "0", "-o", "json"];
    let output = quorate(&words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["ops_per_s"].as_f64().unwrap() > 0.0, "{report}");
    assert_eq!(report["errors"], 0, "{report}");
}

#[test]
fn bench_spreads_clients_over_the_nodes_and_counts_the_cpu_of_each() {
    let load = [
        "bench",
        "--spread-clients",
        "--clients",
        "3",
        "--window",
        "16",
    ];
    let words = [
        &load[..],
        &["--seconds", "0.5", "--warmup", "0", "-o", "json"],
    ]
    .concat();
    let output = quorate(&words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["errors"], 0, "{report}");
    let cpu = &report["cpu_s_per_1000_ops"];
    let each: Vec<f64> = serde_json::from_value(cpu["each_node"].clone()).unwrap();
    assert_eq!(each.len(), 3, "{report}");
    let sum: f64 = each.iter().sum();
    assert!(
        (sum - cpu["nodes"].as_f64().unwrap()).abs() < 1e-9,
        "{report}"
    );
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let home = tempfile::tempdir().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended = Command::new(env!("CARGO_BIN_EXE_quorate"))
        .args(["node", "init", "--node", "1", "--dir"])
        .arg(home.path().join("node-1"))
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
}

#[test]
fn the_demo_and_the_lab_outside_a_checkout_say_where_they_stand() {
    let elsewhere = std::env::temp_dir();
    for (words, path, target) in [
        (&["demo"][..], "examples/demo.py", "make demo"),
        (&["lab", "list"], "lab/runner/commands.py", "make lab"),
        (
            &["lab", "run", "--all"],
            "lab/runner/commands.py",
            "make lab",
        ),
        (&["lab", "report"], "lab/runner/commands.py", "make lab"),
    ] {
        let told = quorate(&[words, &["--checkout", elsewhere.to_str().unwrap()]].concat());
        assert_eq!(told.status.code(), Some(3), "{words:?}");
        let text = String::from_utf8(told.stderr).unwrap();
        assert!(text.contains(&format!("{path} is not in")), "{text}");
        assert!(text.contains(&format!("`{target}`")), "{text}");
    }
}

#[test]
fn the_lab_runs_experiments_that_are_named_or_all() {
    for words in [
        &["lab", "run"][..],
        &["lab", "run", "--all", "one"],
        &["lab"],
    ] {
        assert_eq!(quorate(words).status.code(), Some(2), "{words:?}");
    }
}

#[test]
fn an_error_with_json_is_one_object_that_says_what_to_do() {
    let nowhere = "quorate://127.0.0.1:1";
    let silent = ["status", "--endpoint", nowhere, "-o", "json"];
    let mistyped = ["status", "--tiemout", "1", "-o", "json"];
    for (words, name, code) in [(&silent[..], "no_quorum", 4), (&mistyped, "usage", 2)] {
        let output = quorate(words);
        assert_eq!(output.status.code(), Some(code), "{words:?}");
        assert!(output.stdout.is_empty(), "{words:?}");
        let error: Value = serde_json::from_slice(&output.stderr).unwrap();
        assert_eq!(error["error"], name);
        assert_eq!(error["exit_code"], code);
        for text in ["message", "advice"] {
            assert!(!error[text].as_str().unwrap().is_empty(), "{error}");
        }
    }
}

#[test]
fn the_help_and_the_page_of_commands_list_the_same_exit_codes() {
    let help = String::from_utf8(quorate(&["--help"]).stdout).unwrap();
    let page = include_str!("../../../docs/commands.md");
    for code in 0..8 {
        let line = |text: &str, start: &str| text.lines().any(|line| line.starts_with(start));
        assert!(line(&help, &format!("  {code}  ")), "{help}");
        assert!(line(page, &format!("| {code} | ")), "{code}");
    }
}

#[test]
fn completions_are_scripts_that_their_shell_reads() {
    for shell in ["bash", "zsh", "fish"] {
        let script = quorate(&["completion", shell]);
        assert!(script.status.success(), "{shell}");
        let text = String::from_utf8(script.stdout).unwrap();
        assert!(text.contains("snapshot"), "{shell}");
        if shell == "bash" {
            let asks = format!("{text}\ncomplete -p quorate");
            let read = Command::new("bash").args(["-c", &asks]).output().unwrap();
            let told = String::from_utf8_lossy(&read.stdout);
            assert!(told.contains("-F _quorate"), "{told}");
        }
    }
}
