//! Where objects execute: Rust objects in process, Python in its own process.
