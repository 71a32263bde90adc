//! The recorded format: what is written is read back, and every unclear line is refused by its number.

use super::*;
use crate::checkers::linearizability::check_history;
use serde_json::json;

fn read(text: &str) -> Result<History, HistoryError> {
    History::read(text.as_bytes())
}

fn refusal(text: &str) -> String {
    read(text)
        .expect_err("an unclear line is refused")
        .to_string()
}

const READ: &str = r#"{"client":1,"object":"register/r","op":"read","args":[],"invoke":1,"return":2,"result":null,"error":null}"#;

#[test]
fn every_kind_of_operation_is_read_back_as_written() {
    let call = |object: &str, call: Call, outcome| Operation {
        client: 4,
        object: object.to_owned(),
        call,
        invoke_ns: 5,
        outcome,
    };
    let returned = |result| Outcome::Returned {
        return_ns: 9,
        result,
    };
    let key = || "k".to_owned();
    let history = History {
        operations: vec![
            call("register/r", Call::Read, returned(Some(Value::Null))),
            call("register/r", Call::Write(json!([1])), returned(None)),
            call(
                "register/r",
                Call::Cas(json!(1), json!("x")),
                Outcome::Refused,
            ),
            call("counter", Call::Add(-3), Outcome::Unknown),
            call("counter", Call::Sum, returned(Some(json!(-3)))),
            call("kv/s", Call::Get(key()), Outcome::Unknown),
            call("kv/s", Call::Put(key(), json!({"a": 1})), Outcome::Unknown),
            call("kv/s", Call::Append(key(), "t".into()), Outcome::Unknown),
            call("kv/s", Call::Delete(key()), returned(Some(json!(true)))),
            call("account/A-1", Call::Deposit(7), returned(Some(json!(107)))),
            call("account/A-1", Call::Debit(7), returned(Some(json!(true)))),
            call("account/A-1", Call::Balance, returned(Some(json!(100)))),
        ],
        initial: [("account/A-1".to_owned(), json!(100))].into(),
    };
    let mut written = vec![];
    history.write(&mut written).unwrap();
    assert_eq!(History::read(written.as_slice()).unwrap(), history);
}

#[test]
fn a_null_result_and_a_result_left_out_are_different() {
    let kept = &read(READ).unwrap().operations[0].outcome;
    let left_out = &read(&READ.replace(r#""result":null,"#, ""))
        .unwrap()
        .operations[0]
        .outcome;
    assert_eq!(
        *kept,
        Outcome::Returned {
            return_ns: 2,
            result: Some(Value::Null)
        }
    );
    assert_eq!(
        *left_out,
        Outcome::Returned {
            return_ns: 2,
            result: None
        }
    );
}

#[test]
fn only_an_error_that_says_refused_means_no_effect() {
    let with = |error: &str| {
        let line = READ.replace(r#""error":null"#, &format!(r#""error":"{error}""#));
        read(&line).unwrap().operations.remove(0).outcome
    };
    assert_eq!(with("refused: overloaded"), Outcome::Refused);
    assert_eq!(with("timeout"), Outcome::Unknown);
    let open = READ.replace(r#""return":2"#, r#""return":null"#);
    assert_eq!(read(&open).unwrap().operations[0].outcome, Outcome::Unknown);
}

#[test]
fn unclear_lines_are_refused_with_their_number() {
    let second = |line: String| refusal(&format!("{READ}\n{line}\n"));
    for (line, says) in [
        (READ.replace("return", "retrun"), "retrun"),
        (READ[..40].to_owned(), "EOF"),
        (READ.replace("register/r", "queue/q"), "queue/q"),
        (READ.replace(r#""read""#, r#""pop""#), "pop"),
        (READ.replace("[]", "[3]"), "read([3])"),
        (READ.replace(r#""invoke":1"#, r#""invoke":3"#), "before"),
        (r#"{"object":"counter","init":"x"}"#.to_owned(), "begin"),
        (r#"{"object":"kv/s","init":1,"x":1}"#.to_owned(), "`x`"),
    ] {
        let refused = second(line);
        assert!(refused.starts_with("line 2: "), "{refused}");
        assert!(refused.contains(says), "{refused} does not say {says}");
    }
}

#[test]
fn a_recorder_orders_a_call_after_the_answer_of_the_same_instant() {
    let mut recorder = Recorder::default();
    let write = recorder.invoked(10, 1, "register/r", Call::Write(json!(1)));
    recorder.returned(20, write, Value::Null);
    let read = recorder.invoked(20, 1, "register/r", Call::Read);
    recorder.returned(20, read, Value::Null);
    assert!(
        !check_history(recorder.history()).passed(),
        "the read is later and stale"
    );
}

#[test]
#[should_panic(expected = "an operation ends once")]
fn a_recorder_refuses_a_second_answer() {
    let mut recorder = Recorder::default();
    let write = recorder.invoked(10, 1, "register/r", Call::Write(json!(1)));
    recorder.returned(20, write, Value::Null);
    recorder.refused(write);
}
