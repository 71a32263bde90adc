//! An operator's word about a call at which the objects stand still.
//!
//! Calls that end every host are skipped by the replicas' own reports. An operator asks whether that is so, or skips the call
//! whatever was reported. Both are commands: what the log holds before them decides, not what the node that was asked knows.

use crate::limits::SKIPS_WAITING;
use crate::local::clients::{refuse, reply};
use crate::local::internal::Purpose;
use crate::status::PoisonStanding;
use crate::{Output, PoisonReports, Replica};
use quorate_ordering::Ordering;
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ask, Body, CallPlace, ConnectionId, Refusal, Slot, ToClient};

impl<O: Ordering> Replica<O> {
    /// An operator names a call. Refuses what cannot have the effect that is meant; nothing changes then.
    pub(crate) fn client_skip(
        &mut self,
        (from, request): (ConnectionId, u64),
        place: CallPlace,
        is_unsafe: bool,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let refusal = if self.replicated.poison.is_skipped(place) {
            // What an earlier request asked for, or the replicas' own reports.
            let slot = place.slot;
            return reply(out, from, ToClient::Checkpointed { request, slot });
        } else if self.quarantine.frozen().is_some() {
            Some(Refusal::Frozen)
        } else if !self.stand_still_at(place) {
            Some(Refusal::NoStuckCall)
        } else if is_unsafe && self.is_past_elsewhere(place.slot) {
            Some(Refusal::NotSkipped)
        } else if !self.can_order() {
            Some(Refusal::StorageFull)
        } else if self.internals.skips() >= SKIPS_WAITING {
            Some(Refusal::Overloaded)
        } else {
            None
        };
        if let Some(refusal) = refusal {
            return refuse(out, from, Ask::Request(request), refusal);
        }
        let CallPlace { slot, index } = place;
        let body = Body::Skip {
            slot,
            index,
            is_unsafe,
        };
        self.submit(Purpose::Skip(from, request), body);
    }

    /// Whether the own objects, or those of a replica that said so, do not get past a call.
    fn stand_still_at(&self, place: CallPlace) -> bool {
        self.pipeline.open_call(place).is_some() || self.replicated.poison.is_anybody_down(place)
    }

    /// Whether a majority of the replicas has executed a slot, as far as this one has heard. Where no host died nobody reports
    /// that he is past a call, and the log tells nothing of it; the node at which the objects hang is the one that is asked.
    fn is_past_elsewhere(&self, slot: Slot) -> bool {
        let (told, held) = (self.drift.past(slot), self.agreement.holders(slot));
        let others = self.other_replicas();
        let past = others.iter();
        let past = past.filter(|node| told.contains(*node) || held.contains(*node));
        past.count() >= self.view().replica_majority()
    }

    /// An operator's word is decided.
    pub(crate) fn skip_decided(
        &mut self,
        decided: Slot,
        place: CallPlace,
        is_unsafe: bool,
        asked: Option<Purpose>,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let poison = &self.replicated.poison;
        // A majority that is past the call has its effect for good: the others take over that state. A replica that does not
        // remember all reports is past the call itself.
        let is_settled = poison.survivors(place) >= self.view().replica_majority();
        let is_forced = (is_unsafe || planted(Plant::SkipAlwaysUnsafe)) && !is_settled;
        let has_effect =
            poison.is_skipped(place) || is_unsafe && is_forced && self.stand_still_at(place);
        let is_heard = asked.is_some() || !planted(Plant::SkipOnlyWhereAsked);
        if is_forced && is_heard && place.slot < decided {
            self.skip(place, out);
            self.replicated.poison.forces(place, decided);
            self.retract_agreed();
        }
        let Some(Purpose::Skip(to, request)) = asked else {
            return;
        };
        let ask = Ask::Request(request);
        let slot = place.slot;
        match (has_effect, is_forced) {
            (true, _) => reply(out, to, ToClient::Checkpointed { request, slot }),
            // The objects went on meanwhile.
            (false, true) => refuse(out, to, ask, Refusal::NoStuckCall),
            (false, false) => refuse(out, to, ask, Refusal::NotSkipped),
        }
    }

    /// The calls at which hosts are down.
    pub(crate) fn poison_standing(&self) -> Vec<PoisonStanding> {
        let reports = self.replicated.poison.reports(self.view().replicas);
        let of = |reports: PoisonReports| {
            let command = self.pipeline.open_call(reports.place);
            let call = match command.map(|command| &command.body) {
                Some(Body::Call { object, payload }) => Some((*object, payload.clone())),
                Some(_) | None => None,
            };
            PoisonStanding { reports, call }
        };
        reports.into_iter().map(of).collect()
    }
}
