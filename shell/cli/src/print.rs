//! Data to stdout: a reader that has seen enough is no failure.

use crate::error::CliError;
use std::fmt::Display;
use std::io::{ErrorKind, Write};

/// Prints one piece of data and ends the line.
pub(crate) fn line(data: impl Display) -> Result<(), CliError> {
    let mut stdout = std::io::stdout().lock();
    match writeln!(stdout, "{data}").and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(CliError::failed(format!("cannot print: {error}"))),
    }
}
