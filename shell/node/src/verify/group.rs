//! The directory of a whole group, as `quorate up` makes it: each node, and what only shows beside the others.

use super::{REBUILT, StartsAs, VerifiedNode, is_node_directory, verify_node};
use crate::{NodeConfig, NodeError};
use quorate_storage::{FlawKind, ScrubbedFile, StoppedDirectory};
use quorate_types::{ClusterId, GroupId, Incarnation, NodeId, Slot};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;

/// The names of the nodes that have a directory or a configuration in `dir`, such as node-1.
///
/// # Errors
/// When the directory cannot be listed.
pub fn nodes_of(dir: &Path) -> std::io::Result<BTreeSet<String>> {
    let mut nodes = BTreeSet::new();
    for entry in std::fs::read_dir(dir)? {
        let Ok(name) = entry?.file_name().into_string() else {
            continue;
        };
        let base = name.strip_suffix(".toml").unwrap_or(&name);
        let is_node = base
            .strip_prefix("node-")
            .is_some_and(|number| number.parse::<u16>().is_ok());
        if is_node && (base.len() < name.len() || is_node_directory(&dir.join(base))) {
            nodes.insert(base.to_owned());
        }
    }
    Ok(nodes)
}

/// Scrubs the data directories of all nodes in `dir`. `read_bytes` is told how many bytes were read.
///
/// # Errors
/// When the group or a node runs, or a directory cannot be read.
pub fn verify_group(
    dir: &Path,
    read_bytes: &mut dyn FnMut(u64),
) -> Result<Vec<VerifiedNode>, NodeError> {
    let _stopped = StoppedDirectory::open(dir)?;
    let failed = |error| NodeError::System("cannot list the group's directory", error);
    let mut names = nodes_of(dir).map_err(failed)?;
    let configs = names.iter().map(|name| dir.join(format!("{name}.toml")));
    let read: Vec<NodeConfig> = configs
        .filter_map(|path| NodeConfig::read(&path).ok())
        .collect();
    names.extend(read.iter().flat_map(on_this_machine));
    let mut nodes = Vec::new();
    for name in names {
        let home = dir.join(&name);
        let mut node = match home.is_dir() {
            true => verify_node(&home, read_bytes)?,
            false => absent(&home),
        };
        let config = dir.join(format!("{name}.toml"));
        match config.exists() {
            true => compare_with(&config, &mut node),
            false => judge_without(&config, read.is_empty(), &mut node),
        }
        nodes.push(node);
    }
    compare_snapshots(&mut nodes);
    Ok(nodes)
}

/// The nodes of a group whose members all are on one machine, as `quorate up` makes it: none of them is elsewhere.
fn on_this_machine(config: &NodeConfig) -> Vec<String> {
    let is_here = |address: &str| {
        let address = address.parse::<SocketAddr>();
        address.is_ok_and(|address| address.ip().is_loopback())
    };
    let members = &config.members;
    match members.iter().all(|member| is_here(&member.address)) {
        true => members
            .iter()
            .map(|member| format!("node-{}", member.node))
            .collect(),
        false => Vec::new(),
    }
}

/// A node that has no configuration beside it. Where there is none at all, they may be elsewhere; but then the node has started.
fn judge_without(config: &Path, is_none_here: bool, node: &mut VerifiedNode) {
    let has_started = node.identity.is_none_or(|identity| identity.boot > 0);
    let (why, to_do) = match is_none_here {
        true if has_started => return,
        true => (
            "it has never started, and no configuration is here: what made the group was interrupted".to_owned(),
            "remove the directory, and make the group again",
        ),
        false => (
            format!("its configuration {} is not here", config.display()),
            "put it back; where the group was never started, remove the directory and make the group again",
        ),
    };
    if let StartsAs::Voter { .. } | StartsAs::Observer { .. } = &node.start {
        node.start = StartsAs::refused(why, to_do);
    }
}

/// A node of the group that has no directory.
fn absent(home: &Path) -> VerifiedNode {
    VerifiedNode {
        dir: home.to_owned(),
        identity: None,
        files: Vec::new(),
        start: StartsAs::refused("its data directory is not here", REBUILT),
        snapshots: Vec::new(),
    }
}

/// A start refuses a directory of which its configuration does not speak.
fn compare_with(config: &Path, node: &mut VerifiedNode) {
    let shown = config.display();
    let refused = match (NodeConfig::read(config), &node.identity) {
        (Err(error), _) => Some(error.to_string()),
        (Ok(_), None) => None,
        (Ok(config), Some(found)) => {
            let member = config.own_member();
            let named = (
                ClusterId(config.cluster.0),
                NodeId(config.node),
                member.map(|member| Incarnation(member.incarnation.0)),
            );
            let is_named = named == (found.cluster, found.node, Some(found.incarnation));
            (!is_named).then(|| {
                format!(
                    "{shown} is about another directory: it names node {} of cluster {:016x}",
                    config.node, config.cluster.0
                )
            })
        }
    };
    if let (Some(why), StartsAs::Voter { .. } | StartsAs::Observer { .. }) = (refused, &node.start)
    {
        node.start = StartsAs::refused(why, "give each node its own directory and configuration");
    }
}

/// Snapshots of one slot are equal on all nodes of a cluster. Which of two is right shows only a majority.
fn compare_snapshots(nodes: &mut [VerifiedNode]) {
    let mut by_place: BTreeMap<(ClusterId, GroupId, Slot), Vec<(usize, usize)>> = BTreeMap::new();
    for (number, node) in nodes.iter().enumerate() {
        let Some(identity) = node.identity else {
            continue;
        };
        for (index, snapshot) in node.snapshots.iter().enumerate() {
            let place = (identity.cluster, snapshot.group, snapshot.slot);
            by_place.entry(place).or_default().push((number, index));
        }
    }
    for ((_, _, slot), holders) in by_place {
        let digest = |(node, index): &(usize, usize)| nodes[*node].snapshots[*index].digest;
        let digests: BTreeSet<_> = holders.iter().map(digest).collect();
        if digests.len() < 2 {
            continue;
        }
        let count = |wanted| holders.iter().filter(|of| digest(of) == wanted).count();
        let is_odd: Vec<bool> = holders
            .iter()
            .map(|of| 2 * count(digest(of)) <= holders.len())
            .collect();
        for ((node, index), _) in holders.iter().zip(is_odd).filter(|(_, is_odd)| *is_odd) {
            let name = nodes[*node].snapshots[*index].name.clone();
            let file = nodes[*node].files.iter_mut().find(|file| file.name == name);
            let what = format!("it differs from what other nodes hold at slot {}", slot.0);
            let means = "the replicas compare when they start: who differs from a majority answers no calls until it has that one's state";
            if let Some(file) = file {
                ScrubbedFile::find(file, FlawKind::Noted, 0, what, means);
            }
        }
    }
}
