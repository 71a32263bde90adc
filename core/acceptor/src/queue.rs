//! Commands that wait at the leader, and how they are cut into batches.
//!
//! It knows which node submitted each run of commands, so that each can be told when leadership ends.

use quorate_ordering::Limits;
use quorate_types::{Command, NodeId};
use std::collections::VecDeque;

/// What may have happened to a command that this node submitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It was neither proposed nor forwarded, or certainly without effect.
    Unproposed,
    /// An earlier proposal or forward may still be decided.
    Open,
}

/// A run of commands of one source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Who submitted them.
    pub source: Source,
    /// How many they are.
    pub count: usize,
}

/// The submitter of a run of commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The replica of this node.
    Own(Fate),
    /// Another node, by the forward with this number.
    Forwarded {
        /// Which node.
        node: NodeId,
        /// The number of the forward.
        number: u64,
    },
}

/// The submitters of a batch's commands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// All were submitted here.
    Own,
    /// Runs in the order of the batch's commands.
    Mixed(Vec<Run>),
    /// Found in phase 1, or a NOOP: nobody here waits for it.
    Found,
}

/// Commands in arrival order.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Queue {
    commands: VecDeque<Command>,
    /// Invariant: counts sum to the number of commands.
    runs: VecDeque<Run>,
    bytes: usize,
}

impl Queue {
    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Whether one more may wait.
    #[must_use]
    pub fn has_room(&self, limits: &Limits) -> bool {
        self.commands.len() < limits.queue_commands && self.bytes < limits.queue_bytes
    }

    /// Adds `commands` of one source at the end.
    pub fn push(&mut self, source: Source, commands: Vec<Command>) {
        let count = commands.len();
        self.bytes += commands.iter().map(Command::weight).sum::<usize>();
        if self.commands.is_empty() {
            self.commands = VecDeque::from(commands);
        } else {
            self.commands.extend(commands);
        }
        match self.runs.back_mut() {
            Some(run) if run.source == source => run.count += count,
            Some(_) | None => self.runs.push_back(Run { source, count }),
        }
    }

    /// Whether the next batch is one large command.
    pub fn is_large_next(&self, limits: &Limits) -> bool {
        let first = self.commands.front();
        first.is_some_and(|command| command.weight() >= limits.large_bytes)
    }

    /// The commands of the next batch and their submitters. A single command of any size fits a batch, and a large one is alone
    /// in its.
    pub fn cut(&mut self, limits: &Limits) -> (Vec<Command>, Origin) {
        let mut weight = 0;
        let mut count = 0;
        for command in self.commands.iter().take(limits.batch_commands) {
            let is_large = command.weight() >= limits.large_bytes;
            let is_full = is_large || weight + command.weight() > limits.batch_bytes;
            if is_full && count > 0 {
                break;
            }
            weight += command.weight();
            count += 1;
            if is_large {
                break;
            }
        }
        self.bytes -= weight;
        let commands = if count == self.commands.len() {
            Vec::from(std::mem::take(&mut self.commands))
        } else {
            self.commands.drain(..count).collect()
        };
        (commands, self.cut_runs(count))
    }

    fn cut_runs(&mut self, mut count: usize) -> Origin {
        if let Some(run) = self.runs.front_mut()
            && matches!(run.source, Source::Own(_))
            && run.count >= count
        {
            run.count -= count;
            if run.count == 0 {
                self.runs.pop_front();
            }
            return Origin::Own;
        }
        let mut runs = Vec::new();
        while count > 0 {
            let run = self.runs.front_mut().expect("runs cover all commands");
            let part = run.count.min(count);
            runs.push(Run {
                count: part,
                ..*run
            });
            run.count -= part;
            count -= part;
            if run.count == 0 {
                self.runs.pop_front();
            }
        }
        Origin::Mixed(runs)
    }

    /// All waiting commands.
    pub fn commands(&self) -> impl Iterator<Item = &Command> {
        self.commands.iter()
    }

    /// Takes all waiting commands, by run.
    pub fn drain(&mut self) -> Vec<(Run, Vec<Command>)> {
        self.bytes = 0;
        let runs = std::mem::take(&mut self.runs);
        runs.into_iter()
            .map(|run| (run, self.commands.drain(..run.count).collect()))
            .collect()
    }

    /// Panics when an invariant is broken.
    pub fn check(&self) {
        let count: usize = self.runs.iter().map(|run| run.count).sum();
        assert_eq!(
            count,
            self.commands.len(),
            "every waiting command has an origin"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::{Body, CommandId, ObjectId, SessionId};

    const OWN: Source = Source::Own(Fate::Unproposed);
    const FORWARDED: Source = Source::Forwarded {
        node: NodeId(2),
        number: 7,
    };

    fn commands(sequences: std::ops::Range<u64>) -> Vec<Command> {
        sequences
            .map(|sequence| Command {
                id: CommandId {
                    session: SessionId(1),
                    sequence,
                },
                acknowledged: 0,
                body: Body::Close,
            })
            .collect()
    }

    #[test]
    fn a_batch_says_whose_commands_it_holds() {
        let limits = Limits {
            batch_commands: 4,
            ..Limits::default()
        };
        let mut queue = Queue::default();
        queue.push(OWN, commands(0..3));
        queue.push(FORWARDED, commands(3..6));
        let (batch, origin) = queue.cut(&limits);
        assert_eq!(batch.len(), 4);
        let run = |source, count| Run { source, count };
        assert_eq!(origin, Origin::Mixed(vec![run(OWN, 3), run(FORWARDED, 1)]));
        let rest = queue.drain();
        assert_eq!(rest, vec![(run(FORWARDED, 2), commands(4..6))]);
        queue.check();
    }

    #[test]
    fn a_command_larger_than_a_batch_travels_alone() {
        let limits = Limits {
            batch_bytes: 1,
            ..Limits::default()
        };
        let mut queue = Queue::default();
        queue.push(OWN, commands(0..2));
        let (batch, origin) = queue.cut(&limits);
        assert_eq!((batch.len(), origin), (1, Origin::Own));
        assert_eq!(queue.len(), 1);
    }

    #[test]
    fn a_large_command_is_a_batch_of_its_own_among_small_ones() {
        let limits = Limits::default();
        let mut mixed = commands(0..5);
        for place in [2, 3] {
            mixed[place].body = Body::Call {
                object: ObjectId(1),
                payload: vec![0; limits.large_bytes].into(),
            };
        }
        let mut queue = Queue::default();
        queue.push(OWN, mixed);
        let mut sizes = Vec::new();
        let mut large = Vec::new();
        while !queue.is_empty() {
            large.push(queue.is_large_next(&limits));
            sizes.push(queue.cut(&limits).0.len());
        }
        assert_eq!(sizes, [2, 1, 1, 1]);
        assert_eq!(large, [false, true, true, false]);
        assert_eq!(queue.bytes, 0);
    }
}
