//! The seeded world: simulated network, disks and clocks, and the checkers.
