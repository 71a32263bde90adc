//! A backup: one file that holds an agreed snapshot of a group, and what a new group needs to go on from it.
//!
//! A head of one sector, then what is said about the group, padded to whole sectors, then the snapshot as nodes send it. Every byte
//! is covered by a hash in the head. It knows nothing of what the snapshot's front says. Written by `quorate backup`, read by
//! `quorate verify` and `quorate restore`. Byte layout: docs/storage.md.

use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use bytes::Bytes;
use quorate_types::{ClusterId, Digest, GroupId, PartsCheck, Slot};

use crate::disk::DiskFile;
use crate::limits::{BACKUP_ABOUT_MAX, BACKUP_FRONT_MAX, SECTOR_BYTES};
use crate::read_only::ReadOnlyFile;
use crate::scrub::{FlawKind, ScrubbedFile};
use crate::scrub_snapshot::{WholeBody, body};
use crate::sector::{round_up, u32_at, u64_at};
use crate::snapshot_body::BodySize;

const MAGIC: &[u8; 8] = b"QUORBAK1";

/// What the magic of every version begins with.
const MAGIC_ANY: &[u8; 7] = b"QUORBAK";

/// What a backup says of its snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupHead {
    /// The cluster that it was taken of.
    pub cluster: ClusterId,
    /// The group.
    pub group: GroupId,
    /// The last slot whose effects it holds.
    pub slot: Slot,
    /// What a majority agreed on there.
    pub digest: Digest,
    /// Bytes of the snapshot.
    pub size: BodySize,
}

/// Why a backup cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The file cannot be written: make room, or name another place.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// What came is not what was agreed on: take the backup again, from another node.
    #[error("{0}")]
    Wrong(String),
}

/// A backup that is being written, front to back, and compared with what was agreed on the way.
#[derive(Debug)]
pub struct BackupWriter<W> {
    out: W,
    head: BackupHead,
    about: AboutHead,
    front_hash: blake3::Hasher,
    /// In memory, as far as it has come.
    front: Vec<u8>,
    rest: PartsCheck,
    taken: u64,
}

/// Length and hash of what is said about the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AboutHead {
    bytes: u64,
    hash: [u8; 32],
}

impl<W: Write + Seek> BackupWriter<W> {
    /// Begins a backup in `out`, which is empty.
    ///
    /// # Errors
    /// When `out` cannot be written, or the backup would have a size that no group has.
    pub fn begin(
        mut out: W,
        head: BackupHead,
        about: &[u8],
    ) -> Result<BackupWriter<W>, BackupError> {
        if head.size.front > head.size.whole.min(BACKUP_FRONT_MAX) || about.len() > BACKUP_ABOUT_MAX
        {
            return Err(BackupError::Wrong(
                "the node offers a snapshot of a size that none has".to_owned(),
            ));
        }
        let mut before = vec![0; body_at(about.len() as u64) as usize];
        before[SECTOR_BYTES..SECTOR_BYTES + about.len()].copy_from_slice(about);
        out.write_all(&before)?;
        Ok(BackupWriter {
            out,
            head,
            about: AboutHead {
                bytes: about.len() as u64,
                hash: *blake3::hash(about).as_bytes(),
            },
            front_hash: blake3::Hasher::new(),
            front: Vec::new(),
            rest: PartsCheck::default(),
            taken: 0,
        })
    }

    /// Bytes of the snapshot that have come.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// The front of the snapshot, once all of it has come.
    pub fn front(&self) -> Option<Bytes> {
        let is_whole = self.front.len() as u64 == self.head.size.front;
        is_whole.then(|| Bytes::copy_from_slice(&self.front))
    }

    /// Takes the next bytes of the snapshot.
    ///
    /// # Errors
    /// When they cannot be written, or cannot be part of what was agreed on.
    pub fn take(&mut self, piece: &[u8]) -> Result<(), BackupError> {
        let BodySize { front, whole } = self.head.size;
        if piece.len() as u64 > whole - self.taken {
            return Err(BackupError::Wrong(
                "it has more bytes than was said".to_owned(),
            ));
        }
        self.out.write_all(piece)?;
        let left = front.saturating_sub(self.taken).min(piece.len() as u64) as usize;
        let (of_front, rest) = piece.split_at(left);
        self.front_hash.update(of_front);
        self.front.extend_from_slice(of_front);
        self.rest.update(rest);
        self.taken += piece.len() as u64;
        match self.rest.wrong_at() {
            Some(at) => Err(BackupError::Wrong(format!(
                "a part of it, at byte {}, is not what its list of parts says",
                front + at
            ))),
            None => Ok(()),
        }
    }

    /// Ends the backup: all has come, and its state has the digest that was agreed on. Nothing is durable yet.
    ///
    /// # Errors
    /// When it cannot be written, or is not what was agreed on.
    pub fn finish(mut self) -> Result<W, BackupError> {
        let is_whole = self.taken == self.head.size.whole;
        if !is_whole || self.rest.digest() != Some(self.head.digest.state) {
            return Err(BackupError::Wrong(
                "its state has not the digest that a majority agreed on".to_owned(),
            ));
        }
        let hash = *self.front_hash.finalize().as_bytes();
        self.out.seek(SeekFrom::Start(0))?;
        self.out
            .write_all(&encode(&self.head, &hash, &self.about))?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Where the snapshot begins in the file.
fn body_at(about: u64) -> u64 {
    SECTOR_BYTES as u64 + round_up(about, SECTOR_BYTES as u64)
}

fn encode(head: &BackupHead, hash: &[u8; 32], about: &AboutHead) -> Vec<u8> {
    let mut out = vec![0; SECTOR_BYTES];
    out[4..12].copy_from_slice(MAGIC);
    out[12..16].copy_from_slice(&head.group.0.to_le_bytes());
    out[16..24].copy_from_slice(&head.cluster.0.to_le_bytes());
    out[24..32].copy_from_slice(&head.slot.0.to_le_bytes());
    out[32..40].copy_from_slice(&head.size.whole.to_le_bytes());
    out[40..48].copy_from_slice(&head.size.front.to_le_bytes());
    out[48..80].copy_from_slice(&head.digest.state);
    out[80..112].copy_from_slice(hash);
    out[112..120].copy_from_slice(&head.digest.replicated.to_le_bytes());
    out[120..128].copy_from_slice(&about.bytes.to_le_bytes());
    out[128..160].copy_from_slice(&about.hash);
    let checksum = crc32c::crc32c(&out[4..]);
    out[0..4].copy_from_slice(&checksum.to_le_bytes());
    out
}

fn decode(sector: &[u8]) -> Option<(BackupHead, [u8; 32], AboutHead)> {
    let is_right =
        sector[4..].starts_with(MAGIC) && u32_at(sector, 0) == crc32c::crc32c(&sector[4..]);
    let hash = |at: usize| sector[at..at + 32].try_into().expect("32 bytes");
    let size = BodySize {
        front: u64_at(sector, 40),
        whole: u64_at(sector, 32),
    };
    let about = AboutHead {
        bytes: u64_at(sector, 120),
        hash: hash(128),
    };
    let is_possible = size.front <= size.whole.min(BACKUP_FRONT_MAX)
        && size.whole < u64::MAX / 2
        && about.bytes <= BACKUP_ABOUT_MAX as u64;
    let head = BackupHead {
        group: GroupId(u32_at(sector, 12)),
        cluster: ClusterId(u64_at(sector, 16)),
        slot: Slot(u64_at(sector, 24)),
        digest: Digest {
            replicated: u64_at(sector, 112),
            state: hash(48),
        },
        size,
    };
    (is_right && is_possible).then(|| (head, hash(80), about))
}

/// A file that should be a backup.
#[derive(Debug)]
pub struct BackupScrub {
    /// The file, by its path, and what is wrong with it.
    pub file: ScrubbedFile,
    /// What it holds, if all of it is as it was written.
    pub backup: Option<WholeBackup>,
}

/// A backup whose bytes are as they were written.
#[derive(Debug)]
pub struct WholeBackup {
    /// What it says of its snapshot.
    pub head: BackupHead,
    /// What is said about the group.
    pub about: Bytes,
    /// The snapshot.
    pub body: WholeBody,
}

/// Reads a backup through. `read` is told how many bytes were read.
///
/// # Errors
/// When the file cannot be opened.
pub fn scrub_backup(path: &Path, read: &mut dyn FnMut(u64)) -> io::Result<BackupScrub> {
    let mut opened = ReadOnlyFile::open(path)?;
    opened.distrust_cache()?;
    let bytes = opened.bytes()?;
    let mut file = ScrubbedFile::new(path.display().to_string(), bytes, "");
    let backup = match whole(opened, bytes, read) {
        Ok(backup) => Some(backup),
        Err((offset, what)) => {
            file.find(
                FlawKind::Damaged,
                offset,
                what,
                "no group can be restored from it",
            );
            None
        }
    };
    Ok(BackupScrub { file, backup })
}

fn whole(
    file: ReadOnlyFile,
    bytes: u64,
    read: &mut dyn FnMut(u64),
) -> Result<WholeBackup, (u64, String)> {
    let fail = |at: u64, what: &str| Err((at, what.to_owned()));
    let unreadable = |at: u64| move |error: io::Error| (at, format!("it cannot be read: {error}"));
    let mut sector = vec![0; SECTOR_BYTES];
    if bytes < SECTOR_BYTES as u64 {
        return fail(bytes, "it is no backup, or it is cut before its head ends");
    }
    file.read_at(0, &mut sector).map_err(unreadable(0))?;
    let Some((head, hash, about_head)) = decode(&sector) else {
        return match &sector[4..12] {
            magic if magic == MAGIC => fail(0, "the checksum of its head is wrong"),
            magic if magic.starts_with(MAGIC_ANY) => fail(
                4,
                "it is of another version, which this program does not read: use the program that wrote it, or a newer one",
            ),
            _ => fail(0, "it is no backup"),
        };
    };
    let begins = body_at(about_head.bytes);
    let end = begins + head.size.whole;
    if bytes < end {
        let what = format!("it is cut: {} bytes of {end} are missing", end - bytes);
        return Err((bytes, what));
    }
    if bytes > end {
        return fail(end, "it goes on after its end");
    }
    let mut about = vec![0; (begins - SECTOR_BYTES as u64) as usize];
    let about_at = SECTOR_BYTES as u64;
    file.read_at(about_at, &mut about)
        .map_err(unreadable(about_at))?;
    read(begins);
    let padding = about.split_off(about_head.bytes as usize);
    if *blake3::hash(&about).as_bytes() != about_head.hash || padding.iter().any(|byte| *byte != 0)
    {
        return fail(
            about_at,
            "what it says about the group has not the hash that its head says",
        );
    }
    let front = body(&file, begins, (head.size, &hash, &head.digest.state), read)?;
    Ok(WholeBackup {
        head,
        about: about.into(),
        body: WholeBody::new(file, begins, front, &head),
    })
}
