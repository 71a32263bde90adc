#![forbid(unsafe_code)]
//! The replica: sessions, execution order, reads, snapshots; pure.
