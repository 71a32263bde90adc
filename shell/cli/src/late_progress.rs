//! A bar for work that takes long: it appears on a terminal after a while, so that short work shows none.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// How long work may take before a bar says how far it is.
const PATIENCE: Duration = Duration::from_secs(2);

/// How far work on so many bytes is.
pub(crate) struct LateProgress {
    begun: Instant,
    total: u64,
    done: u64,
    bar: Option<ProgressBar>,
    is_terminal: bool,
}

impl LateProgress {
    /// Work on `total` bytes begins.
    pub(crate) fn over(total: u64) -> LateProgress {
        LateProgress {
            begun: Instant::now(),
            total,
            done: 0,
            bar: None,
            is_terminal: std::io::stderr().is_terminal(),
        }
    }

    /// So many bytes more are done.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.done += bytes;
        if self.bar.is_none() && self.is_terminal && self.begun.elapsed() >= PATIENCE {
            let style =
                ProgressStyle::with_template("{bar:40} {bytes} of {total_bytes}, {eta} left");
            let bar = ProgressBar::new(self.total).with_style(style.expect("a fixed template"));
            self.bar = Some(bar);
        }
        if let Some(bar) = &self.bar {
            bar.set_position(self.done);
        }
    }
}

impl Drop for LateProgress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
