//! An operator who creates and drops other groups, and names nodes for them. What they are is compared at every replica; they do not run here.

use super::World;
use super::random::Random;
use super::row::Row;
use bytes::Bytes;
use quorate_types::{GroupChange, GroupEntry, Incarnation, NodeId, NodeSet, Slot};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Few, so that the same ones are asked for again.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// What the operator is about.
#[derive(Debug, Default)]
pub(super) struct Grouping {
    random: Option<Random>,
    /// Decides which drops are asked for as something else.
    serving: Option<Random>,
    /// The requests without an answer.
    open: BTreeMap<u64, GroupChange>,
    /// What each node had when it was last looked at.
    seen: BTreeMap<NodeId, Arc<Vec<GroupEntry>>>,
}

impl Grouping {
    /// What follows from the seed.
    pub(super) fn new(seed: u64) -> Grouping {
        let mut random = Random::new(seed, "groups", 0);
        Grouping {
            random: random.chance(300).then_some(random),
            serving: Some(Random::new(seed, "serving", 0)),
            ..Grouping::default()
        }
    }

    /// The change that is asked for with this request, if it is time for one. Some of the nodes may be no members.
    pub(super) fn wish(
        &mut self,
        request: u64,
        all: impl Iterator<Item = NodeId>,
    ) -> Option<GroupChange> {
        let random = self.random.as_mut()?;
        if !random.chance(200) {
            return None;
        }
        let name = (*random.pick(&NAMES)).to_owned();
        let serving = self.serving.as_mut();
        let serving = serving.and_then(|serving| serving.chance(300).then_some(serving));
        let change = match random.chance(600) {
            true => {
                let nodes: NodeSet = all.filter(|_| random.chance(600)).collect();
                let setup = Bytes::from_static(b"setup");
                GroupChange::Create { name, nodes, setup }
            }
            false => match serving {
                None => GroupChange::Drop { name },
                Some(serving) => {
                    let all: Vec<NodeId> = all.collect();
                    GroupChange::Serve {
                        name,
                        node: *serving.pick(&all),
                        incarnation: Incarnation(serving.below(3)),
                    }
                }
            },
        };
        self.open.insert(request, change.clone());
        Some(change)
    }
}

impl World {
    /// A node answers a request about groups, or refuses it.
    pub(super) fn answers_group_operator(&mut self, request: u64, slot: Option<Slot>) {
        let Some(change) = self.harm.views.grouping.open.remove(&request) else {
            return;
        };
        match slot {
            Some(slot) => {
                self.exercised(match change {
                    GroupChange::Create { .. } => Row::GroupCreated,
                    GroupChange::Drop { .. } => Row::GroupDropped,
                    GroupChange::Serve { .. } => Row::GroupServed,
                });
                let judged = self.judge.answered_groups(&change, slot);
                self.judged(judged);
            }
            None => self.exercised(Row::GroupRefused),
        }
    }

    /// A node has other groups than when it was last looked at: all have the same after a slot.
    pub(super) fn watch_groups(&mut self, id: NodeId) {
        let Some(running) = &self.nodes[&id].running else {
            return;
        };
        let groups = running.replica.groups();
        let seen = &mut self.harm.views.grouping.seen;
        if seen.get(&id).is_some_and(|seen| Arc::ptr_eq(seen, groups)) {
            return;
        }
        let (groups, applied) = (groups.clone(), running.replica.status().applied);
        seen.insert(id, groups.clone());
        let judged = self.judge.says_groups(id, applied, &groups);
        self.judged(judged);
    }
}
