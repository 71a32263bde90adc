//! A rehearsed counter under load, with its history: what clients were answered is compared with what one counter would answer.

use bytes::Bytes;
use quorate_rehearsal::{
    Answer, EndedOperation, ExecutedCall, Operation, Rehearsal, RehearsalConfig, RehearsedObjects,
    Ticket,
};
use quorate_types::{
    Duration, Level, NodeId, ObjectId, OrderingName, Outcome, ReadLevel, Stamp, Value, Wall,
};
use std::collections::BTreeMap;

/// Clients of a group.
pub(crate) const CALLERS: usize = 4;

/// No operation takes longer, whatever fails meanwhile.
const PATIENCE: Duration = Duration::from_millis(60_000);

/// A counter for each node.
#[derive(Default)]
struct Counters {
    counts: BTreeMap<NodeId, u64>,
    restored: usize,
}

fn number(bytes: &Value) -> u64 {
    u64::from_le_bytes(bytes[..].try_into().expect("eight bytes"))
}

fn bytes(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_le_bytes())
}

impl RehearsedObjects for Counters {
    fn start(&mut self, node: NodeId, image: Option<&Value>) -> Result<(), String> {
        self.restored += usize::from(image.is_some());
        self.counts.insert(node, image.map_or(0, number));
        Ok(())
    }

    fn restore(&mut self, node: NodeId, image: &Value) -> Result<(), String> {
        self.restored += 1;
        self.counts.insert(node, number(image));
        Ok(())
    }

    fn execute(&mut self, node: NodeId, _: &ExecutedCall<'_>) -> Outcome {
        let count = self.counts.entry(node).or_default();
        *count += 1;
        Outcome::Returned(bytes(*count))
    }

    fn query(&mut self, node: NodeId, _: Stamp, _: &Value) -> Outcome {
        Outcome::Returned(bytes(self.counts[&node]))
    }

    fn image(&mut self, node: NodeId) -> Result<Value, String> {
        Ok(bytes(self.counts[&node]))
    }
}

/// One operation that was answered.
#[derive(Clone, Copy, Debug)]
struct Answered {
    begun: Duration,
    ended: Duration,
    /// `None` for an addition.
    level: Option<ReadLevel>,
    count: u64,
    age: Duration,
}

/// A group of one ordering and what its clients have seen.
pub(crate) struct Group {
    pub(crate) name: OrderingName,
    pub(crate) nodes: u16,
    pub(crate) seed: u64,
    rehearsal: Rehearsal,
    counters: Counters,
    under_way: BTreeMap<(usize, Ticket), (Duration, Option<ReadLevel>)>,
    history: Vec<Answered>,
}

impl Group {
    pub(crate) fn new(name: OrderingName, nodes: u16, seed: u64) -> Group {
        let mut counters = Counters::default();
        let config = RehearsalConfig {
            nodes,
            callers: CALLERS,
            seed,
            snapshot_every: 20,
            wall: Wall(1_700_000_000_000_000_000),
            copies_per_mille: 100,
            ordering: name,
            level: Level::BROADCAST,
        };
        Group {
            name,
            nodes,
            seed,
            rehearsal: Rehearsal::new(config, &mut counters),
            counters,
            under_way: BTreeMap::new(),
            history: Vec::new(),
        }
    }

    /// Which group this is, for messages.
    pub(crate) fn title(&self) -> String {
        format!("{} on {} nodes, seed {}", self.name, self.nodes, self.seed)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (1..=self.nodes).map(NodeId)
    }

    /// How many nodes may be down.
    pub(crate) fn spare(&self) -> u16 {
        (self.nodes - 1) / 2
    }

    /// The node that leads by its own word; the newest where two believe it is not told apart.
    pub(crate) fn leader(&self) -> NodeId {
        let leads = |id: &NodeId| {
            let report = self.rehearsal.report(*id).expect("a node of the group");
            report.leader == Some(*id) && !report.is_cut
        };
        self.ids()
            .find(leads)
            .unwrap_or_else(|| panic!("{}: nobody leads", self.title()))
    }

    /// A client adds one, or reads.
    pub(crate) fn begin(&mut self, caller: usize, level: Option<ReadLevel>) {
        let object = ObjectId(0);
        let operation = match level {
            None => Operation::Call {
                object,
                payload: bytes(1),
            },
            Some(level) => Operation::Read {
                object,
                payload: Value::new(),
                level,
            },
        };
        let begun = self.rehearsal.elapsed();
        let ticket = self.rehearsal.begin(caller, operation, PATIENCE);
        let ticket = ticket.expect("a client has room");
        self.under_way.insert((caller, ticket), (begun, level));
    }

    /// The same, unless the client waits for an answer.
    pub(crate) fn begin_if_idle(&mut self, caller: usize, level: Option<ReadLevel>) {
        if !self.under_way.keys().any(|(busy, _)| *busy == caller) {
            self.begin(caller, level);
        }
    }

    fn note(&mut self) {
        let now = self.rehearsal.elapsed();
        for EndedOperation {
            caller,
            ticket,
            result,
        } in self.rehearsal.take_ended()
        {
            let begun = self.under_way.remove(&(caller, ticket));
            let (begun, level) = begun.expect("each operation ends once");
            let (count, age) = match result {
                Ok(Answer::Called(Outcome::Returned(value))) => (number(&value), Duration(0)),
                Ok(Answer::Read {
                    outcome: Outcome::Returned(value),
                    age,
                    ..
                }) => (number(&value), age),
                other => panic!("{}: an answer, not {other:?}", self.title()),
            };
            self.history.push(Answered {
                begun,
                ended: now,
                level,
                count,
                age,
            });
        }
    }

    /// Lets time pass until an operation ends.
    fn await_one(&mut self) {
        let has_ended = self.rehearsal.run_until_ended(&mut self.counters);
        assert!(has_ended, "{}: no progress", self.title());
        self.note();
    }

    /// Until every operation that is under way has ended.
    pub(crate) fn settle(&mut self) {
        while !self.under_way.is_empty() {
            self.await_one();
        }
    }

    /// Each client that waits for nothing begins something, `rounds` times; before each, `fault` may happen.
    pub(crate) fn work(&mut self, rounds: u64, mut fault: impl FnMut(&mut Group, u64)) {
        for round in 0..rounds {
            fault(self, round);
            for caller in 0..CALLERS {
                let turn = round + caller as u64;
                let level = match turn % 8 {
                    2 => Some(ReadLevel::Confirmed),
                    3 => Some(ReadLevel::Broadcast),
                    4 => Some(ReadLevel::Lease),
                    5 => Some(ReadLevel::Ordered),
                    6 => Some(ReadLevel::Any),
                    _ => None,
                };
                self.begin_if_idle(caller, level);
            }
            self.await_one();
        }
        self.settle();
    }

    /// Time passes; what ends meanwhile is noted.
    pub(crate) fn pass(&mut self, span: Duration) {
        self.rehearsal.pass(span, &mut self.counters);
        self.note();
    }

    /// How many operations have been answered.
    pub(crate) fn answered(&self) -> usize {
        self.history.len()
    }

    /// The longest that an operation took which ended after `since`.
    pub(crate) fn longest(&self, since: Duration) -> Duration {
        let spans = self.history.iter().filter(|done| done.ended >= since);
        let longest = spans.map(|done| done.ended - done.begun).max();
        longest.unwrap_or(Duration(0))
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.rehearsal.elapsed()
    }

    pub(crate) fn crash(&mut self, id: NodeId) {
        self.rehearsal.crash(id);
    }

    pub(crate) fn restart(&mut self, id: NodeId) {
        self.rehearsal.restart(id, &mut self.counters);
    }

    /// Cuts a node off from its peers, not from clients.
    pub(crate) fn cut(&mut self, id: NodeId) {
        self.rehearsal.cut(id, false);
    }

    pub(crate) fn heal(&mut self, id: NodeId) {
        self.rehearsal.heal(id, &mut self.counters);
    }

    /// How often an object was made from an image.
    pub(crate) fn restored(&self) -> usize {
        self.counters.restored
    }

    /// Everything runs for a while, and then all replicas are the same and the history is one of a single counter.
    pub(crate) fn judge(&mut self) {
        for id in self.ids() {
            self.heal(id);
            self.restart(id);
        }
        self.settle();
        self.pass(Duration::from_millis(5_000));
        let additions = self.history.iter().filter(|done| done.level.is_none());
        let additions = additions.count() as u64;
        for id in self.ids() {
            let report = self.rehearsal.report(id).expect("a node of the group");
            assert_eq!(report.failure, None, "{}: {id}", self.title());
            assert_eq!(report.diverged, None, "{}: {id}", self.title());
            let count = self.counters.counts[&id];
            assert_eq!(count, additions, "{}: the count of {id}", self.title());
        }
        self.judge_history();
    }

    fn judge_history(&self) {
        let mut additions: Vec<&Answered> = self.history.iter().collect();
        additions.retain(|done| done.level.is_none());
        additions.sort_by_key(|done| done.count);
        for (before, done) in additions.iter().enumerate() {
            let title = self.title();
            assert_eq!(done.count, before as u64 + 1, "{title}: each counts once");
        }
        for (earlier, later) in additions.iter().zip(additions.iter().skip(1)) {
            let title = self.title();
            assert!(
                later.ended >= earlier.begun,
                "{title}: {later:?} {earlier:?}"
            );
        }
        for read in self.history.iter().filter(|done| done.level.is_some()) {
            self.judge_read(read, &additions);
        }
    }

    /// A read shows all additions that had ended before it began, or as long before as it says, and none that began after it.
    fn judge_read(&self, read: &Answered, additions: &[&Answered]) {
        let title = self.title();
        let (seen, unseen) = additions.split_at(read.count as usize);
        let oldest = Duration(read.begun.0.saturating_sub(read.age.0));
        let missed = unseen.iter().find(|done| done.ended < oldest);
        assert!(missed.is_none(), "{title}: {read:?} misses {missed:?}");
        let early = seen.iter().find(|done| done.begun > read.ended);
        assert!(early.is_none(), "{title}: {read:?} foresees {early:?}");
    }
}
