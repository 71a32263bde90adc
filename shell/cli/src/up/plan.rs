//! Where the nodes of a group live: directories, identities, ports and configurations.

use super::UpArgs;
use super::ports::{Ports, Reserved, loopback, reserve};
use super::settings::{self, SandboxArg};
use super::tls::{self, ClientFiles};
use crate::directory;
use crate::error::{CliError, code};
use crate::node::{PersistArg, hex, random};
use crate::quorums;
use crate::restore::shell_words;
use crate::unfinished::Unfinished;
use quorate_client::TlsClient;
use quorate_host::limits::BUDGET_STEPS;
use quorate_host::{HostConfig, HostError, HostedObject, PythonConfig, Sandbox, UnkeptState};
use quorate_node::{
    LimitsConfig, MemberConfig, NodeConfig, NodeError, ObjectConfig, ReadChecksConfig,
    SandboxConfig, SnapshotConfig, constructor_arguments,
};
use quorate_storage::Identity;
use quorate_types::{ClusterId, Incarnation, Level, Levels, NodeId, ObjectId, QuorumRule};
use quorate_wire::SPEAKS;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// The most nodes that a group of one machine has.
pub(super) const NODES_MAX: u16 = 9;

/// A group that is ready to be started.
pub(super) struct Plan {
    pub(super) nodes: Vec<PlannedNode>,
    /// What clients bring, in a group with certificates.
    pub(super) tls: Option<ClientFiles>,
    /// Nothing was there before: a node that does not start is a mistake in what was asked for.
    pub(super) is_new: bool,
    /// The first node's configuration; the settings of the others are the same.
    pub(super) first: NodeConfig,
    object: String,
    dir: PathBuf,
    /// No other `quorate up` uses the directory as long as this is open.
    _lock: File,
    _reserved: Vec<Reserved>,
    /// Removes the directory when the group ends, if it was a temporary one.
    temporary: Option<TempDir>,
}

/// One node of it.
pub(super) struct PlannedNode {
    pub(super) id: u16,
    pub(super) address: String,
    pub(super) admin: String,
    pub(super) config: PathBuf,
}

/// Refuses an ordering that the group could not begin with.
fn refuse_first_view(args: &UpArgs) -> Result<(), CliError> {
    let ordering = args.ordering.unwrap_or_default().name();
    judge_quorums(args)?;
    let level = args.first_level();
    if let Some(asked) = args.level.map(Levels::newest)
        && asked > level
    {
        return Err(CliError::usage(format!(
            "the group cannot begin at level {asked} where its nodes speak {level} at most"
        ))
        .advise("name one that they speak, or leave out --speaks"));
    }
    let least = match args.quorums.unwrap_or_default() {
        QuorumRule::Majority => ordering.level(),
        QuorumRule::Sizes(_) => ordering.level().max(Level::QUORUMS),
    };
    let least = match args.multicast {
        Some(_) => least.max(Level::MULTICAST),
        None => least,
    };
    if level >= least {
        return Ok(());
    }
    Err(CliError::conflict(format!(
        "this group takes level {least}, and would begin at {level}; nothing has changed"
    ))
    .advise("leave out --level and --speaks, or choose another ordering, and majorities"))
}

impl Plan {
    /// Makes the directories, or reuses those of an earlier run.
    pub(super) fn make(args: &UpArgs) -> Result<Plan, CliError> {
        refuse_first_view(args)?;
        let is_new = args
            .dir
            .as_ref()
            .is_none_or(|dir| !config_path(dir, 1).exists());
        let unkept_state = match is_new {
            true => UnkeptState::Refused,
            false => UnkeptState::Told,
        };
        if let (Some(dir), false) = (&args.dir, is_new) {
            refuse_other_object(dir, args)?;
        }
        let (object, code) = object_config(args, unkept_state)?;
        // Before a new group is made: a port in use leaves nothing behind.
        let ports = is_new.then(|| Ports::choose(args)).transpose()?;
        let pairs = ports.as_ref().map_or(&[][..], |ports| &ports.pairs);
        for (port, admin) in pairs {
            reserve(loopback(*port))?;
            reserve(loopback(*admin))?;
        }
        let (dir, temporary) = match &args.dir {
            Some(dir) => (directory::make(dir)?, None),
            None => {
                let made = tempfile::Builder::new().prefix("quorate-").tempdir();
                let made = made.map_err(|error| {
                    CliError::failed(format!("no temporary directory: {error}"))
                })?;
                (made.path().to_owned(), Some(made))
            }
        };
        let lock = lock(&dir)?;
        if is_new {
            directory::refuse_used(&dir)?;
        }
        let configs = if is_new {
            let configs = new_configs(&dir, args, std::slice::from_ref(&object), pairs)?;
            write_configs(&dir, &configs)?;
            configs
        } else {
            take_up(&dir, args, &object, code.as_deref())?
        };
        let listened = configs
            .iter()
            .flat_map(|config| [Some(config.listen), config.admin]);
        let reserved = listened.flatten().map(reserve).collect::<Result<_, _>>()?;
        let nodes = configs.iter().map(|config| PlannedNode {
            id: config.node,
            address: config.listen.to_string(),
            admin: config
                .admin
                .map(|admin| admin.to_string())
                .unwrap_or_default(),
            config: config_path(&dir, config.node),
        });
        let tls = args.tls.then(|| ClientFiles::of(&dir)).transpose()?;
        Ok(Plan {
            nodes: nodes.collect(),
            tls,
            is_new,
            first: configs[0].clone(),
            object: object.name,
            dir,
            _lock: lock,
            _reserved: reserved,
            temporary,
        })
    }

    /// Where clients connect.
    pub(super) fn endpoint(&self) -> String {
        let addresses: Vec<&str> = self
            .nodes
            .iter()
            .map(|node| node.address.as_str())
            .collect();
        format!("quorate://{}/{}", addresses.join(","), self.object)
    }

    /// How to reach the nodes of a group with certificates.
    pub(super) fn client(&self) -> Option<&TlsClient> {
        self.tls.as_ref().map(|files| &*files.client)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether the directory goes when the group ends.
    pub(super) fn is_temporary(&self) -> bool {
        self.temporary.is_some()
    }

    /// The log file of a node.
    pub(super) fn log(&self, node: u16) -> PathBuf {
        self.dir.join(format!("node-{node}.log"))
    }

    /// The message when no leader is elected in time.
    pub(super) fn never_ready(&self, said: &str) -> CliError {
        let dir = self.dir.display();
        let text = format!("the group did not become ready: {said}; logs are in {dir}");
        CliError::with_code(code::NO_QUORUM, text).advise(format!(
            "read the logs node-*.log in {dir}, and start it again"
        ))
    }

    /// What to say when a majority forgot what it voted for.
    pub(super) fn forgotten(&self, persist: PersistArg) -> CliError {
        let dir = self.dir.display();
        let (text, advice) = match persist {
            PersistArg::Memory => (
                format!(
                    "the group of {dir} kept its state in memory only, and a majority of its nodes stopped: the state is lost, \
                     and the group does not start again with empty state; use another --dir, or --persist disk"
                ),
                "name another --dir, or --persist disk",
            ),
            PersistArg::Disk => (
                format!(
                    "a majority of the nodes of {dir} have lost votes that they had written, so the group does not start: \
                     acknowledged calls may be lost; put the newest data directories back"
                ),
                "put the newest data directories back",
            ),
        };
        CliError::with_code(code::NO_QUORUM, text).advise(advice)
    }
}

/// What the object's host may do: as given, else as the directory has it.
fn host(args: &UpArgs) -> PythonConfig {
    let dir = args.dir.as_ref();
    let held = dir.and_then(|dir| NodeConfig::read(&config_path(dir, 1)).ok());
    let held = held.map(|held| held.host_config().python);
    let mut host = PythonConfig {
        scratch: PythonConfig::default().scratch,
        ..held.unwrap_or_default()
    };
    if let Some(python) = &args.python {
        host.interpreter = Some(python.clone());
    }
    if !args.allow.is_empty() {
        host.allow.clone_from(&args.allow);
    }
    if let Some(steps) = args.budget {
        host.budgets.insert(ObjectId(0), steps);
    }
    host.budgets.entry(ObjectId(0)).or_insert(BUDGET_STEPS);
    if let Some(bytes) = args.host_memory {
        host.memory_bytes_max = (bytes > 0).then_some(bytes);
    }
    if let Some(seconds) = args.call_timeout {
        host.call_timeout = Duration::try_from_secs_f64(seconds).ok();
    }
    if let Some(sandbox) = args.sandbox {
        host.sandbox = match sandbox {
            SandboxArg::On => Sandbox::On,
            SandboxArg::Off => Sandbox::Off,
        };
    }
    host
}

/// A group of a directory goes on with the code that it was made with, unless other code is accepted. A node whose note of that
/// cannot be read says so itself when it is started: the others go on without it.
fn refuse_other_code(
    args: &UpArgs,
    configs: &[NodeConfig],
    code: Option<&str>,
) -> Result<(), CliError> {
    if args.accept_code || args.persist == PersistArg::Memory {
        return Ok(());
    }
    for config in configs {
        let judged = quorate_node::refuse_other_code(&config.dir, config.group_id(), code);
        if let Err(error @ NodeError::OtherCode { .. }) = judged {
            return Err(CliError::node(&error));
        }
    }
    Ok(())
}

/// Why the object cannot be served. An interpreter without the package says little.
fn unserved(error: HostError, python: &Path) -> CliError {
    let has_ended = matches!(error, HostError::Ended(_));
    let mut told = CliError::node(&NodeError::from(error));
    if has_ended {
        told.text = format!(
            "{}; its interpreter is {}: if the package quorate is missing there, name another one with --python or QUORATE_PYTHON",
            told.text,
            python.display()
        );
    }
    told
}

/// What is wrong with the constructor's arguments, and how they are written.
fn wrong_arguments(error: &str) -> CliError {
    let example = match error.starts_with("kwargs") {
        true => r#"--kwargs '{"balance": 100}'"#,
        false => r#"--args '["A-1", 100]'"#,
    };
    let advice = format!("write for example {example}; text is in double quotes");
    CliError::usage(format!("--{error}; {advice}")).advise(advice)
}

/// The object, tried out, and what its host said of its code.
fn object_config(
    args: &UpArgs,
    unkept_state: UnkeptState,
) -> Result<(ObjectConfig, Option<String>), CliError> {
    let name = match args.class.split_once(':') {
        Some((module, class)) if !module.is_empty() && !class.is_empty() => class.to_owned(),
        Some(_) | None => {
            return Err(CliError::usage(format!(
                "\"{}\" is not a class: write module:Class, or rust:counter, rust:register, rust:kv, rust:map, rust:queue, rust:lock",
                args.class
            )));
        }
    };
    let arguments = constructor_arguments(args.args.as_deref(), args.kwargs.as_deref())
        .map_err(|error| wrong_arguments(&error))?;
    let here = std::env::current_dir()
        .map_err(|error| CliError::failed(format!("no current directory: {error}")))?;
    let spec = HostedObject {
        id: ObjectId(0),
        name: name.clone(),
        class: args.class.clone(),
        arguments,
    };
    let host = host(args);
    let budget = host.budgets[&ObjectId(0)];
    let python = quorate_host::interpreter(host.interpreter.as_deref());
    let _unfinished = Unfinished::note(&host.scratch);
    // Before anything is made: a wrong class leaves nothing behind.
    let code = quorate_host::check(HostConfig {
        objects: vec![spec],
        python: PythonConfig {
            paths: vec![here.clone()],
            with_snapshots: !args.no_snapshot,
            unkept_state,
            ..host
        },
    })
    .map_err(|error| unserved(error, &python))?;
    let object = ObjectConfig {
        name,
        class: args.class.clone(),
        args: args.args.clone(),
        kwargs: args.kwargs.clone(),
        budget,
        path: vec![here],
    };
    Ok((object, code))
}

/// Locks the directory itself, so that removing a file in it does not let a second group in.
pub(super) fn lock(dir: &Path) -> Result<File, CliError> {
    let failed =
        |error: std::io::Error| CliError::failed(format!("cannot lock {}: {error}", dir.display()));
    let opened = File::open(dir).map_err(failed)?;
    match flock(&opened, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(opened),
        Err(Errno::WOULDBLOCK) => Err(CliError::conflict(format!(
            "{} is in use by another `quorate up`: stop that one, or choose another --dir",
            dir.display()
        ))
        .advise("stop that one, or choose another --dir")),
        Err(error) => Err(failed(error.into())),
    }
}

pub(super) fn config_path(dir: &Path, node: u16) -> PathBuf {
    dir.join(format!("node-{node}.toml"))
}

/// What is told of a directory that holds another group than is asked for.
fn other_group(dir: &Path, what: &str) -> CliError {
    CliError::conflict(format!("{} holds another group: {what}", dir.display()))
        .advise("start it with the options that it was made with, or choose another --dir")
}

/// Refuses another class or other arguments than an earlier run's, before those are tried.
fn refuse_other_object(dir: &Path, args: &UpArgs) -> Result<(), CliError> {
    let first = NodeConfig::read(&config_path(dir, 1)).map_err(|error| CliError::node(&error))?;
    let held = &first.objects[0];
    if held.class != args.class {
        return Err(other_group(dir, &format!("it replicates {}", held.class)));
    }
    if (&held.args, &held.kwargs) == (&args.args, &args.kwargs) {
        return Ok(());
    }
    let mut words = Vec::new();
    for (option, given) in [("--args", &held.args), ("--kwargs", &held.kwargs)] {
        if let Some(given) = given {
            words.extend([option.to_owned(), given.clone()]);
        }
    }
    let made = match words.is_empty() {
        true => "without --args and --kwargs".to_owned(),
        false => format!("with {}", shell_words(words)),
    };
    Err(other_group(dir, &format!("its object was made {made}")))
}

/// An earlier run's group: its nodes as they were.
fn take_up(
    dir: &Path,
    args: &UpArgs,
    object: &ObjectConfig,
    code: Option<&str>,
) -> Result<Vec<NodeConfig>, CliError> {
    let first = NodeConfig::read(&config_path(dir, 1)).map_err(|error| CliError::node(&error))?;
    let conflict = |what: String| other_group(dir, &what);
    if first.members.len() != usize::from(args.nodes) {
        return Err(conflict(format!("it has {} nodes", first.members.len())));
    }
    if first.persist != args.persist.as_config() {
        return Err(conflict(format!(
            "it was made with persist = {:?}",
            first.persist
        )));
    }
    other_first_view(args, &first).map_or(Ok(()), |why| Err(conflict(why)))?;
    if first.tls.is_some() != args.tls {
        return Err(conflict(match args.tls {
            true => "it was made without --tls".to_owned(),
            false => "it was made with --tls".to_owned(),
        }));
    }
    let port = first.listen.port();
    if let Some(wished) = args.port
        && wished != 0
        && wished != port
    {
        return Err(conflict(format!(
            "its first port is {port}, which clients and nodes know: leave --port out"
        )));
    }
    let held = first.members.iter().map(|member| {
        let path = config_path(dir, member.node);
        NodeConfig::read(&path).map_err(|error| CliError::node(&error))
    });
    let held = held.collect::<Result<Vec<_>, _>>()?;
    refuse_other_code(args, &held, code)?;
    let configs = held.into_iter().map(|held| {
        let mut config = held.clone();
        settings::apply(args, object, &mut config);
        if config != held {
            // What the node would refuse is not written.
            NodeConfig::parse(&config.to_toml()).map_err(CliError::usage)?;
            write_config(&config_path(dir, config.node), &config)?;
        }
        Ok(config)
    });
    configs.collect()
}

/// Writes the whole file, durably, or leaves the old one.
pub(crate) fn write_config(path: &Path, config: &NodeConfig) -> Result<(), CliError> {
    let beside = path.with_extension("toml.tmp");
    let dir = path.parent().unwrap_or(Path::new("."));
    let written = File::create(&beside).and_then(|mut file| {
        file.write_all(config.to_toml().as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&beside, path)?;
        File::open(dir)?.sync_all()
    });
    written.map_err(|error| CliError::failed(format!("cannot write {}: {error}", path.display())))
}

/// Makes the directories of a new group's nodes, and its certificates. Nothing starts from them before their configurations are
/// written.
pub(super) fn new_configs(
    dir: &Path,
    args: &UpArgs,
    objects: &[ObjectConfig],
    ports: &[(u16, u16)],
) -> Result<Vec<NodeConfig>, CliError> {
    let cluster = random()?;
    if args.tls {
        tls::make(dir, args.nodes)?;
    }
    let mut members = Vec::new();
    for (node, (port, admin)) in (1..).zip(ports) {
        let home = dir.join(format!("node-{node}"));
        let made = Identity::init(
            &home,
            ClusterId(cluster),
            NodeId(node),
            Incarnation(random()?),
            args.persist.as_storage(),
        );
        let identity = made.map_err(|error| CliError::node(&NodeError::from(error)))?;
        members.push(MemberConfig {
            node,
            incarnation: hex(identity.incarnation.0),
            address: loopback(*port).to_string(),
            admin: Some(loopback(*admin).to_string()),
        });
    }
    let configs: Vec<NodeConfig> = (1..)
        .zip(ports)
        .map(|(node, (port, admin))| {
            let mut config = NodeConfig {
                cluster: hex(cluster),
                group: 1,
                name: None,
                node,
                dir: dir.join(format!("node-{node}")),
                listen: loopback(*port),
                admin: Some(loopback(*admin)),
                witness: false,
                persist: args.persist.as_config(),
                window: NodeConfig::WINDOW,
                ordering: args.ordering.unwrap_or_default().name(),
                level: Some(args.first_level().0),
                quorums: args.quorums.unwrap_or_default(),
                insecure: false,
                keeps_inside: false,
                speaks: SPEAKS,
                python: None,
                call_timeout: NodeConfig::CALL_TIMEOUT,
                host_memory: quorate_host::limits::HOST_MEMORY_BYTES,
                allow: Vec::new(),
                sandbox: SandboxConfig::default(),
                check_reads: ReadChecksConfig::default(),
                snapshot: SnapshotConfig::default(),
                limits: LimitsConfig::default(),
                tls: args.tls.then(|| tls::node_files(dir, node)),
                objects: objects.to_vec(),
                members: members.clone(),
                known: Vec::new(),
                known_view: 0,
            };
            settings::apply(args, &objects[0], &mut config);
            config
        })
        .collect();
    Ok(configs)
}

/// Refuses quorums that a new group cannot have.
fn judge_quorums(args: &UpArgs) -> Result<(), CliError> {
    let ordering = args.ordering.unwrap_or_default().name();
    let rule = args.quorums.unwrap_or_default();
    let is_kept = args.persist == PersistArg::Disk;
    quorums::judge((rule, is_kept), ordering, args.nodes.into()).map(drop)
}

/// Why a group that was there before does not begin with what is asked for of its first view.
fn other_first_view(args: &UpArgs, first: &NodeConfig) -> Option<String> {
    if let Some(wished) = args.ordering
        && wished.name() != first.ordering
    {
        return Some(format!(
            "it began with the ordering {}, which `quorate view switch` changes while it runs: leave --ordering out",
            first.ordering
        ));
    }
    if let Some(level) = args.level.map(Levels::newest)
        && level != first.first_level()
    {
        return Some(format!(
            "it began at level {}, which `quorate view set level={level}` changes while it runs: leave --level out",
            first.first_level()
        ));
    }
    let (wished, began) = (args.quorums?, first.quorums);
    (wished != began).then(|| {
        format!(
            "it began with the quorums {began}, which `quorate view set quorums={wished}` changes while it runs: leave --quorums out"
        )
    })
}

/// Writes the configurations of a new group. The first node's is written last: it says that the group is whole.
pub(super) fn write_configs(dir: &Path, configs: &[NodeConfig]) -> Result<(), CliError> {
    let mut configs = configs.iter().rev();
    configs.try_for_each(|config| write_config(&config_path(dir, config.node), config))?;
    // The directory may be as new as what is in it. Where this user may not read the one above, nothing more can be done.
    let synced = File::open(dir.join("..")).map_or(Ok(()), |parent| parent.sync_all());
    synced.map_err(|error| CliError::failed(format!("cannot write {}: {error}", dir.display())))
}
