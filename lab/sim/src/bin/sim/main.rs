//! `sim`: runs seeds through the seeded world, reports how much was simulated, and shrinks a failure.
//!
//! 0: every run passed. 1: one failed; its seed, its smallest schedule and the command that replays it are printed. Or
//! enough seeds ran and a kind of fault took effect less often than its quota.
//! 2: wrong usage.

mod hours;
mod many;

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::Duration;

use many::{Many, Until};
use quorate_sim::world::{
    Report, Schedule, Telling, has_witnesses, run, run_seed, shrink, speculates,
};
use quorate_types::{NoOrdering, OrderingName};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "\
usage: sim --seed S [--trace]             run one seed
       sim --schedule FILE [--trace]      run a schedule as text
       sim --seeds N [--from S]           run N seeds, beginning with S (0)
       sim --minutes M [--from S]         run seeds for M minutes
       sim --hours H [--from S]           one run of H simulated hours of light load: what nodes keep stays bounded
options: --ordering NAME                  groups begin with this ordering (as the seed says)
         --witnesses                      only those of the seeds whose groups have witnesses
         --speculating                    only those of the seeds whose objects go ahead of decisions
         --keep-going                     run on after a failure, and do not shrink
         --workers N                      seeds run at the same time (as many as there are cores)
         --tries N                        tries to shrink a failure (200)";

/// What the command line asks for.
struct Arguments {
    what: What,
    from: u64,
    ordering: Option<OrderingName>,
    is_traced: bool,
    tries: usize,
}

enum What {
    Schedule(Box<Schedule>),
    Seed(u64),
    Many(Many),
    Hours(u64),
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match parse(&words) {
        Ok(arguments) => perform(arguments),
        Err(message) => {
            eprintln!("sim: {message}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn parse(words: &[String]) -> Result<Arguments, String> {
    let (mut what, mut from, mut until, mut ordering) = (None, 0, None, None);
    let (mut is_traced, mut is_going_on, mut tries) = (false, false, 200);
    let mut only = None;
    let mut workers = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
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
            "--hours" => what = Some(What::Hours(number()?.max(1))),
            "--seeds" => until = Some(Until::Seeds(number()?)),
            "--minutes" => until = Some(Until::Time(Duration::from_secs(60 * number()?))),
            "--workers" => workers = number()?.max(1) as usize,
            "--tries" => tries = number()? as usize,
            "--witnesses" => only = Some(has_witnesses as fn(u64) -> bool),
            "--speculating" => only = Some(speculates),
            "--trace" => is_traced = true,
            "--keep-going" => is_going_on = true,
            "--ordering" => {
                let name = rest.next().ok_or("--ordering wants a name")?;
                ordering = Some(name.parse().map_err(|e: NoOrdering| e.to_string())?);
            }
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
        (None, Some(until)) => What::Many(Many {
            from,
            ordering,
            until,
            is_going_on,
            workers,
            tries,
            only,
        }),
        (Some(_), Some(_)) => return Err("one run or many, not both".to_owned()),
        (None, None) => return Err("nothing to run".to_owned()),
    };
    Ok(Arguments {
        what,
        from,
        ordering,
        is_traced,
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
        What::Seed(seed) => run_seed(seed, arguments.ordering, telling),
        What::Many(many) => return many.perform(),
        What::Hours(hours) => return hours::perform(hours, arguments.from),
    };
    println!("{}", report.schedule);
    println!(
        "{}: {:.1} simulated seconds, {} commands, {} answers, {} given up, {} turns, hash {:016x}",
        if report.broken().is_none() {
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
    if report.broken().is_none() {
        return ExitCode::SUCCESS;
    }
    tell_failure(&report, arguments.tries);
    ExitCode::from(1)
}

/// Prints what is broken, the end of the story, and the smallest schedule that breaks it.
fn tell_failure(report: &Report, tries: usize) {
    let Some(failure) = &report.failure else {
        tell_orderings(report);
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
    println!("replay all of it: {}", replay(report));
    match kept {
        Ok(()) => println!("replay the smallest: sim --schedule {file} --trace"),
        Err(error) => println!("{file} could not be written: {error}"),
    }
}

/// Prints what the orderings of a seed broke alone: they have no schedule to make smaller.
fn tell_orderings(report: &Report) {
    let Some(failure) = &report.orderings else {
        return;
    };
    for line in &failure.tail {
        println!("{line}");
    }
    println!("the orderings alone: {}", failure.violation);
    println!("replay: {}", replay(report));
}

/// The command that runs a seed again.
fn replay(report: &Report) -> String {
    let seed = report.schedule.seed;
    match report.schedule.ordering {
        Some(ordering) => format!("make sim SEED={seed} ORDERING={ordering}"),
        None => format!("make sim SEED={seed}"),
    }
}
