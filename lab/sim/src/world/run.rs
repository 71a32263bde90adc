//! One run, from a schedule to its report. A panic in the code under test counts as a broken property.

use super::World;
use super::adversary::Adversary;
use super::generate;
use super::row::Exercised;
use super::schedule::Schedule;
use super::setup::Setup;
use super::trace::Telling;
use crate::checkers::footprint::{Footprint, Highest};
use crate::checkers::{Property, Violation};
use quorate_types::{Duration, OrderingName};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// What was run.
    pub schedule: Schedule,
    /// Hash of everything that happened.
    pub hash: u64,
    /// Virtual time that passed.
    pub simulated: Duration,
    /// Commands that were executed.
    pub commands: usize,
    /// Operations that clients got an answer for.
    pub answered: u64,
    /// Operations that ended without one.
    pub failed: u64,
    /// Turns that nodes took.
    pub turns: u64,
    /// The longest time that a healthy, connected majority was without a leader.
    pub leaderless: Duration,
    /// The kinds of faults that took effect.
    pub exercised: Exercised,
    /// What nodes kept, in runs of hours.
    pub kept: Vec<Highest>,
    /// What was broken.
    pub failure: Option<Failure>,
    /// What the orderings of the seed broke alone, under the adversarial scheduler.
    pub orderings: Option<Failure>,
}

impl Report {
    /// What was broken first.
    pub fn broken(&self) -> Option<&Failure> {
        self.failure.as_ref().or(self.orderings.as_ref())
    }
}

/// A broken property and what happened before.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What is broken.
    pub violation: Violation,
    /// The last events, if they were to be told.
    pub tail: Vec<String>,
}

/// Runs the schedule that follows from `seed`, and its orderings alone. The group begins with `ordering`, or as the seed says.
pub fn run_seed(seed: u64, ordering: Option<OrderingName>, telling: Telling) -> Report {
    Report {
        orderings: run_orderings(seed, ordering, telling),
        ..run_nodes(seed, ordering, telling)
    }
}

/// Whether the group of `seed` has witnesses.
pub fn has_witnesses(seed: u64) -> bool {
    generate::schedule(&Setup::from_seed(seed)).witnesses > 0
}

/// Whether objects go ahead of decisions in the group of `seed`.
pub fn speculates(seed: u64) -> bool {
    generate::schedule(&Setup::from_seed(seed)).speculation > 0
}

/// Runs the schedule that follows from `seed`.
pub fn run_nodes(seed: u64, ordering: Option<OrderingName>, telling: Telling) -> Report {
    let drawn = generate::schedule(&Setup::from_seed(seed));
    run(Schedule { ordering, ..drawn }, telling)
}

/// Runs the orderings of `seed` alone under the adversarial scheduler, to the end or to the first broken property.
pub fn run_orderings(
    seed: u64,
    ordering: Option<OrderingName>,
    telling: Telling,
) -> Option<Failure> {
    listen_to_panics();
    let mut adversary = Adversary::new(seed, ordering, telling);
    LISTENING.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(|| adversary.play()));
    LISTENING.set(false);
    let violation = match outcome {
        Ok(judged) => judged.err()?,
        Err(_) => Violation::new(Property::Invariant, PANIC.take()),
    };
    Some(adversary.failure(violation))
}

/// Runs a schedule to its end or to the first broken property.
pub fn run(schedule: Schedule, telling: Telling) -> Report {
    play(World::new(schedule, telling))
}

/// Plays a world to its end or to the first broken property.
pub(super) fn play(mut world: World) -> Report {
    listen_to_panics();
    LISTENING.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        world.play()?;
        world.footprint.iter().try_for_each(Footprint::finish)?;
        world.judge.finish(world.setup.sessions_max)
    }));
    LISTENING.set(false);
    let violation = match outcome {
        Ok(judged) => judged.err(),
        Err(_) => Some(Violation::new(Property::Invariant, PANIC.take())),
    };
    Report {
        hash: world.trace.hash(),
        simulated: Duration(world.now.0),
        commands: world.judge.commands(),
        answered: world.judge.answered,
        failed: world.judge.failed,
        turns: world.turns,
        leaderless: world.leading.leaderless(),
        exercised: world.harm.exercised.clone(),
        kept: world
            .footprint
            .iter()
            .flat_map(Footprint::highest)
            .collect(),
        failure: violation.map(|violation| Failure {
            violation,
            tail: world.trace.tail().map(str::to_owned).collect(),
        }),
        orderings: None,
        schedule: world.schedule,
    }
}

thread_local! {
    static LISTENING: Cell<bool> = const { Cell::new(false) };
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps what a panic of a run says, in place of printing it.
fn listen_to_panics() {
    static LISTEN: Once = Once::new();
    LISTEN.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if LISTENING.get() {
                PANIC.set(panic.to_string());
            } else {
                before(panic);
            }
        }));
    });
}
