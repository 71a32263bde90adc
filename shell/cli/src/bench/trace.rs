//! `quorate bench --trace-one`: what is sent for one command, from a whole group in virtual time.
//!
//! Every message takes as long as every other and every write too, so the picture shows message delays, as the figures of the papers
//! do (The Performance of Paxos in the Cloud, figure 1). Signs of life are left out: they are sent whether or not anybody calls.

use crate::error::CliError;
use crate::table::table;
use quorate_rehearsal::{
    ExecutedCall, Operation, Party, Rehearsal, RehearsalConfig, RehearsedObjects, TracedMessage,
};
use quorate_types::{
    Duration, Level, NodeId, ObjectId, OrderingName, Outcome, ReadLevel, Stamp, Value, Wall,
};
use serde::Serialize;

/// How long each message takes. More than all writes of a command together.
pub(super) const LINK: Duration = Duration::from_millis(1);
/// How long each write takes.
const WRITE: Duration = Duration::from_micros(100);
/// What is traced after the reply: the others learn what was decided.
const AFTER: Duration = Duration::from_millis(12);
/// Until there is a leader, and each node has what was decided before.
const CALM: Duration = Duration::from_millis(2_000);
/// Calls before the one that is traced: more than the slots of a step that every acceptor is asked for.
const CALLS_BEFORE: u64 = 100;
/// Bytes of each of them.
const CALM_SIZE: usize = 16;
/// How long a call may wait for its answer.
const PATIENCE: Duration = Duration::from_millis(10_000);

/// One message, for people and scripts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct TraceRow {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) name: String,
    pub(super) bytes: usize,
    pub(super) sent_us: u64,
    pub(super) arrives_us: u64,
}

/// What one party sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Sender {
    party: String,
    messages: usize,
    bytes: usize,
}

/// What is sent for one command.
#[derive(Clone, Debug, Serialize)]
pub(super) struct CommandTrace {
    pub(super) ordering: &'static str,
    pub(super) nodes: u16,
    pub(super) leader: String,
    /// Messages one after the other until the client has its reply.
    pub(super) message_delays: u64,
    /// Writes one after the other until then.
    pub(super) writes: u64,
    pub(super) messages: Vec<TraceRow>,
    sent: Vec<Sender>,
}

/// What is sent for one read.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadTrace {
    pub(super) message_delays: u64,
    /// Messages of the client and of all nodes.
    pub(super) messages: usize,
    pub(super) bytes: usize,
}

/// Messages of reads that nodes send ahead of others, as they do signs of life.
const OF_READS: [&str; 4] = ["Announce", "Attested", "Confirm", "Confirmed"];

/// Objects that return what they are given.
struct Echoes;

impl RehearsedObjects for Echoes {
    fn start(&mut self, _: NodeId, _: Option<&Value>) -> Result<(), String> {
        Ok(())
    }

    fn restore(&mut self, _: NodeId, _: &Value) -> Result<(), String> {
        Ok(())
    }

    fn execute(&mut self, _: NodeId, _: &ExecutedCall<'_>) -> Outcome {
        Outcome::Returned(Value::new())
    }

    fn query(&mut self, _: NodeId, _: Stamp, payload: &Value) -> Outcome {
        Outcome::Returned(payload.clone())
    }

    fn image(&mut self, _: NodeId) -> Result<Value, String> {
        Ok(Value::new())
    }
}

impl CommandTrace {
    /// Traces a call with `size` bytes on a group of `nodes` nodes that is calm, once it has had some calls.
    pub(super) fn of(
        ordering: OrderingName,
        nodes: u16,
        size: usize,
    ) -> Result<CommandTrace, CliError> {
        let mut group = calm(ordering, nodes, Level::UNNAMED)?;
        let leader = group.report(NodeId(1)).and_then(|state| state.leader);
        let leader = leader.ok_or_else(|| CliError::failed("nobody leads the rehearsed group"))?;
        group.trace(LINK, WRITE);
        call(&mut group, size)?;
        group.pass(AFTER, &mut Echoes);
        let messages = group.take_trace().into_iter();
        let messages: Vec<TracedMessage> = messages.filter(|message| !message.is_upkeep).collect();
        let is_reply = |message: &&TracedMessage| matches!(message.to, Party::Client(_));
        let replied = messages.iter().find(is_reply).map(|reply| reply.arrives);
        let replied = replied.ok_or_else(|| CliError::failed("the trace has no reply"))?;
        Ok(CommandTrace {
            ordering: ordering.word(),
            nodes,
            leader: party(Party::Node(leader)),
            message_delays: replied.0 / LINK.0,
            writes: replied.0 % LINK.0 / WRITE.0,
            sent: senders(nodes, &messages),
            messages: messages.iter().map(TraceRow::of).collect(),
        })
    }
}

impl ReadTrace {
    /// Traces a read on a group of `nodes` nodes that is calm, once it has had some reads of that level.
    pub(super) fn of(
        ordering: OrderingName,
        nodes: u16,
        level: ReadLevel,
    ) -> Result<ReadTrace, CliError> {
        let mut group = calm(ordering, nodes, Level::BROADCAST)?;
        let read = || Operation::Read {
            object: ObjectId(0),
            payload: Value::new(),
            level,
        };
        for _ in 0..CALLS_BEFORE {
            perform(&mut group, read())?;
        }
        group.trace(LINK, WRITE);
        perform(&mut group, read())?;
        group.pass(AFTER, &mut Echoes);
        let messages = group.take_trace().into_iter();
        let is_of_it = |message: &TracedMessage| {
            !message.is_upkeep || OF_READS.contains(&message.name.as_str())
        };
        let messages: Vec<TracedMessage> = messages.filter(is_of_it).collect();
        let is_reply = |message: &&TracedMessage| matches!(message.to, Party::Client(_));
        let replied = messages.iter().find(is_reply).map(|reply| reply.arrives);
        let replied = replied.ok_or_else(|| CliError::failed("the trace has no answer"))?;
        Ok(ReadTrace {
            message_delays: replied.0 / LINK.0,
            messages: messages.len(),
            bytes: messages.iter().map(|message| message.bytes).sum(),
        })
    }
}

impl CommandTrace {
    /// For people.
    pub(super) fn table(&self) -> String {
        let messages = self.messages.iter().map(|message| {
            let numbers = [message.sent_us, message.arrives_us, message.bytes as u64];
            let words = [&message.from, &message.to, &message.name];
            let words = words.into_iter().cloned();
            words.chain(numbers.map(|n| n.to_string())).collect()
        });
        let messages: Vec<Vec<String>> = messages.collect();
        let sent = self.sent.iter().map(|sender| {
            let numbers = [sender.messages, sender.bytes].map(|n| n.to_string());
            std::iter::once(sender.party.clone())
                .chain(numbers)
                .collect()
        });
        let sent: Vec<Vec<String>> = sent.collect();
        format!(
            "{}\n{}\n{}; {} leads",
            table(
                &["FROM", "TO", "MESSAGE", "SENT US", "ARRIVES US", "BYTES"],
                &messages
            ),
            table(&["SENDER", "MESSAGES", "BYTES"], &sent),
            self.delays(),
            self.leader
        )
    }

    /// What the client waits for.
    pub(super) fn delays(&self) -> String {
        let messages = match self.message_delays {
            1 => "message delay",
            _ => "message delays",
        };
        let writes = match self.writes {
            1 => "write",
            _ => "writes",
        };
        format!(
            "reply after {} {messages} and {} {writes}",
            self.message_delays, self.writes
        )
    }
}

impl TraceRow {
    fn of(message: &TracedMessage) -> TraceRow {
        TraceRow {
            from: party(message.from),
            to: party(message.to),
            name: message.name.clone(),
            bytes: message.bytes,
            sent_us: message.sent.0 / 1_000,
            arrives_us: message.arrives.0 / 1_000,
        }
    }
}

fn party(party: Party) -> String {
    match party {
        Party::Client(_) => "client".to_owned(),
        Party::Node(node) => node.to_string(),
    }
}

/// A group that has a leader, and has had some calls.
fn calm(ordering: OrderingName, nodes: u16, level: Level) -> Result<Rehearsal, CliError> {
    let config = RehearsalConfig {
        nodes,
        callers: 1,
        seed: 1,
        snapshot_every: u64::MAX,
        wall: Wall(1_700_000_000_000_000_000),
        copies_per_mille: 0,
        ordering,
        level,
    };
    let mut group = Rehearsal::new(config, &mut Echoes);
    group.pass(CALM, &mut Echoes);
    // The first one opens the client's session, and finds the leader; the others are the first slots of a step.
    for _ in 0..CALLS_BEFORE {
        call(&mut group, CALM_SIZE)?;
    }
    group.pass(CALM, &mut Echoes);
    Ok(group)
}

fn call(group: &mut Rehearsal, size: usize) -> Result<(), CliError> {
    let operation = Operation::Call {
        object: ObjectId(0),
        payload: Value::from(vec![0; size]),
    };
    perform(group, operation)
}

fn perform(group: &mut Rehearsal, operation: Operation) -> Result<(), CliError> {
    let begun = group.begin(0, operation, PATIENCE).is_some();
    let ended = begun && group.run_until_ended(&mut Echoes);
    match group.take_ended().pop() {
        Some(operation) if ended && operation.result.is_ok() => Ok(()),
        other => Err(CliError::failed(format!(
            "a call of the rehearsed group was not answered: {other:?}"
        ))),
    }
}

/// What the client and each node send, those that send nothing too.
fn senders(nodes: u16, messages: &[TracedMessage]) -> Vec<Sender> {
    let parties = std::iter::once(Party::Client(0)).chain((1..=nodes).map(NodeId).map(Party::Node));
    let sent = parties.map(|from| {
        let own = messages.iter().filter(|message| message.from == from);
        let sizes: Vec<usize> = own.map(|message| message.bytes).collect();
        Sender {
            party: party(from),
            messages: sizes.len(),
            bytes: sizes.iter().sum(),
        }
    });
    sent.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paxos(nodes: u16, size: usize) -> CommandTrace {
        CommandTrace::of(OrderingName::Paxos, nodes, size).expect("a reply")
    }

    fn names(trace: &CommandTrace) -> Vec<String> {
        let messages = trace.messages.iter();
        messages.map(|message| message.name.clone()).collect()
    }

    #[test]
    fn three_nodes_agree_in_one_round_trip_of_the_leader() {
        let trace = paxos(3, 100);
        let asked = ["Call", "Accept", "Accept", "Accepted", "Accepted"];
        assert_eq!(names(&trace)[..5], asked);
        assert_eq!((trace.message_delays, trace.writes), (4, 1));
        let leader = trace.sent.iter().find(|s| s.party == trace.leader);
        let leader = leader.expect("the leader is a party");
        // Two proposals, the reply, and two words of what was decided.
        assert_eq!(leader.messages, 5);
    }

    #[test]
    fn the_leader_sends_each_value_to_every_other_node() {
        let value = 4_096;
        let bytes = |nodes| {
            let trace = paxos(nodes, value);
            let sent = trace.sent.iter().map(|sender| sender.bytes);
            sent.skip(1).max().expect("there are nodes")
        };
        let (three, five) = (bytes(3), bytes(5));
        assert!(three > 2 * value && three < 2 * value + 600, "{three}");
        assert!(five > 4 * value && five < 4 * value + 1_200, "{five}");
    }

    #[test]
    fn an_announced_read_saves_a_message_delay_and_costs_as_many_messages() {
        let of = |level| ReadTrace::of(OrderingName::Paxos, 3, level).expect("an answer");
        let (confirmed, announced) = (of(ReadLevel::Confirmed), of(ReadLevel::Broadcast));
        // Request, question, confirmation, answer; then request, what others say of it, answer.
        assert_eq!((confirmed.message_delays, announced.message_delays), (4, 3));
        assert_eq!((confirmed.messages, announced.messages), (6, 6));
        assert_eq!(of(ReadLevel::Lease).message_delays, 2);
        // A mark in the log, which is decided.
        assert_eq!(of(ReadLevel::Ordered).message_delays, 4);
    }

    #[test]
    fn one_node_asks_nobody() {
        let trace = paxos(1, 10);
        assert_eq!(names(&trace), ["Call", "Replied"]);
    }
}
