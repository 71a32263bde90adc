//! The starts of a node's directory: with which commit each began, as far back as the directory remembers.

/// One start of a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StartOfNode {
    /// Its boot.
    pub boot: u64,
    /// Drawn at random by each process, so that two starts with one boot differ.
    pub number: u64,
    /// The number of the newest durable commit of the log that it found.
    pub begun: u64,
}

/// The newest starts of a directory, oldest first; at most [`Starts::MAX`]. Starts that began with the same commit count as one,
/// the newest of them: the others wrote nothing.
///
/// A copy of a directory goes on from an earlier start than the one it replaces, and what it learns is in its log at its next
/// start. So a peer asks with what the first start after the one it knows began, not the newest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Starts {
    kept: [StartOfNode; Starts::MAX],
    count: usize,
}

impl Starts {
    /// So many are remembered.
    pub const MAX: usize = 16;

    /// Adds the newest. The oldest is forgotten when there are too many.
    pub fn note(&mut self, start: StartOfNode) {
        let last = self.kept().last();
        if last.is_some_and(|last| last.begun == start.begun) {
            self.count -= 1;
        } else if self.count == Starts::MAX {
            self.kept.rotate_left(1);
            self.count -= 1;
        }
        self.kept[self.count] = start;
        self.count += 1;
    }

    /// All of them, oldest first.
    #[must_use]
    pub fn kept(&self) -> &[StartOfNode] {
        &self.kept[..self.count]
    }

    /// The least commit with which a start after that of `boot` and `number` began: that of the first one, unless the log fell back since. 0
    /// where this directory has not had that start, or knows of none after it.
    #[must_use]
    pub fn begun_after(&self, boot: u64, number: u64) -> u64 {
        let kept = self.kept();
        let later = kept.iter().position(|start| start.boot >= boot);
        let found = match later {
            Some(at) if kept[at].boot > boot => Some(at),
            Some(at) if kept[at].number == number => Some(at + 1),
            Some(_) | None => None,
        };
        let later = found.map_or(&[][..], |at| &kept[at..]);
        later.iter().map(|start| start.begun).min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(all: &[(u64, u64, u64)]) -> Starts {
        let mut starts = Starts::default();
        for (boot, number, begun) in all.iter().copied() {
            starts.note(StartOfNode {
                boot,
                number,
                begun,
            });
        }
        starts
    }

    #[test]
    fn the_first_start_after_a_known_one_is_measured() {
        let starts = starts(&[(1, 10, 0), (2, 11, 300), (5, 12, 600)]);
        assert_eq!(starts.begun_after(0, 0), 0);
        assert_eq!(starts.begun_after(1, 10), 300);
        assert_eq!(starts.begun_after(2, 11), 600);
        assert_eq!(starts.begun_after(3, 99), 600, "a boot that wrote nothing");
        assert_eq!(
            starts.begun_after(2, 99),
            0,
            "another directory's second start"
        );
        assert_eq!(starts.begun_after(5, 12), 0, "none after it");
    }

    /// A disk that lied, or the log alone is an older copy.
    #[test]
    fn a_log_that_fell_back_is_measured_by_what_is_left() {
        let starts = starts(&[(1, 10, 0), (2, 11, 480), (3, 12, 450), (4, 13, 600)]);
        assert_eq!(starts.begun_after(1, 10), 450);
        assert_eq!(starts.begun_after(3, 12), 600);
    }

    #[test]
    fn starts_that_wrote_nothing_count_as_one() {
        let starts = starts(&[(1, 10, 0), (2, 11, 300), (3, 12, 300), (4, 13, 300)]);
        assert_eq!(starts.kept().len(), 2);
        assert_eq!(starts.begun_after(2, 11), 300);
        assert_eq!(starts.begun_after(4, 13), 0);
    }

    /// However many there are, they take the place of one.
    #[test]
    fn starts_that_wrote_nothing_push_no_other_out() {
        let mut all = Starts::default();
        let newest = Starts::MAX as u64;
        for boot in 1..=3 * newest {
            all.note(StartOfNode {
                boot,
                number: boot,
                begun: 10 * boot.min(newest),
            });
        }
        assert_eq!(all.begun_after(1, 1), 20);
        assert_eq!(all.begun_after(newest - 1, newest - 1), 10 * newest);
        assert_eq!(all.begun_after(3 * newest, 3 * newest), 0);
    }

    #[test]
    fn the_newest_starts_are_kept() {
        let mut all = Starts::default();
        for boot in 1..=40 {
            all.note(StartOfNode {
                boot,
                number: boot,
                begun: boot * 10,
            });
        }
        assert_eq!(all.kept().len(), Starts::MAX);
        assert_eq!(all.begun_after(38, 38), 390);
        assert_eq!(all.begun_after(3, 3), 250, "the oldest that is known");
    }
}
