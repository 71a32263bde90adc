//! What processes cost: CPU seconds and resident memory, read from the kernel's own accounts.
//!
//! Called by the benchmark before and after the measured seconds. Counts a node together with the
//! host processes that it started. Refuses to guess: a process that cannot be read counts as gone.

use std::collections::BTreeMap;
use std::fs;

/// CPU seconds and resident bytes of one process and everything it started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Usage {
    pub(super) cpu_s: f64,
    pub(super) resident_mib: f64,
}

struct Process {
    parent: u32,
    cpu_ticks: u64,
    resident_pages: u64,
}

/// The usage of each process of `pids`, children included, in the order given.
pub(super) fn of(pids: &[u32]) -> Vec<Usage> {
    let all = snapshot();
    pids.iter().map(|pid| tree(&all, *pid)).collect()
}

/// CPU seconds of this process so far, all threads.
pub(super) fn own_cpu_s() -> f64 {
    let usage = read(std::process::id());
    usage.map_or(0.0, |process| process.cpu_ticks as f64 / ticks_per_second())
}

fn tree(all: &BTreeMap<u32, Process>, root: u32) -> Usage {
    let mut sum = Usage::default();
    let mut waiting = vec![root];
    while let Some(pid) = waiting.pop() {
        let Some(process) = all.get(&pid) else {
            continue;
        };
        sum.cpu_s += process.cpu_ticks as f64 / ticks_per_second();
        sum.resident_mib +=
            (process.resident_pages * rustix::param::page_size() as u64) as f64 / (1 << 20) as f64;
        waiting.extend(
            all.iter()
                .filter(|(_, p)| p.parent == pid)
                .map(|(child, _)| *child),
        );
    }
    sum
}

fn snapshot() -> BTreeMap<u32, Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return BTreeMap::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter_map(|pid| Some((pid, read(pid)?)))
        .collect()
}

fn read(pid: u32) -> Option<Process> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parse(&text)
}

/// The name in parentheses may hold anything, so fields are counted from the last parenthesis.
fn parse(stat: &str) -> Option<Process> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Process {
        parent: u32::try_from(number(1)?).ok()?,
        cpu_ticks: number(11)? + number(12)?,
        resident_pages: number(21)?,
    })
}

fn ticks_per_second() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let stat = "42 (a) b) S 7 1 1 0 -1 0 1 2 3 4 100 50 0 0 20 0 1 0 9 1000 77 18446744";
        let process = parse(stat).expect("the line is whole");
        assert_eq!(
            (process.parent, process.cpu_ticks, process.resident_pages),
            (7, 150, 77)
        );
    }

    #[test]
    fn this_process_uses_memory() {
        assert!(of(&[std::process::id()])[0].resident_mib > 0.0);
    }
}
