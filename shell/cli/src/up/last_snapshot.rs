//! The snapshot that a group takes when it is stopped as a whole: its next start executes nothing again, and may go on
//! with other code. Where it cannot be had soon, the group stops without it.

use super::ask;
use super::plan::Plan;
use super::supervisor::{Happening, Supervisor};
use quorate_client::{Answer, Client, DriverOptions, Endpoint, Operation};
use quorate_node::{NodeStatus, PersistConfig};
use std::time::{Duration, Instant};

/// How long the group may take. A state of a gigabyte takes longer, and whoever stops a group does not wait for that.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often the nodes are asked how far they are.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Asks for a snapshot, and waits until every node that runs holds it and has trimmed its log for it, or until asked to stop once more.
pub(super) fn take(plan: &Plan, supervisor: &mut Supervisor) {
    let config = &plan.first;
    let objects = config.host_config().objects;
    let is_wanted = !plan.is_temporary()
        && config.snapshot.enabled
        && config.persist == PersistConfig::Disk
        && !objects.iter().all(quorate_host::HostedObject::is_rust);
    if !is_wanted {
        return;
    }
    let statuses = ask(plan);
    let serving = statuses.iter().filter(|status| status.is_serving).count();
    let is_behind = |status: &NodeStatus| status.executed > status.trimmed;
    if 2 * serving <= plan.nodes.len() || !statuses.iter().any(is_behind) {
        return;
    }
    let end = Instant::now() + PATIENCE;
    let Some(slot) = checkpoint(plan) else { return };
    while ask(plan).iter().any(|status| lacks(status, slot)) {
        match supervisor.next(Some(LOOK_EVERY)) {
            Happening::Stop => return,
            Happening::Died { .. } | Happening::Restarted { .. } | Happening::Nothing => {}
        }
        if Instant::now() >= end {
            eprintln!(
                "quorate: no snapshot of the whole group within {PATIENCE:?}; the next start executes the log's calls again"
            );
            return;
        }
    }
}

/// Whether a node that serves has not trimmed its log for the snapshot at `slot`, or does not hold it. A log goes once a majority holds the
/// snapshot: a node that writes slower would end with neither, and could not go on alone.
fn lacks(status: &NodeStatus, slot: u64) -> bool {
    status.is_serving && (status.trimmed < slot || status.snapshot < slot)
}

/// The slot of a snapshot that all replicas take; `None` when the group does not answer.
fn checkpoint(plan: &Plan) -> Option<u64> {
    let endpoint: Endpoint = plan.endpoint().parse().ok()?;
    let options = DriverOptions {
        timeout: PATIENCE / 2,
        tls: plan.tls.as_ref().map(|files| files.client.clone()),
        ..DriverOptions::default()
    };
    let client = Client::connect(&endpoint, options, Some(PATIENCE / 2)).ok()?;
    match client.perform(Operation::Checkpoint).ok()? {
        Answer::Checkpointed(slot) => Some(slot.0),
        Answer::Called(_) | Answer::Read { .. } => None,
    }
}
