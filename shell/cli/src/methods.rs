//! What an object can be asked: the list that `quorate call OBJECT` prints.

use crate::error::CliError;
use crate::print;
use crate::table::table;
use quorate_client::{Answer, Client, Operation};
use quorate_types::{ObjectId, Outcome, ReadLevel};
use quorate_wire::value::{self, Value, call};

/// A read of this name asks a host for the methods; see docs/host-protocol.md.
const WHICH_METHODS: &str = "__quorate_methods__";

/// Prints the methods of the object, as a table or as a JSON list.
pub(crate) fn list(client: &Client, object: ObjectId, as_json: bool) -> Result<(), CliError> {
    let question = call::encode(WHICH_METHODS, &[], &[])
        .map_err(|error| CliError::failed(error.to_string()))?;
    let operation = Operation::Read {
        object,
        payload: question,
        level: ReadLevel::Any,
    };
    let Ok(Answer::Read {
        outcome: Outcome::Returned(bytes),
        ..
    }) = client.perform(operation)
    else {
        return Err(CliError::usage(
            "name a method: the objects' host does not list them",
        ));
    };
    let Ok(Value::List(methods)) = value::decode(&bytes) else {
        return Err(CliError::failed("the list of methods cannot be read"));
    };
    if as_json {
        let methods = methods.iter().filter_map(|method| match method {
            Value::List(parts) => parts_of(parts),
            _ => None,
        });
        let methods = methods.map(|[method, kind, text]| {
            serde_json::json!({"method": method, "kind": kind, "description": text})
        });
        return print::line(serde_json::Value::Array(methods.collect()));
    }
    let rows = methods.iter().filter_map(|method| match method {
        Value::List(parts) => parts_of(parts).map(|parts| parts.map(str::to_owned).to_vec()),
        _ => None,
    });
    let rows: Vec<Vec<String>> = rows.collect();
    print::line(table(&["METHOD", "KIND", ""], &rows).trim_end())
}

/// Signature, `read` or `call`, and what it does in a line.
fn parts_of(parts: &[Value]) -> Option<[&str; 3]> {
    match parts {
        [Value::Text(method), Value::Text(kind), Value::Text(text)] => Some([method, kind, text]),
        _ => None,
    }
}
