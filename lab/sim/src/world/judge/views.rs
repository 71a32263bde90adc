//! Which views the log begins, and who decides in them: what nodes say and do is held against that.

use super::{Judge, Judged, broken};
use crate::checkers::Property;
use crate::checkers::views::{Governing, Views};
use quorate_types::{Ballot, Body, NodeId, Slot, View, ViewNumber};

/// Those of a group that begins with `view`.
pub(super) fn begun(view: &View) -> Views {
    let first = Governing {
        first: view.first_slot,
        acceptors: view.acceptors,
        phase1: view.quorums.phase1(),
        phase2: view.quorums.phase2(),
        window: view.window,
    };
    Views::new(view.nodes(), first)
}

impl Judge {
    /// What is in force in a view; where nothing that is decided begins it, in the newest one.
    pub(in super::super) fn governing(&self, view: ViewNumber) -> &Governing {
        let views = &self.views.0;
        views.of(view).unwrap_or(views.newest().1)
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
            let changes = batch.commands().iter();
            let changes = changes.filter_map(|command| match &command.body {
                Body::ChangeView { change, rejoin } => Some((*change, *rejoin)),
                _ => None,
            });
            for (change, rejoin) in changes {
                let (after, acceptors, window) = (change.after, change.acceptors, change.window);
                let begun = self.views.0.changed(slot, after, acceptors, window);
                if let Some(number) = begun {
                    if let Some(back) = rejoin {
                        let named = self.came_back.entry((back.node, back.incarnation));
                        named.or_insert(number);
                    }
                    let governing = self.governing(number);
                    let (first, phase1) = (governing.first, governing.phase1);
                    self.chosen.view_begins(number, governing.phase2);
                    self.phase_one.view_begins(number, phase1 - 1);
                    self.check_not_past(first)?;
                }
            }
        }
        Ok(())
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

    /// `node` says that a view is in force.
    pub(in super::super) fn says_view(&self, node: NodeId, view: &View) -> Judged {
        let said = Governing {
            first: view.first_slot,
            acceptors: view.acceptors,
            phase1: view.quorums.phase1(),
            phase2: view.quorums.phase2(),
            window: view.window,
        };
        let decided = self.views.0.of(view.number);
        let confirm = view.quorums.confirm();
        if decided == Some(&said) && said.confirm() == confirm {
            return Ok(());
        }
        let number = view.number.0;
        broken(
            Property::Agreement,
            format!("{node} has view {number} as {said:?}; by the log it is {decided:?}"),
        )
    }

    /// A slot is decided only where a quorum of the view that governs it told its votes; the leader's own is not told.
    pub(super) fn has_quorum(&self, slot: Slot) -> bool {
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
            let told = told.iter().filter(|node| *node != ballot.node);
            let told = told.filter(|node| governing.acceptors.contains(*node));
            told.count() + 1 >= governing.phase2
        })
    }
}
