//! `quorate restore`: a new group that goes on from a backup.
//!
//! It makes what `quorate up --dir` makes, and gives each node the backup's state. The group has an identity of its own: clients of
//! the old one are refused. It starts nothing.

use crate::backup::head_rows;
use crate::backup_read::{BackupContent, read_backup};
use crate::error::CliError;
use crate::late_progress::LateProgress;
use crate::print;
use crate::seconds;
use crate::table::table;
use crate::up::{self, NewGroup, SandboxArg, UpArgs};
use clap::Args;
use quorate_host::HostError;
use quorate_node::{
    BackupAbout, NodeConfig, NodeError, ObjectConfig, OtherCode, Restored, digest_text,
};
use quorate_storage::StorageError;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Make a new group of a backup, in a directory of its own. `quorate up` or `quorate node run` start it.
#[derive(Args, Clone, Debug)]
pub(crate) struct RestoreArgs {
    /// The backup.
    file: PathBuf,
    #[command(flatten)]
    group: NewGroupArgs,
    /// Go on with other code than the backup was taken with: from here on the new code executes.
    #[arg(long)]
    accept_code: bool,
}

/// The group that is made, where it is made of the state of another.
#[derive(Args, Clone, Debug)]
pub(crate) struct NewGroupArgs {
    /// The new group's directory; it must be empty or not exist, else the exit code is 7.
    #[arg(long, env = "QUORATE_DIR")]
    pub(crate) dir: PathBuf,
    /// The number of nodes. Default: as many as the old group had.
    #[arg(long, env = "QUORATE_NODES", value_parser = clap::value_parser!(u16).range(1..=9), allow_negative_numbers = true)]
    pub(crate) nodes: Option<u16>,
    /// The first node's port; the others follow, and admin ports are 100 above. 0 picks free ports. Default: 7400.
    #[arg(long, env = "QUORATE_PORT", allow_negative_numbers = true)]
    pub(crate) port: Option<u16>,
    /// Make certificates in the group's directory; nodes and clients then speak TLS only.
    #[arg(long)]
    pub(crate) tls: bool,
    /// The Python interpreter of the host process. Default: `python3` beside this program or on PATH.
    #[arg(long, env = "QUORATE_PYTHON", value_name = "PATH")]
    pub(crate) python: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) host: HostArgs,
}

/// What the host processes may do, already where they try the state. The new group keeps it.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct HostArgs {
    /// Seconds that a call or a read may take, or `never`. Default: 10, or as a survivor had it.
    #[arg(long, env = "QUORATE_CALL_TIMEOUT", value_name = "SECONDS", value_parser = seconds::span_or_never, allow_negative_numbers = true)]
    pub(crate) call_timeout: Option<f64>,
    /// Memory that a host process may use, such as 4GiB, or none. Default: 4GiB, or as a survivor had it.
    #[arg(long, value_name = "BYTES", value_parser = up::memory)]
    pub(crate) host_memory: Option<u64>,
    /// Keep objects from files, sockets, signals and programs, as far as the kernel can. Default: on, or as a survivor had it.
    #[arg(long, value_enum)]
    pub(crate) sandbox: Option<SandboxArg>,
}

pub(crate) fn run(args: &RestoreArgs, as_json: bool) -> Result<(), CliError> {
    let backup = sound_backup(&args.file)?;
    let here = std::env::current_dir()
        .map_err(|error| CliError::failed(format!("no current directory: {error}")))?;
    let other = match args.accept_code {
        true => OtherCode::Accepted,
        false => OtherCode::Refused,
    };
    let made = make(&args.group, &backup, &[here], other)?;
    let (head, about) = (&backup.whole.head, &backup.about);
    let start = start_command(&args.group, about, made.configs.len());
    if as_json {
        let mut line = made.json(&args.group.dir, &start);
        line["restored_cluster"] = json!(format!("{:016x}", head.cluster.0));
        line["restored_slot"] = json!(head.slot.0);
        line["restored_digest"] = json!(digest_text(&head.digest));
        line["classes"] = json!(about.classes);
        return print::line(line);
    }
    let backup = table(&["BACKUP", ""], &head_rows(head, about));
    print::line(format_args!(
        "{backup}\nrestored as {}",
        made.words(&args.group.dir, &start)
    ))
}

/// A group that was made, and not started.
pub(crate) struct MadeGroup {
    pub(crate) configs: Vec<NodeConfig>,
    restored: Restored,
}

impl MadeGroup {
    fn cluster(&self) -> String {
        format!("{:016x}", self.configs[0].cluster.0)
    }

    /// For people: `start` is the command that starts it.
    pub(crate) fn words(&self, dir: &Path, start: &str) -> String {
        format!(
            "cluster {} in {}, which goes on after slot {}; start it with\n  {start}",
            self.cluster(),
            dir.display(),
            self.restored.slot.0
        )
    }

    /// The same for scripts.
    pub(crate) fn json(&self, dir: &Path, start: &str) -> Value {
        let nodes: Vec<Value> = (self.configs.iter())
            .map(|config| json!({"id": config.node, "address": config.listen, "dir": config.dir}))
            .collect();
        json!({
            "dir": dir, "cluster": self.cluster(), "slot": self.restored.slot.0,
            "digest": digest_text(&self.restored.digest), "nodes": nodes, "start": start,
        })
    }
}

/// Makes the group of the backup, whose modules are found in `paths`. Nothing is left of it where that fails.
pub(crate) fn make(
    wished: &NewGroupArgs,
    backup: &BackupContent,
    paths: &[PathBuf],
    other: OtherCode,
) -> Result<MadeGroup, CliError> {
    let about = &backup.about;
    let objects = about.group.objects.iter().map(|object| ObjectConfig {
        name: object.name.clone(),
        class: object.class.clone(),
        args: object.args.clone(),
        kwargs: object.kwargs.clone(),
        budget: object.budget,
        path: paths.to_vec(),
    });
    let objects: Vec<ObjectConfig> = objects.collect();
    let mut group = NewGroup::begin(&up_args(wished, about)?, &objects)?;
    for config in &mut group.configs {
        config.window = about.group.window;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |since| since.as_secs());
    let (content, configs) = ((&backup.whole, &about.group), &group.configs);
    match quorate_node::restore(configs, content, other, now) {
        Ok(restored) => Ok(MadeGroup {
            configs: group.finish()?,
            restored,
        }),
        Err(error) => {
            group.give_up();
            Err(refused(&error, about))
        }
    }
}

/// The backup in `file`, if all of it is as it was written.
pub(crate) fn sound_backup(file: &Path) -> Result<BackupContent, CliError> {
    let bytes = std::fs::metadata(file).map_or(0, |metadata| metadata.len());
    let mut progress = LateProgress::over(bytes);
    let read = read_backup(file, &mut |bytes| progress.add(bytes))?;
    match (read.content, read.file.findings.first()) {
        (Some(content), _) => Ok(content),
        (None, Some(flaw)) => Err(CliError::failed(format!(
            "{} at byte {}: {}; nothing was made",
            file.display(),
            flaw.offset,
            flaw.what
        ))
        .advise("restore from another backup")),
        (None, None) => Err(CliError::failed("the backup cannot be read")),
    }
}

/// What `quorate up` would be told to make such a group.
fn up_args(args: &NewGroupArgs, about: &BackupAbout) -> Result<UpArgs, CliError> {
    let first = about.group.objects.first();
    let first = first.ok_or_else(|| CliError::failed("the backup names no object"))?;
    let nodes = u16::try_from(about.group.nodes).unwrap_or(9).clamp(1, 9);
    Ok(UpArgs {
        nodes: args.nodes.unwrap_or(nodes),
        dir: Some(args.dir.clone()),
        port: args.port,
        args: first.args.clone(),
        kwargs: first.kwargs.clone(),
        call_timeout: args.host.call_timeout,
        budget: Some(first.budget),
        host_memory: args.host.host_memory,
        sandbox: args.host.sandbox,
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
            let has_ended = matches!(error, NodeError::Host(HostError::Ended(_)));
            let advice = match has_ended {
                true => "name with --python the interpreter that has the package quorate and the classes",
                false => "start it in the directory where the classes are, or name with --python the interpreter that has them",
            };
            CliError::with_code(told.code, text).advise(format!(
                "{advice}; give --sandbox, --host-memory and --call-timeout as the old group had them"
            ))
        }
        NodeError::Storage(StorageError::Full { .. }) => {
            CliError::failed(format!("{error}; nothing is left of the group")).advise("make room, or name another --dir")
        }
        other => CliError::node(other),
    }
}

/// How the group is started, as words of a shell.
pub(crate) fn start_command(args: &NewGroupArgs, about: &BackupAbout, nodes: usize) -> String {
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
    shell_words(words)
}

/// Words as a shell takes them.
pub(crate) fn shell_words(words: Vec<String>) -> String {
    let quoted = words.into_iter().map(|word| match is_plain(&word) {
        true => word,
        false => format!("'{}'", word.replace('\'', r"'\''")),
    });
    print::word(&quoted.collect::<Vec<_>>().join(" "))
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
