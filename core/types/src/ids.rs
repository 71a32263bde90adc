//! Identities. Each is a type of its own, so that a node cannot be passed where a group is meant.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

id!(
    /// One deployment: nodes of different clusters never talk to each other.
    ClusterId(u64), "cluster-"
);
id!(
    /// One log and the nodes and clients that share it. A node can serve many groups.
    GroupId(u32), "g"
);
id!(
    /// A process of a cluster. At most [`NodeSet::CAPACITY`] nodes take part in one group.
    NodeId(u16), "n"
);
id!(
    /// Random number drawn when a data directory is made: a wiped directory is another incarnation.
    Incarnation(u64), "i"
);
id!(
    /// One connection of a link between two nodes; cumulative acknowledgements hold only within one epoch.
    LinkEpoch(u64), "e"
);
id!(
    /// The user's replicated value inside its group, numbered in the order of the view's objects; what is created while the group
    /// runs has numbers from [`ObjectId::CREATED_MIN`] on, each used once.
    ObjectId(u32), "o"
);
id!(
    /// A client's registered identity in a group; the id is the place of the command that opened it.
    SessionId(u64), "s"
);
id!(
    /// A connection of a client to this node; local to the node, never reused.
    ConnectionId(u64), "c"
);

id!(
    /// The connections on which a client uses one session, numbered by it: a later one has a higher number.
    Attachment(u64), "a"
);

impl Attachment {
    /// The client does not number them.
    pub const NONE: Attachment = Attachment(0);
}

impl ObjectId {
    /// The directory: it creates and drops objects, and knows their names. It is an object itself, so that to create one is a call.
    pub const DIRECTORY: ObjectId = ObjectId(u32::MAX);

    /// The lowest number of an object that was created while its group ran.
    pub const CREATED_MIN: ObjectId = ObjectId(1 << 16);
}

impl SessionId {
    /// No session: the id of commands that a replica itself submits.
    pub const NONE: SessionId = SessionId(0);

    /// The session opened by the command at `index` of the batch decided in `slot`.
    /// Slots start at 1, so no session is [`SessionId::NONE`].
    #[must_use]
    pub fn opened_at(slot: crate::Slot, index: usize) -> SessionId {
        assert!(
            slot.0 > 0 && slot.0 < 1 << 47,
            "slots number the log from 1"
        );
        assert!(index < 1 << 16, "a batch holds at most 65,536 commands");
        SessionId(slot.0 << 16 | index as u64)
    }
}

/// A set of nodes of one group, as a bit mask over their ids.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeSet(u64);

impl NodeSet {
    /// Node ids of a group are below this number.
    pub const CAPACITY: u16 = 64;

    /// The empty set.
    #[must_use]
    pub const fn empty() -> NodeSet {
        NodeSet(0)
    }

    /// The set of one node.
    #[must_use]
    pub fn only(node: NodeId) -> NodeSet {
        let mut set = NodeSet(0);
        set.insert(node);
        set
    }

    /// Adds `node`; returns whether it was absent.
    pub fn insert(&mut self, node: NodeId) -> bool {
        assert!(node.0 < Self::CAPACITY, "node ids of a group are below 64");
        let before = self.0;
        self.0 |= 1 << node.0;
        before != self.0
    }

    /// Removes `node`.
    pub fn remove(&mut self, node: NodeId) {
        self.0 &= !(1 << node.0);
    }

    /// Whether `node` is in the set.
    #[must_use]
    pub fn contains(&self, node: NodeId) -> bool {
        node.0 < Self::CAPACITY && self.0 & (1 << node.0) != 0
    }

    /// The number of nodes in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0 == 0
    }

    /// The set without `node`.
    #[must_use]
    pub fn without(mut self, node: NodeId) -> NodeSet {
        self.remove(node);
        self
    }

    /// The nodes in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> + use<> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            (rest != 0).then(|| {
                let lowest = rest.trailing_zeros() as u16;
                rest &= rest - 1;
                NodeId(lowest)
            })
        })
    }
}

impl FromIterator<NodeId> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> NodeSet {
        let mut set = NodeSet::empty();
        for node in nodes {
            set.insert(node);
        }
        set
    }
}

impl fmt::Debug for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Slot;

    #[test]
    fn a_set_lists_its_nodes_in_order() {
        let set: NodeSet = [NodeId(5), NodeId(1), NodeId(63)].into_iter().collect();
        assert_eq!(
            set.iter().collect::<Vec<_>>(),
            [NodeId(1), NodeId(5), NodeId(63)]
        );
        assert_eq!(set.without(NodeId(5)).len(), 2);
    }

    #[test]
    fn sessions_are_distinct_over_slots_and_indexes() {
        assert_ne!(
            SessionId::opened_at(Slot(1), 0),
            SessionId::opened_at(Slot(1), 1)
        );
        assert_ne!(
            SessionId::opened_at(Slot(1), 1),
            SessionId::opened_at(Slot(2), 1)
        );
        assert_ne!(SessionId::opened_at(Slot(1), 0), SessionId::NONE);
    }
}
