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
    GroupConfiguration, MemberConfig, NodeConfig, NodeError, TlsConfig, ViewStatus,
};
use quorate_storage::{DataDirectory, Identity, StorageError};
use quorate_types::{ClusterId, Incarnation, Member, NodeId, NodeSet};
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};

/// The node's configuration, in its directory.
pub(crate) const FILE: &str = "node.toml";

/// What lies in the directory before the identity does.
const BESIDE: [&str; 2] = [FILE, "node.toml.tmp"];

/// A node that is to join, or has joined and goes on.
pub(crate) struct Newcomer {
    config: NodeConfig,
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
        let config = NodeConfig::read(&file).map_err(|error| CliError::node(&error))?;
        let unborn = match Identity::open_unborn(&config.dir) {
            Ok(unborn) => Some(unborn),
            Err(StorageError::AlreadyInitialised(_)) => None,
            Err(StorageError::NotInitialised(_)) => return Ok(None),
            Err(error) => return Err(CliError::node(&error.into())),
        };
        let checked = config.check_member();
        checked.map_err(|error| CliError::node(&error))?;
        let newcomer = Newcomer { config, unborn };
        if newcomer.unborn.is_some() {
            // The try may have ended between the two.
            newcomer.identify()?;
        }
        Ok(Some(newcomer))
    }

    /// A new node for the group that told this of itself.
    pub(crate) fn make(args: &JoinArgs, group: &GroupConfiguration) -> Result<Newcomer, CliError> {
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
        let tls = args.group.tls_files()?;
        let mut config = NodeConfig {
            listen,
            admin: args.admin,
            insecure: args.insecure,
            python: args.python.clone(),
            tls: tls.map(|[ca, cert, key]| TlsConfig { ca, cert, key }),
            ..template
        };
        if !args.path.is_empty() {
            for object in &mut config.objects {
                object.path.clone_from(&args.path);
            }
        }
        let own = MemberConfig {
            node: free_number(args, group, (&config, &BTreeSet::new()))?,
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
    pub(crate) fn needs_number(&self, args: &JoinArgs, view: &ViewStatus) -> bool {
        let own = self.config.node;
        let is_taken = view.members.iter().any(|member| member.node == own);
        is_taken || !may_be(args, own)
    }

    /// Refuses another number than the directory's, which is a member's.
    pub(crate) fn check_wish(&self, args: &JoinArgs) -> Result<(), CliError> {
        let own = self.config.node;
        if may_be(args, own) {
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
            node: free_number(args, group, (&self.config, &taken))?,
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

/// Whether a node may have this number, whoever else has it.
fn may_be(args: &JoinArgs, node: u16) -> bool {
    args.node.is_none_or(|wanted| wanted == node)
}

/// A number that nobody has: the one of `--node`, else above all that are or were known, as long as there are some.
fn free_number(
    args: &JoinArgs,
    group: &GroupConfiguration,
    (config, taken): (&NodeConfig, &BTreeSet<u16>),
) -> Result<u16, CliError> {
    let mut taken = taken.clone();
    taken.extend(group.members.iter().map(|member| member.node));
    let is_free = |node: &u16| !taken.contains(node);
    if let Some(wanted) = args.node {
        let text = format!("node {wanted} is a member of the group");
        let taken = || CliError::conflict(text).advise("name another --node, or none");
        return Some(wanted).filter(is_free).ok_or_else(taken);
    }
    let founders = config.members.iter().map(|member| member.node);
    let newest = taken.iter().copied().chain(founders).max().unwrap_or(0);
    let mut free = (newest + 1..NodeSet::CAPACITY).chain(1..=newest);
    free.find(is_free).ok_or_else(|| {
        CliError::conflict(format!(
            "the group has {} members, the most it can have",
            NodeSet::CAPACITY
        ))
    })
}

/// The address, with a port that is free where none is named.
fn free_address(listen: SocketAddr) -> Result<SocketAddr, CliError> {
    let bound = TcpListener::bind(listen).and_then(|listener| listener.local_addr());
    bound.map_err(|error| CliError::failed(format!("--listen {listen}: {error}")))
}
