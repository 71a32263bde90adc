//! Faults as the world performs them: how each begins and how it ends.

use super::World;
use super::events::Event;
use super::life::Death;
use super::network::Rules;
use super::schedule::{BadCall, Fault};
use super::trace::Tag;
use quorate_replica::Input;
use quorate_storage::{Disk, DiskOperation};
use quorate_types::{Duration, NodeId};
use std::io::ErrorKind;

/// A node that leaves has this long to transfer leadership before it stops.
const LEAVING: Duration = Duration::from_millis(300);

impl World {
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
            } => self.doom(node, outputs, down),
            Fault::PowerCut {
                node,
                changes,
                down,
            } => self.power_cut(node, changes, down),
            Fault::Blackout { down } => {
                let nodes: Vec<NodeId> = self.nodes.keys().copied().collect();
                for node in nodes {
                    self.die(node, Death::PowerCut, down);
                }
            }
            Fault::DiskError { node, call, down } => self.disk_error(node, call, down),
            Fault::Flip { node, bit, down } => self.flip(node, bit, down),
            Fault::Wipe { node } => {
                self.die(node, Death::PowerCut, Duration::ZERO);
                self.node(node).disks.wipe();
            }
            Fault::WallJump { node, ms } => self.node(node).clock.set_wall_by(ms),
            Fault::Reset { one, other } => self.break_link(one, other),
            Fault::Leave { node, down } => {
                self.hand_in(node, Input::Drain);
                self.leave(node, down);
            }
            Fault::Checkpoint { node } => self.hand_in(node, Input::Checkpoint),
            Fault::DiskFull { node, span } => {
                for disk in self.node(node).disks.each() {
                    disk.set_capacity(Some(disk.used()));
                }
                self.node(node).full += 1;
                self.ends_after(index, span);
            }
            Fault::Partition { span, .. }
            | Fault::Cut { span, .. }
            | Fault::Isolate { span, .. }
            | Fault::Strand { span, .. }
            | Fault::Loss { span, .. }
            | Fault::Duplicate { span, .. }
            | Fault::Delay { span, .. }
            | Fault::Pause { span, .. }
            | Fault::SlowDisk { span, .. }
            | Fault::Hang { span, .. }
            | Fault::ClientCut { span, .. } => {
                self.lasting(index, true);
                self.ends_after(index, span);
            }
        }
    }

    pub(super) fn fault_ends(&mut self, index: usize) {
        if !self.stage.is_faulty() {
            return;
        }
        let fault = &self.schedule.faults[index].fault;
        let words = [Tag::Fault as u64, index as u64, 1];
        self.trace
            .note(self.now, &words, || format!("FAULT ENDS {fault}"));
        self.lasting(index, false);
    }

    fn ends_after(&mut self, index: usize, span: Duration) {
        self.events.push(self.now + span, Event::FaultEnds(index));
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
            Fault::Isolate { node, .. } => {
                self.strand(node, begins);
                count(&mut self.node(node).isolated);
            }
            Fault::Strand { node, .. } => self.strand(node, begins),
            Fault::Loss {
                from, to, percent, ..
            } => self.change_rules(from, to, |rules| sum(&mut rules.loss, percent)),
            Fault::Duplicate {
                from, to, percent, ..
            } => self.change_rules(from, to, |rules| sum(&mut rules.duplicate, percent)),
            Fault::Delay { from, to, by, .. } => {
                self.change_rules(from, to, |rules| sum(&mut rules.delay.0, by.0));
            }
            Fault::Pause { node, .. } => {
                count(&mut self.node(node).paused);
                if !begins {
                    self.resume(node);
                }
            }
            Fault::SlowDisk { node, by, .. } => sum(&mut self.node(node).slow.0, by.0),
            Fault::DiskFull { node, .. } => {
                count(&mut self.node(node).full);
                for disk in self.node(node).disks.each() {
                    disk.set_capacity(None);
                }
            }
            Fault::Hang { node, .. } => {
                count(&mut self.node(node).hung);
                self.begin_work(node);
            }
            Fault::ClientCut { client, .. } => {
                if let Some(client) = self.clients.get_mut(&client) {
                    count(&mut client.cut);
                }
            }
            Fault::Crash { .. }
            | Fault::PowerCut { .. }
            | Fault::Blackout { .. }
            | Fault::Reset { .. }
            | Fault::DiskError { .. }
            | Fault::Flip { .. }
            | Fault::Wipe { .. }
            | Fault::WallJump { .. }
            | Fault::Leave { .. }
            | Fault::Checkpoint { .. } => {}
        }
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

    fn resume(&mut self, id: NodeId) {
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

    /// Changes a bit of what the log holds, while the node is down.
    fn flip(&mut self, id: NodeId, bit: u64, down: Duration) {
        self.die(id, Death::Killed, down);
        let disk = &self.nodes[&id].disks.log;
        let mut names = disk.list().unwrap_or_default();
        names.retain(|name| !name.starts_with("next-"));
        names.sort();
        let sizes: Vec<u64> = names
            .iter()
            .map(|name| written_bytes(&disk.content(name).unwrap_or_default()))
            .collect();
        let total: u64 = sizes.iter().sum();
        if total == 0 {
            return;
        }
        let mut at = (bit >> 3) % total;
        for (name, size) in names.iter().zip(sizes) {
            if at < size {
                disk.flip(name, at, 1 << (bit & 7));
                return;
            }
            at -= size;
        }
    }

    fn leave(&mut self, id: NodeId, down: Duration) {
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
    }

    /// Everything is mended: no fault is on, and every node that may run starts.
    pub(super) fn mend(&mut self) {
        let ids: Vec<NodeId> = self.nodes.keys().copied().collect();
        for id in &ids {
            let node = self.node(*id);
            node.paused = 0;
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

/// Bytes up to the last one that is not zero.
fn written_bytes(content: &[u8]) -> u64 {
    let last = content.iter().rposition(|byte| *byte != 0);
    last.map_or(0, |last| last as u64 + 1)
}
