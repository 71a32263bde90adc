//! An operator who has a call skipped at which hosts are down.
//!
//! One kind asks whether the group skips the call, again and again, while hosts are down at it: that must never change anything.
//! The other kind has it skipped whatever the replicas have reported. It does so only for calls that end every host whenever they
//! are executed and that nobody has executed, so that all replicas agree on what becomes of them and every answer stays right.

use super::World;
use super::clock::Moment;
use super::row::Row;
use crate::checkers::Property;
use quorate_replica::Input;
use quorate_types::{
    Ask, CallPlace, CommandId, ConnectionId, Duration, FromClient, NodeId, Refusal, ToClient,
};
use std::collections::{BTreeMap, BTreeSet};

/// Between two requests.
const ASKS_EVERY: Duration = Duration::from_millis(300);

/// The operator's connection, which no client has.
const OPERATOR: ConnectionId = ConnectionId((1 << 41) + 1);

/// What an operator has said about calls.
#[derive(Debug, Default)]
pub(super) struct Skipping {
    asked_at: Moment,
    requests: u64,
    /// What each request was about, and whether it was to be skipped in any case.
    about: BTreeMap<u64, (CallPlace, bool)>,
    /// Calls that are to be skipped in any case. Nobody may execute one any more.
    forced: BTreeSet<CallPlace>,
}

impl Skipping {
    /// Whether a call is to be skipped in any case.
    pub(super) fn is_forced(&self, place: CallPlace) -> bool {
        self.forced.contains(&place)
    }
}

impl World {
    /// The operator looks at the calls at which hosts are down.
    pub(super) fn tend_skipping(&mut self) {
        if self.now.since(self.harm.skipping.asked_at) < ASKS_EVERY {
            return;
        }
        for (call, place) in self.open_poison() {
            if !self.judge.is_skip_decided(place) {
                self.ask_for_skip(call, place);
            }
        }
    }

    fn ask_for_skip(&mut self, call: CommandId, place: CallPlace) {
        let awake = self.setup.node_ids().filter(|id| self.nodes[id].is_awake());
        let awake: Vec<NodeId> = awake.collect();
        let requests = self.harm.skipping.requests;
        let Some(asked) = awake.get(requests as usize % awake.len().max(1)) else {
            return;
        };
        // Half of the operators wait for what the nodes do by themselves.
        let is_impatient = ((call.session.0 >> 16) + call.sequence).is_multiple_of(2);
        let is_away = awake.len() < usize::from(self.setup.nodes);
        if is_impatient && self.is_harmless_to_skip(call, place, is_away) {
            self.harm.skipping.forced.insert(place);
        }
        let skipping = &mut self.harm.skipping;
        skipping.requests += 1;
        skipping.asked_at = self.now;
        let is_unsafe = skipping.forced.contains(&place);
        let request = skipping.requests;
        skipping.about.insert(request, (place, is_unsafe));
        let CallPlace { slot, index } = place;
        let message = FromClient::Skip {
            request,
            slot,
            index,
            is_unsafe,
        };
        let from = OPERATOR;
        self.hand_in(*asked, Input::Client { from, message });
    }

    /// A node answers the operator: what it calls skipped is, by the log, and nothing that was to be skipped in any case is refused
    /// for what replicas have reported.
    pub(super) fn answers_operator(&mut self, id: NodeId, to: ConnectionId, message: &ToClient) {
        if to != OPERATOR {
            return;
        }
        let about = |request: &u64| self.harm.skipping.about.get(request).copied();
        match message {
            ToClient::Checkpointed { request, .. } => {
                let Some((place, is_unsafe)) = about(request) else {
                    return;
                };
                if !self.judge.is_skip_decided(place) {
                    let detail = format!("{id} says that {place:?} is skipped, and nobody does");
                    self.blame(Property::AtMostOnce, detail);
                } else if is_unsafe {
                    self.exercised(Row::SkipForced);
                }
            }
            ToClient::Refused {
                ask: Ask::Request(request),
                refusal: Refusal::NotSkipped,
            } => match about(request) {
                Some((place, true)) => {
                    let detail = format!("{id} refuses to skip {place:?}, which it was told to");
                    self.blame(Property::AtMostOnce, detail);
                }
                Some((_, false)) => self.exercised(Row::SkipRefused),
                None => {}
            },
            _ => {}
        }
    }
}
