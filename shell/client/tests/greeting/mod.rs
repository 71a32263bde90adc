//! How the node greets that tests play for a client.

use quorate_types::{ClusterId, GroupId, Incarnation, NodeId, ViewNumber};
use quorate_wire::{VERSION, Welcome};

pub(crate) const GROUP: GroupId = GroupId(1);

/// The welcome of a node of `cluster`.
pub(crate) fn welcome(cluster: ClusterId) -> Welcome {
    Welcome {
        version: VERSION,
        cluster,
        node: NodeId(1),
        incarnation: Incarnation(1),
        boot: 1,
        group: GROUP,
        view: ViewNumber(1),
        members: Vec::new(),
        objects: Vec::new(),
        leader: None,
    }
}
