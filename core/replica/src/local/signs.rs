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
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Attachment, Duration, SessionId, Slot, Time};
use std::collections::BTreeMap;

/// What one node knows of the signs of life of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KnownSign {
    /// The session.
    pub session: SessionId,
    /// How old the newest one is.
    pub age: Duration,
    /// The latest connection on which one came.
    pub attachment: Attachment,
}

/// What one node knows of signs of life, as ages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownSigns {
    /// It has applied the slots up to this one, and counts their commands.
    pub applied: Slot,
    /// The newest sign of life of a session that is not listed is no younger; `None` if it knows of none.
    pub others: Option<Duration>,
    /// Of sessions opened after this slot it knows the latest connection on which a sign of life came; `None`: of no session.
    pub sees_after: Option<Slot>,
    /// Ascending by session.
    pub ages: Vec<KnownSign>,
}

/// What another node told, by this node's count of the time that the group has served.
#[derive(Debug)]
pub(crate) struct ToldSigns {
    applied: Slot,
    signs: BTreeMap<SessionId, Sign>,
    others: ServedTime,
    sees_after: Option<Slot>,
}

/// The newest sign of life that is known of a session, and the latest connection on which one came.
#[derive(Clone, Copy, Debug)]
struct Sign {
    at: ServedTime,
    attachment: Attachment,
}

/// Signs of life, by the time that the group has served.
#[derive(Debug)]
pub(crate) struct Signs {
    pub(crate) served: ServedClock,
    dates: SlotDates,
    /// The newest sign of life that is known of each session, beside commands in slots after `covered`.
    notes: BTreeMap<SessionId, Sign>,
    /// For sessions without a note.
    others: ServedTime,
    covered: Slot,
    /// The notes name the latest connection of each session that was opened after this slot; `None`: of none.
    sees_after: Option<Slot>,
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
            sees_after: None,
            is_whole: false,
            sampled_at: now,
        }
    }

    /// Whether it knows what earlier starts of this node noted.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Other acceptors note signs of life from now on, and what those before them noted may not be known here: no session's
    /// newest one came later than now.
    pub(crate) fn forget(&mut self, now: Time) {
        self.others = self.served.most(now);
        self.notes.clear();
        self.sees_after = None;
        self.is_whole = false;
    }

    /// Dates what was applied since the last time.
    pub(crate) fn sample(&mut self, now: Time, applied: Slot) {
        if now.since(self.sampled_at) >= SWEEP_EVERY {
            self.sampled_at = now;
            self.dates.sample(self.served.most(now), applied);
        }
    }

    /// A keepalive of the session came, here or to the leader. The leader knows which sessions are open; here they may not be yet.
    pub(crate) fn note(
        &mut self,
        now: Time,
        (session, attachment): (SessionId, Attachment),
        applied: Slot,
        open: &Sessions,
    ) {
        if self.notes.len() > 2 * open.len() + NOTES_SLACK {
            let is_over = |id| open.session(id).is_none() && opened_in(id) <= applied;
            self.notes.retain(|id, _| !is_over(*id));
        }
        let at = self.served.most(now);
        self.note_at(session, Sign { at, attachment });
    }

    /// The latest connection on which the client of a session gave a sign of life; `None` if this node may have forgotten it.
    pub(crate) fn attachment(&self, id: SessionId) -> Option<Attachment> {
        let is_seen = self.sees_after.is_some_and(|slot| opened_in(id) > slot);
        is_seen.then(|| self.noted_attachment(id))
    }

    fn noted_attachment(&self, id: SessionId) -> Attachment {
        let noted = self.notes.get(&id);
        noted.map_or(Attachment::NONE, |sign| sign.attachment)
    }

    /// The leadership that has gathered what a quorum knows is in the log from this slot on: no earlier leader acknowledged
    /// anything for sessions that were opened later.
    pub(crate) fn leads_since(&mut self, slot: Slot) {
        self.sees_after = Some(self.sees_after.map_or(slot, |before| before.min(slot)));
    }

    /// When a session gave its newest sign of life, or later.
    pub(crate) fn of(&self, now: Time, id: SessionId, session: &Session) -> ServedTime {
        let noted = self.notes.get(&id).map_or(self.others, |sign| sign.at);
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
        let ahead = self.notes.iter().map(|(id, noted)| (*id, noted.at));
        let ahead = ahead.filter(|(id, _)| opened_in(*id) > applied);
        let mut known: Vec<(SessionId, ServedTime)> = of_open.chain(ahead).collect();
        let untold = known.split_off(known.len().min(SIGNS_TOLD));
        let newest = untold.iter().map(|(_, sign)| *sign).max();
        let others = Some(self.others).filter(|others| *others > ServedTime::LONG_AGO);
        let ages = known.iter().map(|(id, sign)| KnownSign {
            session: *id,
            age: present.since(*sign),
            attachment: self.noted_attachment(*id),
        });
        KnownSigns {
            applied,
            others: newest.max(others).map(|newest| present.since(newest)),
            sees_after: self.sees_after.filter(|_| untold.is_empty()),
            ages: ages.collect(),
        }
    }

    /// A quorum has told what it knows, or a leader that had gathered it: of what came before this start, nothing else counts.
    pub(crate) fn learn(&mut self, told: &[ToldSigns]) {
        for (id, sign) in told.iter().flat_map(|told| &told.signs) {
            let at = told.iter().map(|told| told.of(*id));
            let at = at.fold(sign.at, ServedTime::max);
            let attachment = sign.attachment;
            self.note_at(*id, Sign { at, attachment });
        }
        self.sees_after = all_see_after(told.iter().map(|told| told.sees_after));
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
            let at = others.fold(self.of(now, id, session), ServedTime::max);
            let attachment = self.noted_attachment(id);
            self.notes.insert(id, Sign { at, attachment });
        }
        let own = self.sees_after;
        self.learn(told);
        let told = told.iter().map(|told| told.sees_after);
        self.sees_after = all_see_after(told.chain([own]));
        // Other sessions are opened in slots that this start is yet to date.
        self.others = ServedTime::LONG_AGO;
        self.covered = applied;
    }

    fn note_at(&mut self, session: SessionId, sign: Sign) {
        let noted = self.notes.entry(session).or_insert(sign);
        noted.at = sign.at.max(noted.at);
        noted.attachment = sign.attachment.max(noted.attachment);
    }
}

/// After which slot a session must have been opened, so that each of these nodes knows its latest connection.
fn all_see_after(told: impl Iterator<Item = Option<Slot>>) -> Option<Slot> {
    let each: Option<Vec<Slot>> = told.collect();
    each.map(|each| each.into_iter().max().unwrap_or(Slot::ZERO))
}

impl ToldSigns {
    /// What another node knows, as it comes at `present`.
    pub(crate) fn new(present: ServedTime, known: KnownSigns) -> ToldSigns {
        let ages = known.ages.into_iter();
        ToldSigns {
            applied: known.applied,
            signs: ages.map(|told| told.as_of(present)).collect(),
            sees_after: known.sees_after,
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
        self.signs.get(&id).map_or(self.others, |sign| sign.at)
    }
}

impl KnownSign {
    fn as_of(self, present: ServedTime) -> (SessionId, Sign) {
        let at = present.before(self.age);
        let attachment = if planted(Plant::AttachmentsNotGathered) {
            Attachment::NONE
        } else {
            self.attachment
        };
        (self.session, Sign { at, attachment })
    }
}
