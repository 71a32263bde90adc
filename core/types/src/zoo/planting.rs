//! Which bug is planted in this thread.

use super::Plant;
use std::cell::Cell;

thread_local! {
    static PLANTED: Cell<Option<Plant>> = const { Cell::new(None) };
}

/// Plants a bug in this thread, in place of the one before; `None`: nothing is wrong.
pub fn plant(plant: Option<Plant>) {
    PLANTED.set(plant);
}

/// Says whether `plant` is planted in this thread.
#[must_use]
#[inline]
pub fn planted(plant: Plant) -> bool {
    PLANTED.get() == Some(plant)
}
