//! Slots: positions in a group's log.

use std::fmt;

/// A position in the log. The first batch is in slot 1; slot 0 means "before the log".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Slot(pub u64);

impl Slot {
    /// Before every slot of the log.
    pub const ZERO: Slot = Slot(0);

    /// The slot after this one.
    #[must_use]
    pub fn next(self) -> Slot {
        Slot(self.0 + 1)
    }

    /// The slot before this one; slot 0 has none before it and stays.
    #[must_use]
    pub fn previous(self) -> Slot {
        Slot(self.0.saturating_sub(1))
    }

    /// The number of slots in `(earlier, self]`; 0 if `earlier` is not earlier.
    #[must_use]
    pub fn since(self, earlier: Slot) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The slot `count` further on.
    #[must_use]
    pub fn plus(self, count: u64) -> Slot {
        Slot(self.0 + count)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
