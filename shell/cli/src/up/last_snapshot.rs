//! The snapshot that a group takes when it is stopped as a whole: its next start executes nothing again, and may go on
//! with other code. Where it cannot be had soon, the group stops without it.
//!
//! Built-in objects take it too. They execute again in no time, but a change of the view is followed by a snapshot and a trim of its
//! own, and a stop in the middle of that would leave a node with neither: the last snapshot covers it.

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

/// How long a node may be without a snapshot for which its log was trimmed, before another one is asked for: twice as long each time. One
/// that was busy with an earlier snapshot has left this one out, and never writes it. One that is slow with it would leave out the next.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(250);

/// Asks for a snapshot, and waits until every node whose objects run holds it and has trimmed its log for it, or until asked to stop once more.
pub(super) fn take(plan: &Plan, supervisor: &mut Supervisor) {
    let config = &plan.first;
    let is_wanted =
        !plan.is_temporary() && config.snapshot.enabled && config.persist == PersistConfig::Disk;
    if !is_wanted {
        return;
    }
    let statuses = ask(plan);
    let serving = statuses.iter().filter(|status| status.is_serving).count();
    if 2 * serving <= plan.nodes.len() {
        return;
    }
    let end = Instant::now() + PATIENCE;
    let is_behind = |status: &NodeStatus| status.executed > status.trimmed;
    let slot = match statuses.iter().any(is_behind) {
        true => checkpoint(plan),
        // Everything is in a snapshot, which a node may still be writing.
        false => statuses.iter().map(|status| status.trimmed).max(),
    };
    let Some(mut slot) = slot else { return };
    let (mut asked, mut patience) = (Instant::now(), ASK_AGAIN_AFTER);
    loop {
        let statuses = ask(plan);
        if !statuses.iter().any(|status| lacks(status, slot)) {
            return;
        }
        let is_trimmed = |status: &NodeStatus| !status.is_host_up || status.trimmed >= slot;
        if statuses.iter().all(is_trimmed) && asked.elapsed() >= patience {
            slot = checkpoint(plan).unwrap_or(slot);
            (asked, patience) = (Instant::now(), 2 * patience);
        }
        match supervisor.next(Some(LOOK_EVERY)) {
            Happening::Stop => return,
            Happening::Died { .. }
            | Happening::Removed { .. }
            | Happening::Restarted { .. }
            | Happening::Nothing => {}
        }
        if Instant::now() >= end {
            eprintln!(
                "quorate: no snapshot of the whole group within {PATIENCE:?}; the next start executes the log's calls again"
            );
            return;
        }
    }
}

/// Whether a node has not trimmed its log for the snapshot at `slot`, or does not hold the one that its log was trimmed for. A log goes once
/// a majority holds the snapshot: a node that writes slower, or came back a moment ago and fetches it, would end with neither, and could
/// not go on alone. One whose objects are down takes none.
fn lacks(status: &NodeStatus, slot: u64) -> bool {
    status.is_host_up && (status.trimmed < slot || status.snapshot < status.trimmed)
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
