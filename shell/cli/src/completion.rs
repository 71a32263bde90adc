//! `quorate completion`: what a shell needs to complete commands and options.

use crate::error::CliError;
use crate::print;
use clap::{Args, Command, ValueEnum};

/// Print the completion of commands and options for a shell, for example: source <(quorate completion bash)
#[derive(Args, Clone, Debug)]
pub(crate) struct CompletionArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Prints the script that the shell sources.
pub(crate) fn run(args: &CompletionArgs, mut command: Command) -> Result<(), CliError> {
    let shell = match args.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "quorate", &mut script);
    print::line(String::from_utf8_lossy(&script).trim_end())
}
