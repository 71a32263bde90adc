//! The replica's part of a snapshot: everything except the objects' state.

use crate::replicated::invitations::Invitation;
use quorate_types::{
    Ballot, Digest, GroupEntry, Outcome, SecretHash, SessionId, SessionTerms, Slot, Stamp, View,
};
use std::hash::Hasher;
use twox_hash::XxHash3_64;

/// Sessions, view and digests after `slot`.
#[derive(Clone, PartialEq, Debug)]
pub struct SnapshotCore {
    /// The slot of the state.
    pub slot: Slot,
    /// Stamp of the newest batch up to the slot.
    pub stamp: Stamp,
    /// Rolling hash of every reply up to the slot.
    pub replies_digest: u64,
    /// The view in force.
    pub view: View,
    /// The highest ballot whose leader began to judge expiry.
    pub lead_ballot: Ballot,
    /// The slot of its `Lead`: expiries judged before it have no effect.
    pub lead_slot: Slot,
    /// The slot of the newest operator's reset; slot 0 if there was none.
    pub reset: Slot,
    /// The invitations to join whose time is not over, oldest first.
    pub invitations: Vec<Invitation>,
    /// The groups beside this one, oldest first.
    pub groups: Vec<GroupEntry>,
    /// The view before that one, if there was one.
    pub previous: Option<View>,
    /// The view that follows: it is decided, and not yet in force.
    pub next: Option<View>,
    /// All open sessions, ascending by id.
    pub sessions: Vec<SessionImage>,
}

impl SnapshotCore {
    /// Whether the snapshot of this part, and of objects with the digest `state`, is known to be wrong: a majority `agreed` on another
    /// one at its slot. No start begins with it: its node differed when it took it, and may have healed since. What is held at the
    /// slot of an operator's reset is compared by the replica itself. Claim rp-135.
    #[must_use]
    pub fn is_refuted(&self, state: [u8; 32], agreed: Option<(Slot, Digest)>) -> bool {
        let replicated = self.digest();
        let held = (self.slot, Digest { replicated, state });
        self.slot > self.reset
            && agreed.is_some_and(|agreed| agreed.0 == held.0 && agreed.1 != held.1)
    }

    /// Hash of everything that replicas agree on at the slot; equal on all that applied the same log.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut digest = Canonical(XxHash3_64::new());
        digest.number(self.slot.0);
        digest.number(self.stamp.wall.0);
        digest.number(self.stamp.entropy);
        digest.number(self.replies_digest);
        digest.view(&self.view);
        digest.number(self.next.is_some().into());
        self.next.iter().for_each(|view| digest.view(view));
        digest.number(self.lead_ballot.round);
        digest.number(u64::from(self.lead_ballot.node.0));
        digest.number(self.lead_ballot.boot);
        digest.number(self.lead_slot.0);
        digest.number(self.reset.0);
        digest.number(self.invitations.len() as u64);
        for invitation in &self.invitations {
            digest.0.write(invitation.hash.bytes());
            digest.number(invitation.until.0);
            digest.number(invitation.is_used.into());
        }
        digest.number(self.groups.len() as u64);
        for group in &self.groups {
            digest.group(group);
        }
        digest.number(self.sessions.len() as u64);
        for session in &self.sessions {
            digest.session(session);
        }
        digest.0.finish()
    }
}

/// Hashes fields in their order; a field of variable length comes after its length.
struct Canonical(XxHash3_64);

impl Canonical {
    fn number(&mut self, number: u64) {
        self.0.write(&number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.write(bytes);
    }

    /// Who belongs to a view is not hashed: a group that is restored from a backup has other nodes, and the same state.
    fn view(&mut self, view: &View) {
        self.number(view.number.0);
        self.number(view.first_slot.0);
    }

    fn group(&mut self, group: &GroupEntry) {
        self.bytes(group.name.as_bytes());
        self.number(group.created.0);
        self.number(group.members.len() as u64);
        for member in &group.members {
            self.number(u64::from(member.node.0));
            self.bytes(member.address.as_bytes());
            self.number(member.voted_as.0);
            self.number(member.incarnation.0);
        }
        self.bytes(&group.setup);
    }

    fn session(&mut self, session: &SessionImage) {
        self.number(session.id.0);
        self.0.write(session.hash.bytes());
        self.0.write(session.tenant.bytes());
        self.number(session.terms.expiry.0);
        self.number(session.terms.on_disconnect.map_or(0, |short| short.0));
        self.number(session.active.0);
        self.number(session.active_wall);
        self.number(session.floor);
        self.number(session.replies.len() as u64);
        for reply in &session.replies {
            self.number(reply.sequence);
            self.number(reply.fingerprint);
            match &reply.state {
                ReplyState::Gone => self.number(0),
                ReplyState::Kept(outcome) => self.outcome(outcome),
                ReplyState::Parked => self.number(4),
                ReplyState::Woken(outcome) => {
                    self.number(5);
                    self.outcome(outcome);
                }
            }
        }
    }

    fn outcome(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Skipped => self.number(1),
            Outcome::Returned(value) => {
                self.number(2);
                self.bytes(value);
            }
            Outcome::Raised(value) => {
                self.number(3);
                self.bytes(value);
            }
        }
    }
}

/// One session in a snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionImage {
    /// The session's id.
    pub id: SessionId,
    /// The hash of its client's secret.
    pub hash: SecretHash,
    /// Stands for the client that has it, of all zeros for one that does not resume sessions.
    pub tenant: SecretHash,
    /// What its client asked of it.
    pub terms: SessionTerms,
    /// The slot of its newest command.
    pub active: Slot,
    /// Wall time (ns) of its newest command's batch.
    pub active_wall: u64,
    /// Every sequence up to this one was executed and its reply acknowledged or dropped, unless it is among `replies`.
    pub floor: u64,
    /// Executed sequences, ascending, with payload fingerprint and reply: those above the floor, and up to it those that are
    /// parked or woken.
    pub replies: Vec<ReplyImage>,
}

/// One kept reply in a snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplyImage {
    /// The command's sequence.
    pub sequence: u64,
    /// Hash of its payload, so that a reused sequence is noticed.
    pub fingerprint: u64,
    /// What is kept of its reply.
    pub state: ReplyState,
}

/// What a session keeps of an executed command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReplyState {
    /// Nothing.
    Gone,
    /// Its outcome, until the client acknowledges it.
    Kept(Outcome),
    /// It is parked: there is no outcome yet.
    Parked,
    /// It was parked, and this is its outcome.
    Woken(Outcome),
}

impl ReplyState {
    /// The outcome, if it is kept.
    #[must_use]
    pub fn outcome(&self) -> Option<&Outcome> {
        match self {
            ReplyState::Kept(outcome) | ReplyState::Woken(outcome) => Some(outcome),
            ReplyState::Gone | ReplyState::Parked => None,
        }
    }
}
