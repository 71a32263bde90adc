//! The instances of the ordering at this node, by view.
//!
//! One orders: that of the view in force. Those of the views before go on voting and teaching until a majority holds their slots in
//! a snapshot. Their writes share one log, so this file numbers them; each instance knows its own numbers only. Votes and
//! messages belong to one view, and what comes for a view that is not known here yet is kept for a while.

use crate::limits::{EARLY_MESSAGES, OLD_VIEW_SNAPSHOT_EVERY};
use quorate_ordering::{
    Effects, Entry, Event, LinkState, Mark, Ordering, Record, Standing, ViewPast,
};
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ballot, LinkEpoch, NodeId, NodeSet, Slot, Time, View, ViewId, ViewNumber};
use std::collections::{BTreeMap, VecDeque};

/// One instance.
#[derive(Debug)]
struct Instance<O> {
    ordering: O,
    /// The members of its view.
    nodes: NodeSet,
    /// The last slot of its view, once the replica has applied the command that says so.
    last: Option<Slot>,
    /// Writes that are not durable: their numbers in the log, and the instance's own.
    marks: VecDeque<(Mark, Mark)>,
    /// It has not said that what it lost is written again.
    is_damaged: bool,
    /// It was told that clients have sessions.
    is_attended: bool,
}

/// What the log of a node has of views, found at its start.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ViewPasts {
    /// The newest view in which any start of this node may have promised or voted.
    pub begun: ViewNumber,
    /// The records of other views than that of the first instance, in their order.
    pub records: BTreeMap<ViewNumber, Vec<Record>>,
    /// Some records were lost.
    pub is_damaged: bool,
}

impl ViewPasts {
    fn of(&self, records: Vec<Record>) -> ViewPast {
        if self.is_damaged {
            ViewPast::Damaged(records)
        } else {
            ViewPast::Records(records)
        }
    }
}

/// All instances at this node.
#[derive(Debug)]
pub(crate) struct Instances<O: Ordering> {
    /// Ascending by view; the last one orders.
    all: Vec<Instance<O>>,
    past: ViewPasts,
    /// An instance went that had not said that what it lost is written again.
    left_damage: bool,
    /// Messages for views that are not known here, as they were received.
    early: VecDeque<(ViewId, Event<O::Message>)>,
    /// Messages for unknown views for which there was no room.
    pub(crate) dropped: u64,
    written: Mark,
    /// Views in which this node takes part for the first time, and the writes that say so in the log.
    beginning: VecDeque<(Mark, ViewNumber)>,
    /// The view that is decided to follow, once log and directory are told that this node takes part in it.
    ahead: Option<ViewNumber>,
    /// When a leader asks for a snapshot that covers the view before.
    snapshot_due: Time,
    /// The links that stand.
    links: BTreeMap<NodeId, LinkEpoch>,
    /// The newest link to each peer that is over: what was in flight on it may still come.
    links_over: BTreeMap<NodeId, LinkEpoch>,
}

impl<O: Ordering> Instances<O> {
    pub(crate) fn new((first, nodes): (O, NodeSet), past: ViewPasts) -> Instances<O> {
        let is_damaged = past.is_damaged;
        Instances {
            all: vec![Instance {
                ordering: first,
                nodes,
                last: None,
                marks: VecDeque::new(),
                is_damaged,
                is_attended: false,
            }],
            past,
            left_damage: false,
            early: VecDeque::new(),
            dropped: 0,
            written: Mark::default(),
            beginning: VecDeque::new(),
            ahead: None,
            snapshot_due: Time::default(),
            links: BTreeMap::new(),
            links_over: BTreeMap::new(),
        }
    }

    /// The instance that orders.
    #[inline]
    pub(crate) fn current(&self) -> &O {
        &self.all[self.all.len() - 1].ordering
    }

    /// The place of the instance that orders.
    #[inline]
    pub(crate) fn newest(&self) -> usize {
        self.all.len() - 1
    }

    /// How many there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn view(&self, place: usize) -> ViewId {
        self.all[place].ordering.view()
    }

    /// The place of a view's instance.
    pub(crate) fn find(&self, view: ViewId) -> Option<usize> {
        self.all
            .iter()
            .rposition(|instance| instance.ordering.view() == view)
    }

    pub(crate) fn handle(
        &mut self,
        place: usize,
        now: Time,
        event: Event<O::Message>,
        effects: &mut Effects<O::Message>,
    ) {
        self.all[place].ordering.handle(now, event, effects);
    }

    /// The slot that an instance is told as applied: none above the last one of its view.
    pub(crate) fn applied(&self, place: usize, slot: Slot) -> Slot {
        self.all[place].last.map_or(slot, |last| slot.min(last))
    }

    /// The number in the log of a write of an instance.
    #[inline]
    pub(crate) fn number(&mut self, place: usize, own: Mark) -> Mark {
        self.written = Mark(self.written.0 + 1);
        self.all[place].marks.push_back((self.written, own));
        self.written
    }

    /// Every write up to `mark` is durable: the newest one of them that an instance made, if it made one.
    #[inline]
    pub(crate) fn durable(&mut self, place: usize, mark: Mark) -> Option<Mark> {
        let marks = &mut self.all[place].marks;
        let mut newest = None;
        while let Some((written, own)) = marks.front()
            && *written <= mark
        {
            newest = Some(*own);
            marks.pop_front();
        }
        newest
    }

    /// Whether this node may say now that it takes part in the view that follows, of which it has said nothing. Not where records were
    /// lost: until they are made good, what it has begun tells of which views.
    pub(crate) fn may_begin_ahead(&mut self, next: ViewNumber) -> bool {
        let is_damaged =
            self.past.is_damaged || self.left_damage || self.all.iter().any(|one| one.is_damaged);
        let may = next > self.past.begun && !is_damaged;
        if may {
            self.ahead = Some(next);
            self.past.begun = next;
        }
        may
    }

    /// The number of the write that says in the log that this node takes part in a view.
    pub(crate) fn begin(&mut self, view: ViewNumber) -> Mark {
        self.written = Mark(self.written.0 + 1);
        self.beginning.push_back((self.written, view));
        self.written
    }

    /// What the log says of a view in which this node has neither promised nor voted.
    pub(crate) fn beginning_of(&self, number: ViewNumber) -> Record {
        let group = self.current().view().group;
        Record {
            view: ViewId { group, number },
            entry: Entry::Promise {
                ballot: Ballot::ZERO,
            },
        }
    }

    /// Every write up to `mark` is durable: the newest view of which the log now has a record for the first time.
    #[inline]
    pub(crate) fn begun(&mut self, mark: Mark) -> Option<ViewNumber> {
        let mut newest = None;
        while let Some((written, view)) = self.beginning.front()
            && *written <= mark
        {
            newest = Some(*view);
            self.beginning.pop_front();
        }
        newest
    }

    /// Whether clients have sessions, as the instance that orders is to know. Returns whether it was told otherwise.
    pub(crate) fn attend(&mut self, is_attended: bool) -> bool {
        let newest = self.newest();
        std::mem::replace(&mut self.all[newest].is_attended, is_attended) != is_attended
    }

    pub(crate) fn next_wake(&self) -> Option<Time> {
        let due = self
            .all
            .iter()
            .map(|instance| instance.ordering.next_wake());
        due.fold(None, Time::earlier)
    }

    pub(crate) fn is_due(&self, place: usize, now: Time) -> bool {
        let due = self.all[place].ordering.next_wake();
        due.is_some_and(|due| due <= now)
    }

    /// The view of the newest instance ends with `last`. Returns whether that is news.
    pub(crate) fn close(&mut self, last: Slot) -> bool {
        let place = self.newest();
        let is_news = self.all[place].last.is_none();
        self.all[place].last = Some(last);
        is_news
    }

    /// Another view is in force: makes its instance, which orders from now on. Returns whether this node takes part in it for the
    /// first time.
    pub(crate) fn open(&mut self, now: Time, view: &View, standing: Standing) -> bool {
        let number = view.number;
        let records = self.past.records.remove(&number);
        self.past.records.retain(|other, _| *other > number);
        let is_first = number > self.past.begun;
        let is_ahead = self.ahead.take() == Some(number);
        let is_beginning = self.beginning.iter().any(|(_, begun)| *begun == number);
        let past = match records {
            Some(records) if !planted(Plant::LaterViewDropped) => self.past.of(records),
            _ if is_ahead && !is_beginning => ViewPast::Begun,
            _ if is_ahead || is_first || planted(Plant::LostViewVotes) => ViewPast::None,
            _ => ViewPast::Lost,
        };
        let is_damaged = matches!(past, ViewPast::Lost | ViewPast::Damaged(_));
        let ordering = self.current().of_view(now, view.clone(), standing, past);
        self.all.push(Instance {
            ordering,
            nodes: view.nodes(),
            last: None,
            marks: VecDeque::new(),
            is_damaged,
            is_attended: false,
        });
        self.past.begun = self.past.begun.max(number);
        self.snapshot_due = now;
        is_first
    }

    /// A link stands, or is over.
    pub(crate) fn link_changed(&mut self, peer: NodeId, state: LinkState) {
        let before = match state {
            LinkState::Up(epoch) => self.links.insert(peer, epoch),
            LinkState::Down => self.links.remove(&peer),
        };
        if let Some(before) = before {
            self.links_over.insert(peer, before);
        }
    }

    /// The links that stand to members of the newest view which the one before it did not name: its instance could not hand them on.
    pub(crate) fn links_beyond(&self, before: usize) -> Vec<(NodeId, LinkEpoch)> {
        let (known, named) = (self.all[before].nodes, self.all[self.newest()].nodes);
        let links = self.links.iter().map(|(peer, epoch)| (*peer, *epoch));
        links
            .filter(|(peer, _)| named.contains(*peer) && !known.contains(*peer))
            .collect()
    }

    /// Whether no newer link than this one stands to a peer, and this one is not over: what an earlier one brings late may be word of an
    /// earlier start.
    pub(crate) fn is_newest_link(&self, peer: NodeId, link: LinkEpoch) -> bool {
        let is_over = |over: &LinkEpoch| link <= *over && self.links.get(&peer) != Some(&link);
        let is_older = self.links.get(&peer).is_some_and(|up| link < *up);
        !is_older && !self.links_over.get(&peer).is_some_and(is_over)
    }

    /// The slot after which the oldest instance has a log.
    pub(crate) fn begins_after(&self) -> Slot {
        self.all[0].ordering.trimmed()
    }

    /// At a start: the instance of the view before the one in force, if its slots may be needed from this node. Returns whether it has
    /// any of it.
    pub(crate) fn open_previous(
        &mut self,
        now: Time,
        (view, last): (&View, Slot),
        standing: Standing,
    ) -> bool {
        let Some(records) = self.past.records.remove(&view.number) else {
            return false;
        };
        let past = self.past.of(records);
        let ordering = self.current().of_view(now, view.clone(), standing, past);
        let is_damaged = self.past.is_damaged;
        let instance = Instance {
            ordering,
            nodes: view.nodes(),
            last: Some(last),
            marks: VecDeque::new(),
            is_damaged,
            is_attended: false,
        };
        self.all.insert(self.all.len() - 1, instance);
        true
    }

    /// At a start: no node needs this one's part in views before `view`.
    pub(crate) fn forget_before(&mut self, view: ViewNumber) {
        self.past.records.retain(|number, _| *number > view);
    }

    /// Views whose slots are all in snapshots up to `slot`, which a majority holds, are not needed any more. Returns whether there
    /// were any.
    pub(crate) fn drop_covered(&mut self, slot: Slot) -> bool {
        let (before, newest) = (self.all.len(), self.newest());
        let mut place = 0;
        self.all.retain(|instance| {
            let last = instance.last.filter(|_| place < newest);
            place += 1;
            let is_kept = last.is_none_or(|last| last > slot);
            self.left_damage |= !is_kept && instance.is_damaged;
            is_kept
        });
        self.all.len() < before
    }

    /// The group waits for a snapshot that covers the view before. Returns whether it is time to ask for one, for the first time or
    /// once more.
    pub(crate) fn wants_snapshot(&mut self, now: Time) -> bool {
        let is_due = self.all.len() > 1 && self.snapshot_due <= now;
        if is_due {
            self.snapshot_due = now + OLD_VIEW_SNAPSHOT_EVERY;
        }
        is_due
    }

    /// At a start from a snapshot: its view may be one in which no start of this node took part before.
    pub(crate) fn begin_current(&mut self) -> bool {
        let number = self.current().view().number;
        let is_first = number > self.past.begun;
        self.past.begun = self.past.begun.max(number);
        is_first
    }

    /// Instances of views that a snapshot has left behind, or of more of them than are kept.
    pub(crate) fn drop_older(&mut self, kept: usize) {
        let excess = self.all.len().saturating_sub(kept);
        self.left_damage |= self.all.drain(..excess).any(|one| one.is_damaged);
    }

    /// Keeps a message for a view that is not known here yet.
    pub(crate) fn keep_early(&mut self, view: ViewId, received: Event<O::Message>) {
        if self.early.len() >= EARLY_MESSAGES {
            self.early.pop_front();
            self.dropped += 1;
        }
        self.early.push_back((view, received));
    }

    /// Whether messages came for a view after this one.
    pub(crate) fn has_early_beyond(&self, view: ViewNumber) -> bool {
        self.early.iter().any(|(of, _)| of.number > view)
    }

    /// Takes the messages that came for a view before it was known here.
    pub(crate) fn take_early(&mut self, view: ViewId) -> Vec<Event<O::Message>> {
        let mut taken = Vec::new();
        for (of, received) in std::mem::take(&mut self.early) {
            if of == view {
                taken.push(received);
            } else if of > view {
                self.early.push_back((of, received));
            }
        }
        taken
    }

    /// Up to where records may be removed, and what must be written first, when an instance would remove its own up to `upto`.
    pub(crate) fn base(
        &self,
        place: usize,
        upto: Slot,
        mut base: Vec<Record>,
    ) -> (Slot, Vec<Record>) {
        if planted(Plant::BaseOfOneView) {
            return (upto, base);
        }
        let mut least = upto;
        for (other, instance) in self.all.iter().enumerate() {
            if other != place {
                least = least.min(instance.ordering.trimmed());
                base.extend(instance.ordering.statement());
            }
        }
        base.extend(self.ahead.map(|number| self.beginning_of(number)));
        let later = self.past.records.values().flatten();
        base.extend(later.filter(|record| record.slot().is_none()).cloned());
        (least, base)
    }

    /// An instance says that what it lost is written again. Returns whether nothing of this node's log is missing any more.
    pub(crate) fn repaired(&mut self, place: usize) -> bool {
        self.all[place].is_damaged = false;
        let is_known = self.all[self.newest()].ordering.view().number >= self.past.begun;
        let is_whole =
            is_known && self.past.records.is_empty() && !self.all.iter().any(|one| one.is_damaged);
        self.left_damage &= !is_whole;
        is_whole
    }

    /// The log begins with `base`. Returns whether nothing that any start needs is missing any more: all that was lost is of views
    /// that are gone, and an agreed snapshot of the view in force says so to the next start, which takes nothing of those. An
    /// acceptor without a vote there cannot say that what it lost is written again.
    pub(crate) fn outlives_damage(&mut self, base: &[Record]) -> bool {
        let number = self.current().view().number;
        let is_agreed = |record: &Record| {
            record.view.number == number && matches!(record.entry, Entry::Agreed { .. })
        };
        let is_whole = self.left_damage
            && self.all.len() == 1
            && !self.all[0].is_damaged
            && number >= self.past.begun
            && self.past.records.is_empty()
            && base.iter().any(is_agreed);
        self.left_damage &= !is_whole;
        is_whole
    }

    pub(crate) fn check(&self) {
        for instance in &self.all {
            instance.ordering.check();
        }
        let views = self.all.windows(2);
        for pair in views {
            let (before, after) = (&pair[0].ordering, &pair[1].ordering);
            assert!(before.view() < after.view(), "instances ascend by view");
            assert!(pair[0].last.is_some(), "only the newest orders");
        }
    }
}
