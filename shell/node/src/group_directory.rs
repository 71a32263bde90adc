//! The directory of a node of another group, inside the one of the first group's node: made once, found at each start, and removed
//! when the group is dropped.
//!
//! ```text
//! groups/orders@1043/   the node of the group `orders`, created in slot 1043 of the first group
//! made/orders@1043      it was made here once: a directory that is gone has lost votes
//! ```

use crate::group_setup::GroupSetup;
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
        if let Some((name, created)) = entry.file_name().to_str().and_then(parsed) {
            found.push(GroupDirectory {
                first: first.to_owned(),
                name: name.to_owned(),
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
    pub(crate) fn of(first: &Path, group: &GroupEntry, is_whole: bool) -> GroupDirectory {
        GroupDirectory {
            first: first.to_owned(),
            name: group.name.clone(),
            created: group.created,
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
        let path = self.path();
        let Some(MadeOf { group, is_whole }) = self.made_of.as_ref().filter(|_| !path.exists())
        else {
            return Ok(());
        };
        let setup = GroupSetup::of_bytes(&group.setup).map_err(NodeError::Unreadable)?;
        let config = setup.configure(first, group, path.clone())?;
        let draft = path.with_file_name(format!(".{}", self.file_name()));
        let made = self.made();
        let refused = |error| NodeError::System("cannot make the directory of a group", error);
        fs::create_dir_all(self.first.join(GROUPS)).map_err(refused)?;
        fs::create_dir_all(self.first.join(MADE)).map_err(refused)?;
        if *is_whole && !made.exists() {
            // What an interrupted one left has never voted.
            removed(&draft).map_err(refused)?;
            let own = config.own_member().expect("it is checked").member();
            fs::create_dir(&draft).map_err(refused)?;
            let persist = config.persist.as_storage();
            Identity::init(
                &draft,
                config.cluster_id(),
                own.node,
                own.incarnation,
                persist,
            )?;
            written(&draft, &config).map_err(refused)?;
            noted(&made).map_err(refused)?;
        } else if !(made.exists() && draft.join("node.toml").exists()) {
            tracing::warn!(
                group = self.name,
                "this node may have voted in the group before: it comes back as another incarnation"
            );
            removed(&draft).map_err(refused)?;
            fs::create_dir(&draft).map_err(refused)?;
            let own = config.own_member().expect("it is checked").member();
            let persist = config.persist.as_storage();
            Identity::remake(
                &draft,
                config.cluster_id(),
                own.node,
                own.incarnation,
                persist,
            )?;
            written(&draft, &config).map_err(refused)?;
            noted(&made).map_err(refused)?;
        }
        fs::rename(&draft, &path).map_err(refused)?;
        synced(&self.first.join(GROUPS)).map_err(refused)
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

fn written(directory: &Path, config: &NodeConfig) -> io::Result<()> {
    let path = directory.join("node.toml");
    let fresh = directory.join("node.toml.new");
    fs::write(&fresh, config.to_toml())?;
    File::open(&fresh)?.sync_all()?;
    fs::rename(&fresh, &path)?;
    synced(directory)
}

fn noted(path: &Path) -> io::Result<()> {
    File::create(path)?.sync_all()?;
    path.parent().map_or(Ok(()), synced)
}

fn synced(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
