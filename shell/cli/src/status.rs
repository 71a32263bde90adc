//! `quorate status`: the view, who leads, and how far each node is.

use crate::error::{CliError, code};
use crate::group::{GroupArgs, USUAL_ENDPOINT};
use crate::print;
use crate::seconds;
use crate::unserved;
use clap::Args;
use quorate_client::{ConnectError, Endpoint, NodeReport, TlsClient, node_status};
use quorate_node::{DriftStatus, PoisonCallStatus, StuckCallStatus, ViewStatus};
use quorate_types::Level;
use serde_json::{Value, json};
use std::time::Duration;

/// Show a group's leader, and how far each node has decided and executed.
#[derive(Args, Clone, Debug)]
pub(crate) struct StatusArgs {
    /// Seconds to wait for the answer of each node.
    #[arg(long, default_value_t = 2.0, value_parser = seconds::span, allow_negative_numbers = true)]
    timeout: f64,
    #[command(flatten)]
    group: GroupArgs,
}

/// Prints the status of the whole group; fails when no node answers.
pub(crate) fn run(args: &StatusArgs, as_json: bool) -> Result<(), CliError> {
    let access = args.group.read()?;
    let document = of_group(
        &access.endpoint,
        seconds::duration(args.timeout),
        access.tls(),
    )?;
    if as_json {
        print::line(document)?;
    } else {
        print::line(table(&document, access.endpoint.group.as_deref()))?;
    }
    Ok(())
}

/// The status document of the group at `endpoint`.
pub(crate) fn of_group(
    endpoint: &Endpoint,
    timeout: Duration,
    tls: Option<&TlsClient>,
) -> Result<Value, CliError> {
    let first = first_report(endpoint, timeout, tls)?;
    let mut nodes = Vec::new();
    let mut newest = parse(&first)?;
    for (node, address) in &first.welcome.members {
        let report = node_status(address, endpoint.group_id(), timeout, tls).ok();
        // Whoever answers there for another cluster is no member of this one.
        let report = report.filter(|report| report.welcome.cluster == first.welcome.cluster);
        let status = report.as_ref().map(parse).transpose()?;
        if let Some(status) = &status
            && newness(status) >= newness(&newest)
        {
            newest = status.clone();
        }
        nodes.push(line(node.0, address, status.as_ref()));
    }
    Ok(json!({
        "group": newest["group"],
        "view": newest["view"],
        "leader": newest["leader"],
        "groups": newest["groups"],
        "poison": poison(&newest, &nodes, endpoint),
        "nodes": nodes,
    }))
}

/// What a node knows, to compare with what others do: the number of its view, then up to where it knows decisions. Others may know of
/// more decisions before they have turned to a view.
fn newness(status: &Value) -> (Option<u64>, Option<u64>) {
    (
        status["view"]["number"].as_u64(),
        status["decided"].as_u64(),
    )
}

/// The view in force, as the node of the group tells it that is in the newest one, and has decided most.
pub(crate) fn view_of_group(
    endpoint: &Endpoint,
    timeout: Duration,
    tls: Option<&TlsClient>,
) -> Result<ViewStatus, CliError> {
    view_in(&of_group(endpoint, timeout, tls)?)
}

/// The view of a status document.
pub(crate) fn view_in(document: &Value) -> Result<ViewStatus, CliError> {
    serde_json::from_value(document["view"].clone())
        .map_err(|error| CliError::failed(format!("the view of a node cannot be read: {error}")))
}

/// The calls at which hosts are down, as the newest node tells it: object and method as any node knows them, and a command that
/// names the group.
fn poison(newest: &Value, nodes: &[Value], endpoint: &Endpoint) -> Vec<PoisonCallStatus> {
    let of = |status: &Value| -> Vec<PoisonCallStatus> {
        serde_json::from_value(status["poison"].clone()).unwrap_or_default()
    };
    let mut calls = of(newest);
    for call in &mut calls {
        let known = nodes.iter().flat_map(&of).find(|known| {
            (known.slot, known.index) == (call.slot, call.index) && known.object.is_some()
        });
        if let Some(known) = known {
            (call.object, call.method) = (known.object, known.method);
        }
        let endpoint = endpoint.to_string();
        if endpoint.trim_end_matches('/') != USUAL_ENDPOINT {
            call.command = format!("{} --endpoint {endpoint}", call.command);
        }
    }
    calls
}

/// The answer of the first node that gives one.
pub(crate) fn first_report(
    endpoint: &Endpoint,
    timeout: Duration,
    tls: Option<&TlsClient>,
) -> Result<NodeReport, CliError> {
    let mut last = String::new();
    let mut misfit = None;
    for address in &endpoint.addresses {
        match node_status(address, endpoint.group_id(), timeout, tls) {
            Ok(report) => return Ok(report),
            Err(error @ (ConnectError::Rejected { .. } | ConnectError::NoSuchGroup { .. })) => {
                return Err(unserved::told_of(error, endpoint, tls));
            }
            // One node may have a wrong certificate and another a right one.
            Err(error @ ConnectError::Tls { .. }) => misfit = Some(error),
            Err(error) => last = error.to_string(),
        }
    }
    if let Some(error) = misfit {
        return Err(CliError::connect(error));
    }
    if let Some(why) = unserved::unserved(endpoint, tls) {
        return Err(why);
    }
    let text = format!("no node of {endpoint} answers (last: {last})");
    Err(CliError::with_code(code::NO_QUORUM, text))
}

/// The status document in a node's answer.
pub(crate) fn parse(report: &NodeReport) -> Result<Value, CliError> {
    serde_json::from_slice(&report.status)
        .map_err(|error| CliError::failed(format!("a status document cannot be read: {error}")))
}

fn line(node: u16, address: &str, status: Option<&Value>) -> Value {
    let Some(status) = status else {
        return json!({
            "id": node, "up": false, "pid": null, "address": address, "roles": [], "ballot": null,
            "observes": null, "decided": null, "executed": null, "snapshot": null, "trimmed": null, "lag": null,
            "digest": null, "stuck": null, "poison": [],
        });
    };
    let mut line = status.clone();
    if let Some(fields) = line.as_object_mut() {
        for shared in ["view", "group", "leader", "peers"] {
            fields.remove(shared);
        }
        fields.insert("up".into(), true.into());
        fields.insert("address".into(), address.into());
    }
    line
}

/// A further group is shown by the name by which it was asked for.
fn table(document: &Value, name: Option<&str>) -> String {
    let view = &document["view"];
    let leader = document["leader"]
        .as_u64()
        .map_or("none".to_string(), |id| format!("node {id}"));
    let mut text = format!(
        "group {}, view {} ({}), leader: {leader}\n{:<5} {:<22} {:>8} {:<28} {:>10} {:>10} {:>10} {:>6}  digest\n",
        name.map_or_else(|| plain(&document["group"]), str::to_owned),
        view["number"],
        plain(&view["ordering"]),
        "node",
        "address",
        "pid",
        "roles",
        "decided",
        "executed",
        "snapshot",
        "lag",
    );
    for node in document["nodes"].as_array().into_iter().flatten() {
        let roles: Vec<String> = node["roles"]
            .as_array()
            .into_iter()
            .flatten()
            .map(plain)
            .collect();
        let roles = if node["up"] == true {
            roles.join(" ")
        } else {
            "down".to_string()
        };
        text.push_str(&format!(
            "{:<5} {:<22} {:>8} {:<28} {:>10} {:>10} {:>10} {:>6}  {}\n",
            plain(&node["id"]),
            plain(&node["address"]),
            plain(&node["pid"]),
            roles,
            plain(&node["decided"]),
            plain(&node["executed"]),
            plain(&node["snapshot"]),
            plain(&node["lag"]),
            plain(&node["digest"]),
        ));
    }
    for node in document["nodes"].as_array().into_iter().flatten() {
        for concern in concerns(node) {
            text.push_str(&format!("node {} {concern}\n", plain(&node["id"])));
        }
    }
    text.push_str(&other_levels(document));
    text.push_str(&other_code(document));
    for node in document["nodes"].as_array().into_iter().flatten() {
        if let Ok(drift) = serde_json::from_value::<DriftStatus>(node["drift"].clone()) {
            text.push_str(&format!("node {} found: {drift}\n", plain(&node["id"])));
        }
        let stuck = serde_json::from_value::<StuckCallStatus>(node["stuck"].clone());
        if let Ok(stuck) = stuck {
            text.push_str(&format!("node {}: {stuck}\n", plain(&node["id"])));
        }
    }
    for call in document["poison"].as_array().into_iter().flatten() {
        if let Ok(call) = serde_json::from_value::<PoisonCallStatus>(call.clone()) {
            text.push_str(&format!("{call}; {}\n", call.to_do()));
        }
    }
    text.pop();
    text
}

/// A line when nodes speak different levels, or something else than the group is at.
fn other_levels(document: &Value) -> String {
    let level = document["view"]["level"]
        .as_u64()
        .unwrap_or(Level::UNNAMED.0.into());
    let nodes = document["nodes"].as_array().into_iter().flatten();
    let newest = |node: &Value| {
        node["speaks"][1]
            .as_u64()
            .unwrap_or(Level::UNNAMED.0.into())
    };
    let up = nodes.filter(|node| node["up"] == true);
    let spoken: Vec<(&Value, u64)> = up.map(|node| (&node["id"], newest(node))).collect();
    if spoken.iter().all(|(_, newest)| *newest == level) {
        return String::new();
    }
    let told: Vec<String> = spoken
        .iter()
        .map(|(node, newest)| format!("node {node} {newest}"))
        .collect();
    format!(
        "the group is at level {level}; the newest that each node speaks: {}\n",
        told.join(", ")
    )
}

/// A line when the nodes' objects run different code.
fn other_code(document: &Value) -> String {
    let nodes = document["nodes"].as_array().into_iter().flatten();
    let codes: Vec<(&Value, &str)> = nodes
        .filter_map(|node| Some((&node["id"], node["code"].as_str()?)))
        .collect();
    if codes.windows(2).all(|pair| pair[0].1 == pair[1].1) {
        return String::new();
    }
    let told = codes.iter().map(|(id, code)| format!("node {id} {code}"));
    let told: Vec<String> = told.collect();
    format!(
        "the objects of these nodes run different code, so their outcomes may differ: {}: compare interpreter, packages and \
         sources of the nodes\n",
        told.join(", ")
    )
}

/// What an operator should know about a node that the columns do not show.
fn concerns(node: &Value) -> Vec<String> {
    let mut concerns = Vec::new();
    if let Value::String(why) = &node["observes"] {
        concerns.push(format!("does not vote: {why}"));
    }
    if let Value::String(why) = &node["refused"] {
        concerns.push(format!("is refused by others: {why}"));
    }
    if let Some(slot) = node["diverged"].as_u64() {
        concerns.push(format!(
            "differs from the majority since slot {slot}: it answers nothing and fetches the majority's state"
        ));
    }
    if let Some(slot) = node["frozen"].as_u64() {
        concerns.push(format!(
            "is frozen at slot {slot}: no majority agrees on the objects' state there: {}",
            match node["reset"].as_u64() {
                None => "compare the nodes' code, then choose whose state counts: quorate object reset --from NODE".to_owned(),
                Some(reset) => format!("a reset was decided in slot {reset}, and no majority holds its state yet"),
            }
        ));
    }
    let clocks = [
        (
            "clock_off_ms",
            "has a clock that differs from the majority's by",
        ),
        (
            "agreed_ahead_ms",
            "sees agreed time ahead of the majority's clocks by",
        ),
    ];
    for (field, what) in clocks {
        if let Some(off @ (1.. | ..=-1)) = node[field].as_i64() {
            concerns.push(format!("{what} {off} ms: check its time service"));
        }
    }
    if let Value::String(sandbox) = &node["sandbox"]
        && sandbox != "full"
    {
        concerns.push(format!(
            "does not confine its objects in full, see SECURITY.md: sandbox is {sandbox}"
        ));
    }
    if let Some([_, ..]) = node["multicast"]["deaf"].as_array().map(Vec::as_slice) {
        let (deaf, address) = (&node["multicast"]["deaf"], &node["multicast"]["address"]);
        concerns.push(format!(
            "leads, and nodes {deaf} do not hear what it multicasts to {}: look at their limits.multicast, firewalls for UDP, and \
             IGMP snooping; they get values over links",
            plain(address)
        ));
    }
    if let Value::String(why) = &node["snapshot_failed"]["reason"] {
        let slot = &node["snapshot_failed"]["slot"];
        concerns.push(format!(
            "took no snapshot at slot {slot}, so its log grows: {why}"
        ));
    }
    if let Value::String(why) = &node["trim_waits"]["reason"] {
        let (slot, seconds) = (&node["trim_waits"]["slot"], &node["trim_waits"]["seconds"]);
        concerns.push(format!(
            "has not trimmed its log for {seconds} s, though a majority holds the snapshot at slot {slot}: {why}"
        ));
    }
    if node["is_host_up"] == false {
        concerns.push("waits for its host process: see its log".to_owned());
    }
    concerns
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_string(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_does_not_vote_says_why_below_the_table() {
        let status =
            json!({"id": 2, "roles": ["replica", "observer"], "observes": "it has lost votes"});
        let document = json!({"group": 1, "view": {"number": 1, "ordering": "paxos"},
            "leader": 1, "nodes": [line(2, "127.0.0.1:7401", Some(&status))]});
        assert!(table(&document, None).ends_with("node 2 does not vote: it has lost votes"));
    }

    #[test]
    fn a_group_is_shown_by_its_name_where_it_has_one() {
        let document = json!({"group": 7, "view": {"number": 1, "ordering": "paxos"}, "nodes": []});
        assert!(table(&document, Some("orders")).starts_with("group orders, view 1 (paxos)"));
        assert!(table(&document, None).starts_with("group 7, view 1 (paxos)"));
    }

    #[test]
    fn what_the_columns_hide_stands_below_the_table() {
        let status = json!({"id": 3, "roles": ["replica"], "diverged": 40, "frozen": null, "clock_off_ms": -2500,
            "agreed_ahead_ms": 0, "is_host_up": true, "sandbox": "off"});
        let document = json!({"group": 1, "view": {"number": 1, "ordering": "paxos"},
            "leader": 1, "nodes": [line(3, "127.0.0.1:7402", Some(&status))]});
        let table = table(&document, None);
        assert!(table.contains("node 3 differs from the majority since slot 40"));
        assert!(table.contains("differs from the majority's by -2500 ms: check its time service"));
        assert!(table.ends_with("sandbox is off"));
        let waits = json!({"id": 3, "roles": [], "trim_waits": {"slot": 9, "seconds": 12, "reason": "replicas 2 lag"}});
        assert_eq!(
            concerns(&waits),
            [
                "has not trimmed its log for 12 s, though a majority holds the snapshot at slot 9: replicas 2 lag"
            ]
        );
        assert!(!table.contains("frozen") && !table.contains("agreed time"));
    }

    #[test]
    fn nodes_with_different_code_are_named_below_the_table() {
        let table_of = |codes: [Option<&str>; 3]| {
            let nodes = (1..).zip(codes).map(|(id, code)| {
                line(id, "-", Some(&json!({"id": id, "roles": [], "code": code})))
            });
            let nodes: Vec<Value> = nodes.collect();
            table(
                &json!({"group": 1, "view": {"number": 1, "ordering": "paxos"}, "leader": 1, "nodes": nodes}),
                None,
            )
        };
        assert!(
            table_of([Some("aa"), Some("aa"), Some("bb")])
                .contains("node 1 aa, node 2 aa, node 3 bb")
        );
        assert!(!table_of([Some("aa"), None, Some("aa")]).contains("different code"));
    }

    #[test]
    fn where_outcomes_differed_first_stands_below_the_table() {
        let drift =
            json!({"node": 3, "slot": 12, "is_exact": true, "object": "Account", "method": "add"});
        let status = json!({"id": 2, "roles": ["replica"], "drift": drift});
        let document = json!({"group": 1, "view": {"number": 1, "ordering": "paxos"},
            "leader": 1, "nodes": [line(2, "127.0.0.1:7401", Some(&status))]});
        let last = "node 2 found: node 3 had another outcome than others, first at slot 12, in Account.add";
        assert!(table(&document, None).ends_with(last));
    }

    #[test]
    fn a_call_that_does_not_return_is_named_below_the_table() {
        let stuck = json!({"object": "Account", "method": "hang", "slot": 12, "since_ms": 8200, "to_do": "wait"});
        let status = json!({"id": 2, "roles": ["replica"], "stuck": stuck});
        let document = json!({"group": 1, "view": {"number": 1, "ordering": "paxos"},
            "leader": 1, "nodes": [line(2, "127.0.0.1:7401", Some(&status))]});
        let last = "node 2: the call Account.hang of slot 12 has kept the objects from going on for 8 s: wait";
        assert!(table(&document, None).ends_with(last));
    }

    #[test]
    fn a_dead_node_is_shown_as_down_with_every_field() {
        let down = line(2, "127.0.0.1:7401", None);
        assert_eq!(down["up"], false);
        for field in [
            "pid", "ballot", "decided", "executed", "snapshot", "trimmed", "lag",
        ] {
            assert!(down.get(field).is_some_and(Value::is_null), "{field}");
        }
        let document = json!({"group": 1, "view": {"number": 1, "ordering": "paxos"},
            "leader": 1, "nodes": [down]});
        assert!(table(&document, None).contains("down"));
    }
}
