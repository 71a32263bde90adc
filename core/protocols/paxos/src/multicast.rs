//! Values that a leader multicasts, while only the ids of its proposals go along the ring. High Performance State-Machine Replication 3.1
//! (Ring Paxos), claims mp-80 to mp-84.
//!
//! Nothing here waits for a datagram for ever, and none counts for anything: a value is taken for the proposal that names it, by ballot
//! and slot, and a node votes and passes the id on when it holds the value. What does not come it asks of who passed the id on, and then
//! of the leader. In the first slots of each step, which the leader proposes to everybody directly, it multicasts the values too, and who
//! gets them says so: these come first on the ring. Who says nothing gets values along the ring, as without multicast, and so does until
//! the next step who says that nothing comes any more.

use crate::leader::Leader;
use crate::limits::{ASKED_IN_A_ROW, IDS_AWAITED, VALUES_HELD};
use crate::message::{Carried, Hears, Learn, Message, Pass, PassId, RingWay, Want};
use crate::policies::ValuesTravel;
use crate::ring::RingStop;
use crate::{MultiPaxos, Seat};
use quorate_ordering::{Effects, Lane, MulticastStatus};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ballot, Batch, NodeId, NodeSet, Slot, Time};
use std::collections::BTreeMap;

/// What has come by multicast before the proposal that names it, and what has been named and has not come.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct CarriedValues {
    /// Of this ballot alone.
    ballot: Ballot,
    /// Invariant: at most `VALUES_HELD`, and as many bytes as a peer has credit.
    held: BTreeMap<Slot, Batch>,
    /// Invariant: the sum of `held`.
    bytes: usize,
    /// Invariant: at most `IDS_AWAITED`.
    awaited: BTreeMap<Slot, Awaited>,
    /// Not after the first of these is to be asked for.
    ask_at: Option<Time>,
    /// Values asked for since one came by multicast.
    in_a_row: u32,
    heard: u64,
    asked: u64,
}

/// A proposal without its value.
#[derive(Clone, PartialEq, Debug)]
struct Awaited {
    from: NodeId,
    pass: PassId,
    asked: u32,
    ask_at: Time,
}

impl CarriedValues {
    fn hold(&mut self, ballot: Ballot, slot: Slot, batch: Batch, bytes_max: usize) {
        if self.ballot != ballot && !planted(Plant::ValueOfAnyBallot) {
            self.held.clear();
            self.bytes = 0;
        }
        self.ballot = ballot;
        let weight = batch.weight();
        let has_room = self.held.len() < VALUES_HELD && self.bytes + weight <= bytes_max;
        if has_room && !self.held.contains_key(&slot) {
            self.bytes += weight;
            self.held.insert(slot, batch);
        }
    }

    fn take(&mut self, ballot: Ballot, slot: Slot) -> Option<Batch> {
        if ballot != self.ballot && !planted(Plant::ValueOfAnyBallot) {
            return None;
        }
        let batch = self.held.remove(&slot)?;
        self.bytes -= batch.weight();
        Some(batch)
    }

    fn forget_decided(&mut self, decided: Slot) {
        while let Some(first) = self.held.first_entry()
            && *first.key() <= decided
        {
            self.bytes -= first.remove().weight();
        }
    }

    pub(crate) fn status(&self, leader: Option<&Leader>) -> MulticastStatus {
        MulticastStatus {
            sent: leader.map_or(0, |leader| leader.steps.hearers.sent),
            heard: self.heard,
            asked: self.asked,
            deaf: leader.map_or(NodeSet::empty(), |leader| leader.steps.hearers.left_out),
        }
    }

    pub(crate) fn check(&self) {
        let bytes: usize = self.held.values().map(Batch::weight).sum();
        assert_eq!(bytes, self.bytes, "what is held is counted");
        assert!(
            self.held.len() <= VALUES_HELD && self.awaited.len() <= IDS_AWAITED,
            "what has come apart from its proposal is bounded"
        );
    }
}

/// Who hears what a leader multicasts: told anew in each step.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Hearers {
    /// Values multicast in the first slots of the step.
    tried: u64,
    /// How many of them each node got.
    counts: BTreeMap<NodeId, u64>,
    sent: u64,
    /// Who was left out of the newest multicast.
    left_out: NodeSet,
}

impl Hearers {
    pub(crate) fn begin(&mut self) {
        self.tried = 0;
        self.counts.clear();
    }

    /// Whether so much of what was multicast first came that the rest goes so too.
    pub(crate) fn hears(&self, node: NodeId) -> bool {
        let count = self.counts.get(&node).copied().unwrap_or(0);
        count > 0 && 2 * count >= self.tried
    }
}

impl Seat {
    fn multicasts(&self) -> bool {
        self.policies.values == ValuesTravel::Multicast
    }

    /// What this node voted for in `ballot`, or holds of it where it has no vote.
    fn held_in(&self, ballot: Ballot, slot: Slot) -> Option<&Batch> {
        let open = self.acceptor.log.open(slot);
        let open = open.filter(|open| open.ballot == ballot);
        open.map(|open| &open.batch)
    }

    /// A proposal has come with its value: it waits for none. Tells the leader where the value came by multicast as well.
    pub(crate) fn value_came(
        &mut self,
        ballot: Ballot,
        slot: Slot,
        effects: &mut Effects<Message>,
    ) {
        if !self.multicasts() {
            return;
        }
        if self.carried.awaited.remove(&slot).is_some() {
            self.stops.forget(slot);
        }
        if self.carried.take(ballot, slot).is_some() {
            self.tell_hears(ballot, Some(slot), effects);
        }
    }

    fn tell_hears(&mut self, ballot: Ballot, slot: Option<Slot>, effects: &mut Effects<Message>) {
        let hears = Message::Hears(Hears { ballot, slot });
        self.send(NodeSet::only(ballot.node), Lane::Normal, hears, effects);
    }

    pub(crate) fn multicast_wake_at(&self) -> Option<Time> {
        let carried = &self.carried;
        carried.ask_at.filter(|_| !carried.awaited.is_empty())
    }

    /// Asks for values that were named and have not come: who passed the id on, which holds them, and the leader after it.
    pub(crate) fn wake_multicast(&mut self, now: Time, effects: &mut Effects<Message>) {
        if self.carried.ask_at.is_none_or(|at| now < at) {
            return;
        }
        let (promised, decided) = (self.acceptor.promised(), self.acceptor.log.decided());
        let carried = &mut self.carried;
        carried
            .awaited
            .retain(|slot, awaited| awaited.pass.ballot >= promised && *slot > decided);
        let due = carried.awaited.iter_mut();
        let due = due.filter(|(_, awaited)| awaited.ask_at <= now);
        let mut asks = Vec::new();
        for (slot, awaited) in due.take(self.config.limits.resend) {
            let ballot = awaited.pass.ballot;
            let to = match awaited.asked % 2 {
                0 => awaited.from,
                _ => ballot.node,
            };
            if awaited.asked == 0 {
                carried.asked += 1;
                carried.in_a_row += 1;
            }
            awaited.asked += 1;
            awaited.ask_at = now + self.config.timing.resend;
            asks.push((
                to,
                Want {
                    ballot,
                    slot: *slot,
                },
            ));
        }
        carried.ask_at = carried.awaited.values().map(|awaited| awaited.ask_at).min();
        if planted(Plant::LostValueNotAsked) {
            return;
        }
        let is_deaf = carried.in_a_row >= ASKED_IN_A_ROW && !planted(Plant::DeafNotTold);
        if is_deaf && let Some((_, want)) = asks.last() {
            self.tell_hears(want.ballot, None, effects);
        }
        for (to, want) in asks {
            let want = Message::Want(want);
            self.send(NodeSet::only(to), Lane::Normal, want, effects);
        }
    }
}

impl MultiPaxos {
    /// A value of the leader that this node follows. It is kept until the proposal comes, and says nothing itself.
    pub(crate) fn on_multicast(
        &mut self,
        now: Time,
        from: NodeId,
        Carried {
            ballot,
            slot,
            batch,
        }: Carried,
        effects: &mut Effects<Message>,
    ) {
        let seat = &mut self.seat;
        let is_followed = seat.election.leader == Some(ballot) && ballot.node == from;
        if !is_followed || !seat.multicasts() || seat.is_over {
            return;
        }
        seat.carried.in_a_row = 0;
        let decided = seat.acceptor.log.decided();
        if slot <= decided || seat.held_in(ballot, slot).is_some() {
            return seat.tell_hears(ballot, Some(slot), effects);
        }
        seat.carried.forget_decided(decided);
        let bytes_max = seat.config.limits.credit_bytes;
        if self.came_to_id(now, ballot, slot, &batch, effects) {
            self.seat.carried.heard += 1;
        } else {
            self.seat.carried.hold(ballot, slot, batch, bytes_max);
        }
    }

    /// A value that this node asked for.
    pub(crate) fn on_fetched(
        &mut self,
        now: Time,
        carried: &Carried,
        effects: &mut Effects<Message>,
    ) {
        self.came_to_id(now, carried.ballot, carried.slot, &carried.batch, effects);
    }

    /// Whether the proposal of this value was waiting for it, and goes on.
    fn came_to_id(
        &mut self,
        now: Time,
        ballot: Ballot,
        slot: Slot,
        batch: &Batch,
        effects: &mut Effects<Message>,
    ) -> bool {
        let awaited = &mut self.seat.carried.awaited;
        let is_awaited =
            |awaited: &Awaited| awaited.pass.ballot == ballot || planted(Plant::ValueOfAnyBallot);
        if !awaited.get(&slot).is_some_and(is_awaited) {
            return false;
        }
        let Some(Awaited { from, pass, .. }) = awaited.remove(&slot) else {
            return false;
        };
        let place = self.place_behind(from, pass.ballot, &pass.way);
        let is_past = pass.ballot < self.seat.acceptor.promised();
        if let Some(place) = place.filter(|_| !is_past) {
            let hearing = pass.hearing;
            let pass = pass.with(batch.clone());
            self.take_passed(now, (from, place), pass, hearing, effects);
        }
        true
    }

    /// The id of a proposal on its way. It goes on when the value is here.
    pub(crate) fn on_pass_id(
        &mut self,
        now: Time,
        from: NodeId,
        pass: PassId,
        effects: &mut Effects<Message>,
    ) {
        let (ballot, slot, decided) = (pass.ballot, pass.slot, pass.decided);
        let carried = self.seat.carried.take(ballot, slot);
        self.seat.carried.heard += u64::from(carried.is_some());
        let known = carried.or_else(|| self.seat.held_in(ballot, slot).cloned());
        let known = known.or_else(|| planted(Plant::VotedUnheld).then(Batch::noop));
        if let Some(batch) = known {
            let hearing = pass.hearing;
            return self.on_pass(now, from, pass.with(batch), hearing, effects);
        }
        let Some(place) = self.place_behind(from, ballot, &pass.way) else {
            return;
        };
        if !self.follow_passed(now, from, ballot, effects) {
            return;
        }
        if planted(Plant::PassedOnUnheld)
            && let Some(to) = pass.way.nodes().get(place + 1)
        {
            let message = Message::PassId(pass.clone());
            self.seat
                .send(NodeSet::only(*to), Lane::Normal, message, effects);
        }
        if slot > self.seat.acceptor.log.decided() {
            self.await_value(now, from, place, pass);
        }
        self.heard_decided(now, ballot, decided, effects);
    }

    fn await_value(&mut self, now: Time, from: NodeId, place: usize, pass: PassId) {
        let seat = &mut self.seat;
        if let Some(stop) = RingStop::before(from, pass.ballot, &pass.way, place, seat) {
            seat.stops.begin(seat.config.own, pass.slot, stop);
        }
        let ask_at = now + seat.config.timing.gap;
        let carried = &mut seat.carried;
        carried.ask_at = Time::earlier(carried.ask_at, Some(ask_at));
        let awaited = Awaited {
            from,
            pass,
            asked: 0,
            ask_at,
        };
        carried.awaited.insert(awaited.pass.slot, awaited);
        if carried.awaited.len() > IDS_AWAITED {
            carried.awaited.pop_last();
        }
    }

    /// `from` lacks a value of this leader, or one whose id this node passed on to it.
    pub(crate) fn tell_value(
        &mut self,
        now: Time,
        from: NodeId,
        want: Want,
        effects: &mut Effects<Message>,
    ) {
        let Want { ballot, slot } = want;
        let proposed = match self.leading_in(ballot) {
            Some((leader, _)) => leader.proposal(slot).map(|proposal| proposal.batch.clone()),
            None => self.seat.held_in(ballot, slot).cloned(),
        };
        let seat = &mut self.seat;
        if let Some(batch) = proposed {
            let fetched = Message::Fetched(Carried {
                ballot,
                slot,
                batch,
            });
            seat.send(NodeSet::only(from), Lane::Normal, fetched, effects);
        } else if slot <= seat.acceptor.log.decided() {
            seat.on_learn(now, from, Learn { from: slot }, effects);
        }
    }
}

impl Leader {
    /// Sends a proposal along the ring: with its value, or with its id alone where the first of the way hear the value by multicast.
    pub(crate) fn pass_along(
        &mut self,
        seat: &mut Seat,
        pass: Pass,
        effects: &mut Effects<Message>,
    ) {
        let first = NodeSet::only(pass.way.nodes()[0]);
        let nodes = pass.way.nodes().iter();
        let hearers = &mut self.steps.hearers;
        let hearing: NodeSet = nodes
            .copied()
            .take_while(|node| hearers.hears(*node))
            .collect();
        // To one node alone a link is as good.
        let is_apart = hearing.len() > 1 && seat.may_multicast(&pass.batch);
        if seat.multicasts() {
            let named = pass.way.nodes().iter().copied();
            hearers.left_out = named.filter(|node| !hearing.contains(*node)).collect();
        }
        if !is_apart {
            return seat.send(first, Lane::Normal, Message::Pass(pass), effects);
        }
        hearers.sent += 1;
        let (carried, id) = pass.parted(hearing.len());
        seat.send(
            hearing,
            Lane::Multicast,
            Message::Multicast(carried),
            effects,
        );
        seat.send(first, Lane::Normal, Message::PassId(id), effects);
    }

    /// The first slots of a step: values are multicast although they are sent, to learn who hears.
    pub(crate) fn try_multicast(
        &mut self,
        seat: &mut Seat,
        slot: Slot,
        batch: &Batch,
        effects: &mut Effects<Message>,
    ) {
        if !seat.may_multicast(batch) || !self.steps.is_first(slot, &seat.config.limits) {
            return;
        }
        self.steps.hearers.tried += 1;
        self.steps.hearers.sent += 1;
        let carried = Message::Multicast(Carried {
            ballot: self.ballot,
            slot,
            batch: batch.clone(),
        });
        let others = seat.others();
        seat.send(others, Lane::Multicast, carried, effects);
    }

    /// `from` hears what is multicast, or no more.
    pub(crate) fn on_hears(&mut self, seat: &Seat, from: NodeId, slot: Option<Slot>) {
        let hearers = &mut self.steps.hearers;
        match slot {
            None => {
                hearers.counts.remove(&from);
            }
            Some(slot) if self.steps.is_first(slot, &seat.config.limits) => {
                *self.steps.hearers.counts.entry(from).or_default() += 1;
            }
            Some(_) => {}
        }
    }
}

impl Seat {
    fn may_multicast(&self, batch: &Batch) -> bool {
        self.multicasts() && batch.weight() <= self.config.limits.batch_bytes
    }
}

impl Pass {
    /// The value, and the proposal without it.
    fn parted(self, hearing: usize) -> (Carried, PassId) {
        let Pass {
            ballot,
            slot,
            batch,
            decided,
            way,
        } = self;
        let carried = Carried {
            ballot,
            slot,
            batch,
        };
        let id = PassId {
            ballot,
            slot,
            decided,
            way,
            hearing,
        };
        (carried, id)
    }

    /// As it goes to the node at `place`.
    pub(crate) fn to_place(&self, place: usize, hearing: usize) -> Message {
        match place < hearing {
            true => Message::PassId(self.clone().parted(hearing).1),
            false => Message::Pass(self.clone()),
        }
    }
}

impl PassId {
    fn with(self, batch: Batch) -> Pass {
        Pass {
            ballot: self.ballot,
            slot: self.slot,
            batch,
            decided: self.decided,
            way: self.way,
        }
    }
}

impl MultiPaxos {
    /// This node's place on the way, where `from` is before it or leads.
    pub(crate) fn place_behind(
        &self,
        from: NodeId,
        ballot: Ballot,
        way: &RingWay,
    ) -> Option<usize> {
        let place = way.place(self.seat.config.own)?;
        let is_behind = way.place(from).is_some_and(|before| before < place);
        (from == ballot.node || is_behind).then_some(place)
    }
}
