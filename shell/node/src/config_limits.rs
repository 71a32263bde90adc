//! `[limits]` of `node.toml`: bounds of connections.

use serde::{Deserialize, Serialize};

/// Bounds of connections.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Open connections.
    pub connections: usize,
    /// Clients from one address.
    pub connections_per_address: usize,
    /// Bytes that wait for a client that does not read.
    pub client_queue: usize,
    /// Bytes that all clients together hold in buffers.
    pub clients_bytes: usize,
    /// Bytes that wait for a peer.
    pub peer_queue: usize,
}

impl Default for LimitsConfig {
    fn default() -> LimitsConfig {
        let limits = quorate_transport::TransportLimits::default();
        LimitsConfig {
            connections: limits.connections,
            connections_per_address: limits.connections_per_address,
            client_queue: limits.client_queue,
            clients_bytes: limits.clients_bytes,
            peer_queue: limits.peer_queue,
        }
    }
}

impl LimitsConfig {
    /// Refuses bounds under which a node cannot work.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.connections < 8 || self.connections > 60_000 {
            return Err("limits.connections: not between 8 and 60000".to_owned());
        }
        if self.connections_per_address == 0 {
            return Err("limits.connections_per_address: takes at least 1".to_owned());
        }
        if self.clients_bytes < self.client_queue {
            return Err("limits.clients_bytes: is below limits.client_queue".to_owned());
        }
        Ok(())
    }
}
