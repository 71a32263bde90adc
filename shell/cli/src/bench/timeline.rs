//! Operations and the worst latency per tenth of a second, for pictures of outages.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

const STEP: Duration = Duration::from_millis(100);

/// What happened in each step since the measurement began.
#[derive(Default)]
pub(super) struct BenchTimeline {
    steps: Vec<Step>,
}

#[derive(Clone, Copy, Default)]
struct Step {
    operations: u64,
    worst_ns: u64,
}

impl BenchTimeline {
    /// Room for a run of `span`, so that nothing is allocated under load.
    pub(super) fn over(span: Duration) -> BenchTimeline {
        let steps = (span.as_millis() / STEP.as_millis()) as usize + 2;
        BenchTimeline {
            steps: vec![Step::default(); steps],
        }
    }

    /// An operation ended `at` after the beginning and took `latency_ns`.
    pub(super) fn note(&mut self, at: Duration, latency_ns: u64) {
        let index = (at.as_millis() / STEP.as_millis()) as usize;
        if let Some(step) = self.steps.get_mut(index) {
            step.operations += 1;
            step.worst_ns = step.worst_ns.max(latency_ns);
        }
    }

    /// Writes `second,operations_per_s,worst_us` lines.
    pub(super) fn write(&self, file: &Path) -> std::io::Result<()> {
        let mut text = String::from("second,operations_per_s,worst_us\n");
        for (index, step) in self.steps.iter().enumerate() {
            let second = index as f64 * STEP.as_secs_f64();
            let rate = step.operations as f64 / STEP.as_secs_f64();
            let worst = step.worst_ns as f64 / 1000.0;
            writeln!(text, "{second:.1},{rate:.0},{worst:.1}").expect("text grows");
        }
        std::fs::write(file, text)
    }
}
