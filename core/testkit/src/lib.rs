//! Shared by the tests of all ordering protocols: builders of views and commands, the stage on which
//! [scripts](../README.md) run, and random worlds.
//!
//! A protocol's tests implement [`WorldProtocol`] and [`ScriptedProtocol`], which says how an instance is made and how its messages
//! are written. Everything else in a script is the same for all protocols. Only tests depend on this crate.
#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    reason = "scripts are read from files, and an environment variable asks to write them"
)]

mod adventure;
mod protocol;
pub mod render;
mod script;
mod stage;
mod turn;
mod views;
mod words;
mod world;
mod world_disk;

pub use adventure::adventure;
pub use protocol::{Memory, ScriptedProtocol, Start};
pub use script::run_folder;
pub use stage::Stage;
pub use turn::{received, turn};
pub use views::{VIEW, call, view};
pub use world::{Inhabitant, World, WorldProtocol};
