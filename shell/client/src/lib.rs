//! A client of replicated objects: pipelined, with execution at most once, also when nodes fail.
//!
//! [`Client`] blocks, and threads may share it. [`Driver`] is the same without any thread, for callers
//! with an event loop such as the benchmark. Both perform the outputs of the pure `ClientSession` of
//! `core/session`. Neither knows nodes, storage or a protocol.

mod admin;
mod cause;
mod cell;
mod client;
mod connection;
mod driver;
mod driving;
mod early;
mod endpoint;
mod era;
mod error;
mod inquiry;
mod limits;
mod news;
mod note;
mod poller;
mod resolving;
mod session_file;
mod stream;
mod tls;
mod tls_problem;
mod unbegun;

pub use admin::AdminConnection;
pub use cause::CallCause;
pub use cell::{CallCell, CallEnd};
pub use client::{AnswerReader, Client, ClientOpening, EarlyCall, FoundObject, PendingCall};
pub use driver::{Driver, DriverOptions, Finished, OperationOptions};
pub use driving::ClientHooks;
pub use early::{FirstWord, WordState};
pub use endpoint::{Endpoint, EndpointError};
pub use era::after_fork;
pub use error::{CallError, ConnectError};
pub use inquiry::{NodeReport, node_status};
pub use news::SessionNews;
pub use note::ClientNote;
pub use quorate_session::{
    Answer, Attempts, Cause, Failure, Operation, Preference, SessionConfig, SessionLife,
    SessionState, Ticket,
};
pub use session_file::SessionFile;
pub use tls::TlsClient;
pub use tls_problem::TlsProblem;
pub use unbegun::OperationId;
