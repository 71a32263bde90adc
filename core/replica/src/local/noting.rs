//! Notes of signs of life between nodes: a leader has a quorum note each keepalive before it confirms it, and a new leader asks
//! a quorum what it has noted. A node that starts asks its leader.
//!
//! Everything here is in memory and may be lost: then a keepalive is not acknowledged, or a session lives longer.

use crate::limits::{KEEPALIVES_WAITING, NOTING_MAX, SIGNS_EVERY};
use crate::local::reads::Keeper;
use crate::local::served::ServedTime;
use crate::local::signs::{KnownSigns, ToldSigns};
use crate::{Output, PeerMessage, Replica, ReplicaMessage, SignsMessage};
use quorate_ordering::{Event, Lane, Ordering};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Attachment, NodeId, NodeSet, SessionId, Time};
use std::collections::BTreeMap;

/// Keepalives of one leadership that a quorum has not noted yet.
#[derive(Debug, Default)]
pub(crate) struct Noting {
    /// Those of this turn.
    arriving: Vec<(SessionId, Attachment, Keeper)>,
    rounds: BTreeMap<u64, Round>,
    /// Keepalives in both; bounded by `KEEPALIVES_WAITING`.
    waiting: usize,
}

#[derive(Debug)]
struct Round {
    began: Time,
    by: NodeSet,
    keepalives: Vec<(SessionId, Keeper)>,
}

/// What a new leader is told of signs of life, until a quorum has told it.
#[derive(Debug)]
pub(crate) struct Gathering {
    /// No earlier leader acknowledged a keepalive that came later.
    pub(crate) floor: ServedTime,
    number: u64,
    began: Time,
    ask_at: Time,
    /// When it asked for the first time.
    asked_at: Option<Time>,
    told: BTreeMap<NodeId, ToldSigns>,
}

/// A question of a node that started, to its leader.
#[derive(Debug, Default)]
pub(crate) struct Learning {
    number: u64,
    asked_at: Option<Time>,
}

impl Noting {
    pub(crate) fn is_full(&self) -> bool {
        self.waiting >= KEEPALIVES_WAITING
    }

    pub(crate) fn arrive(&mut self, session: SessionId, attachment: Attachment, keeper: Keeper) {
        self.arriving.push((session, attachment, keeper));
        self.waiting += 1;
    }

    /// Gives up what no quorum has noted: the clients have asked again.
    pub(crate) fn give_up(&mut self, now: Time) {
        while let Some((number, round)) = self.rounds.first_key_value()
            && round.began + NOTING_MAX <= now
        {
            let (number, given_up) = (*number, round.keepalives.len());
            self.waiting -= given_up;
            self.rounds.remove(&number);
        }
    }

    /// Takes note that a peer has noted a round; what `enough` peers have noted is returned.
    fn noted(&mut self, from: NodeId, number: u64, enough: usize) -> Vec<(SessionId, Keeper)> {
        let Some(round) = self.rounds.get_mut(&number) else {
            return Vec::new();
        };
        round.by.insert(from);
        if round.by.len() < enough {
            return Vec::new();
        }
        let round = self.rounds.remove(&number);
        let keepalives = round.map(|round| round.keepalives).unwrap_or_default();
        self.waiting -= keepalives.len();
        keepalives
    }
}

impl Gathering {
    pub(crate) fn new(now: Time, floor: ServedTime, number: u64) -> Gathering {
        Gathering {
            floor,
            number,
            began: now,
            ask_at: now,
            asked_at: None,
            told: BTreeMap::new(),
        }
    }
}

impl<O: Ordering> Replica<O> {
    /// How many acceptors beside this node are in every quorum of `count`.
    fn others_in(&self, count: usize) -> usize {
        let is_acceptor = self.view().acceptors.contains(self.config.own);
        count - usize::from(is_acceptor)
    }

    pub(crate) fn other_acceptors(&self) -> NodeSet {
        self.view().acceptors.without(self.config.own)
    }

    /// The times of sessions run by the leader's heartbeats: it is to send them often while there are any.
    pub(crate) fn tend_attendance(&mut self, now: Time, out: &mut Vec<Output<O::Message>>) {
        let is_attended = self.replicated.sessions.len() > 0;
        if self.instances.attend(is_attended) {
            self.order(now, Event::Attended(is_attended), out);
        }
    }

    /// At the end of a turn: has the keepalives that came in it noted, and asks what is to be known.
    pub(crate) fn tend_notes(&mut self, now: Time, out: &mut Vec<Output<O::Message>>) {
        let enough = self.others_in(self.view().quorums.phase2());
        let (acceptors, leader) = (self.other_acceptors(), self.leader());
        let Some(term) = &mut self.expiry.term else {
            self.tend_learning(now, leader, out);
            return;
        };
        term.noting.give_up(now);
        let arrived = std::mem::take(&mut term.noting.arriving);
        if enough == 0 {
            term.noting.waiting -= arrived.len();
            for (session, _, keeper) in arrived {
                self.reads.arrive_keepalive(session, keeper);
            }
        } else if !arrived.is_empty() {
            let mut sessions = BTreeMap::new();
            for (session, attachment, _) in &arrived {
                let latest = sessions.entry(*session).or_insert(*attachment);
                *latest = (*latest).max(*attachment);
            }
            let sessions = sessions.into_iter().collect();
            let keepalives = arrived.into_iter().map(|(id, _, keeper)| (id, keeper));
            let round = Round {
                began: now,
                by: NodeSet::default(),
                keepalives: keepalives.collect(),
            };
            let number = self.expiry.numbers.next();
            term.noting.rounds.insert(number, round);
            send(out, acceptors, SignsMessage::Note { number, sessions });
        }
        if let Some(gathering) = &mut term.gathering
            && gathering.ask_at <= now
            && self.signs.served.is_known_since(gathering.began)
        {
            gathering.ask_at = now + SIGNS_EVERY;
            gathering.asked_at.get_or_insert(now);
            let number = gathering.number;
            send(out, acceptors, SignsMessage::Ask { number });
        }
        self.try_gather(now);
    }

    /// A start that has forgotten what it noted asks the leader, until it is told.
    fn tend_learning(
        &mut self,
        now: Time,
        leader: Option<NodeId>,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let learning = &mut self.expiry.learning;
        let is_due = learning.asked_at.is_none_or(|at| at + SIGNS_EVERY <= now);
        if let Some(leader) = leader
            && is_due
            && !self.signs.is_whole()
            && self.signs.served.has_heard()
        {
            learning.asked_at = Some(now);
            learning.number = self.expiry.numbers.next();
            let number = learning.number;
            send(out, NodeSet::only(leader), SignsMessage::Ask { number });
        }
    }

    /// A message about signs of life.
    pub(crate) fn signs_message(
        &mut self,
        now: Time,
        from: NodeId,
        message: SignsMessage,
        out: &mut Vec<Output<O::Message>>,
    ) {
        match message {
            SignsMessage::Note { number, sessions } => {
                self.note_for(now, from, number, &sessions, out);
            }
            SignsMessage::Noted { number } => self.peer_noted(from, number),
            SignsMessage::Ask { number } => self.signs_asked(now, from, number, out),
            SignsMessage::Answer {
                number,
                is_all,
                known,
            } => self.signs_told(now, from, (number, is_all), *known),
            SignsMessage::Closed { closes } => self.disconnects_told(now, &closes),
        }
    }

    /// A leader has this node note that clients are alive.
    fn note_for(
        &mut self,
        now: Time,
        from: NodeId,
        number: u64,
        sessions: &[(SessionId, Attachment)],
        out: &mut Vec<Output<O::Message>>,
    ) {
        let (applied, open) = (self.replicated.applied, &self.replicated.sessions);
        for noted in sessions {
            if !planted(Plant::NotesNotTaken) {
                self.signs.note(now, *noted, applied, open);
            }
        }
        send(out, NodeSet::only(from), SignsMessage::Noted { number });
    }

    /// A peer has noted what this leader told.
    fn peer_noted(&mut self, from: NodeId, number: u64) {
        let enough = self.others_in(self.view().quorums.phase2());
        if !self.view().acceptors.contains(from) {
            return;
        }
        let Some(term) = &mut self.expiry.term else {
            return;
        };
        for (session, keeper) in term.noting.noted(from, number, enough) {
            self.reads.arrive_keepalive(session, keeper);
        }
    }

    /// Another node asks what this one knows. A leader is the first to know whether it still leads: it answers once a quorum has
    /// confirmed that.
    fn signs_asked(
        &mut self,
        now: Time,
        from: NodeId,
        number: u64,
        out: &mut Vec<Output<O::Message>>,
    ) {
        if self.expiry.term.is_none() {
            self.tell_signs(now, from, (number, false), out);
        } else if self.has_room_for_keepalive() {
            let keeper = Keeper::Asker(from, number);
            self.reads.arrive_keepalive(SessionId::NONE, keeper);
        }
    }

    /// A quorum has confirmed this leader since the question came.
    pub(crate) fn signs_confirmed(
        &mut self,
        now: Time,
        asker: NodeId,
        number: u64,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let term = self.expiry.term.as_ref();
        if term.is_some_and(|term| term.gathering.is_none()) {
            // Whoever learns it keeps it: what is known from the own `Lead` on must not be left out.
            self.signs.leads_since(self.replicated.lead.slot);
            self.tell_signs(now, asker, (number, true), out);
        }
    }

    fn tell_signs(
        &mut self,
        now: Time,
        to: NodeId,
        (number, is_all): (u64, bool),
        out: &mut Vec<Output<O::Message>>,
    ) {
        let (applied, open) = (self.replicated.applied, &self.replicated.sessions);
        let message = SignsMessage::Answer {
            number,
            is_all,
            known: Box::new(self.signs.tell(now, applied, open)),
        };
        out.push(Output::Send {
            to: NodeSet::only(to),
            lane: Lane::Normal,
            message: PeerMessage::Replica(ReplicaMessage::Signs(message)),
        });
    }

    /// Another node tells what it knows.
    fn signs_told(
        &mut self,
        now: Time,
        from: NodeId,
        (number, is_all): (u64, bool),
        known: KnownSigns,
    ) {
        if known.applied < self.view().first_slot.previous() {
            // It is in an earlier view, and knows nothing of what was noted for its last leader by others.
            return;
        }
        let present = self.signs.served.most(now);
        let is_acceptor = self.view().acceptors.contains(from);
        match &mut self.expiry.term {
            Some(term) => {
                if let Some(gathering) = &mut term.gathering
                    && gathering.number == number
                    && is_acceptor
                {
                    gathering.told.insert(from, ToldSigns::new(present, known));
                    self.try_gather(now);
                }
            }
            None => {
                if is_all && self.expiry.learning.number == number && !self.signs.is_whole() {
                    self.signs.learn(&[ToldSigns::new(present, known)]);
                }
            }
        }
    }

    /// Once a quorum has told what it knows, sessions are judged by that. Nodes that have forgotten what they noted make
    /// sessions look active: they count only where the others are not enough.
    fn try_gather(&mut self, now: Time) {
        let quorum = self.view().quorums.phase1();
        let is_acceptor = self.view().acceptors.contains(self.config.own);
        let is_whole = is_acceptor && self.signs.is_whole();
        let Some(term) = &mut self.expiry.term else {
            return;
        };
        let Some(gathering) = &mut term.gathering else {
            return;
        };
        let whole = gathering.told.values().filter(|told| told.is_whole());
        let whole = whole.count();
        let asked_at = gathering.asked_at.unwrap_or(gathering.began);
        let is_late = asked_at + SIGNS_EVERY <= now;
        let (applied, open) = (self.replicated.applied, &self.replicated.sessions);
        if whole + usize::from(is_whole) >= quorum {
            let told = std::mem::take(&mut gathering.told).into_values();
            let told: Vec<ToldSigns> = told.filter(ToldSigns::is_whole).collect();
            match is_whole {
                true => self.signs.gather(now, &told, applied, open),
                false => self.signs.learn(&told),
            }
        } else if is_late && gathering.told.len() + usize::from(is_acceptor) >= quorum {
            let told = std::mem::take(&mut gathering.told).into_values();
            let told: Vec<ToldSigns> = told.collect();
            self.signs.gather(now, &told, applied, open);
        } else {
            return;
        }
        term.gathering = None;
        term.look_again();
    }
}

fn send<M>(out: &mut Vec<Output<M>>, to: NodeSet, message: SignsMessage) {
    out.push(Output::Send {
        to,
        lane: Lane::Urgent,
        message: PeerMessage::Replica(ReplicaMessage::Signs(message)),
    });
}
