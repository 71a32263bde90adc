//! The calls and returns of a window of operations in time order, from which a placed operation is lifted and to
//! which it returns on backtracking, both in constant time: a doubly linked list inside arrays.
//!
//! Called by `search` only. Operations must be lifted and put back in stack order.

/// A position in the list; [`HEAD`] stands before the first entry and after the last.
pub(super) type TimelineNode = usize;

/// The sentinel that closes the list into a ring.
pub(super) const HEAD: TimelineNode = 0;

/// What happens at a position; operations are numbered by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TimelineEntry {
    /// The operation is called.
    Invoke(usize),
    /// The operation returns.
    Return(usize),
}

/// The list of the entries of all operations not yet placed.
pub(super) struct Timeline {
    entries: Vec<TimelineEntry>,
    next: Vec<TimelineNode>,
    prev: Vec<TimelineNode>,
    invoke_at: Vec<TimelineNode>,
    return_at: Vec<TimelineNode>,
}

impl Timeline {
    /// Orders operations given as (invoke, return) times. At equal times calls stand before returns, so operations
    /// that touch in one instant are concurrent.
    pub(super) fn new(intervals: &[(u64, u64)]) -> Self {
        let mut events: Vec<(u64, TimelineEntry)> = Vec::with_capacity(2 * intervals.len());
        for (op, (invoke, back)) in intervals.iter().enumerate() {
            assert!(invoke <= back, "an operation returns after its call");
            events.push((*invoke, TimelineEntry::Invoke(op)));
            events.push((*back, TimelineEntry::Return(op)));
        }
        events.sort_unstable();
        let ring = events.len() + 1;
        let mut timeline = Self {
            entries: events.iter().map(|(_, entry)| *entry).collect(),
            next: (0..ring).map(|node| (node + 1) % ring).collect(),
            prev: (0..ring).map(|node| (node + ring - 1) % ring).collect(),
            invoke_at: vec![HEAD; intervals.len()],
            return_at: vec![HEAD; intervals.len()],
        };
        for (index, (_, entry)) in events.iter().enumerate() {
            match entry {
                TimelineEntry::Invoke(op) => timeline.invoke_at[*op] = index + 1,
                TimelineEntry::Return(op) => timeline.return_at[*op] = index + 1,
            }
        }
        timeline
    }

    /// The position after `node`; [`HEAD`] after the last.
    pub(super) fn after(&self, node: TimelineNode) -> TimelineNode {
        self.next[node]
    }

    /// What stands at `node`, which is not [`HEAD`].
    pub(super) fn at(&self, node: TimelineNode) -> TimelineEntry {
        self.entries[node - 1]
    }

    /// The operation whose return comes first, if any operation is left.
    pub(super) fn first_return(&self) -> Option<usize> {
        let mut node = self.after(HEAD);
        while node != HEAD {
            match self.at(node) {
                TimelineEntry::Return(op) => return Some(op),
                TimelineEntry::Invoke(_) => node = self.after(node),
            }
        }
        None
    }

    /// Takes both entries of `op` out.
    pub(super) fn lift(&mut self, op: usize) {
        self.unlink(self.invoke_at[op]);
        self.unlink(self.return_at[op]);
    }

    /// Puts back the entries of the operation lifted last.
    pub(super) fn put_back(&mut self, op: usize) {
        self.relink(self.return_at[op]);
        self.relink(self.invoke_at[op]);
    }

    fn unlink(&mut self, node: TimelineNode) {
        let (before, after) = (self.prev[node], self.next[node]);
        self.next[before] = after;
        self.prev[after] = before;
    }

    fn relink(&mut self, node: TimelineNode) {
        let (before, after) = (self.prev[node], self.next[node]);
        self.next[before] = node;
        self.prev[after] = node;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(timeline: &Timeline) -> Vec<TimelineEntry> {
        let mut out = vec![];
        let mut node = timeline.after(HEAD);
        while node != HEAD {
            out.push(timeline.at(node));
            node = timeline.after(node);
        }
        out
    }

    #[test]
    fn operations_put_back_in_stack_order_restore_the_list() {
        let mut timeline = Timeline::new(&[(0, 5), (1, 2), (5, 9)]);
        let whole = listed(&timeline);
        assert_eq!(
            whole[3],
            TimelineEntry::Invoke(2),
            "a call stands before a return of its instant"
        );
        assert_eq!(timeline.first_return(), Some(1));
        timeline.lift(1);
        timeline.lift(0);
        assert_eq!(
            listed(&timeline),
            [TimelineEntry::Invoke(2), TimelineEntry::Return(2)]
        );
        timeline.put_back(0);
        timeline.put_back(1);
        assert_eq!(listed(&timeline), whole);
    }
}
