//! Damage to the files of a node while it is down: bits change, files vanish, an old copy is put in place.

use super::World;
use super::durable::Disks;
use super::fault::{Lost, Part};
use super::harm::{Image, snapshot_slot};
use super::life::Death;
use super::row::Row;
use quorate_storage::{Disk, SECTOR_BYTES, SimDisk};
use quorate_types::{Duration, NodeId};

/// Places that are tried for a bit whose change a start notices.
const TRIES: u64 = 8;

/// Sectors at the end of a log that are damaged together at most.
const SECTORS_MAX: u64 = 64;

impl World {
    /// Changes a bit of what a node's files hold, while the node is down.
    pub(super) fn flip(&mut self, id: NodeId, part: Part, bit: u64, down: Duration) {
        let costs_vote = part != Part::Identity;
        // Damage in an older copy hides what it lacks from its peers: a stated limit.
        let hides_copy = matches!(part, Part::Log | Part::View) && self.nodes[&id].is_old_copy;
        if hides_copy || costs_vote && !self.may_maim(id) {
            return;
        }
        self.die(id, Death::Killed, down);
        match part {
            Part::Log => self.flip_log(id, bit),
            Part::View => self.flip_view(id, bit),
            Part::Snapshots => self.flip_snapshot(id, bit),
            Part::Identity => self.flip_identity(id, bit),
        }
    }

    /// A view that a node has just begun is lost from its log.
    pub(super) fn lose_view(&mut self, id: NodeId, down: Duration) {
        if self.stage.is_faulty() {
            let bit = self.node(id).random.bits() >> 16;
            self.flip(id, Part::View, bit, down);
        }
    }

    /// Flips a bit that a start reports as damage, if one of a few places is such; else the last of them.
    fn flip_log(&mut self, id: NodeId, bit: u64) {
        let disks = &self.nodes[&id].disks;
        let mut at = bit;
        for _ in 1..TRIES {
            let trial = disks.fork();
            flip_bit(&trial.log, at);
            if trial
                .start()
                .is_ok_and(|found| found.past.damage.was_found())
            {
                break;
            }
            at = at.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
        }
        flip_bit(&disks.log, at);
    }

    /// Flips bits from the end of the log on until it has no record of the newest view, if a start reports it as damage; else one bit.
    fn flip_view(&mut self, id: NodeId, bit: u64) {
        let disks = &self.nodes[&id].disks;
        let newest = |disks: &Disks| {
            let found = disks.start().ok()?;
            let views = found.past.records.iter().map(|record| record.view.number);
            Some((views.max(), found.past.damage.was_found()))
        };
        let before = newest(&disks.fork());
        let trial = disks.fork();
        for sector in 0..SECTORS_MAX {
            flip_from_end(&trial.log, sector, bit);
            let after = newest(&trial.fork());
            if after.is_some_and(|(view, is_damaged)| {
                is_damaged && view < before.and_then(|(view, _)| view)
            }) {
                for sector in 0..=sector {
                    flip_from_end(&disks.log, sector, bit);
                }
                self.exercised(Row::LostView);
                return;
            }
        }
        self.flip_log(id, bit);
    }

    /// Flips a bit of the snapshot that a start takes, if the damage is noticed there; else of another one.
    fn flip_snapshot(&mut self, id: NodeId, bit: u64) {
        let disks = &self.nodes[&id].disks;
        let before = snapshot_slot(disks);
        let names = disks.snapshots.list().unwrap_or_default();
        let changes_start = |name: &&String| {
            let trial = disks.fork();
            flip_file(&trial.snapshots, name, bit);
            snapshot_slot(&trial) != before
        };
        let Some(name) = names.iter().find(changes_start).or(names.first()) else {
            return;
        };
        flip_file(&disks.snapshots, name, bit);
        let after = snapshot_slot(disks);
        if before != after {
            self.exercised(Row::DamagedSnapshot);
        }
        if after.is_some() && after < before {
            self.loses_healed(id);
        }
    }

    fn flip_identity(&mut self, id: NodeId, bit: u64) {
        let disks = &self.nodes[&id].disks;
        let names = disks.identity.list().unwrap_or_default();
        if names.is_empty() {
            return;
        }
        let name = &names[(bit >> 32) as usize % names.len()];
        let bytes = disks.identity.content(name).unwrap_or_default().len() as u64;
        if bytes == 0 {
            return;
        }
        let (at, mask) = ((bit >> 3) % bytes, 1 << (bit & 7));
        // The other copy may be damaged already: a node without an identity would be gone for ever.
        let trial = disks.fork();
        trial.identity.flip(name, at, mask);
        if trial.start().is_ok() {
            disks.identity.flip(name, at, mask);
            self.exercised(Row::DamagedIdentity);
        }
    }

    /// Remembers a node's directory as a power cut in this moment would leave it.
    pub(super) fn keep_image(&mut self, index: usize, id: NodeId) {
        let disks = self.nodes[&id].disks.fork();
        disks.crash(|outcomes| outcomes - 1);
        let image = Image {
            disks,
            known: self.nodes[&id].known.clone(),
            quarantine: self.nodes[&id].quarantine,
            notes: self.nodes[&id].notes.after(self.nodes[&id].answered),
            diverged: self.harm.diverged,
        };
        self.harm.images.insert(index, image);
    }

    /// Gives a node its old directory back.
    pub(super) fn roll_back(&mut self, index: usize, id: NodeId, down: Duration) {
        let Some(image) = self.harm.images.remove(&index) else {
            return;
        };
        if image.disks.incarnation != self.nodes[&id].disks.incarnation {
            // Another machine has its number by now.
            return;
        }
        let would_be_sighted = image
            .disks
            .fork()
            .start()
            .is_ok_and(|found| self.would_be_sighted(id, &found));
        if !would_be_sighted || !self.may_maim(id) {
            return;
        }
        self.die(id, Death::PowerCut, down);
        self.harm.copied.insert(id);
        self.forget_sightings(id);
        self.diverges_again(id, image.diverged);
        let node = self.node(id);
        node.disks = image.disks;
        node.known = image.known;
        node.quarantine = image.quarantine;
        node.notes = image.notes;
        node.is_old_copy = true;
    }

    /// Files of a node's log vanish while it is down.
    pub(super) fn lose_log(&mut self, id: NodeId, files: Lost, down: Duration) {
        if !self.may_maim(id) {
            return;
        }
        self.die(id, Death::Killed, down);
        let log = &self.nodes[&id].disks.log;
        // A fault that waits for the node's own calls must not strike the hand that removes the files.
        log.heal();
        let segments = segments(log);
        let gone = match files {
            Lost::Whole => &segments[..],
            Lost::Newest => &segments[segments.len().saturating_sub(1)..],
        };
        let is_gone = !gone.is_empty();
        for name in gone {
            log.remove(name)
                .expect("a file that was listed a moment ago");
        }
        log.sync_dir().expect("a disk without faults");
        if is_gone {
            self.exercised(match files {
                Lost::Whole => Row::LogLost,
                Lost::Newest => Row::SegmentLost,
            });
        }
    }
}

/// The log's segments, oldest first.
fn segments(log: &SimDisk) -> Vec<String> {
    let mut names = log.list().unwrap_or_default();
    names.retain(|name| !name.starts_with("next-"));
    names.sort();
    names
}

/// Changes one of the bits that were written.
fn flip_bit(log: &SimDisk, bit: u64) {
    let names = segments(log);
    let sizes: Vec<u64> = names
        .iter()
        .map(|name| written_bytes(&log.content(name).unwrap_or_default()))
        .collect();
    let total: u64 = sizes.iter().sum();
    if total == 0 {
        return;
    }
    let mut at = (bit >> 3) % total;
    for (name, size) in names.iter().zip(sizes) {
        if at < size {
            log.flip(name, at, 1 << (bit & 7));
            return;
        }
        at -= size;
    }
}

/// Changes a bit of one of the last sectors that were written to the newest segment, counted from its end.
fn flip_from_end(log: &SimDisk, sector: u64, bit: u64) {
    let Some(name) = segments(log).pop() else {
        return;
    };
    let written = written_bytes(&log.content(&name).unwrap_or_default());
    let at = written.saturating_sub(1) / SECTOR_BYTES as u64 * SECTOR_BYTES as u64;
    if let Some(at) = at.checked_sub(sector * SECTOR_BYTES as u64) {
        log.flip(&name, at + (bit >> 3) % SECTOR_BYTES as u64, 1 << (bit & 7));
    }
}

/// Changes a bit of a file, wherever in it.
fn flip_file(disk: &SimDisk, name: &str, bit: u64) {
    let bytes = disk.content(name).unwrap_or_default().len() as u64;
    if bytes > 0 {
        disk.flip(name, (bit >> 3) % bytes, 1 << (bit & 7));
    }
}

/// Bytes up to the last one that is not zero.
fn written_bytes(content: &[u8]) -> u64 {
    let last = content.iter().rposition(|byte| *byte != 0);
    last.map_or(0, |last| last as u64 + 1)
}
