//! The load: many clients on one thread, each keeping its window full, and what they saw.

use super::payload::Payloads;
use super::timeline::BenchTimeline;
use hdrhistogram::Histogram;
use mio::{Events, Poll, Token};
use quorate_client::{
    Answer, ConnectError, Driver, DriverOptions, Endpoint, Finished, Preference, Ticket, TlsClient,
};
use quorate_types::{ObjectId, Outcome, ReadLevel};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Start times are kept by ticket in a ring: larger than any window, a power of two.
const RING: usize = 1 << 13;

/// Latencies above it are recorded as it: longer than any operation may take.
const LONGEST_NS: u64 = 600_000_000_000;

/// What to put on the group.
pub(super) struct LoadPlan<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) clients: u32,
    /// Whether each client stays with a node of its own.
    pub(super) is_spread: bool,
    pub(super) window: u32,
    pub(super) payloads: &'a Payloads,
    pub(super) read_ratio: f64,
    pub(super) reads: ReadLevel,
    pub(super) tls: Option<Arc<TlsClient>>,
}

/// What a span of load showed.
pub(super) struct LoadSeen {
    pub(super) operations: u64,
    pub(super) errors: u64,
    pub(super) seconds: f64,
    /// Nanoseconds, corrected for the operations that a stall kept from being begun.
    pub(super) latency: Histogram<u64>,
}

/// Clients that are connected and ready.
pub(super) struct Load<'a> {
    plan: LoadPlan<'a>,
    poll: Poll,
    users: Vec<User>,
    finished: Vec<Finished>,
    random: u64,
    /// Reads per 2^32 operations.
    read_share: u64,
}

struct User {
    driver: Driver,
    object: ObjectId,
    /// Start of each operation in flight, by ticket; calls and reads have tickets of their own.
    started: Vec<Instant>,
}

impl<'a> Load<'a> {
    /// Connects every client.
    pub(super) fn connect(plan: LoadPlan<'a>, timeout: Duration) -> Result<Load<'a>, ConnectError> {
        let system = |error: std::io::Error| ConnectError::System(error.to_string());
        let poll = Poll::new().map_err(system)?;
        let mut options = DriverOptions {
            tls: plan.tls.clone(),
            ..DriverOptions::default()
        };
        options.session.preference = match plan.reads {
            ReadLevel::Any if plan.read_ratio > 0.5 => Preference::Anyone,
            ReadLevel::Any
            | ReadLevel::Loose
            | ReadLevel::Ordered
            | ReadLevel::Confirmed
            | ReadLevel::Broadcast
            | ReadLevel::Lease => Preference::Leader,
        };
        if plan.is_spread {
            options.session.preference = Preference::Anyone;
        }
        let mut users = Vec::new();
        for index in 0..plan.clients {
            let token = Token(index as usize);
            let endpoint = match plan.is_spread {
                true => one_of(plan.endpoint, index as usize),
                false => plan.endpoint.clone(),
            };
            let driver = Driver::new(&endpoint, options.clone(), poll.registry(), token);
            let driver = driver.map_err(system)?;
            let started = vec![Instant::now(); RING];
            users.push(User {
                driver,
                object: ObjectId(0),
                started,
            });
        }
        let read_share = (plan.read_ratio.clamp(0.0, 1.0) * f64::from(u32::MAX)) as u64;
        let random = 0x9e37_79b9_7f4a_7c15;
        let mut load = Load {
            plan,
            poll,
            users,
            finished: Vec::new(),
            random,
            read_share,
        };
        load.open_all(timeout)?;
        Ok(load)
    }

    /// Keeps every window full for `span` and reports what ended inside it.
    pub(super) fn run(
        &mut self,
        span: Duration,
        mut timeline: Option<&mut BenchTimeline>,
    ) -> LoadSeen {
        let begin = Instant::now();
        let end = begin + span;
        let mut latency =
            Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("the bounds are in order");
        let (mut operations, mut errors) = (0, 0);
        let mut events = Events::with_capacity(256);
        self.fill_all();
        loop {
            let now = Instant::now();
            if now >= end {
                break;
            }
            self.wait(&mut events, end - now);
            let now = Instant::now();
            for index in 0..self.users.len() {
                let user = &mut self.users[index];
                user.driver.turn(&mut self.finished);
                let ended = self.finished.len();
                for (ticket, result) in self.finished.drain(..) {
                    let taken = now.saturating_duration_since(user.started[place(ticket)]);
                    let nanos = u64::try_from(taken.as_nanos()).unwrap_or(u64::MAX);
                    latency.saturating_record(nanos);
                    let is_good = is_good(&result);
                    operations += u64::from(is_good);
                    errors += u64::from(!is_good);
                    if let Some(timeline) = &mut timeline {
                        timeline.note(now.saturating_duration_since(begin), nanos);
                    }
                }
                if ended > 0 {
                    self.fill(index);
                }
            }
        }
        let seconds = begin.elapsed().as_secs_f64();
        // In a closed loop a stall hides the operations it kept from being begun: fill them in, one
        // per mean cycle, as if they had been due.
        let cycle = latency.mean() as u64;
        LoadSeen {
            operations,
            errors,
            seconds,
            latency: latency.clone_correct(cycle.max(1)),
        }
    }

    fn fill_all(&mut self) {
        for index in 0..self.users.len() {
            self.fill(index);
        }
    }

    fn fill(&mut self, index: usize) {
        let user = &mut self.users[index];
        let now = Instant::now();
        while user.driver.in_flight() < self.plan.window as usize {
            self.random = next_random(self.random);
            let pick = self.random >> 33;
            let ticket = if self.random & 0xffff_ffff < self.read_share {
                user.driver
                    .read(user.object, self.plan.payloads.read(pick), self.plan.reads)
            } else {
                user.driver
                    .call(user.object, self.plan.payloads.write(pick))
            };
            let Some(ticket) = ticket else { break };
            user.started[place(ticket)] = now;
        }
        user.driver.turn(&mut self.finished);
    }

    fn wait(&mut self, events: &mut Events, longest: Duration) {
        let sleep = self.users.iter().map(|user| user.driver.sleep_max()).min();
        let sleep = sleep.unwrap_or(longest).min(longest);
        // An interrupted wait is a turn without events.
        drop(self.poll.poll(events, Some(sleep)));
        for event in events.iter() {
            self.users[event.token().0].driver.ready(event);
        }
    }

    fn open_all(&mut self, timeout: Duration) -> Result<(), ConnectError> {
        let end = Instant::now() + timeout;
        let mut events = Events::with_capacity(256);
        while !self.users.iter().all(|user| user.driver.is_open()) {
            if let Some(rejected) = self.users.iter().find_map(|user| user.driver.rejection()) {
                return Err(rejected);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let waiting = self.users.iter().find(|user| !user.driver.is_open());
                let waiting = waiting.expect("not all are open");
                return Err(waiting.driver.gave_up(timeout));
            }
            for user in &mut self.users {
                user.driver.turn(&mut self.finished);
            }
            self.wait(&mut events, left);
            for user in &mut self.users {
                user.driver.turn(&mut self.finished);
            }
        }
        for user in &mut self.users {
            user.object = user.driver.object(self.plan.endpoint.object.as_deref())?;
        }
        Ok(())
    }
}

/// The endpoint of one node, of each in turn.
fn one_of(endpoint: &Endpoint, index: usize) -> Endpoint {
    let mut endpoint = endpoint.clone();
    let place = index % endpoint.addresses.len();
    endpoint.addresses = vec![endpoint.addresses.swap_remove(place)];
    endpoint
}

/// Whether a call did what was asked: one that raised did not.
fn is_good<E>(result: &Result<Answer, E>) -> bool {
    match result {
        Ok(Answer::Called(outcome) | Answer::Read { outcome, .. }) => {
            matches!(outcome, Outcome::Returned(_))
        }
        Ok(Answer::Checkpointed(_)) => true,
        Err(_) => false,
    }
}

fn place(ticket: Ticket) -> usize {
    ticket.index() as usize % RING
}

/// One step of xorshift64*.
fn next_random(mut state: u64) -> u64 {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_a_node_of_its_own_one_after_the_other() {
        let endpoint: Endpoint = "quorate://a:1,b:2,c:3/Counter"
            .parse()
            .expect("it is whole");
        let nodes: Vec<String> = (0..4)
            .flat_map(|index| one_of(&endpoint, index).addresses)
            .collect();
        assert_eq!(nodes, ["a:1", "b:2", "c:3", "a:1"]);
        assert_eq!(one_of(&endpoint, 1).object, endpoint.object);
    }
}
