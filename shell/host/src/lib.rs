//! Where objects execute: Rust objects in the node, Python objects in a process of their own.
//!
//! The node drives a [`Host`]; people who write objects in Rust implement [`Object`].
#![forbid(unsafe_code)]

mod arguments;
mod builtin;
mod child;
mod host;
mod images;
mod in_process;
mod journal;
pub mod limits;
mod mark;
mod object;
mod other_process;
mod outcomes;
mod protocol;
mod scratch;
mod sending;

pub use arguments::{
    Arguments, CallView, Mistake, NONE, call_payload, raised, returned_bool, returned_int,
    returned_none, unknown_method,
};
pub use builtin::{Counter, Kv, Register};
pub use child::interpreter;
pub use host::{
    Culprit, Host, HostConfig, HostError, HostEvent, ObjectImage, ObjectSpec, PythonConfig, check,
};
pub use images::images_digest;
pub use object::{CreateError, Environment, FrozenState, Object, RestoreError, create};
pub use protocol::HOST_PROTOCOL_VERSION;
