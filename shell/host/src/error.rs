//! Why a host cannot be made or started.

use std::io;

/// Why a host cannot be made or started.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// An object cannot be made: mend the class path or the arguments.
    #[error("object {name}: {reason}")]
    Object {
        /// Its name.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// Rust and Python objects share a group: give each kind its own group.
    #[error("a group holds Rust objects or Python objects, not both: {0} and {1}")]
    Mixed(String, String),
    /// The host process ended, or was of no use, before it could serve.
    #[error("the host process cannot serve: {0}")]
    Ended(String),
    /// The operating system refused a thread, a process or a descriptor.
    #[error("the host cannot be started: {0}")]
    System(#[from] io::Error),
}
