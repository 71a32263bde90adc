//! `--speaks`: a node behaves as a version that speaks less than this one.

use quorate_types::{Level, Levels};
use quorate_wire::SPEAKS;

/// The levels up to one that this program speaks.
pub(crate) fn upto(word: &str) -> Result<Levels, String> {
    let level = word.parse().ok().map(Level);
    let spoken = level.filter(|level| SPEAKS.has(*level));
    let levels = spoken.and_then(|level| SPEAKS.upto(level));
    levels.ok_or_else(|| format!("this version speaks {SPEAKS}: name one of them"))
}
