//! Data to stdout: a reader that has seen enough is no failure. Text that comes from files steers no terminal.

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

/// The text with what could steer a terminal, or look like another text, written as escapes. Its lines stay.
pub(crate) fn lines(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(word).collect();
    lines.join("\n")
}

/// The same on one line.
pub(crate) fn word(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            // What turns the direction of writing shows a text in another order than it has.
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                shown.extend(letter.escape_unicode());
            }
            letter if letter.is_control() => shown.extend(letter.escape_default()),
            letter => shown.push(letter),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_written_out() {
        assert_eq!(
            word("gr\u{fc}n \u{1b}[31m\r\u{9b}2J"),
            "gr\u{fc}n \\u{1b}[31m\\r\\u{9b}2J"
        );
        assert_eq!(word("a\u{202e}b\nc\td"), "a\\u{202e}b\\nc\\td");
        assert_eq!(lines("a\nb\u{7}\n"), "a\nb\\u{7}\n");
    }
}
