//! The `quorate` command: nouns and verbs, one file per command.
//!
//! Data goes to stdout, everything else to stderr; exit codes stand in `error.rs`. The commands
//! translate words into what the crates below do and decide nothing themselves.

mod bench;
mod call;
mod certs;
mod check;
mod demo;
mod error;
mod json;
mod node;
mod print;
mod seconds;
mod snapshot;
mod status;
mod table;
mod tls;
mod up;

use clap::{Parser, Subcommand, ValueEnum};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Turns an ordinary class into a service that stays correct and available while machines fail.
#[derive(Parser)]
#[command(
    name = "quorate",
    version,
    propagate_version = true,
    subcommand_required = true
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
    Certs(certs::CertsArgs),
    Call(call::CallArgs),
    Check(check::CheckArgs),
    Lint(check::LintArgs),
    Status(status::StatusArgs),
    Bench(bench::BenchArgs),
    Demo(demo::DemoArgs),
    #[command(hide = true)]
    BenchUnreplicated(bench::UnreplicatedArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let as_json = cli.output == Format::Json;
    let result = match &cli.command {
        Command::Up(args) => up::run(args, as_json),
        Command::Node(args) => node::run(args, as_json),
        Command::Snapshot(args) => snapshot::run(args, as_json),
        Command::Certs(args) => certs::run(args, as_json),
        Command::Call(args) => call::run(args, as_json),
        Command::Check(args) => check::run(args, as_json),
        Command::Lint(args) => check::run_lint(args, as_json),
        Command::Status(args) => status::run(args, as_json),
        Command::Bench(args) => bench::run(args, as_json),
        Command::Demo(args) => demo::run(args),
        Command::BenchUnreplicated(args) => bench::serve_unreplicated(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quorate: {error}");
            ExitCode::from(error.code)
        }
    }
}
