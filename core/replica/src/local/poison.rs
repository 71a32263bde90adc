//! This node's part in poison calls: reports that its host died at one, or that it is past one.
//!
//! The effect of reports is replicated state, in `replicated/poison.rs`. A replica whose host died at a call
//! that another replica survived takes over that replica's snapshot; `docs/sessions.md` has the rule. What an earlier start
//! reported binds this one, and so does what no file tells of it: this start executes nothing that may yet be skipped for it.

use crate::limits::{HEAL_EVERY, POISON_CALLS, POISON_REPORT_EVERY};
use crate::local::internal::Purpose;
use crate::replicated::poison::{Death, Report};
use crate::{Output, Remembered, Replica};
use quorate_ordering::Ordering;
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Body, CallPlace, Slot, Time};
use std::collections::BTreeSet;

/// The calls that earlier starts of this node may have executed, and so may have answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EarlierLives {
    /// There was none, or none executed anything.
    #[default]
    None,
    /// Calls up to this slot.
    Upto(Slot),
    /// Anything that was decided before this start.
    Unknown,
}

/// The calls at which the hosts of earlier starts of this node died for good.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EarlierDeaths {
    /// These. Those that the snapshot covers mean nothing.
    At(Vec<CallPlace>),
    /// Starts of which the data directory knows nothing may have reported any.
    Unknown,
}

impl Default for EarlierDeaths {
    fn default() -> EarlierDeaths {
        EarlierDeaths::At(Vec::new())
    }
}

/// This node's reports, and the snapshot that it waits for.
#[derive(Debug, Default)]
pub(crate) struct OwnPoison {
    /// No leader with a quorum has heard this start yet. The data directory may be an older copy, which knows nothing of what
    /// was reported since; its peers tell it when they hear it first.
    is_unheard: bool,
    /// Earlier starts may have reported deaths at any call, as far as this one knows.
    is_unsure: bool,
    /// Where this start had all earlier calls kept.
    kept_at: Option<Slot>,
    earlier: EarlierLives,
    /// The call at which the own host died for good, until the host works again.
    died_at: Option<CallPlace>,
    /// Calls at which the hosts of earlier starts died for good. Those reports bind this start: it executes none of the calls
    /// before the log takes the report back or keeps the call from being skipped.
    barred: BTreeSet<CallPlace>,
    /// Calls at which hosts of this node died, until its objects are past them and the log tells that. No snapshot has the reports:
    /// this node may not know of them any more while others do.
    deaths: BTreeSet<CallPlace>,
    /// Slots about which the log has a newer word of an earlier life under this number: what this one says does not count.
    unheeded: BTreeSet<Slot>,
    /// The report that the log lacks.
    report: Option<Unsaid>,
    /// A snapshot past the call is asked for; a checkpoint is asked for again at this time.
    stranded: Option<Time>,
}

#[derive(Debug)]
struct Unsaid {
    word: Word,
    is_submitted: bool,
    due: Time,
}

/// What a report says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Word {
    Died(CallPlace),
    Survived(CallPlace),
    Retry(CallPlace),
    Keep,
}

impl Word {
    fn of(body: &Body) -> Option<Word> {
        match *body {
            Body::Died { slot, index, .. } => Some(Word::Died(CallPlace { slot, index })),
            Body::Survived { slot, index, .. } => Some(Word::Survived(CallPlace { slot, index })),
            Body::Retry { slot, index, .. } => Some(Word::Retry(CallPlace { slot, index })),
            Body::Keep { .. } => Some(Word::Keep),
            Body::Call { .. }
            | Body::Open { .. }
            | Body::Resume { .. }
            | Body::Close
            | Body::Expire { .. }
            | Body::Lead { .. }
            | Body::Tick
            | Body::Read { .. }
            | Body::Checkpoint
            | Body::Skip { .. }
            | Body::Reset { .. }
            | Body::Thaw { .. }
            | Body::Collect { .. }
            | Body::Invite { .. }
            | Body::ChangeGroups { .. }
            | Body::ChangeView { .. } => None,
        }
    }
}

impl OwnPoison {
    pub(crate) fn new(remembered: &Remembered) -> OwnPoison {
        let begun = remembered.snapshot.as_ref().map(|begun| begun.core.slot);
        let (is_unsure, places) = match &remembered.died {
            EarlierDeaths::At(places) => (false, &places[..]),
            EarlierDeaths::Unknown => (!planted(Plant::LostReportsTrusted), &[][..]),
        };
        let places = places.iter().copied();
        let mut own = OwnPoison {
            is_unheard: remembered.earlier != EarlierLives::None
                && !planted(Plant::CopyExecutesUnheard),
            is_unsure,
            earlier: match is_unsure {
                true => EarlierLives::Unknown,
                false => remembered.earlier,
            },
            deaths: places.clone().collect(),
            barred: places.filter(|place| Some(place.slot) > begun).collect(),
            ..OwnPoison::default()
        };
        own.bound();
        own
    }

    /// A leader with a quorum has heard this start.
    pub(crate) fn heard(&mut self) {
        self.is_unheard = false;
    }

    /// The report may not be decided: it is submitted again after a while.
    pub(crate) fn lost_sight(&mut self) {
        if let Some(report) = &mut self.report {
            report.is_submitted = planted(Plant::PoisonReportForgotten);
        }
    }

    /// When a report is to be submitted or a checkpoint to be asked for, if at all.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        let waiting = self.report.as_ref().filter(|report| !report.is_submitted);
        let report = waiting.map(|report| report.due);
        report.into_iter().chain(self.stranded).min()
    }

    /// Whether the own host died for good.
    pub(crate) fn is_down(&self) -> bool {
        self.died_at.is_some()
    }

    /// Whether the objects wait for a survivor's snapshot.
    pub(crate) fn is_stranded(&self) -> bool {
        self.stranded.is_some()
    }

    /// The first slot that must not be executed yet.
    pub(crate) fn barred(&self) -> Option<Slot> {
        if self.is_unheard || self.is_unsure {
            return Some(Slot::ZERO);
        }
        self.barred.first().map(|place| place.slot)
    }

    /// The objects have the state after `slot`, which is past the call.
    pub(crate) fn passed(&mut self, slot: Slot) {
        self.barred.retain(|place| place.slot > slot);
        self.died_at = None;
        self.stranded = None;
        self.report
            .take_if(|report| matches!(report.word, Word::Died(_)));
    }

    /// Of older ones nobody remembers reports.
    fn bound(&mut self) {
        while self.deaths.len() > POISON_CALLS {
            self.deaths.pop_first();
        }
    }

    /// A report of this start is decided.
    pub(crate) fn landed(&mut self, decided: Slot, body: &Body) {
        let Some(word) = Word::of(body) else {
            return;
        };
        match word {
            // The log counts reports by slot.
            Word::Retry(place) => self.barred.retain(|barred| barred.slot != place.slot),
            // Earlier starts executed nothing from this slot on: it was not decided while they ran.
            Word::Keep => {
                self.is_unsure = false;
                self.kept_at = Some(decided);
                self.earlier = EarlierLives::Upto(decided.previous());
            }
            Word::Survived(place) => self.deaths.retain(|death| death.slot != place.slot),
            Word::Died(_) => {}
        }
        self.report.take_if(|report| report.word == word);
    }

    /// Where this start had all earlier calls kept.
    pub(crate) fn kept_at(&self) -> Option<Slot> {
        self.kept_at
    }

    fn want(&mut self, now: Time, word: Word) {
        self.report = Some(Unsaid {
            word,
            is_submitted: false,
            due: now,
        });
    }
}

impl<O: Ordering> Replica<O> {
    /// The own host died for good.
    pub(crate) fn host_died(&mut self, now: Time, place: CallPlace) {
        if self.speculation.is_undone(place.slot) {
            // The call is not decided: another one may be in its place.
            return;
        }
        self.own_poison.died_at = Some(place);
        self.own_poison.deaths.insert(place);
        self.own_poison.bound();
        self.own_poison.want(now, Word::Died(place));
    }

    /// The own host works: nothing is to be reported, and it continues unless a snapshot is being installed.
    pub(crate) fn host_works(&mut self) {
        self.own_poison.died_at = None;
        self.own_poison
            .report
            .take_if(|report| matches!(report.word, Word::Died(_)));
        if self.own_poison.stranded.take().is_some() && !self.fetch.is_installing() {
            self.pipeline.release();
        }
    }

    /// At the end of a turn: reports, and asks for a survivor's snapshot.
    pub(crate) fn tend_poison(&mut self, now: Time, out: &mut Vec<Output<O::Message>>) {
        self.tend_barred(now);
        let (reached, poison) = (self.reached(), &self.replicated.poison);
        // What the log tells of a call says whether a word is missing.
        let is_open = |place: &CallPlace| place.slot > reached || !poison.is_about(place.slot);
        self.own_poison.deaths.retain(is_open);
        if self.own_poison.report.is_none()
            && self.is_replica()
            && let Some(place) = self.to_tell()
        {
            self.own_poison.want(now, Word::Survived(place));
        }
        self.submit_report(now);
        let is_survived = |place| self.replicated.poison.has_survivor(place);
        if self.own_poison.died_at.is_some_and(is_survived) && !self.own_poison.is_stranded() {
            // Nothing more is sent to the objects, so that a snapshot can be ahead of them.
            self.pipeline.hold(self.replicated.applied);
            let least = self.pipeline.handed_out(self.replicated.applied);
            self.own_poison.stranded = Some(now);
            self.fetch_at_least(now, least, out);
        }
        if self.own_poison.stranded.is_some_and(|due| due <= now) {
            self.own_poison.stranded = Some(now + HEAL_EVERY);
            self.want_checkpoint();
        }
    }

    /// A call that the objects are past, and of which the log does not tell it, or may not. Claim rp-160.
    fn to_tell(&self) -> Option<CallPlace> {
        let (own, reached) = (self.config.own, self.reached());
        let OwnPoison {
            deaths, unheeded, ..
        } = &self.own_poison;
        let poison = &self.replicated.poison;
        let mut deaths = deaths.iter().copied();
        let forgotten = deaths.find(|place| place.slot <= reached && !poison.is_about(place.slot));
        poison.to_tell(own, reached, unheeded).or(forgotten)
    }

    /// A word of this start about a call that it is past is decided.
    pub(crate) fn told_past(&mut self, slot: Slot) {
        let (own, poison) = (self.config.own, &self.replicated.poison);
        let unheeded = &mut self.own_poison.unheeded;
        unheeded.insert(slot);
        unheeded.retain(|slot| !poison.has_survived(own, *slot));
    }

    /// The highest slot whose state the objects have, or can make again: a host that executes its calls anew for their state may
    /// die at one that it had executed before.
    fn reached(&self) -> Slot {
        let executed = self.pipeline.executed(self.replicated.applied);
        let died_at = self.own_poison.died_at;
        let died_at = died_at.filter(|_| !planted(Plant::SurvivalToldWhileDown));
        died_at.map_or(executed, |at| executed.min(at.slot.previous()))
    }

    /// Takes the reports of earlier starts back, so that the calls can be executed again: those that are known, or all.
    fn tend_barred(&mut self, now: Time) {
        let poison = &self.replicated.poison;
        self.own_poison
            .barred
            .retain(|place| !poison.is_kept(*place));
        let barred = &self.own_poison.barred;
        (self.own_poison.report).take_if(
            |report| matches!(report.word, Word::Retry(place) if !barred.contains(&place)),
        );
        if self.own_poison.report.is_some() {
            return;
        }
        if self.own_poison.earlier == EarlierLives::Unknown && self.is_replica() {
            self.own_poison.want(now, Word::Keep);
        } else if let Some(&place) = self.own_poison.barred.first() {
            self.own_poison.want(now, Word::Retry(place));
        }
    }

    fn submit_report(&mut self, now: Time) {
        let reporter = self.config.own;
        let executed = self.pipeline.executed(self.replicated.applied);
        let earlier = self.own_poison.earlier;
        let Some(report) = &mut self.own_poison.report else {
            return;
        };
        if report.is_submitted || report.due > now {
            return;
        }
        report.is_submitted = true;
        report.due = now + POISON_REPORT_EVERY;
        let body = match report.word {
            Word::Died(CallPlace { slot, index }) => Body::Died {
                reporter,
                slot,
                index,
                may_have_answered: match earlier {
                    EarlierLives::None => slot <= executed,
                    EarlierLives::Upto(upto) => slot <= upto.max(executed),
                    EarlierLives::Unknown => true,
                },
            },
            Word::Survived(CallPlace { slot, index }) => Body::Survived {
                reporter,
                slot,
                index,
            },
            Word::Retry(CallPlace { slot, index }) => Body::Retry {
                reporter,
                slot,
                index,
            },
            Word::Keep => Body::Keep { reporter },
        };
        self.submit(Purpose::Poison, body);
    }

    /// A death is decided: skips the calls at which hosts are down if that makes it a slot that nobody can have executed.
    pub(crate) fn died(&mut self, report: Report, death: Death, out: &mut Vec<Output<O::Message>>) {
        let replicas = self.view().replicas;
        for place in self.replicated.poison.died(replicas, report, death) {
            self.skip(place, out);
        }
    }

    /// The group skips a call; where its outcome is known already, that outcome stays.
    pub(crate) fn skip(&mut self, place: CallPlace, out: &mut Vec<Output<O::Message>>) {
        self.replicated.poison.skipped(place);
        self.own_poison.barred.remove(&place);
        let CallPlace { slot, index } = place;
        if self.pipeline.skip(slot, index) {
            out.push(Output::Skip { slot, index });
        }
    }
}
