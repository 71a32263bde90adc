//! A directory can be given what its node will start from, before the first start and not after it.

use quorate_storage::{Identity, Persist, StorageError};
use quorate_types::{ClusterId, Incarnation, NodeId};

#[test]
fn a_directory_is_filled_before_its_first_start_and_not_after() {
    let dir = tempfile::tempdir().expect("there is room");
    let (cluster, node, incarnation) = (ClusterId(7), NodeId(1), Incarnation(9));
    assert!(matches!(
        Identity::open_unborn(dir.path()),
        Err(StorageError::NotInitialised(_))
    ));
    Identity::init(dir.path(), cluster, node, incarnation, Persist::Disk).expect("it is new");
    for _ in 0..2 {
        let filled = Identity::open_unborn(dir.path()).expect("it has never started");
        assert_eq!(filled.identity().boot, 0, "that counts as no start");
        let second = Identity::open_unborn(dir.path()).expect_err("it is in use");
        assert!(matches!(second, StorageError::Locked { .. }));
    }
    drop(Identity::open(dir.path()).expect("it starts"));
    let refused = Identity::open_unborn(dir.path()).expect_err("it has started");
    assert!(matches!(refused, StorageError::AlreadyInitialised(_)));
}

#[test]
fn a_new_node_shares_its_directory_with_the_files_that_are_named_and_no_others() {
    let dir = tempfile::tempdir().expect("there is room");
    std::fs::write(dir.path().join("settings"), "").expect("there is room");
    let identity = Identity::new(ClusterId(7), NodeId(1), Incarnation(9), Persist::Disk);
    let other = identity.init_beside(dir.path(), &["other"]);
    assert!(matches!(other, Err(StorageError::NotEmpty(_))));
    Identity::check_unused(dir.path(), &["settings"]).expect("nothing else is there");
    let made = identity.init_beside(dir.path(), &["settings"]);
    assert_eq!(made, Ok(identity));
    let again = Identity::check_unused(dir.path(), &["settings"]);
    assert!(matches!(again, Err(StorageError::AlreadyInitialised(_))));
}
