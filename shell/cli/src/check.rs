//! `quorate check` and `quorate lint`: what a group would do with a class, before there is one. Both are Python, as
//! the class is; this starts them with the interpreter that a host process would have.

use crate::error::CliError;
use clap::Args;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// Run a class in several processes as replicas would, and say what differs, gets lost, does not travel or only reads.
///
/// Calls are made up from annotations and defaults. Exit code: 0 no problems, 1 problems found, 2 wrong arguments.
#[derive(Args, Clone, Debug)]
pub(crate) struct CheckArgs {
    /// `module:Class` in Python.
    class: String,
    /// Constructor arguments, a JSON list. Default: made up where the constructor needs them.
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    args: Option<String>,
    /// Constructor keyword arguments, a JSON object.
    #[arg(long, value_name = "JSON")]
    kwargs: Option<String>,
    /// A file of calls that are made first, one JSON list a line, such as `["deposit", 10]`.
    #[arg(long, value_name = "FILE")]
    calls: Option<PathBuf>,
    /// A package beside the object's own whose instances may be in the state; may be repeated.
    #[arg(long, value_name = "PACKAGE")]
    allow: Vec<String>,
    /// Take a second: fewer calls, one restore, and no look at clocks and the order of sets.
    #[arg(long)]
    short: bool,
    /// The Python interpreter. Default: `python3` beside this program or on PATH.
    #[arg(long, env = "QUORATE_PYTHON", value_name = "PATH")]
    python: Option<PathBuf>,
}

/// Read the source of a class, and say what makes replicas differ, loses state or is refused in a group.
///
/// Nothing of the class is called. Exit code: 0 no problems, 1 problems found, 2 wrong arguments.
#[derive(Args, Clone, Debug)]
pub(crate) struct LintArgs {
    /// `module:Class` in Python.
    class: String,
    /// The Python interpreter. Default: `python3` beside this program or on PATH.
    #[arg(long, env = "QUORATE_PYTHON", value_name = "PATH")]
    python: Option<PathBuf>,
}

/// Becomes the process that checks; returns only when that cannot be started.
pub(crate) fn run(args: &CheckArgs, as_json: bool) -> Result<(), CliError> {
    let mut command = python(args.python.as_deref(), "check", &args.class, as_json);
    for (name, value) in [("--args", &args.args), ("--kwargs", &args.kwargs)] {
        command.args(value.iter().map(|value| format!("{name}={value}")));
    }
    if let Some(calls) = &args.calls {
        command.arg("--calls").arg(calls);
    }
    for package in &args.allow {
        command.arg("--allow").arg(package);
    }
    if args.short {
        command.arg("--short");
    }
    Err(not_started(&command.exec(), &command))
}

/// Becomes the process that reads; returns only when that cannot be started.
pub(crate) fn run_lint(args: &LintArgs, as_json: bool) -> Result<(), CliError> {
    let mut command = python(args.python.as_deref(), "lint", &args.class, as_json);
    Err(not_started(&command.exec(), &command))
}

/// What an interpreter runs as `python -m quorate._commands`, with words for the case that it has no such package.
const COMMANDS: &str = "\
import sys
try:
    from quorate import _commands
except ModuleNotFoundError as error:
    if error.name != 'quorate':
        raise
    sys.exit(f'quorate: the package quorate is not installed for {sys.executable}: '
             'name another interpreter with --python or QUORATE_PYTHON')
sys.exit(_commands.main(sys.argv[1:]))
";

/// The Python half of a command, for a class.
pub(crate) fn python(
    named: Option<&std::path::Path>,
    word: &str,
    class: &str,
    as_json: bool,
) -> Command {
    let mut command = Command::new(quorate_host::interpreter(named));
    command.args(["-c", COMMANDS, word, class]);
    if as_json {
        command.args(["-o", "json"]);
    }
    command
}

/// Why the interpreter did not start.
pub(crate) fn not_started(error: &std::io::Error, command: &Command) -> CliError {
    let interpreter = command.get_program().display();
    CliError::failed(format!(
        "{interpreter} cannot be run: {error}; name another with --python or QUORATE_PYTHON"
    ))
}
