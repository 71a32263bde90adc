//! `quorate node rebuild`: a stopped node gives up its log and snapshots, and takes everything from the others when it starts.
//!
//! What is given up stays beside the rest of the directory. The node crate judges and does it; this says what it means.

use crate::error::CliError;
use crate::late_progress::LateProgress;
use crate::print;
use crate::recover::beside;
use crate::verify::{bytes_below, check_readable, start_json, start_text};
use clap::Args;
use quorate_node::{
    NodeConfig, NodeError, NotRebuilt, RebuiltNode, SoundDirectory, is_node_directory, rebuild,
};
use quorate_storage::StorageError;
use serde_json::json;
use std::path::PathBuf;

/// Put a stopped node's log and snapshots aside, where they are damaged or differ from the majority's. It keeps its identity, and its
/// next start takes the state from the other nodes. It does not vote then, as a node does not whose log was lost.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct RebuildArgs {
    /// The node's data directory.
    dir: PathBuf,
    /// The node's configuration, where it is neither `DIR.toml` nor in the directory: it says whether others hold a copy.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Also if nothing is wrong with it.
    #[arg(long)]
    force: bool,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  the log and the snapshots are put aside, and kept there
  1  the node keeps its votes in memory, or has never started; or the identity is damaged, or a note that stays
  2  usage
  3  there is no data directory of a node, or no configuration of it
  7  a node runs there; the directory is sound, see --force; the node is the only one of its group; or it and a peer hold
     different decisions";

pub(crate) fn run(args: &RebuildArgs, as_json: bool) -> Result<(), CliError> {
    let dir = &args.dir;
    check_readable(dir)?;
    if !is_node_directory(dir) {
        return Err(CliError::not_found(format!(
            "{} holds no data directory of a node",
            dir.display()
        ))
        .advise("name the --dir of `quorate node init`, or node-N in that of `quorate up`"));
    }
    refuse_alone(args)?;
    let sound = match args.force {
        true => SoundDirectory::Rebuilt,
        false => SoundDirectory::Refused,
    };
    let mut progress = LateProgress::over(bytes_below(dir));
    let rebuilt = rebuild(dir, sound, &mut |bytes| progress.add(bytes));
    drop(progress);
    let rebuilt = rebuilt.map_err(|error| refused(&error))?;
    if as_json {
        return print::line(json!({
            "dir": dir, "node": rebuilt.node.0, "aside": rebuilt.aside, "moved": rebuilt.moved,
            "start": start_json(&rebuilt.start),
        }));
    }
    print::line(print::lines(&words(&rebuilt)))
}

fn words(rebuilt: &RebuiltNode) -> String {
    let (moved, last) = match &rebuilt.aside {
        None => ("nothing was left to put aside".to_owned(), String::new()),
        Some(aside) => {
            let aside = aside.display();
            let moved = rebuilt.moved.join(", ");
            (
                format!("put aside, and kept in {aside}: {moved}"),
                format!(
                    "\nremove {aside} once the node has caught up, which `quorate status` shows"
                ),
            )
        }
    };
    format!(
        "{moved}\nlost: what node {} had promised and voted for, and its copy of the state; it takes the state from the others when it starts, for \
         which a majority of the voters must be up without it\n{}{last}",
        rebuilt.node.0,
        start_text(Some(rebuilt.node), &rebuilt.start)
    )
}

/// The others rebuild a node: its configuration says whether there are others.
fn refuse_alone(args: &RebuildArgs) -> Result<(), CliError> {
    let dir = args.dir.canonicalize().unwrap_or_else(|_| args.dir.clone());
    let file = args.config.clone().unwrap_or_else(|| beside(&dir));
    if !file.exists() {
        let text = format!(
            "there is no {}, which says whether other nodes hold a copy",
            file.display()
        );
        return Err(
            CliError::not_found(text).advise("name the node's configuration: --config FILE")
        );
    }
    let config = NodeConfig::read(&file).map_err(|error| CliError::node(&error))?;
    if config.dir.canonicalize().is_ok_and(|named| named != dir) {
        let text = format!(
            "{} is of the node in {}",
            file.display(),
            config.dir.display()
        );
        return Err(CliError::conflict(text).advise("name the configuration of this node"));
    }
    match config.known_members() {
        1 => Err(CliError::conflict(format!(
            "{} is of the only node of its group: no other node holds a copy, and nothing was changed",
            dir.display()
        ))
        .advise("restore a backup, or recover what it knows with `quorate recover`")),
        _ => Ok(()),
    }
}

fn refused(error: &NodeError) -> CliError {
    let told = CliError::node(error);
    match error {
        NodeError::Storage(StorageError::Locked { .. }) => {
            CliError::conflict(format!("{error}, and nothing was changed"))
                .advise("stop the node first")
        }
        NodeError::NotRebuilt(NotRebuilt::Sound { .. }) => {
            told.advise("start it; to have it lose its votes all the same, say --force")
        }
        NodeError::NotRebuilt(NotRebuilt::Note { .. }) => told
            .advise("put that file right as it says, and start the node, or say the command again"),
        NodeError::NotRebuilt(NotRebuilt::InMemory { .. } | NotRebuilt::Unborn { .. }) => {
            told.advise("start it")
        }
        _ => told,
    }
}
