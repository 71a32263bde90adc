//! Slots that are executed before they are decided, and how they are undone in this process.
//!
//! A class says how a method is undone (`quorate.undoes`). Of a slot whose calls can all be undone so, the host keeps what that needs
//! until the slot is decided: the calls with their results, and what was to come for each object before. A slot that has done anything
//! else is told as one that cannot be undone here, and then the node replaces this process. `quorate._undo` has the half of it that
//! calls what the class says, and compares what comes of it.

use super::{Server, due_frame};
use crate::frames::{FrameBody, PARKED, RETURNED, reply};
use crate::reads::{Checking, is_process_small};
use crate::turn::{self, agendas, kept_agendas};
use crate::{decode, environment, numbers, steps};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// Trials of what classes say take this part of the time.
const TRIAL_SHARE: u32 = 100;

/// The first call of each method is tried as well, unless images are so large that clients would notice.
const FIRST_TRIAL_MAX: Duration = Duration::from_millis(50);

/// Methods that are kept in mind as tried.
const TRIED_MAX: usize = 1024;

/// What is kept of slots that are not decided.
pub(super) struct Undoing<'py> {
    /// Ascending.
    slots: VecDeque<KeptSlot<'py>>,
    /// The one that is being executed, if it is not decided and classes say how methods are undone.
    open: Option<KeptSlot<'py>>,
    /// Methods of each object that can be undone.
    methods: HashMap<u32, HashSet<String>>,
    /// Whether there are any.
    is_any: bool,
    checking: Checking,
    tried: HashSet<(u32, Box<str>)>,
    try_at: Instant,
    try_cost: Duration,
    /// A process that was forked to try one, and the method.
    trial: Option<(RawFd, u32, String)>,
}

struct KeptSlot<'py> {
    slot: u64,
    /// Slot, time and entropy of the slot before it.
    before: (u64, u64, u64),
    calls: Vec<KeptCall<'py>>,
    agendas: agendas::AgendasBefore,
    /// Whether all that has happened in it can be undone.
    can_undo: bool,
}

struct KeptCall<'py> {
    object: u32,
    index: u32,
    /// A `quorate._undo.Kept`.
    kept: Bound<'py, PyAny>,
}

/// A call that is about to run.
pub(super) struct BeforeCall<'py> {
    call: Option<KeptCall<'py>>,
    numbers_given: u64,
    is_trial: bool,
}

/// What a class says did not undo a call.
struct NotUndone {
    object: u32,
    method: String,
    reason: String,
}

impl<'py> Undoing<'py> {
    pub(super) fn new() -> Undoing<'py> {
        Undoing {
            slots: VecDeque::new(),
            open: None,
            methods: HashMap::new(),
            is_any: false,
            checking: Checking::Sample,
            tried: HashSet::new(),
            try_at: Instant::now(),
            try_cost: Duration::ZERO,
            trial: None,
        }
    }

    pub(super) fn begin(&mut self, checking: Checking) {
        self.checking = checking;
    }

    /// These objects have methods that can be undone, and have another state than before.
    pub(super) fn objects_are(&mut self, methods: HashMap<u32, HashSet<String>>) {
        self.slots.clear();
        self.methods.clear();
        self.is_any = false;
        self.objects_made(methods);
    }

    /// So do objects that were created.
    pub(super) fn objects_made(&mut self, methods: HashMap<u32, HashSet<String>>) {
        self.is_any |= methods.values().any(|each| !each.is_empty());
        self.methods.extend(methods);
    }

    /// What has happened in the slot that is being executed cannot be undone here.
    #[inline]
    pub(super) fn spoil(&mut self) {
        if let Some(open) = &mut self.open {
            open.can_undo = false;
            open.calls.clear();
        }
    }

    /// Everything up to this slot is decided.
    #[inline]
    pub(super) fn decided(&mut self, upto: u64) {
        while self.slots.front().is_some_and(|kept| kept.slot <= upto) {
            self.slots.pop_front();
        }
    }

    /// Takes the last slot, if it is behind `after`.
    fn last_after(&mut self, after: u64) -> Option<KeptSlot<'py>> {
        self.slots.back().filter(|kept| kept.slot > after)?;
        self.slots.pop_back()
    }

    /// Whether results are kept.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.can_undo)
    }

    /// The pipe whose end is that of a trial.
    pub(super) fn trial(&self) -> Option<RawFd> {
        self.trial.as_ref().map(|(fd, _, _)| *fd)
    }

    fn is_trial_due(&self, object: u32, method: &str) -> bool {
        if self.trial.is_some() {
            return false;
        }
        let is_wanted = match self.checking {
            Checking::Never => false,
            Checking::All => true,
            Checking::Sample => {
                let is_first = !self.tried.contains(&(object, method.into()));
                Instant::now() >= self.try_at || is_first && self.try_cost < FIRST_TRIAL_MAX
            }
        };
        is_wanted && is_process_small()
    }

    fn distrust(&mut self, object: u32, method: &str) {
        if let Some(methods) = self.methods.get_mut(&object) {
            methods.remove(method);
        }
    }
}

impl<'py> Server<'py> {
    /// Executes a slot that is not decided.
    pub(super) fn execute_ahead(&mut self, body: &mut FrameBody<'_>) -> PyResult<()> {
        let decided = body.u64()?;
        self.undoing.decided(decided);
        if self.undoing.is_any {
            kept_agendas::keep_agendas();
            self.undoing.open = Some(KeptSlot {
                slot: self.slot,
                before: (self.slot, self.wall_ns, self.entropy),
                calls: Vec::new(),
                agendas: agendas::AgendasBefore::new(),
                can_undo: true,
            });
        }
        self.execute(body)
    }

    /// A slot is over. Returns with which kind of frame that is told.
    #[inline]
    pub(super) fn end_slot(&mut self) -> u8 {
        let Some(mut kept) = self.undoing.open.take() else {
            return reply::EXECUTED;
        };
        let agendas = kept_agendas::take_kept_agendas();
        if !kept.can_undo {
            return reply::EXECUTED;
        }
        kept.slot = self.slot;
        kept.agendas = agendas;
        self.undoing.slots.push_back(kept);
        reply::EXECUTED_UNDOABLE
    }

    /// A call is about to run. `None` where nothing is kept of it.
    #[inline]
    pub(super) fn before_call(
        &mut self,
        object: u32,
        index: u32,
        payload: &[u8],
    ) -> PyResult<Option<BeforeCall<'py>>> {
        if !self.undoing.is_open() {
            return Ok(None);
        }
        let before = self.keep_call(object, index, payload)?;
        if before.is_none() {
            self.undoing.spoil();
        }
        self.result = None;
        Ok(before)
    }

    /// `None` where the call cannot be undone, whatever comes of it.
    fn keep_call(
        &mut self,
        object: u32,
        index: u32,
        payload: &[u8],
    ) -> PyResult<Option<BeforeCall<'py>>> {
        let py = self.host.py();
        let Some(target) = self.objects.get(&object).cloned() else {
            return Ok(None);
        };
        // What is malformed is told by the call.
        let Ok(method) = decode::method(py, payload) else {
            return Ok(None);
        };
        let methods = self.undoing.methods.get(&object);
        if !methods.is_some_and(|methods| methods.contains(method)) {
            let asked = (&target, method);
            let is_read = self.host.call_method1("is_declared_read", asked)?;
            return Ok(is_read.extract::<bool>()?.then(|| BeforeCall {
                call: None,
                numbers_given: numbers::given(),
                is_trial: false,
            }));
        }
        let Ok(call) = decode::call(py, payload) else {
            return Ok(None);
        };
        let kwargs = call.kwargs.unwrap_or_else(|| PyDict::new(py));
        let is_trial = self.undoing.is_trial_due(object, method);
        let began = Instant::now();
        let asked = (&target, call.method, call.args, kwargs, is_trial);
        let kept = self.aside(object, |host| host.call_method1("keep_call", asked));
        if is_trial {
            self.tried(object, method, began.elapsed());
        }
        // What raises before a call is found when the class is checked.
        let Ok(kept) = kept else { return Ok(None) };
        let call = KeptCall {
            object,
            index,
            kept,
        };
        Ok(Some(BeforeCall {
            call: Some(call),
            numbers_given: numbers::given(),
            is_trial,
        }))
    }

    fn tried(&mut self, object: u32, method: &str, cost: Duration) {
        let undoing = &mut self.undoing;
        if undoing.tried.len() < TRIED_MAX {
            undoing.tried.insert((object, method.into()));
        }
        // The trial takes about as long, in a process of its own.
        undoing.try_cost = cost;
        undoing.try_at = Instant::now() + cost * (2 * TRIAL_SHARE);
    }

    /// The call has ended, and its answer begins at `start`; the run is not over.
    pub(super) fn after_call(&mut self, before: BeforeCall<'py>, start: usize) -> PyResult<()> {
        let result = self.result.take();
        let ended = self.outbox.0.get(start).copied();
        let is_numbered = numbers::given() != before.numbers_given;
        let is_drawn = result
            .as_ref()
            .is_some_and(|result| result.hasattr("__next__").unwrap_or(true));
        // What a call changed before it raised, the class does not know to undo.
        let has_ended_well = matches!(ended, Some(RETURNED | PARKED)) || !turn::leaves_trace();
        if is_numbered || is_drawn || !has_ended_well {
            self.undoing.spoil();
            return Ok(());
        }
        // A call that leaves no trace needs nothing.
        let Some(call) = before.call.filter(|_| turn::leaves_trace()) else {
            return Ok(());
        };
        call.kept.setattr("result", result)?;
        if before.is_trial {
            self.try_undo(&call)?;
        }
        if let Some(open) = &mut self.undoing.open {
            open.calls.push(call);
        }
        Ok(())
    }

    /// Has a forked process undo the call, and compare.
    fn try_undo(&mut self, call: &KeptCall<'py>) -> PyResult<()> {
        let Some(target) = self.objects.get(&call.object) else {
            return Ok(());
        };
        let fd = self.host.call_method1("try_undo", (target, &call.kept));
        // A system without room for a process tries later.
        if let Some(fd) = fd.ok().filter(|fd| !fd.is_none()) {
            let method = call.kept.getattr("method")?.extract()?;
            self.undoing.trial = Some((fd.extract()?, call.object, method));
        }
        Ok(())
    }

    /// Hears of a trial that has ended.
    pub(super) fn reap_trial(&mut self) -> PyResult<()> {
        let Some((fd, object, method)) = self.undoing.trial.take() else {
            return Ok(());
        };
        let ended: Option<String> = self.host.call_method1("tried_undo", (fd,))?.extract()?;
        match ended {
            None => self.undoing.trial = Some((fd, object, method)),
            Some(reason) if reason.is_empty() => {}
            Some(reason) => {
                self.undoing.distrust(object, &method);
                self.host.call_method1("warn", (reason,))?;
            }
        }
        Ok(())
    }

    /// Gives the objects the state back that they had after a slot. When that fails, the process ends: nobody knows what they are.
    #[cold]
    pub(super) fn undo(&mut self, body: &mut FrameBody<'_>) -> PyResult<()> {
        let after = body.u64()?;
        match self.go_back(after)? {
            None => {
                self.quiet_upto = self.quiet_upto.map(|upto| upto.min(after));
                if let Some(due) = turn::due_news(true) {
                    self.outbox.0.extend_from_slice(&due_frame(due).0);
                }
                self.outbox.note(reply::UNDONE, after, "");
            }
            Some(failed) => {
                let start = self.outbox.begin(reply::UNDO_FAILED);
                self.outbox.u32(failed.object);
                self.outbox.u32(failed.method.len() as u32);
                self.outbox.0.extend_from_slice(failed.method.as_bytes());
                self.outbox.0.extend_from_slice(failed.reason.as_bytes());
                self.outbox.end(start);
                self.is_over = true;
            }
        }
        self.activity.idle();
        Ok(())
    }

    fn go_back(&mut self, after: u64) -> PyResult<Option<NotUndone>> {
        while let Some(kept) = self.undoing.last_after(after) {
            for call in kept.calls.into_iter().rev() {
                self.activity.begin(kept.slot, call.index, call.object);
                if let Some(failed) = self.undo_call(&call)? {
                    return Ok(Some(failed));
                }
            }
            kept_agendas::put_agendas(kept.agendas);
            (self.slot, self.wall_ns, self.entropy) = kept.before;
        }
        Ok(None)
    }

    fn undo_call(&mut self, call: &KeptCall<'py>) -> PyResult<Option<NotUndone>> {
        let target = self.objects.get(&call.object).cloned();
        let undo = |host: &Bound<'py, PyAny>| host.call_method1("undo_call", (target, &call.kept));
        let Err(error) = self.aside(call.object, undo) else {
            return Ok(None);
        };
        let error = error.into_value(self.host.py());
        let told = self
            .host
            .call_method1(
                "not_undone",
                (self.objects.get(&call.object), &call.kept, error),
            )?
            .extract()?;
        Ok(Some(NotUndone {
            object: call.object,
            method: call.kept.getattr("method")?.extract()?,
            reason: told,
        }))
    }

    /// Runs what no other replica runs: it has no time and randomness of its own, a bounded number of steps, and gives nothing a
    /// number.
    fn aside<T>(
        &self,
        object: u32,
        run: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<T>,
    ) -> PyResult<T> {
        numbers::begin_aside();
        steps::begin(self.budget_of(object));
        let done = environment::apart(|| run(&self.host));
        let is_spent = steps::end();
        let is_numbered = numbers::end_aside(self.host.py()) > 0;
        let done = done?;
        if is_spent || is_numbered {
            let what = match is_spent {
                true => "it takes more steps than --budget allows",
                false => "it asks for the hash of an object that has none of its own",
            };
            return Err(PyRuntimeError::new_err(what));
        }
        Ok(done)
    }
}
