//! Sends the work log to the host process, without the calls that the group decided to skip or that took too many steps.
//!
//! The outcome of such a call is inserted among those that the process sends. Only `other_process` calls it.

use crate::child::Process;
use crate::process_end::ProcessEnd;
use crate::protocol::{put_execute, put_query, put_restore, put_snapshot};
use crate::scratch::Scratch;
use crate::work_log::{HostWork, WorkLog};
use quorate_types::{Call, Outcome, Slot};
use std::collections::BTreeMap;

/// Calls that no process gets, with their outcomes.
pub(crate) type LeftOut = BTreeMap<(Slot, u32), Outcome>;

/// Sends as much of the work that waits as the process takes.
pub(crate) fn send_work(
    process: &mut Process,
    work_log: &mut WorkLog,
    scratch: &Scratch,
    left_out: &LeftOut,
) -> Result<(), ProcessEnd> {
    loop {
        let id = process.id();
        let mut is_all_sent = false;
        while let Some(outbox) = process.outbox() {
            match work_log.next_to_send() {
                Some(HostWork::Execute { slot, stamp, calls }) => {
                    let is_left_out = |call: &Call| left_out.contains_key(&(*slot, call.index));
                    if calls.iter().any(is_left_out) {
                        let left: Vec<Call> =
                            calls.iter().filter(|c| !is_left_out(c)).cloned().collect();
                        put_execute(outbox, *slot, *stamp, &left);
                    } else {
                        put_execute(outbox, *slot, *stamp, calls);
                    }
                }
                Some(HostWork::Query {
                    read,
                    object,
                    payload,
                }) => put_query(outbox, *read, *object, payload),
                Some(HostWork::Snapshot { slot, .. }) => {
                    put_snapshot(outbox, *slot, &scratch.path(id, *slot));
                }
                Some(HostWork::Restore { slot, images }) => put_restore(outbox, *slot, images),
                None => {
                    is_all_sent = true;
                    break;
                }
            }
        }
        process.write()?;
        if is_all_sent || process.outbox().is_none() {
            return Ok(());
        }
    }
}

/// Puts the outcome of each call that was left out into its place among those that the process told.
pub(crate) fn with_left_out(
    slot: Slot,
    calls: &[Call],
    told: Vec<Outcome>,
    left_out: &LeftOut,
) -> Vec<Outcome> {
    if told.len() == calls.len() {
        return told;
    }
    let mut told = told.into_iter();
    let outcome = |call: &Call| {
        let known = left_out.get(&(slot, call.index)).cloned();
        known.or_else(|| told.next())
    };
    calls.iter().filter_map(outcome).collect()
}
