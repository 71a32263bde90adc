//! Collisions: the leader sees them as soon as they are certain, and decides the slot in the classic round of its ballot.
//!
//! Each vote of the fast round is final, so the votes heard are a phase 1 of the next round: nobody need be asked again. No value
//! can have been decided, so the choice is free. It falls on the value with most votes that has no better chance elsewhere; what
//! loses is proposed again by who proposed it. Claims fp-4 and fp-5.

use crate::Seat;
use crate::leader::{Leader, Mode};
use crate::message::Message;
use crate::selection::may_win;
use crate::tally::FastVotes;
use quorate_ordering::Effects;
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Batch, Slot, Time, ValueId, VoteKind};

impl Leader {
    /// An acceptor voted in `slot`: recovers the slot if its fast round can decide nothing any more.
    pub(crate) fn look_for_collision(
        &mut self,
        seat: &mut Seat,
        now: Time,
        slot: Slot,
        effects: &mut Effects<Message>,
    ) {
        let is_fast = matches!(self.mode, Mode::Fast { from } if slot >= from);
        let is_open = slot > seat.acceptor.log.decided() && !self.proposals.contains_key(&slot);
        if !is_fast || !is_open || !self.is_steady() {
            return;
        }
        let votes = seat.tally.fast_votes(slot, self.ballot);
        if !self.has_collided(seat, &votes) {
            return;
        }
        let Some(batch) = self.survivor(seat, slot, &votes) else {
            // Phase 1 of another ballot brings the values.
            return;
        };
        self.must_renew |= seat.contention.collided();
        if self.must_renew {
            seat.contention.close(now);
        }
        self.propose(seat, now, slot, batch, effects);
    }

    /// Whether a phase-1 quorum voted in the fast round, and no value can win it.
    fn has_collided(&self, seat: &Seat, votes: &FastVotes) -> bool {
        let most = votes.counts.values().copied().max().unwrap_or_default();
        let can_win = may_win(most, votes.heard, &seat.quorums);
        let is_early = planted(Plant::RecoveredBeforeCollision) && votes.counts.len() > 1;
        votes.heard >= seat.quorums.classic().phase1() && !can_win || is_early
    }

    /// The batch to propose: of the values with votes here that are neither decided nor proposed nor able to win another slot,
    /// the one with most votes; a NOOP if there is none. `None` if this node lacks the batch of every value.
    fn survivor(&self, seat: &Seat, slot: Slot, votes: &FastVotes) -> Option<Batch> {
        let mut values: Vec<_> = votes.counts.iter().collect();
        values.sort_by_key(|(value, count)| (std::cmp::Reverse(**count), **value));
        let mut lacks_all = true;
        for (value, _) in values {
            let kind = VoteKind::Fast(*value);
            let Some(batch) = seat.value_of(slot, self.ballot, kind) else {
                continue;
            };
            lacks_all = false;
            let is_proposed = self.proposals.values().any(|other| other.batch == batch);
            let is_served =
                is_proposed || seat.is_recent(&batch) || self.may_win_elsewhere(seat, slot, *value);
            if !is_served {
                return Some(batch);
            }
        }
        (!lacks_all).then(Batch::noop)
    }

    fn may_win_elsewhere(&self, seat: &Seat, slot: Slot, value: ValueId) -> bool {
        let tally = &seat.tally;
        let others = tally.slots().filter(|other| *other != slot);
        let mut open = others.filter(|other| !self.proposals.contains_key(other));
        open.any(|other| {
            let votes = tally.fast_votes(other, self.ballot);
            let count = votes.counts.get(&value).copied().unwrap_or_default();
            count > 0 && may_win(count, votes.heard, &seat.quorums)
        })
    }
}
