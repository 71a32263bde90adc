//! `quorate proxy`: a typed client module for a class. It is written by Python, as the class is.

use crate::check::{not_started, python};
use crate::error::CliError;
use clap::Args;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;

/// Write a typed client module for a class, sync and asyncio: clients need it and not the class's own module.
///
/// Exit code with --check: 0 the file is as it would be written, 1 it is not.
#[derive(Args, Clone, Debug)]
pub(crate) struct ProxyArgs {
    /// `module:Class` in Python.
    class: String,
    /// The file. Default: standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Compare the file with the class, print what differs, and change nothing.
    #[arg(long, requires = "out")]
    check: bool,
    /// The Python interpreter. Default: `python3` beside this program or on PATH.
    #[arg(long, env = "QUORATE_PYTHON", value_name = "PATH")]
    python: Option<PathBuf>,
}

/// Becomes the process that writes; returns only when that cannot be started.
pub(crate) fn run(args: &ProxyArgs) -> Result<(), CliError> {
    let mut command = python(args.python.as_deref(), "proxy", &args.class, false);
    if let Some(out) = &args.out {
        command.arg("--out").arg(out);
    }
    if args.check {
        command.arg("--check");
    }
    Err(not_started(&command.exec(), &command))
}
