//! Calls that end the host processes which execute them: on every replica, on some, or only after others have answered.
//!
//! A host that ends starts again after a moment and executes again what was executed since the last snapshot, where it may end at a
//! call that was answered. After three ends at one call it stays down until the group skips the call or
//! the replica takes a later state over. A call that neither can happen to is made harmless after a while, as an operator would
//! who gives the machines more memory: a group that waits for ever exercises nothing. Once faults have stopped it is memory for
//! all calls: with one call after the other the operator, and not the group, would be slow.

use super::World;
use super::clock::Moment;
use super::events::Event;
use super::fault::Lasts;
use super::objects::{NextHost, Work};
use super::row::Row;
use super::stages::Stage;
use super::trace::Tag;
use crate::checkers::Property;
use bytes::Bytes;
use quorate_replica::{EarlierLives, Input};
use quorate_types::{CallPlace, CommandId, Digest, Duration, NodeId, NodeSet, Slot};
use quorate_wire::Snapshot;
use std::collections::{BTreeMap, BTreeSet};

/// An operator notices that no host can go on, and helps.
const HELP_AFTER: Duration = Duration::from_millis(500);

/// The longest time until another host has started, in milliseconds.
const START_MS: (u64, u64) = (2, 150);

/// The calls of a run that end hosts.
#[derive(Debug, Default)]
pub(super) struct Poison {
    /// What the next calls shall be.
    wanted: Vec<Lethal>,
    calls: BTreeMap<CommandId, Lethal>,
}

/// A call that ends hosts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lethal {
    /// The nodes whose hosts it ends; empty once it is harmless.
    kills: NodeSet,
    /// From when on.
    from: Moment,
    /// How long it does.
    lasts: Lasts,
    /// Where a host died at it.
    place: Option<CallPlace>,
    /// The nodes whose host stayed down at it.
    died: NodeSet,
    /// Since when nothing that the group may do brings the hosts back.
    helpless: Option<Moment>,
}

impl Poison {
    /// Whether a call ends the host of `node`.
    pub(super) fn ends(&self, node: NodeId, call: CommandId, now: Moment) -> bool {
        let lethal = self.calls.get(&call);
        lethal.is_some_and(|lethal| {
            let is_over = lethal.lasts == Lasts::Once && lethal.died.contains(node);
            lethal.kills.contains(node) && now >= lethal.from && !is_over
        })
    }

    /// The replicas whose host died at a call up to `slot`.
    fn stuck(&self, slot: Slot) -> NodeSet {
        let before = |lethal: &&Lethal| lethal.place.is_some_and(|place| place.slot <= slot);
        let before = self.calls.values().filter(before);
        before.flat_map(|lethal| lethal.died.iter()).collect()
    }

    /// The replicas whose host ever stayed down at a call of `slot`.
    fn died_in(&self, slot: Slot) -> NodeSet {
        let here = |lethal: &&Lethal| lethal.place.is_some_and(|place| place.slot == slot);
        let here = self.calls.values().filter(here);
        here.flat_map(|lethal| lethal.died.iter()).collect()
    }

    /// Whether some replicas may be ahead of others that cannot follow by themselves.
    pub(super) fn is_partial(&self, nodes: usize) -> bool {
        let mut calls = self.calls.values().chain(&self.wanted);
        calls.any(|lethal| !lethal.kills.is_empty() && lethal.kills.len() < nodes)
    }
}

impl World {
    /// The next call of a client is to end the hosts of `kills`.
    pub(super) fn poison(&mut self, kills: NodeSet, after: Duration, lasts: Lasts) {
        let is_partial = kills.len() < usize::from(self.setup.nodes);
        // With a replica that differs, no majority of those past the call may be left.
        if is_partial && self.harm.diverged.is_some() {
            return;
        }
        self.harm.poison.wanted.push(Lethal {
            kills,
            from: self.now + after,
            lasts,
            place: None,
            died: NodeSet::empty(),
            helpless: None,
        });
    }

    /// A client sends a call for the first time.
    pub(super) fn first_sent(&mut self, call: CommandId) {
        if let Some(lethal) = self.harm.poison.wanted.pop() {
            let words = [Tag::Fault as u64, call.session.0, call.sequence];
            self.trace.note(self.now, &words, || {
                format!("FAULT {call} ends the hosts of {:?}", lethal.kills)
            });
            self.harm.poison.calls.insert(call, lethal);
        }
    }

    /// A call ended the host of `id`.
    pub(super) fn host_died(
        &mut self,
        id: NodeId,
        call: CommandId,
        place: CallPlace,
        steps: usize,
        next: NextHost,
    ) {
        let words = [Tag::Work as u64, u64::from(id.0), place.slot.0, 1];
        self.trace.note(self.now, &words, || {
            format!("{id}'s host dies at {call} in {place:?}: {next:?}")
        });
        if steps > 1 {
            self.felt(id, Row::PoisonInSlot);
        }
        if self.running(id).objects.has_executed(place.slot) {
            self.felt(id, Row::PoisonInReplay);
        }
        self.hand_in(id, Input::Host { is_up: false });
        let lethal = self.harm.poison.calls.get_mut(&call);
        let lethal = lethal.expect("only these calls end hosts");
        lethal.place = Some(place);
        match next {
            NextHost::Starts | NextHost::Restores => self.host_starts_soon(id),
            NextHost::Waits => {
                lethal.died.insert(id);
                self.node(id).notes.died.push(place);
                let CallPlace { slot, index } = place;
                self.hand_in(id, Input::HostDied { slot, index });
            }
        }
    }

    pub(super) fn host_starts_soon(&mut self, id: NodeId) {
        let (low, high) = START_MS;
        let now = self.now;
        let node = self.node(id);
        let (life, at) = (node.life, now + node.random.millis(low, high));
        self.events.push(at, Event::HostStarts { node: id, life });
    }

    /// Another process of a node's objects starts.
    pub(super) fn host_starts(&mut self, id: NodeId, life: u64) {
        let node = self.node(id);
        if node.life != life {
            return;
        }
        if let Some(running) = &mut node.running {
            running.objects.starts();
            self.hand_in(id, Input::Host { is_up: true });
            self.begin_work(id);
        }
    }

    /// The group skips a call.
    pub(super) fn skip(&mut self, id: NodeId, place: CallPlace) {
        if self.running(id).objects.skip(place) {
            self.host_starts_soon(id);
        }
    }

    /// The objects are to take over a fetched state.
    pub(super) fn restore(&mut self, id: NodeId, work: Work) {
        if self.running(id).objects.push(work) {
            self.exercised(Row::PoisonTakenOver);
            self.host_starts_soon(id);
        }
    }

    /// A life ends: outcomes that its replica has not seen are as if the call had not been executed.
    pub(super) fn forget_unseen(&mut self, id: NodeId) {
        let node = &self.nodes[&id];
        let Some(running) = &node.running else {
            return;
        };
        if self.harm.poison.calls.is_empty() {
            return;
        }
        let unseen = running.inbox.iter().filter_map(|input| match input {
            Input::Executed { slot, .. } => Some(*slot),
            _ => None,
        });
        let earlier = self.earlier(id);
        let is_first = |slot: &Slot| match earlier {
            EarlierLives::None => true,
            EarlierLives::Upto(upto) => *slot > upto,
            EarlierLives::Unknown => false,
        };
        let unseen: Vec<Slot> = unseen.filter(is_first).collect();
        for slot in unseen {
            self.judge.forget_executed(id, slot);
        }
    }

    /// A life begins with the state after `held`. Calls that earlier lives executed and answered nobody about may be skipped by
    /// decision: this life reports its host's death at them as one that nobody was told anything of.
    pub(super) fn forget_untold(&mut self, id: NodeId, held: Slot) {
        if self.harm.poison.calls.is_empty() {
            return;
        }
        let EarlierLives::Upto(told) = self.earlier(id) else {
            return;
        };
        // What others hold in snapshots has taken effect, whoever executed it.
        let others = self.nodes.ids().filter(|other| *other != id);
        let snapshots = others.filter_map(|other| {
            let running = self.nodes[&other].running.as_ref()?;
            Some(running.storage.newest_snapshot())
        });
        let told = snapshots.fold(told, Slot::max);
        self.judge.forget_untold(id, held, told);
    }

    /// Counts a node that is lost while its host's death is reported.
    pub(super) fn note_lost_reporter(&mut self, id: NodeId) {
        let is_open = |(call, lethal): (&CommandId, &Lethal)| {
            let has_died =
                lethal.died.contains(id) || !lethal.died.is_empty() && self.is_leader(id);
            has_died && !lethal.kills.is_empty() && !self.judge.is_skipped(*call)
        };
        if self.harm.poison.calls.iter().any(is_open) {
            self.exercised(Row::PoisonInReports);
        }
    }

    /// Looks at the calls at which hosts are down, and helps where the group cannot.
    pub(super) fn tend_poison(&mut self) {
        for (call, place) in self.open_poison() {
            let lethal = self.harm.poison.calls[&call];
            if self.harm.skipping.is_forced(place) {
                continue;
            }
            let is_helpless = !self.judge.is_skipped(call) && self.is_helpless(&lethal, place);
            let since = lethal.helpless.filter(|_| is_helpless);
            if since.is_some_and(|since| self.now.since(since) >= HELP_AFTER)
                && self.is_never_skipped(place)
            {
                self.help(call, place);
                continue;
            }
            let helpless = is_helpless.then_some(since.unwrap_or(self.now));
            let lethal = self.harm.poison.calls.get_mut(&call);
            lethal.expect("calls stay").helpless = helpless;
        }
    }

    /// The calls that ended a host and go on to do so.
    pub(super) fn open_poison(&self) -> Vec<(CommandId, CallPlace)> {
        let calls = self.harm.poison.calls.iter();
        calls
            .filter(|(_, lethal)| !lethal.kills.is_empty())
            .filter_map(|(call, lethal)| Some((*call, lethal.place?)))
            .collect()
    }

    /// Whether a call can be skipped in any case and all replicas agree on it: nobody has executed it, and nobody will. There is a
    /// reason to: some replica is away, or the rules let nobody go on.
    pub(super) fn is_harmless_to_skip(
        &self,
        call: CommandId,
        place: CallPlace,
        is_away: bool,
    ) -> bool {
        let lethal = &self.harm.poison.calls[&call];
        let ends_all = self.nodes.ids().all(|id| lethal.kills.contains(id));
        ends_all
            && lethal.lasts == Lasts::Always
            && !self.judge.is_executed(call)
            && (is_away || self.is_helpless(lethal, place))
    }

    /// Whether the rules let nobody go on: neither can the call be skipped, nor are there enough that are past it.
    fn is_helpless(&self, lethal: &Lethal, place: CallPlace) -> bool {
        let replicas: NodeSet = self.nodes.ids().collect();
        let deaths = self.judge.deaths(place.slot);
        let is_down = |id| deaths.is_down(id) || self.reports_soon(id, place.slot);
        let is_skipped_soon = !deaths.is_kept && replicas.iter().all(is_down);
        if is_skipped_soon || deaths.skipped.contains(&place.index) {
            return false;
        }
        let survivors = replicas.iter().filter(|id| !lethal.kills.contains(*id));
        let survivors: Vec<NodeId> = survivors.collect();
        if !survivors.is_empty() {
            let able = survivors
                .iter()
                .filter(|id| self.may_go_on(**id, Some(place)));
            // Who is gone for ever and never said that it died is waited for, like a survivor.
            let gone = lethal.kills.iter().filter(|id| {
                let is_gone = self.nodes[id].is_wiped;
                is_gone && !lethal.died.contains(*id)
            });
            return able.count() < (survivors.len() + gone.count()) / 2 + 1;
        }
        if deaths.is_kept {
            // Who is past it tells the others its state once a majority has it, and who is away may be past it. Who reported that it
            // died there is not asked; who is gone for ever and never said so is waited for.
            let is_stuck = |id: &NodeId| {
                let is_gone = self.nodes[id].is_wiped;
                deaths.reported.contains(*id) && (is_gone || self.is_down_in(*id, place.slot))
            };
            let asked = replicas.iter().filter(|id| !is_stuck(id));
            let able = replicas.iter().filter(|id| self.may_go_on(*id, None));
            return able.count() < asked.count() / 2 + 1;
        }
        let mut missing = replicas.iter().filter(|id| !deaths.is_down(*id));
        missing.any(|id| !self.may_report(id, place.slot))
    }

    /// Whether no report that is decided later can skip calls of a slot in which hosts work again without a word in the log.
    fn is_never_skipped(&self, CallPlace { slot, .. }: CallPlace) -> bool {
        let deaths = self.judge.deaths(slot);
        // Two seconds after the faults what was submitted before is decided, or lost with who submitted it.
        let has_landed = !matches!(self.stage, Stage::Faults | Stage::Calm { .. });
        if deaths.is_kept || has_landed {
            return true;
        }
        // A host that stayed down was reported. Where the log lacks the report, it may be on its way.
        let died = self.harm.poison.died_in(slot);
        let missing = self.nodes.ids().filter(|id| !deaths.is_down(*id));
        let missing: NodeSet = missing.collect();
        missing.iter().all(|id| !died.contains(id))
            && missing.iter().any(|id| !self.may_report(id, slot))
    }

    /// Whether a node may yet report that its host died in a slot for the first time.
    fn may_report(&self, id: NodeId, slot: Slot) -> bool {
        let node = &self.nodes[&id];
        !node.is_wiped
            && match self.earlier(id) {
                EarlierLives::None => true,
                EarlierLives::Upto(upto) => slot > upto,
                EarlierLives::Unknown => false,
            }
    }

    fn is_down_in(&self, id: NodeId, slot: Slot) -> bool {
        let running = self.nodes[&id].running.as_ref();
        let down_at = running.and_then(|running| running.objects.down_at());
        down_at.is_some_and(|at| at.slot == slot)
    }

    /// Whether a node's host is down in a slot for good, so that it is about to report that.
    fn reports_soon(&self, id: NodeId, slot: Slot) -> bool {
        self.is_down_in(id, slot) && self.may_report(id, slot)
    }

    /// Whether a replica may tell the others its state: it is not gone for ever, nor is its host down but at `place`.
    fn may_go_on(&self, id: NodeId, place: Option<CallPlace>) -> bool {
        let node = &self.nodes[&id];
        let running = node.running.as_ref();
        let down_at = running.and_then(|running| running.objects.down_at());
        !node.is_wiped && (down_at.is_none() || down_at == place)
    }

    fn help(&mut self, call: CommandId, place: CallPlace) {
        if self.judge.is_executed(call) {
            self.exercised(Row::PoisonKept);
        }
        self.disarm(call, place);
        if !self.stage.is_calm() {
            return;
        }
        self.harm.poison.wanted.clear();
        let others = self.harm.poison.calls.iter();
        let others = others.filter(|(_, lethal)| !lethal.kills.is_empty());
        let others: Vec<_> = others.map(|(call, lethal)| (*call, lethal.place)).collect();
        for (call, place) in others {
            match place {
                // A report that is on its way may skip it: hosts that worked again would execute it meanwhile.
                Some(place)
                    if self.harm.skipping.is_forced(place) || !self.is_never_skipped(place) => {}
                Some(place) => self.disarm(call, place),
                None => {
                    let lethal = self.harm.poison.calls.get_mut(&call);
                    lethal.expect("calls stay").kills = NodeSet::empty();
                }
            }
        }
    }

    /// A call ends no host any more, and the hosts that are down at it work again.
    fn disarm(&mut self, call: CommandId, place: CallPlace) {
        let words = [Tag::Fault as u64, call.session.0, call.sequence, 1];
        self.trace
            .note(self.now, &words, || format!("{call} ends no host any more"));
        let lethal = self.harm.poison.calls.get_mut(&call);
        lethal.expect("calls stay").kills = NodeSet::empty();
        let ids: Vec<NodeId> = self.nodes.ids().collect();
        for id in ids {
            let running = self.node(id).running.as_mut();
            if running.is_some_and(|running| running.objects.revive(place)) {
                self.hand_in(id, Input::Host { is_up: true });
                self.begin_work(id);
            }
        }
    }

    /// Counts what became of the calls that ended hosts.
    pub(super) fn note_poison(&mut self) {
        let mut rows = Vec::new();
        for (call, lethal) in &self.harm.poison.calls {
            if lethal.died.is_empty() {
                continue;
            }
            if self.judge.is_skipped(*call) {
                rows.push(Row::PoisonSkipped);
            } else if !lethal.kills.is_empty() && self.judge.is_executed(*call) {
                rows.push(Row::PoisonSurvived);
            }
        }
        let down = self.harm.poison.calls.values();
        let down = down.filter(|lethal| !lethal.died.is_empty());
        let slots: BTreeSet<Slot> = down
            .clone()
            .filter_map(|lethal| Some(lethal.place?.slot))
            .collect();
        rows.extend((slots.len()..down.count()).map(|_| Row::PoisonTwice));
        for row in rows {
            self.exercised(row);
        }
    }

    /// Whether so many took a snapshot with this digest that it is agreed: a majority of those that are not stuck before it, in a view
    /// that governs the slot or a later one.
    pub(super) fn is_agreed(&self, slot: Slot, digest: Digest) -> bool {
        if let Some(chosen) = self.judge.chosen_at(slot) {
            return chosen == Some(digest);
        }
        let takers = self.judge.takers(slot, digest);
        let stuck = self.harm.poison.stuck(slot);
        self.judge.replicas_since(slot).any(|members| {
            let takers: NodeSet = takers.iter().filter(|id| members.contains(*id)).collect();
            let voters = members.iter();
            let voters = voters.filter(|id| takers.contains(*id) || !stuck.contains(*id));
            takers.len() > voters.count() / 2
        })
    }

    /// A node hands out the first piece of a snapshot: it must be agreed.
    pub(super) fn check_served(&mut self, id: NodeId, slot: Slot, bytes: &Bytes) {
        let Ok(snapshot) = Snapshot::take(bytes) else {
            return;
        };
        let images = snapshot.images.into_iter().map(|stored| stored.image);
        let digest = Digest {
            replicated: snapshot.core.digest(),
            state: super::objects::digest(&images.collect::<Vec<_>>()),
        };
        if !self.is_agreed(slot, digest) {
            let takers = self.judge.takers(slot, digest);
            let detail = format!("{id} hands out a snapshot at {slot} that only {takers:?} took");
            self.blame(Property::Digest, detail);
        }
    }
}
