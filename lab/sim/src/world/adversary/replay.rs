//! A replica applies the log that the orderings of a run decided, as if it had been down all the time.
//!
//! Three leaders within one pipeline leave logs that hardly any run of whole nodes has: a slot of an older leader, stamped
//! by its clock, stands before one that was chosen with less. What replicas make of such a log is judged here.

use super::Adversary;
use quorate_any::AnyMessage;
use quorate_ordering::{
    Decision, Effect, Effects, Event, MulticastStatus, Ordering, OrderingStatus, Record, Role,
    Standing, ViewPast,
};
use quorate_replica::{Input, Output, Remembered, Replica, ReplicaConfig};
use quorate_types::{
    Ballot, Batch, Body, Command, CommandId, NodeId, Outcome, Secret, SecretHash, SessionId,
    SessionTerms, Slot, SlotResults, Stamp, Time, Value, View, ViewId, Wall,
};
use std::vec;

/// Who applies the log.
const LATE: NodeId = NodeId(1);

/// The session of all commands: the replayed log begins with its opening.
pub(super) fn session() -> SessionId {
    SessionId::opened_at(Slot(1), 0)
}

/// Decides a given log, a slot a turn.
struct Given {
    view: ViewId,
    decided: Slot,
    left: vec::IntoIter<Batch>,
}

impl Ordering for Given {
    type Message = AnyMessage;

    fn view(&self) -> ViewId {
        self.view
    }

    fn statement(&self) -> Vec<Record> {
        Vec::new()
    }

    fn of_view(&self, _now: Time, _view: View, _standing: Standing, _past: ViewPast) -> Given {
        unreachable!("the log that is replayed changes no view")
    }

    fn gone(_message: &AnyMessage, _upto: Slot) -> Option<AnyMessage> {
        None
    }

    fn handle(&mut self, _now: Time, event: Event<AnyMessage>, effects: &mut Effects<AnyMessage>) {
        if !matches!(event, Event::TurnEnd { .. }) {
            return;
        }
        if let Some(batch) = self.left.next() {
            self.decided = self.decided.next();
            effects.push(Effect::Decide {
                slot: self.decided,
                decision: Decision::Batch(batch),
            });
        }
    }

    fn next_wake(&self) -> Option<Time> {
        None
    }

    fn status(&self) -> OrderingStatus {
        OrderingStatus {
            role: Role::Follower { leader: None },
            promised: Ballot::ZERO,
            decided: self.decided,
            known: self.decided,
            voted: self.decided,
            trimmed: Slot::ZERO,
            window_left: 0,
            waiting: 0,
            votes: true,
            held_bytes: 0,
            elections: 0,
            foreign: 0,
            spared: 0,
            suspicions: 0,
            deferred: 0,
            multicast: MulticastStatus::default(),
            rounds: None,
            peers: Vec::new(),
        }
    }

    fn check(&self) {}
}

impl Adversary {
    /// A replica applies all that was decided: it executes with rising time.
    pub(super) fn replay(&mut self) {
        let mut batches = vec![opening()];
        let mut slot = Slot(1);
        while let Some(batch) = self.judge.decided_batch(slot) {
            batches.push(batch.clone());
            slot = slot.next();
        }
        let turns = batches.len();
        let ordering = Given {
            view: self.view,
            decided: Slot::ZERO,
            left: batches.into_iter(),
        };
        let config = ReplicaConfig::new(LATE, 1, self.setup.view());
        let now = self.now.as_time();
        let (mut replica, _) = Replica::new(config, ordering, Remembered::default(), now);
        self.judge.begun_at(LATE, Slot::ZERO);
        let mut inputs = Vec::new();
        for _ in 0..=turns {
            let mut outputs = Vec::new();
            for input in std::mem::take(&mut inputs) {
                replica.handle(now, input, &mut outputs);
            }
            let (wall, entropy) = (Wall(now.0), 0);
            replica.handle(now, Input::TurnEnd { wall, entropy }, &mut outputs);
            for output in outputs {
                if let Output::Execute { slot, stamp, steps } = output {
                    let steps = steps.to_vec();
                    let results =
                        SlotResults::from(vec![Outcome::Returned(Value::new()); steps.len()]);
                    let judged = self.judge.executed(LATE, slot, stamp, &steps, &results);
                    self.judged(judged);
                    inputs.push(Input::Executed { slot, results });
                }
            }
        }
    }
}

/// A session for the commands.
fn opening() -> Batch {
    let id = CommandId {
        session: SessionId(0),
        sequence: 1,
    };
    let hash = Secret::new([1; 16]).hash();
    let open = Command {
        id,
        acknowledged: 0,
        body: Body::Open {
            hash,
            terms: SessionTerms::default(),
            tenant: SecretHash::default(),
        },
    };
    let stamp = Stamp {
        wall: Wall(1),
        entropy: 0,
    };
    Batch::new(stamp, vec![open])
}
