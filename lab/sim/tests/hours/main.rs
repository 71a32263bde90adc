//! An hour of load in which a group's log, disk and tables stay bounded: the short form of `make hours`.

#[cfg(feature = "zoo")]
mod planted;

use quorate_sim::world::{Telling, run_hours};
use quorate_types::Duration;

const HOUR: Duration = Duration::from_millis(3_600_000);

/// Clients finish so many operations in an hour at least: about one a second.
const ANSWERED_MIN: u64 = 3_000;

#[test]
fn an_hour_of_load_leaves_nothing_behind() {
    let report = run_hours(0, HOUR, Telling::Tail);
    if let Some(failure) = report.broken() {
        let tail = failure.tail.join("\n");
        let kept: Vec<String> = report.kept.iter().map(ToString::to_string).collect();
        let kept = kept.join("\n");
        panic!(
            "{tail}\n{kept}\n{}\nreplay: sim --hours 1 --from 0",
            failure.violation
        );
    }
    let answered = report.answered;
    assert!(
        answered > ANSWERED_MIN,
        "{answered} answers are no steady load"
    );
    let never: Vec<_> = report.kept.iter().filter(|kept| kept.ever == 0).collect();
    assert!(
        never.is_empty(),
        "bounds of nothing show nothing: {never:?}"
    );
}
