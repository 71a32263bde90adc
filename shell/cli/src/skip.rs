//! `quorate object skip`: the group leaves out a call at which its objects stand still.

use crate::error::{CliError, code};
use crate::group::GroupArgs;
use crate::print;
use crate::seconds;
use crate::status;
use clap::Args;
use quorate_client::{Answer, CallCause, CallError, Operation};
use quorate_node::{PoisonCallStatus, StuckCallStatus, UNSAFE_SKIP_LOSES};
use quorate_types::Slot;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long one node may take to answer: one that hangs does not hide the others.
const ANSWER_MAX: Duration = Duration::from_millis(500);

/// What callers of the call get.
const CALLERS_GET: &str = "MethodSkipped";

/// Leave out a call at which the objects stand still.
///
/// The group skips a call by itself once every replica has reported that its host died at it before it could answer it. This command
/// says whether that is so. It is refused, and changes nothing, while a replica has not reported, may have answered the call or is
/// past it. With --unsafe the call is skipped all the same, where it is not executed yet. Its callers get MethodSkipped.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "With --unsafe, a replica that has executed the call, or executes it before it hears of the skip, may have told \
a caller its result: that effect is lost where most replicas skip the call. Such a replica differs and heals from the majority. \
Without a majority on either side the objects freeze: see `quorate object reset`."
)]
pub(crate) struct SkipArgs {
    /// The slot of the call, and its index if several calls of the slot hold the objects up; `quorate status` shows both.
    #[arg(value_name = "SLOT[:INDEX]", value_parser = place)]
    call: Named,
    /// Skip it although a replica may have executed it.
    #[arg(long = "unsafe")]
    is_unsafe: bool,
    /// Seconds to wait until the skip is decided.
    #[arg(long, default_value_t = 30.0, value_parser = seconds::span)]
    timeout: f64,
    #[command(flatten)]
    group: GroupArgs,
}

/// A call as it is named on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Named {
    slot: u64,
    index: Option<u32>,
}

fn place(text: &str) -> Result<Named, String> {
    let (slot, index) = match text.split_once(':') {
        Some((slot, index)) => (slot, Some(index)),
        None => (text, None),
    };
    let wrong =
        || "not SLOT or SLOT:INDEX, as `quorate status` shows them, for example 12:0".to_owned();
    Ok(Named {
        slot: slot
            .parse()
            .ok()
            .filter(|slot| (1..1 << 47).contains(slot))
            .ok_or_else(wrong)?,
        index: index
            .map(|index| index.parse().map_err(|_| wrong()))
            .transpose()?,
    })
}

/// Runs the command.
pub(crate) fn run(args: &SkipArgs, as_json: bool) -> Result<(), CliError> {
    let access = args.group.read()?;
    let timeout = seconds::duration(args.timeout);
    let seen = Seen(status::of_group(
        &access.endpoint,
        ANSWER_MAX,
        access.tls(),
    )?);
    let slot = args.call.slot;
    let index = seen.index(args.call)?;
    // Where no node stands still at the call, nothing is forced: it may be skipped already.
    let is_unsafe = args.is_unsafe && seen.stands_still(slot, index);
    let client = access.connect(timeout)?;
    let operation = Operation::Skip {
        slot: Slot(slot),
        index,
        is_unsafe,
    };
    match client.perform(operation) {
        Ok(Answer::Checkpointed(_)) => {}
        Ok(Answer::Called(_) | Answer::Read { .. }) => {
            return Err(CliError::failed("the node did not answer with a slot"));
        }
        Err(error) => {
            let seen =
                status::of_group(&access.endpoint, ANSWER_MAX, access.tls()).map_or(seen, Seen);
            return Err(seen.refused(error, (slot, index), is_unsafe));
        }
    }
    if as_json {
        print::line(
            serde_json::json!({"slot": slot, "index": index, "unsafe": is_unsafe, "callers_get": CALLERS_GET}),
        )
    } else {
        print::line(format!(
            "{slot}:{index} is skipped; its callers get {CALLERS_GET}"
        ))
    }
}

/// The status document of the group.
struct Seen(Value);

impl Seen {
    fn nodes(&self) -> impl Iterator<Item = &Value> {
        self.0["nodes"].as_array().into_iter().flatten()
    }

    /// The calls at which hosts are down.
    fn poison(&self) -> Vec<PoisonCallStatus> {
        let calls = self.0["poison"].as_array().into_iter().flatten();
        calls
            .filter_map(|call| serde_json::from_value(call.clone()).ok())
            .collect()
    }

    /// Calls that do not return, by their nodes.
    fn stuck(&self) -> impl Iterator<Item = (u64, StuckCallStatus)> {
        self.nodes().filter_map(|node| {
            let stuck = serde_json::from_value(node["stuck"].clone()).ok()?;
            Some((node["id"].as_u64()?, stuck))
        })
    }

    /// The places of the calls of a slot at which nodes stand still.
    fn indices(&self, slot: u64) -> BTreeSet<u32> {
        let down = self.poison();
        let down = down.iter().filter(|call| call.slot == slot);
        let down: Vec<u32> = down.map(|call| call.index).collect();
        let stuck = self
            .stuck()
            .filter(|(_, stuck)| stuck.slot == Some(slot))
            .filter_map(|(_, stuck)| stuck.index);
        down.into_iter().chain(stuck).collect()
    }

    fn stands_still(&self, slot: u64, index: u32) -> bool {
        self.indices(slot).contains(&index)
    }

    /// The index of the call that is named: the only one of its slot at which nodes stand still, if none is.
    fn index(&self, named: Named) -> Result<u32, CliError> {
        if let Some(index) = named.index {
            return Ok(index);
        }
        let Named { slot, .. } = named;
        let indices = self.indices(slot);
        if indices.len() <= 1 {
            return Ok(indices.first().copied().unwrap_or(0));
        }
        let names: Vec<String> = indices
            .iter()
            .map(|index| format!("{slot}:{index}"))
            .collect();
        Err(CliError::usage(format!(
            "several calls of slot {slot} hold the objects up: {}",
            names.join(", ")
        ))
        .advise("name one of them, and then the next"))
    }

    /// The error of a refused request: what it was about, who is in the way, and what to try.
    fn refused(&self, error: CallError, (slot, index): (u64, u32), is_unsafe: bool) -> CliError {
        match error {
            CallError::Invalid(CallCause::NotSkipped) => self.not_skipped(slot, index, is_unsafe),
            CallError::Invalid(CallCause::NoStuckCall) => self.no_stuck_call(slot, index),
            CallError::Invalid(CallCause::Frozen) => self.frozen(),
            CallError::NotExecuted(CallCause::StorageFull) => CliError::call(error)
                .advise("make room on the disks of the nodes, and say it again"),
            CallError::OutcomeUnknown(_) => CliError::call(error)
                .advise("say it again: a skip that was decided is answered as done"),
            other => CliError::call(other),
        }
    }

    fn frozen(&self) -> CliError {
        let at = self.nodes().find_map(|node| node["frozen"].as_u64());
        let at = at.map_or_else(String::new, |slot| format!(" at slot {slot}"));
        let to_do = "choose whose state counts: quorate object reset --from NODE";
        CliError::conflict(format!(
            "the objects are frozen{at}: no call is skipped before they have one state, and nothing has changed; {to_do}"
        ))
        .advise(to_do)
    }

    fn not_skipped(&self, slot: u64, index: u32, is_unsafe: bool) -> CliError {
        let call = self.poison();
        let call = call
            .into_iter()
            .find(|call| (call.slot, call.index) == (slot, index));
        let (what, to_do) = match call {
            Some(call) => (format!("{call}{}", self.silent()), call.to_do()),
            None => {
                let at = self
                    .stuck()
                    .find(|(_, stuck)| (stuck.slot, stuck.index) == (Some(slot), Some(index)));
                match at {
                    Some((node, stuck)) if is_unsafe => (
                        format!("node {node}: {stuck}"),
                        format!(
                            "restart node {node} with a --call-timeout: it takes over the others' state if the call ends its host"
                        ),
                    ),
                    Some((node, stuck)) => (format!("node {node}: {stuck}"), stuck.to_do),
                    None => (
                        format!("no node stands still at slot {slot}, index {index}"),
                        "look at `quorate status`".to_owned(),
                    ),
                }
            }
        };
        let last = match is_unsafe {
            true => "A majority of the nodes is past the call: nothing skips it".to_owned(),
            false => format!("With --unsafe, {UNSAFE_SKIP_LOSES}"),
        };
        CliError::conflict(format!(
            "not skipped, and nothing has changed: {what}. What to do: {to_do}. {last}"
        ))
        .advise(to_do)
    }

    fn no_stuck_call(&self, slot: u64, index: u32) -> CliError {
        let decided = self.nodes().filter_map(|node| node["decided"].as_u64());
        let decided = decided.max().unwrap_or_default();
        let past = self
            .nodes()
            .filter(|node| node["executed"].as_u64() >= Some(slot));
        let past: Vec<String> = past.map(|node| format!("node {}", node["id"])).collect();
        let why = if slot > decided {
            format!("slot {slot} is not decided yet, the newest is {decided}")
        } else if past.is_empty() {
            format!("the objects do not stand still at slot {slot}, index {index}")
        } else {
            format!(
                "the objects are past slot {slot} at {}: its calls are executed or skipped",
                past.join(" and ")
            )
        };
        CliError::with_code(
            code::CONFLICT,
            format!("there is nothing to skip, and nothing has changed: {why}"),
        )
        .advise("`quorate status` names the call at which the objects stand still, if there is one")
    }

    /// Who does not even answer.
    fn silent(&self) -> String {
        let silent = self.nodes().filter(|node| node["up"] == false);
        let silent: Vec<String> = silent.map(|node| format!("node {}", node["id"])).collect();
        match silent.len() {
            0 => String::new(),
            1 => format!("; {} does not answer", silent[0]),
            _ => format!("; {} do not answer", silent.join(" and ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn seen() -> Seen {
        let poison = |index: u32| {
            json!({"object": "Account", "method": "add", "slot": 12, "index": index, "down": [1, 2],
            "may_have_answered": [], "survived": [], "unreported": [3], "command": format!("quorate object skip 12:{index} --unsafe")})
        };
        Seen(json!({"poison": [poison(1)], "nodes": [
            {"id": 1, "up": true, "decided": 20, "executed": 11, "stuck": null},
            {"id": 2, "up": true, "decided": 20, "executed": 11, "stuck": null},
            {"id": 3, "up": false, "decided": null, "executed": null, "stuck": null},
        ]}))
    }

    #[test]
    fn a_call_is_named_by_slot_and_index_or_by_slot_alone() {
        let named = |slot, index| Ok(Named { slot, index });
        assert_eq!(place("12"), named(12, None));
        assert_eq!(place("12:3"), named(12, Some(3)));
        for wrong in ["", "x", "12:", "12:x", "-1", "0", "12:3:4"] {
            assert!(place(wrong).is_err(), "{wrong}");
        }
        assert_eq!(seen().index(place("12").unwrap()).unwrap(), 1);
        assert_eq!(seen().index(place("12:4").unwrap()).unwrap(), 4);
        assert_eq!(seen().index(place("13").unwrap()).unwrap(), 0);
    }

    #[test]
    fn a_refusal_names_the_call_the_nodes_the_command_and_what_may_be_lost() {
        let refused = seen().refused(CallError::Invalid(CallCause::NotSkipped), (12, 1), false);
        assert_eq!(refused.code, code::CONFLICT);
        for words in [
            "Account.add of slot 12, index 1",
            "node 1 and node 2 have their hosts down at it",
            "node 3 has not reported; node 3 does not answer",
            "may have told a caller its result",
        ] {
            assert!(refused.text.contains(words), "{refused}");
        }
        let advice = refused.json()["advice"].as_str().unwrap().to_owned();
        assert!(
            advice.contains("quorate object skip 12:1 --unsafe"),
            "{advice}"
        );
    }

    #[test]
    fn who_hangs_at_a_call_that_a_majority_is_past_is_named() {
        let stuck = json!({"object": "Account", "method": "hang", "slot": 12, "index": 0, "since_ms": 8200, "to_do": "wait"});
        let seen = Seen(json!({"poison": [], "nodes": [{"id": 1, "up": true, "stuck": stuck}]}));
        let error = CallError::Invalid(CallCause::NotSkipped);
        let refused = seen.refused(error, (12, 0), true);
        assert!(refused.text.contains("nothing skips it"), "{refused}");
        let advice = refused.json()["advice"].as_str().unwrap().to_owned();
        assert!(
            advice.starts_with("restart node 1 with a --call-timeout"),
            "{advice}"
        );
    }

    #[test]
    fn what_is_not_decided_or_past_already_is_not_skipped() {
        let text = |slot| {
            let error = CallError::Invalid(CallCause::NoStuckCall);
            seen().refused(error, (slot, 0), false).text
        };
        assert!(text(21).contains("slot 21 is not decided yet, the newest is 20"));
        assert!(text(9).contains("past slot 9 at node 1 and node 2"));
        assert!(text(15).contains("do not stand still at slot 15"));
    }
}
