//! Expiry of sessions: only the leader judges it, only the log ends a session.
//!
//! `docs/sessions.md` proves that an acknowledged keepalive keeps its promise over any change of leaders.
//! Each session has its own expiry time; nothing here runs per command.

use crate::limits::{DUE_SLACK, EXPIRIES_PER_SWEEP, KEEPALIVES_WAITING, SWEEP_EVERY};
use crate::local::clients::{opened_in, refuse, reply};
use crate::local::disconnects::Disconnect;
use crate::local::internal::Purpose;
use crate::local::noting::{Gathering, Learning, Noting};
use crate::local::reads::Keeper;
use crate::local::served::ServedTime;
use crate::local::signs::Signs;
use crate::replicated::expiry::Lead;
use crate::replicated::sessions::Sessions;
use crate::replicated::window::Session;
use crate::{Output, PeerMessage, Replica, ReplicaMessage};
use quorate_ordering::{Lane, Ordering, Role};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{
    Ask, Attachment, Ballot, Body, CommandId, ConnectionId, NodeId, NodeSet, Refusal, SessionId,
    SessionTerms, Tenancy, Time, ToClient,
};
use std::collections::{BTreeMap, BTreeSet};

/// The number of a sign of life that wants no answer: those of keepalives begin with the number of the start.
const UNANSWERED: u64 = 0;

/// The signs of life that this node knows as the leader, and those it forwarded to the leader.
#[derive(Debug)]
pub(crate) struct Expiry {
    /// This node's own leadership, while it lasts.
    pub(crate) term: Option<Term>,
    /// Keepalives that this node forwarded without an answer.
    forwarded: BTreeMap<SessionId, Forwarded>,
    /// Of the newest keepalive that was forwarded: the start in the high bits, a count in the low 32.
    number: u64,
    /// What this node asked its leader after its start.
    pub(crate) learning: Learning,
    pub(crate) numbers: NoteNumbers,
}

/// Numbers of notes, and of questions for them: the start in the high bits, a count in the low 32.
#[derive(Debug)]
pub(crate) struct NoteNumbers(u64);

impl NoteNumbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

/// A connection that waits for answers to keepalives that were forwarded.
#[derive(Debug)]
struct Forwarded {
    waiter: ConnectionId,
    /// The first one without an answer. Answers to earlier ones may be copies, or for a connection that ended, and say
    /// nothing about this one.
    first: u64,
    last: u64,
}

#[derive(Debug)]
pub(crate) struct Term {
    ballot: Ballot,
    is_lead_submitted: bool,
    /// Until a quorum has told what it knows of signs of life.
    pub(crate) gathering: Option<Gathering>,
    pub(crate) noting: Noting,
    /// Sessions whose expiry is proposed, and the command; `None` once its fate is unknown.
    expiring: BTreeMap<SessionId, Option<CommandId>>,
    /// Some proposal was refused as `Unknown`: from then on none is forgotten before it is decided.
    has_lost_sight: bool,
    /// When to look at each session again. A session expires no earlier: who gives a sign of life is looked at once in its
    /// expiry time. Entries of sessions that ended go when they are looked at.
    due: BTreeSet<(ServedTime, SessionId)>,
    /// Connections that clients have closed, of sessions that may end earlier then. Invariant: as the open sessions, and a few more.
    closed: BTreeMap<SessionId, Disconnect>,
    /// The sessions up to this one are in `due`, or have ended.
    known: SessionId,
    sweep_at: Time,
}

impl Expiry {
    /// Numbers of keepalives that earlier starts forwarded are below those of this one.
    pub(crate) fn new(boot: u64) -> Expiry {
        Expiry {
            term: None,
            forwarded: BTreeMap::new(),
            number: boot << 32,
            learning: Learning::default(),
            numbers: NoteNumbers(boot << 32),
        }
    }

    /// The number under which a keepalive of this connection is forwarded.
    fn forward(&mut self, session: SessionId, waiter: ConnectionId) -> u64 {
        self.number += 1;
        let number = self.number;
        let waits = self.forwarded.get_mut(&session);
        if let Some(waits) = waits.filter(|waits| waits.waiter == waiter) {
            waits.last = number;
        } else {
            let waits = Forwarded {
                waiter,
                first: number,
                last: number,
            };
            self.forwarded.insert(session, waits);
        }
        number
    }

    /// The connection whose keepalive had this number, if it waits for the answer.
    fn answered(&mut self, session: SessionId, number: u64) -> Option<ConnectionId> {
        let waits = self.forwarded.get_mut(&session)?;
        if !(waits.first..=waits.last).contains(&number) {
            return None;
        }
        let waiter = waits.waiter;
        waits.first = number + 1;
        if number == waits.last {
            self.forwarded.remove(&session);
        }
        Some(waiter)
    }

    pub(crate) fn lead_refused(&mut self) {
        if let Some(term) = &mut self.term {
            term.is_lead_submitted = false;
        }
    }

    /// Only this term's newest proposal ends the wait: earlier ones of unknown fate were judged earlier and
    /// change nothing that this one did not change.
    pub(crate) fn expiry_decided(&mut self, session: SessionId, id: CommandId) {
        if let Some(term) = &mut self.term
            && term.expiring.get(&session) == Some(&Some(id))
        {
            term.expiring.remove(&session);
        }
    }

    /// A proposal that may still be ordered keeps the session from being acknowledged.
    pub(crate) fn expiry_refused(&mut self, session: SessionId, id: CommandId, refusal: Refusal) {
        let Some(term) = &mut self.term else { return };
        if term.expiring.get(&session) != Some(&Some(id)) {
            return;
        }
        if refusal.may_have_executed() || term.has_lost_sight {
            term.has_lost_sight = true;
            term.expiring.insert(session, None);
        } else {
            term.expiring.remove(&session);
        }
    }

    /// A snapshot covered slots: proposals of this term may have been decided in them, or may still be.
    pub(crate) fn lost_sight(&mut self) {
        if let Some(term) = &mut self.term {
            term.is_lead_submitted = false;
            term.has_lost_sight = true;
            term.expiring.values_mut().for_each(|id| *id = None);
        }
    }

    /// The connection ended: it needs no answer to a keepalive any more.
    pub(crate) fn disconnected(&mut self, connection: ConnectionId) {
        self.forwarded.retain(|_, waits| waits.waiter != connection);
    }

    /// When a leader looks at its sessions again. Where there are none it needs no clock: the next one comes with a turn.
    pub(crate) fn next_wake(&self, sessions: usize) -> Option<Time> {
        let term = self.term.as_ref()?;
        let is_idle = sessions == 0
            && term.gathering.is_none()
            && term.due.is_empty()
            && term.expiring.is_empty();
        (!is_idle).then_some(term.sweep_at)
    }

    /// Whether this node leads and its own `Lead` is the newest in the log.
    fn judges(&self, lead: Lead) -> bool {
        let term = self.term.as_ref();
        term.is_some_and(|term| term.ballot == lead.ballot)
    }

    /// Whether as many keepalives wait for a quorum's notes as may.
    pub(crate) fn is_noting_full(&self) -> bool {
        let term = self.term.as_ref();
        term.is_some_and(|term| term.noting.is_full())
    }

    fn is_expiring(&self, session: SessionId) -> bool {
        let term = self.term.as_ref();
        term.is_some_and(|term| term.expiring.contains_key(&session))
    }
}

impl Term {
    fn begun(now: Time, ballot: Ballot, gathering: Gathering) -> Term {
        Term {
            ballot,
            is_lead_submitted: false,
            gathering: Some(gathering),
            noting: Noting::default(),
            expiring: BTreeMap::new(),
            has_lost_sight: false,
            due: BTreeSet::new(),
            closed: BTreeMap::new(),
            known: SessionId::NONE,
            sweep_at: now + SWEEP_EVERY,
        }
    }

    /// More is known of signs of life: every session is looked at again.
    pub(crate) fn look_again(&mut self) {
        self.due.clear();
        self.known = SessionId::NONE;
    }

    /// A node says that the client of a session has closed a connection. It may have done so long ago: whether that counts is
    /// judged when the session may end.
    pub(crate) fn told_of_close(&mut self, id: SessionId, close: Disconnect, open: &Sessions) {
        let short = open.session(id).and_then(|known| known.terms.on_disconnect);
        let before = self.closed.get(&id).map(|before| before.attachment);
        let Some(short) = short.filter(|_| before < Some(close.attachment)) else {
            return;
        };
        if self.closed.len() > open.len() + DUE_SLACK {
            self.closed.retain(|id, _| open.session(*id).is_some());
        }
        self.closed.insert(id, close);
        self.due.insert((close.at.after(short), id));
    }

    /// Until when a session lives if its client, whose newest sign of life came then, is not heard again.
    fn lives_until(
        &self,
        sign: ServedTime,
        id: SessionId,
        known: &Session,
        signs: &Signs,
    ) -> ServedTime {
        let expiry = if planted(Plant::ExpiryOfGroup) {
            SessionTerms::EXPIRY_DEFAULT
        } else {
            known.terms.expiry
        };
        let until = sign.after(expiry);
        // Before a quorum has told what it knows, the client may have been heard on a later connection.
        let closed = self.closed.get(&id).filter(|_| self.gathering.is_none());
        let (Some(closed), Some(short)) = (closed, known.terms.on_disconnect) else {
            return until;
        };
        let heard = signs.attachment(id);
        let is_latest = heard.is_some_and(|heard| heard <= closed.attachment);
        if is_latest || planted(Plant::LateCloseCounts) {
            until.min(closed.at.max(sign).after(short))
        } else {
            until
        }
    }

    /// The sessions without a sign of life for their expiry time whose end is not under way.
    fn expired(&mut self, now: Time, signs: &Signs, sessions: &Sessions) -> BTreeSet<SessionId> {
        let present = signs.served.least();
        for id in sessions.opened_after(self.known) {
            self.due.insert((present, id));
            self.known = id;
        }
        if self.due.len() > 2 * sessions.len() + DUE_SLACK {
            let is_open = |id| sessions.session(id).is_some();
            self.due.retain(|(_, id)| is_open(*id));
            if self.due.len() > 2 * sessions.len() + DUE_SLACK {
                self.look_again();
            }
        }
        let floor = self.gathering.as_ref().map(|gathering| gathering.floor);
        // A session may be due twice, and is proposed once: were one of two copies refused, the other might still end it.
        let mut expired = BTreeSet::new();
        while expired.len() < EXPIRIES_PER_SWEEP
            && let Some((at, id)) = self.due.pop_first()
        {
            if at > present {
                self.due.insert((at, id));
                break;
            }
            let Some(session) = sessions.session(id) else {
                self.expiring.remove(&id);
                continue;
            };
            let sign = signs.of(now, id, session);
            let sign = floor.map_or(sign, |floor| sign.max(floor));
            let lives_until = self.lives_until(sign, id, session, signs);
            if lives_until > present {
                self.due.insert((lives_until, id));
                continue;
            }
            self.due.insert((present.after(SWEEP_EVERY), id));
            if !matches!(self.expiring.get(&id), Some(Some(_))) {
                expired.insert(id);
            }
        }
        expired
    }
}

impl<O: Ordering> Replica<O> {
    /// A new leader counts every session as active from this moment, until a quorum has told it more.
    pub(crate) fn begin_term(&mut self, now: Time, role: Role) {
        self.expiry.forwarded.clear();
        self.disconnects.tell_again(now);
        match role {
            Role::Leader { ballot } => {
                let is_same = self.expiry.term.as_ref().map(|term| term.ballot) == Some(ballot);
                if !is_same {
                    let floor = self.signs.served.most(now);
                    let gathering = Gathering::new(now, floor, self.expiry.numbers.next());
                    self.expiry.term = Some(Term::begun(now, ballot, gathering));
                }
            }
            Role::Candidate { .. } | Role::Follower { .. } => self.expiry.term = None,
        }
    }

    /// At the end of a turn: makes the own leadership known in the log, and sweeps when it is due.
    pub(crate) fn tend_sessions(&mut self, now: Time) {
        self.signs.sample(now, self.replicated.applied);
        let lead = self.replicated.lead;
        let judges = self.expiry.judges(lead);
        let Some(term) = &mut self.expiry.term else {
            return;
        };
        if judges && term.gathering.is_none() {
            self.signs.leads_since(lead.slot);
        }
        if !judges && !term.is_lead_submitted && term.ballot > self.replicated.lead.ballot {
            term.is_lead_submitted = true;
            let ballot = term.ballot;
            self.submit(Purpose::Lead, Body::Lead { ballot });
        } else if judges && term.sweep_at <= now {
            self.sweep(now);
        } else if term.sweep_at <= now {
            term.sweep_at = now + SWEEP_EVERY;
        }
    }

    fn sweep(&mut self, now: Time) {
        let judged_by = self.replicated.applied;
        let Some(term) = &mut self.expiry.term else {
            return;
        };
        term.sweep_at = now + SWEEP_EVERY;
        if planted(Plant::SessionsKept) {
            return;
        }
        let expired = term.expired(now, &self.signs, &self.replicated.sessions);
        for session in expired {
            let body = Body::Expire { session, judged_by };
            let command = self.internals.command(Purpose::Expire(session), body);
            term.expiring.insert(session, Some(command.id));
            self.turn.push(command);
        }
    }

    /// A client shows on a numbered connection that a session is its own, which is a sign of life without an answer. A leader
    /// that hears of it may hear of closed connections with lower numbers later.
    pub(crate) fn attached(
        &mut self,
        now: Time,
        (session, attachment): (SessionId, Attachment),
        out: &mut Vec<Output<O::Message>>,
    ) {
        self.disconnects.attached(session, attachment);
        if self.expiry.term.is_some() {
            self.heard(now, session, attachment);
        } else if let Some(leader) = self.leader() {
            out.push(Output::Send {
                to: NodeSet::only(leader),
                lane: Lane::Urgent,
                message: PeerMessage::Replica(ReplicaMessage::KeepAlive {
                    session,
                    number: UNANSWERED,
                    attachment,
                }),
            });
        }
    }

    /// A peer forwards a sign of life.
    pub(crate) fn peer_keepalive(
        &mut self,
        now: Time,
        (from, number): (NodeId, u64),
        (session, attachment): (SessionId, Attachment),
        out: &mut Vec<Output<O::Message>>,
    ) {
        let is_ahead = opened_in(session) > self.replicated.applied;
        if number == UNANSWERED && !is_ahead {
            self.heard(now, session, attachment);
        } else {
            let keeper = match is_ahead {
                true => Keeper::Ahead(from, number, attachment),
                false => Keeper::Peer(from, number, attachment),
            };
            self.keepalive(now, (session, attachment), keeper, out);
        }
    }

    /// Whether a client of that tenancy has the session, as far as the log is applied here.
    pub(crate) fn is_of_client(&self, session: SessionId, tenancy: Tenancy) -> Result<(), Refusal> {
        let Some(known) = self.replicated.sessions.session(session) else {
            return Err(Refusal::SessionExpired);
        };
        let is_over = tenancy < known.tenancy() && !planted(Plant::EarlierTenancyKept);
        if is_over {
            Err(Refusal::Superseded)
        } else {
            Ok(())
        }
    }

    /// Only open sessions are noted, for the client that has them: ids that clients invent must not grow the table.
    fn heard(&mut self, now: Time, session: SessionId, attachment: Attachment) {
        let is_of_client = self.is_of_client(session, attachment.tenancy()).is_ok();
        let (applied, open) = (self.replicated.applied, &self.replicated.sessions);
        if self.expiry.term.is_some() && is_of_client {
            self.signs.note(now, (session, attachment), applied, open);
        }
    }

    /// A client's sign of life, connected here or forwarded by a peer.
    pub(crate) fn keepalive(
        &mut self,
        now: Time,
        (session, attachment): (SessionId, Attachment),
        keeper: Keeper,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let has_room = self.has_room_for_keepalive();
        let is_of_client = self.is_of_client(session, attachment.tenancy()).is_ok();
        let (applied, open) = (self.replicated.applied, &self.replicated.sessions);
        if let Some(term) = &mut self.expiry.term {
            if has_room && is_of_client {
                if !planted(Plant::KeepaliveNotNoted) {
                    self.signs.note(now, (session, attachment), applied, open);
                }
                term.noting.arrive(session, attachment, keeper);
            } else if has_room {
                self.reads.arrive_keepalive(session, keeper);
            }
            return;
        }
        let Keeper::Client(connection) = keeper else {
            return;
        };
        let Some(leader) = self.leader() else {
            refuse(out, connection, Ask::Session(session), Refusal::NoLeader);
            return;
        };
        if self.expiry.forwarded.len() >= KEEPALIVES_WAITING {
            refuse(out, connection, Ask::Session(session), Refusal::Overloaded);
            return;
        }
        let number = self.expiry.forward(session, connection);
        out.push(Output::Send {
            to: NodeSet::only(leader),
            lane: Lane::Urgent,
            message: PeerMessage::Replica(ReplicaMessage::KeepAlive {
                session,
                number,
                attachment,
            }),
        });
    }

    /// This node still led after the keepalive had arrived, and has applied everything that was decided
    /// before. There is no answer while an expiry is undecided: the log decides then.
    pub(crate) fn keepalive_confirmed(
        &mut self,
        now: Time,
        session: SessionId,
        keeper: Keeper,
        out: &mut Vec<Output<O::Message>>,
    ) {
        if !self.expiry.judges(self.replicated.lead) || self.expiry.is_expiring(session) {
            return;
        }
        let tenancy = match keeper {
            Keeper::Client(connection) => self
                .connections
                .attachment(connection, session)
                .map_or(Tenancy::FIRST, Attachment::tenancy),
            Keeper::Peer(_, _, attachment) | Keeper::Ahead(_, _, attachment) => {
                attachment.tenancy()
            }
            Keeper::Asker(..) => Tenancy::FIRST,
        };
        let refused = self.is_of_client(session, tenancy).err();
        match keeper {
            Keeper::Asker(node, number) => self.signs_confirmed(now, node, number, out),
            Keeper::Client(connection) => kept_alive(connection, session, refused, out),
            // The session was opened meanwhile: this is a sign of life, to be noted as any other.
            Keeper::Ahead(node, number, attachment) if refused.is_none() => {
                self.peer_keepalive(now, (node, number), (session, attachment), out);
            }
            Keeper::Ahead(_, UNANSWERED, _) => {}
            Keeper::Peer(node, number, _) | Keeper::Ahead(node, number, _) => {
                out.push(Output::Send {
                    to: NodeSet::only(node),
                    lane: Lane::Urgent,
                    message: PeerMessage::Replica(ReplicaMessage::KeptAlive {
                        session,
                        number,
                        refused,
                    }),
                });
            }
        }
    }

    /// The leader answered a forwarded keepalive.
    pub(crate) fn forwarded_keepalive_answered(
        &mut self,
        session: SessionId,
        number: u64,
        refused: Option<Refusal>,
        out: &mut Vec<Output<O::Message>>,
    ) {
        if let Some(connection) = self.expiry.answered(session, number) {
            kept_alive(connection, session, refused, out);
        }
    }
}

fn kept_alive<M>(
    to: ConnectionId,
    session: SessionId,
    refused: Option<Refusal>,
    out: &mut Vec<Output<M>>,
) {
    match refused {
        None => reply(out, to, ToClient::KeptAlive { session }),
        Some(refusal) => refuse(out, to, Ask::Session(session), refusal),
    }
}
