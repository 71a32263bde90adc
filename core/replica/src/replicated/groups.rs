//! The groups beside the first one: which there are, and who serves them.
//!
//! All of it is computed from decided commands, so every replica of the first group says the same of a group.

use crate::limits::GROUPS_MAX;
use quorate_types::zoo::{Plant, planted};
use quorate_types::{
    GroupChange, GroupChangeError, GroupEntry, GroupId, GroupMember, Incarnation, Level, NodeId,
    Slot, Stamp, View,
};
use std::hash::Hasher;
use std::sync::Arc;
use twox_hash::XxHash3_64;

/// They, oldest first; a copy shares them. Invariant: at most [`GROUPS_MAX`], no two with one number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Groups(Arc<Vec<GroupEntry>>);

impl Groups {
    pub(crate) fn restored(groups: &[GroupEntry]) -> Groups {
        match planted(Plant::GroupsNotInSnapshot) {
            true => Groups::default(),
            false => Groups(Arc::new(groups.to_vec())),
        }
    }

    /// All, for a snapshot and for the node.
    pub(crate) fn all(&self) -> &Arc<Vec<GroupEntry>> {
        &self.0
    }

    fn named(&self, name: &str) -> Option<&GroupEntry> {
        self.0.iter().find(|group| group.name == name)
    }

    /// A change is decided in `slot`, in `view`. Returns the slot since which it is as asked: a repeated request changes nothing.
    ///
    /// # Errors
    /// Why it changes nothing.
    pub(crate) fn decided(
        &mut self,
        (slot, stamp): (Slot, Stamp),
        view: &View,
        change: &GroupChange,
    ) -> Result<Slot, GroupChangeError> {
        match change {
            GroupChange::Create { name, nodes, setup } => {
                if let Some(known) = self.named(name) {
                    let serve = known.members.iter().map(|member| member.node);
                    let is_same = known.setup == *setup && serve.eq(nodes.iter());
                    return is_same
                        .then_some(known.created)
                        .ok_or(GroupChangeError::Exists);
                }
                if !GroupChange::is_name(name) || setup.len() > GroupChange::SETUP_BYTES_MAX {
                    return Err(GroupChangeError::Malformed);
                }
                let id = GroupId::named(name);
                if self.0.iter().any(|group| group.id() == id) {
                    return Err(GroupChangeError::Exists);
                }
                if self.0.len() >= GROUPS_MAX {
                    return Err(GroupChangeError::TooMany);
                }
                // A witness has objects of no group.
                let is_replica = |node: &NodeId| view.replicas.contains(*node);
                if !nodes.iter().all(|node| is_replica(&node)) {
                    return Err(GroupChangeError::NotMembers);
                }
                let members: Option<Vec<GroupMember>> = nodes
                    .iter()
                    .map(|node| member((slot, id), stamp, view, node))
                    .collect();
                let members = members.filter(|members| !members.is_empty());
                Arc::make_mut(&mut self.0).push(GroupEntry {
                    name: name.clone(),
                    created: slot,
                    members: members.ok_or(GroupChangeError::NotMembers)?,
                    setup: setup.clone(),
                    later: Vec::new(),
                });
                Ok(slot)
            }
            GroupChange::Drop { name } => {
                let at = self.0.iter().position(|group| group.name == *name);
                let at = at.ok_or(GroupChangeError::Unknown)?;
                Arc::make_mut(&mut self.0).remove(at);
                Ok(slot)
            }
            GroupChange::Serve {
                name,
                node,
                incarnation,
            } => self.serves(slot, view, name, (*node, *incarnation)),
        }
    }

    /// A node is named for a group that was there before. Returns the slot since which it is, in this incarnation.
    fn serves(
        &mut self,
        slot: Slot,
        view: &View,
        name: &str,
        (node, incarnation): (NodeId, Incarnation),
    ) -> Result<Slot, GroupChangeError> {
        if view.level < GroupChange::SERVE_LEVEL {
            return Err(GroupChangeError::NotSpoken);
        }
        let known = self.named(name).ok_or(GroupChangeError::Unknown)?;
        if let Some((since, member)) = known.member(node)
            && member.incarnation == incarnation
        {
            return Ok(since);
        }
        let voted_as = view.incarnation(node);
        // A witness has objects of no group.
        let executes = view.replicas.contains(node);
        let member = view.member(node).zip(voted_as).filter(|_| executes);
        let (member, voted_as) = member.ok_or(GroupChangeError::NotMembers)?;
        let member = GroupMember {
            node,
            address: member.address.clone(),
            voted_as,
            incarnation,
        };
        let groups = Arc::make_mut(&mut self.0);
        let group = groups.iter_mut().find(|group| group.name == name);
        let later = &mut group.ok_or(GroupChangeError::Unknown)?.later;
        later.retain(|(_, other)| other.node != node);
        later.push((slot, member));
        later.sort_by_key(|(_, member)| member.node);
        Ok(slot)
    }

    /// What a node must speak that is to read a snapshot of them.
    pub(crate) fn level(&self) -> Level {
        match self.0.iter().any(|group| !group.later.is_empty()) {
            true => GroupChange::SERVE_LEVEL,
            false => Level::UNNAMED,
        }
    }

    pub(crate) fn check(&self, applied: Slot) {
        assert!(self.0.len() <= GROUPS_MAX, "groups are bounded");
        assert!(
            self.0.iter().all(|group| group.created <= applied),
            "groups are created in applied slots"
        );
        assert!(
            self.0
                .iter()
                .all(|group| group.later.is_sorted_by(|(_, a), (_, b)| a.node < b.node)),
            "a node is named once for a group"
        );
    }
}

/// How a node serves a group that is created in `slot`. Its incarnation there is as hard to guess as what the leader drew for the
/// slot.
fn member(
    (slot, id): (Slot, GroupId),
    stamp: Stamp,
    view: &View,
    node: NodeId,
) -> Option<GroupMember> {
    let (address, voted_as) = (view.member(node)?.address.clone(), view.incarnation(node)?);
    let mut drawn = XxHash3_64::with_seed(stamp.entropy);
    drawn.write(&voted_as.0.to_le_bytes());
    drawn.write(&slot.0.to_le_bytes());
    drawn.write(&id.0.to_le_bytes());
    drawn.write(&node.0.to_le_bytes());
    Some(GroupMember {
        node,
        address,
        voted_as,
        incarnation: Incarnation(drawn.finish()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use quorate_types::{GroupLimits, Member, NodeSet, Persistence, Quorums, ViewNumber, Wall};
    use std::collections::BTreeMap;

    fn view(members: &[u16]) -> View {
        let member = |node: &u16| Member {
            node: NodeId(*node),
            incarnation: Incarnation(u64::from(*node) + 100),
            address: format!("127.0.0.1:{}", 7400 + node),
        };
        let nodes: NodeSet = members.iter().copied().map(NodeId).collect();
        View {
            first_ballot: None,
            limits: GroupLimits::default(),
            number: ViewNumber(1),
            first_slot: Slot(1),
            members: members.iter().map(member).collect(),
            rejoined: BTreeMap::from([(NodeId(2), Incarnation(7))]),
            replicas: nodes,
            acceptors: nodes,
            quorums: Quorums::majority(members.len()).unwrap(),
            window: 8,
            level: quorate_types::Level::UNNAMED,
            ordering: quorate_types::OrderingName::Paxos,
            persistence: Persistence::Disk,
            objects: Vec::new(),
        }
    }

    fn create(name: &str, nodes: &[u16]) -> GroupChange {
        GroupChange::Create {
            name: name.to_owned(),
            nodes: nodes.iter().copied().map(NodeId).collect(),
            setup: Bytes::from_static(b"setup"),
        }
    }

    fn dropped(name: &str) -> GroupChange {
        let name = name.to_owned();
        GroupChange::Drop { name }
    }

    fn stamp(entropy: u64) -> Stamp {
        let wall = Wall(1);
        Stamp { wall, entropy }
    }

    #[test]
    fn a_group_has_members_of_its_own_incarnations_until_it_is_dropped() {
        let (mut groups, view) = (Groups::default(), view(&[1, 2, 3]));
        let mut decided = |slot, entropy, change: &GroupChange| {
            let made = groups.decided((Slot(slot), stamp(entropy)), &view, change);
            groups.check(Slot(slot));
            (made, groups.all().as_ref().clone())
        };
        let (made, all) = decided(5, 9, &create("orders", &[1, 2]));
        assert_eq!((made, all.len()), (Ok(Slot(5)), 1));
        let first = all[0].clone();
        assert_eq!(first.member(NodeId(3)), None);
        let (_, named) = first.member(NodeId(2)).unwrap();
        assert_eq!(named.voted_as, Incarnation(7), "as it voted last");
        assert_ne!(named.incarnation, first.members[0].incarnation);
        let (again, all) = decided(6, 10, &create("orders", &[1, 2]));
        assert_eq!((again, &all[0]), (Ok(Slot(5)), &first), "asked twice");
        let (other, _) = decided(7, 11, &create("orders", &[1, 3]));
        assert_eq!(other, Err(GroupChangeError::Exists));
        let (gone, all) = decided(8, 12, &dropped("orders"));
        assert_eq!((gone, all.len()), (Ok(Slot(8)), 0));
        let (unknown, _) = decided(9, 13, &dropped("orders"));
        assert_eq!(unknown, Err(GroupChangeError::Unknown));
        let (_, all) = decided(10, 14, &create("orders", &[1, 2]));
        assert_ne!(all[0].members, first.members, "another group of that name");
        assert_eq!(Groups::restored(&all), Groups(Arc::new(all)));
    }

    #[test]
    fn a_node_serves_a_group_that_was_there_before_it_in_the_incarnation_that_was_named_last() {
        let (mut groups, mut view) = (Groups::default(), view(&[1, 2, 3, 4]));
        let made = groups.decided((Slot(5), stamp(9)), &view, &create("orders", &[1, 2, 3]));
        assert_eq!(made, Ok(Slot(5)));
        let serve = |name: &str, node, incarnation| GroupChange::Serve {
            name: name.to_owned(),
            node: NodeId(node),
            incarnation: Incarnation(incarnation),
        };
        let below = groups.decided((Slot(6), stamp(1)), &view, &serve("orders", 4, 70));
        assert_eq!(below, Err(GroupChangeError::NotSpoken));
        assert_eq!(groups.level(), Level::UNNAMED);
        view.level = GroupChange::SERVE_LEVEL;
        let mut decided = |slot, change: &GroupChange| {
            let made = groups.decided((Slot(slot), stamp(1)), &view, change);
            groups.check(Slot(slot));
            (made, groups.all()[0].clone(), groups.level())
        };
        let (made, _, _) = decided(7, &serve("other", 4, 70));
        assert_eq!(made, Err(GroupChangeError::Unknown));
        let (made, _, _) = decided(8, &serve("orders", 5, 70));
        assert_eq!(made, Err(GroupChangeError::NotMembers));
        let (made, entry, level) = decided(9, &serve("orders", 4, 70));
        assert_eq!((made, level), (Ok(Slot(9)), GroupChange::SERVE_LEVEL));
        let (since, member) = entry.member(NodeId(4)).unwrap();
        assert_eq!((since, member.incarnation), (Slot(9), Incarnation(70)));
        let (made, again, _) = decided(10, &serve("orders", 4, 70));
        assert_eq!((made, again), (Ok(Slot(9)), entry), "asked twice");
        // One that has left comes back as another incarnation.
        let (made, entry, _) = decided(11, &serve("orders", 2, 71));
        assert_eq!(made, Ok(Slot(11)));
        assert_eq!(entry.members.len(), 3, "with whom it began");
        let named: Vec<u16> = entry.named().iter().map(|member| member.node.0).collect();
        assert_eq!(named, [1, 2, 3, 4]);
        let (since, member) = entry.member(NodeId(2)).unwrap();
        assert_eq!((since, member.incarnation), (Slot(11), Incarnation(71)));
    }

    #[test]
    fn what_no_group_can_be_changes_nothing() {
        let (mut groups, view) = (Groups::default(), view(&[1, 2, 3]));
        let mut decided = |change: &GroupChange| groups.decided((Slot(3), stamp(1)), &view, change);
        for nodes in [&[][..], &[4], &[1, 4]] {
            let refused = decided(&create("orders", nodes));
            assert_eq!(refused, Err(GroupChangeError::NotMembers), "{nodes:?}");
        }
        for name in ["", "a/b", "..", "a b", &"x".repeat(65)] {
            let refused = decided(&create(name, &[1]));
            assert_eq!(refused, Err(GroupChangeError::Malformed), "{name}");
        }
        for number in 0..GROUPS_MAX {
            assert_eq!(decided(&create(&format!("g{number}"), &[1])), Ok(Slot(3)));
        }
        let refused = decided(&create("one-more", &[1]));
        assert_eq!(refused, Err(GroupChangeError::TooMany));
        groups.check(Slot(3));
        assert_eq!(groups.all().len(), GROUPS_MAX);
    }
}
