//! What a client tells its owner of its connections, for a log.

use quorate_types::NodeId;
use std::fmt;

/// Something that a person who watches a client may want to read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClientNote {
    /// A node welcomed the client.
    Connected {
        /// The node's address.
        address: String,
        /// The node.
        node: NodeId,
        /// Operations that are sent again on this connection, or for the first time.
        sent: usize,
    },
    /// A connection that stood was lost.
    Lost {
        /// The node's address.
        address: String,
        /// What happened.
        error: String,
        /// Operations without an answer.
        in_flight: usize,
    },
    /// No connection could be made. Told once for each address until a node welcomes the client.
    Unreached {
        /// The address.
        address: String,
        /// What happened.
        error: String,
    },
    /// The secret of a session could not be kept in its file: none is asked for until it can.
    NotKept {
        /// The file.
        path: String,
        /// What happened.
        error: String,
    },
    /// The client left a node that stayed silent, or moved to the leader.
    Left {
        /// The address that it left.
        address: String,
        /// The address that it dials.
        next: String,
    },
}

impl fmt::Display for ClientNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientNote::Connected {
                address,
                node,
                sent: 0,
            } => write!(f, "connected to node {} at {address}", node.0),
            ClientNote::Connected {
                address,
                node,
                sent,
            } => write!(
                f,
                "connected to node {} at {address}: {sent} calls without an answer are sent there",
                node.0
            ),
            ClientNote::Lost {
                address,
                error,
                in_flight,
            } => write!(
                f,
                "lost the connection to {address}: {error}; {in_flight} calls are without an answer"
            ),
            ClientNote::Unreached { address, error } => {
                write!(f, "no connection to {address}: {error}")
            }
            ClientNote::NotKept { path, error } => {
                write!(f, "no session, which could not be kept in {path}: {error}")
            }
            ClientNote::Left { address, next } => write!(f, "left {address} for {next}"),
        }
    }
}
