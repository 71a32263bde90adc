//! Fast rounds: who told a vote for which named value, and what the names stand for.
//!
//! A vote of a fast round names its value. What the name stands for is known once the value was proposed to anybody, written or told
//! in a promise; until then the vote waits here to be judged.

use super::{Judge, Judged, broken, fingerprint};
use crate::checkers::Property;
use crate::checkers::agreement::Fingerprint;
use crate::checkers::rounds::VoteRound;
use quorate_types::{Ballot, Batch, NodeId, NodeSet, Slot, ValueId, ViewNumber, VoteKind};
use std::collections::BTreeMap;

/// Who voted where in which ballot, for a name that nobody has explained.
type UnexplainedVote = (NodeId, Slot, Ballot);

/// Votes told in fast rounds.
#[derive(Default)]
pub(super) struct Casts {
    /// What each name stands for in a view, and whether it is a trim of logs.
    values: BTreeMap<(ViewNumber, ValueId), (Fingerprint, bool)>,
    told: BTreeMap<(Slot, Ballot, ValueId), NodeSet>,
    /// Votes for names that nobody has explained.
    unexplained: BTreeMap<(ViewNumber, ValueId), Vec<UnexplainedVote>>,
}

impl Casts {
    /// Who told votes in `slot`, by ballot and value.
    pub(super) fn of_slot(&self, slot: Slot) -> impl Iterator<Item = (Ballot, ValueId, NodeSet)> {
        let first = ValueId {
            node: NodeId(0),
            boot: 0,
            number: 0,
        };
        let of_slot = (slot, Ballot::ZERO, first)..(slot.next(), Ballot::ZERO, first);
        let told = self.told.range(of_slot);
        told.map(|((_, ballot, value), told)| (*ballot, *value, *told))
    }

    pub(super) fn fingerprint(&self, view: ViewNumber, value: ValueId) -> Option<Fingerprint> {
        self.values.get(&(view, value)).map(|(known, _)| *known)
    }
}

impl Judge {
    /// A name stands for a batch.
    pub(super) fn names(&mut self, view: ViewNumber, value: ValueId, batch: &Batch) -> Judged {
        let named = (fingerprint(batch), batch.is_collecting());
        let (first, _) = *self.cast.values.entry((view, value)).or_insert(named);
        if first != named.0 {
            return broken(
                Property::OneValuePerBallot,
                format!("{value} names {:016x}, it named {first:016x}", named.0),
            );
        }
        let waiting = self.cast.unexplained.remove(&(view, value));
        for (node, slot, ballot) in waiting.unwrap_or_default() {
            self.cast(node, slot, ballot, value)?;
        }
        Ok(())
    }

    /// As far as the record or vote is of a fast round, its name stands for its batch.
    pub(super) fn names_of(&mut self, view: ViewNumber, kind: VoteKind, batch: &Batch) -> Judged {
        match kind {
            VoteKind::Fast(value) => self.names(view, value, batch),
            VoteKind::Classic => Ok(()),
        }
    }

    /// `node` tells its vote in a fast round.
    pub(super) fn tells_cast(
        &mut self,
        node: NodeId,
        slot: Slot,
        ballot: Ballot,
        value: ValueId,
    ) -> Judged {
        self.may_vote(node, ballot.view)?;
        self.views.0.acts(node, ballot.view, "votes")?;
        self.views.0.proposes(node, ballot.view, slot)?;
        if slot <= self.known_by(node) {
            // Nothing depends on it any more, but it may be one of those by which others decide.
            let round = VoteRound::fast(ballot);
            if !self.has_voted(node, slot, round) {
                return Ok(());
            }
            self.note_told(node, slot, ballot, value);
            return match self.cast.fingerprint(ballot.view, value) {
                Some(named) => self.chosen.voted(node, slot, round, named),
                None => {
                    self.chosen.voted_alone(node, slot, ballot);
                    Ok(())
                }
            };
        }
        self.note_told(node, slot, ballot, value);
        match self.cast.values.contains_key(&(ballot.view, value)) {
            true => self.cast(node, slot, ballot, value),
            false => {
                let waiting = self
                    .cast
                    .unexplained
                    .entry((ballot.view, value))
                    .or_default();
                waiting.push((node, slot, ballot));
                self.chosen.voted_alone(node, slot, ballot);
                Ok(())
            }
        }
    }

    fn note_told(&mut self, node: NodeId, slot: Slot, ballot: Ballot, value: ValueId) {
        let told = self.cast.told.entry((slot, ballot, value)).or_default();
        told.insert(node);
    }

    /// A vote of `node` for a value that is known was told.
    fn cast(&mut self, node: NodeId, slot: Slot, ballot: Ballot, value: ValueId) -> Judged {
        let round = VoteRound::fast(ballot);
        let (named, is_collecting) = self.cast.values[&(ballot.view, value)];
        if let Some(written) = self.written_in(ballot.view) {
            written.told_vote(node, slot, round)?;
            let durable = written.vote_in(node, slot, round);
            if durable != Some(named) {
                return broken(
                    Property::Remembered,
                    format!(
                        "{node} tells a vote for {value} in {slot} {ballot}, durable is {durable:x?}"
                    ),
                );
            }
        }
        if is_collecting {
            self.lacks_nothing(node, slot, ballot)?;
        }
        self.agreement_in(ballot.view)
            .voted(node, slot, round, named)?;
        self.chosen.voted(node, slot, round, named)
    }
}
