//! The status of a node: one document for `/status`, for status frames and for metrics.

use crate::clock::wall_time;
use crate::drift::DriftStatus;
use crate::groups::GroupStatus;
use crate::journal::Journal;
use crate::limits::{CURRENT_WITHIN, TRIM_WAIT_TOLD};
use crate::limits_status::LimitsStatus;
use crate::multicasting::MulticastReport;
use crate::node::Node;
use crate::observing::Observing;
use crate::poison_call::PoisonCallStatus;
use crate::quarantine_file::hex;
use crate::rounds::RoundsReport;
use crate::stuck_call::StuckCallStatus;
use bytes::Bytes;
use quorate_ordering::Role;
use quorate_replica::{TrimHindrance, TrimWait};
use quorate_types::{
    FastQuorums, GroupId, Incarnation, Level, Member, NodeId, ObjectSpec, OrderingName,
    Persistence, QuorumRule, Quorums, Time, View,
};
use serde::{Deserialize, Serialize};

/// The facts about a node that never change while it runs.
#[derive(Clone, Debug)]
pub(crate) struct OwnIdentity {
    pub(crate) group: GroupId,
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
    pub(crate) boot: u64,
    pub(crate) view: View,
    /// The first digits of the hash of the objects' code, if their host told it.
    pub(crate) code: Option<String>,
    /// Why this start did not vote when it began.
    pub(crate) observing: Option<Observing>,
    /// The incarnation whose promises and votes this directory has, all of them.
    pub(crate) votes_as: Option<Incarnation>,
    pub(crate) started: Time,
}

/// The status document of one node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its number.
    pub id: u16,
    /// Its process.
    pub pid: u32,
    /// The group.
    pub group: u32,
    /// The view in force.
    pub view: ViewStatus,
    /// The leader, as far as the node knows.
    pub leader: Option<u16>,
    /// `leader`, `acceptor`, `replica`, `observer`.
    pub roles: Vec<String>,
    /// Why an acceptor of the view does not vote, and what to do; `None` for one that votes.
    pub observes: Option<String>,
    /// The highest ballot promised, as `bROUND.NODE.BOOT`.
    pub ballot: String,
    /// Highest slot of the decided prefix.
    pub decided: u64,
    /// Highest executed slot.
    pub executed: u64,
    /// Slot of the newest durable snapshot.
    pub snapshot: u64,
    /// What that snapshot holds: two hashes in hexadecimal digits.
    #[serde(default)]
    pub snapshot_digest: Option<String>,
    /// The newest snapshot that failed here since one was taken.
    #[serde(default)]
    pub snapshot_failed: Option<SnapshotFailure>,
    /// Slot of the newest snapshot that a majority holds with equal digests.
    pub stable: u64,
    /// Last slot trimmed from the log.
    pub trimmed: u64,
    /// What has kept the log from being trimmed for a while.
    #[serde(default)]
    pub trim_waits: Option<TrimWaitStatus>,
    /// Slots known to be decided anywhere and not executed here; `None` while the node does not know what is decided.
    pub lag: Option<u64>,
    /// At most so many milliseconds ago the objects' state was the newest that a leader knew decided; `None` if the node
    /// has not known that since it started.
    #[serde(default)]
    pub age_ms: Option<u64>,
    /// Rolling hash of all replies up to `executed`, 16 hexadecimal digits; empty for a witness, which knows none.
    pub digest: String,
    /// The slot at which this replica differs from the majority.
    pub diverged: Option<u64>,
    /// The slot at which no majority agrees.
    pub frozen: Option<u64>,
    /// The slot of the operator's reset whose state these objects are waiting for or fetching.
    #[serde(default)]
    pub reset: Option<u64>,
    /// The slot of the majority's snapshot with which this replica last healed.
    #[serde(default)]
    pub healed: Option<u64>,
    /// Where outcomes first differed, as far as this node has found since it started.
    #[serde(default)]
    pub drift: Option<DriftStatus>,
    /// Milliseconds by which this node's clock is off a majority's; 0 within a second.
    #[serde(default)]
    pub clock_off_ms: i64,
    /// Milliseconds by which agreed time is ahead of a majority's clocks; 0 within a second.
    #[serde(default)]
    pub agreed_ahead_ms: i64,
    /// Slots that were decided as the objects had executed them before, since this start.
    #[serde(default)]
    pub executed_ahead: u64,
    /// Slots that were executed before their decision, and undone, since this start.
    #[serde(default)]
    pub undone: u64,
    /// Whether a snapshot is being fetched or installed.
    #[serde(default)]
    pub is_fetching: bool,
    /// Whether calls and reads are accepted, and the objects' state was the newest a moment ago.
    pub is_serving: bool,
    /// Whether this node is a witness, which has no objects, and has kept up with what is decided.
    #[serde(default)]
    pub is_keeping: bool,
    /// Whether the objects' host works.
    pub is_host_up: bool,
    /// The first 16 digits of a hash of the objects' interpreter, packages and sources; `None` for Rust objects.
    #[serde(default)]
    pub code: Option<String>,
    /// How the host process is confined: `full`, `off`, or `partial:` and what is missing; `None` for Rust objects.
    #[serde(default)]
    pub sandbox: Option<String>,
    /// The call that keeps the objects from going on.
    #[serde(default)]
    pub stuck: Option<StuckCallStatus>,
    /// The calls of one slot at which hosts of nodes are down for good.
    #[serde(default)]
    pub poison: Vec<PoisonCallStatus>,
    /// The first four of the 16 hexadecimal digits of the incarnation of the data directory.
    pub incarnation: String,
    /// Which start of the directory this is.
    pub boot: u64,
    /// Milliseconds since the node started.
    pub uptime_ms: u64,
    /// The node's wall clock, nanoseconds since 1970.
    pub wall_ns: u64,
    /// Elections begun since the start.
    pub elections: u64,
    /// Counted since the start, or at this moment.
    pub counts: Counts,
    /// The oldest and the newest level that it speaks; empty for a build that knows no levels: it speaks 19.
    #[serde(default)]
    pub speaks: Vec<u16>,
    /// The level that it asks others to speak: that of its view, or of what is left from before.
    #[serde(default = "unnamed_level")]
    pub asks: u16,
    /// Why others give it no link: it does not speak what they ask for.
    #[serde(default)]
    pub refused: Option<String>,
    /// What this node multicasts and hears; `None` where its configuration names no address.
    #[serde(default)]
    pub multicast: Option<MulticastReport>,
    /// In which rounds slots were decided while this node led; `None` where the ordering has no fast ones.
    #[serde(default)]
    pub rounds: Option<RoundsReport>,
    /// Links to the other members.
    pub peers: Vec<PeerLink>,
    /// The groups beside the first one, oldest first, as the first one has decided.
    #[serde(default)]
    pub groups: Vec<GroupStatus>,
}

/// A snapshot that was not taken.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SnapshotFailure {
    /// Of which slot.
    pub slot: u64,
    /// Why.
    pub reason: String,
}

/// A stable snapshot for which the log has not been trimmed for long.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TrimWaitStatus {
    /// Of which slot.
    pub slot: u64,
    /// For how many seconds nothing has been trimmed.
    pub seconds: u64,
    /// What is waited for.
    pub reason: String,
}

/// The view as status documents show it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ViewStatus {
    /// Its number.
    pub number: u64,
    /// The first slot that it governs.
    pub first_slot: u64,
    /// The ordering protocol.
    pub ordering: String,
    /// Nodes that execute.
    pub replicas: Vec<u16>,
    /// Nodes that vote.
    pub acceptors: Vec<u16>,
    /// How many of them each phase needs.
    #[serde(default)]
    pub quorums: QuorumsStatus,
    /// Limits that what is replicated depends on.
    #[serde(default)]
    pub limits: LimitsStatus,
    /// ω.
    pub window: u64,
    /// What every member speaks.
    #[serde(default = "unnamed_level")]
    pub level: u16,
    /// `disk` or `memory`.
    pub persist: String,
    /// Who belongs to it, by number.
    pub members: Vec<MemberStatus>,
}

/// How many acceptors each phase needs.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct QuorumsStatus {
    /// `majority`, or what was asked for: `4,2`.
    pub rule: String,
    /// Promises needed to lead.
    pub phase1: usize,
    /// Votes needed to decide.
    pub phase2: usize,
    /// Votes needed to decide in a fast round, where the ordering has some.
    pub fast: Option<usize>,
}

impl QuorumsStatus {
    fn of(view: &View) -> QuorumsStatus {
        let is_fast = view.ordering == OrderingName::FastPaxos;
        QuorumsStatus {
            rule: view.quorums.rule().to_string(),
            phase1: view.quorums.phase1(),
            phase2: view.quorums.phase2(),
            fast: is_fast.then(|| FastQuorums::of(view.quorums).fast()),
        }
    }
}

impl ViewStatus {
    /// The quorums of the view: those of a node that says nothing of them are majorities. None where nobody votes.
    #[must_use]
    pub fn counts(&self) -> Option<Quorums> {
        let rule: QuorumRule = self.quorums.rule.parse().unwrap_or_default();
        rule.quorums(self.acceptors.len()).ok()
    }
}

/// A member of the view.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MemberStatus {
    /// Its number.
    pub node: u16,
    /// The first four of the 16 hexadecimal digits of the incarnation that the view knows it by.
    pub incarnation: String,
    /// `replica` for who executes, `acceptor` for who votes.
    pub roles: Vec<String>,
    /// Where nodes and clients reach it.
    pub address: String,
}

/// Numbers for metrics. Those that only rise count from the start of the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Connections open.
    pub connections: u64,
    /// Clients connected.
    pub clients: u64,
    /// Sessions open in the group.
    pub sessions: u64,
    /// Calls of clients here without an answer.
    pub waiting: u64,
    /// Reads of clients here without an answer.
    pub reads: u64,
    /// Calls decided and not executed here.
    pub backlog: u64,
    /// Bytes of batches held for agreement.
    pub held_bytes: u64,
    /// Slots that may be proposed before the window is full.
    pub window_left: u64,
    /// Votes for the trim of logs that were given only once what was before was held, or not yet.
    #[serde(default)]
    pub trims_deferred: u64,
    /// Turns of the loop.
    pub turns: u64,
    /// Bytes read from sockets.
    pub bytes_in: u64,
    /// Bytes written to sockets, those that are multicast once.
    pub bytes_out: u64,
    /// Frames read.
    pub frames_in: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections refused.
    pub refused: u64,
    /// Connections closed because they were silent, slow or unreadable.
    pub closed_for_cause: u64,
    /// Links dropped because the peer was too slow.
    pub slow_peers: u64,
    /// Snapshots waiting for the snapshot thread.
    pub snapshot_jobs: u64,
    /// Requests waiting for the log's thread.
    #[serde(default)]
    pub log_waiting: u64,
    /// Bytes of the log's files.
    #[serde(default)]
    pub log_bytes: u64,
    /// How short the log's disk is of room: 0 plenty, 1 scarce, 2 only the reserve, 3 full.
    #[serde(default)]
    pub log_shortage: u64,
}

/// A link to another member.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PeerLink {
    /// Which node.
    pub id: u16,
    /// Whether it stands.
    pub connected: bool,
    /// Slots between the leader's newest and the peer's last acknowledged one.
    pub lag: u64,
    /// Bytes sent and not acknowledged.
    pub in_flight_bytes: u64,
}

fn unnamed_level() -> u16 {
    Level::UNNAMED.0
}

impl Node {
    /// The status document as JSON text.
    pub(crate) fn status_json(&mut self, now: Time) -> Bytes {
        let text = match self.told.take() {
            Some((turn, text)) if turn == self.turns => text,
            Some(_) | None => {
                let text = serde_json::to_vec(&self.status(now));
                text.expect("every field has a form in JSON").into()
            }
        };
        self.told = Some((self.turns, text.clone()));
        text
    }

    /// The status document.
    // Longer than a screen: one line a field.
    pub(crate) fn status(&self, now: Time) -> NodeStatus {
        let identity = &self.identity;
        let status = self.replica.status();
        let ordering = &status.ordering;
        let age = status.current_at.map(|at| now.since(at));
        let objects = &identity.view.objects;
        let peers = ordering.peers.iter().map(|peer| PeerLink {
            id: peer.node.0,
            connected: peer.connected,
            lag: peer.lag,
            in_flight_bytes: peer.in_flight_bytes as u64,
        });
        NodeStatus {
            id: identity.node.0,
            pid: std::process::id(),
            group: identity.group.0,
            view: view_status(self.replica.view()),
            leader: ordering.role.leader(identity.node).map(|node| node.0),
            roles: self.roles(),
            observes: self.observes(),
            ballot: ordering.promised.to_string(),
            decided: status.decided.0,
            executed: status.executed.0,
            snapshot: status.snapshot.0,
            snapshot_digest: status.snapshot_digest.as_ref().map(hex),
            snapshot_failed: self
                .snapshots
                .failed()
                .map(|(slot, reason)| SnapshotFailure {
                    slot: slot.0,
                    reason: reason.clone(),
                }),
            stable: status.stable.0,
            trimmed: status.trimmed.0,
            trim_waits: status.trim_wait.and_then(|wait| trim_waits(wait, now)),
            lag: age.map(|_| status.lag),
            age_ms: age.map(|age| age.as_millis()),
            digest: digest_text(&status),
            diverged: status.diverged.map(|slot| slot.0),
            frozen: status.frozen.map(|slot| slot.0),
            reset: status.reset.map(|slot| slot.0),
            healed: status.healed.map(|slot| slot.0),
            drift: status
                .difference
                .as_ref()
                .map(|difference| DriftStatus::new(difference, objects)),
            executed_ahead: self.replica.speculated().kept,
            undone: self.replica.speculated().undone,
            is_fetching: status.is_fetching,
            clock_off_ms: status.clocks.own / 1_000_000,
            agreed_ahead_ms: status.clocks.agreed / 1_000_000,
            is_serving: status.is_serving && age.is_some_and(|age| age <= CURRENT_WITHIN),
            is_keeping: status.is_keeping && age.is_some_and(|age| age <= CURRENT_WITHIN),
            is_host_up: status.is_host_up,
            code: identity.code.clone(),
            sandbox: self.host.confinement().map(str::to_owned),
            stuck: self.stuck(),
            poison: poison_statuses(&status, objects),
            // Enough to compare; the rest is for members, who know each other by it.
            incarnation: first_digits(identity.incarnation),
            boot: identity.boot,
            uptime_ms: now.since(identity.started).as_millis(),
            wall_ns: wall_time().0,
            elections: ordering.elections,
            counts: self.counts(&status),
            speaks: vec![self.speaks.oldest().0, self.speaks.newest().0],
            asks: self.replica.level_asked().0.0,
            refused: self.membership.level_refused().map(str::to_owned),
            multicast: self.multicast_report(&ordering.multicast),
            rounds: ordering.rounds.map(RoundsReport::from),
            peers: peers.collect(),
            groups: self.group_statuses(),
        }
    }

    /// The call that keeps the objects from going on.
    pub(crate) fn stuck(&self) -> Option<StuckCallStatus> {
        let stuck = self.host.stuck()?;
        Some(StuckCallStatus::new(&stuck, &self.identity.view.objects))
    }

    fn counts(&self, status: &quorate_replica::ReplicaStatus) -> Counts {
        let net = self.transport.counters();
        Counts {
            connections: self.transport.connections() as u64,
            clients: status.connections as u64,
            sessions: status.sessions as u64,
            waiting: status.waiting as u64,
            reads: status.reads as u64,
            backlog: status.backlog as u64,
            held_bytes: status.ordering.held_bytes as u64,
            window_left: status.ordering.window_left,
            trims_deferred: status.ordering.deferred,
            turns: self.turns,
            bytes_in: net.bytes_in,
            bytes_out: net.bytes_out + self.multicast_bytes_out(),
            frames_in: net.frames_in,
            accepted: net.accepted,
            refused: net.refused,
            closed_for_cause: net.silent + net.slow_clients + net.heavy_clients + net.unreadable,
            slow_peers: net.slow_peers,
            snapshot_jobs: self.snapshots.waiting() as u64,
            log_waiting: self.journal.as_ref().map_or(0, Journal::waiting) as u64,
            log_bytes: self.journal.as_ref().map_or(0, Journal::disk_bytes),
            log_shortage: self.journal.as_ref().map_or(0, Journal::shortage),
        }
    }

    /// Why this node does not vote, and what to do.
    fn observes(&self) -> Option<String> {
        let others = self.replica.view().acceptors.without(self.identity.node);
        let observing = self.observing()?;
        Some(format!("{observing}; {}", observing.advice(others.len())))
    }

    /// Why this node does not vote, where the view does not let it.
    fn observing(&self) -> Option<Observing> {
        let at_start = self.identity.observing;
        (!self.replica.may_vote()).then(|| at_start.unwrap_or(Observing::Superseded))
    }

    fn roles(&self) -> Vec<String> {
        let (identity, view) = (&self.identity, self.replica.view());
        let has = [
            ("leader", matches!(self.role, Role::Leader { .. })),
            (
                "acceptor",
                view.acceptors.contains(identity.node) && self.replica.may_vote(),
            ),
            ("replica", view.replicas.contains(identity.node)),
            ("witness", view.witnesses().contains(identity.node)),
            ("observer", !self.replica.may_vote()),
        ];
        let held = has.iter().filter(|(_, is_held)| *is_held);
        held.map(|(name, _)| (*name).to_owned()).collect()
    }
}

/// What is told of a trim that waits, if it does for long.
fn trim_waits(wait: TrimWait, now: Time) -> Option<TrimWaitStatus> {
    let waited = now.since(wait.since);
    let reason = match wait.hindrance {
        TrimHindrance::Replicas(nodes) => {
            let nodes: Vec<String> = nodes.iter().map(|node| node.0.to_string()).collect();
            format!(
                "replicas {} lag a little behind the snapshot",
                nodes.join(", ")
            )
        }
        TrimHindrance::Votes => {
            "acceptors have not voted for it: they do once they hold all slots before it".to_owned()
        }
        TrimHindrance::Leader => "the leader has not had the trim decided".to_owned(),
    };
    (waited >= TRIM_WAIT_TOLD).then(|| TrimWaitStatus {
        slot: wait.slot.0,
        seconds: waited.as_millis() / 1_000,
        reason,
    })
}

fn digest_text(status: &quorate_replica::ReplicaStatus) -> String {
    match status.is_witness {
        true => String::new(),
        false => format!("{:016x}", status.digest),
    }
}

fn poison_statuses(
    status: &quorate_replica::ReplicaStatus,
    objects: &[ObjectSpec],
) -> Vec<PoisonCallStatus> {
    let standing = status.poison.iter();
    let standing = standing.map(|standing| PoisonCallStatus::new(standing, objects));
    standing.collect()
}

fn view_status(view: &View) -> ViewStatus {
    ViewStatus {
        number: view.number.0,
        first_slot: view.first_slot.0,
        ordering: view.ordering.to_string(),
        replicas: view.replicas.iter().map(|node| node.0).collect(),
        acceptors: view.acceptors.iter().map(|node| node.0).collect(),
        quorums: QuorumsStatus::of(view),
        limits: LimitsStatus::of(view.limits),
        window: view.window,
        level: view.level.0,
        persist: match view.persistence {
            Persistence::Disk => "disk".to_owned(),
            Persistence::Memory => "memory".to_owned(),
        },
        members: view
            .members
            .iter()
            .map(|m| member_status(view, m))
            .collect(),
    }
}

fn member_status(view: &View, member: &Member) -> MemberStatus {
    let roles = [("replica", view.replicas), ("acceptor", view.acceptors)];
    let roles = roles.iter().filter(|(_, who)| who.contains(member.node));
    MemberStatus {
        node: member.node.0,
        incarnation: first_digits(view.incarnation(member.node).unwrap_or(member.incarnation)),
        roles: roles.map(|(role, _)| (*role).to_owned()).collect(),
        address: member.address.clone(),
    }
}

/// What people are told of an incarnation: enough to tell two apart, and nothing to forge a greeting with.
fn first_digits(incarnation: Incarnation) -> String {
    format!("{:04x}", incarnation.0 >> 48)
}
