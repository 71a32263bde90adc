//! What a node knows of decisions beyond its own decided prefix, and whom it asks for them.
//!
//! It asks for one bounded chunk at a time. It sends nothing itself and decides nothing: a protocol says when a slot is decided.

use crate::SlotLog;
use crate::limits::TAUGHT_AGAIN;
use crate::message::{Learned, Trimmed};
use crate::questions::OpenQuestions;
use quorate_ordering::{ConflictingDecisions, Limits, Timing};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ballot, Batch, Duration, NodeId, NodeSet, Slot, Time};

/// What a node knows of decisions beyond its own decided prefix.
#[derive(Clone, PartialEq, Debug)]
pub struct Learner {
    /// The newest leader's watermark.
    heard: (Ballot, Slot),
    /// The highest slot known to be decided somewhere.
    known: Slot,
    gap_since: Option<Time>,
    /// The peer that was asked last, and when another one is asked.
    asked: Option<(NodeId, Time)>,
    questions: OpenQuestions,
    /// Peers trimmed slots up to here which this node lacked when they told it.
    elided: Slot,
    /// Peers that have what is missing only in snapshots: the others are asked first, until learning goes on.
    trimmed: NodeSet,
    /// Rises when an answer does not help, so that the next peer is asked.
    turn: usize,
    /// When learning last brought a batch.
    progress_at: Time,
}

/// Who can be asked for decided slots, and who should be.
#[derive(Clone, Copy, Debug)]
pub struct Teachers<'a> {
    /// The peers whose links are up, and the decided prefix that each reported.
    pub linked: &'a [(NodeId, Slot)],
    /// The leader that is followed.
    pub leader: Option<NodeId>,
    /// Who passes proposals on to this node.
    pub upstream: Option<NodeId>,
    /// So many slots come in one answer.
    pub chunk: u64,
}

impl Learner {
    /// Nothing is known.
    #[must_use]
    pub fn new(now: Time) -> Learner {
        Learner {
            heard: (Ballot::ZERO, Slot::ZERO),
            known: Slot::ZERO,
            gap_since: None,
            asked: None,
            questions: OpenQuestions::default(),
            elided: Slot::ZERO,
            trimmed: NodeSet::empty(),
            turn: 0,
            progress_at: now,
        }
    }

    /// The highest slot known to be decided somewhere.
    #[must_use]
    pub fn known(&self) -> Slot {
        self.known
    }

    /// When learning last brought a batch.
    #[must_use]
    pub fn progress_at(&self) -> Time {
        self.progress_at
    }

    /// The newest leader's watermark: its ballot, and the last slot.
    #[must_use]
    pub fn watermark(&self) -> (Ballot, Slot) {
        self.heard
    }

    /// Every slot up to `upto` is decided.
    pub fn knows(&mut self, upto: Slot) {
        self.known = self.known.max(upto);
    }

    /// The leader of `ballot` says that every slot up to `upto` is decided.
    pub fn heard(&mut self, ballot: Ballot, upto: Slot) {
        if ballot > self.heard.0 {
            self.heard = (ballot, upto);
        } else if ballot == self.heard.0 {
            self.heard.1 = self.heard.1.max(upto);
        }
        self.knows(upto);
    }

    /// The prefix moved by what peers told, or by a snapshot.
    pub fn went_on(&mut self, now: Time) {
        self.progress_at = now;
        self.trimmed = NodeSet::empty();
    }

    /// Whether slots above the `decided` prefix are decided, which was not noted before.
    pub fn finds_gap(&mut self, now: Time, decided: Slot) -> bool {
        if decided >= self.known {
            self.gap_since = None;
            self.asked = None;
            return false;
        }
        let is_new = self.gap_since.is_none();
        self.gap_since.get_or_insert(now);
        is_new
    }

    /// What is missing is needed now. Returns whether anything is.
    pub fn needs_more(&mut self, now: Time, decided: Slot) -> bool {
        let is_missing = decided < self.known;
        if is_missing {
            self.gap_since.get_or_insert(now);
        }
        is_missing
    }

    /// No further answer is expected.
    pub fn forget_questions(&mut self) {
        self.asked = None;
        self.questions.forget();
    }

    /// The link to `peer` changed: a question to it, or its answer, may be lost. Returns whether an answer was expected.
    pub fn lost(&mut self, peer: NodeId) -> bool {
        self.questions.lost(peer)
    }

    /// `from` answered, and has decided all slots up to `decided`.
    pub fn answered(&mut self, now: Time, from: NodeId, decided: Slot) {
        self.knows(decided);
        self.questions.answered(now, from);
        if self.asked.is_some_and(|(peer, _)| peer == from) {
            self.asked = None;
        }
    }

    /// An answer did not help: the next one of so many linked peers is asked.
    pub fn learned_nothing(&mut self, now: Time, linked: usize) {
        self.turn += 1;
        // After all peers were asked in vain, pause. Otherwise questions and empty answers would follow
        // each other as fast as the links carry them.
        let place = self.turn.checked_rem(linked);
        self.gap_since = place.is_none_or(|place| place == 0).then_some(now);
    }

    /// `from` has only in snapshots what this node lacks. Returns whether a snapshot is to be asked for.
    pub fn is_told_trimmed(&mut self, now: Time, from: NodeId, timing: &Timing) -> bool {
        let asked = self.asked.filter(|(peer, _)| *peer == from);
        let is_answer = asked.is_some() || self.asked.is_none();
        if is_answer {
            let is_news = self.trimmed.insert(from);
            // Who says it again, for example to each pre-vote, does not put off the question to the next peer.
            let again_at = asked.filter(|_| !is_news).map(|(_, again_at)| again_at);
            self.asked = Some((from, again_at.unwrap_or(now + timing.read)));
        }
        is_answer
    }

    /// Some peer has slots up to `upto` only in snapshots, which this node lacks.
    pub fn elide(&mut self, upto: Slot) {
        self.elided = self.elided.max(upto);
    }

    /// Up to where slots are decided of which only a snapshot helps on; slot 0 where no snapshot is awaited.
    #[must_use]
    pub fn elided(&self, decided: Slot) -> Slot {
        match decided < self.elided {
            true => self.known.max(self.elided),
            false => Slot::ZERO,
        }
    }

    /// When the next question is due, while so many peers are linked.
    #[must_use]
    pub fn wake_at(&self, linked: usize, timing: &Timing) -> Option<Time> {
        if let Some((_, again_at)) = self.asked {
            return Some(again_at);
        }
        let at = self.gap_since? + timing.gap;
        let is_blocked = self.questions.len() >= linked;
        let all_asked = self.questions.first_end().filter(|_| is_blocked);
        Some(all_asked.map_or(at, |end| at.max(end)))
    }

    /// The question that was asked last is given up.
    pub fn ask_another(&mut self) {
        self.asked = None;
    }

    /// Whom to ask for the slots after the `decided` prefix; nobody while an answer is awaited.
    pub fn ask(
        &mut self,
        now: Time,
        decided: Slot,
        teachers: Teachers<'_>,
        timing: &Timing,
    ) -> Option<NodeId> {
        if self.asked.is_some() || planted(Plant::TailLossUnnoticed) {
            return None;
        }
        let Some(peer) = self.teacher(now, decided, teachers) else {
            self.gap_since = Some(now);
            return None;
        };
        let again_at = self.questions.ask(now, peer, timing.resend);
        self.asked = Some((peer, again_at));
        Some(peer)
    }

    /// The leader for a few slots, preferably another peer for many, and the next one after a failure. A log that lost records
    /// begins later than those of others.
    fn teacher(&self, now: Time, decided: Slot, teachers: Teachers<'_>) -> Option<NodeId> {
        let is_long = self.known.since(decided) > teachers.chunk;
        let linked = teachers.linked.iter();
        let mut choice: Vec<_> = linked
            .filter(|(node, _)| !self.questions.is_open(now, *node))
            .map(|(node, reported)| {
                let is_leader = Some(*node) == teachers.leader;
                let is_upstream = Some(*node) == teachers.upstream;
                let is_better = is_upstream || *reported > decided || is_leader;
                (
                    self.trimmed.contains(*node),
                    !is_better,
                    !is_upstream,
                    is_leader == is_long,
                    *node,
                )
            })
            .collect();
        choice.sort_unstable();
        let turn = self.turn.checked_rem(choice.len())?;
        choice.get(turn).map(|(.., node)| *node)
    }
}

/// Decided slots that a peer was told.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Taught {
    first: Slot,
    /// The slot after the last one.
    end: Slot,
    at: Time,
}

impl Taught {
    /// What `learned` tells.
    #[must_use]
    pub fn by(learned: &Learned, at: Time) -> Taught {
        Taught {
            first: learned.from,
            end: learned.from.plus(learned.batches.len() as u64),
            at,
        }
    }

    /// Whether the answer to a question for slots from `first` on is on its way already: over a slow link it takes longer than a
    /// learner waits.
    #[must_use]
    pub fn is_under_way(&self, now: Time, first: Slot, timing: &Timing) -> bool {
        let is_in = self.first <= first && first < self.end;
        is_in && now < self.at + Duration(timing.resend.0 * TAUGHT_AGAIN)
    }
}

impl SlotLog {
    /// The answer to a question for decided slots from `first` on.
    ///
    /// # Errors
    /// When they are trimmed.
    pub fn teach(&self, first: Slot, limits: &Limits) -> Result<Learned, Trimmed> {
        if first <= self.trimmed() {
            let upto = self.trimmed();
            return Err(Trimmed { upto });
        }
        let mut batches = Vec::new();
        let mut bytes = 0;
        let mut slot = first;
        while let Some(batch) = self.chosen(slot) {
            bytes += batch.weight();
            let is_full = batches.len() == limits.chunk_slots || bytes > limits.chunk_bytes;
            if is_full && !batches.is_empty() {
                break;
            }
            batches.push(batch.clone());
            slot = slot.next();
        }
        Ok(Learned {
            from: first,
            batches,
            decided: self.decided(),
        })
    }

    /// `peer` reports that `told` was decided in `slot`, where this log has another batch.
    #[must_use]
    pub fn conflict(&self, slot: Slot, peer: NodeId, told: &Batch) -> Option<ConflictingDecisions> {
        let own = self.chosen(slot).filter(|own| *own != told)?;
        Some(ConflictingDecisions {
            slot,
            peer,
            own: own.clone(),
            told: told.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leader_is_asked_for_a_few_slots_and_another_one_for_many() {
        let timing = Timing::default();
        let linked = [(NodeId(1), Slot(99)), (NodeId(2), Slot(99))];
        let teachers = Teachers {
            linked: &linked,
            leader: Some(NodeId(2)),
            upstream: None,
            chunk: 8,
        };
        let asked = |known| {
            let mut learner = Learner::new(Time(0));
            learner.knows(known);
            learner.ask(Time(0), Slot::ZERO, teachers, &timing)
        };
        assert_eq!(asked(Slot(8)), Some(NodeId(2)));
        assert_eq!(asked(Slot(9)), Some(NodeId(1)));
    }
}
