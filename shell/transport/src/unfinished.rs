//! Large frames of clients that have begun and are not whole: how much of them the node keeps, and whose are given up.
//!
//! Below the bound they are read as they come. Above it only the one that began first is read, the others wait in their sockets, and
//! those are closed that send too slowly, who began first before others: a crowd that ends no frame costs little memory and keeps
//! honest large frames waiting for a moment. Called by the reading and the clock of [`Transport`].

use crate::connection::Left;
use crate::limits::{STALLED_AFTER, STALLED_BYTES, STALLED_LOOKED_FOR_EVERY};
use crate::transport::Transport;
use quorate_types::Time;
use std::collections::BTreeMap;

/// All of them.
#[derive(Default)]
pub(crate) struct UnfinishedFrames {
    /// Slots by when their frames began. Invariant: each has an [`UnfinishedFrame`] of that number.
    slots: BTreeMap<u64, usize>,
    /// Those that wait to be read.
    blocked: BTreeMap<u64, usize>,
    /// Frames that began so far.
    begun: u64,
    /// Bytes of memory. Invariant: the sum of what they count.
    bytes: usize,
    /// When those that stall were looked for.
    looked: Time,
}

/// The frame of one connection.
#[derive(Clone, Copy)]
pub(crate) struct UnfinishedFrame {
    number: u64,
    counted: usize,
    /// How much had arrived when it last had brought `STALLED_BYTES` more, or was read again.
    arrived: usize,
    /// When that was.
    since: Time,
    /// Whether all that had arrived was read: from then on it is the client that lets wait.
    pub(crate) is_drained: bool,
}

impl UnfinishedFrames {
    fn forget(&mut self, frame: UnfinishedFrame) {
        self.slots.remove(&frame.number);
        self.blocked.remove(&frame.number);
        self.bytes -= frame.counted;
    }
}

impl Transport {
    fn has_room_for_large(&self) -> bool {
        self.unfinished.bytes < self.settings.limits.clients_bytes / 8
    }

    /// Whether the rest of the large frame in `slot` stays in its socket until others are whole or given up.
    pub(crate) fn is_blocked(&mut self, slot: usize) -> bool {
        if self.has_room_for_large() {
            return false;
        }
        let connection = self.slots[slot].as_mut().expect("it is open");
        let Some(frame) = connection.unfinished.as_mut() else {
            return false;
        };
        let is_first = self.unfinished.slots.first_key_value() == Some((&frame.number, &slot));
        if !is_first {
            self.unfinished.blocked.insert(frame.number, slot);
        }
        !is_first
    }

    /// The connection in `slot` was read: notes how much of a large frame is there, or that it is whole.
    pub(crate) fn note_unfinished(&mut self, slot: usize, left: Left, now: Time) {
        let Some(connection) = self.slots[slot].as_mut() else {
            return;
        };
        if !connection.is_large_client() {
            self.forget_unfinished(slot);
            return;
        }
        let (held, arrived) = (connection.held_in_frames(), connection.arrived());
        let unfinished = &mut self.unfinished;
        let frame = connection.unfinished.get_or_insert_with(|| {
            unfinished.begun += 1;
            unfinished.slots.insert(unfinished.begun, slot);
            UnfinishedFrame {
                number: unfinished.begun,
                counted: 0,
                arrived,
                since: now,
                is_drained: false,
            }
        });
        if !frame.is_drained || arrived < frame.arrived || arrived >= frame.arrived + STALLED_BYTES
        {
            (frame.arrived, frame.since) = (arrived, now);
        }
        frame.is_drained = left == Left::Nothing;
        unfinished.bytes = unfinished.bytes - frame.counted + held;
        frame.counted = held;
    }

    /// The frame in `slot` is whole, or nobody waits for its end: its client is gone, or is not read while its requests wait.
    pub(crate) fn forget_unfinished(&mut self, slot: usize) {
        let connection = self.slots[slot].as_mut();
        if let Some(frame) = connection.and_then(|one| one.unfinished.take()) {
            self.unfinished.forget(frame);
        }
    }

    /// Whether a frame that waits may be read.
    pub(crate) fn may_unblock(&self) -> bool {
        let unfinished = &self.unfinished;
        let first = unfinished.blocked.first_key_value();
        let is_first = |first| unfinished.slots.first_key_value() == Some(first);
        first.is_some_and(|first| self.has_room_for_large() || is_first(first))
    }

    /// Has the frame that began first of those that wait read in this turn, if it may be. Gives up those that stall.
    pub(crate) fn unblock(&mut self, now: Time) {
        if self.stalled_due().is_some_and(|at| at <= now) {
            self.unfinished.looked = now;
            self.give_up_stalled(now);
        }
        if self.may_unblock()
            && let Some((_, slot)) = self.unfinished.blocked.pop_first()
        {
            let connection = self.slots[slot].as_mut().expect("it has begun a frame");
            connection.resumes(now);
            self.read_later(slot);
        }
    }

    /// When those that stall are looked for next.
    pub(crate) fn stalled_due(&self) -> Option<Time> {
        (!self.has_room_for_large()).then(|| self.unfinished.looked + STALLED_LOOKED_FOR_EVERY)
    }

    fn give_up_stalled(&mut self, now: Time) {
        let slots: Vec<usize> = self.unfinished.slots.values().copied().collect();
        for slot in slots {
            if self.has_room_for_large() {
                return;
            }
            let connection = self.slots[slot].as_ref().expect("it has begun a frame");
            let frame = connection.unfinished.expect("it has begun a frame");
            let has_stalled = frame.is_drained && frame.since + STALLED_AFTER <= now;
            if has_stalled {
                self.counters.heavy_clients += 1;
                tracing::info!(
                    slot,
                    held = self.unfinished.bytes,
                    "large frames that are not whole take too much: a client that sends its own too slowly is closed"
                );
                self.close(slot, now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_waited_and_is_given_up_keeps_those_behind_it_waiting_no_more() {
        let mut unfinished = UnfinishedFrames::default();
        let [first, second] = [1, 2].map(|number| UnfinishedFrame {
            number,
            counted: 5,
            arrived: 5,
            since: Time(0),
            is_drained: false,
        });
        for (slot, frame) in [(7, first), (8, second)] {
            unfinished.slots.insert(frame.number, slot);
            unfinished.blocked.insert(frame.number, slot);
            unfinished.bytes += frame.counted;
        }
        unfinished.forget(first);
        let behind = Some((&second.number, &8));
        assert_eq!(unfinished.slots.first_key_value(), behind);
        assert_eq!(unfinished.blocked.first_key_value(), behind);
        assert_eq!(unfinished.bytes, second.counted);
    }
}
