//! `quorate view move-leader`: another acceptor leads from now on.

use crate::error::{CliError, code};
use crate::group::GroupArgs;
use crate::print;
use crate::seconds;
use crate::status;
use clap::Args;
use quorate_client::{CallCause, CallError, Operation};
use quorate_types::NodeId;
use serde_json::json;
use std::time::{Duration, Instant};

/// How long one node may take to say who leads.
const ANSWER_MAX: Duration = Duration::from_millis(1_000);

/// Between two looks at who leads.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A transfer that has not come about after so long is asked for again.
const AGAIN_EVERY: Duration = Duration::from_millis(1_000);

/// Let another node lead, for example before the machine of the one that does is switched off.
///
/// The leader finishes what it has proposed and hands on; clients wait for about a round trip. The command ends when the node leads. If
/// that one is far behind, or cut off, the leader goes on leading, and the command tries again until its time is over.
#[derive(Args, Clone, Debug)]
pub(crate) struct MoveLeaderArgs {
    /// The node, an acceptor of the view.
    node: u16,
    /// Seconds until it must lead.
    #[arg(long, default_value_t = 30.0, value_parser = seconds::span)]
    timeout: f64,
    #[command(flatten)]
    group: GroupArgs,
}

pub(crate) fn run(args: &MoveLeaderArgs, as_json: bool) -> Result<(), CliError> {
    let access = args.group.read()?;
    let timeout = seconds::duration(args.timeout);
    let until = Instant::now() + timeout;
    let view = status::view_of_group(&access.endpoint, ANSWER_MAX, access.tls())?;
    let is_member = view.members.iter().any(|member| member.node == args.node);
    if !is_member {
        let members: Vec<String> = (view.members.iter())
            .map(|member| member.node.to_string())
            .collect();
        let text = format!(
            "node {} is no member of the group; members are {}",
            args.node,
            members.join(", ")
        );
        return Err(CliError::not_found(text).advise("look at `quorate view show`"));
    }
    let client = access.connect(timeout)?;
    let node = NodeId(args.node);
    loop {
        match client.perform(Operation::MoveLeader { node }) {
            Ok(_) => {}
            Err(CallError::Invalid(CallCause::NoSuchView)) => {
                if !view.replicas.contains(&args.node) {
                    let text = format!(
                        "node {} is a witness: it has no objects, and does not lead",
                        args.node
                    );
                    return Err(CliError::conflict(text)
                        .advise("name a replica that votes: `quorate view show` lists them"));
                }
                let text = format!(
                    "node {node} does not vote: only acceptors lead",
                    node = args.node
                );
                return Err(CliError::conflict(text).advise("quorate view add NODE lets it vote"));
            }
            Err(error) => return Err(CliError::call(error)),
        }
        let again = Instant::now() + AGAIN_EVERY;
        while Instant::now() < again.min(until) {
            let told = status::of_group(&access.endpoint, ANSWER_MAX, access.tls())?;
            if told["leader"] == args.node {
                return match as_json {
                    true => print::line(json!({ "leader": args.node })),
                    false => print::line(format!("node {} leads", args.node)),
                };
            }
            std::thread::sleep(LOOK_EVERY);
        }
        if Instant::now() >= until {
            let text = format!("node {} does not lead yet", args.node);
            return Err(CliError::with_code(code::OUTCOME_UNKNOWN, text)
                .advise("look at `quorate status`: it may be down, or far behind"));
        }
    }
}
