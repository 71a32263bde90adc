//! The exchange with the objects: calls and queries out, outcomes and answers back.

use crate::limits::{BEHIND_MAX, HOST_DOWN_MAX, KEEPALIVES_WAITING};
use crate::local::clients::{refuse, reply};
use crate::local::reads::{Query, Read, Ready, Way};
use crate::objects::pipeline::{Calls, Work};
use crate::{Output, Replica};
use quorate_ordering::{Event, Ordering, ReadId};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{
    Ask, Body, BroadcastId, Duration, Outcome, ReadLevel, Refusal, Slot, SlotSteps, Time, ToClient,
};

impl<O: Ordering> Replica<O> {
    /// Sends the objects as many calls as they may hold, then the queries that this makes possible.
    pub(crate) fn hand_out(&mut self, now: Time, out: &mut Vec<Output<O::Message>>) {
        let barred = self.own_poison.barred();
        self.pipeline.bar(barred.filter(|_| self.is_replica()));
        while let Some(work) = self.next_work(now, out) {
            match work {
                Work::Calls(calls) if self.is_replica() => {
                    if let Some(calls) = self.not_ahead(now, calls, out) {
                        self.execute(calls, out);
                    }
                }
                Work::Calls(calls) => self.pass(&calls),
                Work::Snapshot(slot) => out.push(Output::TakeSnapshot { slot }),
            }
        }
        self.try_finish_snapshot(now, out);
        let handed = self.pipeline.handed_out(self.replicated.applied);
        while let Some(ready) = self.reads.take_ready(handed) {
            self.answer_group(now, ready, out);
        }
        self.tend_held(now, out);
        self.refuse_unserved(now, out);
        self.speculate(now, out);
        self.time_objects(now);
    }

    /// Refuses parked calls, and reads that wait for objects which may never go on, so that clients ask another node: its answered keepalives
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
        for (id, to) in self.waiting.take_parked() {
            refuse(out, to, Ask::Call(id), Refusal::NotServing);
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
            steps: SlotSteps::of_batch(calls.batch.clone(), calls.admitted.clone()),
        });
        self.pipeline.hand(calls);
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
            // Without a name no other node has heard of it.
            ReadLevel::Confirmed | ReadLevel::Broadcast => {
                self.reads.arrive(Way::Confirmed, read);
            }
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

    /// Accepts a read that its client announces to all nodes, or returns its refusal.
    pub(crate) fn read_announced(&mut self, read: Read, name: BroadcastId) -> Result<(), Refusal> {
        self.serves_objects()?;
        self.admits_request(read.object, &read.payload)?;
        if self.reads.is_full() || self.pipeline.is_behind() {
            return Err(Refusal::Overloaded);
        }
        self.reads.arrive(Way::Announced(name), read);
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
            observed: None,
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

    fn query(&mut self, mut query: Query, out: &mut Vec<Output<O::Message>>) {
        query.observed = self.speculation.observed();
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
                Way::Announced(read) => {
                    self.order(now, Event::ReadAnnounced { id, read }, out);
                }
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
            self.keepalive_confirmed(now, session, keeper, out);
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
                    observed: None,
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
        let observed = self.reads.observed(id);
        if observed.is_some_and(|slot| self.speculation.is_undone(slot)) {
            if let Some(query) = self.reads.queried(id) {
                self.ask_again(query, out);
            }
        } else if observed.is_some_and(|slot| !self.speculation.is_decided(slot))
            && !planted(Plant::TentativeStateRead)
        {
            self.reads.keep_answer(id, outcome);
        } else if let Some(query) = self.reads.queried(id) {
            self.answer_query(now, query, outcome, out);
        }
    }

    /// Answers the reads whose state is decided by now.
    pub(crate) fn answer_observed(&mut self, now: Time, out: &mut Vec<Output<O::Message>>) {
        let answered = self.reads.take_decided(self.speculation.undecided());
        for (query, outcome) in answered {
            self.answer_query(now, query, outcome, out);
        }
    }

    /// Asks again what was read of a state that is undone after `after`.
    pub(crate) fn ask_undone(&mut self, after: Slot, out: &mut Vec<Output<O::Message>>) {
        for query in self.reads.take_undone(after) {
            self.ask_again(query, out);
        }
    }

    /// It showed a state that is undone: it shows the one to which the objects go back.
    fn ask_again(&mut self, query: Query, out: &mut Vec<Output<O::Message>>) {
        let executed = self.pipeline.handed_out(self.replicated.applied);
        let slot = query.slot.max(executed);
        self.query(Query { slot, ..query }, out);
    }

    fn answer_query(
        &mut self,
        now: Time,
        query: Query,
        outcome: Outcome,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let slot = query.slot.max(query.observed.unwrap_or_default());
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
                slot,
                age: current_at.map_or(Duration::ZERO, |at| now.since(at)),
                outcome,
            };
            reply(out, read.to, message);
        }
    }

    /// Whether another keepalive may wait for its confirmation.
    pub(crate) fn has_room_for_keepalive(&self) -> bool {
        self.reads.keepalives() < KEEPALIVES_WAITING && !self.expiry.is_noting_full()
    }
}
