//! The objects of one simulated node: the same Rust objects that real nodes serve, executed when the world says so.
//!
//! Work is done in the order in which it is handed in, one piece at a step. Encoding happens at the step, so that a run
//! is the same each time; the real host encodes on a thread.

use super::workload::payload;
use crate::checkers::recorded::Call as Recorded;
use bytes::Bytes;
use quorate_host::{CallView, Environment, Object, create};
use quorate_ordering::ReadId;
use quorate_replica::SnapshotCore;
use quorate_types::{Call, CommandId, ObjectId, ObjectSpec, Outcome, SessionId, Slot, Stamp};
use std::collections::{BTreeMap, VecDeque};

/// A piece of work for the objects.
#[derive(Debug)]
pub(super) enum Work {
    /// Execute calls.
    Execute {
        /// Their slot.
        slot: Slot,
        /// The agreed environment.
        stamp: Stamp,
        /// The calls.
        calls: Vec<Call>,
    },
    /// Answer a read.
    Query {
        /// Its name.
        read: ReadId,
        /// The object read.
        object: ObjectId,
        /// Method and arguments.
        payload: Bytes,
    },
    /// Encode the state.
    Freeze {
        /// The slot after which it is the state.
        slot: Slot,
    },
    /// Take over a fetched state.
    Restore {
        /// The replica's part of the snapshot.
        core: Box<SnapshotCore>,
        /// Images by object.
        images: Vec<Bytes>,
        /// Bytes of the whole snapshot.
        bytes: u64,
    },
}

/// What came of it.
#[derive(Debug)]
pub(super) enum Done {
    /// Calls were executed.
    Executed {
        /// Their slot.
        slot: Slot,
        /// The agreed environment.
        stamp: Stamp,
        /// The calls.
        calls: Vec<Call>,
        /// One outcome each.
        outcomes: Vec<Outcome>,
    },
    /// A read was answered.
    Queried {
        /// Its name.
        read: ReadId,
        /// The answer.
        outcome: Outcome,
    },
    /// The state is encoded.
    Frozen {
        /// Its slot.
        slot: Slot,
        /// Images by object.
        images: Vec<Bytes>,
    },
    /// The state was taken over.
    Restored {
        /// The replica's part.
        core: Box<SnapshotCore>,
        /// Digest by value.
        digest: [u8; 32],
        /// Bytes of the whole snapshot.
        bytes: u64,
    },
    /// The images could not be read.
    RestoreFailed {
        /// The snapshot's slot.
        slot: Slot,
    },
}

/// The objects of one node, and the work that waits for them.
pub(super) struct Objects {
    specs: Vec<ObjectSpec>,
    objects: BTreeMap<ObjectId, Box<dyn Object>>,
    queue: VecDeque<Work>,
}

impl Objects {
    /// New objects in their first state.
    pub(super) fn new(specs: &[ObjectSpec]) -> Objects {
        Objects {
            specs: specs.to_vec(),
            objects: fresh(specs),
            queue: VecDeque::new(),
        }
    }

    /// Changes the map by itself, at a key that nobody calls.
    pub(super) fn alter(&mut self) {
        let map = ObjectId(3);
        let call = Call {
            id: CommandId {
                session: SessionId(0),
                sequence: 0,
            },
            object: map,
            index: 0,
            payload: payload(&Recorded::Put("nobody's".to_owned(), 1.into())),
        };
        self.apply(Stamp::default(), &call);
    }

    /// Adds work.
    pub(super) fn push(&mut self, work: Work) {
        self.queue.push_back(work);
    }

    /// Whether nothing waits.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Does the oldest piece of work.
    pub(super) fn step(&mut self) -> Option<Done> {
        Some(match self.queue.pop_front()? {
            Work::Execute { slot, stamp, calls } => {
                let outcomes = calls.iter().map(|call| self.apply(stamp, call)).collect();
                Done::Executed {
                    slot,
                    stamp,
                    calls,
                    outcomes,
                }
            }
            Work::Query {
                read,
                object,
                payload,
            } => {
                let view = CallView::parse(&payload).expect("the workload makes calls");
                let outcome = self.objects[&object].read(view);
                Done::Queried { read, outcome }
            }
            Work::Freeze { slot } => Done::Frozen {
                slot,
                images: self.images(),
            },
            Work::Restore {
                core,
                images,
                bytes,
            } => match self.restore(&images) {
                Some(digest) => Done::Restored {
                    core,
                    digest,
                    bytes,
                },
                None => Done::RestoreFailed { slot: core.slot },
            },
        })
    }

    fn apply(&mut self, stamp: Stamp, call: &Call) -> Outcome {
        let view = CallView::parse(&call.payload).expect("the workload makes calls");
        let env = Environment {
            stamp,
            index: call.index,
        };
        let object = self.objects.get_mut(&call.object);
        object.expect("the view lists the object").apply(view, &env)
    }

    /// The encoded state of each object.
    pub(super) fn images(&self) -> Vec<Bytes> {
        self.objects
            .values()
            .map(|object| object.snapshot()())
            .collect()
    }

    /// Takes over `images`; says their digest, or `None` when they cannot be read.
    pub(super) fn restore(&mut self, images: &[Bytes]) -> Option<[u8; 32]> {
        let mut objects = fresh(&self.specs);
        if objects.len() != images.len() {
            return None;
        }
        for (object, image) in objects.values_mut().zip(images) {
            object.restore(image).ok()?;
        }
        self.objects = objects;
        Some(digest(images))
    }
}

fn fresh(specs: &[ObjectSpec]) -> BTreeMap<ObjectId, Box<dyn Object>> {
    let made = specs.iter().enumerate().map(|(number, spec)| {
        let class = spec.class.strip_prefix("rust:").expect("a built-in object");
        let object = create(class, &spec.arguments).expect("the setup names built-ins");
        (ObjectId(number as u32), object)
    });
    made.collect()
}

/// The digest by value of all images.
pub(super) fn digest(images: &[Bytes]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for image in images {
        hasher.update(&(image.len() as u64).to_be_bytes());
        hasher.update(image);
    }
    *hasher.finalize().as_bytes()
}
