//! `quorate group create`, `list` and `drop`: the groups of a cluster beside its first one.

use crate::error::{CliError, code};
use crate::group::{GroupAccess, GroupArgs};
use crate::node::PersistArg;
use crate::print;
use crate::seconds;
use crate::status;
use crate::table::table;
use crate::unserved::{cannot_elect, hindrances, no_group};
use bytes::Bytes;
use clap::{Args, Subcommand};
use quorate_client::{Answer, CallCause, CallError, Endpoint, Operation, TlsClient, node_status};
use quorate_host::{HostConfig, HostedObject, PythonConfig};
use quorate_node::{
    GroupSetup, GroupStatus, NodeConfig, NodeError, ObjectConfig, ReadChecksConfig, SandboxConfig,
    SnapshotConfig, constructor_arguments,
};
use quorate_types::{GroupChange, Level, NodeId, NodeSet, ObjectId};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long one node may take to say how it is.
pub(crate) const ANSWER_MAX: Duration = Duration::from_millis(1_000);

/// Between two looks at a new group.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Create, list and drop groups: each has a log, a leader and objects of its own, on nodes of the same cluster.
#[derive(Args, Clone, Debug)]
pub(crate) struct GroupsArgs {
    #[command(subcommand)]
    command: GroupsCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum GroupsCommand {
    Create(CreateArgs),
    List(ListArgs),
    Drop(DropArgs),
}

/// Create a group on nodes of a cluster that runs.
///
/// The cluster's first group decides it: either all nodes named serve the group from then on, or nothing has changed. Prints the group's
/// endpoint once it has a leader. The same command is safe to repeat.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example: quorate group create orders shop:Orders --nodes 1,2,3\n         quorate call --endpoint quorate://orders@127.0.0.1:7400 Orders place 17"
)]
struct CreateArgs {
    /// What clients call it: 1 to 64 letters, digits, -, _ and ., the first no `.`.
    name: String,
    /// The class of its object, MODULE:CLASS, or rust:counter and the like.
    #[arg(value_name = "MODULE:CLASS")]
    class: String,
    /// The nodes that serve it, replicas of the cluster's first group. All vote. Default: all replicas.
    #[arg(long, value_name = "NODES", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(0..64))]
    nodes: Vec<u16>,
    /// Arguments of the class, a JSON list.
    #[arg(long, value_name = "JSON")]
    args: Option<String>,
    /// Named arguments of the class, a JSON object.
    #[arg(long, value_name = "JSON")]
    kwargs: Option<String>,
    /// Where the group keeps its log.
    #[arg(long, value_enum, default_value_t = PersistArg::Disk)]
    persist: PersistArg,
    /// A directory in which each node looks for the class, beside those of the first group's objects.
    #[arg(long, value_name = "DIR")]
    path: Vec<PathBuf>,
    /// Seconds until it must have a leader.
    #[arg(long, default_value_t = 30.0, value_parser = seconds::span)]
    timeout: f64,
    #[command(flatten)]
    group: GroupArgs,
}

/// List the groups of a cluster beside the first one, with the nodes that serve them and their objects.
#[derive(Args, Clone, Debug)]
struct ListArgs {
    /// Seconds to wait for the answer of each node.
    #[arg(long, default_value_t = 2.0, value_parser = seconds::span)]
    timeout: f64,
    #[command(flatten)]
    group: GroupArgs,
}

/// Drop a group with all that it holds. Nothing brings it back.
///
/// Its nodes end, and remove their directories. Calls under way have no answer, later ones find no such group.
#[derive(Args, Clone, Debug)]
struct DropArgs {
    /// What clients call it.
    name: String,
    /// Seconds until it must be decided.
    #[arg(long, default_value_t = 30.0, value_parser = seconds::span)]
    timeout: f64,
    #[command(flatten)]
    group: GroupArgs,
}

/// Runs the command.
pub(crate) fn run(args: &GroupsArgs, as_json: bool) -> Result<(), CliError> {
    match &args.command {
        GroupsCommand::Create(args) => create(args, as_json),
        GroupsCommand::List(args) => list(args, as_json),
        GroupsCommand::Drop(args) => drop_group(args, as_json),
    }
}

/// The first group of the cluster: only that one decides which others there are.
pub(crate) fn first_group(group: &GroupArgs) -> Result<GroupAccess, CliError> {
    let access = group.read()?;
    match &access.endpoint.group {
        None => Ok(access),
        Some(name) => Err(CliError::usage(format!(
            "the group {name} is named: only the cluster's first group has other groups, and nodes that join"
        ))
        .advise("leave out --group, and what stands before the @ of --endpoint")),
    }
}

pub(crate) fn named(name: &str) -> Result<String, CliError> {
    match GroupChange::is_name(name) {
        true => Ok(name.to_owned()),
        false => Err(CliError::usage(format!(
            "\"{}\" is not the name of a group: it has 1 to 64 letters, digits, -, _ and ., the first no .",
            print::word(name)
        ))),
    }
}

fn create(args: &CreateArgs, as_json: bool) -> Result<(), CliError> {
    let access = first_group(&args.group)?;
    let name = named(&args.name)?;
    let mut setup = setup(args)?;
    let timeout = seconds::duration(args.timeout);
    let until = Instant::now() + timeout;
    // The same command again is about the same group, whatever has changed since.
    let states = states(&access, ANSWER_MAX)?;
    let mut known = states.iter().map(|(_, group)| group);
    let known = known.find(|group| group.name == name);
    let view = status::view_of_group(&access.endpoint, ANSWER_MAX, access.tls())?;
    setup.level = match known {
        Some(group) => group.first_level,
        None => (view.level >= Level::FURTHER_GROUPS.0).then_some(view.level),
    };
    let setup = setup.to_bytes().map_err(CliError::usage)?;
    let change = GroupChange::Create {
        nodes: nodes(args, known, &view.replicas)?,
        name,
        setup: Bytes::from(setup),
    };
    let created = decide(&access, timeout, change)?;
    let endpoint = Endpoint {
        group: Some(args.name.clone()),
        object: None,
        ..access.endpoint.clone()
    };
    await_leader(&access, &endpoint, until)?;
    match as_json {
        true => print::line(json!({
            "name": args.name, "created": created, "endpoint": endpoint.to_string(),
        })),
        false => print::line(endpoint),
    }
}

fn setup(args: &CreateArgs) -> Result<GroupSetup, CliError> {
    let Some((module, class)) = args.class.split_once(':') else {
        return Err(not_a_class(&args.class));
    };
    if module.is_empty() || class.is_empty() {
        return Err(not_a_class(&args.class));
    }
    let arguments = constructor_arguments(args.args.as_deref(), args.kwargs.as_deref())
        .map_err(|error| CliError::usage(format!("--{error}")))?;
    if module == "rust" {
        // Of others the nodes know whether they have them.
        let object = HostedObject {
            id: ObjectId(0),
            name: class.to_owned(),
            class: args.class.clone(),
            arguments: arguments.clone(),
        };
        let tried = quorate_host::check(HostConfig {
            objects: vec![object],
            python: PythonConfig::default(),
        });
        tried.map_err(|error| CliError::node(&NodeError::from(error)))?;
    }
    let object = ObjectConfig {
        name: class.to_owned(),
        class: args.class.clone(),
        args: args.args.clone(),
        kwargs: args.kwargs.clone(),
        budget: quorate_host::limits::BUDGET_STEPS,
        path: args.path.clone(),
    };
    Ok(GroupSetup {
        persist: args.persist.as_config(),
        window: NodeConfig::WINDOW,
        call_timeout: NodeConfig::CALL_TIMEOUT,
        host_memory: quorate_host::limits::HOST_MEMORY_BYTES,
        sandbox: SandboxConfig::default(),
        allow: Vec::new(),
        check_reads: ReadChecksConfig::default(),
        snapshot: SnapshotConfig::default(),
        level: None,
        objects: vec![object],
    })
}

fn not_a_class(text: &str) -> CliError {
    CliError::usage(format!(
        "\"{}\" is not a class: write module:Class, or rust:counter, rust:register, rust:kv, rust:map, rust:queue, rust:lock",
        print::word(text)
    ))
}

/// The nodes named, or all replicas of the first group; of a group that there is, those that it has.
fn nodes(
    args: &CreateArgs,
    known: Option<&GroupStatus>,
    replicas: &[u16],
) -> Result<NodeSet, CliError> {
    if let Some(group) = known {
        let given: BTreeSet<u16> = args.nodes.iter().copied().collect();
        if given.is_empty() || given.iter().eq(&group.nodes) {
            return Ok(group.nodes.iter().copied().map(NodeId).collect());
        }
    }
    let named = match args.nodes.is_empty() {
        true => replicas,
        false => &args.nodes,
    };
    if let Some(stranger) = named.iter().find(|node| !replicas.contains(node)) {
        let replicas: Vec<String> = replicas.iter().map(u16::to_string).collect();
        let text = format!(
            "node {stranger} is no replica of the cluster's first group: its replicas are {}",
            replicas.join(", ")
        );
        return Err(CliError::not_found(text).advise("let it join first: quorate node join"));
    }
    Ok(named.iter().copied().map(NodeId).collect())
}

/// Has a change decided, and returns the slot since which it is so.
pub(crate) fn decide(
    access: &GroupAccess,
    timeout: Duration,
    change: GroupChange,
) -> Result<u64, CliError> {
    let client = access.connect(timeout)?;
    let name = change.name().to_owned();
    match client.perform(Operation::ChangeGroups { change }) {
        Ok(Answer::Checkpointed(slot)) => Ok(slot.0),
        Ok(Answer::Called(_) | Answer::Read { .. }) => {
            Err(CliError::failed("the node did not answer with a slot"))
        }
        Err(CallError::Invalid(CallCause::GroupExists)) => Err(CliError::conflict(format!(
            "there is a group {name} with other nodes, objects or settings: nothing has changed"
        ))
        .advise("name another one, or drop that one first: quorate group list")),
        Err(CallError::Invalid(CallCause::UnknownGroup)) => Err(no_group(&name, access)),
        Err(CallError::Invalid(CallCause::LevelNotSpoken)) => Err(CliError::conflict(format!(
            "a node begins to serve a group that was there before it only where the cluster's first group is at level {}: nothing has changed",
            GroupChange::SERVE_LEVEL
        ))
        .advise(format!(
            "quorate view set level={} for the first group, once all its members speak it",
            GroupChange::SERVE_LEVEL
        ))),
        Err(error @ CallError::Invalid(CallCause::ImpossibleGroup)) => {
            Err(CliError::conflict(error.to_string())
                .advise("look at quorate group list and quorate view show"))
        }
        Err(error) => Err(CliError::call(error)),
    }
}

/// Waits until the group has a leader; says which nodes could not begin to serve it if none comes, at once where too few can.
fn await_leader(access: &GroupAccess, endpoint: &Endpoint, until: Instant) -> Result<(), CliError> {
    loop {
        if let Ok(document) = status::of_group(endpoint, ANSWER_MAX, access.tls())
            && !document["leader"].is_null()
        {
            return Ok(());
        }
        let name = endpoint.group.clone().unwrap_or_default();
        if let Ok(states) = states(access, ANSWER_MAX)
            && cannot_elect(&states, &name)
        {
            let text = format!(
                "the group {name} is created, and too few of its nodes can serve it{}",
                hindrances(&states, &name)
            );
            return Err(CliError::failed(text).advise(format!(
                "correct that at the nodes, which try again by themselves; or remove the group: quorate group drop {name}"
            )));
        }
        if Instant::now() >= until {
            let text = format!(
                "the group {name} is created and has no leader yet{}",
                hindrances(&states(access, ANSWER_MAX)?, &name)
            );
            return Err(CliError::with_code(code::OUTCOME_UNKNOWN, text).advise(
                "look at quorate group list; quorate group drop removes the group if its class cannot be served",
            ));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// What each node that answers says of the groups.
fn states(access: &GroupAccess, timeout: Duration) -> Result<Vec<(u16, GroupStatus)>, CliError> {
    states_at(&access.endpoint, timeout, access.tls())
}

pub(crate) fn states_at(
    endpoint: &Endpoint,
    timeout: Duration,
    tls: Option<&TlsClient>,
) -> Result<Vec<(u16, GroupStatus)>, CliError> {
    let first = status::first_report(endpoint, timeout, tls)?;
    let mut states = Vec::new();
    for (node, address) in &first.welcome.members {
        let group = endpoint.group_id();
        let Ok(report) = node_status(address, group, timeout, tls) else {
            continue;
        };
        let mut document = status::parse(&report)?;
        let groups: Vec<GroupStatus> = serde_json::from_value(document["groups"].take())
            .map_err(|error| CliError::failed(format!("the groups of a node: {error}")))?;
        states.extend(groups.into_iter().map(|group| (node.0, group)));
    }
    Ok(states)
}

fn list(args: &ListArgs, as_json: bool) -> Result<(), CliError> {
    let access = first_group(&args.group)?;
    let timeout = seconds::duration(args.timeout);
    let states = states(&access, timeout)?;
    let view = status::view_of_group(&access.endpoint, timeout, access.tls())?;
    let members: BTreeSet<u16> = view.members.iter().map(|member| member.node).collect();
    let mut groups: Vec<&GroupStatus> = states.iter().map(|(_, group)| group).collect();
    groups.sort_by_key(|group| (group.created, group.id));
    groups.dedup_by_key(|group| (group.created, group.id));
    let of = |group: &GroupStatus| {
        let says = states
            .iter()
            .filter(|(_, other)| (other.created, other.id) == (group.created, group.id));
        let says = says.filter_map(|(node, other)| Some((*node, other.state.clone()?)));
        says.collect::<Vec<(u16, String)>>()
    };
    let serving = |group: &GroupStatus| {
        let says = of(group);
        let has_left = |node: &u16| says.iter().any(|(who, how)| who == node && how == "left");
        let named: BTreeSet<u16> = group.nodes.iter().chain(&group.later).copied().collect();
        let serving = named.intersection(&members).copied();
        serving.filter(|node| !has_left(node)).collect::<Vec<u16>>()
    };
    if as_json {
        let groups = groups.iter().map(|group| {
            let states = of(group)
                .into_iter()
                .map(|(node, state)| json!({"node": node, "state": state}));
            let objects = group
                .objects
                .iter()
                .map(|(name, class)| json!({"name": name, "class": class}));
            json!({
                "name": group.name, "id": group.id, "created": group.created, "nodes": serving(group),
                "objects": objects.collect::<Vec<_>>(), "states": states.collect::<Vec<_>>(),
            })
        });
        return print::line(serde_json::Value::Array(groups.collect()));
    }
    let rows = groups.iter().map(|group| {
        let nodes: Vec<String> = serving(group).iter().map(u16::to_string).collect();
        let classes = group.objects.iter().map(|(_, class)| class.as_str());
        let says = of(group);
        let running = says.iter().filter(|(_, state)| state == "running").count();
        let others = says
            .iter()
            .filter(|(_, state)| state != "running" && state != "left");
        let others = others.map(|(node, state)| format!("; node {node} {state}"));
        vec![
            group.name.clone(),
            classes.collect::<Vec<_>>().join(" "),
            nodes.join(","),
            format!(
                "{running} of {} run{}",
                nodes.len(),
                others.collect::<String>()
            ),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() {
        return print::line("no groups beside the first one: quorate group create makes one");
    }
    print::line(table(&["NAME", "CLASS", "NODES", "STATE"], &rows).trim_end())
}

fn drop_group(args: &DropArgs, as_json: bool) -> Result<(), CliError> {
    let access = first_group(&args.group)?;
    let name = named(&args.name)?;
    let slot = decide(
        &access,
        seconds::duration(args.timeout),
        GroupChange::Drop { name },
    )?;
    match as_json {
        true => print::line(json!({"name": args.name, "slot": slot})),
        false => print::line(format!("the group {} is dropped in slot {slot}", args.name)),
    }
}
