//! Views and commands for tests.

use quorate_types::{
    Body, Command, CommandId, GroupId, GroupLimits, Incarnation, Member, NodeId, ObjectId,
    Persistence, Quorums, SessionId, Slot, Value, View, ViewId, ViewNumber,
};
use std::collections::BTreeMap;

/// The view that [`view`] makes, of the group that tests order.
pub const VIEW: ViewId = ViewId {
    group: GroupId(1),
    number: ViewNumber(1),
};

/// Nodes 1 to `nodes`, of which the first `acceptors` vote, by majority; ω is 64.
///
/// # Panics
/// When a majority of `acceptors` does not exist.
#[must_use]
pub fn view(nodes: u16, acceptors: u16, persistence: Persistence) -> View {
    let ids = || (1..=nodes).map(NodeId);
    let member = |node| Member {
        node,
        incarnation: Incarnation(1),
        address: String::new(),
    };
    View {
        first_ballot: None,
        limits: GroupLimits::default(),
        number: VIEW.number,
        first_slot: Slot(1),
        members: ids().map(member).collect(),
        replicas: ids().collect(),
        acceptors: (1..=acceptors).map(NodeId).collect(),
        quorums: Quorums::majority(acceptors.into()).expect("some node votes"),
        window: 64,
        rejoined: BTreeMap::new(),
        level: quorate_types::Level::UNNAMED,
        ordering: quorate_types::OrderingName::Paxos,
        persistence,
        objects: Vec::new(),
    }
}

/// Call number `sequence` of a session, on object 0.
#[must_use]
pub fn call(session: u64, sequence: u64, payload: &[u8]) -> Command {
    Command {
        id: CommandId {
            session: SessionId(session),
            sequence,
        },
        acknowledged: 0,
        body: Body::Call {
            object: ObjectId(0),
            payload: Value::copy_from_slice(payload),
        },
    }
}
