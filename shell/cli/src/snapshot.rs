//! `quorate snapshot`: every replica takes a snapshot at one agreed slot.

use crate::error::{CliError, code};
use crate::group::{GroupAccess, GroupArgs};
use crate::print;
use crate::seconds;
use crate::status;
use clap::Args;
use quorate_client::{Answer, Client, Endpoint, Operation, TlsClient, node_status};
use quorate_types::{GroupId, Slot};
use serde_json::Value;
use std::time::{Duration, Instant};

/// How often the nodes are asked how far they are.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// How long one node may take to answer: one that hangs does not hide the others.
const ANSWER_MAX: Duration = Duration::from_millis(500);

/// Nodes that did not answer are asked again in every so many looks.
const SILENT_EVERY: u32 = 32;

/// After so long without a replica that holds the snapshot, another one is asked for; then after twice as long, and so on,
/// for a replica that is still writing the one before leaves it out.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// Take a snapshot on every replica at one agreed slot, and print the slot once a majority holds the snapshot on disk.
#[derive(Args, Clone, Debug)]
pub(crate) struct SnapshotArgs {
    /// Seconds to wait for the answer.
    #[arg(long, default_value_t = 10.0, value_parser = seconds::span, allow_negative_numbers = true)]
    timeout: f64,
    #[command(flatten)]
    group: GroupArgs,
}

/// Prints the slot once a majority holds the snapshot on its disks, each with the same digest.
pub(crate) fn run(args: &SnapshotArgs, as_json: bool) -> Result<(), CliError> {
    let access = args.group.read()?;
    let timeout = seconds::duration(args.timeout);
    let end = Instant::now() + timeout;
    let client = access.connect(timeout)?;
    let slot = take(&access, &client, end)?.0;
    if as_json {
        print::line(serde_json::json!({"slot": slot}))
    } else {
        print::line(slot)
    }
}

/// Has a snapshot taken, and returns its slot once a majority holds it.
pub(crate) fn take(access: &GroupAccess, client: &Client, end: Instant) -> Result<Slot, CliError> {
    let begun = Instant::now();
    // Any that is taken from here on will do: one that was asked for again may be of a later slot than the one that comes.
    let wanted = ask(client)?;
    let (mut asked, mut patience) = (Instant::now(), ASK_AGAIN);
    let mut nodes = Nodes::of(&access.endpoint, access.tls())?;
    loop {
        let statuses = nodes.look(wanted, access.tls());
        match progress(&statuses, wanted) {
            Progress::Durable(slot) => return Ok(Slot(slot)),
            Progress::Failed(why) => return Err(CliError::failed(why)),
            // Replicas that were busy with an earlier snapshot leave one out.
            Progress::Nowhere if asked.elapsed() >= patience => {
                ask(client)?;
                (asked, patience) = (Instant::now(), 2 * patience);
            }
            Progress::Nowhere | Progress::Somewhere => {}
        }
        if Instant::now() >= end {
            let timeout = end.saturating_duration_since(begun);
            let text = format!(
                "no majority held the snapshot of slot {wanted} within {timeout:?}; it may still be written"
            );
            return Err(CliError::with_code(code::OUTCOME_UNKNOWN, text).advise(
                "see in `quorate status` whether a majority has it, or give it a longer --timeout",
            ));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn ask(client: &Client) -> Result<u64, CliError> {
    match client
        .perform(Operation::Checkpoint)
        .map_err(CliError::call)?
    {
        Answer::Checkpointed(slot) => Ok(slot.0),
        Answer::Called(_) | Answer::Read { .. } => {
            Err(CliError::failed("the node did not answer with a snapshot"))
        }
    }
}

/// The nodes of the group, and which of them did not answer when they were asked last.
struct Nodes {
    group: GroupId,
    addresses: Vec<(String, bool)>,
    looks: u32,
}

impl Nodes {
    fn of(endpoint: &Endpoint, tls: Option<&TlsClient>) -> Result<Nodes, CliError> {
        let members = status::first_report(endpoint, ANSWER_MAX, tls)?
            .welcome
            .members;
        Ok(Nodes {
            group: endpoint.group_id(),
            addresses: members.into_iter().map(|(_, at)| (at, false)).collect(),
            looks: 0,
        })
    }

    /// What the nodes say; the answer of one that knows the snapshot to be durable suffices.
    fn look(&mut self, slot: u64, tls: Option<&TlsClient>) -> Vec<Value> {
        self.looks += 1;
        let mut statuses = Vec::new();
        for (address, is_silent) in &mut self.addresses {
            if *is_silent && !self.looks.is_multiple_of(SILENT_EVERY) {
                continue;
            }
            let report = node_status(address, self.group, ANSWER_MAX, tls);
            *is_silent = report.is_err();
            let Some(status) = report.ok().and_then(|report| status::parse(&report).ok()) else {
                continue;
            };
            let is_durable = reached(&status["stable"], slot);
            statuses.push(status);
            if is_durable {
                break;
            }
        }
        statuses
    }
}

/// How far a snapshot is.
#[derive(PartialEq, Eq, Debug)]
enum Progress {
    /// A majority holds it, or one of this later slot.
    Durable(u64),
    /// So many replicas failed that no majority can.
    Failed(String),
    /// Some replica holds it.
    Somewhere,
    Nowhere,
}

fn progress(statuses: &[Value], slot: u64) -> Progress {
    let stable = statuses.iter().filter_map(|node| node["stable"].as_u64());
    if let Some(stable) = stable.max().filter(|stable| *stable >= slot) {
        return Progress::Durable(stable);
    }
    let failed: Vec<String> = (statuses.iter())
        .map(|node| (node, &node["snapshot_failed"]))
        .filter(|(_, failure)| reached(&failure["slot"], slot))
        .map(|(node, failure)| {
            let why = failure["reason"].as_str().unwrap_or_default();
            format!("node {}: {why}", node["id"])
        })
        .collect();
    let replicas = statuses
        .iter()
        .filter_map(|node| node["view"]["replicas"].as_array());
    let replicas = replicas.map(Vec::len).max().unwrap_or(0);
    if !failed.is_empty() && 2 * (replicas - failed.len()) <= replicas {
        return Progress::Failed(format!(
            "no snapshot was taken at slot {slot}, and the log stays: {}",
            failed.join("; ")
        ));
    }
    match statuses.iter().any(|node| reached(&node["snapshot"], slot)) {
        true => Progress::Somewhere,
        false => Progress::Nowhere,
    }
}

fn reached(at: &Value, slot: u64) -> bool {
    at.as_u64().is_some_and(|at| at >= slot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(id: u16, snapshot: u64, stable: u64, failed: Option<u64>) -> Value {
        let failed = failed.map(|slot| json!({"slot": slot, "reason": "a generator"}));
        json!({"id": id, "snapshot": snapshot, "stable": stable, "snapshot_failed": failed,
            "view": {"replicas": [1, 2, 3]}})
    }

    #[test]
    fn a_snapshot_is_taken_when_a_majority_holds_it_and_not_before() {
        let one = [node(1, 9, 4, None), node(2, 4, 4, None)];
        assert_eq!(progress(&one, 9), Progress::Somewhere);
        assert_eq!(progress(&one, 10), Progress::Nowhere);
        assert_eq!(progress(&[node(1, 9, 9, None)], 9), Progress::Durable(9));
        assert_eq!(progress(&[node(1, 12, 11, None)], 9), Progress::Durable(11));
        assert_eq!(progress(&[], 9), Progress::Nowhere);
    }

    #[test]
    fn a_snapshot_that_fails_on_a_majority_has_failed() {
        let one = [node(1, 4, 4, Some(9)), node(2, 4, 4, None)];
        assert_eq!(progress(&one, 9), Progress::Nowhere);
        let two = [node(1, 4, 4, Some(9)), node(2, 4, 4, Some(9))];
        assert!(matches!(progress(&two, 9), Progress::Failed(_)));
        assert_eq!(progress(&two, 10), Progress::Nowhere);
    }
}
