//! The agreed environment: what `time`, `random`, `uuid` and `secrets` read inside objects.
//!
//! Time stands still during a batch. Randomness is a stream of its own for each call, keyed by the
//! batch's entropy, the slot and the index, made only when something is drawn.

use blake3::OutputReader;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Mutex, MutexGuard, PoisonError};

struct Environment {
    wall_ns: u64,
    seed: [u64; 3],
    stream: Option<OutputReader>,
}

const NOWHERE: Environment = Environment {
    wall_ns: 0,
    seed: [0; 3],
    stream: None,
};

static CURRENT: Mutex<Environment> = Mutex::new(NOWHERE);

fn current() -> MutexGuard<'static, Environment> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins a call.
#[inline]
pub(crate) fn enter(wall_ns: u64, entropy: u64, slot: u64, index: u32) {
    let mut current = current();
    current.wall_ns = wall_ns;
    current.seed = [entropy, slot, u64::from(index)];
    current.stream = None;
}

/// Runs what must not depend on when it runs, such as reading a state: clocks stand at zero, and what is drawn is the same
/// every time.
pub(crate) fn apart<T>(run: impl FnOnce() -> T) -> T {
    let outer = std::mem::replace(&mut *current(), NOWHERE);
    let done = run();
    *current() = outer;
    done
}

/// Runs a function of Python in that way.
#[pyfunction]
#[pyo3(name = "apart")]
pub(crate) fn run_apart<'py>(run: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    apart(|| run.call0())
}

/// What tells the call from all others.
pub(crate) fn seed() -> [u64; 3] {
    current().seed
}

/// Nanoseconds since 1970 that all replicas agree on.
#[pyfunction]
pub(crate) fn agreed_time_ns() -> u64 {
    current().wall_ns
}

/// The next bytes of the call's random stream.
#[pyfunction]
pub(crate) fn agreed_bytes(py: Python<'_>, count: usize) -> PyResult<Bound<'_, PyBytes>> {
    PyBytes::new_with(py, count, |bytes| {
        let mut current = current();
        let seed = current.seed;
        current
            .stream
            .get_or_insert_with(|| {
                let mut hasher = blake3::Hasher::new_derive_key("quorate call randomness");
                for part in seed {
                    hasher.update(&part.to_le_bytes());
                }
                hasher.finalize_xof()
            })
            .fill(bytes);
        Ok(())
    })
}

/// Sets the environment outside of calls: construction, and tests.
#[pyfunction]
pub(crate) fn set_environment(wall_ns: u64, entropy: u64, slot: u64, index: u32) {
    enter(wall_ns, entropy, slot, index);
}
