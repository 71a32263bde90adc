//! `quorate demo`: kills nodes under four clients. It runs `examples/demo.py` of a checkout, because Python
//! clients are what the demo shows; the installed package does not carry it.

use crate::error::CliError;
use clap::Args;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program below a checkout's root.
const SCRIPT: &str = "examples/demo.py";

/// Replicate the bank account of examples/, kill its leader twice, and show what clients saw.
#[derive(Args, Clone, Debug)]
pub(crate) struct DemoArgs {
    /// Where the timeline's pictures go.
    #[arg(long, default_value = "out/demo")]
    out: PathBuf,
    /// The root of a checkout; this directory or one above it when absent.
    #[arg(long, value_name = "DIR")]
    checkout: Option<PathBuf>,
    /// The Python interpreter; QUORATE_PYTHON, `python3` beside this program or on PATH when absent.
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
