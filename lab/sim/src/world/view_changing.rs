//! An operator who changes the view while everything else happens.
//!
//! In some runs nobody does. In the others somebody asks a node now and then for other acceptors and for another window; in half of
//! these, for more or fewer acceptors than before. Whoever lost its vote for ever is asked to vote only where the others are a quorum without it.

use super::World;
use super::clock::Moment;
use super::events::Event;
use super::grouping::Grouping;
use super::life::Death;
use super::limit_asking::LimitAsking;
use super::moving::{self, Move, MoveAsked, Moving};
use super::orderings::Switching;
use super::quorum_asking::QuorumAsking;
use super::random::Random;
use super::row::Row;
use super::setup::{Setup, founding};
use crate::checkers::Property;
use crate::checkers::views::majority;
use quorate_replica::Input;
use quorate_storage::Rejoined;
use quorate_types::{
    Ask, ConnectionId, Duration, FromClient, Levels, NodeId, NodeSet, Quorums, Recall, Refusal,
    ToClient, View, ViewChange, ViewNumber,
};
use std::collections::{BTreeMap, BTreeSet};

/// The operator's connection, which no client has.
const OPERATOR: ConnectionId = ConnectionId((1 << 41) + 2);

/// A window is larger than the pipeline by so many slots at most.
pub(super) const WINDOW_BEYOND_PIPELINE: u64 = 56;

/// The mean time between two requests of one who moves members eagerly.
const EAGER: Duration = Duration::from_millis(150);

/// A change that may yet be decided.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    change: ViewChange,
    /// How many of its acceptors may be without a vote for ever.
    losable: usize,
}

/// What an operator has asked of the view.
#[derive(Debug, Default)]
pub(super) struct ViewChanging {
    random: Option<Random>,
    /// The mean time between two requests; none: nobody changes the view.
    every: Option<Duration>,
    due: Moment,
    /// Whether the number of acceptors changes. Where there are few, hardly any may lose its vote.
    is_resizing: bool,
    /// Members that come and go.
    pub(super) moving: Moving,
    /// Groups beside this one.
    pub(super) grouping: Grouping,
    /// Other orderings.
    switching: Switching,
    /// Other quorums.
    pub(super) asking: QuorumAsking,
    /// Other limits.
    pub(super) limits: LimitAsking,
    requests: u64,
    /// The requests without an answer.
    open: BTreeMap<u64, ViewChange>,
    /// Changes that were asked for, and may yet be decided whatever was answered.
    pending: Vec<Wanted>,
    /// The last node that led in each view.
    leaders: BTreeMap<u64, NodeId>,
    /// Nodes that have been acceptors of a view.
    voted: NodeSet,
    /// The view that each node was in when it was last looked at.
    at: BTreeMap<NodeId, u64>,
    /// Views by their number, as the first node to say so had them.
    seen: BTreeMap<u64, View>,
}

impl ViewChanging {
    /// What follows from the seed. Quorums that are no majorities, and that nobody asked for, would become majorities: there nobody
    /// changes anything.
    pub(super) fn new(setup: &Setup) -> ViewChanging {
        let seed = setup.seed;
        let is_paced = setup.pace.is_some();
        let mut random = Random::new(seed, "views", 0);
        let every = drawn_pace(&mut random);
        ViewChanging {
            random: Some(random),
            every: asked_every(setup, every),
            due: Moment(0),
            is_resizing: Random::new(seed, "sizes", 0).chance(500) && !is_paced,
            moving: Moving::new(setup),
            grouping: Grouping::new(seed),
            switching: Switching::new(seed),
            asking: QuorumAsking::new(setup),
            limits: LimitAsking::new(setup),
            requests: 0,
            open: BTreeMap::new(),
            pending: Vec::new(),
            leaders: BTreeMap::new(),
            voted: NodeSet::empty(),
            at: BTreeMap::new(),
            seen: BTreeMap::new(),
        }
    }

    /// The newest view that any node was seen in.
    pub(super) fn newest(&self) -> ViewNumber {
        ViewNumber(self.seen.last_key_value().map_or(1, |(number, _)| *number))
    }

    /// The operator asks for the next thing then.
    pub(super) fn hurry(&mut self, due: Moment) {
        self.due = due;
    }

    /// The view that a node was in when it was last looked at.
    pub(super) fn view_of(&self, node: NodeId) -> ViewNumber {
        ViewNumber(self.at.get(&node).copied().unwrap_or(1))
    }

    /// The last node that led in a view.
    pub(super) fn led(&self, view: ViewNumber) -> Option<NodeId> {
        self.leaders.get(&view.0).copied()
    }

    /// Whether somebody changes the view in this run.
    pub(super) fn is_on(&self) -> bool {
        self.every.is_some()
    }
}

impl World {
    /// Who votes in the newest view that is in force anywhere.
    pub(super) fn acceptors(&self) -> NodeSet {
        let newest = self.harm.views.newest();
        self.judge.governing(newest).acceptors
    }

    /// Whether a view is decided that is in force nowhere yet.
    pub(super) fn is_view_ending(&self) -> bool {
        self.judge.newest_view() > self.harm.views.newest()
    }

    /// Whether quorums remain if these nodes never vote again: in every view that votes, and in those that may be decided yet.
    pub(super) fn can_lose(&self, lost: &BTreeSet<NodeId>) -> bool {
        let newest = self.harm.views.newest().0;
        let before = newest.saturating_sub(1).max(1);
        let views = (before..=self.judge.newest_view().0).map(ViewNumber);
        let decided = views.map(|view| *self.judge.governing(view));
        let replicas = self.judge.governing(ViewNumber(newest)).replicas;
        let decided = decided.map(|view| (view.acceptors, view.losable(), view.replicas));
        let pending = self.harm.views.pending.iter();
        let pending = pending.map(|wanted| (wanted.change.acceptors, wanted.losable, replicas));
        let mut all = decided.chain(pending);
        let lost: NodeSet = lost.iter().copied().collect();
        all.all(|(acceptors, losable, replicas)| {
            let of_them = lost.iter().filter(|node| acceptors.contains(*node));
            of_them.count() <= losable && self.can_go_on(acceptors, replicas, lost)
        })
    }

    /// Whether somebody is left who can lead, and a majority of those who execute, which agrees on snapshots. Only witnesses make
    /// that another question than whether there is a quorum.
    fn can_go_on(&self, acceptors: NodeSet, replicas: NodeSet, lost: NodeSet) -> bool {
        let are_left = replicas.iter().filter(|node| !lost.contains(*node));
        let are_left: NodeSet = are_left.collect();
        let can_lead = are_left.iter().any(|node| acceptors.contains(node));
        self.setup.witnesses == 0 || can_lead && are_left.len() >= majority(replicas.len())
    }

    /// Whether these are enough to agree on snapshots, without those that never vote again.
    pub(super) fn can_execute(&self, replicas: NodeSet) -> bool {
        let lost = self.harm.maimed.difference(&self.harm.back).copied();
        self.can_go_on(replicas, replicas, lost.collect())
    }

    /// The operator asks for another view, if it is time.
    pub(super) fn tend_views(&mut self) {
        let now = self.now;
        let changing = &mut self.harm.views;
        let due = changing.every.filter(|_| changing.due <= now);
        let (Some(every), Some(random)) = (due, &mut changing.random) else {
            return;
        };
        let pause = random.between(every.0 / 2, every.0 * 3 / 2);
        changing.due = now + Duration(pause);
        self.release_objects();
        let nodes = &self.nodes;
        let awake = self.setup.node_ids().filter(|id| nodes[id].is_awake());
        let awake: Vec<NodeId> = awake.collect();
        if awake.is_empty() {
            return;
        }
        let Some(random) = &mut self.harm.views.random else {
            return;
        };
        let asked = *random.pick(&awake);
        let Some(running) = &self.nodes[&asked].running else {
            return;
        };
        let view = running.replica.view().clone();
        if self.asks_something_else(asked, &view) {
            return;
        }
        let changing = &mut self.harm.views;
        let Some(random) = &mut changing.random else {
            return;
        };
        let is_paced = self.setup.pace.is_some();
        let nodes: Vec<NodeId> = view.nodes().iter().collect();
        let all = usize::from(self.setup.acceptors);
        let acceptors = match changing.is_resizing {
            true => draw_sized(random, view.acceptors, nodes),
            // A member that left took its vote along: over hours nobody would be left to vote.
            false if is_paced && view.acceptors.len() < all.min(nodes.len()) => {
                draw_some(random, all.min(nodes.len()), nodes)
            }
            false => draw_acceptors(random, view.acceptors, nodes),
        };
        let window = draw_window(random, self.setup.limits.pipeline as u64);
        let can_vote = self.can_vote(acceptors);
        let change = ViewChange {
            after: view.number,
            acceptors: if can_vote { acceptors } else { view.acceptors },
            window,
        };
        self.ask_operator((asked, Some(change)), |request| FromClient::ChangeView {
            request,
            change,
            leaves: None,
        });
    }

    /// The operator asks for another group, another ordering or another member, where one of these is its wish.
    fn asks_something_else(&mut self, asked: NodeId, view: &View) -> bool {
        if self.harm.views.limits.is_prepared() {
            return self.asks_limit(asked, view);
        }
        let all = self.setup.node_ids();
        let next = self.harm.views.requests + 1;
        if let Some(change) = self.harm.views.grouping.wish(next, all) {
            self.ask_operator((asked, None), |request| FromClient::ChangeGroups {
                request,
                change,
            });
            return true;
        }
        if let Some((change, rule)) = self.wish_for_quorums(view) {
            let quorums = rule.quorums(change.acceptors.len());
            let losable =
                quorums.map_or(usize::MAX, |quorums| quorums.acceptors() - quorums.both());
            self.ask_operator((asked, Some(change)), |request| FromClient::SetQuorums {
                request,
                change,
                rule,
            });
            if let Some(wanted) = self.harm.views.pending.last_mut() {
                wanted.losable = losable;
            }
            return true;
        }
        if self.asks_limit(asked, view) {
            return true;
        }
        if let Some((change, ordering)) = self.harm.views.switching.wish(view) {
            self.ask_operator((asked, Some(change)), |request| {
                FromClient::SwitchOrdering {
                    request,
                    change,
                    ordering,
                }
            });
            return true;
        }
        if let Some(wish) = self.move_member(asked, view) {
            let change = match &wish {
                MoveAsked::View(change, _) => Some(*change),
                MoveAsked::Invite(..) => None,
            };
            let speaks = match &wish {
                MoveAsked::View(_, Move::Joins(member, ..)) => self.nodes[&member.node].speaks,
                MoveAsked::View(_, Move::Leaves(_)) | MoveAsked::Invite(..) => Levels::UNNAMED,
            };
            self.ask_operator((asked, change), |request| wish.request(request, speaks));
            return true;
        }
        false
    }

    /// Whether these are enough without those of them that never vote again.
    pub(super) fn can_vote(&self, acceptors: NodeSet) -> bool {
        let maimed = self.harm.maimed.difference(&self.harm.back);
        let maimed: NodeSet = maimed.copied().collect();
        let of_them = maimed.iter().filter(|node| acceptors.contains(*node));
        let can_lead = self.setup.replicas().iter().any(|node| {
            let votes = acceptors.contains(node);
            votes && !maimed.contains(node)
        });
        let can_be = self.losable(acceptors) != usize::MAX;
        can_be
            && of_them.count() <= self.losable(acceptors)
            && (can_lead || self.setup.witnesses == 0)
    }

    /// How many of these acceptors may be without a vote for ever, in the view that would follow; all where there is no such view.
    fn losable(&self, acceptors: NodeSet) -> usize {
        let quorums = self.quorums_with(acceptors);
        quorums.map_or(usize::MAX, |(phase1, phase2)| {
            acceptors.len() - phase1.max(phase2)
        })
    }

    /// The operator asks a node for something that may change the view.
    pub(super) fn ask_operator(
        &mut self,
        (asked, change): (NodeId, Option<ViewChange>),
        request: impl FnOnce(u64) -> FromClient,
    ) {
        let losable = change.map_or(usize::MAX, |change| self.losable(change.acceptors));
        let changing = &mut self.harm.views;
        changing.requests += 1;
        let number = changing.requests;
        if let Some(change) = change {
            changing.open.insert(number, change);
            changing.pending.push(Wanted { change, losable });
        }
        let (from, message) = (OPERATOR, request(number));
        self.hand_in(asked, Input::Client { from, message });
    }

    /// A node says which view is in force there: all say the same of each.
    pub(super) fn watch_view(&mut self, id: NodeId) {
        let Some(running) = &self.nodes[&id].running else {
            return;
        };
        let view = running.replica.view().clone();
        self.watch_groups(id);
        let Some(running) = &self.nodes[&id].running else {
            return;
        };
        let number = view.number.0;
        let leads = running.leads();
        let judged = self.judge.says_view(id, &view);
        self.judged(judged);
        let views = &mut self.harm.views;
        if let Some(ballot) = leads {
            views.leaders.insert(ballot.view.0, id);
        }
        if views.at.insert(id, number) != Some(number) {
            self.leading.catching_up.turned(id);
            self.note_known(id, &view);
            self.drop_strangers(id);
        }
        if !self.harm.views.seen.contains_key(&number) {
            self.note_new_view(&view);
            let views = &mut self.harm.views;
            views
                .pending
                .retain(|wanted| wanted.change.after.0 >= number);
            views.voted = views.voted.iter().chain(view.acceptors.iter()).collect();
            views.seen.insert(number, view);
        }
    }

    /// Counts what is new about a view, and what happens while it begins.
    fn note_new_view(&mut self, view: &View) {
        let views = &self.harm.views;
        let before = view.number.0.checked_sub(1);
        let Some(before) = before.and_then(|number| views.seen.get(&number)) else {
            return;
        };
        let before = before.clone();
        self.note_members(&before, view);
        self.note_ordering(&before, view);
        self.note_quorums(&before, view);
        self.note_limits(&before, view);
        let views = &self.harm.views;
        let (old, new) = (before.acceptors, view.acceptors);
        let leader = views.leaders.get(&before.number.0);
        let mut ways = self.setup.node_ids().flat_map(|from| {
            let others = self.setup.node_ids().filter(move |to| *to != from);
            others.map(move |to| (from, to))
        });
        let rows = [
            (Row::AcceptorsChanged, old != new),
            (Row::ViewGrown, new.len() > old.len()),
            (Row::ViewShrunk, new.len() < old.len()),
            (Row::ViewToOne, new.len() == 1 && old.len() > 1),
            (Row::ViewFromOne, new.len() > 1 && old.len() == 1),
            (
                Row::NewVoter,
                new.iter().any(|node| !views.voted.contains(node)),
            ),
            (
                Row::LeaderRemoved,
                leader.is_some_and(|leader| !new.contains(*leader)),
            ),
            (
                Row::ChangedInPartition,
                ways.any(|(from, to)| !self.network.is_open(from, to)),
            ),
        ];
        for (row, _) in rows.into_iter().filter(|(_, applies)| *applies) {
            self.exercised(row);
        }
    }

    /// A node takes part in a view for the first time, or has come back with one.
    pub(super) fn begins_view(&mut self, id: NodeId, number: ViewNumber, back: Option<ViewNumber>) {
        self.exercised(Row::ViewBegun);
        let running = self.running(id);
        let back = back.map(|view| Rejoined {
            incarnation: running.replica.fresh(),
            view,
        });
        if running.storage.begin_view(number, back).is_err() {
            return self.die(id, Death::Killed, Duration::ZERO);
        }
        if let Some((after, down)) = self.forgets_view(id) {
            let at = self.now + after;
            self.events.push(at, Event::ViewLost { node: id, down });
        }
        let directory = self.nodes[&id].disks.incarnation;
        let running = self.running(id);
        let member = running.replica.view().member(id);
        let is_named = member.is_some_and(|member| member.incarnation == directory);
        // A life that has forgotten is named by its directory, and has no vote.
        let is_named = is_named && running.replica.may_vote();
        if is_named && directory != founding(id) && self.nodes[&id].doom.is_none() {
            self.harm.back.insert(id);
        }
        let running = self.running(id);
        let Some(back) = back else { return };
        if running.since.replace(back.view) != Some(back.view) {
            let recall = std::mem::replace(&mut running.recall, Recall::Whole);
            // An older copy that found itself that it lacks something is refused by nobody. It observed like one that was told,
            // and is the newest directory from now on.
            self.node(id).is_old_copy &= recall != Recall::Lost;
            self.exercised(Row::CameBack);
            // Whoever is about to die is as good as gone.
            if self.nodes[&id].doom.is_none() {
                self.harm.back.insert(id);
            }
        }
    }

    /// A node answers the operator.
    pub(super) fn answers_view_operator(
        &mut self,
        id: NodeId,
        to: ConnectionId,
        message: &ToClient,
    ) {
        if to != OPERATOR {
            return;
        }
        match message {
            ToClient::Checkpointed { request, slot } => {
                self.answers_group_operator(*request, Some(*slot));
                let Some(change) = self.harm.views.open.remove(request) else {
                    return;
                };
                let seen = self.harm.views.seen.get(&(change.after.0 + 1));
                let is_right = seen.is_none_or(|seen| {
                    seen.first_slot == *slot
                        && (seen.acceptors, seen.window) == (change.acceptors, change.window)
                });
                if is_right {
                    self.exercised(Row::ViewChanged);
                } else {
                    let detail =
                        format!("{id} says that {change:?} is in force from {slot}: {seen:?}");
                    self.blame(Property::Agreement, detail);
                }
            }
            ToClient::Refused {
                ask: Ask::Request(request),
                refusal,
            } => {
                self.harm.views.open.remove(request);
                self.answers_group_operator(*request, None);
                match refusal {
                    Refusal::ViewConflict => self.exercised(Row::ViewConflict),
                    Refusal::NotInvited => self.exercised(Row::NotInvited),
                    Refusal::LevelNotSpoken => self.exercised(Row::LevelRefused),
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

/// The mean time between two requests for another view, in the run that follows from a seed.
pub(super) fn pace(setup: &Setup) -> Option<Duration> {
    asked_every(setup, drawn_pace(&mut Random::new(setup.seed, "views", 0)))
}

fn asked_every(setup: &Setup, drawn: Option<Duration>) -> Option<Duration> {
    let acceptors = setup.quorums.acceptors();
    let has_majorities = Quorums::majority(acceptors) == Ok(setup.quorums);
    let drawn = moving::is_eager(setup).then_some(EAGER).or(drawn);
    setup
        .pace
        .or(drawn.filter(|_| has_majorities || setup.asks_quorums()))
}

fn drawn_pace(random: &mut Random) -> Option<Duration> {
    match random.between(0, 9) {
        0..=4 => None,
        5..=7 => Some(random.millis(1_000, 6_000)),
        _ => Some(random.millis(150, 900)),
    }
}

/// The same acceptors, one alone, as many others, or more or fewer of all nodes.
fn draw_sized(random: &mut Random, old: NodeSet, nodes: Vec<NodeId>) -> NodeSet {
    let all = nodes.len();
    let size = match random.between(0, 9) {
        0..=1 => return old,
        2 => 1,
        3..=4 => old.len(),
        5..=6 => (old.len() + 2).min(all),
        _ => random.between(1, all as u64) as usize,
    };
    draw_some(random, size, nodes)
}

/// The same acceptors, or as many others.
fn draw_acceptors(random: &mut Random, old: NodeSet, nodes: Vec<NodeId>) -> NodeSet {
    if random.chance(300) {
        return old;
    }
    draw_some(random, old.len(), nodes)
}

fn draw_some(random: &mut Random, size: usize, mut nodes: Vec<NodeId>) -> NodeSet {
    let mut some = NodeSet::empty();
    while some.len() < size {
        let at = random.between(0, nodes.len() as u64 - 1) as usize;
        some.insert(nodes.swap_remove(at));
    }
    some
}

fn draw_window(random: &mut Random, least: u64) -> u64 {
    match random.between(0, 3) {
        0 => random.between(1, 4),
        _ => least + random.between(0, WINDOW_BEYOND_PIPELINE),
    }
}
