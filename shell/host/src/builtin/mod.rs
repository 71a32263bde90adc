//! The objects that every node can serve without a host process: `rust:counter`, `rust:register`,
//! `rust:kv`, `rust:map`, `rust:queue` and `rust:lock`. They serve as examples of [`crate::Object`], as load for measurements and as
//! subjects of the simulator.

use crate::arguments::Arguments;
use crate::object::Object;

mod counter;
mod equality;
mod items;
mod kv;
mod lock;
mod map;
mod patience;
mod queue;
mod register;
mod repr;
mod stored;

pub use counter::Counter;
pub use kv::Kv;
pub use lock::WaitingLock;
pub use map::Map;
pub use queue::WaitingQueue;
pub use register::Register;

/// Why an object could not be made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CreateError {
    /// There is no such built-in object.
    #[error(
        "no built-in object `{0}`: use rust:counter, rust:register, rust:kv, rust:map, rust:queue or rust:lock"
    )]
    Unknown(String),
    /// The constructor's arguments do not fit.
    #[error("rust:{class} cannot be made with these arguments: {reason}")]
    Arguments {
        /// Which built-in.
        class: String,
        /// What does not fit.
        reason: String,
    },
}

/// Makes the built-in object `rust:<class>`; `arguments` is `[args, kwargs]` as the wire encodes it.
///
/// # Errors
/// When there is no such built-in or the arguments do not fit it.
pub fn create(class: &str, arguments: &[u8]) -> Result<Box<dyn Object>, CreateError> {
    let refused = |reason: String| CreateError::Arguments {
        class: class.to_owned(),
        reason,
    };
    let mut arguments = Arguments::parse(arguments).map_err(|e| refused(e.to_string()))?;
    let made: Result<Box<dyn Object>, _> = match class {
        "counter" => Counter::create(&mut arguments).map(|o| Box::new(o) as Box<dyn Object>),
        "register" => Register::create(&mut arguments).map(|o| Box::new(o) as Box<dyn Object>),
        "kv" => arguments
            .finish()
            .map(|()| Box::new(Kv::default()) as Box<dyn Object>),
        "map" => Map::create(&mut arguments).map(|o| Box::new(o) as Box<dyn Object>),
        "lock" => arguments
            .finish()
            .map(|()| Box::new(WaitingLock::default()) as Box<dyn Object>),
        "queue" => arguments
            .finish()
            .map(|()| Box::new(WaitingQueue::default()) as Box<dyn Object>),
        unknown => return Err(CreateError::Unknown(format!("rust:{unknown}"))),
    };
    made.map_err(|mistake| refused(mistake.message))
}
