//! `quorate node init`, `invite`, `join` and `quorate node run`: one node, its directory and its process.

use crate::directory;
use crate::error::CliError;
use crate::join::{self, InviteArgs, JoinArgs};
use crate::print;
use crate::rebuild::{self, RebuildArgs};
use crate::this_program;
use clap::{Args, Subcommand, ValueEnum};
use quorate_node::{Hex, LostDirectory, NodeConfig, NodeError, OtherCode};
use quorate_storage::{Identity, Persist};
use quorate_types::{ClusterId, Incarnation, Levels, NodeId};
use quorate_wire::SPEAKS;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use rustix::thread::disable_transparent_huge_pages;
use serde::Serialize;
use std::io::IsTerminal;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use tracing_subscriber::EnvFilter;

/// The allocator's setting for how long it keeps freed memory, in milliseconds.
const FREED_KEPT: &str = "MIMALLOC_PURGE_DELAY";

/// Longer than the pauses between two snapshots of a busy group, which free the most at once; short for who watches a node
/// that has become quiet.
const FREED_KEPT_MS: &str = "10000";

/// Make the data directory of a node, run the node, rebuild it from the others, or let a new one join a group.
#[derive(Args, Clone, Debug)]
pub(crate) struct NodeArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Clone, Debug)]
enum Verb {
    Init(InitArgs),
    Run(RunArgs),
    Rebuild(RebuildArgs),
    Invite(InviteArgs),
    Join(Box<JoinArgs>),
}

/// Make the data directory of a new node, once, and print its incarnation for the configurations.
#[derive(Args, Clone, Debug)]
struct InitArgs {
    /// The directory; it must be empty or not exist, else the exit code is 7.
    #[arg(long)]
    dir: PathBuf,
    /// The node's number, below 64.
    #[arg(long, value_parser = clap::value_parser!(u16).range(0..64), allow_negative_numbers = true)]
    node: u16,
    /// The cluster, 16 hexadecimal digits, the same for all its nodes. Default: a random one.
    #[arg(long, value_parser = parse_hex)]
    cluster: Option<u64>,
    /// Where the node's groups keep their log.
    #[arg(long, value_enum, default_value_t = PersistArg::Disk)]
    persist: PersistArg,
}

/// Run one node until SIGTERM or SIGINT.
#[derive(Args, Clone, Debug)]
#[command(after_help = RUN_EXIT_CODES)]
struct RunArgs {
    /// The node's configuration file.
    #[arg(long, env = "QUORATE_CONFIG", default_value = "node.toml")]
    config: PathBuf,
    /// Listen beyond loopback without TLS: anyone on the network can then read and forge messages.
    #[arg(long)]
    insecure: bool,
    /// Go on with changed code, from a snapshot that no call follows in the log; else changed code is refused.
    #[arg(long)]
    accept_code: bool,
    /// Make the data directory anew if it is gone. The node has lost what it voted: it catches up from the others, and votes
    /// again once they have agreed to it. Without this such a node does not start.
    #[arg(long)]
    remake: bool,
    /// Where a member is now, for a node that was down while all that it knew left: it asks there who the members are, once, before it
    /// starts.
    #[arg(long, requires = "token", value_name = "ENDPOINT")]
    endpoint: Option<String>,
    /// What `quorate node invite` printed: members tell each other only to who has it. It can be used again.
    #[arg(long, env = "QUORATE_JOIN_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Behave as a version that speaks at most this level: to rehearse an upgrade, or before a downgrade. Default: the newest.
    #[arg(long, value_name = "LEVEL", value_parser = crate::speaks::upto)]
    speaks: Option<Levels>,
    /// The format of log lines.
    #[arg(long, env = "QUORATE_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// Which log lines are written: error, warn, info, debug, trace, or a filter per module.
    #[arg(long, env = "QUORATE_LOG", default_value = "info")]
    log: String,
    /// Do nothing outside, whatever objects ask for.
    #[arg(long, hide = true)]
    keep_inside: bool,
    /// End when the process that started this one ends.
    #[arg(long, hide = true)]
    supervised_by: Option<i32>,
}

/// How a node ends.
const RUN_EXIT_CODES: &str = "\
Exit codes:
  0  asked to stop
  1  the system or a peer refused something
  2  wrong usage, configuration or certificates; a data directory that is not this node's, or not of the group at --endpoint
  4  nobody answers at --endpoint
  7  the group is at a level that this version does not speak, or --speaks; the node was removed from its group, or --token is not good; the objects' code has changed, see --accept-code; or a
     peer tells another decision for a slot: the node refuses every later start, see docs/nodes.md";

/// Where a group keeps its log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PersistArg {
    /// On disk: acknowledged calls survive the loss of power on all nodes.
    Disk,
    /// In the memory of a majority of running nodes.
    Memory,
}

/// How log lines look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

pub(crate) fn run(args: &NodeArgs, as_json: bool) -> Result<(), CliError> {
    match &args.verb {
        Verb::Init(args) => init(args, as_json),
        Verb::Run(args) => run_node(args),
        Verb::Rebuild(args) => rebuild::run(args, as_json),
        Verb::Invite(args) => join::invite(args, as_json),
        Verb::Join(args) => join::join(args, as_json),
    }
}

fn init(args: &InitArgs, as_json: bool) -> Result<(), CliError> {
    let cluster = match args.cluster {
        Some(cluster) => cluster,
        None => random()?,
    };
    let persist = args.persist.as_storage();
    directory::make(&args.dir)?;
    let made = Identity::init(
        &args.dir,
        ClusterId(cluster),
        NodeId(args.node),
        Incarnation(random()?),
        persist,
    );
    let identity = made.map_err(|error| CliError::node(&NodeError::from(error)))?;
    let cluster = format!("{:016x}", identity.cluster.0);
    let incarnation = format!("{:016x}", identity.incarnation.0);
    if as_json {
        let line = serde_json::json!({
            "cluster": cluster, "node": identity.node.0, "incarnation": incarnation,
            "dir": args.dir, "level": SPEAKS.newest().0,
        });
        print::line(line)?;
    } else {
        print::line(format_args!(
            "cluster      {cluster}\nnode         {}\nincarnation  {incarnation}\nlevel        {}",
            identity.node.0,
            SPEAKS.newest()
        ))?;
    }
    Ok(())
}

fn run_node(args: &RunArgs) -> Result<(), CliError> {
    settle_memory();
    if let Some(parent) = args.supervised_by {
        die_with(parent)?;
    }
    start_logging(args)?;
    let mut config = NodeConfig::read(&args.config).map_err(|error| CliError::node(&error))?;
    config.insecure |= args.insecure;
    config.keeps_inside = args.keep_inside;
    config.speaks = args.speaks.unwrap_or(config.speaks);
    if let (Some(endpoint), Some(token)) = (&args.endpoint, &args.token) {
        join::meet(endpoint, token, &config)?;
    }
    let other = match args.accept_code {
        true => OtherCode::Accepted,
        false => OtherCode::Refused,
    };
    let lost = match args.remake {
        true => LostDirectory::Remade,
        false => LostDirectory::Refused,
    };
    match quorate_node::run(&config, other, lost) {
        Err(NodeError::Sighted { .. }) => Err(start_again()),
        ended => ended.map_err(|error| CliError::node(&error)),
    }
}

/// What a node's memory costs where large values come and go by the hundred megabytes. The system gives no huge pages, which
/// are cleared whole for each value that begins one. The allocator keeps freed memory for longer than its second, because what
/// went back to the system is cleared when it comes again; it reads its settings before `main`, so the process starts itself
/// once more. Who has set it gets what they set. Where either fails, a node is slower and nothing else.
fn settle_memory() {
    let _ = disable_transparent_huge_pages(true);
    if std::env::var_os(FREED_KEPT).is_none()
        && let Ok(mut again) = this_process()
    {
        let _ = again.env(FREED_KEPT, FREED_KEPT_MS).exec();
    }
}

/// Replaces this process by a new start of itself, which reads what was noted in the directory. Returns only when it cannot.
fn start_again() -> CliError {
    let error = match this_process() {
        Ok(mut again) => again.exec(),
        Err(error) => error,
    };
    CliError::failed(format!("cannot start again: {error}"))
}

/// This program with the arguments that it was started with.
fn this_process() -> std::io::Result<Command> {
    let mut again = this_program::command()?;
    again.args(std::env::args_os().skip(1));
    Ok(again)
}

/// The node ends with its supervisor, however the supervisor ends.
fn die_with(parent: i32) -> Result<(), CliError> {
    set_parent_process_death_signal(Some(Signal::TERM)).map_err(|error| {
        CliError::failed(format!("cannot bind the node to its supervisor: {error}"))
    })?;
    // The supervisor may have ended before the wish was heard.
    if getppid().is_none_or(|now| now.as_raw_nonzero().get() != parent) {
        return Err(CliError::failed("the supervisor has ended"));
    }
    Ok(())
}

fn start_logging(args: &RunArgs) -> Result<(), CliError> {
    let filter = EnvFilter::try_new(&args.log)
        .map_err(|error| CliError::usage(format!("--log: {error}")))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match args.log_format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    Ok(())
}

impl PersistArg {
    pub(crate) fn as_storage(self) -> Persist {
        match self {
            PersistArg::Disk => Persist::Disk,
            PersistArg::Memory => Persist::Memory,
        }
    }

    pub(crate) fn as_config(self) -> quorate_node::PersistConfig {
        match self {
            PersistArg::Disk => quorate_node::PersistConfig::Disk,
            PersistArg::Memory => quorate_node::PersistConfig::Memory,
        }
    }
}

/// A random number for a new identity.
pub(crate) fn random() -> Result<u64, CliError> {
    let mut bytes = [0; 8];
    let drawn = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    match drawn {
        Ok(8) => Ok(u64::from_ne_bytes(bytes)),
        Ok(_) => Err(CliError::failed("the system gave too little randomness")),
        Err(error) => Err(CliError::failed(format!("no randomness: {error}"))),
    }
}

fn parse_hex(text: &str) -> Result<u64, String> {
    let number = u64::from_str_radix(text, 16)
        .ok()
        .filter(|_| text.len() == 16);
    number.ok_or_else(|| format!("\"{text}\" is not 16 hexadecimal digits"))
}

/// A number as configurations write it.
pub(crate) fn hex(number: u64) -> Hex {
    Hex(number)
}
