//! Limits other than the defaults, which the operator asks for while a group runs.
//!
//! Every client gets a place in the end: no table is smaller than there are clients. Limits are low and high in turn, so that tables are
//! full and replies go, and then have room; now and then one that no group has is asked for, which is refused. Mostly all clients begin
//! anew with a change of the sessions: some are opened before its first slot, and some in it. Mostly the objects of
//! a node stand still around a change of the replies: it executes calls of the view before when it has applied the next one's first slot.

use super::World;
use super::random::Random;
use super::row::Row;
use super::setup::Setup;
use quorate_replica::KeptLimits;
use quorate_types::{
    Duration, FromClient, GroupLimits, Level, LimitChange, NodeId, View, ViewChange,
};

/// Changes of the limits among a thousand requests for another view, and three times as many where few replies are kept.
const ASKED: u64 = 200;

/// Sessions beyond the clients, at most, that a limit leaves room for.
const SPARE: u64 = 64;

/// Objects stand still for so long after a limit was asked for.
const HELD: Duration = Duration::from_millis(100);

/// Who asks for other limits.
#[derive(Debug, Default)]
pub(super) struct LimitAsking {
    random: Option<Random>,
    /// What is asked for next: meanwhile the objects of a node stand still.
    prepared: Option<LimitChange>,
    /// The node.
    held: Option<NodeId>,
    clients: u64,
    /// Bytes of replies that one session keeps.
    of_session: u64,
    /// Whether so few are kept that a limit of the group takes some away.
    keeps_few: bool,
}

impl LimitAsking {
    /// What follows from the seed.
    pub(super) fn new(setup: &Setup) -> LimitAsking {
        let is_on = setup.pace.is_none();
        LimitAsking {
            prepared: None,
            held: None,
            random: is_on.then(|| Random::new(setup.seed, "other limits", 0)),
            clients: setup.all_clients(),
            of_session: setup.kept.session_bytes as u64,
            keeps_few: setup.kept != KeptLimits::default(),
        }
    }

    /// Whether it is known what is asked for next.
    pub(super) fn is_prepared(&self) -> bool {
        self.prepared.is_some()
    }

    /// Whether a node falls behind before the operator asks for this, and for how long.
    fn prepares(&mut self, limit: LimitChange, id: NodeId) -> Option<Duration> {
        let random = self.random.as_mut()?;
        let is_of_replies = matches!(limit, LimitChange::Replies(_));
        if !is_of_replies || self.held.is_some() || !random.chance(700) {
            return None;
        }
        (self.prepared, self.held) = (Some(limit), Some(id));
        Some(random.millis(100, 400))
    }

    /// Whether all clients begin anew when the operator asks for this.
    fn has_others_begin(&mut self, limit: LimitChange) -> bool {
        let random = self.random.as_mut();
        let is_of_sessions = matches!(limit, LimitChange::Sessions(_));
        is_of_sessions && random.is_some_and(|random| random.chance(700))
    }

    /// The limit that the operator asks for instead of another change, if that is one.
    fn wish(&mut self, view: &View) -> Option<(ViewChange, LimitChange)> {
        let random = self.random.as_mut()?;
        let change = ViewChange {
            after: view.number,
            acceptors: view.acceptors,
            window: view.window,
        };
        if let Some(limit) = self.prepared.take() {
            return Some((change, limit));
        }
        let share = match view.level < Level::LIMITS {
            true => ASKED / 10,
            false if self.keeps_few => 3 * ASKED,
            false => ASKED,
        };
        if !random.chance(share) {
            return None;
        }
        let of_sessions = match self.keeps_few {
            true => 300,
            false => 700,
        };
        let limit = match random.chance(of_sessions) {
            true => {
                let now = view.limits.named_sessions();
                LimitChange::Sessions(draw_sessions(random, self.clients, now))
            }
            false => {
                let now = view.limits.named_replies();
                LimitChange::Replies(draw_replies(random, self.of_session, now))
            }
        };
        Some((change, limit))
    }
}

/// Few where many may be open `now`, and the other way round.
fn draw_sessions(random: &mut Random, clients: u64, now: Option<u64>) -> u64 {
    let is_low = now.is_some_and(|now| now < clients + SPARE / 2);
    match random.between(0, 19) {
        0 => 0,
        1 => GroupLimits::SESSIONS_MAX + 1,
        2..=9 if is_low => GroupLimits::SESSIONS_DEFAULT,
        2..=15 if is_low => clients + SPARE,
        _ => clients + random.between(0, 2),
    }
}

/// As few as can be where more are kept `now`, and the other way round.
fn draw_replies(random: &mut Random, of_session: u64, now: Option<u64>) -> u64 {
    let is_low = now == Some(of_session);
    match random.between(0, 19) {
        0 => of_session - 1,
        1 => GroupLimits::REPLIES_MAX + 1,
        2..=9 if is_low => GroupLimits::REPLIES_DEFAULT,
        _ if is_low => of_session * random.between(2, 4),
        _ => of_session,
    }
}

impl Setup {
    /// The first views of some groups are such that the operator may ask.
    pub(super) fn ask_limits(&mut self) {
        let share = match self.ordering.0 >= Level::QUORUMS {
            true => 800,
            false => 150,
        };
        if !self.draw_levels() && Random::new(self.seed, "limits", 0).chance(share) {
            self.ordering.0 = self.ordering.0.max(Level::LIMITS);
        }
    }

    /// As many sessions as any view lets be open.
    pub(super) fn most_sessions(&self) -> u64 {
        (self.sessions_max as u64).max(self.all_clients() + SPARE)
    }

    /// As many bytes of replies as any view lets be kept.
    pub(super) fn most_replies(&self) -> u64 {
        (self.kept.group_bytes as u64).max(4 * self.kept.session_bytes as u64)
    }
}

impl World {
    /// Asks a node for another limit, if that is the operator's wish.
    pub(super) fn asks_limit(&mut self, asked: NodeId, view: &View) -> bool {
        let Some((change, limit)) = self.harm.views.limits.wish(view) else {
            return false;
        };
        if let Some(span) = self.harm.views.limits.prepares(limit, asked) {
            self.node(asked).hung += 1;
            self.harm.views.hurry(self.now + span);
            return true;
        }
        if let LimitChange::Replies(_) = limit {
            self.harm.views.hurry(self.now + HELD);
        }
        self.ask_operator((asked, Some(change)), |request| FromClient::SetLimit {
            request,
            change,
            limit,
        });
        if self.harm.views.limits.has_others_begin(limit) {
            let clients: Vec<u64> = self.clients.keys().copied().collect();
            for client in clients {
                self.begin_anew(client);
            }
        }
        true
    }

    /// The objects go on that stood still until another limit was in force.
    pub(super) fn release_objects(&mut self) {
        let limits = &mut self.harm.views.limits;
        if limits.is_prepared() {
            return;
        }
        if let Some(id) = limits.held.take() {
            let node = self.node(id);
            node.hung = node.hung.saturating_sub(1);
            self.begin_work(id);
        }
    }

    /// Counts changes of the limits.
    pub(super) fn note_limits(&mut self, before: &View, view: &View) {
        let most = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
        let sessions = |view: &View| most(view.limits.named_sessions());
        let replies = |view: &View| most(view.limits.named_replies());
        let rows = [
            (Row::SessionsLowered, sessions(view) < sessions(before)),
            (Row::SessionsRaised, sessions(view) > sessions(before)),
            (Row::RepliesLowered, replies(view) < replies(before)),
            (Row::RepliesRaised, replies(view) > replies(before)),
        ];
        for (row, _) in rows.into_iter().filter(|(_, applies)| *applies) {
            self.exercised(row);
        }
    }
}
