//! Reads and runs the scenarios of a folder. A command is to the left of `----`; its consequences are to the
//! right of it and on the `----` lines below. `SCRIPTS=write` fills in the consequences.

use crate::protocol::ScriptedProtocol;
use crate::stage::Stage;
use std::fs;
use std::path::{Path, PathBuf};

/// Runs every script of `folder`, which holds at least `least` of them.
///
/// # Panics
/// When what follows from a line is not what its script says, with every such line.
pub fn run_folder<P: ScriptedProtocol>(folder: &Path, least: usize) {
    let mut failures = Vec::new();
    let paths = scripts(folder);
    for path in &paths {
        match std::panic::catch_unwind(|| run::<P>(path)) {
            Ok(Ok(filled)) => {
                if std::env::var("SCRIPTS").is_ok_and(|wish| wish == "write") {
                    fs::write(path, filled).unwrap();
                }
            }
            Ok(Err(why)) => failures.push(why),
            Err(_) => failures.push(format!("{}: panicked", path.display())),
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    assert!(paths.len() >= least, "the scenarios are there");
}

fn scripts(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = (fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "script"))
        .collect();
    paths.sort();
    paths
}

fn squeeze(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A line of a script and the consequences that it claims, if it claims any.
struct Step {
    number: usize,
    text: String,
    claims: Option<Vec<String>>,
}

fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (left, right) = match line.split_once("----") {
            Some((left, right)) => (left.trim(), Some(squeeze(right))),
            None => (line, None),
        };
        if left.is_empty() {
            let last = steps.last_mut().expect("consequences follow a step");
            last.claims.get_or_insert_default().extend(right);
            continue;
        }
        steps.push(Step {
            number: index + 1,
            text: squeeze(left),
            claims: right.map(|right| {
                if right.is_empty() {
                    vec![]
                } else {
                    vec![right]
                }
            }),
        });
    }
    steps
}

/// Runs one script; returns it with its consequences filled in.
fn run<P: ScriptedProtocol>(path: &Path) -> Result<String, String> {
    let text = fs::read_to_string(path).unwrap();
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let header = text.lines().next().unwrap_or_default();
    let claim = format!("# Claim {}-", P::CLAIMS);
    if !header.starts_with(&claim) || !header.ends_with('.') {
        return Err(format!(
            "{name}: the first line is not `{claim}N: sentence.`"
        ));
    }
    let mut stage = Stage::<P>::default();
    let mut filled: String = (text.lines().take_while(|line| line.starts_with('#')))
        .map(|line| format!("{line}\n"))
        .collect();
    for step in steps(&text) {
        let place = format!("{name}:{}: `{}`", step.number, step.text);
        let follows = stage
            .act(&step.text)
            .map_err(|why| format!("{place}: {why}"))?;
        match &step.claims {
            None => filled += &format!("{}\n", step.text),
            Some(_) if follows.is_empty() => filled += &format!("{:<30} ----\n", step.text),
            Some(_) => {
                for (index, line) in follows.iter().enumerate() {
                    let left = if index == 0 { step.text.as_str() } else { "" };
                    filled += &format!("{left:<30} ---- {line}\n");
                }
            }
        }
        let writes = std::env::var("SCRIPTS").is_ok_and(|wish| wish == "write");
        if let Some(claims) = step.claims
            && !writes
            && claims != follows
        {
            return Err(format!(
                "{place}\n  claimed:\n    {}\n  follows:\n    {}",
                claims.join("\n    "),
                follows.join("\n    ")
            ));
        }
    }
    Ok(filled)
}
