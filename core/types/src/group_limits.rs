//! Limits that all nodes of a group must share, because what is replicated depends on them: a view names those that are not the defaults.

use crate::Level;
use std::fmt;

/// What a view says of the limits of its group. What it does not name is the default.
///
/// ```
/// use quorate_types::{GroupLimits, LimitChange};
/// let few = GroupLimits::default().changed(LimitChange::Sessions(5_000)).unwrap();
/// assert_eq!((few.sessions(), few.replies()), (5_000, GroupLimits::REPLIES_DEFAULT));
/// let back = few.changed(LimitChange::Sessions(GroupLimits::SESSIONS_DEFAULT));
/// assert_eq!(back, Ok(GroupLimits::default()));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupLimits {
    /// Invariant: from 1 to [`GroupLimits::SESSIONS_MAX`], and not the default.
    sessions: Option<u64>,
    /// Invariant: from 1 to [`GroupLimits::REPLIES_MAX`], and not the default.
    replies: Option<u64>,
}

/// One limit that an operator asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitChange {
    /// How many sessions may be open at a time.
    Sessions(u64),
    /// Bytes of large replies that all sessions keep together.
    Replies(u64),
}

/// Why a limit cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitError {
    /// The sessions are not between 1 and [`GroupLimits::SESSIONS_MAX`].
    Sessions(u64),
    /// The replies are not between [`GroupLimits::REPLIES_MIN`] and [`GroupLimits::REPLIES_MAX`].
    Replies(u64),
}

impl GroupLimits {
    /// Sessions that may be open at a time where no view says otherwise.
    pub const SESSIONS_DEFAULT: u64 = 1_000_000;

    /// No more than by default: a group that is recovered begins with the defaults, and repeats calls of the one before, none of whose
    /// sessions it may turn away.
    pub const SESSIONS_MAX: u64 = GroupLimits::SESSIONS_DEFAULT;

    /// Bytes of large replies that all sessions keep where no view says otherwise.
    pub const REPLIES_DEFAULT: u64 = 256 << 20;

    /// As many as one session keeps, and so two of the largest: the newest reply stays.
    pub const REPLIES_MIN: u64 = 16 << 20;

    /// Half of what the front of a snapshot may have in a backup: sessions and small replies need the other half. Every replica holds
    /// them in memory.
    pub const REPLIES_MAX: u64 = 512 << 20;

    /// The limits that a view names; `None` where one is the default or cannot be, for a view has one form.
    #[must_use]
    pub fn named(sessions: Option<u64>, replies: Option<u64>) -> Option<GroupLimits> {
        let named = GroupLimits { sessions, replies };
        let asked = [
            sessions.map(LimitChange::Sessions),
            replies.map(LimitChange::Replies),
        ];
        let mut made = GroupLimits::default();
        for change in asked.into_iter().flatten() {
            made = made.changed(change).ok()?;
        }
        (made == named).then_some(named)
    }

    /// How many sessions may be open at a time, if that is named.
    #[must_use]
    pub fn named_sessions(self) -> Option<u64> {
        self.sessions
    }

    /// Bytes of large replies that all sessions keep together, if that is named.
    #[must_use]
    pub fn named_replies(self) -> Option<u64> {
        self.replies
    }

    /// How many sessions may be open at a time.
    #[must_use]
    pub fn sessions(self) -> u64 {
        self.sessions.unwrap_or(GroupLimits::SESSIONS_DEFAULT)
    }

    /// Bytes of large replies that all sessions keep together.
    #[must_use]
    pub fn replies(self) -> u64 {
        self.replies.unwrap_or(GroupLimits::REPLIES_DEFAULT)
    }

    /// Whether these are the defaults, which builds below [`Level::LIMITS`] have.
    #[must_use]
    pub fn are_default(self) -> bool {
        self == GroupLimits::default()
    }

    /// What every member must speak that is to follow these.
    #[must_use]
    pub fn level(self) -> Level {
        match self.are_default() {
            true => Level::UNNAMED,
            false => Level::LIMITS,
        }
    }

    /// These, with one of them changed. Whether one session's replies have room is for whoever knows how many those are.
    ///
    /// # Errors
    /// Says between which numbers the limit can be.
    pub fn changed(self, change: LimitChange) -> Result<GroupLimits, LimitError> {
        match change {
            LimitChange::Sessions(count) if !(1..=GroupLimits::SESSIONS_MAX).contains(&count) => {
                Err(LimitError::Sessions(count))
            }
            LimitChange::Replies(bytes) if !(1..=GroupLimits::REPLIES_MAX).contains(&bytes) => {
                Err(LimitError::Replies(bytes))
            }
            LimitChange::Sessions(count) => Ok(GroupLimits {
                sessions: (count != GroupLimits::SESSIONS_DEFAULT).then_some(count),
                ..self
            }),
            LimitChange::Replies(bytes) => Ok(GroupLimits {
                replies: (bytes != GroupLimits::REPLIES_DEFAULT).then_some(bytes),
                ..self
            }),
        }
    }
}

impl LimitChange {
    /// Refuses what no group can have whose sessions keep as many replies as by default.
    ///
    /// # Errors
    /// Says between which numbers the limit can be.
    pub fn checked(self) -> Result<LimitChange, LimitError> {
        match self {
            LimitChange::Replies(bytes) if bytes < GroupLimits::REPLIES_MIN => {
                Err(LimitError::Replies(bytes))
            }
            LimitChange::Replies(_) | LimitChange::Sessions(_) => {
                GroupLimits::default().changed(self).map(|_| self)
            }
        }
    }
}

impl fmt::Display for LimitChange {
    /// As it is written on the command line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitChange::Sessions(count) => write!(f, "sessions={count}"),
            LimitChange::Replies(bytes) => write!(f, "replies={bytes}"),
        }
    }
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitError::Sessions(count) => write!(
                f,
                "a group takes 1 to {} sessions, not {count}",
                GroupLimits::SESSIONS_MAX
            ),
            LimitError::Replies(bytes) => write!(
                f,
                "the replies of a group take {} to {} bytes, not {bytes}",
                GroupLimits::REPLIES_MIN,
                GroupLimits::REPLIES_MAX
            ),
        }
    }
}

impl std::error::Error for LimitError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_has_no_name_and_nothing_beyond_the_bounds_is_a_limit() {
        let limits = GroupLimits::default();
        assert!(limits.are_default() && limits.level() == Level::UNNAMED);
        let few = limits.changed(LimitChange::Sessions(1)).unwrap();
        assert_eq!((few.sessions(), few.level()), (1, Level::LIMITS));
        let both = few.changed(LimitChange::Replies(16 << 20)).unwrap();
        assert_eq!(GroupLimits::named(Some(1), Some(16 << 20)), Some(both));
        let back = both.changed(LimitChange::Sessions(GroupLimits::SESSIONS_DEFAULT));
        assert_eq!(back.unwrap().named_sessions(), None);
        for sessions in [0, GroupLimits::SESSIONS_MAX + 1, u64::MAX] {
            let refused = limits.changed(LimitChange::Sessions(sessions));
            assert_eq!(refused, Err(LimitError::Sessions(sessions)));
        }
        for replies in [0, GroupLimits::REPLIES_MAX + 1] {
            let refused = limits.changed(LimitChange::Replies(replies));
            assert_eq!(refused, Err(LimitError::Replies(replies)));
        }
        let named = GroupLimits::named(None, Some(GroupLimits::REPLIES_DEFAULT));
        assert_eq!(named, None, "a view has one form");
        let small = LimitChange::Replies(GroupLimits::REPLIES_MIN - 1);
        assert!(small.checked().is_err() && limits.changed(small).is_ok());
    }
}
