//! The directory of a node of another group, inside the one of the first group's node: made once, found at each start, and removed
//! when the group is dropped.
//!
//! ```text
//! groups/orders@1043/   the node of the group `orders`, which it serves since slot 1043 of the first group
//! made/orders@1043      its configuration: it was made here once, so a directory that is gone has lost votes
//! ```

use crate::group_setup::GroupSetup;
use crate::identify::put_aside;
use crate::{NodeConfig, NodeError};
use quorate_storage::Identity;
use quorate_types::{GroupChange, GroupEntry, Slot};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

const GROUPS: &str = "groups";
const MADE: &str = "made";

/// Where the node of one group is, and what it is made of where it is not there.
pub(crate) struct GroupDirectory {
    /// The directory of the first group's node.
    first: PathBuf,
    pub(crate) name: String,
    pub(crate) created: Slot,
    made_of: Option<MadeOf>,
}

struct MadeOf {
    group: GroupEntry,
    /// The node remembers all that it ever did in its cluster, so a directory that it did not note was never there.
    is_whole: bool,
}

/// Those that are there.
///
/// # Errors
/// When they cannot be listed.
pub(crate) fn found_in(first: &Path) -> Result<Vec<GroupDirectory>, NodeError> {
    let entries = match fs::read_dir(first.join(GROUPS)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(NodeError::System("cannot list the groups", error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| NodeError::System("cannot list the groups", error))?;
        let Some((name, created)) = entry
            .file_name()
            .to_str()
            .and_then(parsed)
            .map(|(name, created)| (name.to_owned(), created))
        else {
            continue;
        };
        // What was not made here is somebody else's.
        if first.join(MADE).join(entry.file_name()).exists() {
            found.push(GroupDirectory {
                first: first.to_owned(),
                name,
                created,
                made_of: None,
            });
        }
    }
    // Of two of one name the later one counts: the group before it was dropped.
    found.sort_by_key(|directory| directory.created);
    Ok(found)
}

/// A group's name and the slot in which it was created.
fn parsed(directory: &str) -> Option<(&str, Slot)> {
    let (name, slot) = directory.rsplit_once('@')?;
    GroupChange::is_name(name)
        .then_some(name)
        .zip(slot.parse().ok().map(Slot))
}

impl GroupDirectory {
    /// That of a node which serves the group since a slot of the first one.
    pub(crate) fn of(
        first: &Path,
        (group, since): (&GroupEntry, Slot),
        is_whole: bool,
    ) -> GroupDirectory {
        GroupDirectory {
            first: first.to_owned(),
            name: group.name.clone(),
            created: since,
            made_of: Some(MadeOf {
                group: group.clone(),
                is_whole,
            }),
        }
    }

    fn file_name(&self) -> String {
        format!("{}@{}", self.name, self.created.0)
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.first.join(GROUPS).join(self.file_name())
    }

    fn made(&self) -> PathBuf {
        self.first.join(MADE).join(self.file_name())
    }

    /// Makes it if it is not there. Whoever may have had it before and lost it comes back as a node that has lost its votes.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn make(&self, first: &NodeConfig) -> Result<(), NodeError> {
        let (path, made) = (self.path(), self.made());
        if path.join("node.toml").exists() {
            return Ok(());
        }
        let draft = path.with_file_name(format!(".{}", self.file_name()));
        let refused = |error| NodeError::System("cannot make the directory of a group", error);
        if made.exists() && !path.exists() && draft.join("node.toml").exists() {
            return placed(&draft, &path).map_err(refused);
        }
        if made.exists() {
            let config = NodeConfig::read(&made)?;
            let text = config.to_toml();
            let has = |name: &str| path.join(name).exists();
            if has("identity-a") || has("identity-b") {
                return written(&path.join("node.toml"), text.as_bytes()).map_err(refused);
            }
            if path.exists() {
                put_aside(&path).map_err(refused)?;
            }
            self.drafted(&draft, &config, false)?;
            written(&draft.join("node.toml"), text.as_bytes()).map_err(refused)?;
            return placed(&draft, &path).map_err(refused);
        }
        let Some(MadeOf { group, is_whole }) = &self.made_of else {
            return Err(NodeError::Unreadable(format!(
                "{}: nothing says what this group is",
                path.display()
            )));
        };
        let setup = GroupSetup::of_bytes(&group.setup).map_err(NodeError::Unreadable)?;
        let config = setup.configure(first, group, path.clone())?;
        self.drafted(&draft, &config, *is_whole)?;
        let text = config.to_toml();
        written(&draft.join("node.toml"), text.as_bytes()).map_err(refused)?;
        written(&made, text.as_bytes()).map_err(refused)?;
        placed(&draft, &path).map_err(refused)
    }

    /// Makes the data directory in a place where no start looks for it. What an interrupted one left has never voted.
    fn drafted(&self, draft: &Path, config: &NodeConfig, is_whole: bool) -> Result<(), NodeError> {
        let refused = |error| NodeError::System("cannot make the directory of a group", error);
        for folder in [GROUPS, MADE] {
            fs::create_dir_all(self.first.join(folder)).map_err(refused)?;
        }
        synced(&self.first).map_err(refused)?;
        removed(draft).map_err(refused)?;
        fs::create_dir(draft).map_err(refused)?;
        let own = config.own_member().expect("it is checked").member();
        let (cluster, persist) = (config.cluster_id(), config.persist.as_storage());
        if is_whole {
            Identity::init(draft, cluster, own.node, own.incarnation, persist)?;
        } else {
            tracing::warn!(
                "this node may have voted in the group before: it comes back as another incarnation"
            );
            Identity::remake(draft, cluster, own.node, own.incarnation, persist)?;
        }
        Ok(())
    }

    /// Removes it, whole or not at all for whoever starts next.
    pub(crate) fn remove(&self) -> io::Result<()> {
        let (path, draft) = (
            self.path(),
            self.path()
                .with_file_name(format!(".{}-dropped", self.file_name())),
        );
        removed(&draft)?;
        match fs::rename(&path, &draft) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
        synced(&self.first.join(GROUPS))?;
        removed(&draft)?;
        for entry in fs::read_dir(self.first.join(GROUPS))? {
            let entry = entry?;
            let aside = format!("{}-aside-", self.file_name());
            if entry.file_name().to_string_lossy().starts_with(&aside) {
                removed(&entry.path())?;
            }
        }
        match fs::remove_file(self.made()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

fn removed(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn written(path: &Path, text: &[u8]) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let fresh = path.with_file_name(format!("{name}.new"));
    fs::write(&fresh, text)?;
    File::open(&fresh)?.sync_all()?;
    fs::rename(&fresh, path)?;
    path.parent().map_or(Ok(()), synced)
}

fn placed(draft: &Path, path: &Path) -> io::Result<()> {
    fs::rename(draft, path)?;
    path.parent().map_or(Ok(()), synced)
}

fn synced(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
