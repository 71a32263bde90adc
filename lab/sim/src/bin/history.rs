//! `history check FILE.jsonl`: judges a recorded history. The exit code is the verdict.
//!
//! 0: every object is linearizable. 1: at least one is not, or its search spent its bound. 2: wrong usage, a line that
//! cannot be read, or a history in which nothing finished, which would prove nothing. Used by the real-process nemesis.

use std::fs::File;
use std::io::{BufReader, stdin};
use std::process::ExitCode;

use quorate_sim::checkers::limits::CONFIGURATIONS_MAX;
use quorate_sim::checkers::linearizability::{HistoryReport, check_history_within};
use quorate_sim::history::History;

const USAGE: &str = "usage: history check FILE.jsonl [--configurations N]   (FILE - reads stdin)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(report) => {
            println!("{report}");
            ExitCode::from(u8::from(!report.passed()))
        }
        Err(message) => {
            eprintln!("history: {message}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[String]) -> Result<HistoryReport, String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (file, configurations_max) = match words.as_slice() {
        ["check", file] => (*file, CONFIGURATIONS_MAX),
        ["check", file, "--configurations", count] => (
            *file,
            count
                .parse()
                .map_err(|_| format!("--configurations wants a count, not {count:?}"))?,
        ),
        _ => return Err(USAGE.to_owned()),
    };
    let history = if file == "-" {
        History::read(stdin().lock())
    } else {
        let opened = File::open(file).map_err(|error| format!("{file}: {error}"))?;
        History::read(BufReader::new(opened))
    };
    let history = history.map_err(|error| format!("{file}: {error}"))?;
    let report = check_history_within(&history, configurations_max);
    if report.finished == 0 {
        return Err(format!(
            "{file}: no operation finished, so nothing is shown"
        ));
    }
    Ok(report)
}
