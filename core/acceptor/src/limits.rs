//! The bounds of what an acceptor holds, each with its reason.

use quorate_types::Duration;

/// How far above the decided prefix a node holds votes or values. Further proposals are ignored
/// until it has caught up: an acceptor that fell this far behind helps nobody by voting.
pub(crate) const OPEN_SLOTS: u64 = 1 << 14;

/// A question for decided slots stays the only one to its peer for so many times the time after which another peer is
/// asked: links lose nothing while they are up, so the answer is on its way.
pub(crate) const OPEN_FOR: u64 = 8;

/// Another peer is asked when an answer takes this many times as long as the last one took.
pub(crate) const SLOWER: u64 = 4;

/// The longest wait for an answer of one peer, and for an answer at all. A slow link brings a chunk in less.
pub(crate) const ANSWER_MAX: Duration = Duration::from_millis(60_000);

/// Heartbeats whose sending time a leader remembers, to measure leases; answers to older ones are ignored.
pub(crate) const BEATS: usize = 64;

/// Answers to heartbeats whose time a follower remembers: six seconds of them. What a leader says comes back sooner,
/// or says nothing about the age of what it says.
pub(crate) const ANSWERS: usize = 256;

/// The same slots are told again on one link only after so many times the time after which a learner asks again: less than it waits.
pub(crate) const TAUGHT_AGAIN: u64 = 4;
