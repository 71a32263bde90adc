//! The groups of a cluster: the first one decides which others there are, and which nodes serve them.

use crate::{GroupId, Incarnation, Level, NodeId, NodeSet, Slot};
use bytes::Bytes;
use std::fmt;

impl GroupId {
    /// The group with which a cluster begins.
    pub const FIRST: GroupId = GroupId(1);

    /// The group of that name. Its number follows from the name, so that a client needs to ask nobody for it.
    ///
    /// ```
    /// use quorate_types::GroupId;
    /// assert_eq!(GroupId::named("orders"), GroupId::named("orders"));
    /// assert_ne!(GroupId::named("orders"), GroupId::FIRST);
    /// ```
    #[must_use]
    pub fn named(name: &str) -> GroupId {
        let hash = blake3::hash(name.as_bytes());
        let [a, b, c, d, ..] = *hash.as_bytes();
        // The lower half is for groups without a name.
        GroupId(u32::from_le_bytes([a, b, c, d]) | 1 << 31)
    }
}

/// What the first group decides about another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GroupChange {
    /// There is one more.
    Create {
        /// What clients call it.
        name: String,
        /// The nodes that serve it, replicas of the first group. All vote.
        nodes: NodeSet,
        /// Its objects and settings, for the nodes; the core does not read it.
        setup: Bytes,
    },
    /// It is over, and what it holds is gone.
    Drop {
        /// What clients call it.
        name: String,
    },
    /// A member of the first group begins to serve it, which did not when it was created, or has left it since. Who belongs to the
    /// group is decided there: until the group has let the node join, it serves nothing.
    Serve {
        /// What clients call it.
        name: String,
        /// The node.
        node: NodeId,
        /// Its incarnation in the group, drawn at random: none of its earlier lives there has it.
        incarnation: Incarnation,
    },
}

/// A group beside the first one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupEntry {
    /// What clients call it.
    pub name: String,
    /// The slot of the first group in which it was created: no other group has the same name and the same slot.
    pub created: Slot,
    /// Who served it from its beginning on, ascending by node.
    pub members: Vec<GroupMember>,
    /// Its objects and settings.
    pub setup: Bytes,
    /// Who was named for it later, ascending by node, with the slot of the first group in which that was decided.
    pub later: Vec<(Slot, GroupMember)>,
}

/// A node that serves a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupMember {
    /// The node.
    pub node: NodeId,
    /// Where it is reached, `host:port`.
    pub address: String,
    /// As whom it voted, or may have voted, in the first group when that decided to create this one. A life of the node with
    /// another one may have lost what it voted here.
    pub voted_as: Incarnation,
    /// Its incarnation in the group.
    pub incarnation: Incarnation,
}

/// Why groups cannot be changed in this way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupChangeError {
    /// Another group has the name, or one that gives the same number.
    Exists,
    /// There is no group of that name.
    Unknown,
    /// There are as many as can be.
    TooMany,
    /// No node is named, or one that is no member of the first group, or a witness there.
    NotMembers,
    /// The name is none, or the setup is too large.
    Malformed,
    /// A member of the first group may not read it: it takes a group at [`GroupChange::SERVE_LEVEL`].
    NotSpoken,
}

impl GroupChange {
    /// The most bytes of a name.
    pub const NAME_BYTES_MAX: usize = 64;
    /// The most bytes of a setup.
    pub const SETUP_BYTES_MAX: usize = 16 << 10;

    /// What the first group must speak before nodes begin to serve a group that was there before them.
    pub const SERVE_LEVEL: Level = Level(21);

    /// What clients call the group.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            GroupChange::Create { name, .. }
            | GroupChange::Drop { name }
            | GroupChange::Serve { name, .. } => name,
        }
    }

    /// What a node must speak that is to read it.
    #[must_use]
    pub fn level(&self) -> Level {
        match self {
            GroupChange::Create { .. } | GroupChange::Drop { .. } => Level::UNNAMED,
            GroupChange::Serve { .. } => GroupChange::SERVE_LEVEL,
        }
    }

    /// Bytes of name and setup.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            GroupChange::Create { name, setup, .. } => name.len() + setup.len(),
            GroupChange::Drop { name } | GroupChange::Serve { name, .. } => name.len(),
        }
    }

    /// Whether a group can have the name: letters, digits, `-`, `_` and `.`, not first a `.`; it is a part of paths and addresses.
    ///
    /// ```
    /// use quorate_types::GroupChange;
    /// assert!(GroupChange::is_name("orders-2.eu"));
    /// assert!(!GroupChange::is_name("../orders") && !GroupChange::is_name(""));
    /// ```
    #[must_use]
    pub fn is_name(name: &str) -> bool {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        (1..=Self::NAME_BYTES_MAX).contains(&name.len())
            && name.bytes().all(known)
            && !name.starts_with('.')
    }
}

impl GroupEntry {
    /// Its number.
    #[must_use]
    pub fn id(&self) -> GroupId {
        GroupId::named(&self.name)
    }

    /// How `node` serves it, if it does, and the slot of the first group since which: what was decided last counts.
    #[must_use]
    pub fn member(&self, node: NodeId) -> Option<(Slot, &GroupMember)> {
        let later = self.later.iter().map(|(since, member)| (*since, member));
        let first = self.members.iter().map(|member| (self.created, member));
        later.chain(first).find(|(_, member)| member.node == node)
    }

    /// All that were named for it, each as it was last, ascending by node.
    #[must_use]
    pub fn named(&self) -> Vec<&GroupMember> {
        let later = self.later.iter().map(|(_, member)| member);
        let is_first = |member: &&GroupMember| later.clone().all(|other| other.node != member.node);
        let first = self.members.iter().filter(is_first);
        let mut named: Vec<&GroupMember> = first.chain(later.clone()).collect();
        named.sort_by_key(|member| member.node);
        named
    }
}

impl fmt::Display for GroupChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GroupChangeError::Exists => "another group has this name",
            GroupChangeError::Unknown => "no group has this name",
            GroupChangeError::TooMany => "the cluster has as many groups as it can have",
            GroupChangeError::NotMembers => {
                "the nodes of a group are replicas of the cluster's first group, at least one"
            }
            GroupChangeError::Malformed => {
                "a name has 1 to 64 letters, digits, -, _ and ., the first no ."
            }
            GroupChangeError::NotSpoken => {
                "a node serves a group that was there before it only where the cluster's first group is at level 21"
            }
        })
    }
}
