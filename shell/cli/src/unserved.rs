//! What is told of a group that does not answer: which groups there are, and how the nodes of the one that was named serve it.
//!
//! The cluster's first group knows that. Commands about a group ask here when they find nobody.

use crate::error::{CliError, code};
use crate::group::GroupAccess;
use crate::groups::{ANSWER_MAX, states_at};
use crate::status;
use quorate_client::{ConnectError, Endpoint, TlsClient, node_status};
use quorate_node::GroupStatus;

/// Why no client or status of the group at `endpoint` is to be had: of a group that there is not, which ones there are.
pub(crate) fn told_of(
    error: ConnectError,
    endpoint: &Endpoint,
    tls: Option<&TlsClient>,
) -> CliError {
    let (ConnectError::NoSuchGroup { .. }, Some(name)) = (&error, &endpoint.group) else {
        return CliError::connect(error);
    };
    let first = Endpoint {
        group: None,
        ..endpoint.clone()
    };
    let asked = first.addresses.iter();
    let mut told = asked.filter_map(|address| {
        let report = node_status(address, first.group_id(), ANSWER_MAX, tls).ok()?;
        let document = status::parse(&report).ok()?;
        serde_json::from_value::<Vec<GroupStatus>>(document["groups"].clone()).ok()
    });
    let Some(groups) = told.next() else {
        return CliError::connect(error);
    };
    if groups.iter().any(|group| group.name == *name) {
        let text = format!("the group {name} is not served there: {error}");
        return CliError::not_found(text).advise("look at quorate group list");
    }
    CliError::not_found(format!("there is no group {name}: {}", those_of(&groups)))
        .advise("quorate group list shows them; without a name the first group is meant")
}

/// That the first group knows no group of this name.
pub(crate) fn no_group(name: &str, access: &GroupAccess) -> CliError {
    let document = status::of_group(&access.endpoint, ANSWER_MAX, access.tls()).ok();
    let groups = document
        .and_then(|told| serde_json::from_value::<Vec<GroupStatus>>(told["groups"].clone()).ok());
    let there = groups.map(|groups| format!(": {}", those_of(&groups)));
    let text = format!("there is no group {name}{}", there.unwrap_or_default());
    CliError::not_found(text).advise("quorate group list shows those that there are")
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

/// Why no node of a group answers, where the cluster's first group knows it.
pub(crate) fn unserved(endpoint: &Endpoint, tls: Option<&TlsClient>) -> Option<CliError> {
    let name = endpoint.group.as_ref()?;
    let first = Endpoint {
        group: None,
        ..endpoint.clone()
    };
    let states = states_at(&first, ANSWER_MAX, tls).ok()?;
    let why = hindrances(&states, name);
    (!why.is_empty()).then(|| {
        CliError::with_code(code::NO_QUORUM, format!("no node of the group {name} answers{why}"))
            .advise("correct that at the nodes, which try again by themselves; quorate group list shows how each serves it")
    })
}

/// Which of a group's nodes do not serve it, and why.
pub(crate) fn hindrances(states: &[(u16, GroupStatus)], name: &str) -> String {
    let said: Vec<&(u16, GroupStatus)> = states
        .iter()
        .filter(|(_, group)| group.name == name)
        .collect();
    let nodes = said.first().map(|(_, group)| group.nodes.clone());
    let of = |node: u16| {
        let state = said.iter().find(|(who, _)| *who == node);
        let Some((_, group)) = state else {
            return Some("does not answer".to_owned());
        };
        match group.state.as_deref() {
            Some("running") => None,
            Some(state) => Some(state.strip_prefix("failed: ").unwrap_or(state).to_owned()),
            None => Some("has not heard of the group yet".to_owned()),
        }
    };
    let nodes = nodes.into_iter().flatten();
    let hindered = nodes.filter_map(|node| Some(format!("; node {node}: {}", of(node)?)));
    hindered.collect()
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
}
