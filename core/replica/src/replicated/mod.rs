//! The replicated state: only decided commands change it, in slot order.
//!
//! Every snapshot contains all of it, and one digest covers it, [`SnapshotCore::digest`], which replicas
//! compare. Nothing in this folder knows a clock, a connection or a peer. The state of one node is in
//! `local`, its exchange with the objects in `objects`.

pub(crate) mod expiry;
pub(crate) mod groups;
pub(crate) mod invitations;
pub(crate) mod kept;
pub(crate) mod poison;
pub(crate) mod reset;
pub(crate) mod sessions;
pub(crate) mod snapshot;
pub(crate) mod views;
pub(crate) mod window;

use crate::{KeptLimits, SessionImage, SnapshotCore};
use expiry::Lead;
use groups::Groups;
use invitations::Invitations;
use kept::KeptReplies;
use poison::PoisonCalls;
use quorate_types::zoo::{Plant, planted};
use quorate_types::{SessionId, Slot, Stamp, View, Wall};
use reset::LastReset;
use sessions::{Sessions, Table};
use views::Views;

/// The state after the slot `applied`, except outcomes that are still missing.
#[derive(Debug)]
pub(crate) struct Replicated {
    /// The highest slot whose meta part is applied; all before it are too.
    pub(crate) applied: Slot,
    /// Stamp of the newest batch that holds commands.
    pub(crate) stamp: Stamp,
    pub(crate) sessions: Sessions,
    pub(crate) lead: Lead,
    pub(crate) poison: PoisonCalls,
    pub(crate) reset: LastReset,
    pub(crate) views: Views,
    pub(crate) invitations: Invitations,
    pub(crate) groups: Groups,
    /// Replies after the last executed slot, not the last applied one.
    pub(crate) kept: KeptReplies,
    defaults: Defaults,
}

/// The limits where a view names none.
#[derive(Clone, Copy, Debug)]
struct Defaults {
    sessions: usize,
    replies: usize,
}

/// The state as it was after one slot, while outcomes of slots up to it are still written into it.
#[derive(Debug)]
pub(crate) struct Frozen {
    slot: Slot,
    stamp: Stamp,
    pub(crate) table: Table,
    lead: Lead,
    reset: Slot,
    views: Views,
    invitations: Invitations,
    groups: Groups,
}

impl Replicated {
    /// Before the first slot.
    pub(crate) fn new(sessions_max: usize, kept: KeptLimits, first: View) -> Replicated {
        Replicated {
            applied: Slot::ZERO,
            stamp: Stamp::default(),
            sessions: Sessions::new(),
            lead: Lead::default(),
            poison: PoisonCalls::default(),
            reset: LastReset::default(),
            views: Views::new(first),
            invitations: Invitations::default(),
            groups: Groups::default(),
            kept: KeptReplies::new(kept),
            defaults: Defaults {
                sessions: sessions_max,
                replies: kept.group_bytes,
            },
        }
    }

    /// The state that a snapshot keeps.
    pub(crate) fn restored(
        sessions_max: usize,
        kept: KeptLimits,
        (core, own): (&SnapshotCore, &View),
    ) -> Replicated {
        let mut restored = Replicated {
            applied: core.slot,
            stamp: core.stamp,
            sessions: Sessions::restored(&core.sessions),
            lead: Lead {
                ballot: core.lead_ballot,
                slot: core.lead_slot,
            },
            poison: PoisonCalls::default(),
            reset: LastReset::restored(core),
            views: Views::restored(core, own),
            invitations: Invitations::restored(&core.invitations),
            groups: Groups::restored(&core.groups),
            kept: KeptReplies::new(kept),
            defaults: Defaults {
                sessions: sessions_max,
                replies: kept.group_bytes,
            },
        };
        restored.restore_kept(kept, &core.sessions);
        restored
    }

    /// The objects have the state of a snapshot, and of replies they have what its sessions keep.
    pub(crate) fn restore_kept(&mut self, limits: KeptLimits, sessions: &[SessionImage]) {
        let group_bytes = self.replies_max();
        self.kept = KeptReplies::restored(
            KeptLimits {
                group_bytes,
                ..limits
            },
            sessions,
        );
    }

    /// How many sessions may be open after the next slot. Claim rp-152.
    pub(crate) fn sessions_max(&self) -> usize {
        let view = match self.views.next() {
            Some(next) if planted(Plant::LimitsAtDecision) => next,
            Some(_) | None => self.views.current(),
        };
        let named = view.limits.named_sessions();
        named.map_or(self.defaults.sessions, |named| named as usize)
    }

    /// Bytes of replies that may be kept once the next slot is executed. Claim rp-153.
    pub(crate) fn replies_max(&self) -> usize {
        let named = self.views.current().limits.named_replies();
        named.map_or(self.defaults.replies, |named| named as usize)
    }

    /// How many more sessions may be opened.
    pub(crate) fn room(&self) -> usize {
        self.sessions_max().saturating_sub(self.sessions.len())
    }

    /// Takes over a batch's stamp as the objects see it.
    pub(crate) fn stamped(&mut self, stamp: Stamp) {
        self.stamp = rising(self.stamp, stamp);
    }

    /// Whether an expiry judged at `judged_by` ends the session: no command of the session was decided since,
    /// and no newer leader has begun to judge.
    pub(crate) fn is_expired(&self, session: SessionId, judged_by: Slot) -> bool {
        let active = self.sessions.session(session).map(|known| known.active);
        let is_silent = active
            .is_some_and(|active| active <= judged_by || planted(Plant::ExpireIgnoresActivity));
        is_silent && (judged_by >= self.lead.slot || planted(Plant::ExpiryBeforeLead))
    }

    /// A copy of the current state that shares its sessions.
    pub(crate) fn freeze(&self) -> Frozen {
        Frozen {
            slot: self.applied,
            stamp: self.stamp,
            table: self.sessions.freeze(),
            lead: self.lead,
            reset: self.reset.slot(),
            views: self.views.clone(),
            invitations: self.invitations.clone(),
            groups: self.groups.clone(),
        }
    }

    pub(crate) fn check(&self) {
        self.sessions.check();
        self.poison.check();
        self.kept.check();
        self.views.check(self.applied);
        self.invitations.check();
        self.groups.check(self.applied);
        assert!(
            self.lead.slot <= self.applied,
            "leads stand in applied slots"
        );
    }
}

impl Frozen {
    /// The replica's part of a snapshot, once every outcome up to the slot is in it.
    pub(crate) fn into_core(self, replies_digest: u64) -> SnapshotCore {
        let next = self.views.next().cloned();
        SnapshotCore {
            slot: self.slot,
            stamp: self.stamp,
            replies_digest,
            view: self.views.current().clone(),
            previous: self.views.previous().cloned(),
            next: next.filter(|_| !planted(Plant::NextViewNotInSnapshot)),
            lead_ballot: self.lead.ballot,
            lead_slot: self.lead.slot,
            reset: self.reset,
            invitations: self.invitations.all().to_vec(),
            groups: self.groups.all().to_vec(),
            sessions: if planted(Plant::SessionsNotInSnapshot) {
                Vec::new()
            } else {
                sessions::images(&self.table)
            },
        }
    }
}

/// A batch's stamp as the objects see it after the one before: agreed time rises from batch to batch. A leader's stamps are above all
/// that it knows, but a slot of an older leader may be chosen before its own.
pub(crate) fn rising(before: Stamp, stamp: Stamp) -> Stamp {
    if planted(Plant::WallGoesBack) {
        return stamp;
    }
    let wall = stamp.wall.max(Wall(before.wall.0 + 1));
    Stamp { wall, ..stamp }
}
