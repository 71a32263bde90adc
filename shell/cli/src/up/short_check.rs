//! The short check of a new class beside the start of its group: it costs the start nothing, and warns.

use crate::check;
use crate::up::UpArgs;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Problems that are printed; the rest is counted.
const PROBLEMS_MAX: usize = 5;

/// Bytes of a report: far more than a class's problems have.
const REPORT_BYTES_MAX: u64 = 1 << 20;

/// A check that runs; dropping it ends it.
pub(crate) struct ShortCheck {
    process: Arc<Mutex<Child>>,
    printer: Option<JoinHandle<()>>,
}

impl ShortCheck {
    /// Begins to check a class in Python; a check that cannot be started is no reason not to start the group.
    pub(crate) fn start(args: &UpArgs) -> Option<ShortCheck> {
        if args.no_check || args.no_snapshot || args.class.starts_with("rust:") {
            return None;
        }
        let mut command = check::python(args.python.as_deref(), "check", &args.class, true);
        command.arg("--short");
        command.arg(format!("--args={}", args.args.as_deref().unwrap_or("[]")));
        command.arg(format!(
            "--kwargs={}",
            args.kwargs.as_deref().unwrap_or("{}")
        ));
        for package in &args.allow {
            command.arg("--allow").arg(package);
        }
        ShortCheck::run(command, &args.class)
    }

    fn run(mut command: Command, class: &str) -> Option<ShortCheck> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().ok()?;
        let mut report = child.stdout.take()?.take(REPORT_BYTES_MAX);
        let process = Arc::new(Mutex::new(child));
        let (class, checked) = (class.to_owned(), process.clone());
        let printer = std::thread::Builder::new()
            .name("check".to_owned())
            .spawn(move || {
                let mut text = String::new();
                let read = report.read_to_string(&mut text);
                // The report was its last work: the group may run for years.
                end(&checked);
                if read.is_ok() {
                    tell(&class, &text);
                }
            });
        let check = ShortCheck {
            process,
            printer: printer.ok(),
        };
        check.printer.is_some().then_some(check)
    }
}

impl Drop for ShortCheck {
    fn drop(&mut self) {
        end(&self.process);
        if let Some(printer) = self.printer.take() {
            drop(printer.join());
        }
    }
}

/// Ends the process, which may have ended already, and takes its end from the system: that comes at once.
fn end(process: &Mutex<Child>) {
    let mut process = process.lock().unwrap_or_else(PoisonError::into_inner);
    drop(process.kill());
    drop(process.wait());
}

/// Prints the problems of a report; one that cannot be read says nothing.
fn tell(class: &str, report: &str) {
    let Ok(report) = serde_json::from_str::<serde_json::Value>(report) else {
        return;
    };
    let empty = Vec::new();
    let found = report["found"].as_array().unwrap_or(&empty);
    let problems: Vec<_> = found
        .iter()
        .filter(|each| each["level"] == "problem")
        .collect();
    for each in problems.iter().take(PROBLEMS_MAX) {
        let words = |name: &str| each[name].as_str().unwrap_or_default().to_owned();
        let (file, reason, fix) = (words("file"), words("reason"), words("fix"));
        eprintln!("quorate: {file}:{}: {reason}: {fix}", each["line"]);
    }
    if !problems.is_empty() {
        let count = problems.len();
        eprintln!(
            "quorate: {count} found in {class}: see `quorate check {class}`, or start with --no-check"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_check_that_has_told_what_it_found_leaves_no_process_behind() {
        let mut command = Command::new("sh");
        // It says all that it has to say, and would not end by itself.
        command.args(["-c", "echo '{\"found\": []}'; exec >&- sleep 600"]);
        let mut check = ShortCheck::run(command, "bank:Account").expect("there is a shell");
        let process = format!("/proc/{}", check.process.lock().unwrap().id());
        let printer = check.printer.take().expect("there is a thread");
        printer.join().expect("it tells what it found");
        assert!(!Path::new(&process).exists(), "{process}");
    }
}
