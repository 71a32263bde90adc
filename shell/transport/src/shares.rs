//! What strangers and clients may take of a node: places, time and memory.
//!
//! Links to peers are not judged here. A client that takes more than its share loses its connection; nobody else notices.
//! Called by accepting, receiving, flushing and the clock of [`Transport`].

use crate::connection::Phase;
use crate::limits::{HALF_FRAME_MAX, RESERVED_FOR_PEERS};
use crate::transport::Transport;
use quorate_types::{ConnectionId, Time};
use std::net::{IpAddr, Ipv6Addr};

impl Transport {
    /// Takes a place for the client in `slot`, or says why there is none.
    pub(crate) fn admit_client(&mut self, slot: usize) -> Result<(), String> {
        let limits = self.settings.limits;
        // The reserve shrinks with small limits, so that a few clients always fit.
        let reserve = RESERVED_FOR_PEERS.min(limits.connections / 4);
        let places = limits.connections - reserve;
        let open: usize = self.clients.values().sum();
        if open >= places {
            return Err("no connection is free here: try another node".to_owned());
        }
        let connection = self.slots[slot].as_ref().expect("it has just spoken");
        let Some(address) = connection.address.map(place) else {
            return Ok(());
        };
        // However few places there are, one address leaves some to others.
        let most = limits.connections_per_address.min(places - places / 6);
        let count = self.clients.get(&address).copied().unwrap_or(0);
        if count >= most {
            return Err(format!(
                "{count} clients of {address} are connected here, and no more are taken (limits.connections_per_address)"
            ));
        }
        self.clients.insert(address, count + 1);
        Ok(())
    }

    /// The client from `address` gives its place back.
    pub(crate) fn client_left(&mut self, address: Option<IpAddr>) {
        let Some(address) = address.map(place) else {
            return;
        };
        let count = self.clients.get_mut(&address).expect("it took a place");
        *count -= 1;
        if *count == 0 {
            self.clients.remove(&address);
        }
    }

    /// Looks at the connection in `slot` again at `deadline`.
    pub(crate) fn set_deadline(&mut self, slot: usize, deadline: Option<Time>) {
        let connection = self.slots[slot].as_mut().expect("it is open");
        if let Some(before) = std::mem::replace(&mut connection.deadline, deadline) {
            self.deadlines.remove(&(before, slot));
        }
        if let Some(at) = deadline {
            self.deadlines.insert((at, slot));
        }
    }

    /// Closes connections that have not introduced themselves in time, and clients that are idle or do not end a frame.
    pub(crate) fn look_at_due(&mut self, now: Time) {
        while let Some((at, slot)) = self.deadlines.first().copied() {
            if at > now {
                return;
            }
            let connection = self.slots[slot].as_mut().expect("it has a deadline");
            let patience = connection.patience_ends();
            if matches!(connection.phase, Phase::Client(_)) && patience > now {
                connection.rest();
                let next = patience.min(now + HALF_FRAME_MAX);
                self.set_deadline(slot, Some(next));
                self.weigh(slot, now);
            } else {
                self.counters.silent += 1;
                self.close(slot, now);
            }
        }
    }

    /// Counts what a connection that is no link holds, and makes room where all hold too much.
    pub(crate) fn weigh(&mut self, slot: usize, now: Time) {
        let Some(connection) = self.slots[slot].as_mut() else {
            return;
        };
        match connection.phase {
            Phase::Stranger | Phase::Client(_) | Phase::Closing => {}
            Phase::Peer(..) | Phase::Connecting(_) | Phase::Greeting(_) => return,
        }
        let held = connection.held();
        self.held = self.held - connection.counted + held;
        connection.counted = held;
        while self.held > self.settings.limits.clients_bytes {
            let taken = self.slots.iter().enumerate();
            let heaviest = taken.max_by_key(|(_, slot)| slot.as_ref().map_or(0, |c| c.counted));
            let (slot, _) = heaviest.expect("somebody holds what was counted");
            self.counters.heavy_clients += 1;
            tracing::info!(
                slot,
                held = self.held,
                "clients hold too much: the one that holds most is closed"
            );
            self.close(slot, now);
        }
    }

    /// So many bytes of a client's frames wait to be served: while there are any, it is not read.
    pub fn hold(&mut self, client: ConnectionId, unserved: usize, now: Time) {
        let Some(slot) = self.slot_of(client) else {
            return;
        };
        let connection = self.slots[slot].as_mut().expect("found by its id");
        connection.unserved = unserved;
        connection.is_held = unserved > 0;
        if !connection.is_held && std::mem::take(&mut connection.is_unread) {
            self.unread.push(slot);
        }
        self.weigh(slot, now);
    }

    /// The connection has become a link, which is bounded elsewhere.
    pub(crate) fn uncount(&mut self, slot: usize) {
        let connection = self.slots[slot].as_mut().expect("it has just spoken");
        self.held -= std::mem::take(&mut connection.counted);
    }
}

/// Who shares a bound with others: an address, or the /64 that one machine can choose its addresses from.
fn place(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let network = u128::from(address) >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from(network))
        }
    }
}
