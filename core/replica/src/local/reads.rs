//! Reads that have no answer yet, and keepalives that share their confirmations.
//!
//! Reads of one level that arrive in one turn form a group: one confirmation, or one mark in the
//! log, opened after all of them had arrived. A group's confirmation is used once.

use crate::limits::{READS_BYTES, READS_WAITING};
use crate::replicated::kept::weight;
use quorate_ordering::ReadId;
use quorate_types::zoo::{Plant, planted};
use quorate_types::{
    Attachment, BroadcastId, ConnectionId, NodeId, ObjectId, Outcome, SessionId, Slot, Time, Value,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A client's read.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) to: ConnectionId,
    pub(crate) request: u64,
    pub(crate) object: ObjectId,
    pub(crate) payload: Value,
}

/// The receiver of the answer to a keepalive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keeper {
    /// A client connected here.
    Client(ConnectionId),
    /// A replica that forwarded it, the number that it gave it, and the connection on which the client sent it.
    Peer(NodeId, u64, Attachment),
    /// The same, of a session whose opening was not applied here when it came: nobody has noted it yet.
    Ahead(NodeId, u64, Attachment),
    /// A replica that asked what this leader knows of signs of life, and the number of its question.
    Asker(NodeId, u64),
}

/// How a group learns its barrier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Way {
    /// A majority confirms the leader.
    Confirmed,
    /// A majority confirms the leader unasked: the client announced this one read to all.
    Announced(BroadcastId),
    /// The leader's lease.
    Lease,
    /// A mark in the log.
    Ordered,
}

/// Reads and keepalives that share one barrier.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) reads: Vec<Read>,
    pub(crate) keepalives: Vec<(SessionId, Keeper)>,
}

/// A group that knows its barrier.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) barrier: Slot,
    /// The time until which answers may be sent, under a lease.
    pub(crate) until: Option<Time>,
    pub(crate) group: Group,
}

/// A read that the objects are answering.
#[derive(Debug)]
pub(crate) struct Query {
    pub(crate) read: Read,
    /// Everything up to here is executed before it.
    pub(crate) slot: Slot,
    /// When the state was last known to be the newest, for reads at level `any`.
    pub(crate) current_at: Option<Time>,
    /// The time until which the answer may be sent, under a lease.
    pub(crate) until: Option<Time>,
    /// The newest slot in the state that it shows that was not decided when it was asked.
    pub(crate) observed: Option<Slot>,
}

/// A read of any state that waits for a slot.
#[derive(Debug)]
struct Held {
    read: Read,
    after: Slot,
    /// It is refused at this time.
    until: Time,
}

/// All reads without an answer.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    last_id: u64,
    /// Groups that grow until the turn ends.
    arriving: BTreeMap<Way, Group>,
    /// Groups whose barrier is being found.
    asked: BTreeMap<ReadId, (Way, Group)>,
    ready: VecDeque<Ready>,
    queries: BTreeMap<ReadId, Query>,
    /// What the objects answered, by the slot whose decision it waits for.
    answered: BTreeMap<(Slot, ReadId), Outcome>,
    /// Bytes of reads that the objects have and that were refused: the host keeps them, so they take their place until it
    /// answers.
    given_up: BTreeMap<ReadId, usize>,
    /// Reads of any state for which this replica is behind what their clients have seen.
    held: VecDeque<Held>,
    /// Connections that ended in this turn: nobody hears the answers to their reads. At most one for each connection.
    gone: BTreeSet<ConnectionId>,
    count: usize,
    /// Of the payloads of reads without an answer, and of the answers that wait.
    bytes: usize,
    keepalives: usize,
}

impl Reads {
    /// Reads whose lease ended while they were answered ask again at the next turn's end: at once. Held reads are refused
    /// in the end.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        let held = self.held.front().map(|held| held.until);
        Time::earlier(held, (!self.arriving.is_empty()).then_some(Time::default()))
    }

    /// The read waits for the slot `after`, until this time.
    pub(crate) fn hold(&mut self, read: Read, after: Slot, until: Time) {
        self.came(&read);
        self.held.push_back(Held { read, after, until });
    }

    /// Takes the reads that wait for `slot` or less, and those that have waited for too long, and says which it is.
    pub(crate) fn take_held(&mut self, slot: Slot, now: Time) -> Vec<(Read, bool)> {
        let mut taken = Vec::new();
        if self.held.is_empty() {
            return taken;
        }
        for held in std::mem::take(&mut self.held) {
            let is_reached = held.after <= slot;
            if is_reached || now >= held.until {
                taken.push((held.read, is_reached));
            } else {
                self.held.push_back(held);
            }
        }
        self.went(taken.iter().map(|(read, _)| read));
        taken
    }

    /// Whether another read may wait.
    pub(crate) fn is_full(&self) -> bool {
        self.count >= READS_WAITING || self.bytes >= READS_BYTES
    }

    /// Reads without an answer.
    pub(crate) fn len(&self) -> usize {
        self.count - self.given_up.len()
    }

    pub(crate) fn arrive(&mut self, way: Way, read: Read) {
        self.came(&read);
        self.arriving.entry(way).or_default().reads.push(read);
    }

    /// Keepalives without a confirmation.
    pub(crate) fn keepalives(&self) -> usize {
        self.keepalives
    }

    pub(crate) fn arrive_keepalive(&mut self, session: SessionId, keeper: Keeper) {
        let group = self.arriving.entry(Way::Confirmed).or_default();
        group.keepalives.push((session, keeper));
        self.keepalives += 1;
    }

    /// A connection ended: its reads take no place from the next turn on, except those that the objects are answering.
    pub(crate) fn disconnected(&mut self, connection: ConnectionId) {
        if self.len() > self.queries.len() {
            self.gone.insert(connection);
        }
    }

    /// Drops the reads of connections that ended. A client without an answer connects and sends its reads again, as often as
    /// it likes, while their barrier waits for a quorum.
    fn drop_gone(&mut self) {
        let gone = std::mem::take(&mut self.gone);
        if gone.is_empty() {
            return;
        }
        let (mut count, mut bytes) = (0, 0);
        let mut is_wanted = |read: &Read| {
            let is_wanted = !gone.contains(&read.to);
            if !is_wanted {
                count += 1;
                bytes += read.payload.len();
            }
            is_wanted
        };
        let arriving = self.arriving.values_mut();
        let asked = self.asked.values_mut().map(|(_, group)| group);
        let ready = self.ready.iter_mut().map(|ready| &mut ready.group);
        for group in arriving.chain(asked).chain(ready) {
            group.reads.retain(&mut is_wanted);
        }
        self.held.retain(|held| is_wanted(&held.read));
        self.count -= count;
        self.bytes -= bytes;
    }

    /// Closes the groups of this turn and names them.
    pub(crate) fn end_turn(&mut self) -> Vec<(ReadId, Way)> {
        self.drop_gone();
        let mut named = Vec::new();
        for (way, group) in std::mem::take(&mut self.arriving) {
            let id = self.fresh_id();
            self.asked.insert(id, (way, group));
            named.push((id, way));
        }
        named
    }

    fn fresh_id(&mut self) -> ReadId {
        self.last_id += 1;
        ReadId(self.last_id)
    }

    /// The group's barrier is known.
    pub(crate) fn confirmed(&mut self, id: ReadId, barrier: Slot, until: Option<Time>) {
        if let Some((_, group)) = self.asked.remove(&id) {
            self.ready.push_back(Ready {
                barrier,
                until,
                group,
            });
        }
    }

    /// The group has no barrier: its reads are refused by the caller, its keepalives dropped.
    pub(crate) fn unconfirmed(&mut self, id: ReadId) -> Vec<Read> {
        let group = self.asked.remove(&id).map(|(_, group)| group);
        let group = group.unwrap_or_default();
        self.went(group.reads.iter());
        self.keepalives -= group.keepalives.len();
        group.reads
    }

    /// Every group whose mark in the log may have been passed unseen.
    pub(crate) fn take_ordered(&mut self) -> Vec<Read> {
        let ids = self
            .asked
            .iter()
            .filter(|(_, (way, _))| *way == Way::Ordered);
        let ids: Vec<_> = ids.map(|(id, _)| *id).collect();
        ids.into_iter()
            .flat_map(|id| self.unconfirmed(id))
            .collect()
    }

    /// Another node leads: it may never fill the slots up to a barrier that its predecessor gave.
    /// Reads that wait for slots above `applied` are confirmed anew, keepalives are dropped.
    pub(crate) fn reask(&mut self, applied: Slot) {
        for ready in std::mem::take(&mut self.ready) {
            if ready.barrier <= applied {
                self.ready.push_back(ready);
                continue;
            }
            self.keepalives -= ready.group.keepalives.len();
            if !ready.group.reads.is_empty() {
                let group = self.arriving.entry(Way::Confirmed).or_default();
                group.reads.extend(ready.group.reads);
            }
        }
    }

    /// Another view is in force after `last`: what was decided in it is not below the barriers that the view before gives. Reads
    /// whose barrier is not below `last`, or not known, are confirmed there; keepalives are dropped.
    pub(crate) fn ask_anew(&mut self, last: Slot) {
        self.reask(last.previous());
        let asked = std::mem::take(&mut self.asked);
        for (id, (way, group)) in asked {
            if way == Way::Ordered {
                self.asked.insert(id, (way, group));
                continue;
            }
            self.keepalives -= group.keepalives.len();
            if !group.reads.is_empty() {
                // What was said of an announced read was said in the view before.
                let way = match way {
                    Way::Announced(_) => Way::Confirmed,
                    Way::Confirmed | Way::Lease | Way::Ordered => way,
                };
                let again = self.arriving.entry(way).or_default();
                again.reads.extend(group.reads);
            }
        }
    }

    /// Takes the next group whose barrier is at or below `slot`.
    pub(crate) fn take_ready(&mut self, slot: Slot) -> Option<Ready> {
        let is_reached = |ready: &Ready| ready.barrier <= slot || planted(Plant::BarrierNotAwaited);
        let place = self.ready.iter().position(is_reached)?;
        let ready = self.ready.remove(place)?;
        self.went(ready.group.reads.iter());
        self.keepalives -= ready.group.keepalives.len();
        Some(ready)
    }

    /// The read goes to the objects, under this name.
    pub(crate) fn query(&mut self, query: Query) -> ReadId {
        self.came(&query.read);
        let id = self.fresh_id();
        self.queries.insert(id, query);
        id
    }

    /// The objects took over the state after `slot`: what they have not answered before shows it.
    pub(crate) fn restored(&mut self, slot: Slot) {
        for query in self.queries.values_mut() {
            query.slot = query.slot.max(slot);
        }
    }

    /// Whether the objects have reads that wait for their answers.
    pub(crate) fn are_queried(&self) -> bool {
        !self.queries.is_empty()
    }

    /// Takes the reads whose barrier is known and not reached; keepalives stay.
    pub(crate) fn take_unreached(&mut self) -> Vec<Read> {
        let ready = self.ready.iter_mut();
        let reads = ready.flat_map(|ready| std::mem::take(&mut ready.group.reads));
        let reads: Vec<Read> = reads.collect();
        self.ready
            .retain(|ready| !ready.group.keepalives.is_empty());
        self.went(reads.iter());
        reads
    }

    /// Takes the reads that the objects have: what they answer later is told to nobody.
    pub(crate) fn give_up_queries(&mut self) -> Vec<Read> {
        let answered = std::mem::take(&mut self.answered);
        let answered = self.take_queries(answered);
        let mut reads: Vec<Read> = (answered.into_iter())
            .map(|(query, _)| query.read)
            .collect();
        for (id, query) in std::mem::take(&mut self.queries) {
            self.given_up.insert(id, query.read.payload.len());
            reads.push(query.read);
        }
        reads
    }

    /// The newest slot that was not decided when this read was asked, of the state that it shows.
    pub(crate) fn observed(&self, id: ReadId) -> Option<Slot> {
        self.queries.get(&id)?.observed
    }

    /// The objects answered, and what they showed is not decided. The answer takes room until it is.
    pub(crate) fn keep_answer(&mut self, id: ReadId, outcome: Outcome) {
        if let Some(slot) = self.observed(id) {
            self.bytes += weight(&outcome);
            self.answered.insert((slot, id), outcome);
        }
    }

    /// Takes the reads that are answered and show nothing from `undecided` on.
    pub(crate) fn take_decided(&mut self, undecided: Option<Slot>) -> Vec<(Query, Outcome)> {
        let rest = match undecided {
            Some(slot) => self.answered.split_off(&(slot, ReadId(0))),
            None => BTreeMap::new(),
        };
        let taken = std::mem::replace(&mut self.answered, rest);
        self.take_queries(taken)
    }

    /// Takes the reads that are answered and show slots after this one.
    pub(crate) fn take_undone(&mut self, after: Slot) -> Vec<Query> {
        let taken = self.answered.split_off(&(after.next(), ReadId(0)));
        let taken = self.take_queries(taken).into_iter();
        taken.map(|(query, _)| query).collect()
    }

    fn take_queries(
        &mut self,
        answered: BTreeMap<(Slot, ReadId), Outcome>,
    ) -> Vec<(Query, Outcome)> {
        let mut taken = Vec::with_capacity(answered.len());
        for ((_, id), outcome) in answered {
            self.bytes -= weight(&outcome);
            let query = self.queries.remove(&id);
            taken.extend(query.map(|query| (query, outcome)));
        }
        self.went(taken.iter().map(|(query, _)| &query.read));
        taken
    }

    /// The objects went back to the state after `after`, which is decided up to a slot, and not decided up to another one: reads
    /// that they have not answered show that.
    pub(crate) fn shows(&mut self, after: Slot, (executed, observed): (Slot, Option<Slot>)) {
        for query in self.queries.values_mut() {
            if query.observed.is_some_and(|slot| slot > after) {
                query.slot = query.slot.max(executed);
                query.observed = observed;
            }
        }
    }

    /// The objects answered; `None` for a read that was given up.
    pub(crate) fn queried(&mut self, id: ReadId) -> Option<Query> {
        if let Some(bytes) = self.given_up.remove(&id) {
            self.count -= 1;
            self.bytes -= bytes;
            return None;
        }
        let query = self.queries.remove(&id)?;
        self.went([&query.read].into_iter());
        Some(query)
    }

    fn came(&mut self, read: &Read) {
        self.count += 1;
        self.bytes += read.payload.len();
    }

    fn went<'a>(&mut self, reads: impl Iterator<Item = &'a Read>) {
        for read in reads {
            self.count -= 1;
            self.bytes -= read.payload.len();
        }
    }

    pub(crate) fn check(&self) {
        let groups = self
            .arriving
            .values()
            .chain(self.asked.values().map(|asked| &asked.1));
        let groups = groups.chain(self.ready.iter().map(|ready| &ready.group));
        let grouped = groups.flat_map(|group| &group.reads);
        let held = self.held.iter().map(|held| &held.read);
        let queries = self.queries.values().map(|query| &query.read);
        let waiting = grouped.chain(held).chain(queries);
        let payloads = waiting.map(|read| read.payload.len());
        let given_up = self.given_up.values();
        assert_eq!(payloads.clone().count() + given_up.len(), self.count);
        let answers = self.answered.values().map(weight);
        let bytes = payloads.sum::<usize>() + given_up.sum::<usize>() + answers.sum::<usize>();
        assert_eq!(bytes, self.bytes);
        let kept = |(slot, id): &(Slot, ReadId)| self.observed(*id) == Some(*slot);
        assert!(self.answered.keys().all(kept));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(reads: &mut Reads, request: u64, observed: Slot) -> ReadId {
        let read = Read {
            to: ConnectionId(1),
            request,
            object: ObjectId(1),
            payload: Value::default(),
        };
        reads.query(Query {
            read,
            slot: Slot(1),
            current_at: None,
            until: None,
            observed: Some(observed),
        })
    }

    fn told(bytes: usize) -> Outcome {
        Outcome::Returned(Value::from(vec![0; bytes]))
    }

    #[test]
    fn an_answer_that_waits_for_a_decision_takes_room() {
        let mut reads = Reads::default();
        let id = asked(&mut reads, 1, Slot(2));
        reads.keep_answer(id, told(READS_BYTES));
        reads.check();
        assert!(reads.is_full());
        assert_eq!(reads.take_decided(None).len(), 1);
        reads.check();
        assert!(!reads.is_full());
    }

    #[test]
    fn answers_leave_when_what_they_show_is_decided_or_undone() {
        let mut reads = Reads::default();
        for slot in 2..=4 {
            let id = asked(&mut reads, slot, Slot(slot));
            reads.keep_answer(id, told(1));
        }
        let requests = |taken: &[(Query, Outcome)]| -> Vec<u64> {
            taken.iter().map(|(query, _)| query.read.request).collect()
        };
        assert_eq!(requests(&reads.take_decided(Some(Slot(3)))), [2]);
        let undone = reads.take_undone(Slot(3));
        assert_eq!(undone.len(), 1);
        assert_eq!(undone[0].read.request, 4);
        assert_eq!(requests(&reads.take_decided(None)), [3]);
        reads.check();
    }

    #[test]
    fn a_read_that_is_given_up_with_its_answer_takes_no_room() {
        let mut reads = Reads::default();
        let id = asked(&mut reads, 1, Slot(2));
        reads.keep_answer(id, told(READS_BYTES));
        assert_eq!(reads.give_up_queries().len(), 1);
        reads.check();
        assert!(!reads.is_full());
        assert!(reads.take_decided(None).is_empty());
    }
}
