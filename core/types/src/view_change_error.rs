//! Why a view cannot be changed as somebody asks.

use crate::{FastQuorumsError, Level, LimitError, NodeId, NodeSet, OrderingName, ViewChange};
use std::fmt;

/// Why a view cannot be changed in this way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ViewChangeError {
    /// Another view than the one that was to be changed is in force, or follows already.
    Superseded,
    /// No acceptor would be left.
    NoAcceptors,
    /// No acceptor would execute: nobody could lead, or answer.
    OnlyWitnesses,
    /// A group at this level has no witnesses: its members need not read what names one.
    WitnessesNotSpoken(Level),
    /// The node is no member of the group.
    NotAMember(NodeId),
    /// Another node with this number is a member.
    IsAMember(NodeId),
    /// The node cannot leave: it votes.
    Votes(NodeId),
    /// The group has as many members as it can have.
    Full,
    /// Where the node would be reached is not `host:port`.
    Address(NodeId),
    /// Nobody was invited with this secret, or the invitation was used, or its time is over.
    NotInvited,
    /// Another level, or another ordering, would leave the group at this level with an ordering that its members need not speak.
    OrderingNotSpoken(Level, OrderingName),
    /// Nodes were named later for other groups: who reads snapshots that say so speaks another level.
    GroupsNotSpoken(Level),
    /// The window is not between 1 and [`ViewChange::WINDOW_MAX`] slots.
    Window(u64),
    /// A group at this level has majorities: its members need not read what asks for other quorums.
    QuorumsNotSpoken(Level),
    /// These acceptors cannot have the quorums.
    Quorums(FastQuorumsError),
    /// The group is in memory: a node that stops votes again only with the next view, which takes a leader and its votes.
    QuorumsInMemory,
    /// A group at this level has the default limits: its members need not read what asks for others.
    LimitsNotSpoken(Level),
    /// The group cannot have the limit.
    Limit(LimitError),
}

impl fmt::Display for ViewChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ViewChangeError::Superseded => {
                f.write_str("another change came first: look at the view and decide again")
            }
            ViewChangeError::NoAcceptors => f.write_str("a view needs at least one acceptor"),
            ViewChangeError::OnlyWitnesses => f.write_str(
                "a view needs an acceptor that executes: witnesses do not lead or answer",
            ),
            ViewChangeError::WitnessesNotSpoken(level) => write!(
                f,
                "a group at level {level} has no witnesses: that takes level {}",
                Level::WITNESSES
            ),
            ViewChangeError::NotAMember(node) => {
                write!(f, "node {} is no member of the group", node.0)
            }
            ViewChangeError::IsAMember(node) => {
                write!(f, "another node {} is a member of the group", node.0)
            }
            ViewChangeError::Votes(node) => {
                write!(f, "node {} votes: who leaves must not be an acceptor of the view", node.0)
            }
            ViewChangeError::Full => write!(
                f,
                "a group has at most {} members, with numbers below that",
                NodeSet::CAPACITY
            ),
            ViewChangeError::Address(node) => {
                write!(f, "the address of node {} is not host:port", node.0)
            }
            ViewChangeError::OrderingNotSpoken(level, ordering) => write!(
                f,
                "who speaks level {level} only cannot order with {ordering}: that takes level {}",
                ordering.change_level()
            ),
            ViewChangeError::GroupsNotSpoken(level) => write!(
                f,
                "who speaks level {level} only cannot read for which groups nodes were named later: drop these groups first"
            ),
            ViewChangeError::NotInvited => f.write_str(
                "this invitation was used, its time is over, or the group never made it: ask for another one",
            ),
            ViewChangeError::Window(slots) => {
                let most = ViewChange::WINDOW_MAX;
                write!(f, "the window takes 1 to {most} slots, not {slots}")
            }
            ViewChangeError::QuorumsNotSpoken(level) => write!(
                f,
                "a group at level {level} counts by majorities: other quorums take level {}",
                Level::QUORUMS
            ),
            ViewChangeError::Quorums(why) => why.fmt(f),
            ViewChangeError::LimitsNotSpoken(level) => write!(
                f,
                "a group at level {level} has the default limits: others take level {}",
                Level::LIMITS
            ),
            ViewChangeError::Limit(why) => why.fmt(f),
            ViewChangeError::QuorumsInMemory => f.write_str(
                "a group in memory counts by majorities: each node that stops needs another view before it votes again, which takes as \
                 many nodes as the larger quorum",
            ),
        }
    }
}

impl std::error::Error for ViewChangeError {}
