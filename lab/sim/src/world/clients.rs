//! Simulated clients and their connections: each drives the session that real clients use.

use super::World;
use super::clock::Moment;
use super::events::Event;
use super::judge::Open;
use super::quiet::Rest;
use super::random::Random;
use super::watchers::Watcher;
use super::workload::Workload;
use quorate_session::{ClientSession, SessionConfig, Ticket};
use quorate_types::{CommandId, ConnectionId, NodeId, Secret, SessionId, Value};
use std::collections::{BTreeMap, BTreeSet};

/// One call of so many that wait for an item is given up.
const GIVEN_UP_OF: u64 = 7;

/// One client.
pub(super) struct Client {
    /// The client's half of the session.
    pub session: ClientSession,
    /// What it calls.
    pub workload: Workload,
    /// The connection in use.
    pub connection: Option<ConnectionId>,
    /// Operations without an end.
    pub open: BTreeMap<Ticket, Open>,
    /// The command whose reply or refusal its session is given.
    pub hears: Option<CommandId>,
    /// Calls of which somebody else sends a copy. One that was refused for want of room may be executed all the same: its
    /// client knows of its own copies only, and counts on them when it says that nothing happened.
    pub copied: BTreeSet<CommandId>,
    /// What it was told of calls before they were decided.
    pub early: BTreeMap<Ticket, Value>,
    /// Faults that keep it from everybody.
    pub cut: u64,
    /// Whether the newest of them has kept something from passing.
    pub has_felt_cut: bool,
    /// It only reads.
    pub is_reader: bool,
    /// It only calls the queue and the lock.
    pub is_waiter: bool,
    /// It only calls the feed.
    pub watcher: Option<Watcher>,
    /// The secret of its session: a process that begins with it resumes that.
    pub secret: Secret,
    /// Its own choices.
    pub random: Random,
    /// What every session of it is told.
    pub config: SessionConfig,
    /// The session that it gave a sign of life for, got or reconnected in, and when.
    pub life: Option<(SessionId, Moment)>,
    /// What it does for a while.
    pub rest: Rest,
    /// What happened to it while its process stood still.
    pub put_off: Vec<Event>,
    /// When its session wants to be woken, as far as that is scheduled.
    pub alarm: Option<Moment>,
}

impl Client {
    /// Its calls that wait for an item, the lock or a change, and have none yet.
    pub(super) fn takes(&self) -> usize {
        let open = self.open.values();
        open.filter(|open| open.takes()).count()
    }
}

impl World {
    /// Some who wait for an item or a change without a time have waited long enough when they think of it again.
    pub(super) fn client_gives_up(&mut self, number: u64) {
        let client = self.clients.get_mut(&number).expect("clients stay");
        let mut open = client.open.iter();
        let is_enough = |ticket: &Ticket| ticket.index().is_multiple_of(GIVEN_UP_OF);
        let found = open.find(|(ticket, open)| open.takes_patiently() && is_enough(ticket));
        let Some(ticket) = found.map(|(ticket, _)| *ticket) else {
            return;
        };
        client.session.give_up(ticket);
        if let Some(open) = client.open.remove(&ticket) {
            let judged = self.judge.gave_up(self.now, open, true);
            self.judged(judged);
        }
        self.client_alarm_now(number);
    }
}

/// The secret of a client that draws `nonce`.
pub(super) fn secret(nonce: u64) -> Secret {
    Secret::new((u128::from(nonce) << 64 | u128::from(!nonce)).to_le_bytes())
}

/// A connection of a client, or of nobody, to a life of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    /// Whose; `None` for a copy of a call that somebody sends again.
    pub client: Option<u64>,
    /// To whom.
    pub node: NodeId,
    /// In which life.
    pub life: u64,
    /// The node knows of it.
    pub is_open: bool,
    /// Something was lost on it: nothing passes any more, and both ends notice after a while.
    pub is_broken: bool,
    /// When the newest message to the node arrives.
    pub last_up: Moment,
    /// When the newest message to the client arrives.
    pub last_down: Moment,
}
