//! Tests of the linearizability checker: it refuses planted wrong histories with a reason, accepts correct concurrent ones, and
//! on small random histories gives the verdict of trying every order.

use super::*;
use crate::checkers::dice::Dice;
use serde_json::json;
use std::collections::BTreeSet;

type Op = Interval<Call, Value>;

fn op(client: u64, call: Call, reply: Value, invoke_ns: u64, return_ns: u64) -> Op {
    Interval {
        client,
        call,
        invoke_ns,
        end: End::Returned {
            return_ns,
            reply: Some(reply),
        },
    }
}

fn lost(client: u64, call: Call, invoke_ns: u64) -> Op {
    Interval {
        client,
        call,
        invoke_ns,
        end: End::Unfinished,
    }
}

fn write(client: u64, value: i64, invoke_ns: u64, return_ns: u64) -> Op {
    op(
        client,
        Call::Write(json!(value)),
        Value::Null,
        invoke_ns,
        return_ns,
    )
}

fn read(client: u64, value: i64, invoke_ns: u64, return_ns: u64) -> Op {
    op(client, Call::Read, json!(value), invoke_ns, return_ns)
}

/// Judges operations on an object that begins with 0, and proves a positive verdict by replaying its order.
fn judge(operations: &[Op]) -> Verdict {
    let verdict = check(&RecordedObject, json!(0), operations, CONFIGURATIONS_MAX);
    if let Verdict::Linearizable(order) = &verdict {
        assert!(
            is_witness(order, operations),
            "{order:?} does not explain {operations:#?}"
        );
    }
    verdict
}

/// Says that `order` respects real time, holds all finished operations once and gives their answers.
fn is_witness(order: &[usize], operations: &[Op]) -> bool {
    let distinct: BTreeSet<_> = order.iter().collect();
    let finished = (0..operations.len()).filter(|i| operations[*i].end != End::Unfinished);
    let mut latest_call = 0;
    let mut state = json!(0);
    distinct.len() == order.len()
        && finished.into_iter().all(|index| distinct.contains(&index))
        && order.iter().all(|index| {
            let operation = &operations[*index];
            latest_call = latest_call.max(operation.invoke_ns);
            let (after, given) = RecordedObject.apply(&state, &operation.call);
            state = after;
            match &operation.end {
                End::Unfinished => true,
                End::Returned { return_ns, reply } => {
                    *return_ns >= latest_call && reply.as_ref().is_none_or(|reply| *reply == given)
                }
            }
        })
}

/// Tries every order of every set that holds all finished operations.
fn brute_force(operations: &[Op]) -> bool {
    fn extend(order: &mut Vec<usize>, operations: &[Op]) -> bool {
        if is_witness(order, operations) {
            return true;
        }
        (0..operations.len()).any(|index| {
            if order.contains(&index) {
                return false;
            }
            order.push(index);
            let found = extend(order, operations);
            order.pop();
            found
        })
    }
    extend(&mut vec![], operations)
}

fn refuted(operations: &[Op]) -> Explanation {
    assert!(!brute_force(operations), "the planted history is wrong");
    match judge(operations) {
        Verdict::Refuted(why) => *why,
        other @ (Verdict::Linearizable(_) | Verdict::Undecided(_)) => panic!("{other}"),
    }
}

#[test]
fn a_stale_read_is_refused_and_explained() {
    let history = [write(1, 1, 0, 10), write(1, 2, 20, 30), read(2, 1, 40, 50)];
    let why = refuted(&history);
    assert_eq!(why.prefix, [0, 1]);
    assert_eq!(why.blocker, Some(2));
    assert_eq!(why.states, ["Number(2)"]);
    assert!(
        why.text
            .contains("no order places: client 2 Read -> Number(1) [40..50]"),
        "{}",
        why.text
    );
}

#[test]
fn a_lost_update_is_refused() {
    let add = |client, reply, invoke, back| op(client, Call::Add(1), json!(reply), invoke, back);
    refuted(&[add(1, 1, 0, 10), add(2, 1, 5, 15)]);
    assert!(judge(&[add(1, 1, 0, 10), add(2, 2, 5, 15)]).passed());
}

#[test]
fn a_duplicated_execution_is_refused() {
    let sum = |reply, invoke, back| op(2, Call::Sum, json!(reply), invoke, back);
    let add = op(1, Call::Add(5), json!(5), 0, 10);
    refuted(&[add.clone(), sum(10, 20, 30)]);
    assert!(judge(&[add, sum(5, 20, 30)]).passed());
    refuted(&[lost(1, Call::Add(5), 0), sum(5, 20, 30), sum(10, 40, 50)]);
}

#[test]
fn a_lost_acknowledged_write_is_refused() {
    refuted(&[write(1, 7, 0, 10), read(2, 0, 20, 30)]);
    let delete = |reply, invoke| {
        op(
            1,
            Call::Delete("k".into()),
            json!(reply),
            invoke,
            invoke + 5,
        )
    };
    refuted(&[delete(true, 0), delete(true, 10)]);
    assert!(judge(&[delete(true, 0), delete(false, 10)]).passed());
}

#[test]
fn reads_that_see_writes_against_real_time_are_refused() {
    let writes = [write(1, 1, 0, 10), write(2, 2, 0, 10)];
    let mut swapped = writes.to_vec();
    swapped.extend([read(3, 1, 20, 30), read(4, 2, 40, 50)]);
    refuted(&swapped);
    let mut settled = writes.to_vec();
    settled.extend([read(3, 1, 20, 30), read(4, 1, 40, 50)]);
    assert!(judge(&settled).passed());
}

#[test]
fn a_read_beside_a_write_may_see_either_value_but_not_go_back() {
    let long = write(1, 1, 0, 100);
    for (first, second, passes) in [(0, 0, true), (0, 1, true), (1, 1, true), (1, 0, false)] {
        let history = [
            long.clone(),
            read(2, first, 10, 20),
            read(3, second, 30, 40),
        ];
        assert_eq!(judge(&history).passed(), passes, "{first} then {second}");
    }
}

#[test]
fn an_unfinished_write_may_take_effect_late_or_never_but_once() {
    let open = lost(1, Call::Write(json!(1)), 0);
    assert!(judge(&[open.clone(), read(2, 0, 10, 20), read(2, 1, 30, 40)]).passed());
    assert!(judge(&[open.clone(), read(2, 0, 10, 20), read(2, 0, 30, 40)]).passed());
    refuted(&[
        open.clone(),
        read(2, 1, 10, 20),
        write(2, 2, 30, 40),
        read(2, 1, 50, 60),
    ]);
    refuted(&[read(2, 1, 10, 20), lost(1, Call::Write(json!(1)), 30)]);
}

#[test]
fn an_answer_whose_value_was_not_kept_still_counts_by_its_time() {
    let mut blind = write(1, 1, 0, 10);
    blind.end = End::Returned {
        return_ns: 10,
        reply: None,
    };
    assert!(judge(&[blind.clone(), read(2, 1, 20, 30)]).passed());
    refuted(&[blind, read(2, 0, 20, 30)]);
}

#[test]
fn a_search_that_spends_its_configurations_fails() {
    let blind = |n| Interval {
        end: End::Returned {
            return_ns: 100,
            reply: None,
        },
        ..lost(n, Call::Add(1 << n), 0)
    };
    let history: Vec<Op> = (0..12)
        .map(blind)
        .chain([op(1, Call::Sum, json!(-1), 200, 210)])
        .collect();
    match check(&RecordedObject, json!(0), &history, 1000) {
        verdict @ Verdict::Undecided(_) => assert!(!verdict.passed()),
        other @ (Verdict::Linearizable(_) | Verdict::Refuted(_)) => panic!("{other}"),
    }
    assert!(matches!(judge(&history), Verdict::Refuted(_)));
}

#[test]
fn keys_and_objects_are_judged_apart() {
    let lines = |key: &str| {
        format!(
            r#"{{"client":1,"object":"kv/s","op":"put","args":["a",1],"invoke":1,"return":2,"result":null}}
               {{"client":1,"object":"kv/s","op":"get","args":["{key}"],"invoke":3,"return":4,"result":null}}"#
        )
    };
    let report = |key| check_history(&History::read(lines(key).as_bytes()).unwrap());
    assert!(report("b").passed());
    let stale = report("a");
    assert!(!stale.passed());
    assert_eq!(
        stale.verdict().unwrap_err().property,
        Property::Linearizability
    );
    assert!(stale.to_string().contains(r#"kv/s key "a""#), "{stale}");
}

fn random_call(dice: &mut Dice, account: bool) -> Call {
    let small = dice.below(3) as i64;
    match (account, dice.below(4)) {
        (false, 0) => Call::Write(json!(small)),
        (false, 1) => Call::Cas(json!(small), json!(dice.below(3))),
        (false, _) => Call::Read,
        (true, 0) => Call::Deposit(small + 1),
        (true, 1) => Call::Add(small),
        (true, 2) => Call::Debit(small + 1),
        (true, _) => Call::Balance,
    }
}

/// Runs calls one after the other, then stretches their intervals around the moments of effect; some lose their answer.
fn stretched(dice: &mut Dice, count: u64, reach: u64, lost_in: u64) -> Vec<Op> {
    let account = dice.below(2) == 0;
    let mut state = json!(0);
    let mut history: Vec<Op> = (0..count)
        .map(|n| {
            let call = random_call(dice, account);
            let (after, reply) = RecordedObject.apply(&state, &call);
            state = after;
            let effect_ns = reach + 10 * n;
            let invoke_ns = effect_ns - dice.below(reach);
            if dice.below(lost_in) == 0 {
                return lost(n, call, invoke_ns);
            }
            op(n, call, reply, invoke_ns, effect_ns + dice.below(reach))
        })
        .collect();
    dice.shuffle(&mut history);
    history
}

#[test]
fn stretched_sequential_executions_are_accepted() {
    for seed in 0..400 {
        let mut dice = Dice::new(seed);
        let history = stretched(&mut dice, 60, 60, 15);
        let verdict = judge(&history);
        assert!(verdict.passed(), "seed {seed}: {verdict}");
    }
}

#[test]
fn the_verdict_on_small_mutated_histories_is_that_of_trying_every_order() {
    let (mut right, mut wrong) = (0, 0);
    for seed in 0..1500 {
        let mut dice = Dice::new(seed);
        let count = 2 + dice.below(5);
        let mut history = stretched(&mut dice, count, 25, 5);
        assert!(judge(&history).passed(), "seed {seed}");
        let victim = dice.below(count) as usize;
        if let End::Returned { reply, .. } = &mut history[victim].end {
            *reply = match reply {
                Some(Value::Bool(told)) => Some(json!(!*told)),
                _ => Some(json!(dice.below(4))),
            };
        }
        let expected = brute_force(&history);
        let verdict = judge(&history);
        assert_eq!(
            verdict.passed(),
            expected,
            "seed {seed}: {verdict} {history:#?}"
        );
        *(if expected { &mut right } else { &mut wrong }) += 1;
    }
    assert!(
        right > 100 && wrong > 300,
        "both kinds are met: {right} right, {wrong} wrong"
    );
}

#[test]
fn the_verdict_on_small_histories_with_moved_times_is_that_of_trying_every_order() {
    let mut wrong = 0;
    for seed in 0..1500 {
        let mut dice = Dice::new(seed);
        let mut history = stretched(&mut dice, 5, 25, 5);
        let victim = dice.below(5) as usize;
        let moved_ns = dice.below(80);
        history[victim].invoke_ns = moved_ns;
        if let End::Returned { return_ns, .. } = &mut history[victim].end {
            *return_ns = moved_ns + dice.below(20);
        }
        let expected = brute_force(&history);
        assert_eq!(
            judge(&history).passed(),
            expected,
            "seed {seed}: {history:#?}"
        );
        wrong += usize::from(!expected);
    }
    assert!(wrong > 200, "moved times are met: {wrong} wrong");
}

#[test]
fn ten_thousand_operations_of_sixteen_clients_are_judged_within_few_configurations() {
    for seed in 0..2 {
        let history = stretched(&mut Dice::new(seed), 10_000, 80, 200);
        let verdict = check(&RecordedObject, json!(0), &history, 50_000);
        assert!(verdict.passed(), "seed {seed}: {verdict}");
    }
}

#[test]
fn a_wrong_answer_deep_in_ten_thousand_operations_is_refused() {
    for seed in 0..2 {
        let mut history = stretched(&mut Dice::new(seed), 10_000, 80, 5_000);
        history.push(op(99, Call::Balance, json!(-77), 60_000, 60_001));
        let blocker = history.len() - 1;
        match check(&RecordedObject, json!(0), &history, CONFIGURATIONS_MAX) {
            Verdict::Refuted(why) => assert_eq!(why.blocker, Some(blocker), "{}", why.text),
            other @ (Verdict::Linearizable(_) | Verdict::Undecided(_)) => {
                panic!("seed {seed}: {other}")
            }
        }
    }
}

#[test]
fn ten_thousand_blind_writes_and_reads_without_a_quiet_moment_are_judged() {
    let mut dice = Dice::new(7);
    let mut value = 0;
    let mut history: Vec<Op> = (0..10_000)
        .map(|n| {
            let (effect_ns, reach) = (160 + 10 * n, 160);
            let invoke_ns = effect_ns - dice.below(reach);
            let return_ns = effect_ns + dice.below(reach);
            if dice.below(10) < 3 {
                return read(n, value, invoke_ns, return_ns);
            }
            value = n as i64;
            if dice.below(100) == 0 {
                return lost(n, Call::Write(json!(value)), invoke_ns);
            }
            write(n, value, invoke_ns, return_ns)
        })
        .collect();
    let verdict = check(&RecordedObject, json!(0), &history, 50_000);
    assert!(verdict.passed(), "{verdict}");
    history.push(read(99, -5, 90_000, 90_001));
    let verdict = check(&RecordedObject, json!(0), &history, 50_000);
    assert!(matches!(verdict, Verdict::Refuted(_)), "{verdict}");
}
