//! The objects that every node can serve without a host process: `rust:counter`, `rust:register`
//! and `rust:kv`. They serve as examples of [`crate::Object`], as load for measurements and as
//! subjects of the simulator.

mod counter;
mod kv;
mod register;

pub use counter::Counter;
pub use kv::Kv;
pub use register::Register;
