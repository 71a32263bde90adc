//! Which snapshots stay when another one is saved.

use quorate_storage::{SimDisk, SnapshotStore};
use quorate_types::{ClusterId, GroupId, Slot};

const CLUSTER: ClusterId = ClusterId(7);

#[test]
fn the_agreed_snapshot_stays_beside_the_two_newest() {
    let store = SnapshotStore::open(SimDisk::new(), CLUSTER).unwrap();
    for slot in [10, 20, 30, 40] {
        store
            .save(
                GroupId(3),
                Slot(slot),
                [0; 32],
                &[slot as u8; 2000],
                Slot(10),
            )
            .unwrap();
    }
    assert_eq!(
        store.slots(GroupId(3)).unwrap(),
        [Slot(10), Slot(30), Slot(40)]
    );
    store
        .save(GroupId(3), Slot(50), [0; 32], &[50; 2000], Slot(40))
        .unwrap();
    assert_eq!(store.slots(GroupId(3)).unwrap(), [Slot(40), Slot(50)]);
}

#[test]
fn a_snapshot_stays_beside_newer_ones_of_an_earlier_start() {
    let store = SnapshotStore::open(SimDisk::new(), CLUSTER).unwrap();
    let save = |slot, agreed| {
        let content = [slot as u8; 2000];
        let saved = store.save(GroupId(3), Slot(slot), [0; 32], &content, Slot(agreed));
        saved.unwrap();
        let slots = store.slots(GroupId(3)).unwrap().into_iter();
        slots.map(|slot| slot.0).collect::<Vec<_>>()
    };
    save(44, 0);
    save(45, 0);
    assert_eq!(save(20, 0), [20, 44, 45], "this start is not that far");
    assert_eq!(save(37, 0), [20, 37, 44, 45]);
    assert_eq!(save(40, 0), [37, 40, 44, 45]);
    assert_eq!(save(50, 37), [37, 45, 50], "it has passed them");
}
