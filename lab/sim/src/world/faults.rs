//! Faults as the world performs them: how each begins and how it ends.

use super::World;
use super::events::Event;
use super::fault::{BadCall, Fault, KillStep, Who};
use super::harm::{Trap, Watch};
use super::life::Death;
use super::network::{Hit, Rules};
use super::row::Row;
use super::trace::Tag;
use quorate_replica::Input;
use quorate_storage::DiskOperation;
use quorate_types::{Duration, NodeId, Persistence};
use std::io::ErrorKind;

/// A wall clock that is set by more than this is wrong by years.
const YEAR_MS: i64 = 365 * 24 * 3_600_000;

/// A node that leaves has this long to transfer leadership before it stops.
const LEAVING: Duration = Duration::from_millis(300);

impl World {
    // Longer than a screen: one arm a fault.
    pub(super) fn fault_begins(&mut self, index: usize) {
        if !self.stage.is_faulty() {
            return;
        }
        let fault = self.schedule.faults[index].fault.clone();
        let words = [Tag::Fault as u64, index as u64];
        self.trace
            .note(self.now, &words, || format!("FAULT {fault}"));
        match fault {
            Fault::Crash {
                node,
                outputs,
                down,
            } => self.strike(node, |world, id| world.doom(id, outputs, down)),
            Fault::PowerCut {
                node,
                changes,
                down,
            } => self.strike(node, |world, id| world.power_cut(id, changes, down)),
            Fault::Blackout { down } => self.blackout(down),
            Fault::Trap {
                node,
                step,
                after,
                down,
            } => self.set_trap(node, step, after, down),
            Fault::DiskError { node, call, down } => {
                self.strike(node, |world, id| world.disk_error(id, call, down));
            }
            Fault::Flip {
                node,
                part,
                bit,
                down,
            } => self.flip(node, part, bit, down),
            Fault::LoseLog { node, files, down } => self.lose_log(node, files, down),
            Fault::Wipe { node } => {
                if self.may_empty(node) {
                    self.die(node, Death::PowerCut, Duration::ZERO);
                    self.node(node).disks.wipe();
                }
            }
            Fault::WallJump { node, ms } => self.wall_jump(node, ms),
            Fault::Reset { one, other } => {
                if self.network.epoch(one, other).is_some() {
                    self.exercised(Row::Reset);
                }
                self.break_link(one, other);
            }
            Fault::Leave { node, down } => self.strike(node, |world, id| world.leave(id, down)),
            Fault::Diverge { node } => self.diverge(node),
            Fault::Differ => self.differ_everywhere(),
            Fault::Misanswer { node } => self.misanswer(node),
            Fault::Poison {
                kills,
                after,
                lasts,
            } => self.poison(kills, after, lasts),
            Fault::Checkpoint { node } => {
                if self.nodes[&node].is_awake() {
                    self.exercised(Row::Checkpointed);
                }
                self.hand_in(node, Input::Checkpoint);
            }
            Fault::Rollback { by: span, .. }
            | Fault::Partition { span, .. }
            | Fault::Cut { span, .. }
            | Fault::Isolate { span, .. }
            | Fault::Strand { span, .. }
            | Fault::Loss { span, .. }
            | Fault::Duplicate { span, .. }
            | Fault::Garble { span, .. }
            | Fault::Delay { span, .. }
            | Fault::Pause { span, .. }
            | Fault::Stall { span, .. }
            | Fault::SlowDisk { span, .. }
            | Fault::DiskFull { span, .. }
            | Fault::Hang { span, .. }
            | Fault::ClientCut { span, .. } => self.lasting_begins(index, span),
        }
    }

    /// Does to whoever `who` is what ends its process, if its vote may be lost where a process ends with it.
    fn strike(&mut self, who: Who, harm: impl FnOnce(&mut World, NodeId)) {
        let Some(id) = self.victim(who) else {
            return;
        };
        let is_memory = self.setup.persistence == Persistence::Memory;
        if !is_memory || self.may_maim(id) {
            harm(self, id);
        }
    }

    pub(super) fn blackout(&mut self, down: Duration) {
        let nodes: Vec<NodeId> = self.nodes.ids().collect();
        for node in nodes {
            self.die(node, Death::PowerCut, down);
        }
        self.exercised(Row::Blackout);
    }

    fn set_trap(&mut self, who: Who, step: KillStep, after: u64, down: Duration) {
        let node = match who {
            Who::Any => None,
            Who::Node(_) | Who::Leader | Who::Struck => match self.victim(who) {
                Some(id) => Some(id),
                None => return,
            },
        };
        self.harm.traps.push(Trap {
            node,
            step,
            after,
            down,
        });
    }

    fn wall_jump(&mut self, who: Who, ms: i64) {
        let Some(id) = self.victim(who) else {
            return;
        };
        let is_far = ms.abs() >= YEAR_MS;
        if is_far && !self.may_mislead(id) {
            return;
        }
        self.node(id).clock.set_wall_by(ms);
        self.watch_clock(id);
        if self.nodes[&id].is_awake() {
            self.exercised(if is_far {
                Row::WallYears
            } else {
                Row::WallJumped
            });
        }
    }

    fn lasting_begins(&mut self, index: usize, span: Duration) {
        if let Some(who) = struck_by(&self.schedule.faults[index].fault) {
            let Some(id) = self.victim(who) else {
                return;
            };
            self.harm.victims.insert(index, id);
            if self.is_leader(id) {
                self.harm.led.insert(index);
            }
        }
        self.watch(index);
        self.lasting(index, true);
        self.events.push(self.now + span, Event::FaultEnds(index));
    }

    pub(super) fn fault_ends(&mut self, index: usize) {
        if !self.stage.is_faulty() {
            return;
        }
        let fault = &self.schedule.faults[index].fault;
        let words = [Tag::Fault as u64, index as u64, 1];
        self.trace
            .note(self.now, &words, || format!("FAULT ENDS {fault}"));
        self.unwatch(index);
        self.lasting(index, false);
    }

    /// Begins to count what a fault of the network does to messages.
    fn watch(&mut self, index: usize) {
        let around = |id: NodeId| -> Vec<(NodeId, NodeId)> {
            let others = self.setup.node_ids().filter(|other| *other != id);
            others
                .flat_map(|other| [(id, other), (other, id)])
                .collect()
        };
        let led = self.harm.led.contains(&index);
        let victim = self.harm.victims.get(&index).copied();
        let (ways, hit, row) = match (&self.schedule.faults[index].fault, victim) {
            (Fault::Partition { from, to, .. }, _) => {
                (vec![(*from, *to)], Hit::Blocked, Row::Partitioned)
            }
            (Fault::Cut { one, other, .. }, _) => {
                let ways = vec![(*one, *other), (*other, *one)];
                (ways, Hit::Blocked, Row::LinkCut)
            }
            (Fault::Strand { .. }, Some(id)) if led => {
                (around(id), Hit::Blocked, Row::LeaderStranded)
            }
            (Fault::Strand { .. }, Some(id)) => (around(id), Hit::Blocked, Row::Stranded),
            (Fault::Isolate { .. }, Some(id)) => (around(id), Hit::Blocked, Row::Isolated),
            (Fault::Loss { from, to, .. }, _) => (vec![(*from, *to)], Hit::Lost, Row::Lost),
            (Fault::Duplicate { from, to, .. }, _) => {
                (vec![(*from, *to)], Hit::Doubled, Row::Doubled)
            }
            (Fault::Delay { from, to, .. }, _) => (vec![(*from, *to)], Hit::Delayed, Row::Delayed),
            _ => return,
        };
        let before = self.network.hits(&ways, hit);
        let watch = Watch {
            ways,
            hit,
            before,
            row,
        };
        self.harm.watches.insert(index, watch);
        if let Some(id) = victim.filter(|_| led) {
            self.note_pipeline(id);
        }
    }

    fn unwatch(&mut self, index: usize) {
        if let Some(watch) = self.harm.watches.remove(&index)
            && self.network.hits(&watch.ways, watch.hit) > watch.before
        {
            self.exercised(watch.row);
        }
    }

    /// Begins or ends a fault that lasts.
    fn lasting(&mut self, index: usize, begins: bool) {
        let count = |number: &mut u64| {
            *number = if begins {
                *number + 1
            } else {
                number.saturating_sub(1)
            };
        };
        let sum = |number: &mut u64, by: u64| {
            *number = if begins {
                *number + by
            } else {
                number.saturating_sub(by)
            };
        };
        match self.schedule.faults[index].fault.clone() {
            Fault::Partition { from, to, .. } => self.block(&[(from, to)], begins),
            Fault::Cut { one, other, .. } => self.block(&[(one, other), (other, one)], begins),
            Fault::Loss {
                from, to, percent, ..
            } => self.change_rules(from, to, |rules| sum(&mut rules.loss, percent)),
            Fault::Duplicate {
                from, to, percent, ..
            } => self.change_rules(from, to, |rules| sum(&mut rules.duplicate, percent)),
            Fault::Garble {
                from, to, percent, ..
            } => self.change_rules(from, to, |rules| sum(&mut rules.garble, percent)),
            Fault::Delay { from, to, by, .. } => {
                self.change_rules(from, to, |rules| sum(&mut rules.delay.0, by.0));
            }
            Fault::ClientCut { client, .. } => {
                if let Some(client) = self.clients.get_mut(&client) {
                    count(&mut client.cut);
                    client.has_felt_cut = false;
                }
            }
            fault => {
                if let Some(id) = self.harm.victims.get(&index).copied() {
                    self.lasting_at(index, id, &fault, begins);
                }
            }
        }
    }

    /// Begins or ends a fault that lasts and strikes one node.
    // Longer than a screen: one arm a fault.
    fn lasting_at(&mut self, index: usize, id: NodeId, fault: &Fault, begins: bool) {
        let step = |number: &mut u64| {
            *number = if begins {
                *number + 1
            } else {
                number.saturating_sub(1)
            };
        };
        match *fault {
            Fault::Isolate { .. } => {
                self.strand(id, begins);
                step(&mut self.node(id).isolated);
            }
            Fault::Strand { .. } => self.strand(id, begins),
            Fault::Pause { .. } => {
                step(&mut self.node(id).paused);
                if !begins {
                    self.note_pause(index, id);
                    self.resume(id);
                }
            }
            Fault::Stall { .. } if begins => self.stall_begins(index, id),
            Fault::Stall { .. } => self.stall_ends(index, id),
            Fault::SlowDisk { by, .. } => {
                let node = self.node(id);
                node.felt.remove(&Row::SlowDisk);
                node.slow.0 = if begins {
                    node.slow.0 + by.0
                } else {
                    node.slow.0.saturating_sub(by.0)
                };
            }
            Fault::DiskFull { .. } => {
                let node = self.node(id);
                step(&mut node.full);
                node.felt.remove(&Row::DiskFull);
                for disk in node.disks.each() {
                    disk.set_capacity(begins.then(|| disk.used()));
                }
                if begins {
                    // Reserved space is no promise on every file system: one write finds none as well.
                    node.disks.log.fail(quorate_storage::Fault {
                        operation: DiskOperation::Write,
                        skip: 0,
                        times: 1,
                        kind: ErrorKind::StorageFull,
                    });
                }
            }
            Fault::Hang { .. } => {
                if !begins && self.has_work(id) {
                    self.exercised(Row::Hung);
                }
                step(&mut self.node(id).hung);
                self.begin_work(id);
            }
            Fault::Rollback { .. } if begins => self.keep_image(index, id),
            Fault::Rollback { down, .. } => self.roll_back(index, id, down),
            Fault::Partition { .. }
            | Fault::Cut { .. }
            | Fault::Loss { .. }
            | Fault::Duplicate { .. }
            | Fault::Garble { .. }
            | Fault::Delay { .. }
            | Fault::ClientCut { .. }
            | Fault::Crash { .. }
            | Fault::PowerCut { .. }
            | Fault::Blackout { .. }
            | Fault::Trap { .. }
            | Fault::Reset { .. }
            | Fault::DiskError { .. }
            | Fault::Flip { .. }
            | Fault::LoseLog { .. }
            | Fault::Wipe { .. }
            | Fault::WallJump { .. }
            | Fault::Leave { .. }
            | Fault::Diverge { .. }
            | Fault::Differ
            | Fault::Misanswer { .. }
            | Fault::Poison { .. }
            | Fault::Checkpoint { .. } => {}
        }
    }

    fn note_pause(&mut self, index: usize, id: NodeId) {
        let running = self.nodes[&id].running.as_ref();
        if running.is_some_and(|running| !running.inbox.is_empty()) {
            self.exercised(Row::Paused);
            if self.harm.led.contains(&index) {
                self.exercised(Row::LeaderPaused);
            }
        }
    }

    fn has_work(&self, id: NodeId) -> bool {
        let running = self.nodes[&id].running.as_ref();
        running.is_some_and(|running| running.is_working || !running.objects.is_idle())
    }

    /// Cuts a node off from all others, or lets it back.
    fn strand(&mut self, node: NodeId, begins: bool) {
        let others = self.setup.node_ids().filter(|other| *other != node);
        let ways: Vec<_> = others
            .flat_map(|other| [(node, other), (other, node)])
            .collect();
        self.block(&ways, begins);
    }

    fn block(&mut self, ways: &[(NodeId, NodeId)], begins: bool) {
        for (from, to) in ways {
            self.change_rules(*from, *to, |rules| {
                rules.blocked = if begins {
                    rules.blocked + 1
                } else {
                    rules.blocked.saturating_sub(1)
                };
            });
            if begins {
                self.watch_silence(*from, *to);
            }
        }
    }

    fn change_rules(&mut self, from: NodeId, to: NodeId, change: impl FnOnce(&mut Rules)) {
        let mut arrivals = Vec::new();
        self.network
            .change(self.now, from, to, change, &mut arrivals);
        self.arrive_later(arrivals);
    }

    pub(super) fn resume(&mut self, id: NodeId) {
        let node = self.node(id);
        if node.paused == 0 {
            self.schedule_turn(id);
            self.begin_work(id);
        }
    }

    fn power_cut(&mut self, id: NodeId, changes: u64, down: Duration) {
        if changes == 0 {
            self.die(id, Death::PowerCut, down);
            return;
        }
        self.node(id).disks.log.stop_after(changes - 1);
        self.doom(id, u64::MAX, down);
    }

    fn disk_error(&mut self, id: NodeId, call: BadCall, down: Duration) {
        let operation = match call {
            BadCall::Write => DiskOperation::Write,
            BadCall::Sync => DiskOperation::Sync,
            BadCall::Read => DiskOperation::Read,
        };
        self.node(id).bad_call = call;
        self.node(id).disks.log.fail(quorate_storage::Fault {
            operation,
            skip: 0,
            times: 1,
            kind: ErrorKind::Other,
        });
        if call == BadCall::Read {
            self.die(id, Death::Killed, down);
        } else {
            self.doom(id, u64::MAX, down);
        }
    }

    fn leave(&mut self, id: NodeId, down: Duration) {
        self.stop_clients_of(id);
        self.hand_in(id, Input::Drain);
        let at = self.now + LEAVING;
        let node = self.node(id);
        if node.running.is_none() {
            return;
        }
        node.doom = Some(super::node::Doom {
            outputs: u64::MAX,
            down,
        });
        let life = node.life;
        self.events.push(at, Event::Doom { node: id, life });
        self.exercised(Row::Left);
        if self.is_leader(id) {
            self.exercised(Row::LeaderLeft);
        }
    }

    /// Everything is mended: no fault is on, and every node that may run starts.
    pub(super) fn mend(&mut self) {
        let watched: Vec<usize> = self.harm.watches.keys().copied().collect();
        for index in watched {
            self.unwatch(index);
        }
        self.harm.traps.clear();
        self.end_moving();
        self.network.be_punctual();
        let ids: Vec<NodeId> = self.nodes.ids().collect();
        for id in &ids {
            let node = self.node(*id);
            node.paused = 0;
            node.stall_due = None;
            node.stalled = None;
            node.isolated = 0;
            node.hung = 0;
            node.full = 0;
            node.slow = Duration::ZERO;
            node.doom = None;
            for disk in node.disks.each() {
                disk.heal();
                disk.set_capacity(None);
            }
            for other in ids.iter().filter(|other| *other != id) {
                self.change_rules(*id, *other, |rules| *rules = Rules::default());
            }
        }
        // What is judged from here on is what the transport promises: a link that is up loses nothing. Connections that lost
        // something in a fault begin anew, as streams do.
        for (one, other) in self.network.holed() {
            self.break_link(one, other);
        }
        for client in self.clients.values_mut() {
            client.cut = 0;
        }
        self.wake_clients();
        for id in ids {
            self.start(id);
            self.resume(id);
        }
    }
}

/// Whom a fault strikes that lasts and strikes one node.
fn struck_by(fault: &Fault) -> Option<Who> {
    match *fault {
        Fault::Strand { node, .. }
        | Fault::Isolate { node, .. }
        | Fault::Pause { node, .. }
        | Fault::Stall { node, .. }
        | Fault::SlowDisk { node, .. }
        | Fault::DiskFull { node, .. }
        | Fault::Hang { node, .. } => Some(node),
        Fault::Rollback { node, .. } => Some(Who::Node(node)),
        Fault::Crash { .. }
        | Fault::PowerCut { .. }
        | Fault::Blackout { .. }
        | Fault::Trap { .. }
        | Fault::Partition { .. }
        | Fault::Cut { .. }
        | Fault::Loss { .. }
        | Fault::Duplicate { .. }
        | Fault::Garble { .. }
        | Fault::Delay { .. }
        | Fault::Reset { .. }
        | Fault::DiskError { .. }
        | Fault::Flip { .. }
        | Fault::LoseLog { .. }
        | Fault::Wipe { .. }
        | Fault::WallJump { .. }
        | Fault::Leave { .. }
        | Fault::Diverge { .. }
        | Fault::Differ
        | Fault::Misanswer { .. }
        | Fault::Poison { .. }
        | Fault::Checkpoint { .. }
        | Fault::ClientCut { .. } => None,
    }
}
