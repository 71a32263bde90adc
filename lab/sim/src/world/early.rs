//! Clients that want their calls early, and what they are told: only what objects have made of a call in a slot that is ahead at that
//! moment, once a connection, and never anything else than the answer where it is confirmed.
//!
//! A tentative reply is no answer in the history: what is confirmed is judged as the reply that it stands for.

use super::World;
use super::random::Random;
use super::row::Row;
use super::setup::Setup;
use crate::checkers::Property;
use quorate_session::{Answer, Failure, Operation, Ticket};
use quorate_types::{
    Ask, CommandId, ConnectionId, FromClient, Level, NodeId, ObjectId, Outcome, StepResult,
    ToClient, Value,
};
use std::collections::BTreeMap;

/// What nodes have told on each connection of calls that are not answered there, and what they have confirmed.
#[derive(Debug, Default)]
pub(super) struct EarlyWords {
    told: BTreeMap<(ConnectionId, CommandId), Value>,
    confirmed: BTreeMap<(ConnectionId, CommandId), Value>,
    /// A client is being told early, which ends nothing.
    is_telling: bool,
}

/// A call of a client: every second client wants all of its calls early, where objects go ahead of decisions. Elsewhere no node heeds
/// it.
pub(super) fn operation(setup: &Setup, number: u64, object: ObjectId, payload: Value) -> Operation {
    let is_early = Random::new(setup.seed, "early", number).chance(500);
    match is_early && setup.speculation > 0 {
        true => Operation::EarlyCall { object, payload },
        false => Operation::Call { object, payload },
    }
}

impl World {
    /// A client is about to hear that it is connected: it knows what the node reads.
    pub(super) fn draw_early(&mut self, number: u64, node: NodeId) {
        let (tells_early, open) = (self.reads_early(node), &self.connections);
        for words in [&mut self.early.told, &mut self.early.confirmed] {
            words.retain(|(connection, _), _| open.contains_key(connection));
        }
        let client = self.clients.get_mut(&number).expect("clients stay");
        client.session.set_early(tells_early);
    }

    fn reads_early(&self, node: NodeId) -> bool {
        !self.tells_levels() || self.nodes[&node].speaks.has(Level::EARLY)
    }

    /// A client's message arrives: a node of an older build does not read that a call is wanted early.
    pub(super) fn watch_wanted(&mut self, node: NodeId, message: &FromClient) {
        if let FromClient::Early { id } = message
            && !self.reads_early(node)
        {
            let detail = format!("{id} is wanted early of {node}, which does not read that");
            self.blame(Property::LevelSpoken, detail);
        }
    }

    /// A node answers a client.
    pub(super) fn watch_early(&mut self, id: NodeId, to: ConnectionId, message: &ToClient) {
        match message {
            ToClient::Tentative { id: call, value } => {
                if !self.is_ahead(id, *call, value) {
                    let detail = format!("{id} tells {value:?} of {call}, which no slot ahead has");
                    self.blame(Property::EarlyTrue, detail);
                }
                let before = self.early.told.insert((to, *call), value.clone());
                if before.is_some() {
                    let detail = format!("{id} tells {call} twice on {to}");
                    self.blame(Property::EarlyTrue, detail);
                }
            }
            ToClient::Confirmed { id: call } => match self.early.told.remove(&(to, *call)) {
                Some(value) => drop(self.early.confirmed.insert((to, *call), value)),
                // A node that stands still does not know that the client has left, and what it told there is forgotten here.
                None if !self.connections.contains_key(&to) => {}
                None => {
                    let detail = format!("{id} confirms {call} on {to}, where it told nothing");
                    self.blame(Property::EarlyTrue, detail);
                }
            },
            ToClient::Replied { id: call, .. }
            | ToClient::Parked { id: call }
            | ToClient::Refused {
                ask: Ask::Call(call),
                ..
            } => drop(self.early.told.remove(&(to, *call))),
            _ => {}
        }
    }

    /// Whether objects of a node have made this of a call in a slot that is not decided there.
    fn is_ahead(&self, id: NodeId, call: CommandId, value: &Value) -> bool {
        let Some(running) = &self.nodes[&id].running else {
            return false;
        };
        let undecided = running.ahead.values().flatten();
        let mut results = undecided.flat_map(|slot| slot.steps.iter().zip(&slot.results.steps));
        results.any(|(step, result)| {
            let is_of = step.call().is_some_and(|of| of.id == call);
            let made =
                matches!(result, StepResult::Answered(Outcome::Returned(made)) if made == value);
            is_of && made
        })
    }

    /// What a message that arrives says: a confirmation stands for the reply.
    pub(super) fn meant_by(&mut self, connection: ConnectionId, message: &ToClient) -> ToClient {
        let ToClient::Confirmed { id } = message else {
            return message.clone();
        };
        let confirmed = self.early.confirmed.remove(&(connection, *id));
        match confirmed.map(Outcome::Returned) {
            Some(outcome) => ToClient::Replied { id: *id, outcome },
            None => message.clone(),
        }
    }

    /// A client is about to hear something.
    pub(super) fn begins_telling(&mut self, message: &ToClient) {
        self.early.is_telling = matches!(message, ToClient::Tentative { .. });
    }

    /// A client is told what a call returned before it is decided.
    pub(super) fn hears_early(&mut self, number: u64, ticket: Ticket, value: Value) {
        self.exercised(Row::ToldEarly);
        let client = self.clients.get_mut(&number).expect("clients stay");
        let is_open = client.open.contains_key(&ticket);
        let is_first = client.early.insert(ticket, value).is_none();
        if !is_open || !is_first {
            let detail = format!("c{number} hears {ticket:?} early again, or after its end");
            self.blame(Property::EarlyTrue, detail);
        }
    }

    /// An operation of a client has ended.
    pub(super) fn ends_early(
        &mut self,
        number: u64,
        ticket: Ticket,
        result: &Result<Answer, Failure>,
    ) {
        if self.early.is_telling && result.is_ok() {
            let detail = format!("c{number} takes a tentative reply for the answer of {ticket:?}");
            self.blame(Property::EarlyTrue, detail);
        }
        let client = self.clients.get_mut(&number).expect("clients stay");
        if let (Some(told), Ok(Answer::Called(outcome))) = (client.early.remove(&ticket), result)
            && *outcome != Outcome::Returned(told)
        {
            self.exercised(Row::Fell);
        }
    }
}
