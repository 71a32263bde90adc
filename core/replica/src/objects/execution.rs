//! The exchange with the objects: calls and queries out, outcomes and answers back.

use crate::limits::{BEHIND_MAX, HOST_DOWN_MAX, KEEPALIVES_WAITING};
use crate::local::clients::{refuse, reply};
use crate::local::reads::{Query, Read, Ready, Way};
use crate::objects::pipeline::{Calls, Work};
use crate::replicated::sessions;
use crate::{Output, Replica};
use quorate_ordering::{Event, Ordering, ReadId};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{
    Ask, Body, CommandId, Duration, Outcome, ReadLevel, Refusal, Slot, SlotCalls, Time, ToClient,
};

impl<O: Ordering> Replica<O> {
    /// Sends the objects as many calls as they may hold, then the queries that this makes possible.
    pub(crate) fn hand_out(&mut self, now: Time, out: &mut Vec<Output<O::Message>>) {
        let barred = self.own_poison.barred();
        self.pipeline.bar(barred.filter(|_| self.is_replica()));
        while let Some(work) = self.pipeline.next() {
            match work {
                Work::Calls(calls) if self.is_replica() => self.execute(calls, out),
                Work::Calls(calls) => self.pass(&calls),
                Work::Snapshot(slot) => out.push(Output::TakeSnapshot { slot }),
            }
        }
        self.try_finish_snapshot(out);
        let handed = self.pipeline.handed_out(self.replicated.applied);
        while let Some(ready) = self.reads.take_ready(handed) {
            self.answer_group(now, ready, out);
        }
        self.tend_held(now, out);
        self.refuse_unserved(now, out);
    }

    /// Refuses reads that wait for objects which may never go on, so that clients ask another node: its answered keepalives
    /// hide from them that nothing else is answered. What a working host has is answered, and one that ended may start
    /// again soon.
    fn refuse_unserved(&mut self, now: Time, out: &mut Vec<Output<O::Message>>) {
        if self.serves_objects().is_ok() {
            return;
        }
        let mut reads = self.reads.take_unreached();
        let is_overdue = self.host_given_up_at().is_some_and(|due| due <= now);
        if self.host_down_at.is_some() && (is_overdue || self.own_poison.is_down()) {
            reads.extend(self.reads.give_up_queries());
        }
        for read in reads {
            let ask = Ask::Request(read.request);
            refuse(out, read.to, ask, Refusal::NotServing);
        }
    }

    /// When reads that a host has which does not work are refused, if there are any.
    pub(crate) fn host_given_up_at(&self) -> Option<Time> {
        let down_at = self.host_down_at.filter(|_| self.reads.are_queried());
        down_at.map(|at| at + HOST_DOWN_MAX)
    }

    fn execute(&mut self, calls: Calls, out: &mut Vec<Output<O::Message>>) {
        let skipped = calls.skipped.iter();
        for &index in skipped.filter(|_| !planted(Plant::SkipNotHandedOut)) {
            let slot = calls.slot;
            out.push(Output::Skip { slot, index });
        }
        out.push(Output::Execute {
            slot: calls.slot,
            stamp: calls.stamp,
            calls: SlotCalls::of_batch(calls.batch.clone(), calls.admitted.clone()),
        });
        self.pipeline.hand(calls);
    }

    /// A node without objects keeps no replies; it records only that the calls were executed.
    fn pass(&mut self, calls: &Calls) {
        for &index in &calls.admitted {
            let id = calls.batch.commands()[index as usize].id;
            if let Some(session) = self.replicated.sessions.session_mut(id.session) {
                session.record(id.sequence, None);
            }
        }
    }

    /// The objects executed a slot: keeps the replies, answers the callers that wait, and sends more calls.
    pub(crate) fn executed(
        &mut self,
        slot: Slot,
        outcomes: Vec<Outcome>,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let Some(calls) = self.pipeline.finish(slot) else {
            return;
        };
        assert_eq!(
            outcomes.len(),
            calls.admitted.len(),
            "one outcome for each call"
        );
        self.pipeline
            .outcomes
            .fold(slot, &calls.admitted, &outcomes);
        if let Some(frozen) = self.checkpoints.frozen_table(slot) {
            let commands = calls.batch.commands();
            for (&index, outcome) in calls.admitted.iter().zip(&outcomes) {
                let id = commands[index as usize].id;
                sessions::record(frozen, id.session, id.sequence, Some(outcome.clone()));
            }
        }
        let dropped = self.keep_replies(&calls, &outcomes);
        self.record(&calls, outcomes, out);
        for id in dropped {
            if let Some(frozen) = self.checkpoints.frozen_table(slot) {
                sessions::drop_reply(frozen, id);
            }
            if let Some(session) = self.replicated.sessions.session_mut(id.session) {
                session.drop_reply(id.sequence);
            }
        }
    }

    /// Counts the replies of a slot. Returns those for which there is no more room.
    fn keep_replies(&mut self, calls: &Calls, outcomes: &[Outcome]) -> Vec<CommandId> {
        let kept = &mut self.replicated.kept;
        for freed in &calls.freed_before {
            kept.free(*freed);
        }
        let commands = calls.batch.commands();
        let mut dropped = Vec::new();
        for (&index, outcome) in calls.admitted.iter().zip(outcomes) {
            dropped.extend(kept.keep(commands[index as usize].id, outcome));
        }
        for freed in &calls.freed {
            kept.free(*freed);
        }
        dropped
    }

    fn record(&mut self, calls: &Calls, outcomes: Vec<Outcome>, out: &mut Vec<Output<O::Message>>) {
        let commands = calls.batch.commands();
        let is_served = !self.quarantine.is_set();
        let mut outcomes = outcomes.into_iter();
        let mut at = 0;
        while at < calls.admitted.len() {
            let id = commands[calls.admitted[at] as usize].id.session;
            let mut session = self.replicated.sessions.session_mut(id);
            let mut line = self.waiting.line(id).filter(|_| is_served);
            while let Some(&index) = calls.admitted.get(at)
                && commands[index as usize].id.session == id
            {
                let outcome = outcomes.next().expect("counted by the caller");
                let command = commands[index as usize].id;
                let is_lost = planted(Plant::SkipLosesReply) && outcome == Outcome::Skipped;
                if let Some(line) = line.as_mut().filter(|_| !is_lost) {
                    let print = session
                        .as_ref()
                        .and_then(|session| session.print(command.sequence));
                    answer(line, command, print, &outcome, out);
                }
                if let Some(session) = &mut session {
                    session.record(command.sequence, Some(outcome).filter(|_| !is_lost));
                }
                at += 1;
            }
            if line.is_some() {
                self.waiting.landed(id, 0);
            }
        }
    }

    /// Accepts a client's read, or returns its refusal. A read of any state waits a little for the slot `after`.
    pub(crate) fn read(
        &mut self,
        now: Time,
        read: Read,
        level: ReadLevel,
        after: Slot,
        out: &mut Vec<Output<O::Message>>,
    ) -> Result<(), Refusal> {
        self.serves_objects()?;
        self.admits_request(read.object, &read.payload)?;
        if self.reads.is_full() || self.pipeline.is_behind() {
            return Err(Refusal::Overloaded);
        }
        match level {
            ReadLevel::Confirmed => self.reads.arrive(Way::Confirmed, read),
            ReadLevel::Lease => self.reads.arrive(Way::Lease, read),
            ReadLevel::Ordered if !self.can_order() => return Err(Refusal::StorageFull),
            ReadLevel::Ordered if self.is_log_full() => return Err(Refusal::Overloaded),
            ReadLevel::Ordered => self.reads.arrive(Way::Ordered, read),
            ReadLevel::Any | ReadLevel::Loose => {
                let slot = self.pipeline.handed_out(self.replicated.applied);
                if slot < after && !planted(Plant::AnyGoesBack) {
                    self.reads.hold(read, after, now + BEHIND_MAX);
                } else {
                    self.read_any(read, slot, out);
                }
            }
        }
        Ok(())
    }

    /// Reads the state of this replica, if its age is known.
    fn read_any(&mut self, read: Read, slot: Slot, out: &mut Vec<Output<O::Message>>) {
        let current_at = self.currency.since(slot);
        if self.serves_objects().is_err() || current_at.is_none() {
            let ask = Ask::Request(read.request);
            return refuse(out, read.to, ask, Refusal::NotServing);
        }
        let query = Query {
            slot,
            current_at,
            until: None,
            read,
        };
        self.query(query, out);
    }

    /// Answers the reads whose clients had seen more than this replica, once it has that, and refuses those that have
    /// waited for too long.
    fn tend_held(&mut self, now: Time, out: &mut Vec<Output<O::Message>>) {
        let slot = self.pipeline.handed_out(self.replicated.applied);
        for (read, is_reached) in self.reads.take_held(slot, now) {
            if is_reached {
                self.read_any(read, slot, out);
            } else {
                refuse(out, read.to, Ask::Request(read.request), Refusal::Behind);
            }
        }
    }

    fn query(&mut self, query: Query, out: &mut Vec<Output<O::Message>>) {
        let (object, payload) = (query.read.object, query.read.payload.clone());
        let read = self.reads.query(query);
        out.push(Output::Query {
            read,
            object,
            payload,
        });
    }

    /// Opens the confirmation or the mark of each group of reads that arrived in this turn.
    pub(crate) fn ask_for_reads(&mut self, now: Time, out: &mut Vec<Output<O::Message>>) {
        for (id, way) in self.reads.end_turn() {
            match way {
                Way::Confirmed => self.order(now, Event::Read { id, lease: false }, out),
                Way::Lease => self.order(now, Event::Read { id, lease: true }, out),
                Way::Ordered => {
                    let body = Body::Read {
                        reader: self.config.own,
                        boot: self.config.boot,
                    };
                    self.submit(crate::local::internal::Purpose::Read(id), body);
                }
            }
        }
    }

    /// No barrier was found for a group of reads: refuses them, so that clients try again or elsewhere.
    pub(crate) fn unconfirmed(&mut self, id: ReadId, out: &mut Vec<Output<O::Message>>) {
        let refusal = match self.leader() {
            Some(_) => Refusal::NotOrdered,
            None => Refusal::NoLeader,
        };
        for read in self.reads.unconfirmed(id) {
            refuse(out, read.to, Ask::Request(read.request), refusal);
        }
    }

    fn answer_group(&mut self, now: Time, ready: Ready, out: &mut Vec<Output<O::Message>>) {
        let Ready {
            barrier,
            until,
            group,
        } = ready;
        for (session, keeper) in group.keepalives {
            self.keepalive_confirmed(session, keeper, out);
        }
        let is_served = self.serves_objects().is_ok();
        let slot = self
            .pipeline
            .handed_out(self.replicated.applied)
            .max(barrier);
        for read in group.reads {
            if !is_served {
                refuse(
                    out,
                    read.to,
                    Ask::Request(read.request),
                    Refusal::NotServing,
                );
            } else if until.is_some_and(|until| now >= until) {
                self.reads.arrive(Way::Confirmed, read);
            } else {
                let query = Query {
                    read,
                    slot,
                    current_at: None,
                    until,
                };
                self.query(query, out);
            }
        }
    }

    /// The objects answered a read. Under a lease the clock is checked again after the value was read, so
    /// that a node that was stopped in between gives no stale answer.
    pub(crate) fn queried(
        &mut self,
        now: Time,
        id: ReadId,
        outcome: Outcome,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let Some(query) = self.reads.queried(id) else {
            return;
        };
        let read = query.read;
        if self.quarantine.is_set() {
            refuse(
                out,
                read.to,
                Ask::Request(read.request),
                Refusal::NotServing,
            );
        } else if query.until.is_some_and(|until| now >= until)
            && !planted(Plant::LeaseNotRechecked)
        {
            self.reads.arrive(Way::Confirmed, read);
        } else {
            let current_at = query.current_at;
            let message = ToClient::Read {
                request: read.request,
                slot: query.slot,
                age: current_at.map_or(Duration::ZERO, |at| now.since(at)),
                outcome,
            };
            reply(out, read.to, message);
        }
    }

    /// Whether another keepalive may wait for its confirmation.
    pub(crate) fn has_room_for_keepalive(&self) -> bool {
        self.reads.keepalives() < KEEPALIVES_WAITING
    }
}

/// Sends the outcome of a command to the callers that wait. Without a fingerprint the client has
/// acknowledged the command; callers that still wait get the outcome all the same.
fn answer<M>(
    line: &mut crate::local::waiting::Line,
    id: CommandId,
    print: Option<u64>,
    outcome: &Outcome,
    out: &mut Vec<Output<M>>,
) {
    let mut tell = |to| {
        let outcome = outcome.clone();
        reply(out, to, ToClient::Replied { id, outcome });
    };
    match print {
        Some(print) => line.answer(id.sequence, print, &mut tell),
        None => line.give_up(id.sequence, &mut tell),
    }
}
