//! A client of replicated objects: pipelined, at most once, over failures of nodes.
//!
//! [`Client`] blocks and may be shared by threads; [`Driver`] is the same without a thread of its
//! own, for callers that have an event loop (the benchmark). Both perform what the pure
//! `ClientSession` of `core/session` decides; neither knows nodes, storage or a protocol.

mod cause;
mod client;
mod connection;
mod driver;
mod endpoint;
mod error;
mod inquiry;
mod limits;
mod stream;
mod tls;
mod tls_problem;

pub use cause::CallCause;
pub use client::{Client, PendingCall};
pub use driver::{Driver, DriverOptions, Finished};
pub use endpoint::{Endpoint, EndpointError};
pub use error::{CallError, ConnectError};
pub use inquiry::{NodeReport, node_status};
pub use quorate_session::{Answer, Cause, Failure, Operation, Preference, SessionConfig, Ticket};
pub use tls::TlsClient;
pub use tls_problem::TlsProblem;
