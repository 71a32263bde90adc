//! `quorate call`: one call of one method, its result on stdout.

use crate::error::CliError;
use crate::group::GroupArgs;
use crate::hindrance::explained;
use crate::json;
use crate::methods;
use crate::print;
use crate::seconds;
use crate::unserved;
use bytes::Bytes;
use clap::{Args, ValueEnum};
use quorate_client::{Answer, Client, DriverOptions, Endpoint, Operation, TlsClient};
use quorate_types::{ObjectId, Outcome, ReadLevel};
use quorate_wire::value::{self, Raised, Value, call};
use std::sync::Arc;

/// A read of this name asks a host which methods are reads.
const WHICH_READ: &str = "__quorate_reads__";

/// Call a method of a replicated object and print what it returns. Methods that change nothing are read, at the level
/// with which the object was created, else `confirmed`. Without a method, the object's methods are listed.
#[derive(Args, Clone, Debug)]
pub(crate) struct CallArgs {
    /// Seconds to wait for the answer. A call that its method lets wait has no limit: end it with Ctrl-C.
    #[arg(long, default_value_t = 10.0, value_parser = seconds::span, allow_negative_numbers = true)]
    timeout: f64,
    /// Read without logging: the method must change nothing.
    #[arg(long, value_enum)]
    read: Option<Freshness>,
    /// The object's name.
    object: String,
    /// The method's name.
    method: Option<String>,
    /// Arguments: JSON, or plain text for a word that is not JSON. Write `--` first if one begins with a dash.
    #[arg(value_name = "ARG", allow_negative_numbers = true)]
    arguments: Vec<String>,
    /// Named arguments, a JSON object.
    #[arg(long, default_value = "{}", value_name = "JSON")]
    kwargs: String,
    #[command(flatten)]
    group: GroupArgs,
}

/// How fresh a read is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Freshness {
    /// Ordered like a write, executed by one replica.
    Ordered,
    /// Confirmed by a majority, not logged.
    Confirmed,
    /// Announced to every node and confirmed by a majority unasked.
    Broadcast,
    /// Answered by the leader alone, under its lease.
    Lease,
    /// The state of the connected replica, possibly old; slot and age go to stderr.
    Any,
}

/// Calls and prints: the result as JSON, or `{"result": ...}` with `-o json`.
pub(crate) fn run(args: &CallArgs, as_json: bool) -> Result<(), CliError> {
    let arguments: Vec<Value> = args.arguments.iter().map(|word| json::word(word)).collect();
    let kwargs = json::named(&args.kwargs).map_err(CliError::usage)?;
    let access = args.group.read()?;
    let timeout = seconds::duration(args.timeout);
    let explain = |error| explained(error, &access.endpoint, access.tls());
    let is_for_any_state = args.read == Some(Freshness::Any);
    let (client, level) = match is_for_any_state {
        true => (access.connect_for_any_state(timeout), ReadLevel::Any),
        false => (access.connect(timeout), ReadLevel::Confirmed),
    };
    let client = client.map_err(explain)?;
    let unanswered = |error| explain(CliError::call(error));
    let found = client.find_reading(Some(&args.object), level);
    let found =
        found.map_err(|error| unserved::no_object(error, &access.endpoint, access.tls()))?;
    let object = found.object;
    let Some(method) = &args.method else {
        return methods::list(&client, object, as_json);
    };
    let payload = call::encode(method, &arguments, &kwargs)
        .map_err(|error| CliError::usage(error.to_string()))?;
    let level = match args.read {
        None => proven(&client, object, method).then_some(found.reads),
        Some(level) => Some(read_level(level)),
    };
    let operation = operation(object, payload.clone(), level);
    let mut answer = client.perform(operation).map_err(unanswered)?;
    if args.read.is_none() && is_no_read(&answer) {
        // The host has changed its mind. If the read ran and changed something, that replica is rebuilt: nothing of it counts.
        let operation = Operation::Call { object, payload };
        answer = client.perform(operation).map_err(unanswered)?;
    }
    let outcome = match answer {
        Answer::Read { outcome, slot, age } => {
            if is_for_any_state {
                eprintln!("as of slot {}, {} ms old", slot.0, age.as_millis());
            }
            outcome
        }
        Answer::Called(outcome) => outcome,
        Answer::Checkpointed(slot) => {
            return Err(CliError::failed(format!(
                "the node answered with a snapshot, of slot {}",
                slot.0
            )));
        }
    };
    let is_unknown = is_raised(&outcome, methods::NO_SUCH_METHOD);
    let result = result_of(outcome, method).map_err(|error| match is_unknown {
        true => methods::unknown(error, &client, object, method),
        false => error,
    })?;
    if as_json {
        print::line(format_args!("{{\"result\":{result}}}"))?;
    } else {
        print::line(result)?;
    }
    Ok(())
}

fn operation(object: ObjectId, payload: Bytes, level: Option<ReadLevel>) -> Operation {
    match level {
        Some(level) => Operation::Read {
            object,
            payload,
            level,
        },
        None => Operation::Call { object, payload },
    }
}

/// Whether the host has declared or shown the method to change nothing. Objects in Rust may list none.
fn proven(client: &Client, object: ObjectId, method: &str) -> bool {
    let Ok(question) = call::encode(WHICH_READ, &[], &[]) else {
        return false;
    };
    let operation = operation(object, question, Some(ReadLevel::Any));
    let Ok(Answer::Read {
        outcome: Outcome::Returned(bytes),
        ..
    }) = client.perform(operation)
    else {
        return false;
    };
    let Ok(Value::List(names)) = value::decode(&bytes) else {
        return false;
    };
    names.iter().any(|name| *name == Value::Text(method.into()))
}

fn is_no_read(answer: &Answer) -> bool {
    match answer {
        Answer::Read { outcome, .. } => is_raised(outcome, "quorate.NotReadOnly"),
        Answer::Called(_) | Answer::Checkpointed(_) => false,
    }
}

fn is_raised(outcome: &Outcome, class: &str) -> bool {
    match outcome {
        Outcome::Raised(bytes) => Raised::decode(bytes).is_ok_and(|raised| raised.class == class),
        Outcome::Returned(_) | Outcome::Skipped => false,
    }
}

/// Calls a method of the endpoint's object with words as arguments.
pub(crate) fn perform(
    endpoint: &str,
    method: &str,
    words: &[String],
    tls: Option<Arc<TlsClient>>,
) -> Result<Value, CliError> {
    let arguments: Vec<Value> = words.iter().map(|word| json::word(word)).collect();
    let payload =
        call::encode(method, &arguments, &[]).map_err(|e| CliError::usage(e.to_string()))?;
    let endpoint: Endpoint = endpoint.parse().map_err(CliError::endpoint)?;
    let options = DriverOptions {
        tls,
        ..DriverOptions::default()
    };
    let client = Client::connect(&endpoint, options, None).map_err(CliError::connect)?;
    let object = client
        .object(endpoint.object.as_deref())
        .map_err(CliError::connect)?;
    let operation = Operation::Call { object, payload };
    result_of_answer(client.perform(operation).map_err(CliError::call)?, method)
}

/// What the method returned.
pub(crate) fn result_of_answer(answer: Answer, method: &str) -> Result<Value, CliError> {
    match answer {
        Answer::Called(outcome) | Answer::Read { outcome, .. } => result_of(outcome, method),
        Answer::Checkpointed(slot) => Ok(Value::Int(slot.0.cast_signed())),
    }
}

fn result_of(outcome: Outcome, method: &str) -> Result<Value, CliError> {
    match outcome {
        Outcome::Returned(bytes) => value::decode(&bytes)
            .map_err(|error| CliError::failed(format!("the result cannot be read: {error}"))),
        Outcome::Raised(bytes) => Err(match Raised::decode(&bytes) {
            Ok(raised) => CliError::raised(&raised),
            Err(error) => CliError::failed(format!("the exception cannot be read: {error}")),
        }),
        Outcome::Skipped => Err(CliError::skipped(method)),
    }
}

pub(crate) fn read_level(level: Freshness) -> ReadLevel {
    match level {
        Freshness::Ordered => ReadLevel::Ordered,
        Freshness::Confirmed => ReadLevel::Confirmed,
        Freshness::Broadcast => ReadLevel::Broadcast,
        Freshness::Lease => ReadLevel::Lease,
        Freshness::Any => ReadLevel::Any,
    }
}
