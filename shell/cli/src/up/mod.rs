//! `quorate up`: a whole group on this machine, one command.
//!
//! Makes (or reuses) a directory for each node, starts each node as a process, prints the addresses once
//! there is a leader, restarts nodes that die, and ends all nodes when it ends.

mod last_snapshot;
mod new_group;
mod plan;
mod ports;
mod rotating_log;
mod settings;
mod short_check;
mod supervisor;
mod tls;

use crate::error::CliError;
use crate::node::PersistArg;
use crate::ordering::OrderingArg;
use crate::quorums::tolerated;
use crate::table::table;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
pub(crate) use new_group::NewGroup;
use plan::Plan;
pub(crate) use plan::write_config;
use quorate_client::node_status;
use quorate_node::{NodeStatus, ViewStatus};
use quorate_types::{GroupId, Level, Levels, QuorumRule};
use quorate_wire::SPEAKS;
pub(crate) use settings::{SandboxArg, memory, multicast};
use short_check::ShortCheck;
use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use supervisor::{Happening, Supervisor};

/// How long a new group may take to elect a leader.
const READY_MAX: Duration = Duration::from_secs(60);

/// How often nodes are asked whether they are ready.
const ASK_EVERY: Duration = Duration::from_millis(25);

/// How long one node may take to answer meanwhile.
const ANSWER_MAX: Duration = Duration::from_millis(500);

/// Replicate a class (or a built-in object) on this machine and keep it running.
#[derive(Args, Clone, Debug)]
pub(crate) struct UpArgs {
    /// `module:Class` in Python, or rust:counter, rust:register, rust:kv, rust:map, rust:queue, rust:lock.
    pub(crate) class: String,
    /// The number of nodes.
    #[arg(long, env = "QUORATE_NODES", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=9), allow_negative_numbers = true)]
    pub(crate) nodes: u16,
    /// Where the group keeps its log.
    #[arg(long, env = "QUORATE_PERSIST", value_enum, default_value_t = PersistArg::Disk)]
    pub(crate) persist: PersistArg,
    /// How commands are ordered at first; `quorate view switch` changes it while the group runs. Default: paxos, or as the
    /// directory has it.
    #[arg(long, env = "QUORATE_ORDERING", value_enum)]
    pub(crate) ordering: Option<OrderingArg>,
    /// How many nodes elect a leader and how many decide, at first: PHASE1,PHASE2, for example 4,2 of five, with fast_paxos
    /// PHASE1,PHASE2,FAST; or majority. `quorate view set quorums=4,2` changes it while the group runs. Default: majority, or as the
    /// directory has it.
    #[arg(
        long,
        env = "QUORATE_QUORUMS",
        value_name = "SIZES",
        allow_hyphen_values = true
    )]
    pub(crate) quorums: Option<QuorumRule>,
    /// The group's directory, kept for the next start: a new or empty one, or that of an earlier start. Default: a temporary one.
    #[arg(long, env = "QUORATE_DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// The first node's port; the others follow, and admin ports are 100 above. 0 picks free ports. Default: 7400, or
    /// as the directory has it.
    #[arg(long, env = "QUORATE_PORT", allow_negative_numbers = true)]
    pub(crate) port: Option<u16>,
    /// Constructor arguments, a JSON list.
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    pub(crate) args: Option<String>,
    /// Constructor keyword arguments, a JSON object.
    #[arg(long, value_name = "JSON")]
    pub(crate) kwargs: Option<String>,
    /// Go on with changed code, from the snapshot that the group took when it was stopped. Without this a directory's
    /// group does not start with code that has changed.
    #[arg(long)]
    pub(crate) accept_code: bool,
    /// The nodes behave as a version that speaks at most this level: to rehearse an upgrade. Default: the newest.
    #[arg(long, value_name = "LEVEL", value_parser = crate::speaks::upto)]
    pub(crate) speaks: Option<Levels>,
    /// The level at which a new group begins: what its members must speak, so that a node of an older version may join. Default: the
    /// newest of this version.
    #[arg(long, value_name = "LEVEL", value_parser = crate::speaks::upto)]
    pub(crate) level: Option<Levels>,
    /// Do not restart a node that dies.
    #[arg(long)]
    pub(crate) no_restart: bool,
    /// Take no snapshots: for objects whose state cannot be encoded.
    #[arg(long)]
    pub(crate) no_snapshot: bool,
    /// Do not check the class beside the start of a new group; see `quorate check`.
    #[arg(long)]
    pub(crate) no_check: bool,
    /// Seconds that a call or a read may take, or `never`: then its host process is ended, and the group skips a call
    /// that ended every host. Default: 10, or as the directory has it.
    #[arg(long, env = "QUORATE_CALL_TIMEOUT", value_name = "SECONDS", value_parser = crate::seconds::span_or_never, allow_negative_numbers = true)]
    pub(crate) call_timeout: Option<f64>,
    /// Steps that a call may take before it is ended on all replicas alike and undone: rounds of loops and starts of
    /// functions, in the objects' own modules; 0 for as many as it likes. Default: 50000000, or as the directory has it.
    #[arg(long, env = "QUORATE_BUDGET", value_name = "STEPS", value_parser = settings::steps, allow_negative_numbers = true)]
    pub(crate) budget: Option<u64>,
    /// Memory that a host process may use, such as 4GiB, or none. Default: 4GiB, or as the directory has it.
    #[arg(long, value_name = "BYTES", value_parser = settings::memory)]
    pub(crate) host_memory: Option<u64>,
    /// A package beside the object's own whose instances may be in the state, such as networkx; may be repeated.
    /// Default: none, or as the directory has it.
    #[arg(long, value_name = "PACKAGE", value_parser = settings::package)]
    pub(crate) allow: Vec<String>,
    /// Keep objects from files, sockets, signals and programs, as far as the kernel can: see SECURITY.md. Default: on, or
    /// as the directory has it.
    #[arg(long, value_enum)]
    pub(crate) sandbox: Option<settings::SandboxArg>,
    /// Which reads are checked for having changed nothing. Default: sample, or as the directory has it.
    #[arg(long, value_enum)]
    pub(crate) check_reads: Option<settings::CheckReadsArg>,
    /// Execute calls while they are being ordered, up to this many slots ahead, and undo what is decided otherwise: an answer takes
    /// the longer of both times, not their sum. 0 for none. Default: 0, or as the directory has it.
    #[arg(long, value_name = "SLOTS", value_parser = clap::value_parser!(u16).range(0..=1024), allow_negative_numbers = true)]
    pub(crate) speculation: Option<u16>,
    /// Where leaders multicast values with the ordering ring_paxos, such as 239.1.2.3:7600, in a group at level 28 or
    /// above. Not with --tls. Default: nowhere, or as the directory has it.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = settings::multicast, conflicts_with = "tls")]
    pub(crate) multicast: Option<SocketAddrV4>,
    /// The Python interpreter of the host process. Default: `python3` beside this program or on PATH.
    #[arg(long, env = "QUORATE_PYTHON", value_name = "PATH")]
    pub(crate) python: Option<PathBuf>,
    /// Make certificates in the group's directory; nodes and clients then speak TLS only.
    #[arg(long)]
    pub(crate) tls: bool,
    /// Which log lines the nodes write to their log files.
    #[arg(long, env = "QUORATE_LOG", default_value = "info")]
    pub(crate) log: String,
}

impl UpArgs {
    /// The level at which a new group begins.
    pub(crate) fn first_level(&self) -> Level {
        let spoken = self.speaks.unwrap_or(SPEAKS).newest();
        self.level
            .map_or(spoken, |level| level.newest().min(spoken))
    }

    /// Those of a group of `class` for which nothing else is said.
    pub(crate) fn of(class: &str) -> UpArgs {
        UpArgs {
            class: class.to_owned(),
            nodes: 3,
            persist: PersistArg::Disk,
            ordering: None,
            quorums: None,
            dir: None,
            port: None,
            args: None,
            kwargs: None,
            accept_code: false,
            speaks: None,
            level: None,
            no_restart: false,
            no_snapshot: false,
            no_check: false,
            call_timeout: None,
            budget: None,
            host_memory: None,
            allow: Vec::new(),
            sandbox: None,
            check_reads: None,
            speculation: None,
            multicast: None,
            python: None,
            tls: false,
            log: "info".to_owned(),
        }
    }
}

pub(crate) fn run(args: &UpArgs, as_json: bool) -> Result<(), CliError> {
    let plan = Plan::make(args)?;
    // Its problems are warnings; what cannot be served is refused by the nodes.
    let _check = plan.is_new.then(|| ShortCheck::start(args)).flatten();
    let mut supervisor = Supervisor::start(&plan, args)?;
    let Some(statuses) = wait_until_ready(&plan, args, &mut supervisor)? else {
        return Ok(());
    };
    print_ready(&plan, &statuses, as_json)?;
    loop {
        match supervisor.next(None) {
            Happening::Stop => {
                last_snapshot::take(&plan, &mut supervisor);
                return Ok(());
            }
            Happening::Died { node, how } => {
                eprintln!(
                    "quorate: node {node} died ({how}), its log is {}",
                    plan.log(node).display()
                );
            }
            Happening::Removed { node, view } => eprintln!("{}", removed(node, view)),
            Happening::Restarted { node, pid } => {
                eprintln!("quorate: node {node} runs again as process {pid}");
                if args.persist == PersistArg::Memory {
                    eprintln!(
                        "quorate: in memory mode a restarted node has forgotten its votes: it votes again by itself once it has caught up, \
                         as long as a majority of the others is up"
                    );
                }
            }
            Happening::Nothing => {}
        }
    }
}

/// Waits until every node serves and agrees on a leader; `None` when it was asked to stop first. Nodes of an earlier run that
/// do not start are named and left out, as long as a majority goes on.
fn wait_until_ready(
    plan: &Plan,
    args: &UpArgs,
    supervisor: &mut Supervisor,
) -> Result<Option<Vec<NodeStatus>>, CliError> {
    let progress = if std::io::stderr().is_terminal() {
        ProgressBar::new_spinner()
            .with_style(ProgressStyle::with_template("{spinner} {msg}").expect("a fixed template"))
    } else {
        ProgressBar::hidden()
    };
    let deadline = Instant::now() + READY_MAX;
    let mut said;
    let mut down = BTreeSet::new();
    loop {
        let statuses = ask(plan);
        if is_ready(plan.nodes.len() - down.len(), &statuses) {
            progress.finish_and_clear();
            return Ok(Some(statuses));
        }
        if observers(&statuses) > plan.nodes.len() / 2 {
            progress.finish_and_clear();
            return Err(plan.forgotten(args.persist));
        }
        said = describe(plan, &statuses);
        progress.set_message(said.clone());
        progress.tick();
        match supervisor.next(Some(ASK_EVERY)) {
            Happening::Stop => return Ok(None),
            Happening::Died { node, how } => {
                let failure = supervisor.failure(plan, node, &how);
                let is_news = down.insert(node);
                if plan.is_new || 2 * down.len() >= plan.nodes.len() {
                    progress.finish_and_clear();
                    return Err(failure);
                }
                if is_news {
                    progress.suspend(|| {
                        eprintln!(
                            "quorate: {}; the other nodes go on without it",
                            failure.text
                        );
                    });
                }
            }
            Happening::Removed { node, view } => {
                down.insert(node);
                progress.suspend(|| eprintln!("{}", removed(node, view)));
            }
            Happening::Restarted { .. } | Happening::Nothing => {}
        }
        if Instant::now() >= deadline {
            progress.finish_and_clear();
            return Err(plan.never_ready(&said));
        }
    }
}

/// That the group goes on without a node, for good.
fn removed(node: u16, view: u64) -> String {
    format!(
        "quorate: node {node} was removed from the group in view {view}; it does not start again"
    )
}

/// What the nodes that answer say.
fn ask(plan: &Plan) -> Vec<NodeStatus> {
    let asked = plan.nodes.iter().filter_map(|node| {
        // Who does not answer yet is asked again.
        let report = node_status(&node.address, GroupId::FIRST, ANSWER_MAX, plan.client()).ok()?;
        serde_json::from_slice(&report.status).ok()
    });
    asked.collect()
}

fn is_ready(nodes: usize, statuses: &[NodeStatus]) -> bool {
    let leader = statuses.first().and_then(|status| status.leader);
    statuses.len() >= nodes
        && leader.is_some()
        && statuses
            .iter()
            .all(|status| status.leader == leader && status.is_serving && status.is_host_up)
}

/// How many nodes forgot what they voted for.
fn observers(statuses: &[NodeStatus]) -> usize {
    let observes = |status: &&NodeStatus| status.roles.iter().any(|role| role == "observer");
    statuses.iter().filter(observes).count()
}

fn describe(plan: &Plan, statuses: &[NodeStatus]) -> String {
    format!(
        "{} of {} nodes answer, no leader yet",
        statuses.len(),
        plan.nodes.len()
    )
}

/// What the group tolerates in its newest view: it may have changed since its first start.
fn tolerated_by(plan: &Plan, statuses: &[NodeStatus]) -> String {
    let views = statuses.iter().map(|status| &status.view);
    let newest = views.max_by_key(|view| view.number);
    let ordering = newest.and_then(|view| view.ordering.parse().ok());
    let quorums = newest.and_then(ViewStatus::counts);
    let quorums = quorums.unwrap_or_else(|| plan.first.view().quorums);
    tolerated(ordering.unwrap_or(plan.first.ordering), quorums)
}

fn print_ready(plan: &Plan, statuses: &[NodeStatus], as_json: bool) -> Result<(), CliError> {
    let pid = |id: u16| {
        let status = statuses.iter().find(|status| status.id == id);
        status.map(|status| status.pid)
    };
    let mut stdout = std::io::stdout().lock();
    let written = if as_json {
        let nodes: Vec<_> = plan
            .nodes
            .iter()
            .map(|node| serde_json::json!({"id": node.id, "pid": pid(node.id), "address": node.address, "admin": node.admin}))
            .collect();
        let mut line = serde_json::json!({"endpoint": plan.endpoint(), "nodes": nodes, "dir": plan.dir(), "temporary": plan.is_temporary()});
        line["settings"] = settings::json(&plan.first);
        if let Some(tls) = &plan.tls {
            line["tls"] = serde_json::json!({"ca": tls.ca, "cert": tls.cert, "key": tls.key});
        }
        writeln!(stdout, "{line}")
    } else {
        let rows: Vec<Vec<String>> = plan
            .nodes
            .iter()
            .map(|node| {
                let pid = pid(node.id).map_or_else(|| "-".to_owned(), |pid| pid.to_string());
                vec![
                    node.id.to_string(),
                    pid,
                    node.address.clone(),
                    node.admin.clone(),
                ]
            })
            .collect();
        let nodes = table(&["NODE", "PID", "ADDRESS", "ADMIN"], &rows);
        let tls = plan
            .tls
            .as_ref()
            .map_or_else(String::new, |tls| format!("\n{}\n", tls.words()));
        let keeps = if plan.is_temporary() {
            "the data is in a temporary directory and goes when this ends; --dir DIR keeps it\n"
        } else {
            ""
        };
        let tolerated = tolerated_by(plan, statuses);
        writeln!(
            stdout,
            "{}\n\n{nodes}\n{tls}{tolerated}\n{}{keeps}stop with Ctrl-C",
            plan.endpoint(),
            settings::words(&plan.first, statuses)
        )
    };
    written
        .and_then(|()| stdout.flush())
        .map_err(|error| CliError::failed(format!("cannot print: {error}")))
}
