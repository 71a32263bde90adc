//! `quorate recover`: a new group of what the survivors know of one that has lost its majority for good.
//!
//! What they know is a snapshot and the slots after it. A node of its own executes these, alone; a backup of that is restored. So the
//! new group is made as `restore` makes one, with a cluster and slots of its own, and the survivors' directories stay as they are.

use crate::backup;
use crate::error::CliError;
use crate::group::GroupAccess;
use crate::late_progress::LateProgress;
use crate::lone_node::LoneNode;
use crate::print;
use crate::restore::{self, MadeGroup, NewGroupArgs};
use crate::table::table;
use crate::unfinished::Unfinished;
use crate::up::{NewGroup, UpArgs};
use crate::verify::{bytes_below, check_readable};
use clap::Args;
use quorate_host::UnkeptState;
use quorate_node::{
    NodeConfig, NodeError, OtherCode, SandboxConfig, Survivors, Unrecoverable, is_node_directory,
    nodes_of,
};
use quorate_storage::{StoppedDirectory, StorageError};
use quorate_types::Slot;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the state may take to be written once it is there.
const BACKUP_MAX: Duration = Duration::from_secs(3600);

/// Make a new group of what the survivors know, after a majority of the voters is lost for good. Their directories stay as they are.
///
/// Without --unsafe it only says what the new group would have and what may be lost, and ends with 7.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct RecoverArgs {
    /// What is left of the group, stopped: a directory that `quorate up --dir` made, a node's directory with its .toml beside it, or a
    /// node's configuration file. Several are compared, and used together.
    #[arg(required = true)]
    survivors: Vec<PathBuf>,
    #[command(flatten)]
    group: NewGroupArgs,
    /// Make the group, although calls may be lost that were answered.
    #[arg(long = "unsafe")]
    is_unsafe: bool,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  the group is made, and not started
  1  a directory is damaged, was kept in memory, or cannot be relied on; or the objects cannot execute what is left
  2  usage
  3  no node of a group is there
  7  --unsafe was not said; a node runs there; survivors disagree; or the new directory holds something";

pub(crate) fn run(args: &RecoverArgs, as_json: bool) -> Result<(), CliError> {
    let (nodes, _groups) = find(&args.survivors)?;
    if args.group.dir.symlink_metadata().is_ok() {
        NewGroup::refuse_used(&args.group.dir)?;
    }
    let bytes = nodes.iter().map(|(dir, _)| bytes_below(dir)).sum();
    let mut progress = LateProgress::over(bytes);
    let read = Survivors::of(&nodes, &mut |bytes| progress.add(bytes));
    drop(progress);
    let survivors = read.map_err(|error| refused(&error))?;
    let report = Report {
        survivors: &survivors,
    };
    if !args.is_unsafe {
        match as_json {
            true => print::line(report.json())?,
            false => print::line(report.text())?,
        }
        return Err(
            CliError::conflict(format!("nothing was made: {}", report.verdict()))
                .advise(report.advice()),
        );
    }
    let config = &nodes[0].1;
    let (made, start) = make(args, config, &survivors)?;
    if as_json {
        let mut line = made.json(&args.group.dir, &start);
        line["recovered"] = report.json();
        return print::line(line);
    }
    let made = made.words(&args.group.dir, &start);
    print::line(format_args!("{}\nrecovered as {made}", report.text()))
}

/// A node's directory, and what the node was configured with.
type FoundNode = (PathBuf, NodeConfig);

/// The nodes that the paths name, and the groups' directories, in which nothing starts meanwhile.
fn find(paths: &[PathBuf]) -> Result<(Vec<FoundNode>, Vec<StoppedDirectory>), CliError> {
    let (mut nodes, mut groups) = (Vec::new(), Vec::new());
    for path in paths {
        if path.is_file() {
            let config = NodeConfig::read(path).map_err(|error| CliError::node(&error))?;
            nodes.push((config.dir.clone(), config));
        } else if is_node_directory(path) {
            let full = path.canonicalize().unwrap_or_else(|_| path.clone());
            nodes.push(node_in(&full, &beside(&full))?);
        } else {
            check_readable(path)?;
            let names = nodes_of(path).unwrap_or_default();
            let homes = names.iter().map(|name| path.join(name));
            let homes: Vec<PathBuf> = homes.filter(|home| is_node_directory(home)).collect();
            if homes.is_empty() {
                return Err(CliError::not_found(format!(
                    "{} is no configuration of a node, and holds no node of a group",
                    path.display()
                ))
                .advise("name the --dir of `quorate up`, or a node's configuration file"));
            }
            groups.push(StoppedDirectory::open(path).map_err(|error| refused(&error.into()))?);
            for home in homes {
                nodes.push(node_in(&home, &beside(&home))?);
            }
        }
    }
    Ok((nodes, groups))
}

fn node_in(home: &Path, file: &Path) -> Result<FoundNode, CliError> {
    if !file.exists() {
        return Err(CliError::not_found(format!(
            "{} has no {} beside it, which says what its objects are",
            home.display(),
            file.display()
        ))
        .advise("name the node's configuration file instead"));
    }
    let config = NodeConfig::read(file).map_err(|error| CliError::node(&error))?;
    Ok((home.to_owned(), config))
}

/// Where the configuration of the node in `home` is: `quorate up` writes it beside that, `quorate node join` into it.
pub(crate) fn beside(home: &Path) -> PathBuf {
    let inside = home.join("node.toml");
    if inside.exists() {
        return inside;
    }
    let mut name = home.as_os_str().to_owned();
    name.push(".toml");
    name.into()
}

fn refused(error: &NodeError) -> CliError {
    match error {
        NodeError::Storage(StorageError::Locked { .. }) => {
            CliError::conflict(format!("{error}, so it has survived; nothing was made"))
                .advise("stop the node, or let the group go on with it")
        }
        NodeError::Unrecoverable(Unrecoverable::InMemory { .. }) => CliError::node(error)
            .advise("restore a backup; a group in memory ends with the majority of its nodes"),
        other => CliError::node(other),
    }
}

/// Has one node come to the state of the survivors, and restores the backup of that.
fn make(
    args: &RecoverArgs,
    config: &NodeConfig,
    survivors: &Survivors,
) -> Result<(MadeGroup, String), CliError> {
    let beside = args.group.dir.parent();
    let beside = beside.filter(|parent| !parent.as_os_str().is_empty());
    let beside = beside.unwrap_or(Path::new("."));
    let scratch = tempfile::Builder::new()
        .prefix(".quorate-recover-")
        .tempdir_in(beside)
        .map_err(|error| {
            CliError::failed(format!("{} cannot be written: {error}", beside.display()))
                .advise("name a --dir in a directory that exists and that this user may write to")
        })?;
    let _unfinished = Unfinished::note(scratch.path());
    let file = scratch.path().join("backup");
    execute(args, config, survivors, scratch.path(), &file)?;
    let mut content = restore::sound_backup(&file)?;
    // The group of the backup was that one node.
    content.about.group.nodes = config.members.len();
    let wished = NewGroupArgs {
        host: restore::HostArgs::of(config, &args.group.host),
        python: args.group.python.clone().or(config.python.clone()),
        ..args.group.clone()
    };
    let made = restore::make(&wished, &content, &paths(config), OtherCode::Refused)?;
    let start = restore::start_command(&args.group, &content.about, made.configs.len());
    Ok((made, start))
}

/// Where the objects' modules are: where the node had them, and here.
fn paths(config: &NodeConfig) -> Vec<PathBuf> {
    let mut paths = config.host_config().python.paths;
    paths.extend(std::env::current_dir());
    paths
}

/// Runs a node on what the survivors know, and writes the backup of the state that it comes to.
fn execute(
    args: &RecoverArgs,
    config: &NodeConfig,
    survivors: &Survivors,
    scratch: &Path,
    file: &Path,
) -> Result<(), CliError> {
    let host = restore::HostArgs::of(config, &args.group.host);
    let first = &config.objects[0];
    let up = UpArgs {
        nodes: 1,
        dir: Some(scratch.join("node")),
        port: Some(0),
        budget: Some(first.budget),
        allow: config.allow.clone(),
        python: args.group.python.clone().or(config.python.clone()),
        call_timeout: host.call_timeout,
        host_memory: host.host_memory,
        sandbox: host.sandbox,
        // Nobody else may call it.
        tls: true,
        ..UpArgs::of(&first.class)
    };
    let mut objects = config.objects.clone();
    objects[0].path = paths(config);
    let mut group = NewGroup::begin(&up, &objects)?;
    group.configs[0].window = config.window;
    refuse_other_code(&group.configs[0], survivors)?;
    quorate_node::recover(&group.configs[0], survivors).map_err(|error| refused(&error))?;
    let tls = group.client()?;
    let made = group.finish()?;
    let lone = &made[0];
    let access = GroupAccess::of_node(&lone.listen.to_string(), tls)?;
    let path = scratch.join("node").join("node-1.toml");
    let mut node = LoneNode::start(&path, lone)?;
    node.wait_until_executed(survivors.included(), &access)?;
    backup::write(&access, file, false, BACKUP_MAX).map(drop)
}

/// Calls that were answered are executed again: with other code they may end in another way.
fn refuse_other_code(config: &NodeConfig, survivors: &Survivors) -> Result<(), CliError> {
    let mut host = config.host_config();
    host.python.unkept_state = UnkeptState::Told;
    let code = quorate_host::check(host).map_err(|error| CliError::node(&error.into()))?;
    for (_, dir) in survivors.nodes() {
        match quorate_node::refuse_other_code(dir, config.group_id(), code.as_deref()) {
            Err(NodeError::OtherCode { changes, .. }) => {
                return Err(CliError::conflict(format!(
                    "the objects' code is not the one that the group ran with, and calls that it answered would be executed again with \
                    it; nothing was made:\n{changes}"
                ))
                .advise("put the old code back"));
            }
            other => other.map_err(|error| CliError::node(&error))?,
        }
    }
    Ok(())
}

/// What the survivors know, and what a group made of it may lack.
struct Report<'a> {
    survivors: &'a Survivors,
}

impl Report<'_> {
    /// The voters that are here.
    fn voters(&self) -> usize {
        let acceptors = self.survivors.acceptors();
        let here = self.survivors.nodes();
        here.filter(|(node, _)| acceptors.contains(*node)).count()
    }

    /// Whether some of these voted for whatever was decided: they could elect a leader.
    fn knows_all(&self) -> bool {
        self.voters() >= self.survivors.quorums().phase1()
    }

    /// Whether these can go on as they are.
    fn can_go_on(&self) -> bool {
        self.voters() >= self.survivors.quorums().both()
    }

    /// So many voters as elect a leader, in words.
    fn enough(&self) -> &'static str {
        match self.survivors.quorums().is_asked() {
            true => "as many voters as elect a leader are",
            false => "a majority of the voters is",
        }
    }

    fn verdict(&self) -> String {
        let survivors = self.survivors;
        if self.can_go_on() {
            return format!(
                "{} here: start these nodes, and nothing is lost",
                self.enough()
            );
        }
        let here = match survivors.nodes().count() {
            1 => "1 is here".to_owned(),
            count => format!("{count} are here"),
        };
        let voters = survivors.acceptors().len();
        match self.knows_all() {
            true => format!(
                "nothing is lost, but {} of the {voters} voters decide, and {here}",
                survivors.quorums().phase2()
            ),
            false => {
                format!("calls that were answered may be lost: of the {voters} voters, {here}")
            }
        }
    }

    fn advice(&self) -> &'static str {
        match self.can_go_on() {
            true => "start them with `quorate up` or `quorate node run`, as before",
            false => {
                "start the other nodes if their directories can be had; if they cannot, say --unsafe"
            }
        }
    }

    fn json(&self) -> Value {
        let known = self.survivors;
        let nodes = known.nodes();
        let nodes: Vec<Value> = nodes
            .map(|(node, dir)| json!({"node": node.0, "dir": dir}))
            .collect();
        let voters: Vec<u16> = known.acceptors().iter().map(|node| node.0).collect();
        json!({
            "survivors": nodes, "voters": voters, "snapshot": known.begins_after().0,
            "decided": known.decided().0, "included": known.included().0,
            "behind_gap": known.behind_gap(), "may_lack_answered_calls": !self.knows_all(),
        })
    }

    fn text(&self) -> String {
        let known = self.survivors;
        let rows: Vec<Vec<String>> = known
            .nodes()
            .map(|(node, dir)| vec![node.0.to_string(), dir.display().to_string()])
            .collect();
        let mut text = table(&["SURVIVOR", "DIRECTORY"], &rows);
        for line in self.lines() {
            text.push_str(&format!("\n- {line}"));
        }
        text
    }

    fn lines(&self) -> Vec<String> {
        let known = self.survivors;
        let (Slot(decided), Slot(included)) = (known.decided(), known.included());
        let mut lines = vec![format!(
            "known: everything up to slot {decided} is decided, and in the new group"
        )];
        if included > decided {
            lines.push(format!(
                "included: slots {} to {included} have votes of these nodes; their calls may have been answered, or nobody may have been \
                told of them",
                decided + 1
            ));
        }
        if known.behind_gap() > 0 {
            lines.push(format!(
                "left out: {} slots behind slot {}, of which these nodes know nothing",
                known.behind_gap(),
                included + 1
            ));
        }
        lines.push(match self.knows_all() {
            true => format!("lost: nothing; {} here", self.enough()),
            false => format!(
                "may be lost: every call after slot {included} that the other voters decided without these nodes, also if it was answered; \
                how many there are, nobody can know here"
            ),
        });
        lines.push(
            "clients of the old group are refused by the new one and connect anew; what they hold there is free when their sessions expire, \
            and fencing tokens of the new group are above all of the old one"
                .to_owned(),
        );
        lines
    }
}

impl restore::HostArgs {
    /// As given, else as the node had it.
    fn of(config: &NodeConfig, given: &restore::HostArgs) -> restore::HostArgs {
        let sandbox = match config.sandbox {
            SandboxConfig::On => crate::up::SandboxArg::On,
            SandboxConfig::Off => crate::up::SandboxArg::Off,
        };
        restore::HostArgs {
            call_timeout: given.call_timeout.or(Some(config.call_timeout)),
            host_memory: given.host_memory.or(Some(config.host_memory)),
            sandbox: given.sandbox.or(Some(sandbox)),
        }
    }
}
