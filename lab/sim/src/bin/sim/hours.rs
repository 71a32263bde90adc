//! One run of hours: what was served, and what nodes kept.

use std::process::ExitCode;
use std::time::Instant;

use quorate_sim::checkers::footprint::SPANS;
use quorate_sim::world::{Telling, run_hours};
use quorate_types::Duration;

/// Runs a group for so many hours; says what each node kept at most.
pub(crate) fn perform(hours: u64, seed: u64) -> ExitCode {
    let begun = Instant::now();
    let lasts = Duration::from_millis(hours * 3_600_000);
    let report = run_hours(seed, lasts, Telling::Tail);
    println!(
        "{:.2} simulated hours of seed {seed} in {:.0} s: {} commands, {} answers, {} given up, {} faults, hash {:016x}",
        report.simulated.0 as f64 / 3.6e12,
        begun.elapsed().as_secs_f64(),
        report.commands,
        report.answered,
        report.failed,
        report.schedule.faults.len(),
        report.hash
    );
    println!(
        "{:<28} {:>9} {:>9} {:>9} {:>9}",
        "kept at most by a node", "early", "late", "ever", "bound"
    );
    for highest in &report.kept {
        println!("{highest}");
    }
    println!(
        "early, late: in spans 2 to {} and in the last {} of {SPANS}",
        SPANS / 3,
        SPANS / 3
    );
    let Some(failure) = report.broken() else {
        println!("PASSED");
        return ExitCode::SUCCESS;
    };
    for line in &failure.tail {
        println!("{line}");
    }
    println!("FAILED: {}", failure.violation);
    println!("replay: sim --hours {hours} --from {seed}");
    ExitCode::from(1)
}
