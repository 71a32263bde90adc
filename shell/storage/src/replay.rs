//! Reads the segments of a log and returns its live records in the order in which they were appended.
//!
//! `Log::open` calls it, and the scrub. It reads and judges; `Log` removes the files that it names.

use std::collections::{BTreeMap, BTreeSet};

use quorate_types::{ClusterId, GroupId, NodeId, Slot};

use crate::disk::{Disk, DiskFile, read_whole};
use crate::error::StorageError;
use crate::limits::{COMMITS_OVER_DAMAGE, StorageLimits};
use crate::record::{CommitEntry, Item, RecordKind};
use crate::recovered::{Lost, Position, RecoveredRecord};
use crate::recovery::{Sealed, SegmentScan, SegmentToRead};
use crate::sector::Owner;
use crate::segment::{self, Contents, Header};

/// What the files say.
pub(crate) struct Replay {
    pub(crate) recovered: Vec<RecoveredRecord>,
    pub(crate) segments: BTreeMap<u32, Contents>,
    /// Newest base of each group: its slot and the segment it is in.
    pub(crate) bases: BTreeMap<u32, (u64, u32)>,
    /// Segments whose removal a crash interrupted.
    pub(crate) leftovers: Vec<u32>,
    pub(crate) next_commit: u64,
    /// The newest segment, where it ends, and whether the log may go on there.
    pub(crate) last: Option<(u32, u64, bool)>,
}

/// A segment as it was read, for who wants to know more of it than what lives in it.
pub(crate) struct SegmentSeen<'a> {
    pub(crate) number: u32,
    /// Bytes of the file.
    pub(crate) bytes: u64,
    pub(crate) header: Option<Header>,
    /// As long as the segment should be.
    pub(crate) content: &'a [u8],
    pub(crate) sealed: Sealed,
    pub(crate) scan: &'a SegmentScan,
}

/// Reads all segments of `disk`.
pub(crate) fn replay<D: Disk>(
    disk: &D,
    cluster: ClusterId,
    node: NodeId,
    limits: &StorageLimits,
) -> Result<Replay, StorageError> {
    replay_seen(disk, (cluster, node), limits, &mut |_| {})
}

/// As `replay`; `see` is shown each segment.
// Longer than a screen: one pass over the segments, whose steps share all of its state.
pub(crate) fn replay_seen<D: Disk>(
    disk: &D,
    (cluster, node): (ClusterId, NodeId),
    limits: &StorageLimits,
    see: &mut dyn FnMut(&SegmentSeen<'_>),
) -> Result<Replay, StorageError> {
    let names = disk
        .list()
        .map_err(|error| StorageError::io(format!("list {}", disk.place("")), &error))?;
    let numbers: BTreeSet<u32> = names
        .iter()
        .filter_map(|name| segment::number(name))
        .collect();
    let mut found = SectorFound::default();
    // From the newest to the oldest: each header tells where the segment before it ends.
    let mut sealed = Sealed::Open;
    for number in numbers.iter().rev().copied() {
        let name = segment::name(number);
        let failed = |error| StorageError::io(format!("read {}", disk.place(&name)), &error);
        let mut file = disk.open(&name).map_err(failed)?;
        file.sync()
            .map_err(|error| StorageError::sync_failed(&disk.place(&name), &error))?;
        let mut content = read_whole(&mut file).map_err(failed)?;
        let header = Header::find(&content)?;
        if let Some(header) = header {
            if (header.cluster, header.node) != (cluster, node) {
                return Err(StorageError::Foreign {
                    cluster: header.cluster,
                    node: header.node,
                });
            }
            if header.segment != number {
                return Err(StorageError::Layout(format!(
                    "{name} holds segment {}",
                    header.segment
                )));
            }
        }
        let block_bytes = header.map_or(limits.block_bytes, |header| header.block_bytes);
        let page_bytes = header.map_or(limits.page_bytes, |header| header.page_bytes);
        let same_sizes = (block_bytes, page_bytes, content.len() as u64)
            == (limits.block_bytes, limits.page_bytes, limits.segment_bytes);
        let bytes = header.map_or(limits.segment_bytes, |header| header.segment_bytes);
        let found_bytes = content.len() as u64;
        let is_cut = found_bytes < bytes;
        if is_cut {
            content.resize(bytes as usize, 0);
        }
        // A segment has its size and its header before it has its name. Without them nothing tells where its tail ended.
        if (is_cut || header.is_none()) && !matches!(sealed, Sealed::At(_)) {
            sealed = Sealed::At(bytes);
        }
        let segment = SegmentToRead {
            owner: Owner::new(cluster, node),
            number,
            content: &content,
            block_bytes,
            start: segment::data_start(page_bytes),
            first_commit: header.map_or(1, |header| header.first_commit),
            sealed,
        };
        let mut scan = segment.scan();
        if let Sealed::At(end) = sealed {
            scan.end = end;
        }
        see(&SegmentSeen {
            number,
            bytes: found_bytes,
            header,
            content: &content,
            sealed,
            scan: &scan,
        });
        found.last.get_or_insert((
            number,
            scan.end,
            scan.clean && same_sizes && header.is_some(),
        ));
        found.list(number, &scan);
        let before = numbers.range(..number).next_back().copied();
        let listed = found
            .listed
            .as_ref()
            .and_then(|(_, ends)| ends.get(&before?).copied());
        sealed = match header {
            Some(header) if before == number.checked_sub(1) => Sealed::At(header.previous_end),
            Some(_) | None => listed.map_or(Sealed::Somewhere, Sealed::At),
        };
        found.scans.insert(number, scan);
    }
    Ok(found.assemble())
}

#[derive(Default)]
struct SectorFound {
    scans: BTreeMap<u32, SegmentScan>,
    last: Option<(u32, u64, bool)>,
    /// The segment with the newest list of a discard, and the list: older segments and their ends.
    listed: Option<(u32, BTreeMap<u32, u64>)>,
}

impl SectorFound {
    /// Takes the newest list of a discard from the segment, if there is none from a newer one.
    fn list(&mut self, number: u32, scan: &SegmentScan) {
        if self.listed.is_none() {
            let mut lists = scan.items.iter().rev().filter_map(|(_, item)| match item {
                Item::Whole {
                    entry:
                        CommitEntry {
                            kind: RecordKind::Live,
                            ..
                        },
                    bytes,
                    ..
                } => Some(bytes),
                Item::Whole { .. } | Item::Damaged { .. } => None,
            });
            self.listed = lists
                .next()
                .map(|bytes| (number, segment::live_from(bytes)));
        }
    }

    // Longer than a screen: one pass over what was read, commit by commit.
    fn assemble(self) -> Replay {
        let mut next_commit = self
            .scans
            .values()
            .map(|scan| scan.next_commit)
            .max()
            .unwrap_or(1);
        let (expected, leftovers) = self.expected();
        let mut items: Vec<(Position, Item)> = Vec::new();
        let mut segments: BTreeMap<u32, Contents> = BTreeMap::new();
        let mut scans = self.scans;
        for number in &expected {
            let end = scans.get(number).map_or(0, |scan| scan.end);
            segments.insert(
                *number,
                Contents {
                    end,
                    ..Contents::default()
                },
            );
            match scans.remove(number) {
                Some(scan) => items.extend(scan.items.into_iter().map(|(offset, item)| {
                    let (Item::Whole { at, .. } | Item::Damaged { at, .. }) = &item;
                    (
                        Position {
                            segment: *number,
                            offset: offset + at,
                        },
                        item,
                    )
                })),
                None => items.push((
                    Position {
                        segment: *number,
                        offset: 0,
                    },
                    Item::Damaged { at: 0, entry: None },
                )),
            }
        }
        // Damage may have taken the newest commits: peers know their numbers, so none is given out again.
        if items
            .iter()
            .any(|(_, item)| matches!(item, Item::Damaged { .. }))
        {
            next_commit += COMMITS_OVER_DAMAGE;
        }
        let repaired: BTreeSet<Position> = items
            .iter()
            .filter_map(|(_, item)| repaired(item))
            .collect();
        let mut bases = BTreeMap::new();
        let mut newest_base: BTreeMap<u32, (usize, u64)> = BTreeMap::new();
        for (index, (position, item)) in items.iter().enumerate() {
            let contents = segments
                .get_mut(&position.segment)
                .expect("items come from expected segments");
            if let Some(base) = note(contents, *position, item, &repaired) {
                let upto = bases
                    .get(&base.group)
                    .map_or(base.slot, |(upto, _)| base.slot.max(*upto));
                bases.insert(base.group, (upto, position.segment));
                newest_base.insert(base.group, (index, upto));
            }
        }
        let is_live = |index: usize, group: u32, slot: u64| {
            newest_base
                .get(&group)
                .is_none_or(|(base, upto)| index >= *base || slot > *upto)
        };
        let mut recovered = Vec::new();
        for (index, (position, item)) in items.into_iter().enumerate() {
            recovered.extend(tell(position, item, &repaired, |group, slot| {
                is_live(index, group, slot)
            }));
        }
        Replay {
            recovered,
            segments,
            bases,
            leftovers,
            next_commit,
            last: self.last,
        }
    }

    /// Segments that must exist, and files that should be gone, by the newest list that a discard has left.
    fn expected(&self) -> (BTreeSet<u32>, Vec<u32>) {
        let Some((newest, _)) = self.scans.last_key_value() else {
            return (BTreeSet::new(), Vec::new());
        };
        let (from, older) = self.listed.clone().unwrap_or((1, BTreeMap::new()));
        let mut expected: BTreeSet<u32> = (from..=*newest).collect();
        expected.extend(older.keys());
        let leftovers = self
            .scans
            .keys()
            .filter(|number| !expected.contains(number))
            .copied()
            .collect();
        (expected, leftovers)
    }
}

/// Content of a `RecordKind::Repaired` record: the position that is repaired.
fn repaired(item: &Item) -> Option<Position> {
    match item {
        Item::Whole {
            entry:
                CommitEntry {
                    kind: RecordKind::Repaired,
                    group,
                    slot,
                    ..
                },
            ..
        } => Some(Position {
            segment: *group,
            offset: *slot,
        }),
        Item::Whole { .. } | Item::Damaged { .. } => None,
    }
}

/// Adds an item to what is known of its segment, and gives its entry if it is a base as written.
fn note<'a>(
    contents: &mut Contents,
    position: Position,
    item: &'a Item,
    repaired: &BTreeSet<Position>,
) -> Option<&'a CommitEntry> {
    let (entry, whole) = match item {
        Item::Whole { entry, .. } => (entry, true),
        Item::Damaged {
            entry: Some(entry), ..
        } => (entry, false),
        Item::Damaged { entry: None, .. } => {
            if !repaired.contains(&position) {
                contents.unknown.insert(position.offset);
            }
            return None;
        }
    };
    match entry.kind {
        RecordKind::Record | RecordKind::Base => contents.note(entry.group, entry.slot),
        RecordKind::Repaired => {
            contents.repairs.insert(entry.group);
        }
        RecordKind::Live => {}
    }
    (whole && entry.kind == RecordKind::Base).then_some(entry)
}

/// What the caller is told of an item, if anything.
fn tell(
    position: Position,
    item: Item,
    repaired: &BTreeSet<Position>,
    is_live: impl Fn(u32, u64) -> bool,
) -> Option<RecoveredRecord> {
    let lost = match item {
        Item::Whole {
            entry: CommitEntry {
                kind, group, slot, ..
            },
            bytes,
            ..
        } => {
            return match kind {
                RecordKind::Record if is_live(group, slot) => Some(RecoveredRecord::Record {
                    group: GroupId(group),
                    slot: Slot(slot),
                    bytes: bytes.into(),
                }),
                RecordKind::Base if is_live(group, slot) => Some(RecoveredRecord::Base {
                    group: GroupId(group),
                    upto: Slot(slot),
                    bytes: bytes.into(),
                }),
                RecordKind::Record | RecordKind::Base | RecordKind::Live | RecordKind::Repaired => {
                    None
                }
            };
        }
        Item::Damaged { entry: None, .. } => Lost::Unknown,
        Item::Damaged {
            entry: Some(CommitEntry {
                kind, group, slot, ..
            }),
            ..
        } => match kind {
            RecordKind::Record if is_live(group, slot) => Lost::Record {
                group: GroupId(group),
                slot: Slot(slot),
            },
            RecordKind::Base if is_live(group, slot) => Lost::Base {
                group: GroupId(group),
                upto: Slot(slot),
            },
            // What the log wrote for itself is not the caller's loss: without it, the log is only more careful.
            RecordKind::Record | RecordKind::Base | RecordKind::Live | RecordKind::Repaired => {
                return None;
            }
        },
    };
    (!repaired.contains(&position)).then_some(RecoveredRecord::Faulty { position, lost })
}
