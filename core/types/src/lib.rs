#![forbid(unsafe_code)]
//! The words of Quorate as types: nodes, ballots, slots, commands, views.
