//! `quorate object create`, `list`, `describe` and `drop`: the objects of a group that runs, by its directory.

use crate::call::{self, Freshness, read_level};
use crate::error::{CliError, code};
use crate::group::{GroupAccess, GroupArgs};
use crate::json;
use crate::moment;
use crate::print;
use crate::seconds;
use crate::table::table;
use clap::Args;
use quorate_client::{Answer, Client, Operation};
use quorate_types::{ObjectId, Outcome, ReadLevel};
use quorate_wire::value::{self, Value};

/// Create an object in a group that runs.
///
/// The class must be importable on every node, from where the group was started. One command creates the object: either all replicas
/// have it, or nothing has changed. It prints the object's name.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example: quorate object create jobs/queue-1 quorate.objects:Queue --kwargs '{\"maxsize\": 100}'"
)]
pub(crate) struct CreateArgs {
    /// The object's name, a path as in jobs/queue-1.
    name: String,
    /// Its class, as MODULE:CLASS.
    #[arg(value_name = "MODULE:CLASS")]
    class: String,
    /// Arguments of the class, a JSON list.
    #[arg(long, default_value = "[]", value_name = "JSON")]
    args: String,
    /// Named arguments of the class, a JSON object.
    #[arg(long, default_value = "{}", value_name = "JSON")]
    kwargs: String,
    /// Methods that change nothing, which the class does not say, with commas between them.
    #[arg(long, value_name = "METHODS", value_delimiter = ',')]
    readonly: Vec<String>,
    /// The level at which clients read that ask for no other one.
    #[arg(long, value_enum, default_value = "confirmed")]
    reads: Freshness,
    /// Drop the object after so many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds::span, allow_negative_numbers = true)]
    ttl: Option<f64>,
    /// If there is one of that name, created from the same class and arguments, leave it as it is.
    #[arg(long)]
    if_missing: bool,
    #[command(flatten)]
    directory: DirectoryArgs,
}

/// List the objects of a group, with their classes.
#[derive(Args, Clone, Debug)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
}

/// Show what is known of an object: its class, its methods, who holds what of it since when, and the calls that wait at it.
#[derive(Args, Clone, Debug)]
pub(crate) struct DescribeArgs {
    /// The object's name.
    name: String,
    #[command(flatten)]
    directory: DirectoryArgs,
}

/// Drop an object with its state. Nothing brings it back.
///
/// Calls that wait at the object raise ObjectDropped, later ones NotFound. The object that the group was started with cannot be
/// dropped.
#[derive(Args, Clone, Debug)]
pub(crate) struct DropArgs {
    /// The object's name.
    name: String,
    #[command(flatten)]
    directory: DirectoryArgs,
}

#[derive(Args, Clone, Debug)]
struct DirectoryArgs {
    /// Seconds to wait for the answer.
    #[arg(long, default_value_t = 10.0, value_parser = seconds::span)]
    timeout: f64,
    #[command(flatten)]
    group: GroupArgs,
}

/// Runs `object create`.
pub(crate) fn create(args: &CreateArgs, as_json: bool) -> Result<(), CliError> {
    if args.name.contains(':') && !args.class.contains(':') {
        let text = format!(
            "'{}' is a class: the object's name comes before it",
            args.name
        );
        let turned = format!("quorate object create {} {}", args.class, args.name);
        return Err(CliError::usage(text).advise(turned));
    }
    let given = json::list(&args.args).map_err(CliError::usage)?;
    let named = json::named(&args.kwargs).map_err(CliError::usage)?;
    let named = named
        .into_iter()
        .map(|(name, value)| (Value::Text(name), value));
    let arguments = Value::List(vec![Value::List(given), Value::Map(named.collect())]);
    let arguments =
        value::encode(&arguments).map_err(|error| CliError::usage(error.to_string()))?;
    let words = args.readonly.iter().map(|word| word.trim());
    let words = words.filter(|word| !word.is_empty());
    let words = words.map(|word| Value::Text(word.to_owned()));
    let reads = read_level(args.reads).name();
    let mut options = vec![
        ("readonly".to_owned(), Value::List(words.collect())),
        ("reads".to_owned(), Value::Text(reads.to_owned())),
        ("is_new".to_owned(), Value::Bool(!args.if_missing)),
    ];
    options.extend(args.ttl.map(|ttl| ("ttl".to_owned(), Value::Float(ttl))));
    let question = [
        Value::Text(args.name.clone()),
        Value::Text(args.class.clone()),
        Value::Bytes(arguments.to_vec()),
    ];
    let operation = Operation::Call {
        object: ObjectId::DIRECTORY,
        payload: payload("create", &question, &options)?,
    };
    let created = match args.directory.answer(operation)? {
        Answer::Called(Outcome::Skipped) => return Err(ends_its_hosts(&args.class)),
        answer => call::result_of_answer(answer, "create")?,
    };
    if as_json {
        return print::line(serde_json::json!({"name": args.name, "number": number_of(&created)}));
    }
    print::line(&args.name)
}

/// The error of a class that no process outlives.
fn ends_its_hosts(class: &str) -> CliError {
    let text = format!(
        "importing or constructing {class} ended every process that did it, or ran into --call-timeout: the group skipped the call, \
         and nothing was created"
    );
    CliError::failed(text).advise(format!("`quorate check {class}` says more"))
}

/// Runs `object list`.
pub(crate) fn list(args: &ListArgs, as_json: bool) -> Result<(), CliError> {
    let names = parsed(&args.directory.read("names", &[])?)?;
    let rows = names.as_array().into_iter().flatten();
    let rows = rows.map(|row| [text_of(&row[0]), text_of(&row[1])]);
    if as_json {
        let objects = rows.map(|[name, class]| serde_json::json!({"name": name, "class": class}));
        return print::line(serde_json::Value::Array(objects.collect()));
    }
    let rows: Vec<Vec<String>> = rows.map(|row| row.to_vec()).collect();
    print::line(table(&["NAME", "CLASS"], &rows).trim_end())
}

/// The classes of all objects, as the directory names them.
pub(crate) fn classes(client: &Client) -> Result<Vec<String>, CliError> {
    let operation = Operation::Read {
        object: ObjectId::DIRECTORY,
        payload: payload("names", &[], &[])?,
        level: ReadLevel::Confirmed,
    };
    let answer = client.perform(operation).map_err(CliError::call)?;
    let names = parsed(&call::result_of_answer(answer, "names")?)?;
    let rows = names.as_array().into_iter().flatten();
    Ok(rows.map(|row| text_of(&row[1])).collect())
}

/// Runs `object describe`.
pub(crate) fn describe(args: &DescribeArgs, as_json: bool) -> Result<(), CliError> {
    let name = [Value::Text(args.name.clone())];
    let described = parsed(&args.directory.read("describe", &name)?)?;
    if as_json {
        return print::line(described);
    }
    let head = ["name", "class", "number", "code", "reads", "watching"];
    let head = head.map(|field| vec![field.to_owned(), text_of(&described[field])]);
    let mut shown = table(&["OBJECT", ""], &head);
    let rows = |field: &str| -> Vec<Vec<String>> {
        let rows = described[field].as_array().into_iter().flatten();
        let cells = rows.map(|row| row.as_array().into_iter().flatten().map(text_of).collect());
        cells.collect()
    };
    shown.push('\n');
    shown.push_str(&table(&["METHOD", "KIND", ""], &rows("methods")));
    shown.push('\n');
    shown.push_str(&holders(&described));
    shown.push('\n');
    shown.push_str(&table(
        &["SESSION WAITS", "CALL", "SINCE SLOT"],
        &rows("waiting"),
    ));
    print::line(shown.trim_end())
}

/// Who holds what, since when in universal time, and what is wrong with the list.
fn holders(described: &serde_json::Value) -> String {
    let held = described["holders"].as_array().into_iter().flatten();
    let rows = held.map(|holder| {
        let since = holder["since"]
            .as_f64()
            .map_or_else(String::new, moment::utc);
        let shown = |field: &str| match &holder[field] {
            serde_json::Value::Null => String::new(),
            value => text_of(value),
        };
        let [session, what, label] = ["session", "what", "label"].map(shown);
        vec![session, what, label, since, shown("count"), shown("token")]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let head = ["SESSION HOLDS", "WHAT", "LABEL", "SINCE", "COUNT", "TOKEN"];
    let mut shown = table(&head, &rows);
    if let Some(problem) = described["holders_problem"]
        .as_str()
        .filter(|text| !text.is_empty())
    {
        shown.push_str(problem);
        shown.push('\n');
    }
    shown
}

/// Runs `object drop`.
pub(crate) fn drop(args: &DropArgs, as_json: bool) -> Result<(), CliError> {
    let name = [Value::Text(args.name.clone())];
    args.directory.call("drop", &name, &[])?;
    if as_json {
        return print::line(serde_json::json!({"dropped": args.name}));
    }
    print::line(&args.name)
}

impl DirectoryArgs {
    fn call(
        &self,
        method: &str,
        words: &[Value],
        named: &[(String, Value)],
    ) -> Result<Value, CliError> {
        let payload = payload(method, words, named)?;
        let object = ObjectId::DIRECTORY;
        self.ask(Operation::Call { object, payload }, method)
    }

    fn read(&self, method: &str, words: &[Value]) -> Result<Value, CliError> {
        let operation = Operation::Read {
            object: ObjectId::DIRECTORY,
            payload: payload(method, words, &[])?,
            level: ReadLevel::Confirmed,
        };
        self.ask(operation, method)
    }

    fn ask(&self, operation: Operation, method: &str) -> Result<Value, CliError> {
        call::result_of_answer(self.answer(operation)?, method)
    }

    fn answer(&self, operation: Operation) -> Result<Answer, CliError> {
        let access: GroupAccess = self.group.read()?;
        let client = access.connect(seconds::duration(self.timeout))?;
        client.perform(operation).map_err(CliError::call)
    }
}

fn payload(
    method: &str,
    words: &[Value],
    named: &[(String, Value)],
) -> Result<quorate_types::Value, CliError> {
    value::call::encode(method, words, named).map_err(|error| CliError::usage(error.to_string()))
}

/// What the directory said, as JSON.
fn parsed(said: &Value) -> Result<serde_json::Value, CliError> {
    serde_json::from_str(&said.to_string()).map_err(|error| {
        CliError::with_code(code::FAILED, format!("the answer cannot be read: {error}"))
    })
}

fn number_of(created: &Value) -> Option<i64> {
    match created {
        Value::List(place) => match place.first() {
            Some(Value::Int(number)) => Some(*number),
            _ => None,
        },
        _ => None,
    }
}

fn text_of(value: &serde_json::Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
