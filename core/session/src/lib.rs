#![forbid(unsafe_code)]
//! The client's half of a session: sequences, retries, leader hints.
