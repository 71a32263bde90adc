//! Tells the checkers of sessions about signs of life, when clients send them and get them answered, and about the ends
//! of sessions, when the log decides them.
//!
//! The log is read by the [ledger](super::ledger), a second opinion; the replicas' own tables are compared with it by
//! their sizes. Called by the world's clients, turns and samples; it changes nothing.

use super::World;
use super::clients::Client;
use super::clock::Moment;
use super::ledger::{Ended, Ledger};
use super::row::Row;
use super::setup::Setup;
use crate::checkers::keepalives::Keepalives;
use crate::checkers::{Property, Violation};
use quorate_replica::limits;
use quorate_session::SessionState;
use quorate_types::{
    Ask, Body, Duration, FromClient, NodeId, Refusal, SessionId, SessionTerms, Slot, ToClient,
};
use std::collections::{BTreeMap, BTreeSet};

/// The checkers of sessions.
pub(super) struct Keeping {
    keepalives: Keepalives,
    /// The clock that judges may run fast by the drift that is allowed; as much again covers rounding.
    short_ppm: u64,
    ledger: Ledger,
    expired: BTreeSet<SessionId>,
    /// The slots up to here are in the ledger.
    upto: Slot,
    /// Sessions that may be open where no view says otherwise.
    capacity: usize,
    /// For how long a node has led that could be heard, with gaps that nodes count as well, and up to when that is counted.
    led: Duration,
    led_upto: Moment,
    looked_at: Moment,
    /// How many leaders have begun to judge, and how many had when a connection of a session was closed.
    leads: u64,
    closed_under: BTreeMap<SessionId, u64>,
    /// Keepalives that each client has sent on its connection and that have no answer.
    unanswered: BTreeMap<u64, u64>,
    /// The same of clients whose session another one has resumed, as it was then: no more may be acknowledged.
    owed: BTreeMap<u64, u64>,
    /// Open sessions after each slot that changed their number.
    sizes: BTreeMap<Slot, usize>,
}

impl Keeping {
    /// The promises of a group with this configuration.
    pub(super) fn new(setup: &Setup) -> Keeping {
        Keeping {
            keepalives: Keepalives::default(),
            short_ppm: 2 * setup.timing.clock_drift_ppm,
            ledger: Ledger::new(),
            expired: BTreeSet::new(),
            upto: Slot::ZERO,
            capacity: setup.sessions_max,
            led: Duration::ZERO,
            led_upto: Moment(0),
            looked_at: Moment(0),
            leads: 0,
            closed_under: BTreeMap::new(),
            unanswered: BTreeMap::new(),
            owed: BTreeMap::new(),
            sizes: BTreeMap::from([(Slot::ZERO, 0)]),
        }
    }
}

impl World {
    /// Slots were decided: what they end must not be owed any more.
    pub(super) fn watch_sessions(&mut self) {
        while let Some(batch) = self.judge.decided_batch(self.keeping.upto.next()) {
            let slot = self.keeping.upto.next();
            self.keeping.upto = slot;
            let leads = batch.commands().iter();
            let leads = leads.filter(|command| matches!(command.body, Body::Lead { .. }));
            self.keeping.leads += leads.count() as u64;
            let most = self.judge.sessions_max(slot, self.keeping.capacity);
            let ended = self.keeping.ledger.apply((slot, most), batch);
            let size = self.keeping.ledger.len();
            if self.keeping.sizes.last_key_value().map(|(_, size)| *size) != Some(size) {
                self.keeping.sizes.insert(slot, size);
            }
            for end in ended {
                let judged = match end {
                    Ended::Expired(session) => {
                        self.note_early_end(session);
                        let (now, led) = (self.now.0, self.keeping.led.0);
                        self.keeping.keepalives.ended(now, session, led)
                    }
                    Ended::Resumed(session) => {
                        self.watch_superseded(session);
                        Ok(())
                    }
                    Ended::Closed(session) => Err(Violation::new(
                        Property::SessionKept,
                        format!("{session} was closed by somebody else than its client"),
                    )),
                };
                self.judged(judged);
                if let Ended::Expired(session) = end {
                    self.keeping.expired.insert(session);
                    let numbers: Vec<u64> = self.clients.keys().copied().collect();
                    for number in numbers {
                        self.watch_counting(number);
                    }
                }
            }
        }
    }

    /// The log gives a session to another client.
    fn watch_superseded(&mut self, session: SessionId) {
        self.exercised(Row::SessionResumed);
        let (now, led) = (self.now.0, self.keeping.led.0);
        self.keeping.keepalives.resumed(now, session, led);
        let leads = self.keeping.leads;
        self.keeping.closed_under.entry(session).or_insert(leads);
        let uses = |client: &Client| client.life.is_some_and(|(of, _)| of == session);
        let before = self.clients.iter().filter(|(_, client)| uses(client));
        for (number, _) in before {
            let waits = self.keeping.unanswered.get(number).copied().unwrap_or(0);
            self.keeping.owed.insert(*number, waits);
        }
    }

    /// Whether the log has given the session of a client to another one, whether it knows or not.
    fn is_superseded(&self, number: u64, session: SessionId) -> bool {
        let tenancy = self.clients[&number].session.tenancy().number();
        u64::from(tenancy) < self.keeping.ledger.tenancy(session)
    }

    /// A client is told that its session lives.
    fn watch_kept_alive(&mut self, number: u64, session: SessionId) -> Result<(), Violation> {
        if let Some(waiting) = self.keeping.unanswered.get_mut(&number) {
            *waiting = waiting.saturating_sub(1);
        }
        if !self.is_superseded(number, session) {
            return self.keeping.keepalives.acknowledged(session);
        }
        let owed = self.keeping.owed.entry(number).or_default();
        if *owed > 0 {
            *owed -= 1;
            return Ok(());
        }
        let detail =
            format!("c{number} is told that it has {session}, which was resumed before it asked");
        Err(Violation::new(Property::SessionKept, detail))
    }

    /// Time goes on to `at`: the nodes are until then as they are.
    pub(super) fn watch_time(&mut self, at: Moment) {
        let leads = self.nodes.values().any(|node| {
            let Some(running) = node.running.as_ref() else {
                return false;
            };
            // Who decides alone goes on when it is cut off, and time goes on with it.
            let is_alone = running.replica.view().quorums.phase2() == 1;
            running.leads().is_some() && node.is_awake() && (node.isolated == 0 || is_alone)
        });
        let keeping = &mut self.keeping;
        if leads {
            let gap = keeping.looked_at.since(keeping.led_upto);
            let from = match gap <= limits::SERVED_GAP {
                true => keeping.led_upto,
                false => keeping.looked_at,
            };
            keeping.led = keeping.led + at.since(from);
            keeping.led_upto = at;
        }
        keeping.looked_at = at;
    }

    /// A client closes its connection.
    pub(super) fn watch_closed(&mut self, number: u64) {
        let (now, led) = (self.now.0, self.keeping.led.0);
        if let Some((session, _)) = self.clients[&number].life
            && !self.is_superseded(number, session)
        {
            self.keeping.keepalives.closed(now, session, led);
            let leads = self.keeping.leads;
            self.keeping.closed_under.insert(session, leads);
        }
    }

    /// A session ends because its client closed its connection: under the leader that led then, or a later one.
    fn note_early_end(&mut self, session: SessionId) {
        if self.keeping.keepalives.is_early(self.now.0, session) {
            self.exercised(Row::EndedByClose);
            if self.keeping.closed_under.get(&session) < Some(&self.keeping.leads) {
                self.exercised(Row::EndedUnderNext);
            }
        }
    }

    /// A client has heard something, or its session has ended. What an ended session owned is another's: its client must not count on
    /// it any more, whether it has heard of the end or not.
    pub(super) fn watch_counting(&mut self, number: u64) {
        let client = &self.clients[&number];
        let Some((session, _)) = client.life else {
            return;
        };
        let life = client.session.session_life(self.now.as_time());
        let is_over = self.keeping.expired.contains(&session);
        // Only fencing tokens keep out who does not know that another one has its session.
        let knows = !self.is_superseded(number, session);
        if life.state != SessionState::Lost && is_over && knows {
            let until = life.until;
            let detail = format!("c{number} counts on {session} until {until:?}, and it has ended");
            self.blame(Property::SessionKept, detail);
        }
    }

    /// A replica that has applied the slots up to `applied` says that it holds so many sessions.
    pub(super) fn watch_table(&mut self, id: NodeId, applied: Slot, sessions: usize) {
        if applied > self.keeping.upto {
            return;
        }
        let owed = self.keeping.sizes.range(..=applied).next_back();
        let owed = owed.map_or(0, |(_, size)| *size);
        if owed != sessions {
            let detail =
                format!("{id} holds {sessions} sessions after {applied}, the log leaves {owed}");
            self.blame(Property::SessionKept, detail);
        }
    }

    /// A client sends something.
    pub(super) fn watch_sent(&mut self, number: u64, message: &FromClient) {
        let now = self.now;
        match message {
            FromClient::KeepAlive { session } => {
                *self.keeping.unanswered.entry(number).or_default() += 1;
                if !self.is_superseded(number, *session) {
                    self.keeping.keepalives.sent(now.0, *session);
                }
                self.note_life(number, *session, now);
            }
            // A sign of life once it is answered: a node may refuse it.
            FromClient::Call { id, .. } => self.keeping.keepalives.called(now.0, *id),
            FromClient::Open { .. }
            | FromClient::Resume { .. }
            | FromClient::Attach { .. }
            | FromClient::Read { .. }
            | FromClient::Broadcast { .. }
            | FromClient::Announce { .. }
            | FromClient::Early { .. }
            | FromClient::Close { .. }
            | FromClient::Checkpoint { .. }
            | FromClient::Reset { .. }
            | FromClient::Skip { .. }
            | FromClient::Invite { .. }
            | FromClient::ChangeGroups { .. }
            | FromClient::MoveLeader { .. }
            | FromClient::Join { .. }
            | FromClient::SetLevel { .. }
            | FromClient::SwitchOrdering { .. }
            | FromClient::SetQuorums { .. }
            | FromClient::SetLimit { .. }
            | FromClient::ChangeView { .. } => {}
        }
    }

    /// An answer reaches a client, or whoever sent a copy of its call.
    pub(super) fn watch_answered(&mut self, number: Option<u64>, message: &ToClient) {
        let judged = match (number, message) {
            (Some(number), ToClient::KeptAlive { session }) => {
                self.watch_kept_alive(number, *session)
            }
            (Some(number), ToClient::Resumed { session, terms, .. }) => {
                self.watch_has(*session, *terms);
                self.note_life(number, *session, self.now);
                self.judge.liveness.found_place(self.now.0, number);
                Ok(())
            }
            (
                Some(number),
                ToClient::Opened {
                    session, expiry, ..
                },
            ) => {
                self.watch_opened(number, *session, *expiry);
                self.note_life(number, *session, self.now);
                self.judge.liveness.found_place(self.now.0, number);
                Ok(())
            }
            (Some(number), ToClient::Full { .. }) => {
                self.watch_no_place(number);
                Ok(())
            }
            (Some(number), ToClient::Refused { ask, refusal }) => {
                if let (Ask::Open(_), Refusal::Overloaded) = (ask, refusal) {
                    self.watch_no_place(number);
                }
                Ok(())
            }
            (number, ToClient::Replied { id, .. } | ToClient::Parked { id }) => {
                if let (Some(number), Some(sent_ns)) =
                    (number, self.keeping.keepalives.first_sent(*id))
                {
                    self.note_life(number, id.session, Moment(sent_ns));
                }
                self.keeping.keepalives.replied(*id)
            }
            _ => Ok(()),
        };
        self.judged(judged);
    }

    /// A node refuses something to a client on the connection in use. Whatever the node has applied, the log has decided it: a
    /// session that stands in the ledger has not ended.
    pub(super) fn watch_refused(&mut self, number: u64, message: &ToClient) {
        let ToClient::Refused {
            ask,
            refusal: refusal @ (Refusal::SessionExpired | Refusal::Superseded),
        } = message
        else {
            return;
        };
        let session = match ask {
            Ask::Call(id) => id.session,
            Ask::Session(session) => *session,
            Ask::Open(_) | Ask::Request(_) => return,
        };
        if self.is_superseded(number, session) {
            self.exercised(Row::Superseded);
        } else if self.keeping.ledger.holds(session) {
            let detail =
                format!("c{number} is told {refusal:?} of {session}, which the log keeps for it");
            self.blame(Property::SessionKept, detail);
        }
    }

    /// A client gets a session, which shall be as it asked.
    fn watch_opened(&mut self, number: u64, session: SessionId, expiry: Duration) {
        let terms = self.clients[&number].config.terms;
        let asked = terms.expiry;
        if expiry != asked {
            let detail =
                format!("c{number} asked for {asked:?}, and {session} lives for {expiry:?}");
            self.blame(Property::SessionKept, detail);
        }
        self.watch_has(session, terms);
    }

    /// A client has a session with these terms.
    fn watch_has(&mut self, session: SessionId, terms: SessionTerms) {
        let short_ppm = self.keeping.short_ppm;
        let least = |span: Duration| span.0 - span.0 / 1_000_000 * short_ppm;
        let kept = &mut self.keeping.keepalives;
        kept.opened(session, least(terms.expiry));
        if let Some(short) = terms.on_disconnect {
            kept.is_short(session, least(short));
        }
    }

    /// A client is refused a session. A replica may be behind the log, which is what counts.
    fn watch_no_place(&mut self, number: u64) {
        let next = self.keeping.upto.next();
        let most = self.judge.sessions_max(next, self.keeping.capacity);
        if self.keeping.ledger.len() >= most {
            self.judge.liveness.found_no_place(number);
        } else {
            self.judge.liveness.found_place(self.now.0, number);
        }
    }

    /// A client's newest sign of life was sent then.
    fn note_life(&mut self, number: u64, session: SessionId, sent_at: Moment) {
        let client = self.clients.get_mut(&number).expect("clients stay");
        let same = client.life.filter(|(of, _)| *of == session);
        let newest = same.map_or(sent_at, |(_, before)| before.max(sent_at));
        client.life = Some((session, newest));
    }

    /// A client drops its connection, or gets another.
    pub(super) fn watch_reconnected(&mut self, number: u64) {
        let client = self.clients.get_mut(&number).expect("clients stay");
        if let Some((session, _)) = client.life {
            client.life = Some((session, self.now));
            if !self.is_superseded(number, session) {
                self.keeping.keepalives.dropped(session);
            }
        }
        self.keeping.unanswered.remove(&number);
        self.keeping.owed.remove(&number);
    }

    /// A client that is awake thinks.
    pub(super) fn watch_idle(&mut self, number: u64) {
        let client = &self.clients[&number];
        let Some((session, at)) = client.life.filter(|_| client.session.is_open()) else {
            return;
        };
        let idle = self.now.since(at);
        let judged = self.keeping.keepalives.idled(session, idle.0);
        self.judged(judged);
    }
}
