//! A backup that is read: its bytes, what its snapshot says, and what is said about its group.
//!
//! Called by `verify` and `restore`.

use crate::error::CliError;
use quorate_node::{BackupAbout, BodyContent, content_of};
use quorate_storage::{FlawKind, ScrubbedFile, WholeBackup, scrub_backup};
use std::path::Path;

/// A file that should be a backup.
pub(crate) struct ReadBackup {
    /// What is wrong with it.
    pub(crate) file: ScrubbedFile,
    /// What it holds, if nothing is wrong.
    pub(crate) content: Option<BackupContent>,
}

/// A backup that is as it was written.
pub(crate) struct BackupContent {
    pub(crate) whole: WholeBackup,
    pub(crate) about: BackupAbout,
}

/// Reads the backup at `path` through.
pub(crate) fn read_backup(path: &Path, read: &mut dyn FnMut(u64)) -> Result<ReadBackup, CliError> {
    let scrubbed = scrub_backup(path, read).map_err(|error| {
        let text = format!("{}: {error}", path.display());
        match error.kind() {
            std::io::ErrorKind::NotFound => CliError::not_found(text).advise("name a backup"),
            _ => CliError::failed(text),
        }
    })?;
    let mut file = scrubbed.file;
    let content = match scrubbed.backup.map(content) {
        Some(Ok(content)) => Some(content),
        Some(Err((offset, what))) => {
            let means = "the program that wrote it is newer, or had an error";
            file.find(FlawKind::Damaged, offset, what, means);
            None
        }
        None => None,
    };
    Ok(ReadBackup { file, content })
}

fn content(whole: WholeBackup) -> Result<BackupContent, (u64, String)> {
    let head = whole.head;
    let mut about: BackupAbout = serde_json::from_slice(&whole.about).map_err(|error| {
        (
            512,
            format!("what it says about the group cannot be read: {error}"),
        )
    })?;
    let body = &whole.body;
    let begins = body.begins();
    let content = content_of(&body.front, body.bytes, |at, data| body.read(at, data))
        .map_err(|(at, what)| (begins + at, what))?;
    let BodyContent { front, .. } = content;
    if (front.core.slot, front.core.digest()) != (head.slot, head.digest.replicated) {
        let what = format!("its sessions are not those of slot {}", head.slot.0);
        return Err((begins, what));
    }
    about.group.was_in(&front.core.view);
    Ok(BackupContent { whole, about })
}
