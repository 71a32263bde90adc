//! What is kept of calls that may be undone, and which undos are trusted.

use crate::reads::{Checking, has_room_to_keep, is_process_small, is_small_enough_once};
use crate::turn::agendas;
use pyo3::prelude::*;
use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// The first call of each method is tried as well, unless images are so large that clients would notice.
const FIRST_TRIAL_MAX: Duration = Duration::from_millis(50);

/// Methods that are kept in mind as tried, or as compared.
const TRIED_MAX: usize = 1024;

/// Calls that are kept. Each holds its arguments, its result and the object's attributes; what exceeds this is undone by a new process.
const KEPT_MAX: usize = 16_384;

/// What is kept of slots that are not decided.
pub(in crate::serve) struct Undoing<'py> {
    /// Ascending.
    pub(super) slots: VecDeque<KeptSlot<'py>>,
    /// The one that is being executed, if it is not decided and classes say how methods are undone.
    pub(super) open: Option<KeptSlot<'py>>,
    /// Methods of each object that can be undone.
    pub(super) methods: HashMap<u32, HashSet<String>>,
    /// Whether there are any.
    pub(super) is_any: bool,
    pub(super) checking: Checking,
    /// By class.
    pub(super) tried: HashSet<(usize, Box<str>)>,
    /// Methods whose object was compared wholly after what runs before the call.
    pub(super) compared: HashSet<(usize, Box<str>)>,
    /// What trials have found, by method.
    pub(super) lies: HashMap<String, String>,
    /// What ran before a call has failed: the process ends.
    pub(super) failed: Option<NotUndone>,
    /// Calls in `slots` and `open`.
    pub(super) kept: usize,
    pub(super) try_at: Instant,
    pub(super) try_cost: Duration,
    /// A process that was forked to try one, and the method.
    pub(super) trial: Option<(RawFd, u32, String)>,
}

pub(in crate::serve) struct KeptSlot<'py> {
    pub(super) slot: u64,
    /// Slot, time and entropy of the slot before it.
    pub(super) before: (u64, u64, u64),
    pub(super) calls: Vec<KeptCall<'py>>,
    pub(super) agendas: agendas::AgendasBefore,
    /// Whether all that has happened in it can be undone.
    pub(super) can_undo: bool,
}

pub(in crate::serve) struct KeptCall<'py> {
    pub(super) object: u32,
    pub(super) index: u32,
    pub(super) method: String,
    /// The instance: a call that waits until something holds leaves another one behind.
    pub(super) target: Bound<'py, PyAny>,
    /// A `quorate._undo.Kept`.
    pub(super) kept: Bound<'py, PyAny>,
}

/// What a class says did not undo a call.
pub(in crate::serve) struct NotUndone {
    pub(super) object: u32,
    /// Empty where the class is not to blame.
    pub(super) method: String,
    pub(super) reason: String,
}

impl<'py> Undoing<'py> {
    pub(in crate::serve) fn new() -> Undoing<'py> {
        Undoing {
            slots: VecDeque::new(),
            open: None,
            methods: HashMap::new(),
            is_any: false,
            checking: Checking::Sample,
            tried: HashSet::new(),
            compared: HashSet::new(),
            lies: HashMap::new(),
            failed: None,
            kept: 0,
            try_at: Instant::now(),
            try_cost: Duration::ZERO,
            trial: None,
        }
    }

    pub(in crate::serve) fn begin(&mut self, checking: Checking) {
        self.checking = checking;
    }

    /// These objects have methods that can be undone, and have another state than before.
    pub(in crate::serve) fn objects_are(&mut self, methods: HashMap<u32, HashSet<String>>) {
        self.slots.clear();
        self.kept = 0;
        self.methods.clear();
        self.is_any = false;
        self.objects_made(methods);
    }

    /// So do objects that were created.
    pub(in crate::serve) fn objects_made(&mut self, methods: HashMap<u32, HashSet<String>>) {
        self.is_any |= methods.values().any(|each| !each.is_empty());
        self.methods.extend(methods);
    }

    /// An object is no more.
    pub(in crate::serve) fn dropped(&mut self, object: u32) {
        self.methods.remove(&object);
    }

    /// What has happened in the slot that is being executed cannot be undone here.
    #[inline]
    pub(in crate::serve) fn spoil(&mut self) {
        if let Some(open) = &mut self.open {
            open.can_undo = false;
            self.kept -= open.calls.len();
            open.calls.clear();
        }
    }

    pub(super) fn keep(&mut self, call: KeptCall<'py>) {
        if let Some(open) = &mut self.open {
            open.calls.push(call);
            self.kept += 1;
        }
    }

    /// Whether what ran before a call has failed.
    #[inline]
    pub(in crate::serve) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    pub(in crate::serve) fn take_failed(&mut self) -> Option<NotUndone> {
        self.failed.take()
    }

    /// Everything up to this slot is decided.
    #[inline]
    pub(in crate::serve) fn decided(&mut self, upto: u64) {
        while self.slots.front().is_some_and(|kept| kept.slot <= upto) {
            let decided = self.slots.pop_front();
            self.kept -= decided.map_or(0, |kept| kept.calls.len());
        }
    }

    /// Takes the last slot, if it is behind `after`.
    pub(super) fn last_after(&mut self, after: u64) -> Option<KeptSlot<'py>> {
        self.slots.back().filter(|kept| kept.slot > after)?;
        let last = self.slots.pop_back()?;
        self.kept -= last.calls.len();
        Some(last)
    }

    /// Whether calls of a method are to be undone.
    pub(super) fn has_after(&self, after: u64, method: &str) -> bool {
        let slots = self.slots.iter().rev();
        let mut undone = slots.take_while(|kept| kept.slot > after);
        undone.any(|kept| kept.calls.iter().any(|call| call.method == method))
    }

    /// Whether results are kept.
    #[inline]
    pub(in crate::serve) fn is_open(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.can_undo)
    }

    /// The pipe whose end is that of a trial.
    pub(in crate::serve) fn trial(&self) -> Option<RawFd> {
        self.trial.as_ref().map(|(fd, _, _)| *fd)
    }

    pub(super) fn is_trial_due(&self, class: usize, method: &str) -> bool {
        if self.trial.is_some() {
            return false;
        }
        let is_wanted = match self.checking {
            Checking::Never => false,
            Checking::All => true,
            Checking::Sample => {
                let is_first =
                    !self.tried.contains(&(class, method.into())) && self.tried.len() < TRIED_MAX;
                Instant::now() >= self.try_at || is_first && self.try_cost < FIRST_TRIAL_MAX
            }
        };
        is_wanted && is_process_small()
    }

    pub(super) fn note_tried(&mut self, class: usize, method: &str) {
        if self.tried.len() < TRIED_MAX {
            self.tried.insert((class, method.into()));
        }
    }

    /// Whether this is the first call of a method after which the object is to be compared wholly.
    pub(super) fn is_first_comparison(&mut self, class: usize, method: &str) -> bool {
        self.compared.len() < TRIED_MAX
            && is_small_enough_once()
            && self.compared.insert((class, method.into()))
    }

    /// What a trial has found.
    pub(super) fn found_lie(&self, method: &str) -> String {
        let found = self.lies.get(method).cloned();
        found.unwrap_or_else(|| format!("what undoes `{method}` was found not to undo it"))
    }

    /// Whether one call more may be kept.
    pub(super) fn has_room(&self) -> bool {
        self.kept < KEPT_MAX && has_room_to_keep()
    }

    pub(super) fn trusts(&self, object: u32, method: &str) -> bool {
        let methods = self.methods.get(&object);
        methods.is_some_and(|methods| methods.contains(method))
    }
}
