//! What keeps a call from its answer, as the nodes' status says: object, slot and method.
//!
//! A client hears only that no replica serves. Whoever reads its error should know which call holds the group up.

use crate::error::{CliError, code};
use crate::status;
use quorate_client::{Endpoint, TlsClient};
use quorate_node::{DriftStatus, StuckCallStatus};
use serde_json::Value;
use std::time::Duration;

/// How long one node may take to answer: its caller has waited long enough.
const ANSWER_MAX: Duration = Duration::from_millis(500);

/// The error of a call without an answer, with what holds the group up, if the nodes know it.
pub(crate) fn explained(error: CliError, endpoint: &Endpoint, tls: Option<&TlsClient>) -> CliError {
    let mut told = error;
    if matches!(told.code, code::NO_QUORUM | code::OUTCOME_UNKNOWN)
        && let Ok(document) = status::of_group(endpoint, ANSWER_MAX, tls)
        && let Some(why) = hindrance(&document)
    {
        told.text = format!("{}: {why}", told.text);
    }
    told
}

/// What keeps the objects of a group from answering, as far as its status shows.
fn hindrance(document: &Value) -> Option<String> {
    let nodes = document["nodes"].as_array()?;
    let stuck = nodes
        .iter()
        .find_map(|node| serde_json::from_value::<StuckCallStatus>(node["stuck"].clone()).ok());
    if let Some(stuck) = stuck {
        return Some(stuck.to_string());
    }
    let frozen = nodes.iter().find_map(|node| node["frozen"].as_u64())?;
    let drift = nodes
        .iter()
        .find_map(|node| serde_json::from_value::<DriftStatus>(node["drift"].clone()).ok());
    let first = drift.map_or_else(String::new, |drift| format!("; {drift}"));
    Some(format!(
        "the objects are frozen at slot {frozen}, because no majority agrees on their state{first}; see docs/snapshots.md"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_frozen_group_is_named_with_object_slot_and_method() {
        let drift =
            json!({"node": 3, "slot": 12, "is_exact": true, "object": "Account", "method": "add"});
        let document =
            json!({"nodes": [{"id": 1, "frozen": null}, {"id": 2, "frozen": 12, "drift": drift}]});
        let told = hindrance(&document).expect("it is frozen");
        assert!(told.contains("frozen at slot 12"), "{told}");
        assert!(told.contains("Account.add"), "{told}");
    }

    #[test]
    fn a_call_that_does_not_return_is_named_and_a_group_that_serves_is_not() {
        let stuck = json!({"object": "Account", "method": "hang", "slot": 12, "since_ms": 8200, "to_do": "wait"});
        let told = hindrance(&json!({"nodes": [{"id": 1, "stuck": stuck}]}));
        assert!(
            told.expect("it is held up")
                .contains("Account.hang of slot 12")
        );
        assert_eq!(
            hindrance(&json!({"nodes": [{"id": 1, "stuck": null, "frozen": null}]})),
            None
        );
    }
}
