//! What a benchmark run found, as the JSON document that scripts depend on and as a table.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Latencies in microseconds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Latency {
    p50: f64,
    p90: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

/// CPU seconds per thousand operations.
#[derive(Clone, Debug, Serialize)]
pub(super) struct CpuCost {
    pub(super) load: f64,
    nodes: f64,
    /// Of each node with what it started, by number.
    each_node: Vec<f64>,
    total: f64,
}

/// One measured run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct BenchReport {
    pub(super) ops_per_s: f64,
    pub(super) latency_us: Latency,
    pub(super) errors: u64,
    pub(super) cpu_s_per_1000_ops: CpuCost,
    pub(super) rss_mib: Vec<f64>,
    /// Bytes that each node wrote to its peers and clients, by number; none while one of them did not tell.
    pub(super) sent_bytes_per_op: Vec<f64>,
    pub(super) config: serde_json::Value,
    /// The same load against the object alone, without replication.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unreplicated: Option<Box<BenchReport>>,
}

impl Latency {
    /// Percentiles of latencies recorded in nanoseconds.
    pub(super) fn of(histogram: &Histogram<u64>) -> Latency {
        let us = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1000.0;
        Latency {
            p50: us(0.5),
            p90: us(0.9),
            p99: us(0.99),
            p999: us(0.999),
            max: histogram.max() as f64 / 1000.0,
        }
    }

    /// The median and the 99th percentile.
    pub(super) fn middle_and_tail(&self) -> (f64, f64) {
        (self.p50, self.p99)
    }
}

impl CpuCost {
    /// Costs of `operations` that took these CPU seconds.
    pub(super) fn of(load_s: f64, nodes_s: &[f64], operations: u64) -> CpuCost {
        let thousands = operations.max(1) as f64 / 1000.0;
        let each_node: Vec<f64> = nodes_s.iter().map(|spent| spent / thousands).collect();
        let (load, nodes) = (load_s / thousands, each_node.iter().sum());
        CpuCost {
            load,
            nodes,
            each_node,
            total: load + nodes,
        }
    }
}

impl BenchReport {
    /// The report as lines that a person reads.
    pub(super) fn table(&self) -> String {
        let mut text = String::from(
            "                       op/s    p50 us    p99 us   p999 us    max us  CPU-s/1000  errors\n",
        );
        text.push_str(&self.row("replicated"));
        if let Some(alone) = &self.unreplicated {
            text.push_str(&alone.row("unreplicated"));
        }
        let rss: Vec<String> = self.rss_mib.iter().map(|mib| format!("{mib:.0}")).collect();
        text.push_str(&format!("memory of the nodes: {} MiB", rss.join(", ")));
        let sent = self.sent_bytes_per_op.iter();
        let sent: Vec<String> = sent.map(|bytes| format!("{bytes:.0}")).collect();
        if !sent.is_empty() {
            text.push_str(&format!("; sent: {} bytes an operation", sent.join(", ")));
        }
        let spent = self.cpu_s_per_1000_ops.each_node.iter();
        let spent: Vec<String> = spent.map(|seconds| format!("{seconds:.4}")).collect();
        if !spent.is_empty() {
            text.push_str(&format!("; CPU-s/1000: {}", spent.join(", ")));
        }
        text
    }

    fn row(&self, name: &str) -> String {
        let l = &self.latency_us;
        format!(
            "{name:<14} {:>12.0} {:>9.0} {:>9.0} {:>9.0} {:>9.0} {:>11.4} {:>7}\n",
            self.ops_per_s, l.p50, l.p99, l.p999, l.max, self.cpu_s_per_1000_ops.total, self.errors
        )
    }
}
