//! A node that has lost what it promised and voted comes back as another incarnation, by itself.
//!
//! A view names the incarnation of each member that may vote. A start whose votes are lost, or are another life's, follows the group
//! without a vote. Once it has caught up it asks for a view that differs in nothing but in naming the incarnation that this start
//! drew at random. No other life can have voted in that view: it began after this start, and names none but this one. And whoever
//! votes in a view has applied everything before it, so the votes that were lost are not needed there. OpenReplica section 2.

use crate::limits::REJOIN_EVERY;
use crate::local::internal::Purpose;
use crate::{Replica, Snapshots};
use quorate_ordering::{Ordering, Standing};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Body, Incarnation, Rejoin, Time, View, ViewChange, ViewNumber};

/// How far this start has come back.
#[derive(Debug, Default)]
pub(crate) struct Rejoining {
    is_asked: bool,
    /// When it may ask, or ask again.
    due: Time,
    /// The newest view that named it where the one before did not.
    back: Option<ViewNumber>,
}

impl Rejoining {
    /// What was asked is decided, refused, or out of sight.
    pub(crate) fn answered(&mut self) {
        self.is_asked = false;
    }

    /// The view with which this start came back.
    pub(crate) fn back(&self) -> Option<ViewNumber> {
        self.back
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

    /// Whether this node may vote in a view: the view names an incarnation of which it remembers all promises and votes.
    pub(crate) fn standing_in(&self, view: &View) -> Standing {
        let named = view.incarnation(self.config.own);
        let is_own = named == Some(self.config.fresh) || named == self.config.incarnation;
        if is_own && named.is_some() || planted(Plant::LostLifeVotes) {
            Standing::Voter
        } else {
            Standing::Observer
        }
    }

    /// Another view begins at this node.
    pub(crate) fn note_back(&mut self, view: &View) {
        let own = Some(self.config.fresh);
        let is_named = |view: &View| view.incarnation(self.config.own) == own;
        let previous = self.replicated.views.previous();
        if is_named(view) && !previous.is_some_and(is_named) {
            self.rejoining.back = Some(view.number);
        }
    }

    /// At the end of a turn: a node without a vote that has caught up asks for a view that gives it back.
    pub(crate) fn tend_rejoin(&mut self, now: Time) {
        let is_due = !self.rejoining.is_asked && self.rejoining.due <= now;
        if self.standing_in(self.view()) == Standing::Voter || !is_due {
            return;
        }
        let status = self.instances.current().status();
        let is_settled = self.instances.len() == 1 && self.replicated.views.next().is_none();
        let is_behind = self.replicated.applied < status.known;
        let can_ask = self.leader().is_some() && self.config.snapshots != Snapshots::Disabled;
        if !is_settled || is_behind || !can_ask || self.is_draining {
            return;
        }
        self.rejoining.is_asked = true;
        self.rejoining.due = now + REJOIN_EVERY;
        let view = self.view();
        let change = ViewChange {
            after: view.number,
            acceptors: view.acceptors,
            window: view.window,
        };
        let rejoin = Some(Rejoin {
            node: self.config.own,
            incarnation: self.config.fresh,
        });
        self.submit(Purpose::Rejoin, Body::ChangeView { change, rejoin });
    }
}
