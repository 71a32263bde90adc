//! The write-ahead log, snapshots and identity of a node on disk.
