//! Bounds and times of a client session.

use crate::Preference;
use quorate_types::{Duration, SessionTerms};

/// How often the pause before a dial doubles, once for each round in which every node was dead, silent or refused to serve: eighty
/// milliseconds stay well below what a person notices, and cost a node twelve connections a second.
pub(crate) const DIAL_DOUBLINGS: u32 = 3;

/// Calls of one session that wait in the group, from which on no other call begins. A group lets ten thousand of all sessions wait,
/// and refuses the next itself; this bounds a client whose host lets more wait. Those and the window fit into a session's image.
pub const PARKED_MAX: usize = 16_384;

/// Calls that ended by their deadline of which a client remembers that they may wait in the group: as many as may be in flight, so that
/// none is forgotten where all end at once.
pub(crate) const OVERDUE_MAX: usize = 2048;

/// Keepalives of one connection whose answers are told apart: one goes out in a third of the expiry time, and a connection that owes
/// an answer for a sixth of it is left.
pub(crate) const KEEPALIVES_MAX: usize = 16;

/// A client counts its session as lost one part of so many of the expiry time before the group may end it: its clock may be slower than
/// the group's, and what it does last takes time to get where it acts.
pub(crate) const LOSS_MARGIN_PARTS: u64 = 10;

/// What a session may be told; the default suits a client in the same building as the group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionConfig {
    /// Operations in flight at once. Below the 4,096 sequences that a replica keeps per session, so
    /// that one lost reply cannot push its own retry out of the window.
    pub in_flight_max: usize,
    /// First silence of a connection with operations in flight after which another node is tried.
    pub silence: Duration,
    /// The longest such silence: it doubles each time nothing at all was heard.
    pub silence_max: Duration,
    /// Pause before a refused operation is sent again, and, doubled a few times, before each dial once no node answered.
    pub retry_pause: Duration,
    /// The longest pause before a place in a full table of sessions is asked for again, whatever a node says.
    pub place_pause_max: Duration,
    /// Which node to stay with.
    pub preference: Preference,
    /// What is asked of each session.
    pub terms: SessionTerms,
}

impl Default for SessionConfig {
    fn default() -> SessionConfig {
        SessionConfig {
            in_flight_max: 2048,
            silence: Duration::from_millis(250),
            silence_max: Duration::from_millis(4000),
            retry_pause: Duration::from_millis(10),
            place_pause_max: Duration::from_millis(5_000),
            preference: Preference::Leader,
            terms: SessionTerms::default(),
        }
    }
}
