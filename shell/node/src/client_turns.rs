//! Whose request is served next: places take turns, and in each its clients, so that a flood of some makes a turn longer for
//! nobody else, from however many connections it comes. A place is an address, as the transport tells it.
//!
//! Frames wait here in a line for each connection. A visit serves a few requests of a line, a turn of the loop a bounded
//! number; what is left waits for the next turn, and its connection is not read meanwhile. Requests that order no call (opens,
//! closes, whatever is refused for being wrong) are a debt: a connection that owes too much pauses. Local to this node;
//! `serve_clients` of [`crate::node::Node`] serves what is chosen here.

use crate::limits::{
    DEBT_MAX, DEBT_PAUSE, DEBT_REPAID, PAUSES_AT_ONCE, SPARE_LISTS, TURN_WORK, VISIT_WORK,
    WORK_BYTES,
};
use bytes::Bytes;
use quorate_types::{ClosedBy, ConnectionId, Duration, FromClient, Refusal, Time, ToClient};
use quorate_wire::{Requests, WireError};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;

/// The lines of all clients.
#[derive(Debug, Default)]
pub(crate) struct ClientTurns {
    lines: HashMap<ConnectionId, Line>,
    /// Places with lines to be visited, in turn. Invariant: each once.
    order: VecDeque<Place>,
    /// These lines, in turn. Invariant: each once, none that is empty or pauses, and no place without one.
    listed: HashMap<Place, VecDeque<ConnectionId>>,
    /// Empty lists, for the next places that are listed. At most `SPARE_LISTS`.
    spare: Vec<VecDeque<ConnectionId>>,
    /// Lines that pause, by the end of the pause.
    paused: BTreeSet<(Time, ConnectionId)>,
    /// How many of each place pause.
    pausing: HashMap<Place, usize>,
    /// Work of this turn so far.
    done: usize,
}

/// Where a client connects from; unknown for one that has gone before it said anything.
type Place = Option<IpAddr>;

/// What one connection has sent and nobody has served.
#[derive(Debug, Default)]
struct Line {
    place: Place,
    waiting: VecDeque<Unserved>,
    state: LineState,
    debt: u32,
    /// Until when the debt has been counted down.
    repaid: Time,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum LineState {
    /// Nothing waits.
    #[default]
    Idle,
    Listed,
    Paused(Time),
}

/// One frame, or the end of the connection.
#[derive(Debug)]
pub(crate) enum Unserved {
    Requests(Requests),
    Status,
    Admin(Bytes),
    Gone(ClosedBy),
}

/// A line that is being served. Hand it back with [`ClientTurns::visited`].
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) from: ConnectionId,
    line: Line,
    work: usize,
}

/// What is served next.
#[derive(Debug)]
pub(crate) enum Asked {
    Request(Result<FromClient, WireError>),
    Status,
    /// The body of a frame.
    Admin(Bytes),
    /// The connection is over; nothing follows.
    Gone(ClosedBy),
}

/// How a visit ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rest {
    /// Bytes that wait here; the connection is not to be read while there are any.
    pub(crate) bytes: usize,
}

impl ClientTurns {
    /// Queues a frame behind what the connection has sent before.
    pub(crate) fn push(&mut self, from: ConnectionId, place: Place, waiting: Unserved) {
        let line = self.lines.entry(from).or_default();
        line.place = line.place.or(place);
        line.waiting.push_back(waiting);
        if line.state == LineState::Idle {
            line.state = LineState::Listed;
            let place = line.place;
            self.list(from, place);
        }
    }

    fn list(&mut self, from: ConnectionId, place: Place) {
        let spare = &mut self.spare;
        let lines = self.listed.entry(place);
        let lines = lines.or_insert_with(|| spare.pop().unwrap_or_default());
        if lines.is_empty() {
            self.order.push_back(place);
        }
        lines.push_back(from);
    }

    fn pauses_no_more(&mut self, place: Place) {
        let count = self.pausing.get_mut(&place).expect("one of it paused");
        *count -= 1;
        if *count == 0 {
            self.pausing.remove(&place);
        }
    }

    /// The connection is over. One more visit serves what it had sent last, unless it is in debt. The rest is forgotten: nobody
    /// waits for the answers, and nobody counts the memory any more.
    pub(crate) fn gone(&mut self, from: ConnectionId, by: ClosedBy) {
        if let Some(line) = self.lines.get_mut(&from)
            && let LineState::Paused(until) = line.state
        {
            line.waiting.clear();
            line.state = LineState::Idle;
            line.debt = 0;
            let place = line.place;
            self.paused.remove(&(until, from));
            self.pauses_no_more(place);
        }
        self.push(from, None, Unserved::Gone(by));
    }

    /// A turn begins: those whose pause is over are visited again.
    pub(crate) fn begin(&mut self, now: Time) {
        self.done = 0;
        while let Some((until, from)) = self.paused.first().copied()
            && until <= now
        {
            self.paused.pop_first();
            let line = self.lines.get_mut(&from).expect("who pauses has a line");
            line.debt = line.debt.saturating_sub(DEBT_REPAID);
            line.repaid = now;
            line.state = LineState::Listed;
            let place = line.place;
            self.pauses_no_more(place);
            self.list(from, place);
        }
    }

    /// The next line to serve in this turn.
    pub(crate) fn next(&mut self, now: Time) -> Option<Visit> {
        if self.done >= TURN_WORK {
            return None;
        }
        let place = self.order.pop_front()?;
        let lines = self
            .listed
            .get_mut(&place)
            .expect("a place in order has lines");
        let from = lines.pop_front().expect("a place in order has lines");
        if lines.is_empty() {
            let emptied = self.listed.remove(&place);
            if self.spare.len() < SPARE_LISTS {
                self.spare.extend(emptied);
            }
        } else {
            self.order.push_back(place);
        }
        let mut line = self.lines.remove(&from).expect("listed lines exist");
        line.repay(now);
        Some(Visit {
            from,
            line,
            work: 0,
        })
    }

    /// The visit is over.
    pub(crate) fn visited(&mut self, visit: Visit, now: Time) -> Rest {
        let Visit {
            from,
            mut line,
            work,
        } = visit;
        self.done += work;
        if matches!(line.waiting.back(), Some(Unserved::Gone(_))) {
            line.drop_rest();
            line.debt = 0;
        }
        let bytes = line.bytes();
        if line.waiting.is_empty() {
            line.state = LineState::Idle;
        } else if line.debt > DEBT_MAX {
            // However many pause, together they are served no more often than a few, and each place as often as another.
            let here = self.pausing.entry(line.place).or_default();
            *here += 1;
            let before = *here - 1;
            let share = 1 + (before * self.pausing.len() / PAUSES_AT_ONCE) as u64;
            let until = now + Duration(DEBT_PAUSE.0 * share);
            line.state = LineState::Paused(until);
            self.paused.insert((until, from));
        } else {
            line.state = LineState::Listed;
            self.list(from, line.place);
        }
        self.lines.insert(from, line);
        Rest { bytes }
    }

    /// Forgets a connection that is over.
    pub(crate) fn forget(&mut self, visit: Visit) {
        self.done += visit.work;
    }

    /// Whether lines wait for the next turn.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.order.is_empty()
    }

    /// When the next pause is over.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.paused.first().map(|(until, _)| *until)
    }
}

impl Line {
    fn bytes(&self) -> usize {
        let bytes = |waiting: &Unserved| match waiting {
            Unserved::Requests(requests) => requests.bytes_left().max(1),
            Unserved::Admin(body) => body.len().max(1),
            Unserved::Status | Unserved::Gone(_) => 1,
        };
        self.waiting.iter().map(bytes).sum()
    }

    /// Keeps nothing but the end.
    fn drop_rest(&mut self) {
        self.waiting
            .retain(|waiting| matches!(waiting, Unserved::Gone(_)));
    }

    /// Debt is repaid with time.
    fn repay(&mut self, now: Time) {
        let steps = now.since(self.repaid).0 / DEBT_PAUSE.0;
        if steps > 0 {
            let repaid = u64::from(DEBT_REPAID).saturating_mul(steps);
            let repaid = u32::try_from(repaid).unwrap_or(u32::MAX);
            self.debt = self.debt.saturating_sub(repaid);
            self.repaid = now;
        }
    }
}

impl Visit {
    /// What is served next in this visit.
    pub(crate) fn next(&mut self) -> Option<Asked> {
        if self.work >= VISIT_WORK || self.line.debt > DEBT_MAX {
            return None;
        }
        loop {
            let asked = match self.line.waiting.front_mut()? {
                Unserved::Requests(requests) => requests.next().map(Asked::Request),
                Unserved::Status => Some(Asked::Status),
                Unserved::Admin(body) => Some(Asked::Admin(std::mem::take(body))),
                Unserved::Gone(by) => Some(Asked::Gone(*by)),
            };
            match asked {
                Some(Asked::Request(request)) => {
                    self.work += 1 + weight(&request) / WORK_BYTES;
                    return Some(Asked::Request(request));
                }
                Some(other) => {
                    self.work += 1;
                    self.line.waiting.pop_front();
                    return Some(other);
                }
                None => drop(self.line.waiting.pop_front()),
            }
        }
    }

    /// What was served orders no call: it is repaid with time.
    pub(crate) fn lend(&mut self, debt: u32) {
        self.line.debt += debt;
    }

    /// The connection was refused: nothing of it counts any more.
    pub(crate) fn drop_rest(&mut self) {
        self.line.drop_rest();
    }
}

fn weight(request: &Result<FromClient, WireError>) -> usize {
    match request {
        Ok(FromClient::Call { payload, .. } | FromClient::Read { payload, .. }) => payload.len(),
        Ok(
            FromClient::Open { .. }
            | FromClient::Resume { .. }
            | FromClient::Attach { .. }
            | FromClient::KeepAlive { .. }
            | FromClient::Close { .. }
            | FromClient::Checkpoint { .. }
            | FromClient::Reset { .. }
            | FromClient::Skip { .. }
            | FromClient::Invite { .. }
            | FromClient::ChangeGroups { .. }
            | FromClient::MoveLeader { .. }
            | FromClient::Join { .. }
            | FromClient::SetLevel { .. }
            | FromClient::SwitchOrdering { .. }
            | FromClient::ChangeView { .. },
        )
        | Err(_) => 0,
    }
}

/// What a request owes before it is answered: opens are written to the log of every node and call nothing, and a session that is
/// closed was opened before.
pub(crate) fn debt_of(request: &FromClient) -> u32 {
    match request {
        FromClient::Call { .. } | FromClient::Read { .. } => 0,
        FromClient::Attach { .. } | FromClient::KeepAlive { .. } | FromClient::Close { .. } => 1,
        FromClient::Open { .. }
        | FromClient::Resume { .. }
        | FromClient::Checkpoint { .. }
        | FromClient::Reset { .. }
        | FromClient::Skip { .. }
        | FromClient::Invite { .. }
        | FromClient::ChangeGroups { .. }
        | FromClient::MoveLeader { .. }
        | FromClient::Join { .. }
        | FromClient::SetLevel { .. }
        | FromClient::SwitchOrdering { .. }
        | FromClient::ChangeView { .. } => 4,
    }
}

/// Whether an answer says that the request was wrong, and not that this node is busy, behind or full.
pub(crate) fn is_wrong(answer: &ToClient) -> bool {
    let ToClient::Refused { refusal, .. } = answer else {
        return false;
    };
    match refusal {
        Refusal::SessionExpired
        | Refusal::Superseded
        | Refusal::ReplyGone
        | Refusal::SequenceReused
        | Refusal::NoSuchObject
        | Refusal::TooLarge
        | Refusal::NoSnapshots => true,
        Refusal::NotOrdered
        | Refusal::Unknown
        | Refusal::Overloaded
        | Refusal::NotServing
        | Refusal::NoLeader
        | Refusal::StorageFull
        | Refusal::Behind
        | Refusal::NotFrozen
        | Refusal::NoSuchSnapshot
        | Refusal::NoStuckCall
        | Refusal::NotSkipped
        | Refusal::Frozen
        | Refusal::ViewConflict
        | Refusal::NoSuchView
        | Refusal::ViewNotReady
        | Refusal::NotInvited
        | Refusal::GroupExists
        | Refusal::UnknownGroup
        | Refusal::ImpossibleGroup
        | Refusal::LevelNotSpoken => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use quorate_types::SessionId;
    use quorate_wire::{put_request, requests};
    use std::net::Ipv4Addr;

    const HONEST: ConnectionId = ConnectionId(1);
    const HERE: Place = Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
    const ELSEWHERE: Place = Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)));

    fn closes(count: usize) -> Unserved {
        let mut body = BytesMut::new();
        let session = SessionId(7);
        for _ in 0..count {
            put_request(&mut body, &FromClient::Close { session });
        }
        Unserved::Requests(requests(body.freeze()))
    }

    /// One turn; says how many requests of each connection it served.
    fn turn(turns: &mut ClientTurns, now: Time, debt: u32) -> HashMap<ConnectionId, usize> {
        let mut served = HashMap::new();
        turns.begin(now);
        while let Some(mut visit) = turns.next(now) {
            let from = visit.from;
            while visit.next().is_some() {
                *served.entry(from).or_default() += 1;
                visit.lend(debt);
            }
            turns.visited(visit, now);
        }
        served
    }

    #[test]
    fn who_asks_for_little_is_served_in_the_first_turn_behind_a_flood() {
        let mut turns = ClientTurns::default();
        for flooding in 2..=9 {
            turns.push(ConnectionId(flooding), HERE, closes(900_000));
        }
        turns.push(HONEST, HERE, closes(3));
        let served = turn(&mut turns, Time(0), 0);
        assert_eq!(served[&HONEST], 3);
        let work: usize = served.values().sum();
        assert!(work < TURN_WORK + VISIT_WORK, "{work} requests in a turn");
        assert!(turns.is_waiting());
    }

    #[test]
    fn who_owes_too_much_pauses_and_those_who_pause_share_a_rate() {
        let mut turns = ClientTurns::default();
        let crowd = 4 * PAUSES_AT_ONCE;
        for flooding in 0..crowd {
            turns.push(ConnectionId(2 + flooding as u64), HERE, closes(100_000));
        }
        let mut served = 0;
        let mut now = Time(0);
        let end = Time(0) + Duration::from_millis(1_000);
        while now < end {
            turns.push(HONEST, HERE, closes(1));
            let in_turn = turn(&mut turns, now, 1);
            assert_eq!(in_turn[&HONEST], 1, "at {now:?}");
            served += in_turn.values().sum::<usize>() - 1;
            let soon = now + Duration::from_millis(1);
            now = turns.next_wake().map_or(soon, |at| at.max(soon));
        }
        let each = 1_000 / 5 * DEBT_REPAID as usize;
        let most = crowd * (DEBT_MAX as usize + 2) + 2 * PAUSES_AT_ONCE * each;
        assert!(served <= most, "{served} of {most}");
        assert!(served >= PAUSES_AT_ONCE * each / 4, "{served} are too few");
    }

    #[test]
    fn what_came_before_the_end_counts_unless_it_was_owed() {
        let mut turns = ClientTurns::default();
        turns.push(HONEST, HERE, closes(2));
        turns.gone(HONEST, ClosedBy::Client);
        assert_eq!(turn(&mut turns, Time(0), 0)[&HONEST], 3);
        let flooding = ConnectionId(2);
        turns.push(flooding, HERE, closes(10_000));
        turn(&mut turns, Time(0), 1);
        assert!(!turns.is_waiting(), "it pauses");
        turns.gone(flooding, ClosedBy::Client);
        assert_eq!(turn(&mut turns, Time(0), 0)[&flooding], 1, "only the end");
        assert_eq!(turns.next_wake(), None, "nobody pauses any more");
    }

    #[test]
    fn who_sends_much_and_leaves_takes_neither_memory_nor_turns() {
        for debt in [0, 4] {
            let mut turns = ClientTurns::default();
            let flooding = ConnectionId(2);
            turns.push(flooding, HERE, closes(900_000));
            turns.gone(flooding, ClosedBy::Client);
            let served = turn(&mut turns, Time(0), debt)[&flooding];
            assert!(served <= VISIT_WORK + 1, "{served} requests");
            assert_eq!(turns.next_wake(), None, "nothing of it pauses");
            assert!(!turns.is_waiting(), "nothing of it waits");
        }
    }

    #[test]
    fn debt_is_repaid_with_time() {
        let mut turns = ClientTurns::default();
        let mut now = Time(0);
        for _ in 0..100 {
            turns.push(HONEST, HERE, closes(DEBT_MAX as usize));
            assert_eq!(turn(&mut turns, now, 1)[&HONEST], DEBT_MAX as usize);
            assert_eq!(turns.next_wake(), None, "no pause at {now:?}");
            now = now + Duration(DEBT_PAUSE.0 * u64::from(DEBT_MAX / DEBT_REPAID));
        }
    }

    #[test]
    fn a_crowd_of_one_place_takes_one_place_in_the_turns() {
        let mut turns = ClientTurns::default();
        let crowd = 10 * TURN_WORK / VISIT_WORK;
        for flooding in 0..crowd {
            turns.push(ConnectionId(2 + flooding as u64), HERE, closes(1000));
        }
        turns.push(HONEST, ELSEWHERE, closes(1000));
        let mut left = 1000;
        for number in 1.. {
            let served = turn(&mut turns, Time(0), 0);
            left -= served[&HONEST];
            if left == 0 {
                assert_eq!(number, 1, "all in one turn, while the crowd waits");
                break;
            }
        }
        assert!(turns.is_waiting());
    }

    #[test]
    fn who_opens_many_sessions_at_once_does_not_pause_for_a_crowd_elsewhere() {
        let mut turns = ClientTurns::default();
        for flooding in 0..100 * PAUSES_AT_ONCE {
            let flooding = ConnectionId(2 + flooding as u64);
            turns.push(flooding, HERE, closes(100_000));
        }
        let mut now = Time(0);
        turn(&mut turns, now, 4);
        let begun = now;
        let opens = 1000;
        turns.push(HONEST, ELSEWHERE, closes(opens));
        let mut left = opens;
        while left > 0 {
            left -= turn(&mut turns, now, 4).get(&HONEST).copied().unwrap_or(0);
            let soon = now + Duration::from_millis(1);
            now = turns.next_wake().map_or(soon, |at| at.max(soon));
        }
        let took = now.since(begun);
        assert!(took < Duration::from_millis(1_000), "it took {took:?}");
    }

    #[test]
    fn nobody_pauses_longer_for_those_who_left_in_a_pause() {
        let mut turns = ClientTurns::default();
        let crowd = 2..2 + 100 * PAUSES_AT_ONCE as u64;
        for flooding in crowd.clone().map(ConnectionId) {
            turns.push(flooding, HERE, closes(100));
        }
        let mut now = Time(0);
        while turns.is_waiting() {
            turn(&mut turns, now, 4);
        }
        crowd
            .map(ConnectionId)
            .for_each(|left| turns.gone(left, ClosedBy::Client));
        while turns.is_waiting() {
            turn(&mut turns, now, 4);
        }
        turns.push(HONEST, HERE, closes(100));
        turn(&mut turns, now, 4);
        let pause = turns.next_wake().expect("it owes too much").since(now);
        assert_eq!(pause, DEBT_PAUSE);
        now = now + pause;
        assert!(!turn(&mut turns, now, 4).is_empty(), "it is served again");
    }
}
