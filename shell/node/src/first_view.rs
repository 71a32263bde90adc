//! The view with which a group begins, as its configuration has it.

use crate::config::{MemberConfig, ObjectConfig, PersistConfig};
use crate::{NodeConfig, quorums_word};
use quorate_types::{GroupLimits, Level, Member, NodeSet, Persistence, Slot, View, ViewNumber};
use quorate_wire::SPEAKS;
use std::collections::BTreeMap;

impl NodeConfig {
    /// The level of the first view.
    #[must_use]
    pub fn first_level(&self) -> Level {
        self.level.map_or(quorums_word::level(self), Level)
    }

    /// The first view of the group: every member votes and executes.
    #[must_use]
    pub fn view(&self) -> View {
        let mut members: Vec<Member> = self.members.iter().map(MemberConfig::member).collect();
        members.sort_by_key(|member| member.node);
        let nodes: NodeSet = members.iter().map(|member| member.node).collect();
        View {
            first_ballot: None,
            limits: GroupLimits::default(),
            number: ViewNumber(1),
            first_slot: Slot(1),
            members,
            replicas: nodes,
            acceptors: nodes,
            quorums: (self.quorums.quorums(nodes.len())).expect("checked: there is a member"),
            window: self.window,
            rejoined: BTreeMap::new(),
            level: self.first_level(),
            ordering: self.ordering,
            persistence: match self.persist {
                PersistConfig::Disk => Persistence::Disk,
                PersistConfig::Memory => Persistence::Memory,
            },
            objects: self.objects.iter().map(ObjectConfig::spec).collect(),
        }
    }

    /// Whether there is such a view, and this build speaks it.
    pub(crate) fn check_first_view(&self) -> Result<(), String> {
        quorums_word::checked(self)?;
        if let Some(level) = self.level.map(Level)
            && (!SPEAKS.has(level) || level < quorums_word::level(self))
        {
            return Err(format!(
                "level: {level} is none of those from {} to {}: the ordering and the quorums take the first, and this version speaks up to the last; leave the line out, or name one of them",
                quorums_word::level(self),
                SPEAKS.newest()
            ));
        }
        Ok(())
    }
}
