//! `quorate demo`: kills nodes under four clients. The Python package does the work, because its clients are
//! what the demo shows.

use crate::error::CliError;
use clap::Args;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// Replicate the bank account of examples/, kill its leader twice, and show what clients saw.
#[derive(Args, Clone, Debug)]
pub(crate) struct DemoArgs {
    /// Where the timeline's pictures go.
    #[arg(long, default_value = "out/demo")]
    out: PathBuf,
    /// The Python interpreter; QUORATE_PYTHON, `python3` beside this program or on PATH when absent.
    #[arg(long)]
    python: Option<PathBuf>,
}

/// Becomes the demo's process; returns only when that cannot be started.
pub(crate) fn run(args: &DemoArgs) -> Result<(), CliError> {
    let interpreter = quorate_host::interpreter(args.python.as_deref());
    let mut command = Command::new(&interpreter);
    command
        .args(["-m", "quorate._demo", "--out"])
        .arg(&args.out);
    if let Ok(program) = std::env::current_exe() {
        command.env("QUORATE_PROGRAM", program);
    }
    let error = command.exec();
    let interpreter = interpreter.display();
    Err(CliError::failed(format!(
        "{interpreter} cannot be run: {error}; name another with --python or QUORATE_PYTHON"
    )))
}
