//! What this node alone knows: clients and who waits, reads, expiry's judge, fetches, room on disk.
//!
//! All of it is lost with the process and none of it stands in a snapshot: two replicas may differ here
//! in everything. What they agree on stands in `replicated`.

pub(crate) mod agreement;
pub(crate) mod clients;
pub(crate) mod clocks;
pub(crate) mod connections;
pub(crate) mod expiry;
pub(crate) mod fetch;
pub(crate) mod internal;
pub(crate) mod poison;
pub(crate) mod quarantine;
pub(crate) mod reads;
pub(crate) mod storage;
pub(crate) mod waiting;
