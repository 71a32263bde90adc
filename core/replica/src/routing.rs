//! The exchange with the instances of the ordering: events to those that they concern, and the effects that come back.

use crate::{Output, PeerMessage, Replica};
use quorate_ordering::{Decision, Effect, Event, Ordering, Role};
use quorate_types::Time;
use quorate_types::zoo::{Plant, planted};

impl<O: Ordering> Replica<O> {
    /// Passes an event to the instances of the ordering that it concerns.
    pub(crate) fn order(
        &mut self,
        now: Time,
        event: Event<O::Message>,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let newest = self.instances.newest();
        match event {
            Event::Receive { view, .. } => match self.instances.find(view) {
                Some(place) => self.at_instance(now, place, event, out),
                None if planted(Plant::ViewOfMessageIgnored) => {
                    self.at_instance(now, newest, event, out);
                }
                None => self.receive_of_other_view(now, event, out),
            },
            Event::Persisted { mark } => {
                if let Some(number) = self.instances.begun(mark) {
                    let back = self.rejoining.back(number);
                    out.push(Output::BeginView { number, back });
                }
                for place in 0..=newest {
                    if let Some(mark) = self.instances.durable(place, mark) {
                        self.at_instance(now, place, Event::Persisted { mark }, out);
                    }
                }
            }
            Event::Executed { slot } => {
                for place in 0..=newest {
                    let slot = self.instances.applied(place, slot);
                    self.at_instance(now, place, Event::Executed { slot }, out);
                }
            }
            Event::Trimmable { slot, digest } => {
                // The log begins with the oldest view.
                self.instances.drop_covered(slot);
                self.at_instance(now, 0, Event::Trimmable { slot, digest }, out);
            }
            Event::Link { peer, state } => {
                self.instances.link_changed(peer, state);
                for place in 0..=newest {
                    self.at_instance(now, place, Event::Link { peer, state }, out);
                }
            }
            Event::TurnEnd { wall, entropy } => {
                for place in 0..=newest {
                    self.at_instance(now, place, Event::TurnEnd { wall, entropy }, out);
                }
            }
            Event::Submit { .. }
            | Event::Attended(_)
            | Event::Resubmit { .. }
            | Event::Read { .. }
            | Event::ReadAnnounced { .. }
            | Event::Announced { .. }
            | Event::Close { .. }
            | Event::Over
            | Event::Passed
            | Event::TransferLeadership { .. }
            | Event::Wake => self.at_instance(now, newest, event, out),
        }
    }

    /// Passes an event to one instance and routes its effects.
    pub(crate) fn at_instance(
        &mut self,
        now: Time,
        place: usize,
        event: Event<O::Message>,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let mut effects = std::mem::take(&mut self.effects);
        self.instances.handle(place, now, event, &mut effects);
        for effect in effects.drain(..) {
            self.route(now, place, effect, out);
        }
        self.effects = effects;
    }

    /// Queues an event for the ordering; [`Replica::settle`] passes it on.
    pub(crate) fn raise(&mut self, event: Event<O::Message>) {
        self.events.push_back(event);
    }

    /// Reports applied slots to the ordering until nothing new follows. Each round decides at least
    /// one slot more than the one before, so the rounds end with the window.
    pub(crate) fn settle(&mut self, now: Time, out: &mut Vec<Output<O::Message>>) {
        loop {
            self.tell_end(now, out);
            self.turn_to_view(now, out);
            if self.reported < self.replicated.applied {
                self.reported = self.replicated.applied;
                let slot = self.replicated.applied;
                self.order(now, Event::Executed { slot }, out);
            } else if let Some(event) = self.events.pop_front() {
                self.order(now, event, out);
            } else {
                break;
            }
        }
        self.hand_out(now, out);
        self.tend_backlog(now, out);
    }

    fn route(
        &mut self,
        now: Time,
        place: usize,
        effect: Effect<O::Message>,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let orders = place == self.instances.newest();
        match effect {
            Effect::Send { to, lane, message } => {
                let view = self.instances.view(place);
                let message = PeerMessage::Ordering { view, message };
                out.push(Output::Send { to, lane, message });
            }
            Effect::Persist { mark, record } => {
                let mark = self.instances.number(place, mark);
                self.written = mark;
                out.push(Output::Persist { mark, record });
            }
            Effect::Decide {
                slot,
                decision: Decision::Batch(batch),
            } => self.decided(slot, batch, out),
            Effect::Tentative { slot, batch } => self.offered(slot, batch, out),
            Effect::Repaired => {
                if self.instances.repaired(place) {
                    out.push(Output::Repaired);
                }
            }
            Effect::Conflict(conflict) => out.push(Output::Conflict(conflict)),
            Effect::Unordered { .. } if planted(Plant::UnorderedForgotten) => {}
            Effect::Unordered { commands } => {
                let commands = self.still_wanted(commands, out);
                if !commands.is_empty() {
                    self.raise(Event::Resubmit { commands });
                }
            }
            Effect::Discard { upto, base } => {
                let (upto, base) = self.instances.base(place, upto, base);
                self.log_told(&base);
                let is_whole = self.instances.outlives_damage(&base);
                out.push(Output::Discard { upto, base });
                out.extend(is_whole.then_some(Output::Repaired));
            }
            // What an instance says that only votes and teaches concerns nobody.
            _ if !orders => {}
            Effect::Role(role) => self.role_changed(now, role, out),
            Effect::Confirmed {
                read,
                barrier,
                until,
            } => self.reads.confirmed(read, barrier, until),
            Effect::Unconfirmed { read } => self.unconfirmed(read, out),
            Effect::Current { slot, at } => {
                let executed = self.pipeline.executed(self.replicated.applied);
                self.currency.note(slot, at, executed);
                self.signs.served.led(now, at);
                self.own_poison.heard();
            }
            Effect::NeedSnapshot { upto } => self.need_snapshot(now, upto, out),
            Effect::Refuse { command, refusal } => self.refused(command, refusal, out),
        }
    }

    pub(crate) fn role_changed(
        &mut self,
        now: Time,
        role: Role,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let before = self.leader();
        self.role = role;
        out.push(Output::Role(role));
        self.begin_term(now, role);
        if self.leader() != before {
            self.tell_leader(out);
            if self.leader().is_some() {
                self.reads.reask(self.replicated.applied);
            }
        }
    }
}
