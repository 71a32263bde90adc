//! The commands that wait at a leader or are in flight there: a copy of one takes no second place.
//!
//! Clients send a call again through another node, and nodes forward again what stays unanswered. Sessions make a copy
//! harmless, but each takes the place of a command in the queue and in a slot. Whoever submitted a copy keeps the command
//! itself, so dropping the copy loses nothing: the decision of the one that is held settles every copy.
//!
//! Bounded by the queue and the pipeline, because only their commands are held.

use quorate_types::{Body, Command, CommandId, SessionId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Commands by session, each session's by sequence: they come and go in that order, so both ends of a queue are all that is
/// looked at. Invariant: each waits in the leader's queue or is in flight, and no session is without one.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Held {
    sessions: BTreeMap<SessionId, Waiting>,
}

#[derive(Clone, PartialEq, Debug, Default)]
struct Waiting(VecDeque<(u64, Body)>);

impl Held {
    /// Parts copies of what is held from the rest. Another command under the same id is no copy: it is settled for itself.
    pub(crate) fn part(&self, commands: Vec<Command>) -> (Vec<Command>, Vec<Command>) {
        let is_fresh = |run: &[Command]| {
            let waiting = self.sessions.get(&run[0].id.session);
            waiting.is_none_or(|waiting| !run.iter().any(|command| waiting.has(command)))
        };
        if of_sessions(&commands).all(is_fresh) {
            return (Vec::new(), commands);
        }
        commands.into_iter().partition(|command| self.has(command))
    }

    /// Whether `command`, or the command that it is a copy of, is held.
    pub(crate) fn has(&self, command: &Command) -> bool {
        let waiting = self.sessions.get(&command.id.session);
        waiting.is_some_and(|waiting| waiting.has(command))
    }

    pub(crate) fn insert(&mut self, commands: &[Command]) {
        for run in of_sessions(commands) {
            let waiting = self.sessions.entry(run[0].id.session).or_default();
            for command in run {
                if let Err(place) = waiting.place(command.id.sequence) {
                    let held = (command.id.sequence, command.body.clone());
                    waiting.0.insert(place, held);
                }
            }
        }
    }

    /// `commands` no longer wait.
    pub(crate) fn remove(&mut self, commands: &[Command]) {
        for run in of_sessions(commands) {
            let session = run[0].id.session;
            let Some(waiting) = self.sessions.get_mut(&session) else {
                continue;
            };
            for command in run {
                if let Some(place) = waiting.find(command) {
                    waiting.0.remove(place);
                }
            }
            if waiting.0.is_empty() {
                self.sessions.remove(&session);
            }
        }
    }

    pub(crate) fn check<'a>(&self, waiting: impl Iterator<Item = &'a Command>) {
        let waiting: BTreeSet<CommandId> = waiting.map(|command| command.id).collect();
        for (session, held) in &self.sessions {
            assert!(!held.0.is_empty(), "an idle session takes no memory");
            let mut sequences = held.0.iter().map(|(sequence, _)| *sequence);
            assert!(sequences.clone().is_sorted_by(|a, b| a < b));
            let is_waiting = |sequence| {
                let session = *session;
                waiting.contains(&CommandId { session, sequence })
            };
            assert!(
                sequences.all(is_waiting),
                "copies are dropped only of what waits"
            );
        }
    }
}

impl Waiting {
    fn has(&self, command: &Command) -> bool {
        self.find(command).is_some()
    }

    fn find(&self, command: &Command) -> Option<usize> {
        let place = self.place(command.id.sequence).ok()?;
        (self.0[place].1 == command.body).then_some(place)
    }

    /// Where `sequence` is, or where it would be.
    fn place(&self, sequence: u64) -> Result<usize, usize> {
        match (self.0.front(), self.0.back()) {
            (Some((first, _)), _) if *first == sequence => Ok(0),
            (_, Some((last, _))) if sequence <= *last => {
                self.0.binary_search_by_key(&sequence, |(held, _)| *held)
            }
            (_, _) => Err(self.0.len()),
        }
    }
}

fn of_sessions(commands: &[Command]) -> impl Iterator<Item = &[Command]> {
    commands.chunk_by(|one, next| one.id.session == next.id.session)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::Slot;

    fn close(sequence: u64) -> Command {
        let session = SessionId(1);
        Command {
            id: CommandId { session, sequence },
            acknowledged: 0,
            body: Body::Close,
        }
    }

    #[test]
    fn only_the_same_command_is_a_copy_and_only_while_it_is_held() {
        let mut held = Held::default();
        held.insert(&[close(1), close(2)]);
        let later = Command {
            acknowledged: 1,
            ..close(2)
        };
        let other = Command {
            body: Body::Skip {
                slot: Slot(1),
                index: 0,
            },
            ..close(1)
        };
        let (copies, rest) = held.part(vec![later.clone(), other.clone(), close(3)]);
        assert_eq!(copies, [later]);
        assert_eq!(rest, [other.clone(), close(3)]);
        held.insert(std::slice::from_ref(&other));
        held.remove(&[other, close(2)]);
        held.check([close(1)].iter());
        assert_eq!(held.part(vec![close(1), close(2)]).0, [close(1)]);
    }

    #[test]
    fn commands_come_and_go_in_any_order() {
        let mut held = Held::default();
        held.insert(&[close(4), close(2), close(9), close(2)]);
        held.insert(&[close(3)]);
        held.remove(&[close(3), close(9), close(5)]);
        held.check([close(2), close(4)].iter());
        let (copies, rest) = held.part(vec![close(2), close(3), close(4), close(9)]);
        assert_eq!(copies, [close(2), close(4)]);
        assert_eq!(rest, [close(3), close(9)]);
        let (copies, rest) = held.part(vec![close(1), close(2), close(3), close(4)]);
        assert_eq!(
            copies,
            [close(2), close(4)],
            "copies behind one that is fresh"
        );
        assert_eq!(rest, [close(1), close(3)]);
        held.remove(&[close(4), close(2)]);
        assert_eq!(held, Held::default());
    }
}
