//! How values are spread, told to be held, named and asked for.

use crate::leader::Leader;
use crate::limits::{HEARD_EARLY, LATE_RESENDS, NAMELESS_SLOTS};
use crate::message::{Accept, Holds, Message, Named, Spread, Want};
use crate::policies::ValuesTravel;
use crate::{MultiPaxos, Seat};
use quorate_ordering::{Effects, Lane, Standing};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Batch, Command, Duration, LinkEpoch, NodeId, NodeSet, Slot, Time, ValueId};

impl Seat {
    /// Whether commands are spread.
    pub(crate) fn spreads(&self) -> bool {
        self.policies.values == ValuesTravel::Spread
    }

    /// Whether this node names what is submitted here. Who may have forgotten an earlier life in this view could give a name again; it
    /// forwards to the leader.
    pub(crate) fn spreads_own(&self) -> bool {
        let remembers = self.config.standing == Standing::Voter || planted(Plant::NameGivenTwice);
        self.spreads() && remembers
    }

    /// How many acceptors must hold a value before its name is proposed.
    pub(crate) fn stable_at(&self) -> usize {
        match planted(Plant::NamedUnstable) {
            true => 1,
            false => self.config.view.quorums.phase2(),
        }
    }

    /// How long a leader that holds a value waits for a quorum to hold it: longer than messages take between continents.
    pub(crate) fn late_after(&self) -> Duration {
        Duration(self.config.timing.resend.0 * LATE_RESENDS)
    }

    /// Of `nodes` those whose holding counts.
    fn holders(&self, nodes: impl IntoIterator<Item = NodeId>) -> NodeSet {
        let acceptors = self.config.view.acceptors;
        nodes
            .into_iter()
            .filter(|node| acceptors.contains(*node))
            .collect()
    }

    /// The end of a turn: spreads what was submitted here, and tells what is held.
    pub(crate) fn spread_submitted(&mut self, now: Time, effects: &mut Effects<Message>) {
        if !self.spreads() || self.is_over {
            return;
        }
        let own = self.config.own;
        while self.spreads_own()
            && self.has_unsent()
            && self.spreading.may_spread(own, &self.config.limits)
        {
            let number = self.spreading.number + 1;
            let commands = self.next_unsent(now, number);
            if commands.is_empty() {
                break;
            }
            self.spread(now, number, commands, effects);
        }
        let values = std::mem::take(&mut self.spreading.untold);
        self.tell_held(self.others(), &values, effects);
    }

    fn spread(
        &mut self,
        now: Time,
        number: u64,
        commands: Vec<Command>,
        effects: &mut Effects<Message>,
    ) {
        let own = self.config.own;
        let value = ValueId {
            node: own,
            boot: self.spreading.boot,
            number,
        };
        self.spreading.number = number;
        if self.spreading.of(own).next().is_none() {
            self.spreading.progress_at = now;
            self.spreading.patience = self.config.timing.resend;
        }
        let holders = self.holders([own]);
        self.spreading.insert(now, value, commands.clone(), holders);
        self.spreading.place(value, self.stable_at());
        let weight = self.spreading.bundles[&value].weight;
        let mut to = NodeSet::empty();
        let bearable = self.config.timing.election_min;
        for peer in self.peers.iter_mut() {
            let since = peer.spread.stalled_since();
            if since.is_some_and(|since| now.since(since) >= bearable) {
                // It lagged, and took none. Without a further value it would never tell that it takes some again.
                peer.spread.lose_oldest(now);
            }
            if peer.link.is_some() && peer.spread.has_room(&self.config.limits) {
                peer.spread.charge(now, number, weight);
                to.insert(peer.node);
            }
        }
        let message = Message::Spread(Spread { value, commands });
        self.send(to, Lane::Normal, message, effects);
    }

    fn tell_held(&self, to: NodeSet, values: &[ValueId], effects: &mut Effects<Message>) {
        for values in values.chunks(HEARD_EARLY) {
            let values = values.to_vec();
            self.send(to, Lane::Normal, Message::Holds(Holds { values }), effects);
        }
    }

    /// `node` was linked anew or is not linked any more. On a new link it is sent what is open here, and told what is held.
    pub(crate) fn spread_relinked(
        &mut self,
        now: Time,
        node: NodeId,
        effects: &mut Effects<Message>,
    ) {
        if !self.spreads() {
            return;
        }
        self.spreading.unlinked(node, self.stable_at());
        let Some(peer) = self.peers.find_mut(node) else {
            return;
        };
        peer.spread.reset();
        if peer.link.is_none() || self.is_over {
            return;
        }
        let own = self.config.own;
        let to = NodeSet::only(node);
        let mut again = Vec::new();
        for (value, bundle) in self.spreading.of(own) {
            if !peer.spread.has_room(&self.config.limits) {
                break;
            }
            peer.spread.charge(now, value.number, bundle.weight);
            again.push(Spread {
                value: *value,
                commands: bundle.commands.clone(),
            });
        }
        for spread in again {
            self.send(to, Lane::Normal, Message::Spread(spread), effects);
        }
        let held = self.spreading.bundles.keys();
        let held: Vec<ValueId> = held.filter(|value| value.node != own).copied().collect();
        self.tell_held(to, &held, effects);
    }

    pub(crate) fn spreading_wake_at(&self) -> Option<Time> {
        let spreading = &self.spreading;
        let submit = self.config.timing.submit;
        let expires = spreading.ages.front().map(|(since, _)| *since + submit);
        let own = spreading.of(self.config.own).next();
        let again = own.map(|_| spreading.progress_at + spreading.patience);
        let wanted = spreading.want_at.filter(|_| !spreading.nameless.is_empty());
        Time::earlier(Time::earlier(expires, again), wanted)
    }

    pub(crate) fn wake_spreading(&mut self, now: Time, effects: &mut Effects<Message>) {
        if !self.spreads() {
            return;
        }
        self.spreading.expire(now, self.config.timing.submit);
        self.spread_again(now, effects);
        self.want_named(now, effects);
    }

    /// Nothing of what this node spread was decided for a while: the oldest goes to all once more, who tell again that they hold it.
    fn spread_again(&mut self, now: Time, effects: &mut Effects<Message>) {
        let due = self.spreading.progress_at + self.spreading.patience;
        let own = self.config.own;
        if now < due || self.spreading.of(own).next().is_none() {
            return;
        }
        self.spreading.progress_at = now;
        let longest = self.config.timing.election_max;
        self.spreading.patience = Duration(self.spreading.patience.0 * 2).min(longest);
        let linked = self.peers.linked();
        let linked: NodeSet = linked.map(|peer| peer.node).collect();
        let oldest = self.spreading.of(own).take(self.config.limits.resend);
        for (value, bundle) in oldest {
            let message = Message::Spread(Spread {
                value: *value,
                commands: bundle.commands.clone(),
            });
            self.send(linked, Lane::Normal, message, effects);
        }
    }

    /// Values that were named and have not come: the leader is asked for them.
    fn want_named(&mut self, now: Time, effects: &mut Effects<Message>) {
        if self.spreading.want_at.is_none_or(|at| now < at) {
            return;
        }
        let (promised, decided) = (self.acceptor.promised(), self.acceptor.log.decided());
        let nameless = &mut self.spreading.nameless;
        nameless.retain(|slot, named| named.ballot >= promised && *slot > decided);
        self.spreading.want_at = match nameless.is_empty() {
            true => None,
            false => Some(now + self.config.timing.resend),
        };
        if planted(Plant::ValueNeverFetched) {
            return;
        }
        let asked = self
            .spreading
            .nameless
            .iter()
            .take(self.config.limits.resend);
        for (slot, named) in asked {
            let (slot, ballot) = (*slot, named.ballot);
            let message = Message::Want(Want { ballot, slot });
            self.send(NodeSet::only(ballot.node), Lane::Normal, message, effects);
        }
    }
}

impl MultiPaxos {
    /// Another node spreads what it was called with. What comes late, from an earlier link, is dropped: who still holds it spreads it
    /// again on the link that is up. Claim mp-76.
    pub(crate) fn on_spread(
        &mut self,
        now: Time,
        (from, link): (NodeId, LinkEpoch),
        Spread { value, commands }: Spread,
        effects: &mut Effects<Message>,
    ) {
        let seat = &mut self.seat;
        let peer = seat.peers.find(from);
        let is_late = peer.is_none_or(|peer| peer.link != Some(link));
        if value.node != from || is_late || seat.is_over || !seat.spreads() {
            return;
        }
        if !seat.spreading.bundles.contains_key(&value) {
            if !seat.spreading.has_room(from, &seat.config.limits) {
                return;
            }
            let holders = seat.holders([from, seat.config.own]);
            seat.spreading.insert(now, value, commands, holders);
        }
        let needed = seat.stable_at();
        if seat.config.view.acceptors.contains(from) {
            seat.spreading.held_by(from, value, needed);
        }
        seat.spreading.place(value, needed);
        seat.spreading.untold.push(value);
        self.take_named(now, effects);
    }

    /// `from` holds these values, on the link on which it tells so.
    pub(crate) fn on_holds(
        &mut self,
        now: Time,
        (from, link): (NodeId, LinkEpoch),
        Holds { values }: Holds,
    ) {
        let seat = &mut self.seat;
        let needed = seat.stable_at();
        let is_acceptor = seat.config.view.acceptors.contains(from);
        let (own, boot) = (seat.config.own, seat.spreading.boot);
        let Some(peer) = seat.peers.find_mut(from) else {
            return;
        };
        let is_late = peer.link != Some(link) && !planted(Plant::HoldersOutliveLinks);
        if is_late || seat.policies.values != ValuesTravel::Spread {
            return;
        }
        for value in values {
            if value.node == own && value.boot == boot {
                peer.spread.refund(now, value.number);
            }
            if is_acceptor {
                seat.spreading.held_by(from, value, needed);
            }
        }
    }

    /// A proposal by names: voted for once the values are held.
    pub(crate) fn on_named(
        &mut self,
        now: Time,
        from: NodeId,
        named: Named,
        effects: &mut Effects<Message>,
    ) {
        if !self.follow(now, from, named.ballot, effects) {
            return;
        }
        let seat = &mut self.seat;
        if let Some(batch) = seat.spreading.compose(named.stamp, &named.values) {
            self.take_proposal(now, proposal_of(&named, batch), effects);
            return;
        }
        let (ballot, decided) = (named.ballot, named.decided);
        if named.slot > seat.acceptor.log.decided() {
            let gap = seat.config.timing.gap;
            seat.spreading.want_at.get_or_insert(now + gap);
            seat.spreading.nameless.insert(named.slot, named);
            if seat.spreading.nameless.len() > NAMELESS_SLOTS {
                seat.spreading.nameless.pop_last();
            }
        }
        self.heard_decided(now, ballot, decided, effects);
    }

    /// A value has come: proposals that waited for it may be voted for.
    fn take_named(&mut self, now: Time, effects: &mut Effects<Message>) {
        if self.seat.spreading.nameless.is_empty() {
            return;
        }
        for (slot, named) in std::mem::take(&mut self.seat.spreading.nameless) {
            let seat = &mut self.seat;
            if named.ballot < seat.acceptor.promised() || slot <= seat.acceptor.log.decided() {
                continue;
            }
            match seat.spreading.compose(named.stamp, &named.values) {
                Some(batch) => {
                    self.take_proposal(now, proposal_of(&named, batch), effects);
                }
                None => {
                    seat.spreading.nameless.insert(slot, named);
                }
            }
        }
    }

    /// `from` lacks a value that was named in a slot.
    pub(crate) fn on_want(
        &mut self,
        now: Time,
        from: NodeId,
        want: Want,
        effects: &mut Effects<Message>,
    ) {
        if !self.seat.spreads() {
            return self.tell_value(now, from, want, effects);
        }
        let Want { ballot, slot } = want;
        let Some((leader, seat)) = self.leading_in(ballot) else {
            return;
        };
        let decided = seat.acceptor.log.decided();
        if let Some(proposal) = leader.proposal(slot) {
            let message = Message::Accept(Accept {
                ballot,
                slot,
                batch: proposal.batch.clone(),
                decided,
            });
            seat.send(NodeSet::only(from), Lane::Normal, message, effects);
        }
    }
}

impl Leader {
    /// Phase 2a: by names where the values travelled apart, to those that may need them and to others alike.
    pub(crate) fn proposal_message(
        &self,
        seat: &Seat,
        slot: Slot,
        batch: Batch,
        values: Vec<ValueId>,
    ) -> Message {
        let (ballot, decided) = (self.ballot, seat.acceptor.log.decided());
        // Where one acceptor decides, nobody else need ever have got the value.
        if values.is_empty() || seat.config.view.quorums.phase2() == 1 {
            return Message::Accept(Accept {
                ballot,
                slot,
                batch,
                decided,
            });
        }
        Message::Named(Named {
            ballot,
            slot,
            decided,
            stamp: batch.stamp(),
            values,
        })
    }
}

fn proposal_of(named: &Named, batch: Batch) -> Accept {
    Accept {
        ballot: named.ballot,
        slot: named.slot,
        batch,
        decided: named.decided,
    }
}
