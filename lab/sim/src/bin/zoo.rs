//! `zoo`: plants every known bug, one at a time, and runs seeds until one shows it.
//!
//! Each plant has to be found within its number of seeds; nothing may be found where nothing is planted. Says for each
//! plant at which seed it was found and by which property. 0: all were found. 1: one was missed. 2: wrong usage.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quorate_sim::world::{Failure, Telling, run_nodes, run_orderings};
use quorate_types::OrderingName;
use quorate_types::zoo::{Plant, plant};

const USAGE: &str = "\
usage: zoo [--only PLANT]... [--within SEEDS] [--from SEED] [--finds COUNT] [--orderings] [--tell] [--quick]
       zoo --list
  --only PLANT     this plant only; may be repeated
  --within SEEDS   the number of seeds for each plant (300; 1000 where several faults have to meet)
  --from SEED      the first seed (0)
  --finds COUNT    go on until so many seeds showed it (1): a plant that only one shows is lost when the draws change
  --tell           print the last events before each failure
  --list           print the names of all plants
  --orderings      only the orderings alone, not whole nodes
  --quick          only the plants that are found within a few seconds, all together";

/// Within so many seeds a plant is found.
const WITHIN: u64 = 300;

/// Within so many a plant that shows only where several faults meet.
const WITHIN_RARE: u64 = 1_000;

/// Seeds that must pass with nothing planted.
const CLEAN: u64 = 20;

/// Runs at the same time: the machines that run this have two cores.
const WORKERS: usize = 2;

/// Plants that a few seeds show: one of each part of the system.
const QUICK: [Plant; 12] = [
    Plant::BarrierNotAwaited,
    Plant::ConfirmedByOneTooFew,
    Plant::CreditUnbounded,
    Plant::CumulativeVote,
    Plant::DecidedNotInPromise,
    Plant::DuplicateExecutes,
    Plant::ForgetfulNodeVotes,
    Plant::HeldInAnyBallot,
    Plant::SessionsNotInSnapshot,
    Plant::SnapshotNotDurable,
    Plant::TailLossUnnoticed,
    Plant::TrimByOne,
];

/// What is asked for.
struct Arguments {
    plants: Vec<Plant>,
    within: Option<u64>,
    from: u64,
    finds: usize,
    worlds: &'static [World],
    telling: Telling,
}

/// A world by its name, and how a seed runs there.
type World = (
    &'static str,
    fn(u64, Option<OrderingName>, Telling) -> Option<Failure>,
);

/// What each seed runs, the quicker first: the orderings alone under the adversarial scheduler, and whole nodes.
const WORLDS: [World; 2] = [
    ("orderings", run_orderings),
    ("nodes", |seed, ordering, telling| {
        run_nodes(seed, ordering, telling).failure
    }),
];

/// A plant, when and by what it was found, and how long that took.
struct Found {
    planted: Option<Plant>,
    within: u64,
    /// The first find, and the seeds of all.
    first: Option<(&'static str, Failure)>,
    seeds: Vec<u64>,
    took: Duration,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    if words == ["--list"] {
        for plant in Plant::ALL.into_iter().chain(Plant::FAST) {
            println!("{plant:?}");
        }
        return ExitCode::SUCCESS;
    }
    match parse(&words) {
        Ok(arguments) => visit(&arguments),
        Err(message) => {
            eprintln!("zoo: {message}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn parse(words: &[String]) -> Result<Arguments, String> {
    let (mut only, mut within, mut from, mut is_quick) = (Vec::new(), None, 0, false);
    let mut finds = 1;
    let (mut worlds, mut telling) = (&WORLDS[..], Telling::Hash);
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let mut next = || rest.next().ok_or(format!("{word} wants a word"));
        match word.as_str() {
            "--quick" => is_quick = true,
            "--tell" => telling = Telling::Tail,
            "--orderings" => worlds = &WORLDS[..1],
            "--within" => within = Some(number(next()?)?),
            "--from" => from = number(next()?)?,
            "--finds" => finds = number(next()?)?.max(1) as usize,
            "--only" => {
                let name = next()?;
                let mut known = Plant::ALL.into_iter().chain(Plant::FAST);
                let named = known.find(|plant| *name == format!("{plant:?}"));
                only.push(named.ok_or(format!("there is no plant {name}"))?);
            }
            other => return Err(format!("{other} is not known")),
        }
    }
    let plants = match (only.is_empty(), is_quick) {
        (false, false) => only,
        (true, true) => QUICK.to_vec(),
        (true, false) => Plant::ALL.into_iter().chain(Plant::FAST).collect(),
        (false, true) => return Err("named plants or the quick ones, not both".to_owned()),
    };
    Ok(Arguments {
        plants,
        within,
        from,
        finds,
        worlds,
        telling,
    })
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("{word} is no number"))
}

fn visit(arguments: &Arguments) -> ExitCode {
    let begun = Instant::now();
    let mut jobs: Vec<(Option<Plant>, u64)> = vec![(None, arguments.within.unwrap_or(CLEAN))];
    for plant in &arguments.plants {
        let usual = if Plant::RARE.contains(plant) {
            WITHIN_RARE
        } else {
            WITHIN
        };
        jobs.push((Some(*plant), arguments.within.unwrap_or(usual)));
    }
    let (next, missed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let told = Mutex::new(());
    println!(
        "{:<26} {:>6} {:>8}  {:<9}  found by",
        "plant", "seed", "time", "in"
    );
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some((planted, within)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = look(*planted, arguments, *within);
                    let is_right = found.first.is_some() == planted.is_some();
                    missed.fetch_add(usize::from(!is_right), Ordering::Relaxed);
                    let _one_line_at_a_time = told.lock();
                    tell(&found);
                }
            });
        }
    });
    let missed = missed.into_inner();
    println!(
        "{} plants, {missed} missed, {:.0} s",
        arguments.plants.len(),
        begun.elapsed().as_secs_f64()
    );
    ExitCode::from(u8::from(missed > 0))
}

/// Runs seeds from `from` on with `planted` until as many fail as are wanted.
fn look(planted: Option<Plant>, arguments: &Arguments, within: u64) -> Found {
    let from = arguments.from;
    let begun = Instant::now();
    let (mut first, mut seeds) = (None, Vec::new());
    let is_fast = planted.is_some_and(|plant| Plant::FAST.contains(&plant));
    let ordering = is_fast.then_some(OrderingName::FastPaxos);
    plant(planted);
    for seed in from..from + within {
        let found = arguments.worlds.iter().find_map(|(world, run)| {
            let failure = run(seed, ordering, arguments.telling)?;
            plant(None);
            let is_due_to_it = planted.is_none() || run(seed, ordering, Telling::Hash).is_none();
            plant(planted);
            is_due_to_it.then_some((*world, failure))
        });
        if let Some(found) = found {
            first.get_or_insert(found);
            seeds.push(seed);
        }
        if seeds.len() >= arguments.finds {
            break;
        }
    }
    plant(None);
    Found {
        planted,
        within,
        first,
        seeds,
        took: begun.elapsed(),
    }
}

fn tell(found: &Found) {
    let name = match found.planted {
        Some(plant) => format!("{plant:?}"),
        None => "(nothing)".to_owned(),
    };
    let took = format!("{:.1} s", found.took.as_secs_f64());
    let seeds: Vec<String> = found.seeds.iter().map(u64::to_string).collect();
    let seeds = seeds.join(" ");
    match &found.first {
        Some((world, failure)) => {
            for line in &failure.tail {
                println!("{line}");
            }
            println!(
                "{name:<26} {seeds:>6} {took:>8}  {world:<9}  {}",
                shown(failure)
            );
        }
        None if found.planted.is_none() => println!("{name:<26} {:>6} {took:>8}  -", "-"),
        None => println!(
            "{name:<26} {:>6} {took:>8}  MISSED in {} seeds",
            "-", found.within
        ),
    }
}

/// The first line of what was found.
fn shown(failure: &Failure) -> String {
    let text = failure.violation.to_string();
    let mut lines = text.lines();
    let first = lines.next().unwrap_or("");
    let line = match lines.next() {
        Some(second) if first.starts_with("Invariant") => format!("Invariant: {}", second.trim()),
        Some(_) | None => first.to_owned(),
    };
    line.chars().take(120).collect()
}
