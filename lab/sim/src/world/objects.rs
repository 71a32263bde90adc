//! The objects of one simulated node: the same Rust objects that real nodes serve, and the feed, executed when the world says so.
//!
//! Work is done in the order in which it is handed in, one piece at a step. Encoding happens at the step, so that a run
//! is the same each time; the real host encodes on a thread.

use super::feed::Feed;
use super::workload::payload;
use crate::checkers::recorded::Call as Recorded;
use bytes::Bytes;
use quorate_host::{CallView, LiveObject, LiveObjects, ObjectImage, create, images_list};
use quorate_ordering::ReadId;
use quorate_replica::SnapshotCore;
use quorate_types::{
    Call, CallPlace, CommandId, ObjectId, ObjectSpec, Outcome, SessionId, Slot, SlotResults, Stamp,
    Step, StepRef, StepResult, Wall,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The map, and a key of it that nobody calls.
const MAP: ObjectId = ObjectId(3);
const ODD_KEY: &str = "nobody's";

/// Ends of a host at one call, one after another, until no other is started.
const DEATHS_MAX: u32 = 3;

/// A piece of work for the objects.
#[derive(Debug)]
pub(super) enum Work {
    /// Execute steps.
    Execute {
        /// Their slot.
        slot: Slot,
        /// The agreed environment.
        stamp: Stamp,
        /// The steps.
        steps: Vec<Step>,
    },
    /// Tell that the objects went back.
    Undone {
        /// The last slot that is executed.
        after: Slot,
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
    /// Steps were executed.
    Executed {
        /// Their slot.
        slot: Slot,
        /// The agreed environment.
        stamp: Stamp,
        /// The steps.
        steps: Vec<Step>,
        /// What came of them.
        results: SlotResults,
    },
    /// The objects have gone back.
    Undone {
        /// The last slot that is executed.
        after: Slot,
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
    /// A call ended the host.
    Died {
        /// The call.
        id: CommandId,
        /// Its place in the log.
        place: CallPlace,
        /// Steps of its slot.
        steps: usize,
        /// Whether another host is started.
        next: NextHost,
    },
}

/// What follows the end of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextHost {
    /// Another one starts soon.
    Starts,
    /// Another one starts at once, with a fetched state behind the call.
    Restores,
    /// None starts until the call is skipped or a later state is fetched.
    Waits,
}

/// The process that executes the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Host {
    /// It works.
    Up,
    /// It ended, and another one starts soon.
    Starting,
    /// It ended at this call for good.
    Over(CallPlace),
}

/// The objects of one node, and the work that waits for them.
pub(super) struct Objects {
    specs: Vec<ObjectSpec>,
    objects: LiveObjects,
    /// What was told of when they have something to do.
    due: Option<Wall>,
    queue: VecDeque<Work>,
    host: Host,
    /// The call that ended the last host, and how many in a row.
    deaths: Option<(CallPlace, u32)>,
    /// Calls that are left out when their slot is executed.
    skips: BTreeSet<CallPlace>,
    /// What was executed since the state from which another host begins.
    past: Vec<(Slot, Vec<Step>)>,
    /// Another host has not yet executed that again: it may die at it.
    is_replaying: bool,
    /// Slots that are not decided.
    undecided: BTreeSet<Slot>,
    /// The states before those of them that were executed.
    before: BTreeMap<Slot, Vec<Bytes>>,
    /// What the map holds by a change of its own, which no call made and none takes back.
    altered: Option<i64>,
}

impl Objects {
    /// New objects in their first state.
    pub(super) fn new(specs: &[ObjectSpec]) -> Objects {
        Objects {
            specs: specs.to_vec(),
            objects: fresh(specs),
            due: None,
            queue: VecDeque::new(),
            host: Host::Up,
            deaths: None,
            skips: BTreeSet::new(),
            past: Vec::new(),
            is_replaying: false,
            undecided: BTreeSet::new(),
            before: BTreeMap::new(),
            altered: None,
        }
    }

    /// These steps are of a slot that is not decided.
    pub(super) fn speculate(&mut self, slot: Slot, stamp: Stamp, steps: Vec<Step>) {
        self.undecided.insert(slot);
        self.queue.push_back(Work::Execute { slot, stamp, steps });
    }

    /// The slot is decided as it was handed in.
    pub(super) fn confirm(&mut self, slot: Slot) {
        self.undecided.remove(&slot);
        self.before.remove(&slot);
    }

    /// Goes back to the state after `after`, and tells so when what waits before that is done.
    /// They go back to the state after `after`. Says whether another host is to start: the last one ended at a call behind that, which is
    /// not decided, for good.
    pub(super) fn undo(&mut self, after: Slot) -> bool {
        self.deaths.take_if(|(at, _)| at.slot > after);
        let is_over = matches!(self.host, Host::Over(at) if at.slot > after);
        if is_over {
            self.host = Host::Starting;
        }
        self.queue.retain(|work| match work {
            Work::Execute { slot, .. } => *slot <= after,
            Work::Undone { .. }
            | Work::Query { .. }
            | Work::Freeze { .. }
            | Work::Restore { .. } => true,
        });
        self.past.retain(|(slot, _)| *slot <= after);
        self.undecided.split_off(&after.next());
        if let Some((_, images)) = self.before.split_off(&after.next()).into_iter().next() {
            self.objects = made(&self.specs, &images).expect("its own images");
            if let Some(value) = self.altered {
                self.alter(value);
            }
        }
        self.queue.push_back(Work::Undone { after });
        is_over
    }

    /// What the map holds at the key that nobody calls.
    pub(super) fn oddity(&self) -> Outcome {
        let get = payload(&Recorded::Get(ODD_KEY.to_owned()));
        let view = CallView::parse(&get).expect("the workload makes calls");
        self.live(MAP).read(view)
    }

    /// Changes the map by itself, at a key that nobody calls.
    pub(super) fn alter(&mut self, value: i64) {
        self.altered = Some(value);
        let map = MAP;
        let call = Call {
            id: CommandId {
                session: SessionId(0),
                sequence: 0,
            },
            object: map,
            index: 0,
            payload: payload(&Recorded::Put(ODD_KEY.to_owned(), value.into())),
        };
        let step = StepRef::Call(call.borrowed());
        let mut unheard = SlotResults::default();
        self.objects
            .step(Slot::ZERO, Stamp::default(), step, &mut unheard);
    }

    fn live(&self, object: ObjectId) -> &LiveObject {
        self.objects.get(object).expect("the view lists the object")
    }

    /// Adds work. Says whether it brings a host back that was down for good.
    pub(super) fn push(&mut self, work: Work) -> bool {
        let is_restore = matches!(work, Work::Restore { .. });
        self.queue.push_back(work);
        is_restore && matches!(self.host, Host::Over(_)) && self.restores()
    }

    /// A fetched state that waits makes what waits before it needless, except reads. Says whether there is one.
    fn restores(&mut self) -> bool {
        let is_restore = |work: &Work| matches!(work, Work::Restore { .. });
        let Some(place) = self.queue.iter().rposition(is_restore) else {
            return false;
        };
        let mut later = self.queue.split_off(place);
        let restore = later.pop_front().expect("found a moment ago");
        self.queue
            .retain(|work| matches!(work, Work::Query { .. } | Work::Undone { .. }));
        self.queue.push_front(restore);
        self.queue.extend(later);
        self.host = Host::Starting;
        self.deaths = None;
        self.is_replaying = false;
        true
    }

    /// Leaves a call out if it is not executed yet. Says whether that brings a host back that was down for good.
    pub(super) fn skip(&mut self, place: CallPlace) -> bool {
        self.skips.insert(place);
        let is_over = self.host == Host::Over(place);
        if is_over {
            self.host = Host::Starting;
        }
        self.deaths.take_if(|(at, _)| *at == place);
        is_over
    }

    /// Another host starts, which does what waits.
    pub(super) fn starts(&mut self) {
        self.host = Host::Up;
    }

    /// Brings a host back that was down for good, with the call that ended it.
    pub(super) fn revive(&mut self, place: CallPlace) -> bool {
        let is_over = self.host == Host::Over(place);
        if is_over {
            self.host = Host::Up;
            self.deaths = None;
        }
        is_over
    }

    /// The call at which it is down for good.
    pub(super) fn down_at(&self) -> Option<CallPlace> {
        match self.host {
            Host::Over(place) => Some(place),
            Host::Up | Host::Starting => None,
        }
    }

    /// Whether it has nothing to do, or nobody to do it.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && !self.is_replaying || self.host != Host::Up
    }

    /// Whether another host executes a slot again.
    pub(super) fn has_executed(&self, slot: Slot) -> bool {
        self.past.iter().any(|(at, _)| *at == slot)
    }

    /// The first call that ends a host, of what is executed again and of the next piece of work.
    fn next_death(&self, is_lethal: impl Fn(CommandId) -> bool) -> Option<Done> {
        let again = self.past.iter().filter(|_| self.is_replaying);
        let mut again = again.map(|(slot, steps)| (*slot, steps));
        again
            .find_map(|(slot, steps)| self.death_in(slot, steps, &is_lethal))
            .or_else(|| match self.queue.front()? {
                Work::Execute { slot, steps, .. } => self.death_in(*slot, steps, &is_lethal),
                Work::Undone { .. } | Work::Query { .. } | Work::Freeze { .. } => None,
                Work::Restore { .. } => None,
            })
    }

    fn death_in(
        &self,
        slot: Slot,
        steps: &[Step],
        is_lethal: impl Fn(CommandId) -> bool,
    ) -> Option<Done> {
        let at = |index| CallPlace { slot, index };
        let mut calls_left = steps.iter().filter_map(Step::call);
        let lethal =
            calls_left.find(|call| is_lethal(call.id) && !self.skips.contains(&at(call.index)))?;
        Some(Done::Died {
            id: lethal.id,
            place: at(lethal.index),
            steps: steps.len(),
            next: NextHost::Starts,
        })
    }

    /// A host ends: what it did of the slot is gone with it.
    fn die(&mut self, place: CallPlace) -> NextHost {
        let count = match self.deaths {
            Some((at, count)) if at == place => count + 1,
            Some(_) | None => 1,
        };
        self.deaths = Some((place, count));
        self.host = Host::Starting;
        self.is_replaying = true;
        if count < DEATHS_MAX {
            NextHost::Starts
        } else if self.restores() {
            NextHost::Restores
        } else {
            self.host = Host::Over(place);
            NextHost::Waits
        }
    }

    /// Does the oldest piece of work, unless a call of it is lethal.
    pub(super) fn step(&mut self, is_lethal: impl Fn(CommandId) -> bool) -> Option<Done> {
        if self.host != Host::Up {
            return None;
        }
        if let Some(mut death) = self.next_death(is_lethal) {
            if let Done::Died { place, next, .. } = &mut death {
                *next = self.die(*place);
            }
            return Some(death);
        }
        self.is_replaying = false;
        Some(match self.queue.pop_front()? {
            Work::Execute { slot, stamp, steps } => {
                self.deaths = None;
                if self.undecided.contains(&slot) {
                    self.before.insert(slot, self.images());
                }
                let mut results = SlotResults::default();
                for step in &steps {
                    let index = step.index();
                    if self.skips.contains(&CallPlace { slot, index }) {
                        results.steps.push(StepResult::Answered(Outcome::Skipped));
                    } else {
                        self.objects
                            .step(slot, stamp, step.borrowed(), &mut results);
                    }
                }
                self.past.push((slot, steps.clone()));
                Done::Executed {
                    slot,
                    stamp,
                    steps,
                    results,
                }
            }
            Work::Undone { after } => Done::Undone { after },
            Work::Query {
                read,
                object,
                payload,
            } => {
                let view = CallView::parse(&payload).expect("the workload makes calls");
                let outcome = self.live(object).read(view);
                Done::Queried { read, outcome }
            }
            Work::Freeze { slot } => {
                self.past.clear();
                Done::Frozen {
                    slot,
                    images: self.images(),
                }
            }
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

    /// When the objects have something to do first.
    pub(super) fn next_due(&self) -> Option<Wall> {
        self.objects.next_due()
    }

    /// What is to be told of that: nothing where it is as it was.
    pub(super) fn due_news(&mut self) -> Option<Option<Wall>> {
        let due = self.next_due();
        let is_news = std::mem::replace(&mut self.due, due) != due;
        is_news.then_some(due)
    }

    /// The encoded state of each object.
    pub(super) fn images(&self) -> Vec<Bytes> {
        let objects = self.objects.iter();
        objects
            .map(|(_, object)| object.snapshot()().whole())
            .collect()
    }

    /// Takes over `images`; says their digest, or `None` when they cannot be read.
    pub(super) fn restore(&mut self, images: &[Bytes]) -> Option<[u8; 32]> {
        self.objects = made(&self.specs, images)?;
        self.past.clear();
        self.undecided.clear();
        self.before.clear();
        self.altered = None;
        Some(digest(images))
    }
}

fn made(specs: &[ObjectSpec], images: &[Bytes]) -> Option<LiveObjects> {
    if specs.len() != images.len() {
        return None;
    }
    let objects = fresh(specs).into_iter().zip(images);
    let objects = objects.map(|((id, mut object), image)| {
        object.restore(image).ok()?;
        Some((id, object))
    });
    objects.collect()
}

fn fresh(specs: &[ObjectSpec]) -> LiveObjects {
    let made = specs.iter().enumerate().map(|(number, spec)| {
        let class = spec.class.strip_prefix("rust:").expect("a built-in object");
        let object = match class {
            "feed" => Box::new(Feed::default()),
            _ => create(class, &spec.arguments).expect("the setup names built-ins"),
        };
        (ObjectId(number as u32), LiveObject::new(object))
    });
    made.collect()
}

/// The digest by value of all images.
pub(super) fn digest(images: &[Bytes]) -> [u8; 32] {
    let images = (0..).zip(images).map(|(number, image)| ObjectImage {
        object: ObjectId(number),
        image: image.clone().into(),
    });
    images_list(&images.collect::<Vec<_>>()).digest()
}
