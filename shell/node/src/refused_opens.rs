//! Which sessions of a log were never opened, because as many as might be were open already.
//!
//! A group that is recovered executes the log of another one with the limits that a group begins with. A session for which the old group
//! had no room would be opened there, and be the client's in the place of the one that it got later: what was called in that one, and
//! answered, would be executed by nobody.

use quorate_types::{Batch, Body, Command, SecretHash, SessionId, Slot};
use std::collections::{BTreeMap, BTreeSet};

/// The opens of `log` that opened nothing, by the sessions that they would have opened; before it the sessions of `held` were open.
///
/// Only such are found after which the same client got another session and somebody spoke of that. Nobody misses the others.
pub(crate) fn refused_opens<'a>(
    log: impl Iterator<Item = (Slot, &'a Batch)>,
    held: impl Iterator<Item = (SecretHash, SessionId)>,
) -> BTreeSet<SessionId> {
    // By secret all that may have been opened, ascending.
    let mut opens: BTreeMap<SecretHash, Vec<SessionId>> = BTreeMap::new();
    // Sessions that exist, each with the last slot in which something was asked that may have ended it.
    let mut named: BTreeMap<SessionId, Option<Slot>> = BTreeMap::new();
    for (hash, session) in held {
        opens.entry(hash).or_default().push(session);
        named.insert(session, None);
    }
    for (slot, batch) in log {
        for (index, command) in batch.commands().iter().enumerate() {
            if let Body::Open { hash, .. } = &command.body {
                let session = SessionId::opened_at(slot, index);
                opens.entry(*hash).or_default().push(session);
            } else if let Some(session) = named_by(command) {
                let ends = named.entry(session).or_default();
                if matches!(command.body, Body::Close | Body::Expire { .. }) {
                    *ends = Some(slot);
                }
            }
        }
    }
    let mut refused = BTreeSet::new();
    for opens in opens.into_values() {
        let mut before = None;
        for (place, session) in opens.iter().enumerate() {
            if let Some(ends) = named.get(session) {
                before = Some(*ends);
                continue;
            }
            // A session that may have been open still was the client's, and this was a copy of its open.
            let was_over =
                before.is_none_or(|ends| ends.is_some_and(|ends| ends < slot_of(*session)));
            let got_later = opens[place + 1..]
                .iter()
                .any(|later| named.contains_key(later));
            if was_over && got_later {
                refused.insert(*session);
            }
        }
    }
    refused
}

/// The session that a command speaks of.
fn named_by(command: &Command) -> Option<SessionId> {
    match &command.body {
        Body::Call { .. } | Body::Close => Some(command.id.session),
        Body::Expire { session, .. } | Body::Resume { session, .. } => Some(*session),
        _ => None,
    }
}

/// The slot in which a session was opened.
fn slot_of(session: SessionId) -> Slot {
    Slot(session.0 >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::{CommandId, ObjectId, SessionTerms, Stamp, Value};

    fn hash(number: u8) -> SecretHash {
        SecretHash::from_bytes([number; 16])
    }

    fn of(session: SessionId, body: Body) -> Command {
        Command {
            id: CommandId {
                session,
                sequence: 1,
            },
            acknowledged: 0,
            body,
        }
    }

    fn open(number: u8) -> Command {
        let body = Body::Open {
            hash: hash(number),
            terms: SessionTerms::default(),
            tenant: SecretHash::default(),
        };
        of(SessionId::NONE, body)
    }

    /// A call in the session that was opened in this slot.
    fn call(slot: u64) -> Command {
        let (object, payload) = (ObjectId(0), Value::new());
        of(opened(slot), Body::Call { object, payload })
    }

    fn close(slot: u64) -> Command {
        of(opened(slot), Body::Close)
    }

    fn opened(slot: u64) -> SessionId {
        SessionId::opened_at(Slot(slot), 0)
    }

    /// The slots of the opens that were refused, of a log with a command in each slot from slot 10 on.
    fn refused(commands: &[Command], held: &[(u8, u64)]) -> Vec<u64> {
        let batches = commands.iter().cloned();
        let batches: Vec<Batch> = batches
            .map(|command| Batch::new(Stamp::default(), vec![command]))
            .collect();
        let held = held
            .iter()
            .map(|(number, slot)| (hash(*number), opened(*slot)));
        let found = refused_opens((10..).map(Slot).zip(&batches), held);
        found
            .into_iter()
            .map(|session| slot_of(session).0)
            .collect()
    }

    #[test]
    fn an_open_was_refused_after_which_the_client_got_another_session() {
        let one = [
            open(1),
            open(2),
            open(2),
            close(10),
            open(2),
            call(14),
            call(14),
        ];
        assert_eq!(refused(&one, &[]), [11, 12]);
        // What nobody speaks of was opened, for all that is known.
        assert!(refused(&[open(1), open(2), call(10)], &[]).is_empty());
    }

    #[test]
    fn a_copy_of_an_open_shows_that_a_client_lives() {
        let copied = [
            open(1),
            call(10),
            open(1),
            open(1),
            close(10),
            open(1),
            call(15),
        ];
        assert!(refused(&copied, &[]).is_empty());
        let held = [open(1), close(3), open(1), open(1), call(13)];
        assert_eq!(
            refused(&held, &[(1, 3)]),
            [12],
            "the session of the snapshot was over"
        );
        assert_eq!(refused(&held, &[(2, 4)]), [10, 12]);
    }
}
