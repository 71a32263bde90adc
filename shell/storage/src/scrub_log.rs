//! The scrub of a log: every segment and every sector of it, read as a start reads them.
//!
//! `replay` says what a start would find. This adds what a start does not tell: damage that costs nothing, segments in another's
//! place, and the torn tail. It refuses to repair: it runs on a directory that cannot be written.

use std::collections::{BTreeMap, BTreeSet};

use quorate_types::{ClusterId, NodeId, Slot};

use crate::disk::{Disk, DiskFile, read_whole};
use crate::error::StorageError;
use crate::identity::{Identity, MemoryLoss};
use crate::limits::{FINDINGS_MAX, SECTOR_BYTES, StorageLimits};
use crate::read_only::ReadOnlyDirectory;
use crate::record::{Item, RecordKind};
use crate::recovered::{Lost, RecoveredRecord};
use crate::recovery::Sealed;
use crate::replay::{Replay, SegmentSeen, replay_seen};
use crate::scrub::{Flaw, FlawKind, ScrubbedFile, leftover};
use crate::sector::{Owner, SectorFound};
use crate::segment::{self, HEADER_SEARCH_SECTORS, Header};
use crate::spare;

/// What a log holds, and what a start would make of it.
#[derive(Debug)]
pub struct LogScrub {
    /// Its files by name, and those that are missing.
    pub files: Vec<ScrubbedFile>,
    /// What a start would be given, unless it refuses the log.
    pub recovered: Vec<RecoveredRecord>,
    /// A start would refuse the log, and change nothing.
    pub is_refused: bool,
    /// What a start would find to be lost by what the identity says of the log.
    pub loss: Option<MemoryLoss>,
}

/// Scrubs the log of the node `identity`, which is `None` where that cannot be read: then the log itself says whose it is. `read`
/// is told how many bytes were read.
pub fn scrub_log(
    disk: &ReadOnlyDirectory,
    identity: Option<&Identity>,
    read: &mut dyn FnMut(u64),
) -> Result<LogScrub, StorageError> {
    let names = disk
        .list()
        .map_err(|error| StorageError::io(format!("list {}", disk.place("")), &error))?;
    let heads = heads(disk, &names);
    let named = identity.map(|identity| (identity.cluster, identity.node));
    let owner = named.or_else(|| owner_of(&heads)).unwrap_or_default();
    let mut files = BTreeMap::new();
    let mut hidden = BTreeSet::new();
    for (number, head) in &heads {
        if let Some(file) = misplaced(disk, *number, head, owner) {
            read(file.bytes);
            hidden.insert(*number);
            files.insert(*number, file);
        }
    }
    let shown = disk.without(hidden.iter().copied().map(segment::name).collect());
    let limits = sizes(&heads, owner.1);
    let mut flaws: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    let replayed = replay_seen(&shown, owner, &limits, &mut |seen| {
        read(seen.bytes);
        files.insert(seen.number, segment_file(seen));
        flaws.insert(seen.number, seen.scan.flawed.clone());
    });
    let is_refused = !hidden.is_empty() || replayed.is_err();
    let found = match replayed {
        Ok(found) => {
            tell_losses(&found, &hidden, &flaws, &mut files);
            Some(found)
        }
        Err(error) => {
            unread(&heads, &error, &mut files);
            None
        }
    };
    let loss = match identity {
        Some(identity) if !is_refused => lost(identity, &names, found.as_ref(), &mut files),
        Some(_) | None => None,
    };
    let mut files: Vec<ScrubbedFile> = files.into_values().collect();
    files.extend(others(disk, &names, owner, &limits, read));
    Ok(LogScrub {
        files,
        recovered: found.map(|found| found.recovered).unwrap_or_default(),
        is_refused,
        loss,
    })
}

/// The first bytes of each segment, as a header or as what is wrong with them.
fn heads(
    disk: &ReadOnlyDirectory,
    names: &[String],
) -> BTreeMap<u32, Result<Option<Header>, StorageError>> {
    let numbers = names.iter().filter_map(|name| segment::number(name));
    let head = |number| {
        let name = segment::name(number);
        let read = disk.open(&name).and_then(|file| {
            let most = (HEADER_SEARCH_SECTORS * SECTOR_BYTES) as u64;
            let mut content = vec![0; file.bytes()?.min(most) as usize];
            file.read_at(0, &mut content)?;
            Ok(content)
        });
        match read {
            Ok(content) => Header::find(&content),
            Err(error) => Err(StorageError::io(
                format!("read {}", disk.place(&name)),
                &error,
            )),
        }
    };
    numbers.map(|number| (number, head(number))).collect()
}

/// Whose log it is, by its newest segment that tells.
fn owner_of(
    heads: &BTreeMap<u32, Result<Option<Header>, StorageError>>,
) -> Option<(ClusterId, NodeId)> {
    let mut headers = heads
        .values()
        .rev()
        .filter_map(|head| head.as_ref().ok()?.as_ref());
    headers.next().map(|header| (header.cluster, header.node))
}

/// The sizes with which the log was written, by its newest segment that tells.
fn sizes(
    heads: &BTreeMap<u32, Result<Option<Header>, StorageError>>,
    node: NodeId,
) -> StorageLimits {
    let mut headers = heads
        .values()
        .rev()
        .filter_map(|head| head.as_ref().ok()?.as_ref());
    let limits = StorageLimits::of_node(node);
    headers.next().map_or(limits, |header| StorageLimits {
        segment_bytes: header.segment_bytes,
        block_bytes: header.block_bytes,
        page_bytes: header.page_bytes,
        ..limits
    })
}

/// The segment `number`, if a start refuses the whole log for it.
fn misplaced(
    disk: &ReadOnlyDirectory,
    number: u32,
    head: &Result<Option<Header>, StorageError>,
    (cluster, node): (ClusterId, NodeId),
) -> Option<ScrubbedFile> {
    let (what, means) = match head {
        Ok(None) => return None,
        Ok(Some(header)) if (header.cluster, header.node) != (cluster, node) => (
            format!(
                "it belongs to node {} of cluster {:016x}, not to node {} of cluster {:016x}",
                header.node.0, header.cluster.0, node.0, cluster.0
            ),
            "the node refuses to start: put its own file back",
        ),
        Ok(Some(header)) if header.segment != number => (
            format!(
                "it holds segment {}: files of the log were swapped or renamed",
                header.segment
            ),
            "the node refuses to start: give the files back the names that they had",
        ),
        Ok(Some(_)) => return None,
        Err(error) => (error.to_string(), "the node does not start with this file"),
    };
    let name = segment::name(number);
    let bytes = disk.open(&name).and_then(|file| file.bytes());
    let file = ScrubbedFile::new(below_log(&name), bytes.unwrap_or(0), "a segment");
    Some(file.found(FlawKind::Damaged, 0, what, means))
}

fn below_log(name: &str) -> String {
    format!("log/{name}")
}

/// What one segment holds, and what of it does not depend on the others.
fn segment_file(seen: &SegmentSeen<'_>) -> ScrubbedFile {
    let scan = seen.scan;
    let commits: BTreeSet<u64> = scan.items.iter().map(|(at, _)| *at).collect();
    let is_record = |item: &Item| match item {
        Item::Whole { entry, .. } => match entry.kind {
            RecordKind::Record | RecordKind::Base => true,
            RecordKind::Live | RecordKind::Repaired => false,
        },
        Item::Damaged { .. } => false,
    };
    let records = scan
        .items
        .iter()
        .filter(|(_, item)| is_record(item))
        .count();
    let holds = format!(
        "{records} records in {} commits, up to byte {}",
        commits.len(),
        scan.end
    );
    let mut file = ScrubbedFile::new(below_log(&segment::name(seen.number)), seen.bytes, holds);
    match seen.header {
        None => file.find(
            FlawKind::Damaged,
            0,
            "both copies of its header are damaged",
            "where the log ends in it is not known",
        ),
        Some(header) => {
            for offset in [0, header.page_bytes] {
                if Header::at(seen.content, offset) != Some(header) {
                    let what = "one of the two copies of its header is damaged";
                    file.find(FlawKind::Damaged, offset, what, "the other copy counts");
                }
            }
        }
    }
    let whole = seen.content.len() as u64;
    if seen.bytes < whole {
        let what = format!(
            "it is cut: {} bytes of {whole} are missing",
            whole - seen.bytes
        );
        let means = "nothing tells whether commits were among them";
        file.find(FlawKind::Damaged, seen.bytes, what, means);
    }
    if seen.sealed == Sealed::Open && !scan.clean {
        let means = "normal after a crash: nobody was told of it, and the next start leaves it out";
        let what = "a write was interrupted here";
        file.find(FlawKind::Torn, scan.end, what, means);
    }
    file
}

/// Adds to the files what is lost of them, and what is damaged without a loss.
fn tell_losses(
    found: &Replay,
    hidden: &BTreeSet<u32>,
    flaws: &BTreeMap<u32, Vec<u64>>,
    files: &mut BTreeMap<u32, ScrubbedFile>,
) {
    let mut losses: BTreeMap<u32, Vec<Flaw>> = BTreeMap::new();
    for recovered in &found.recovered {
        let RecoveredRecord::Faulty { position, lost } = recovered else {
            continue;
        };
        let (what, means) = loss(*lost);
        losses.entry(position.segment).or_default().push(Flaw {
            kind: FlawKind::Damaged,
            offset: position.offset,
            what,
            means: means.to_owned(),
        });
    }
    for number in &found.leftovers {
        if let Some(file) = files.get_mut(number) {
            file.findings.clear();
            let what = "its removal was interrupted";
            let means =
                "normal after a crash: nothing of it is needed, and the next start removes it";
            file.find(FlawKind::Leftover, 0, what, means);
        }
    }
    let leftovers: BTreeSet<u32> = found.leftovers.iter().copied().collect();
    for (number, offsets) in flaws {
        if let Some(first) = offsets.first()
            && !losses.contains_key(number)
            && !leftovers.contains(number)
            && let Some(file) = files.get_mut(number)
        {
            let count = offsets.len();
            let what = format!("{count} sectors are not as they were written");
            let means = "nothing that still counts is lost: other sectors or later records have it";
            file.find(FlawKind::Damaged, *first, what, means);
        }
    }
    for (number, mut lost) in losses {
        if hidden.contains(&number) {
            continue;
        }
        let file = files.entry(number).or_insert_with(|| {
            ScrubbedFile::new(below_log(&segment::name(number)), 0, "").found(
                FlawKind::Missing,
                0,
                "it is not here",
                "its records are lost, unless later ones replace them",
            )
        });
        let more = lost.len().saturating_sub(FINDINGS_MAX);
        lost.truncate(FINDINGS_MAX);
        if let Some(last) = lost.last_mut().filter(|_| more > 0) {
            last.what = format!("{}; and {more} more records are lost", last.what);
        }
        file.findings.extend(lost);
    }
}

/// What damage has taken, and what that means.
fn loss(lost: Lost) -> (String, &'static str) {
    const SURVEY: &str =
        "before it votes, the node asks all others what they know, and learns from them";
    match lost {
        Lost::Record {
            group,
            slot: Slot::ZERO,
        } => (
            format!("a promise of group {} is lost", group.0),
            "a later promise or vote makes up for it; without one, the node asks all others before it votes",
        ),
        Lost::Record { group, slot } => (
            format!("a record of slot {} of group {} is lost", slot.0, group.0),
            "the node votes in all other slots, and in this one once it has learned it from the others or voted anew",
        ),
        Lost::Base { group, upto } => (
            format!(
                "what replaced the records of group {} up to slot {} is lost",
                group.0, upto.0
            ),
            SURVEY,
        ),
        Lost::Unknown => (
            "records are lost, and nothing names them".to_owned(),
            SURVEY,
        ),
    }
}

/// The log could not be read through.
fn unread(
    heads: &BTreeMap<u32, Result<Option<Header>, StorageError>>,
    error: &StorageError,
    files: &mut BTreeMap<u32, ScrubbedFile>,
) {
    let Some(number) = heads
        .keys()
        .rev()
        .find(|number| !files.contains_key(number))
    else {
        return;
    };
    let file = ScrubbedFile::new(below_log(&segment::name(*number)), 0, "a segment");
    let means = "the node does not start, and older segments were not looked at";
    let file = file.found(FlawKind::Damaged, 0, error.to_string(), means);
    files.insert(*number, file);
}

/// What the identity knows the log to have, and it has not.
fn lost(
    identity: &Identity,
    names: &[String],
    found: Option<&Replay>,
    files: &mut BTreeMap<u32, ScrubbedFile>,
) -> Option<MemoryLoss> {
    const OBSERVES: &str =
        "the node observes: it serves calls and does not vote; put its own newest directory back";
    let pledge = identity.log;
    let is_faulty =
        |recovered: &RecoveredRecord| matches!(recovered, RecoveredRecord::Faulty { .. });
    let newest_commit = found
        .filter(|found| !found.recovered.iter().any(is_faulty))
        .map(|found| found.next_commit - 1);
    match (pledge.lost_files(names), newest_commit) {
        (Some((loss @ MemoryLoss::LogShort, _)), _) => {
            let name = below_log(&segment::name(pledge.segment));
            let what = format!(
                "it is not here, and the identity knows that segment {} was begun",
                pledge.segment
            );
            let file = ScrubbedFile::new(name, 0, "").found(FlawKind::Missing, 0, what, OBSERVES);
            files.insert(pledge.segment, file);
            Some(loss)
        }
        (Some((loss, newest)), _) => {
            if let Some(file) = files.get_mut(&newest) {
                let what = format!(
                    "the identity knows of no segment after {}: it is an older copy",
                    pledge.segment
                );
                file.find(FlawKind::Noted, 0, what, OBSERVES);
            }
            Some(loss)
        }
        (None, Some(newest)) if newest < pledge.commit => {
            let what = format!(
                "the log ends with commit {newest}, and the identity knows that commit {} was durable",
                pledge.commit
            );
            if let Some(file) = files.values_mut().next_back() {
                file.find(FlawKind::Missing, file.bytes, what, OBSERVES);
            }
            Some(MemoryLoss::LogShort)
        }
        (None, Some(_) | None) => None,
    }
}

/// The files beside the segments: the next one, and what is left over.
fn others(
    disk: &ReadOnlyDirectory,
    names: &[String],
    owner: (ClusterId, NodeId),
    limits: &StorageLimits,
    read: &mut dyn FnMut(u64),
) -> Vec<ScrubbedFile> {
    let mut others: Vec<&String> = names
        .iter()
        .filter(|name| segment::number(name).is_none())
        .collect();
    others.sort_unstable();
    let file = |name: &String| {
        let Some(number) = spare::number(name) else {
            return match spare::is_unfinished(name) {
                true => leftover(&below_log(name)),
                false => ScrubbedFile::new(below_log(name), 0, "not a file of a log"),
            };
        };
        let content = disk.open(name).and_then(|mut file| read_whole(&mut file));
        match content {
            Ok(content) => {
                read(content.len() as u64);
                spare_file((name, number), &content, owner, limits)
            }
            Err(error) => ScrubbedFile::new(below_log(name), 0, "").found(
                FlawKind::Damaged,
                0,
                format!("it cannot be read: {error}"),
                "the node does not start with this file",
            ),
        }
    };
    others.into_iter().map(file).collect()
}

/// The segment that is prepared ahead. It holds nothing that counts.
fn spare_file(
    (name, number): (&str, u32),
    content: &[u8],
    (cluster, node): (ClusterId, NodeId),
    limits: &StorageLimits,
) -> ScrubbedFile {
    let owner = Owner::new(cluster, node);
    let mut file = ScrubbedFile::new(
        below_log(name),
        content.len() as u64,
        format!("segment {number}, prepared and not begun"),
    );
    let means = "it holds nothing that counts: the next start makes another one";
    if content.len() as u64 != limits.segment_bytes {
        let what = format!("it has not the {} bytes of a segment", limits.segment_bytes);
        file.find(FlawKind::Leftover, content.len() as u64, what, means);
    }
    let start = segment::data_start(limits.page_bytes) as usize;
    let sectors = content.chunks_exact(SECTOR_BYTES).enumerate();
    let mut wrong = sectors
        .map(|(index, sector)| ((index * SECTOR_BYTES) as u64, sector))
        .filter(|(at, sector)| {
            *at >= start as u64 && owner.examine(sector, *at) == SectorFound::Wrong
        });
    if let Some((at, _)) = wrong.next() {
        let count = 1 + wrong.count();
        let what = format!("{count} sectors are not as they were written");
        file.find(FlawKind::Damaged, at, what, means);
    }
    file
}
