//! `quorate verify`: scrubs the data directory of a node that does not run, or those of a whole group.
//!
//! It only shows what the node's and the storage's scrubs find, and says with its exit code whether all is sound.

use crate::backup::{head_json, head_rows};
use crate::backup_read::read_backup;
use crate::error::{CliError, code};
use crate::late_progress::LateProgress;
use crate::print;
use crate::table::table;
use clap::Args;
use quorate_node::{
    NodeError, StartsAs, VerifiedNode, is_node_directory, nodes_of, verify_group, verify_node,
};
use quorate_storage::{Flaw, FlawKind, ScrubbedFile, StorageError};
use quorate_types::NodeId;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Read all that a stopped node, a stopped group or a backup has on its disk, and say whether it is sound. Nothing is changed.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct VerifyArgs {
    /// A node's data directory, the directory of a group that `quorate up --dir` made, or a backup.
    path: PathBuf,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  all is sound; the torn tail of a write that a crash interrupted is
  1  something is damaged, missing or differs, or cannot be read
  2  usage
  3  there is no such directory or file, or no data directory in it
  7  a node runs there: stop it, or verify a copy";

pub(crate) fn run(args: &VerifyArgs, as_json: bool) -> Result<(), CliError> {
    let path = &args.path;
    let metadata = std::fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    if !metadata.is_dir() {
        return verify_backup(path, metadata.len(), as_json);
    }
    let nodes = verify(path)?;
    let report = Report { path, nodes };
    match as_json {
        true => print::line(report.json())?,
        false => print::line(report.text().trim_end())?,
    }
    report.verdict()
}

/// A backup is sound as a whole or not at all.
fn verify_backup(path: &Path, bytes: u64, as_json: bool) -> Result<(), CliError> {
    let mut progress = LateProgress::over(bytes);
    let read = read_backup(path, &mut |bytes| progress.add(bytes))?;
    drop(progress);
    let sound = read.content.as_ref();
    if as_json {
        let mut line = match sound {
            Some(backup) => head_json(&backup.whole.head, &backup.about),
            None => json!({}),
        };
        line["path"] = json!(path);
        line["sound"] = json!(sound.is_some());
        line["files"] = json!([file_json(&read.file)]);
        print::line(line)?;
    } else {
        let mut rows = vec![vec!["state".to_owned(), state(&read.file).to_owned()]];
        rows.extend(
            sound
                .iter()
                .flat_map(|backup| head_rows(&backup.whole.head, &backup.about)),
        );
        print::line(table(&["BACKUP", ""], &rows).trim_end())?;
    }
    match read.file.findings.first() {
        None => Ok(()),
        Some(finding) => {
            let text = finding_text(Path::new(""), &read.file, finding);
            Err(CliError::failed(text).advise("restore from another backup"))
        }
    }
}

fn verify(path: &Path) -> Result<Vec<VerifiedNode>, CliError> {
    let mut progress = LateProgress::over(bytes_below(path));
    let mut read = |bytes| progress.add(bytes);
    let is_group = !nodes_of(path)
        .map_err(|error| unreadable(path, &error))?
        .is_empty();
    let verified = if is_node_directory(path) {
        verify_node(path, &mut read).map(|node| vec![node])
    } else if is_group {
        verify_group(path, &mut read)
    } else {
        return Err(CliError::not_found(format!(
            "{} holds no data directory of a node, nor those of a group",
            path.display()
        ))
        .advise("name the --dir of `quorate node init` or of `quorate up`"));
    };
    verified.map_err(|error| match &error {
        NodeError::Storage(StorageError::Locked { .. }) => CliError::conflict(format!(
            "{error}: what a running node has on its disk changes while it is read"
        ))
        .advise("stop the node first, or verify a copy of its directory"),
        _ => CliError::failed(error.to_string()),
    })
}

/// Refuses what may be a directory of nodes and cannot be looked into: nobody knows then that it holds none.
pub(crate) fn check_readable(path: &Path) -> Result<(), CliError> {
    use std::io::ErrorKind;
    match std::fs::read_dir(path) {
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Err(unreadable(path, &error))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> CliError {
    let text = format!("{}: {error}", path.display());
    match error.kind() {
        std::io::ErrorKind::NotFound => CliError::not_found(text)
            .advise("name the --dir of `quorate node init` or of `quorate up`"),
        _ => CliError::failed(text),
    }
}

/// Bytes of all files of nodes below `path`, for the progress only: what cannot be counted counts as nothing.
pub(crate) fn bytes_below(path: &Path) -> u64 {
    const DEPTH_MAX: usize = 3;
    fn count(path: &Path, depth: usize) -> u64 {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        let bytes = entries.map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth < DEPTH_MAX => count(&entry.path(), depth + 1),
            Ok(kind) if kind.is_file() => entry.metadata().map_or(0, |metadata| metadata.len()),
            Ok(_) | Err(_) => 0,
        });
        bytes.sum()
    }
    count(path, 1)
}

/// What was found, for people and for scripts.
struct Report<'a> {
    path: &'a Path,
    nodes: Vec<VerifiedNode>,
}

impl Report<'_> {
    fn is_sound(&self) -> bool {
        self.nodes.iter().all(VerifiedNode::is_sound)
    }

    fn text(&self) -> String {
        let nodes: Vec<String> = self.nodes.iter().map(node_text).collect();
        nodes.join("\n")
    }

    fn json(&self) -> Value {
        let nodes: Vec<Value> = self.nodes.iter().map(node_json).collect();
        json!({"path": self.path, "sound": self.is_sound(), "nodes": nodes})
    }

    /// The exit code, and the first thing that is wrong.
    fn verdict(&self) -> Result<(), CliError> {
        let Some(node) = self.nodes.iter().find(|node| !node.is_sound()) else {
            return Ok(());
        };
        let files = self.nodes.iter().flat_map(|node| &node.files);
        let unsound = files.filter(|file| !file.is_sound()).count();
        let first = (node.files.iter()).find_map(|file| {
            let mut findings = file.findings.iter();
            let worst = findings.find(|finding| !finding.kind.is_normal())?;
            Some(format!("{}; ", finding_text(&node.dir, file, worst)))
        });
        let count = match unsound {
            0 => String::new(),
            1 => "1 file is not sound: ".to_owned(),
            count => format!("{count} files are not sound: "),
        };
        let text = format!("{count}{}{}", first.unwrap_or_default(), start_of(node));
        let to_do = match &node.start {
            StartsAs::Voter { .. } => {
                "the node makes good what it can by itself when it starts, as long as a majority of the \
                others is sound; replace the disk that damaged the files"
            }
            StartsAs::Removed { .. } => "nothing: the group goes on without this node",
            StartsAs::Observer { to_do, .. } | StartsAs::Refused { to_do, .. } => to_do,
        };
        Err(CliError::with_code(code::FAILED, text).advise(to_do))
    }
}

fn state(file: &ScrubbedFile) -> &'static str {
    match file.worst() {
        None => "sound",
        Some(kind) => kind_name(kind),
    }
}

fn kind_name(kind: FlawKind) -> &'static str {
    match kind {
        FlawKind::Leftover => "leftover",
        FlawKind::Torn => "torn",
        FlawKind::Noted => "noted",
        FlawKind::Damaged => "damaged",
        FlawKind::Missing => "missing",
    }
}

fn finding_text(dir: &Path, file: &ScrubbedFile, finding: &Flaw) -> String {
    let place = dir.join(&file.name);
    print::word(&format!(
        "{} at byte {}: {}; {}",
        place.display(),
        finding.offset,
        finding.what,
        finding.means
    ))
}

fn start_of(node: &VerifiedNode) -> String {
    start_text(node.identity.map(|identity| identity.node), &node.start)
}

/// As what the node would start.
pub(crate) fn start_text(node: Option<NodeId>, start: &StartsAs) -> String {
    let who = match node {
        Some(node) => format!("node {}", node.0),
        None => "this node".to_owned(),
    };
    match start {
        StartsAs::Voter { first } if first.is_empty() => format!("{who} would start as a voter"),
        StartsAs::Voter { first } => {
            format!(
                "{who} would start as a voter, and first: {}",
                first.join("; ")
            )
        }
        StartsAs::Observer { why, to_do } => {
            format!("{who} would start as an observer, without a vote: {why}; {to_do}")
        }
        StartsAs::Removed { view } => {
            format!("{who} would not start: it was removed from the group in view {view}")
        }
        StartsAs::Refused { why, to_do } => format!("{who} would not start: {why}; {to_do}"),
    }
}

fn node_text(node: &VerifiedNode) -> String {
    let row = |file: &ScrubbedFile| {
        vec![
            file.name.clone(),
            file.bytes.to_string(),
            state(file).to_owned(),
            file.holds.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = node.files.iter().map(row).collect();
    let line = format!("{}: {}", node.dir.display(), start_of(node));
    let mut text = format!("{}\n", print::word(&line));
    text.push_str(&table(&["FILE", "BYTES", "STATE", "HOLDS"], &rows));
    for file in &node.files {
        for finding in &file.findings {
            let line = finding_text(&node.dir, file, finding);
            text.push_str(&format!("{}: {line}\n", kind_name(finding.kind)));
        }
    }
    text
}

fn node_json(node: &VerifiedNode) -> Value {
    let files: Vec<Value> = node.files.iter().map(file_json).collect();
    let mut line = json!({"dir": node.dir, "sound": node.is_sound(), "files": files});
    if let Some(identity) = &node.identity {
        line["cluster"] = json!(format!("{:016x}", identity.cluster.0));
        line["node"] = json!(identity.node.0);
        line["incarnation"] = json!(format!("{:016x}", identity.incarnation.0));
        line["boot"] = json!(identity.boot);
    }
    line["start"] = start_json(&node.start);
    line
}

/// The same for scripts.
pub(crate) fn start_json(start: &StartsAs) -> Value {
    match start {
        StartsAs::Voter { first } => json!({"as": "voter", "first": first}),
        StartsAs::Observer { why, to_do } => json!({"as": "observer", "why": why, "to_do": to_do}),
        StartsAs::Removed { view } => json!({"as": "removed", "view": view}),
        StartsAs::Refused { why, to_do } => json!({"as": "refused", "why": why, "to_do": to_do}),
    }
}

fn file_json(file: &ScrubbedFile) -> Value {
    let finding = |finding: &Flaw| {
        json!({
            "kind": kind_name(finding.kind), "offset": finding.offset, "what": finding.what,
            "means": finding.means,
        })
    };
    let findings: Vec<Value> = file.findings.iter().map(finding).collect();
    json!({
        "file": file.name, "bytes": file.bytes, "state": state(file), "holds": file.holds, "findings": findings,
    })
}
