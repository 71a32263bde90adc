//! How nodes start, take turns and die.

use super::World;
use super::clock::Moment;
use super::durable::{DiskFound, GROUP};
use super::events::Event;
use super::node::{Doom, LogStep, Running};
use super::objects::Objects;
use super::row::Row;
use super::speculating::Ahead;
use super::stall::{Look, Taken};
use super::trace::Tag;
use super::watched::{Seen, Watched};
use crate::checkers::{Property, Violation};
use quorate_any::{AnyMessage, AnyOrdering};
use quorate_ordering::{Config, Damage, LinkState, Standing};
use quorate_replica::{
    EarlierLives, Input, Output, Recovered, Remembered, Replica, ReplicaConfig, Snapshots,
    ViewPasts,
};
use quorate_storage::StorageError;
use quorate_types::{
    Digest, Duration, Incarnation, MemberRole, NodeId, Persistence, Slot, Time, View, ViewNumber,
};
use quorate_wire::Snapshot;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// How the disks look after a death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Death {
    /// The process ended; the system keeps what was written.
    Killed,
    /// The machine lost power.
    PowerCut,
}

/// A start that failed is tried again: somebody restarts the process.
const RESTART_AFTER: Duration = Duration::from_millis(500);

/// What the simulated disk says of a call that fails on demand.
pub(super) const INJECTED: &str = "injected";

/// A doomed node that lets nothing out dies all the same.
const DOOM_WITHIN: Duration = Duration::from_millis(1000);

/// Turns between two checks of all invariants in a fast build.
const CHECK_EVERY: u64 = if cfg!(debug_assertions) { 4 } else { 16 };

impl World {
    pub(super) fn start(&mut self, id: NodeId) {
        let node = self.node(id);
        if node.running.is_some() || node.is_wiped {
            return;
        }
        let number = node.life + 1;
        self.draw_build(id);
        let node = self.node(id);
        let started = node.disks.start_as(node.quarantine.is_some());
        match started.and_then(|found| found.noted(number)) {
            Ok(found) => self.started(id, found),
            Err(StorageError::NotInitialised(_)) => {
                node.is_wiped = true;
                self.exercised(Row::Wiped);
            }
            Err(error) => {
                node.disks.crash(|outcomes| outcomes - 1);
                if error.to_string().contains(INJECTED) {
                    self.exercised(Row::ReadFailed);
                }
                self.trace
                    .note(self.now, &[Tag::Life as u64, u64::from(id.0), 9], || {
                        format!("{id} cannot start: {error}")
                    });
                self.events
                    .push(self.now + RESTART_AFTER, Event::Start { node: id });
            }
        }
    }

    // Longer than a screen: one start, in the order of a node's.
    fn started(&mut self, id: NodeId, found: DiskFound) {
        let boot = found.boot;
        self.trace
            .note(self.now, &[Tag::Life as u64, u64::from(id.0), boot], || {
                let slot = found
                    .snapshot
                    .as_ref()
                    .map_or(Slot::ZERO, |(s, ..)| s.core.slot);
                format!(
                    "{id} starts, boot {boot}, {} records, snapshot {slot}{}",
                    found.past.records.len(),
                    if found.past.damage.was_found() {
                        ", damaged"
                    } else {
                        ""
                    }
                )
            });
        let view = match &found.snapshot {
            Some((snapshot, ..)) => snapshot.core.view.clone(),
            None => self.setup.view(),
        };
        if self.is_unfit(id, &view) {
            return;
        }
        if let Some((snapshot, state, _)) = &found.snapshot {
            self.starts_from(id, &snapshot.core, *state);
        }
        let whole = found.past.clone();
        let (past, views) = found.past.clone().part(view.number, found.begun);
        let config = self.ordering_config(id, &found, (view, past.damage));
        let damage = found.past.damage.clone();
        let (recall, since) = (found.recall(), found.since);
        let starts = found.starts;
        let newest = found.storage.newest_snapshot();
        let mut objects = Objects::new(&self.setup.view().objects);
        let recovered = found
            .snapshot
            .map(|snapshot| recover(&mut objects, snapshot));
        let node = self.node(id);
        let is_other = node.is_old_copy || std::mem::take(&mut node.is_new);
        let needs_survey = found.past.damage.needs_survey() || found.has_forgotten || is_other;
        let has_lost = found.past.damage.was_found() || found.has_forgotten || is_other;
        if found.past.damage.was_found() {
            self.exercised(Row::DamagedLog);
        }
        self.note_loss(id, needs_survey, found.begun);
        if found.has_forgotten {
            self.harm.back.remove(&id);
        }
        let slot = recovered
            .as_ref()
            .map_or(Slot::ZERO, |recovered| recovered.core.slot);
        self.judge.begun_at(id, slot);
        self.forget_untold(id, slot);
        if let Some(recovered) = &recovered {
            let held = Digest {
                replicated: recovered.core.digest(),
                state: recovered.digest,
            };
            self.judge.starts_with(id, slot, held);
        }
        // A snapshot that was whole before the power was cut counts once it is known to be agreed.
        self.judge.keeps(id, slot.max(newest));
        let now = self.now;
        let replica_config = self.replica_config(id, boot, found.votes_as);
        let seen = Rc::new(RefCell::new(Seen::default()));
        let cutter = self.multicasting.cutter();
        let node = self.node(id);
        let time = node.clock.boot(now);
        let (records, agreed) = (whole.records.clone(), whole.agreed());
        let ordering = Watched::new(
            AnyOrdering::new(config, past.records, time)
                .expect("a disk holds its own group's records"),
            seen.clone(),
        );
        let others = found.others.iter().map(|other| other.slot);
        let oldest = others.fold(slot, Slot::min);
        let (earlier, died) = node.notes.begin(oldest, found.has_loss);
        let remembered = Remembered {
            snapshot: recovered,
            others: found.others,
            agreed,
            quarantine: node.quarantine,
            earlier,
            died,
            views: ViewPasts {
                begun: found.begun,
                records: views,
                is_damaged: whole.damage.was_found(),
            },
        };
        let (replica, outputs) = Replica::new(replica_config, ordering, remembered, time);
        let promised = replica.status().ordering.promised;
        node.life += 1;
        node.doom = None;
        node.running = Some(Box::new(Running {
            boot,
            recall,
            starts,
            since,
            replica,
            seen,
            storage: found.storage,
            objects,
            ahead: Ahead::new(),
            inbox: Vec::new(),
            is_turn_due: false,
            alarm: None,
            full_until: Moment::default(),
            commit: LogStep::Waits,
            is_removing: false,
            is_working: false,
            images: BTreeMap::new(),
            cores: BTreeMap::new(),
            fetched: None,
            steps: (0, 0),
            cutter,
            assembly: super::multicasting::assembly(),
            turns: 0,
        }));
        let judged = self.judge.found(id, &records, &damage, has_lost);
        self.judged(judged);
        if self.setup.persistence == Persistence::Disk && !has_lost {
            let judged = self
                .judge
                .restarted((id, found.votes_as), promised, &records);
            self.judged(judged);
        } else if !needs_survey {
            let judged = self
                .judge
                .restarted_on_damage((id, found.votes_as), promised);
            self.judged(judged);
        }
        self.watch_started(id, promised);
        self.note_decisions(id);
        self.watch_view(id);
        self.perform(id, outputs);
        self.check_quarantine(id);
        self.set_alarm(id);
        self.connect_all(id);
    }

    fn connect_all(&mut self, id: NodeId) {
        let others: Vec<NodeId> = self.nodes.ids().filter(|other| *other != id).collect();
        for other in others {
            let at = self.now + self.network.latency();
            self.events.push(at, Event::Connect { one: id, other });
        }
    }

    fn ordering_config(
        &self,
        id: NodeId,
        found: &DiskFound,
        (view, damage): (View, Damage),
    ) -> Config {
        let (boot, seed) = (found.boot, self.setup.seed);
        let seed = seed ^ (boot << 8) ^ u64::from(id.0);
        let mut config = Config::new(GROUP, id, boot, view, seed);
        config.timing = self.setup.timing;
        config.limits = self.setup.limits;
        config.tells_tentative = self.setup.speculation > 0;
        config.damage = damage;
        if found.votes_as.is_none() || found.votes_as != config.view.incarnation(id) {
            config.standing = Standing::Observer;
        }
        config
    }

    /// Tells the judge of a start on less than the node has told others.
    fn note_loss(&mut self, id: NodeId, has_lost: bool, begun: ViewNumber) {
        if has_lost {
            self.judge.forgot(id, begun);
        }
    }

    fn replica_config(
        &self,
        id: NodeId,
        boot: u64,
        votes_as: Option<Incarnation>,
    ) -> ReplicaConfig {
        let mut config = ReplicaConfig::new(id, boot, self.setup.view());
        config.incarnation = votes_as;
        config.role = match self.setup.is_witness(id) {
            true => MemberRole::Witness,
            false => MemberRole::Replica,
        };
        // No other start has the same, not even that of a copy.
        config.fresh = Incarnation(u64::from(id.0) << 48 | (self.nodes[&id].life + 1));
        config.speaks = self.nodes[&id].speaks;
        config.sessions_max = self.setup.sessions_max;
        config.kept = self.setup.kept;
        config.speculation = self.setup.speculation;
        config.snapshots = Snapshots::Every(self.setup.checkpoints);
        config.log_bytes_max = 4 << 20;
        config.log_commands_max = 100_000;
        config
    }

    /// Hands something to a node's next turn.
    pub(super) fn hand_in(&mut self, id: NodeId, input: Input<AnyMessage>) {
        if let Some(running) = &mut self.node(id).running {
            running.inbox.push(input);
            self.schedule_turn(id);
        }
    }

    pub(super) fn schedule_turn(&mut self, id: NodeId) {
        let now = self.now;
        let node = self.node(id);
        let pause = node.random.micros(2, 20);
        let (life, is_paused) = (node.life, node.paused > 0);
        let Some(running) = &mut node.running else {
            return;
        };
        if is_paused || running.is_turn_due {
            return;
        }
        running.is_turn_due = true;
        self.events
            .push(now + pause, Event::Turn { node: id, life });
    }

    pub(super) fn turn(&mut self, id: NodeId, life: u64) {
        let now = self.now;
        let node = self.node(id);
        if node.life != life {
            return;
        }
        let (clock, entropy) = (node.clock, node.random.bits());
        let is_paused = node.paused > 0;
        let Some(running) = &mut node.running else {
            return;
        };
        running.is_turn_due = false;
        if is_paused || self.stalls(id) {
            return;
        }
        let mut out = Vec::new();
        let (count, look) = self.take_inputs(id, &mut out);
        let (time, wall) = (clock.boot(look.at), clock.wall(now));
        let running = self.running(id);
        if running.replica.next_wake().is_some_and(|due| due <= time) {
            running.replica.handle(time, Input::Wake, &mut out);
        }
        running
            .replica
            .handle(time, Input::TurnEnd { wall, entropy }, &mut out);
        running.turns += 1;
        if running.turns.is_multiple_of(CHECK_EVERY) {
            running.replica.check();
        }
        let is_sampled = running.turns.is_multiple_of(CHECK_EVERY);
        self.turns += 1;
        let words = [Tag::Turn as u64, u64::from(id.0), count, out.len() as u64];
        self.trace.note(now, &words, || {
            format!("{id} turn: {count} in, {} out", out.len())
        });
        if is_sampled {
            self.sample(id);
        }
        // What a leader counts with follows from what it has just decided.
        self.note_decisions(id);
        self.watch_turn(id, look, &out);
        self.watch_done(id, &out);
        self.watch_view(id);
        self.note_steps(id);
        self.check_levels();
        self.follow_level(id);
        self.perform(id, out);
        self.watch_settled(id);
        self.watch_kept(id);
        self.set_alarm(id);
    }

    /// Hands in what has arrived. Says how much that was, and by which look at the clock the rest
    /// of the turn is judged.
    fn take_inputs(&mut self, id: NodeId, out: &mut Vec<Output<AnyMessage>>) -> (u64, Look) {
        let (now, clock) = (self.look(), self.nodes[&id].clock);
        let stalled = self.node(id).stalled.take();
        let running = self.running(id);
        let taken = match stalled {
            Some(stalled) => running.take_stalled(stalled),
            None => Taken {
                early: std::mem::take(&mut running.inbox),
                look: now,
                late: Vec::new(),
            },
        };
        if stalled.is_some() {
            self.exercised(Row::Stalled);
        }
        self.watch_inbox(id, &taken.early);
        self.watch_arrivals(id, taken.look.at, &taken.early);
        if !taken.late.is_empty() {
            self.watch_inbox(id, &taken.late);
            self.watch_arrivals(id, now.at, &taken.late);
        }
        let count = taken.early.len() + taken.late.len();
        for input in taken.early {
            self.handle(id, clock.boot(taken.look.at), input, out);
        }
        let look = if taken.late.is_empty() {
            taken.look
        } else {
            now
        };
        for input in taken.late {
            self.handle(id, clock.boot(now.at), input, out);
        }
        if !self.running(id).inbox.is_empty() {
            self.schedule_turn(id);
        }
        (count as u64, look)
    }

    /// A node handles one input at a time of its clock.
    fn handle(
        &mut self,
        id: NodeId,
        time: Time,
        input: Input<AnyMessage>,
        out: &mut Vec<Output<AnyMessage>>,
    ) {
        let true_time = self.nodes[&id].clock.boot(self.now);
        let ended = self.watch_queried(id, true_time, &input);
        let before = out.len();
        self.running(id).replica.handle(time, input, out);
        self.watch_ages(id, time, &out[before..]);
        if let Some(until) = ended {
            self.judge_late(id, until, &out[before..]);
        }
    }

    fn note_decisions(&mut self, id: NodeId) {
        let Some(running) = &self.node(id).running else {
            return;
        };
        let decided = std::mem::take(&mut running.seen.borrow_mut().decisions);
        let deferred = std::mem::take(&mut running.seen.borrow_mut().deferred);
        for _ in 0..deferred {
            self.exercised(Row::CollectDeferred);
        }
        if decided.is_empty() {
            return;
        }
        for (slot, batch) in decided {
            if batch.is_collecting() {
                self.exercised(Row::Collected);
            }
            let words = [Tag::Output as u64, u64::from(id.0), slot.0];
            self.trace.note(self.now, &words, || {
                format!("{id} decides {slot} {batch:?}")
            });
            let (is_fast, has_collided) = self.judge.by_fast_round(slot);
            for (row, is_so) in [
                (Row::FastDecided, is_fast),
                (Row::FastCollided, has_collided),
            ] {
                if is_so {
                    self.exercised(row);
                }
            }
            self.judge.ages.decided(self.now.0, slot);
            self.watch_thaw(slot, &batch);
            let judged = self.judge.decided(id, slot, &batch);
            self.judged(judged);
            self.watch_decided(id, slot, &batch);
        }
        self.watch_sessions();
    }

    pub(super) fn set_alarm(&mut self, id: NodeId) {
        let now = self.now;
        let node = self.node(id);
        let (life, clock) = (node.life, node.clock);
        let Some(running) = &mut node.running else {
            return;
        };
        let Some(due) = running.replica.next_wake() else {
            return;
        };
        let at = clock.moment_of(due).max(now + Duration::from_micros(1));
        if running.alarm.is_none_or(|set| set > at) {
            running.alarm = Some(at);
            self.events.push(at, Event::Alarm { node: id, life });
        }
    }

    pub(super) fn alarm(&mut self, id: NodeId, life: u64) {
        let now = self.now;
        let node = self.node(id);
        if node.life != life {
            return;
        }
        if let Some(running) = &mut node.running
            && running.alarm.is_some_and(|set| set <= now)
        {
            running.alarm = None;
            self.schedule_turn(id);
        }
    }

    /// The node dies after so many more outputs, or soon whatever it does.
    pub(super) fn doom(&mut self, id: NodeId, outputs: u64, down: Duration) {
        let at = self.now + DOOM_WITHIN;
        let node = self.node(id);
        if node.running.is_none() {
            return;
        }
        node.doom = Some(Doom { outputs, down });
        let life = node.life;
        self.events.push(at, Event::Doom { node: id, life });
    }

    pub(super) fn doomed(&mut self, id: NodeId, life: u64) {
        let node = self.node(id);
        if node.life != life {
            return;
        }
        if let Some(doom) = node.doom.take() {
            self.die(id, Death::Killed, doom.down);
        }
    }

    /// Ends a node's life; it starts again after `down`.
    pub(super) fn die(&mut self, id: NodeId, death: Death, down: Duration) {
        let now = self.now;
        if self.nodes[&id].running.is_some() {
            self.note_death(id, death);
            self.note_lost_reporter(id);
            self.forget_unseen(id);
        }
        let node = self.node(id);
        let Some(running) = node.running.take() else {
            return;
        };
        let answered = std::mem::take(&mut node.answered);
        node.notes = node.notes.after(answered);
        if death == Death::PowerCut {
            node.notes.earlier = EarlierLives::Unknown;
        }
        node.stall_due = None;
        node.stalled = None;
        node.life += 1;
        node.doom = None;
        node.paused = 0;
        let mut log = running.storage.log;
        if running.commit.is_under_way() {
            // A commit was under way: any part of it may have reached the disk.
            node.disks.log.stop_after(node.random.below(4));
            drop(log.commit());
        }
        // So may any part of the removals that were left.
        while running.is_removing && log.remove().is_ok_and(|is_more| is_more) {}
        let random = &mut node.random;
        match death {
            Death::Killed => node.disks.crash(|outcomes| outcomes - 1),
            Death::PowerCut => {
                let luck = random.below(3);
                node.disks.crash(|outcomes| match luck {
                    0 => 0,
                    1 => outcomes - 1,
                    _ => random.below(outcomes),
                });
            }
        }
        self.watch_death(id);
        self.watch_end(id);
        let words = [Tag::Life as u64, u64::from(id.0), 0, death as u64];
        self.trace.note(now, &words, || {
            format!("{id} dies ({death:?}) for {down:?}")
        });
        self.links_of_the_dead(id, death);
        self.events.push(now + down, Event::Start { node: id });
    }

    /// Notes a property that the world itself finds broken.
    pub(super) fn blame(&mut self, property: Property, detail: String) {
        self.judged(Err(Violation::new(property, detail)));
    }

    /// Tells a node that a link ended, if it still runs the life that had it.
    pub(super) fn link_ends(
        &mut self,
        id: NodeId,
        life: u64,
        peer: NodeId,
        epoch: quorate_types::LinkEpoch,
    ) {
        let is_new = self.network.epoch(id, peer).is_some_and(|up| up > epoch);
        if self.node(id).life != life || is_new {
            return;
        }
        let state = LinkState::Down;
        self.hand_in(id, Input::Link { peer, state });
    }
}

/// Gives the objects a snapshot.
fn recover(
    objects: &mut Objects,
    (snapshot, digest, bytes): (Snapshot, [u8; 32], u64),
) -> Recovered {
    let images = snapshot.images.into_iter().map(|stored| stored.image);
    let restored = objects.restore(&images.collect::<Vec<_>>());
    assert_eq!(restored, Some(digest), "a saved snapshot restores");
    Recovered {
        core: snapshot.core,
        digest,
        bytes,
        due: objects.due_news().flatten(),
    }
}
