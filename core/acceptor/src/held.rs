//! The commands that wait at a leader or are in flight there: a copy of one takes no second place.
//!
//! Clients send a call again through another node, and nodes forward again what stays unanswered. Sessions make a copy
//! harmless, but each takes the place of a command in the queue and in a slot. Whoever submitted a copy keeps the command
//! itself, so dropping the copy loses nothing: the decision of the one that is held settles every copy.
//!
//! Commands come and go in runs of one session, so spans of sequences say whether there can be a copy at all, at the cost of
//! one look-up a run. Only then the commands themselves are looked for where they wait.
//!
//! Bounded by the queue and the pipeline, because only sequences of their commands are held.

use quorate_types::{Command, CommandId, SessionId};
use std::collections::{BTreeMap, VecDeque};

/// Sequences by session. Invariant: a command of each waits in the leader's queue or is in flight, and no session is
/// without one.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Held {
    sessions: BTreeMap<SessionId, Spans>,
}

/// Sequences of one session. Invariant: spans ascend, and between two of them a sequence is missing.
#[derive(Clone, PartialEq, Debug, Default)]
struct Spans(VecDeque<Span>);

/// All sequences from `first` to `last`.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Span {
    first: u64,
    last: u64,
}

/// Commands that wait at a leader under the ids of others.
#[derive(Debug, Default)]
pub struct Originals<'a>(BTreeMap<CommandId, Vec<&'a Command>>);

impl Held {
    /// Parts copies of what is held from the rest; `waiting` are the commands that are held. Another command under the same id
    /// is no copy: it is settled for itself.
    #[must_use]
    pub fn part<'a>(
        &'a self,
        commands: Vec<Command>,
        waiting: impl Iterator<Item = &'a Command>,
    ) -> (Vec<Command>, Vec<Command>) {
        if !self.has_any(&commands) {
            return (Vec::new(), commands);
        }
        let originals = self.originals(commands.iter(), waiting);
        let is_copy: Vec<bool> = commands.iter().map(|copy| originals.has(copy)).collect();
        let mut is_copy = is_copy.into_iter();
        commands
            .into_iter()
            .partition(|_| is_copy.next().expect("one for each command"))
    }

    /// The commands among `waiting`, those that are held, that `copies` may be copies of.
    pub fn originals<'a, 'b>(
        &self,
        copies: impl Iterator<Item = &'b Command>,
        waiting: impl Iterator<Item = &'a Command>,
    ) -> Originals<'a> {
        let known = copies.filter(|copy| self.has(copy.id));
        let mut originals: BTreeMap<CommandId, Vec<&Command>> =
            known.map(|copy| (copy.id, Vec::new())).collect();
        if !originals.is_empty() {
            for command in waiting {
                if let Some(found) = originals.get_mut(&command.id) {
                    found.push(command);
                }
            }
        }
        Originals(originals)
    }
}

impl Originals<'_> {
    /// Whether `command` is a copy of one of them.
    pub fn has(&self, command: &Command) -> bool {
        let found = self.0.get(&command.id);
        found.is_some_and(|found| found.iter().any(|found| found.body == command.body))
    }
}

impl Held {
    /// Whether a sequence of `commands` is held.
    fn has_any(&self, commands: &[Command]) -> bool {
        runs(commands).any(|(session, run)| {
            let spans = self.sessions.get(&session);
            spans.is_some_and(|spans| spans.meet(run))
        })
    }

    fn has(&self, id: CommandId) -> bool {
        let sequence = id.sequence;
        let spans = self.sessions.get(&id.session);
        spans.is_some_and(|spans| spans.meet(Span::only(sequence)))
    }

    /// `commands` wait.
    pub fn insert(&mut self, commands: &[Command]) {
        for (session, run) in runs(commands) {
            self.sessions.entry(session).or_default().insert(run);
        }
    }

    /// `commands` no longer wait.
    pub fn remove(&mut self, commands: &[Command]) {
        for (session, run) in runs(commands) {
            if let Some(spans) = self.sessions.get_mut(&session) {
                spans.remove(run);
                if spans.0.is_empty() {
                    self.sessions.remove(&session);
                }
            }
        }
    }

    /// Panics when an invariant is broken; `waiting` are the commands that are held.
    pub fn check<'a>(&self, waiting: impl Iterator<Item = &'a Command>) {
        let mut found = Held::default();
        for command in waiting {
            found.insert(std::slice::from_ref(command));
        }
        for (session, spans) in &self.sessions {
            assert!(!spans.0.is_empty(), "an idle session takes no memory");
            let mut pairs = spans.0.iter().zip(spans.0.iter().skip(1));
            assert!(spans.0.iter().all(|span| span.first <= span.last));
            assert!(pairs.all(|(a, b)| a.last + 1 < b.first));
            let found = found.sessions.get(session);
            let is_waiting = |span: &Span| found.is_some_and(|found| found.cover(*span));
            assert!(
                spans.0.iter().all(is_waiting),
                "copies are dropped only of what waits"
            );
        }
    }
}

impl Spans {
    /// The first span that ends at or after `sequence`.
    fn place(&self, sequence: u64) -> usize {
        self.0.partition_point(|span| span.last < sequence)
    }

    /// Whether a sequence of `run` is in one of them.
    fn meet(&self, run: Span) -> bool {
        if self.0.back().is_none_or(|newest| newest.last < run.first) {
            return false;
        }
        let span = self.0.get(self.place(run.first));
        span.is_some_and(|span| span.first <= run.last)
    }

    /// Whether every sequence of `run` is in one of them.
    fn cover(&self, run: Span) -> bool {
        let span = self.0.get(self.place(run.first));
        span.is_some_and(|span| span.first <= run.first && run.last <= span.last)
    }

    fn insert(&mut self, run: Span) {
        match self.0.back_mut() {
            None => self.0.push_back(run),
            Some(newest) if newest.last < run.first => {
                if newest.last + 1 == run.first {
                    newest.last = run.last;
                } else {
                    self.0.push_back(run);
                }
            }
            Some(_) => self.join(run),
        }
    }

    /// Makes one span of `run` and everything that it meets or touches.
    fn join(&mut self, run: Span) {
        let begin = self.place(run.first.saturating_sub(1));
        let touched = |span: &&Span| span.first <= run.last.saturating_add(1);
        let count = self.0.range(begin..).take_while(touched).count();
        let mut joined = run;
        for span in self.0.drain(begin..begin + count) {
            joined.first = joined.first.min(span.first);
            joined.last = joined.last.max(span.last);
        }
        self.0.insert(begin, joined);
    }

    fn remove(&mut self, run: Span) {
        let begin = self.place(run.first);
        let met = |span: &&Span| span.first <= run.last;
        let count = self.0.range(begin..).take_while(met).count();
        let Some(last) = count.checked_sub(1).map(|last| begin + last) else {
            return;
        };
        let before = Span {
            last: run.first.wrapping_sub(1),
            ..self.0[begin]
        };
        let after = Span {
            first: run.last.wrapping_add(1),
            ..self.0[last]
        };
        let leaves_before = before.first < run.first;
        let leaves_after = after.last > run.last;
        match (leaves_before, leaves_after) {
            (false, true) if count == 1 => self.0[begin] = after,
            (false, false) if count == 1 => drop(self.0.remove(begin)),
            _ => {
                self.0.drain(begin..begin + count);
                if leaves_after {
                    self.0.insert(begin, after);
                }
                if leaves_before {
                    self.0.insert(begin, before);
                }
            }
        }
    }
}

impl Span {
    fn only(sequence: u64) -> Span {
        Span {
            first: sequence,
            last: sequence,
        }
    }
}

/// The sequences of `commands`, in runs of one session without gaps.
fn runs(commands: &[Command]) -> impl Iterator<Item = (SessionId, Span)> {
    let follows = |one: &Command, next: &Command| {
        one.id.session == next.id.session
            && one.id.sequence.checked_add(1) == Some(next.id.sequence)
    };
    commands.chunk_by(follows).map(|run| {
        let (first, last) = (run[0].id, run[run.len() - 1].id);
        let span = Span {
            first: first.sequence,
            last: last.sequence,
        };
        (first.session, span)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::Body;
    use std::collections::BTreeSet;

    const SESSION: SessionId = SessionId(1);

    fn close(sequence: u64) -> Command {
        Command {
            id: CommandId {
                session: SESSION,
                sequence,
            },
            acknowledged: 0,
            body: Body::Close,
        }
    }

    fn sequences(held: &Held) -> BTreeSet<u64> {
        let spans = held.sessions.get(&SESSION).into_iter();
        let spans = spans.flat_map(|spans| spans.0.iter());
        spans.flat_map(|span| span.first..=span.last).collect()
    }

    #[test]
    fn commands_come_and_go_in_any_order() {
        let mut state = 7_u64;
        let mut draw = move |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        let mut held = Held::default();
        let mut model = BTreeSet::new();
        for _ in 0..20_000 {
            let first = draw(24);
            let run: Vec<Command> = (first..=first + draw(4)).map(close).collect();
            let is_known = |command: &Command| model.contains(&command.id.sequence);
            assert_eq!(held.has_any(&run), run.iter().any(is_known));
            if draw(2) == 0 {
                held.insert(&run);
                model.extend(run.iter().map(|command| command.id.sequence));
            } else {
                held.remove(&run);
                model.retain(|sequence| run.iter().all(|gone| gone.id.sequence != *sequence));
            }
            assert_eq!(sequences(&held), model);
            let waiting: Vec<Command> = model.iter().copied().map(close).collect();
            held.check(waiting.iter());
            assert_eq!(held.sessions.is_empty(), model.is_empty());
        }
    }

    #[test]
    fn the_highest_sequences_overflow_nothing() {
        let mut held = Held::default();
        held.insert(&[close(u64::MAX), close(0)]);
        held.insert(&[close(u64::MAX - 1)]);
        assert!(held.has(close(u64::MAX).id) && held.has(close(0).id));
        held.remove(&[close(u64::MAX), close(0), close(u64::MAX - 1)]);
        assert_eq!(held, Held::default());
    }

    #[test]
    fn sessions_are_apart() {
        let mut held = Held::default();
        let mut other = close(2);
        other.id.session = SessionId(2);
        held.insert(&[close(1), other.clone(), close(2), close(3)]);
        held.remove(&[close(2)]);
        assert!(held.has_any(&[close(2), other.clone()]));
        held.remove(&[other]);
        assert_eq!(sequences(&held), BTreeSet::from([1, 3]));
        assert_eq!(held.sessions.len(), 1);
    }
}
