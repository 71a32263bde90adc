//! Which views the log begins, and who decides in them: what nodes say and do is held against that.

use super::{Judge, Judged, broken};
use crate::checkers::Property;
use crate::checkers::agreement::Fingerprint;
use crate::checkers::rounds::VoteRound;
use crate::checkers::views::{Governing, Turn, Views, Wished};
use quorate_types::{
    Ballot, Body, FastQuorums, GroupChange, GroupEntry, Incarnation, Level, Levels, MemberChange,
    MemberRole, NodeId, NodeSet, OrderingName, Persistence, Slot, View, ViewNumber,
};

/// Those of a group that begins with `view`.
pub(super) fn begun(view: &View) -> Views {
    let first = Governing {
        first: view.first_slot,
        members: view.nodes(),
        replicas: view.replicas,
        acceptors: view.acceptors,
        phase1: view.quorums.phase1(),
        phase2: view.quorums.phase2(),
        wish: wish_of(view),
        window: view.window,
        level: view.level,
        ordering: view.ordering,
        limits: limits_of(view),
    };
    let mut views = Views::new(first);
    views.is_in_memory = view.persistence == Persistence::Memory;
    views
}

fn limits_of(view: &View) -> (Option<u64>, Option<u64>) {
    (view.limits.named_sessions(), view.limits.named_replies())
}

fn wish_of(view: &View) -> Wished {
    match view.quorums.is_asked() {
        true => Wished::Sizes {
            fast: view.quorums.fast(),
        },
        false => Wished::Nothing,
    }
}

/// The node and the incarnation that a change is the first to name.
fn names(who: &MemberChange) -> Option<(NodeId, Incarnation)> {
    match who {
        MemberChange::Returns(back) => Some((back.node, back.incarnation)),
        MemberChange::Joins { member, .. } => Some((member.node, member.incarnation)),
        MemberChange::Same
        | MemberChange::Leaves(_)
        | MemberChange::Level(_)
        | MemberChange::Ordering(_)
        | MemberChange::Quorums(_)
        | MemberChange::Limit(_) => None,
    }
}

fn turn_of(who: &MemberChange) -> Turn {
    match who {
        MemberChange::Joins { member, role, .. } => match role {
            MemberRole::Replica => Turn::Joins(member.node),
            MemberRole::Witness => Turn::JoinsAsWitness(member.node),
        },
        MemberChange::Leaves(node) => Turn::Leaves(*node),
        MemberChange::Level(level) => Turn::Level(*level),
        MemberChange::Ordering(ordering) => Turn::Ordering(*ordering),
        MemberChange::Quorums(rule) => Turn::Quorums(*rule),
        MemberChange::Limit(limit) => Turn::Limit(*limit),
        MemberChange::Same | MemberChange::Returns(_) => Turn::None,
    }
}

impl Judge {
    /// The last slot of a view, once the next one is decided.
    pub(in super::super) fn last_slot(&self, view: ViewNumber) -> Option<Slot> {
        let next = self.views.0.of(ViewNumber(view.0 + 1))?;
        Some(next.first.previous())
    }

    /// Who executes in a slot, and in each view after that.
    pub(in super::super) fn replicas_since(&self, slot: Slot) -> impl Iterator<Item = NodeSet> {
        self.views.0.replicas_since(slot)
    }

    /// The smallest majority of the replicas of any view.
    pub(in super::super) fn least_majority(&self) -> usize {
        self.views.0.least_majority()
    }

    /// Who executes in a slot.
    pub(super) fn replicas_at(&self, slot: Slot) -> NodeSet {
        self.governing(self.views.0.governs(slot)).replicas
    }

    /// What is in force in a view; where nothing that is decided begins it, in the newest one.
    pub(in super::super) fn governing(&self, view: ViewNumber) -> &Governing {
        let views = &self.views.0;
        views.of(view).unwrap_or(views.newest().1)
    }

    /// A life of a node speaks this.
    pub(in super::super) fn speaks(&mut self, node: NodeId, speaks: Levels) {
        self.views.0.speaks(node, speaks);
    }

    /// The views that began with another level since the last look, with the level before and their own.
    pub(in super::super) fn take_levels(&mut self) -> Vec<(ViewNumber, Level, Level)> {
        std::mem::take(&mut self.levels_set)
    }

    /// Replies of a session take so many bytes: a group keeps no fewer.
    pub(in super::super) fn sessions_keep(&mut self, bytes: u64) {
        self.views.0.replies_least = bytes;
    }

    /// How many sessions may be open by the view that governs a slot, where `usual` may be if nobody asked for another number.
    pub(in super::super) fn sessions_max(&self, slot: Slot, usual: usize) -> usize {
        let (sessions, _) = self.governing(self.views.0.governs(slot)).limits;
        sessions.map_or(usual, |sessions| sessions as usize)
    }

    /// The newest view that is decided.
    pub(in super::super) fn newest_view(&self) -> ViewNumber {
        self.views.0.newest().0
    }

    /// Reads the changes of views in the slots that are decided without a gap.
    pub(super) fn follow_views(&mut self) -> Judged {
        while let Some(batch) = self.log.get(&self.views.1.next()) {
            let slot = self.views.1.next();
            self.views.1 = slot;
            let batch = batch.clone();
            if !batch.commands().is_empty() {
                self.invited.stamped(batch.stamp().wall);
            }
            for command in batch.commands() {
                let (change, who, first_ballot) = match &command.body {
                    Body::ChangeView { change, who, first } => (*change, who, *first),
                    Body::Invite { invitation, lasts } => {
                        self.invited.made(*invitation, *lasts);
                        continue;
                    }
                    Body::ChangeGroups { change } => {
                        let governing = self.governing(self.views.0.governs(slot));
                        let (members, level) = (governing.replicas, governing.level);
                        self.groups.decided(slot, change, (members, level));
                        continue;
                    }
                    _ => continue,
                };
                if !self.may_have(slot, who) {
                    continue;
                }
                let before = self.views.0.newest().1.level;
                let counts = (change.acceptors, change.window);
                let begun = self
                    .views
                    .0
                    .changed(slot, change.after, counts, turn_of(who));
                if let Some(number) = begun {
                    if let MemberChange::Joins { invitation, .. } = who.as_ref() {
                        self.invited.used(*invitation);
                    }
                    if let MemberChange::Level(level) = who.as_ref() {
                        self.levels_set.push((number, before, *level));
                    }
                    if let Some(named) = names(who) {
                        self.came_back.entry(named).or_insert(number);
                    }
                    let governing = self.governing(number);
                    let (first, quorums) = (governing.first, governing.quorums());
                    let first_ballot = first_ballot.filter(|named| {
                        governing.level >= Level::FIRST_BALLOT
                            && governing.replicas.contains(named.node)
                            && governing.acceptors.contains(named.node)
                    });
                    self.chosen.view_begins(number, quorums);
                    self.phase_one.view_begins(number, quorums, first_ballot);
                    self.check_not_past(first)?;
                }
            }
        }
        Ok(())
    }

    /// Whether a change may have an effect, as far as invitations and other groups go.
    fn may_have(&self, slot: Slot, who: &MemberChange) -> bool {
        match who {
            MemberChange::Level(level) => {
                *level >= GroupChange::SERVE_LEVEL || !self.groups.has_later(slot)
            }
            MemberChange::Joins { invitation, .. } => self.invited.may_join(*invitation),
            MemberChange::Same
            | MemberChange::Returns(_)
            | MemberChange::Leaves(_)
            | MemberChange::Ordering(_)
            | MemberChange::Quorums(_)
            | MemberChange::Limit(_) => true,
        }
    }

    /// Nobody has proposed in slots from `first` on before it could know whose they are.
    fn check_not_past(&self, first: Slot) -> Judged {
        match self.proposed.range((first, Ballot::ZERO)..).next() {
            None => Ok(()),
            Some(((slot, ballot), _)) => broken(
                Property::Agreement,
                format!("{slot} was proposed in {ballot} before its view was decided"),
            ),
        }
    }

    /// `node` has these groups beside its own once it has applied a slot.
    pub(in super::super) fn says_groups(
        &mut self,
        node: NodeId,
        applied: Slot,
        groups: &[GroupEntry],
    ) -> Judged {
        self.groups.said(node, applied, groups)
    }

    /// A client hears that a change of the groups is made since a slot.
    pub(in super::super) fn answered_groups(&self, change: &GroupChange, slot: Slot) -> Judged {
        self.groups.answered(change, slot)
    }

    /// `node` says that a view is in force.
    pub(in super::super) fn says_view(&self, node: NodeId, view: &View) -> Judged {
        let said = Governing {
            first: view.first_slot,
            members: view.nodes(),
            replicas: view.replicas,
            acceptors: view.acceptors,
            phase1: view.quorums.phase1(),
            phase2: view.quorums.phase2(),
            wish: wish_of(view),
            window: view.window,
            level: view.level,
            ordering: view.ordering,
            limits: limits_of(view),
        };
        let decided = self.views.0.of(view.number);
        let confirm = match view.ordering {
            OrderingName::FastPaxos => FastQuorums::of(view.quorums).confirm(),
            _ => view.quorums.confirm(),
        };
        let number = view.number.0;
        let first = view.first_ballot.map(|first| first.of(view.number));
        let named = self.phase_one.first(view.number);
        if first != named {
            return broken(
                Property::Agreement,
                format!(
                    "{node} says that {first:?} begins view {number}; by the log it is {named:?}"
                ),
            );
        }
        if decided == Some(&said) && said.confirm() == confirm {
            return Ok(());
        }
        broken(
            Property::Agreement,
            format!("{node} has view {number} as {said:?}; by the log it is {decided:?}"),
        )
    }

    /// A slot is decided only where a quorum of the view that governs it told its votes. The vote of who decides is not told: a
    /// leader's never where it is the only one that counts, and otherwise not yet.
    pub(super) fn has_quorum(&self, node: NodeId, slot: Slot) -> bool {
        let view = self.views.0.governs(slot);
        let governing = self.governing(view);
        if governing.phase2 == 1 {
            return true;
        }
        let of_slot = self
            .voters
            .range((slot, Ballot::ZERO)..(slot.next(), Ballot::ZERO));
        let mut of_view = of_slot.filter(|((_, ballot), _)| ballot.view == view);
        of_view.any(|((_, ballot), told)| {
            let untold: &[NodeId] = match governing.ordering {
                OrderingName::Paxos | OrderingName::RingPaxos | OrderingName::SPaxos => {
                    &[ballot.node]
                }
                OrderingName::Libpaxos | OrderingName::LibpaxosPlus => &[node],
                // Acceptors tell all or the leader, as the rounds of the ballot are when they do.
                OrderingName::FastPaxos => &[ballot.node, node],
            };
            untold.iter().any(|untold| {
                let told = told.iter().filter(|node| node != untold);
                let told = told.filter(|node| governing.acceptors.contains(*node));
                let is_vote = *untold == ballot.node || self.has_voted(*untold, slot, *ballot);
                told.count() + usize::from(is_vote) >= governing.phase2
            })
        }) || self.has_fast_quorum(node, slot)
    }

    /// Whether a quorum of one fast round told votes for one value in `slot`, or all but the vote of who decides.
    fn has_fast_quorum(&self, node: NodeId, slot: Slot) -> bool {
        let governing = self.governing(self.views.0.governs(slot));
        if governing.ordering != OrderingName::FastPaxos {
            return false;
        }
        let mut rounds = self.cast.of_slot(slot);
        rounds.any(|(ballot, value, told)| {
            let told = told.iter().filter(|told| *told != node);
            let told = told.filter(|told| governing.acceptors.contains(*told));
            let round = VoteRound::fast(ballot);
            let own = self.written_vote(node, slot, round);
            let is_vote = own.map_or(self.written.is_none(), |own| {
                self.cast.fingerprint(ballot.view, value) == Some(own)
            });
            told.count() + usize::from(is_vote) >= governing.quorums().fast
        })
    }

    /// The value of a vote that lies on the disk of an acceptor.
    fn written_vote(&self, node: NodeId, slot: Slot, round: VoteRound) -> Option<Fingerprint> {
        let written = self.written.as_ref()?.get(&round.ballot.view)?;
        written.vote_in(node, slot, round)
    }

    /// Whether the disk of an acceptor holds its vote; in memory mode nobody can say otherwise.
    pub(super) fn has_voted(&self, node: NodeId, slot: Slot, round: impl Into<VoteRound>) -> bool {
        let round = round.into();
        let ballot = round.ballot;
        let Some(views) = &self.written else {
            return true;
        };
        let is_acceptor = self.governing(ballot.view).acceptors.contains(node);
        let written = views.get(&ballot.view);
        is_acceptor && written.is_some_and(|log| log.told_vote(node, slot, round).is_ok())
    }
}
