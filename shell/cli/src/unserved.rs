//! What is told of a group that does not answer: which groups there are, and how the nodes of the one that was named serve it.
//!
//! The cluster's first group knows that. Commands about a group ask here when they find nobody.

use crate::error::{CliError, code};
use crate::group::GroupAccess;
use crate::groups::{ANSWER_MAX, states_at};
use crate::status;
use quorate_client::{ConnectError, Endpoint, TlsClient, node_status};
use quorate_node::GroupStatus;
use std::collections::BTreeSet;

/// Why no client or status of the group at `endpoint` is to be had: of a group that there is not, which ones there are.
pub(crate) fn told_of(
    error: ConnectError,
    endpoint: &Endpoint,
    tls: Option<&TlsClient>,
) -> CliError {
    if let ConnectError::NoQuorum { .. } = &error
        && let Some(why) = unserved(endpoint, tls)
    {
        return why;
    }
    let (ConnectError::NoSuchGroup { address, .. }, Some(name)) = (&error, &endpoint.group) else {
        return CliError::connect(error);
    };
    let Some(groups) = beside_the_first(endpoint, tls) else {
        let text = format!("{address} knows no group {name}");
        return CliError::not_found(text).advise(GROUP_LIST);
    };
    if groups.iter().any(|group| group.name == *name) {
        let text = format!("the group {name} is not served at {address}");
        return CliError::not_found(text)
            .advise("quorate group list shows how each node serves it");
    }
    CliError::not_found(format!("there is no group {name}: {}", those_of(&groups)))
        .advise("quorate group list shows them; without a name the first group is meant")
}

/// What to do about a group that there is not.
const GROUP_LIST: &str = "quorate group list shows those that there are";

/// Why there is no such object in the group: where another group has that name, how it is called.
pub(crate) fn no_object(
    error: ConnectError,
    endpoint: &Endpoint,
    tls: Option<&TlsClient>,
) -> CliError {
    let ConnectError::NoSuchObject { name, .. } = &error else {
        return CliError::connect(error);
    };
    let groups = match endpoint.group.as_ref() == Some(name) {
        true => None,
        false => beside_the_first(endpoint, tls),
    };
    let group = groups
        .into_iter()
        .flatten()
        .find(|group| group.name == *name);
    let told = CliError::connect(error);
    match group {
        Some(group) => told.advise(meant(&group)),
        None => told
            .advise("`quorate object list` names those of the group that were created since, too"),
    }
}

/// How to call the objects of a group whose name was taken for that of an object.
fn meant(group: &GroupStatus) -> String {
    let objects: Vec<&str> = group
        .objects
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    let objects = objects.join(", ");
    let name = &group.name;
    format!(
        "{name} is another group of the cluster, which has: {objects}; call them with --group {name}"
    )
}

/// The groups beside the first one, as a node of that one says them.
fn beside_the_first(endpoint: &Endpoint, tls: Option<&TlsClient>) -> Option<Vec<GroupStatus>> {
    let first = first_of(endpoint);
    let mut told = first.addresses.iter().filter_map(|address| {
        let report = node_status(address, first.group_id(), ANSWER_MAX, tls).ok()?;
        let document = status::parse(&report).ok()?;
        serde_json::from_value(document["groups"].clone()).ok()
    });
    told.next()
}

/// The first group of the same cluster.
fn first_of(endpoint: &Endpoint) -> Endpoint {
    Endpoint {
        group: None,
        ..endpoint.clone()
    }
}

/// That the first group knows no group of this name.
pub(crate) fn no_group(name: &str, access: &GroupAccess) -> CliError {
    let document = status::of_group(&access.endpoint, ANSWER_MAX, access.tls()).ok();
    let groups = document
        .and_then(|told| serde_json::from_value::<Vec<GroupStatus>>(told["groups"].clone()).ok());
    let there = groups.map(|groups| format!(": {}", those_of(&groups)));
    let text = format!("there is no group {name}{}", there.unwrap_or_default());
    CliError::not_found(text).advise(GROUP_LIST)
}

/// The groups that there are, by name.
fn those_of(groups: &[GroupStatus]) -> String {
    let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
    match names.is_empty() {
        true => "the cluster has no group beside its first one".to_owned(),
        false => format!("beside its first one the cluster has {}", names.join(", ")),
    }
}

/// Whether so many of a group's nodes have failed to serve it that the others are no majority.
pub(crate) fn cannot_elect(states: &[(u16, GroupStatus)], name: &str) -> bool {
    let said = states.iter().filter(|(_, group)| group.name == name);
    let nodes = said
        .clone()
        .next()
        .map_or(0, |(_, group)| group.nodes.len());
    let has_failed = |state: &str| state.starts_with("failed: ");
    let failed = said.filter(|(_, group)| group.state.as_deref().is_some_and(has_failed));
    nodes > 0 && 2 * (nodes - failed.count().min(nodes)) <= nodes
}

/// Why no node of a group serves it, or too few to elect a leader, where the cluster's first group knows it.
pub(crate) fn unserved(endpoint: &Endpoint, tls: Option<&TlsClient>) -> Option<CliError> {
    let name = endpoint.group.as_ref()?;
    let first = first_of(endpoint);
    let members = status::first_report(&first, ANSWER_MAX, tls).ok()?;
    let members = members.welcome.members.iter().map(|(node, _)| node.0);
    let states = states_at(&first, ANSWER_MAX, tls).ok()?;
    let text = too_few(&states, &members.collect(), name)?;
    Some(CliError::with_code(code::NO_QUORUM, text).advise(
        "correct that at the nodes, which try again by themselves; quorate group list shows how each serves it",
    ))
}

/// That the nodes which serve a group are no majority of those that it has, and why the others do not. Who has left it, or the cluster,
/// is none of them.
fn too_few(states: &[(u16, GroupStatus)], members: &BTreeSet<u16>, name: &str) -> Option<String> {
    let (_, group) = states.iter().find(|(_, group)| group.name == name)?;
    let left = states
        .iter()
        .filter(|(_, group)| group.name == name && group.state.as_deref() == Some("left"));
    let left: BTreeSet<u16> = left.map(|(node, _)| *node).collect();
    let named = group.nodes.iter().chain(&group.later).copied();
    let nodes: BTreeSet<u16> = named
        .filter(|node| members.contains(node) && !left.contains(node))
        .collect();
    let why: Vec<String> = nodes
        .iter()
        .filter_map(|node| hindrance(states, name, *node))
        .collect();
    let serving = nodes.len() - why.len();
    let who = match serving {
        _ if 2 * serving > nodes.len() || nodes.is_empty() => return None,
        0 => "no node",
        _ => "no majority",
    };
    Some(format!("{who} of the group {name} answers{}", why.concat()))
}

/// Which of the nodes that a group began with do not serve it, and why.
pub(crate) fn hindrances(states: &[(u16, GroupStatus)], name: &str) -> String {
    let group = states.iter().find(|(_, group)| group.name == name);
    let nodes = group.map_or(&[][..], |(_, group)| &group.nodes[..]);
    let why = nodes
        .iter()
        .filter_map(|node| hindrance(states, name, *node));
    why.collect()
}

/// Why a node does not serve a group, as far as it says so.
fn hindrance(states: &[(u16, GroupStatus)], name: &str, node: u16) -> Option<String> {
    let mut says = states.iter().filter(|(_, group)| group.name == name);
    let why = match says.find(|(who, _)| *who == node) {
        None => "does not answer",
        Some((_, group)) => match group.state.as_deref() {
            Some("running") => return None,
            Some(state) => state.strip_prefix("failed: ").unwrap_or(state),
            None => "has not heard of the group yet",
        },
    };
    Some(format!("; node {node}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_a_group_without_a_leader_is_told_of_each_node_that_does_not_serve_it() {
        let says = |node: u16, state: Option<&str>| {
            let group = GroupStatus {
                name: "orders".to_owned(),
                id: 7,
                created: 9,
                nodes: vec![1, 2, 3, 4],
                later: Vec::new(),
                first_level: None,
                objects: Vec::new(),
                state: state.map(str::to_owned),
            };
            (node, group)
        };
        let states = [
            says(1, Some("running")),
            says(2, Some("failed: no module shop")),
            says(3, None),
        ];
        assert_eq!(
            hindrances(&states, "orders"),
            "; node 2: no module shop; node 3: has not heard of the group yet; node 4: does not answer"
        );
        assert!(!cannot_elect(&states, "orders"), "three of four may");
        let [one, two, three] = states;
        let failed = says(3, Some("failed: no module shop"));
        assert!(cannot_elect(&[one, two, failed], "orders"), "two of four");
        assert!(!cannot_elect(&[three], "others"), "nobody knows it");
    }

    #[test]
    fn who_finds_no_quorum_is_told_of_the_nodes_that_could_serve_and_do_not() {
        let says = |node: u16, state: &str| {
            let group = GroupStatus {
                name: "orders".to_owned(),
                id: 7,
                created: 9,
                nodes: vec![1, 2, 3],
                later: vec![4, 5],
                first_level: None,
                objects: Vec::new(),
                state: Some(state.to_owned()),
            };
            (node, group)
        };
        let failed = "failed: no module shop";
        let members = BTreeSet::from([1, 2, 4, 5]);
        let of = |states: &[(u16, GroupStatus)]| too_few(states, &members, "orders");
        let told = of(&[says(1, failed), says(2, failed), says(4, "running")]);
        assert_eq!(
            told.as_deref(),
            Some(
                "no majority of the group orders answers; node 1: no module shop; node 2: no module shop; node 5: does not answer"
            )
        );
        let told = of(&[
            says(1, "left"),
            says(2, "left"),
            says(4, failed),
            says(5, "starting"),
        ]);
        assert_eq!(
            told.as_deref(),
            Some("no node of the group orders answers; node 4: no module shop; node 5: starting")
        );
        let serving = [
            says(1, "left"),
            says(2, failed),
            says(4, "running"),
            says(5, "running"),
        ];
        assert_eq!(of(&serving), None, "two of three serve it");
        assert_eq!(of(&[]), None, "nobody knows it");
    }
}
