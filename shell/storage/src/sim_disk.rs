//! A `Disk` in memory for tests and the simulator: it forgets what was not synced, tears writes between sectors, loses names,
//! flips bits, fails calls and fills up, all by choices that the caller makes. It draws nothing at random and reads no clock.
//!
//! Unwritten zeros of `create` are free here, so `prefill` does nothing.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::disk::{Disk, DiskFile};
use crate::limits::SECTOR_BYTES;

/// A kind of call that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskOperation {
    /// `DiskFile::write_at`. A failing write leaves its first half behind.
    Write,
    /// `DiskFile::read_at`.
    Read,
    /// `DiskFile::sync`. A failing sync drops what it should have kept, though reads still show it until a crash.
    Sync,
    /// `Disk::create`.
    Create,
    /// `Disk::rename`.
    Rename,
    /// `Disk::remove`.
    Remove,
    /// `Disk::sync_dir`.
    SyncDir,
}

/// Calls that will fail: after `skip` more calls of `operation`, the next `times` give `kind`.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Which calls.
    pub operation: DiskOperation,
    /// How many of them succeed first.
    pub skip: u64,
    /// How many of them fail; `u64::MAX` for all.
    pub times: u64,
    /// What they answer.
    pub kind: io::ErrorKind,
}

/// A disk in memory. Clones share it, so a test keeps one and gives another to the node that is going to crash.
#[derive(Clone, Debug, Default)]
pub struct SimDisk {
    world: Arc<Mutex<World>>,
}

#[derive(Clone, Debug, Default)]
struct World {
    inodes: BTreeMap<u64, Inode>,
    next_inode: u64,
    names: BTreeMap<String, u64>,
    names_durable: BTreeMap<String, u64>,
    /// The names after each change since the last `sync_dir`. A crash keeps one of these states: journals keep order.
    names_since: Vec<BTreeMap<String, u64>>,
    capacity: Option<u64>,
    faults: Vec<Fault>,
    changes: u64,
    changes_max: Option<u64>,
    /// Counts crashes; files opened before the last one are dead.
    life: u64,
}

#[derive(Clone, Debug, Default)]
struct Inode {
    durable: Vec<u8>,
    current: Vec<u8>,
    unsynced: Vec<(u64, Vec<u8>)>,
}

impl SimDisk {
    /// An empty disk without a bound.
    pub fn new() -> SimDisk {
        SimDisk::default()
    }

    /// A separate disk in the same state, for looking at several crashes of one moment.
    pub fn fork(&self) -> SimDisk {
        SimDisk {
            world: Arc::new(Mutex::new(self.world().clone())),
        }
    }

    /// Bounds the bytes of all files; `None` for no bound. A lower bound than what is used only stops growth.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.world().capacity = bytes;
    }

    /// Bytes of all files.
    pub fn used(&self) -> u64 {
        self.world().used()
    }

    /// Adds calls that will fail.
    pub fn fail(&self, fault: Fault) {
        self.world().faults.push(fault);
    }

    /// Forgets all faults and any `stop_after`.
    pub fn heal(&self) {
        let mut world = self.world();
        world.faults.clear();
        world.changes_max = None;
    }

    /// Cuts the power after `changes` more changing calls: all later ones fail, until `crash`.
    pub fn stop_after(&self, changes: u64) {
        let mut world = self.world();
        world.changes_max = Some(world.changes + changes);
    }

    /// Changing calls so far (writes, syncs, creations, renames, removals, directory syncs).
    pub fn changes(&self) -> u64 {
        self.world().changes
    }

    /// Damages stored bytes: `mask` is xored into the byte at `offset` of `name`, on the device and in the cache.
    /// Returns false if there is no such byte.
    pub fn flip(&self, name: &str, offset: u64, mask: u8) -> bool {
        let mut world = self.world();
        let Some(inode) = world.names.get(name).copied() else {
            return false;
        };
        let inode = world.inodes.get_mut(&inode).expect("a name has its inode");
        let at = offset as usize;
        if at >= inode.current.len() {
            return false;
        }
        inode.current[at] ^= mask;
        if let Some(byte) = inode.durable.get_mut(at) {
            *byte ^= mask;
        }
        true
    }

    /// Cuts `name` to `bytes`, on the device and in the cache. Returns false if it is not longer than that.
    pub fn shorten(&self, name: &str, bytes: u64) -> bool {
        let mut world = self.world();
        let Some(inode) = world.names.get(name).copied() else {
            return false;
        };
        let inode = world.inodes.get_mut(&inode).expect("a name has its inode");
        let is_longer = inode.current.len() as u64 > bytes;
        inode.current.truncate(bytes as usize);
        inode.durable.truncate(bytes as usize);
        is_longer
    }

    /// The content of a file as a reader sees it.
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        let world = self.world();
        Some(world.inodes[world.names.get(name)?].current.clone())
    }

    /// Power cut and restart. For everything that was not synced, `choose(n)` says which of `n` outcomes it is, 0 being the
    /// oldest: each sector keeps any one of its versions, and the names are those after any number of changes.
    /// Open files are dead after this, faults stay.
    pub fn crash(&self, mut choose: impl FnMut(u64) -> u64) {
        let mut world = self.world();
        world.life += 1;
        world.changes_max = None;
        if !world.names_since.is_empty() {
            let kept = choose(world.names_since.len() as u64 + 1) as usize;
            if kept > 0 {
                world.names_durable = world.names_since[kept - 1].clone();
            }
        }
        world.names_since.clear();
        world.names = world.names_durable.clone();
        let named: Vec<u64> = world.names.values().copied().collect();
        world.inodes.retain(|id, _| named.contains(id));
        for inode in world.inodes.values_mut() {
            inode.crash(&mut choose);
        }
    }

    /// `crash` with choices that follow from `seed`.
    pub fn crash_seeded(&self, seed: u64) {
        let mut state = seed;
        self.crash(|outcomes| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ (mixed >> 31)) % outcomes
        });
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world
            .lock()
            .expect("no call panics while it holds the world")
    }

    fn file(&self, inode: u64, life: u64) -> SimFile {
        SimFile {
            disk: self.clone(),
            inode,
            life,
        }
    }
}

impl Inode {
    fn crash(&mut self, choose: &mut impl FnMut(u64) -> u64) {
        if self.durable.len() != self.current.len() && choose(2) == 1 {
            self.durable.resize(self.current.len(), 0);
        }
        let mut versions: BTreeMap<usize, Vec<Vec<u8>>> = BTreeMap::new();
        for (offset, data) in std::mem::take(&mut self.unsynced) {
            let (start, end) = (offset as usize, offset as usize + data.len());
            for sector in start / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES) {
                let from = sector * SECTOR_BYTES;
                let Some(durable) = self
                    .durable
                    .get(from..self.durable.len().min(from + SECTOR_BYTES))
                else {
                    continue;
                };
                let known = versions
                    .entry(sector)
                    .or_insert_with(|| vec![durable.to_vec()]);
                let mut content = known.last().expect("never empty").clone();
                let (low, high) = (start.max(from), end.min(from + content.len()));
                if low < high {
                    content[low - from..high - from]
                        .copy_from_slice(&data[low - start..high - start]);
                    if known.last() != Some(&content) {
                        known.push(content);
                    }
                }
            }
        }
        for (sector, known) in versions {
            if known.len() > 1 {
                let kept = &known[choose(known.len() as u64) as usize];
                self.durable[sector * SECTOR_BYTES..][..kept.len()].copy_from_slice(kept);
            }
        }
        self.current = self.durable.clone();
    }

    fn sync(&mut self) {
        self.durable.resize(self.current.len(), 0);
        for (offset, data) in self.unsynced.drain(..) {
            self.durable[offset as usize..][..data.len()].copy_from_slice(&data);
        }
    }
}

impl World {
    fn is_off(&self) -> bool {
        self.changes_max.is_some_and(|most| self.changes >= most)
    }

    fn used(&self) -> u64 {
        self.inodes
            .values()
            .map(|inode| inode.current.len() as u64)
            .sum()
    }

    /// Counts a call and says whether it fails.
    fn step(&mut self, operation: DiskOperation) -> io::Result<()> {
        if operation != DiskOperation::Read {
            if self.is_off() {
                return Err(io::Error::other("the power is cut"));
            }
            self.changes += 1;
        }
        for fault in self
            .faults
            .iter_mut()
            .filter(|fault| fault.operation == operation && fault.times > 0)
        {
            if fault.skip > 0 {
                fault.skip -= 1;
            } else {
                fault.times = if fault.times == u64::MAX {
                    u64::MAX
                } else {
                    fault.times - 1
                };
                return Err(io::Error::new(fault.kind, "injected"));
            }
        }
        Ok(())
    }

    fn grow(&self, bytes: u64) -> io::Result<()> {
        match self.capacity {
            Some(capacity) if self.used() + bytes > capacity => {
                Err(io::ErrorKind::StorageFull.into())
            }
            _ => Ok(()),
        }
    }

    fn named(&self, name: &str) -> io::Result<u64> {
        self.names
            .get(name)
            .copied()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn names_changed(&mut self) {
        self.names_since.push(self.names.clone());
    }
}

impl Disk for SimDisk {
    type File = SimFile;

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.world().names.keys().cloned().collect())
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<SimFile> {
        let mut world = self.world();
        world.step(DiskOperation::Create)?;
        if world.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        world.grow(bytes)?;
        let id = world.next_inode;
        world.next_inode += 1;
        world.inodes.insert(
            id,
            Inode {
                current: vec![0; bytes as usize],
                ..Inode::default()
            },
        );
        world.names.insert(name.to_string(), id);
        world.names_changed();
        Ok(self.file(id, world.life))
    }

    fn open(&self, name: &str) -> io::Result<SimFile> {
        let world = self.world();
        Ok(self.file(world.named(name)?, world.life))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut world = self.world();
        world.step(DiskOperation::Rename)?;
        let id = world.named(from)?;
        world.names.remove(from);
        world.names.insert(to.to_string(), id);
        world.names_changed();
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut world = self.world();
        world.step(DiskOperation::Remove)?;
        let id = world.named(name)?;
        world.names.remove(name);
        world.names_changed();
        // The space is free at once; the content stays until the removal is durable.
        if let Some(inode) = world.inodes.get_mut(&id) {
            inode.unsynced.clear();
        }
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let world = self.world();
        let free = world
            .capacity
            .map(|bytes| bytes.saturating_sub(world.used()));
        Ok(free.unwrap_or(u64::MAX))
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut world = self.world();
        world.step(DiskOperation::SyncDir)?;
        world.names_durable = world.names.clone();
        world.names_since.clear();
        let named: Vec<u64> = world.names.values().copied().collect();
        world.inodes.retain(|id, _| named.contains(id));
        Ok(())
    }
}

/// A file of a `SimDisk`. It is dead after `SimDisk::crash`, and after its name is durably removed.
#[derive(Debug)]
pub struct SimFile {
    disk: SimDisk,
    inode: u64,
    life: u64,
}

impl SimFile {
    fn with<T>(&self, act: impl FnOnce(&mut World, u64) -> io::Result<T>) -> io::Result<T> {
        let mut world = self.disk.world();
        if world.life != self.life || !world.inodes.contains_key(&self.inode) {
            return Err(io::Error::other(
                "the process that opened this file has crashed, or the file is removed",
            ));
        }
        act(&mut world, self.inode)
    }
}

/// What a failing write leaves behind. Systems find out that space is short before they copy a page, so it ends with a sector.
fn first_half(data: &[u8]) -> &[u8] {
    let half = data.len() / 2;
    &data[..half - half % SECTOR_BYTES]
}

fn inode(world: &mut World, id: u64) -> &mut Inode {
    world.inodes.get_mut(&id).expect("`with` has looked")
}

impl DiskFile for SimFile {
    fn bytes(&self) -> io::Result<u64> {
        self.with(|world, id| Ok(inode(world, id).current.len() as u64))
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.with(|world, id| {
            let off = world.is_off();
            let outcome = world.step(DiskOperation::Write);
            if off {
                return outcome;
            }
            let written = if outcome.is_ok() {
                data
            } else {
                first_half(data)
            };
            let end = offset as usize + written.len();
            let longer = end.saturating_sub(inode(world, id).current.len());
            world.grow(longer as u64)?;
            let file = inode(world, id);
            if longer > 0 {
                file.current.resize(end, 0);
            }
            file.current[offset as usize..end].copy_from_slice(written);
            file.unsynced.push((offset, written.to_vec()));
            outcome
        })
    }

    fn read_at(&self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        self.with(|world, id| {
            world.step(DiskOperation::Read)?;
            let content = &inode(world, id).current;
            let part = content.get(offset as usize..offset as usize + data.len());
            data.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }

    fn sync(&mut self) -> io::Result<()> {
        self.with(|world, id| {
            let off = world.is_off();
            let outcome = world.step(DiskOperation::Sync);
            if outcome.is_ok() {
                inode(world, id).sync();
            } else if !off {
                inode(world, id).unsynced.clear();
            }
            outcome
        })
    }

    fn prefill(&mut self, _offset: u64, _bytes: u64) -> io::Result<()> {
        self.with(|_, _| Ok(()))
    }

    fn distrust_cache(&mut self) -> io::Result<()> {
        self.with(|world, id| {
            let file = inode(world, id);
            let mut content = file.durable.clone();
            content.resize(file.current.len(), 0);
            for (offset, data) in &file.unsynced {
                content[*offset as usize..][..data.len()].copy_from_slice(data);
            }
            file.current = content;
            Ok(())
        })
    }
}
