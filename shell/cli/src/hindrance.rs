//! What keeps a call from its answer, as the nodes' status says: object, slot and method, or the nodes that are down.
//!
//! A client hears only that no replica serves. Whoever reads its error should know which call holds the group up. Python's
//! clients say the same by `quorate._hindrance`.

use crate::error::{CliError, code};
use crate::status;
use crate::unserved;
use quorate_client::{Endpoint, TlsClient};
use quorate_node::{DriftStatus, StuckCallStatus};
use serde_json::Value;
use std::time::Duration;

/// How long one node may take to answer: its caller has waited long enough.
const ANSWER_MAX: Duration = Duration::from_millis(500);

/// The error of a call without an answer, with what holds the group up, if the nodes know it.
pub(crate) fn explained(error: CliError, endpoint: &Endpoint, tls: Option<&TlsClient>) -> CliError {
    let told = error;
    let is_unanswered = matches!(told.code, code::NO_QUORUM | code::OUTCOME_UNKNOWN);
    if !is_unanswered || told.more_advice().is_some() {
        return told;
    }
    hindered(told, endpoint, tls).advise_as_usual()
}

fn hindered(error: CliError, endpoint: &Endpoint, tls: Option<&TlsClient>) -> CliError {
    let mut told = error;
    if let Some(unserved) = unserved::unserved(endpoint, tls) {
        told.text = format!("{}: {}", told.text, unserved.text);
        if let Some(to_do) = unserved.more_advice() {
            told = told.advise(to_do);
        }
        return told;
    }
    if let Ok(document) = status::of_group(endpoint, ANSWER_MAX, tls)
        && let Some(found) = hindrance(&document)
    {
        told.text = format!("{}: {}", told.text, found.why);
        if let Some(to_do) = found.to_do {
            told = told.advise(to_do);
        }
    }
    told
}

/// What is in the way, and what is done about it where that is not the usual thing.
#[derive(PartialEq, Eq, Debug)]
struct Hindrance {
    why: String,
    to_do: Option<String>,
}

/// What keeps the objects of a group from answering, as far as its status shows.
fn hindrance(document: &Value) -> Option<Hindrance> {
    let nodes = document["nodes"].as_array()?;
    let stuck = nodes
        .iter()
        .find_map(|node| serde_json::from_value::<StuckCallStatus>(node["stuck"].clone()).ok());
    if let Some(stuck) = stuck {
        return Some(Hindrance {
            why: stuck.to_string(),
            to_do: Some(stuck.to_do),
        });
    }
    let Some(frozen) = nodes.iter().find_map(|node| node["frozen"].as_u64()) else {
        return missing(nodes);
    };
    let drift = nodes
        .iter()
        .find_map(|node| serde_json::from_value::<DriftStatus>(node["drift"].clone()).ok());
    let first = drift.map_or_else(String::new, |drift| format!("; {drift}"));
    let to_do = "an operator must choose whose state counts: quorate object reset --from NODE";
    Some(Hindrance {
        why: format!(
            "the objects are frozen at slot {frozen}, because no majority agrees on their state{first}; {to_do}"
        ),
        to_do: Some(to_do.to_owned()),
    })
}

/// The nodes that do not answer.
fn missing(nodes: &[Value]) -> Option<Hindrance> {
    let down: Vec<String> = (nodes.iter().filter(|node| node["up"] == false))
        .map(|node| {
            let address = node["address"].as_str().unwrap_or_default();
            format!("node {} ({address})", node["id"])
        })
        .collect();
    let (verb, them) = match down.len() {
        0 => return None,
        1 => ("does", "it"),
        _ => ("do", "them"),
    };
    let names = down.join(" and ");
    if 2 * (nodes.len() - down.len()) > nodes.len() {
        let why = format!("{names} {verb} not answer");
        return Some(Hindrance { why, to_do: None });
    }
    let to_do = format!("start {them} again");
    let count = nodes.len();
    let why = format!("no majority of {count} nodes answers, for {names} {verb} not: {to_do}");
    let to_do = Some(to_do);
    Some(Hindrance { why, to_do })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_to_do_without_an_answer_is_told_to_people_too() {
        let nobody: Endpoint = "quorate://127.0.0.1:1".parse().expect("it is an endpoint");
        for (code, to_do) in [
            (code::NO_QUORUM, "start the missing nodes"),
            (code::OUTCOME_UNKNOWN, "read the object's state"),
        ] {
            let told = explained(CliError::with_code(code, "no answer"), &nobody, None);
            let advice = told.more_advice().expect("it is more than the message");
            assert!(advice.starts_with(to_do), "{advice}");
        }
    }

    #[test]
    fn a_frozen_group_is_named_with_object_slot_and_method() {
        let drift =
            json!({"node": 3, "slot": 12, "is_exact": true, "object": "Account", "method": "add"});
        let document =
            json!({"nodes": [{"id": 1, "frozen": null}, {"id": 2, "frozen": 12, "drift": drift}]});
        let told = hindrance(&document).expect("it is frozen").why;
        assert!(told.contains("frozen at slot 12"), "{told}");
        assert!(told.contains("Account.add"), "{told}");
    }

    #[test]
    fn a_call_that_does_not_return_is_named_and_a_group_that_serves_is_not() {
        let stuck = json!({"object": "Account", "method": "hang", "slot": 12, "since_ms": 8200, "to_do": "wait"});
        let told = hindrance(&json!({"nodes": [{"id": 1, "stuck": stuck}]}));
        assert!(
            told.expect("it is held up")
                .why
                .contains("Account.hang of slot 12")
        );
        assert_eq!(
            hindrance(&json!({"nodes": [{"id": 1, "stuck": null, "frozen": null}]})),
            None
        );
    }

    #[test]
    fn nodes_that_do_not_answer_are_named_with_what_that_means() {
        let node = |id: u16, up: bool| json!({"id": id, "up": up, "address": format!("a:{id}")});
        let of = |ups: [bool; 3]| {
            let nodes: Vec<Value> = (1..).zip(ups).map(|(id, up)| node(id, up)).collect();
            hindrance(&json!({"nodes": nodes})).map(|found| found.why)
        };
        assert_eq!(of([true; 3]), None);
        assert_eq!(
            of([true, true, false]).as_deref(),
            Some("node 3 (a:3) does not answer")
        );
        assert_eq!(
            of([true, false, false]).as_deref(),
            Some(
                "no majority of 3 nodes answers, for node 2 (a:2) and node 3 (a:3) do not: start them again"
            )
        );
    }
}
