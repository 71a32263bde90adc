//! `quorate demo`: kills nodes under four clients. It runs `examples/demo.py` of a checkout, because Python
//! clients are what the demo shows; the installed package does not carry it.

use crate::error::CliError;
use clap::Args;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program below a checkout's root.
const SCRIPT: &str = "examples/demo.py";

/// Run the demo of a checkout: a bank account on three nodes that are killed while clients call.
#[derive(Args, Clone, Debug)]
pub(crate) struct DemoArgs {
    /// The directory for the pictures of the timeline.
    #[arg(long, default_value = "out/demo")]
    out: PathBuf,
    /// The root of a checkout. Default: this directory or one above it.
    #[arg(long, value_name = "DIR")]
    checkout: Option<PathBuf>,
    /// The Python interpreter. Default: QUORATE_PYTHON, else `python3` beside this program or on PATH.
    #[arg(long)]
    python: Option<PathBuf>,
}

/// Becomes the demo's process; returns only when that cannot be started.
pub(crate) fn run(args: &DemoArgs) -> Result<(), CliError> {
    let script = script(args.checkout.as_deref())?;
    let interpreter = quorate_host::interpreter(args.python.as_deref());
    let mut command = Command::new(&interpreter);
    command.arg(script).arg("--out").arg(&args.out);
    if let Ok(program) = std::env::current_exe() {
        command.env("QUORATE_PROGRAM", program);
    }
    let error = command.exec();
    let interpreter = interpreter.display();
    Err(CliError::failed(format!(
        "{interpreter} cannot be run: {error}; name another with --python or QUORATE_PYTHON"
    )))
}

/// The demo's program in the checkout that was named, or in the one around this directory.
fn script(checkout: Option<&Path>) -> Result<PathBuf, CliError> {
    let here = std::env::current_dir().unwrap_or_default();
    let roots: Vec<&Path> = match checkout {
        Some(root) => vec![root],
        None => here.ancestors().collect(),
    };
    let found = roots.iter().map(|root| root.join(SCRIPT));
    found.into_iter().find(|path| path.is_file()).ok_or_else(|| {
        let searched = checkout.unwrap_or(&here).display();
        CliError::not_found(format!(
            "{SCRIPT} is not in {searched}: the demo is a part of the repository and not of the installed \
             package; run `make demo` in a checkout, or name one with --checkout"
        ))
    })
}
