//! The configuration of a host: the objects of a group, and how Python objects run.
//!
//! The node and `quorate up` fill it; everything below [`crate::Host`] reads it.

use bytes::Bytes;
use quorate_types::ObjectId;
use std::path::PathBuf;
use std::time::Duration;

/// Everything that a host needs to know to start.
#[derive(Clone, Debug, Default)]
pub struct HostConfig {
    /// The objects, ascending by id; all Rust or all Python.
    pub objects: Vec<HostedObject>,
    /// How Python objects are run; ignored for Rust objects.
    pub python: PythonConfig,
}

/// How the process of Python objects is run.
#[derive(Clone, Debug)]
pub struct PythonConfig {
    /// The interpreter; `None` for QUORATE_PYTHON, else `python3` beside this program, else on PATH.
    pub interpreter: Option<PathBuf>,
    /// Directories in which modules are found, before all others.
    pub paths: Vec<PathBuf>,
    /// An existing directory for images on their way.
    pub scratch: PathBuf,
    /// The same on all replicas of the group, and secret to clients: order of sets, randomness of
    /// constructors. Draw it from the cluster's id and the group.
    pub seed: u64,
    /// Whether the state is encoded at all; tested when the objects are made.
    pub with_snapshots: bool,
    /// A call that runs longer has its process killed; it is never answered for.
    pub call_timeout: Option<Duration>,
    /// Address space that the process may use.
    pub memory_bytes_max: Option<u64>,
}

impl Default for PythonConfig {
    fn default() -> PythonConfig {
        PythonConfig {
            interpreter: None,
            paths: Vec::new(),
            scratch: std::env::temp_dir(),
            seed: 1,
            with_snapshots: true,
            call_timeout: None,
            memory_bytes_max: None,
        }
    }
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
