//! A status document as Prometheus metrics. The loop keeps plain numbers; this file adds names and
//! types, on request.

use crate::status::NodeStatus;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// The content type of `/metrics`.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The metrics as text.
pub(crate) fn text(status: &NodeStatus) -> String {
    let labels = [
        ("group", status.group.to_string()),
        ("node", status.id.to_string()),
    ];
    let labels = labels.map(|(name, value)| (name.into(), value.into()));
    let mut registry = Registry::with_prefix_and_labels("quorate", labels.into_iter());
    registry.register_collector(Box::new(Page(status.clone())));
    let mut text = String::new();
    encode(&mut text, &registry).expect("writing to a string does not fail");
    text
}

#[derive(Debug)]
struct Page(NodeStatus);

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        for (name, help, value) in gauges(&self.0) {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            let metric = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            gauge.encode(metric)?;
        }
        for (name, help, value) in counters(&self.0) {
            let counter = ConstCounter::new(value);
            let metric = encoder.encode_descriptor(name, help, None, counter.metric_type())?;
            counter.encode(metric)?;
        }
        Ok(())
    }
}

type Line = (&'static str, &'static str, u64);

// Longer than a screen: one entry a metric.
fn gauges(status: &NodeStatus) -> Vec<Line> {
    let counts = &status.counts;
    vec![
        (
            "decided_slot",
            "Highest slot of the decided prefix",
            status.decided,
        ),
        ("executed_slot", "Highest executed slot", status.executed),
        (
            "snapshot_slot",
            "Slot of the newest durable snapshot",
            status.snapshot,
        ),
        (
            "trimmed_slot",
            "Last slot trimmed from the log",
            status.trimmed,
        ),
        ("lag_slots", "Slots decided and not executed", status.lag),
        (
            "leads",
            "Whether this node leads",
            u64::from(status.leader == Some(status.id)),
        ),
        (
            "has_leader",
            "Whether a leader is known",
            u64::from(status.leader.is_some()),
        ),
        (
            "observes",
            "Whether an acceptor of the view does not vote because it has lost votes",
            u64::from(status.observes.is_some()),
        ),
        (
            "serves",
            "Whether calls and reads are taken",
            u64::from(status.is_serving),
        ),
        (
            "host_up",
            "Whether the objects' host works",
            u64::from(status.is_host_up),
        ),
        (
            "diverged",
            "Whether the objects differ from the majority's",
            u64::from(status.diverged.is_some()),
        ),
        ("connections", "Connections open", counts.connections),
        ("clients", "Clients connected", counts.clients),
        ("sessions", "Sessions open in the group", counts.sessions),
        ("waiting_calls", "Calls without an answer", counts.waiting),
        ("waiting_reads", "Reads without an answer", counts.reads),
        (
            "backlog_calls",
            "Calls decided and not executed",
            counts.backlog,
        ),
        (
            "held_bytes",
            "Bytes of batches held for agreement",
            counts.held_bytes,
        ),
        (
            "window_left_slots",
            "Slots that may be proposed before the window is full",
            counts.window_left,
        ),
        (
            "snapshot_jobs",
            "Jobs waiting for the snapshot thread",
            counts.snapshot_jobs,
        ),
    ]
}

fn counters(status: &NodeStatus) -> Vec<Line> {
    let counts = &status.counts;
    vec![
        ("elections", "Elections begun", status.elections),
        ("turns", "Turns of the loop", counts.turns),
        ("read_bytes", "Bytes read from sockets", counts.bytes_in),
        (
            "written_bytes",
            "Bytes written to sockets",
            counts.bytes_out,
        ),
        ("read_frames", "Frames read", counts.frames_in),
        (
            "accepted_connections",
            "Connections accepted",
            counts.accepted,
        ),
        ("refused_connections", "Connections refused", counts.refused),
        (
            "closed_connections",
            "Connections closed because they were silent, slow or unreadable",
            counts.closed_for_cause,
        ),
        (
            "slow_peer_links",
            "Links dropped because the peer was too slow",
            counts.slow_peers,
        ),
    ]
}
