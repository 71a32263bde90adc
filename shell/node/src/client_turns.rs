//! Whose request is served next: places take turns, and in each its clients, so that a flood of some makes a turn longer for
//! nobody else, from however many connections it comes. A place is an address, as the transport tells it.
//!
//! Frames wait here in a line for each connection. A visit serves a few requests of a line, a turn of the loop a bounded
//! number; what is left waits for the next turn, and its connection is not read meanwhile. Requests that order no call (opens,
//! closes, whatever is refused for being wrong) are a debt: a connection that owes too much pauses. Connections whose answers are
//! large have a bounded number of bytes under way together, as far as earlier answers tell; the others do not wait for them.
//! Local to this node; `serve_clients` of [`crate::node::Node`] serves what is chosen here.

use crate::client_line::{ClientLine, ClientPlace, LineState, Unserved, Visit};
use crate::limits::{
    AWAITED_BYTES, AWAITED_FORGOTTEN, DEBT_MAX, DEBT_PAUSE, DEBT_REPAID, PAUSES_AT_ONCE,
    SPARE_LISTS, TURN_WORK,
};
use quorate_types::{ClosedBy, ConnectionId, Duration, Time, ToClient};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// The lines of all clients.
#[derive(Debug, Default)]
pub(crate) struct ClientTurns {
    /// Looked up for every answer: with few clients a tree costs less than a hash.
    lines: BTreeMap<ConnectionId, ClientLine>,
    /// Places with lines to be visited, in turn. Invariant: each once.
    order: VecDeque<ClientPlace>,
    /// These lines, in turn. Invariant: each once, none that is empty or pauses, and no place without one.
    listed: HashMap<ClientPlace, VecDeque<ConnectionId>>,
    /// Empty lists, for the next places that are listed. At most `SPARE_LISTS`.
    spare: Vec<VecDeque<ConnectionId>>,
    /// Lines that pause, by the end of the pause.
    paused: BTreeSet<(Time, ConnectionId)>,
    /// How many of each place pause.
    pausing: HashMap<ClientPlace, usize>,
    /// Work of this turn so far.
    done: usize,
    /// Bytes of large answers that are awaited. Invariant: the sum of what lines count.
    awaited: usize,
    /// Lines whose requests wait until fewer bytes are awaited, who has waited for longest first. Invariant: while it has one,
    /// `AWAITED_BYTES` are awaited, or a line is listed.
    crowded: BTreeMap<u64, ConnectionId>,
    /// How many lines were crowded so far.
    numbered: u64,
    /// When answers that do not come were forgotten.
    forgotten: Time,
}

/// How a visit ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rest {
    /// Bytes that wait here; the connection is not to be read while there are any.
    pub(crate) bytes: usize,
}

impl ClientTurns {
    /// Queues a frame behind what the connection has sent before.
    pub(crate) fn push(&mut self, from: ConnectionId, place: ClientPlace, waiting: Unserved) {
        let line = self.lines.entry(from).or_default();
        line.place = line.place.or(place);
        line.waiting.push_back(waiting);
        if line.state == LineState::Idle {
            line.state = LineState::Listed;
            let place = line.place;
            self.list(from, place);
        }
    }

    fn list(&mut self, from: ConnectionId, place: ClientPlace) {
        let spare = &mut self.spare;
        let lines = self.listed.entry(place);
        let lines = lines.or_insert_with(|| spare.pop().unwrap_or_default());
        if lines.is_empty() {
            self.order.push_back(place);
        }
        lines.push_back(from);
    }

    fn pauses_no_more(&mut self, place: ClientPlace) {
        let count = self.pausing.get_mut(&place).expect("one of it paused");
        *count -= 1;
        if *count == 0 {
            self.pausing.remove(&place);
        }
    }

    /// The connection is over. One more visit serves what it had sent last, unless it is in debt
    /// or crowded. The rest is forgotten: nobody waits for the answers, and nobody counts the memory any more.
    pub(crate) fn gone(&mut self, from: ConnectionId, by: ClosedBy) {
        if let Some(line) = self.lines.get_mut(&from) {
            match line.state {
                LineState::Idle | LineState::Listed => {}
                LineState::Paused(until) => {
                    line.forget_requests();
                    let place = line.place;
                    self.paused.remove(&(until, from));
                    self.pauses_no_more(place);
                }
                LineState::Crowded(number) => {
                    line.forget_requests();
                    self.crowded.remove(&number);
                }
            }
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
        self.forget_unanswered(now);
    }

    /// An answer leaves for a client: it shows how large the next ones may be, and another line may have its turn.
    pub(crate) fn answered(&mut self, to: ConnectionId, answer: &ToClient) {
        if let Some(line) = self.lines.get_mut(&to)
            && line.answers.answered(answer)
        {
            line.count(&mut self.awaited);
            self.relieve();
        }
    }

    /// Lists the line that has been crowded for longest, where there is room. Whoever changes what is awaited calls it, and the
    /// line's visit does so again.
    fn relieve(&mut self) {
        if !self.crowded.is_empty()
            && self.awaited < AWAITED_BYTES
            && let Some((_, from)) = self.crowded.pop_first()
        {
            let line = self
                .lines
                .get_mut(&from)
                .expect("who is crowded has a line");
            line.state = LineState::Listed;
            let place = line.place;
            self.list(from, place);
        }
    }

    /// Answers that do not come keep nobody waiting: a call may hang, and one that was asked for twice is answered once.
    fn forget_unanswered(&mut self, now: Time) {
        if self.crowded.is_empty() || now < self.forgotten + AWAITED_FORGOTTEN {
            return;
        }
        self.forgotten = now;
        for line in self.lines.values_mut() {
            line.answers.forget_before(now);
            line.count(&mut self.awaited);
        }
        self.relieve();
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
            room: AWAITED_BYTES.saturating_sub(self.awaited),
        })
    }

    /// The visit is over.
    pub(crate) fn visited(&mut self, visit: Visit, now: Time) -> Rest {
        let Visit {
            from,
            mut line,
            work,
            room: _,
        } = visit;
        self.done += work;
        line.answers.visited(now);
        line.count(&mut self.awaited);
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
        } else if self.awaited >= AWAITED_BYTES && line.is_to_wait() {
            line.state = LineState::Crowded(self.numbered);
            self.crowded.insert(self.numbered, from);
            self.numbered += 1;
        } else {
            line.state = LineState::Listed;
            self.list(from, line.place);
        }
        self.lines.insert(from, line);
        self.relieve();
        Rest { bytes }
    }

    /// Forgets a connection that is over.
    pub(crate) fn forget(&mut self, visit: Visit) {
        self.done += visit.work;
        self.awaited -= visit.line.counted;
        self.relieve();
    }

    /// Whether lines wait for the next turn.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.order.is_empty()
    }

    /// When the next pause is over, or lines that are crowded are looked at.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        let pause = self.paused.first().map(|(until, _)| *until);
        let look = (!self.crowded.is_empty()).then(|| self.forgotten + AWAITED_FORGOTTEN);
        pause.into_iter().chain(look).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_line::Asked;
    use crate::limits::VISIT_WORK;
    use bytes::BytesMut;
    use quorate_types::{CommandId, FromClient, ObjectId, Outcome, SessionId, Value};
    use quorate_wire::{put_request, requests};
    use std::net::{IpAddr, Ipv4Addr};

    const HONEST: ConnectionId = ConnectionId(1);
    const HERE: ClientPlace = Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
    const ELSEWHERE: ClientPlace = Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)));

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
            let mut is_over = false;
            while let Some(asked) = visit.next() {
                *served.entry(from).or_default() += 1;
                visit.lend(debt);
                is_over = matches!(asked, Asked::Gone(_));
            }
            if is_over {
                turns.forget(visit);
            } else {
                turns.visited(visit, now);
            }
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

    fn calls(count: u64) -> Unserved {
        let mut body = BytesMut::new();
        for sequence in 1..=count {
            let call = FromClient::Call {
                id: CommandId {
                    session: SessionId(7),
                    sequence,
                },
                acknowledged: 0,
                object: ObjectId(1),
                payload: Value::from(vec![0; 16]),
            };
            put_request(&mut body, &call);
        }
        Unserved::Requests(requests(body.freeze()))
    }

    fn answer(bytes: usize) -> ToClient {
        let id = CommandId {
            session: SessionId(7),
            sequence: 1,
        };
        let outcome = Outcome::Returned(Value::from(vec![0; bytes]));
        ToClient::Replied { id, outcome }
    }

    /// Calls of a crowd that asks for answers of a mebibyte: what is served and not answered, after each round of answers.
    fn large_under_way(turns: &mut ClientTurns, rounds: usize) -> Vec<usize> {
        let (crowd, large) = (2..2 + 24, answer(1 << 20));
        for number in crowd.clone() {
            turns.push(ConnectionId(number), HERE, calls(230));
        }
        let mut unanswered: VecDeque<ConnectionId> = VecDeque::new();
        let mut most = Vec::new();
        for _ in 0..rounds {
            turns.push(HONEST, HERE, calls(1));
            let mut served = turn(turns, Time(0), 0);
            assert_eq!(served.remove(&HONEST), Some(1), "whoever asks for little");
            turns.answered(HONEST, &answer(16));
            for number in crowd.clone().map(ConnectionId) {
                let count = served.get(&number).copied().unwrap_or(0);
                unanswered.extend(std::iter::repeat_n(number, count));
            }
            most.push(unanswered.len());
            let answered = unanswered.pop_front().expect("somebody is served");
            turns.answered(answered, &large);
        }
        turn(turns, Time(0), 0);
        most
    }

    #[test]
    fn large_answers_of_a_crowd_are_under_way_a_few_at_a_time() {
        let mut turns = ClientTurns::default();
        let most = large_under_way(&mut turns, 24 * 230);
        let unknown = AWAITED_BYTES / crate::limits::ANSWER_BYTES_UNKNOWN + 24;
        assert!(most[0] <= unknown, "{} of unknown size", most[0]);
        let known = most[200..].iter().max().expect("there are more");
        assert!(*known <= AWAITED_BYTES >> 20, "{known} are under way");
        assert_eq!(
            (turns.awaited, turns.crowded.len()),
            (0, 0),
            "all are served"
        );
    }

    #[test]
    fn large_answers_that_never_come_keep_nobody_waiting_for_ever() {
        let mut turns = ClientTurns::default();
        large_under_way(&mut turns, 300);
        assert!(!turns.is_waiting(), "there is no room");
        let now = turns.next_wake().expect("somebody is crowded");
        let late = now.max(Time(0) + AWAITED_FORGOTTEN);
        let served: usize = turn(&mut turns, late, 0).values().sum();
        assert!(served > 0, "answers are forgotten that do not come");
    }

    #[test]
    fn who_is_crowded_and_leaves_takes_no_turn_and_makes_room() {
        let mut turns = ClientTurns::default();
        large_under_way(&mut turns, 300);
        for number in 2..2 + 24 {
            turns.gone(ConnectionId(number), ClosedBy::Client);
        }
        let served: usize = turn(&mut turns, Time(0), 0).values().sum();
        assert_eq!(served, 24, "their ends");
        assert_eq!((turns.awaited, turns.crowded.len()), (0, 0));
        assert_eq!(turns.next_wake(), None);
    }

    #[test]
    fn who_leaves_before_its_answers_makes_room_at_once_for_those_who_are_crowded() {
        let mut turns = ClientTurns::default();
        large_under_way(&mut turns, 300);
        assert!(!turns.is_waiting(), "there is no room");
        let waiting = turns.lines.iter().filter(|(_, line)| line.counted > 0);
        let leaving: Vec<ConnectionId> = waiting.map(|(number, _)| *number).collect();
        assert!(leaving.len() < 24, "others are crowded");
        for number in &leaving {
            turns.gone(*number, ClosedBy::Client);
        }
        let served = turn(&mut turns, Time(0), 0);
        assert!(
            served.keys().any(|number| !leaving.contains(number)),
            "only {leaving:?} are served"
        );
    }
}
