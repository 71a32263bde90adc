//! A node that has lost what it promised and voted comes back as another incarnation, by itself.
//!
//! A view names the incarnation of each member that may vote. A start whose votes are lost, or are another life's, follows the group
//! without a vote. Once it has caught up it asks for a view that differs in nothing but in naming the incarnation that this start
//! drew at random. No other life can have voted in that view: it began after this start, and names none but this one. And whoever
//! votes in a view has applied everything before it, so the votes that were lost are not needed there. OpenReplica section 2.

use crate::limits::{REJOIN_EVERY, REJOIN_OF_COPY_AFTER};
use crate::local::internal::Purpose;
use crate::{Replica, Snapshots};
use quorate_ordering::{Ordering, Standing};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{
    Body, Duration, Incarnation, MemberChange, Rejoin, Time, View, ViewChange, ViewNumber,
};

/// How far this start has come back.
#[derive(Debug, Default)]
pub(crate) struct Rejoining {
    is_asked: bool,
    /// When it may ask, or ask again; none while the view lets it vote.
    due: Option<Time>,
    /// The newest view names this start.
    is_named: bool,
    /// Some view did.
    was_named: bool,
    /// The view that named it where the one before did not, until the directory is told.
    back: Option<ViewNumber>,
}

impl Rejoining {
    /// What was asked is decided, refused, or out of sight.
    pub(crate) fn answered(&mut self) {
        self.is_asked = false;
    }

    /// The directory is told that a view began: the view with which this start came back, if it does not know that yet.
    pub(crate) fn back(&mut self, begun: ViewNumber) -> Option<ViewNumber> {
        self.back.take_if(|back| *back <= begun)
    }
}

impl<O: Ordering> Replica<O> {
    /// Whether the view in force lets this node vote, where it is an acceptor.
    #[must_use]
    pub fn may_vote(&self) -> bool {
        self.standing_in(self.view()) == Standing::Voter
    }

    /// The incarnation that this start has drawn.
    #[must_use]
    pub fn fresh(&self) -> Incarnation {
        self.config.fresh
    }

    /// Whether this node may vote in a view: the view names an incarnation of which it remembers all promises and votes, and a level
    /// that it speaks.
    pub(crate) fn standing_in(&self, view: &View) -> Standing {
        let named = view.incarnation(self.config.own);
        let is_own = named == Some(self.config.fresh) || named == self.config.incarnation;
        if is_own && named.is_some() && self.speaks_level_of(view) || planted(Plant::LostLifeVotes)
        {
            Standing::Voter
        } else {
            Standing::Observer
        }
    }

    /// Another view begins at this node.
    pub(crate) fn note_back(&mut self, view: &View) {
        let is_named = view.incarnation(self.config.own) == Some(self.config.fresh);
        if is_named && !self.rejoining.is_named {
            self.rejoining.back = Some(view.number);
        }
        self.rejoining.is_named = is_named;
        self.rejoining.was_named |= is_named;
    }

    /// How long this start waits before it asks for a view. Where another life of the same node may be running, who asks at once
    /// takes the vote from it, and it would take it back: two that run disturb each other before this time is over.
    fn rejoin_patience(&self) -> Duration {
        let is_superseded = self.config.incarnation.is_some() || self.rejoining.was_named;
        match is_superseded || self.config.may_run_elsewhere {
            true => REJOIN_OF_COPY_AFTER,
            false => Duration::ZERO,
        }
    }

    /// Whether enough acceptors are linked to elect the leader of a view in which this node votes too. Where fewer decide than elect,
    /// a leader may go on that the next view would not get: then its end would be that of all calls. Claim rp-141.
    fn can_elect_with_own(&self) -> bool {
        let view = self.view();
        let is_certain = view.quorums.phase1() <= view.quorums.phase2();
        is_certain || self.up_in(view, true) >= view.quorums.both()
    }

    /// At the end of a turn: a node without a vote that has caught up asks for a view that gives it back.
    pub(crate) fn tend_rejoin(&mut self, now: Time) {
        let is_member = self.view().member(self.config.own).is_some();
        if self.standing_in(self.view()) == Standing::Voter || !is_member {
            self.rejoining.due = None;
            return;
        }
        let patience = self.rejoin_patience();
        let due = *self.rejoining.due.get_or_insert(now + patience);
        if self.rejoining.is_asked || now < due {
            return;
        }
        let status = self.instances.current().status();
        let is_settled = self.instances.len() == 1 && self.replicated.views.next().is_none();
        let is_behind = self.replicated.applied < status.known;
        let can_ask = self.leader().is_some() && self.config.snapshots != Snapshots::Disabled;
        if !is_settled || is_behind || !can_ask || self.is_draining || !self.can_elect_with_own() {
            return;
        }
        self.rejoining.is_asked = true;
        self.rejoining.due = Some(now + REJOIN_EVERY);
        let view = self.view();
        let change = ViewChange {
            after: view.number,
            acceptors: view.acceptors,
            window: view.window,
        };
        let who = Box::new(MemberChange::Returns(Rejoin {
            node: self.config.own,
            incarnation: self.config.fresh,
        }));
        let first = self.first_ballot(view);
        self.submit(Purpose::Rejoin, Body::ChangeView { change, who, first });
    }
}
