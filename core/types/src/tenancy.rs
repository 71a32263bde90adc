//! The client processes that use one session, one after another.
//!
//! A tenancy begins when a session is opened or resumed, and ends when another client resumes it. Its number is the upper part of
//! what its client counts: sequences and attachments of a later tenancy are above all those of earlier ones, so whoever meets a
//! call or a sign of life knows the tenancy, and the window of a session refuses earlier ones by its floor.

use crate::{Attachment, CommandId};
use std::fmt;

/// Numbers of one tenancy: 2^40 calls are more than a client makes in a year of 30,000 a second.
const COUNT_BITS: u32 = 40;

/// The number of a tenancy of one session, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tenancy(u32);

impl Tenancy {
    /// That of the client that opened the session.
    pub const FIRST: Tenancy = Tenancy(0);

    /// The last one: sequences stay below 2^62.
    pub const MAX: Tenancy = Tenancy((1 << 22) - 1);

    /// The tenancy with this number.
    #[must_use]
    pub const fn new(number: u32) -> Option<Tenancy> {
        if number <= Tenancy::MAX.0 {
            Some(Tenancy(number))
        } else {
            None
        }
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The tenancy of a count: of a sequence or an attachment.
    #[must_use]
    pub const fn of(count: u64) -> Tenancy {
        // Counts that no client may use are above the last tenancy all the same.
        let number = count >> COUNT_BITS;
        Tenancy(if number > u32::MAX as u64 {
            u32::MAX
        } else {
            number as u32
        })
    }

    /// The next one, unless this is the last.
    #[must_use]
    pub const fn next(self) -> Option<Tenancy> {
        Tenancy::new(self.0 + 1)
    }

    /// Below every sequence of it, and above all of earlier ones.
    #[must_use]
    pub const fn floor(self) -> u64 {
        (self.0 as u64) << COUNT_BITS
    }

    /// Below every numbered connection of it, and above all of earlier ones.
    #[must_use]
    pub const fn attachment(self) -> Attachment {
        Attachment(self.floor())
    }
}

impl CommandId {
    /// The tenancy in which its client made the call.
    #[must_use]
    pub const fn tenancy(self) -> Tenancy {
        Tenancy::of(self.sequence)
    }
}

impl Attachment {
    /// The tenancy of the client that numbers its connections so.
    #[must_use]
    pub const fn tenancy(self) -> Tenancy {
        Tenancy::of(self.0)
    }
}

impl fmt::Display for Tenancy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tenancy {}", self.0)
    }
}

impl fmt::Debug for Tenancy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_later_tenancy_counts_is_above_all_that_earlier_ones_can() {
        let second = Tenancy::FIRST.next().unwrap();
        assert_eq!(Tenancy::of(second.floor() - 1), Tenancy::FIRST);
        assert_eq!(Tenancy::of(second.floor()), second);
        assert_eq!(second.attachment().tenancy(), second);
        assert_eq!(Attachment::NONE.tenancy(), Tenancy::FIRST);
    }

    #[test]
    fn counts_beyond_the_last_tenancy_are_of_none() {
        assert_eq!(Tenancy::MAX.next(), None);
        assert!(Tenancy::of(u64::MAX) > Tenancy::MAX);
        assert!(Tenancy::of(1 << 62) > Tenancy::MAX);
    }
}
