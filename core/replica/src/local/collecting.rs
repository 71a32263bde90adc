//! Garbage collection: logs are trimmed for a command that was decided, so that the log alone says what is gone, at every node.
//!
//! "In a first step a replica takes a snapshot and issues a meta command to garbage collect the state up to this snapshot" (OpenReplica
//! 3.9). Here the leader issues it, once a majority of the replicas holds the snapshot, so that no node has to wait for it. Acceptors
//! judge the command by what they hold. Where it could not be ordered, a node trims by itself: in views of a lower level, whose members
//! do not read it, where its own disk is full, because the vote for the command needs the room that the trim makes, and for what an
//! operator's reset chose.

use crate::local::internal::Purpose;
use crate::{Output, Replica};
use quorate_ordering::{Event, Ordering, Role};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Body, Command, CommandId, Digest, Level, Refusal, Slot, Time};

/// The trims that are ordered.
#[derive(Debug, Default)]
pub(crate) struct Collecting {
    /// An own command is being ordered.
    is_submitted: bool,
    /// The newest one that was decided in this turn, or waits until this witness keeps the snapshot.
    decided: Option<(Slot, Digest)>,
}

impl Collecting {
    /// The own command is not ordered, or nothing is known of it any more: another one does no harm.
    pub(crate) fn lost(&mut self) {
        self.is_submitted = false;
    }
}

impl<O: Ordering> Replica<O> {
    /// Whether logs are trimmed for decided commands in the view in force.
    pub(crate) fn collects(&self) -> bool {
        self.view().level >= Level::COLLECTED || planted(Plant::CollectBelowLevel)
    }

    /// Nothing has to be waited for any more before the log is trimmed for this stable snapshot.
    pub(crate) fn collect(&mut self, slot: Slot, digest: Digest) {
        // What a reset chose is on few disks after a restart of all: only who sees a majority hold it at this moment trims for it.
        let is_chosen = slot <= self.replicated.reset.slot();
        if !self.collects() || !self.has_room() || is_chosen {
            return self.trim(slot, digest);
        }
        let leads = matches!(self.role, Role::Leader { .. });
        // Others may have decided by votes that this leader has not heard. Of what is trimmed it could get a snapshot only, and a
        // leader that takes one over leads no more. Claim rp-157.
        let is_ahead = slot > self.replicated.applied;
        if !leads || is_ahead || self.collecting.is_submitted || !self.can_order() {
            return;
        }
        self.collecting.is_submitted = true;
        let slot = match planted(Plant::CollectAboveStable) {
            true => self.replicated.applied,
            false => slot,
        };
        self.submit(Purpose::Collect, Body::Collect { slot, digest });
        if planted(Plant::CollectAtProposal) {
            self.trim(slot, digest);
        }
    }

    /// A trim is decided in `decided`. It takes effect at the end of the turn.
    pub(crate) fn collect_decided(
        &mut self,
        decided: Slot,
        id: CommandId,
        (slot, digest): (Slot, Digest),
    ) {
        if self.internals.landed(id) == Some(Purpose::Collect) {
            self.collecting.lost();
        }
        if slot < decided {
            self.agreement.collected(slot, digest);
            self.collecting.decided = self.collecting.decided.max(Some((slot, digest)));
        }
    }

    /// At the end of a turn: trims the log for what was decided in it.
    pub(crate) fn tend_collected(&mut self, now: Time, out: &mut Vec<Output<O::Message>>) {
        let Some((slot, digest)) = self.collecting.decided.take() else {
            return;
        };
        if slot <= self.agreement.trimmed() {
            return;
        }
        if !self.may_trim_for(slot) && self.agreement.agreed_at(slot).is_some() {
            self.collecting.decided = Some((slot, digest));
            return;
        }
        // Up to a reset it is the operator who has judged.
        if slot > self.replicated.reset.slot() {
            self.agreed(now, slot, digest, out);
        }
        self.trim(slot, digest);
    }

    /// Trims the log. A witness does so once it keeps the snapshot, or a later one.
    fn trim(&mut self, slot: Slot, digest: Digest) {
        if !self.may_trim_for(slot) {
            self.collecting.decided = self.collecting.decided.max(Some((slot, digest)));
            return;
        }
        self.agreement.trim(slot);
        self.raise(Event::Trimmable { slot, digest });
    }

    /// What a view that is over has not ordered, and may be ordered in the next one: that may be of a level that does not read all of
    /// it, and its members may not hold the snapshot of a trim, for which its leader asks anew. A change of a view that is over has no
    /// effect any more, whoever reads it.
    pub(crate) fn still_wanted(
        &mut self,
        mut commands: Vec<Command>,
        out: &mut Vec<Output<O::Message>>,
    ) -> Vec<Command> {
        let (level, number) = (self.view().level, self.view().number);
        let refusal = |command: &Command| match &command.body {
            Body::Collect { .. } => Some(Refusal::ViewConflict),
            Body::ChangeView { change, .. } if command.level() > Level::UNNAMED => {
                (change.after < number).then_some(Refusal::ViewConflict)
            }
            _ => (command.level() > level).then_some(Refusal::LevelNotSpoken),
        };
        let mut refused = Vec::new();
        commands.retain(|command| match refusal(command) {
            Some(refusal) => {
                refused.push((command.clone(), refusal));
                false
            }
            None => true,
        });
        for (command, refusal) in refused {
            match &command.body {
                // Another copy of it was decided.
                Body::ChangeView { change, who, .. } if self.replicated.views.has(change, who) => {
                    self.view_change_known(command.id, *change, out);
                }
                _ => self.refused(command.id, refusal, out),
            }
        }
        commands
    }
}
