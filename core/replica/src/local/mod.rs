//! The state of this node alone: connected clients, waits, reads, judging of expiry, closed connections, fetches, room on disk.
//!
//! All of it is lost with the process, and snapshots contain none of it. Replicas may differ here in
//! everything. The state that they agree on is in `replicated`.

pub(crate) mod agreement;
pub(crate) mod clients;
pub(crate) mod clocks;
pub(crate) mod collecting;
pub(crate) mod connections;
pub(crate) mod currency;
pub(crate) mod dating;
pub(crate) mod disconnects;
pub(crate) mod drift;
pub(crate) mod early;
pub(crate) mod expiry;
pub(crate) mod fetch;
pub(crate) mod groups;
pub(crate) mod instances;
pub(crate) mod internal;
pub(crate) mod levels;
pub(crate) mod line;
pub(crate) mod no_say;
pub(crate) mod noting;
pub(crate) mod opens;
pub(crate) mod poison;
pub(crate) mod quarantine;
pub(crate) mod reads;
pub(crate) mod rejoining;
pub(crate) mod reset;
pub(crate) mod served;
pub(crate) mod serving;
pub(crate) mod signs;
mod skip;
pub(crate) mod storage;
pub(crate) mod ticks;
pub(crate) mod verdict;
pub(crate) mod view_change;
pub(crate) mod waiting;
pub(crate) mod witnessing;
