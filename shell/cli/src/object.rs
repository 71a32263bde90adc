//! `quorate object`: the objects of a group. Here `reset`: an operator says whose state counts, where no majority agrees.

use crate::created;
use crate::error::{CliError, code};
use crate::group::GroupArgs;
use crate::print;
use crate::seconds;
use crate::skip;
use crate::status;
use clap::{Args, Subcommand};
use quorate_client::{Answer, Client, Endpoint, Operation, TlsClient, node_status};
use quorate_node::digest_of_text;
use quorate_types::{GroupId, NodeId, Slot};
use serde_json::Value;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// How often the nodes are asked how far they are.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long one node may take to answer: one that hangs does not hide the others.
const ANSWER_MAX: Duration = Duration::from_millis(500);

/// After so long without a snapshot of the node, another one is asked for.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// What is lost, in the help and in the question.
const WHAT_MAY_BE_LOST: &str = "\
Calls that other nodes answered may be lost or have other effects: where the nodes differ, only what this node executed counts. \
What the other nodes hold is replaced. Nothing brings it back, except copies of their data directories.";

/// Look after the objects of a group.
#[derive(Args, Clone, Debug)]
pub(crate) struct ObjectArgs {
    #[command(subcommand)]
    command: ObjectCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum ObjectCommand {
    Create(created::CreateArgs),
    List(created::ListArgs),
    Describe(created::DescribeArgs),
    Drop(created::DropArgs),
    Reset(ResetArgs),
    Skip(skip::SkipArgs),
}

/// Let frozen objects go on from the state of one node.
///
/// Objects freeze when no majority of the replicas agrees on their state. Then only an operator can say which state is right. This
/// command makes the state of one node the state of all. It prints the slot after which that state counts, once a majority holds it
/// on disk and the objects answer again. It is refused, and changes nothing, when the objects are not frozen.
#[derive(Args, Clone, Debug)]
#[command(after_help = WHAT_MAY_BE_LOST)]
struct ResetArgs {
    /// The node whose state becomes every node's.
    #[arg(long, value_name = "NODE")]
    from: u16,
    /// Do not ask before it is done.
    #[arg(long)]
    yes: bool,
    /// Seconds to wait until the objects answer again.
    #[arg(long, default_value_t = 30.0, value_parser = seconds::span)]
    timeout: f64,
    #[command(flatten)]
    group: GroupArgs,
}

/// Runs the command.
pub(crate) fn run(args: &ObjectArgs, as_json: bool) -> Result<(), CliError> {
    match &args.command {
        ObjectCommand::Create(args) => created::create(args, as_json),
        ObjectCommand::List(args) => created::list(args, as_json),
        ObjectCommand::Describe(args) => created::describe(args, as_json),
        ObjectCommand::Drop(args) => created::drop(args, as_json),
        ObjectCommand::Reset(args) => reset(args, as_json),
        ObjectCommand::Skip(args) => skip::run(args, as_json),
    }
}

fn reset(args: &ResetArgs, as_json: bool) -> Result<(), CliError> {
    let access = args.group.read()?;
    let timeout = seconds::duration(args.timeout);
    let group = Group::of(&access.endpoint, access.tls())?;
    let chosen = Chosen::of(&group.status_of(args.from)?)?;
    if let Some(refusal) = still_answers(&group.statuses(), &chosen) {
        return Err(refusal);
    }
    let client = access.connect(timeout)?;
    let chosen = group.with_snapshot(chosen, &client, Instant::now() + timeout)?;
    if !args.yes {
        confirm(&chosen)?;
    }
    let operation = chosen.operation()?;
    let slot = match client.perform(operation).map_err(CliError::call)? {
        Answer::Checkpointed(slot) => slot.0,
        Answer::Called(_) | Answer::Read { .. } => {
            return Err(CliError::failed("the node did not answer with a slot"));
        }
    };
    group.await_end(&chosen, slot, Instant::now() + timeout)?;
    if as_json {
        print::line(serde_json::json!({"node": args.from, "slot": slot, "digest": chosen.digest}))
    } else {
        print::line(slot)
    }
}

/// The nodes of a group and where they are.
struct Group<'a> {
    id: GroupId,
    members: Vec<(NodeId, String)>,
    tls: Option<&'a TlsClient>,
}

impl<'a> Group<'a> {
    fn of(endpoint: &Endpoint, tls: Option<&'a TlsClient>) -> Result<Group<'a>, CliError> {
        let members = status::first_report(endpoint, ANSWER_MAX, tls)?
            .welcome
            .members;
        let id = endpoint.group_id();
        Ok(Group { id, members, tls })
    }

    fn status_of(&self, node: u16) -> Result<Value, CliError> {
        let address = self.members.iter().find(|(id, _)| id.0 == node);
        let Some((_, address)) = address else {
            let nodes = self.members.iter().map(|(id, _)| id.0.to_string());
            let nodes = nodes.collect::<Vec<_>>().join(", ");
            return Err(CliError::not_found(format!(
                "the group has no node {node}: its nodes are {nodes}"
            ))
            .advise("name one of its nodes"));
        };
        let report = node_status(address, self.id, ANSWER_MAX, self.tls);
        let report = report.map_err(|error| {
            let text = format!("node {node} does not say what it holds: {error}");
            CliError::with_code(code::NO_QUORUM, text).advise("start it, or name another node")
        })?;
        status::parse(&report)
    }

    /// The state of the chosen node at a slot at which the nodes are known to differ: asks for a snapshot if it has none there.
    fn with_snapshot(
        &self,
        chosen: Chosen,
        client: &Client,
        end: Instant,
    ) -> Result<Chosen, CliError> {
        let mut chosen = chosen;
        let mut asked: Option<Instant> = None;
        while chosen.slot < chosen.frozen || chosen.digest.is_empty() {
            if asked.is_none_or(|asked| asked.elapsed() >= ASK_AGAIN) {
                client
                    .perform(Operation::Checkpoint)
                    .map_err(CliError::call)?;
                asked = Some(Instant::now());
            }
            if Instant::now() >= end {
                return Err(CliError::failed(format!(
                    "node {} takes no snapshot at slot {} or later, so its state cannot be chosen; nothing has changed",
                    chosen.node, chosen.frozen
                ))
                .advise("see its log, or name another node"));
            }
            std::thread::sleep(LOOK_EVERY);
            chosen = Chosen::of(&self.status_of(chosen.node)?)?;
        }
        Ok(chosen)
    }

    /// What the nodes say that answer in time.
    fn statuses(&self) -> Vec<Value> {
        let asked = self.members.iter();
        let reports = asked
            .filter_map(|(_, address)| node_status(address, self.id, ANSWER_MAX, self.tls).ok());
        reports
            .filter_map(|report| status::parse(&report).ok())
            .collect()
    }

    /// Waits until the objects of a majority answer again.
    fn await_end(&self, chosen: &Chosen, slot: u64, end: Instant) -> Result<(), CliError> {
        loop {
            let statuses = self.statuses();
            if 2 * go_on(&statuses, slot) > self.members.len() {
                return Ok(());
            }
            if Instant::now() >= end {
                let text = format!(
                    "the reset is decided in slot {slot}, and no majority holds the state of node {} yet",
                    chosen.node
                );
                return Err(
                    CliError::with_code(code::OUTCOME_UNKNOWN, text).advise(format!(
                        "start the nodes that are down and look at `quorate status`; if node {} has restarted since, name a node again",
                        chosen.node
                    )),
                );
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// The error if a node answers calls after the slot at which the chosen one froze: a majority has agreed without that one.
fn still_answers(statuses: &[Value], chosen: &Chosen) -> Option<CliError> {
    let answers = |status: &&Value| {
        status["frozen"].is_null()
            && status["diverged"].is_null()
            && status["is_serving"] == true
            && status["executed"].as_u64() >= Some(chosen.frozen)
    };
    let node = &statuses.iter().find(answers)?["id"];
    let (froze, slot) = (chosen.node, chosen.frozen);
    let told = CliError::conflict(format!(
        "node {node} answers calls after slot {slot}, at which node {froze} froze: a majority agrees without node {froze}, and a \
         reset would take back what was answered; nothing has changed"
    ));
    Some(told.advise(format!(
        "look at `quorate status`; the group goes on without node {froze}, which can be stopped"
    )))
}

/// Nodes that are past the reset of `slot` and not frozen.
fn go_on(statuses: &[Value], slot: u64) -> usize {
    let go_on = |status: &&Value| {
        status["frozen"].is_null()
            && status["diverged"].is_null()
            && status["executed"].as_u64() >= Some(slot)
    };
    statuses.iter().filter(go_on).count()
}

/// What is to count: the exact bytes, not only the node.
struct Chosen {
    node: u16,
    boot: u64,
    frozen: u64,
    slot: u64,
    digest: String,
}

impl Chosen {
    fn of(status: &Value) -> Result<Chosen, CliError> {
        let number = |field: &str| status[field].as_u64().unwrap_or_default();
        let node = number("id") as u16;
        let Some(frozen) = status["frozen"].as_u64() else {
            return Err(CliError::conflict(format!(
                "the objects of node {node} are not frozen: there is nothing to reset, and nothing has changed"
            ))
            .advise("look at `quorate status`; a node that differs from a majority heals by itself"));
        };
        Ok(Chosen {
            node,
            boot: number("boot"),
            frozen,
            slot: number("snapshot"),
            digest: status["snapshot_digest"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        })
    }

    fn operation(&self) -> Result<Operation, CliError> {
        let digest = digest_of_text(&self.digest).ok_or_else(|| {
            CliError::failed(format!(
                "node {} shows no digest of its snapshot",
                self.node
            ))
        })?;
        Ok(Operation::Reset {
            node: NodeId(self.node),
            boot: self.boot,
            slot: Slot(self.slot),
            digest,
        })
    }
}

fn confirm(chosen: &Chosen) -> Result<(), CliError> {
    if !std::io::stdin().is_terminal() {
        return Err(CliError::usage(format!(
            "this replaces the state of every node but {}: say --yes where nobody can be asked. {WHAT_MAY_BE_LOST}",
            chosen.node
        ))
        .advise("read what may be lost, and add --yes"));
    }
    eprintln!(
        "Node {} holds {} at slot {}; the objects froze at slot {}.\n{WHAT_MAY_BE_LOST}",
        chosen.node, chosen.digest, chosen.slot, chosen.frozen
    );
    eprint!("Make this the state of every node? [y/N] ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    if read.is_ok() && ["y", "yes"].contains(&answer.trim()) {
        return Ok(());
    }
    Err(CliError::failed("nothing has changed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_node_that_is_not_frozen_cannot_be_chosen() {
        let refused = Chosen::of(&json!({"id": 2, "boot": 1, "frozen": null}))
            .err()
            .unwrap();
        assert_eq!(refused.code, code::CONFLICT);
        assert!(refused.text.contains("node 2 are not frozen"), "{refused}");
    }

    #[test]
    fn nobody_is_chosen_while_a_node_answers_after_the_freeze() {
        let node = |frozen: Value, executed: u64, is_serving: bool| json!({"id": 3, "frozen": frozen, "diverged": null, "executed": executed, "is_serving": is_serving});
        let chosen = Chosen::of(&json!({"id": 2, "boot": 1, "frozen": 7})).expect("it is frozen");
        let silent = [
            node(json!(7), 9, false),
            node(Value::Null, 6, true),
            node(Value::Null, 9, false),
        ];
        assert!(still_answers(&silent, &chosen).is_none());
        let refused = still_answers(&[node(Value::Null, 7, true)], &chosen).expect("it answers");
        assert_eq!(refused.code, code::CONFLICT);
        assert!(
            refused.text.contains("node 3 answers calls after slot 7"),
            "{refused}"
        );
    }

    #[test]
    fn nodes_that_are_frozen_behind_or_differ_do_not_go_on() {
        let node = |frozen: Value, diverged: Value, executed: u64| json!({"frozen": frozen, "diverged": diverged, "executed": executed});
        let null = Value::Null;
        let all = [
            node(null.clone(), null.clone(), 9),
            node(json!(7), null.clone(), 9),
            node(null.clone(), json!(7), 9),
            node(null.clone(), null, 8),
        ];
        assert_eq!(go_on(&all, 9), 1);
    }
}
