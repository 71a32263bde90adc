//! A directory remembers its newest starts.

use quorate_storage::{Identity, Persist};
use quorate_types::{ClusterId, Incarnation, NodeId, Starts};

#[test]
fn a_directory_remembers_with_which_commit_its_newest_starts_began() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    Identity::init(
        &path,
        ClusterId(7),
        NodeId(1),
        Incarnation(99),
        Persist::Disk,
    )
    .unwrap();
    let mut told = Vec::new();
    for boot in 1..=20 {
        let mut open = Identity::open(&path).unwrap();
        let starts = open.note_start(70 + boot, 100 * boot).unwrap();
        told.push((boot, 70 + boot, 100 * boot));
        let newest = &told[told.len().saturating_sub(Starts::MAX)..];
        for kept in [starts, open.identity().starts] {
            let kept = kept.kept().iter();
            let kept: Vec<_> = kept.map(|s| (s.boot, s.number, s.begun)).collect();
            assert_eq!(kept, newest);
        }
    }
    let stopped = Identity::open(&path).unwrap().identity().starts;
    assert_eq!(
        stopped.kept().len(),
        Starts::MAX,
        "nothing is noted by opening"
    );
    assert_eq!(stopped.begun_after(12, 82), 1300);
}
