//! `sim`: runs seeds through the seeded world, says how much was simulated, and makes a failure small.
//!
//! 0: every run passed. 1: one failed; its seed, its smallest schedule and the command that replays it are printed. Or
//! enough seeds ran and a kind of fault took effect less often than its quota.
//! 2: wrong usage.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use quorate_sim::world::{
    Exercised, QUOTA_SEEDS, Report, Row, Schedule, Telling, run, run_seed, shrink,
};

const USAGE: &str = "\
usage: sim --seed S [--trace]             run one seed
       sim --schedule FILE [--trace]      run a schedule as text
       sim --seeds N [--from S]           run N seeds, beginning with S (0)
       sim --minutes M [--from S]         run seeds for M minutes
options: --keep-going                     run on after a failure, and do not shrink
         --tries N                        tries to shrink a failure (200)";

/// What the command line asks for.
struct Arguments {
    what: What,
    is_traced: bool,
    is_going_on: bool,
    tries: usize,
}

enum What {
    Schedule(Box<Schedule>),
    Seed(u64),
    Many { from: u64, until: Until },
}

enum Until {
    Seeds(u64),
    Time(Duration),
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match parse(&words) {
        Ok(arguments) => perform(arguments),
        Err(message) => {
            eprintln!("sim: {message}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn parse(words: &[String]) -> Result<Arguments, String> {
    let (mut what, mut from, mut until) = (None, 0, None);
    let (mut is_traced, mut is_going_on, mut tries) = (false, false, 200);
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let mut number = || -> Result<u64, String> {
            let text = rest.next().ok_or(format!("{word} wants a number"))?;
            text.parse()
                .map_err(|_| format!("{word} wants a number, not {text}"))
        };
        match word.as_str() {
            "--seed" => what = Some(What::Seed(number()?)),
            "--from" => from = number()?,
            "--seeds" => until = Some(Until::Seeds(number()?)),
            "--minutes" => until = Some(Until::Time(Duration::from_secs(60 * number()?))),
            "--tries" => tries = number()? as usize,
            "--trace" => is_traced = true,
            "--keep-going" => is_going_on = true,
            "--schedule" => {
                let file = rest.next().ok_or("--schedule wants a file")?;
                let text = std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
                let schedule = Schedule::parse(&text).map_err(|e| format!("{file}: {e}"))?;
                what = Some(What::Schedule(Box::new(schedule)));
            }
            other => return Err(format!("{other} is not known")),
        }
    }
    let what = match (what, until) {
        (Some(what), None) => what,
        (None, Some(until)) => What::Many { from, until },
        (Some(_), Some(_)) => return Err("one run or many, not both".to_owned()),
        (None, None) => return Err("nothing to run".to_owned()),
    };
    Ok(Arguments {
        what,
        is_traced,
        is_going_on,
        tries,
    })
}

fn perform(arguments: Arguments) -> ExitCode {
    let telling = if arguments.is_traced {
        Telling::Everything
    } else {
        Telling::Tail
    };
    let report = match arguments.what {
        What::Schedule(schedule) => run(*schedule, telling),
        What::Seed(seed) => run_seed(seed, telling),
        What::Many { from, until } => {
            return many(from, &until, arguments.is_going_on, arguments.tries);
        }
    };
    println!("{}", report.schedule);
    println!(
        "{}: {:.1} simulated seconds, {} commands, {} answers, {} given up, {} turns, hash {:016x}",
        if report.failure.is_none() {
            "PASSED"
        } else {
            "FAILED"
        },
        report.simulated.0 as f64 / 1e9,
        report.commands,
        report.answered,
        report.failed,
        report.turns,
        report.hash
    );
    if report.failure.is_none() {
        return ExitCode::SUCCESS;
    }
    tell_failure(&report, arguments.tries);
    ExitCode::from(1)
}

/// Prints what is broken, the end of the story, and the smallest schedule that breaks it.
fn tell_failure(report: &Report, tries: usize) {
    let Some(failure) = &report.failure else {
        return;
    };
    let small = shrink(&report.schedule, failure.violation.property, tries);
    let again = run(small.clone(), Telling::Tail);
    println!("--- the smallest schedule found, and how it ends ---");
    if let Some(failure) = &again.failure {
        for line in &failure.tail {
            println!("{line}");
        }
        println!("{}", failure.violation);
    }
    let file = format!("target/sim-{}.txt", report.schedule.seed);
    let kept = std::fs::write(&file, small.to_string());
    println!("---\n{small}---");
    println!("the seed's own failure: {}", failure.violation);
    println!("replay all of it: make sim SEED={}", report.schedule.seed);
    match kept {
        Ok(()) => println!("replay the smallest: sim --schedule {file} --trace"),
        Err(error) => println!("{file} could not be written: {error}"),
    }
}

/// Sums over many runs.
#[derive(Default)]
struct Sums {
    passed: u64,
    failed: u64,
    simulated_s: f64,
    commands: u64,
    faults: u64,
    leaderless_s: f64,
    exercised: Exercised,
}

fn many(from: u64, until: &Until, is_going_on: bool, tries: usize) -> ExitCode {
    let begun = Instant::now();
    let mut sums = Sums::default();
    let mut first: Option<Report> = None;
    let mut seed = from;
    loop {
        let is_over = match until {
            Until::Seeds(count) => seed - from >= *count,
            Until::Time(span) => begun.elapsed() >= *span,
        };
        if is_over || (first.is_some() && !is_going_on) {
            break;
        }
        let report = run_seed(seed, Telling::Hash);
        sums.simulated_s += report.simulated.0 as f64 / 1e9;
        sums.commands += report.commands as u64;
        sums.faults += report.schedule.faults.len() as u64;
        sums.leaderless_s = sums.leaderless_s.max(report.leaderless.0 as f64 / 1e9);
        sums.exercised.add(&report.exercised);
        match &report.failure {
            None => sums.passed += 1,
            Some(failure) => {
                sums.failed += 1;
                let text = failure.violation.to_string();
                let line: String = text
                    .lines()
                    .next()
                    .unwrap_or("")
                    .chars()
                    .take(300)
                    .collect();
                println!("seed {seed} FAILED: {line}");
                first.get_or_insert(report);
            }
        }
        seed += 1;
        progress(&sums, seed, begun);
    }
    close(&sums, begun);
    let is_covered = tell_rows(&sums);
    let Some(report) = first else {
        return ExitCode::from(u8::from(!is_covered));
    };
    if is_going_on {
        println!("replay the first: make sim SEED={}", report.schedule.seed);
    } else {
        tell_failure(&report, tries);
    }
    ExitCode::from(1)
}

fn progress(sums: &Sums, seed: u64, begun: Instant) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    eprint!(
        "\r{} seeds, {} failed, {:.2} simulated hours, {:.0} s, next seed {seed} ",
        sums.passed + sums.failed,
        sums.failed,
        sums.simulated_s / 3600.0,
        begun.elapsed().as_secs_f64()
    );
    drop(std::io::stderr().flush());
}

fn close(sums: &Sums, begun: Instant) {
    if std::io::stderr().is_terminal() {
        eprintln!();
    }
    let cpu_s = cpu_seconds().unwrap_or(begun.elapsed().as_secs_f64());
    let (hours, minutes) = (
        sums.simulated_s / 3600.0,
        (sums.simulated_s / 60.0).max(1e-9),
    );
    println!(
        "{} seeds, {hours:.2} simulated hours, {:.4} CPU-hours: {:.0} simulated hours per CPU-hour at {:.0} commands and {:.1} faults per simulated minute",
        sums.passed + sums.failed,
        cpu_s / 3600.0,
        hours / (cpu_s / 3600.0),
        sums.commands as f64 / minutes,
        sums.faults as f64 / minutes,
    );
    println!(
        "a healthy majority was without a leader for {:.2} s at most",
        sums.leaderless_s
    );
    println!("{} passed, {} failed", sums.passed, sums.failed);
}

/// Prints how often each kind of fault took effect; says whether that is often enough for as many seeds.
fn tell_rows(sums: &Sums) -> bool {
    let seeds = sums.passed + sums.failed;
    let missed = if seeds < QUOTA_SEEDS {
        Vec::new()
    } else {
        sums.exercised.missed(seeds)
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
            sums.exercised.count(*row)
        );
    }
    missed.is_empty()
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
