//! The side thread on which frozen states are encoded and images restored, while calls go on.
//!
//! It never touches a live object: it gets frozen states and makes new objects. Owned by
//! the half that runs Rust objects; ends when its owner is dropped.

use crate::builtin::create;
use crate::config::HostedObject;
use crate::image::{ObjectImage, images_list};
use crate::limits::{ENCODER_NICENESS, IMAGES_PENDING_MAX, LARGE_IMAGE_BYTES};
use crate::live::{LiveObject, LiveObjects};
use crate::object::FrozenState;
use mio::Waker;
use quorate_types::{ObjectId, PartsList, Slot};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// What the side thread is asked to do.
pub(crate) enum EncoderJob {
    /// Encode these states.
    Encode {
        slot: Slot,
        frozen: Vec<(ObjectId, FrozenState)>,
    },
    /// Make new objects from these images.
    Restore {
        slot: Slot,
        specs: Vec<HostedObject>,
        images: Vec<ObjectImage>,
    },
    /// Make new objects from states that were frozen.
    Undo {
        after: Slot,
        specs: Vec<HostedObject>,
        frozen: Vec<(ObjectId, FrozenState)>,
    },
    /// Free this, which may be large.
    Drop(Box<LiveObject>),
}

/// The result of a job.
pub(crate) enum EncoderDone {
    Encoded {
        slot: Slot,
        images: Vec<ObjectImage>,
        parts: PartsList,
    },
    Restored {
        slot: Slot,
        outcome: Result<LiveObjects, String>,
    },
    Undone {
        after: Slot,
        outcome: Result<LiveObjects, String>,
    },
}

/// The owner's end.
pub(crate) struct Encoder {
    jobs: SyncSender<EncoderJob>,
    done: Receiver<EncoderDone>,
    outstanding: usize,
}

impl Encoder {
    /// Starts the thread; `waker` is rung when a job is done.
    pub(crate) fn start(waker: Arc<Waker>) -> std::io::Result<Encoder> {
        let (jobs, inbox) = sync_channel(IMAGES_PENDING_MAX);
        let (outbox, done) = sync_channel(IMAGES_PENDING_MAX);
        std::thread::Builder::new()
            .name("quorate-images".to_owned())
            .spawn(move || work(&inbox, &outbox, &waker))?;
        Ok(Encoder {
            jobs,
            done,
            outstanding: 0,
        })
    }

    /// Hands over a job, or gives it back when too many wait.
    pub(crate) fn submit(&mut self, job: EncoderJob) -> Result<(), EncoderJob> {
        let is_answered = !matches!(job, EncoderJob::Drop(_));
        match self.jobs.try_send(job) {
            Ok(()) => {
                self.outstanding += usize::from(is_answered);
                Ok(())
            }
            Err(TrySendError::Full(job)) => Err(job),
            Err(TrySendError::Disconnected(_)) => unreachable!("the thread ends with its owner"),
        }
    }

    /// What is done, if anything is.
    pub(crate) fn take(&mut self) -> Option<EncoderDone> {
        let done = self.done.try_recv().ok()?;
        self.outstanding -= 1;
        Some(done)
    }

    /// Whether an answer is still to come.
    pub(crate) fn is_busy(&self) -> bool {
        self.outstanding > 0
    }
}

fn work(inbox: &Receiver<EncoderJob>, outbox: &SyncSender<EncoderDone>, waker: &Waker) {
    // How large the last state was says how large the next one is.
    let mut image_bytes = 0;
    while let Ok(job) = inbox.recv() {
        let done = match job {
            EncoderJob::Encode { slot, frozen } => {
                let (bytes, done) = behind_calls(image_bytes, || encode(slot, frozen));
                image_bytes = bytes;
                done
            }
            EncoderJob::Restore {
                slot,
                specs,
                images,
            } => {
                image_bytes = bytes_of(&images);
                EncoderDone::Restored {
                    slot,
                    outcome: behind_calls(image_bytes, || restore(&specs, &images)),
                }
            }
            EncoderJob::Undo {
                after,
                specs,
                frozen,
            } => EncoderDone::Undone {
                after,
                outcome: made_again(&specs, frozen),
            },
            EncoderJob::Drop(object) => {
                drop(object);
                continue;
            }
        };
        if outbox.send(done).is_err() {
            return;
        }
        // The node also polls at its own pace; a lost ring delays, it does not lose.
        let _ = waker.wake();
    }
}

/// Works for states of `image_bytes` while calls come first, on a thread of its own, because a thread that has given way may
/// not take that back. For a large state it competes with calls at equal priority: the log grows until it is done.
fn behind_calls<T: Send>(image_bytes: usize, work: impl FnOnce() -> T + Send) -> T {
    if image_bytes >= LARGE_IMAGE_BYTES {
        return work();
    }
    std::thread::scope(|scope| {
        let nice = scope.spawn(|| {
            let thread = Some(rustix::thread::gettid());
            // A refusal only means that this competes with calls at equal priority.
            let _ = rustix::process::setpriority_process(thread, ENCODER_NICENESS);
            work()
        });
        nice.join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn bytes_of(images: &[ObjectImage]) -> usize {
    images.iter().map(|image| image.image.len()).sum()
}

/// New objects with these states.
pub(crate) fn made_again(
    specs: &[HostedObject],
    frozen: Vec<(ObjectId, FrozenState)>,
) -> Result<LiveObjects, String> {
    restore(specs, &images_of(frozen))
}

fn images_of(frozen: Vec<(ObjectId, FrozenState)>) -> Vec<ObjectImage> {
    let images = frozen.into_iter().map(|(object, state)| ObjectImage {
        object,
        image: state(),
    });
    images.collect()
}

/// The images of these states, and how many bytes they have.
fn encode(slot: Slot, frozen: Vec<(ObjectId, FrozenState)>) -> (usize, EncoderDone) {
    let images = images_of(frozen);
    let parts = images_list(&images);
    let bytes = bytes_of(&images);
    let done = EncoderDone::Encoded {
        slot,
        images,
        parts,
    };
    (bytes, done)
}

fn restore(specs: &[HostedObject], images: &[ObjectImage]) -> Result<LiveObjects, String> {
    specs
        .iter()
        .map(|spec| {
            let made = create(spec.builtin(), &spec.arguments).map_err(|e| e.to_string())?;
            let mut object = LiveObject::new(made);
            let image = images
                .iter()
                .find(|image| image.object == spec.id)
                .ok_or_else(|| format!("the snapshot holds no image of {}", spec.name))?;
            object
                .restore(&image.image.whole())
                .map_err(|e| e.to_string())?;
            Ok((spec.id, object))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn niceness() -> i32 {
        let thread = Some(rustix::thread::gettid());
        rustix::process::getpriority_process(thread).expect("it is this thread")
    }

    #[test]
    fn work_for_small_states_gives_way_to_calls_and_for_large_ones_does_not() {
        let own = niceness();
        let small = behind_calls(LARGE_IMAGE_BYTES - 1, niceness);
        assert_eq!(small, own.max(ENCODER_NICENESS));
        assert_eq!(behind_calls(LARGE_IMAGE_BYTES, niceness), own);
        assert_eq!(niceness(), own, "what gave way has ended");
    }
}
