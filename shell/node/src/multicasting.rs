//! What this node multicasts while it leads, and what it hears: the socket, and the datagrams that hold values.
//!
//! Nothing is decided here: the ordering sends values on its lane for multicast where its view lets it, and takes what has come.

use crate::NodeError;
use crate::config::NodeConfig;
use crate::node::{MULTICAST, Node};
use mio::Registry;
use quorate_any::AnyMessage;
use quorate_ordering::MulticastStatus;
use quorate_replica::{Input, PeerMessage};
use quorate_transport::{MulticastCounters, MulticastSocket};
use quorate_types::{ClusterId, Incarnation, NodeSet, Time};
use quorate_wire::{Assembly, Cutter, DATAGRAM_BYTES, DatagramCounts};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddrV4};

/// The multicast of one node.
#[derive(Debug)]
pub(crate) struct NodeMulticast {
    pub(crate) address: SocketAddrV4,
    socket: MulticastSocket,
    cutter: Cutter,
    assembly: Assembly,
    /// More may have come than was read.
    is_ready: bool,
    /// Who was told not to hear this leader.
    deaf: NodeSet,
}

impl NodeMulticast {
    /// As `config` has it; none where it names no address. Groups of one process share the address, and drop each other's datagrams.
    pub(crate) fn open(
        config: &NodeConfig,
        registry: &Registry,
    ) -> Result<Option<NodeMulticast>, NodeError> {
        let Some(address) = config.limits.multicast else {
            return Ok(None);
        };
        let IpAddr::V4(interface) = config.listen.ip() else {
            return Err(NodeError::Multicast {
                address,
                reason: "it needs an IPv4 address to listen at".to_owned(),
            });
        };
        let socket = MulticastSocket::join(address, interface, (registry, MULTICAST));
        let socket = socket.map_err(|error| NodeError::Multicast {
            address,
            reason: error.to_string(),
        })?;
        let cluster = ClusterId(config.cluster.0);
        Ok(Some(NodeMulticast {
            address,
            socket,
            cutter: Cutter::new(cluster, DATAGRAM_BYTES),
            assembly: Assembly::new(cluster, config.group_id()),
            is_ready: true,
            deaf: NodeSet::empty(),
        }))
    }

    /// A value to multicast, with the others of this turn.
    pub(crate) fn push(&mut self, own: Incarnation, message: &PeerMessage<AnyMessage>) {
        self.cutter.push(own, message);
    }

    /// The end of a turn: what was pushed leaves, the last datagram as full as it is.
    pub(crate) fn flush(&mut self) {
        for datagram in self.cutter.finish() {
            self.socket.send(&datagram);
        }
    }

    pub(crate) fn ready(&mut self) {
        self.is_ready = true;
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready
    }

    pub(crate) fn counters(&self) -> (MulticastCounters, DatagramCounts) {
        (self.socket.counters(), self.assembly.counts())
    }
}

impl Node {
    /// Hands the ordering what has come by multicast from peers that are linked.
    pub(crate) fn take_multicast(&mut self, now: Time) {
        let Some(multicast) = self
            .multicast
            .as_mut()
            .filter(|multicast| multicast.is_ready)
        else {
            return;
        };
        let mut values = Vec::new();
        let NodeMulticast {
            socket, assembly, ..
        } = multicast;
        let (own, view) = (self.identity.node, self.replica.view());
        let read = socket.receive(|datagram| {
            let (from, whole) = assembly.take(&datagram, |node| view.incarnation(node));
            // A node hears itself too.
            if from != own {
                values.extend(whole.into_iter().map(|message| (from, message)));
            }
        });
        match read {
            Ok(may_be_more) => multicast.is_ready = may_be_more,
            Err(error) => {
                multicast.is_ready = false;
                tracing::warn!(%error, "what is multicast cannot be read");
            }
        }
        for (from, message) in values {
            tracing::trace!(%from, ?message, "heard");
            if let Some(link) = self.transport.link(from) {
                self.feed(
                    now,
                    Input::Peer {
                        from,
                        link,
                        message,
                    },
                );
            }
        }
    }

    /// Says once who does not hear this leader, and what to look at.
    pub(crate) fn tell_deaf(&mut self) {
        let Some(multicast) = &mut self.multicast else {
            return;
        };
        let deaf = self.replica.status().ordering.multicast.deaf;
        let news: Vec<u16> = deaf.iter().map(|node| node.0).collect();
        let is_more = deaf.iter().any(|node| !multicast.deaf.contains(node));
        if is_more {
            tracing::warn!(
                address = %multicast.address,
                nodes = ?news,
                "these nodes do not hear what this leader multicasts and get values over links: look at limits.multicast in their \
                 node.toml, at firewalls for UDP, and at the switch: IGMP snooping without a querier drops multicast"
            );
        }
        multicast.deaf = deaf;
    }
}

/// Values that travel by multicast. Numbers count from the start of the process, those of a leader from when it began to lead.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MulticastReport {
    /// Where.
    pub address: String,
    /// As a leader: nodes that do not hear it, and get values over links.
    pub deaf: Vec<u16>,
    /// As a leader: values multicast.
    pub sent: u64,
    /// Values of proposals that came by multicast.
    pub heard: u64,
    /// Values that did not come and were asked for.
    pub asked: u64,
    /// Bytes multicast, each once.
    pub bytes_out: u64,
    /// Bytes heard.
    pub bytes_in: u64,
    /// Datagrams that did not come, by their numbers.
    pub missing: u64,
    /// Datagrams of no use: garbage, of others, or of earlier ballots.
    pub dropped: u64,
}

impl Node {
    pub(crate) fn multicast_bytes_out(&self) -> u64 {
        let multicast = self.multicast.as_ref();
        multicast.map_or(0, |multicast| multicast.counters().0.bytes_out)
    }

    pub(crate) fn multicast_report(&self, status: &MulticastStatus) -> Option<MulticastReport> {
        let multicast = self.multicast.as_ref()?;
        let (socket, datagrams) = multicast.counters();
        Some(MulticastReport {
            address: multicast.address.to_string(),
            deaf: status.deaf.iter().map(|node| node.0).collect(),
            sent: status.sent,
            heard: status.heard,
            asked: status.asked,
            bytes_out: socket.bytes_out,
            bytes_in: socket.bytes_in,
            missing: datagrams.missing,
            dropped: datagrams.dropped,
        })
    }
}
