//! In which rounds a leader decided slots, as the status of a node and its metrics show it.

use quorate_ordering::RoundsStatus;
use serde::{Deserialize, Serialize};

/// Slots decided while this node led. Numbers count from the start of the process, or from when it began in the view.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RoundsReport {
    /// In their fast round.
    pub fast: u64,
    /// In a classic round, those that had collided among them.
    pub classic: u64,
    /// Slots whose fast round could decide nothing, because votes differed.
    pub collisions: u64,
}

impl From<RoundsStatus> for RoundsReport {
    fn from(rounds: RoundsStatus) -> RoundsReport {
        RoundsReport {
            fast: rounds.fast,
            classic: rounds.classic,
            collisions: rounds.collisions,
        }
    }
}
