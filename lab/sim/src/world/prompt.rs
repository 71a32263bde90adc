//! Tells the checkers of what is owed at once: clients that dial, nodes that look for a snapshot, acceptors that let others
//! stand, and what replicas report of their hosts.
//!
//! Called by the world's turns and clients; it changes nothing.

use super::World;
use super::clock::Moment;
use super::setup::Setup;
use crate::checkers::Property;
use crate::checkers::dialling::{Dialling, Why};
use crate::checkers::fetching::Fetching;
use crate::checkers::standing::Standing;
use quorate_acceptor::Testimony;
use quorate_any::AnyMessage;
use quorate_ordering::{Ordering, Role};
use quorate_replica::{Input, Output, PeerMessage, ReplicaMessage};
use quorate_session::{SessionConfig, SessionInput, SessionOutput};
use quorate_types::{CallPlace, NodeId, NodeSet, Slot, ToClient, ViewId};
use std::collections::{BTreeMap, BTreeSet};

/// A client that nobody answers pauses for eight times its shortest pause in the end.
const LONGEST_PAUSE: u64 = 8;

/// The checkers of what is owed at once.
pub(super) struct Prompt {
    pub dialling: Dialling,
    fetching: Fetching,
    standing: Standing,
    /// They do not lead: how far they are is nobody's measure.
    witnesses: NodeSet,
    /// Where the host of a node is down for good, as far as its replica was told.
    down: BTreeMap<NodeId, CallPlace>,
    /// Nodes that heard a leader in this turn.
    led: BTreeSet<NodeId>,
    /// The look at its clock by which a node judged the last messages. A node that stalls after it answers late.
    looked: BTreeMap<NodeId, Moment>,
}

impl Prompt {
    /// The promises of a group with this configuration.
    pub(super) fn new(setup: &Setup) -> Prompt {
        let pause = SessionConfig::default().retry_pause;
        // Clocks may run at different speeds, by less than this.
        let within = setup.timing.resend.0 / 2;
        Prompt {
            dialling: Dialling::new(u64::from(setup.nodes), LONGEST_PAUSE * pause.0),
            fetching: Fetching::default(),
            standing: Standing::new(setup.limits.chunk_slots as u64, within),
            witnesses: setup.view().witnesses(),
            down: BTreeMap::new(),
            led: BTreeSet::new(),
            looked: BTreeMap::new(),
        }
    }

    fn arrived(
        &mut self,
        id: NodeId,
        (own, decided): (Option<ViewId>, Slot),
        from: NodeId,
        message: &PeerMessage<AnyMessage>,
    ) {
        match message {
            PeerMessage::Replica(ReplicaMessage::NoSnapshot { .. }) => {
                self.fetching.refused(id, from);
            }
            PeerMessage::Replica(ReplicaMessage::Chunk { .. }) => self.fetching.goes_on(id),
            PeerMessage::Replica(ReplicaMessage::Durable { slot, .. }) => {
                self.fetching.reported(id, from, *slot);
            }
            PeerMessage::Replica(_) => {}
            PeerMessage::Ordering { message, view } => match message.testimony() {
                Testimony::AsksPreVote {
                    attempt,
                    decided: theirs,
                } => {
                    // Nobody stands in a view that is over for better ones than those that are left in it.
                    let is_of_view = own == Some(*view) && !self.witnesses.contains(id);
                    let lag = decided.0.saturating_sub(theirs.0) * u64::from(is_of_view);
                    self.standing.asked(id, (from, attempt), lag);
                }
                Testimony::Leads { .. } | Testimony::AsksLease { .. } => {
                    self.led.insert(id);
                }
                _ => {}
            },
        }
    }
}

impl World {
    /// A client is about to be told something, or woken.
    pub(super) fn watch_told(&mut self, number: u64, input: &SessionInput) -> Why {
        let SessionInput::Received(message) = input else {
            return Why::Left;
        };
        match message {
            ToClient::Leader { .. } => return Why::Hinted,
            ToClient::Refused { .. } | ToClient::Tentative { .. } => {}
            ToClient::Opened { .. }
            | ToClient::Resumed { .. }
            | ToClient::Full { .. }
            | ToClient::Replied { .. }
            | ToClient::Confirmed { .. }
            | ToClient::Parked { .. }
            | ToClient::Read { .. }
            | ToClient::Checkpointed { .. }
            | ToClient::KeptAlive { .. } => self.prompt.dialling.answered(number),
        }
        Why::Left
    }

    /// A client did this after it was told something.
    pub(super) fn watch_dials(&mut self, number: u64, why: Why, out: &[SessionOutput]) {
        for output in out {
            let SessionOutput::Dial { address } = output else {
                continue;
            };
            if let Some(node) = super::serve::node_at(address) {
                let now = self.now.0;
                let judged = self.prompt.dialling.dialled(now, number, node, why);
                self.judged(judged);
            }
        }
    }

    /// A node is about to handle what has arrived, by the clock as it stood at `looked`.
    pub(super) fn watch_arrivals(
        &mut self,
        id: NodeId,
        looked: Moment,
        inbox: &[Input<AnyMessage>],
    ) {
        let running = self.nodes[&id].running.as_ref();
        let decided = running.map_or(Slot::ZERO, |running| running.replica.ordering().decided());
        let own = running.map(|running| running.replica.ordering().view());
        let prompt = &mut self.prompt;
        for input in inbox {
            match input {
                Input::Peer { from, message, .. } => {
                    prompt.looked.insert(id, looked);
                    prompt.arrived(id, (own, decided), *from, message);
                }
                Input::Link { .. } | Input::Installed { .. } | Input::InstallFailed { .. } => {
                    prompt.fetching.goes_on(id);
                }
                Input::HostDied { slot, index } => {
                    let (slot, index) = (*slot, *index);
                    prompt.down.insert(id, CallPlace { slot, index });
                }
                Input::Host { is_up: true } => {
                    prompt.down.remove(&id);
                }
                _ => {}
            }
            if matches!(input, Input::Installed { .. }) {
                prompt.down.remove(&id);
            }
        }
    }

    /// A node has handled everything that had arrived.
    pub(super) fn watch_done(&mut self, id: NodeId, out: &[Output<AnyMessage>]) {
        let Some(running) = &self.nodes[&id].running else {
            return;
        };
        let mut seen = running.seen.borrow_mut();
        let survived = std::mem::take(&mut seen.survived);
        let role = seen.role;
        drop(seen);
        if let Some(at) = self.prompt.down.get(&id).copied()
            && let Some(past) = survived.into_iter().find(|slot| *slot >= at.slot)
        {
            let detail =
                format!("{id} says that it is past {past}, and its host is down at {at:?}");
            self.blame(Property::Liveness, detail);
        }
        let is_led = self.prompt.led.remove(&id);
        for output in out {
            if let Output::Send { to, message, .. } = output {
                for peer in to.iter() {
                    self.watch_prompt(id, peer, message, is_led);
                }
            }
        }
        let knows_leader = matches!(
            role,
            Some(Role::Leader { .. } | Role::Follower { leader: Some(_) })
        );
        if is_led && knows_leader {
            self.prompt.standing.ended(id);
        } else if !knows_leader && self.lacks_snapshot(id) {
            self.prompt.standing.stands_back(self.now.0, id);
        }
        if !self.prompt.fetching.is_watching(id) {
            return;
        }
        let needed = self.running(id).replica.awaited_snapshot();
        let judged = self.prompt.fetching.settled(id, needed);
        self.judged(judged);
    }

    /// Whether the log of a node begins after what its objects hold.
    fn lacks_snapshot(&self, id: NodeId) -> bool {
        let running = self.nodes[&id].running.as_ref();
        running.is_some_and(|running| {
            let status = running.replica.status();
            status.executed < status.ordering.trimmed
        })
    }

    fn watch_prompt(
        &mut self,
        id: NodeId,
        peer: NodeId,
        message: &PeerMessage<AnyMessage>,
        is_led: bool,
    ) {
        let now = self.now.0;
        match message {
            PeerMessage::Replica(ReplicaMessage::Fetch { offset: 0, .. }) => {
                self.prompt.fetching.asked(id, peer);
            }
            PeerMessage::Replica(_) => {}
            PeerMessage::Ordering { message, .. } => match message.testimony() {
                Testimony::AnswersPreVote {
                    attempt,
                    is_granted: false,
                } => {
                    let judged = self.prompt.looked.get(&id);
                    let since = judged.map_or(now, |looked| looked.0);
                    self.prompt.standing.denied(since, id, (peer, attempt));
                }
                Testimony::AnswersPreVote {
                    attempt,
                    is_granted: true,
                } => {
                    // A node that lacks a snapshot stands back itself, and has begun to wait for better ones then.
                    let is_behind = self.lacks_snapshot(id);
                    let judged = self.prompt.standing.granted(now, id, (peer, attempt));
                    if !is_led && !is_behind {
                        self.judged(judged);
                    }
                }
                _ => {}
            },
        }
    }

    /// A node's life has ended.
    pub(super) fn watch_end(&mut self, id: NodeId) {
        self.prompt.fetching.goes_on(id);
        self.prompt.standing.ended(id);
        self.prompt.down.remove(&id);
    }
}
