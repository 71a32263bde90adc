//! `quorate lab`: figures of the papers, measured here. It runs `lab/runner/commands.py` of a checkout, because
//! experiments are Python modules of the repository.

use crate::checkout::{CheckoutArgs, Script};
use crate::error::CliError;
use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

const SCRIPT: Script = Script {
    path: "lab/runner/commands.py",
    name: "the lab",
    target: "make lab",
};

/// Measure figures of the papers on this machine and compare their shape, in a checkout.
#[derive(Args, Clone, Debug)]
pub(crate) struct LabArgs {
    #[command(flatten)]
    checkout: CheckoutArgs,
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum LabCommand {
    /// The experiments, and which figures of which paper they measure.
    List,
    Run(RunArgs),
    /// What the last runs have measured, beside what the papers report.
    Report {
        #[command(flatten)]
        results: ResultsArgs,
    },
}

/// Run experiments: start groups, measure, draw pictures, and say whether the paper's shape holds.
#[derive(Args, Clone, Debug)]
struct RunArgs {
    /// The experiments, as `quorate lab list` names them.
    #[arg(value_name = "NAME", required_unless_present = "all")]
    names: Vec<String>,
    /// Run all experiments.
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Measure only as much as shows that the experiment works: well below a minute.
    #[arg(long)]
    short: bool,
    #[command(flatten)]
    results: ResultsArgs,
}

/// Where results are.
#[derive(Args, Clone, Debug)]
struct ResultsArgs {
    /// The directory of the measurements and pictures.
    #[arg(long, value_name = "DIR", default_value = "out/lab")]
    out: PathBuf,
}

/// Becomes the lab's process; returns only when that cannot be started.
pub(crate) fn run(args: &LabArgs, as_json: bool) -> Result<(), CliError> {
    let format = if as_json { "json" } else { "table" };
    let mut words: Vec<OsString> = vec!["--output".into(), format.into()];
    match &args.command {
        LabCommand::List => words.push("list".into()),
        LabCommand::Run(run) => {
            words.push("run".into());
            words.extend(run.all.then(|| "--all".into()));
            words.extend(run.short.then(|| "--short".into()));
            words.extend(out(&run.results.out));
            words.extend(run.names.iter().map(Into::into));
        }
        LabCommand::Report { results } => {
            words.push("report".into());
            words.extend(out(&results.out));
        }
    }
    args.checkout.become_script(&SCRIPT, &words)
}

fn out(directory: &Path) -> [OsString; 2] {
    ["--out".into(), directory.into()]
}
