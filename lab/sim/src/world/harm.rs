//! What the faults of a run have done and still wait for: whom they struck, who may not lose a vote any more, traps that
//! have not sprung, and what each lasting fault must show to count as exercised.

use super::World;
use super::diverging::Diverged;
use super::durable::Disks;
use super::fault::{KillStep, Who};
use super::freezing::Freezing;
use super::life::Death;
use super::network::Hit;
use super::node::Doom;
use super::notes::Notes;
use super::poison::Poison;
use super::row::{Exercised, Row};
use super::skipping::Skipping;
use super::view_changing::ViewChanging;
use quorate_ordering::Role;
use quorate_replica::Quarantine;
use quorate_types::{Ballot, Duration, NodeId, Slot, View};
use std::collections::{BTreeMap, BTreeSet};

/// Undecided slots of a leader from which its loss counts as the loss of a full pipeline.
const DEEP: u64 = 4;

/// The state of a run's faults.
#[derive(Debug, Default)]
pub(super) struct Harm {
    /// What took effect.
    pub exercised: Exercised,
    /// Whom each lasting fault strikes, by its index.
    pub victims: BTreeMap<usize, NodeId>,
    /// Lasting faults whose victim led when they began.
    pub led: BTreeSet<usize>,
    /// Whom the newest fault with `leader` struck.
    pub struck: Option<NodeId>,
    /// Nodes that have lost or may lose their vote for ever.
    pub maimed: BTreeSet<NodeId>,
    /// Those of them that have come back as another incarnation, and vote.
    pub back: BTreeSet<NodeId>,
    /// Nodes whose wall clocks are wrong by years.
    pub misled: BTreeSet<NodeId>,
    /// Nodes whose directory was emptied: they never start again.
    pub emptied: BTreeSet<NodeId>,
    /// Nodes whose directory was ever an older copy.
    pub copied: BTreeSet<NodeId>,
    /// The node whose objects differ, or did.
    pub diverged: Option<Diverged>,
    /// Objects of all nodes that differ, or did.
    pub freezing: Freezing,
    /// Calls that end hosts.
    pub poison: Poison,
    /// What an operator says about them.
    pub skipping: Skipping,
    /// Who changes the view.
    pub views: ViewChanging,
    /// Traps that have not sprung.
    pub traps: Vec<Trap>,
    /// What lasting faults of the network must show, by their index.
    pub watches: BTreeMap<usize, Watch>,
    /// Directories as they were when a rollback began, by its index.
    pub images: BTreeMap<usize, Image>,
}

/// A copy of a node's directory.
#[derive(Debug)]
pub(super) struct Image {
    /// The disks.
    pub disks: Disks,
    /// The members that it names.
    pub known: Option<View>,
    /// What the node had noted of its objects.
    pub quarantine: Option<Quarantine>,
    /// What it had noted of its lives.
    pub notes: Notes,
    /// Whose objects differed or had differed, and whether it had noticed.
    pub diverged: Option<Diverged>,
}

/// A trap that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trap {
    /// For whom; `None`: for anybody.
    pub node: Option<NodeId>,
    /// At which step.
    pub step: KillStep,
    /// How often the step is passed first.
    pub after: u64,
    /// How long the process stays down.
    pub down: Duration,
}

/// A count that rises if a fault of the network takes effect.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    /// The directions.
    pub ways: Vec<(NodeId, NodeId)>,
    /// What is to happen to messages there.
    pub hit: Hit,
    /// How often it had happened before.
    pub before: u64,
    /// The row to count.
    pub row: Row,
}

impl Harm {
    /// Nothing yet, in a run whose view is changed so.
    pub(super) fn new(views: ViewChanging) -> Harm {
        Harm {
            views,
            ..Harm::default()
        }
    }
}

impl World {
    /// Counts an effect of a fault.
    pub(super) fn exercised(&mut self, row: Row) {
        self.harm.exercised.note(row);
    }

    /// Counts an effect that one fault on `id` may have many times, once.
    pub(super) fn felt(&mut self, id: NodeId, row: Row) {
        if self.node(id).felt.insert(row) {
            self.exercised(row);
        }
    }

    /// Who leads by its own word.
    pub(super) fn leader(&self) -> Option<NodeId> {
        let ballots = self.nodes.values().filter_map(|node| {
            let ballot = leads(node.running.as_ref()?.replica.status().ordering.role)?;
            Some((ballot, node.id))
        });
        ballots.max().map(|(_, id)| id)
    }

    /// Whom a fault strikes that begins in this moment.
    pub(super) fn victim(&mut self, who: Who) -> Option<NodeId> {
        match who {
            Who::Node(id) => self.nodes.contains(id).then_some(id),
            Who::Leader => {
                self.harm.struck = self.leader();
                self.harm.struck
            }
            Who::Struck => self.harm.struck,
            Who::Any => None,
        }
    }

    /// Whether `id` may lose what it told others: with it, quorums of those who remember remain.
    pub(super) fn may_maim(&mut self, id: NodeId) -> bool {
        let gone = self.harm.maimed.difference(&self.harm.back);
        let mut gone: BTreeSet<NodeId> = gone.copied().collect();
        if !gone.insert(id) {
            return true;
        }
        let is_allowed =
            self.can_lose(&gone) && gone.len() <= usize::from(self.setup.nodes - 1) / 2;
        if is_allowed {
            self.harm.maimed.insert(id);
            self.harm.back.remove(&id);
        }
        is_allowed
    }

    /// Whether the clock of `id` may be wrong by years: the acceptors that are left keep the time.
    pub(super) fn may_mislead(&mut self, id: NodeId) -> bool {
        let mut misled = self.harm.misled.clone();
        misled.insert(id);
        let is_allowed = self.is_time_kept(&misled, &self.harm.emptied);
        if is_allowed {
            self.harm.misled = misled;
        }
        is_allowed
    }

    /// Whether the directory of `id` may be emptied: quorums remain, and the acceptors that are left keep the time.
    pub(super) fn may_empty(&mut self, id: NodeId) -> bool {
        let mut emptied = self.harm.emptied.clone();
        emptied.insert(id);
        let is_allowed = self.is_time_kept(&self.harm.misled, &emptied) && self.may_maim(id);
        if is_allowed {
            self.harm.emptied = emptied;
        }
        is_allowed
    }

    /// Whether the median clock of the acceptors that are left is right, the lower one of two.
    fn is_time_kept(&self, misled: &BTreeSet<NodeId>, emptied: &BTreeSet<NodeId>) -> bool {
        if self.harm.views.is_on() && !misled.is_empty() {
            // Whoever votes next may be those whose clocks are wrong.
            return false;
        }
        let acceptors = self.setup.acceptors();
        let left = acceptors.iter().filter(|node| !emptied.contains(node));
        let (wrong, right): (Vec<_>, Vec<_>) = left.partition(|node| misled.contains(node));
        wrong.len() < right.len() || wrong.is_empty()
    }

    /// A node comes to a step: says whether a trap kills it there.
    pub(super) fn springs(&mut self, id: NodeId, step: KillStep) -> bool {
        let Some(trap) = self.take_trap(id, step) else {
            return false;
        };
        let row = match step {
            KillStep::PhaseOne => Row::KilledInPhaseOne,
            KillStep::Fetch => Row::KilledFetching,
            KillStep::Install => Row::KilledInstalling,
            KillStep::Asked => Row::AskedPeerKilled,
            KillStep::Save => Row::SaveCut,
            KillStep::Trim => Row::TrimCut,
            KillStep::Turn => Row::LostView,
        };
        self.exercised(row);
        self.die(id, Death::Killed, trap.down);
        true
    }

    /// The disk of a step that a trap cuts the power in: says after how many changes.
    pub(super) fn cuts(&mut self, id: NodeId, step: KillStep) -> Option<u64> {
        let index = self.trap_for(id, step)?;
        let trap = self.harm.traps.remove(index);
        let outputs = u64::MAX;
        self.node(id).doom = Some(Doom {
            outputs,
            down: trap.down,
        });
        Some(trap.after)
    }

    /// A node begins a view: a trap may damage what its log has of it, and says when that comes, and for how long it is down then.
    pub(super) fn forgets_view(&mut self, id: NodeId) -> Option<(Duration, Duration)> {
        let index = self.trap_for(id, KillStep::Turn)?;
        let trap = self.harm.traps.remove(index);
        Some((Duration::from_millis(trap.after), trap.down))
    }

    fn take_trap(&mut self, id: NodeId, step: KillStep) -> Option<Trap> {
        let index = self.trap_for(id, step)?;
        let trap = &mut self.harm.traps[index];
        if trap.after > 0 {
            trap.after -= 1;
            return None;
        }
        Some(self.harm.traps.remove(index))
    }

    fn trap_for(&self, id: NodeId, step: KillStep) -> Option<usize> {
        let waits = |trap: &Trap| trap.step == step && trap.node.is_none_or(|node| node == id);
        self.harm.traps.iter().position(waits)
    }

    /// Counts what the end of a node's life cuts off.
    pub(super) fn note_death(&mut self, id: NodeId, death: Death) {
        self.exercised(match death {
            Death::Killed => Row::Killed,
            Death::PowerCut => Row::PowerCut,
        });
        if self.is_leader(id) {
            self.exercised(Row::LeaderKilled);
            if self.is_view_ending() {
                self.exercised(Row::LeaderLostInChange);
            }
            self.note_pipeline(id);
        }
    }

    /// Counts a leader that is lost to its group with many slots in flight.
    pub(super) fn note_pipeline(&mut self, id: NodeId) {
        let Some(running) = &self.nodes[&id].running else {
            return;
        };
        let status = running.replica.status().ordering;
        if status.voted.since(status.decided) >= DEEP {
            self.exercised(Row::PipelineCut);
        }
    }

    /// Whether `id` says that it leads.
    pub(super) fn is_leader(&self, id: NodeId) -> bool {
        let running = self.nodes[&id].running.as_ref();
        running.is_some_and(|running| leads(running.replica.status().ordering.role).is_some())
    }

    /// Counts the kind of group that the run has.
    pub(super) fn note_shape(&mut self) {
        let setup = &self.setup;
        let acceptors = setup.acceptors().len();
        let quorums = setup.view().quorums;
        let is_unequal = quorums.phase1() != quorums.phase2();
        let rows = [
            (
                Row::MemoryMode,
                setup.persistence == quorate_types::Persistence::Memory,
            ),
            (Row::OneOrTwo, setup.nodes <= 2),
            (Row::Large, setup.nodes >= 6),
            (Row::EvenGroup, acceptors.is_multiple_of(2)),
            (Row::Flexible, is_unequal && !acceptors.is_multiple_of(2)),
            (Row::Witnesses, setup.witnesses > 0),
            (Row::Observers, acceptors < usize::from(setup.nodes)),
        ];
        for (row, _) in rows.into_iter().filter(|(_, applies)| *applies) {
            self.exercised(row);
        }
    }
}

fn leads(role: Role) -> Option<Ballot> {
    match role {
        Role::Leader { ballot } => Some(ballot),
        Role::Candidate { .. } | Role::Follower { .. } => None,
    }
}

/// The highest slot that a snapshot of these disks holds, as a start would find it.
pub(super) fn snapshot_slot(disks: &Disks) -> Option<Slot> {
    let found = disks.fork().start().ok()?;
    found.snapshot.map(|(snapshot, ..)| snapshot.core.slot)
}
