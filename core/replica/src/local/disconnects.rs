//! Connections that clients have closed, as this node's system says: it tells each leader of them, again and again, because
//! such a word may be lost.
//!
//! Only sessions whose clients asked for an earlier end are concerned. What the leader makes of it is in `expiry`;
//! `docs/sessions.md` says why a late word ends no session of a client that lives.

use crate::limits::{DISCONNECT_TOLD_FOR, DISCONNECTS_TOLD, NOTES_SLACK, SIGNS_EVERY};
use crate::local::served::{ServedClock, ServedTime};
use crate::replicated::sessions::Sessions;
use crate::{Output, PeerMessage, Replica, ReplicaMessage, SignsMessage};
use quorate_ordering::{Lane, Ordering};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Attachment, Duration, NodeSet, SessionId, Time};
use std::collections::{BTreeMap, BTreeSet};

/// A connection of a session that its client has closed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Disconnect {
    /// Which one.
    pub(crate) attachment: Attachment,
    /// When, or later.
    pub(crate) at: ServedTime,
}

/// What this node was told by its system.
#[derive(Debug, Default)]
pub(crate) struct Disconnects {
    /// Of each session the latest one.
    seen: BTreeMap<SessionId, Seen>,
    /// When each is told to the leader. Empty while none is known.
    due: BTreeSet<(Time, SessionId)>,
}

#[derive(Debug)]
struct Seen {
    close: Disconnect,
    source: ToldBy,
    seen_at: Time,
    tell_at: Time,
}

/// Who said that a connection was closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ToldBy {
    /// This node's system.
    System,
    /// Another node, which may be dead when somebody else leads.
    Node,
}

/// Connections that were closed, and how long ago.
type Told = Vec<(SessionId, Attachment, Duration)>;

impl Disconnects {
    /// A client has closed a connection.
    pub(crate) fn saw(
        &mut self,
        now: Time,
        session: SessionId,
        (close, source): (Disconnect, ToldBy),
        open: &Sessions,
    ) {
        if self.seen.len() > open.len() + NOTES_SLACK {
            self.seen.retain(|id, _| open.session(*id).is_some());
        }
        let before = self.seen.get(&session);
        if before.is_some_and(|seen| seen.close.attachment >= close.attachment) {
            return;
        }
        self.forget(session);
        self.due.insert((now, session));
        let (seen_at, tell_at) = (now, now);
        let seen = Seen {
            close,
            source,
            seen_at,
            tell_at,
        };
        self.seen.insert(session, seen);
    }

    /// The client of a session is connected here again.
    pub(crate) fn attached(&mut self, session: SessionId, attachment: Attachment) {
        let seen = self.seen.get(&session);
        if seen.is_some_and(|seen| seen.close.attachment < attachment) {
            self.forget(session);
        }
    }

    fn forget(&mut self, session: SessionId) {
        if let Some(seen) = self.seen.remove(&session) {
            self.due.remove(&(seen.tell_at, session));
        }
    }

    /// Another node may lead.
    pub(crate) fn tell_again(&mut self, now: Time) {
        self.due.clear();
        for (session, seen) in &mut self.seen {
            seen.tell_at = now;
            self.due.insert((now, *session));
        }
    }

    /// Nobody leads: who does next is told all.
    fn wait(&mut self) {
        self.due.clear();
    }

    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// What the leader is told at this time, and what of it the others are told, so that it is not lost with this node.
    fn take_due(&mut self, now: Time, served: &ServedClock, open: &Sessions) -> (Told, Told) {
        let (mut told, mut own) = (Told::new(), Told::new());
        while told.len() < DISCONNECTS_TOLD
            && let Some((at, session)) = self.due.first().copied()
            && at <= now
        {
            self.due.pop_first();
            let terms = open.session(session).map(|session| session.terms);
            let short = terms.and_then(|terms| terms.on_disconnect);
            let Some(seen) = self.seen.get_mut(&session) else {
                continue;
            };
            let age = served.least().since(seen.close.at);
            if short.is_none_or(|short| age >= short + DISCONNECT_TOLD_FOR) {
                self.seen.remove(&session);
                continue;
            }
            seen.tell_at = now + SIGNS_EVERY;
            self.due.insert((seen.tell_at, session));
            let age = if planted(Plant::StallAgesClose) {
                now.since(seen.seen_at)
            } else {
                age
            };
            let close = (session, seen.close.attachment, age);
            told.push(close);
            if seen.source == ToldBy::System {
                own.push(close);
            }
        }
        for told in [&mut told, &mut own] {
            told.sort_unstable_by_key(|(session, _, _)| *session);
        }
        (told, own)
    }
}

impl<O: Ordering> Replica<O> {
    /// The system says that a client has closed its connection, on which it used these sessions.
    pub(crate) fn closed_by_client(&mut self, now: Time, sessions: &[(SessionId, Attachment)]) {
        let open = &self.replicated.sessions;
        let at = self.signs.served.most(now);
        for (id, attachment) in sessions {
            let asked = open
                .session(*id)
                .and_then(|known| known.terms.on_disconnect);
            if asked.is_some() && *attachment > Attachment::NONE {
                let close = Disconnect {
                    attachment: *attachment,
                    at,
                };
                let close = (close, ToldBy::System);
                self.disconnects.saw(now, *id, close, open);
            }
        }
    }

    /// At the end of a turn: tells the leader what is due, and the acceptors what this node was told by its system.
    pub(crate) fn tend_disconnects(&mut self, now: Time, out: &mut Vec<Output<O::Message>>) {
        let Some(leader) = self.leader() else {
            self.disconnects.wait();
            return;
        };
        let open = &self.replicated.sessions;
        let (closes, own) = self.disconnects.take_due(now, &self.signs.served, open);
        if self.expiry.term.is_some() {
            self.disconnects_told(now, &closes);
        } else {
            send(out, NodeSet::only(leader), closes);
        }
        send(out, self.other_acceptors().without(leader), own);
    }

    /// A node is told of connections that clients have closed. One that does not lead tells who does.
    pub(crate) fn disconnects_told(
        &mut self,
        now: Time,
        closes: &[(SessionId, Attachment, Duration)],
    ) {
        let open = &self.replicated.sessions;
        let present = self.signs.served.most(now);
        for (id, attachment, age) in closes {
            let asked = open
                .session(*id)
                .and_then(|known| known.terms.on_disconnect);
            if asked.is_none() {
                continue;
            }
            let close = Disconnect {
                attachment: *attachment,
                at: present.before(*age),
            };
            let told = (close, ToldBy::Node);
            self.disconnects.saw(now, *id, told, open);
            if let Some(term) = &mut self.expiry.term {
                term.told_of_close(*id, close, open);
            }
        }
    }
}

fn send<M>(out: &mut Vec<Output<M>>, to: NodeSet, closes: Told) {
    if closes.is_empty() || to.is_empty() {
        return;
    }
    let message = SignsMessage::Closed { closes };
    out.push(Output::Send {
        to,
        lane: Lane::Urgent,
        message: PeerMessage::Replica(ReplicaMessage::Signs(message)),
    });
}
