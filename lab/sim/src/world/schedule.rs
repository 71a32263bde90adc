//! What goes wrong and when, as text that a person reads and edits and a run replays.
//!
//! One line a fault, `at 12.345s partition n1 -> n2 for 3.000s`; `#` begins a comment. The lines before the first fault
//! say what else a run needs: `seed 7`, `clients 3`, `until 20.000s`. Refuses any line it does not fully understand.
//! Times are whole milliseconds, so that text and memory agree.

use super::clock::Moment;
use quorate_types::{Duration, NodeId};
use std::fmt;

/// A run: the seed of all that is not a fault, and the faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Seed of configuration, network, clients and everything else.
    pub seed: u64,
    /// How many clients work; `None`: as the seed says.
    pub clients: Option<u64>,
    /// When the last fault has ended and everything is mended.
    pub until: Duration,
    /// The faults, ascending in time.
    pub faults: Vec<Timed>,
}

/// A fault and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed {
    /// When it begins.
    pub at: Moment,
    /// What it is.
    pub fault: Fault,
}

/// A call of the disk that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadCall {
    /// The next write.
    Write,
    /// The next sync.
    Sync,
    /// The next reading, when the node starts.
    Read,
}

/// One thing that goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "a field reads as the text of the schedule has it"
)]
pub enum Fault {
    /// The process is killed after so many more outputs; what it wrote stays in the system's cache.
    Crash {
        node: NodeId,
        outputs: u64,
        down: Duration,
    },
    /// The machine loses power after so many more changes of its disk; what was not synced may be lost or torn.
    PowerCut {
        node: NodeId,
        changes: u64,
        down: Duration,
    },
    /// All machines lose power at once.
    Blackout { down: Duration },
    /// Nothing passes from one node to another.
    Partition {
        from: NodeId,
        to: NodeId,
        span: Duration,
    },
    /// Nothing passes between two nodes.
    Cut {
        one: NodeId,
        other: NodeId,
        span: Duration,
    },
    /// Nothing passes between a node and the other nodes; clients reach it.
    Strand { node: NodeId, span: Duration },
    /// Nothing passes between a node and anybody, clients included.
    Isolate { node: NodeId, span: Duration },
    /// Messages are lost.
    Loss {
        from: NodeId,
        to: NodeId,
        percent: u64,
        span: Duration,
    },
    /// Messages arrive twice.
    Duplicate {
        from: NodeId,
        to: NodeId,
        percent: u64,
        span: Duration,
    },
    /// Messages take longer, each by up to `by`.
    Delay {
        from: NodeId,
        to: NodeId,
        by: Duration,
        span: Duration,
    },
    /// The connection between two nodes breaks; what was on its way is lost.
    Reset { one: NodeId, other: NodeId },
    /// The process stands still (SIGSTOP) and goes on.
    Pause { node: NodeId, span: Duration },
    /// Each commit takes longer.
    SlowDisk {
        node: NodeId,
        by: Duration,
        span: Duration,
    },
    /// A call of the disk fails once: the process stops and is started again.
    DiskError {
        node: NodeId,
        call: BadCall,
        down: Duration,
    },
    /// The disk takes no more bytes.
    DiskFull { node: NodeId, span: Duration },
    /// The process is killed and a bit of its log changes while it is down.
    Flip {
        node: NodeId,
        bit: u64,
        down: Duration,
    },
    /// The directory is emptied: the node must not come back.
    Wipe { node: NodeId },
    /// Somebody sets the wall clock.
    WallJump { node: NodeId, ms: i64 },
    /// The objects do not answer.
    Hang { node: NodeId, span: Duration },
    /// The node leaves in good order and comes back.
    Leave { node: NodeId, down: Duration },
    /// An operator asks for a snapshot.
    Checkpoint { node: NodeId },
    /// A client reaches nobody.
    ClientCut { client: u64, span: Duration },
}

/// Why a text is no schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// A line is not understood.
    #[error("line {line} is not understood: {text}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// A line that every schedule needs is missing.
    #[error("the schedule has no line `{0} ...`")]
    Missing(&'static str),
}

impl Schedule {
    /// Reads a schedule.
    ///
    /// # Errors
    /// Names the first line that is not understood, or the one that is missing.
    pub fn parse(text: &str) -> Result<Schedule, ScheduleError> {
        let (mut seed, mut clients, mut until) = (None, None, None);
        let mut faults = Vec::new();
        for (index, raw) in text.lines().enumerate() {
            let content = raw.split('#').next().unwrap_or("").trim();
            let words: Vec<&str> = content.split_whitespace().collect();
            let understood = match words.as_slice() {
                [] => Some(()),
                ["seed", number] => number.parse().ok().map(|number| seed = Some(number)),
                ["clients", number] => number.parse().ok().map(|number| clients = Some(number)),
                ["until", span] => span_of(span).map(|span| until = Some(span)),
                ["at", time, fault @ ..] => timed(time, fault).map(|timed| faults.push(timed)),
                [..] => None,
            };
            understood.ok_or_else(|| ScheduleError::Line {
                line: index + 1,
                text: content.to_owned(),
            })?;
        }
        faults.sort_by_key(|timed| timed.at);
        Ok(Schedule {
            seed: seed.ok_or(ScheduleError::Missing("seed"))?,
            clients,
            until: until.ok_or(ScheduleError::Missing("until"))?,
            faults,
        })
    }
}

fn timed(time: &str, fault: &[&str]) -> Option<Timed> {
    let at = Moment(span_of(time)?.0);
    let fault = fault_of(fault)?;
    Some(Timed { at, fault })
}

fn fault_of(words: &[&str]) -> Option<Fault> {
    let number = |word: &str| word.parse::<u64>().ok();
    let percent = |word: &str| word.strip_suffix('%')?.parse::<u64>().ok();
    Some(match *words {
        ["crash", n, "after", outputs, "outputs", "for", d] => Fault::Crash {
            node: node_of(n)?,
            outputs: number(outputs)?,
            down: span_of(d)?,
        },
        ["power-cut", n, "after", changes, "changes", "for", d] => Fault::PowerCut {
            node: node_of(n)?,
            changes: number(changes)?,
            down: span_of(d)?,
        },
        ["blackout", "for", d] => Fault::Blackout { down: span_of(d)? },
        ["partition", from, "->", to, "for", d] => Fault::Partition {
            from: node_of(from)?,
            to: node_of(to)?,
            span: span_of(d)?,
        },
        ["cut", one, other, "for", d] => Fault::Cut {
            one: node_of(one)?,
            other: node_of(other)?,
            span: span_of(d)?,
        },
        ["strand", n, "for", d] => Fault::Strand {
            node: node_of(n)?,
            span: span_of(d)?,
        },
        ["isolate", n, "for", d] => Fault::Isolate {
            node: node_of(n)?,
            span: span_of(d)?,
        },
        ["loss", from, "->", to, part, "for", d] => Fault::Loss {
            from: node_of(from)?,
            to: node_of(to)?,
            percent: percent(part)?,
            span: span_of(d)?,
        },
        ["duplicate", from, "->", to, part, "for", d] => Fault::Duplicate {
            from: node_of(from)?,
            to: node_of(to)?,
            percent: percent(part)?,
            span: span_of(d)?,
        },
        ["delay", from, "->", to, "by", by, "for", d] => Fault::Delay {
            from: node_of(from)?,
            to: node_of(to)?,
            by: span_of(by)?,
            span: span_of(d)?,
        },
        ["reset", one, other] => Fault::Reset {
            one: node_of(one)?,
            other: node_of(other)?,
        },
        _ => return local_fault(words),
    })
}

fn local_fault(words: &[&str]) -> Option<Fault> {
    Some(match *words {
        ["pause", n, "for", d] => Fault::Pause {
            node: node_of(n)?,
            span: span_of(d)?,
        },
        ["slow-disk", n, "by", by, "for", d] => Fault::SlowDisk {
            node: node_of(n)?,
            by: span_of(by)?,
            span: span_of(d)?,
        },
        ["disk-error", n, call, "for", d] => Fault::DiskError {
            node: node_of(n)?,
            call: match call {
                "write" => BadCall::Write,
                "sync" => BadCall::Sync,
                "read" => BadCall::Read,
                _ => return None,
            },
            down: span_of(d)?,
        },
        ["disk-full", n, "for", d] => Fault::DiskFull {
            node: node_of(n)?,
            span: span_of(d)?,
        },
        ["flip", n, "bit", bit, "for", d] => Fault::Flip {
            node: node_of(n)?,
            bit: bit.parse().ok()?,
            down: span_of(d)?,
        },
        ["wipe", n] => Fault::Wipe { node: node_of(n)? },
        ["wall-jump", n, ms] => Fault::WallJump {
            node: node_of(n)?,
            ms: ms.strip_suffix("ms")?.parse().ok()?,
        },
        ["hang", n, "for", d] => Fault::Hang {
            node: node_of(n)?,
            span: span_of(d)?,
        },
        ["leave", n, "for", d] => Fault::Leave {
            node: node_of(n)?,
            down: span_of(d)?,
        },
        ["checkpoint", n] => Fault::Checkpoint { node: node_of(n)? },
        ["client-cut", client, "for", d] => Fault::ClientCut {
            client: client.strip_prefix('c')?.parse().ok()?,
            span: span_of(d)?,
        },
        _ => return None,
    })
}

fn node_of(word: &str) -> Option<NodeId> {
    word.strip_prefix('n')?.parse().ok().map(NodeId)
}

/// `12.345s`, with exactly three digits behind the point.
fn span_of(word: &str) -> Option<Duration> {
    let (whole, part) = word.strip_suffix('s')?.split_once('.')?;
    if part.len() != 3 {
        return None;
    }
    let ms: u64 = part.parse().ok()?;
    let seconds: u64 = whole.parse().ok()?;
    Some(Duration::from_millis(seconds.checked_mul(1000)? + ms))
}

struct Span(Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0.as_millis();
        write!(f, "{}.{:03}s", ms / 1000, ms % 1000)
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}", self.seed)?;
        if let Some(clients) = self.clients {
            writeln!(f, "clients {clients}")?;
        }
        writeln!(f, "until {}", Span(self.until))?;
        for Timed { at, fault } in &self.faults {
            writeln!(f, "at {} {fault}", Span(Duration(at.0)))?;
        }
        Ok(())
    }
}

impl fmt::Display for Fault {
    // Longer than a screen: one arm a fault.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Crash {
                node,
                outputs,
                down,
            } => {
                write!(
                    f,
                    "crash {node} after {outputs} outputs for {}",
                    Span(*down)
                )
            }
            Fault::PowerCut {
                node,
                changes,
                down,
            } => {
                write!(
                    f,
                    "power-cut {node} after {changes} changes for {}",
                    Span(*down)
                )
            }
            Fault::Blackout { down } => write!(f, "blackout for {}", Span(*down)),
            Fault::Partition { from, to, span } => {
                write!(f, "partition {from} -> {to} for {}", Span(*span))
            }
            Fault::Cut { one, other, span } => write!(f, "cut {one} {other} for {}", Span(*span)),
            Fault::Strand { node, span } => write!(f, "strand {node} for {}", Span(*span)),
            Fault::Isolate { node, span } => write!(f, "isolate {node} for {}", Span(*span)),
            Fault::Loss {
                from,
                to,
                percent,
                span,
            } => {
                write!(f, "loss {from} -> {to} {percent}% for {}", Span(*span))
            }
            Fault::Duplicate {
                from,
                to,
                percent,
                span,
            } => {
                write!(f, "duplicate {from} -> {to} {percent}% for {}", Span(*span))
            }
            Fault::Delay { from, to, by, span } => {
                write!(
                    f,
                    "delay {from} -> {to} by {} for {}",
                    Span(*by),
                    Span(*span)
                )
            }
            Fault::Reset { one, other } => write!(f, "reset {one} {other}"),
            Fault::Pause { node, span } => write!(f, "pause {node} for {}", Span(*span)),
            Fault::SlowDisk { node, by, span } => {
                write!(f, "slow-disk {node} by {} for {}", Span(*by), Span(*span))
            }
            Fault::DiskError { node, call, down } => {
                let call = match call {
                    BadCall::Write => "write",
                    BadCall::Sync => "sync",
                    BadCall::Read => "read",
                };
                write!(f, "disk-error {node} {call} for {}", Span(*down))
            }
            Fault::DiskFull { node, span } => write!(f, "disk-full {node} for {}", Span(*span)),
            Fault::Flip { node, bit, down } => {
                write!(f, "flip {node} bit {bit} for {}", Span(*down))
            }
            Fault::Wipe { node } => write!(f, "wipe {node}"),
            Fault::WallJump { node, ms } => write!(f, "wall-jump {node} {ms}ms"),
            Fault::Hang { node, span } => write!(f, "hang {node} for {}", Span(*span)),
            Fault::Leave { node, down } => write!(f, "leave {node} for {}", Span(*down)),
            Fault::Checkpoint { node } => write!(f, "checkpoint {node}"),
            Fault::ClientCut { client, span } => {
                write!(f, "client-cut c{client} for {}", Span(*span))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "\
seed 9
clients 2
until 20.000s
at 1.000s crash n1 after 3 outputs for 2.000s
at 1.001s power-cut n2 after 0 changes for 0.500s
at 1.002s blackout for 1.000s
at 1.003s partition n1 -> n2 for 3.000s
at 1.004s cut n1 n3 for 3.000s
at 1.005s isolate n1 for 3.000s
at 1.005s strand n1 for 3.000s
at 1.006s loss n1 -> n2 20% for 3.000s
at 1.007s duplicate n1 -> n2 30% for 3.000s
at 1.008s delay n1 -> n2 by 0.200s for 3.000s
at 1.009s reset n1 n2
at 1.010s pause n3 for 2.000s
at 1.011s slow-disk n3 by 0.050s for 2.000s
at 1.012s disk-error n3 sync for 2.000s
at 1.013s disk-full n3 for 2.000s
at 1.014s flip n3 bit 77 for 2.000s
at 1.015s wipe n3
at 1.016s wall-jump n3 -3600000ms
at 1.017s hang n3 for 2.000s
at 1.018s leave n3 for 2.000s
at 1.019s checkpoint n3
at 1.020s client-cut c1 for 2.000s
";

    #[test]
    fn every_fault_reads_back_as_it_was_written() {
        let schedule = Schedule::parse(ALL).unwrap();
        assert_eq!(schedule.faults.len(), 22);
        assert_eq!(schedule.to_string(), ALL);
    }

    #[test]
    fn a_line_that_is_not_understood_is_named() {
        let text = "seed 1\nuntil 1.000s\nat 1.0s pause n1 for 1.000s\n";
        let error = Schedule::parse(text).unwrap_err();
        assert!(
            matches!(error, ScheduleError::Line { line: 3, .. }),
            "{error}"
        );
        assert_eq!(
            Schedule::parse("until 1.000s").unwrap_err(),
            ScheduleError::Missing("seed")
        );
    }
}
