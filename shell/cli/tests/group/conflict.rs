//! A node that has found two decisions for one slot.

use crate::{Group, run, text};
use quorate_storage::Identity;
use quorate_types::Slot;

/// Claim mp-35.
#[test]
fn a_node_that_found_conflicting_decisions_refuses_every_start() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["--nodes", "3", "--dir", dir.path().to_str().unwrap()];
    let mut group = Group::start(&words);
    assert_eq!(group.add("3"), "3");
    assert_eq!(group.stop(), Some(0));
    let mut directory = Identity::open(&dir.path().join("node-2")).unwrap();
    directory.note_conflict(Slot(41)).unwrap();
    directory.note_conflict(Slot(42)).unwrap();
    drop(directory);
    let config = dir.path().join("node-2.toml");
    for _ in 0..2 {
        let output = run(&["node", "run", "--config", config.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(7));
        let says = text(&output.stderr);
        assert!(says.contains("different decisions for s41"), "{says}");
        assert!(
            says.contains("keep the data directories of all nodes"),
            "{says}"
        );
    }
    let help = run(&["node", "run", "--help"]);
    assert!(text(&help.stdout).contains("another decision for a slot"));
}
