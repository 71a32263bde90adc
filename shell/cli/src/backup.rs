//! `quorate backup`: a group's agreed snapshot in one file, compared with what was agreed while it is written.
//!
//! The file appears whole or not at all. A node gives the snapshot piece by piece; where it ends, another one that holds the same
//! snapshot goes on.

use crate::backup_source::{BackupSource, PIECE_BYTES};
use crate::created;
use crate::error::CliError;
use crate::group::{GroupAccess, GroupArgs};
use crate::late_progress::LateProgress;
use crate::print;
use crate::seconds;
use crate::snapshot;
use crate::status;
use crate::table::table;
use crate::unfinished::Unfinished;
use clap::Args;
use quorate_node::{AboutGroup, BackupAbout, digest_text};
use quorate_storage::{BackupError, BackupHead, BackupWriter};
use quorate_types::{Slot, View};
use quorate_wire::SnapshotFront;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufWriter, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tempfile::NamedTempFile;

/// How long a node may take to say how it is.
const STATUS_MAX: Duration = Duration::from_secs(2);

/// Write a group's state, as a majority agreed on it at one slot, into a file. Clients do not notice.
///
/// The file holds everything that the group holds, and only its owner can read it. `quorate verify FILE` reads it through,
/// `quorate restore FILE` makes a new group of it.
#[derive(Args, Clone, Debug)]
pub(crate) struct BackupArgs {
    /// The file; it must not exist, else the exit code is 7.
    file: PathBuf,
    /// Take the newest snapshot that a majority holds, and have none taken.
    #[arg(long)]
    existing: bool,
    /// Seconds to wait until a majority holds a new snapshot, and for nodes that are busy. The copying takes as long as it takes.
    #[arg(long, default_value_t = 60.0, value_parser = seconds::span, allow_negative_numbers = true)]
    timeout: f64,
    #[command(flatten)]
    group: GroupArgs,
}

pub(crate) fn run(args: &BackupArgs, as_json: bool) -> Result<(), CliError> {
    let access = args.group.read()?;
    let timeout = seconds::duration(args.timeout);
    let (head, about) = write(&access, &args.file, args.existing, timeout)?;
    tell(&args.file, &head, &about, as_json)
}

/// Writes the backup of a group that runs.
pub(crate) fn write(
    access: &GroupAccess,
    file: &Path,
    is_existing: bool,
    timeout: Duration,
) -> Result<(BackupHead, BackupAbout), CliError> {
    let end = Instant::now() + timeout;
    let target = Target::make(file)?;
    let client = access.connect(timeout)?;
    let slot = match is_existing {
        true => newest(access)?,
        false => snapshot::take(access, &client, end)?,
    };
    let classes = created::classes(&client)?;
    drop(client);
    let mut source = BackupSource::of(
        (addresses(access)?, access.endpoint.group_id()),
        access.tls(),
        slot,
        end,
    )?;
    let mut about = about(&source, classes)?;
    let text = serde_json::to_vec(&about).expect("every field has a form in JSON");
    let head = source.head();
    let out = BufWriter::with_capacity(PIECE_BYTES as usize, target.file()?);
    let mut writer = BackupWriter::begin(out, head, &text).map_err(|error| target.failed(error))?;
    let mut progress = LateProgress::over(head.size.whole);
    let mut is_front_right = false;
    while writer.taken() < head.size.whole {
        let piece = source.piece(writer.taken())?;
        writer.take(&piece).map_err(|error| target.failed(error))?;
        progress.add(piece.len() as u64);
        if !is_front_right && let Some(front) = writer.front() {
            about.group.was_in(&view_of(&front, &head)?);
            is_front_right = true;
        }
    }
    drop(progress);
    let written = writer.finish().map_err(|error| target.failed(error))?;
    drop(written);
    target.publish()?;
    Ok((head, about))
}

/// The newest snapshot that a majority is known to hold.
fn newest(access: &GroupAccess) -> Result<Slot, CliError> {
    let document = status::of_group(&access.endpoint, STATUS_MAX, access.tls())?;
    let nodes = document["nodes"].as_array().into_iter().flatten();
    let stable = nodes.filter_map(|node| node["stable"].as_u64()).max();
    match stable.filter(|slot| *slot > 0) {
        Some(slot) => Ok(Slot(slot)),
        None => Err(CliError::not_found("the group has no snapshot yet")
            .advise("leave --existing out: the command then has one taken")),
    }
}

/// The view of the replicated state, which has the digest that was agreed on.
fn view_of(front: &bytes::Bytes, head: &BackupHead) -> Result<View, CliError> {
    let wrong = |what: String| {
        CliError::failed(format!("the node sent what no majority agreed on: {what}"))
            .advise("take the backup again; the node's log and `quorate status` say more")
    };
    let read = SnapshotFront::take(front).map_err(|error| wrong(error.to_string()))?;
    let found = (read.core.slot, read.core.digest());
    match found == (head.slot, head.digest.replicated) {
        true => Ok(read.core.view),
        false => Err(wrong(format!(
            "its sessions are not those of slot {}",
            head.slot.0
        ))),
    }
}

/// Where the nodes are, followers first: the leader has the most to do.
fn addresses(access: &GroupAccess) -> Result<Vec<String>, CliError> {
    let document = status::of_group(&access.endpoint, STATUS_MAX, access.tls())?;
    let leader = &document["leader"];
    let mut nodes: Vec<&Value> = document["nodes"].as_array().into_iter().flatten().collect();
    nodes.sort_by_key(|node| node["id"] == *leader);
    let address = |node: &&Value| node["address"].as_str().map(str::to_owned);
    Ok(nodes.iter().filter_map(address).collect())
}

fn about(source: &BackupSource<'_>, classes: Vec<String>) -> Result<BackupAbout, CliError> {
    let unreadable = |error: serde_json::Error| {
        CliError::failed(format!(
            "what the node says of its group cannot be read: {error}"
        ))
    };
    let group: AboutGroup = serde_json::from_slice(source.about()).map_err(unreadable)?;
    let own = group.objects.iter().map(|object| object.class.clone());
    let mut classes: Vec<String> = own.chain(classes).collect();
    classes.sort_unstable();
    classes.dedup();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    Ok(BackupAbout {
        group,
        classes,
        taken: now.map_or(0, |now| now.as_secs()),
    })
}

fn tell(
    file: &Path,
    head: &BackupHead,
    about: &BackupAbout,
    as_json: bool,
) -> Result<(), CliError> {
    let bytes = std::fs::metadata(file).map_or(0, |metadata| metadata.len());
    if as_json {
        let mut line = head_json(head, about);
        line["file"] = json!(file);
        line["bytes"] = json!(bytes);
        return print::line(line);
    }
    let mut rows = vec![
        vec!["file".to_owned(), file.display().to_string()],
        vec!["bytes".to_owned(), bytes.to_string()],
    ];
    rows.extend(head_rows(head, about));
    print::line(table(&["BACKUP", ""], &rows).trim_end())
}

/// What a backup's head says, for scripts.
pub(crate) fn head_json(head: &BackupHead, about: &BackupAbout) -> Value {
    json!({
        "cluster": format!("{:016x}", head.cluster.0), "group": head.group.0, "slot": head.slot.0,
        "digest": digest_text(&head.digest), "program": about.group.program, "taken": about.taken,
        "nodes": about.group.nodes, "code": about.group.code, "classes": about.classes,
        "objects": about.group.objects,
    })
}

/// The same for people.
pub(crate) fn head_rows(head: &BackupHead, about: &BackupAbout) -> Vec<Vec<String>> {
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    vec![
        row("cluster", format!("{:016x}", head.cluster.0)),
        row("slot", head.slot.0.to_string()),
        row("digest", digest_text(&head.digest)),
        row("taken", crate::moment::utc(about.taken as f64)),
        row("program", about.group.program.clone()),
        row("classes", about.classes.join(", ")),
    ]
}

/// The file that the backup becomes, under a name of its own until it is whole.
struct Target<'a> {
    path: &'a Path,
    fresh: NamedTempFile,
    unfinished: Unfinished,
}

impl Target<'_> {
    /// Before anything is asked of the group: what cannot be written is refused at once.
    fn make(path: &Path) -> Result<Target<'_>, CliError> {
        let shown = path.display();
        if path.symlink_metadata().is_ok() {
            return Err(
                CliError::conflict(format!("{shown} exists, and nothing was changed"))
                    .advise("name a file that does not exist, or move this one away"),
            );
        }
        let parent = directory_of(path);
        let made = tempfile::Builder::new()
            .prefix(".quorate-backup-")
            .tempfile_in(parent);
        let fresh = made.map_err(|error| {
            // What the system says names a file that nobody asked for.
            let said = match parent.is_dir() {
                true => error.to_string(),
                false => format!("there is no directory {}", parent.display()),
            };
            CliError::failed(format!("{shown} cannot be written: {said}"))
                .advise("name a file in a directory that exists and that this user may write to")
        })?;
        let unfinished = Unfinished::note(fresh.path());
        Ok(Target {
            path,
            fresh,
            unfinished,
        })
    }

    fn file(&self) -> Result<File, CliError> {
        self.fresh
            .reopen()
            .map_err(|error| self.failed(error.into()))
    }

    fn failed(&self, error: BackupError) -> CliError {
        let shown = self.path.display();
        match error {
            BackupError::Io(error) => {
                let is_full = matches!(
                    error.kind(),
                    ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
                );
                let told = CliError::failed(format!(
                    "{shown} cannot be written: {error}; nothing is left of it"
                ));
                match is_full {
                    true => told.advise("make room, or name a file on another disk"),
                    false => told,
                }
            }
            BackupError::Wrong(what) => {
                CliError::failed(format!("the node sent what no majority agreed on: {what}"))
                    .advise("take the backup again; the node's log and `quorate status` say more")
            }
        }
    }

    /// Makes the file durable, then gives it its name, which must still be free.
    fn publish(self) -> Result<(), CliError> {
        let path = self.path;
        let failed = |error: std::io::Error| {
            CliError::failed(format!("{} cannot be written: {error}", path.display()))
        };
        self.fresh.as_file().sync_all().map_err(failed)?;
        // The name under which it is noted stays another's.
        let named = self.fresh.persist_noclobber(path);
        drop(self.unfinished);
        named.map_err(|error| match error.error.kind() {
            ErrorKind::AlreadyExists => CliError::conflict(format!(
                "{} exists by now, and was left alone",
                path.display()
            )),
            _ => failed(error.error),
        })?;
        let synced = File::open(directory_of(path)).and_then(|directory| directory.sync_all());
        synced.map_err(failed)
    }
}

fn directory_of(path: &Path) -> &Path {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}
