//! A status document as Prometheus metrics. The loop keeps plain numbers; this file adds names and
//! types, on request.

use crate::status::{NodeStatus, PeerLink};
use crate::timings::Histograms;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// The content type of `/metrics`.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The metrics as text.
pub(crate) fn text(status: &NodeStatus, histograms: &Histograms) -> String {
    let labels = [
        ("group", status.group.to_string()),
        ("node", status.id.to_string()),
    ];
    let labels = labels.map(|(name, value)| (name.into(), value.into()));
    let mut registry = Registry::with_prefix_and_labels("quorate", labels.into_iter());
    histograms.register(&mut registry);
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
        for (name, help, value_of) in PER_PEER {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for peer in &self.0.peers {
                let gauge = ConstGauge::new(i64::try_from(value_of(peer)).unwrap_or(i64::MAX));
                gauge.encode(family.encode_family(&[("peer", peer.id)])?)?;
            }
        }
        let counters = counters(&self.0).into_iter();
        for (name, help, value) in counters.chain(multicast(&self.0)).chain(rounds(&self.0)) {
            let counter = ConstCounter::new(value);
            let metric = encoder.encode_descriptor(name, help, None, counter.metric_type())?;
            counter.encode(metric)?;
        }
        Ok(())
    }
}

type PeerLine = (&'static str, &'static str, fn(&PeerLink) -> u64);

/// What is told of each link to another member.
const PER_PEER: [PeerLine; 3] = [
    (
        "peer_connected",
        "Whether the link to the peer stands",
        |peer| u64::from(peer.connected),
    ),
    (
        "peer_lag_slots",
        "Slots between this leader's newest and the last that the peer acknowledged",
        |peer| peer.lag,
    ),
    (
        "peer_in_flight_bytes",
        "Bytes sent to the peer and not acknowledged",
        |peer| peer.in_flight_bytes,
    ),
];

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
        (
            "lag_slots",
            "Slots known to be decided and not executed; the largest number while that is not known",
            status.lag.unwrap_or(u64::MAX),
        ),
        (
            "age_ms",
            "At most so long ago the state was the newest decided; the largest number while that is not known",
            status.age_ms.unwrap_or(u64::MAX),
        ),
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
        (
            "frozen",
            "Whether no majority agrees on the objects' state, so that they answer nothing",
            u64::from(status.frozen.is_some()),
        ),
        (
            "drift_slot",
            "The newest slot at which a replica's outcomes were found to differ first; 0: none since the start",
            status.drift.as_ref().map_or(0, |drift| drift.slot),
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
        (
            "log_waiting_requests",
            "Requests waiting for the log's thread",
            counts.log_waiting,
        ),
        ("log_bytes", "Bytes of the log's files", counts.log_bytes),
        (
            "trim_wait_seconds",
            "For how long the log has not been trimmed though a majority holds a snapshot; 0 below ten seconds",
            status.trim_waits.as_ref().map_or(0, |wait| wait.seconds),
        ),
        (
            "log_shortage",
            "How short the log's disk is of room: 0 plenty, 1 scarce, 2 only the reserve, 3 full",
            counts.log_shortage,
        ),
    ]
}

fn counters(status: &NodeStatus) -> Vec<Line> {
    let counts = &status.counts;
    vec![
        ("elections", "Elections begun", status.elections),
        (
            "trims_deferred",
            "Votes for the trim of logs that waited until the acceptor held what was before",
            counts.trims_deferred,
        ),
        (
            "executed_ahead",
            "Slots decided as the objects had executed them before",
            status.executed_ahead,
        ),
        (
            "undone",
            "Slots executed before their decision, and undone",
            status.undone,
        ),
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

/// Of values that travel by multicast; nothing where there is no address for it.
fn multicast(status: &NodeStatus) -> Vec<Line> {
    let Some(multicast) = &status.multicast else {
        return Vec::new();
    };
    vec![
        (
            "multicast_values_heard",
            "Values of proposals that came by multicast",
            multicast.heard,
        ),
        (
            "multicast_values_asked",
            "Values that did not come by multicast and were asked for",
            multicast.asked,
        ),
        (
            "multicast_datagrams_dropped",
            "Datagrams of no use: garbage, of others, or of earlier ballots",
            multicast.dropped,
        ),
    ]
}

/// In which rounds a leader decided; nothing where the ordering has no fast ones.
fn rounds(status: &NodeStatus) -> Vec<Line> {
    let Some(rounds) = &status.rounds else {
        return Vec::new();
    };
    vec![
        (
            "fast_rounds",
            "Slots decided in fast rounds while this node led",
            rounds.fast,
        ),
        (
            "classic_rounds",
            "Slots decided in classic rounds while this node led",
            rounds.classic,
        ),
        (
            "collisions",
            "Slots whose fast round decided nothing because votes differed",
            rounds.collisions,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn page() -> String {
        let status = serde_json::json!({
            "id": 1, "pid": 2, "group": 1, "leader": 1, "roles": [], "observes": null, "ballot": "", "decided": 9, "executed": 9,
            "snapshot": 0, "stable": 0, "trimmed": 0, "lag": 0, "digest": "", "diverged": null, "frozen": null,
            "is_serving": true, "is_host_up": true, "stuck": null, "incarnation": "", "boot": 1, "uptime_ms": 5, "wall_ns": 6, "elections": 1,
            "view": {"number": 1, "first_slot": 1, "members": [], "ordering": "", "replicas": [1], "acceptors": [1], "window": 1, "persist": "disk"},
            "counts": serde_json::to_value(crate::status::Counts::default()).unwrap(),
            "rounds": {"fast": 4, "classic": 3, "collisions": 2},
            "peers": [{"id": 2, "connected": true, "lag": 7, "in_flight_bytes": 8}],
        });
        let status = serde_json::from_value(status).expect("a status document");
        text(&status, &Histograms::new())
    }

    /// Names of this product's metrics in a text.
    fn names(text: &str) -> BTreeSet<String> {
        let is_part = |c: char| c.is_ascii_lowercase() || c == '_';
        let words = text.split(|c| !is_part(c));
        let own = words.filter(|word| word.starts_with("quorate_"));
        own.map(str::to_owned).collect()
    }

    #[test]
    fn links_and_spans_are_on_the_page() {
        let page = page();
        for line in [
            "quorate_peer_lag_slots{group=\"1\",node=\"1\",peer=\"2\"} 7",
            "quorate_reply_seconds_count{group=\"1\",node=\"1\"} 0",
            "# TYPE quorate_log_sync_seconds histogram",
            "quorate_fast_rounds_total{group=\"1\",node=\"1\"} 4",
            "quorate_classic_rounds_total{group=\"1\",node=\"1\"} 3",
            "quorate_collisions_total{group=\"1\",node=\"1\"} 2",
        ] {
            assert!(page.contains(line), "{line} in {page}");
        }
    }

    #[test]
    fn the_dashboard_reads_only_metrics_that_exist() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/grafana-dashboard.json"
        );
        let file = std::fs::read_to_string(path).expect("the dashboard");
        let dashboard: serde_json::Value = serde_json::from_str(&file).expect("JSON");
        let panels = dashboard["panels"].as_array().expect("panels");
        let targets = panels
            .iter()
            .flat_map(|panel| panel["targets"].as_array().expect("targets"));
        let read: BTreeSet<String> = targets
            .flat_map(|target| names(target["expr"].as_str().expect("an expression")))
            .collect();
        assert!(read.len() > 15, "{read:?}");
        let known = names(&page());
        let unknown: Vec<_> = read.difference(&known).collect();
        assert!(unknown.is_empty(), "not on the page: {unknown:?}");
    }
}
