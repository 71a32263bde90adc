//! `quorate restore`: a new group that goes on from a backup.
//!
//! It makes what `quorate up --dir` makes, and gives each node the backup's state. The group has an identity of its own: clients of
//! the old one are refused. It starts nothing.

use crate::backup::head_rows;
use crate::backup_read::{BackupContent, read_backup};
use crate::error::CliError;
use crate::late_progress::LateProgress;
use crate::print;
use crate::table::table;
use crate::up::{NewGroup, UpArgs};
use clap::Args;
use quorate_node::{
    BackupAbout, NodeConfig, NodeError, ObjectConfig, OtherCode, Restored, digest_text,
};
use quorate_storage::StorageError;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Make a new group of a backup, in a directory of its own. `quorate up` or `quorate node run` start it.
#[derive(Args, Clone, Debug)]
pub(crate) struct RestoreArgs {
    /// The backup.
    file: PathBuf,
    /// The new group's directory; it must be empty or not exist, else the exit code is 7.
    #[arg(long, env = "QUORATE_DIR")]
    dir: PathBuf,
    /// The number of nodes. Default: as many as the old group had.
    #[arg(long, env = "QUORATE_NODES", value_parser = clap::value_parser!(u16).range(1..=9), allow_negative_numbers = true)]
    nodes: Option<u16>,
    /// The first node's port; the others follow, and admin ports are 100 above. 0 picks free ports. Default: 7400.
    #[arg(long, env = "QUORATE_PORT", allow_negative_numbers = true)]
    port: Option<u16>,
    /// Make certificates in the group's directory; nodes and clients then speak TLS only.
    #[arg(long)]
    tls: bool,
    /// Go on with other code than the backup was taken with: from here on the new code executes.
    #[arg(long)]
    accept_code: bool,
    /// The Python interpreter of the host process. Default: `python3` beside this program or on PATH.
    #[arg(long, env = "QUORATE_PYTHON", value_name = "PATH")]
    python: Option<PathBuf>,
}

pub(crate) fn run(args: &RestoreArgs, as_json: bool) -> Result<(), CliError> {
    let backup = sound_backup(args)?;
    let about = &backup.about;
    let here = std::env::current_dir()
        .map_err(|error| CliError::failed(format!("no current directory: {error}")))?;
    let objects = about.group.objects.iter().map(|object| ObjectConfig {
        name: object.name.clone(),
        class: object.class.clone(),
        args: object.args.clone(),
        kwargs: object.kwargs.clone(),
        budget: object.budget,
        path: vec![here.clone()],
    });
    let objects: Vec<ObjectConfig> = objects.collect();
    let up = up_args(args, about)?;
    let mut group = NewGroup::begin(&up, &objects)?;
    for config in &mut group.configs {
        config.window = about.group.window;
    }
    let other = match args.accept_code {
        true => OtherCode::Accepted,
        false => OtherCode::Refused,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |since| since.as_secs());
    let (content, configs) = ((&backup.whole, &about.group), &group.configs);
    match quorate_node::restore(configs, content, other, now) {
        Ok(restored) => tell(args, &backup, (&group.finish()?, restored), as_json),
        Err(error) => {
            group.give_up();
            Err(refused(&error, about))
        }
    }
}

fn sound_backup(args: &RestoreArgs) -> Result<BackupContent, CliError> {
    let bytes = std::fs::metadata(&args.file).map_or(0, |metadata| metadata.len());
    let mut progress = LateProgress::over(bytes);
    let read = read_backup(&args.file, &mut |bytes| progress.add(bytes))?;
    match (read.content, read.file.findings.first()) {
        (Some(content), _) => Ok(content),
        (None, Some(flaw)) => Err(CliError::failed(format!(
            "{} at byte {}: {}; nothing was made",
            args.file.display(),
            flaw.offset,
            flaw.what
        ))
        .advise("restore from another backup")),
        (None, None) => Err(CliError::failed("the backup cannot be read")),
    }
}

/// What `quorate up` would be told to make such a group.
fn up_args(args: &RestoreArgs, about: &BackupAbout) -> Result<UpArgs, CliError> {
    let first = about.group.objects.first();
    let first = first.ok_or_else(|| CliError::failed("the backup names no object"))?;
    let nodes = u16::try_from(about.group.nodes).unwrap_or(9).clamp(1, 9);
    Ok(UpArgs {
        nodes: args.nodes.unwrap_or(nodes),
        dir: Some(args.dir.clone()),
        port: args.port,
        args: first.args.clone(),
        kwargs: first.kwargs.clone(),
        accept_code: args.accept_code,
        budget: Some(first.budget),
        allow: about.group.allow.clone(),
        python: args.python.clone(),
        tls: args.tls,
        ..UpArgs::of(&first.class)
    })
}

/// Why the group cannot be made. Nothing of it is left.
fn refused(error: &NodeError, about: &BackupAbout) -> CliError {
    let classes = about.classes.join(", ");
    match error {
        NodeError::OtherCode { changes, .. } => CliError::conflict(format!(
            "the objects' code is not the one that the backup was taken with: {changes}; nothing was made"
        ))
        .advise("install the code and the interpreter of the backup, or say --accept-code"),
        NodeError::Host(_) | NodeError::Unreadable(_) => {
            let told = CliError::node(error);
            let text = format!("{error}; nothing was made; the backup needs the classes {classes}");
            CliError::with_code(told.code, text).advise(
                "start it in the directory where the classes are, or name with --python the interpreter that has them",
            )
        }
        NodeError::Storage(StorageError::Full { .. }) => {
            CliError::failed(format!("{error}; nothing is left of the group")).advise("make room, or name another --dir")
        }
        other => CliError::node(other),
    }
}

fn tell(
    args: &RestoreArgs,
    backup: &BackupContent,
    (configs, restored): (&[NodeConfig], Restored),
    as_json: bool,
) -> Result<(), CliError> {
    let (head, about) = (&backup.whole.head, &backup.about);
    let cluster = format!("{:016x}", configs[0].cluster.0);
    let start = start_command(args, about, configs.len());
    if as_json {
        let nodes: Vec<Value> = configs
            .iter()
            .map(|config| json!({"id": config.node, "address": config.listen, "dir": config.dir}))
            .collect();
        return print::line(json!({
            "dir": args.dir, "cluster": cluster, "slot": restored.slot.0, "digest": digest_text(&restored.digest),
            "restored_cluster": format!("{:016x}", head.cluster.0), "restored_slot": head.slot.0,
            "restored_digest": digest_text(&head.digest), "classes": about.classes, "nodes": nodes, "start": start,
        }));
    }
    let backup = table(&["BACKUP", ""], &head_rows(head, about));
    print::line(format_args!(
        "{backup}\nrestored as cluster {cluster} in {}, which goes on after slot {}; start it with\n  {start}",
        args.dir.display(),
        restored.slot.0
    ))
}

/// How the group is started, as words of a shell.
fn start_command(args: &RestoreArgs, about: &BackupAbout, nodes: usize) -> String {
    let first = &about.group.objects[0];
    let mut words = vec![
        "quorate".to_owned(),
        "up".to_owned(),
        first.class.clone(),
        "--dir".to_owned(),
        args.dir.display().to_string(),
        "--nodes".to_owned(),
        nodes.to_string(),
    ];
    for (option, given) in [("--args", &first.args), ("--kwargs", &first.kwargs)] {
        if let Some(given) = given {
            words.extend([option.to_owned(), given.clone()]);
        }
    }
    words.extend(args.tls.then(|| "--tls".to_owned()));
    let quoted = words.into_iter().map(|word| match is_plain(&word) {
        true => word,
        false => format!("'{}'", word.replace('\'', r"'\''")),
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// Whether a shell takes the word as it is.
fn is_plain(word: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,+@%".contains(letter);
    !word.is_empty() && word.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::is_plain;

    #[test]
    fn only_words_that_a_shell_leaves_alone_are_plain() {
        assert!(is_plain("bank:Account") && is_plain("/srv/bank-1"));
        assert!(!is_plain("") && !is_plain(r#"["A-1"]"#) && !is_plain("a b"));
    }
}
