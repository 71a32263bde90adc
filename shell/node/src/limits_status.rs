//! The limits of a view, as status documents tell them.

use quorate_types::GroupLimits;
use serde::{Deserialize, Serialize};

/// How much a group keeps; those of a node that says nothing of them are the defaults.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LimitsStatus {
    /// Sessions that may be open at a time.
    pub sessions: u64,
    /// Bytes of large replies that all sessions keep together.
    pub replies: u64,
}

impl LimitsStatus {
    /// Of a view.
    #[must_use]
    pub fn of(limits: GroupLimits) -> LimitsStatus {
        LimitsStatus {
            sessions: limits.sessions(),
            replies: limits.replies(),
        }
    }

    /// Whether these are the defaults.
    #[must_use]
    pub fn are_default(&self) -> bool {
        *self == LimitsStatus::default()
    }
}

impl Default for LimitsStatus {
    fn default() -> LimitsStatus {
        LimitsStatus::of(GroupLimits::default())
    }
}
