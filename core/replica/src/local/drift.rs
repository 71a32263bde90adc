//! Drift: replicas compare the digests of what their objects answered, while calls execute.
//!
//! Every replica tells the others its digest at the slot that it has executed. Who hears another digest than its own at that slot
//! sends its trail, the digests after its newest slots, to all replicas and asks for theirs. The trails show who differs from a
//! majority, and since which call. Only trails are judged: a digest that was told may be of a state that its sender no longer has.
//! What follows is as after a differing snapshot: `quarantine.rs`.

use crate::limits::{OUTCOMES_EVERY, TRAIL_FRESH, TRAIL_PAUSE_MAX};
use crate::local::verdict::{MajorityVerdict, verdict};
use crate::objects::outcomes::FirstDifference;
use crate::{OutcomeTrail, Output, PeerMessage, Replica, ReplicaMessage};
use quorate_ordering::{Lane, Ordering};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Body, Digest, Duration, NodeId, NodeSet, ObjectId, Slot, Time, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Where the outcomes of a replica first differed from others'.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutcomeDifference {
    /// The replica that differs from the majority, or, without a majority, from this one.
    pub node: NodeId,
    /// The first slot that shows it.
    pub slot: Slot,
    /// Whether the outcomes of all earlier slots are equal. If not, they differed at or before `slot`.
    pub is_exact: bool,
    /// The call, if that is known.
    pub call: Option<DifferentCall>,
}

/// A call that had different outcomes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DifferentCall {
    /// Its index in the batch of its slot.
    pub index: u32,
    /// The object.
    pub object: ObjectId,
    /// Method and arguments.
    pub payload: Value,
}

/// What a peer told and is not compared yet: the oldest, so that a replica that lags finds something to compare, and the newest.
#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    oldest: Option<(Slot, u64)>,
    newest: Option<(Slot, u64)>,
    /// The highest slot at which its digest was equal.
    equal: Slot,
}

/// What this node knows of others' outcomes.
#[derive(Debug, Default)]
pub(crate) struct Drift {
    told: Option<u64>,
    tell_at: Time,
    heard: BTreeMap<NodeId, Heard>,
    /// Peers that differ, until it is known who is right.
    suspects: NodeSet,
    ask_at: Time,
    pause: Duration,
    trails: BTreeMap<NodeId, (Time, OutcomeTrail)>,
    /// Differences that were named already, by replica.
    named: BTreeMap<NodeId, Slot>,
    found: Option<OutcomeDifference>,
}

impl Drift {
    /// The newest difference that was found.
    pub(crate) fn found(&self) -> Option<OutcomeDifference> {
        self.found.clone()
    }

    /// The peer may be another process behind a new link, with another state; a new one has heard nothing.
    pub(crate) fn link_changed(&mut self, peer: NodeId) {
        self.heard.remove(&peer);
        self.trails.remove(&peer);
        self.suspects.remove(peer);
        self.named.remove(&peer);
        self.told = None;
        self.pause = OUTCOMES_EVERY;
    }

    /// The objects have a majority's state.
    pub(crate) fn restored(&mut self) {
        self.heard.clear();
        self.trails.clear();
        self.suspects = NodeSet::empty();
        self.told = None;
    }

    /// Peers that are past a slot, as they have told since their links came up.
    pub(crate) fn past(&self, slot: Slot) -> NodeSet {
        let heard = self.heard.iter();
        heard
            .filter(|(_, heard)| {
                let told = heard.newest.or(heard.oldest);
                told.is_some_and(|(told, _)| told >= slot)
            })
            .map(|(node, _)| *node)
            .collect()
    }

    /// A peer differs. The first time all are asked at once: its trail may make a majority. One that was named before, or that
    /// nobody can judge yet, does not shorten the pauses.
    fn suspect(&mut self, now: Time, peer: NodeId) {
        if !self.suspects.contains(peer) && !self.named.contains_key(&peer) {
            self.pause = OUTCOMES_EVERY;
            self.ask_at = now;
        }
        self.suspects.insert(peer);
    }
}

impl<O: Ordering> Replica<O> {
    fn compares_outcomes(&self) -> bool {
        self.is_replica() && !self.quarantine.is_set() && !self.other_replicas().is_empty()
    }

    fn has_untold_outcomes(&self) -> bool {
        let digest = self.pipeline.outcomes.digest();
        digest != 0 && self.drift.told != Some(digest)
    }

    /// When outcomes are to be told or asked for.
    pub(crate) fn drift_due_at(&self) -> Option<Time> {
        if !self.compares_outcomes() {
            return None;
        }
        let tell_at = self.has_untold_outcomes().then_some(self.drift.tell_at);
        let is_asking = !self.drift.suspects.is_empty();
        Time::earlier(tell_at, is_asking.then_some(self.drift.ask_at))
    }

    /// At the end of a turn: tells the own digest, compares what is reached, and asks if there is a difference.
    pub(crate) fn tend_drift(&mut self, now: Time, out: &mut Vec<Output<O::Message>>) {
        if !self.compares_outcomes() {
            return;
        }
        self.compare_reached(now);
        if self.has_untold_outcomes() && self.drift.tell_at <= now {
            let digest = self.pipeline.outcomes.digest();
            self.drift.told = Some(digest);
            self.drift.tell_at = now + OUTCOMES_EVERY;
            let slot = self.executed_upto();
            self.tell_replicas(ReplicaMessage::Outcomes { slot, digest }, out);
        }
        if !self.drift.suspects.is_empty() && self.drift.ask_at <= now {
            self.drift.ask_at = now + self.drift.pause;
            self.drift.pause = (self.drift.pause + self.drift.pause).min(TRAIL_PAUSE_MAX);
            let heard = self.drift.heard.values();
            let equal = heard.map(|heard| heard.equal).min();
            let trail = self.own_trail(equal.unwrap_or(Slot::ZERO));
            let trail = Box::new(trail);
            self.tell_replicas(ReplicaMessage::Trail { asks: true, trail }, out);
        }
    }

    fn tell_replicas(&self, message: ReplicaMessage, out: &mut Vec<Output<O::Message>>) {
        out.push(Output::Send {
            to: self.other_replicas(),
            lane: Lane::Normal,
            message: PeerMessage::Replica(message),
        });
    }

    fn own_trail(&self, after: Slot) -> OutcomeTrail {
        self.pipeline.outcomes.trail(after, self.executed_upto())
    }

    /// A peer told its digest at `slot`.
    pub(crate) fn outcomes_told(&mut self, from: NodeId, slot: Slot, digest: u64) {
        let is_compared = self.other_replicas().contains(from) && self.compares_outcomes();
        if !is_compared || planted(Plant::OutcomesNotCompared) {
            return;
        }
        let heard = self.drift.heard.entry(from).or_default();
        if heard.oldest.is_none() {
            heard.oldest = Some((slot, digest));
        } else {
            heard.newest = Some((slot, digest));
        }
    }

    fn compare_reached(&mut self, now: Time) {
        let executed = self.executed_upto();
        let mut different = NodeSet::empty();
        for (peer, heard) in &mut self.drift.heard {
            while let Some((slot, digest)) = heard.oldest.filter(|(slot, _)| *slot <= executed) {
                match self.pipeline.outcomes.at(slot) {
                    Some(own) if own == digest => heard.equal = heard.equal.max(slot),
                    Some(_) => {
                        different.insert(*peer);
                    }
                    None => {}
                }
                heard.oldest = heard.newest.take();
            }
        }
        for peer in different.iter() {
            self.drift.suspect(now, peer);
        }
    }

    /// A peer sent its trail.
    pub(crate) fn trail(
        &mut self,
        now: Time,
        from: NodeId,
        asks: bool,
        trail: OutcomeTrail,
        out: &mut Vec<Output<O::Message>>,
    ) {
        if !self.is_replica() || !self.other_replicas().contains(from) {
            return;
        }
        if asks {
            let trail = Box::new(self.own_trail(trail.after));
            out.push(Output::Send {
                to: NodeSet::only(from),
                lane: Lane::Normal,
                message: PeerMessage::Replica(ReplicaMessage::Trail { asks: false, trail }),
            });
        }
        if self.compares_outcomes() && !planted(Plant::OutcomesNotCompared) {
            self.drift.trails.insert(from, (now, trail));
            self.judge_trails(now, out);
        }
    }

    fn judge_trails(&mut self, now: Time, out: &mut Vec<Output<O::Message>>) {
        self.drift
            .trails
            .retain(|_, (at, _)| now.since(*at) <= TRAIL_FRESH);
        let own = self.own_trail(Slot::ZERO);
        let trails = std::mem::take(&mut self.drift.trails);
        let differences: BTreeMap<NodeId, FirstDifference> = trails
            .iter()
            .filter_map(|(node, (_, trail))| Some((*node, own.difference(trail)?)))
            .collect();
        let ends = trails
            .values()
            .flat_map(|(_, trail)| [trail.after, trail.upto]);
        let first = differences.values().map(|first| first.slot);
        // Up to a reset the replicas differed, and an operator has said who counts.
        let reset = self.replicated.reset.slot();
        let slots: BTreeSet<Slot> = ends.chain(first).filter(|slot| *slot > reset).collect();
        for node in trails.keys() {
            if differences.contains_key(node) {
                self.drift.suspect(now, *node);
            } else {
                self.drift.suspects.remove(*node);
            }
        }
        for slot in slots {
            let digest_of = |node| self.digest_at(node, slot, &own, &trails);
            let Some(at_slot) = digest_of(self.config.own) else {
                continue;
            };
            let absent = (self.replicated.poison.stuck(slot), self.without_say(slot));
            match verdict(self.view(), absent, digest_of) {
                MajorityVerdict::Agreed(agreed) if agreed == at_slot => {
                    let odd = differences.iter().filter(|(_, first)| first.slot <= slot);
                    for (&node, &first) in odd {
                        self.drift.suspects.remove(node);
                        self.name_difference(node, first, out);
                    }
                }
                MajorityVerdict::Agreed(agreed) => {
                    let right = differences
                        .iter()
                        .filter(|(node, _)| digest_of(**node) == Some(agreed));
                    let first = right.min_by_key(|(_, first)| (!first.is_exact, first.slot));
                    let first = first.map(|(_, first)| *first);
                    self.outcomes_diverged(now, slot, (at_slot, agreed), first, out);
                    return;
                }
                MajorityVerdict::Split => {
                    let first = differences.iter().min_by_key(|(_, first)| first.slot);
                    if let Some((&node, &first)) = first {
                        self.name_difference(node, first, out);
                    }
                    self.drift.restored();
                    self.freeze(slot, out);
                    return;
                }
                MajorityVerdict::Open => {}
            }
        }
        self.drift.trails = trails;
    }

    fn digest_at(
        &self,
        node: NodeId,
        slot: Slot,
        own: &OutcomeTrail,
        trails: &BTreeMap<NodeId, (Time, OutcomeTrail)>,
    ) -> Option<u64> {
        if node != self.config.own {
            trails.get(&node)?.1.at(slot)
        } else if planted(Plant::OutcomesAtWrongSlot) {
            own.at(slot.previous())
        } else {
            own.at(slot)
        }
    }

    /// This replica's outcomes are not the majority's.
    fn outcomes_diverged(
        &mut self,
        now: Time,
        slot: Slot,
        (own, agreed): (u64, u64),
        first: Option<FirstDifference>,
        out: &mut Vec<Output<O::Message>>,
    ) {
        self.drift.restored();
        let slot = first.map_or(slot, |first| first.slot);
        if let Some(first) = first {
            self.name_difference(self.config.own, first, out);
        }
        let of_outcomes = |replicated| Digest {
            replicated,
            state: [0; 32],
        };
        self.diverged(now, slot, of_outcomes(own), of_outcomes(agreed), out);
    }

    fn name_difference(
        &mut self,
        node: NodeId,
        first: FirstDifference,
        out: &mut Vec<Output<O::Message>>,
    ) {
        if self.drift.named.insert(node, first.slot) == Some(first.slot) {
            return;
        }
        let difference = OutcomeDifference {
            node,
            slot: first.slot,
            is_exact: first.is_exact,
            call: self.call_at(first),
        };
        self.drift.found = Some(difference.clone());
        out.push(Output::OutcomesDiffer(difference));
    }

    fn call_at(&self, first: FirstDifference) -> Option<DifferentCall> {
        let index = first.index?;
        let command = self
            .instances
            .current()
            .batch(first.slot)?
            .commands()
            .get(index as usize)?;
        let Body::Call { object, payload } = &command.body else {
            return None;
        };
        Some(DifferentCall {
            index,
            object: *object,
            payload: payload.clone(),
        })
    }
}
