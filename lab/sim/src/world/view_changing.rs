//! An operator who changes the view while everything else happens.
//!
//! In some runs nobody does. In the others somebody asks a node now and then for other acceptors, where the group has nodes that do
//! not vote, and for another window. How many vote stays the same, so that the checkers count with one quorum.

use super::World;
use super::clock::Moment;
use super::life::Death;
use super::random::Random;
use super::row::Row;
use crate::checkers::Property;
use quorate_replica::Input;
use quorate_storage::Rejoined;
use quorate_types::{
    Ask, ConnectionId, Duration, FromClient, NodeId, NodeSet, Recall, Refusal, ToClient, View,
    ViewChange, ViewNumber,
};
use std::collections::BTreeMap;

/// The operator's connection, which no client has.
const OPERATOR: ConnectionId = ConnectionId((1 << 41) + 2);

/// What an operator has asked of the view.
#[derive(Debug, Default)]
pub(super) struct ViewChanging {
    random: Option<Random>,
    /// The mean time between two requests; none: nobody changes the view.
    every: Option<Duration>,
    due: Moment,
    requests: u64,
    /// The requests without an answer.
    open: BTreeMap<u64, ViewChange>,
    /// The view that each node was in when it was last looked at.
    at: BTreeMap<NodeId, u64>,
    /// Views by their number, as the first node to say so had them.
    seen: BTreeMap<u64, View>,
}

impl ViewChanging {
    /// What follows from the seed. Quorums that are no majorities would become majorities: there nobody changes anything.
    pub(super) fn new(seed: u64, is_majority: bool) -> ViewChanging {
        let mut random = Random::new(seed, "views", 0);
        let every = match random.between(0, 9) {
            0..=4 => None,
            5..=7 => Some(random.millis(1_000, 6_000)),
            _ => Some(random.millis(150, 900)),
        };
        ViewChanging {
            random: Some(random),
            every: every.filter(|_| is_majority),
            due: Moment(0),
            requests: 0,
            open: BTreeMap::new(),
            at: BTreeMap::new(),
            seen: BTreeMap::new(),
        }
    }

    /// The acceptors of the newest view that any node was seen in.
    pub(super) fn acceptors(&self) -> Option<NodeSet> {
        let (_, newest) = self.seen.last_key_value()?;
        Some(newest.acceptors)
    }

    /// The view that a node was in when it was last looked at.
    pub(super) fn view_of(&self, node: NodeId) -> ViewNumber {
        ViewNumber(self.at.get(&node).copied().unwrap_or(1))
    }

    /// Whether somebody changes the view in this run.
    pub(super) fn is_on(&self) -> bool {
        self.every.is_some()
    }
}

impl World {
    /// Who votes in the newest view.
    pub(super) fn acceptors(&self) -> NodeSet {
        let newest = self.harm.views.acceptors();
        newest.unwrap_or_else(|| self.setup.acceptors())
    }

    /// The operator asks for another view, if it is time.
    pub(super) fn tend_views(&mut self) {
        let now = self.now;
        let changing = &mut self.harm.views;
        let due = changing.every.filter(|_| changing.due <= now);
        let (Some(every), Some(random)) = (due, &mut changing.random) else {
            return;
        };
        let pause = random.between(every.0 / 2, every.0 * 3 / 2);
        changing.due = now + Duration(pause);
        let nodes = &self.nodes;
        let awake = self.setup.node_ids().filter(|id| nodes[id].is_awake());
        let awake: Vec<NodeId> = awake.collect();
        if awake.is_empty() {
            return;
        }
        let asked = *random.pick(&awake);
        let Some(running) = &self.nodes[&asked].running else {
            return;
        };
        let view = running.replica.view().clone();
        let nodes = self.setup.node_ids().collect();
        let change = draw_change(random, &view, nodes, self.setup.limits.pipeline as u64);
        changing.requests += 1;
        let request = changing.requests;
        changing.open.insert(request, change);
        let from = OPERATOR;
        let message = FromClient::ChangeView { request, change };
        self.hand_in(asked, Input::Client { from, message });
    }

    /// A node says which view is in force there: all say the same of each.
    pub(super) fn watch_view(&mut self, id: NodeId) {
        let Some(running) = &self.nodes[&id].running else {
            return;
        };
        let view = running.replica.view();
        let number = view.number.0;
        if self.harm.views.at.insert(id, number) != Some(number) {
            self.leading.catching_up.turned(id);
        }
        match self.harm.views.seen.get(&number) {
            Some(seen) if seen == view => {}
            Some(seen) => {
                let detail =
                    format!("{id} has view {number} as {view:?}, another node as {seen:?}");
                self.blame(Property::Agreement, detail);
            }
            None => {
                let view = view.clone();
                let before = number
                    .checked_sub(1)
                    .and_then(|before| self.harm.views.seen.get(&before));
                if before.is_some_and(|before| before.acceptors != view.acceptors) {
                    self.exercised(Row::AcceptorsChanged);
                }
                let before = view.first_slot.previous();
                self.judge.view_begins(view.number, before);
                self.harm.views.seen.insert(number, view);
            }
        }
    }

    /// A node takes part in a view for the first time, or has come back with one.
    pub(super) fn begins_view(&mut self, id: NodeId, number: ViewNumber, back: Option<ViewNumber>) {
        self.exercised(Row::ViewBegun);
        let running = self.running(id);
        let back = back.map(|view| Rejoined {
            incarnation: running.replica.fresh(),
            view,
        });
        if running.storage.begin_view(number, back).is_err() {
            return self.die(id, Death::Killed, Duration::ZERO);
        }
        let Some(back) = back else { return };
        if running.since.replace(back.view) != Some(back.view) {
            running.recall = Recall::Whole;
            self.exercised(Row::CameBack);
            // Whoever is about to die is as good as gone.
            if self.nodes[&id].doom.is_none() {
                self.harm.back.insert(id);
            }
        }
    }

    /// A node answers the operator.
    pub(super) fn answers_view_operator(
        &mut self,
        id: NodeId,
        to: ConnectionId,
        message: &ToClient,
    ) {
        if to != OPERATOR {
            return;
        }
        match message {
            ToClient::Checkpointed { request, slot } => {
                let Some(change) = self.harm.views.open.remove(request) else {
                    return;
                };
                let seen = self.harm.views.seen.get(&(change.after.0 + 1));
                let is_right = seen.is_none_or(|seen| {
                    seen.first_slot == *slot
                        && (seen.acceptors, seen.window) == (change.acceptors, change.window)
                });
                if is_right {
                    self.exercised(Row::ViewChanged);
                } else {
                    let detail =
                        format!("{id} says that {change:?} is in force from {slot}: {seen:?}");
                    self.blame(Property::Agreement, detail);
                }
            }
            ToClient::Refused {
                ask: Ask::Request(request),
                refusal,
            } => {
                self.harm.views.open.remove(request);
                if *refusal == Refusal::ViewConflict {
                    self.exercised(Row::ViewConflict);
                }
            }
            _ => {}
        }
    }
}

fn draw_change(random: &mut Random, view: &View, mut nodes: Vec<NodeId>, least: u64) -> ViewChange {
    let mut acceptors = NodeSet::empty();
    if random.chance(300) {
        acceptors = view.acceptors;
    }
    while acceptors.len() < view.acceptors.len() {
        let at = random.between(0, nodes.len() as u64 - 1) as usize;
        acceptors.insert(nodes.swap_remove(at));
    }
    ViewChange {
        after: view.number,
        acceptors,
        window: match random.between(0, 3) {
            0 => random.between(1, 4),
            _ => least + random.between(0, 56),
        },
    }
}
