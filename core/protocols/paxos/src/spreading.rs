//! Values that travel apart from the proposals that name them. Paxos in the Cloud III.A (S-Paxos), claims mp-73 to mp-76.
//!
//! Who is called with commands spreads them to all under a name, and every node tells all others which names it holds. The leader
//! proposes names of what a quorum of acceptors holds, and no others. What it holds for long and no quorum does, because its sender
//! reaches few, it proposes with its commands, as without names. An acceptor votes once it holds the value: its vote is for the batch
//! and is written with it, so promises, recovery and learning are as without names. What is held here is in memory only, promises
//! nothing, and may be dropped at any time: who lacks a value gets it from the leader, with the proposal.
//!
//! Everything is bounded: what this node spreads by the commands it has open, what it keeps of each other node by number and bytes,
//! and both by the time after which the sender gives its commands up.

mod events;

use crate::limits::{AGES_SPARE, HEARD_EARLY, NAMELESS_SLOTS, SPREAD_KEPT, SPREAD_OPEN};
use crate::message::Named;
use quorate_ordering::Limits;
use quorate_types::zoo::{Plant, planted};
use quorate_types::{
    Batch, Command, CommandId, Duration, NodeId, NodeSet, Slot, Stamp, Time, ValueId,
};
use std::collections::{BTreeMap, VecDeque};

/// The values that a node holds, and who else does.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Spreading {
    boot: u64,
    /// The number of the value that this node spread last.
    number: u64,
    bundles: BTreeMap<ValueId, Bundle>,
    /// By command, the values that have it and are open, and its place in them. Invariant: those of `bundles`.
    having: BTreeMap<(CommandId, ValueId), usize>,
    /// What a quorum holds, or is late, and this node did not propose as a leader, in the order in which it became so.
    stable: BTreeMap<u64, ValueId>,
    places: u64,
    /// Number and bytes of the values held of each node. Invariant: the sums of `bundles`.
    kept: BTreeMap<NodeId, (usize, usize)>,
    /// In the order in which they came; those that are gone are skipped. Invariant: at most `AGES_SPARE` more than twice the values.
    ages: VecDeque<(Time, ValueId)>,
    /// Who holds values that have not come here. Invariant: at most `HEARD_EARLY`.
    early: BTreeMap<ValueId, NodeSet>,
    /// The same values in their order; those that are gone are skipped.
    early_order: VecDeque<ValueId>,
    /// Values that this node holds and has not told at the end of the turn.
    untold: Vec<ValueId>,
    /// Proposals by names of which some are not held. Invariant: at most `NAMELESS_SLOTS`.
    nameless: BTreeMap<Slot, Named>,
    /// When these are asked for.
    want_at: Option<Time>,
    /// When the oldest own value was last settled, or sent again.
    progress_at: Time,
    patience: Duration,
    /// When a leader looks next for values that are late.
    late_at: Time,
    /// The oldest own value was settled, and nobody has looked when.
    has_settled: bool,
}

/// The commands of one value.
#[derive(Clone, PartialEq, Debug)]
struct Bundle {
    commands: Vec<Command>,
    weight: usize,
    /// Acceptors that hold it, as far as this node knows of the links that are up.
    holders: NodeSet,
    /// How many commands are not decided.
    open: usize,
    /// Where it is among the stable ones.
    place: Option<u64>,
    /// This node proposed it in the ballot in which it leads.
    is_named: bool,
    /// This node leads and waits no longer for a quorum to hold it.
    is_late: bool,
}

/// What a leader proposes next.
pub(crate) struct NamedCommands {
    pub(crate) values: Vec<ValueId>,
    pub(crate) commands: Vec<Command>,
    /// A quorum holds them: the names suffice.
    pub(crate) by_name: bool,
}

impl Spreading {
    /// That of a start of a node.
    pub(crate) fn new(boot: u64, now: Time, patience: Duration) -> Spreading {
        Spreading {
            boot,
            progress_at: now,
            patience,
            ..Spreading::default()
        }
    }

    /// The view is over.
    pub(crate) fn leave(&mut self) {
        *self = Spreading {
            number: self.number,
            ..Spreading::new(self.boot, self.progress_at, self.patience)
        };
    }

    /// Whether another value of this node may be open.
    fn may_spread(&self, own: NodeId, limits: &Limits) -> bool {
        let (count, bytes) = self.kept.get(&own).copied().unwrap_or_default();
        count < SPREAD_OPEN && bytes < limits.credit_bytes
    }

    /// Whether another value of another node may be kept.
    fn has_room(&self, node: NodeId, limits: &Limits) -> bool {
        let (count, bytes) = self.kept.get(&node).copied().unwrap_or_default();
        count < SPREAD_KEPT && bytes < 2 * limits.credit_bytes || planted(Plant::SpreadUnbounded)
    }

    fn insert(&mut self, now: Time, value: ValueId, commands: Vec<Command>, holders: NodeSet) {
        let weight = commands.iter().map(Command::weight).sum();
        let mut open = 0;
        for (place, command) in commands.iter().enumerate() {
            open += usize::from(self.having.insert((command.id, value), place).is_none());
        }
        let (count, bytes) = self.kept.entry(value.node).or_default();
        *count += 1;
        *bytes += weight;
        self.ages.push_back((now, value));
        let early = self.early.remove(&value).unwrap_or_default();
        let holders = holders.iter().chain(early.iter()).collect();
        self.bundles.insert(
            value,
            Bundle {
                commands,
                weight,
                holders,
                open,
                place: None,
                is_named: false,
                is_late: false,
            },
        );
    }

    fn remove(&mut self, value: ValueId) {
        let Some(bundle) = self.bundles.remove(&value) else {
            return;
        };
        for command in &bundle.commands {
            self.having.remove(&(command.id, value));
        }
        if let Some(place) = bundle.place {
            self.stable.remove(&place);
        }
        if let Some((count, bytes)) = self.kept.get_mut(&value.node) {
            *count -= 1;
            *bytes -= bundle.weight;
            if *count == 0 {
                self.kept.remove(&value.node);
            }
        }
        if self.ages.len() > 2 * self.bundles.len() + AGES_SPARE {
            self.ages
                .retain(|(_, value)| self.bundles.contains_key(value));
        }
    }

    /// Whether a value is stable may have changed: `needed` acceptors must hold it.
    fn place(&mut self, value: ValueId, needed: usize) {
        let Some(bundle) = self.bundles.get_mut(&value) else {
            return;
        };
        let is_stable = (bundle.is_late || bundle.holders.len() >= needed) && !bundle.is_named;
        match (is_stable, bundle.place) {
            (true, None) => {
                self.places += 1;
                bundle.place = Some(self.places);
                self.stable.insert(self.places, value);
            }
            (false, Some(place)) => {
                bundle.place = None;
                self.stable.remove(&place);
            }
            (true, Some(_)) | (false, None) => {}
        }
    }

    /// `node` holds `value`, which may not have come here.
    fn held_by(&mut self, node: NodeId, value: ValueId, needed: usize) {
        if let Some(bundle) = self.bundles.get_mut(&value) {
            bundle.holders.insert(node);
            return self.place(value, needed);
        }
        if let Some(holders) = self.early.get_mut(&value) {
            holders.insert(node);
            return;
        }
        self.early.insert(value, NodeSet::only(node));
        self.early_order.push_back(value);
        while self.early_order.len() > HEARD_EARLY {
            if let Some(oldest) = self.early_order.pop_front() {
                self.early.remove(&oldest);
            }
        }
    }

    /// What `node` held it may hold no more: it counts only on the link on which it was told.
    fn unlinked(&mut self, node: NodeId, needed: usize) {
        if planted(Plant::HoldersOutliveLinks) {
            return;
        }
        for holders in self.early.values_mut() {
            holders.remove(node);
        }
        let held = self.bundles.iter_mut();
        let held = held.filter(|(_, bundle)| bundle.holders.contains(node));
        let held = held.map(|(value, bundle)| {
            bundle.holders.remove(node);
            *value
        });
        for value in held.collect::<Vec<ValueId>>() {
            self.place(value, needed);
        }
    }

    /// This node begins to lead: it proposes what is stable and not decided, whoever proposed it before.
    pub(crate) fn begin_naming(&mut self, needed: usize) {
        let known = self
            .bundles
            .iter_mut()
            .filter(|(_, b)| b.is_named || b.is_late);
        let known = known.map(|(value, bundle)| {
            (bundle.is_named, bundle.is_late) = (false, false);
            *value
        });
        for value in known.collect::<Vec<ValueId>>() {
            self.place(value, needed);
        }
    }

    /// When a leader looks for values that are late.
    pub(crate) fn late_at(&self) -> Option<Time> {
        (!self.bundles.is_empty()).then_some(self.late_at)
    }

    /// What this leader holds since `bearable` and no quorum does is late: its sender may reach nobody else.
    pub(crate) fn place_late(&mut self, now: Time, bearable: Duration, needed: usize) {
        if self.late_at().is_none_or(|at| now < at) {
            return;
        }
        self.late_at = now + bearable;
        let old = self.ages.iter();
        let old = old.take_while(|(since, _)| now.since(*since) >= bearable);
        for value in old.map(|(_, value)| *value).collect::<Vec<ValueId>>() {
            if let Some(bundle) = self.bundles.get_mut(&value) {
                bundle.is_late = true;
                self.place(value, needed);
            }
        }
    }

    /// Whether something is stable that a leader has not proposed.
    pub(crate) fn has_stable(&self) -> bool {
        !self.stable.is_empty()
    }

    /// Whether the next of these is one large command.
    pub(crate) fn is_large_next(&self, limits: &Limits) -> bool {
        let next = self.stable.values().next();
        let next = next.and_then(|value| self.bundles.get(value));
        next.is_some_and(|bundle| bundle.weight >= limits.large_bytes)
    }

    /// What is proposed next: as many values as fit a batch, all of which `needed` acceptors hold, or none.
    pub(crate) fn cut(&mut self, limits: &Limits, needed: usize) -> Option<NamedCommands> {
        let mut cut = NamedCommands {
            values: Vec::new(),
            commands: Vec::new(),
            by_name: true,
        };
        let mut weight = 0;
        while let Some(entry) = self.stable.first_entry() {
            let value = *entry.get();
            let bundle = self
                .bundles
                .get_mut(&value)
                .expect("what is stable is held");
            let is_full = weight + bundle.weight > limits.batch_bytes
                || cut.commands.len() + bundle.commands.len() > limits.batch_commands
                || weight >= limits.large_bytes && bundle.weight >= limits.large_bytes;
            let by_name = bundle.holders.len() >= needed;
            if (is_full || by_name != cut.by_name) && !cut.values.is_empty() {
                break;
            }
            cut.by_name = by_name;
            entry.remove();
            bundle.place = None;
            bundle.is_named = true;
            weight += bundle.weight;
            cut.values.push(value);
            cut.commands.extend_from_slice(&bundle.commands);
        }
        (!cut.values.is_empty()).then_some(cut)
    }

    /// The batch that a proposal names; `None` where some of it is not held.
    fn compose(&self, stamp: Stamp, values: &[ValueId]) -> Option<Batch> {
        let mut commands = Vec::new();
        for value in values {
            commands.extend_from_slice(&self.bundles.get(value)?.commands);
        }
        Some(Batch::new(stamp, commands))
    }

    /// A proposal of `slot` has come with its value.
    pub(crate) fn came(&mut self, slot: Slot) {
        self.nameless.remove(&slot);
    }

    /// A batch is decided: a value all of whose commands are is needed no more, whoever lacks it. Another command under the same id is
    /// settled for itself. Claim mp-75.
    pub(crate) fn settle(&mut self, own: NodeId, batch: &Batch) {
        if self.bundles.is_empty() {
            return;
        }
        for command in batch.commands() {
            let first = |node| ValueId {
                node: NodeId(node),
                boot: 0,
                number: 0,
            };
            let of_command = (command.id, first(0))..=(command.id, first(u16::MAX));
            let having = self.having.range(of_command);
            let having = having.map(|((_, value), place)| (*value, *place));
            for (value, place) in having.collect::<Vec<(ValueId, usize)>>() {
                let bundle = self.bundles.get_mut(&value).expect("what is open is held");
                if bundle.commands[place].body != command.body {
                    continue;
                }
                self.having.remove(&(command.id, value));
                bundle.open -= 1;
                if bundle.open == 0 {
                    // What others settle says nothing of what is lost of this node's.
                    let oldest = self.of(own).next().map(|(oldest, _)| *oldest);
                    self.has_settled |= oldest == Some(value);
                    self.remove(value);
                }
            }
        }
        self.drop_settled();
    }

    /// The end of an event: what was settled in it counts from now on.
    pub(crate) fn note_progress(&mut self, now: Time, patience: Duration) {
        if std::mem::take(&mut self.has_settled) {
            self.progress_at = now;
            self.patience = patience;
        }
    }

    fn drop_settled(&mut self) {
        while let Some((_, value)) = self.ages.front() {
            if self.bundles.contains_key(value) {
                break;
            }
            self.ages.pop_front();
        }
    }

    /// Forgets what is so old that its sender has given it up.
    fn expire(&mut self, now: Time, submit: Duration) {
        if planted(Plant::SpreadUnbounded) {
            return;
        }
        while let Some((since, value)) = self.ages.front().copied() {
            if now.since(since) < submit {
                break;
            }
            self.ages.pop_front();
            self.remove(value);
        }
        self.drop_settled();
    }

    fn of(&self, node: NodeId) -> impl Iterator<Item = (&ValueId, &Bundle)> {
        let first = |node, boot, number| ValueId { node, boot, number };
        let of_node = first(node, 0, 0)..=first(node, u64::MAX, u64::MAX);
        self.bundles.range(of_node)
    }

    /// The bytes that are held.
    pub(crate) fn bytes(&self) -> usize {
        self.kept.values().map(|(_, bytes)| bytes).sum()
    }

    pub(crate) fn check(&self) {
        let open: usize = self.bundles.values().map(|bundle| bundle.open).sum();
        assert_eq!(
            open,
            self.having.len(),
            "what is open is found by its commands"
        );
        let count: usize = self.kept.values().map(|(count, _)| count).sum();
        assert_eq!(count, self.bundles.len(), "what is held is counted");
        let placed = self
            .bundles
            .values()
            .filter(|bundle| bundle.place.is_some());
        assert_eq!(placed.count(), self.stable.len(), "what is stable is held");
        assert!(
            self.ages.len() <= 2 * self.bundles.len() + AGES_SPARE,
            "what is gone takes no memory"
        );
        assert!(
            self.early.len() <= HEARD_EARLY && self.nameless.len() <= NAMELESS_SLOTS,
            "what has not come is bounded"
        );
    }
}
