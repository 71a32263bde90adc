//! `[limits]` of `node.toml`: bounds of connections, and what a leader does about a peer that does not keep up.

use quorate_ordering::{Flow, Limits, ProposalReach, ValuesBy};
use quorate_types::Duration;
use serde::{Deserialize, Serialize};
use std::net::SocketAddrV4;

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
    /// What a leader does about a peer that does not keep up.
    pub flow: FlowConfig,
    /// Which acceptors a leader asks for their votes.
    pub reach: ReachConfig,
    /// Slots whose calls this node's objects may execute before they are decided; 0 for none.
    pub speculation: usize,
    /// Where a leader multicasts values that go along a ring, and where this node hears them; absent: they go along the ring.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multicast: Option<SocketAddrV4>,
}

/// What a leader does about a peer that does not keep up: see [`Flow`]. For experiments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlowConfig {
    /// It gets no more than its credit, and nobody waits for it.
    #[default]
    Credit,
    /// It gets everything, which piles up to `peer_queue`.
    Unbounded,
    /// Nobody gets anything while it has not acknowledged so many values.
    Blocking(usize),
    /// It gets everything, and once more what it has not acknowledged for so many milliseconds.
    Retry(u64),
}

/// Which acceptors a leader asks for their votes: see [`ProposalReach`]. For experiments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReachConfig {
    /// Those that the ordering of the group names.
    #[default]
    Ordering,
    /// The majority whose answers come soonest.
    Nearest,
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
            flow: FlowConfig::Credit,
            reach: ReachConfig::Ordering,
            speculation: 0,
            multicast: None,
        }
    }
}

impl LimitsConfig {
    /// The most slots that objects may be ahead of decisions.
    pub const SPECULATION_MAX: usize = 1024;

    /// The longest time after which values are sent again: later, a leader takes them for lost anyway.
    const RETRY_MS_MAX: u64 = 60_000;

    /// The bounds of an ordering.
    pub(crate) fn of_ordering(&self) -> Limits {
        let flow = match self.flow {
            FlowConfig::Credit => Flow::Credit,
            FlowConfig::Unbounded => Flow::Unbounded,
            FlowConfig::Blocking(most) => Flow::Blocking(most),
            FlowConfig::Retry(ms) => Flow::Retry(Duration::from_millis(ms)),
        };
        let reach = match self.reach {
            ReachConfig::Ordering => ProposalReach::ByOrdering,
            ReachConfig::Nearest => ProposalReach::Nearest,
        };
        let values = match self.multicast {
            Some(_) => ValuesBy::Multicast,
            None => ValuesBy::Links,
        };
        Limits {
            flow,
            reach,
            values,
            ..Limits::default()
        }
    }

    /// Refuses bounds under which a node cannot work.
    pub(crate) fn check(&self, has_tls: bool) -> Result<(), String> {
        if has_tls && self.multicast.is_some() {
            return Err(
                "limits.multicast: cannot be had with TLS, because datagrams carry values in clear: leave one of them out"
                    .to_owned(),
            );
        }
        if self.connections < 8 || self.connections > 60_000 {
            return Err("limits.connections: not between 8 and 60000".to_owned());
        }
        if self.connections_per_address == 0 {
            return Err("limits.connections_per_address: takes at least 1".to_owned());
        }
        if self.clients_bytes < self.client_queue {
            return Err("limits.clients_bytes: is below limits.client_queue".to_owned());
        }
        if self.speculation > LimitsConfig::SPECULATION_MAX {
            let most = LimitsConfig::SPECULATION_MAX;
            return Err(format!("limits.speculation: takes 0 to {most} slots"));
        }
        if let Some(address) = self.multicast
            && (!address.ip().is_multicast() || address.port() == 0)
        {
            return Err(format!(
                "limits.multicast: {address} is no multicast address with a port, such as 239.1.2.3:7600"
            ));
        }
        if self.flow == FlowConfig::Blocking(0) {
            return Err("limits.flow: blocking takes at least 1 value".to_owned());
        }
        if let FlowConfig::Retry(ms) = self.flow
            && !(1..=LimitsConfig::RETRY_MS_MAX).contains(&ms)
        {
            let most = LimitsConfig::RETRY_MS_MAX;
            return Err(format!("limits.flow: retry takes 1 to {most} ms"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{FlowConfig, LimitsConfig, ReachConfig};
    use quorate_ordering::{Flow, ProposalReach};
    use quorate_types::Duration;

    fn read(text: &str) -> Result<FlowConfig, String> {
        let limits: LimitsConfig = toml::from_str(text).map_err(|error| error.to_string())?;
        limits.check(false).map(|()| limits.flow)
    }

    #[test]
    fn objects_go_ahead_by_a_bounded_number_of_slots() {
        let read = |slots: usize| -> Result<usize, String> {
            let text = format!("speculation = {slots}");
            let limits: LimitsConfig = toml::from_str(&text).map_err(|error| error.to_string())?;
            limits.check(false).map(|()| limits.speculation)
        };
        assert_eq!(read(0), Ok(0));
        assert_eq!(read(1024), Ok(1024));
        let refused = read(1025).expect_err("it is too far");
        assert!(refused.contains("0 to 1024"), "{refused}");
    }

    #[test]
    fn multicast_takes_an_address_of_its_own_and_no_certificates() {
        let read = |text: &str, has_tls: bool| {
            let limits: LimitsConfig = toml::from_str(text).map_err(|error| error.to_string())?;
            limits.check(has_tls)
        };
        assert_eq!(read("multicast = \"239.1.2.3:7600\"", false), Ok(()));
        let in_clear = read("multicast = \"239.1.2.3:7600\"", true).expect_err("values in clear");
        assert!(in_clear.contains("TLS"), "{in_clear}");
        for address in ["10.0.0.1:7600", "239.1.2.3:0"] {
            let text = format!("multicast = \"{address}\"");
            let refused = read(&text, false).expect_err("nobody would hear");
            assert!(refused.starts_with("limits.multicast"), "{refused}");
        }
        assert!(read("multicast = \"group\"", false).is_err());
    }

    #[test]
    fn the_flow_is_a_word_or_a_number_of_values() {
        assert_eq!(read(""), Ok(FlowConfig::Credit));
        assert_eq!(read("flow = \"unbounded\""), Ok(FlowConfig::Unbounded));
        assert_eq!(
            read("flow = { blocking = 64 }"),
            Ok(FlowConfig::Blocking(64))
        );
        let nothing = read("flow = { blocking = 0 }").expect_err("nobody could propose");
        assert!(nothing.starts_with("limits.flow"), "{nothing}");
        assert_eq!(read("flow = { retry = 50 }"), Ok(FlowConfig::Retry(50)));
        let never = read("flow = { retry = 0 }").expect_err("it would be sent for ever");
        assert!(never.starts_with("limits.flow"), "{never}");
        let unknown = read("flow = \"some\"").expect_err("there is no such flow");
        assert!(unknown.contains("unbounded"), "{unknown}");
    }

    #[test]
    fn what_is_read_is_what_a_leader_does() {
        let text = "flow = { retry = 50 }\nreach = \"nearest\"";
        let read: LimitsConfig = toml::from_str(text).expect("it is well formed");
        assert_eq!(read.reach, ReachConfig::Nearest);
        let limits = read.of_ordering();
        assert_eq!(limits.flow, Flow::Retry(Duration::from_millis(50)));
        assert_eq!(limits.reach, ProposalReach::Nearest);
        let usual = LimitsConfig::default().of_ordering();
        assert_eq!(usual.reach, ProposalReach::ByOrdering);
    }
}
