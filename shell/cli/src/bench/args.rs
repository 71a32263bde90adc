//! The options of `quorate bench`.

use crate::node::PersistArg;
use crate::ordering::OrderingArg;
use crate::seconds;
use crate::tls::TlsArgs;
use clap::{Args, ValueEnum};
use quorate_types::QuorumRule;
use serde::Serialize;
use std::net::SocketAddrV4;
use std::path::PathBuf;

/// Put load on a group and measure it: operations, latency, CPU and memory.
#[derive(Args, Clone, Debug, Serialize)]
pub(crate) struct BenchArgs {
    /// The group to load, for example quorate://127.0.0.1:7400/Counter.
    #[arg(long, conflicts_with = "local")]
    pub(super) endpoint: Option<String>,
    /// Start a group of this many nodes on this machine for the run.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=9), allow_negative_numbers = true)]
    pub(super) local: u16,
    /// What to call: rust:counter, rust:register, rust:kv, or module:Class.method.
    #[arg(long, default_value = "rust:counter")]
    pub(super) object: String,
    /// Constructor arguments of the object, a JSON list.
    #[arg(long, default_value = "[]")]
    pub(super) args: String,
    /// Arguments of each call of a Python method, a JSON list.
    #[arg(long, default_value = "[1]")]
    pub(super) call_args: String,
    /// Clients, each with its own connection and session.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024), allow_negative_numbers = true)]
    pub(super) clients: u32,
    /// Each client stays with a node of its own, one after the other, instead of moving to the leader.
    #[arg(long, conflicts_with_all = ["python_client", "compare_reads", "trace_one"])]
    pub(super) spread_clients: bool,
    /// Calls that each client keeps in flight.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096), allow_negative_numbers = true)]
    pub(super) window: u32,
    /// Bytes of the value in each call, for objects that take one.
    #[arg(long, default_value_t = 16, allow_negative_numbers = true)]
    pub(super) size: usize,
    /// Keys that kv calls spread over.
    #[arg(long, default_value_t = 10_000, allow_negative_numbers = true)]
    pub(super) keys: u64,
    /// Bytes to fill a kv object with before the run.
    #[arg(
        long,
        default_value_t = 0,
        value_name = "BYTES",
        allow_negative_numbers = true
    )]
    pub(super) fill: u64,
    /// Share of reads among the calls, 0 to 1.
    #[arg(long, default_value_t = 0.0, value_parser = share, allow_negative_numbers = true)]
    pub(super) read_ratio: f64,
    /// How fresh reads are.
    #[arg(long, value_enum, default_value_t = ReadsArg::Confirmed)]
    pub(super) reads: ReadsArg,
    /// Measure the linearizable ways to read one after the other on one group, and count the messages of one read of each in a
    /// rehearsed group. --reads and --read-ratio have no effect.
    #[arg(long, conflicts_with_all = ["endpoint", "unreplicated", "python_client", "timeline", "trace_one"])]
    pub(super) compare_reads: bool,
    /// Where the group of the run keeps its log.
    #[arg(long, value_enum, default_value_t = PersistArg::Disk)]
    pub(super) persist: PersistArg,
    /// How the group of the run orders commands.
    #[arg(long, value_enum, default_value_t = OrderingArg::Paxos, conflicts_with = "endpoint")]
    pub(super) ordering: OrderingArg,
    /// How many nodes of the run's group elect a leader and how many decide: PHASE1,PHASE2, with fast_paxos PHASE1,PHASE2,FAST; or
    /// majority.
    #[arg(
        long,
        value_name = "SIZES",
        default_value = "majority",
        conflicts_with = "endpoint",
        allow_hyphen_values = true
    )]
    #[serde(serialize_with = "crate::quorums::as_word")]
    pub(super) quorums: QuorumRule,
    /// Slots that the objects of the run's group may execute ahead of decisions.
    #[arg(long, default_value_t = 0, value_name = "SLOTS", value_parser = clap::value_parser!(u16).range(0..=1024), conflicts_with = "endpoint", allow_negative_numbers = true)]
    pub(super) speculation: u16,
    /// Where leaders of the run's group multicast values with the ordering ring_paxos, such as 239.1.2.3:7600.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = crate::up::multicast, conflicts_with = "endpoint")]
    pub(super) multicast: Option<SocketAddrV4>,
    /// Seconds to measure.
    #[arg(long, default_value_t = 10.0, value_parser = seconds::span, allow_negative_numbers = true)]
    pub(super) seconds: f64,
    /// Seconds of load before the measurement.
    #[arg(long, default_value_t = 2.0, value_parser = seconds::span_or_none, allow_negative_numbers = true)]
    pub(super) warmup: f64,
    /// Measure the object without replication as well, in the same run.
    #[arg(long)]
    pub(super) unreplicated: bool,
    /// Measure the Python client instead: one call at a time, and 1000 in flight by gather, agather and tasks, beside the Rust
    /// client in the same run. --clients, --window, --size and reads have no effect.
    #[arg(long, conflicts_with_all = ["unreplicated", "timeline", "read_ratio"])]
    pub(super) python_client: bool,
    /// Write operations and the worst latency per 100 ms to this CSV file.
    #[arg(long, value_name = "FILE")]
    pub(super) timeline: Option<PathBuf>,
    /// Measure nothing: draw what --local nodes and a client send for one command with --size bytes into this SVG file, and print it.
    /// The group is a rehearsed one in virtual time, where every message takes 1 ms and every write 0.1 ms.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["endpoint", "unreplicated", "python_client", "timeline", "read_ratio"])]
    pub(super) trace_one: Option<PathBuf>,
    /// The directory of a Python object's module.
    #[arg(long, default_value = ".")]
    pub(super) path: PathBuf,
    /// Certificates for --endpoint; a group started for the run has none.
    #[command(flatten)]
    #[serde(skip)]
    pub(super) tls: TlsArgs,
}

/// Read levels by their names on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ReadsArg {
    /// Ordered like a write, executed by one replica.
    Ordered,
    /// Confirmed by a majority, not logged.
    Confirmed,
    /// Announced to every node and confirmed by a majority unasked.
    Broadcast,
    /// Answered by the leader alone, under its lease.
    Lease,
    /// The state of the connected replica, possibly old.
    Any,
}

fn share(word: &str) -> Result<f64, String> {
    match word.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        Ok(_) | Err(_) => Err("takes a share from 0 to 1".to_owned()),
    }
}
