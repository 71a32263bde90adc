//! What a host without Python says of its objects: the reads of the directory that need no Python.
//!
//! Nothing is created or dropped here. Called by the in-process half of [`crate::Host`].

use crate::arguments::{Arguments, CallView, Mistake, mistake, raised_as};
use crate::config::HostedObject;
use crate::live::{LiveObject, LiveObjects, no_such_object};
use crate::object::Holder;
use quorate_types::{ObjectId, Outcome, ReadLevel};
use quorate_wire::value::{self, Sign, Value};

/// Answers a read of the directory.
pub(crate) fn told(specs: &[HostedObject], objects: &LiveObjects, call: CallView<'_>) -> Outcome {
    let told = match call.method {
        "names" => names(specs, call.arguments),
        "find" => found(specs, call.arguments),
        "describe" => described(specs, objects, call.arguments),
        _ => return no_such_object(ObjectId::DIRECTORY),
    };
    told.unwrap_or_else(Outcome::from)
}

fn names(specs: &[HostedObject], mut arguments: Arguments<'_>) -> Result<Outcome, Mistake> {
    arguments.finish()?;
    let names = specs
        .iter()
        .map(|spec| Value::List(vec![text(&spec.name), text(&spec.class)]));
    returned(&Value::List(names.collect()))
}

fn found(specs: &[HostedObject], arguments: Arguments<'_>) -> Result<Outcome, Mistake> {
    let name = name_in(arguments)?;
    let Some(spec) = named(specs, &name) else {
        return Ok(unknown(&name));
    };
    let (number, class) = (number(u64::from(spec.id.0)), text(&spec.class));
    returned(&Value::List(vec![
        number,
        class,
        text(""),
        text(ReadLevel::Confirmed.name()),
    ]))
}

fn described(
    specs: &[HostedObject],
    objects: &LiveObjects,
    arguments: Arguments<'_>,
) -> Result<Outcome, Mistake> {
    let name = name_in(arguments)?;
    let found = named(specs, &name).and_then(|spec| Some((spec, objects.get(spec.id)?)));
    match found {
        Some((spec, object)) => returned(&description(spec, object)),
        None => Ok(unknown(&name)),
    }
}

/// The fields of what `Directory.describe` returns in Python.
fn description(spec: &HostedObject, object: &LiveObject) -> Value {
    let waiting = object.waiting().map(|(id, place)| {
        let numbers = [id.session.0, id.sequence, place.slot.0];
        Value::List(numbers.map(number).to_vec())
    });
    let holders = object.holders().into_iter().map(holder);
    let fields = [
        ("name", text(&spec.name)),
        ("number", number(u64::from(spec.id.0))),
        ("class", text(&spec.class)),
        ("code", text("")),
        ("reads", text(ReadLevel::Confirmed.name())),
        ("methods", object.methods().listed()),
        ("holders", Value::List(holders.collect())),
        ("holders_problem", text("")),
        ("waiting", Value::List(waiting.collect())),
        ("watching", Value::Int(0)),
    ];
    map(fields)
}

fn holder(holder: Holder) -> Value {
    map([
        ("session", number(holder.session.0)),
        ("since", Value::Float(holder.since.0 as f64 / 1e9)),
        ("what", text("")),
        ("label", Value::Null),
        ("count", Value::Int(1)),
        ("token", number(holder.token)),
    ])
}

fn name_in(mut arguments: Arguments<'_>) -> Result<String, Mistake> {
    let item = arguments.item("name")?;
    arguments.finish()?;
    match value::decode(item) {
        Ok(Value::Text(name)) => Ok(name),
        Ok(_) | Err(_) => Err(mistake("TypeError", "a name is a text".to_owned())),
    }
}

fn named<'a>(specs: &'a [HostedObject], name: &str) -> Option<&'a HostedObject> {
    specs.iter().find(|spec| spec.name == name)
}

fn unknown(name: &str) -> Outcome {
    raised_as(
        "quorate.NotFound".to_owned(),
        format!("this group has no object '{name}': `quorate object list` names them"),
    )
}

pub(crate) fn returned(value: &Value) -> Result<Outcome, Mistake> {
    let encoded = value::encode(value).map_err(|error| mistake("ValueError", error.to_string()))?;
    Ok(Outcome::Returned(encoded))
}

fn map<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let fields = fields.map(|(name, value)| (text(name), value));
    Value::Map(fields.to_vec())
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn number(number: u64) -> Value {
    Value::integer(Sign::Positive, &number.to_be_bytes())
}
