//! What this node knows of the newest sign of life of each session: the keepalives that leaders had it note, and the commands
//! that it applied.
//!
//! Every node keeps notes, in memory. A leader acknowledges no keepalive before a phase-2 quorum has noted it, so a new leader
//! that asks a phase-1 quorum misses none; `docs/sessions.md` has the proof. Ages travel, never times: each node counts for
//! itself.

use crate::limits::{NOTES_SLACK, SIGNS_TOLD, SWEEP_EVERY};
use crate::local::clients::opened_in;
use crate::local::dating::SlotDates;
use crate::local::served::{ServedClock, ServedTime};
use crate::replicated::sessions::Sessions;
use crate::replicated::window::Session;
use quorate_types::{Duration, SessionId, Slot, Time};
use std::collections::BTreeMap;

/// What one node knows of signs of life, as ages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownSigns {
    /// It has applied the slots up to this one, and counts their commands.
    pub applied: Slot,
    /// The newest sign of life of a session that is not listed is no younger; `None` if it knows of none.
    pub others: Option<Duration>,
    /// The age of the newest sign of life, ascending by session.
    pub ages: Vec<(SessionId, Duration)>,
}

/// What another node told, by this node's count of the time that the group has served.
#[derive(Debug)]
pub(crate) struct ToldSigns {
    applied: Slot,
    signs: BTreeMap<SessionId, ServedTime>,
    others: ServedTime,
}

/// Signs of life, by the time that the group has served.
#[derive(Debug)]
pub(crate) struct Signs {
    pub(crate) served: ServedClock,
    dates: SlotDates,
    /// The newest sign of life that is known of each session, beside commands in slots after `covered`.
    notes: BTreeMap<SessionId, ServedTime>,
    /// For sessions without a note.
    others: ServedTime,
    covered: Slot,
    /// Earlier starts of this node may have noted what it has forgotten, until the leader or a quorum has told it.
    is_whole: bool,
    sampled_at: Time,
}

impl Signs {
    /// Those of a node that starts.
    pub(crate) fn new(now: Time, applied: Slot) -> Signs {
        let served = ServedClock::new(now);
        let began = served.least();
        Signs {
            served,
            dates: SlotDates::since(began, applied),
            notes: BTreeMap::new(),
            others: began,
            covered: Slot::ZERO,
            is_whole: false,
            sampled_at: now,
        }
    }

    /// Whether it knows what earlier starts of this node noted.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Dates what was applied since the last time.
    pub(crate) fn sample(&mut self, now: Time, applied: Slot) {
        if now.since(self.sampled_at) >= SWEEP_EVERY {
            self.sampled_at = now;
            self.dates.sample(self.served.most(now), applied);
        }
    }

    /// A keepalive of the session came, here or to the leader. The leader knows which sessions are open; here they may not be yet.
    pub(crate) fn note(&mut self, now: Time, session: SessionId, applied: Slot, open: &Sessions) {
        if self.notes.len() > 2 * open.len() + NOTES_SLACK {
            let is_over = |id| open.session(id).is_none() && opened_in(id) <= applied;
            self.notes.retain(|id, _| !is_over(*id));
        }
        self.note_at(session, self.served.most(now));
    }

    /// When a session gave its newest sign of life, or later.
    pub(crate) fn of(&self, now: Time, id: SessionId, session: &Session) -> ServedTime {
        let noted = self.notes.get(&id).copied().unwrap_or(self.others);
        if session.active <= self.covered {
            return noted;
        }
        let command = self.dates.of(session.active);
        noted.max(command.unwrap_or(self.served.most(now)))
    }

    /// All that this node knows.
    pub(crate) fn tell(&self, now: Time, applied: Slot, open: &Sessions) -> KnownSigns {
        let present = self.served.least();
        let of_open = open.all();
        let of_open = of_open.map(|(id, session)| (id, self.of(now, id, session)));
        let ahead = self.notes.iter().map(|(id, noted)| (*id, *noted));
        let ahead = ahead.filter(|(id, _)| opened_in(*id) > applied);
        let mut known: Vec<(SessionId, ServedTime)> = of_open.chain(ahead).collect();
        let untold = known.split_off(known.len().min(SIGNS_TOLD));
        let newest = untold.iter().map(|(_, sign)| *sign).max();
        let others = Some(self.others).filter(|others| *others > ServedTime::LONG_AGO);
        let ages = known.iter().map(|(id, sign)| (*id, present.since(*sign)));
        KnownSigns {
            applied,
            others: newest.max(others).map(|newest| present.since(newest)),
            ages: ages.collect(),
        }
    }

    /// A quorum has told what it knows, or a leader that had gathered it: of what came before this start, nothing else counts.
    pub(crate) fn learn(&mut self, told: &[ToldSigns]) {
        for (id, sign) in told.iter().flat_map(|told| &told.signs) {
            let others = told.iter().map(|told| told.of(*id));
            self.note_at(*id, others.fold(*sign, ServedTime::max));
        }
        let others = told.iter().map(|told| told.others);
        self.others = others.fold(ServedTime::LONG_AGO, ServedTime::max);
        let applied = told.iter().map(|told| told.applied).max();
        self.covered = applied.unwrap_or(self.covered);
        self.is_whole = true;
    }

    /// So many nodes have told what they know that, with this one, they are a quorum: nothing else counts.
    pub(crate) fn gather(&mut self, now: Time, told: &[ToldSigns], applied: Slot, open: &Sessions) {
        for (id, session) in open.all() {
            let others = told.iter().map(|told| told.of(id));
            let sign = others.fold(self.of(now, id, session), ServedTime::max);
            self.notes.insert(id, sign);
        }
        self.learn(told);
        // Other sessions are opened in slots that this start is yet to date.
        self.others = ServedTime::LONG_AGO;
        self.covered = applied;
    }

    fn note_at(&mut self, session: SessionId, at: ServedTime) {
        let noted = self.notes.entry(session).or_insert(at);
        *noted = at.max(*noted);
    }
}

impl ToldSigns {
    /// What another node knows, as it comes at `present`.
    pub(crate) fn new(present: ServedTime, known: KnownSigns) -> ToldSigns {
        let ages = known.ages.into_iter();
        ToldSigns {
            applied: known.applied,
            signs: ages.map(|(id, age)| (id, present.before(age))).collect(),
            others: known
                .others
                .map_or(ServedTime::LONG_AGO, |age| present.before(age)),
        }
    }

    /// Whether it names every sign of life that any start of that node can have noted.
    pub(crate) fn is_whole(&self) -> bool {
        self.others == ServedTime::LONG_AGO
    }

    fn of(&self, id: SessionId) -> ServedTime {
        self.signs.get(&id).copied().unwrap_or(self.others)
    }
}
