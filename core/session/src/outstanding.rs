//! Operations that have no answer yet, in the order in which they were begun.

use quorate_types::{
    Digest, Duration, GroupChange, Level, Levels, LimitChange, Member, MemberRole, NodeId,
    ObjectId, OrderingName, QuorumRule, ReadLevel, Secret, SecretHash, Slot, Time, Value,
    ViewChange,
};
use std::collections::{BTreeMap, VecDeque};

/// Names an operation of one client for as long as the client lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Ticket {
    /// A call of the session, counted from 1.
    Call(u64),
    /// A read or another request, counted from 1 apart from the calls.
    Request(u64),
}

impl Ticket {
    /// One number for both kinds, which no other ticket of the client has.
    #[must_use]
    pub fn index(self) -> u64 {
        match self {
            Ticket::Call(number) => number * 2,
            Ticket::Request(number) => number * 2 + 1,
        }
    }
}

/// What a client may ask for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// A call, executed at most once.
    Call {
        /// The object called.
        object: ObjectId,
        /// Method and arguments.
        payload: Value,
    },
    /// A call like any other, whose client also wants to hear at once what it returns where objects execute it before it is decided.
    EarlyCall {
        /// The object called.
        object: ObjectId,
        /// Method and arguments.
        payload: Value,
    },
    /// A call that changes nothing.
    Read {
        /// The object read.
        object: ObjectId,
        /// Method and arguments.
        payload: Value,
        /// How fresh the answer must be.
        level: ReadLevel,
    },
    /// A snapshot on every replica.
    Checkpoint,
    /// In a frozen group, the state of one replica for every replica.
    Reset {
        /// The node of the replica.
        node: NodeId,
        /// The start of that node.
        boot: u64,
        /// The slot of its snapshot.
        slot: Slot,
        /// What that snapshot holds.
        digest: Digest,
    },
    /// The skip of a call at which objects stand still.
    Skip {
        /// The slot of the call.
        slot: Slot,
        /// Its index in the batch of that slot.
        index: u32,
        /// Even if a replica may have executed it.
        is_unsafe: bool,
    },
    /// The next view of the group.
    ChangeView {
        /// What changes.
        change: ViewChange,
        /// Who is no member any more from then on.
        leaves: Option<NodeId>,
    },
    /// Another level of the group.
    SetLevel {
        /// The view that is changed.
        change: ViewChange,
        /// The level from then on.
        level: Level,
    },
    /// Another way to order the group's commands.
    SwitchOrdering {
        /// The view that is changed.
        change: ViewChange,
        /// The ordering from then on.
        ordering: OrderingName,
    },
    /// Other quorums.
    SetQuorums {
        /// The view that is changed.
        change: ViewChange,
        /// How many acceptors each phase needs from then on.
        rule: QuorumRule,
    },
    /// Another limit.
    SetLimit {
        /// The view that is changed.
        change: ViewChange,
        /// The limit from then on.
        limit: LimitChange,
    },
    /// Another leader.
    MoveLeader {
        /// Who is to lead.
        node: NodeId,
    },
    /// An invitation to join the group.
    Invite {
        /// The hash of the secret that whoever joins must have.
        invitation: SecretHash,
        /// For how long it is open.
        lasts: Duration,
    },
    /// A node that was invited becomes a member.
    Join {
        /// What changes besides.
        change: ViewChange,
        /// The node.
        member: Member,
        /// What it was invited with.
        secret: Secret,
        /// What it speaks.
        speaks: Levels,
        /// What it does as a member.
        role: MemberRole,
    },
    /// A group more, or less.
    ChangeGroups {
        /// What changes.
        change: GroupChange,
    },
}

impl Operation {
    /// Whether it is executed at most once, in a session.
    #[must_use]
    pub fn is_call(&self) -> bool {
        matches!(self, Operation::Call { .. } | Operation::EarlyCall { .. })
    }

    /// Bytes of method and arguments.
    pub(crate) fn payload_len(&self) -> usize {
        match self {
            Operation::Call { payload, .. }
            | Operation::EarlyCall { payload, .. }
            | Operation::Read { payload, .. } => payload.len(),
            Operation::Checkpoint
            | Operation::Reset { .. }
            | Operation::Skip { .. }
            | Operation::Invite { .. }
            | Operation::ChangeGroups { .. }
            | Operation::MoveLeader { .. }
            | Operation::Join { .. }
            | Operation::SetLevel { .. }
            | Operation::SwitchOrdering { .. }
            | Operation::SetQuorums { .. }
            | Operation::SetLimit { .. }
            | Operation::ChangeView { .. } => 0,
        }
    }
}

/// How often an operation may be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Attempts {
    /// Until it is answered or its deadline passes: what was refused for the moment, or sent on a connection that was lost,
    /// is sent again.
    #[default]
    Many,
    /// Once: it ends with what kept that one copy from an answer.
    One,
    /// Like `Many`, but only in the session that follows so many ended ones: in a later one it could undo what that one has done.
    InSession(u64),
}

/// An operation without an answer.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) operation: Operation,
    pub(crate) deadline: Time,
    pub(crate) attempts: Attempts,
    /// Copies sent in the current session for which no replica has said that nothing happened.
    pub(crate) copies: u32,
    /// When its first copy was sent in the current session.
    pub(crate) sent_at: Option<Time>,
    /// Nodes in a row that had no room on their disk for it.
    pub(crate) full_nodes: usize,
    /// When to send it again after a refusal; `None` while it waits for an answer.
    pub(crate) resend_at: Option<Time>,
    /// Nobody waits for it: how it ends is not told.
    pub(crate) is_given_up: bool,
    /// Refusals since it was parked, each of which doubles the pause: many calls may wait for long.
    pub(crate) parked_refusals: u32,
    pub(crate) tentative: Tentative,
}

/// What was told of a call before it was decided. It answers nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tentative {
    /// The newest on this connection, which its node may confirm. Boxed, since calls are moved and few have one.
    pub(crate) confirmable: Option<Box<Value>>,
    /// The caller has heard one.
    pub(crate) is_told: bool,
}

impl Pending {
    /// Whether a replica may have executed it in the current session.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.copies > 0
    }

    /// Whether it ends with the session.
    pub(crate) fn is_of_session(&self) -> bool {
        matches!(self.attempts, Attempts::InSession(_)) || self.is_in_doubt()
    }

    /// Whether it was sent and may not be sent again.
    pub(crate) fn is_spent(&self) -> bool {
        self.attempts == Attempts::One && self.copies > 0
    }
}

/// Pending operations by consecutive number; answered ones leave holes until the oldest goes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outstanding {
    first: u64,
    entries: VecDeque<Option<Pending>>,
    count: usize,
    /// Calls that wait in the group. They hold nothing up: those after them are acknowledged without them.
    /// Invariant: they are in doubt, because they were executed.
    parked: BTreeMap<u64, Pending>,
    /// Some that are parked may be due to be sent again. Invariant: else none of them has a time for that, and none is looked at.
    resends_parked: bool,
}

impl Outstanding {
    pub(crate) fn starting_at(first: u64) -> Outstanding {
        Outstanding {
            first,
            entries: VecDeque::new(),
            count: 0,
            parked: BTreeMap::new(),
            resends_parked: false,
        }
    }

    /// Adds an operation; returns its number.
    pub(crate) fn push(&mut self, pending: Pending) -> u64 {
        self.entries.push_back(Some(pending));
        self.count += 1;
        self.first + self.entries.len() as u64 - 1
    }

    /// A call waits in the group: no timer of this client ends that.
    pub(crate) fn park(&mut self, number: u64) {
        if let Some(mut pending) = self.take_entry(number) {
            pending.deadline = Time(u64::MAX);
            pending.resend_at = None;
            pending.copies = pending.copies.max(1);
            pending.tentative.confirmable = None;
            self.parked.insert(number, pending);
        } else if let Some(pending) = self.parked.get_mut(&number) {
            pending.parked_refusals = 0;
        }
    }

    /// Calls that wait in the group.
    pub(crate) fn parked(&self) -> usize {
        self.parked.len()
    }

    /// Takes the operation out; `None` if it was answered before.
    pub(crate) fn take(&mut self, number: u64) -> Option<Pending> {
        self.take_entry(number)
            .or_else(|| self.parked.remove(&number))
    }

    fn take_entry(&mut self, number: u64) -> Option<Pending> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let taken = self.entries.get_mut(index)?.take();
        if taken.is_some() {
            self.count -= 1;
        }
        while matches!(self.entries.front(), Some(None)) {
            self.entries.pop_front();
            self.first += 1;
        }
        taken
    }

    pub(crate) fn pending_mut(&mut self, number: u64) -> Option<&mut Pending> {
        if self.parked.contains_key(&number) {
            return self.parked.get_mut(&number);
        }
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.entries.get_mut(index)?.as_mut()
    }

    /// Whether the operation waits in the group.
    pub(crate) fn is_parked(&self, number: u64) -> bool {
        self.parked.contains_key(&number)
    }

    /// Every number below this one is answered or parked.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// The number that the next operation gets.
    pub(crate) fn next_number(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// How many there are beside those that are parked.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// All, those that are parked last.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut Pending)> {
        let first = self.first;
        let entries = self.entries.iter_mut().enumerate();
        let entries =
            entries.filter_map(move |(i, entry)| Some((first + i as u64, entry.as_mut()?)));
        entries.chain(
            self.parked
                .iter_mut()
                .map(|(number, pending)| (*number, pending)),
        )
    }

    /// Whether nobody waits for some.
    pub(crate) fn has_given_up(&self) -> bool {
        let mut pending = self.entries.iter().flatten().chain(self.parked.values());
        pending.any(|p| p.is_given_up)
    }

    /// The earliest deadline.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.entries.iter().flatten().map(|p| p.deadline).min()
    }

    /// Has an operation sent again at that time, if it has no answer by now.
    pub(crate) fn resend(&mut self, number: u64, at: Time) {
        self.resends_parked |= self.is_parked(number);
        if let Some(pending) = self.pending_mut(number) {
            pending.resend_at = Some(at);
        }
    }

    /// When the first refused operation is sent again.
    pub(crate) fn next_resend(&self) -> Option<Time> {
        let parked = self.resends_parked.then(|| self.parked.values());
        let pending = self.entries.iter().flatten();
        let pending = pending.chain(parked.into_iter().flatten());
        pending.filter_map(|p| p.resend_at).min()
    }

    /// The operations that are to be sent again, those that are parked last.
    pub(crate) fn due(&mut self, now: Time) -> Vec<u64> {
        let is_due = |pending: &Pending| pending.resend_at.is_some_and(|at| now >= at);
        let entries = self.entries.iter().zip(self.first..);
        let entries = entries.filter(|(entry, _)| entry.as_ref().is_some_and(is_due));
        let mut due: Vec<u64> = entries.map(|(_, number)| number).collect();
        if self.resends_parked {
            let parked = self.parked.iter().filter(|(_, pending)| is_due(pending));
            due.extend(parked.map(|(number, _)| *number));
            self.resends_parked = self.parked.values().any(|p| p.resend_at.is_some());
        }
        due
    }
}
