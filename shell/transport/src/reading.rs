//! Reading sockets: what each turn of the loop takes from them, and the frames that this makes whole.
//!
//! Called for readiness events and, at the beginning of a turn, for what earlier turns left unread.

use crate::connection::{Ended, Left, Phase};
use crate::limits::LARGE_READ_PER_TURN;
use crate::shares::place;
use crate::transport::{Arrival, Transport};
use quorate_types::Time;
use quorate_wire::RejectReason;

impl Transport {
    /// Begins a turn: reads what earlier turns left unread, who was put off first.
    pub fn read_on(&mut self, now: Time) {
        self.large_read = self.large_read.saturating_sub(LARGE_READ_PER_TURN);
        self.unblock(now);
        for slot in self.take_unread() {
            self.receive(slot, false, now);
        }
    }

    /// Whether the rest of a client's large frame waits for a later turn. Requests in small frames do not wait for it.
    fn is_put_off(&mut self, slot: usize) -> bool {
        let connection = self.slots[slot].as_mut().expect("it is open");
        let waits = self.large_read >= LARGE_READ_PER_TURN && connection.is_large_client();
        if waits && !std::mem::replace(&mut connection.is_to_read, true) {
            self.put_off.push(slot);
        }
        waits
    }

    pub(crate) fn receive(&mut self, slot: usize, is_ending: bool, now: Time) {
        let Some(connection) = self.slots.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        connection.is_ending |= is_ending;
        if connection.is_to_wait() {
            connection.waits();
            return;
        }
        if connection.greets_by_tls() && !self.has_room_for_greeting(slot) {
            return;
        }
        if self.is_put_off(slot) || self.is_blocked(slot) {
            self.slots[slot].as_mut().expect("found above").waits();
            return;
        }
        let room = LARGE_READ_PER_TURN.saturating_sub(self.large_read);
        let connection = self.slots[slot].as_mut().expect("found above");
        let (read, received) = connection.receive(room);
        self.counters.bytes_in += read as u64;
        if connection.is_large_client() {
            self.large_read += read;
        }
        // What had arrived before the end still counts.
        match self.cut(slot, now) {
            Ok(frames) => {
                if let Some(connection) = self.slots[slot].as_mut() {
                    connection.was_read(frames, now);
                }
            }
            Err(error) => {
                self.counters.unreadable += 1;
                tracing::debug!(slot, %error, "unreadable stream");
                self.reject(slot, RejectReason::Malformed, error.to_string(), now);
                return;
            }
        }
        let left = received.as_ref().copied().unwrap_or(Left::Nothing);
        self.note_unfinished(slot, left, now);
        self.weigh(slot, now);
        if self.slots[slot].as_ref().is_some_and(|c| c.waiting() > 0) {
            self.list(slot);
        }
        match received {
            Ok(Left::Nothing) => {}
            Ok(Left::More) => self.read_later(slot),
            Err(error) => {
                tracing::debug!(slot, %error, "connection ended");
                self.close_after(slot, &error, now);
            }
        }
    }

    /// Takes the whole frames that have arrived; says how many.
    fn cut(&mut self, slot: usize, now: Time) -> Result<usize, Ended> {
        let mut frames = 0;
        while let Some(connection) = self.slots[slot].as_mut() {
            let phase = connection.phase;
            if phase == Phase::Closing {
                break;
            }
            let Some(frame) = connection.next_frame()? else {
                break;
            };
            frames += 1;
            self.counters.frames_in += 1;
            match phase {
                Phase::Peer(from, link) => self.peer_frame(slot, from, link, frame, now),
                Phase::Client(from) => {
                    connection.unserved += frame.body.len();
                    let place = connection.address.map(place);
                    self.arrivals.push(Arrival::Client { from, place, frame });
                }
                Phase::Stranger => self.greeted(slot, &frame, now),
                Phase::Greeting(peer) => self.welcomed(slot, peer, &frame, now),
                Phase::Connecting(_) | Phase::Closing => break,
            }
        }
        Ok(frames)
    }
}
