#![forbid(unsafe_code)]
//! The seam between a replica and the protocol that orders its commands.
