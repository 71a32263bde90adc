//! Python objects: executed in a separate process, which may crash, hang or be killed.
//!
//! A new process gets the newest image and the work since. No answer is made up for it: after one call has
//! ended three processes, none is started until the group decides to skip that call. Only a query, which is
//! not in the log, is answered with an error when it ends the process.

mod catching_up;
mod images;
mod taking_back;
mod watching;

use catching_up::CatchingUp;

use crate::child::{Process, await_ready};
use crate::config::{HostedObject, PythonConfig, UnkeptState};
use crate::ended_reads::EndedReads;
use crate::error::HostError;
use crate::event::{HostEvent, RunningCall};
use crate::image::ObjectImage;
use crate::limits::{
    ACTIVITY_INTERVAL, DEATHS_AT_ONE_CALL_MAX, RESTART_DELAY, RESTART_DELAY_MAX, START_PATIENCE,
    UNDO_PATIENCE, WORK_LOG_BYTES_MAX,
};
use crate::outcomes::{SlotGathering, fit};
use crate::process_end::{ProcessEnd, ended_read, reason};
use crate::protocol::{Greeted, Liars, Reply, Told, Undoable, put_restore};
use crate::scratch::Scratch;
use crate::sending::{LeftOut, send_work, with_left_out};
use crate::watch::Watch;
use crate::work_log::{HostWork, WorkLog};
use bytes::Bytes;
use mio::{Interest, Registry, Token, Waker};
use quorate_ordering::ReadId;
use quorate_types::{ObjectId, Slot, SlotSteps, Stamp};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The Python objects of one group.
pub(crate) struct OtherProcess {
    config: PythonConfig,
    objects: Vec<HostedObject>,
    registry: Registry,
    token: Token,
    work_log: WorkLog,
    scratch: Scratch,
    events: Vec<HostEvent>,
    life: Life,
    watch: Watch,
    /// The newest slot handed in: where an image of the host's own stands.
    newest: Slot,
    /// Whether an image of the host's own is asked for and not yet there.
    is_shortening: bool,
    /// An image of the host's own, of a state that is not decided yet.
    undecided: Option<(Slot, Vec<ObjectImage>)>,
    /// Everything up to here is decided.
    confirmed: Slot,
    /// WorkLog weight at which the host makes an image of its own.
    shorten_at: usize,
    catching_up: CatchingUp,
    last_death: Option<Death>,
    ended_reads: EndedReads,
    /// The newest slot whose outcomes were told: what its calls print was printed.
    told: Slot,
    /// What the process said of itself. Every later one has the same code.
    greeted: Greeted,
    liars: Liars,
    /// The process is asked to undo what is after this slot, and answers by then.
    undoing: Option<(Slot, Instant)>,
    /// Calls that are not executed, of slots after the base image: skipped ones, and those that took too many steps.
    left_out: LeftOut,
    /// Results of the slot that the process is executing.
    gathered: SlotGathering,
    /// Whether more replies may lie in the stream.
    is_unread: bool,
    /// Whether something was to be done outside of the objects.
    pub(crate) is_outside: bool,
}

/// Where in its lives the host is.
enum Life {
    /// Greeted, not yet answered.
    Starting {
        process: Process,
        until: Instant,
    },
    /// It takes over the base image.
    Restoring {
        process: Process,
    },
    Up {
        process: Process,
    },
    /// The next process starts then.
    Waiting {
        until: Instant,
    },
    /// No further process is started.
    Over,
}

/// How the last process ended.
struct Death {
    call: Option<RunningCall>,
    /// Ends in a row at that call.
    count: u32,
}

impl Death {
    fn is_at(&self, call: Option<&RunningCall>) -> bool {
        self.call.as_ref().map(RunningCall::place) == call.map(RunningCall::place)
    }
}

impl OtherProcess {
    /// Starts the process and waits until it has made the objects.
    pub(crate) fn open(
        config: PythonConfig,
        objects: Vec<HostedObject>,
        registry: Registry,
        token: Token,
        waker: Arc<Waker>,
    ) -> Result<OtherProcess, HostError> {
        let scratch = Scratch::new(&config.scratch, waker)?;
        let told = config.quiet_upto;
        let mut process = Process::start(&config, &objects, &Liars::default(), told)?;
        let greeted = await_ready(&mut process)?;
        // Whatever changes in the objects' files from here on, they are there.
        let unkept_state = UnkeptState::Told;
        let mut host = OtherProcess {
            scratch,
            told,
            greeted,
            config: PythonConfig {
                unkept_state,
                ..config
            },
            objects,
            registry,
            token,
            work_log: WorkLog::default(),
            events: Vec::new(),
            life: Life::Over,
            watch: Watch::new(Instant::now()),
            newest: Slot::ZERO,
            is_shortening: false,
            undecided: None,
            confirmed: Slot::ZERO,
            shorten_at: WORK_LOG_BYTES_MAX,
            catching_up: CatchingUp::default(),
            last_death: None,
            ended_reads: EndedReads::default(),
            liars: Liars::default(),
            undoing: None,
            left_out: LeftOut::new(),
            gathered: SlotGathering::default(),
            is_unread: false,
            is_outside: false,
        };
        host.register(&mut process)?;
        host.life = Life::Up { process };
        Ok(host)
    }

    pub(crate) fn execute(&mut self, slot: Slot, stamp: Stamp, steps: SlotSteps) {
        self.confirm(slot);
        self.hand_in(slot, stamp, steps);
    }

    pub(crate) fn speculate(&mut self, slot: Slot, stamp: Stamp, steps: SlotSteps) {
        self.catching_up.goes_ahead();
        self.hand_in(slot, stamp, steps);
    }

    fn hand_in(&mut self, slot: Slot, stamp: Stamp, steps: SlotSteps) {
        self.newest = slot;
        // The work log outlives the slot's batch: it must not keep that in memory.
        let steps = steps.to_vec();
        self.work_log.push(HostWork::Execute { slot, stamp, steps });
        if self.config.with_snapshots
            && !self.is_shortening
            && (self.work_log.weight() > self.shorten_at || self.catching_up.is_due())
        {
            self.is_shortening = true;
            self.catching_up.asked(slot);
            let is_private = true;
            self.work_log.push(HostWork::Snapshot { slot, is_private });
        }
    }

    pub(crate) fn query(&mut self, read: ReadId, object: ObjectId, payload: Bytes) {
        if let Some(outcome) = self.ended_reads.answer(object, &payload, Instant::now()) {
            self.events.push(HostEvent::Queried { read, outcome });
            return;
        }
        let payload = Bytes::copy_from_slice(&payload);
        self.work_log.push(HostWork::Query {
            read,
            object,
            payload,
        });
    }

    pub(crate) fn take_snapshot(&mut self, slot: Slot) {
        if !self.config.with_snapshots {
            let reason = "this object runs without snapshots".to_owned();
            self.events.push(HostEvent::ImageFailed { slot, reason });
            return;
        }
        // Two images of one slot would be one file, and are one state.
        if self.work_log.adopt_snapshot(slot) {
            self.is_shortening = false;
            return;
        }
        let is_private = false;
        self.work_log.push(HostWork::Snapshot { slot, is_private });
    }

    pub(crate) fn restore(&mut self, slot: Slot, images: Vec<ObjectImage>) {
        self.newest = slot;
        if matches!(self.life, Life::Over) {
            self.begin_with(slot, images);
        } else {
            self.work_log.push(HostWork::Restore { slot, images });
        }
    }

    /// The call that keeps the host down is in the images: what was to be executed is not needed.
    fn begin_with(&mut self, slot: Slot, images: Vec<ObjectImage>) {
        self.work_log.begin_with(slot, images);
        self.last_death = None;
        self.watch.release();
        let until = Instant::now();
        self.life = Life::Waiting { until };
    }

    /// Sends what waits.
    pub(crate) fn flush(&mut self) {
        let confirmed = match self.undoes_in_place() {
            true => self.confirmed,
            // Of what is decided nothing is kept.
            false => Slot(u64::MAX),
        };
        let outcome = match &mut self.life {
            // The greeting or the image may be larger than what the socket takes at once.
            Life::Starting { process, .. } | Life::Restoring { process } => process.write(),
            Life::Up { process } => {
                let known = (&self.left_out, confirmed);
                let sent = send_work(process, &mut self.work_log, &self.scratch, known);
                if self.work_log.is_waiting() {
                    self.catching_up.busy(Instant::now());
                }
                sent
            }
            Life::Waiting { .. } | Life::Over => return,
        };
        if let Err(ended) = outcome {
            self.died(&ended);
        }
    }

    /// Reads, starts, watches; `is_readable` says whether the stream may have something.
    pub(crate) fn poll(&mut self, is_readable: bool, events: &mut Vec<HostEvent>) {
        if is_readable || self.is_unread {
            self.read();
        }
        while let Some(loaded) = self.scratch.take() {
            match loaded.outcome {
                Ok((images, parts)) => self.imaged(loaded.slot, images, parts),
                Err(reason) => self.image_failed(loaded.slot, reason),
            }
        }
        self.keep_time();
        self.flush();
        events.append(&mut self.events);
    }

    /// When [`OtherProcess::poll`] must be called at the latest.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        if self.is_unread {
            return Some(Instant::now());
        }
        match &self.life {
            Life::Starting { until, .. } | Life::Waiting { until } => Some(*until),
            Life::Restoring { .. } => None,
            Life::Up { .. } => self
                .is_waiting()
                .then(|| Instant::now() + ACTIVITY_INTERVAL),
            Life::Over => None,
        }
    }

    /// How the process is confined.
    pub(crate) fn confinement(&self) -> &str {
        &self.greeted.confinement
    }

    /// The interpreter, packages and sources of the process, if it told them.
    pub(crate) fn fingerprint(&self) -> Option<&str> {
        self.greeted.fingerprint.as_deref()
    }

    /// The process that works at present.
    pub(crate) fn process_id(&self) -> Option<u32> {
        match &self.life {
            Life::Starting { process, .. } | Life::Restoring { process } | Life::Up { process } => {
                Some(process.id())
            }
            Life::Waiting { .. } | Life::Over => None,
        }
    }

    fn read(&mut self) {
        let mut replies = Vec::new();
        let outcome = match &mut self.life {
            Life::Starting { process, .. } | Life::Restoring { process } | Life::Up { process } => {
                process.read(&mut |reply| replies.push(reply))
            }
            Life::Waiting { .. } | Life::Over => return,
        };
        for reply in replies {
            self.take_reply(reply);
        }
        match outcome {
            Ok(is_unread) => self.is_unread = is_unread,
            Err(ended) => self.died(&ended),
        }
    }

    fn take_reply(&mut self, reply: Reply) {
        match reply {
            Reply::Ready(greeted) => self.ready(greeted),
            Reply::Unfit { object, reason } => {
                self.life = Life::Over;
                self.events.push(HostEvent::Down {
                    reason: format!("object {object}: {reason}"),
                    call: None,
                    is_final: true,
                });
            }
            Reply::Outcomes { slot, told } => match self.work_log.executing() {
                Some((asked, steps)) if asked == slot => {
                    let count = steps.len();
                    if !self.gathered.extend(told) || self.gathered.len() > count {
                        self.out_of_step();
                    }
                }
                Some(_) | None => self.out_of_step(),
            },
            Reply::Executed {
                slot,
                told,
                undoable,
            } => self.executed(slot, told, undoable),
            Reply::Undone { after } => self.undone(after),
            Reply::UndoFailed {
                object,
                method,
                reason,
            } => self.undo_failed(object, method, reason),
            Reply::Queried { read, outcome } => match self.work_log.answer() {
                Some((HostWork::Query { read: asked, .. }, _)) if *asked == read => {
                    self.watch.release();
                    let outcome = fit(outcome);
                    self.events.push(HostEvent::Queried { read, outcome });
                }
                _ => self.out_of_step(),
            },
            Reply::Due { at } => self.events.push(HostEvent::Due { at }),
            Reply::Outside => self.is_outside = true,
            Reply::Restored { slot } => self.restored(slot),
            Reply::RestoreFailed { slot, reason } => self.restore_failed(slot, reason),
            Reply::Imaged { slot } => {
                let id = self.process_id().unwrap_or_default();
                if let Err(error) = self.scratch.load(id, slot) {
                    self.image_failed(slot, error.to_string());
                }
            }
            Reply::ImageFailed { slot, reason } => self.image_failed(slot, reason),
            Reply::Spent {
                slot,
                index,
                outcome,
            } => self.spent(slot, index, outcome),
            Reply::ReadWrote { object, method } => self.read_wrote(object, method),
        }
    }

    /// The process has executed a slot; these are the last of its results.
    fn executed(&mut self, slot: Slot, last: Vec<Told>, undoable: Undoable) {
        let is_in_order = self.gathered.extend(last);
        let told = self.gathered.take();
        let asked = self.work_log.executing().filter(|(at, _)| *at == slot);
        let results = asked
            .filter(|_| is_in_order)
            .and_then(|(_, steps)| with_left_out(slot, steps, told, &self.left_out));
        let Some(results) = results else {
            return self.out_of_step();
        };
        let is_news = matches!(self.work_log.answer(), Some((_, true)));
        self.work_log.answered_so(undoable);
        self.catching_up.executed(slot, Instant::now());
        if !self.work_log.is_waiting() {
            self.catching_up.idle();
        }
        if is_news {
            self.last_death = None;
            self.watch.release();
            self.told = self.told.max(slot);
            self.events.push(HostEvent::Executed { slot, results });
        }
    }

    fn ready(&mut self, greeted: Greeted) {
        if greeted.fingerprint != self.greeted.fingerprint {
            return self.died(&ProcessEnd::OtherCode);
        }
        self.greeted = greeted;
        let Life::Starting { mut process, .. } = std::mem::replace(&mut self.life, Life::Over)
        else {
            return self.out_of_step();
        };
        match self.work_log.base() {
            Some((slot, images)) => {
                if let Some(outbox) = process.outbox() {
                    put_restore(outbox, *slot, images);
                }
                let outcome = process.write();
                self.life = Life::Restoring { process };
                if let Err(ended) = outcome {
                    self.died(&ended);
                }
            }
            None => self.up(process),
        }
    }

    fn up(&mut self, process: Process) {
        self.watch.begin(Instant::now());
        self.life = Life::Up { process };
        self.events.push(HostEvent::Up);
        self.flush();
    }

    fn out_of_step(&mut self) {
        let unasked = std::io::Error::other("it answered what it was not asked");
        self.died(&ProcessEnd::Stream(Some(unasked)));
    }

    fn died(&mut self, ended: &ProcessEnd) {
        let mut process = match std::mem::replace(&mut self.life, Life::Over) {
            Life::Starting { process, .. } | Life::Restoring { process } | Life::Up { process } => {
                process
            }
            // Its last reply was reason enough, and then its stream ended too: the next start stays due.
            waiting @ (Life::Waiting { .. } | Life::Over) => {
                self.life = waiting;
                return;
            }
        };
        self.gathered.take();
        self.is_unread = false;
        let activity = process.activity();
        let status = process.kill();
        let undo = self.work_log.running_undo(activity);
        let shown = undo.is_none().then_some(activity);
        let call = shown.and_then(|activity| self.work_log.running_call(activity));
        let call = call.map(|call| process.named(call));
        if let Some((object, payload, reads)) = self.work_log.drop_queries(activity) {
            let outcome = ended_read(call.as_ref(), ended);
            self.ended_reads
                .note(object, payload, outcome.clone(), Instant::now());
            for read in reads {
                let outcome = outcome.clone();
                self.events.push(HostEvent::Queried { read, outcome });
            }
            self.watch.release();
        }
        let is_undo = undo.is_some() || matches!(ended, ProcessEnd::NotUndone(_));
        let reason = match undo {
            Some(undo) => self.undo_ended(undo, ended, &status),
            None => reason(ended, &status),
        };
        let count = match &self.last_death {
            // The next process does without that undo.
            _ if is_undo => 1,
            Some(death) if death.is_at(call.as_ref()) => death.count + 1,
            Some(_) | None => 1,
        };
        let is_last = count >= DEATHS_AT_ONE_CALL_MAX
            && call.as_ref().is_some_and(|call| call.slot.is_some());
        let fetched = self.work_log.waiting_restore().filter(|_| is_last);
        let is_final = is_last && fetched.is_none();
        if !is_final {
            let until = Instant::now() + delay(count);
            self.life = Life::Waiting { until };
        } else if let Some(call) = &call {
            self.watch.hold(call.clone(), Instant::now());
        }
        if !is_undo {
            self.last_death = Some(Death {
                call: call.clone(),
                count,
            });
        }
        self.work_log.rewind();
        self.catching_up.begins_again();
        if let Some((slot, images)) = fetched {
            self.begin_with(slot, images);
        }
        self.events.push(HostEvent::Down {
            reason,
            call,
            is_final,
        });
        self.undone_by_the_next();
    }

    fn keep_time(&mut self) {
        let now = Instant::now();
        match &self.life {
            Life::Waiting { until } if *until <= now => self.start(now),
            Life::Starting { until, .. } if *until <= now => {
                let late = std::io::Error::other("it did not answer the greeting in time");
                self.died(&ProcessEnd::Stream(Some(late)));
            }
            Life::Up { .. } if self.undoing.is_some_and(|(_, until)| until <= now) => {
                self.undo_is_late(UNDO_PATIENCE);
            }
            Life::Up { process } if self.work_log.is_waiting() => {
                let activity = process.activity();
                self.watch(activity, now);
            }
            Life::Up { .. }
            | Life::Waiting { .. }
            | Life::Starting { .. }
            | Life::Restoring { .. }
            | Life::Over => {}
        }
    }

    fn start(&mut self, now: Instant) {
        let started = Process::start(&self.config, &self.objects, &self.liars, self.told)
            .and_then(|mut process| self.register(&mut process).map(|()| process))
            .and_then(|mut process| match process.write() {
                Ok(()) => Ok(process),
                Err(_) => Err(std::io::Error::other("it ended at once")),
            });
        match started {
            Ok(process) => {
                let until = now + START_PATIENCE;
                self.life = Life::Starting { process, until };
            }
            Err(error) => {
                let until = now + RESTART_DELAY_MAX;
                self.life = Life::Waiting { until };
                self.events.push(HostEvent::Down {
                    reason: error.to_string(),
                    call: None,
                    is_final: false,
                });
            }
        }
    }

    fn register(&self, process: &mut Process) -> std::io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.registry
            .register(&mut process.stream, self.token, interest)
    }
}

/// Waits before a start after `count` ends in a row.
fn delay(count: u32) -> Duration {
    if count <= 1 {
        return Duration::ZERO;
    }
    let factor = 1u32 << (count - 2).min(10);
    (RESTART_DELAY * factor).min(RESTART_DELAY_MAX)
}
