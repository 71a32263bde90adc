//! What a scrub says of the files of a data directory, and the scrub of its small files that stand twice.
//!
//! A scrub reads everything and changes nothing. It judges with the code that a start judges with, and says more: where damage is
//! that costs nothing, which file is missing, and what is only the tail of an interrupted write. Called by `quorate verify`.

use crate::copies::Copies;
use crate::disk::{Disk, read_whole};
use crate::error::StorageError;
use crate::identity::{self, Identity};
use crate::peer_memory;
use crate::read_only::{ReadOnlyDirectory, ReadOnlyFile};

/// One file of a data directory, and what was found in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrubbedFile {
    /// Its path below the data directory.
    pub name: String,
    /// Its length; 0 if it is missing.
    pub bytes: u64,
    /// What it holds, in a few words.
    pub holds: String,
    /// What is wrong with it, by place.
    pub findings: Vec<Flaw>,
}

/// Something in a file that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// What to think of it.
    pub kind: FlawKind,
    /// The byte of the file at which it begins.
    pub offset: u64,
    /// What was found.
    pub what: String,
    /// What it means to the node.
    pub means: String,
}

/// What to think of a finding. The later ones outweigh the earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlawKind {
    /// An interrupted removal or an unfinished file, which the next start removes: normal after a crash.
    Leftover,
    /// An interrupted write at the end of the log, which nobody was told of: normal after a crash.
    Torn,
    /// Not damaged, but it says that the objects or the votes of this node are not to be relied on.
    Noted,
    /// Not as it was written.
    Damaged,
    /// It should be there.
    Missing,
}

impl FlawKind {
    /// Whether it is what a crash leaves.
    pub fn is_normal(self) -> bool {
        match self {
            FlawKind::Leftover | FlawKind::Torn => true,
            FlawKind::Noted | FlawKind::Damaged | FlawKind::Missing => false,
        }
    }
}

impl ScrubbedFile {
    /// A file in which nothing is wrong so far.
    pub fn new(name: impl Into<String>, bytes: u64, holds: impl Into<String>) -> ScrubbedFile {
        ScrubbedFile {
            name: name.into(),
            bytes,
            holds: holds.into(),
            findings: Vec::new(),
        }
    }

    /// Adds a finding.
    pub fn find(
        &mut self,
        kind: FlawKind,
        offset: u64,
        what: impl Into<String>,
        means: impl Into<String>,
    ) {
        self.findings.push(Flaw {
            kind,
            offset,
            what: what.into(),
            means: means.into(),
        });
    }

    /// The same with a finding.
    pub(crate) fn found(
        mut self,
        kind: FlawKind,
        offset: u64,
        what: impl Into<String>,
        means: impl Into<String>,
    ) -> ScrubbedFile {
        self.find(kind, offset, what, means);
        self
    }

    /// The worst finding's kind; `None` for a sound file.
    pub fn worst(&self) -> Option<FlawKind> {
        self.findings.iter().map(|finding| finding.kind).max()
    }

    /// Whether nothing is wrong but what a crash leaves.
    pub fn is_sound(&self) -> bool {
        self.worst().is_none_or(FlawKind::is_normal)
    }
}

/// The identity: what its files hold, and what a start would take from them.
pub fn scrub_identity(
    disk: &ReadOnlyDirectory,
) -> (Vec<ScrubbedFile>, Result<Identity, StorageError>) {
    let loaded = Identity::load(disk);
    let means = match &loaded {
        Ok(_) => "the other copy counts, and the next start writes this one anew",
        Err(StorageError::Layout(_)) => "start with the program that wrote it",
        Err(_) => {
            "no copy is whole: what this node promised is unknown, so it may not vote with this directory any more"
        }
    };
    let describe = |content: &[u8]| {
        let (_, identity) = identity::decode(content)?;
        Some(format!(
            "node {} of cluster {:016x}, incarnation {:016x}, boot {}",
            identity.node.0, identity.cluster.0, identity.incarnation.0, identity.boot
        ))
    };
    let files = scrub_copies(disk, &identity::COPIES, describe, means);
    (files, loaded)
}

/// What is remembered of the peers.
pub fn scrub_peers(disk: &ReadOnlyDirectory) -> Vec<ScrubbedFile> {
    let describe = |content: &[u8]| Some(format!("{} peers", peer_memory::read(content)?.len()));
    let means = "the node goes on with the other copy, or without what it knew of its peers";
    let mut files = scrub_copies(disk, &peer_memory::COPIES, describe, means);
    // A node that has met no peer has none.
    files.retain(|file| file.worst() != Some(FlawKind::Missing));
    files
}

fn scrub_copies(
    disk: &ReadOnlyDirectory,
    copies: &Copies,
    describe: impl Fn(&[u8]) -> Option<String>,
    means: &str,
) -> Vec<ScrubbedFile> {
    let mut files = Vec::new();
    for name in copies.names {
        let content = disk
            .open(name)
            .and_then(|mut file: ReadOnlyFile| read_whole(&mut file));
        files.push(match content {
            Ok(content) => {
                let bytes = content.len() as u64;
                match (copies.version)(&content).and_then(|_| describe(&content)) {
                    Some(holds) => ScrubbedFile::new(name, bytes, holds),
                    None => ScrubbedFile::new(name, bytes, "").found(
                        FlawKind::Damaged,
                        0,
                        "its checksum is wrong",
                        means,
                    ),
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                ScrubbedFile::new(name, 0, "").found(FlawKind::Missing, 0, "it is not here", means)
            }
            Err(error) => ScrubbedFile::new(name, 0, "").found(
                FlawKind::Damaged,
                0,
                format!("it cannot be read: {error}"),
                means,
            ),
        });
    }
    if disk.open(copies.new).is_ok() {
        files.push(leftover(copies.new));
    }
    files
}

/// A file that was being written when the node ended.
pub(crate) fn leftover(name: &str) -> ScrubbedFile {
    ScrubbedFile::new(name, 0, "").found(
        FlawKind::Leftover,
        0,
        "it was being written when the node ended",
        "it counts for nothing and is written over",
    )
}
