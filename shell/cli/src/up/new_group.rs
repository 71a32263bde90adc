//! A group that is made without being started, so that its nodes can be given a state first.
//!
//! Called by `quorate restore` and `quorate recover`. The first node's configuration is written last: until then nothing in the directory starts.

use super::UpArgs;
use super::plan;
use super::ports::Ports;
use super::tls::ClientFiles;
use crate::directory;
use crate::error::CliError;
use crate::unfinished::Unfinished;
use quorate_client::TlsClient;
use quorate_node::{NodeConfig, ObjectConfig};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Directories and identities, without configurations.
pub(crate) struct NewGroup {
    /// As they will be written.
    pub(crate) configs: Vec<NodeConfig>,
    dir: PathBuf,
    /// The directory was not there before.
    is_dir_new: bool,
    has_certs: bool,
    unfinished: Vec<Unfinished>,
    _lock: File,
}

impl NewGroup {
    /// Makes the directories of `objects`' nodes.
    pub(crate) fn begin(args: &UpArgs, objects: &[ObjectConfig]) -> Result<NewGroup, CliError> {
        let wished = args.dir.as_ref().expect("the caller names one");
        let is_dir_new = wished.symlink_metadata().is_err();
        let ports = Ports::choose(args)?;
        let dir = directory::make(wished)?;
        let lock = plan::lock(&dir)?;
        NewGroup::refuse_used(&dir)?;
        // Certificates of the user's stay.
        let has_certs = args.tls && !dir.join("certs").exists();
        let mut group = NewGroup {
            configs: Vec::new(),
            dir,
            is_dir_new,
            has_certs,
            unfinished: Vec::new(),
            _lock: lock,
        };
        group.unfinished = group
            .made()
            .iter()
            .map(|path| Unfinished::note(path))
            .collect();
        match plan::new_configs(&group.dir, args, objects, &ports.pairs) {
            Ok(configs) => group.configs = configs,
            Err(error) => {
                group.give_up();
                return Err(error);
            }
        }
        Ok(group)
    }

    /// Refuses a directory that holds something.
    pub(crate) fn refuse_used(dir: &Path) -> Result<(), CliError> {
        if plan::config_path(dir, 1).exists() {
            return Err(CliError::conflict(format!(
                "{} holds a group already, and nothing was changed",
                dir.display()
            ))
            .advise("name a --dir that is empty or does not exist"));
        }
        directory::refuse_used(dir)
    }

    /// What its clients bring, if it has certificates.
    pub(crate) fn client(&self) -> Result<Arc<TlsClient>, CliError> {
        Ok(ClientFiles::of(&self.dir)?.client)
    }

    /// The nodes have what they are to start from.
    pub(crate) fn finish(mut self) -> Result<Vec<NodeConfig>, CliError> {
        match plan::write_configs(&self.dir, &self.configs) {
            Ok(()) => {
                self.unfinished.clear();
                Ok(self.configs)
            }
            Err(error) => {
                self.give_up();
                Err(error)
            }
        }
    }

    /// All that is made here, in the order in which it can be removed.
    fn made(&self) -> Vec<PathBuf> {
        let nodes = 1..=plan::NODES_MAX;
        let mut made: Vec<PathBuf> = nodes
            .flat_map(|node| {
                let config = plan::config_path(&self.dir, node);
                let beside = config.with_extension("toml.tmp");
                [self.dir.join(format!("node-{node}")), config, beside]
            })
            .collect();
        made.extend(self.has_certs.then(|| self.dir.join("certs")));
        made.extend(self.is_dir_new.then(|| self.dir.clone()));
        made
    }

    /// Removes what was made here. What cannot be removed is told.
    pub(crate) fn give_up(self) {
        for path in self.made() {
            let removed = match path.is_dir() {
                true => std::fs::remove_dir_all(&path),
                false if path.exists() => std::fs::remove_file(&path),
                false => Ok(()),
            };
            if let Err(error) = removed {
                eprintln!("quorate: {} cannot be removed: {error}", path.display());
            }
        }
    }
}
