//! Framed connections between nodes and clients, on one thread.
//!
//! A [`Transport`] owns the listener and every connection of a node. It checks the identity of the other
//! side, reads frames, queues outgoing frames and writes them at the end of a turn. It refuses strangers,
//! foreign clusters and other incarnations of a member. It closes a connection whose queue exceeds its
//! bound. It does not interpret messages. The node's loop calls it and owns the `mio::Poll`.
#![forbid(unsafe_code)]

mod accept;
mod certified;
mod connection;
mod dial;
mod lanes;
mod levels;
mod limits;
mod members;
mod multicast;
mod names;
mod passing;
mod peers;
mod places;
mod proving;
mod reaching;
mod reading;
mod shares;
mod stream;
mod tls;
mod transport;
mod unfinished;

pub use lanes::FrameLane;
pub use levels::GroupLevel;
pub use limits::TransportLimits;
pub use multicast::{MulticastCounters, MulticastSocket};
pub use passing::{OtherGroup, Passed};
pub use peers::PeerAddress;
pub use places::Places;
pub use quorate_wire::node_name;
pub use tls::{Tls, TlsError};
pub use transport::{Arrival, Counters, Own, Settings, Transport, TransportError};
