//! What a rehearsal asks of the owner's objects: one object for each node.

use quorate_types::{NodeId, Outcome, Slot, Stamp, Value};

/// A call that a node executes.
#[derive(Clone, Copy, Debug)]
pub struct ExecutedCall<'a> {
    /// The client that made it, if this rehearsal knows it.
    pub caller: Option<usize>,
    /// Its number among the client's calls.
    pub sequence: u64,
    /// Its slot.
    pub slot: Slot,
    /// Its index in the batch of the slot.
    pub index: u32,
    /// The agreed environment.
    pub stamp: Stamp,
    /// Method and arguments.
    pub payload: &'a Value,
}

/// The objects of a group, which the owner keeps. Every method is called in the order in which a host would do it.
pub trait RehearsedObjects {
    /// A node starts: its object is made anew, or from an image. The object of its earlier life is gone.
    ///
    /// # Errors
    /// Why it cannot be made.
    fn start(&mut self, node: NodeId, image: Option<&Value>) -> Result<(), String>;

    /// A running node takes over the state of a fetched image.
    ///
    /// # Errors
    /// Why it cannot; the object is as it was.
    fn restore(&mut self, node: NodeId, image: &Value) -> Result<(), String>;

    /// Executes a call on the node's object.
    fn execute(&mut self, node: NodeId, call: &ExecutedCall<'_>) -> Outcome;

    /// Executes a read on the node's object, at the time of the newest batch.
    fn query(&mut self, node: NodeId, stamp: Stamp, payload: &Value) -> Outcome;

    /// The image of the node's object.
    ///
    /// # Errors
    /// Why it cannot be encoded.
    fn image(&mut self, node: NodeId) -> Result<Value, String>;
}
