//! The feed of a simulated group: the newest changes that were published there, and who watches for more.
//!
//! An object of the world alone, which behaves as `python/quorate/_feed.py` does: a publish wakes all who watch, and each is told
//! what it has not seen, with the number of changes that are kept no more. It keeps few, so that watchers lose some, and has no topics.

use bytes::{Buf, BufMut, Bytes};
use quorate_host::{
    Arguments, CallView, Ending, Environment, FrozenState, Mistake, Object, RestoreError, Turn,
    overloaded, raised, returned_int, returned_none, unknown_method,
};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{CommandId, Deadline, Duration, Outcome, SessionId};
use quorate_wire::value::{self, Value};
use std::collections::VecDeque;

/// Changes that are kept.
pub(super) const KEPT_MAX: usize = 3;

/// In place of the number of a change: none was seen, and none of those before is wanted.
pub(super) const FROM_HERE: i64 = -1;

/// The feed. `publish(change, seconds=None)` adds a change, at once or by a timer; `watch(seen, seconds=None)` tells what came behind
/// the change with that number, and waits for it, at most so many seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Feed {
    /// The number of the newest change, counted from 1.
    last: i64,
    /// The newest changes.
    kept: VecDeque<i64>,
    /// Calls that wait, in the order in which they came, each with the change it has seen.
    watching: Vec<(CommandId, i64)>,
}

impl Feed {
    fn publish(&mut self, mut call: Arguments<'_>, turn: &mut Turn<'_>) -> Result<Ending, Mistake> {
        let change = call.int("change")?;
        let delay = call.seconds("seconds")?;
        call.finish()?;
        let Some(delay) = delay else {
            self.add(change, turn);
            return Ok(Ending::Now(returned_none()));
        };
        let payload = Bytes::copy_from_slice(&change.to_le_bytes());
        let set = turn.set_timer(turn.after(delay), Duration::ZERO, payload);
        Ok(Ending::Now(
            set.map_or_else(overloaded, |_| returned_none()),
        ))
    }

    /// One more change: everybody who waits is told.
    fn add(&mut self, change: i64, turn: &mut Turn<'_>) {
        self.last += 1;
        self.kept.push_back(change);
        if self.kept.len() > KEPT_MAX {
            self.kept.pop_front();
        }
        for (watcher, seen) in std::mem::take(&mut self.watching) {
            turn.answer(watcher, self.news_since(seen));
        }
    }

    fn watch(&mut self, mut call: Arguments<'_>, turn: &mut Turn<'_>) -> Result<Ending, Mistake> {
        let seen = call.int("seen")?;
        let patience = call.seconds("seconds")?;
        call.finish()?;
        if seen > self.last {
            let detail = format!("change {seen} is to come: there are {}", self.last);
            return Ok(Ending::Now(raised("ValueError", detail)));
        }
        if seen == FROM_HERE {
            return Ok(Ending::Now(self.news_since(self.last)));
        }
        if seen < self.last && !planted(Plant::OldNumberWaits) {
            return Ok(Ending::Now(self.news_since(seen)));
        }
        let Some(caller) = turn.caller().filter(|_| turn.has_room()) else {
            return Ok(Ending::Now(overloaded()));
        };
        // Those that wait no more stay until they are in the majority.
        if self.watching.len() > 2 * turn.parked() {
            self.watching
                .retain(|(watcher, _)| turn.is_parked(*watcher));
        }
        self.watching.push((caller, seen));
        Ok(patience.map_or(Ending::Parked, |span| {
            Ending::ParkedUntil(Deadline {
                at: turn.after(span),
                otherwise: returned_none(),
            })
        }))
    }

    /// The number of the newest change, how many behind `seen` are lost, and the others of those.
    fn news_since(&self, seen: i64) -> Outcome {
        let unseen = (self.last - seen) as usize;
        let told = unseen.min(self.kept.len());
        let newest = self.kept.range(self.kept.len() - told..).copied();
        let news = [self.last, (unseen - told) as i64];
        let news = news.into_iter().chain(newest).map(Value::Int).collect();
        Outcome::Returned(value::encode(&Value::List(news)).expect("a few numbers"))
    }
}

impl Object for Feed {
    fn apply(&mut self, call: CallView<'_>, _env: &Environment) -> Outcome {
        self.read(call)
    }

    fn run(&mut self, call: CallView<'_>, env: &Environment, turn: &mut Turn<'_>) -> Ending {
        let ended = match call.method {
            "publish" => self.publish(call.arguments, turn),
            "watch" => self.watch(call.arguments, turn),
            _ => Ok(Ending::Now(self.apply(call, env))),
        };
        ended.unwrap_or_else(|mistake| Ending::Now(mistake.into()))
    }

    fn session_ended(&mut self, session: SessionId, _env: &Environment, _turn: &mut Turn<'_>) {
        self.watching
            .retain(|(watcher, _)| watcher.session != session);
    }

    fn timer(&mut self, mut payload: &[u8], _env: &Environment, turn: &mut Turn<'_>) {
        self.add(payload.get_i64_le(), turn);
    }

    fn read(&self, call: CallView<'_>) -> Outcome {
        match call.method {
            "last" => returned_int(self.last),
            unknown => unknown_method("Feed", unknown),
        }
    }

    fn snapshot(&self) -> FrozenState {
        let feed = self.clone();
        Box::new(move || {
            let mut image = Vec::new();
            image.put_i64_le(feed.last);
            image.put_u64_le(feed.kept.len() as u64);
            feed.kept
                .iter()
                .for_each(|change| image.put_i64_le(*change));
            for (watcher, seen) in &feed.watching {
                image.put_u64_le(watcher.session.0);
                image.put_u64_le(watcher.sequence);
                image.put_i64_le(*seen);
            }
            image.into()
        })
    }

    fn restore(&mut self, mut image: &[u8]) -> Result<(), RestoreError> {
        let cut = |_| RestoreError::new("a feed's image is cut");
        let mut feed = Feed {
            last: image.try_get_i64_le().map_err(cut)?,
            ..Feed::default()
        };
        for _ in 0..image.try_get_u64_le().map_err(cut)? {
            feed.kept.push_back(image.try_get_i64_le().map_err(cut)?);
        }
        if planted(Plant::LostNotInImage) {
            feed.last = feed.kept.len() as i64;
        }
        while !image.is_empty() {
            let session = SessionId(image.try_get_u64_le().map_err(cut)?);
            let sequence = image.try_get_u64_le().map_err(cut)?;
            let seen = image.try_get_i64_le().map_err(cut)?;
            feed.watching.push((CommandId { session, sequence }, seen));
        }
        if planted(Plant::WatchersInOtherOrder) {
            feed.watching.sort_unstable();
        }
        *self = feed;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_host::{LiveObject, LiveObjects, call_payload};
    use quorate_types::{
        CallRef, LaterAnswer, ObjectId, Slot, SlotResults, Stamp, StepRef, StepResult,
    };

    const FEED: ObjectId = ObjectId(0);

    fn call(objects: &mut LiveObjects, session: u64, method: &str, argument: i64) -> SlotResults {
        let mut results = SlotResults::default();
        let id = CommandId {
            session: SessionId(session),
            sequence: 1,
        };
        let step = StepRef::Call(CallRef {
            index: 0,
            id,
            object: FEED,
            payload: &call_payload(method, &[argument]),
        });
        objects.step(Slot(session), Stamp::default(), step, &mut results);
        results
    }

    fn told(outcome: &Outcome) -> Vec<i64> {
        let Outcome::Returned(bytes) = outcome else {
            panic!("{outcome:?}")
        };
        let Ok(Value::List(items)) = value::decode(bytes) else {
            panic!("{outcome:?}")
        };
        let number = |item: Value| match item {
            Value::Int(number) => number,
            other => panic!("{other:?}"),
        };
        items.into_iter().map(number).collect()
    }

    #[test]
    fn a_publish_wakes_all_who_watch_and_an_old_number_tells_what_is_lost() {
        let feed = || LiveObject::new(Box::new(Feed::default()));
        let mut objects = LiveObjects::from_iter([(FEED, feed())]);
        for session in [2, 1] {
            let parked = call(&mut objects, session, "watch", 0);
            assert_eq!(parked.steps, [StepResult::Parked]);
        }
        let image = objects.get(FEED).unwrap().snapshot()().whole();
        let mut copy = feed();
        copy.restore(&image).unwrap();
        assert_eq!(copy.snapshot()().whole(), image);
        objects.insert(FEED, copy);
        let woken = call(&mut objects, 3, "publish", 70).answers;
        let both = |LaterAnswer { id, outcome, .. }: &LaterAnswer| (id.session.0, told(outcome));
        let both: Vec<_> = woken.iter().map(both).collect();
        assert_eq!(both, [(2, vec![1, 0, 70]), (1, vec![1, 0, 70])]);
        for change in [71, 72, 73] {
            assert_eq!(call(&mut objects, 4, "publish", change).answers, []);
        }
        for (seen, news) in [(0, vec![4, 1, 71, 72, 73]), (FROM_HERE, vec![4, 0])] {
            let answered = call(&mut objects, 5, "watch", seen);
            assert_eq!(told(answered.steps[0].outcome().unwrap()), news);
        }
    }
}
