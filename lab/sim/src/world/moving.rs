//! A machine leaves the group for good, and an empty one joins under its number.
//!
//! One at a time, in some of the runs in which an operator changes the view and a group of an odd size, which is as large a majority
//! without one of its replicas. The machine that left is taken away once the others say so; the new one has a directory of its own,
//! comes with an invitation, and may start before it is a member.

use super::World;
use super::durable::Disks;
use super::events::Event;
use super::life::Death;
use super::notes::Notes;
use super::random::Random;
use super::row::Row;
use super::setup::Setup;
use quorate_types::{
    Duration, FromClient, Incarnation, Levels, Member, MemberRole, NodeId, NodeSet, Secret, View,
    ViewChange,
};

/// What the operator is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    /// All are members.
    #[default]
    Whole,
    /// This one is asked to leave, again and again until it has left.
    Leaving(NodeId),
    /// It has left, and its machine is still there.
    Left(NodeId),
    /// It is gone.
    Gone(NodeId),
    /// A machine is to join in its place.
    Joining {
        node: NodeId,
        /// The invitation that was asked for last; none that counts: number 0.
        invitation: u8,
    },
}

/// Members that come and go.
#[derive(Debug, Default)]
pub(super) struct Moving {
    random: Option<Random>,
    /// Whether the operator does nothing else, and mostly tries an invitation that was used before the one that is open.
    is_eager: bool,
    step: Step,
    invitations: u8,
    /// The invitation with which the last one joined.
    used: u8,
    /// Directories that were made for machines that join.
    directories: u64,
}

/// A request that the operator makes, and what it changes.
pub(super) enum MoveAsked {
    /// It may change the view so.
    View(ViewChange, Move),
    /// It is about an invitation.
    Invite(Secret, Duration),
}

/// Who comes or goes.
pub(super) enum Move {
    /// This one leaves.
    Leaves(NodeId),
    /// This one joins with this secret.
    Joins(Member, Secret, MemberRole),
}

impl MoveAsked {
    /// The request to a node.
    pub(super) fn request(self, request: u64, speaks: Levels) -> FromClient {
        match self {
            MoveAsked::View(change, Move::Leaves(node)) => FromClient::ChangeView {
                request,
                change,
                leaves: Some(node),
            },
            MoveAsked::View(change, Move::Joins(member, secret, role)) => FromClient::Join {
                request,
                change,
                member,
                secret,
                speaks,
                role,
            },
            MoveAsked::Invite(secret, lasts) => FromClient::Invite {
                request,
                invitation: secret.hash(),
                lasts,
            },
        }
    }
}

impl Moving {
    /// What follows from the seed; members move in every run that is paced.
    pub(super) fn new(setup: &Setup) -> Moving {
        let mut random = Random::new(setup.seed, "moving", 0);
        let is_eager = is_eager(setup);
        let is_drawn = random.chance(400) || setup.witnesses > 0;
        let is_wanted = is_drawn || setup.pace.is_some() || is_eager;
        let is_on = is_wanted && is_possible(setup);
        Moving {
            is_eager,
            random: is_on.then_some(random),
            ..Moving::default()
        }
    }

    fn secret(&self, invitation: u8) -> Secret {
        let mut bytes = [0x5a; Secret::BYTES];
        bytes[0] = invitation;
        Secret::new(bytes)
    }
}

/// Whether two members are moved one right after the other: an invitation that was used is still known then. A node whose directory
/// is an older copy must find some of those that it knows, so there are others.
pub(super) fn is_eager(setup: &Setup) -> bool {
    Random::new(setup.seed, "moving eagerly", 0).chance(80)
        && is_possible(setup)
        && setup.nodes >= 5
}

fn is_possible(setup: &Setup) -> bool {
    setup.nodes >= 3 && setup.nodes % 2 == 1
}

impl World {
    /// The operator, who asks a node that is in `view`, moves a member instead of anything else.
    pub(super) fn move_member(&mut self, asked: NodeId, view: &View) -> Option<MoveAsked> {
        let mut random = self.harm.views.moving.random.take()?;
        let wish = self.next_move(&mut random, asked, view);
        self.harm.views.moving.random = Some(random);
        wish
    }

    fn next_move(&mut self, random: &mut Random, asked: NodeId, view: &View) -> Option<MoveAsked> {
        let moving = &self.harm.views.moving;
        let (is_eager, is_over) = (moving.is_eager, moving.is_eager && moving.directories >= 2);
        match self.harm.views.moving.step {
            Step::Whole => {
                if (random.chance(300) || is_eager) && !is_over && !self.harm.freezing.began {
                    let nodes: Vec<NodeId> = view.nodes().iter().collect();
                    let node = *random.pick(&nodes);
                    if self.may_maim(node) {
                        self.harm.views.moving.step = Step::Leaving(node);
                    }
                }
                None
            }
            Step::Leaving(node) => self.ask_to_leave(node, asked, view),
            Step::Left(node) => {
                self.take_away(node);
                self.harm.views.moving.step = Step::Gone(node);
                None
            }
            Step::Gone(node) if random.chance(400) || is_eager => {
                self.bring(random, node);
                let invitation = 0;
                self.harm.views.moving.step = Step::Joining { node, invitation };
                None
            }
            Step::Gone(_) => None,
            Step::Joining { node, invitation } => {
                self.ask_to_join(random, (node, invitation), view)
            }
        }
    }

    fn ask_to_leave(&mut self, node: NodeId, asked: NodeId, view: &View) -> Option<MoveAsked> {
        view.member(node)?;
        let mut acceptors = view.acceptors.without(node);
        if acceptors.is_empty() {
            acceptors = NodeSet::only(asked);
        }
        let change = ViewChange {
            after: view.number,
            acceptors,
            window: view.window,
        };
        let is_safe = !acceptors.contains(node)
            && self.can_vote(acceptors)
            && self.all_know(view, node)
            && self.can_execute(view.replicas.without(node));
        is_safe.then_some(MoveAsked::View(change, Move::Leaves(node)))
    }

    /// Whether all members but `leaving` have been in `view` or a later one. Machines are replaced one after the other with all
    /// members up: one that was down or behind while all others were replaced would know nobody, and nobody could reach it.
    fn all_know(&self, view: &View, leaving: NodeId) -> bool {
        let mut staying = view.nodes().iter().filter(|node| *node != leaving);
        staying.all(|node| {
            let node = &self.nodes[&node];
            let known = node.known.as_ref().map(|known| known.number);
            node.is_wiped || known >= Some(view.number)
        })
    }

    fn ask_to_join(
        &mut self,
        random: &mut Random,
        (node, invitation): (NodeId, u8),
        view: &View,
    ) -> Option<MoveAsked> {
        let incarnation = self.nodes[&node].disks.incarnation;
        if view.member(node).is_some() {
            return None;
        }
        let moving = &mut self.harm.views.moving;
        if invitation == 0 || random.chance(250) {
            moving.invitations = moving.invitations.wrapping_add(1).max(1);
            let invitation = moving.invitations;
            moving.step = Step::Joining { node, invitation };
            let lasts = random.millis(500, 60_000);
            return Some(MoveAsked::Invite(moving.secret(invitation), lasts));
        }
        // Sometimes somebody comes with an invitation that was used, is over, or was never made.
        let invitation = match random.between(0, 9) {
            0 => invitation.wrapping_sub(1),
            1..=3 if moving.used > 0 => moving.used,
            4..=7 if moving.used > 0 && moving.is_eager => moving.used,
            _ => invitation,
        };
        let secret = moving.secret(invitation);
        let member = Member {
            node,
            incarnation,
            address: format!("{node}:1"),
        };
        let change = ViewChange {
            after: view.number,
            acceptors: view.acceptors,
            window: view.window,
        };
        let role = match self.setup.is_witness(node) {
            true => MemberRole::Witness,
            false => MemberRole::Replica,
        };
        Some(MoveAsked::View(change, Move::Joins(member, secret, role)))
    }

    /// A view is in force at a node for the first time anywhere: members may have come or gone.
    pub(super) fn note_members(&mut self, before: &View, view: &View) {
        let (old, new) = (before.nodes(), view.nodes());
        for node in old.iter().filter(|node| !new.contains(*node)) {
            self.exercised(Row::MemberLeft);
            if self.harm.views.led(before.number) == Some(node) {
                self.exercised(Row::LeadingMemberLeft);
            }
            self.harm.views.moving.step = Step::Left(node);
            if self.stage.is_calm() {
                self.end_moving();
            }
        }
        for node in new.iter().filter(|node| !old.contains(*node)) {
            self.exercised(Row::MemberJoined);
            if self.setup.is_witness(node) {
                self.exercised(Row::WitnessJoined);
            }
            let moving = &mut self.harm.views.moving;
            if let Step::Joining { invitation, .. } = moving.step {
                moving.used = invitation;
            }
            moving.step = Step::Whole;
            let at = self.now;
            self.events.push(at, Event::Start { node });
        }
    }

    /// From now on the operator does nothing: who is no member is switched off.
    pub(super) fn end_moving(&mut self) {
        match self.harm.views.moving.step {
            Step::Whole | Step::Leaving(_) | Step::Gone(_) => {}
            Step::Left(node) | Step::Joining { node, .. } => self.take_away(node),
        }
    }

    /// The machine of a node that has left is switched off.
    fn take_away(&mut self, node: NodeId) {
        self.exercised(Row::MachineGone);
        self.die(node, Death::PowerCut, Duration::ZERO);
        self.node(node).is_wiped = true;
    }

    /// Another machine has an empty directory for the number of one that left.
    fn bring(&mut self, random: &mut Random, id: NodeId) {
        let moving = &mut self.harm.views.moving;
        moving.directories += 1;
        let incarnation = Incarnation(u64::from(id.0) << 48 | 1 << 40 | moving.directories);
        let disks = Disks::init(id.0, incarnation, self.setup.persistence);
        self.forget_sightings(id);
        let node = self.node(id);
        node.disks = disks;
        node.notes = Notes::default();
        node.quarantine = None;
        node.known = None;
        (node.is_wiped, node.is_old_copy, node.is_new) = (false, false, true);
        if random.chance(500) {
            let at = self.now;
            self.events.push(at, Event::Start { node: id });
        }
    }

    /// Whether two nodes have a link: each is a member for the other, with its directory. One that is to join knows all.
    pub(super) fn know_each_other(&self, one: NodeId, other: NodeId) -> bool {
        let knows = |who: NodeId, of: NodeId| {
            let Some(running) = &self.nodes[&who].running else {
                return false;
            };
            let noted = self.nodes[&who].known.as_ref();
            let view = running.replica.view();
            let view = noted
                .filter(|noted| noted.number > view.number)
                .unwrap_or(view);
            let directory = |node: NodeId| self.nodes[&node].disks.incarnation;
            let is_named = |node| {
                let member = view.member(node);
                member.is_some_and(|member| member.incarnation == directory(node))
            };
            is_named(of) || !is_named(who)
        };
        knows(one, other) && knows(other, one)
    }

    /// The directory of a node that a view names takes down who the members are.
    pub(super) fn note_known(&mut self, id: NodeId, view: &View) {
        let node = self.node(id);
        let known = node.known.as_ref().map_or(0, |known| known.number.0);
        let own = view.member(id).map(|member| member.incarnation);
        if view.number.0 > known && own == Some(node.disks.incarnation) {
            node.known = Some(view.clone());
        }
    }

    /// `id` is in another view than before: its links to those that it does not know any more end.
    pub(super) fn drop_strangers(&mut self, id: NodeId) {
        let others: Vec<NodeId> = self.nodes.ids().filter(|other| *other != id).collect();
        for other in others {
            if self.nodes[&other].running.is_some() && !self.know_each_other(id, other) {
                self.break_link(id, other);
            }
        }
    }
}
