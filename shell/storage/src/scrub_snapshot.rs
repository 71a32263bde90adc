//! The scrub of snapshots: the head, the length, the hash of the front, and every part against its list.
//!
//! Of a large snapshot little more than its front is in memory. It knows nothing of what the front says: who calls it reads that.

use bytes::Bytes;
use quorate_types::{ClusterId, GroupId, PartsCheck, Slot};

use crate::backup_file::BackupHead;
use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;
use crate::limits::{SECTOR_BYTES, SNAPSHOT_CHUNK_BYTES};
use crate::read_only::{ReadOnlyDirectory, ReadOnlyFile};
use crate::scrub::{FlawKind, ScrubbedFile, leftover};
use crate::snapshot::TEMPORARY;
use crate::snapshot_body::{BODY, BodySize};
use crate::snapshot_file::{FileHead, is_of_layout_before, parse};

/// A file among the snapshots.
#[derive(Debug)]
pub struct SnapshotScrub {
    /// The file and what is wrong with it.
    pub file: ScrubbedFile,
    /// What it holds, if all of it is as it was written.
    pub whole: Option<WholeBody>,
}

/// A snapshot whose bytes are as they were written.
#[derive(Debug)]
pub struct WholeBody {
    /// Its group.
    pub group: GroupId,
    /// The last slot whose effects it holds.
    pub slot: Slot,
    /// The digest of the state.
    pub digest: [u8; 32],
    /// All before the list of parts.
    pub front: Bytes,
    /// Bytes of the whole.
    pub bytes: u64,
    file: ReadOnlyFile,
    /// Where the snapshot begins in the file.
    begins: u64,
}

impl WholeBody {
    /// The snapshot of a backup, which begins at byte `begins` of the file.
    pub(crate) fn new(
        file: ReadOnlyFile,
        begins: u64,
        front: Bytes,
        head: &BackupHead,
    ) -> WholeBody {
        WholeBody {
            group: head.group,
            slot: head.slot,
            digest: head.digest.state,
            front,
            bytes: head.size.whole,
            file,
            begins,
        }
    }

    /// Where the snapshot begins in its file.
    pub fn begins(&self) -> u64 {
        self.begins
    }

    /// Fills `data` from byte `offset` of the snapshot.
    ///
    /// # Errors
    /// What the system says, also where the snapshot has fewer bytes.
    pub fn read(&self, offset: u64, data: &mut [u8]) -> std::io::Result<()> {
        self.file.read_at(self.begins + offset, data)
    }
}

/// Scrubs the snapshots of all groups, by name. `read` is told how many bytes were read.
pub fn scrub_snapshots(
    disk: &ReadOnlyDirectory,
    cluster: Option<ClusterId>,
    read: &mut dyn FnMut(u64),
) -> Result<Vec<SnapshotScrub>, StorageError> {
    let mut names = disk
        .list()
        .map_err(|error| StorageError::io(format!("list {}", disk.place("")), &error))?;
    names.sort_unstable();
    let scrubbed = names.iter().map(|name| {
        let shown = format!("snapshots/{name}");
        if let Some(place) = parse(name, "snap-") {
            return scrub_file(disk, name, place, cluster, read);
        }
        let file = if name.starts_with(TEMPORARY) {
            leftover(&shown)
        } else if parse(name, "part-").is_some() {
            part(disk, name, read)
        } else {
            ScrubbedFile::new(shown, 0, "not a file of snapshots")
        };
        SnapshotScrub { file, whole: None }
    });
    Ok(scrubbed.collect())
}

const MEANS: &str =
    "it counts for nothing: the node starts from another one, or fetches one from the others";

fn scrub_file(
    disk: &ReadOnlyDirectory,
    name: &str,
    (group, slot): (GroupId, Slot),
    cluster: Option<ClusterId>,
    read: &mut dyn FnMut(u64),
) -> SnapshotScrub {
    let mut file = ScrubbedFile::new(format!("snapshots/{name}"), 0, format!("slot {}", slot.0));
    let judged = disk
        .open(name)
        .map_err(|error| (0, format!("it cannot be read: {error}")))
        .and_then(|mut opened| {
            file.bytes = opened.bytes().unwrap_or(0);
            let head = head(&mut opened)?;
            let of_place = (head.group, head.slot);
            if cluster.is_some_and(|cluster| cluster != head.cluster) {
                let what = format!("it belongs to cluster {:016x}", head.cluster.0);
                return Err((16, what));
            }
            if of_place != (group, slot) {
                let what = format!("it holds slot {} of group {}", head.slot.0, head.group.0);
                return Err((12, what));
            }
            let front = body(&opened, BODY, (head.size, &head.hash, &head.digest), read)?;
            Ok((head, front, opened))
        });
    let whole = match judged {
        Ok((head, front, opened)) => Some(WholeBody {
            group,
            slot,
            digest: head.digest,
            front,
            bytes: head.size.whole,
            file: opened,
            begins: BODY,
        }),
        Err((offset, what)) => {
            file.find(FlawKind::Damaged, offset, what, MEANS);
            None
        }
    };
    SnapshotScrub { file, whole }
}

/// The head of a snapshot that is complete by its own word and by its length.
fn head(file: &mut ReadOnlyFile) -> Result<FileHead, (u64, String)> {
    let unreadable = |error: std::io::Error| (0, format!("it cannot be read: {error}"));
    file.distrust_cache().map_err(unreadable)?;
    let bytes = file.bytes().map_err(unreadable)?;
    let mut sector = vec![0; SECTOR_BYTES];
    if bytes < BODY {
        return Err((bytes, "it is cut: its head is not whole".to_owned()));
    }
    file.read_at(0, &mut sector).map_err(unreadable)?;
    let Some(head) = FileHead::decode(&sector) else {
        return Err(match is_of_layout_before(&sector) {
            true => (
                4,
                "it is of a layout before 3: start with the program that wrote it".to_owned(),
            ),
            false => (0, "the checksum of its head is wrong".to_owned()),
        });
    };
    let whole = BODY + head.size.whole;
    if bytes < whole {
        let what = format!("it is cut: {} bytes of {whole} are missing", whole - bytes);
        return Err((bytes, what));
    }
    if bytes > whole || head.received != head.size.whole {
        return Err((40, "its length is not what its head says".to_owned()));
    }
    Ok(head)
}

/// Reads a body that begins at `from` through, and returns its front. An error names a byte of the file.
pub(crate) fn body(
    file: &ReadOnlyFile,
    from: u64,
    (size, hash, digest): (BodySize, &[u8; 32], &[u8; 32]),
    read: &mut dyn FnMut(u64),
) -> Result<Bytes, (u64, String)> {
    let mut hasher = blake3::Hasher::new();
    let (mut front, mut parts) = (Vec::new(), PartsCheck::default());
    let mut part = Vec::new();
    let mut at = 0;
    while at < size.whole {
        let end = if at < size.front {
            size.front
        } else {
            size.whole
        };
        part.resize((end - at).min(SNAPSHOT_CHUNK_BYTES as u64) as usize, 0);
        file.read_at(from + at, &mut part)
            .map_err(|error| (from + at, format!("it cannot be read: {error}")))?;
        if at < size.front {
            hasher.update(&part);
            front.extend_from_slice(&part);
        } else {
            parts.update(&part);
        }
        at += part.len() as u64;
        read(part.len() as u64);
    }
    if hasher.finalize().as_bytes() != hash {
        return Err((from, "the hash of its front is wrong".to_owned()));
    }
    let list = from + size.front;
    if let Some(wrong) = parts.wrong_at() {
        return Err((
            list + wrong,
            "a part is not what the list of parts says".to_owned(),
        ));
    }
    if size.front < size.whole && parts.digest() != Some(*digest) {
        return Err((
            list,
            "the list of its parts has not the digest of its state".to_owned(),
        ));
    }
    Ok(front.into())
}

/// A snapshot that is being fetched.
fn part(disk: &ReadOnlyDirectory, name: &str, read: &mut dyn FnMut(u64)) -> ScrubbedFile {
    let mut sector = vec![0; SECTOR_BYTES];
    let opened = disk.open(name);
    let bytes = opened
        .as_ref()
        .ok()
        .and_then(|file| file.bytes().ok())
        .unwrap_or(0);
    let head = opened.and_then(|file| file.read_at(0, &mut sector));
    read(SECTOR_BYTES as u64);
    let file = |holds: String| ScrubbedFile::new(format!("snapshots/{name}"), bytes, holds);
    match head.ok().and_then(|()| FileHead::decode(&sector)) {
        Some(head) => file(format!(
            "slot {}, {} of {} bytes received",
            head.slot.0, head.received, head.size.whole
        )),
        None => file(String::new()).found(
            FlawKind::Leftover,
            0,
            "its head is not whole",
            "it is fetched anew from the beginning",
        ),
    }
}
