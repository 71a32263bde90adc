//! Clients that watch the feed: each asks again and again for what came behind the change that it was told last, and publishes
//! changes for the others.
//!
//! What a client has seen outlives its process, as a program keeps the number of the last change that it has worked on.

use super::World;
use super::feed::FROM_HERE;
use super::random::Random;
use super::row::Row;
use super::workload::{Drawn, FEED};
use crate::checkers::recorded::Call;
use crate::checkers::watching::News;
use serde_json::Value as Json;

/// Watchers wait for less, and changes come earlier.
const PATIENCE_MS: u64 = 3_000;

/// What one client that watches does, and how far it is.
#[derive(Debug)]
pub(super) struct Watcher {
    random: Random,
    client: u64,
    published: u64,
    /// The number of the last change that it was told.
    seen: Option<i64>,
}

impl Watcher {
    /// The watcher that is `client`.
    pub(super) fn new(random: Random, client: u64) -> Watcher {
        Watcher {
            random,
            client,
            published: 0,
            seen: None,
        }
    }

    /// Its next operation. It watches by one call at a time, and in a drought it publishes nothing.
    pub(super) fn draw(&mut self, is_watching: bool, is_dry: bool) -> Option<Drawn> {
        if !is_watching && self.random.chance(250) {
            return Some(self.draw_watch());
        }
        if is_dry || !self.random.chance(150) {
            return None;
        }
        let delay = match self.random.below(4) {
            0 => Some(0),
            1 => Some(self.random.below(PATIENCE_MS)),
            _ => None,
        };
        Some(self.draw_publish(delay))
    }

    fn draw_watch(&mut self) -> Drawn {
        let from_here = self.random.chance(50);
        let seen = self.seen.filter(|_| !from_here).unwrap_or(FROM_HERE);
        let is_patient = self.random.chance(600);
        let patience = (!is_patient).then(|| self.random.between(1, PATIENCE_MS));
        Drawn {
            object: FEED,
            call: Call::Watch(seen, patience),
            level: None,
        }
    }

    /// A change for whoever watches, at once or by a timer after so many milliseconds.
    pub(super) fn draw_publish(&mut self, delay_ms: Option<u64>) -> Drawn {
        self.published += 1;
        let change = self.client * 1_000_000 + self.published;
        Drawn {
            object: FEED,
            call: Call::Publish(change as i64, delay_ms),
            level: None,
        }
    }
}

impl World {
    /// A client has the answer to its call: one that watches remembers how far it is.
    pub(super) fn watcher_heard(&mut self, number: u64, result: &Json) {
        let client = self.clients.get_mut(&number).expect("clients stay");
        let Some((watcher, news)) = client.watcher.as_mut().zip(news_of(result)) else {
            return;
        };
        watcher.seen = Some(news.last);
        if news.lost > 0 {
            self.exercised(Row::ChangesLost);
        }
    }
}

/// What a call was told that watches; `None` when it was told nothing, or the answer is of another kind.
pub(super) fn news_of(result: &Json) -> Option<News> {
    let numbers = result.as_array()?.iter();
    let mut numbers = numbers.map(Json::as_i64).collect::<Option<Vec<i64>>>()?;
    let changes = numbers.split_off(2.min(numbers.len()));
    let [last, lost] = numbers.try_into().ok()?;
    Some(News {
        last,
        lost,
        changes,
    })
}
