//! Whole runs of the seeded world: the same run twice, and every schedule that once failed. Seeds are run by
//! `make test-sim` in a fast build, and not here a second time. The orderings alone are quick: some run here too.

use std::fs;
use std::path::Path;

use quorate_sim::world::{Report, Schedule, Telling, run, run_nodes, run_orderings};

fn must_pass(report: &Report, what: &str) {
    if let Some(failure) = &report.failure {
        let tail = failure.tail.join("\n");
        panic!(
            "{tail}\n{what}: {}\nreplay: make sim SEED={}\n{}",
            failure.violation, report.schedule.seed, report.schedule
        );
    }
}

#[test]
fn a_seed_repeats_to_the_last_event_told_or_not() {
    for seed in [3, 11, 1_000_003] {
        let first = run_nodes(seed, None, Telling::Hash);
        let second = run_nodes(seed, None, Telling::Tail);
        assert_eq!(first.hash, second.hash, "seed {seed}");
        let text = first.schedule.to_string();
        let third = run(Schedule::parse(&text).unwrap(), Telling::Hash);
        assert_eq!(first.hash, third.hash, "seed {seed} from its text");
        assert_ne!(first.hash, run_nodes(seed + 1, None, Telling::Hash).hash);
    }
}

#[test]
fn schedules_that_once_failed_pass() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schedules");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "txt"))
        .collect();
    files.sort();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let schedule = Schedule::parse(&text).unwrap();
        let report = run(schedule, Telling::Tail);
        must_pass(&report, &file.display().to_string());
    }
}

#[test]
fn orderings_alone_agree_whatever_the_scheduler_does() {
    // Seeds that failed once come after the others.
    for seed in (500_000..500_100).chain([1_328, 28_399_085, 610_000_715, 770_002_965]) {
        if let Some(failure) = run_orderings(seed, None, Telling::Tail) {
            let tail = failure.tail.join("\n");
            panic!(
                "{tail}\n{}\nreplay: make sim SEED={seed}",
                failure.violation
            );
        }
    }
}
