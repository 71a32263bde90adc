//! The seeded world: simulated network, disks and clocks, and the checkers.

pub mod checkers;
pub mod history;
pub mod world;
