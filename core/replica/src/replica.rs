//! The replica: its state, and the dispatch of inputs.
//!
//! The node calls [`Replica::handle`] with each input and performs the outputs in order. The sibling
//! files handle the inputs, one idea each; nothing here knows a protocol.

use crate::decided::FreedReplies;
use crate::local::agreement::{Agreement, SnapshotReport};
use crate::local::clocks::Clocks;
use crate::local::collecting::Collecting;
use crate::local::connections::Connections;
use crate::local::currency::Currency;
use crate::local::disconnects::Disconnects;
use crate::local::drift::Drift;
use crate::local::expiry::Expiry;
use crate::local::fetch::Fetch;
use crate::local::instances::{Instances, ViewPasts};
use crate::local::internal::Internals;
use crate::local::levels::SpokenLevels;
use crate::local::line::PlaceLine;
use crate::local::no_say::NoSay;
use crate::local::opens::Opener;
use crate::local::poison::{EarlierDeaths, EarlierLives, OwnPoison};
use crate::local::quarantine::ObjectsStanding;
use crate::local::reads::Reads;
use crate::local::rejoining::Rejoining;
use crate::local::serving::Serving;
use crate::local::signs::Signs;
use crate::local::storage::Storage;
use crate::local::ticks::Ticks;
use crate::local::view_change::ViewWait;
use crate::local::waiting::Waiting;
use crate::objects::outcomes::Outcomes;
use crate::objects::pipeline::Pipeline;
use crate::objects::snapshots::Checkpoints;
use crate::objects::speculation::{Speculated, Speculation};
use crate::replicated::Replicated;
use crate::replicated::kept::KeptAfter;
use crate::{Input, Output, PeerMessage, Quarantine, ReplicaConfig, SnapshotCore};
use quorate_ordering::{Effects, Event, LinkState, Mark, Ordering, Role};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{
    CallPlace, Command, ConnectionId, Digest, FromClient, MemberRole, NodeId, NodeSet, SecretHash,
    SessionId, Slot, Time, Wall,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A snapshot that a restarted node found, and whose state the objects have already.
#[derive(Clone, PartialEq, Debug)]
pub struct Recovered {
    /// The replica's part of the snapshot.
    pub core: SnapshotCore,
    /// Digest of the objects' state by value.
    pub digest: [u8; 32],
    /// Bytes of the whole image.
    pub bytes: u64,
    /// The agreed time at which the objects have something to do first.
    pub due: Option<Wall>,
}

/// What a node has kept from before its restart.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Remembered {
    /// The snapshot to start from; its objects have that state.
    pub snapshot: Option<Recovered>,
    /// The other whole snapshots on its disk.
    pub others: Vec<SnapshotReport>,
    /// The newest snapshot for which its log was trimmed, and what a majority held in it.
    pub agreed: Option<(Slot, Digest)>,
    /// Whether its objects may answer.
    pub quarantine: Option<Quarantine>,
    /// Calls that earlier starts may have executed.
    pub earlier: EarlierLives,
    /// Calls at which the hosts of earlier starts died for good.
    pub died: EarlierDeaths,
    /// What its log has of other views than that of the ordering it begins with.
    pub views: ViewPasts,
}

/// Executes what an [`Ordering`] decides, at most once, and answers clients.
#[derive(Debug)]
pub struct Replica<O: Ordering> {
    pub(crate) config: ReplicaConfig,
    pub(crate) instances: Instances<O>,
    pub(crate) view_waits: Vec<ViewWait>,
    pub(crate) rejoining: Rejoining,
    pub(crate) levels: SpokenLevels,
    /// Peers that do not vote, as they say.
    pub(crate) observers: NodeSet,
    pub(crate) role: Role,
    pub(crate) replicated: Replicated,
    /// The slot last reported to the ordering as executed.
    pub(crate) reported: Slot,
    pub(crate) pipeline: Pipeline,
    pub(crate) speculation: Speculation,
    pub(crate) freed: FreedReplies,
    pub(crate) waiting: Waiting,
    pub(crate) connections: Connections,
    /// Clients that wait for a session, by the hash of their secret.
    pub(crate) opens: BTreeMap<SecretHash, Opener>,
    /// Clients that wait for a place in the table of sessions.
    pub(crate) line: PlaceLine,
    /// Sessions whose end is being ordered at their client's request.
    pub(crate) closes: BTreeSet<SessionId>,
    pub(crate) internals: Internals,
    pub(crate) reads: Reads,
    pub(crate) expiry: Expiry,
    pub(crate) disconnects: Disconnects,
    pub(crate) signs: Signs,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) agreement: Agreement,
    pub(crate) collecting: Collecting,
    pub(crate) quarantine: ObjectsStanding,
    pub(crate) no_say: NoSay,
    /// The newest write; none in memory mode.
    pub(crate) written: Mark,
    /// The newest write that is durable.
    pub(crate) durable: Mark,
    pub(crate) drift: Drift,
    pub(crate) clocks: Clocks,
    pub(crate) fetch: Fetch,
    pub(crate) serving: Serving,
    /// Commands of this turn, submitted at its end.
    pub(crate) turn: Vec<Command>,
    /// Since when the own host does not work.
    pub(crate) host_down_at: Option<Time>,
    pub(crate) is_draining: bool,
    pub(crate) storage: Storage,
    pub(crate) own_poison: OwnPoison,
    pub(crate) ticks: Ticks,
    pub(crate) currency: Currency,
    /// Events for the ordering, raised while its effects were routed.
    pub(crate) events: VecDeque<Event<O::Message>>,
    pub(crate) effects: Effects<O::Message>,
}

impl<O: Ordering> Replica<O> {
    /// Makes a replica over `ordering`, which has read its own log. The outputs must be performed like
    /// those of [`Replica::handle`].
    // Longer than a screen: one line a field.
    pub fn new(
        config: ReplicaConfig,
        ordering: O,
        remembered: Remembered,
        now: Time,
    ) -> (Replica<O>, Vec<Output<O::Message>>) {
        let role = ordering.status().role;
        let first = remembered.snapshot.as_ref();
        let first = first.map_or(&config.view, |recovered| &recovered.core.view);
        let nodes = first.nodes();
        let mut replica = Replica {
            role,
            replicated: Replicated::new(config.sessions_max, config.kept, config.view.clone()),
            reported: Slot::ZERO,
            pipeline: Pipeline::default(),
            speculation: Speculation::default(),
            freed: FreedReplies::default(),
            waiting: Waiting::default(),
            connections: Connections::default(),
            opens: BTreeMap::new(),
            line: PlaceLine::default(),
            closes: BTreeSet::new(),
            internals: Internals::new(config.own, config.boot),
            reads: Reads::default(),
            expiry: Expiry::new(config.boot),
            disconnects: Disconnects::default(),
            signs: Signs::new(now, Slot::ZERO),
            checkpoints: Checkpoints::default(),
            agreement: Agreement::default(),
            collecting: Collecting::default(),
            quarantine: ObjectsStanding::default(),
            no_say: NoSay::default(),
            written: Mark::default(),
            durable: Mark::default(),
            drift: Drift::default(),
            clocks: Clocks::default(),
            fetch: Fetch::default(),
            serving: Serving::default(),
            turn: Vec::new(),
            host_down_at: None,
            is_draining: false,
            storage: Storage::default(),
            own_poison: OwnPoison::new(&remembered),
            currency: Currency::default(),
            ticks: Ticks::default(),
            events: VecDeque::new(),
            effects: Effects::new(),
            levels: SpokenLevels::new(first.level, &remembered.views),
            instances: Instances::new((ordering, nodes), remembered.views),
            view_waits: Vec::new(),
            rejoining: Rejoining::default(),
            observers: NodeSet::empty(),
            config,
        };
        let mut out = Vec::new();
        let snapshot = remembered.snapshot;
        if let Some(recovered) = &snapshot {
            replica.restore(&recovered.core);
            replica.ticks.told(recovered.due);
            let (slot, digest) = (recovered.core.slot, recovered.core.replies_digest);
            replica.pipeline.outcomes = Outcomes::after(slot, digest);
        }
        replica.recover_views(now, remembered.agreed, &mut out);
        replica.agreement.find(remembered.others);
        replica.resume_quarantine(now, remembered.quarantine, &mut out);
        if let Some((slot, digest)) = remembered.agreed {
            replica.agreement.collected(slot, digest);
            replica.agreed(now, slot, digest, &mut out);
        }
        if let Some(recovered) = snapshot {
            let digest = Digest {
                replicated: recovered.core.digest(),
                state: recovered.digest,
            };
            let report = SnapshotReport {
                slot: recovered.core.slot,
                digest,
                bytes: recovered.bytes,
            };
            replica.shows_at_reset(now, report.slot, digest, &mut out);
            // A log that begins after this slot does not show that the snapshot is agreed: it begins there too when all of
            // it was lost. Only what the log says of agreed snapshots counts.
            replica.report_snapshot(now, report, &mut out);
        }
        replica.begin_term(now, role);
        if replica.replicated.applied == Slot::ZERO {
            // The ordering must know where the replica begins, because its log may begin later.
            replica.raise(Event::Executed { slot: Slot::ZERO });
        }
        replica.settle(now, &mut out);
        (replica, out)
    }

    /// Handles one input completely; outputs are appended to `out`.
    pub fn handle(
        &mut self,
        now: Time,
        input: Input<O::Message>,
        out: &mut Vec<Output<O::Message>>,
    ) {
        match input {
            Input::Client { from, message } => return self.asked(now, from, message, out),
            Input::Disconnected { connection, by } => self.disconnected(now, connection, by),
            Input::Peer {
                from,
                link,
                message,
            } => match message {
                PeerMessage::Ordering { view, message } => {
                    let event = Event::Receive {
                        from,
                        link,
                        view,
                        message,
                    };
                    self.order(now, event, out);
                }
                PeerMessage::Replica(message) => self.peer(now, (from, link), message, out),
            },
            Input::Greeted { peer, boot, levels } => self.levels.told(peer, boot, levels),
            Input::Link { peer, state } => self.link_changed(now, peer, state, out),
            Input::Persisted { mark } => self.persisted(now, mark, out),
            Input::Executed { slot, results } => self.executed(slot, results, out),
            Input::Undone { after } => self.undone(after),
            Input::Due { at } => self.due_told(at),
            Input::Queried { read, outcome } => self.queried(now, read, outcome, out),
            Input::SnapshotTaken {
                slot,
                digest,
                bytes,
            } => self.snapshot_taken(now, slot, digest, bytes, out),
            Input::SnapshotFailed { slot } => self.checkpoints.failed(slot),
            Input::Installed {
                core,
                digest,
                bytes,
            } => self.installed(now, &core, digest, bytes, out),
            Input::InstallFailed { slot } => self.install_failed(now, slot, out),
            Input::Host { is_up } => {
                if is_up {
                    self.host_down_at = None;
                    self.host_works();
                } else {
                    self.host_down_at.get_or_insert(now);
                }
            }
            Input::HostDied { slot, index } => self.host_died(now, CallPlace { slot, index }),
            Input::Storage { room } => self.room_changed(room, out),
            Input::Checkpoint => self.want_checkpoint(),
            Input::Drain => self.drain(now, out),
            Input::TurnEnd { wall, entropy } => self.end_turn(now, wall, entropy, out),
            Input::Wake => self.wake(now, out),
        }
        self.settle(now, out);
    }

    /// A call waits for the end of the turn: it makes nothing ready that was not.
    fn asked(
        &mut self,
        now: Time,
        from: ConnectionId,
        message: FromClient,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let is_call = matches!(message, FromClient::Call { .. });
        self.client(now, from, message, out);
        if !is_call {
            self.settle(now, out);
        }
    }

    fn link_changed(
        &mut self,
        now: Time,
        peer: NodeId,
        state: LinkState,
        out: &mut Vec<Output<O::Message>>,
    ) {
        match state {
            LinkState::Up(_) => {
                self.repeat_report(NodeSet::only(peer), out);
                self.clocks.tell_again();
            }
            LinkState::Down => {
                self.levels.unlinked(peer);
                self.clocks.unlinked(peer);
            }
        }
        self.drift.link_changed(peer);
        self.no_say.link_changed(peer);
        self.fetch_link_changed(now, peer, state, out);
        self.order(now, Event::Link { peer, state }, out);
    }

    fn drain(&mut self, now: Time, out: &mut Vec<Output<O::Message>>) {
        self.is_draining = true;
        if planted(Plant::ShutdownTakenForDeath) {
            let sessions = self.connections.sessions();
            self.closed_by_client(now, &sessions);
        }
        let to = self.successors();
        self.order(now, Event::TransferLeadership { to }, out);
    }

    fn persisted(&mut self, now: Time, mark: Mark, out: &mut Vec<Output<O::Message>>) {
        self.durable = mark;
        self.order(now, Event::Persisted { mark }, out);
    }

    fn end_turn(&mut self, now: Time, wall: Wall, entropy: u64, out: &mut Vec<Output<O::Message>>) {
        // Before this turn trims: what was trimmed until here has reached the log.
        self.tend_note(out);
        self.tend_disconnects(now, out);
        self.tend_sessions(now);
        self.tend_attendance(now, out);
        self.tend_notes(now, out);
        self.tend_collected(now, out);
        self.tend_trim();
        self.tend_views(now);
        self.tend_levels();
        self.tend_rejoin(now);
        self.tend_rounds(now);
        self.tend_log(now);
        self.tend_poison(now, out);
        self.tend_quarantine(now);
        self.tend_reset(now, out);
        self.tend_missed();
        self.tend_drift(now, out);
        self.ask_for_reads(now, out);
        self.leave_to_who_has_room();
        let wall = self.clock(now, wall, out);
        self.tend_ticks(now, wall);
        if !self.turn.is_empty() {
            // The next turn will bring about as many.
            let next = Vec::with_capacity(self.turn.len());
            let commands = std::mem::replace(&mut self.turn, next);
            self.order(now, Event::Submit { commands }, out);
        }
        self.order(now, Event::TurnEnd { wall, entropy }, out);
    }

    fn wake(&mut self, now: Time, out: &mut Vec<Output<O::Message>>) {
        self.tend_rounds(now);
        for place in 0..self.instances.len() {
            if self.instances.is_due(place, now) {
                self.at_instance(now, place, Event::Wake, out);
            }
        }
        self.tend_fetch(now, out);
        self.tend_reports(now, out);
    }

    /// When [`Input::Wake`] is due, if at all. A turn end follows it like every other input.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        let mut earliest = self.instances.next_wake();
        for due in [
            self.reads.next_wake(),
            self.expiry.next_wake(self.replicated.sessions.len()),
            self.disconnects.next_wake(),
            self.agreement.next_wake(),
            self.checkpoints.next_wake(),
            self.quarantine.next_wake(),
            self.drift_due_at(),
            self.fetch.next_wake(),
            self.own_poison.next_wake(),
            self.ticks.next_wake(),
            self.host_given_up_at(),
            self.speculation.next_wake(),
        ] {
            earliest = Time::earlier(earliest, due);
        }
        earliest
    }

    /// At a start: what is left to do for the view before the one in force.
    fn recover_views(
        &mut self,
        now: Time,
        agreed: Option<(Slot, Digest)>,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let views = self.replicated.views.clone();
        let last = views.current().first_slot.previous();
        let is_needed = agreed.is_none_or(|(slot, _)| slot < last);
        if let Some(view) = views.previous().filter(|_| is_needed)
            && self
                .instances
                .open_previous(now, (view, last), self.standing_in(view))
        {
            self.at_instance(now, 0, Event::Close { last }, out);
            self.at_instance(now, 0, Event::Over, out);
        }
        self.instances.forget_before(views.current().number);
        if self.instances.begin_current() {
            self.begin_view(views.current(), out);
        }
    }

    /// The leader, as far as this node knows.
    pub(crate) fn leader(&self) -> Option<NodeId> {
        self.role.leader(self.config.own)
    }

    /// Takes over a snapshot's part of the state, for slots that were not applied one by one.
    pub(crate) fn restore(&mut self, core: &SnapshotCore) {
        assert!(
            core.slot > self.replicated.applied,
            "a replica never goes back"
        );
        let config = &self.config;
        let told = (core, &config.view);
        self.replicated = Replicated::restored(config.sessions_max, config.kept, told);
    }

    /// Whether this node executes calls at all. One that the view does not name yet does: the view that names it counts on that.
    pub(crate) fn is_replica(&self) -> bool {
        let (view, own) = (self.view(), self.config.own);
        let is_counted = view.replicas.contains(own) || view.member(own).is_none();
        self.config.role == MemberRole::Replica && is_counted || planted(Plant::WitnessExecutes)
    }

    /// All other replicas of the view.
    pub(crate) fn other_replicas(&self) -> NodeSet {
        self.view().replicas.without(self.config.own)
    }

    /// The highest slot whose calls, and those of all before, the objects have executed. The next start of
    /// this node gets it as [`Remembered::earlier`].
    #[must_use]
    pub fn executed_upto(&self) -> Slot {
        self.pipeline.executed(self.replicated.applied)
    }

    /// The large replies that sessions keep once the newest slot is executed that this start has executed: for whoever compares
    /// replicas. `None` before the first one, and since a state was fetched.
    #[must_use]
    pub fn kept_after(&self) -> Option<KeptAfter> {
        self.replicated.kept.after()
    }

    /// How often the objects went ahead of decisions.
    #[must_use]
    pub fn speculated(&self) -> Speculated {
        self.speculation.counted()
    }

    /// A start that begins with the state of this slot or a later one needs to know nothing of those before this start. `None` while
    /// this start does not know it itself, or knew all.
    #[must_use]
    pub fn earlier_starts_end(&self) -> Option<Slot> {
        self.own_poison.kept_at()
    }

    /// The slot of this node's newest snapshot that is agreed: older ones are of use only to peers that are fetching them.
    #[must_use]
    pub fn agreed_snapshot(&self) -> Slot {
        self.agreement.kept()
    }

    /// The lowest slot whose snapshot helps, while the objects wait for one.
    #[must_use]
    pub fn awaited_snapshot(&self) -> Option<Slot> {
        self.fetch.needed()
    }

    /// The ordering protocol's instance, for questions of the owner.
    pub fn ordering(&self) -> &O {
        self.instances.current()
    }

    /// Panics when an invariant is broken here or in the ordering below.
    pub fn check(&self) {
        self.instances.check();
        self.replicated.check();
        self.waiting.check();
        self.line.check();
        self.reads.check();
        self.pipeline.check(self.replicated.applied);
        self.speculation.check();
        let leads = matches!(self.role, Role::Leader { .. });
        assert!(
            !leads || self.is_replica() || planted(Plant::WitnessLeads),
            "who leads executes"
        );
        assert!(self.reported <= self.replicated.applied);
        assert!(self.events.is_empty(), "settled before returning");
    }
}
