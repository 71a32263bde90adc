//! `quorate bench`: load on a group, latency without coordinated omission, CPU and memory.
//!
//! The load is the ordinary client on one thread. CPU is counted for the load and for every node
//! with the host processes it started, over exactly the measured seconds. Refuses to compare runs:
//! that is for whoever reads two reports of one machine.

mod args;
mod group;
mod load;
mod payload;
mod python_client;
mod reads;
mod report;
mod timeline;
mod trace;
mod trace_picture;
mod unreplicated;
mod usage;

pub(crate) use args::BenchArgs;
pub(crate) use unreplicated::{UnreplicatedArgs, run as serve_unreplicated};

use crate::error::CliError;
use crate::json;
use crate::methods;
use crate::node::PersistArg;
use crate::print;
use crate::quorums;
use crate::status;
use crate::tls::TlsArgs;
use crate::unserved;
use args::ReadsArg;
use group::LocalGroup;
use load::{Load, LoadPlan};
use payload::{Payloads, Target};
use python_client::{PythonReport, WayRow};
use quorate_client::{Client, DriverOptions, Endpoint, TlsClient};
use quorate_types::{Level, QuorumRule, ReadLevel};
use report::{BenchReport, CpuCost, Latency};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use timeline::BenchTimeline;
use trace::CommandTrace;

/// How long clients may take to connect and open their sessions.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a node may take to tell its counts.
const STATUS_TIMEOUT: Duration = Duration::from_millis(500);

/// Runs the benchmark; the report goes to stdout.
pub(crate) fn run(args: &BenchArgs, as_json: bool) -> Result<(), CliError> {
    if args.endpoint.is_none() {
        let is_kept = args.persist == PersistArg::Disk;
        quorums::judge(
            (args.quorums, is_kept),
            args.ordering.name(),
            args.local.into(),
        )?;
    }
    if let Some(file) = &args.trace_one {
        return trace_one(args, file, as_json);
    }
    if args.compare_reads {
        return reads::compare(args, as_json);
    }
    let target = Target::parse(&args.object).map_err(|e| CliError::usage(e.to_string()))?;
    let call_args = json::list(&args.call_args).map_err(CliError::usage)?;
    let reads_wanted = args.read_ratio > 0.0;
    let payloads = Payloads::new(&target, args.size, args.keys, &call_args, reads_wanted)
        .map_err(|error| CliError::usage(error.to_string()))?;
    if args.python_client {
        return run_python_client(args, &target, &payloads, as_json);
    }
    let mut report = match &args.endpoint {
        Some(endpoint) => measure(args, endpoint, &pids(endpoint, &args.tls), &payloads)?,
        None => measure_local(args, &target, &payloads, &up_words(args, &target))?,
    };
    if args.unreplicated {
        let words = baseline_words(args, &target);
        report.unreplicated = Some(Box::new(measure_local(args, &target, &payloads, &words)?));
    }
    if as_json {
        let text = serde_json::to_string(&report).map_err(|e| CliError::failed(e.to_string()))?;
        print::line(text)?;
    } else {
        print::line(report.table())?;
    }
    let baseline = report.unreplicated.as_ref().map_or(0, |one| one.errors);
    all_good(report.errors + baseline)
}

/// The figures are printed all the same: they are of the calls that did what was asked.
fn all_good(errors: u64) -> Result<(), CliError> {
    if errors == 0 {
        return Ok(());
    }
    Err(CliError::failed(format!(
        "{errors} calls of the load were refused, had no known outcome or raised: their time counts in the latencies; make one of them by `quorate call` to see why"
    )))
}

/// Draws what is sent for one command into `file`, and prints it.
fn trace_one(args: &BenchArgs, file: &Path, as_json: bool) -> Result<(), CliError> {
    let trace = CommandTrace::of(args.ordering.name(), args.local, args.size)?;
    let drawn = std::fs::write(file, trace_picture::draw(&trace));
    drawn.map_err(|e| CliError::failed(format!("{}: {e}", file.display())))?;
    if as_json {
        let text = serde_json::to_string(&trace).map_err(|e| CliError::failed(e.to_string()))?;
        print::line(text)
    } else {
        print::line(trace.table())
    }
}

fn run_python_client(
    args: &BenchArgs,
    target: &Target,
    payloads: &Payloads,
    as_json: bool,
) -> Result<(), CliError> {
    let call = python_client::call_of(args, target)?;
    let group = match &args.endpoint {
        Some(_) => None,
        None => {
            let words = up_words(args, target);
            Some(LocalGroup::start(&words, &args.path)?)
        }
    };
    let started = group.as_ref().map(|group| group.ready.endpoint.clone());
    let endpoint = args.endpoint.clone().or(started).unwrap_or_default();
    let (mut rust, mut errors) = (Vec::new(), 0);
    for (way, window) in [("sync", 1), ("window", python_client::IN_FLIGHT)] {
        let mut of_rust = args.clone();
        (of_rust.clients, of_rust.window) = (1, window);
        let report = measure(&of_rust, &endpoint, &[], payloads)?;
        errors += report.errors;
        rust.push(WayRow::of_rust(way, &report));
    }
    let report = PythonReport::measure(args, call, &endpoint, rust)?;
    if as_json {
        let text = serde_json::to_string(&report).map_err(|e| CliError::failed(e.to_string()))?;
        print::line(text)?;
    } else {
        print::line(report.table())?;
    }
    all_good(errors)
}

fn measure_local(
    args: &BenchArgs,
    target: &Target,
    payloads: &Payloads,
    words: &[String],
) -> Result<BenchReport, CliError> {
    let group = LocalGroup::start(words, &args.path)?;
    if args.read_ratio > 0.0 && reads::needs_level(args.reads) {
        raise_level(args, &group.ready.endpoint)?;
    }
    let pids: Vec<u32> = group.ready.nodes.iter().map(|node| node.pid).collect();
    if args.fill > 0 && target.class == "rust:kv" {
        fill(&group.ready.endpoint, args.fill, args.size)?;
    }
    measure(args, &group.ready.endpoint, &pids, payloads)
}

fn measure(
    args: &BenchArgs,
    endpoint: &str,
    pids: &[u32],
    payloads: &Payloads,
) -> Result<BenchReport, CliError> {
    let endpoint: Endpoint = endpoint.parse().map_err(CliError::endpoint)?;
    // A group started for the run has no certificates.
    let tls = match args.endpoint {
        Some(_) => args.tls.read()?,
        None => None,
    };
    if let Ok(Some(method)) = Target::parse(&args.object).map(|target| target.method) {
        expect_method(&endpoint, &method, tls.clone())?;
    }
    let plan = LoadPlan {
        endpoint: &endpoint,
        clients: args.clients,
        is_spread: args.spread_clients,
        window: args.window,
        payloads,
        read_ratio: args.read_ratio,
        reads: level(args.reads),
        tls: tls.clone(),
    };
    let mut load = Load::connect(plan, CONNECT_TIMEOUT)
        .map_err(|error| unserved::told_of(error, &endpoint, tls.as_deref()))?;
    load.run(Duration::from_secs_f64(args.warmup), None);
    let span = Duration::from_secs_f64(args.seconds);
    let mut timeline = args.timeline.as_ref().map(|_| BenchTimeline::over(span));
    let sent_before = sent(&endpoint, tls.as_deref());
    let (own_before, before) = (usage::own_cpu_s(), usage::of(pids));
    let seen = load.run(span, timeline.as_mut());
    let (own_after, after) = (usage::own_cpu_s(), usage::of(pids));
    let sent_after = sent(&endpoint, tls.as_deref());
    if let (Some(timeline), Some(file)) = (&timeline, &args.timeline) {
        let written = timeline.write(file);
        written.map_err(|e| CliError::failed(format!("{}: {e}", file.display())))?;
    }
    let spent = after.iter().zip(&before);
    let nodes_s: Vec<f64> = spent.map(|(a, b)| (a.cpu_s - b.cpu_s).max(0.0)).collect();
    Ok(BenchReport {
        ops_per_s: seen.operations as f64 / seen.seconds,
        latency_us: Latency::of(&seen.latency),
        errors: seen.errors,
        cpu_s_per_1000_ops: CpuCost::of(own_after - own_before, &nodes_s, seen.operations),
        sent_bytes_per_op: per_operation(&sent_before, &sent_after, seen.operations),
        rss_mib: after.iter().map(|usage| usage.resident_mib).collect(),
        config: serde_json::to_value(args).map_err(|e| CliError::failed(e.to_string()))?,
        unreplicated: None,
    })
}

/// Refuses a method that the object has not: every call of the load would fail.
fn expect_method(
    endpoint: &Endpoint,
    method: &str,
    tls: Option<Arc<TlsClient>>,
) -> Result<(), CliError> {
    let options = DriverOptions {
        tls: tls.clone(),
        ..DriverOptions::default()
    };
    let told = |error| unserved::told_of(error, endpoint, tls.as_deref());
    let client = Client::connect(endpoint, options, None).map_err(told)?;
    let object = client.object(endpoint.object.as_deref());
    let object = object.map_err(|error| unserved::no_object(error, endpoint, tls.as_deref()))?;
    methods::expect(&client, object, method)
}

/// A group for the run in which every read level is known.
fn start_local(args: &BenchArgs, target: &Target) -> Result<LocalGroup, CliError> {
    let words = up_words(args, target);
    let group = LocalGroup::start(&words, &args.path)?;
    raise_level(args, &group.ready.endpoint)?;
    Ok(group)
}

/// Sets a group started for the run to the level at which acceptors confirm reads unasked. One with quorums that were asked for is at a
/// higher level from its beginning on.
fn raise_level(args: &BenchArgs, endpoint: &str) -> Result<(), CliError> {
    if args.quorums != QuorumRule::Majority {
        return Ok(());
    }
    let exe = std::env::current_exe().map_err(|e| CliError::failed(e.to_string()))?;
    let level = format!("level={}", Level::BROADCAST);
    let raised = std::process::Command::new(exe)
        .args(["view", "set", &level, "--endpoint", endpoint])
        .output()
        .map_err(|e| CliError::failed(e.to_string()))?;
    match raised.status.success() {
        true => Ok(()),
        false => Err(CliError::failed(format!(
            "the group of the run cannot be set to {level}: {}",
            String::from_utf8_lossy(&raised.stderr).trim()
        ))),
    }
}

/// Bytes that each node has written to sockets so far, by number; none if one of them does not answer.
fn sent(endpoint: &Endpoint, tls: Option<&TlsClient>) -> Vec<u64> {
    let Ok(document) = status::of_group(endpoint, STATUS_TIMEOUT, tls) else {
        return Vec::new();
    };
    let nodes = document["nodes"].as_array().into_iter().flatten();
    let bytes: Option<Vec<u64>> = nodes
        .map(|node| node["counts"]["bytes_out"].as_u64())
        .collect();
    bytes.unwrap_or_default()
}

/// What each node wrote between two looks, for each operation.
fn per_operation(before: &[u64], after: &[u64], operations: u64) -> Vec<f64> {
    if before.len() != after.len() {
        return Vec::new();
    }
    let spent = before.iter().zip(after);
    spent
        .map(|(before, after)| after.saturating_sub(*before) as f64 / operations.max(1) as f64)
        .collect()
}

/// Makes the kv object of a group started for the run `bytes` large, by a call of its own.
fn fill(endpoint: &str, bytes: u64, size: usize) -> Result<(), CliError> {
    let count = bytes / size.max(1) as u64;
    let words = [count, size as u64].map(|n| n.to_string());
    crate::call::perform(endpoint, "fill", &words, None).map(|_| ())
}

fn level(reads: ReadsArg) -> ReadLevel {
    match reads {
        ReadsArg::Ordered => ReadLevel::Ordered,
        ReadsArg::Confirmed => ReadLevel::Confirmed,
        ReadsArg::Broadcast => ReadLevel::Broadcast,
        ReadsArg::Lease => ReadLevel::Lease,
        ReadsArg::Any => ReadLevel::Any,
    }
}

/// Process ids of the group's nodes, where they run on this machine; none where that is not told.
fn pids(endpoint: &str, tls: &TlsArgs) -> Vec<u32> {
    let Ok(exe) = std::env::current_exe() else {
        return Vec::new();
    };
    let status = std::process::Command::new(exe)
        .args(["status", "--endpoint", endpoint, "-o", "json"])
        .args(tls.words())
        .output();
    let document = status
        .ok()
        .and_then(|out| serde_json::from_slice(&out.stdout).ok());
    let document: serde_json::Value = document.unwrap_or_default();
    let nodes = document["nodes"].as_array().cloned().unwrap_or_default();
    nodes
        .iter()
        .filter_map(|node| u32::try_from(node["pid"].as_u64()?).ok())
        .collect()
}

fn up_words(args: &BenchArgs, target: &Target) -> Vec<String> {
    let nodes = args.local.to_string();
    let speculation = args.speculation.to_string();
    let quorums = args.quorums.to_string();
    let persist = match args.persist {
        PersistArg::Disk => "disk",
        PersistArg::Memory => "memory",
    };
    let words = [
        "up",
        &target.class,
        "--no-check",
        "--nodes",
        &nodes,
        "--persist",
        persist,
        "--ordering",
        args.ordering.name().word(),
        "--quorums",
        &quorums,
        "--speculation",
        &speculation,
        "--port",
        "0",
        "--args",
        &args.args,
        "--no-restart",
        "-o",
        "json",
    ];
    let mut words = words.map(str::to_string).to_vec();
    if let Some(address) = args.multicast {
        words.extend(["--multicast".to_owned(), address.to_string()]);
    }
    words
}

fn baseline_words(args: &BenchArgs, target: &Target) -> Vec<String> {
    let words = ["bench-unreplicated", &target.class, "--args", &args.args];
    words.map(str::to_string).to_vec()
}
