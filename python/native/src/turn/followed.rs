//! Which objects' calls are followed.

use pyo3::prelude::*;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

static IS_ANY: AtomicBool = AtomicBool::new(false);
static FOLLOWED: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// From here on the calls of these objects are told the feed, and of no other ones.
#[pyfunction]
pub(crate) fn follow_calls(numbers: BTreeSet<u32>) {
    IS_ANY.store(!numbers.is_empty(), Ordering::Relaxed);
    *FOLLOWED.lock().unwrap_or_else(PoisonError::into_inner) = numbers;
}

#[inline]
pub(crate) fn is_followed(object: u32) -> bool {
    IS_ANY.load(Ordering::Relaxed) && contains(object)
}

#[cold]
fn contains(object: u32) -> bool {
    let numbers = FOLLOWED.lock().unwrap_or_else(PoisonError::into_inner);
    numbers.contains(&object)
}
