//! What every replica agrees on: state that decided commands change, in slot order, and nothing else.
//!
//! It stands in every snapshot. Nothing in this folder knows a clock, a connection or a peer; what one
//! node alone knows stands in `local`, and what its objects do in `objects`.

pub(crate) mod sessions;
pub(crate) mod snapshot;
pub(crate) mod window;
