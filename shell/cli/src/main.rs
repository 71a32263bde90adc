//! The `quorate` command: nouns and verbs, one file per command.
//!
//! Data goes to stdout, everything else to stderr; exit codes stand in `error.rs`. The commands
//! translate words into what the crates below do and decide nothing themselves.

mod backup;
mod backup_read;
mod backup_source;
mod bench;
mod call;
mod certs;
mod check;
mod checkout;
mod completion;
mod created;
mod demo;
mod directory;
mod error;
mod group;
mod groups;
mod hindrance;
mod join;
mod json;
mod lab;
mod late_progress;
mod leader;
mod level;
mod limits;
mod lone_node;
mod methods;
mod moment;
mod newcomer;
mod node;
mod object;
mod ordering;
mod own_node;
mod print;
mod proxy;
mod quorums;
mod rebuild;
mod recover;
mod restore;
mod seconds;
mod serving;
mod skip;
mod snapshot;
mod speaks;
mod status;
mod table;
mod this_program;
mod tls;
mod unfinished;
mod unserved;
mod up;
mod verify;
mod view;
mod view_change;
mod view_deciding;
mod view_setting;

use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use error::CliError;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Turns an ordinary class into a service that stays correct and available while machines fail.
#[derive(Parser)]
#[command(
    name = "quorate",
    version,
    propagate_version = true,
    subcommand_required = true,
    after_help = error::EXIT_CODES
)]
struct Cli {
    /// How results are printed.
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table)]
    output: Format,
    #[command(subcommand)]
    command: Command,
}

/// How results are printed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// For scripts.
    Json,
}

#[derive(Subcommand)]
enum Command {
    Up(up::UpArgs),
    Node(node::NodeArgs),
    Snapshot(snapshot::SnapshotArgs),
    Backup(backup::BackupArgs),
    Restore(restore::RestoreArgs),
    Recover(recover::RecoverArgs),
    Verify(verify::VerifyArgs),
    Object(object::ObjectArgs),
    Certs(certs::CertsArgs),
    Call(call::CallArgs),
    Check(check::CheckArgs),
    Lint(check::LintArgs),
    Proxy(proxy::ProxyArgs),
    Status(status::StatusArgs),
    Group(groups::GroupsArgs),
    View(view::ViewArgs),
    Bench(bench::BenchArgs),
    Lab(lab::LabArgs),
    Demo(demo::DemoArgs),
    Completion(completion::CompletionArgs),
    #[command(hide = true)]
    BenchUnreplicated(bench::UnreplicatedArgs),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() && asks_for_json() => {
            return fail(&CliError::usage(error.to_string().trim_end()), true);
        }
        Err(error) => error.exit(),
    };
    let as_json = cli.output == Format::Json;
    let result = match &cli.command {
        Command::Up(args) => up::run(args, as_json),
        Command::Node(args) => node::run(args, as_json),
        Command::Snapshot(args) => snapshot::run(args, as_json),
        Command::Backup(args) => backup::run(args, as_json),
        Command::Restore(args) => restore::run(args, as_json),
        Command::Recover(args) => recover::run(args, as_json),
        Command::Verify(args) => verify::run(args, as_json),
        Command::Object(args) => object::run(args, as_json),
        Command::Certs(args) => certs::run(args, as_json),
        Command::Call(args) => call::run(args, as_json),
        Command::Check(args) => check::run(args, as_json),
        Command::Lint(args) => check::run_lint(args, as_json),
        Command::Proxy(args) => proxy::run(args),
        Command::Status(args) => status::run(args, as_json),
        Command::Group(args) => groups::run(args, as_json),
        Command::View(args) => view::run(args, as_json),
        Command::Bench(args) => bench::run(args, as_json),
        Command::Lab(args) => lab::run(args, as_json),
        Command::Demo(args) => demo::run(args),
        Command::Completion(args) => completion::run(args, Cli::command()),
        Command::BenchUnreplicated(args) => bench::serve_unreplicated(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error, as_json),
    }
}

fn fail(error: &CliError, as_json: bool) -> ExitCode {
    tell(error, as_json);
    ExitCode::from(error.code)
}

/// Says on stderr how the command fails.
fn tell(error: &CliError, as_json: bool) {
    if as_json {
        eprintln!("{}", error.json());
    } else {
        eprintln!("quorate: {}", print::lines(&error.text));
        if let Some(advice) = error.more_advice() {
            eprintln!("  {}", print::lines(advice));
        }
    }
}

/// Whether a command line that cannot be read asks for JSON all the same.
fn asks_for_json() -> bool {
    let words: Vec<String> = std::env::args().collect();
    let asks = |pair: &[String]| ["-o", "--output"].contains(&&*pair[0]) && pair[1] == "json";
    words.windows(2).any(asks)
        || (words.iter()).any(|word| ["-ojson", "-o=json", "--output=json"].contains(&&**word))
}
