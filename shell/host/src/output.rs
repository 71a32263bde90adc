//! What a host process prints: passed on to the node's log line by line, a bounded amount of it.
//!
//! A thread reads the process's standard error and output until all its processes have ended. It never lets the
//! process wait: what exceeds the budget is counted and dropped.

use crate::limits::{OUTPUT_BURST_BYTES, OUTPUT_BYTES_PER_S, OUTPUT_LINE_BYTES_MAX};
use std::io::{self, Read, Write};
use std::process::ChildStderr;
use std::thread::JoinHandle;
use std::time::Instant;

/// Passes the output of a process on until it ends; then the thread has its last words.
pub(crate) fn forward(output: ChildStderr) -> io::Result<JoinHandle<LastWords>> {
    std::thread::Builder::new()
        .name("quorate-output".to_owned())
        .spawn(move || {
            let mut lines = Lines::new(io::stderr(), Instant::now());
            // The node's own log may be gone, but a host that is not read would stop.
            let _ = pass_on(output, &mut lines);
            lines.last
        })
}

/// The last line that was not empty, as it was shown.
pub(crate) type LastWords = Option<String>;

fn pass_on(mut from: impl Read, lines: &mut Lines<impl Write>) -> io::Result<()> {
    let mut chunk = [0; 8192];
    loop {
        match from.read(&mut chunk) {
            Ok(0) => return lines.end(Instant::now()),
            Ok(read) => lines.take(&chunk[..read], Instant::now()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Lines within a budget that refills with time.
struct Lines<W: Write> {
    to: W,
    line: Vec<u8>,
    budget: usize,
    refilled: Instant,
    dropped: u64,
    last: LastWords,
}

impl<W: Write> Lines<W> {
    fn new(to: W, now: Instant) -> Lines<W> {
        Lines {
            to,
            line: Vec::new(),
            budget: OUTPUT_BURST_BYTES,
            refilled: now,
            dropped: 0,
            last: None,
        }
    }

    fn take(&mut self, bytes: &[u8], now: Instant) {
        for mut piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            while !piece.is_empty() {
                let room = OUTPUT_LINE_BYTES_MAX - self.line.len();
                let (head, rest) = piece.split_at(room.min(piece.len()));
                self.line.extend_from_slice(head);
                piece = rest;
                if head.ends_with(b"\n") || self.line.len() == OUTPUT_LINE_BYTES_MAX {
                    self.write_line(now);
                }
            }
        }
    }

    fn write_line(&mut self, now: Instant) {
        let line = std::mem::take(&mut self.line);
        self.refill(now);
        // Once something is dropped, the log is left alone for a while.
        let least = if self.dropped > 0 {
            OUTPUT_BURST_BYTES / 4
        } else {
            line.len()
        };
        if self.budget < least {
            self.dropped += line.len() as u64;
            return;
        }
        self.budget -= line.len();
        self.tell_dropped();
        // What an object prints must not look like a line of the node or control a terminal.
        let text: String = String::from_utf8_lossy(&line)
            .trim_end_matches(['\n', '\r'])
            .chars()
            .map(|letter| match letter {
                '\t' => ' ',
                letter if letter.is_control() => '?',
                letter => letter,
            })
            .collect();
        // A log that cannot be written must not stop the reading.
        let _ = writeln!(self.to, "object> {text}");
        if !text.trim().is_empty() {
            self.last = Some(text);
        }
    }

    fn refill(&mut self, now: Instant) {
        let span = now.saturating_duration_since(self.refilled);
        let gained = span.as_millis().saturating_mul(OUTPUT_BYTES_PER_S as u128) / 1000;
        if gained > 0 {
            let gained = usize::try_from(gained).unwrap_or(usize::MAX);
            self.budget = self.budget.saturating_add(gained).min(OUTPUT_BURST_BYTES);
            self.refilled = now;
        }
    }

    fn tell_dropped(&mut self) {
        if self.dropped > 0 {
            let dropped = std::mem::take(&mut self.dropped);
            let _ = writeln!(
                self.to,
                "object> [{dropped} bytes left out: objects may print {OUTPUT_BYTES_PER_S} bytes a second]"
            );
        }
    }

    fn end(&mut self, now: Instant) -> io::Result<()> {
        if !self.line.is_empty() {
            self.write_line(now);
        }
        self.tell_dropped();
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn endless_output_is_cut_counted_and_taken_up_again() {
        let (mut told, now) = (Vec::new(), Instant::now());
        let mut lines = Lines::new(&mut told, now);
        for _ in 0..100_000 {
            lines.take(b"an object that prints and prints\n", now);
        }
        lines.take(b"later\n", now + Duration::from_secs(10));
        lines.end(now + Duration::from_secs(10)).unwrap();
        let told = String::from_utf8(told).unwrap();
        assert!(told.len() < 2 * OUTPUT_BURST_BYTES, "{}", told.len());
        assert!(told.contains("bytes left out"), "{told}");
        assert!(told.ends_with("object> later\n"));
    }

    #[test]
    fn a_line_without_an_end_is_cut_and_control_characters_are_shown_as_such() {
        let (mut told, now) = (Vec::new(), Instant::now());
        let mut lines = Lines::new(&mut told, now);
        lines.take(&vec![b'x'; OUTPUT_LINE_BYTES_MAX + 1], now);
        lines.take(b"\x1b[2J\xff\r\n", now);
        lines.end(now).unwrap();
        let told = String::from_utf8(told).unwrap();
        assert_eq!(told.lines().count(), 2, "{told}");
        assert!(told.ends_with("object> x?[2J\u{fffd}\n"), "{told}");
    }
}
