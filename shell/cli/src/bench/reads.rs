//! `quorate bench --compare-reads`: the linearizable ways to read, one after the other on one group.
//!
//! Latencies are of this machine, whose links take no time. What links of ten milliseconds would make of them follows from the message
//! delays of one read, counted in a rehearsed group in virtual time.

use super::args::{BenchArgs, ReadsArg};
use super::payload::{Payloads, Target};
use super::trace::ReadTrace;
use super::{measure, start_local};
use crate::error::CliError;
use crate::json;
use crate::print;
use crate::table::table;
use quorate_types::ReadLevel;
use serde::Serialize;

/// The levels that are compared.
const COMPARED: [ReadsArg; 4] = [
    ReadsArg::Ordered,
    ReadsArg::Confirmed,
    ReadsArg::Broadcast,
    ReadsArg::Lease,
];

/// What one way costs.
#[derive(Debug, Serialize)]
struct ReadsRow {
    level: &'static str,
    ops_per_s: f64,
    p50_us: f64,
    p99_us: f64,
    errors: u64,
    /// Messages one after the other until the client has its answer.
    message_delays: u64,
    /// Those, over links of ten milliseconds.
    at_10_ms_links_ms: u64,
    /// Messages for one read, of the client and of all nodes.
    messages: usize,
    bytes: usize,
}

/// Measures each way, and prints them together.
pub(super) fn compare(args: &BenchArgs, as_json: bool) -> Result<(), CliError> {
    let target = Target::parse(&args.object).map_err(|e| CliError::usage(e.to_string()))?;
    let call_args = json::list(&args.call_args).map_err(CliError::usage)?;
    let payloads = Payloads::new(&target, args.size, args.keys, &call_args, true)
        .map_err(|error| CliError::usage(error.to_string()))?;
    let group = start_local(args, &target)?;
    let endpoint = &group.ready.endpoint;
    let mut rows = Vec::new();
    for reads in COMPARED {
        let mut of_level = args.clone();
        (of_level.reads, of_level.read_ratio) = (reads, 1.0);
        let report = measure(&of_level, endpoint, &[], &payloads)?;
        let level = super::level(reads);
        let trace = ReadTrace::of(args.ordering.name(), args.local, level)?;
        let (p50_us, p99_us) = report.latency_us.middle_and_tail();
        rows.push(ReadsRow {
            level: level.name(),
            ops_per_s: report.ops_per_s,
            p50_us,
            p99_us,
            errors: report.errors,
            message_delays: trace.message_delays,
            at_10_ms_links_ms: 10 * trace.message_delays,
            messages: trace.messages,
            bytes: trace.bytes,
        });
    }
    let errors = rows.iter().map(|row| row.errors).sum();
    if as_json {
        let text = serde_json::to_string(&rows).map_err(|e| CliError::failed(e.to_string()))?;
        print::line(text)?;
    } else {
        print::line(drawn(&rows))?;
    }
    super::all_good(errors)
}

fn drawn(rows: &[ReadsRow]) -> String {
    let titles = [
        "READS",
        "OP/S",
        "P50 US",
        "P99 US",
        "DELAYS",
        "10 MS LINKS",
        "MESSAGES",
        "BYTES",
    ];
    let rows = rows.iter().map(|row| {
        vec![
            row.level.to_owned(),
            format!("{:.0}", row.ops_per_s),
            format!("{:.0}", row.p50_us),
            format!("{:.0}", row.p99_us),
            row.message_delays.to_string(),
            format!("{} ms", row.at_10_ms_links_ms),
            row.messages.to_string(),
            row.bytes.to_string(),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    table(&titles, &rows)
}

/// Whether a read at this level needs a group in which every member knows it.
pub(super) fn needs_level(reads: ReadsArg) -> bool {
    super::level(reads) == ReadLevel::Broadcast
}
