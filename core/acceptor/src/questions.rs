//! Which peers were asked for decided slots and have not answered, and how long answers take.
//!
//! One question for each peer is under way at a time. A slow link makes answers late, not lost: asking again would
//! send the same slots twice over the link that is too slow already. So pauses follow the time that answers take.

use crate::limits::{ANSWER_MAX, OPEN_FOR, SLOWER};
use quorate_types::{Duration, NodeId, Time};

#[derive(Clone, Copy, PartialEq, Debug)]
struct Question {
    peer: NodeId,
    asked_at: Time,
    /// The peer is not asked again before.
    end: Time,
}

/// The questions of one learner.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct OpenQuestions {
    /// Invariant: one for each peer at most.
    open: Vec<Question>,
    /// How long the last answer took.
    took: Duration,
    /// OpenQuestions in a row to which no answer came in time.
    unanswered: u32,
}

impl OpenQuestions {
    /// A question leaves. Returns when another peer is asked.
    pub(crate) fn ask(&mut self, now: Time, peer: NodeId, resend: Duration) -> Time {
        self.lost(peer);
        let usual = resend.0.max(self.took.0 * SLOWER).min(ANSWER_MAX.0);
        let pause = Duration(usual << self.unanswered.min(5)).min(ANSWER_MAX);
        self.unanswered += 1;
        let end = now + Duration(pause.0 * OPEN_FOR).min(ANSWER_MAX);
        self.open.push(Question {
            peer,
            asked_at: now,
            end,
        });
        now + pause
    }

    /// Whether the answer of `peer` is still expected.
    pub(crate) fn is_open(&self, now: Time, peer: NodeId) -> bool {
        let mut open = self.open.iter();
        open.any(|question| question.peer == peer && now < question.end)
    }

    /// An answer came.
    pub(crate) fn answered(&mut self, now: Time, peer: NodeId) {
        if let Some(index) = self.open.iter().position(|question| question.peer == peer) {
            self.took = now.since(self.open.swap_remove(index).asked_at);
            self.unanswered = 0;
        }
    }

    /// The link to `peer` changed: its answer may be lost. Returns whether one was expected.
    pub(crate) fn lost(&mut self, peer: NodeId) -> bool {
        let before = self.open.len();
        self.open.retain(|question| question.peer != peer);
        self.open.len() < before
    }

    /// Nothing is expected any more.
    pub(crate) fn forget(&mut self) {
        self.open.clear();
        self.unanswered = 0;
    }

    /// Peers that have not answered.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// When the first of them may be asked again.
    pub(crate) fn first_end(&self) -> Option<Time> {
        self.open.iter().map(|question| question.end).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);
    const RESEND: Duration = Duration::from_millis(100);

    fn at(ms: u64) -> Time {
        Time(0) + Duration::from_millis(ms)
    }

    #[test]
    fn a_peer_is_asked_once_until_it_answers_or_its_link_changes() {
        let mut questions = OpenQuestions::default();
        assert_eq!(questions.ask(at(0), A, RESEND), at(100));
        assert!(questions.is_open(at(799), A) && !questions.is_open(at(100), B));
        assert!(!questions.is_open(at(800), A));
        questions.lost(A);
        assert!(!questions.is_open(at(1), A));
    }

    #[test]
    fn pauses_grow_while_nothing_comes_and_follow_how_long_answers_take() {
        let mut questions = OpenQuestions::default();
        questions.ask(at(0), A, RESEND);
        assert_eq!(questions.ask(at(100), B, RESEND), at(300));
        questions.answered(at(1_000), A);
        assert_eq!(questions.ask(at(1_000), A, RESEND), at(5_000));
        questions.answered(at(1_001), A);
        assert_eq!(questions.ask(at(1_001), A, RESEND), at(1_101));
    }
}
