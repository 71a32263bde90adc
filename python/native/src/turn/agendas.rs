//! The agendas of all objects, and what they say together: a group may have ten thousand objects, and a step changes few.

use quorate_types::{Agenda, CommandId, SessionId, Wall};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is to come for some objects, as it was; `None` where nothing was.
pub(crate) type AgendasBefore = BTreeMap<u32, Option<Arc<Agenda>>>;

/// What is to come for each object. Objects without an entry have nothing to come.
pub(crate) struct Agendas {
    /// Shared with what is kept of an object while a call of it runs: that copies nothing unless the call changes it.
    all: BTreeMap<u32, Arc<Agenda>>,
    /// Those that may have changed since the sums were made.
    changed: BTreeSet<u32>,
    /// Of each object, as it was when it was last looked at: when it has something to do first, and how many calls wait there.
    seen: BTreeMap<u32, (Option<Wall>, usize)>,
    /// Invariant: the times in `seen`.
    dues: BTreeSet<(Wall, u32)>,
    /// Invariant: the sum of the counts in `seen`.
    parked: usize,
    /// Agendas as they were before they changed, while that is kept.
    before: Option<AgendasBefore>,
}

impl Agendas {
    pub(crate) const fn new() -> Agendas {
        Agendas {
            all: BTreeMap::new(),
            changed: BTreeSet::new(),
            seen: BTreeMap::new(),
            dues: BTreeSet::new(),
            parked: 0,
            before: None,
        }
    }

    pub(crate) fn get(&self, object: u32) -> Option<&Agenda> {
        self.all.get(&object).map(Arc::as_ref)
    }

    /// That of an object as it is now, whatever changes later.
    pub(crate) fn keep(&self, object: u32) -> Arc<Agenda> {
        self.all.get(&object).cloned().unwrap_or_default()
    }

    pub(crate) fn keep_changed(&mut self) {
        self.before = Some(AgendasBefore::new());
    }

    pub(crate) fn take_kept(&mut self) -> AgendasBefore {
        self.before.take().unwrap_or_default()
    }

    pub(crate) fn put_back(&mut self, before: AgendasBefore) {
        for (object, agenda) in before {
            self.changed.insert(object);
            match agenda {
                Some(agenda) => self.all.insert(object, agenda),
                None => self.all.remove(&object),
            };
        }
    }

    /// The agenda of an object is about to change.
    fn changes(&mut self, object: u32) {
        self.changed.insert(object);
        if let Some(before) = &mut self.before {
            let all = &self.all;
            before
                .entry(object)
                .or_insert_with(|| all.get(&object).cloned());
        }
    }

    pub(crate) fn get_mut(&mut self, object: u32) -> Option<&mut Agenda> {
        if !self.all.contains_key(&object) {
            return None;
        }
        self.changes(object);
        self.all.get_mut(&object).map(Arc::make_mut)
    }

    /// That of an object, which is empty at first.
    pub(crate) fn of(&mut self, object: u32) -> &mut Agenda {
        self.changes(object);
        Arc::make_mut(self.all.entry(object).or_default())
    }

    pub(crate) fn put(&mut self, object: u32, agenda: Arc<Agenda>) {
        self.changes(object);
        self.all.insert(object, agenda);
    }

    pub(crate) fn remove(&mut self, object: u32) -> Agenda {
        self.changes(object);
        self.all
            .remove(&object)
            .map(Arc::unwrap_or_clone)
            .unwrap_or_default()
    }

    /// Takes these in place of all.
    pub(crate) fn restore(&mut self, all: BTreeMap<u32, Agenda>) {
        *self = Agendas::new();
        self.changed = all.keys().copied().collect();
        self.all = all
            .into_iter()
            .map(|(object, agenda)| (object, Arc::new(agenda)))
            .collect();
    }

    /// A session is over. Returns the objects that know it, ascending.
    pub(crate) fn end(&mut self, session: SessionId) -> Vec<u32> {
        let mut known = Vec::new();
        for (object, agenda) in &mut self.all {
            let agenda = Arc::make_mut(agenda);
            let before = agenda.parked.len();
            if agenda.parked.end(session) {
                known.push(*object);
            }
            if agenda.parked.len() != before {
                self.changed.insert(*object);
            }
        }
        known
    }

    /// Takes all calls of a session from those that wait, object by object.
    pub(crate) fn cancel_all(&mut self, session: SessionId) -> Vec<CommandId> {
        let mut cancelled = Vec::new();
        for (object, agenda) in &mut self.all {
            let of_session = agenda.parked.of_session(session);
            if !of_session.is_empty() {
                self.changed.insert(*object);
            }
            let parked = &mut Arc::make_mut(agenda).parked;
            cancelled.extend(of_session.into_iter().filter(|id| parked.take(*id)));
        }
        cancelled
    }

    /// The objects that have something to do at an agreed time, ascending.
    pub(crate) fn due(&mut self, now: Wall) -> Vec<u32> {
        self.look();
        let due = self.dues.iter().take_while(|(at, _)| *at <= now);
        let mut due: Vec<u32> = due.map(|(_, object)| *object).collect();
        due.sort_unstable();
        due
    }

    /// When the first has something to do.
    pub(crate) fn next_due(&mut self) -> Option<Wall> {
        self.look();
        self.dues.first().map(|(at, _)| *at)
    }

    /// Calls that wait at all of them.
    pub(crate) fn parked(&mut self) -> usize {
        self.look();
        self.parked
    }

    fn look(&mut self) {
        while let Some(object) = self.changed.pop_first() {
            let found = self.all.get(&object);
            let now = found.map(|agenda| (agenda.next_due(), agenda.parked.len()));
            let before = match now {
                Some(now) => self.seen.insert(object, now),
                None => self.seen.remove(&object),
            };
            let (due_before, parked_before) = before.unwrap_or_default();
            let (due, parked) = now.unwrap_or_default();
            if let Some(at) = due_before {
                self.dues.remove(&(at, object));
            }
            self.dues.extend(due.map(|at| (at, object)));
            self.parked = self.parked + parked - parked_before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::{CallPlace, Deadline, Outcome, ParkedCall, Slot, Value};

    fn park(agendas: &mut Agendas, object: u32, session: u64, at: u64) {
        let session = SessionId(session);
        let id = CommandId {
            session,
            sequence: 1,
        };
        let otherwise = Outcome::Returned(Value::new());
        let call = ParkedCall {
            place: CallPlace {
                slot: Slot(1),
                index: 0,
            },
            deadline: Some(Deadline {
                at: Wall(at),
                otherwise,
            }),
            again: None,
        };
        agendas.of(object).parked.park(id, call);
    }

    #[test]
    fn the_sums_follow_every_change() {
        let mut agendas = Agendas::new();
        park(&mut agendas, 7, 1, 30);
        park(&mut agendas, 3, 2, 20);
        park(&mut agendas, 5, 3, 20);
        assert_eq!((agendas.parked(), agendas.next_due()), (3, Some(Wall(20))));
        assert_eq!(agendas.due(Wall(25)), [3, 5]);
        agendas.end(SessionId(2));
        assert_eq!((agendas.parked(), agendas.due(Wall(25))), (2, vec![5]));
        agendas.remove(5);
        assert_eq!((agendas.parked(), agendas.next_due()), (1, Some(Wall(30))));
        agendas.restore(BTreeMap::new());
        assert_eq!((agendas.parked(), agendas.next_due()), (0, None));
    }
}
