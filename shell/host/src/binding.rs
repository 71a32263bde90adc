//! Arguments by name become arguments by place, and a call with too few or too many is refused, in the words of Python.
//!
//! Objects in Rust read their arguments one after the other and know no names. Called before each call and read of one that
//! tells its methods; nothing is decoded for a call that fits.

use crate::arguments::{CallView, Mistake, mistake};
use crate::method::{Method, Methods};
use bytes::Bytes;
use quorate_wire::value::{Value, call};

/// The default of what must be given where anything else is.
const UNSAID: &str = "...";

/// The call of `payload` with its arguments by place. `placed` holds it, if it had others.
pub(crate) fn by_place<'a>(
    methods: Methods,
    payload: &'a Bytes,
    placed: &'a mut Option<Bytes>,
) -> Result<CallView<'a>, Mistake> {
    let view = CallView::parse_shared(payload)?;
    *placed = bound(methods, &view)?;
    match placed {
        None => Ok(view),
        Some(placed) => CallView::parse_shared(placed),
    }
}

/// The call with its arguments by place, or `None` when it has no others.
pub(crate) fn bound(methods: Methods, view: &CallView<'_>) -> Result<Option<Bytes>, Mistake> {
    let Some(method) = methods.named(view.method) else {
        return Ok(None);
    };
    let given = view.arguments.count();
    if view.arguments.has_names()? {
        return named_by_place(methods.class, method, view).map(Some);
    }
    if given > method.most {
        return Err(too_many(methods.class, method, given));
    }
    if given < method.least {
        let names = method.parameters().into_iter().skip(given);
        let missing = names.filter(|(_, default)| default.is_none());
        return Err(too_few(
            methods.class,
            method,
            missing.map(|(name, _)| name),
        ));
    }
    Ok(None)
}

fn named_by_place(class: &str, method: &Method, view: &CallView<'_>) -> Result<Bytes, Mistake> {
    let (mut args, mut named) = view.arguments.all()?;
    let parameters = method.parameters();
    let refused =
        |text: String| mistake("TypeError", format!("{class}.{}() {text}", method.name()));
    for (name, _) in &named {
        match parameters.iter().position(|(known, _)| known == name) {
            None => {
                return Err(refused(format!(
                    "got an unexpected keyword argument '{name}'"
                )));
            }
            Some(place) if place < args.len() => {
                return Err(refused(format!(
                    "got multiple values for argument '{name}'"
                )));
            }
            Some(_) => {}
        }
    }
    if args.len() > method.most {
        return Err(too_many(class, method, args.len()));
    }
    let mut missing = Vec::new();
    for (name, default) in parameters.iter().skip(args.len()) {
        let found = named.iter().position(|(given, _)| given == name);
        args.push(match (found, default) {
            (Some(found), _) => named.swap_remove(found).1,
            (None, Some(default)) if *default != UNSAID => constant(default),
            (None, Some(_) | None) => {
                missing.push(*name);
                Value::Null
            }
        });
    }
    if !missing.is_empty() {
        return Err(too_few(class, method, missing.into_iter()));
    }
    call::encode(view.method, &args, &[]).map_err(|error| mistake("ValueError", error.to_string()))
}

/// What a default is: objects in Rust have no others.
fn constant(text: &str) -> Value {
    match text {
        "True" => Value::Bool(true),
        "False" => Value::Bool(false),
        number => number.parse().map_or(Value::Null, Value::Int),
    }
}

fn too_many(class: &str, method: &Method, given: usize) -> Mistake {
    // Python counts the object itself.
    let (least, most, given) = (method.least + 1, method.most + 1, given + 1);
    let takes = match least == most {
        true => format!(
            "{most} positional argument{}",
            if most == 1 { "" } else { "s" }
        ),
        false => format!("from {least} to {most} positional arguments"),
    };
    let verb = if given == 1 { "was" } else { "were" };
    let text = format!(
        "{class}.{}() takes {takes} but {given} {verb} given",
        method.name()
    );
    mistake("TypeError", text)
}

fn too_few<'a>(class: &str, method: &Method, missing: impl Iterator<Item = &'a str>) -> Mistake {
    let names: Vec<String> = missing.map(|name| format!("'{name}'")).collect();
    let (count, plural) = (names.len(), if names.len() == 1 { "" } else { "s" });
    let listed = match &names[..] {
        [one, other] => format!("{one} and {other}"),
        [first @ .., last] if !first.is_empty() => format!("{}, and {last}", first.join(", ")),
        names => names.concat(),
    };
    let name = method.name();
    let text =
        format!("{class}.{name}() missing {count} required positional argument{plural}: {listed}");
    mistake("TypeError", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const METHODS: Methods = Methods {
        class: "Lock",
        all: &[
            Method::call(
                "acquire(blocking: bool = True, timeout: float | None = None) -> int",
                "",
            ),
            Method::call("replace(key: K, expected: V, value: V) -> bool", ""),
            Method::read("token() -> int", ""),
        ],
    };

    fn bind(name: &str, args: &[Value], named: &[(&str, Value)]) -> Result<Option<Bytes>, String> {
        let named = named
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()));
        let named: Vec<_> = named.collect();
        let payload = call::encode(name, args, &named).unwrap();
        let view = CallView::parse(&payload).unwrap();
        bound(METHODS, &view).map_err(|mistake| mistake.message)
    }

    #[test]
    fn names_become_places_with_the_defaults_between() {
        let placed = bind("acquire", &[], &[("timeout", Value::Int(1))])
            .unwrap()
            .unwrap();
        let expected = call::encode("acquire", &[Value::Bool(true), Value::Int(1)], &[]).unwrap();
        assert_eq!(placed, expected);
        assert_eq!(bind("acquire", &[Value::Bool(false)], &[]), Ok(None));
        assert_eq!(bind("unheard-of", &[Value::Null], &[]), Ok(None));
    }

    #[test]
    fn what_does_not_fit_is_refused_in_the_words_of_python() {
        let one = Value::Int(1);
        let all = vec![one.clone(); 4];
        for (refused, text) in [
            (
                bind("token", &all[..1], &[]),
                "Lock.token() takes 1 positional argument but 2 were given",
            ),
            (
                bind("acquire", &all[..3], &[]),
                "Lock.acquire() takes from 1 to 3 positional arguments but 4 were given",
            ),
            (
                bind("replace", &all[..2], &[]),
                "Lock.replace() missing 1 required positional argument: 'value'",
            ),
            (
                bind("replace", &all[..1], &[]),
                "Lock.replace() missing 2 required positional arguments: 'expected' and 'value'",
            ),
            (
                bind("replace", &[], &[]),
                "Lock.replace() missing 3 required positional arguments: 'key', 'expected', and 'value'",
            ),
            (
                bind("token", &[], &[("who", one.clone())]),
                "Lock.token() got an unexpected keyword argument 'who'",
            ),
            (
                bind("acquire", &all[..1], &[("blocking", one.clone())]),
                "Lock.acquire() got multiple values for argument 'blocking'",
            ),
            (
                bind("replace", &[], &[("expected", one.clone())]),
                "Lock.replace() missing 2 required positional arguments: 'key' and 'value'",
            ),
        ] {
            assert_eq!(refused, Err(text.to_owned()));
        }
    }
}
