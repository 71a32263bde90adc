//! What nodes tell each other, as it leaves them and as it arrives.

use super::{Judge, Judged, broken, fingerprint};
use crate::checkers::Property;
use crate::checkers::agreement::{Fingerprint, Promise};
use crate::checkers::phase_one::{Own, Page};
use crate::checkers::rounds::VoteRound;
use quorate_acceptor::Testimony;
use quorate_any::AnyMessage;
use quorate_any::{fast_paxos, paxos};
use quorate_replica::{PeerMessage, ReplicaMessage};
use quorate_types::{Ballot, Batch, NodeId, NodeSet, OrderingName, Slot, VoteKind};

impl Judge {
    /// `node`, in life `life`, lets a message out.
    // Longer than a screen: one arm a testimony.
    pub(in super::super) fn sent(
        &mut self,
        node: NodeId,
        life: u64,
        message: &PeerMessage<AnyMessage>,
    ) -> Judged {
        let (message, view) = match message {
            PeerMessage::Ordering { message, view } => (message, view.number),
            PeerMessage::Replica(ReplicaMessage::Agreed { slot, digest }) => {
                return self.tells_agreed(node, *slot, *digest);
            }
            PeerMessage::Replica(_) => return Ok(()),
        };
        // A damaged log is trimmed in memory only, until it is repaired.
        if let Some(upto) = trimmed(message) {
            self.collects.trimmed(upto);
        }
        match message.testimony() {
            Testimony::Opens { ballot } => self.opened(node, life, ballot),
            Testimony::Passes {
                ballot,
                slot,
                batch,
                ..
            } if ballot.node != node => self.passed_on(node, (slot, ballot), batch),
            Testimony::Proposes {
                ballot,
                slot,
                batch,
                decided,
            }
            | Testimony::Passes {
                ballot,
                slot,
                batch,
                decided,
            } => {
                self.asks_votes((node, life), (slot, ballot), batch)?;
                self.vouching.vouched(node, ballot, decided)
            }
            Testimony::PassesId { ballot, .. } if ballot.node != node => Ok(()),
            Testimony::PassesId { ballot, decided } => self.vouching.vouched(node, ballot, decided),
            Testimony::Spreads { value, commands } => self.spreads(view, value, commands),
            Testimony::ProposesNamed {
                ballot,
                slot,
                stamp,
                values,
                decided,
            } => {
                let batch = self.named_batch(node, (slot, ballot), stamp, values)?;
                self.asks_votes((node, life), (slot, ballot), &batch)?;
                self.vouching.vouched(node, ballot, decided)
            }
            Testimony::ProposesValue {
                ballot,
                value,
                batch,
            } => self.names(ballot.view, value, batch),
            Testimony::Votes {
                ballot,
                kind,
                first,
                last,
            } => match kind {
                VoteKind::Classic => self.accepted(node, ballot, first, last),
                VoteKind::Fast(value) => self.tells_cast(node, first, ballot, value),
            },
            Testimony::Gathers {
                ballot,
                first,
                last,
                voters,
            } => self.gathers(node, ballot, (first, last), voters),
            Testimony::Promises(page) => {
                self.may_vote(node, page.ballot.view)?;
                self.promised(node, page)
            }
            Testimony::AsksLease {
                ballot, decided, ..
            }
            | Testimony::Leads { ballot, decided } => self.vouching.vouched(node, ballot, decided),
            Testimony::TellsDecided { from, batches } => self.tells_decided(node, from, batches),
            Testimony::Surveys { request } => {
                self.surveys(node, view, request);
                Ok(())
            }
            Testimony::Surveyed {
                promised, voted, ..
            } => {
                let written = self.written_in(promised.view);
                written.map_or(Ok(()), |written| written.surveyed(node, promised, voted))
            }
            Testimony::GrantsLease { .. }
            | Testimony::AsksConfirm { .. }
            | Testimony::Confirms { .. }
            | Testimony::Attests { .. }
            | Testimony::AsksDecided { .. }
            | Testimony::AsksPreVote { .. }
            | Testimony::AnswersPreVote { .. }
            | Testimony::Nothing => Ok(()),
        }
    }

    /// `node` asks for votes for a batch in the classic round of a slot.
    fn asks_votes(
        &mut self,
        (node, life): (NodeId, u64),
        (slot, ballot): (Slot, Ballot),
        batch: &Batch,
    ) -> Judged {
        let value = fingerprint(batch);
        // What an earlier life proposed a later one may hand out, to who was multicast to and lacks it.
        if !self.phase_one.has_proposed(slot, ballot, value) {
            self.phase_one.asked(node, life, ballot)?;
        }
        // A value of fast rounds may be voted for in several slots, and win more than one.
        let is_placed = self.governing(ballot.view).ordering != OrderingName::FastPaxos;
        if is_placed && !batch.commands().is_empty() {
            self.phase_one.placed(slot, value)?;
        }
        if batch.is_collecting() {
            self.collects.proposed(slot, ballot);
        }
        self.proposed(node, slot, ballot, value)
    }

    /// A message reaches `node`.
    pub(in super::super) fn arrived(
        &mut self,
        node: NodeId,
        from: NodeId,
        message: &PeerMessage<AnyMessage>,
    ) {
        let PeerMessage::Ordering { message, view } = message else {
            return;
        };
        match message.testimony() {
            Testimony::Promises(page) if page.ballot.node == node && page.next.is_none() => {
                self.phase_one.arrived(from, page.ballot);
            }
            Testimony::Surveyed { request, voted, .. } => {
                self.surveyed((node, from), view.number, (request, voted));
            }
            Testimony::Surveys { .. } => self.surveyed_by((node, from), view.number),
            _ => {}
        }
    }

    /// The ballots in which `node` proposed something else than `batch` for `slot`.
    pub(in super::super) fn proposed_otherwise(
        &self,
        node: NodeId,
        slot: Slot,
        batch: &Batch,
    ) -> Vec<Ballot> {
        let of_slot = (slot, Ballot::ZERO)..(slot.next(), Ballot::ZERO);
        let proposed = self.proposed.range(of_slot);
        let own = proposed.filter(|((_, ballot), _)| ballot.node == node);
        let mut otherwise: Vec<_> = own.map(|((_, ballot), value)| (*ballot, *value)).collect();
        if !otherwise.is_empty() {
            let value = fingerprint(batch);
            otherwise.retain(|(_, proposed)| *proposed != value);
        }
        otherwise.into_iter().map(|(ballot, _)| ballot).collect()
    }

    fn opened(&mut self, node: NodeId, life: u64, ballot: Ballot) -> Judged {
        self.views.0.acts(node, ballot.view, "opens a ballot")?;
        if let Some(written) = self.written_in(ballot.view) {
            written.told_promise(node, ballot)?;
        }
        if self.opened.insert((node, life, ballot)) {
            let is_whole = !self.forgetful.contains_key(&node) && !self.damaged.contains(&node);
            let own = match self.written_in(ballot.view) {
                Some(written) if is_whole => Own::Whole(written.votes(node)),
                Some(written) => Own::Part(written.votes(node)),
                None => Own::Unknown,
            };
            self.phase_one.opened(ballot, own);
            self.agreement_in(ballot.view).opened(node, ballot)?;
        }
        Ok(())
    }

    fn proposed(&mut self, node: NodeId, slot: Slot, ballot: Ballot, value: Fingerprint) -> Judged {
        self.views.0.proposes(node, ballot.view, slot)?;
        self.chosen.proposed(node, slot, ballot, value)?;
        self.phase_one.proposed(node, slot, ballot, value)?;
        self.vouching.proposed(slot, ballot, value);
        let first = *self.proposed.entry((slot, ballot)).or_insert(value);
        if first == value {
            return Ok(());
        }
        broken(
            Property::OneValuePerBallot,
            format!("{node} proposes {value:016x} in {slot} {ballot} after {first:016x}"),
        )
    }

    /// `node` tells its vote in these slots, if it is one of the voters, and those of others.
    fn gathers(
        &mut self,
        node: NodeId,
        ballot: Ballot,
        (first, last): (Slot, Slot),
        voters: NodeSet,
    ) -> Judged {
        if voters.contains(node) {
            self.accepted(node, ballot, first, last)?;
        }
        let others = voters.without(node);
        let mut slots = (first.0..=last.0).map(Slot);
        slots.try_for_each(|slot| self.gathered(node, slot, ballot, others))
    }

    /// `node` passes a proposal on: as its leader made it.
    fn passed_on(&self, node: NodeId, (slot, ballot): (Slot, Ballot), batch: &Batch) -> Judged {
        let value = fingerprint(batch);
        if self.proposed.get(&(slot, ballot)) == Some(&value) {
            return Ok(());
        }
        broken(
            Property::OneValuePerBallot,
            format!("{node} passes {value:016x} on in {slot} {ballot}, which nobody proposed"),
        )
    }

    /// `node` says that others voted: each has told its vote before, unless the slot is decided.
    fn gathered(&self, node: NodeId, slot: Slot, ballot: Ballot, others: NodeSet) -> Judged {
        let told = self.voters.get(&(slot, ballot)).copied();
        let told = told.unwrap_or_default();
        let is_decided = |voter| {
            self.decided_by
                .get(&voter)
                .is_some_and(|upto| slot <= *upto)
        };
        let mut silent = others
            .iter()
            .filter(|voter| !told.contains(*voter) && !is_decided(*voter));
        match silent.next() {
            Some(voter) if !self.log.contains_key(&slot) => broken(
                Property::PromiseKept,
                format!("{node} says that {voter} voted in {slot} {ballot}, which did not say so"),
            ),
            Some(_) | None => Ok(()),
        }
    }

    fn tells_decided(&self, node: NodeId, from: Slot, batches: &[Batch]) -> Judged {
        for (slot, batch) in (from.0..).map(Slot).zip(batches) {
            let value = fingerprint(batch);
            self.chosen.decided(node, slot, value)?;
            let known = self.log.get(&slot).map(fingerprint);
            if known.is_some_and(|known| known != value) {
                return broken(
                    Property::Agreement,
                    format!("{node} tells that {value:016x} was decided in {slot}, {known:x?} was"),
                );
            }
        }
        Ok(())
    }

    fn accepted(&mut self, node: NodeId, ballot: Ballot, first: Slot, last: Slot) -> Judged {
        self.may_vote(node, ballot.view)?;
        self.views.0.acts(node, ballot.view, "votes")?;
        // Who has decided a slot may say that it voted there without a record of the vote: nothing depends on it any more.
        let decided = self.decided_by.get(&node).copied().unwrap_or_default();
        let is_told_to_all = match self.governing(ballot.view).ordering {
            OrderingName::Paxos | OrderingName::RingPaxos | OrderingName::SPaxos => false,
            OrderingName::Libpaxos | OrderingName::LibpaxosPlus | OrderingName::FastPaxos => true,
        };
        if is_told_to_all {
            // It may know of a decision by its own vote and the others' before it tells it, and may not yet have handed it up.
            for slot in (first.0..=last.0.min(decided.0)).map(Slot) {
                if self.has_voted(node, slot, ballot) {
                    self.voters.entry((slot, ballot)).or_default().insert(node);
                }
            }
        }
        for slot in (first.0.max(decided.0 + 1)..=last.0).map(Slot) {
            let proposed = self.proposed.get(&(slot, ballot)).copied();
            if proposed.is_none() && node == ballot.node {
                // A leader that could ask nobody yet tells its own vote.
                self.voters.entry((slot, ballot)).or_default().insert(node);
                continue;
            }
            let Some(value) = proposed else {
                return broken(
                    Property::OneValuePerBallot,
                    format!("{node} votes in {slot} {ballot}, where nothing was proposed"),
                );
            };
            if let Some(written) = self.written_in(ballot.view) {
                written.told_vote(node, slot, ballot)?;
            }
            self.votes_for_trim(node, slot, ballot)?;
            self.agreement_in(ballot.view)
                .voted(node, slot, ballot, value)?;
            self.chosen.voted(node, slot, ballot, value)?;
            self.voters.entry((slot, ballot)).or_default().insert(node);
        }
        Ok(())
    }

    fn promised(&mut self, node: NodeId, page: &quorate_acceptor::Promise) -> Judged {
        self.views.0.acts(node, page.ballot.view, "promises")?;
        if let Some(written) = self.written_in(page.ballot.view) {
            written.told_promise(node, page.ballot)?;
        }
        // A page may show votes of its own ballot that are being written. They are told to nobody: who proposes in a ballot has
        // ended its phase 1, and reads no page of it.
        for vote in page.votes.iter().filter(|vote| vote.ballot < page.ballot) {
            let round = VoteRound::of(vote.ballot, vote.kind);
            self.names_of(vote.ballot.view, vote.kind, &vote.batch)?;
            if let Some(written) = self.written_in(page.ballot.view) {
                written.told_vote(node, vote.slot, round)?;
            }
            let value = fingerprint(&vote.batch);
            self.agreement_in(page.ballot.view)
                .voted(node, vote.slot, round, value)?;
            self.chosen.voted(node, vote.slot, round, value)?;
        }
        let votes = page.votes.iter();
        let round = |vote: &quorate_acceptor::Vote| VoteRound::of(vote.ballot, vote.kind);
        let votes = votes.map(|vote| (vote.slot, round(vote), fingerprint(&vote.batch)));
        let told = Page {
            floor: page.decided.max(page.trimmed),
            votes: votes.collect(),
            is_ignorant: !page.unknown.is_empty(),
            is_last: page.next.is_none(),
        };
        self.phase_one.told(node, page.ballot, told);
        let end = page.next.map_or(u64::MAX, |next| next.previous().0);
        let promise = Promise {
            covers: page.from.0..=end,
            floor: page.decided.max(page.trimmed),
            votes: page
                .votes
                .iter()
                .map(|vote| (vote.slot, round(vote)))
                .collect(),
            unknown: page.unknown.iter().copied().collect(),
        };
        self.agreement_in(page.ballot.view)
            .promised(node, page.ballot, promise)
    }
}

/// Up to where the sender of a message says that its log is trimmed.
fn trimmed(message: &AnyMessage) -> Option<Slot> {
    match message {
        AnyMessage::Paxos(paxos::Message::Trimmed(trimmed)) => Some(trimmed.upto),
        AnyMessage::FastPaxos(fast_paxos::Message::Trimmed(trimmed)) => Some(trimmed.upto),
        AnyMessage::Paxos(_) | AnyMessage::FastPaxos(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::setup::Setup;
    use super::*;
    use crate::checkers::liveness::Liveness;
    use quorate_any::paxos::{Message, message::Accepted};
    use quorate_ordering::{Entry, Record};
    use quorate_types::{GroupId, Persistence, Quorums, Stamp, ViewId, ViewNumber, Wall};

    const SLOT: Slot = Slot(1);
    const VIEW: ViewId = ViewId {
        group: GroupId(1),
        number: ViewNumber(1),
    };

    /// The judge of three acceptors with disks. Node 1 proposed in [`SLOT`], and its own vote is durable.
    fn judge() -> (Judge, Ballot, Batch) {
        let mut setup = Setup::from_seed(0);
        (setup.nodes, setup.acceptors) = (3, 3);
        setup.quorums = Quorums::majority(3).unwrap();
        setup.persistence = Persistence::Disk;
        let mut judge = Judge::new(Liveness::new(1, 0), &setup.view());
        let ballot = Ballot::ZERO.next(VIEW.number, NodeId(1), 1);
        let stamp = Stamp {
            wall: Wall(5),
            entropy: 0,
        };
        let batch = Batch::new(stamp, Vec::new());
        judge.proposed.insert((SLOT, ballot), fingerprint(&batch));
        votes(&mut judge, 1, ballot, &batch);
        (judge, ballot, batch)
    }

    /// The vote of `node` is durable.
    fn votes(judge: &mut Judge, node: u16, ballot: Ballot, batch: &Batch) {
        let (slot, batch) = (SLOT, batch.clone());
        let entry = Entry::Vote {
            slot,
            ballot,
            kind: quorate_types::VoteKind::Classic,
            batch,
        };
        let record = Record { view: VIEW, entry };
        judge.wrote(NodeId(node), &record).unwrap();
    }

    /// `node` tells its vote.
    fn tells(judge: &mut Judge, node: u16, ballot: Ballot) -> Judged {
        let (first, last) = (SLOT, SLOT);
        let accepted = Message::Accepted(Accepted {
            ballot,
            first,
            last,
        });
        let message = PeerMessage::Ordering {
            view: VIEW,
            message: AnyMessage::Paxos(accepted),
        };
        judge.sent(NodeId(node), 1, &message)
    }

    #[test]
    fn a_vote_without_a_record_is_found_where_only_other_nodes_know_the_slot_to_be_decided() {
        let (mut judge, ballot, batch) = judge();
        votes(&mut judge, 2, ballot, &batch);
        tells(&mut judge, 2, ballot).unwrap();
        judge.decided(NodeId(1), SLOT, &batch).unwrap();
        judge.decided(NodeId(2), SLOT, &batch).unwrap();
        let found = tells(&mut judge, 3, ballot).unwrap_err();
        assert_eq!(found.property, Property::Remembered);
        assert!(found.detail.contains("n3 tells a vote in s1"), "{found:?}");
        judge.knows(NodeId(3), SLOT);
        tells(&mut judge, 3, ballot).expect("nothing depends on its vote any more");
    }
}
