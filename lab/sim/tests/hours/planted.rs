//! What grows is found where it is planted. Only a build with the feature `zoo` can plant any.

use super::HOUR;
use quorate_sim::checkers::Property;
use quorate_sim::world::{Telling, run_hours};
use quorate_types::zoo::{Plant, plant};

fn grows(planted: Plant, what: &str) {
    plant(Some(planted));
    let report = run_hours(0, HOUR, Telling::Hash);
    plant(None);
    let failure = report.broken();
    let found = failure.map(|failure| (failure.violation.property, failure.violation.to_string()));
    let is_found = found.as_ref().is_some_and(|(property, detail)| {
        *property == Property::BoundedMemory && detail.contains(what)
    });
    assert!(is_found, "{planted:?}: {found:?}");
}

#[test]
fn segments_that_nobody_removes_are_found_where_they_are_planted() {
    grows(Plant::SegmentsKept, "segments");
}

#[test]
fn sessions_that_never_expire_are_found_where_they_are_planted() {
    grows(Plant::SessionsKept, "sessions");
}

#[test]
fn old_snapshots_are_found_where_they_are_planted() {
    grows(Plant::SnapshotsKept, "snapshots");
}
