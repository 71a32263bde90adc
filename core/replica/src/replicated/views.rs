//! The views of the group: the one in force, the one before, and the one that is decided to follow.
//!
//! All of it is computed from decided commands that are applied (trap 16 of published implementations: a view read at the wrong
//! moment). OpenReplica section 2; the rule of ω is that of PMMC.

use crate::SnapshotCore;
use quorate_types::zoo::{Plant, planted};
use quorate_types::{
    FirstBallot, Level, MemberChange, NodeSet, Slot, View, ViewChange, ViewChangeError,
};
use std::sync::Arc;

/// Which view governs which slots, as of the last applied slot.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Views {
    previous: Option<Arc<View>>,
    current: Arc<View>,
    /// Invariant: its first slot is above the last applied one.
    next: Option<Arc<View>>,
}

impl Views {
    /// Those of a group that begins with `first`.
    pub(crate) fn new(first: View) -> Views {
        Views {
            previous: None,
            current: Arc::new(first),
            next: None,
        }
    }

    /// Those that a snapshot tells, at a node that was configured with `own`.
    pub(crate) fn restored(core: &SnapshotCore, own: &View) -> Views {
        let configured = |view: &View| Arc::new(view.configured(own));
        Views {
            previous: core.previous.as_ref().map(configured),
            current: configured(&core.view),
            next: core.next.as_ref().map(configured),
        }
    }

    /// The view in force in the slot after the last applied one.
    pub(crate) fn current(&self) -> &View {
        &self.current
    }

    /// The view before.
    pub(crate) fn previous(&self) -> Option<&View> {
        self.previous.as_deref()
    }

    /// The view that follows, once that is decided.
    pub(crate) fn next(&self) -> Option<&View> {
        self.next.as_deref()
    }

    /// The view by which it is judged what was taken at `slot`, when the slots up to `applied` are applied: the one in force there, or
    /// the current one where that is later. None where a change that is not applied yet may govern the slot.
    pub(crate) fn judging(&self, slot: Slot, applied: Slot) -> Option<&View> {
        let (view, since) = match &self.next {
            Some(next) if slot >= next.first_slot => (next, next.first_slot),
            Some(_) => return Some(&self.current),
            None => (&self.current, applied.next()),
        };
        (slot.since(since) < view.window).then_some(view)
    }

    /// The last slot of the current view, once that is decided.
    pub(crate) fn last(&self) -> Option<Slot> {
        Some(self.next.as_ref()?.first_slot.previous())
    }

    /// The view that a change leads to which is decided in `slot`.
    pub(crate) fn changed(
        &self,
        slot: Slot,
        change: ViewChange,
        who: &MemberChange,
    ) -> Result<View, ViewChangeError> {
        if self.next.is_some() && !planted(Plant::TwoViewsAtOnce) {
            return Err(ViewChangeError::Superseded);
        }
        self.current.changed(slot, change, who)
    }

    /// Whether the view that a change leads to is in force, or decided to follow: whoever asks for it once more has got it.
    pub(crate) fn has(&self, change: &ViewChange, who: &MemberChange) -> bool {
        let newest = self.next.as_deref().unwrap_or(&self.current);
        newest.is_after(change) && newest.has(who)
    }

    /// A change is decided in `slot`. Returns the first slot of the view that follows.
    pub(crate) fn decided(
        &mut self,
        slot: Slot,
        (change, who): (ViewChange, &MemberChange),
        first: Option<FirstBallot>,
    ) -> Result<Slot, ViewChangeError> {
        let mut next = self.changed(slot, change, who)?.begun_by(first);
        if planted(Plant::ViewOneSlotEarly) {
            next.first_slot = next.first_slot.previous().max(slot.next());
        }
        let first = next.first_slot;
        self.next = Some(Arc::new(next));
        Ok(first)
    }

    /// All slots up to `applied` are applied. Returns who executes no more, if another view is in force after it.
    pub(crate) fn applied(&mut self, applied: Slot) -> NodeSet {
        let Some(next) = self
            .next
            .take_if(|next| next.first_slot <= applied.next() || planted(Plant::ViewBeforeItsTime))
        else {
            return NodeSet::empty();
        };
        let before = std::mem::replace(&mut self.current, next);
        let stay = self.current.replicas;
        let gone = before.replicas.iter().filter(|node| !stay.contains(*node));
        let gone = gone.collect();
        self.previous = Some(with_level_upto(before, self.current.level));
        gone
    }

    pub(crate) fn check(&self, applied: Slot) {
        let first = self.current.first_slot;
        assert!(
            first <= applied.next() || planted(Plant::ViewBeforeItsTime),
            "the view in force governs the next slot"
        );
        if let Some(next) = &self.next {
            assert!(next.first_slot > applied.next(), "the next view is ahead");
            assert_eq!(next.number.0, self.current.number.0 + 1);
        }
    }
}

/// A view that is over, in snapshots of one at `level`: who speaks that level only must read them, and its own level is of no use.
fn with_level_upto(mut view: Arc<View>, level: Level) -> Arc<View> {
    if view.level > level {
        let view = Arc::make_mut(&mut view);
        view.level = level;
        // It has begun.
        view.first_ballot = view.first_ballot.filter(|_| level >= Level::FIRST_BALLOT);
    }
    view
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::{
        GroupLimits, Incarnation, Member, NodeId, OrderingName, Persistence, Quorums, ViewNumber,
    };
    use std::collections::BTreeMap;

    /// Three nodes vote.
    fn view() -> View {
        let nodes = || (1..=3).map(NodeId);
        let member = |node| Member {
            node,
            incarnation: Incarnation(1),
            address: String::new(),
        };
        View {
            first_ballot: None,
            limits: GroupLimits::default(),
            number: ViewNumber(1),
            first_slot: Slot(1),
            members: nodes().map(member).collect(),
            replicas: nodes().collect(),
            acceptors: nodes().collect(),
            quorums: Quorums::majority(3).unwrap(),
            window: 4,
            rejoined: BTreeMap::new(),
            level: Level::FIRST_BALLOT,
            ordering: OrderingName::Paxos,
            persistence: Persistence::Disk,
            objects: Vec::new(),
        }
    }

    /// Claim mp-90.
    #[test]
    fn nobody_is_named_to_begin_a_view_whose_members_do_not_read_it_or_that_it_may_not_lead() {
        let named = |who: MemberChange, acceptors: u16| {
            let first = view();
            let change = ViewChange {
                after: first.number,
                acceptors: (1..=acceptors).map(NodeId).collect(),
                window: first.window,
            };
            let mut views = Views::new(first);
            let leader = FirstBallot {
                node: NodeId(3),
                boot: 1,
            };
            let begins = views.decided(Slot(1), (change, &who), Some(leader));
            views.applied(begins.unwrap().previous());
            views
        };
        let same = named(MemberChange::Same, 3);
        assert!(same.current().first_ballot.is_some());
        let without_it = named(MemberChange::Same, 2);
        assert_eq!(without_it.current().first_ballot, None);
        let below = Level(Level::FIRST_BALLOT.0 - 1);
        let lower = named(MemberChange::Level(below), 3);
        assert_eq!(lower.current().first_ballot, None);
        let mut again = same.clone();
        let change = ViewChange {
            after: ViewNumber(2),
            acceptors: again.current().acceptors,
            window: again.current().window,
        };
        let begins = again.decided(Slot(50), (change, &MemberChange::Same), None);
        again.applied(begins.unwrap().previous());
        assert_eq!(again.current().number, ViewNumber(3));
        assert_eq!(again.current().first_ballot, None, "that was of view 2");
        // The view that is over goes into snapshots, at the lower level.
        let mut views = same;
        let change = ViewChange {
            after: ViewNumber(2),
            acceptors: views.current().acceptors,
            window: views.current().window,
        };
        let who = MemberChange::Level(below);
        let begins = views.decided(Slot(100), (change, &who), None).unwrap();
        views.applied(begins.previous());
        let over = views.previous().expect("it is over");
        assert_eq!((over.level, over.first_ballot), (below, None));
    }
}
