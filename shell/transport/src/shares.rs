//! What strangers and clients may take of a node: places, time and memory.
//!
//! Links to peers are not judged here. A client that takes more than its share loses its connection; nobody else notices.
//! Called by accepting, receiving, flushing and the clock of [`Transport`].

use crate::connection::Phase;
use crate::limits::{GREETINGS_PER_TURN, HALF_FRAME_MAX, RESERVED_FOR_PEERS};
use crate::transport::Transport;
use quorate_types::{ConnectionId, Time};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

impl Transport {
    /// Full: a stranger gives way, so that strangers cannot lock members out. Of the place with most strangers it is the one who
    /// has been silent for longest, so that a crowd of one machine sends nobody else away.
    pub(crate) fn evict_stranger(&mut self, now: Time) -> bool {
        let mut places: BTreeMap<Option<IpAddr>, (usize, usize)> = BTreeMap::new();
        for (_, slot) in &self.deadlines {
            let connection = self.slots[*slot].as_ref().expect("it has a deadline");
            if connection.phase == Phase::Stranger {
                let (count, _) = places
                    .entry(connection.address.map(place))
                    .or_insert((0, *slot));
                *count += 1;
            }
        }
        let Some((_, slot)) = places.values().max().copied() else {
            return false;
        };
        self.counters.silent += 1;
        self.close(slot, now);
        true
    }

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
        // Clients of other groups may hold more than before.
        self.make_room(now);
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
        let counted = std::mem::replace(&mut connection.counted, held);
        self.recount(counted, held);
        self.make_room(now);
    }

    /// A connection holds `after` bytes in the place of `before`.
    pub(crate) fn recount(&mut self, before: usize, after: usize) {
        self.held = self.held - before + after;
        self.settings.places.hold(before, after);
    }

    /// Closes clients while those of this transport, or of all in the process, hold too much.
    fn make_room(&mut self, now: Time) {
        let most = self.settings.limits.clients_bytes;
        while self.held > most || self.settings.places.is_heavy(self.held, most) {
            let slot = self.heaviest();
            self.counters.heavy_clients += 1;
            tracing::info!(
                slot,
                held = self.held,
                "clients hold too much: the one that holds most is closed"
            );
            self.close(slot, now);
        }
    }

    /// Of the place whose connections hold most together, the connection that holds most: many small ones of one machine
    /// close nobody else.
    fn heaviest(&self) -> usize {
        let mut places: BTreeMap<Option<IpAddr>, (usize, usize, usize)> = BTreeMap::new();
        for (slot, connection) in self.slots.iter().enumerate() {
            let Some(connection) = connection.as_ref().filter(|one| one.counted > 0) else {
                continue;
            };
            let (sum, most, heaviest) = places.entry(connection.address.map(place)).or_default();
            *sum += connection.counted;
            if connection.counted > *most {
                (*most, *heaviest) = (connection.counted, slot);
            }
        }
        let (_, _, slot) = places
            .values()
            .max()
            .expect("somebody holds what was counted");
        *slot
    }

    /// A client that does not read its answers is closed.
    pub(crate) fn bound_client(&mut self, slot: usize, now: Time) {
        let connection = self.slots[slot].as_ref().expect("it was just flushed");
        if matches!(connection.phase, Phase::Client(_))
            && connection.waiting() > self.settings.limits.client_queue
        {
            self.counters.slow_clients += 1;
            tracing::info!(
                slot,
                waiting = connection.waiting(),
                "client does not read: closed"
            );
            self.close(slot, now);
        } else {
            self.weigh(slot, now);
        }
    }

    /// Whether the stranger in `slot` is read in this turn. A step of a TLS handshake costs as much as many requests, so a turn
    /// has room for a few; the others are read in the next turns.
    pub(crate) fn has_room_for_greeting(&mut self, slot: usize) -> bool {
        let has_room = self.greeted < GREETINGS_PER_TURN;
        if has_room {
            self.greeted += 1;
        } else {
            self.read_later(slot);
        }
        has_room
    }

    /// Reads the connection in the next round, if it is still there. It waits once, however much comes on it meanwhile.
    pub(crate) fn read_later(&mut self, slot: usize) {
        let connection = self.slots[slot].as_mut();
        if connection.is_some_and(|one| !std::mem::replace(&mut one.is_to_read, true)) {
            self.unread.push(slot);
        }
    }

    /// The connections that wait to be read, in turn, who was put off first. One that came into the slot of another does not take its turn.
    pub(crate) fn take_unread(&mut self) -> Vec<usize> {
        let mut unread = std::mem::take(&mut self.put_off);
        unread.append(&mut self.unread);
        unread.retain(|slot| {
            let connection = self.slots[*slot].as_mut();
            connection.is_some_and(|one| std::mem::take(&mut one.is_to_read))
        });
        unread
    }

    /// So many bytes of a client's frames wait to be served: while there are any, it is not read.
    pub fn hold(&mut self, client: ConnectionId, unserved: usize, now: Time) {
        let Some(slot) = self.slot_of(client) else {
            return;
        };
        let connection = self.slots[slot].as_mut().expect("found by its id");
        connection.unserved = unserved;
        connection.is_held = unserved > 0;
        if connection.is_held {
            // Others do not wait for a frame that nobody reads; what is there of it was one round of reading.
            self.forget_unfinished(slot);
        } else if std::mem::take(&mut connection.is_unread) {
            self.read_later(slot);
        }
        self.weigh(slot, now);
    }

    /// The connection has become a link, which is bounded elsewhere.
    pub(crate) fn uncount(&mut self, slot: usize) {
        let connection = self.slots[slot].as_mut().expect("it has just spoken");
        let counted = std::mem::take(&mut connection.counted);
        self.recount(counted, 0);
    }
}

/// Who shares a bound with others: an address, or the /64 that one machine can choose its addresses from.
pub(crate) fn place(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let network = u128::from(address) >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from(network))
        }
    }
}
