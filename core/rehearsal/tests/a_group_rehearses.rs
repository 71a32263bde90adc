//! A rehearsed group answers calls in order and at most once, over crashes, cuts, copies and restores.

use bytes::Bytes;
use quorate_rehearsal::{
    Answer, EndedOperation, ExecutedCall, Operation, Rehearsal, RehearsalConfig, RehearsedObjects,
};
use quorate_types::{
    Duration, Level, NodeId, ObjectId, OrderingName, Outcome, ReadLevel, Stamp, Value, Wall,
};
use std::collections::BTreeMap;

/// A counter for each node.
#[derive(Default)]
struct Counters {
    counts: BTreeMap<NodeId, u64>,
    restored: usize,
}

fn number(bytes: &Value) -> u64 {
    u64::from_le_bytes(bytes[..].try_into().expect("eight bytes"))
}

fn bytes(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_le_bytes())
}

impl RehearsedObjects for Counters {
    fn start(&mut self, node: NodeId, image: Option<&Value>) -> Result<(), String> {
        self.restored += usize::from(image.is_some());
        self.counts.insert(node, image.map_or(0, number));
        Ok(())
    }

    fn restore(&mut self, node: NodeId, image: &Value) -> Result<(), String> {
        self.counts.insert(node, number(image));
        Ok(())
    }

    fn execute(&mut self, node: NodeId, call: &ExecutedCall<'_>) -> Outcome {
        let count = self.counts.entry(node).or_default();
        *count += number(call.payload);
        Outcome::Returned(bytes(*count))
    }

    fn query(&mut self, node: NodeId, _: Stamp, _: &Value) -> Outcome {
        Outcome::Returned(bytes(self.counts[&node]))
    }

    fn image(&mut self, node: NodeId) -> Result<Value, String> {
        Ok(bytes(self.counts[&node]))
    }
}

const PATIENCE: Duration = Duration::from_millis(60_000);

fn config(seed: u64) -> RehearsalConfig {
    RehearsalConfig {
        level: Level::UNNAMED,
        nodes: 3,
        callers: 1,
        seed,
        snapshot_every: 5,
        wall: Wall(1_700_000_000_000_000_000),
        copies_per_mille: 200,
        ordering: OrderingName::Paxos,
    }
}

fn perform(group: &mut Rehearsal, counters: &mut Counters, operation: Operation) -> u64 {
    assert!(group.begin(0, operation, PATIENCE).is_some());
    assert!(group.run_until_ended(counters));
    match group.take_ended().as_slice() {
        [
            EndedOperation {
                result:
                    Ok(
                        Answer::Called(Outcome::Returned(value))
                        | Answer::Read {
                            outcome: Outcome::Returned(value),
                            ..
                        },
                    ),
                ..
            },
        ] => number(value),
        other => panic!("one answer: {other:?}"),
    }
}

fn add(group: &mut Rehearsal, counters: &mut Counters) -> u64 {
    let call = Operation::Call {
        object: ObjectId(0),
        payload: bytes(1),
    };
    perform(group, counters, call)
}

#[test]
fn calls_and_reads_are_answered_in_order() {
    for seed in 0..20 {
        let mut counters = Counters::default();
        let mut group = Rehearsal::new(config(seed), &mut counters);
        for count in 1..=20 {
            assert_eq!(add(&mut group, &mut counters), count);
            let read = Operation::Read {
                object: ObjectId(0),
                payload: Value::new(),
                level: ReadLevel::Confirmed,
            };
            assert_eq!(perform(&mut group, &mut counters, read), count);
        }
    }
}

#[test]
fn each_call_counts_once_over_crashes_and_cuts() {
    let mut restored = 0;
    for seed in 0..60 {
        let mut counters = Counters::default();
        let mut group = Rehearsal::new(config(seed), &mut counters);
        for count in 1..=40 {
            assert_eq!(add(&mut group, &mut counters), count, "seed {seed}");
            let victim = NodeId((seed % 3) as u16 + 1);
            match count % 10 {
                2 => group.crash(victim),
                6 => group.restart(victim, &mut counters),
                7 => group.cut(victim, seed % 2 == 0),
                9 => group.heal(victim, &mut counters),
                _ => {}
            }
        }
        group.pass(Duration::from_millis(5_000), &mut counters);
        for node in 1..=3 {
            let report = group.report(NodeId(node)).expect("a node");
            assert_eq!(report.failure, None);
            assert_eq!(report.diverged, None);
        }
        assert_eq!(
            counters.counts.values().copied().collect::<Vec<_>>(),
            [40; 3]
        );
        restored += counters.restored;
    }
    assert!(restored > 60, "lives begin with images");
}

#[test]
fn a_seed_determines_a_run() {
    let run = |seed| {
        let mut counters = Counters::default();
        let mut group = Rehearsal::new(config(seed), &mut counters);
        for _ in 0..10 {
            add(&mut group, &mut counters);
        }
        group.elapsed()
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}
