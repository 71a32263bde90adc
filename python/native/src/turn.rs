//! A run of an object's code in the host process: who calls, whether the call parks, which parked calls it answers, and the
//! timers that it sets.
//!
//! The loop of the host begins and ends runs; `quorate.caller`, `quorate.park`, `quorate.after` and the methods of what they
//! return ask here.

pub(crate) mod agendas;
pub(crate) mod followed;
pub(crate) mod kept_agendas;
pub(crate) mod outside;
pub(crate) mod timers;

use self::agendas::Agendas;
use crate::frames::{ANSWER, NONE, RAISED, RETURNED};
use crate::{encode, hooks, serve};
use pyo3::prelude::*;
use quorate_types::{
    Agenda, CallPlace, CommandId, Deadline, Outcome, ParkedCall, SessionId, Value, Wall,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Calls of a group that may be parked, as of objects written in Rust.
const PARKED_MAX: usize = 10_000;

/// Bytes with which one call may answer parked calls: as much as the node tells of one slot. They are in memory until the
/// method returns.
pub(crate) const ANSWERS_BYTES_MAX: usize = 128 << 20;

/// Wakes to parked calls, each as the node reads it.
pub(crate) type Wakes = Vec<Vec<u8>>;

/// Bytes of the answer that a call gets when its time is over, and of what a timer passes to its method: each is in every image.
const LATER_BYTES_MAX: usize = 64 << 10;

/// What `quorate.park()` returns, for the method to return it.
#[pyclass(frozen, module = "quorate")]
pub(crate) struct Parked;

/// One run: a call, or without a caller what an object does at the end of a session and when a timer is due.
struct MethodRun {
    object: u32,
    caller: Option<CommandId>,
    place: CallPlace,
    /// Agreed time.
    now: Wall,
    /// The method has asked to park, until a deadline if it named one.
    parks: Option<Option<Deadline>>,
    /// What is done about what it has changed so far.
    undo: Undo,
    /// Until when the call waits, if it is tried again.
    waits_until: Option<Option<Deadline>>,
    again: Option<Value>,
    answers: Wakes,
    /// What these answer with, together.
    bytes: usize,
    /// Calls that other objects are to do afterwards, by their numbers.
    messages: BTreeMap<u32, Vec<Value>>,
    /// Those among them that go out although the call leaves no trace.
    questions: BTreeMap<u32, Vec<Value>>,
    /// Values from outside for which the run has asked.
    captures: u32,
}

/// Whether a call leaves a trace.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undo {
    /// The state from before it is not kept: what it changed stays.
    Impossible,
    /// The state from before it is kept.
    Possible,
    /// It leaves none, and ends as it ends.
    Asked,
    /// It leaves none, and is tried again when the object may have changed.
    TryAgain,
}

struct Turns {
    agendas: Agendas,
    objects: BTreeMap<u32, Py<PyAny>>,
    run: Option<MethodRun>,
    /// The object that is being read: it may ask who waits, and answers nobody.
    read: Option<u32>,
    /// What was told of when the objects have something to do first.
    told: Option<Wall>,
}

static TURNS: Mutex<Turns> = Mutex::new(Turns {
    agendas: Agendas::new(),
    objects: BTreeMap::new(),
    run: None,
    read: None,
    told: None,
});

fn turns() -> MutexGuard<'static, Turns> {
    TURNS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A run begins.
#[inline]
pub(crate) fn begin(object: u32, caller: Option<CommandId>, place: CallPlace, now: Wall) {
    turns().run = Some(MethodRun::of(object, caller, place, now));
}

impl MethodRun {
    fn of(object: u32, caller: Option<CommandId>, place: CallPlace, now: Wall) -> MethodRun {
        MethodRun {
            object,
            caller,
            place,
            now,
            parks: None,
            undo: Undo::Impossible,
            waits_until: None,
            again: None,
            answers: Wakes::new(),
            bytes: 0,
            messages: BTreeMap::new(),
            questions: BTreeMap::new(),
            captures: 0,
        }
    }
}

/// A read begins, or is over.
pub(crate) fn set_read(object: Option<u32>) {
    turns().read = object;
}

/// From here on an object is read, in a process that was forked to ask it.
#[pyfunction]
pub(crate) fn read_at(number: u32) {
    set_read(Some(number));
}

/// The run is over. Returns the answers that it gave to parked calls.
#[inline]
pub(crate) fn end() -> Wakes {
    let mut turns = turns();
    let Some(mut run) = turns.run.take() else {
        return Wakes::new();
    };
    for (number, asked) in std::mem::take(&mut run.questions) {
        run.messages.entry(number).or_default().extend(asked);
    }
    if !run.messages.is_empty() {
        timers::send_all(&mut turns, &run);
    }
    run.answers
}

/// Whether the method that has just returned asked to park.
#[inline]
pub(crate) fn parks() -> bool {
    turns().run.as_ref().is_some_and(|run| run.parks.is_some())
}

/// The state from before the call is kept. Returns what is to come for the object, to be kept with it.
pub(crate) fn keep_before() -> Arc<Agenda> {
    let mut turns = turns();
    let Turns { agendas, run, .. } = &mut *turns;
    let Some(run) = run else {
        return Arc::default();
    };
    run.undo = Undo::Possible;
    agendas.keep(run.object)
}

/// The object is what it was before the call of the run.
pub(crate) fn undone(number: u32, object: Py<PyAny>, agenda: Arc<Agenda>) {
    let mut turns = turns();
    turns.objects.insert(number, object);
    turns.agendas.put(number, agenda);
    if let Some(run) = &mut turns.run {
        run.answers.clear();
        run.bytes = 0;
        run.messages.clear();
        run.parks = None;
    }
}

/// What is done about what the method has changed.
pub(crate) fn undo() -> Undo {
    let turns = turns();
    turns.run.as_ref().map_or(Undo::Impossible, |run| run.undo)
}

/// Whether what the run has changed stays.
pub(crate) fn leaves_trace() -> bool {
    matches!(undo(), Undo::Impossible | Undo::Possible)
}

/// The call of the run is tried again with this payload once it is parked.
pub(crate) fn wait_with(payload: &[u8]) {
    if let Some(run) = &mut turns().run {
        run.parks = run.waits_until.take();
        run.again = Some(payload.to_vec().into());
    }
}

/// The calls of an object that are to be tried again.
pub(crate) fn tried(object: u32) -> Vec<CommandId> {
    let turns = turns();
    let agenda = turns
        .agendas
        .get(object)
        .filter(|agenda| agenda.parked.has_tried());
    agenda.map_or_else(Vec::new, |agenda| agenda.parked.tried())
}

/// A call that would be tried again is not. Says whether it waited.
pub(crate) fn end_tried(object: u32, id: CommandId) -> bool {
    let mut turns = turns();
    let agenda = turns.agendas.get_mut(object);
    agenda.is_some_and(|agenda| agenda.parked.take(id))
}

/// A run tries a call again, which is taken from those that wait. Returns its place and the call.
pub(crate) fn try_again(object: u32, id: CommandId, now: Wall) -> Option<(CallPlace, Value)> {
    let agenda = &mut *turns();
    let call = agenda.agendas.get_mut(object)?.parked.take_call(id)?;
    let again = call.again?;
    agenda.run = Some(MethodRun {
        waits_until: Some(call.deadline),
        ..MethodRun::of(object, Some(id), call.place, now)
    });
    Some((call.place, again))
}

/// The call of the run parks.
pub(crate) fn park_call() {
    let mut turns = turns();
    let Turns { agendas, run, .. } = &mut *turns;
    if let Some(run) = run
        && let Some(caller) = run.caller
    {
        let agenda = agendas.of(run.object);
        let call = ParkedCall {
            place: run.place,
            deadline: run.parks.take().flatten(),
            again: run.again.take(),
        };
        agenda.parked.park(caller, call);
    }
}

/// A session is over: returns the objects that know it.
pub(crate) fn session_ended(session: SessionId) -> Vec<u32> {
    turns().agendas.end(session)
}

/// Another client has a session: nobody waits for the calls that the one before had parked. Returns how they end.
pub(crate) fn session_resumed(session: SessionId) -> Wakes {
    let ended = turns().agendas.cancel_all(session);
    let none = |id| answer_of(id, false, NONE);
    ended.into_iter().map(none).collect()
}

/// The objects that have something to do at an agreed time.
pub(crate) fn due(now: Wall) -> Vec<u32> {
    turns().agendas.due(now)
}

/// Takes the calls of an object that have waited for as long as they may, with their answers.
pub(crate) fn take_overdue(object: u32, now: Wall) -> Vec<(CommandId, Outcome)> {
    let mut turns = turns();
    let agenda = turns.agendas.get_mut(object);
    agenda.map_or_else(Vec::new, |agenda| {
        std::iter::from_fn(|| agenda.parked.take_overdue(now)).collect()
    })
}

/// The number of the newest timer of an object.
pub(crate) fn newest_timer(object: u32) -> u64 {
    let turns = turns();
    let agenda = turns.agendas.get(object);
    agenda.map_or(0, |agenda| agenda.timers.last())
}

/// Takes the next timer of an object that is due, of those with numbers up to `last`.
pub(crate) fn take_timer(object: u32, now: Wall, last: u64) -> Option<Vec<u8>> {
    let mut turns = turns();
    let payload = turns.agendas.get_mut(object)?.timers.take_due(now, last)?;
    Some(payload.to_vec())
}

/// When the objects have something to do first, if that is to be told.
pub(crate) fn due_news(is_first: bool) -> Option<Option<Wall>> {
    let mut turns = turns();
    let due = turns.agendas.next_due();
    let is_news = std::mem::replace(&mut turns.told, due) != due;
    (is_news || is_first).then_some(due)
}

/// What is to come for an object, in front of its image.
pub(crate) fn head(object: u32) -> Vec<u8> {
    let mut head = Vec::new();
    match turns().agendas.get(object) {
        Some(agenda) => agenda.put(&mut head),
        None => Agenda::new().put(&mut head),
    }
    head
}

/// An object of the group; `None` where there is none of that number.
#[pyfunction]
pub(crate) fn object_of(py: Python<'_>, number: u32) -> Option<Py<PyAny>> {
    let turns = turns();
    let found = turns.objects.get(&number);
    found.map(|object| object.clone_ref(py))
}

/// The calls that wait at an object: session, sequence, and the slot in which each was called.
#[pyfunction]
pub(crate) fn waiting_at(number: u32) -> Vec<(u64, u64, u64)> {
    let turns = turns();
    let agenda = turns.agendas.get(number);
    let calls = agenda.into_iter().flat_map(|agenda| agenda.parked.iter());
    calls
        .map(|(id, place)| (id.session.0, id.sequence, place.slot.0))
        .collect()
}

/// An object was created.
pub(crate) fn object_made(number: u32, object: Py<PyAny>) {
    turns().objects.insert(number, object);
}

/// An object was dropped: nothing is to come for it. Returns the calls that waited at it.
pub(crate) fn object_dropped(number: u32) -> Vec<CommandId> {
    let mut turns = turns();
    turns.objects.remove(&number);
    let agenda = turns.agendas.remove(number);
    agenda.parked.iter().map(|(id, _)| id).collect()
}

/// Runs a function of Python as if no method ran: an object that is being made is none yet, and nothing is to come for it.
#[pyfunction]
pub(crate) fn outside_of_methods<'py>(run: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let outer = turns().run.take();
    let done = run.call0();
    turns().run = outer;
    done
}

/// The objects are these.
pub(crate) fn objects_are(objects: BTreeMap<u32, Py<PyAny>>) {
    turns().objects = objects;
}

/// Takes what is to come for restored objects.
pub(crate) fn restored(agendas: BTreeMap<u32, Agenda>) {
    turns().agendas.restore(agendas);
}

/// Session, sequence and token of the call that is being executed; `None` where there is none. The object hears of the end of
/// its session from now on.
#[pyfunction]
pub(crate) fn current_call() -> Option<(u64, u64, u64)> {
    let mut turns = turns();
    let Turns { agendas, run, .. } = &mut *turns;
    let run = run.as_ref()?;
    let caller = run.caller?;
    let knows = |agenda: &Agenda| agenda.parked.knows(caller.session);
    if !agendas.get(run.object).is_some_and(knows) {
        agendas.of(run.object).parked.know(caller.session);
    }
    let token = run.place.slot.0 << 16 | u64::from(run.place.index);
    Some((caller.session.0, caller.sequence, token))
}

/// The call that is being executed asks to wait, for so many nanoseconds at most; then it is answered with `otherwise`, a value or an
/// exception as the host describes it. `None` where no call is executed.
#[pyfunction]
pub(crate) fn park(
    py: Python<'_>,
    wait_ns: Option<u64>,
    is_error: bool,
    otherwise: &Bound<'_, PyAny>,
) -> PyResult<Option<Parked>> {
    let otherwise = later_value(wait_ns, otherwise)?;
    let mut turns = turns();
    let parked = turns.agendas.parked();
    let Some(run) = turns.run.as_mut().filter(|run| run.caller.is_some()) else {
        return Ok(None);
    };
    has_room(py, parked)?;
    run.parks = Some(run.deadline(wait_ns, is_error, otherwise));
    Ok(Some(Parked))
}

/// Whether the call that is being executed can be undone; `None` where no call is executed.
#[pyfunction]
pub(crate) fn can_undo() -> Option<bool> {
    let turns = turns();
    let run = turns.run.as_ref().filter(|run| run.caller.is_some())?;
    Some(run.undo != Undo::Impossible)
}

/// The call that is being executed leaves no trace.
#[pyfunction]
pub(crate) fn undo_call() {
    if let Some(run) = &mut turns().run {
        run.undo = Undo::Asked;
    }
}

/// The call that is being executed leaves no trace, and is tried again when the object may have changed. Its deadline is the first
/// that was named, in whichever try.
#[pyfunction]
pub(crate) fn wait_again(
    py: Python<'_>,
    wait_ns: Option<u64>,
    is_error: bool,
    otherwise: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let otherwise = later_value(wait_ns, otherwise)?;
    let mut turns = turns();
    let parked = turns.agendas.parked();
    let Some(run) = &mut turns.run else {
        return Ok(());
    };
    if run.waits_until.is_none()
        && let Err(full) = has_room(py, parked)
    {
        run.undo = Undo::Asked;
        return Err(full);
    }
    if !matches!(run.waits_until, Some(Some(_))) {
        run.waits_until = Some(run.deadline(wait_ns, is_error, otherwise));
    }
    run.undo = Undo::TryAgain;
    Ok(())
}

impl MethodRun {
    fn deadline(
        &self,
        wait_ns: Option<u64>,
        is_error: bool,
        otherwise: Vec<u8>,
    ) -> Option<Deadline> {
        wait_ns.map(|wait| Deadline {
            at: Wall(self.now.0.saturating_add(wait)),
            otherwise: if is_error {
                Outcome::Raised(otherwise.into())
            } else {
                Outcome::Returned(otherwise.into())
            },
        })
    }
}

fn has_room(py: Python<'_>, parked: usize) -> PyResult<()> {
    if parked < PARKED_MAX {
        return Ok(());
    }
    let text =
        format!("{PARKED_MAX} calls of this group wait already: try again when some were answered");
    Err(hooks::error(py, "Overloaded", text))
}

/// What is answered later, encoded.
fn later_value(wait_ns: Option<u64>, value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let mut told = Vec::new();
    if wait_ns.is_none() {
        return Ok(told);
    }
    encode::value_into(&mut told, value, "default")?;
    serve::is_sendable(value.py(), &told)?;
    is_small(value.py(), &told, "the default of a call that waits")?;
    Ok(told)
}

pub(crate) fn is_small(py: Python<'_>, told: &[u8], what: &str) -> PyResult<()> {
    if told.len() <= LATER_BYTES_MAX {
        return Ok(());
    }
    let text = format!(
        "{what} takes {} bytes, and may take {LATER_BYTES_MAX}: keep it in the object",
        told.len()
    );
    Err(hooks::error(py, "UnsupportedValue", text))
}

/// Whether a call of the running object is parked.
#[pyfunction]
pub(crate) fn is_parked(session: u64, sequence: u64) -> bool {
    let turns = turns();
    let object = turns.run.as_ref().map(|run| run.object).or(turns.read);
    let agenda = object.and_then(|object| turns.agendas.get(object));
    agenda.is_some_and(|agenda| agenda.parked.is_parked(id(session, sequence)))
}

/// The object of which a method runs, if any does.
#[pyfunction]
pub(crate) fn running_object(py: Python<'_>) -> Option<Py<PyAny>> {
    let turns = turns();
    let run = turns.run.as_ref()?;
    turns
        .objects
        .get(&run.object)
        .map(|object| object.clone_ref(py))
}

/// The number of that object.
#[pyfunction]
pub(crate) fn running_number() -> Option<u32> {
    turns().run.as_ref().map(|run| run.object)
}

/// Wakes a parked call of the running object with a value, or with an exception as the host describes it. Says whether it was
/// parked.
#[pyfunction]
pub(crate) fn answer_parked(
    session: u64,
    sequence: u64,
    is_error: bool,
    value: &Bound<'_, PyAny>,
) -> PyResult<bool> {
    // Encoding runs code of the value's class, which may ask here.
    let mut told = Vec::new();
    encode::value_into(&mut told, value, "value")?;
    serve::is_sendable(value.py(), &told)?;
    let mut turns = turns();
    let Turns { agendas, run, .. } = &mut *turns;
    let Some(run) = run else { return Ok(false) };
    let id = id(session, sequence);
    let agenda = agendas.get_mut(run.object);
    let Some(agenda) = agenda.filter(|agenda| agenda.parked.is_parked(id)) else {
        return Ok(false);
    };
    if run.bytes + told.len() > ANSWERS_BYTES_MAX {
        let text = format!(
            "one call answers parked calls with {ANSWERS_BYTES_MAX} bytes together at most, and this answer of {} bytes \
             would be more: answer the others in another call",
            told.len()
        );
        return Err(hooks::error(value.py(), "UnsupportedResult", text));
    }
    agenda.parked.take(id);
    run.bytes += told.len();
    run.answers.push(answer_of(id, is_error, &told));
    Ok(true)
}

/// The caller of the run does not wait any more for these calls: those of its session end with `None`.
#[cold]
pub(crate) fn cancel(ids: impl Iterator<Item = CommandId>) {
    let mut turns = turns();
    let Turns { agendas, run, .. } = &mut *turns;
    let Some(run) = run else { return };
    let Some(agenda) = agendas.get_mut(run.object) else {
        return;
    };
    for id in ids {
        let is_own = run
            .caller
            .is_some_and(|caller| caller.session == id.session);
        if is_own && agenda.parked.take(id) {
            run.answers.push(answer_of(id, false, NONE));
        }
    }
}

/// The answer to a parked call, as the node reads it.
pub(crate) fn answer_of(id: CommandId, is_error: bool, told: &[u8]) -> Vec<u8> {
    let mut ended = Vec::with_capacity(5 + told.len());
    ended.push(if is_error { RAISED } else { RETURNED });
    ended.extend_from_slice(&(told.len() as u32).to_le_bytes());
    ended.extend_from_slice(told);
    ended_answer(id, &ended)
}

/// The same, of a call that ended so.
pub(crate) fn ended_answer(id: CommandId, ended: &[u8]) -> Vec<u8> {
    let mut answer = Vec::with_capacity(17 + ended.len());
    answer.push(ANSWER);
    answer.extend_from_slice(&id.session.0.to_le_bytes());
    answer.extend_from_slice(&id.sequence.to_le_bytes());
    answer.extend_from_slice(ended);
    answer
}

fn id(session: u64, sequence: u64) -> CommandId {
    CommandId {
        session: SessionId(session),
        sequence,
    }
}
