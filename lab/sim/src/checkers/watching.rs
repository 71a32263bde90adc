//! Those who watch a feed: each sees each change once and in order, or is told exactly how many it lost, and never goes back. Who
//! waits is woken by the first change after it came, and everybody is told the same on every replica.
//!
//! Two halves. What each watcher hears, one answer after another, is followed as it happens. At the end a model of the feed replays
//! the decided log and says which call must have been told what; it shares no code with the object.

use super::rendezvous::WaitingStep;
use super::{Property, Violation};
use quorate_types::{CommandId, NodeId, SessionId};
use std::collections::BTreeMap;

/// What a call is told that watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// The number of the newest change, counted from 1.
    pub last: i64,
    /// Of those behind the one that was seen, how many are kept no more.
    pub lost: i64,
    /// The others of those, the newest last.
    pub changes: Vec<i64>,
}

/// What each call was told; `None` when its time was over, or its caller gave it up.
type Told = BTreeMap<CommandId, Option<News>>;

/// What was told of a feed.
#[derive(Debug)]
pub struct Watching {
    /// Changes that the feed keeps.
    kept: usize,
    /// By a replica or a reply; the same each time.
    told: Told,
    /// The number of the newest change that each watcher knows of.
    known: BTreeMap<u64, i64>,
    /// Changes as watchers heard them, by their numbers.
    heard: BTreeMap<i64, i64>,
}

impl Watching {
    /// Nothing was told yet of a feed that keeps so many changes.
    pub fn new(kept: usize) -> Watching {
        Watching {
            kept,
            told: BTreeMap::new(),
            known: BTreeMap::new(),
            heard: BTreeMap::new(),
        }
    }

    /// A replica's objects answer a call that watches, or a client hears it.
    ///
    /// # Errors
    /// [`Property::Watching`] when the call was told something else before.
    pub fn told(
        &mut self,
        id: CommandId,
        news: Option<News>,
        by: Option<NodeId>,
    ) -> Result<(), Violation> {
        let first = self.told.entry(id).or_insert_with(|| news.clone());
        if *first == news {
            return Ok(());
        }
        let detail = format!("{id} was told {first:?} and then {news:?} (by {by:?})");
        broken(detail)
    }

    /// A watcher that asked for what came behind a change hears of it; who asked for none of those before names none.
    ///
    /// # Errors
    /// [`Property::Watching`] when it misses a change, sees one again, sees another one in its place, or goes back.
    pub fn heard(&mut self, watcher: u64, seen: Option<i64>, news: &News) -> Result<(), Violation> {
        let News {
            last,
            lost,
            ref changes,
        } = *news;
        let known = self.known.entry(watcher).or_insert(0);
        if last < *known {
            return broken(format!(
                "c{watcher} knew of {known} changes and hears {news:?}"
            ));
        }
        *known = last;
        let told = changes.len() as i64;
        let is_whole = match seen {
            Some(seen) => lost >= 0 && lost + told > 0 && seen + lost + told == last,
            None => lost + told == 0,
        };
        if !is_whole {
            return broken(format!(
                "c{watcher} asked behind {seen:?} and hears {news:?}"
            ));
        }
        for (number, change) in (last - told + 1..).zip(changes) {
            let first = *self.heard.entry(number).or_insert(*change);
            if first != *change {
                return broken(format!(
                    "change {number} was {first} and is {change} for c{watcher}"
                ));
            }
        }
        Ok(())
    }

    /// Replays the log.
    ///
    /// # Errors
    /// [`Property::Watching`] when somebody was told what the log does not give, or the log gives what nobody told.
    pub fn check(&self, log: &[WaitingStep]) -> Result<(), Violation> {
        let feed = Feed::after(log, self.kept);
        for (id, news) in &self.told {
            match feed.given.get(id) {
                Some(right) if right == news => {}
                Some(right) => {
                    return broken(format!("{id} was told {news:?}, the log gives {right:?}"));
                }
                None => return broken(format!("{id} was told {news:?} and waits in the log")),
            }
        }
        let mut given = feed.given.iter();
        if let Some((id, news)) = given.find(|(id, _)| !self.told.contains_key(id)) {
            return broken(format!("the log gives {news:?} to {id}, which nobody told"));
        }
        for (number, change) in &self.heard {
            let published = usize::try_from(number - 1).ok();
            let published = published.and_then(|index| feed.published.get(index));
            if published != Some(change) {
                return broken(format!(
                    "change {number} was heard as {change}, the log has {published:?}"
                ));
            }
        }
        Ok(())
    }
}

/// The feed as its documentation has it.
#[derive(Debug, Default)]
struct Feed {
    /// All that was ever published.
    published: Vec<i64>,
    kept: usize,
    /// Changes to come, in the order in which they were announced.
    later: Vec<(u64, i64)>,
    waiting: Vec<Waiting>,
    given: Told,
}

/// A call that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: CommandId,
    seen: usize,
    until: Option<u64>,
}

impl Feed {
    fn after(log: &[WaitingStep], kept: usize) -> Feed {
        let mut feed = Feed {
            kept,
            ..Feed::default()
        };
        for step in log {
            match step {
                WaitingStep::Publish(change) => feed.publish(*change),
                WaitingStep::PublishAt(change, at) => feed.later.push((*at, *change)),
                WaitingStep::Watch { id, seen, until } => feed.watch(*id, *seen, *until),
                WaitingStep::Cancel(session, ids) => {
                    feed.end(|id| id.session == *session && ids.contains(&id));
                }
                WaitingStep::End(session) => feed.forget(*session),
                WaitingStep::Resume(session) => feed.end(|id| id.session == *session),
                WaitingStep::Tick(now) => feed.tick(*now),
                WaitingStep::Offer(_) | WaitingStep::OfferAt(..) | WaitingStep::Take(..) => {}
                WaitingStep::Acquire { .. } | WaitingStep::Release(_) => {}
            }
        }
        feed
    }

    fn publish(&mut self, change: i64) {
        self.published.push(change);
        for Waiting { id, seen, .. } in std::mem::take(&mut self.waiting) {
            let news = self.news(seen);
            self.given.insert(id, Some(news));
        }
    }

    /// Who names no change is told at once where the feed stands, and who names an old one what came behind it. No log holds a call
    /// that names one to come.
    fn watch(&mut self, id: CommandId, seen: Option<i64>, until: Option<u64>) {
        let last = self.published.len();
        let seen = seen.map(|seen| usize::try_from(seen).unwrap_or(0));
        if seen == Some(last) {
            self.waiting.push(Waiting {
                id,
                seen: last,
                until,
            });
            return;
        }
        let news = self.news(seen.unwrap_or(last).min(last));
        self.given.insert(id, Some(news));
    }

    fn news(&self, seen: usize) -> News {
        let last = self.published.len();
        let oldest = last.saturating_sub(self.kept).max(seen);
        News {
            last: last as i64,
            lost: (oldest - seen) as i64,
            changes: self.published[oldest..].to_vec(),
        }
    }

    /// These calls end with nothing.
    fn end(&mut self, is_over: impl Fn(CommandId) -> bool) {
        let over = self.waiting.extract_if(.., |each| is_over(each.id));
        self.given.extend(over.map(|each| (each.id, None)));
    }

    /// Nobody may hear the answers of a session that is over.
    fn forget(&mut self, session: SessionId) {
        self.waiting.retain(|each| each.id.session != session);
    }

    /// Who has waited too long goes before a change comes that is due as well.
    fn tick(&mut self, now: u64) {
        let is_over = |each: &mut Waiting| each.until.is_some_and(|until| until <= now);
        let over = self.waiting.extract_if(.., is_over);
        self.given.extend(over.map(|each| (each.id, None)));
        self.later.sort_by_key(|(at, _)| *at);
        let due = self.later.partition_point(|(at, _)| *at <= now);
        for (_, change) in self.later.drain(..due).collect::<Vec<_>>() {
            self.publish(change);
        }
    }
}

fn broken(detail: String) -> Result<(), Violation> {
    Err(Violation::new(Property::Watching, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changes that the feed of these tests keeps.
    const KEPT: usize = 2;

    fn id(session: u64) -> CommandId {
        CommandId {
            session: SessionId(session),
            sequence: 1,
        }
    }

    fn watch(session: u64, seen: impl Into<Option<i64>>, until: Option<u64>) -> WaitingStep {
        let (id, seen) = (id(session), seen.into());
        WaitingStep::Watch { id, seen, until }
    }

    fn news(last: i64, lost: i64, changes: &[i64]) -> Option<News> {
        Some(News {
            last,
            lost,
            changes: changes.to_vec(),
        })
    }

    /// Says whether a checker that saw just this finds nothing wrong with the log.
    fn passes(log: &[WaitingStep], told: &[(u64, Option<News>)]) -> bool {
        let mut seen = Watching::new(KEPT);
        for (session, news) in told {
            seen.told(id(*session), news.clone(), None).unwrap();
        }
        seen.check(log).is_ok()
    }

    #[test]
    fn the_first_change_wakes_all_who_wait_and_nobody_is_forgotten_or_woken_again() {
        let log = [
            watch(1, 0, None),
            watch(2, 0, None),
            WaitingStep::Publish(70),
            WaitingStep::Publish(71),
            watch(3, 2, None),
        ];
        let first = || news(1, 0, &[70]);
        assert!(passes(&log, &[(1, first()), (2, first())]));
        assert!(!passes(&log, &[(1, first())]), "the second is forgotten");
        let late = [(1, first()), (2, news(2, 0, &[70, 71]))];
        assert!(!passes(&log, &late), "woken by the second change");
        let early = [(1, first()), (2, first()), (3, news(2, 0, &[]))];
        assert!(!passes(&log, &early), "woken by nothing");
        let mut twice = Watching::new(KEPT);
        twice.told(id(1), first(), None).unwrap();
        twice.told(id(1), first(), None).unwrap();
        let again = twice.told(id(1), news(2, 0, &[70, 71]), None);
        assert_eq!(again.unwrap_err().property, Property::Watching);
    }

    #[test]
    fn who_is_far_behind_is_told_exactly_how_many_are_lost() {
        let published = [70, 71, 72].map(WaitingStep::Publish);
        let mut log = published.to_vec();
        log.extend([watch(1, 0, None), watch(2, 1, None), watch(3, None, None)]);
        let told = |lost| {
            let (far, near) = (news(3, lost, &[71, 72]), news(3, 0, &[71, 72]));
            [(1, far), (2, near), (3, news(3, 0, &[]))]
        };
        assert!(passes(&log, &told(1)));
        assert!(!passes(&log, &told(0)));
        assert!(!passes(&log, &told(2)));
    }

    #[test]
    fn a_watch_ends_by_its_time_or_its_caller_and_with_its_session() {
        let log = [
            watch(1, 0, Some(10)),
            watch(2, 0, Some(30)),
            watch(3, 0, None),
            watch(4, 0, None),
            watch(5, 0, None),
            WaitingStep::PublishAt(71, 20),
            WaitingStep::PublishAt(70, 10),
            WaitingStep::Tick(9),
            WaitingStep::End(SessionId(3)),
            WaitingStep::Resume(SessionId(4)),
            WaitingStep::Cancel(SessionId(5), vec![id(5), id(2)]),
            WaitingStep::Tick(25),
        ];
        let right = [(1, None), (2, news(1, 0, &[70])), (4, None), (5, None)];
        assert!(passes(&log, &right));
        let mut to_the_ended = right.to_vec();
        to_the_ended.push((3, news(1, 0, &[70])));
        assert!(!passes(&log, &to_the_ended));
        for place in [0, 2, 3] {
            let mut woken = right.to_vec();
            woken[place].1 = news(1, 0, &[70]);
            assert!(!passes(&log, &woken), "{place} had its end before");
        }
    }

    #[test]
    fn a_watcher_goes_on_where_it_stands_and_never_back() {
        let hear = |answers: &[(Option<i64>, Option<News>)]| {
            let mut watching = Watching::new(KEPT);
            let mut answers = answers.iter();
            answers.try_for_each(|(seen, news)| watching.heard(7, *seen, news.as_ref().unwrap()))
        };
        let begins = (None, news(4, 0, &[]));
        hear(&[begins.clone(), (Some(4), news(8, 2, &[77, 78]))]).unwrap();
        let wrong = [
            ("misses one", Some(4), news(8, 1, &[77, 78])),
            ("sees one again", Some(4), news(5, 0, &[74, 75])),
            ("hears nothing", Some(4), news(4, 0, &[])),
            ("goes back", None, news(3, 0, &[])),
            ("is told what it did not ask for", None, news(5, 0, &[75])),
        ];
        for (why, seen, news) in wrong {
            assert!(hear(&[begins.clone(), (seen, news)]).is_err(), "{why}");
        }
    }

    #[test]
    fn a_change_is_the_same_for_all_who_hear_it_and_in_the_log() {
        let log = [70, 71].map(WaitingStep::Publish);
        let mut watching = Watching::new(KEPT);
        let both = news(2, 0, &[70, 71]).unwrap();
        watching.heard(7, Some(0), &both).unwrap();
        watching.check(&log).unwrap();
        let other = news(2, 0, &[79]).unwrap();
        assert!(watching.heard(8, Some(1), &other).is_err());
        let swapped = [71, 70].map(WaitingStep::Publish);
        assert!(watching.check(&swapped).is_err());
        assert!(watching.check(&log[..1]).is_err(), "it was never published");
    }
}
