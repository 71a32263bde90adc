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
