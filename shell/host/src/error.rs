//! Why a host cannot be made or started.

use std::io;

/// Why a host cannot be made or started.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// An object cannot be made: correct the class path or the arguments.
    #[error("object {name}: {reason}")]
    Object {
        /// The name of the object.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// Rust and Python objects share a group: give each kind its own group.
    #[error("{0} is a Rust object and {1} a Python object: give each kind a group of its own")]
    Mixed(String, String),
    /// The host process ended or failed before it could serve.
    #[error("the host process cannot serve: {0}")]
    Ended(String),
    /// The operating system refused a thread, a process or a descriptor.
    #[error("the host cannot be started: {0}")]
    System(#[from] io::Error),
}
