//! Quarantine: the objects of a replica that differs from the majority answer no calls, nor do any objects
//! if no majority agrees.
//!
//! The node remembers it over a restart. A replica that differs stops executing and heals: it asks for a
//! checkpoint, fetches the agreed snapshot and continues from it. Frozen objects stay frozen until an operator
//! says which state counts (`reset.rs`), because nobody else can. The node's votes count all the same.

use crate::limits::HEAL_EVERY;
use crate::local::clients::refuse;
use crate::local::reset::OwnReset;
use crate::{Output, Replica};
use quorate_ordering::{Entry, Mark, Ordering, Record};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ask, CommandId, Digest, Persistence, Refusal, Slot, Time};

/// Why a node's objects answer no calls; the node keeps it over a restart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quarantine {
    /// They differ from a majority's.
    Diverged {
        /// The slot at which digests were compared.
        slot: Slot,
        /// This node's digest.
        own: Digest,
        /// The majority's digest.
        agreed: Digest,
    },
    /// No majority agreed at this slot.
    Frozen {
        /// The slot at which digests were compared.
        slot: Slot,
    },
}

impl Quarantine {
    /// The slot at which digests were compared.
    fn slot(self) -> Slot {
        match self {
            Quarantine::Diverged { slot, .. } | Quarantine::Frozen { slot } => slot,
        }
    }
}

/// Whether the objects may answer, and the state of healing.
#[derive(Debug, Default)]
pub(crate) struct ObjectsStanding {
    state: Option<Quarantine>,
    /// The slot of the snapshot that ended the last quarantine.
    healed: Option<Slot>,
    /// Whether the node's file of the quarantine exists. It stays until the log is trimmed for the snapshot that
    /// healed: until then a restart may begin with an older snapshot of this node.
    is_noted: bool,
    /// The agreed snapshot that the log was last told to begin with, and the newest write by then.
    told: Option<(Slot, Mark)>,
    /// When a replica that differs asks for a checkpoint again.
    pub(crate) checkpoint_at: Option<Time>,
    /// The operator's reset through which frozen objects have to come. Invariant: set only with [`Quarantine::Frozen`].
    reset: Option<OwnReset>,
    /// What an earlier start noted after the slot of that reset, or others showed: it holds once the objects have come through it.
    later: Option<Quarantine>,
}

impl ObjectsStanding {
    /// Whether this node's objects must answer no calls.
    pub(crate) fn is_set(&self) -> bool {
        self.state.is_some()
    }

    pub(crate) fn is_diverged(&self) -> bool {
        self.diverged().is_some()
    }

    pub(crate) fn diverged(&self) -> Option<Slot> {
        match self.state {
            Some(Quarantine::Diverged { slot, .. }) => Some(slot),
            Some(Quarantine::Frozen { .. }) | None => None,
        }
    }

    pub(crate) fn frozen(&self) -> Option<Slot> {
        match self.state {
            Some(Quarantine::Frozen { slot }) => Some(slot),
            Some(Quarantine::Diverged { .. }) | None => None,
        }
    }

    /// The reset through which these objects have to come.
    pub(crate) fn reset(&self) -> Option<OwnReset> {
        self.reset
    }

    pub(crate) fn reset_mut(&mut self) -> Option<&mut OwnReset> {
        self.reset.as_mut()
    }

    /// Frozen objects, and those that differed or knew of nothing, have to come through a reset. It named a snapshot at `slot`.
    /// Returns what is to be noted.
    pub(crate) fn begin_reset(&mut self, slot: Slot, reset: OwnReset) -> Option<Quarantine> {
        let noted = self.later.or(self.state);
        self.later = noted.filter(|noted| noted.slot() > reset.slot());
        let frozen = self.frozen().filter(|_| self.later.is_none());
        let is_noted = self.later.is_some() || frozen.is_some();
        let state = Quarantine::Frozen {
            slot: frozen.unwrap_or(slot),
        };
        self.state = Some(state);
        self.reset = Some(reset);
        self.checkpoint_at = None;
        (!is_noted).then_some(state)
    }

    /// What holds after the reset of `slot`, through which the objects have come. It may be a later one than they waited for.
    pub(crate) fn take_later(&mut self, slot: Slot) -> Option<Quarantine> {
        self.later.take().filter(|later| later.slot() > slot)
    }

    pub(crate) fn healed(&self) -> Option<Slot> {
        self.healed
    }

    pub(crate) fn next_wake(&self) -> Option<Time> {
        let thaw_at = self.reset.and_then(|reset| reset.thaw_at());
        Time::earlier(self.checkpoint_at, thaw_at)
    }

    /// No majority is possible at `slot`; returns whether that is new. Objects that have to come through an earlier reset are
    /// frozen there afterwards.
    pub(crate) fn freeze(&mut self, slot: Slot) -> bool {
        let reset = self.reset.map(|reset| reset.slot());
        let state = match reset {
            Some(_) => &mut self.later,
            None => &mut self.state,
        };
        let is_new = state.is_none() && Some(slot) > reset;
        if is_new {
            *state = Some(Quarantine::Frozen { slot });
        }
        is_new
    }
}

impl<O: Ordering> Replica<O> {
    /// Resumes the quarantine from before a restart. Without a snapshot the objects start from the beginning.
    pub(crate) fn resume_quarantine(
        &mut self,
        now: Time,
        remembered: Option<Quarantine>,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let remembered = remembered.filter(|_| !planted(Plant::QuarantineForgotten));
        self.quarantine.state = remembered;
        let reset = self.replicated.reset.slot();
        match remembered {
            _ if !self.replicated.reset.is_over() => self.await_thaw(out),
            // Only replicas that had come through the reset took snapshots after it.
            Some(Quarantine::Frozen { slot }) if slot <= reset => self.heal(reset),
            None | Some(Quarantine::Frozen { .. }) => {}
            Some(Quarantine::Diverged { .. }) if self.replicated.applied == Slot::ZERO => {
                self.heal(Slot::ZERO);
                self.quarantine.is_noted = false;
                out.push(Output::Healed { slot: Slot::ZERO });
            }
            Some(Quarantine::Diverged { .. }) => self.begin_to_heal(now, out),
        }
    }

    /// What an earlier start noted after a reset holds again: this one has come through the reset.
    pub(crate) fn resume_later(
        &mut self,
        now: Time,
        later: Quarantine,
        out: &mut Vec<Output<O::Message>>,
    ) {
        self.quarantine.state = Some(later);
        if self.quarantine.is_diverged() {
            self.begin_to_heal(now, out);
        }
    }

    /// This replica's digest at `slot` is not the majority's.
    pub(crate) fn diverged(
        &mut self,
        now: Time,
        slot: Slot,
        own: Digest,
        agreed: Digest,
        out: &mut Vec<Output<O::Message>>,
    ) {
        if self.quarantine.is_set() {
            return;
        }
        let quarantine = Quarantine::Diverged { slot, own, agreed };
        self.quarantine.state = Some(quarantine);
        out.push(Output::Quarantined(quarantine));
        self.give_up_waits(out);
        self.begin_to_heal(now, out);
    }

    /// No majority agrees on the objects' state at `slot`.
    pub(crate) fn freeze(&mut self, slot: Slot, out: &mut Vec<Output<O::Message>>) {
        if self.quarantine.freeze(slot) {
            out.push(Output::Quarantined(Quarantine::Frozen { slot }));
            self.give_up_waits(out);
        }
    }

    /// Executes nothing more, so that the next agreed snapshot is ahead of the objects, and fetches it.
    fn begin_to_heal(&mut self, now: Time, out: &mut Vec<Output<O::Message>>) {
        self.no_say.begin();
        self.pipeline.hold(self.replicated.applied);
        self.checkpoints.forget_own();
        self.quarantine.checkpoint_at = Some(now);
        let mut least = self.pipeline.handed_out(self.replicated.applied);
        if planted(Plant::HealsWhereItDiffers) {
            least = self.quarantine.diverged().unwrap_or(least);
        }
        self.fetch_at_least(now, least, out);
    }

    /// At the end of a turn: asks for a checkpoint that is ahead of the objects, until there is one.
    pub(crate) fn tend_quarantine(&mut self, now: Time) {
        if self.quarantine.checkpoint_at.is_some_and(|due| due <= now) {
            self.quarantine.checkpoint_at = Some(now + HEAL_EVERY);
            self.want_checkpoint();
        }
    }

    /// The objects have an agreed state again.
    pub(crate) fn heal(&mut self, slot: Slot) {
        self.quarantine = ObjectsStanding {
            state: None,
            healed: Some(slot),
            is_noted: true,
            told: self.quarantine.told,
            checkpoint_at: None,
            reset: None,
            later: None,
        };
    }

    /// The log is told to begin with these records. It is not while it is damaged, however much is trimmed meanwhile.
    pub(crate) fn log_told(&mut self, base: &[Record]) {
        let mut entries = base.iter().map(|record| &record.entry);
        let agreed = entries.find_map(|entry| match entry {
            Entry::Agreed { slot, .. } => Some(*slot),
            _ => None,
        });
        self.quarantine.told = agreed
            .map(|slot| (slot, self.written))
            .or(self.quarantine.told);
    }

    /// At the end of a turn: once it is on disk that the log begins with the snapshot that healed or a later one, the next start
    /// begins with that, and the note goes. What is written after it is on disk later; in a group without calls it stays until then.
    pub(crate) fn tend_note(&mut self, out: &mut Vec<Output<O::Message>>) {
        let begins = match self.view().persistence {
            Persistence::Memory => Some(self.agreement.trimmed()),
            Persistence::Disk => {
                let told = self.quarantine.told;
                told.filter(|(_, after)| self.durable > *after)
                    .map(|(slot, _)| slot)
            }
        };
        let standing = &mut self.quarantine;
        let Some(slot) = standing.healed.filter(|slot| Some(*slot) <= begins) else {
            return;
        };
        // The file has room for one quarantine: while there is one, it notes that.
        if standing.is_noted && !standing.is_set() {
            standing.is_noted = false;
            out.push(Output::Healed { slot });
        }
    }

    /// This node's snapshot at `slot` is the majority's, and its objects have exactly this state: the node
    /// stopped after it had installed the snapshot and before it had recorded that it healed. Who has promised to have no say
    /// after this slot waits for a later one.
    pub(crate) fn found_right(&mut self, slot: Slot) {
        let held = self.pipeline.handed_out(self.replicated.applied);
        let may_heal = !self.fetch.is_installing() && !self.no_say.is_promised();
        if self.quarantine.is_diverged() && held == slot && may_heal {
            self.pipeline.release();
            self.fetch.done();
            self.heal(slot);
        }
    }

    /// Refuses all waits as unknown, so that clients ask another replica: their calls may be executed there.
    pub(crate) fn give_up_waits(&mut self, out: &mut Vec<Output<O::Message>>) {
        for session in self.waiting.sessions() {
            let Some(line) = self.waiting.line(session) else {
                continue;
            };
            for (sequence, _) in line.all() {
                let id = CommandId { session, sequence };
                line.give_up(sequence, |to| {
                    refuse(out, to, Ask::Call(id), Refusal::Unknown)
                });
            }
            self.waiting.landed(session, 0);
        }
    }
}
