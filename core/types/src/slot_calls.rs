//! The calls of one slot, on their way to the objects.

use crate::{Batch, Body, CommandId, ObjectId, Value};

/// One call, as the objects get it.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    /// Its place in the batch of its slot.
    pub index: u32,
    /// The id of the call.
    pub id: CommandId,
    /// The object called.
    pub object: ObjectId,
    /// Method and arguments.
    pub payload: Value,
}

/// The same, borrowed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CallRef<'a> {
    /// Its place in the batch of its slot.
    pub index: u32,
    /// The id of the call.
    pub id: CommandId,
    /// The object called.
    pub object: ObjectId,
    /// Method and arguments.
    pub payload: &'a Value,
}

/// Calls that execute, in execution order. Those of a decided slot share its batch: none is copied.
#[derive(Clone, PartialEq, Debug)]
pub struct SlotCalls(Source);

#[derive(Clone, PartialEq, Debug)]
enum Source {
    /// Invariant: each index names a call of the batch.
    Batch { batch: Batch, indices: Vec<u32> },
    /// Calls that were never ordered.
    List(Vec<Call>),
}

impl SlotCalls {
    /// The calls of `batch` with these indices.
    #[must_use]
    pub fn of_batch(batch: Batch, indices: Vec<u32>) -> SlotCalls {
        SlotCalls(Source::Batch { batch, indices })
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Source::Batch { indices, .. } => indices.len(),
            Source::List(calls) => calls.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The call at a place of this list.
    #[inline]
    #[must_use]
    pub fn at(&self, place: usize) -> CallRef<'_> {
        match &self.0 {
            Source::Batch { batch, indices } => {
                let index = indices[place];
                let command = &batch.commands()[index as usize];
                let Body::Call { object, payload } = &command.body else {
                    unreachable!("only calls are listed");
                };
                CallRef {
                    index,
                    id: command.id,
                    object: *object,
                    payload,
                }
            }
            Source::List(calls) => {
                let call = &calls[place];
                CallRef {
                    index: call.index,
                    id: call.id,
                    object: call.object,
                    payload: &call.payload,
                }
            }
        }
    }

    /// All calls.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = CallRef<'_>> + Clone {
        (0..self.len()).map(|place| self.at(place))
    }

    /// All calls, each for itself.
    #[must_use]
    pub fn to_vec(&self) -> Vec<Call> {
        let calls = self.iter().map(|call| Call {
            index: call.index,
            id: call.id,
            object: call.object,
            payload: call.payload.clone(),
        });
        calls.collect()
    }
}

impl From<Vec<Call>> for SlotCalls {
    fn from(calls: Vec<Call>) -> SlotCalls {
        SlotCalls(Source::List(calls))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Command, SessionId, Stamp};

    #[test]
    fn the_calls_of_a_batch_are_those_with_the_indices() {
        let id = |sequence| CommandId {
            session: SessionId(1),
            sequence,
        };
        let command = |sequence, body| Command {
            id: id(sequence),
            acknowledged: 0,
            body,
        };
        let payload = Value::from_static(b"add");
        let object = ObjectId(3);
        let body = Body::Call {
            object,
            payload: payload.clone(),
        };
        let commands = vec![
            command(1, body.clone()),
            command(2, Body::Close),
            command(3, body),
        ];
        let batch = Batch::new(Stamp::default(), commands);
        let calls = SlotCalls::of_batch(batch, vec![2]);
        let expected = Call {
            index: 2,
            id: id(3),
            object,
            payload,
        };
        assert_eq!(calls.to_vec(), [expected]);
        assert_eq!(SlotCalls::from(calls.to_vec()).at(0), calls.at(0));
        assert!(SlotCalls::from(Vec::new()).is_empty());
    }
}
