//! The trace of a run: a hash of everything that happened and, if asked for, its last lines.
//!
//! The hash is made of the same words in every run, told or not, so a run that is traced has the hash of one that is not.

use super::clock::Moment;
use std::collections::VecDeque;
use std::fmt;

/// Lines kept for a person.
const TAIL_MAX: usize = 120;

/// What shall be told of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Telling {
    /// The hash alone.
    Hash,
    /// The last lines too.
    Tail,
    /// Every line, on standard error as it happens.
    Everything,
}

/// The story of one run.
#[derive(Debug)]
pub(super) struct Trace {
    telling: Telling,
    hash: u64,
    tail: VecDeque<String>,
}

impl Trace {
    /// An empty story.
    pub(super) fn new(telling: Telling) -> Trace {
        Trace {
            telling,
            hash: 0xcbf2_9ce4_8422_2325,
            tail: VecDeque::new(),
        }
    }

    /// Something happened: `words` name it in numbers, `line` in text.
    pub(super) fn note(&mut self, now: Moment, words: &[u64], line: impl FnOnce() -> String) {
        self.fold(now.0);
        for word in words {
            self.fold(*word);
        }
        if self.telling == Telling::Hash {
            return;
        }
        let line = format!("{now} {}", line());
        if self.telling == Telling::Everything {
            eprintln!("{line}");
        }
        if self.tail.len() == TAIL_MAX {
            self.tail.pop_front();
        }
        self.tail.push_back(line);
    }

    fn fold(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        self.hash ^= self.hash >> 29;
    }

    /// The hash of all that happened.
    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    /// The last lines.
    pub(super) fn tail(&self) -> impl Iterator<Item = &str> {
        self.tail.iter().map(String::as_str)
    }
}

/// Names an event in traces by a number that no other event has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    /// A message between nodes arrives.
    Arrive = 1,
    /// A node takes its turn.
    Turn,
    /// A commit ends.
    Commit,
    /// Objects do a piece of work.
    Work,
    /// A link connects or ends.
    Link,
    /// A node starts or stops.
    Life,
    /// A client sends or gets something.
    Client,
    /// A fault begins or ends.
    Fault,
    /// A node lets something out.
    Output,
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
