//! What goes wrong and when, as text that a person reads and edits and a run replays.
//!
//! One line a fault, `at 12.345s partition n1 -> n2 for 3.000s`; `#` begins a comment. The lines before the first fault
//! say what else a run needs: `seed 7`, `clients 3`, `waiters 2`, `watchers 2`, `levels` where nodes are of different builds, `collects` where logs are trimmed for decided commands from the beginning, `witnesses 1`, `speculation 4` where objects go ahead of decisions, `policies` where leaders do not do as usual, `until 20.000s`, `ordering fast_paxos` where the group begins with that one whatever the seed says, and the `shape` of its group. Refuses any line it does not fully understand.
//! Times are whole milliseconds, so that text and memory agree.

use super::clock::Moment;
use super::fault::Fault;
use super::fault_text::fault_of;
use super::shape::Shape;
use quorate_types::{Duration, OrderingName};
use std::fmt;

/// A run: the seed of all that is not a fault, and the faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Seed of configuration, network, clients and everything else.
    pub seed: u64,
    /// How many clients work; `None`: as the seed says.
    pub clients: Option<u64>,
    /// How many clients beside them only call the queue.
    pub waiters: u64,
    /// How many beside all those watch the feed.
    pub watchers: u64,
    /// Whether nodes are of different builds.
    pub levels: bool,
    /// Whether the group begins at the level at which logs are trimmed for decided commands.
    pub collects: bool,
    /// How many of the acceptors are witnesses, the last ones.
    pub witnesses: u16,
    /// How many slots replicas execute ahead of decisions.
    pub speculation: usize,
    /// Whether leaders ask the nearest majority, or send again without credit what is not acknowledged, as the seed says.
    pub policies: bool,
    /// How commands are ordered in the first view; `None`: as the seed says.
    pub ordering: Option<OrderingName>,
    /// The kind of group and its load; `None`: three or five voters, as the seed says.
    pub shape: Option<Shape>,
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
        let (mut seed, mut clients, mut shape, mut until) = (None, None, None, None);
        let (mut waiters, mut watchers, mut levels, mut collects) = (0, 0, false, false);
        let (mut witnesses, mut speculation) = (0, 0);
        let (mut policies, mut ordering) = (false, None);
        let mut faults = Vec::new();
        for (index, raw) in text.lines().enumerate() {
            let content = raw.split('#').next().unwrap_or("").trim();
            let words: Vec<&str> = content.split_whitespace().collect();
            let understood = match words.as_slice() {
                [] => Some(()),
                ["seed", number] => number.parse().ok().map(|number| seed = Some(number)),
                ["clients", number] => number.parse().ok().map(|number| clients = Some(number)),
                ["waiters", number] => number.parse().ok().map(|number| waiters = number),
                ["watchers", number] => number.parse().ok().map(|number| watchers = number),
                ["witnesses", number] => number.parse().ok().map(|number| witnesses = number),
                ["speculation", number] => number.parse().ok().map(|number| speculation = number),
                ["levels"] => {
                    levels = true;
                    Some(())
                }
                ["collects"] => {
                    collects = true;
                    Some(())
                }
                ["policies"] => {
                    policies = true;
                    Some(())
                }
                ["ordering", word] => word.parse().ok().map(|name| ordering = Some(name)),
                ["shape", words @ ..] => Shape::parse(words).map(|found| shape = Some(found)),
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
            waiters,
            watchers,
            levels,
            collects,
            witnesses,
            speculation,
            policies,
            ordering,
            shape,
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

/// `12.345s`, with exactly three digits behind the point.
pub(super) fn span_of(word: &str) -> Option<Duration> {
    let (whole, part) = word.strip_suffix('s')?.split_once('.')?;
    if part.len() != 3 {
        return None;
    }
    let ms: u64 = part.parse().ok()?;
    let seconds: u64 = whole.parse().ok()?;
    Some(Duration::from_millis(seconds.checked_mul(1000)? + ms))
}

/// A span as a schedule has it.
pub(super) struct Span(pub Duration);

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
        if self.waiters > 0 {
            writeln!(f, "waiters {}", self.waiters)?;
        }
        if self.watchers > 0 {
            writeln!(f, "watchers {}", self.watchers)?;
        }
        if self.levels {
            writeln!(f, "levels")?;
        }
        if self.collects {
            writeln!(f, "collects")?;
        }
        if self.witnesses > 0 {
            writeln!(f, "witnesses {}", self.witnesses)?;
        }
        if self.speculation > 0 {
            writeln!(f, "speculation {}", self.speculation)?;
        }
        if self.policies {
            writeln!(f, "policies")?;
        }
        if let Some(ordering) = self.ordering {
            writeln!(f, "ordering {ordering}")?;
        }
        if let Some(shape) = &self.shape {
            writeln!(f, "{shape}")?;
        }
        writeln!(f, "until {}", Span(self.until))?;
        for Timed { at, fault } in &self.faults {
            writeln!(f, "at {} {fault}", Span(Duration(at.0)))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "\
seed 9
clients 2
waiters 1
watchers 3
levels
witnesses 1
speculation 4
policies
ordering fast_paxos
shape nodes 5 acceptors 3 quorums 2 2 depth 4 readers 1
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
at 1.021s crash leader after 3 outputs for 2.000s
at 1.022s strand struck for 2.000s
at 1.023s trap any phase-one after 1 for 2.000s
at 1.024s trap n1 save after 4 for 2.000s
at 1.024s trap any turn after 12 for 0.050s
at 1.025s stall leader for 2.000s
at 1.026s garble n1 -> n2 30% for 3.000s
at 1.027s flip n3 snapshots bit 77 for 2.000s
at 1.028s flip n3 identity bit 77 for 2.000s
at 1.029s rollback n3 by 1.000s for 2.000s
at 1.030s lose-log n3 whole for 2.000s
at 1.031s lose-log n3 newest for 2.000s
at 1.032s poison n1 n3 after 0.250s
";

    #[test]
    fn every_fault_reads_back_as_it_was_written() {
        let schedule = Schedule::parse(ALL).unwrap();
        assert_eq!(schedule.faults.len(), 35);
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
