//! What the tests of every ordering protocol share: builders of views and commands, and the stage on
//! which [scripts](../README.md) play.
//!
//! A protocol's tests implement [`ScriptedProtocol`], which adds how an instance is made and how its messages
//! read; everything else of a script is the same for all. Only tests depend on this crate.
#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    reason = "scripts are read from files, and an environment variable asks to write them"
)]

mod protocol;
pub mod render;
mod script;
mod stage;
mod views;
mod words;

pub use protocol::{Memory, ScriptedProtocol, Start};
pub use script::run_folder;
pub use stage::Stage;
pub use views::{VIEW, call, view};
