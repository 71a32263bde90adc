#![forbid(unsafe_code)]
//! Rules about the repository itself, held by tests instead of by memory.
//!
//! Each module holds one rule: `problems` takes the files and answers with one line per breach, empty when all is well.
//! It refuses to change anything. Called from `tests/repository.rs`, which `make check` runs; beside each rule a breach is
//! planted, so that no rule can become one that cannot fail.

pub mod arrows;
pub mod claims;
pub mod dependencies;
pub mod functions;
pub mod glossary;
pub mod links;
pub mod machines;
pub mod names;
pub mod openings;
pub mod repository;
pub mod sizes;
mod source;
mod sources;
mod table;
pub mod traps;
pub mod types;
pub mod unsafety;
pub mod way;
pub mod words;
