//! How long calls take on their way through this node: histograms for `/metrics`.
//!
//! The loop notes when a call of a client arrives, is decided, is executed and is answered; the log's thread notes its commits. It
//! changes nothing. Read by the admin port.

use crate::limits::{TIMED_CALLS, TIMED_EVERY, TIMED_SLOTS};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use quorate_replica::Output;
use quorate_storage::CommitTook;
use quorate_types::{Ask, CommandId, FromClient, Slot, SlotSteps, Time, ToClient};
use std::collections::{HashMap, VecDeque};

/// The histograms. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Histograms {
    sync: Histogram,
    sync_requests: Histogram,
    commit: Histogram,
    execute: Histogram,
    reply: Histogram,
    batch: Histogram,
}

impl Histograms {
    pub(crate) fn new() -> Histograms {
        // 50 microseconds to 13 seconds.
        let spans = || Histogram::new(exponential_buckets(0.000_05, 2.0, 19));
        let sizes = || Histogram::new(exponential_buckets(1.0, 2.0, 13));
        Histograms {
            sync: spans(),
            sync_requests: sizes(),
            commit: spans(),
            execute: spans(),
            reply: spans(),
            batch: sizes(),
        }
    }

    /// The log has committed.
    pub(crate) fn synced(&self, took: CommitTook) {
        self.sync.observe(took.span.as_secs_f64());
        self.sync_requests.observe(took.requests as f64);
    }

    /// Adds them to what `/metrics` shows.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let spans = [
            (
                "log_sync",
                "Time to write one commit of the log and sync it",
                &self.sync,
            ),
            (
                "commit",
                "Time from a client's call to its decision",
                &self.commit,
            ),
            (
                "execute",
                "Time from when the objects get a slot, at its decision or ahead of that, to the end of its calls",
                &self.execute,
            ),
            (
                "reply",
                "Time from a client's call to its answer",
                &self.reply,
            ),
        ];
        for (name, help, histogram) in spans {
            registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
        }
        let sizes = [
            (
                "log_sync_requests",
                "Requests in one commit of the log",
                &self.sync_requests,
            ),
            ("batch_calls", "Calls in one decided slot", &self.batch),
        ];
        for (name, help, histogram) in sizes {
            registry.register(name, help, histogram.clone());
        }
    }
}

/// What the loop knows of the calls under way.
#[derive(Debug)]
pub(crate) struct Timings {
    histograms: Histograms,
    /// When calls of clients here arrived, of those that are timed. At most `TIMED_CALLS`.
    arrived: HashMap<CommandId, Time>,
    /// Slots that the objects have before they are decided, their steps, and the calls that are timed. At most `TIMED_CALLS`.
    ahead: VecDeque<(Slot, usize, Vec<CommandId>)>,
    /// Slots whose calls the objects have, and since when. At most `TIMED_CALLS`.
    executing: VecDeque<(Slot, Time)>,
}

impl Timings {
    pub(crate) fn new(histograms: Histograms) -> Timings {
        Timings {
            histograms,
            arrived: HashMap::new(),
            ahead: VecDeque::new(),
            executing: VecDeque::new(),
        }
    }

    /// A client has sent this. A call that is sent again counts from the first time.
    pub(crate) fn arrived(&mut self, now: Time, message: &FromClient) {
        let FromClient::Call { id, .. } = message else {
            return;
        };
        if !is_timed(*id) {
            return;
        }
        if self.arrived.len() >= TIMED_CALLS {
            // Most of them belong to clients that went away without an answer.
            self.arrived.clear();
        }
        self.arrived.entry(*id).or_insert(now);
    }

    /// The replica has put this out.
    pub(crate) fn put_out<M>(&mut self, now: Time, output: &Output<M>) {
        match output {
            Output::Execute { slot, steps, .. } => {
                let calls = self.timed_calls(steps);
                self.decided(now, &calls);
                self.counted(*slot, steps.len());
                self.begun(now, *slot);
            }
            Output::Speculate { slot, steps, .. } => {
                if self.ahead.len() < TIMED_CALLS {
                    let ahead = (*slot, steps.len(), self.timed_calls(steps));
                    self.ahead.push_back(ahead);
                }
                self.begun(now, *slot);
            }
            Output::Confirm { slot } => {
                while self.ahead.front().is_some_and(|(at, ..)| at <= slot)
                    && let Some((at, count, calls)) = self.ahead.pop_front()
                {
                    self.decided(now, &calls);
                    self.counted(at, count);
                }
            }
            Output::Undo { after } => {
                self.ahead.retain(|(slot, ..)| slot <= after);
                self.executing.retain(|(slot, _)| slot <= after);
            }
            Output::Reply { message, .. } => self.answered(now, message),
            _ => {}
        }
    }

    /// The calls among them whose arrival is known.
    fn timed_calls(&self, steps: &SlotSteps) -> Vec<CommandId> {
        // A node without clients has nothing to look for.
        if self.arrived.is_empty() {
            return Vec::new();
        }
        let ids = steps.iter().filter_map(|step| Some(step.call()?.id));
        ids.filter(|id| is_timed(*id) && self.arrived.contains_key(id))
            .collect()
    }

    fn decided(&mut self, now: Time, calls: &[CommandId]) {
        for since in calls.iter().filter_map(|id| self.arrived.get(id)) {
            self.histograms.commit.observe(seconds(now, *since));
        }
    }

    /// A slot is decided with so many steps.
    fn counted(&mut self, slot: Slot, steps: usize) {
        if slot.0.is_multiple_of(TIMED_SLOTS) {
            self.histograms.batch.observe(steps as f64);
        }
    }

    /// The objects get the steps of a slot.
    fn begun(&mut self, now: Time, slot: Slot) {
        if slot.0.is_multiple_of(TIMED_SLOTS) && self.executing.len() < TIMED_CALLS {
            self.executing.push_back((slot, now));
        }
    }

    fn answered(&mut self, now: Time, message: &ToClient) {
        if let ToClient::Replied { id, .. } | ToClient::Confirmed { id } = message
            && is_timed(*id)
            && let Some(since) = self.arrived.remove(id)
        {
            self.histograms.reply.observe(seconds(now, since));
        }
        if let ToClient::Refused {
            ask: Ask::Call(id), ..
        } = message
        {
            self.arrived.remove(id);
        }
    }

    /// The objects have executed the calls up to `slot`.
    pub(crate) fn executed(&mut self, now: Time, slot: Slot) {
        while let Some((at, since)) = self.executing.front().copied()
            && at <= slot
        {
            self.executing.pop_front();
            self.histograms.execute.observe(seconds(now, since));
        }
    }
}

fn is_timed(id: CommandId) -> bool {
    id.sequence.is_multiple_of(TIMED_EVERY)
}

fn seconds(now: Time, since: Time) -> f64 {
    now.since(since).0 as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::{ConnectionId, ObjectId, Outcome, SessionId, Value};

    const ID: CommandId = CommandId {
        session: SessionId(9),
        sequence: TIMED_EVERY,
    };

    fn text(histograms: &Histograms) -> String {
        let mut registry = Registry::default();
        histograms.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn a_call_is_timed_from_its_arrival_to_its_answer_once() {
        let histograms = Histograms::new();
        let mut timings = Timings::new(histograms.clone());
        let call = FromClient::Call {
            id: ID,
            acknowledged: 0,
            object: ObjectId(0),
            payload: Value::new(),
        };
        timings.arrived(Time(0), &call);
        timings.arrived(Time(5_000_000), &call);
        let execute: Output<()> = Output::Execute {
            slot: Slot(TIMED_SLOTS),
            stamp: quorate_types::Stamp::default(),
            steps: steps(),
        };
        timings.put_out(Time(250_000_000), &execute);
        timings.executed(Time(500_000_000), Slot(TIMED_SLOTS));
        let reply: Output<()> = Output::Reply {
            to: ConnectionId::default(),
            message: ToClient::Replied {
                id: ID,
                outcome: Outcome::Skipped,
            },
        };
        timings.put_out(Time(1_000_000_000), &reply);
        timings.put_out(Time(2_000_000_000), &reply);
        let text = text(&histograms);
        for line in [
            "commit_seconds_sum 0.25",
            "execute_seconds_sum 0.25",
            "reply_seconds_sum 1.0",
            "reply_seconds_count 1",
            "batch_calls_sum 1.0",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }

    fn steps() -> SlotSteps {
        SlotSteps::from(vec![quorate_types::Call {
            index: 0,
            id: ID,
            object: ObjectId(0),
            payload: Value::new(),
        }])
    }

    /// What is undone counts as if it had not been begun.
    #[test]
    fn a_slot_that_is_executed_ahead_is_timed_from_then_and_its_calls_to_their_decision() {
        let histograms = Histograms::new();
        let mut timings = Timings::new(histograms.clone());
        let call = FromClient::Call {
            id: ID,
            acknowledged: 0,
            object: ObjectId(0),
            payload: Value::new(),
        };
        timings.arrived(Time(0), &call);
        let slot = Slot(TIMED_SLOTS);
        let speculate: Output<()> = Output::Speculate {
            slot,
            stamp: quorate_types::Stamp::default(),
            steps: steps(),
        };
        timings.put_out(Time(250_000_000), &speculate);
        let after = slot.previous();
        timings.put_out(Time(260_000_000), &Output::<()>::Undo { after });
        timings.put_out(Time(500_000_000), &speculate);
        timings.executed(Time(750_000_000), slot);
        let tell = |message| Output::<()>::Reply {
            to: ConnectionId::default(),
            message,
        };
        let (id, value) = (ID, Value::new());
        let early = tell(ToClient::Tentative { id, value });
        timings.put_out(Time(800_000_000), &early);
        timings.put_out(Time(1_000_000_000), &Output::<()>::Confirm { slot });
        let confirmed = tell(ToClient::Confirmed { id });
        timings.put_out(Time(1_000_000_000), &confirmed);
        let text = text(&histograms);
        for line in [
            "reply_seconds_sum 1.0",
            "commit_seconds_sum 1.0",
            "execute_seconds_sum 0.25",
            "execute_seconds_count 1",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }

    /// "Calls in one decided slot": one that is undone is none, and one that is executed twice is one.
    #[test]
    fn a_slot_counts_among_the_decided_ones_once_it_is_decided() {
        let histograms = Histograms::new();
        let mut timings = Timings::new(histograms.clone());
        let slot = Slot(TIMED_SLOTS);
        let speculate: Output<()> = Output::Speculate {
            slot,
            stamp: quorate_types::Stamp::default(),
            steps: steps(),
        };
        timings.put_out(Time(1), &speculate);
        let after = slot.previous();
        timings.put_out(Time(2), &Output::<()>::Undo { after });
        timings.put_out(Time(3), &speculate);
        timings.put_out(Time(4), &Output::<()>::Confirm { slot });
        let text = text(&histograms);
        assert!(text.contains("batch_calls_count 1"), "{text}");
    }
}
