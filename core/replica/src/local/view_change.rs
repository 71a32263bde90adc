//! Changes of the view: an operator's request, the command that was decided, and the turn to the next view.
//!
//! A change that is decided in slot `s` is in force from `s + ω` on. Until then the leader fills the slots of the old view; the next
//! one begins at each node once it has applied all of these. So whoever votes in a view has everything that was decided before it.
//! OpenReplica section 2.

use crate::limits::{INSTANCES_KEPT, INVITATIONS_MAX, VIEW_CHANGES_WAITING};
use crate::local::clients::{refuse, reply};
use crate::local::internal::Purpose;
use crate::{Output, PeerMessage, Replica, Snapshots};
use quorate_ordering::{Event, Lane, LinkState, Ordering, Role, Standing};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{
    Ask, Body, CommandId, ConnectionId, Duration, FirstBallot, Level, Levels, LimitChange,
    LimitError, Member, MemberChange, MemberRole, NodeId, NodeSet, Persistence, Refusal, Secret,
    SecretHash, Slot, Time, ToClient, View, ViewChange, ViewChangeError, ViewNumber, Wall,
};

/// A client that waits until a view is in force.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ViewWait {
    to: ConnectionId,
    request: u64,
    number: ViewNumber,
}

impl<O: Ordering> Replica<O> {
    /// The view in force.
    #[must_use]
    pub fn view(&self) -> &View {
        self.replicated.views.current()
    }

    /// An operator changes the view. Refuses what cannot be, and what would leave the group without a leader, or without decisions.
    pub(crate) fn client_change_view(
        &mut self,
        (from, request): (ConnectionId, u64),
        (change, who): (ViewChange, MemberChange),
        out: &mut Vec<Output<O::Message>>,
    ) {
        let applied = self.replicated.applied;
        let has_room = self.view_waits.len() < VIEW_CHANGES_WAITING;
        if self.replicated.views.has(&change, &who) && has_room {
            return self.await_view((from, request), change, out);
        }
        let next = self.view_after(applied, change, &who);
        let first = next.as_ref().ok().and_then(|view| self.first_ballot(view));
        let refusal = match next {
            Err(error) => Some(refusal_of(error)),
            Ok(_) if self.config.snapshots == Snapshots::Disabled => Some(Refusal::NoSnapshots),
            // The slots of the view before are not yet in a snapshot of a majority.
            Ok(_) if self.instances.len() > 1 => Some(Refusal::ViewConflict),
            Ok(_) if !has_room => Some(Refusal::Overloaded),
            // Nothing would change but the log, which fewer builds would read.
            Ok(_) if self.is_so_already(&who) => Some(Refusal::NoSuchView),
            Ok(_) if !self.is_spoken(&who) => Some(Refusal::LevelNotSpoken),
            Ok(_) if !self.can_order() => Some(Refusal::StorageFull),
            Ok(view) if !self.is_ready(&view) => Some(Refusal::ViewNotReady),
            Ok(_) => None,
        };
        if let Some(refusal) = refusal {
            return refuse(out, from, Ask::Request(request), refusal);
        }
        let purpose = Purpose::ChangeView(from, request);
        let who = Box::new(who);
        self.submit(purpose, Body::ChangeView { change, who, first });
    }

    /// A node asks to become a member. One that does not read what the members ask of each other would follow nothing.
    pub(crate) fn client_joins(
        &mut self,
        (from, request): (ConnectionId, u64),
        change: ViewChange,
        (member, secret, role, speaks): (Member, Secret, MemberRole, Levels),
        out: &mut Vec<Output<O::Message>>,
    ) {
        if !speaks.has(self.level_asked().0) {
            return refuse(out, from, Ask::Request(request), Refusal::LevelNotSpoken);
        }
        let invitation = secret.hash();
        let who = MemberChange::Joins {
            member,
            invitation,
            role,
        };
        self.client_change_view((from, request), (change, who), out);
    }

    /// Who leads `next` first, the view that a change leads to, and needs no phase 1 there: who leads now, or where that one leads no more,
    /// of the acceptors that are linked and vote the one that lags least, if possible one whose disk has room. Nobody stands at once in
    /// place of who is named. Claim mp-90.
    pub(crate) fn first_ballot(&self, next: &View) -> Option<FirstBallot> {
        if self.view().level < Level::FIRST_BALLOT {
            return None;
        }
        let status = self.instances.current().status();
        let ballot = match status.role {
            Role::Leader { ballot } => ballot,
            Role::Follower { leader } if leader == Some(status.promised.node) => status.promised,
            Role::Candidate { .. } | Role::Follower { .. } => return None,
        };
        if next.may_lead(ballot.node) {
            let (node, boot) = (ballot.node, ballot.boot);
            return Some(FirstBallot { node, boot });
        }
        let up = self.up_of(next, status.votes);
        let lag = status.known.since(status.decided);
        let own = Some((self.config.own, self.config.boot, lag));
        let boot_of = |node| self.levels.boot_of(node);
        let peers = status.peers.iter();
        let others = peers.filter_map(|peer| Some((peer.node, boot_of(peer.node)?, peer.lag)));
        let may_lead = others
            .chain(own)
            .filter(|(node, ..)| up.contains(*node) && next.may_lead(*node));
        let (node, boot, _) =
            may_lead.min_by_key(|(node, _, lag)| (self.is_full(*node), *lag, *node))?;
        Some(FirstBallot { node, boot })
    }

    /// Claim rp-140. Whether a change would change nothing but the log, of which the newest form is read by fewer builds.
    fn is_so_already(&self, who: &MemberChange) -> bool {
        match who {
            MemberChange::Level(_)
            | MemberChange::Ordering(_)
            | MemberChange::Quorums(_)
            | MemberChange::Limit(_) => self.view().has(who),
            MemberChange::Same
            | MemberChange::Returns(_)
            | MemberChange::Joins { .. }
            | MemberChange::Leaves(_) => false,
        }
    }

    /// The view that a change leads to which is decided in `slot`. Only who is invited joins, a level is not set that members
    /// need not read all with which the group goes on, and the group keeps no fewer replies than one session.
    fn view_after(
        &self,
        slot: Slot,
        change: ViewChange,
        who: &MemberChange,
    ) -> Result<View, ViewChangeError> {
        let view = self.replicated.views.changed(slot, change, who)?;
        match who {
            MemberChange::Joins { invitation, .. }
                if !self.is_invited(*invitation) && !planted(Plant::UninvitedJoins) =>
            {
                Err(ViewChangeError::NotInvited)
            }
            MemberChange::Level(level) if *level < self.replicated.groups.level() => {
                Err(ViewChangeError::GroupsNotSpoken(*level))
            }
            // The newest reply of a session has room.
            MemberChange::Limit(LimitChange::Replies(bytes))
                if *bytes < self.config.kept.session_bytes as u64 =>
            {
                Err(ViewChangeError::Limit(LimitError::Replies(*bytes)))
            }
            MemberChange::Same
            | MemberChange::Returns(_)
            | MemberChange::Joins { .. }
            | MemberChange::Leaves(_)
            | MemberChange::Level(_)
            | MemberChange::Ordering(_)
            | MemberChange::Quorums(_)
            | MemberChange::Limit(_) => Ok(view),
        }
    }

    /// Whether who knows the secret of this hash may join, as far as is known here.
    #[must_use]
    pub fn is_invited(&self, invitation: SecretHash) -> bool {
        let now = self.replicated.stamp.wall;
        self.replicated.invitations.has(invitation, now)
    }

    /// Whether an invitation is open by now, which may be later than the last thing that was decided. A node that hears of no leader
    /// does not know.
    #[must_use]
    pub fn is_still_invited(&self, invitation: SecretHash, now: Wall) -> bool {
        let now = now.max(self.replicated.stamp.wall);
        self.leader().is_some() && self.replicated.invitations.has(invitation, now)
    }

    /// An operator invites a node.
    pub(crate) fn client_invite(
        &mut self,
        (from, request): (ConnectionId, u64),
        (invitation, lasts): (SecretHash, Duration),
        out: &mut Vec<Output<O::Message>>,
    ) {
        let refusal = if !self.can_order() {
            Refusal::StorageFull
        } else if self.internals.invites() >= INVITATIONS_MAX {
            Refusal::Overloaded
        } else {
            let body = Body::Invite { invitation, lasts };
            return self.submit(Purpose::Invite(from, request), body);
        };
        refuse(out, from, Ask::Request(request), refusal);
    }

    /// An invitation is decided.
    pub(crate) fn invited(
        &mut self,
        slot: Slot,
        (invitation, lasts): (SecretHash, Duration),
        asked: Option<Purpose>,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let now = self.replicated.stamp.wall;
        self.replicated.invitations.made(invitation, now, lasts);
        if let Some(Purpose::Invite(to, request)) = asked {
            reply(out, to, ToClient::Checkpointed { request, slot });
        }
    }

    /// An operator names who is to lead. The leader hands on; another node names the leader.
    pub(crate) fn client_move_leader(
        &mut self,
        (from, request): (ConnectionId, u64),
        node: NodeId,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let to = Some(node);
        let refusal = match self.role {
            _ if self.leader() == to => None,
            _ if !self.view().may_lead(node) => Some(Refusal::NoSuchView),
            Role::Leader { .. } => {
                let to = NodeSet::only(node);
                self.raise(Event::TransferLeadership { to });
                None
            }
            Role::Candidate { .. } | Role::Follower { .. } => Some(Refusal::NoLeader),
        };
        match refusal {
            Some(refusal) => refuse(out, from, Ask::Request(request), refusal),
            None => {
                let slot = self.replicated.applied;
                reply(out, from, ToClient::Checkpointed { request, slot });
            }
        }
    }

    /// A peer says whether it votes.
    pub(crate) fn peer_votes(&mut self, from: NodeId, votes: bool) {
        if votes {
            self.observers.remove(from);
        } else {
            self.observers.insert(from);
        }
    }

    /// At the end of a turn: a view that is over goes once a majority has a snapshot of its slots. Until then the leader asks for one.
    pub(crate) fn tend_views(&mut self, now: Time) {
        let slot = match self.collects() {
            true => self.agreement.trimmed(),
            false => self.agreement.stable(),
        };
        if self.instances.drop_covered(slot)
            && let Some(digest) = self.agreement.agreed_at(slot)
            && self.agreement.trimmed() >= slot
        {
            // The instance in force was not there when the others were told.
            self.raise(Event::Trimmable { slot, digest });
        }
        if matches!(self.role, Role::Leader { .. }) && self.instances.wants_snapshot(now) {
            self.want_checkpoint();
        }
    }

    /// Whether enough of a view's acceptors vote and are linked here to elect its first leader, and to decide. Claim rp-141.
    fn is_ready(&self, view: &View) -> bool {
        let votes = self.instances.current().status().votes;
        self.up_in(view, votes) >= view.quorums.both()
    }

    /// How many of a view's acceptors vote and are linked here, this node among them if it `votes`.
    pub(crate) fn up_in(&self, view: &View, votes: bool) -> usize {
        self.up_of(view, votes).len()
    }

    /// The acceptors of a view that vote and are linked here, this node among them if it `votes`.
    pub(crate) fn up_of(&self, view: &View, votes: bool) -> NodeSet {
        let status = self.instances.current().status();
        let linked = status.peers.iter().filter(|peer| peer.connected);
        let linked = linked.map(|peer| peer.node);
        let mut voting: NodeSet = linked
            .filter(|node| !self.observers.contains(*node))
            .collect();
        if votes {
            voting.insert(self.config.own);
        }
        let up = view.acceptors.iter().filter(|node| voting.contains(*node));
        up.collect()
    }

    /// A change is decided.
    pub(crate) fn view_change_decided(
        &mut self,
        slot: Slot,
        (change, who, first): (ViewChange, &MemberChange, Option<FirstBallot>),
        asked: Option<Purpose>,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let decided = self.view_after(slot, change, who);
        let decided =
            decided.and_then(|_| self.replicated.views.decided(slot, (change, who), first));
        if let (Ok(_), MemberChange::Joins { invitation, .. }) = (&decided, who) {
            self.replicated.invitations.used(*invitation);
        }
        if asked == Some(Purpose::Rejoin) {
            self.rejoining.answered();
        }
        let Some(Purpose::ChangeView(to, request)) = asked else {
            return;
        };
        match decided {
            // The same change may have been asked for twice.
            Ok(_) => self.await_view((to, request), change, out),
            Err(_) if self.replicated.views.has(&change, who) => {
                self.await_view((to, request), change, out);
            }
            Err(error) => refuse(out, to, Ask::Request(request), refusal_of(error)),
        }
    }

    /// A change that this node submitted is the one that led to the newest view.
    pub(crate) fn view_change_known(
        &mut self,
        id: CommandId,
        change: ViewChange,
        out: &mut Vec<Output<O::Message>>,
    ) {
        if let Some(Purpose::ChangeView(to, request)) = self.internals.landed(id) {
            self.await_view((to, request), change, out);
        }
    }

    /// Whoever asked is answered once the view is in force.
    fn await_view(
        &mut self,
        (to, request): (ConnectionId, u64),
        change: ViewChange,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let number = ViewNumber(change.after.0 + 1);
        let is_known = |wait: &ViewWait| (wait.to, wait.request) == (to, request);
        if !self.view_waits.iter().any(is_known) {
            if self.view_waits.len() >= VIEW_CHANGES_WAITING {
                return refuse(out, to, Ask::Request(request), Refusal::Unknown);
            }
            self.view_waits.push(ViewWait {
                to,
                request,
                number,
            });
        }
        self.answer_view_waits(out);
    }

    /// Follows what the applied slots say of views: the end of the one in force, before the ordering may propose above it, and the
    /// beginning of the next.
    pub(crate) fn tell_end(&mut self, now: Time, out: &mut Vec<Output<O::Message>>) {
        let last = self.replicated.views.last();
        let last = last.filter(|_| !planted(Plant::ViewNotFollowed));
        let is_its = self.instances.current().view().number == self.view().number;
        if let Some(last) = last.filter(|_| is_its)
            && self.instances.close(last)
        {
            self.at_instance(now, self.instances.newest(), Event::Close { last }, out);
            self.begin_ahead(out);
        }
    }

    /// The next view is decided. Log and directory are told that this node takes part in it while the slots of the old one are filled,
    /// so that its first vote waits for nothing but itself.
    fn begin_ahead(&mut self, out: &mut Vec<Output<O::Message>>) {
        let Some(next) = self.replicated.views.next().cloned() else {
            return;
        };
        // Who comes back with this view is not named by the one in force: the directory is told of both at a time.
        let names = |view: &View| view.incarnation(self.config.own) == Some(self.config.fresh);
        let comes_back = names(&next) && !names(self.view());
        let votes =
            next.acceptors.contains(self.config.own) && self.standing_in(&next) == Standing::Voter;
        if votes && !comes_back && self.instances.may_begin_ahead(next.number) {
            self.begin_view(&next, out);
        }
    }

    /// Turns to the view in force, if that is another one than before.
    pub(crate) fn turn_to_view(&mut self, now: Time, out: &mut Vec<Output<O::Message>>) {
        let number = self.view().number;
        if self.instances.current().view().number == number || planted(Plant::ViewNotFollowed) {
            return;
        }
        let view = self.view().clone();
        let before = self.instances.newest();
        self.note_level(out);
        let previous = self.replicated.views.previous();
        let previous = previous.map(|previous| previous.number);
        let follows = previous == Some(self.instances.view(before).number);
        let last = if follows {
            view.first_slot.previous()
        } else {
            // A snapshot that a majority holds has brought the replica here: nobody needs this node's part in the views before.
            Slot::ZERO
        };
        if follows && self.instances.close(last) {
            self.at_instance(now, before, Event::Close { last }, out);
        }
        let standing = self.standing_in(&view);
        self.note_back(&view);
        if self.instances.open(now, &view, standing) {
            self.begin_view(&view, out);
        }
        for (peer, epoch) in self.instances.links_beyond(before) {
            let state = LinkState::Up(epoch);
            let newest = self.instances.newest();
            self.at_instance(now, newest, Event::Link { peer, state }, out);
        }
        if !planted(Plant::ReadsNotAskedInNextView) {
            self.reads.ask_anew(last);
        }
        self.currency.ends_with(last);
        if !planted(Plant::NotesOfOldView) {
            self.signs.forget(now);
        }
        self.at_instance(now, before, Event::Over, out);
        let kept = if follows { INSTANCES_KEPT } else { 1 };
        self.instances.drop_older(kept);
        let role = self.instances.current().status().role;
        self.role_changed(now, role, out);
        let slot = self.replicated.applied;
        let newest = self.instances.newest();
        self.at_instance(now, newest, Event::Executed { slot }, out);
        for early in self.instances.take_early(self.instances.view(newest)) {
            self.order(now, early, out);
        }
        if self.instances.has_early_beyond(number) {
            // Others are past this view too, and may say so only once.
            self.raise(Event::Passed);
        }
        self.answer_view_waits(out);
    }

    /// This node takes part in a view for the first time. Its log says so before the directory does, and the directory before a
    /// promise or vote leaves: a start that finds the view in the directory and not in the log knows that records are lost.
    pub(crate) fn begin_view(&mut self, view: &View, out: &mut Vec<Output<O::Message>>) {
        let number = view.number;
        match view.persistence {
            Persistence::Memory => {
                let back = self.rejoining.back(number);
                out.push(Output::BeginView { number, back });
            }
            Persistence::Disk => {
                let mark = self.instances.begin(number);
                self.written = mark;
                let record = self.instances.beginning_of(number);
                out.push(Output::Persist { mark, record });
            }
        }
    }

    fn answer_view_waits(&mut self, out: &mut Vec<Output<O::Message>>) {
        let (number, slot) = (self.view().number, self.view().first_slot);
        self.view_waits.retain(|wait| {
            let ViewWait { to, request, .. } = *wait;
            if wait.number > number {
                return true;
            }
            if wait.number == number {
                reply(out, to, ToClient::Checkpointed { request, slot });
            } else {
                // A snapshot covers the view's first slot and its end: which one it was is not known here.
                refuse(out, to, Ask::Request(request), Refusal::Unknown);
            }
            false
        });
    }

    /// Others are past what this node knows: it asks for what it lacks. Where none of those that its view names is linked, nobody
    /// tells of its slots: what brings it on is a snapshot of whoever is linked.
    pub(crate) fn passed(&mut self, now: Time, out: &mut Vec<Output<O::Message>>) {
        self.order(now, Event::Passed, out);
        let others = self.view().nodes().without(self.config.own);
        let agreed = self.agreement.newest_agreed();
        let executed = self.pipeline.executed(self.replicated.applied);
        if !others.iter().any(|node| self.is_linked(node)) && agreed > executed {
            self.fetch_at_least(now, agreed, out);
        }
    }

    /// A message of the ordering for a view that has no instance here.
    pub(crate) fn receive_of_other_view(
        &mut self,
        now: Time,
        received: Event<O::Message>,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let Event::Receive {
            from,
            view,
            ref message,
            ..
        } = received
        else {
            return;
        };
        let own = self.instances.current().view();
        if view.group != own.group {
            self.instances.dropped += 1;
        } else if view > own {
            self.instances.keep_early(view, received);
            self.passed(now, out);
        } else if !planted(Plant::GoneViewNotTold) {
            let upto = self.instances.begins_after();
            if let Some(message) = O::gone(message, upto) {
                out.push(Output::Send {
                    to: NodeSet::only(from),
                    lane: Lane::Bulk,
                    message: PeerMessage::Ordering { view, message },
                });
            }
        }
    }
}

fn refusal_of(error: ViewChangeError) -> Refusal {
    match error {
        ViewChangeError::Superseded => Refusal::ViewConflict,
        ViewChangeError::NotInvited => Refusal::NotInvited,
        ViewChangeError::OrderingNotSpoken(..)
        | ViewChangeError::WitnessesNotSpoken(_)
        | ViewChangeError::QuorumsNotSpoken(_)
        | ViewChangeError::LimitsNotSpoken(_)
        | ViewChangeError::GroupsNotSpoken(_) => Refusal::LevelNotSpoken,
        ViewChangeError::NoAcceptors
        | ViewChangeError::OnlyWitnesses
        | ViewChangeError::NotAMember(_)
        | ViewChangeError::Votes(_)
        | ViewChangeError::IsAMember(_)
        | ViewChangeError::Full
        | ViewChangeError::Address(_)
        | ViewChangeError::Quorums(_)
        | ViewChangeError::QuorumsInMemory
        | ViewChangeError::Limit(_)
        | ViewChangeError::Window(_) => Refusal::NoSuchView,
    }
}
