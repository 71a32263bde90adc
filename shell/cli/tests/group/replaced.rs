//! The program's file is replaced or removed while a group runs, as an upgrade does.

use crate::{Group, QUORATE, pid, signal};
use std::fs;
use std::process::Command;

#[test]
fn a_node_is_restarted_although_the_programs_file_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("quorate");
    fs::copy(QUORATE, &program).unwrap();
    let mut group = Group::start_by(|| Command::new(&program), &["--nodes", "1"]);
    assert_eq!(group.add("5"), "5");
    fs::remove_file(&program).unwrap();
    signal(pid(&group.leader()), "KILL");
    group.wait_for("runs again as process");
    assert_eq!(group.add("1"), "6");
    assert_eq!(group.stop(), Some(0));
}
