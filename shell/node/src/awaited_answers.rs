//! The answers that one connection waits for, and how large they will be as far as its earlier answers tell.
//!
//! What a call costs is known only when it has been executed: a small request may ask for a mebibyte, which every replica
//! makes, passes on and keeps. Used by [`crate::client_turns`], which bounds how much of that is under way.

use crate::limits::{ANSWER_BYTES_LARGE, ANSWER_BYTES_UNKNOWN, AWAITED_FORGOTTEN};
use quorate_types::{Ask, FromClient, Outcome, Time, ToClient};
use quorate_wire::WireError;

#[derive(Debug)]
pub(crate) struct AwaitedAnswers {
    /// Calls and reads that have no answer yet.
    count: usize,
    /// What an answer is taken to have.
    each: usize,
    /// Whether it has had any.
    is_known: bool,
    /// When it was served last.
    served: Time,
}

impl Default for AwaitedAnswers {
    fn default() -> AwaitedAnswers {
        AwaitedAnswers {
            count: 0,
            each: ANSWER_BYTES_UNKNOWN,
            is_known: false,
            served: Time(0),
        }
    }
}

impl AwaitedAnswers {
    /// Bytes that are under way; none where answers are small.
    pub(crate) fn bytes(&self) -> usize {
        if self.each < ANSWER_BYTES_LARGE {
            0
        } else {
            self.count * self.each
        }
    }

    /// Whether the next request is served only where there is room. The first one of a connection always is: otherwise a crowd
    /// would keep out who asks for little.
    pub(crate) fn need_room(&self) -> bool {
        self.each >= ANSWER_BYTES_LARGE && (self.is_known || self.count > 0)
    }

    /// A request was served.
    pub(crate) fn asked(&mut self, request: &Result<FromClient, WireError>) {
        if matches!(
            request,
            Ok(FromClient::Call { .. } | FromClient::Read { .. } | FromClient::Broadcast { .. })
        ) {
            self.count += 1;
        }
    }

    /// Says whether the answer was awaited. A refusal tells nothing of sizes.
    pub(crate) fn answered(&mut self, answer: &ToClient) -> bool {
        match answer {
            ToClient::Replied { outcome, .. } | ToClient::Read { outcome, .. } => {
                self.learn(length(outcome));
            }
            // Another one follows.
            ToClient::Tentative { value, .. } => {
                self.learn(value.len());
                return false;
            }
            ToClient::Confirmed { .. }
            | ToClient::Parked { .. }
            | ToClient::Refused {
                ask: Ask::Call(_) | Ask::Request(_),
                ..
            } => {}
            ToClient::Opened { .. }
            | ToClient::Resumed { .. }
            | ToClient::Full { .. }
            | ToClient::Refused { .. }
            | ToClient::KeptAlive { .. }
            | ToClient::Checkpointed { .. }
            | ToClient::Leader { .. } => return false,
        }
        self.count = self.count.saturating_sub(1);
        true
    }

    /// The first answer and large ones are believed at once, small ones after several: who mixes them waits as if all were large.
    fn learn(&mut self, bytes: usize) {
        self.each = if bytes >= self.each || !self.is_known {
            bytes
        } else {
            self.each - (self.each - bytes) / 4
        };
        self.is_known = true;
    }

    /// A visit of its line is over.
    pub(crate) fn visited(&mut self, now: Time) {
        self.served = now;
    }

    /// What has no answer for long is not counted any more.
    pub(crate) fn forget_before(&mut self, now: Time) {
        if self.served + AWAITED_FORGOTTEN <= now {
            self.count = 0;
        }
    }
}

fn length(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Returned(value) | Outcome::Raised(value) => value.len(),
        Outcome::Skipped => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::{CommandId, ObjectId, Refusal, SessionId, Value};

    const ID: CommandId = CommandId {
        session: SessionId(7),
        sequence: 1,
    };

    fn call() -> Result<FromClient, WireError> {
        Ok(FromClient::Call {
            id: ID,
            acknowledged: 0,
            object: ObjectId(1),
            payload: Value::from(Vec::new()),
        })
    }

    #[test]
    fn a_call_that_is_refused_or_parked_has_no_large_answer_under_way() {
        let mut answers = AwaitedAnswers::default();
        let large = Outcome::Returned(Value::from(vec![0; 1 << 20]));
        answers.asked(&call());
        answers.answered(&ToClient::Replied {
            id: ID,
            outcome: large,
        });
        let refused = |ask| ToClient::Refused {
            ask,
            refusal: Refusal::Overloaded,
        };
        let ends = [
            refused(Ask::Call(ID)),
            refused(Ask::Request(3)),
            ToClient::Parked { id: ID },
        ];
        for end in ends {
            answers.asked(&call());
            assert_eq!(answers.bytes(), 1 << 20);
            assert!(answers.answered(&end), "{end:?}");
            assert_eq!(answers.bytes(), 0, "after {end:?}");
        }
    }
}
