//! The bounds of what an acceptor holds, each with its reason.

/// How far above the decided prefix a node holds votes or values. Further proposals are ignored
/// until it has caught up: an acceptor that fell this far behind helps nobody by voting.
pub(crate) const OPEN_SLOTS: u64 = 1 << 14;
