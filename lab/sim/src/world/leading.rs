//! Tells the checkers of leaders, leases and reads what happens.
//!
//! Each message is told as it leaves a node, each read as its ordering is asked and answers, and who is healthy at each
//! tick. Called by the world's turns and outputs; it changes nothing.

use super::clock::Moment;
use super::judge::{Judge, Judged};
use super::setup::Setup;
use super::stall::Look;
use super::{World, clock::Clock, watched::ReadSeen};
use crate::checkers::Property;
use crate::checkers::agreed_time::AgreedTime;
use crate::checkers::catching_up::CatchingUp;
use crate::checkers::confirmations::{Basis, Confirmations, ReadKey};
use crate::checkers::leadership::{Bounds, Leadership, Majority};
use crate::checkers::leases::Leases;
use crate::checkers::phase_one::choices;
use quorate_acceptor::Testimony;
use quorate_any::AnyMessage;
use quorate_any::paxos::Message;
use quorate_ordering::{LinkState, Ordering};
use quorate_replica::{Input, Output, PeerMessage, ReplicaMessage};
use quorate_types::{Ballot, Batch, Duration, NodeId, NodeSet, OrderingName, Slot, Time, ToClient};
use std::collections::BTreeMap;

/// Beyond its stated time, a leader has this long to find that it is alone.
const STEP_DOWN_SLACK: Duration = Duration::from_millis(10);

/// A healthy majority elects within this many of the longest election timeouts: one of silence, one of an attempt that
/// fails, and the doubled waits of rivals.
const ELECTION_TIMEOUTS: u64 = 5;

/// A healthy majority with a leader of its own decides something within this many of the longest election timeouts while
/// commands wait: what was lost before is sent again after one at most, and what a slow peer holds up after another.
const IDLE_TIMEOUTS: u64 = 4;

/// A healthy majority that has had a leader of its own opens so many ballots more at most: one because that leader meets a
/// ballot that somebody opened before the majority was healthy, and rivals of that one election.
const ELECTIONS: u64 = 4;

/// A leader asks its questions again at each heartbeat: so many are not lost one after another, nor their answers.
const OVERTAKEN_HEARTBEATS: u64 = 6;

/// Ballots whose promises are remembered.
const BALLOTS: usize = 64;

/// The checkers of leaders, leases and reads.
pub(super) struct Leading {
    leases: Leases,
    pub(super) confirmations: Confirmations,
    leadership: Leadership,
    pub(super) catching_up: CatchingUp,
    pub(super) agreed_time: AgreedTime,
    lease: Duration,
    /// Until when on its node's clock each query under a lease may be answered.
    leased: BTreeMap<ReadKey, Time>,
    /// The highest barrier that a read of each node's present life got.
    barriers: BTreeMap<NodeId, Slot>,
    /// By which look at the leader's clock the heartbeats that ask for a lease were made: by ballot and number, in true time.
    beats: BTreeMap<(Ballot, u64), Moment>,
    /// The newest look at its clock that a node's turn was judged by.
    looked: BTreeMap<NodeId, Moment>,
    /// Who promised a ballot.
    promised: BTreeMap<Ballot, NodeSet>,
    /// For so long a leader may confirm later reads while one waits that it asked its predecessor for.
    overtaken: u64,
}

impl Leading {
    /// The promises of a group with this configuration.
    pub(super) fn new(setup: &Setup) -> Leading {
        let timing = &setup.timing;
        let quorums = setup.view().quorums;
        let alone = timing.election_max + timing.heartbeat + timing.heartbeat + STEP_DOWN_SLACK;
        let leaderless = timing.election_max.0 * ELECTION_TIMEOUTS;
        // Where one message may take about as long as a leader may be silent, nodes miss a leader that lives.
        let can_miss_leader = setup.network.slowest().0 * 2 > timing.election_min.0;
        // Where one promise is enough, a node opens a ballot without asking whether others miss the leader too.
        let asks_nobody = quorums.phase1() == 1;
        Leading {
            leases: Leases::default(),
            confirmations: Confirmations::default(),
            leadership: Leadership::new(Bounds {
                alone_ns: alone.0,
                leaderless_ns: leaderless,
                idle_ns: timing.election_max.0 * IDLE_TIMEOUTS,
                elections: if can_miss_leader || asks_nobody {
                    u64::MAX
                } else {
                    // Every acceptor may be a rival in one election, and every node an acceptor.
                    ELECTIONS.max(u64::from(setup.nodes))
                },
            }),
            catching_up: CatchingUp::default(),
            agreed_time: AgreedTime::default(),
            lease: timing.lease,
            leased: BTreeMap::new(),
            barriers: BTreeMap::new(),
            beats: BTreeMap::new(),
            looked: BTreeMap::new(),
            promised: BTreeMap::new(),
            overtaken: timing.heartbeat.0 * OVERTAKEN_HEARTBEATS + setup.network.slowest().0 * 2,
        }
    }

    /// The longest time that a healthy majority was without a leader.
    pub(super) fn leaderless(&self) -> Duration {
        Duration(self.leadership.longest_ns())
    }

    /// Until when in true time a clock is bound by a lease that begins at `from`.
    fn bound_until(&self, clock: &Clock, from: Moment) -> u64 {
        clock.moment_of(clock.boot(from) + self.lease).0
    }

    /// A promise leaves `node`. Once a ballot has a leader, the leases of lower ones have ended: a phase-1 quorum holds
    /// somebody of each set that confirms, and whoever else promises breaks nothing.
    fn promised(&mut self, now: Moment, node: NodeId, ballot: Ballot, needed: usize) -> Judged {
        let promised = self.promised.entry(ballot).or_default();
        let has_leader = promised.len() >= needed;
        promised.insert(node);
        if self.promised.len() > BALLOTS {
            self.promised.pop_first();
        }
        if has_leader {
            return Ok(());
        }
        self.leases.promised(now.0, node, ballot)
    }

    fn said(
        &mut self,
        now: Moment,
        node: NodeId,
        (clock, judge): (&Clock, &Judge),
        message: &AnyMessage,
    ) -> Judged {
        let promises = |ballot: Ballot| judge.governing(ballot.view).phase1;
        // Whoever holds a value answers who lacks it, whatever became of its ballot.
        let is_answer = matches!(message, AnyMessage::Paxos(Message::Fetched(_)));
        match message.testimony() {
            Testimony::AsksLease { ballot, beat, .. } => {
                if self.beats.len() > 4096 {
                    self.beats.pop_first();
                }
                // The leader counts its lease from the clock that it had read, however long it stood still then.
                let asked = self.looked.get(&node).copied().unwrap_or(now);
                self.beats.entry((ballot, beat)).or_insert(asked);
                let until = self.bound_until(clock, asked);
                self.leases.granted(now.0, node, ballot, until);
                self.leases.leads(ballot);
                return self.leadership.spoke(now.0, node, ballot);
            }
            Testimony::GrantsLease { ballot, beat } => {
                if let Some(asked) = self.beats.get(&(ballot, beat)) {
                    let until = self.bound_until(clock, *asked);
                    self.leases.granted(now.0, node, ballot, until);
                }
            }
            Testimony::Opens { ballot } => {
                return self.promised(now, node, ballot, promises(ballot));
            }
            Testimony::Promises(page) => {
                return self.promised(now, node, page.ballot, promises(page.ballot));
            }
            Testimony::AsksConfirm { ballot, epoch } => {
                self.confirmations.opened(now.0, ballot, epoch);
                return self.leadership.spoke(now.0, node, ballot);
            }
            Testimony::Passes { ballot, .. } | Testimony::PassesId { ballot, .. }
                if ballot.node != node || is_answer => {}
            Testimony::Leads { ballot, .. }
            | Testimony::Proposes { ballot, .. }
            | Testimony::ProposesNamed { ballot, .. }
            | Testimony::PassesId { ballot, .. }
            | Testimony::Passes { ballot, .. } => {
                self.leases.leads(ballot);
                return self.leadership.spoke(now.0, node, ballot);
            }
            Testimony::Confirms { ballot, epoch } => {
                self.confirmations.confirmed(node, ballot, epoch);
            }
            Testimony::Attests { ballot, read } => {
                self.confirmations.announced.attested(node, ballot, read);
            }
            Testimony::Nothing
            | Testimony::AsksPreVote { .. }
            | Testimony::AnswersPreVote { .. }
            | Testimony::Surveys { .. }
            | Testimony::Surveyed { .. }
            | Testimony::Votes { .. }
            | Testimony::Gathers { .. }
            | Testimony::ProposesValue { .. }
            | Testimony::Spreads { .. }
            | Testimony::AsksDecided { .. }
            | Testimony::TellsDecided { .. } => {}
        }
        Ok(())
    }
}

impl World {
    /// A node lets a message out.
    pub(super) fn watch_message(
        &mut self,
        id: NodeId,
        to: NodeSet,
        message: &PeerMessage<AnyMessage>,
    ) {
        let message = match message {
            PeerMessage::Ordering { message, .. } => message,
            PeerMessage::Replica(ReplicaMessage::Fetch { .. }) => {
                return self.leading.catching_up.fetches(id);
            }
            PeerMessage::Replica(_) => return,
        };
        match message.testimony() {
            Testimony::AsksDecided { from } => {
                for peer in to.iter() {
                    self.leading.catching_up.asked(id, peer, from);
                }
            }
            Testimony::Opens { ballot } => {
                if self.judge.governing(ballot.view).ordering == OrderingName::FastPaxos {
                    self.leading.leadership.renews(ballot);
                }
                self.leading.leadership.opened(ballot);
                self.leading.catching_up.knows(id, ballot);
            }
            Testimony::AsksLease { ballot, .. } | Testimony::Leads { ballot, .. } => {
                let floor = self.judge.floor(ballot);
                self.leading.catching_up.leads(id, ballot, floor);
            }
            _ => {}
        }
        let (now, clock) = (self.now, self.nodes[&id].clock);
        let judged = self.leading.said(now, id, (&clock, &self.judge), message);
        self.judged(judged);
    }

    /// A node is about to handle what has arrived.
    pub(super) fn watch_inbox(&mut self, id: NodeId, inbox: &[Input<AnyMessage>]) {
        let decided = self.decided_at(id);
        let applied = self.applied_at(id);
        self.judge.knows(id, decided);
        let view = self.harm.views.view_of(id);
        let (now, leading) = (self.now.0, &mut self.leading);
        for input in inbox {
            match input {
                Input::Peer {
                    from,
                    link,
                    message,
                } => {
                    leading.leadership.heard(now, id, *from);
                    if matches!(message, PeerMessage::Replica(ReplicaMessage::Clock { .. })) {
                        leading.agreed_time.told(id, *from, *link);
                    }
                    self.judge.arrived(id, *from, message);
                    leading.catching_up.hears(id, *from, message, view);
                }
                Input::Link { peer, state } => match state {
                    LinkState::Up(epoch) => {
                        leading.catching_up.linked(id, *peer);
                        leading.agreed_time.linked(id, *peer, *epoch);
                    }
                    LinkState::Down => {
                        leading.catching_up.unlinked(id, *peer);
                        leading.agreed_time.unlinked(id, *peer);
                    }
                },
                // Whose objects had come as far already asks for the slots, not at once.
                Input::Installed { core, .. } if core.slot > decided.max(applied) => {
                    leading.catching_up.went_on(id);
                }
                _ => {}
            }
        }
    }

    /// A node has done all that follows from what it handled.
    pub(super) fn watch_settled(&mut self, id: NodeId) {
        if !self.leading.catching_up.owes(id) {
            return;
        }
        if let Some(running) = &self.nodes[&id].running {
            let decided = running.replica.ordering().decided();
            let judged = self.leading.catching_up.settled(id, decided);
            self.judged(judged);
        }
    }

    /// The last slot that a node's replica has applied.
    fn applied_at(&self, id: NodeId) -> Slot {
        let running = self.nodes[&id].running.as_ref();
        running.map_or(Slot::ZERO, |running| running.replica.status().applied)
    }

    /// The end of the prefix that a node knows to be decided.
    fn decided_at(&self, id: NodeId) -> Slot {
        let running = self.nodes[&id].running.as_ref();
        running.map_or(Slot::ZERO, |running| running.replica.ordering().decided())
    }

    /// A node takes over a snapshot.
    pub(super) fn watch_installed(&mut self, id: NodeId, slot: Slot) {
        self.leading.catching_up.installed(id, slot);
    }

    /// A node decides a slot: if it had proposed another value there, it must lead no more.
    pub(super) fn watch_decided(&mut self, id: NodeId, slot: Slot, batch: &Batch) {
        for ballot in self.judge.proposed_otherwise(id, slot, batch) {
            self.leading.leadership.superseded(self.now.0, ballot);
        }
    }

    /// A node that promised a ballot in an earlier life starts.
    pub(super) fn watch_started(&mut self, id: NodeId, promised: Ballot) {
        self.leading.catching_up.knows(id, promised);
        let governing = self.judge.governing(promised.view);
        if promised > Ballot::ZERO && governing.ordering != OrderingName::FastPaxos {
            let until = self.leading.bound_until(&self.nodes[&id].clock, self.now);
            self.leading.leases.started(id, promised, until);
        }
    }

    /// A node has handled everything that had arrived, by this look at its clock.
    pub(super) fn watch_turn(&mut self, id: NodeId, look: Look, out: &[Output<AnyMessage>]) {
        self.leading.looked.insert(id, look.at);
        let node = &self.nodes[&id];
        let (clock, life) = (node.clock, node.life);
        let Some(running) = &node.running else {
            return;
        };
        let reads = std::mem::take(&mut running.seen.borrow_mut().reads);
        let ballot = running.leads();
        self.watch_queries(id, &reads, out);
        let view = ballot.map_or_else(|| self.judge.newest_view(), |ballot| ballot.view);
        let governing = self.judge.governing(view);
        let quorum = (governing.acceptors, governing.phase2 - 1);
        let claimed = self
            .leading
            .leadership
            .claims(look.at.0, id, ballot, quorum);
        self.judged(claimed);
        let leading = &self.leading;
        let rounds = reads.iter().filter_map(|read| match read {
            ReadSeen::Answered(read, _, _, None) => {
                leading.confirmations.arrived_at((id, life, read.0))
            }
            ReadSeen::Answered(..) | ReadSeen::Asked(..) | ReadSeen::GivenUp(_) => None,
        });
        let answered: Vec<u64> = rounds.collect();
        for read in reads {
            self.watch_read((id, life), (&clock, look), ballot, read);
        }
        let (now, within) = (self.now.0, self.leading.overtaken);
        let leading = &mut self.leading.confirmations;
        let judged = leading.led(now, id, ballot, &answered, within);
        self.judged(judged);
    }

    /// A node hands queries to its objects in a turn in which only leases answered reads, and no earlier read waits: those of
    /// clients that want a lease's answer may be answered until the lease ends.
    fn watch_queries(&mut self, id: NodeId, reads: &[ReadSeen], out: &[Output<AnyMessage>]) {
        let life = self.nodes[&id].life;
        let executed = self.nodes[&id].running.as_ref();
        let executed = executed.map_or(Slot::ZERO, |running| running.replica.executed_upto());
        let waited = self.leading.barriers.get(&id).copied().unwrap_or_default();
        let mut ends = None;
        let mut is_clear = waited <= executed;
        for read in reads {
            if let ReadSeen::Answered(_, _, barrier, until) = read {
                let newest = self.leading.barriers.entry(id).or_default();
                *newest = (*newest).max(*barrier);
                is_clear &= until.is_some() && *barrier <= executed;
                ends = ends.max(*until);
            }
        }
        let Some(until) = ends.filter(|_| is_clear) else {
            return;
        };
        for output in out {
            if let Output::Query { read, .. } = output {
                self.leading.leased.insert((id, life, read.0), until);
            }
        }
    }

    /// A node is about to handle an input at a time of its clock: says when the lease of the read ended that the objects answer
    /// with it, if that is past.
    pub(super) fn watch_queried(
        &mut self,
        id: NodeId,
        time: Time,
        input: &Input<AnyMessage>,
    ) -> Option<Time> {
        let Input::Queried { read, .. } = input else {
            return None;
        };
        let key = (id, self.nodes[&id].life, read.0);
        let until = self.leading.leased.remove(&key)?;
        (time >= until).then_some(until)
    }

    /// A node answers reads after the lease of their query had ended: none of them may be of a client that wants a lease's answer.
    pub(super) fn judge_late(&mut self, id: NodeId, until: Time, out: &[Output<AnyMessage>]) {
        for output in out {
            let Output::Reply {
                to,
                message: ToClient::Read { request, .. },
            } = output
            else {
                continue;
            };
            if self.wants_lease(*to, *request) {
                let detail = format!("{id} answers a read under a lease that ended at {until:?}");
                self.blame(Property::Lease, detail);
            }
        }
    }

    /// A node answers reads at a time of its clock: what it says of the age of any state holds.
    pub(super) fn watch_ages(&mut self, id: NodeId, time: Time, out: &[Output<AnyMessage>]) {
        for output in out {
            let Output::Reply {
                to,
                message:
                    ToClient::Read {
                        request, slot, age, ..
                    },
            } = output
            else {
                continue;
            };
            if self.wants_any(*to, *request) {
                let at = self.nodes[&id].clock.moment_of(time);
                let judged = self.judge.ages.answered(at.0, *slot, age.0);
                self.judged(judged);
            }
        }
    }

    fn watch_read(
        &mut self,
        (id, life): (NodeId, u64),
        (clock, look): (&Clock, Look),
        ballot: Option<Ballot>,
        read: ReadSeen,
    ) {
        let now = self.now.0;
        let judge = &self.judge;
        let confirm = |view| judge.governing(view).confirm() - 1;
        let leading = &mut self.leading;
        let judged = match read {
            ReadSeen::Asked(read, name) => {
                leading
                    .confirmations
                    .arrived(now, (id, life, read.0), name, look.decided);
                Ok(())
            }
            ReadSeen::GivenUp(read) => {
                leading.confirmations.given_up((id, life, read.0));
                Ok(())
            }
            ReadSeen::Answered(read, view, barrier, until) => {
                let key = (id, life, read.0);
                if judge.last_slot(view) == Some(barrier) {
                    // The next view may have decided more: it is asked again there.
                    return leading.confirmations.given_up(key);
                }
                let basis = match until {
                    None => Basis::Round(view, confirm(view)),
                    Some(_) => Basis::Lease,
                };
                let answered = leading.confirmations.answered(key, barrier, basis);
                answered.and_then(|()| leading.leased(clock, ballot, until, confirm(view)))
            }
        };
        self.judged(judged);
    }

    /// A node's life has ended.
    pub(super) fn watch_death(&mut self, id: NodeId) {
        self.leading.leadership.died(id);
        self.leading.confirmations.died(id);
        self.leading.leased.retain(|(node, ..), _| *node != id);
        self.leading.barriers.remove(&id);
        self.leading.catching_up.died(id);
        self.leading.agreed_time.died(id);
    }

    /// Looks at which majorities are healthy, and whether they have a leader.
    pub(super) fn watch_health(&mut self) {
        // Who has not come to the view yet needs the slots of the one before, of which others may be the acceptors.
        let view = self.harm.views.newest();
        let governing = *self.judge.governing(view);
        let healthy = governing.acceptors.iter();
        let healthy = healthy.filter(|id| self.harm.views.view_of(*id) == view);
        let healthy: Vec<NodeId> = healthy.filter(|id| self.is_healthy(*id)).collect();
        let size = governing.phase1.max(governing.phase2);
        let mut majorities = Vec::new();
        for nodes in choices(&healthy, size) {
            let can_lead = nodes.iter().any(|id| governing.replicas.contains(*id));
            if let Some(health) = self.health_of(&nodes).filter(|_| can_lead) {
                let set: NodeSet = nodes.iter().copied().collect();
                majorities.push(Majority {
                    nodes: set,
                    health,
                    is_led: self.is_led(set, governing.phase2),
                    leads_itself: nodes.iter().any(|id| self.leads(*id)),
                    has_work: nodes.iter().any(|id| self.has_unsettled(*id))
                        && !self.lacks_state(&nodes),
                });
            }
        }
        let decided = self.judge.last_decided();
        let leadership = &mut self.leading.leadership;
        let judged = leadership.looked(self.now.0, &majorities, decided);
        self.judged(judged);
    }

    pub(super) fn leads(&self, id: NodeId) -> bool {
        let running = self.nodes[&id].running.as_ref();
        running.is_some_and(|running| running.leads().is_some())
    }

    /// Commands wait here for their decision or refusal.
    fn has_unsettled(&self, id: NodeId) -> bool {
        let running = self.nodes[&id].running.as_ref();
        running.is_some_and(|running| !running.seen.borrow().unsettled.is_empty())
    }

    /// Its process, disk and memory are as they should be.
    fn is_healthy(&self, id: NodeId) -> bool {
        let node = &self.nodes[&id];
        let is_undisturbed = node.is_awake() && node.slow == Duration::ZERO && node.doom.is_none();
        // Of a slot whose record is lost, others must be witnesses: two such nodes may need the third.
        let running = node.running.as_ref();
        let is_whole = running.is_some_and(|running| !running.storage.log.is_damaged());
        let view = running.map(|running| running.replica.view().number);
        let remembers = view.is_some_and(|view| self.judge.remembers(id, view));
        is_undisturbed && node.full == 0 && remembers && is_whole
    }

    /// A number that stays as long as the nodes live on and the links between them stay up and undisturbed.
    fn health_of(&self, nodes: &[NodeId]) -> Option<u64> {
        let mut health = 0;
        for (index, one) in nodes.iter().enumerate() {
            health += self.nodes[one].life;
            for other in &nodes[index + 1..] {
                let is_clear = |from, to| self.network.is_clear(self.now, from, to);
                if !is_clear(*one, *other) || !is_clear(*other, *one) {
                    return None;
                }
                health += self.network.epoch(*one, *other)?.0 << 16;
            }
        }
        Some(health)
    }

    /// Somebody leads who reaches enough nodes to decide, which are `size`, some of these among them.
    fn is_led(&self, nodes: NodeSet, size: usize) -> bool {
        let acceptors = self.acceptors();
        acceptors.iter().any(|leader| {
            let node = &self.nodes[&leader];
            let leads = node.running.as_ref().and_then(|running| running.leads());
            let reaches = |other: &NodeId| {
                *other != leader
                    && self.nodes[other].is_awake()
                    && self.network.epoch(leader, *other).is_some()
                    && self.network.is_open(leader, *other)
                    && self.network.is_open(*other, leader)
            };
            let reached = acceptors.iter().filter(reaches).count();
            let is_near = nodes.contains(leader) || nodes.iter().any(|other| reaches(&other));
            leads.is_some() && node.is_awake() && is_near && reached + 1 >= size
        })
    }
}

impl Leading {
    /// A read of the leader of `ballot` is answered, under a lease until some time on its clock.
    fn leased(
        &self,
        clock: &Clock,
        ballot: Option<Ballot>,
        until: Option<Time>,
        needed: usize,
    ) -> Judged {
        let (Some(ballot), Some(until)) = (ballot, until) else {
            return Ok(());
        };
        let until = clock.moment_of(until).0.saturating_sub(1);
        self.leases.served(ballot, until, needed)
    }
}
