//! `quorate bench --python-client`: what calls cost in a Python client, beside the Rust client in the same run.
//!
//! The Python half is `quorate._bench`, in a process of its own, against the group that the Rust client loads before it.

use super::args::BenchArgs;
use super::payload::Target;
use super::report::BenchReport;
use crate::error::CliError;
use serde::{Deserialize, Serialize};
use std::process::{Command, Stdio};

/// Calls in flight of the rows that have more than one; the Python half says the same.
pub(super) const IN_FLIGHT: u32 = 1000;

/// One way to call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct WayRow {
    way: String,
    calls_per_s: f64,
    /// Of single calls; of whole rounds where calls are made in rounds.
    p50_us: f64,
    p99_us: f64,
    /// Of the client's process, all of its threads.
    cpu_us_per_call: f64,
}

/// The rows of one object.
#[derive(Clone, Debug, Serialize)]
pub(super) struct PythonReport {
    object: String,
    rust: Vec<WayRow>,
    python: Vec<WayRow>,
}

impl WayRow {
    /// A run of the Rust client as such a row.
    pub(super) fn of_rust(way: &str, report: &BenchReport) -> WayRow {
        let (p50_us, p99_us) = report.latency_us.middle_and_tail();
        WayRow {
            way: way.to_owned(),
            calls_per_s: report.ops_per_s,
            p50_us,
            p99_us,
            cpu_us_per_call: report.cpu_s_per_1000_ops.load * 1000.0,
        }
    }
}

impl PythonReport {
    /// Runs the Python half against `endpoint`; `rust` has been measured there.
    pub(super) fn measure(
        args: &BenchArgs,
        (method, call_args): (&str, &str),
        endpoint: &str,
        rust: Vec<WayRow>,
    ) -> Result<PythonReport, CliError> {
        let interpreter = quorate_host::interpreter(None);
        let output = Command::new(&interpreter)
            .args(["-m", "quorate._bench", endpoint, method])
            .args(["--args", call_args])
            .args(["--seconds", &args.seconds.to_string()])
            .args(["--warmup", &args.warmup.to_string()])
            .args(args.tls.words())
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| {
                let interpreter = interpreter.display();
                CliError::failed(format!(
                    "{interpreter} cannot be run: {error}; name another with QUORATE_PYTHON"
                ))
            })?;
        let python = serde_json::from_slice(&output.stdout).map_err(|_| {
            CliError::failed(format!(
                "{} -m quorate._bench did not report (see above): is the package quorate installed there?",
                interpreter.display()
            ))
        })?;
        Ok(PythonReport {
            object: args.object.clone(),
            rust,
            python,
        })
    }

    /// The report as lines that a person reads.
    pub(super) fn table(&self) -> String {
        let mut text = format!(
            "{:<30} {:>9} {:>9} {:>9} {:>12}",
            self.object, "calls/s", "p50 us", "p99 us", "CPU us/call"
        );
        for (language, rows) in [("Rust", &self.rust), ("Python", &self.python)] {
            for row in rows {
                text.push_str(&format!(
                    "\n{language:<6} {:<23} {:>9.0} {:>9.0} {:>9.0} {:>12.1}",
                    meaning(&row.way),
                    row.calls_per_s,
                    row.p50_us,
                    row.p99_us,
                    row.cpu_us_per_call
                ));
            }
        }
        text
    }
}

/// What a row of that name measures.
fn meaning(way: &str) -> &str {
    match way {
        "sync" => "one call at a time",
        "window" => "1000 in flight",
        "gather" => "gather, rounds of 1000",
        "agather" => "agather, rounds of 1000",
        "tasks" => "asyncio, 1000 tasks",
        other => other,
    }
}

/// Method and arguments of each call; of the built-in counter those of the Rust client.
pub(super) fn call_of<'a>(
    args: &'a BenchArgs,
    target: &'a Target,
) -> Result<(&'a str, &'a str), CliError> {
    match (target.class.as_str(), &target.method) {
        (_, Some(method)) => Ok((method, &args.call_args)),
        ("rust:counter", None) => Ok(("add", "[4294967296]")),
        (other, None) => Err(CliError::usage(format!(
            "--python-client does not call {other}: use --object rust:counter or module:Class.method"
        ))),
    }
}
