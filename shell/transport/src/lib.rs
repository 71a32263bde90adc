//! Framed connections between nodes and clients, on one thread.
//!
//! A [`Transport`] owns the listener and every connection of a node. It checks who comes, reads
//! frames, queues what is sent and writes it at the end of a turn. It refuses strangers, foreign
//! clusters and other lives of a member, and it closes whoever makes a queue grow over its bound. It
//! looks into no message. Called by the node's loop, which owns the `mio::Poll`.
#![forbid(unsafe_code)]

mod accept;
mod connection;
mod dial;
mod lanes;
mod limits;
mod names;
mod peers;
mod reaching;
mod stream;
mod tls;
mod transport;

pub use lanes::FrameLane;
pub use limits::TransportLimits;
pub use peers::PeerAddress;
pub use quorate_wire::node_name;
pub use tls::{Tls, TlsError};
pub use transport::{Arrival, Counters, Own, Settings, Transport, TransportError};
