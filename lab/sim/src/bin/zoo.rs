//! `zoo`: plants every known bug, one at a time, and runs seeds until one shows it.
//!
//! Plants that show too rarely are left out unless they are named.
//! 0: each plant was found within its budget. 1: one was not. 2: wrong usage. Also shows that nothing is found where
//! nothing is planted.

use std::process::ExitCode;

use quorate_sim::world::{Report, Telling, run_seed};
use quorate_types::zoo::{Plant, plant};

const USAGE: &str = "usage: zoo [--only PLANT] [--budget SEEDS]";

/// Seeds that a plant may need: several times what the slowest one needs.
const BUDGET: u64 = 3000;

/// Seeds that must pass with nothing planted.
const CLEAN: u64 = 20;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut only = None;
    let mut budget = BUDGET;
    for pair in words.chunks(2) {
        match pair {
            [flag, name] if flag == "--only" => only = Some(name.clone()),
            [flag, number] if flag == "--budget" && number.parse::<u64>().is_ok() => {
                budget = number.parse().unwrap_or(BUDGET);
            }
            _ => {
                eprintln!("zoo: {pair:?} is not understood\n{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    let plants: Vec<Plant> = match &only {
        None => Plant::ALL.to_vec(),
        Some(name) => {
            let known = Plant::ALL.iter().chain(&Plant::RARE);
            let named = known.filter(|plant| *name == format!("{plant:?}"));
            named.copied().collect()
        }
    };
    if plants.is_empty() {
        eprintln!("zoo: there is no such plant\n{USAGE}");
        return ExitCode::from(2);
    }
    visit(&plants, budget)
}

fn visit(plants: &[Plant], budget: u64) -> ExitCode {
    let (mut passed, mut failed) = (0, 0);
    println!("{:<24} {:>6}  property violated", "plant", "seeds");
    for planted in plants {
        plant(Some(*planted));
        let found = (0..budget).find_map(|seed| {
            let report = run_seed(seed, Telling::Hash);
            report.failure.is_some().then_some((seed, report))
        });
        plant(None);
        match found {
            Some((seed, report)) => {
                passed += 1;
                println!(
                    "{:<24} {:>6}  {}",
                    format!("{planted:?}"),
                    seed + 1,
                    shown(&report)
                );
            }
            None => {
                failed += 1;
                println!("{:<24} {budget:>6}  NOT FOUND", format!("{planted:?}"));
            }
        }
    }
    for seed in 0..CLEAN {
        let report = run_seed(seed, Telling::Hash);
        if report.failure.is_some() {
            failed += 1;
            println!("nothing planted, seed {seed}: {}", shown(&report));
        }
    }
    println!("{passed} passed, {failed} failed");
    ExitCode::from(u8::from(failed > 0))
}

/// The first line of what was found.
fn shown(report: &Report) -> String {
    let Some(failure) = &report.failure else {
        return String::new();
    };
    let text = failure.violation.to_string();
    let mut line = text.lines().next().unwrap_or("").to_owned();
    if let Some(second) = text
        .lines()
        .nth(1)
        .filter(|_| text.starts_with("Invariant"))
    {
        line = format!("Invariant: {}", second.trim());
    }
    line.chars().take(110).collect()
}
