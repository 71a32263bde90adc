//! Clients that are quiet for about as long as a session lives: they rest and only keep their session, their process
//! stands still, or it ends and begins anew and its session is left behind.
//!
//! A session that nobody uses is where leaders, expiries and signs of life meet. A run without quiet clients keeps all
//! sessions busy, and some runs have none.

use super::World;
use super::clock::Moment;
use super::events::Event;
use super::random::Random;
use super::setup::Setup;
use super::trace::Tag;
use quorate_session::ClientSession;
use quorate_types::{Duration, NodeId};

/// How often clients are quiet in one run, and how.
#[derive(Clone, Debug)]
pub(super) struct Quiet {
    /// In a thousand times that a client may begin an operation.
    per_mille: u64,
    /// In a thousand times that a client may begin one while calls of it wait: its process ends, and they wait on.
    leaves_per_mille: u64,
    /// Draws who leaves.
    leaving: Random,
    /// In a thousand processes that begin anew: they go on with a session.
    resumes_per_mille: u64,
    /// Draws which session that is.
    resuming: Random,
    /// Draws who stands still when its node leaves.
    stopping: Random,
    /// Every so long nobody offers an item for the second time, so that some wait until their session is over.
    drought: Option<(Duration, Duration)>,
}

/// What a client does for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// It works.
    None,
    /// It begins no operation until then.
    Idle(Moment),
    /// Its process stands still until then.
    Still(Moment),
}

/// Sessions live for this long in runs where they shall expire often.
const EXPIRY_MS: (u64, u64) = (1000, 3000);

/// As long as short sessions live, and longer.
const DROUGHT_MS: (u64, u64) = (1000, 5000);

impl Quiet {
    /// How quiet the clients of a run are. Half of the runs have short sessions.
    pub(super) fn draw(setup: &mut Setup) -> Quiet {
        let mut random = Random::new(setup.seed, "quiet", 0);
        if random.chance(500) {
            setup.session_expiry = random.millis(EXPIRY_MS.0, EXPIRY_MS.1);
        }
        let per_mille = *random.pick(&[0, 3, 10, 30]);
        let mut leaving = Random::new(setup.seed, "leaving", 0);
        let drought = leaving.chance(500).then(|| {
            let span = leaving.millis(DROUGHT_MS.0, DROUGHT_MS.1);
            (span + leaving.millis(500, 3000), span)
        });
        let mut resuming = Random::new(setup.seed, "resuming", 0);
        Quiet {
            per_mille,
            resumes_per_mille: *resuming.pick(&[0, 400, 900]),
            resuming,
            leaves_per_mille: *leaving.pick(&[0, 10, 40]),
            leaving,
            stopping: Random::new(setup.seed, "stopping", 0),
            drought,
        }
    }
}

impl Quiet {
    /// Clients are quiet, and begin anew, as often as in any run.
    pub(super) fn often(&mut self) {
        self.per_mille = 30;
    }

    fn leaves(&mut self) -> bool {
        self.leaving.chance(self.leaves_per_mille)
    }

    /// With whose session a process of client `number` goes on, if it does: mostly its own. That of another one is taken from a
    /// process that may live.
    fn resumed(&mut self, number: u64, clients: u64) -> Option<u64> {
        let resumes = self.resuming.chance(self.resumes_per_mille);
        let own = self.resuming.chance(700);
        let other = self.resuming.between(1, clients);
        resumes.then_some(if own { number } else { other })
    }

    /// Whether nobody offers an item.
    pub(super) fn is_dry(&self, now: Moment) -> bool {
        self.drought
            .is_some_and(|(period, span)| now.0 % period.0 < span.0)
    }
}

impl World {
    /// Says whether a client is quiet; it may become so.
    pub(super) fn is_quiet(&mut self, number: u64) -> bool {
        let now = self.now;
        let is_faulty = self.stage.is_faulty();
        let client = self.clients.get_mut(&number).expect("clients stay");
        match client.rest {
            Rest::Idle(until) | Rest::Still(until) if now < until && is_faulty => return true,
            Rest::None | Rest::Idle(_) | Rest::Still(_) => client.rest = Rest::None,
        }
        if is_faulty && client.takes() > 0 && self.quiet.leaves() {
            self.begin_anew(number);
            return true;
        }
        if !is_faulty || !client.random.chance(self.quiet.per_mille) {
            return false;
        }
        let expiry = client.config.terms.expiry;
        let percent = |random: &mut Random, least, most| {
            now + Duration(expiry.0 / 100 * random.between(least, most))
        };
        match client.random.below(10) {
            0..=3 => client.rest = Rest::Idle(percent(&mut client.random, 50, 250)),
            4..=7 => {
                let until = percent(&mut client.random, 85, 125);
                client.rest = Rest::Still(until);
                let thaw = Event::ClientThaws { client: number };
                self.events.push(until, thaw);
            }
            _ => {
                // Where a table has a place for each client only, all of them look for one at once, and at several nodes.
                let is_small = self.setup.sessions_max <= self.setup.clients as usize;
                let together = is_small && client.random.chance(500);
                let anew: Vec<u64> = if together {
                    self.clients.keys().copied().collect()
                } else {
                    vec![number]
                };
                for number in anew {
                    self.begin_anew(number);
                }
                return true;
            }
        }
        let rest = self.clients[&number].rest;
        let words = [Tag::Client as u64, number, 5];
        self.trace
            .note(now, &words, || format!("c{number} is quiet: {rest:?}"));
        true
    }

    /// Some clients of a node that leaves stand still meanwhile, for longer than their sessions would live if they were dead: they
    /// cannot go to another one.
    pub(super) fn stop_clients_of(&mut self, node: NodeId) {
        let now = self.now;
        for (number, client) in &mut self.clients {
            let connection = client.connection.and_then(|id| self.connections.get(&id));
            let is_of_node = connection.is_some_and(|connection| connection.node == node);
            let Some(short) = client.config.terms.on_disconnect.filter(|_| is_of_node) else {
                continue;
            };
            if client.rest == Rest::None && self.quiet.stopping.chance(700) {
                let until = now + short + self.quiet.stopping.millis(300, 2000);
                client.rest = Rest::Still(until);
                let client = *number;
                self.events.push(until, Event::ClientThaws { client });
            }
        }
    }

    /// Whether a client's process stands still. What happens to it meanwhile is put off.
    pub(super) fn puts_off(&mut self, number: u64, event: Event) -> Option<Event> {
        let client = self.clients.get_mut(&number).expect("clients stay");
        if matches!(client.rest, Rest::Still(_)) {
            client.put_off.push(event);
            return None;
        }
        Some(event)
    }

    /// A client's process goes on, and does at once what it would have done.
    pub(super) fn thaw(&mut self, number: u64) {
        let client = self.clients.get_mut(&number).expect("clients stay");
        if !matches!(client.rest, Rest::Still(_)) {
            return;
        }
        client.rest = Rest::None;
        for event in std::mem::take(&mut client.put_off) {
            self.events.push(self.now, event);
        }
        self.client_begins(number);
    }

    /// All clients go on.
    pub(super) fn wake_clients(&mut self) {
        let numbers: Vec<u64> = self.clients.keys().copied().collect();
        for number in numbers {
            self.thaw(number);
            self.clients.get_mut(&number).expect("clients stay").rest = Rest::None;
        }
    }

    /// A client's process ends and another begins: what was under way has an unknown end.
    pub(super) fn begin_anew(&mut self, number: u64) {
        let now = self.now;
        if self.clients[&number].connection.is_some() {
            self.watch_closed(number);
        }
        let clients = self.clients.len() as u64;
        let resumed = self.quiet.resumed(number, clients);
        let resumed = resumed.map(|number| self.clients[&number].secret);
        let client = self.clients.get_mut(&number).expect("clients stay");
        let nonce = client.random.bits() | 1;
        let addresses: Vec<String> = self.setup.node_ids().map(|node| node.to_string()).collect();
        let secret = super::clients::secret(nonce);
        let time = now.as_time();
        client.session = match resumed {
            Some(resumed) => {
                let secrets = (resumed, secret);
                ClientSession::resuming(client.config, addresses, nonce, secrets, time)
            }
            None => ClientSession::new(client.config, addresses, nonce, secret, time),
        };
        super::announcing::draw_announcing(self.setup.seed, number, &mut client.session);
        client.life = None;
        client.early.clear();
        self.prompt.dialling.answered(number);
        self.judge.ages.began(number);
        let opens = std::mem::take(&mut client.open);
        let old = client.connection.take();
        for (_, open) in opens {
            let judged = self.judge.gave_up(now, open, true);
            self.judged(judged);
        }
        if let Some(connection) = old {
            self.events.push(now, Event::Closed { connection });
        }
        let words = [Tag::Client as u64, number, 6];
        self.trace.note(now, &words, || {
            format!(
                "c{number} begins anew, {}",
                if resumed.is_some() {
                    "resuming"
                } else {
                    "alone"
                }
            )
        });
        self.client_alarm_now(number);
    }
}
