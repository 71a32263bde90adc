#![forbid(unsafe_code)]
//! Multi-Paxos: orders commands with one stable leader.
