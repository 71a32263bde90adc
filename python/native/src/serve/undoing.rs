//! Slots that are executed before they are decided, and how they are undone in this process.
//!
//! A class says how a method is undone (`quorate.undoes`). Of a slot whose calls can all be undone so, the host keeps what that needs
//! until the slot is decided: the calls with their results, and what was to come for each object before. A slot that has done anything
//! else is told as one that cannot be undone here, and then the node replaces this process. `quorate._undo` has the half of it that
//! calls what the class says, and compares what comes of it.

mod kept;

use super::{Server, due_frame};
use crate::frames::{FrameBody, OpenOutcomes, PARKED, RETURNED, reply};
use crate::turn::{self, agendas, kept_agendas};
use crate::{decode, environment, numbers, steps};
pub(super) use kept::Undoing;
use kept::{KeptCall, KeptSlot, NotUndone};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::time::{Duration, Instant};

/// Trials of what classes say take this part of the time.
const TRIAL_SHARE: u32 = 100;

/// What is undone waits so long for a trial of the same method: the node waits two seconds.
const TRIAL_WAIT_S: f64 = 1.0;

/// A call that is about to run.
pub(super) struct BeforeCall<'py> {
    call: Option<KeptCall<'py>>,
    numbers_given: u64,
    is_trial: bool,
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
        if !self.undoing.trusts(object, method) {
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
        if !self.undoing.has_room() {
            return Ok(None);
        }
        let class = target.get_type_ptr() as usize;
        let is_trial = self.undoing.is_trial_due(class, method);
        let is_first = self.undoing.is_first_comparison(class, method);
        let is_compared = is_trial
            || is_first && {
                let runs = self.host.call_method1("runs_before", (&target, method))?;
                runs.extract::<bool>()?
            };
        let began = Instant::now();
        let asked = (&target, call.method, call.args, kwargs, is_compared);
        self.activity.undoes();
        let kept = self.aside(object, |host| host.call_method1("keep_call", asked));
        let kept = match kept.done_in_time() {
            Ok(kept) => kept,
            Err(error) => {
                self.undoing.failed = Some(self.not_kept(object, method, error)?);
                return Ok(None);
            }
        };
        self.activity.calls();
        if is_trial {
            self.tried(class, method, began.elapsed());
        }
        let Some(kept) = kept.filter(|kept| !kept.is_none()) else {
            return Ok(None);
        };
        let call = KeptCall {
            object,
            index,
            method: method.to_owned(),
            target,
            kept,
        };
        Ok(Some(BeforeCall {
            call: Some(call),
            numbers_given: numbers::given(),
            is_trial,
        }))
    }

    /// What ran before a call may have changed the object.
    #[cold]
    fn not_kept(&self, object: u32, method: &str, error: PyErr) -> PyResult<NotUndone> {
        let error = error.into_value(self.host.py());
        let asked = (self.objects.get(&object), method, error);
        Ok(NotUndone {
            object,
            method: method.to_owned(),
            reason: self.host.call_method1("not_kept", asked)?.extract()?,
        })
    }

    fn tried(&mut self, class: usize, method: &str, cost: Duration) {
        self.undoing.note_tried(class, method);
        // The trial takes about as long, in a process of its own.
        self.undoing.try_cost = cost;
        self.undoing.try_at = Instant::now() + cost * (2 * TRIAL_SHARE);
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
        self.undoing.keep(call);
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
            self.undoing.trial = Some((fd.extract()?, call.object, call.method.clone()));
        }
        Ok(())
    }

    /// Hears of a trial that has ended.
    pub(super) fn reap_trial(&mut self, wait_s: f64) -> PyResult<()> {
        let Some((fd, object, method)) = self.undoing.trial.take() else {
            return Ok(());
        };
        let ended: Option<String> = self
            .host
            .call_method1("tried_undo", (fd, wait_s))?
            .extract()?;
        match ended {
            None => self.undoing.trial = Some((fd, object, method)),
            Some(reason) if reason.is_empty() => {}
            Some(reason) => {
                self.host.call_method1("distrust", (object, &method))?;
                self.undoing.methods = self.host.call_method0("undo_methods")?.extract()?;
                self.host.call_method1("warn", (&reason,))?;
                self.undoing.lies.insert(method, reason);
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
            Some(failed) => self.tell_not_undone(&failed),
        }
        self.activity.idle();
        Ok(())
    }

    fn tell_not_undone(&mut self, failed: &NotUndone) {
        let start = self.outbox.begin(reply::UNDO_FAILED);
        self.outbox.u32(failed.object);
        self.outbox.u32(failed.method.len() as u32);
        self.outbox.0.extend_from_slice(failed.method.as_bytes());
        self.outbox.0.extend_from_slice(failed.reason.as_bytes());
        self.outbox.end(start);
        self.is_over = true;
    }

    /// Tells the node that what ran before a call may have changed the object: the next process executes the slot.
    #[cold]
    pub(super) fn tell_not_kept(
        &mut self,
        part: &OpenOutcomes,
        answer: usize,
        failed: &NotUndone,
    ) -> PyResult<()> {
        self.activity.idle();
        self.outbox.drop_part(part, answer);
        self.tell_not_undone(failed);
        Ok(())
    }

    fn go_back(&mut self, after: u64) -> PyResult<Option<NotUndone>> {
        if let Some(failed) = self.await_trial(after)? {
            return Ok(Some(failed));
        }
        while let Some(kept) = self.undoing.last_after(after) {
            for call in kept.calls.into_iter().rev() {
                self.activity.begin(kept.slot, call.index, call.object);
                self.activity.undoes();
                if let Some(failed) = self.undo_call(&call)? {
                    return Ok(Some(failed));
                }
            }
            kept_agendas::put_agendas(kept.agendas);
            (self.slot, self.wall_ns, self.entropy) = kept.before;
        }
        Ok(None)
    }

    /// A trial of what is to be undone says whether it may be.
    fn await_trial(&mut self, after: u64) -> PyResult<Option<NotUndone>> {
        let trial = self.undoing.trial.as_ref();
        if !trial.is_some_and(|(_, _, method)| self.undoing.has_after(after, method)) {
            return Ok(None);
        }
        self.reap_trial(TRIAL_WAIT_S)?;
        let trial = self.undoing.trial.as_ref();
        Ok(trial.map(|(_, object, method)| NotUndone {
            object: *object,
            method: method.clone(),
            reason: format!("what undoes `{method}` is being tried, which does not end: this host starts anew without it"),
        }))
    }

    fn undo_call(&mut self, call: &KeptCall<'py>) -> PyResult<Option<NotUndone>> {
        let target = self.objects.get(&call.object).cloned();
        let is_other = target
            .as_ref()
            .is_none_or(|target| !target.is(&call.target));
        if is_other && !call.kept.getattr("generator")?.is_none() {
            return Ok(Some(NotUndone {
                object: call.object,
                method: String::new(),
                reason: format!(
                    "what undoes `{}` began at an instance that a call that waits has replaced: this host starts anew",
                    call.method
                ),
            }));
        }
        if !self.undoing.trusts(call.object, &call.method) {
            return Ok(Some(NotUndone {
                object: call.object,
                method: call.method.clone(),
                reason: self.undoing.found_lie(&call.method),
            }));
        }
        let undo = |host: &Bound<'py, PyAny>| host.call_method1("undo_call", (target, &call.kept));
        let done = self.aside(call.object, undo);
        let error = match done.done_in_time() {
            Ok(Some(_)) => return Ok(None),
            Ok(None) => PyRuntimeError::new_err(
                "it asks for the hash of an object that has none of its own",
            ),
            Err(error) => error,
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
            method: call.method.clone(),
            reason: told,
        }))
    }

    /// Runs what no other replica runs: it has no time and randomness of its own, a bounded number of steps, and gives nothing a
    /// number.
    fn aside<T>(
        &self,
        object: u32,
        run: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<T>,
    ) -> Aside<T> {
        numbers::begin_aside();
        steps::begin(self.budget_of(object));
        let done = kept_agendas::as_read(object, || environment::apart(|| run(&self.host)));
        let is_spent = steps::end();
        let is_numbered = numbers::end_aside(self.host.py()) > 0;
        Aside {
            done,
            is_spent,
            is_numbered,
        }
    }
}

/// How it ended.
struct Aside<T> {
    done: PyResult<T>,
    is_spent: bool,
    /// It asked for a hash that no other replica would give.
    is_numbered: bool,
}

impl<T> Aside<T> {
    /// What came of it; nothing where it was numbered.
    fn done_in_time(self) -> PyResult<Option<T>> {
        let done = self.done?;
        if self.is_spent {
            return Err(PyRuntimeError::new_err(
                "it takes more steps than --budget allows",
            ));
        }
        Ok((!self.is_numbered).then_some(done))
    }
}
