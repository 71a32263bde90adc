//! Objects that execute ahead of decisions (High Performance State-Machine Replication, 3.2).

use crate::world::{World, batch, call, id, meta, stamp, value};
use quorate_ordering::Effect;
use quorate_replica::{Input, Output, Speculated, limits};
use quorate_types::{
    Batch, Body, Command, Duration, Outcome, ReadLevel, SessionId, Slot, SlotResults, StepResult,
    Time, ToClient, Value,
};

/// Two replicas, of which n0 leads and executes up to `depth` slots ahead; a session at n0 on connection 5, and another one at n1.
pub(crate) fn ahead(depth: usize) -> (World, SessionId, SessionId) {
    let mut world = World::with(2, |config| {
        config.speculation = if config.own.0 == 0 { depth } else { 0 };
    });
    let (session, other) = (world.open(0, 5), world.open(1, 7));
    world.shared.borrow_mut().holds_submissions = true;
    world.told.clear();
    (world, session, other)
}

/// A client's call at n0, which is submitted and not decided.
pub(crate) fn submitted(
    world: &mut World,
    session: SessionId,
    sequence: u64,
    text: &str,
) -> Command {
    world.call(0, 5, id(session, sequence), text);
    let submitted = world.shared.borrow_mut().submitted.pop();
    submitted.expect("it is submitted").1
}

/// n0 votes for `batch` in the slot that is `later` slots behind the next one.
pub(crate) fn votes(world: &mut World, later: u64, batch: &Batch) {
    let slot = Slot(world.shared.borrow().last().0 + 1 + later);
    let batch = batch.clone();
    world.effect(0, Effect::Tentative { slot, batch });
    world.run();
}

pub(crate) fn decides(world: &mut World, batch: &Batch) {
    world.shared.borrow_mut().log.push(batch.clone());
    world.run();
}

fn sent(world: &World, is_meant: impl Fn(&Output<u32>) -> bool) -> usize {
    let at_n0 = world.seen.iter().filter(|(at, _)| *at == 0);
    at_n0.filter(|(_, output)| is_meant(output)).count()
}

fn undone(output: &Output<u32>) -> bool {
    matches!(output, Output::Undo { .. })
}

fn speculated(output: &Output<u32>) -> bool {
    matches!(output, Output::Speculate { .. })
}

/// Claim rp-129.
#[test]
fn a_call_is_executed_while_it_is_ordered_and_answered_when_it_is_decided() {
    let (mut world, session, _) = ahead(4);
    let asked = submitted(&mut world, session, 1, "a");
    let batch = batch(vec![asked]);
    votes(&mut world, 0, &batch);
    assert!(world.nodes[0].objects.executed.contains(&id(session, 1)));
    assert_eq!(world.take_told(5), [], "nothing is decided");
    decides(&mut world, &batch);
    assert!(world.outcome(5).is_some());
    let counted = Speculated { kept: 1, undone: 0 };
    assert_eq!(world.nodes[0].replica.speculated(), counted);
    assert_eq!(
        world.nodes[0].objects.state, world.nodes[1].objects.state,
        "as where it was executed once it was decided"
    );
}

/// Claim rp-130.
#[test]
fn what_is_decided_otherwise_is_undone_and_answered_as_if_it_had_never_been_executed() {
    let (mut world, session, other) = ahead(4);
    let asked = submitted(&mut world, session, 1, "a");
    let own = batch(vec![asked]);
    votes(&mut world, 0, &own);
    let late = submitted(&mut world, session, 2, "b");
    let late = batch(vec![late]);
    votes(&mut world, 1, &late);
    world.decide(vec![call(other, 1, 0, "x")]);
    assert_eq!(world.take_told(5), [], "neither of them is decided");
    decides(&mut world, &late);
    decides(&mut world, &own);
    let told = world.take_told(5);
    let answered = told.iter().map(|told| match told {
        ToClient::Replied { id, .. } => id.sequence,
        other => panic!("an answer, not {other:?}"),
    });
    assert_eq!(answered.collect::<Vec<_>>(), [2, 1], "each once");
    let (n0, n1) = (&world.nodes[0].objects, &world.nodes[1].objects);
    assert_eq!((n0.state, &n0.executed), (n1.state, &n1.executed));
    assert_eq!(world.nodes[0].replica.speculated().undone, 2);
}

/// Claim rp-131.
#[test]
fn a_read_that_saw_what_is_not_decided_waits_for_the_decision() {
    let (mut world, session, _) = ahead(4);
    let asked = submitted(&mut world, session, 1, "a");
    let batch = batch(vec![asked]);
    votes(&mut world, 0, &batch);
    world.read(0, 6, 1, ReadLevel::Confirmed);
    assert_eq!(world.take_told(6), [], "the state may be undone");
    decides(&mut world, &batch);
    let slot = world.shared.borrow().last();
    let told = world.take_told(6);
    let [
        ToClient::Read {
            slot: shown,
            outcome,
            ..
        },
    ] = told.as_slice()
    else {
        panic!("one answer, not {told:?}");
    };
    assert_eq!(*shown, slot, "it says what it shows");
    assert_eq!(Some(outcome.clone()), world.outcome(5));
}

#[test]
fn a_read_of_a_state_that_is_undone_is_asked_again() {
    let (mut world, session, other) = ahead(4);
    let asked = submitted(&mut world, session, 1, "a");
    let own = batch(vec![asked]);
    votes(&mut world, 0, &own);
    world.read(0, 6, 1, ReadLevel::Confirmed);
    // The answers to this one and to the call come after the other decision.
    world.nodes[0].objects.answers_left = Some(0);
    world.read(0, 6, 2, ReadLevel::Confirmed);
    let slot = world.decide(vec![call(other, 1, 0, "x")]);
    world.nodes[0].objects.answers_left = None;
    world.run();
    let right = value(world.nodes[1].objects.state);
    let told = world.take_told(6);
    assert_eq!(told.len(), 2, "{told:?}");
    for told in told {
        let ToClient::Read {
            slot: shown,
            outcome,
            ..
        } = told
        else {
            panic!("an answer, not {told:?}");
        };
        let is_before = shown < slot;
        assert!(is_before || outcome == right, "{outcome:?} at {shown}");
    }
}

#[test]
fn what_the_objects_told_before_they_went_back_counts_for_nothing() {
    let (mut world, session, other) = ahead(4);
    world.nodes[0].objects.answers_left = Some(0);
    let asked = submitted(&mut world, session, 1, "a");
    let own = batch(vec![asked]);
    votes(&mut world, 0, &own);
    world.decide(vec![call(other, 1, 0, "x")]);
    decides(&mut world, &own);
    world.nodes[0].objects.answers_left = None;
    world.run();
    let right = value(world.nodes[1].objects.state);
    assert_eq!(world.outcome(5), Some(right));
    // What each replica keeps for the other call.
    for at in [0, 1] {
        world.call(at, 8 + at as u64, id(other, 1), "x");
    }
    assert_eq!(world.outcome(8), world.outcome(9));
}

#[test]
fn a_replica_that_hears_of_no_decision_goes_back_to_what_it_may_show() {
    let (mut world, session, _) = ahead(4);
    let before = world.nodes[0].objects.state;
    let asked = submitted(&mut world, session, 1, "a");
    let own = batch(vec![asked]);
    votes(&mut world, 0, &own);
    world.read(0, 6, 1, ReadLevel::Confirmed);
    let almost = Duration(limits::SPECULATION_PATIENCE.0 - 1);
    world.pass(almost);
    assert_eq!(sent(&world, undone), 0);
    world.pass(Duration(1));
    assert_eq!(sent(&world, undone), 1);
    assert_eq!(world.nodes[0].objects.state, before);
    assert_eq!(world.outcome(6), Some(value(before)));
    votes(&mut world, 0, &own);
    decides(&mut world, &own);
    assert_eq!(world.nodes[0].objects.state, world.nodes[1].objects.state);
}

#[test]
fn objects_are_ahead_by_no_more_than_they_may() {
    let (mut world, session, _) = ahead(2);
    let batches: Vec<Batch> = (1..=4)
        .map(|sequence| batch(vec![call(session, sequence, 0, "a")]))
        .collect();
    for (later, batch) in batches.iter().enumerate() {
        votes(&mut world, later as u64, batch);
    }
    assert_eq!(sent(&world, speculated), 2);
    decides(&mut world, &batches[0]);
    assert_eq!(sent(&world, speculated), 3);
    for batch in &batches[1..] {
        decides(&mut world, batch);
    }
    assert_eq!(sent(&world, undone), 0);
    assert_eq!(world.nodes[0].objects.state, world.nodes[1].objects.state);
}

/// A snapshot is of a decided state, and what a call came to before is not executed again.
#[test]
fn only_new_calls_go_ahead() {
    let (mut world, session, _) = ahead(4);
    let first = batch(vec![call(session, 1, 0, "a")]);
    decides(&mut world, &first);
    let others = [
        vec![call(session, 1, 0, "a")],
        vec![call(session, 2, 0, "b"), call(session, 2, 0, "b")],
        vec![call(session, 2, 0, "b"), meta(Body::Checkpoint)],
        vec![call(SessionId(77), 1, 0, "b")],
    ];
    for commands in others {
        votes(&mut world, 0, &batch(commands));
        assert_eq!(sent(&world, speculated), 0);
    }
    votes(&mut world, 0, &batch(vec![call(session, 2, 0, "b")]));
    assert_eq!(sent(&world, speculated), 1, "the newest vote counts");
    votes(&mut world, 1, &batch(vec![call(session, 2, 0, "b")]));
    assert_eq!(sent(&world, speculated), 1, "it is ahead already");
}

#[test]
fn a_vote_for_another_batch_takes_the_place_of_an_earlier_one() {
    let (mut world, session, _) = ahead(4);
    votes(&mut world, 0, &batch(vec![call(session, 1, 0, "a")]));
    let other = batch(vec![call(session, 1, 0, "b")]);
    votes(&mut world, 0, &other);
    assert_eq!(sent(&world, undone), 1);
    decides(&mut world, &other);
    assert_eq!(sent(&world, undone), 1);
    assert_eq!(world.nodes[0].replica.speculated().kept, 1);
    assert_eq!(world.nodes[0].objects.state, world.nodes[1].objects.state);
}

#[test]
fn a_host_that_dies_ahead_of_a_decision_dies_again_where_that_counts() {
    let (mut world, session, _) = ahead(4);
    let poison = batch(vec![call(session, 1, 0, "poison")]);
    votes(&mut world, 0, &poison);
    assert_eq!(sent(&world, undone), 1, "its host is down");
}

/// Only the objects went ahead: the session knows nothing of what is undone (trap 21).
#[test]
fn a_call_whose_execution_is_undone_is_no_duplicate_when_it_comes_again() {
    let (mut world, session, other) = ahead(4);
    let asked = submitted(&mut world, session, 1, "a");
    let own = batch(vec![asked]);
    votes(&mut world, 0, &own);
    world.decide(vec![call(other, 1, 0, "x")]);
    decides(&mut world, &own);
    let first = world.outcome(5);
    assert_eq!(first, Some(value(world.nodes[1].objects.state)));
    let state = world.nodes[0].objects.state;
    world.call(0, 5, id(session, 1), "a");
    assert_eq!(world.outcome(5), first, "the reply is kept");
    assert_eq!(world.nodes[0].objects.state, state);
}

/// Orders of n0 that nobody has decided.
fn orders(world: &World, is_meant: impl Fn(&Body) -> bool) -> usize {
    let shared = world.shared.borrow();
    let own = shared.submitted.iter().filter(|(at, _)| *at == 0);
    own.filter(|(_, command)| is_meant(&command.body)).count()
}

/// A report binds the group: it is of calls that are decided.
#[test]
fn the_death_of_a_host_at_a_call_that_is_not_decided_is_not_reported() {
    let (mut world, session, _) = ahead(4);
    let poison = batch(vec![call(session, 1, 0, "poison")]);
    votes(&mut world, 0, &poison);
    assert_eq!(sent(&world, undone), 1, "its host is down");
    let died = |body: &Body| matches!(body, Body::Died { .. });
    assert_eq!(
        orders(&world, died),
        0,
        "{:?}",
        world.shared.borrow().submitted
    );
}

/// Objects that are ahead tell what is due in a state that is not decided.
#[test]
fn no_tick_is_ordered_for_what_is_due_in_a_state_that_is_not_decided() {
    let (mut world, session, _) = ahead(4);
    // It is told before what came of the slot.
    world.nodes[0].objects.answers_left = Some(0);
    votes(&mut world, 0, &batch(vec![call(session, 1, 0, "a")]));
    let at = Some(world.right_wall());
    world.input(0, Input::Due { at });
    world.run();
    assert_eq!(orders(&world, |body| *body == Body::Tick), 0);
}

/// A slot was voted for without calls, and is decided with one.
#[test]
fn objects_go_back_to_before_a_slot_that_they_took_for_an_empty_one() {
    let (mut world, session, other) = ahead(4);
    votes(&mut world, 0, &batch(vec![]));
    votes(&mut world, 1, &batch(vec![call(session, 1, 0, "a")]));
    assert_eq!(sent(&world, speculated), 1);
    let slot = world.decide(vec![call(other, 1, 0, "x")]);
    let at_n0 = world.seen.iter().filter(|(at, _)| *at == 0);
    let afters: Vec<Slot> = at_n0
        .filter_map(|(_, output)| match output {
            Output::Undo { after } => Some(*after),
            _ => None,
        })
        .collect();
    assert_eq!(afters, [slot.previous()], "they do not have {slot}");
    decides(&mut world, &batch(vec![call(session, 1, 0, "a")]));
    assert_eq!(world.nodes[0].objects.state, world.nodes[1].objects.state);
}

/// Hosts of all replicas die at a call that no log holds in the end, and the group takes their word for the call that is decided
/// in its place.
#[test]
fn a_call_is_not_skipped_for_deaths_at_another_one_that_was_undone() {
    let mut world = World::with(2, |config| config.speculation = 4);
    let (session, other) = (world.open(0, 5), world.open(1, 7));
    world.shared.borrow_mut().holds_submissions = true;
    world.told.clear();
    let poison = batch(vec![call(session, 1, 0, "poison")]);
    let slot = Slot(world.shared.borrow().last().0 + 1);
    for at in [0, 1] {
        let batch = poison.clone();
        world.effect(at, Effect::Tentative { slot, batch });
    }
    world.run();
    world.call(1, 7, id(other, 1), "x");
    let submitted = std::mem::take(&mut world.shared.borrow_mut().submitted);
    let (calls, reports): (Vec<Command>, Vec<Command>) = submitted
        .into_iter()
        .map(|(_, command)| command)
        .partition(|command| matches!(command.body, Body::Call { .. }));
    assert_eq!(world.decide(calls), slot);
    if !reports.is_empty() {
        world.decide(reports);
    }
    let outcome = world.outcome(7);
    assert!(
        !matches!(outcome, Some(Outcome::Skipped)),
        "it kills nobody: {outcome:?}"
    );
}

/// What waits for a decision is bounded in bytes, results as well as calls.
#[test]
fn objects_go_no_further_while_large_results_wait_for_decisions() {
    let (mut world, session, _) = ahead(64);
    world.nodes[0].objects.answers_left = Some(0);
    let slot = Slot(world.shared.borrow().last().0 + 1);
    votes(&mut world, 0, &batch(vec![call(session, 1, 0, "a")]));
    let large = Value::from(vec![0; limits::SPECULATION_BYTES + 1]);
    let outcome = StepResult::Answered(Outcome::Returned(large));
    let mut results = SlotResults::default();
    results.steps.push(outcome);
    world.input(0, Input::Executed { slot, results });
    votes(&mut world, 1, &batch(vec![call(session, 2, 0, "b")]));
    assert_eq!(sent(&world, speculated), 1);
}

/// A slot decided without calls is no work for the objects, which would wait for another one that is.
#[test]
fn what_is_ahead_is_undone_at_once_where_its_slot_is_decided_without_calls() {
    let (mut world, session, _) = ahead(4);
    let before = world.nodes[0].objects.state;
    let asked = submitted(&mut world, session, 1, "a");
    let own = batch(vec![asked]);
    votes(&mut world, 0, &own);
    world.read(0, 6, 1, ReadLevel::Confirmed);
    decides(&mut world, &batch(vec![]));
    assert_eq!(sent(&world, undone), 1);
    assert_eq!(world.outcome(6), Some(value(before)), "no read waits");
}

/// Objects read the time of their slot, which rises with that of the slots before.
#[test]
fn a_slot_that_was_executed_at_another_time_is_undone() {
    let (mut world, session, other) = ahead(4);
    let known = vec![call(other, 1, 0, "x")];
    world.decide(known.clone());
    votes(&mut world, 0, &batch(vec![]));
    let asked = submitted(&mut world, session, 1, "a");
    let own = batch(vec![asked]);
    votes(&mut world, 1, &own);
    // Its call is not executed again, and its time counts.
    decides(&mut world, &Batch::new(stamp(Time(u64::MAX / 2)), known));
    assert_eq!(sent(&world, undone), 0);
    decides(&mut world, &own);
    assert_eq!(sent(&world, undone), 1);
    assert_eq!(world.nodes[0].objects.state, world.nodes[1].objects.state);
}

#[test]
fn a_read_that_is_asked_again_says_up_to_which_slot_it_shows_the_state() {
    let (mut world, session, other) = ahead(4);
    for (later, text) in ["a", "b"].into_iter().enumerate() {
        let asked = submitted(&mut world, session, later as u64 + 1, text);
        votes(&mut world, later as u64, &batch(vec![asked]));
    }
    world.read(0, 6, 1, ReadLevel::Confirmed);
    let first = batch(vec![call(session, 1, 0, "a")]);
    decides(&mut world, &first);
    let executed = world.shared.borrow().last();
    let right = value(world.nodes[1].objects.state);
    assert_eq!(world.take_told(6), [], "it saw the second call");
    world.decide(vec![call(other, 1, 0, "x")]);
    let told = world.take_told(6);
    let [ToClient::Read { slot, outcome, .. }] = told.as_slice() else {
        panic!("one answer, not {told:?}");
    };
    assert_eq!((*slot, outcome), (executed, &right));
}

/// A host process that is replaced answers after it has gone back what it had been asked before.
#[test]
fn a_read_answered_after_some_of_it_was_undone_waits_for_what_was_not() {
    let (mut world, session, _) = ahead(4);
    let before = world.nodes[0].objects.state;
    votes(&mut world, 0, &batch(vec![call(session, 1, 0, "a")]));
    votes(&mut world, 1, &batch(vec![call(session, 2, 0, "b")]));
    world.nodes[0].objects.answers_left = Some(0);
    world.read(0, 6, 1, ReadLevel::Confirmed);
    votes(&mut world, 1, &batch(vec![call(session, 2, 0, "c")]));
    assert_eq!(sent(&world, undone), 1);
    world.nodes[0].objects.answers_reads_anew();
    world.nodes[0].objects.answers_left = None;
    world.run();
    assert_eq!(world.take_told(6), [], "the first call is not decided");
    decides(&mut world, &batch(vec![]));
    assert_eq!(world.outcome(6), Some(value(before)));
}
