//! Programs of a checkout that a command becomes: they are Python, and the installed package does not carry them.

use crate::error::CliError;
use clap::Args;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the checkout is, and what runs its programs.
#[derive(Args, Clone, Debug)]
pub(crate) struct CheckoutArgs {
    /// The root of a checkout. Default: this directory or one above it.
    #[arg(long, value_name = "DIR", global = true)]
    checkout: Option<PathBuf>,
    /// The Python interpreter. Default: QUORATE_PYTHON, else `python3` beside this program or on PATH.
    #[arg(long, global = true)]
    python: Option<PathBuf>,
}

/// A program of a checkout.
pub(crate) struct Script {
    /// Below the checkout's root.
    pub(crate) path: &'static str,
    /// What people call it.
    pub(crate) name: &'static str,
    /// The make target that runs it.
    pub(crate) target: &'static str,
}

impl CheckoutArgs {
    /// Becomes the script's process; returns only when that cannot be started.
    pub(crate) fn become_script(
        &self,
        script: &Script,
        arguments: &[OsString],
    ) -> Result<(), CliError> {
        let path = self.find(script)?;
        let interpreter = quorate_host::interpreter(self.python.as_deref());
        let mut command = Command::new(&interpreter);
        command.arg(path).args(arguments);
        if let Ok(program) = std::env::current_exe() {
            command.env("QUORATE_PROGRAM", program);
        }
        let error = command.exec();
        let interpreter = interpreter.display();
        Err(CliError::failed(format!(
            "{interpreter} cannot be run: {error}; name another with --python or QUORATE_PYTHON"
        )))
    }

    /// The script in the checkout that was named, or in the one around this directory.
    fn find(&self, script: &Script) -> Result<PathBuf, CliError> {
        let here = std::env::current_dir().unwrap_or_default();
        let roots: Vec<&Path> = match &self.checkout {
            Some(root) => vec![root],
            None => here.ancestors().collect(),
        };
        let found = roots.iter().map(|root| root.join(script.path));
        found.into_iter().find(|path| path.is_file()).ok_or_else(|| {
            let searched = self.checkout.as_deref().unwrap_or(&here).display();
            let Script { path, name, target } = script;
            CliError::not_found(format!(
                "{path} is not in {searched}: {name} is a part of the repository and not of the installed package; \
                 run `{target}` in a checkout, or name one with --checkout"
            ))
            .advise(format!("run `{target}` in a checkout, or name one with --checkout"))
        })
    }
}
