//! Execution of objects: Rust objects in the node, Python objects in a separate process.
//!
//! The node drives a [`Host`]; people who write objects in Rust implement [`Object`].
#![forbid(unsafe_code)]

mod activity;
mod arguments;
mod binding;
mod builtin;
mod child;
mod config;
mod encoder;
mod ended_reads;
mod error;
mod event;
mod host;
mod image;
mod in_process;
pub mod limits;
mod live;
mod method;
mod no_objects;
mod object;
mod other_process;
mod outcomes;
mod output;
mod process_end;
mod protocol;
mod scratch;
mod sending;
mod telling;
mod turn;
mod watch;
mod work_log;

pub use arguments::{
    Arguments, CallView, Mistake, NONE, call_payload, raised, returned_bool, returned_int,
    returned_none, unknown_method,
};
pub use builtin::{Counter, CreateError, Kv, Map, Register, WaitingLock, WaitingQueue, create};
pub use child::interpreter;
pub use config::{HostConfig, HostedObject, PythonConfig, ReadChecks, Sandbox, UnkeptState};
pub use error::HostError;
pub use event::{HostEvent, RunningCall, StuckCall, StuckUntil};
pub use host::{Host, check};
pub use image::{Image, ObjectImage, SharedPiece, images_list};
pub use live::{LiveObject, LiveObjects, overloaded};
pub use method::{Method, MethodKind, Methods};
pub use object::{Environment, FrozenState, Holder, Object, RestoreError};
pub use protocol::HOST_PROTOCOL_VERSION;
pub use turn::{Ending, Turn};
