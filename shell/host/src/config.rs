//! The configuration of a host: the objects of a group, and how Python objects run.
//!
//! The node and `quorate up` fill it; everything below [`crate::Host`] reads it.

use crate::limits::{BUDGET_STEPS, CALL_TIMEOUT, HOST_MEMORY_BYTES};
use bytes::Bytes;
use quorate_types::{ObjectId, Slot};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Everything that a host needs to know to start.
#[derive(Clone, Debug, Default)]
pub struct HostConfig {
    /// The objects, ascending by id; all Rust or all Python.
    pub objects: Vec<HostedObject>,
    /// How Python objects are run; ignored for Rust objects.
    pub python: PythonConfig,
}

/// Which reads are checked by comparing the image of the object before and after. All are checked for attributes
/// that are bound anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReadChecks {
    /// The first of each method, and as many as fit into a hundredth of the time.
    #[default]
    Sample,
    /// All, for tests.
    All,
}

impl ReadChecks {
    /// As the protocol writes it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            ReadChecks::Sample => "sample",
            ReadChecks::All => "all",
        }
    }
}

/// Whether the kernel keeps a host process from files, sockets, signals and programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sandbox {
    /// As far as the kernel can.
    #[default]
    On,
    /// Not at all, for objects that read files.
    Off,
}

/// What becomes of objects whose state a snapshot would not keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum UnkeptState {
    /// They are not made.
    #[default]
    Refused,
    /// The log says so: the group exists, and an upgrade must not keep it from starting.
    Told,
}

/// How the process of Python objects is run.
#[derive(Clone, Debug)]
pub struct PythonConfig {
    /// The interpreter; `None` for QUORATE_PYTHON, else `python3` beside this program, else on PATH.
    pub interpreter: Option<PathBuf>,
    /// Directories in which modules are found, before all others.
    pub paths: Vec<PathBuf>,
    /// The directory of this host alone, for images on their way and whatever objects write: made and emptied when
    /// the host starts, removed when it ends.
    pub scratch: PathBuf,
    /// Packages beside the objects' own whose instances may be kept in the state.
    pub allow: Vec<String>,
    /// Whether the process is confined.
    pub sandbox: Sandbox,
    /// An earlier start has executed, and printed, what objects print up to here.
    pub quiet_upto: Slot,
    /// The same on all replicas of the group, and secret to clients: order of sets, randomness of
    /// constructors. Draw it from the cluster's id and the group.
    pub seed: u64,
    /// Whether the state is encoded at all; tested when the objects are made.
    pub with_snapshots: bool,
    /// What becomes of objects that fail this test.
    pub unkept_state: UnkeptState,
    /// A call or a read that runs longer has its process killed; `None` for never.
    pub call_timeout: Option<Duration>,
    /// Steps that a call of an object may take, 0 for as many as it likes; [`BUDGET_STEPS`] for one that is not named.
    pub budgets: BTreeMap<ObjectId, u64>,
    /// Which reads are checked for having changed nothing.
    pub read_checks: ReadChecks,
    /// Address space that the process may use.
    pub memory_bytes_max: Option<u64>,
}

impl Default for PythonConfig {
    fn default() -> PythonConfig {
        PythonConfig {
            interpreter: None,
            paths: Vec::new(),
            scratch: fresh_scratch(),
            allow: Vec::new(),
            sandbox: Sandbox::On,
            quiet_upto: Slot::ZERO,
            seed: 1,
            with_snapshots: true,
            unkept_state: UnkeptState::default(),
            call_timeout: Some(CALL_TIMEOUT),
            budgets: BTreeMap::new(),
            read_checks: ReadChecks::Sample,
            memory_bytes_max: Some(HOST_MEMORY_BYTES),
        }
    }
}

impl PythonConfig {
    pub(crate) fn budget_of(&self, object: ObjectId) -> u64 {
        self.budgets.get(&object).copied().unwrap_or(BUDGET_STEPS)
    }
}

/// A directory that no other host of this machine uses.
fn fresh_scratch() -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("quorate-host-{}-{number}", std::process::id()))
}

/// An object as it was created.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostedObject {
    /// Its number in the group.
    pub id: ObjectId,
    /// Its name for people.
    pub name: String,
    /// `rust:counter`, `rust:register`, `rust:kv`, or `module:Class` for Python.
    pub class: String,
    /// `[args, kwargs]` of its constructor as the wire encodes values; empty when there are none.
    pub arguments: Bytes,
}

impl HostedObject {
    /// Whether the object is one of the built-ins.
    #[must_use]
    pub fn is_rust(&self) -> bool {
        self.class.starts_with("rust:")
    }

    pub(crate) fn builtin(&self) -> &str {
        self.class.strip_prefix("rust:").unwrap_or(&self.class)
    }
}
