//! Calls that the group skips: who died at them, who executed them, and what their clients were told.

use super::{Judge, Judged, broken};
use crate::checkers::Property;
use crate::checkers::at_most_once::Place;
use quorate_types::{Batch, Body, CallPlace, CommandId, NodeId, NodeSet, Slot};
use std::collections::{BTreeMap, BTreeSet};

/// What the log says about the hosts that died in a slot.
#[derive(Debug, Default)]
pub(in super::super) struct Deaths {
    /// Who ever reported that its host died in the slot.
    pub reported: NodeSet,
    /// The call at which a host is down, by what its node said last, and the number of that report.
    newest: BTreeMap<NodeId, (u64, Option<u32>)>,
    /// Whether anybody is past the slot or may have answered it.
    pub is_kept: bool,
    /// The calls at which hosts were down when all were down in the slot, and those that an operator had skipped in any case.
    pub skipped: BTreeSet<u32>,
}

impl Deaths {
    /// Whether the host of a node is down in the slot.
    pub(in super::super) fn is_down(&self, node: NodeId) -> bool {
        let newest = self.newest.get(&node);
        newest.is_some_and(|(_, at)| at.is_some_and(|at| !self.skipped.contains(&at)))
    }

    /// Reports of one node count in the order of their numbers.
    fn say(&mut self, node: NodeId, number: u64, down_at: Option<u32>) {
        let newest = self.newest.entry(node).or_default();
        if newest.0 <= number {
            *newest = (number, down_at);
        }
    }

    fn skip_where_all_are_down(&mut self, replicas: NodeSet) {
        if !self.is_kept && replicas.iter().all(|node| self.is_down(node)) {
            let down = self.newest.values().filter_map(|(_, at)| *at);
            self.skipped.extend(down);
        }
    }
}

impl Judge {
    /// `node` goes past a call without executing it.
    pub(super) fn skipped(&mut self, node: NodeId, call: CommandId, place: Place) -> Judged {
        let index = place.index as u32;
        self.skipped.insert((place.slot, index), call);
        self.once.skipped(node, call, place)
    }

    /// A life of `node` ends, and its replica has not seen what its objects made of `slot`.
    pub(in super::super) fn forget_executed(&mut self, node: NodeId, slot: Slot) {
        let commands = self.log.get(&slot).into_iter();
        for command in commands.flat_map(|batch| batch.commands()) {
            self.once.lost(node, command.id);
        }
    }

    /// A life of `node` begins with the state after `held`; nobody was told anything of what lives before it made of calls behind
    /// `told`. Where nobody else executed them, they have not taken effect, unless a client was answered: by an earlier machine with
    /// this number, of which the directory of this one says nothing.
    pub(in super::super) fn forget_untold(&mut self, node: NodeId, held: Slot, told: Slot) {
        for place in self.once.untold(node, held, told) {
            let command = &self.log[&place.slot].commands()[place.index];
            if !self.answered_calls.contains_key(&command.id) {
                self.executed.remove(&(place.slot, place.index as u32));
            }
        }
    }

    /// Whether a replica went past a call without executing it.
    pub(in super::super) fn is_skipped(&self, call: CommandId) -> bool {
        self.once.is_skipped(call)
    }

    /// Whether a replica executed a call.
    pub(in super::super) fn is_executed(&self, call: CommandId) -> bool {
        self.once.is_executed(call)
    }

    /// Takes note of the starts that had all calls before `slot` kept.
    pub(super) fn note_keeps(&mut self, slot: Slot, batch: &Batch) {
        for command in batch.commands() {
            if let Body::Keep { reporter } = command.body {
                let boot = (command.id.sequence >> 32) as u16;
                self.keeps.entry((reporter, boot)).or_insert(slot);
            }
        }
    }

    /// The slot before which a start of a node had all calls kept.
    pub(in super::super) fn kept_by(&self, node: NodeId, boot: u64) -> Option<Slot> {
        self.keeps.get(&(node, boot as u16)).copied()
    }

    /// The reports in the log about a slot.
    pub(in super::super) fn deaths(&self, of: Slot) -> Deaths {
        let mut deaths = Deaths::default();
        let commands = self.log.range(of.next()..);
        let commands = commands
            .flat_map(|(at, batch)| batch.commands().iter().map(move |command| (at, command)));
        let departure = self.views.0.departure_after(of);
        for (at, command) in commands {
            deaths.is_kept |= departure.is_some_and(|first| *at >= first);
            let number = command.id.sequence;
            match &command.body {
                Body::Died {
                    reporter,
                    slot,
                    index,
                    may_have_answered,
                } if *slot == of => {
                    deaths.is_kept |= may_have_answered;
                    deaths.reported.insert(*reporter);
                    deaths.say(*reporter, number, Some(*index));
                    deaths.skip_where_all_are_down(self.replicas_at(*at));
                }
                Body::Retry { reporter, slot, .. } if *slot == of => {
                    deaths.say(*reporter, number, None);
                }
                Body::Keep { .. } => deaths.is_kept = true,
                Body::Skip {
                    slot,
                    index,
                    is_unsafe: true,
                } if *slot == of => {
                    deaths.skipped.insert(*index);
                }
                Body::Survived { reporter, slot, .. } if *slot == of => {
                    deaths.is_kept = true;
                    deaths.say(*reporter, number, None);
                }
                _ => {}
            }
        }
        deaths
    }

    /// Whether the group skips a call, by the log.
    pub(in super::super) fn is_skip_decided(&self, place: CallPlace) -> bool {
        self.deaths(place.slot).skipped.contains(&place.index)
    }

    /// When each call that was skipped was, the host of every one of `replicas` was down in its slot and one at the call, by
    /// their own reports in the log, unless an operator had it skipped in any case.
    pub(super) fn check_skips(&self) -> Judged {
        for ((slot, index), call) in &self.skipped {
            let deaths = self.deaths(*slot);
            if !deaths.skipped.contains(index) {
                return broken(
                    Property::AtMostOnce,
                    format!("{call} at {index} of {slot} is skipped, after {deaths:?}"),
                );
            }
        }
        Ok(())
    }
}
