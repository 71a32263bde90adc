//! Many seeds on all cores, their sums, and whether every kind of fault took effect often enough.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use quorate_sim::world::{Exercised, QUOTA_SEEDS, Report, Row, Telling, run_seed};
use quorate_types::OrderingName;

/// How many seeds, and how they are run.
pub(crate) struct Many {
    /// The first seed; the others follow it.
    pub(crate) from: u64,
    /// The ordering with which groups begin; `None`: as the seeds say.
    pub(crate) ordering: Option<OrderingName>,
    /// When no further seed is begun.
    pub(crate) until: Until,
    /// Whether further seeds are begun after a failure.
    pub(crate) is_going_on: bool,
    /// Seeds that run at the same time, each on a thread of its own.
    pub(crate) workers: usize,
    /// Tries to shrink a failure.
    pub(crate) tries: usize,
    /// Which seeds are run, where not all are; then no quota counts.
    pub(crate) only: Option<fn(u64) -> bool>,
}

/// When no further seed is begun.
pub(crate) enum Until {
    /// After so many seeds.
    Seeds(u64),
    /// After so much time.
    Time(Duration),
}

/// Sums over the runs that ended.
#[derive(Default)]
struct Sums {
    passed: u64,
    failed: u64,
    simulated_s: f64,
    commands: u64,
    faults: u64,
    leaderless_s: f64,
    exercised: Exercised,
    /// The failure of the lowest seed.
    first: Option<Report>,
}

impl Many {
    /// Runs the seeds, prints the sums, and makes the first failure small.
    pub(crate) fn perform(&self) -> ExitCode {
        let begun = Instant::now();
        let (sums, next) = (Mutex::new(Sums::default()), AtomicU64::new(self.from));
        let is_stopped = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..self.workers {
                scope.spawn(|| {
                    while !is_stopped.load(Ordering::Relaxed) {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if self.is_over(seed, begun) {
                            break;
                        }
                        if self.only.is_some_and(|is_meant| !is_meant(seed)) {
                            continue;
                        }
                        let report = run_seed(seed, self.ordering, Telling::Hash);
                        if report.broken().is_some() && !self.is_going_on {
                            is_stopped.store(true, Ordering::Relaxed);
                        }
                        let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
                        sums.add(report);
                        sums.progress(begun);
                    }
                });
            }
        });
        let sums = sums.into_inner().unwrap_or_else(PoisonError::into_inner);
        sums.close(begun);
        let is_covered = sums.tell_rows() || self.only.is_some();
        let Some(report) = sums.first else {
            return ExitCode::from(u8::from(!is_covered));
        };
        if self.is_going_on {
            println!("replay the first: {}", super::replay(&report));
        } else {
            super::tell_failure(&report, self.tries);
        }
        ExitCode::from(1)
    }

    fn is_over(&self, seed: u64, begun: Instant) -> bool {
        match self.until {
            Until::Seeds(count) => seed - self.from >= count,
            Until::Time(span) => begun.elapsed() >= span,
        }
    }
}

impl Sums {
    fn add(&mut self, report: Report) {
        self.simulated_s += report.simulated.0 as f64 / 1e9;
        self.commands += report.commands as u64;
        self.faults += report.schedule.faults.len() as u64;
        self.leaderless_s = self.leaderless_s.max(report.leaderless.0 as f64 / 1e9);
        self.exercised.add(&report.exercised);
        let Some(failure) = report.broken() else {
            self.passed += 1;
            return;
        };
        self.failed += 1;
        let text = failure.violation.to_string();
        let line: String = text
            .lines()
            .next()
            .unwrap_or("")
            .chars()
            .take(300)
            .collect();
        let seed = report.schedule.seed;
        println!("seed {seed} FAILED: {line}");
        if self
            .first
            .as_ref()
            .is_none_or(|first| seed < first.schedule.seed)
        {
            self.first = Some(report);
        }
    }

    fn seeds(&self) -> u64 {
        self.passed + self.failed
    }

    fn progress(&self, begun: Instant) {
        if !std::io::stderr().is_terminal() {
            return;
        }
        eprint!(
            "\r{} seeds, {} failed, {:.2} simulated hours, {:.0} s ",
            self.seeds(),
            self.failed,
            self.simulated_s / 3600.0,
            begun.elapsed().as_secs_f64()
        );
        drop(std::io::stderr().flush());
    }

    fn close(&self, begun: Instant) {
        if std::io::stderr().is_terminal() {
            eprintln!();
        }
        let cpu_s = cpu_seconds().unwrap_or(begun.elapsed().as_secs_f64());
        let (hours, minutes) = (
            self.simulated_s / 3600.0,
            (self.simulated_s / 60.0).max(1e-9),
        );
        println!(
            "{} seeds, {hours:.2} simulated hours, {:.4} CPU-hours: {:.0} simulated hours per CPU-hour at {:.0} commands and {:.1} faults per simulated minute",
            self.seeds(),
            cpu_s / 3600.0,
            hours / (cpu_s / 3600.0),
            self.commands as f64 / minutes,
            self.faults as f64 / minutes,
        );
        println!(
            "a healthy majority was without a leader for {:.2} s at most",
            self.leaderless_s
        );
        println!("{} passed, {} failed", self.passed, self.failed);
    }

    /// Prints how often each kind of fault took effect; says whether that is often enough for as many seeds.
    fn tell_rows(&self) -> bool {
        let seeds = self.seeds();
        let missed = if seeds < QUOTA_SEEDS {
            Vec::new()
        } else {
            self.exercised.missed(seeds)
        };
        println!("{:<52} {:>8} {:>8}", "took effect", "times", "quota");
        for row in Row::ALL {
            let verdict = match row.quota() {
                0 => "not drawn yet",
                _ if missed.contains(row) => "BELOW ITS QUOTA",
                _ => "",
            };
            let quota = row.quota() * seeds / QUOTA_SEEDS;
            println!(
                "{row:<52} {:>8} {quota:>8} {verdict}",
                self.exercised.count(*row)
            );
        }
        for row in &missed {
            println!("BELOW ITS QUOTA: {row}");
        }
        missed.is_empty()
    }
}

/// CPU time of this process, where the system tells it.
fn cpu_seconds() -> Option<f64> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let after_name = stat.rsplit_once(')')?.1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(ticks as f64 / TICKS_PER_SECOND)
}
