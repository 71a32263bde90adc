//! What an object can be asked: the list that `quorate call OBJECT` prints, and what a misspelt method is told.

use crate::error::CliError;
use crate::print;
use crate::table::table;
use quorate_client::{Answer, Client, Operation};
use quorate_types::{ObjectId, Outcome, ReadLevel};
use quorate_wire::value::{self, Raised, Value, call};
use strsim::osa_distance;

/// A read of this name asks a host for the methods; see docs/host-protocol.md.
const WHICH_METHODS: &str = "__quorate_methods__";

/// The class of the error of a host whose object has no method of the name that is called.
pub(crate) const NO_SUCH_METHOD: &str = "quorate.NoSuchMethod";

/// A longer name is no misspelt one.
const NAME_LETTERS_MAX: usize = 64;

/// Prints the methods of the object, as a table or as a JSON list.
pub(crate) fn list(client: &Client, object: ObjectId, as_json: bool) -> Result<(), CliError> {
    let methods = ask(client, object)?;
    if as_json {
        let methods = methods.iter().map(|[method, kind, text]| {
            serde_json::json!({"method": method, "kind": kind, "description": text})
        });
        return print::line(serde_json::Value::Array(methods.collect()));
    }
    let rows: Vec<Vec<String>> = methods.into_iter().map(|parts| parts.to_vec()).collect();
    print::line(table(&["METHOD", "KIND", ""], &rows).trim_end())
}

/// The error if the object has no such method, before many calls of it fail.
pub(crate) fn expect(client: &Client, object: ObjectId, name: &str) -> Result<(), CliError> {
    let methods = ask(client, object).unwrap_or_default();
    if methods.iter().any(|method| name_of(method) == name) {
        return Ok(());
    }
    // Special methods are in no list: the host says whether there is one, and executes nothing if there is none.
    let payload =
        call::encode(name, &[], &[]).map_err(|error| CliError::usage(error.to_string()))?;
    let operation = Operation::Read {
        object,
        payload,
        level: ReadLevel::Any,
    };
    match client.perform(operation) {
        Ok(Answer::Read {
            outcome: Outcome::Raised(bytes),
            ..
        }) => match Raised::decode(&bytes) {
            Ok(raised) if raised.class == NO_SUCH_METHOD => {
                Err(unknown(CliError::raised(&raised), client, object, name))
            }
            Ok(_) | Err(_) => Ok(()),
        },
        Ok(_) | Err(_) => Ok(()),
    }
}

/// The error of a call of a method that the object has not: with those that it has, and the one that was probably meant.
pub(crate) fn unknown(error: CliError, client: &Client, object: ObjectId, name: &str) -> CliError {
    let methods = ask(client, object).unwrap_or_default();
    let names: Vec<&str> = methods.iter().map(name_of).collect();
    if names.is_empty() {
        return error;
    }
    let meant = nearest(name, &names);
    let meant = meant.map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"));
    let all = names.join(", ");
    let mut told = error;
    told.text = format!("{}{meant} (its methods: {all})", told.text);
    told
}

/// The name of a method in a list.
fn name_of([signature, _, _]: &[String; 3]) -> &str {
    signature
        .split_once('(')
        .map_or(signature.as_str(), |(name, _)| name)
}

/// The name with the fewest letters that differ, if there are few.
fn nearest<'a>(name: &str, names: &[&'a str]) -> Option<&'a str> {
    let letters = name.chars().count();
    let far = names
        .iter()
        .map(|other| (osa_distance(name, other), *other));
    let near = far.filter(|(far, _)| letters <= NAME_LETTERS_MAX && *far <= letters / 3 + 1);
    near.min().map(|(_, other)| other)
}

/// Each method with its signature, `read` or `call`, and what it does in a line.
fn ask(client: &Client, object: ObjectId) -> Result<Vec<[String; 3]>, CliError> {
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
    let methods = methods.iter().filter_map(|method| match method {
        Value::List(parts) => parts_of(parts).map(|parts| parts.map(str::to_owned)),
        _ => None,
    });
    Ok(methods.collect())
}

/// Signature, `read` or `call`, and what it does in a line.
fn parts_of(parts: &[Value]) -> Option<[&str; 3]> {
    match parts {
        [Value::Text(method), Value::Text(kind), Value::Text(text)] => Some([method, kind, text]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_the_one_that_was_meant() {
        let names = ["balance", "debit", "deposit"];
        assert_eq!(nearest("depsoit", &names), Some("deposit"));
        assert_eq!(nearest("raed", &["add", "read"]), Some("read"));
        assert_eq!(nearest("balanc", &names), Some("balance"));
        assert_eq!(nearest("withdraw", &names), None);
        assert_eq!(nearest("", &names), None);
    }
}
