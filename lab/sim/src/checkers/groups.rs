//! Says which other groups there are after each slot: computed from decided changes, and from nothing that a node says.

use super::{Property, Violation};
use quorate_types::{GroupChange, GroupEntry, Incarnation, Level, NodeId, NodeSet, Slot};
use std::collections::BTreeMap;

/// The groups after a slot: since when each is there, who serves it from the beginning, and who was named for it later.
type Known = BTreeMap<String, (Slot, NodeSet, Vec<(Slot, NodeId, Incarnation)>)>;

/// All that the log says of them, and what replicas said first of each.
#[derive(Debug, Default)]
pub struct OtherGroups {
    after: BTreeMap<Slot, Known>,
    said: BTreeMap<(String, Slot), GroupEntry>,
    /// Changes that had an effect, in their slots: another one in the same slot may have undone it.
    made: Vec<(Slot, GroupChange)>,
}

impl OtherGroups {
    fn at(&self, slot: Slot) -> Known {
        let known = self.after.range(..=slot).next_back();
        known.map(|(_, known)| known.clone()).unwrap_or_default()
    }

    /// A change is decided in a slot in which these are members, of a view at `level`.
    pub fn decided(
        &mut self,
        slot: Slot,
        change: &GroupChange,
        (members, level): (NodeSet, Level),
    ) {
        let mut known = self.at(slot);
        match change {
            GroupChange::Create { name, nodes, .. } => {
                let are_members = nodes.iter().all(|node| members.contains(node));
                if !known.contains_key(name) && are_members && !nodes.is_empty() {
                    known.insert(name.clone(), (slot, *nodes, Vec::new()));
                    self.made.push((slot, change.clone()));
                }
            }
            GroupChange::Drop { name } => {
                if known.remove(name).is_some() {
                    self.made.push((slot, change.clone()));
                }
            }
            GroupChange::Serve {
                name,
                node,
                incarnation,
            } => {
                let is_possible = members.contains(*node) && level >= GroupChange::SERVE_LEVEL;
                if let Some((_, _, later)) = known.get_mut(name).filter(|_| is_possible)
                    && !later
                        .iter()
                        .any(|(_, of, as_)| (of, as_) == (node, incarnation))
                {
                    later.retain(|(_, other, _)| other != node);
                    later.push((slot, *node, *incarnation));
                    later.sort_by_key(|(_, node, _)| *node);
                    self.made.push((slot, change.clone()));
                }
            }
        }
        self.after.insert(slot, known);
    }

    /// Whether a node was named later for one of the groups after a slot: who reads that speaks [`GroupChange::SERVE_LEVEL`].
    pub fn has_later(&self, slot: Slot) -> bool {
        self.at(slot)
            .values()
            .any(|(_, _, later)| !later.is_empty())
    }

    /// A replica that has applied all slots up to `applied` has these.
    ///
    /// # Errors
    /// [`Property::Agreement`] when the log says something else, or another replica did.
    pub fn said(
        &mut self,
        node: NodeId,
        applied: Slot,
        groups: &[GroupEntry],
    ) -> Result<(), Violation> {
        let broken = |detail: String| Err(Violation::new(Property::Agreement, detail));
        let nodes = |group: &GroupEntry| group.members.iter().map(|member| member.node).collect();
        let later = |group: &GroupEntry| {
            let later = group.later.iter();
            let later = later.map(|(since, member)| (*since, member.node, member.incarnation));
            later.collect()
        };
        let named = groups.iter().map(|group| {
            (
                group.name.clone(),
                (group.created, nodes(group), later(group)),
            )
        });
        let (named, known): (Known, Known) = (named.collect(), self.at(applied));
        if named != known {
            return broken(format!(
                "{node} has the groups {named:?} after {applied}, and the log {known:?}"
            ));
        }
        for group in groups {
            let group = &GroupEntry {
                later: Vec::new(),
                ..group.clone()
            };
            let first = self.said.entry((group.name.clone(), group.created));
            let first = first.or_insert_with(|| group.clone());
            if first != group {
                return broken(format!("{node} has {group:?}, and another one {first:?}"));
            }
        }
        Ok(())
    }

    /// A client was told that a change is made since `slot`.
    ///
    /// # Errors
    /// [`Property::Agreement`] when it is not.
    pub fn answered(&self, change: &GroupChange, slot: Slot) -> Result<(), Violation> {
        let is_it = |(at, made): &(Slot, GroupChange)| (at, made) == (&slot, change);
        match self.made.iter().any(is_it) {
            true => Ok(()),
            false => Err(Violation::new(
                Property::Agreement,
                format!(
                    "{change:?} is answered with {slot}, where it had no effect: {:?}",
                    self.at(slot)
                ),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use quorate_types::GroupMember;

    fn nodes(nodes: &[u16]) -> NodeSet {
        nodes.iter().copied().map(NodeId).collect()
    }

    /// Two members, at the level at which nodes can be named later.
    fn two() -> (NodeSet, Level) {
        (nodes(&[1, 2]), GroupChange::SERVE_LEVEL)
    }

    fn create(name: &str, of: &[u16]) -> GroupChange {
        GroupChange::Create {
            name: name.to_owned(),
            nodes: nodes(of),
            setup: Bytes::new(),
        }
    }

    fn entry(created: u64, incarnation: u64) -> GroupEntry {
        GroupEntry {
            name: "a".to_owned(),
            created: Slot(created),
            members: vec![GroupMember {
                node: NodeId(1),
                address: "n1:1".to_owned(),
                voted_as: Incarnation(1),
                incarnation: Incarnation(incarnation),
            }],
            setup: Bytes::new(),
            later: Vec::new(),
        }
    }

    #[test]
    fn what_differs_from_the_log_or_between_replicas_is_found() {
        let mut groups = OtherGroups::default();
        groups.decided(Slot(3), &create("a", &[1]), two());
        groups.decided(Slot(5), &create("b", &[4]), two());
        assert!(groups.said(NodeId(1), Slot(2), &[]).is_ok());
        assert!(groups.said(NodeId(1), Slot(3), &[]).is_err(), "it is lost");
        assert!(groups.said(NodeId(1), Slot(6), &[entry(3, 9)]).is_ok());
        let early = groups.said(NodeId(2), Slot(2), &[entry(3, 9)]);
        assert!(early.is_err(), "it is not there yet");
        let other = groups.said(NodeId(2), Slot(6), &[entry(3, 8)]);
        assert!(other.is_err(), "another incarnation");
        assert!(groups.answered(&create("a", &[1]), Slot(3)).is_ok());
        assert!(groups.answered(&create("a", &[1]), Slot(5)).is_err());
        // Both of one slot had an effect.
        groups.decided(Slot(6), &create("c", &[2]), two());
        let gone = GroupChange::Drop {
            name: "c".to_owned(),
        };
        groups.decided(Slot(6), &gone, two());
        assert!(groups.answered(&create("c", &[2]), Slot(6)).is_ok());
        assert!(groups.answered(&gone, Slot(6)).is_ok());
        let drop = GroupChange::Drop {
            name: "a".to_owned(),
        };
        assert!(groups.answered(&drop, Slot(6)).is_err());
        groups.decided(Slot(7), &drop, two());
        assert!(groups.answered(&drop, Slot(7)).is_ok());
        assert!(groups.said(NodeId(1), Slot(8), &[entry(3, 9)]).is_err());
    }

    #[test]
    fn who_was_named_for_a_group_later_is_compared_with_the_log() {
        let mut groups = OtherGroups::default();
        groups.decided(Slot(3), &create("a", &[1]), two());
        let serve = |node| GroupChange::Serve {
            name: "a".to_owned(),
            node: NodeId(node),
            incarnation: Incarnation(7),
        };
        groups.decided(Slot(4), &serve(2), (nodes(&[1, 2]), Level::UNNAMED));
        groups.decided(Slot(5), &serve(3), two());
        assert!(
            groups.said(NodeId(1), Slot(5), &[entry(3, 9)]).is_ok(),
            "the level is too low, and node 3 is no member"
        );
        assert!(!groups.has_later(Slot(5)));
        groups.decided(Slot(6), &serve(2), two());
        assert!(groups.has_later(Slot(6)) && groups.answered(&serve(2), Slot(6)).is_ok());
        let mut named = entry(3, 9);
        assert!(groups.said(NodeId(1), Slot(6), &[named.clone()]).is_err());
        let member = GroupMember {
            node: NodeId(2),
            incarnation: Incarnation(7),
            ..named.members[0].clone()
        };
        named.later.push((Slot(6), member));
        assert!(groups.said(NodeId(1), Slot(6), &[named.clone()]).is_ok());
        named.later[0].1.incarnation = Incarnation(8);
        assert!(groups.said(NodeId(1), Slot(6), &[named]).is_err());
    }
}
