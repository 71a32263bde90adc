//! A node that wants to join, until it is a member: its directory, its configuration, and a number that nobody has.
//!
//! `node.toml` is written before the identity, and both before the group is asked. So a command that ended anywhere goes on when it is
//! said again. As long as no node has run in the directory, it can become that of another number. Called by `quorate node join`.

use crate::directory;
use crate::error::CliError;
use crate::join::JoinArgs;
use crate::node::{hex, random};
use crate::up::write_config;
use quorate_node::{
    GroupConfiguration, MemberConfig, NodeConfig, NodeError, TlsConfig, ViewStatus, certified_nodes,
};
use quorate_storage::{DataDirectory, Identity, StorageError};
use quorate_types::{ClusterId, Incarnation, Member, MemberRole, NodeId, NodeSet};
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};

/// The node's configuration, in its directory.
pub(crate) const FILE: &str = "node.toml";

/// What lies in the directory before the identity does.
const BESIDE: [&str; 2] = [FILE, "node.toml.tmp"];

/// The numbers that a node may take, whoever has them.
pub(crate) struct NodeNumbers {
    wanted: Option<u16>,
    /// Those that its certificate names, if there is one.
    certified: Option<NodeSet>,
}

impl NodeNumbers {
    /// As the options say. Certificates that others would refuse are refused here.
    pub(crate) fn of(args: &JoinArgs) -> Result<NodeNumbers, CliError> {
        NodeNumbers::with(args.node, tls_of(args)?.as_ref())
    }

    fn with(wanted: Option<u16>, tls: Option<&TlsConfig>) -> Result<NodeNumbers, CliError> {
        let help = "quorate certs --dir DIR --node N makes those of one node, where the key of the authority is";
        let certified = tls.map(certified_nodes).transpose();
        let certified = certified.map_err(|error| CliError::node(&error).advise(help))?;
        if let (Some(tls), Some(certified), Some(node)) = (tls, certified, wanted)
            && !certified.contains(NodeId(node))
        {
            let text = format!(
                "{} is the certificate of node {}, and --node {node} needs its own",
                tls.cert.display(),
                listed(certified)
            );
            return Err(CliError::usage(text).advise(help));
        }
        Ok(NodeNumbers { wanted, certified })
    }

    fn allow(&self, node: u16) -> bool {
        self.wanted.is_none_or(|wanted| wanted == node)
            && (self.certified).is_none_or(|certified| certified.contains(NodeId(node)))
    }
}

fn listed(nodes: NodeSet) -> String {
    let nodes: Vec<String> = nodes.iter().map(|node| node.0.to_string()).collect();
    nodes.join(" or ")
}

/// The node's own certificates, wherever a later start finds itself.
fn tls_of(args: &JoinArgs) -> Result<Option<TlsConfig>, CliError> {
    let Some(files) = args.group.tls_files()? else {
        return Ok(None);
    };
    let [ca, cert, key] = files.map(|file| std::path::absolute(&file).unwrap_or(file));
    Ok(Some(TlsConfig { ca, cert, key }))
}

/// A node that is to join, or has joined and goes on.
pub(crate) struct Newcomer {
    config: NodeConfig,
    numbers: NodeNumbers,
    /// Its directory, locked, unless a node has run in it: then it stays who it is.
    unborn: Option<DataDirectory>,
}

impl Newcomer {
    /// The node that an earlier try of the command has left in the directory of `args`, if it came as far as its identity.
    pub(crate) fn earlier(args: &JoinArgs) -> Result<Option<Newcomer>, CliError> {
        let file = args.dir.join(FILE);
        if !file.exists() {
            return Ok(None);
        }
        let mut config = NodeConfig::read(&file).map_err(|error| CliError::node(&error))?;
        let unborn = match Identity::open_unborn(&config.dir) {
            Ok(unborn) => Some(unborn),
            Err(StorageError::AlreadyInitialised(_)) => None,
            Err(StorageError::NotInitialised(_)) => return Ok(None),
            Err(error) => return Err(CliError::node(&error.into())),
        };
        if config.witness != (args.role() == MemberRole::Witness) {
            let text = format!(
                "{} was made for another role than --roles says",
                args.dir.display()
            );
            return Err(CliError::conflict(text)
                .advise("say the same --roles as before, or name another --dir"));
        }
        let checked = config.check_member();
        checked.map_err(|error| CliError::node(&error))?;
        let numbers = NodeNumbers::with(args.node, config.tls.as_ref())?;
        if host_options(&mut config, args) {
            write_config(&file, &config)?;
        }
        let newcomer = Newcomer {
            config,
            numbers,
            unborn,
        };
        if newcomer.unborn.is_some() {
            // The try may have ended between the two.
            newcomer.identify()?;
        }
        Ok(Some(newcomer))
    }

    /// A new node for the group that told this of itself.
    pub(crate) fn make(
        args: &JoinArgs,
        numbers: NodeNumbers,
        group: &GroupConfiguration,
    ) -> Result<Newcomer, CliError> {
        let template = group.template().map_err(|error| CliError::node(&error))?;
        let file = args.dir.join(FILE);
        if let Ok(before) = NodeConfig::read(&file)
            && let Some(own) = before.own_member()
            && group.members.contains(own)
        {
            let text = format!(
                "{} has lost what made it that of node {}, which is a member of the group",
                args.dir.display(),
                own.node
            );
            return Err(CliError::conflict(text).advise(format!(
                "let it leave, and join as a new node with another --dir: quorate view remove {}",
                own.node
            )));
        }
        let listen = free_address(args.listen)?;
        let mut config = NodeConfig {
            listen,
            witness: args.role() == MemberRole::Witness,
            admin: args.admin,
            insecure: args.insecure,
            python: None,
            tls: tls_of(args)?,
            ..template
        };
        host_options(&mut config, args);
        let own = MemberConfig {
            node: free_number(&numbers, group, (&config, &BTreeSet::new()))?,
            incarnation: hex(random()?),
            address: args.address.clone().unwrap_or_else(|| listen.to_string()),
            admin: args.admin.map(|admin| admin.to_string()),
        };
        join_known(&mut config, group, own);
        // Before anything is made: what the node would refuse when it starts.
        let checked = NodeConfig::parse(&config.to_toml()).and_then(|read| read.check_exposure());
        checked.map_err(CliError::usage)?;
        config.dir = directory::make(&args.dir)?;
        let refused = |error: StorageError| CliError::node(&NodeError::from(error));
        Identity::check_unused(&config.dir, &BESIDE).map_err(refused)?;
        write_config(&file, &config)?;
        let identity = identity_of(&config);
        let made = identity.init_beside(&config.dir, &BESIDE);
        made.map_err(refused)?;
        let unborn = Identity::open_unborn(&config.dir).map_err(refused)?;
        Ok(Newcomer {
            config,
            numbers,
            unborn: Some(unborn),
        })
    }

    /// The node as the view is to name it.
    pub(crate) fn own(&self) -> Member {
        let own = own_of(&self.config);
        Member {
            node: NodeId(own.node),
            incarnation: Incarnation(own.incarnation.0),
            address: own.address.clone(),
        }
    }

    /// Whether a node has run in the directory: it is that of a member, or of one that was.
    pub(crate) fn has_run(&self) -> bool {
        self.unborn.is_none()
    }

    /// Learns who the members are, and that it is none any more.
    pub(crate) fn meet(&self, told: &GroupConfiguration) -> Result<(), CliError> {
        let noted = self.config.note_members(told);
        noted.map(drop).map_err(|error| CliError::node(&error))
    }

    /// The cluster that it was made for.
    pub(crate) fn cluster(&self) -> ClusterId {
        self.config.cluster_id()
    }

    /// Gives the directory to the process that runs the node.
    pub(crate) fn into_config(self) -> NodeConfig {
        self.config
    }

    /// Whether a view names this node, where it is. Of one that has run the view may know a later incarnation.
    pub(crate) fn is_named_in(&self, view: &ViewStatus) -> bool {
        let own = own_of(&self.config);
        let digits = format!("{:016x}", own.incarnation.0);
        view.members.iter().any(|member| {
            let is_it = self.unborn.is_none() || digits.starts_with(&member.incarnation);
            is_it && (member.node, &member.address) == (own.node, &own.address)
        })
    }

    /// Whether it needs another number before it can join: the view names somebody else with its own, or another one is wanted.
    pub(crate) fn needs_number(&self, view: &ViewStatus) -> bool {
        let own = self.config.node;
        let is_taken = view.members.iter().any(|member| member.node == own);
        is_taken || !self.numbers.allow(own)
    }

    /// Refuses another number than the directory's, which is a member's.
    pub(crate) fn check_wish(&self, args: &JoinArgs) -> Result<(), CliError> {
        let own = self.config.node;
        if self.numbers.allow(own) {
            return Ok(());
        }
        let text = format!(
            "{} is that of node {own}, a member of the group",
            args.dir.display()
        );
        Err(CliError::conflict(text).advise("leave --node out, or name another --dir"))
    }

    /// Takes a number that nobody has in a view, which may be newer than what the group has told of itself.
    pub(crate) fn take_number(
        &mut self,
        args: &JoinArgs,
        (group, view): (&GroupConfiguration, &ViewStatus),
    ) -> Result<(), CliError> {
        let before = own_of(&self.config).clone();
        if self.unborn.is_none() {
            let text = format!(
                "another node {} is a member of the group, and one has run in {} already",
                before.node,
                args.dir.display()
            );
            return Err(CliError::conflict(text).advise("name another --dir, which is empty"));
        }
        let taken = view.members.iter().map(|member| member.node).collect();
        let own = MemberConfig {
            node: free_number(&self.numbers, group, (&self.config, &taken))?,
            incarnation: hex(random()?),
            ..before
        };
        join_known(&mut self.config, group, own);
        write_config(&args.dir.join(FILE), &self.config)?;
        self.identify()
    }

    /// Makes the identity what the configuration says.
    fn identify(&self) -> Result<(), CliError> {
        let directory = self.unborn.as_ref().expect("no node has run in it");
        let wanted = identity_of(&self.config);
        let changed = directory
            .identity_file()
            .change(|identity| *identity = wanted);
        changed.map_err(|error| CliError::node(&error.into()))
    }
}

/// What the options say of the host process, which an earlier try may have said wrong. Whether that changes the configuration.
fn host_options(config: &mut NodeConfig, args: &JoinArgs) -> bool {
    let before = config.to_toml();
    if let Some(python) = &args.python {
        config.python = Some(python.clone());
    }
    if !args.path.is_empty() {
        for object in &mut config.objects {
            object.path.clone_from(&args.path);
        }
    }
    config.to_toml() != before
}

/// Writes down who the node is, and whom it will find.
fn join_known(config: &mut NodeConfig, group: &GroupConfiguration, own: MemberConfig) {
    config.node = own.node;
    config.known.clone_from(&group.members);
    config.known.push(own);
    config.known_view = group.view;
}

fn own_of(config: &NodeConfig) -> &MemberConfig {
    config.own_member().expect("it is among those known")
}

fn identity_of(config: &NodeConfig) -> Identity {
    Identity::new(
        ClusterId(config.cluster.0),
        NodeId(config.node),
        Incarnation(own_of(config).incarnation.0),
        config.persist.as_storage(),
    )
}

/// A number that nobody has: the one that is wanted, else above all that are or were known, as long as there are some.
fn free_number(
    numbers: &NodeNumbers,
    group: &GroupConfiguration,
    (config, taken): (&NodeConfig, &BTreeSet<u16>),
) -> Result<u16, CliError> {
    let mut taken = taken.clone();
    taken.extend(group.members.iter().map(|member| member.node));
    let is_free = |node: &u16| !taken.contains(node);
    if let Some(wanted) = numbers.wanted {
        let text = format!("node {wanted} is a member of the group");
        let taken = || CliError::conflict(text).advise("name another --node, or none");
        return Some(wanted).filter(is_free).ok_or_else(taken);
    }
    let founders = config.members.iter().map(|member| member.node);
    let newest = taken.iter().copied().chain(founders).max().unwrap_or(0);
    let mut free = (newest + 1..NodeSet::CAPACITY).chain(1..=newest);
    let found = free.find(|node| is_free(node) && numbers.allow(*node));
    found.ok_or_else(|| match numbers.certified {
        Some(nodes) => CliError::conflict(format!(
            "the certificate is that of node {}, which is a member of the group",
            listed(nodes)
        ))
        .advise("bring that of another node: quorate certs --dir DIR --node N makes it"),
        None => CliError::conflict(format!(
            "the group has {} members, the most it can have",
            NodeSet::CAPACITY
        )),
    })
}

/// The address, with a port that is free where none is named.
fn free_address(listen: SocketAddr) -> Result<SocketAddr, CliError> {
    let bound = TcpListener::bind(listen).and_then(|listener| listener.local_addr());
    bound.map_err(|error| CliError::failed(format!("--listen {listen}: {error}")))
}
