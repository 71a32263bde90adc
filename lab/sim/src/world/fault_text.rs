//! Faults as text: one line each, read back as it was written.

use super::fault::{BadCall, Fault, KillStep, Lasts, Lost, Part, Who};
use super::schedule::{Span, span_of};
use quorate_types::NodeId;
use std::fmt;

/// The fault that `words` say; `None` if they are not understood in full.
pub(super) fn fault_of(words: &[&str]) -> Option<Fault> {
    process_fault(words)
        .or_else(|| network_fault(words))
        .or_else(|| disk_fault(words))
        .or_else(|| local_fault(words))
}

fn process_fault(words: &[&str]) -> Option<Fault> {
    Some(match *words {
        ["crash", who, "after", outputs, "outputs", "for", d] => Fault::Crash {
            node: who_of(who)?,
            outputs: outputs.parse().ok()?,
            down: span_of(d)?,
        },
        ["power-cut", who, "after", changes, "changes", "for", d] => Fault::PowerCut {
            node: who_of(who)?,
            changes: changes.parse().ok()?,
            down: span_of(d)?,
        },
        ["blackout", "for", d] => Fault::Blackout { down: span_of(d)? },
        ["trap", who, step, "after", after, "for", d] => Fault::Trap {
            node: who_of(who)?,
            step: KillStep::ALL.into_iter().find(|one| one.word() == step)?,
            after: after.parse().ok()?,
            down: span_of(d)?,
        },
        ["pause", who, "for", d] => Fault::Pause {
            node: who_of(who)?,
            span: span_of(d)?,
        },
        ["stall", who, "for", d] => Fault::Stall {
            node: who_of(who)?,
            span: span_of(d)?,
        },
        ["leave", who, "for", d] => Fault::Leave {
            node: who_of(who)?,
            down: span_of(d)?,
        },
        _ => return None,
    })
}

fn network_fault(words: &[&str]) -> Option<Fault> {
    Some(match *words {
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
        ["strand", who, "for", d] => Fault::Strand {
            node: who_of(who)?,
            span: span_of(d)?,
        },
        ["isolate", who, "for", d] => Fault::Isolate {
            node: who_of(who)?,
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
        [word, from, "->", to, part, "for", d] => {
            let (from, to, span) = (node_of(from)?, node_of(to)?, span_of(d)?);
            let percent = part.strip_suffix('%')?.parse().ok()?;
            match word {
                "loss" => Fault::Loss {
                    from,
                    to,
                    percent,
                    span,
                },
                "duplicate" => Fault::Duplicate {
                    from,
                    to,
                    percent,
                    span,
                },
                "garble" => Fault::Garble {
                    from,
                    to,
                    percent,
                    span,
                },
                _ => return None,
            }
        }
        _ => return None,
    })
}

fn disk_fault(words: &[&str]) -> Option<Fault> {
    Some(match *words {
        ["slow-disk", who, "by", by, "for", d] => Fault::SlowDisk {
            node: who_of(who)?,
            by: span_of(by)?,
            span: span_of(d)?,
        },
        ["disk-error", who, call, "for", d] => Fault::DiskError {
            node: who_of(who)?,
            call: BadCall::ALL.into_iter().find(|one| one.word() == call)?,
            down: span_of(d)?,
        },
        ["disk-full", who, "for", d] => Fault::DiskFull {
            node: who_of(who)?,
            span: span_of(d)?,
        },
        ["flip", n, "bit", bit, "for", d] => Fault::Flip {
            node: node_of(n)?,
            part: Part::Log,
            bit: bit.parse().ok()?,
            down: span_of(d)?,
        },
        ["flip", n, part, "bit", bit, "for", d] => Fault::Flip {
            node: node_of(n)?,
            part: match part {
                "snapshots" => Part::Snapshots,
                "identity" => Part::Identity,
                "view" => Part::View,
                _ => return None,
            },
            bit: bit.parse().ok()?,
            down: span_of(d)?,
        },
        ["rollback", n, "by", by, "for", d] => Fault::Rollback {
            node: node_of(n)?,
            by: span_of(by)?,
            down: span_of(d)?,
        },
        ["lose-log", n, files, "for", d] => Fault::LoseLog {
            node: node_of(n)?,
            files: match files {
                "whole" => Lost::Whole,
                "newest" => Lost::Newest,
                _ => return None,
            },
            down: span_of(d)?,
        },
        ["wipe", n] => Fault::Wipe { node: node_of(n)? },
        _ => return None,
    })
}

fn local_fault(words: &[&str]) -> Option<Fault> {
    Some(match *words {
        ["wall-jump", who, ms] => Fault::WallJump {
            node: who_of(who)?,
            ms: ms.strip_suffix("ms")?.parse().ok()?,
        },
        ["hang", who, "for", d] => Fault::Hang {
            node: who_of(who)?,
            span: span_of(d)?,
        },
        ["poison", ref nodes @ .., "after", d] => Fault::Poison {
            kills: nodes.iter().map(|n| node_of(n)).collect::<Option<_>>()?,
            after: span_of(d)?,
            lasts: Lasts::Always,
        },
        ["poison", ref nodes @ .., "after", d, "once"] => Fault::Poison {
            kills: nodes.iter().map(|n| node_of(n)).collect::<Option<_>>()?,
            after: span_of(d)?,
            lasts: Lasts::Once,
        },
        ["misanswer", n] => Fault::Misanswer { node: node_of(n)? },
        ["differ"] => Fault::Differ,
        ["diverge", n] => Fault::Diverge { node: node_of(n)? },
        ["checkpoint", n] => Fault::Checkpoint { node: node_of(n)? },
        ["client-cut", client, "for", d] => Fault::ClientCut {
            client: client.strip_prefix('c')?.parse().ok()?,
            span: span_of(d)?,
        },
        _ => return None,
    })
}

fn who_of(word: &str) -> Option<Who> {
    match word {
        "leader" => Some(Who::Leader),
        "struck" => Some(Who::Struck),
        "any" => Some(Who::Any),
        _ => node_of(word).map(Who::Node),
    }
}

fn node_of(word: &str) -> Option<NodeId> {
    word.strip_prefix('n')?.parse().ok().map(NodeId)
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Who::Node(node) => write!(f, "{node}"),
            Who::Leader => f.write_str("leader"),
            Who::Struck => f.write_str("struck"),
            Who::Any => f.write_str("any"),
        }
    }
}

impl KillStep {
    /// All steps.
    pub(super) const ALL: [KillStep; 7] = [
        KillStep::PhaseOne,
        KillStep::Fetch,
        KillStep::Install,
        KillStep::Asked,
        KillStep::Save,
        KillStep::Trim,
        KillStep::Turn,
    ];

    fn word(self) -> &'static str {
        match self {
            KillStep::PhaseOne => "phase-one",
            KillStep::Fetch => "fetch",
            KillStep::Install => "install",
            KillStep::Asked => "asked",
            KillStep::Save => "save",
            KillStep::Trim => "trim",
            KillStep::Turn => "turn",
        }
    }
}

impl Part {
    /// The word and the space behind it; the log goes without saying.
    fn word(self) -> &'static str {
        match self {
            Part::Log => "",
            Part::Snapshots => "snapshots ",
            Part::Identity => "identity ",
            Part::View => "view ",
        }
    }
}

impl Lost {
    fn word(self) -> &'static str {
        match self {
            Lost::Whole => "whole",
            Lost::Newest => "newest",
        }
    }
}

impl BadCall {
    /// All calls that may fail.
    pub(super) const ALL: [BadCall; 3] = [BadCall::Write, BadCall::Sync, BadCall::Read];

    fn word(self) -> &'static str {
        match self {
            BadCall::Write => "write",
            BadCall::Sync => "sync",
            BadCall::Read => "read",
        }
    }
}

impl fmt::Display for Fault {
    // Longer than a screen: one arm a fault.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = Span;
        match *self {
            Fault::Crash {
                node,
                outputs,
                down,
            } => {
                write!(f, "crash {node} after {outputs} outputs for {}", s(down))
            }
            Fault::PowerCut {
                node,
                changes,
                down,
            } => {
                write!(
                    f,
                    "power-cut {node} after {changes} changes for {}",
                    s(down)
                )
            }
            Fault::Blackout { down } => write!(f, "blackout for {}", s(down)),
            Fault::Trap {
                node,
                step,
                after,
                down,
            } => {
                write!(
                    f,
                    "trap {node} {} after {after} for {}",
                    step.word(),
                    s(down)
                )
            }
            Fault::Pause { node, span } => write!(f, "pause {node} for {}", s(span)),
            Fault::Stall { node, span } => write!(f, "stall {node} for {}", s(span)),
            Fault::Leave { node, down } => write!(f, "leave {node} for {}", s(down)),
            Fault::Partition { from, to, span } => {
                write!(f, "partition {from} -> {to} for {}", s(span))
            }
            Fault::Cut { one, other, span } => write!(f, "cut {one} {other} for {}", s(span)),
            Fault::Strand { node, span } => write!(f, "strand {node} for {}", s(span)),
            Fault::Isolate { node, span } => write!(f, "isolate {node} for {}", s(span)),
            Fault::Loss {
                from,
                to,
                percent,
                span,
            } => {
                write!(f, "loss {from} -> {to} {percent}% for {}", s(span))
            }
            Fault::Duplicate {
                from,
                to,
                percent,
                span,
            } => {
                write!(f, "duplicate {from} -> {to} {percent}% for {}", s(span))
            }
            Fault::Garble {
                from,
                to,
                percent,
                span,
            } => {
                write!(f, "garble {from} -> {to} {percent}% for {}", s(span))
            }
            Fault::Delay { from, to, by, span } => {
                write!(f, "delay {from} -> {to} by {} for {}", s(by), s(span))
            }
            Fault::Reset { one, other } => write!(f, "reset {one} {other}"),
            Fault::SlowDisk { node, by, span } => {
                write!(f, "slow-disk {node} by {} for {}", s(by), s(span))
            }
            Fault::DiskError { node, call, down } => {
                write!(f, "disk-error {node} {} for {}", call.word(), s(down))
            }
            Fault::DiskFull { node, span } => write!(f, "disk-full {node} for {}", s(span)),
            Fault::Flip {
                node,
                part,
                bit,
                down,
            } => {
                write!(f, "flip {node} {}bit {bit} for {}", part.word(), s(down))
            }
            Fault::Rollback { node, by, down } => {
                write!(f, "rollback {node} by {} for {}", s(by), s(down))
            }
            Fault::LoseLog { node, files, down } => {
                write!(f, "lose-log {node} {} for {}", files.word(), s(down))
            }
            Fault::Wipe { node } => write!(f, "wipe {node}"),
            Fault::WallJump { node, ms } => write!(f, "wall-jump {node} {ms}ms"),
            Fault::Hang { node, span } => write!(f, "hang {node} for {}", s(span)),
            Fault::Poison {
                kills,
                after,
                lasts,
            } => {
                f.write_str("poison")?;
                kills.iter().try_for_each(|node| write!(f, " {node}"))?;
                write!(f, " after {}", s(after))?;
                match lasts {
                    Lasts::Always => Ok(()),
                    Lasts::Once => f.write_str(" once"),
                }
            }
            Fault::Differ => f.write_str("differ"),
            Fault::Diverge { node } => write!(f, "diverge {node}"),
            Fault::Misanswer { node } => write!(f, "misanswer {node}"),
            Fault::Checkpoint { node } => write!(f, "checkpoint {node}"),
            Fault::ClientCut { client, span } => write!(f, "client-cut c{client} for {}", s(span)),
        }
    }
}
