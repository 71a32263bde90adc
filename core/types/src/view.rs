//! Views: everything configured about a group, and the quorums it counts with.

use crate::zoo::{Plant, planted};
use crate::{
    FastQuorumsError, FirstBallot, GroupId, GroupLimits, Incarnation, Level, LimitChange, NodeId,
    NodeSet, ObjectId, OrderingName, QuorumRule, Quorums, QuorumsError, SecretHash, Slot,
    ViewChangeError,
};
use std::collections::BTreeMap;
use std::fmt;

/// The largest window, in slots: what an acceptor holds above its decided prefix.
const WINDOW_MAX: u64 = 1 << 14;

/// Numbers the views of a group from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ViewNumber(pub u64);

/// The id of one view of one group. Each record, vote and message of ordering belongs to exactly one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ViewId {
    /// The group.
    pub group: GroupId,
    /// The number of the view.
    pub number: ViewNumber,
}

impl fmt::Display for ViewId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.v{}", self.group, self.number.0)
    }
}

/// What the first view of a group is, as a hash that nodes compare while it is in force: configurations that differ would make two groups
/// of one, whose quorums may miss each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BeganWith(pub [u8; BeganWith::BYTES]);

impl BeganWith {
    /// Its length.
    pub const BYTES: usize = 16;

    /// Of a first view, in bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> BeganWith {
        let mut hash = [0; BeganWith::BYTES];
        hash.copy_from_slice(&blake3::hash(bytes).as_bytes()[..BeganWith::BYTES]);
        BeganWith(hash)
    }
}

/// A node as a view pins it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Which node.
    pub node: NodeId,
    /// The data directory that it was made or joined with; a node that does not know it gets no link.
    pub incarnation: Incarnation,
    /// Where nodes and clients reach it, `host:port`.
    pub address: String,
}

/// Whether acknowledged commands survive the loss of power on all nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Persistence {
    /// Votes and promises are on disk before they are told.
    Disk,
    /// A majority of running nodes is the only memory, as in OpenReplica section 2.
    Memory,
}

/// An object that the group replicates.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectSpec {
    /// What clients call it.
    pub name: String,
    /// `module:Class`, or `rust:counter` and the like.
    pub class: String,
    /// Constructor arguments as an encoded list and an encoded map.
    pub arguments: crate::Value,
}

/// Everything configured about a group from `first_slot` on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    /// Rises by one with each change.
    pub number: ViewNumber,
    /// The first slot that this view governs.
    pub first_slot: Slot,
    /// Every member, ascending by node.
    pub members: Vec<Member>,
    /// Nodes that execute. Invariant: one of them is an acceptor, because only who executes leads.
    pub replicas: NodeSet,
    /// Nodes that vote and remember.
    pub acceptors: NodeSet,
    /// How many acceptors each phase needs. Invariant: where an operator asked for them, `level` is at least [`Level::QUORUMS`].
    pub quorums: Quorums,
    /// ω: how many slots may run ahead of what the replica core has applied.
    pub window: u64,
    /// The members that have come back since the group was made, and as which incarnation: an earlier life of theirs does not vote.
    pub rejoined: BTreeMap<NodeId, Incarnation>,
    /// What every member speaks, and nobody goes beyond in what all read: commands, snapshots, the log.
    pub level: Level,
    /// How commands are ordered. Invariant: `level` is at least that of the ordering.
    pub ordering: OrderingName,
    /// Who may lead without phase 1, unless `level` is below [`Level::FIRST_BALLOT`]. Claim mp-90.
    pub first_ballot: Option<FirstBallot>,
    /// Limits that what is replicated depends on. Invariant: `level` is at least that of the limits. Claim rp-152.
    pub limits: GroupLimits,
    /// Whether votes are on disk.
    pub persistence: Persistence,
    /// The group's objects; `ObjectId(i)` is the i-th.
    pub objects: Vec<ObjectSpec>,
}

impl View {
    /// Whether the group may have this object. Of those that are created while it runs, its hosts know which there are.
    #[must_use]
    #[inline]
    pub fn may_have(&self, object: ObjectId) -> bool {
        (object.0 as usize) < self.objects.len() || object >= ObjectId::CREATED_MIN
    }

    /// The member that `node` is, if it is one.
    #[must_use]
    pub fn member(&self, node: NodeId) -> Option<&Member> {
        self.members.iter().find(|member| member.node == node)
    }

    /// The incarnation of `node` that may vote, if it is a member.
    #[must_use]
    pub fn incarnation(&self, node: NodeId) -> Option<Incarnation> {
        let configured = self.member(node)?.incarnation;
        Some(self.rejoined.get(&node).copied().unwrap_or(configured))
    }

    /// All members as a set.
    #[must_use]
    pub fn nodes(&self) -> NodeSet {
        self.members.iter().map(|member| member.node).collect()
    }

    /// Members without objects: they keep the log and the newest snapshot, vote if they are acceptors, and never lead. Claim rp-124.
    #[must_use]
    pub fn witnesses(&self) -> NodeSet {
        let nodes = self.members.iter().map(|member| member.node);
        nodes
            .filter(|node| !self.replicas.contains(*node))
            .collect()
    }

    /// Whether `node` may lead: it votes, and executes what it orders.
    #[must_use]
    pub fn may_lead(&self, node: NodeId) -> bool {
        let executes = self.replicas.contains(node) || planted(Plant::WitnessLeads);
        executes && self.acceptors.contains(node)
    }

    /// Whether every majority of the acceptors that may be left, and every quorum, has one of `holders`.
    #[must_use]
    pub fn meets_quorums(&self, holders: NodeSet) -> bool {
        let holders = holders.iter().filter(|node| self.acceptors.contains(*node));
        let least = self.quorums.phase1().min(self.quorums.phase2());
        holders.count() > self.quorums.acceptors() - least
    }

    /// This view, with `first` as its first leader if it may lead and all members read that.
    #[must_use]
    pub fn begun_by(mut self, first: Option<FirstBallot>) -> View {
        let is_read = self.level >= Level::FIRST_BALLOT;
        self.first_ballot = first.filter(|first| is_read && self.may_lead(first.node));
        self
    }

    /// How many replicas make a majority of this view's replicas.
    #[must_use]
    pub fn replica_majority(&self) -> usize {
        self.replicas.len() / 2 + 1
    }
}

/// What is changed about a view; everything else of it stays. OpenReplica section 2 (dynamic membership).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ViewChange {
    /// The view that is changed. While it is not the newest one, the change has no effect.
    pub after: ViewNumber,
    /// Nodes that vote and remember from then on. The quorums follow them: [`Quorums::after`].
    pub acceptors: NodeSet,
    /// ω from then on.
    pub window: u64,
}

/// A member that has lost what it voted, or may have, comes back as another incarnation: from the new view on, this one votes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rejoin {
    /// The member.
    pub node: NodeId,
    /// Drawn at random by the life that asks, so that no other life takes the view for its own.
    pub incarnation: Incarnation,
}

/// What a member does that joins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberRole {
    /// It executes.
    Replica,
    /// It has no objects. A log that has such a change is read from [`Level::WITNESSES`] on only: the group is at that level before.
    Witness,
}

/// What else a change of the view does: to one member, or to all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MemberChange {
    /// Nothing: all stay who they are.
    Same,
    /// It votes as another incarnation from then on.
    Returns(Rejoin),
    /// It is one from then on. The invitation that it comes with is used up.
    Joins {
        /// The new member; no member has its number.
        member: Member,
        /// The hash of the secret that it was invited with.
        invitation: SecretHash,
        /// Whether it executes.
        role: MemberRole,
    },
    /// It is none from then on, and has no link to the others. Acceptors do not leave before they have stopped to vote, unless
    /// the change says both.
    Leaves(NodeId),
    /// All stay who they are, and the group is at this level from then on. A log that has such a change, and a view that names a
    /// level above [`Level::UNNAMED`], are read from [`Level::NAMED`] on only.
    Level(Level),
    /// All stay who they are, and commands are ordered in this way from then on. Claim rp-121. A log that has such a change, and a view that names
    /// an ordering, are read from [`OrderingName::change_level`] on only: the group is at that level before.
    Ordering(OrderingName),
    /// All stay who they are, and so many acceptors elect a leader and decide from then on. Claim mp-85. Claim rp-140. A log that has such a change,
    /// and a view with quorums that were asked for, are read from [`Level::QUORUMS`] on only: the group is at that level before.
    Quorums(QuorumRule),
    /// All stay who they are, and this limit is in force from then on. Claim rp-152. A log that has such a change, and a view whose limits are
    /// not the defaults, are read from [`Level::LIMITS`] on only: the group is at that level before.
    Limit(LimitChange),
}

impl ViewChange {
    /// The largest window, in slots: an acceptor holds no votes further ahead.
    pub const WINDOW_MAX: u64 = WINDOW_MAX;
}

impl View {
    /// Whether it is the view that this change leads to.
    #[must_use]
    pub fn is_after(&self, change: &ViewChange) -> bool {
        let number = ViewNumber(change.after.0 + 1);
        self.number == number && (self.acceptors, self.window) == (change.acceptors, change.window)
    }

    /// This view, as a node knows it that was configured with `own`: changes leave objects and persistence as they are. Where a member
    /// of its configuration is reached, a node knows from there.
    #[must_use]
    pub fn configured(&self, own: &View) -> View {
        let mut members = self.members.clone();
        for member in &mut members {
            if let Some(known) = own.member(member.node)
                && known.incarnation == member.incarnation
            {
                member.address.clone_from(&known.address);
            }
        }
        View {
            members,
            rejoined: match planted(Plant::RejoinNotInSnapshot) {
                true => own.rejoined.clone(),
                false => self.rejoined.clone(),
            },
            limits: match planted(Plant::LimitsNotInSnapshot) {
                true => own.limits,
                false => self.limits,
            },
            persistence: own.persistence,
            objects: own.objects.clone(),
            ..self.clone()
        }
    }

    /// Whether a member has been changed as `change` says.
    #[must_use]
    pub fn has(&self, change: &MemberChange) -> bool {
        match change {
            MemberChange::Same => true,
            MemberChange::Returns(Rejoin { node, incarnation }) => {
                self.rejoined.get(node) == Some(incarnation)
            }
            MemberChange::Joins { member, role, .. } => {
                let executes = self.replicas.contains(member.node);
                self.member(member.node) == Some(member)
                    && executes == (*role == MemberRole::Replica)
            }
            MemberChange::Leaves(node) => self.member(*node).is_none(),
            MemberChange::Level(level) => self.level == *level,
            MemberChange::Ordering(ordering) => self.ordering == *ordering,
            MemberChange::Quorums(rule) => rule.quorums(self.acceptors.len()) == Ok(self.quorums),
            MemberChange::Limit(limit) => self.limits.changed(*limit) == Ok(self.limits),
        }
    }

    /// The view that a change begins which was decided in `slot`: in force from ω slots after it on, so that whoever may
    /// propose in a slot has applied what was decided about its view.
    ///
    /// # Errors
    /// When there is no such view.
    pub fn changed(
        &self,
        slot: Slot,
        change: ViewChange,
        who: &MemberChange,
    ) -> Result<View, ViewChangeError> {
        if change.after != self.number {
            return Err(ViewChangeError::Superseded);
        }
        let with = self.with(who)?;
        if !(1..=WINDOW_MAX).contains(&change.window) {
            return Err(ViewChangeError::Window(change.window));
        }
        let mut acceptors = change.acceptors.iter();
        if let Some(node) = acceptors.find(|node| with.member(*node).is_none()) {
            return Err(match self.member(node) {
                Some(_) => ViewChangeError::Votes(node),
                None => ViewChangeError::NotAMember(node),
            });
        }
        let mut acceptors = change.acceptors.iter();
        if !change.acceptors.is_empty() && !acceptors.any(|node| with.replicas.contains(node)) {
            return Err(ViewChangeError::OnlyWitnesses);
        }
        let quorums = match planted(Plant::QuorumsOfOldView) && !change.acceptors.is_empty() {
            true => self.quorums,
            false => self.quorums_of(change.acceptors, who)?,
        };
        Ok(View {
            number: ViewNumber(self.number.0 + 1),
            first_slot: slot.plus(self.window),
            acceptors: change.acceptors,
            quorums,
            window: change.window,
            first_ballot: None,
            ..with
        })
    }

    /// The quorums of the acceptors of the next view.
    fn quorums_of(
        &self,
        acceptors: NodeSet,
        who: &MemberChange,
    ) -> Result<Quorums, ViewChangeError> {
        let quorums = match who {
            MemberChange::Quorums(rule) => rule.quorums(acceptors.len()),
            _ if acceptors == self.acceptors => return Ok(self.quorums),
            _ => {
                let next = self.quorums.after(acceptors.len());
                next.map_err(FastQuorumsError::Classic)
            }
        };
        quorums.map_err(|why| match why {
            FastQuorumsError::Classic(QuorumsError::NoAcceptors) => ViewChangeError::NoAcceptors,
            why => ViewChangeError::Quorums(why),
        })
    }

    /// Refuses a level whose speakers need not read what this view has.
    fn refuse_below(&self, level: Level) -> Result<(), ViewChangeError> {
        if level < self.ordering.level() {
            return Err(ViewChangeError::OrderingNotSpoken(level, self.ordering));
        }
        if level < Level::WITNESSES && !self.witnesses().is_empty() {
            return Err(ViewChangeError::WitnessesNotSpoken(level));
        }
        if level < Level::QUORUMS && self.quorums.is_asked() {
            return Err(ViewChangeError::QuorumsNotSpoken(level));
        }
        if level < self.limits.level() {
            return Err(ViewChangeError::LimitsNotSpoken(level));
        }
        Ok(())
    }

    /// This view, in which one member is changed. Whether a new one is invited is not known here.
    fn with(&self, change: &MemberChange) -> Result<View, ViewChangeError> {
        let mut view = self.clone();
        match change {
            MemberChange::Same => {}
            MemberChange::Returns(Rejoin { node, incarnation }) => {
                if self.member(*node).is_none() {
                    return Err(ViewChangeError::NotAMember(*node));
                }
                view.rejoined.insert(*node, *incarnation);
            }
            MemberChange::Joins { member, role, .. } => {
                if *role == MemberRole::Witness && self.level < Level::WITNESSES {
                    return Err(ViewChangeError::WitnessesNotSpoken(self.level));
                }
                if self.member(member.node).is_some() {
                    return Err(ViewChangeError::IsAMember(member.node));
                }
                if member.node.0 >= NodeSet::CAPACITY {
                    return Err(ViewChangeError::Full);
                }
                let port = member.address.rsplit_once(':');
                if port.is_none_or(|(host, port)| host.is_empty() || port.parse::<u16>().is_err()) {
                    return Err(ViewChangeError::Address(member.node));
                }
                view.members.push(member.clone());
                view.members.sort_by_key(|member| member.node);
                match role {
                    MemberRole::Replica => view.replicas.insert(member.node),
                    MemberRole::Witness => false,
                };
            }
            MemberChange::Leaves(node) => {
                if self.member(*node).is_none() {
                    return Err(ViewChangeError::NotAMember(*node));
                }
                view.members.retain(|member| member.node != *node);
                view.replicas.remove(*node);
                view.rejoined.remove(node);
            }
            MemberChange::Level(level) => {
                self.refuse_below(*level)?;
                view.level = *level;
            }
            MemberChange::Quorums(_) if self.level < Level::QUORUMS => {
                return Err(ViewChangeError::QuorumsNotSpoken(self.level));
            }
            MemberChange::Quorums(QuorumRule::Sizes(_))
                if self.persistence == Persistence::Memory =>
            {
                return Err(ViewChangeError::QuorumsInMemory);
            }
            MemberChange::Quorums(_) => {}
            MemberChange::Limit(_) if self.level < Level::LIMITS => {
                return Err(ViewChangeError::LimitsNotSpoken(self.level));
            }
            MemberChange::Limit(limit) => {
                let changed = self.limits.changed(*limit);
                view.limits = changed.map_err(ViewChangeError::Limit)?;
            }
            MemberChange::Ordering(ordering) if self.level < ordering.change_level() => {
                return Err(ViewChangeError::OrderingNotSpoken(self.level, *ordering));
            }
            MemberChange::Ordering(ordering) => view.ordering = *ordering,
        }
        Ok(view)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(nodes: u16) -> View {
        let all: NodeSet = (1..=nodes).map(NodeId).collect();
        let member = |node| Member {
            node,
            incarnation: Incarnation(7),
            address: format!("10.0.0.{}:7400", node.0),
        };
        View {
            first_ballot: None,
            limits: GroupLimits::default(),
            number: ViewNumber(3),
            first_slot: Slot(40),
            members: all.iter().map(member).collect(),
            replicas: all,
            acceptors: all,
            quorums: Quorums::majority(usize::from(nodes)).unwrap(),
            window: 8,
            rejoined: BTreeMap::new(),
            level: Level::UNNAMED,
            ordering: OrderingName::Paxos,
            persistence: Persistence::Disk,
            objects: Vec::new(),
        }
    }

    #[test]
    fn a_change_counts_majorities_of_the_new_acceptors_and_leaves_the_rest() {
        let five = view(5);
        for size in 1..=5 {
            let change = ViewChange {
                after: five.number,
                acceptors: (1..=size).map(NodeId).collect(),
                window: 16,
            };
            let next = five.changed(Slot(50), change, &MemberChange::Same).unwrap();
            let majority = usize::from(size) / 2 + 1;
            assert_eq!(next.quorums, Quorums::majority(size.into()).unwrap());
            assert_eq!(next.quorums.phase1(), majority);
            assert_eq!((next.number.0, next.first_slot), (4, Slot(58)));
            assert_eq!(next.window, 16);
            assert_eq!(
                (&next.members, next.replicas),
                (&five.members, five.replicas)
            );
            assert!(next.is_after(&change) && !five.is_after(&change));
            assert_eq!(
                next.changed(Slot(60), change, &MemberChange::Same),
                Err(ViewChangeError::Superseded)
            );
        }
    }

    #[test]
    fn a_view_of_others_is_taken_with_the_own_addresses_of_the_same_members() {
        let (own, mut told) = (view(3), view(4));
        told.members[0].address = "10.9.9.9:1".to_owned();
        told.members[1].incarnation = Incarnation(8);
        told.members[1].address = "10.9.9.9:2".to_owned();
        told.window = 2;
        told.acceptors = [NodeId(2)].into_iter().collect();
        let taken = told.configured(&own);
        assert_eq!(taken.members[0], own.members[0]);
        assert_eq!(taken.members[1..], told.members[1..]);
        assert_eq!((taken.window, taken.acceptors), (2, told.acceptors));
    }

    #[test]
    fn members_join_with_a_free_number_and_leave_once_they_do_not_vote() {
        let three = view(3);
        let member = |node| Member {
            node: NodeId(node),
            incarnation: Incarnation(9),
            address: "10.0.0.9:1".to_owned(),
        };
        let joins = |node| MemberChange::Joins {
            member: member(node),
            invitation: SecretHash::default(),
            role: MemberRole::Replica,
        };
        let change = |acceptors: &[u16]| ViewChange {
            after: three.number,
            acceptors: acceptors.iter().copied().map(NodeId).collect(),
            window: 8,
        };
        let next =
            |acceptors: &[u16], who: &MemberChange| three.changed(Slot(50), change(acceptors), who);
        let joined = next(&[1, 2, 3], &joins(9)).unwrap();
        assert_eq!(joined.member(NodeId(9)), Some(&member(9)));
        assert!(joined.replicas.contains(NodeId(9)) && joined.has(&joins(9)));
        assert_eq!(joined.acceptors, three.acceptors, "it does not vote yet");
        assert!(next(&[1, 2, 3, 9], &joins(9)).is_ok(), "or at once");
        assert_eq!(
            next(&[1, 2, 3], &joins(2)),
            Err(ViewChangeError::IsAMember(NodeId(2)))
        );
        assert_eq!(next(&[1, 2, 3], &joins(64)), Err(ViewChangeError::Full));
        let leaves = |node| MemberChange::Leaves(NodeId(node));
        assert_eq!(
            next(&[1, 2, 3], &leaves(3)),
            Err(ViewChangeError::Votes(NodeId(3)))
        );
        assert_eq!(
            next(&[1, 2], &leaves(9)),
            Err(ViewChangeError::NotAMember(NodeId(9)))
        );
        let left = next(&[1, 2], &leaves(3)).unwrap();
        assert!(left.member(NodeId(3)).is_none() && !left.replicas.contains(NodeId(3)));
        assert!(left.has(&leaves(3)) && !three.has(&leaves(3)));
        assert_eq!(left.replica_majority(), 2);
    }
}
