//! The trait of an object written in Rust.
//!
//! An object is a deterministic state machine: what it answers follows from its state, the call and
//! the agreed [`Environment`], never from a clock, a random source or an unordered collection.
//! Called by the in-process half of [`crate::Host`]; it knows nothing of slots, sessions or replies.

use crate::arguments::CallView;
use crate::image::Image;
use crate::method::Methods;
use crate::turn::{Ending, Turn};
use quorate_types::{Outcome, SessionId, Stamp, Wall};

/// What every replica agrees on about the moment of one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Environment {
    /// Time and entropy of the batch, drawn by the leader.
    pub stamp: Stamp,
    /// The call's place in its batch: mix it into the entropy so that two calls of a batch differ.
    pub index: u32,
}

/// A session that holds something of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holder {
    /// Whose it is.
    pub session: SessionId,
    /// Since when, in agreed time.
    pub since: Wall,
    /// The newest fencing token.
    pub token: u64,
}

/// A frozen state: encodes itself later, on another thread, while calls go on.
pub type FrozenState = Box<dyn FnOnce() -> Image + Send>;

/// A replicated value written in Rust.
///
/// ```
/// use quorate_host::{Arguments, CallView, Environment, FrozenState, Object, RestoreError};
/// use quorate_types::Outcome;
///
/// #[derive(Default)]
/// struct Greeter { greeted: i64 }
///
/// impl Object for Greeter {
///     fn apply(&mut self, call: CallView<'_>, _env: &Environment) -> Outcome {
///         match call.method {
///             "greet" => {
///                 self.greeted += 1;
///                 quorate_host::returned_int(self.greeted)
///             }
///             _ => self.read(call),
///         }
///     }
///     fn read(&self, call: CallView<'_>) -> Outcome {
///         match call.method {
///             "count" => quorate_host::returned_int(self.greeted),
///             unknown => quorate_host::unknown_method("Greeter", unknown),
///         }
///     }
///     fn snapshot(&self) -> FrozenState {
///         let greeted = self.greeted;
///         Box::new(move || greeted.to_be_bytes().to_vec().into())
///     }
///     fn restore(&mut self, image: &[u8]) -> Result<(), RestoreError> {
///         let bytes = image.try_into().map_err(|_| RestoreError::new("8 bytes expected"))?;
///         self.greeted = i64::from_be_bytes(bytes);
///         Ok(())
///     }
/// }
///
/// let mut greeter = Greeter::default();
/// let payload = quorate_host::call_payload("greet", &[]);
/// let call = CallView::parse(&payload).unwrap();
/// assert_eq!(greeter.apply(call, &Environment::default()), quorate_host::returned_int(1));
///
/// let mut copy = Greeter::default();
/// copy.restore(&greeter.snapshot()().whole()).unwrap();
/// assert_eq!(copy.greeted, 1);
/// ```
pub trait Object: Send {
    /// Executes a call that may change the state. Equal states and equal inputs give equal outcomes.
    fn apply(&mut self, call: CallView<'_>, env: &Environment) -> Outcome;

    /// Like [`Object::apply`], for objects that let callers wait or answer those who do.
    fn run(&mut self, call: CallView<'_>, env: &Environment, turn: &mut Turn<'_>) -> Ending {
        let _ = turn;
        Ending::Now(self.apply(call, env))
    }

    /// A session is over that the object knows by [`Turn::caller`], and its parked calls are gone: what it owns is free.
    fn session_ended(&mut self, session: SessionId, env: &Environment, turn: &mut Turn<'_>) {
        let _ = (session, env, turn);
    }

    /// A timer of [`Turn::set_timer`] is due.
    fn timer(&mut self, payload: &[u8], env: &Environment, turn: &mut Turn<'_>) {
        let _ = (payload, env, turn);
    }

    /// Answers a call that changes nothing; a method that would change something is refused here.
    fn read(&self, call: CallView<'_>) -> Outcome;

    /// The methods in the order of their names: clients read those that change nothing, and people see the public ones.
    fn methods(&self) -> Methods {
        Methods::UNTOLD
    }

    /// Who holds what of the object, for people.
    fn holders(&self) -> Vec<Holder> {
        Vec::new()
    }

    /// Freezes the state. Must cost the same however large the state is: share it, and encode it in
    /// the returned closure. Pieces of the image may share the state's memory. Equal states give equal bytes: they are compared between replicas.
    fn snapshot(&self) -> FrozenState;

    /// Takes over the state that [`Object::snapshot`] encoded, in place of what was there.
    ///
    /// # Errors
    /// When `image` is not such an encoding. The object is then thrown away.
    fn restore(&mut self, image: &[u8]) -> Result<(), RestoreError>;
}

/// An image could not be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the image cannot be restored: {reason}")]
pub struct RestoreError {
    reason: String,
}

impl RestoreError {
    /// Says what is wrong with the image.
    #[must_use]
    pub fn new(reason: impl Into<String>) -> RestoreError {
        RestoreError {
            reason: reason.into(),
        }
    }
}
