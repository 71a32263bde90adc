//! The node's loop: one thread that reads all ready sockets, passes inputs to the replica, performs its
//! outputs and writes everything at the end of the turn.
//!
//! Nothing is decided here; `core/replica` handles the inputs. In memory mode no other thread takes part in
//! a command. The log, the snapshots and the admin port have their own threads, which wake this one.

use crate::NodeError;
use crate::client_turns::ClientTurns;
use crate::clock::{Entropy, boot_time, wall_time};
use crate::died_file::DiedFile;
use crate::executed_file::ExecutedFile;
use crate::groups::NodePlace;
use crate::joining::Template;
use crate::journal::Journal;
use crate::limits::{DIRECTORY_LOOKED_AT_EVERY, DRAIN_MAX, EVENTS, ROUNDS_PER_TURN, STARVED_AFTER};
use crate::membership::Membership;
use crate::multicasting::NodeMulticast;
use crate::quarantine_file::QuarantineFile;
use crate::questions::Questions;
use crate::signals::Signals;
use crate::snapshots::SnapshotQueue;
use crate::status::OwnIdentity;
use crate::timings::Timings;
use crate::worker::OutsideWorker;
use bytes::Bytes;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token, Waker};
use quorate_any::{AnyMessage, AnyOrdering};
use quorate_host::{Host, HostEvent};
use quorate_ordering::{ConflictingDecisions, Role};
use quorate_replica::{Input, Output, Replica};
use quorate_storage::{DirectoryDisk, IdentityFile, StorageError};
use quorate_transport::{Arrival, Transport};
use quorate_types::{Level, Levels, NodeId, Sighting, Time, ViewNumber};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A thread of this process has something to tell.
pub(crate) const WAKER: Token = Token(0);
/// The objects' host has something to tell.
const HOST: Token = Token(1);
/// The process was asked to stop.
const SIGNALS: Token = Token(2);
/// The transport's listener and connections.
pub(crate) const TRANSPORT: usize = 4;
/// Datagrams have come.
pub(crate) const MULTICAST: Token = Token(3);

/// Everything a node consists of, on the loop's thread.
pub(crate) struct Node {
    pub(crate) dir: PathBuf,
    pub(crate) membership: Membership,
    /// What nodes that join are configured with.
    pub(crate) template: Template,
    pub(crate) directory: DirectoryDisk,
    /// When it looks whether the directory is still there.
    pub(crate) look_at: Time,
    pub(crate) identity: OwnIdentity,
    pub(crate) replica: Replica<AnyOrdering>,
    pub(crate) transport: Transport,
    pub(crate) multicast: Option<NodeMulticast>,
    pub(crate) host: Host,
    pub(crate) worker: OutsideWorker,
    /// `None` in memory mode: nothing is written.
    pub(crate) journal: Option<Journal>,
    pub(crate) snapshots: SnapshotQueue,
    pub(crate) identity_file: IdentityFile<DirectoryDisk>,
    pub(crate) quarantine_file: QuarantineFile,
    pub(crate) executed_file: ExecutedFile,
    pub(crate) died_file: DiedFile,
    pub(crate) questions: Questions,
    /// `None`: the node of the first group hears the signals of the process.
    pub(crate) signals: Option<Signals>,
    pub(crate) place: NodePlace,
    pub(crate) poll: Poll,
    pub(crate) entropy: Entropy,
    pub(crate) role: Role,
    pub(crate) outputs: Vec<Output<AnyMessage>>,
    pub(crate) arrivals: Vec<Arrival>,
    pub(crate) clients: ClientTurns,
    pub(crate) host_events: Vec<HostEvent>,
    /// Whether this turn answers clients.
    pub(crate) is_answering: bool,
    /// Whether the replica was told anything since the last end of a turn.
    pub(crate) is_fed: bool,
    /// A peer that has seen more of this node than it comes with.
    pub(crate) sighted: Option<(NodeId, Sighting)>,
    /// Two values are decided for one slot.
    pub(crate) conflict: Option<Box<ConflictingDecisions>>,
    /// A view is in force whose level this node does not speak.
    pub(crate) unspoken: Option<(Level, ViewNumber)>,
    /// What this node speaks.
    pub(crate) speaks: Levels,
    /// The directory does not take down in which view the node votes: it must not.
    pub(crate) unsure: Option<StorageError>,
    /// When the node began to shut down.
    pub(crate) draining: Option<Time>,
    pub(crate) turns: u64,
    pub(crate) timings: Timings,
    /// The status document of one turn, for everybody who asks in it.
    pub(crate) told: Option<(u64, Bytes)>,
}

impl Node {
    /// Registers what the loop waits for beside the transport.
    pub(crate) fn watch(&mut self) -> io::Result<()> {
        let registry = self.poll.registry();
        registry.register(&mut SourceFd(&self.host.fd()), HOST, Interest::READABLE)?;
        match &mut self.signals {
            Some(signals) => signals.watch(registry, SIGNALS),
            None => Ok(()),
        }
    }

    /// Runs until the process is asked to stop or has to.
    pub(crate) fn run(mut self) -> Result<(), NodeError> {
        let mut events = Events::with_capacity(EVENTS);
        let mut now = boot_time();
        self.turn(now)?;
        loop {
            let due = self.next_wake();
            let timeout = self.timeout(due);
            now = read_by(now, due, timeout, boot_time, |now, timeout| {
                self.wait(&mut events, timeout, now)
            })?;
            self.turn(now)?;
            self.check_refused()?;
            if self.has_left(now) || self.is_dismissed() {
                return self.end();
            }
        }
    }

    fn wait(
        &mut self,
        events: &mut Events,
        timeout: Option<Duration>,
        now: Time,
    ) -> Result<(), NodeError> {
        match self.poll.poll(events, timeout) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(NodeError::System("cannot wait for events", error)),
        }
        // Connections that were cut short last turn are read before new ones, and each once per turn.
        self.transport.read_on(now);
        for event in events.iter() {
            match event.token() {
                // Their queues are looked at in every turn.
                WAKER | HOST => {}
                SIGNALS => self.stop(now),
                MULTICAST => {
                    if let Some(multicast) = &mut self.multicast {
                        multicast.ready();
                    }
                }
                Token(_) => self.transport.ready(event, now),
            }
        }
        Ok(())
    }

    fn turn(&mut self, now: Time) -> Result<(), NodeError> {
        self.turns += 1;
        self.transport.tick(now);
        self.take_letters(now);
        self.take_arrivals(now);
        self.take_multicast(now);
        self.serve_clients(now);
        if let Some((peer, sighting)) = self.sighted {
            return Err(NodeError::Sighted { peer, sighting });
        }
        self.take_journal(now)?;
        self.take_snapshots(now);
        let mut now = self.take_host(now);
        if self.replica.next_wake().is_some_and(|due| due <= now) {
            self.feed(now, Input::Wake);
        }
        for _ in 0..ROUNDS_PER_TURN {
            if self.is_fed {
                self.is_fed = false;
                let turn_end = Input::TurnEnd {
                    wall: wall_time(),
                    entropy: self.entropy.next(),
                };
                self.replica.handle(now, turn_end, &mut self.outputs);
            }
            self.perform(now);
            if let Some(error) = self.unsure.take() {
                return Err(NodeError::Storage(error));
            }
            if let Some((level, view)) = self.unspoken {
                return Err(NodeError::LevelNotSpoken {
                    dir: self.dir.clone(),
                    view: view.0,
                    level,
                    speaks: self.speaks,
                });
            }
            if let Some(conflict) = self.conflict.take() {
                // Nothing of this turn has left.
                let dir = self.dir.clone();
                return Err(NodeError::Conflict { dir, conflict });
            }
            // What others and the log's thread wait for leaves before the objects take their time.
            self.flush(now)?;
            self.host.flush();
            now = self.take_host(now);
            // Objects that are behind leave others their votes between what they execute.
            if self.host.is_behind() || !self.is_fed && self.outputs.is_empty() {
                break;
            }
        }
        let leads = matches!(self.role, Role::Leader { .. }) && self.draining.is_none();
        self.worker.look_after(leads && self.host.is_outside(), now);
        self.follow_members(now);
        self.follow_groups(now);
        self.snapshots.agreed(self.replica.agreed_snapshot());
        self.answer_questions(now);
        self.look_at_directory(now)?;
        if let Some(pasts) = self.transport.pasts_to_note(now)
            && self.snapshots.remember(pasts)
        {
            self.transport.pasts_noted(now);
        }
        self.flush(now)
    }

    /// Ends a node whose data directory was removed.
    fn look_at_directory(&mut self, now: Time) -> Result<(), NodeError> {
        if now < self.look_at {
            return Ok(());
        }
        self.look_at = now + span(DIRECTORY_LOOKED_AT_EVERY);
        self.tell_deaf();
        self.find_groups();
        match self.directory.is_removed("identity-a") {
            true => Err(NodeError::DirectoryRemoved {
                dir: self.dir.clone(),
            }),
            false => Ok(()),
        }
    }

    /// Sends what is queued for clients and peers, and hands the log's thread what is to be written.
    fn flush(&mut self, now: Time) -> Result<(), NodeError> {
        if let Some(journal) = &self.journal {
            self.transport.set_commit(journal.newest_commit());
        }
        // Answers leave after what they rest on is noted.
        if std::mem::take(&mut self.is_answering) || self.host.prints() {
            self.executed_file.note(self.replica.executed_upto());
        }
        // Values leave before the proposals that name them.
        if let Some(multicast) = &mut self.multicast {
            multicast.flush();
        }
        self.transport.flush(now);
        if let Some(journal) = &mut self.journal {
            journal.flush()?;
        }
        Ok(())
    }

    /// Hands an input to the replica.
    pub(crate) fn feed(&mut self, now: Time, input: Input<AnyMessage>) {
        self.is_fed = true;
        self.replica.handle(now, input, &mut self.outputs);
    }

    fn next_wake(&self) -> Option<Time> {
        let leaving = self.draining.map(|since| since + span(DRAIN_MAX));
        [
            self.replica.next_wake(),
            self.transport.next_wake(),
            self.clients.next_wake(),
            leaving,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn timeout(&self, due: Option<Time>) -> Option<Duration> {
        let more_came = (self.multicast.as_ref()).is_some_and(NodeMulticast::is_ready);
        if self.is_fed || more_came || self.transport.is_pending() || self.clients.is_waiting() {
            return Some(Duration::ZERO);
        }
        // The clock is read again, because the turn took time.
        let due = due.map(|due| Duration::from_nanos(due.since(boot_time()).0));
        let host = self
            .host
            .next_wake()
            .map(|at| at.saturating_duration_since(Instant::now()));
        due.into_iter().chain(host).min()
    }

    pub(crate) fn stop(&mut self, now: Time) {
        if let Some(signals) = &mut self.signals {
            signals.clear();
        }
        if self.draining.is_none() {
            tracing::info!("stopping: transferring leadership and sending answers");
            self.draining = Some(now);
            self.place.stop_others();
            self.feed(now, Input::Drain);
        }
    }

    fn has_left(&self, now: Time) -> bool {
        let Some(since) = self.draining else {
            return false;
        };
        let status = self.replica.status();
        let leads_others = matches!(self.role, Role::Leader { .. })
            && status.ordering.peers.iter().any(|peer| peer.connected);
        let is_answered = status.waiting == 0 && status.reads == 0;
        // A turn that objects which are behind cut short leaves answers to the next one.
        let is_performed = !self.is_fed && self.outputs.is_empty();
        // What was received is served first. Clients that pause for what they owe ask elsewhere.
        let is_quiet = !self.clients.is_waiting()
            && is_answered
            && is_performed
            && self.transport.is_flushed();
        (!leads_others && is_quiet && self.place.is_alone()) || now.since(since) >= span(DRAIN_MAX)
    }

    fn end(mut self) -> Result<(), NodeError> {
        self.transport.say_goodbye(boot_time());
        if let Some(journal) = self.journal.take() {
            journal.close()?;
        }
        tracing::info!("stopped");
        Ok(())
    }
}

/// Waits with `read` for what arrives, until `due`. Returns the time by which it is judged, which `clock` says after
/// everything was read: a lease must not look younger than it is.
fn read_by<E>(
    begun: Time,
    due: Option<Time>,
    timeout: Option<Duration>,
    clock: impl Fn() -> Time,
    mut read: impl FnMut(Time, Option<Duration>) -> Result<(), E>,
) -> Result<Time, E> {
    read(begun, timeout)?;
    let now = clock();
    if due.is_none_or(|due| now.since(due).0 <= STARVED_AFTER.as_nanos() as u64) {
        return Ok(now);
    }
    // Messages that lie in the sockets' buffers come before the verdict of the clock.
    read(now, Some(Duration::ZERO))?;
    Ok(clock())
}

/// What the transport needs of the poll.
pub(crate) fn shared(poll: &Poll) -> Result<(Registry, Arc<Waker>), NodeError> {
    let refused = |error| NodeError::System("cannot watch sockets", error);
    let registry = poll.registry().try_clone().map_err(refused)?;
    let waker = Waker::new(poll.registry(), WAKER).map_err(refused)?;
    Ok((registry, Arc::new(waker)))
}

fn span(duration: Duration) -> quorate_types::Duration {
    quorate_types::Duration(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identify::{LostDirectory, open_directory};
    use crate::mailbox::Mailbox;
    use crate::{NodeConfig, OtherCode, start};
    use quorate_ordering::ReadId;
    use quorate_storage::{DataDirectory, Identity, Persist};
    use quorate_transport::Places;
    use quorate_types::{Incarnation, ObjectId};
    use std::cell::Cell;
    use std::convert::Infallible;

    /// Reads sockets of which each reading takes `pause`; how often they were read, the time by which what arrived is judged,
    /// and the time when the last reading ended.
    fn read_slowly(pause: Duration) -> (usize, Time, Time) {
        let (begun, reads) = (Time(1_000_000_000), Cell::new(0));
        let clock = Cell::new(begun);
        let read = |_, _| -> Result<(), Infallible> {
            reads.set(reads.get() + 1);
            clock.set(clock.get() + span(pause));
            Ok(())
        };
        let Ok(judged) = read_by(begun, Some(begun), None, || clock.get(), read);
        (reads.get(), judged, clock.get())
    }

    #[test]
    fn what_arrived_is_judged_by_a_clock_that_is_read_after_the_sockets() {
        let (reads, judged, ended) = read_slowly(Duration::from_nanos(1));
        assert_eq!((reads, judged), (1, ended));
        let (reads, judged, ended) = read_slowly(STARVED_AFTER * 2);
        assert_eq!((reads, judged), (2, ended), "it was paused for long");
    }

    /// The only node of a group, which is not the first of its process: that one takes the signals.
    fn assembled(home: &tempfile::TempDir) -> (Node, DataDirectory) {
        let dir = home.path().join("node");
        let text = format!(
            r#"
            cluster = "00000000000000aa"
            group = 1
            name = "other"
            node = 1
            dir = "{}"
            listen = "127.0.0.1:7400"
            persist = "memory"

            [[objects]]
            name = "Number"
            class = "rust:counter"

            [[members]]
            node = 1
            incarnation = "0000000000000009"
            address = "127.0.0.1:7400"
            "#,
            dir.display()
        );
        let config = NodeConfig::parse(&text).expect("it is right");
        let (node, life) = (NodeId(1), Incarnation(9));
        Identity::init(&dir, config.cluster_id(), node, life, Persist::Memory).expect("it is new");
        let mut directory = open_directory(&config, LostDirectory::Refused).expect("it is there");
        let place = || Ok(NodePlace::Other(Arc::new(Mailbox::default())));
        let node = start::assemble(
            &config,
            &mut directory,
            OtherCode::Refused,
            (Places::new(8), place),
        );
        (node.expect("it starts"), directory)
    }

    /// Between two pieces of what its objects catch up with, it reads what others have sent.
    #[test]
    fn a_turn_ends_after_each_piece_of_what_objects_catch_up_with_and_the_next_follows_at_once() {
        let home = tempfile::tempdir().expect("there is room");
        let (mut node, _directory) = assembled(&home);
        node.turn(boot_time()).expect("it goes on");
        node.host.executes_for(Duration::ZERO);
        let pieces = 10;
        for read in 0..pieces {
            let payload = Bytes::from_static(b"no call");
            node.host.query(ReadId(read), ObjectId(0), payload);
        }
        let mut turns = 0;
        while node.host.is_behind() || turns == 0 {
            node.turn(boot_time()).expect("it goes on");
            turns += 1;
            if node.host.is_behind() {
                assert_eq!(node.timeout(None), Some(Duration::ZERO));
            }
        }
        assert_eq!(turns, pieces);
    }

    /// Claim rp-8.
    #[test]
    fn what_objects_say_is_judged_by_a_clock_that_is_read_after_it() {
        let home = tempfile::tempdir().expect("there is room");
        let (mut node, _directory) = assembled(&home);
        node.turn(boot_time()).expect("it goes on");
        let payload = Bytes::from_static(b"no call");
        node.host.query(ReadId(1), ObjectId(0), payload);
        node.host.flush();
        let (begun, now) = (Time(1), boot_time());
        assert!(node.take_host(begun) >= now);
        assert_eq!(node.take_host(begun), begun, "it says nothing more");
    }

    #[test]
    fn a_node_that_stops_performs_first_what_a_turn_left() {
        let home = tempfile::tempdir().expect("there is room");
        let (mut node, _directory) = assembled(&home);
        let now = boot_time();
        node.stop(now);
        node.turn(now).expect("it goes on");
        assert!(node.has_left(now));
        let role = node.role;
        node.outputs.push(Output::Role(role));
        assert!(!node.has_left(now));
        node.turn(now).expect("it goes on");
        assert!(node.has_left(now));
        node.feed(now, Input::Wake);
        assert!(!node.has_left(now));
    }
}
