//! Connections that are meant for another group of this node. They are passed on with their first frame; that group's own
//! transport goes on with them as if it had accepted them.

use crate::connection::{Connection, Phase};
use crate::transport::{Arrival, Transport};
use quorate_types::{GroupId, NodeId, Time};
use quorate_wire::{Frame, Kind, RejectReason, Welcome};
use std::collections::BTreeMap;

/// A group of this cluster beside the one that a transport serves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OtherGroup {
    /// This node serves it too: who asks for it is passed on.
    Here,
    /// These nodes serve it, who are reached there: clients are sent to them.
    Elsewhere(Vec<(NodeId, String)>),
}

/// A connection on its way to the transport of another group of this node.
pub struct Passed {
    connection: Connection,
    hello: Frame,
    /// A node's, else: it connects again by itself, and is told nothing.
    is_client: bool,
}

impl std::fmt::Debug for Passed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Passed")
            .field("from", &self.connection.address)
            .finish_non_exhaustive()
    }
}

impl Passed {
    /// Whether a client asks, who is told why nobody serves it.
    #[must_use]
    pub fn is_client(&self) -> bool {
        self.is_client
    }
}

impl Transport {
    /// Says which other groups there are.
    pub fn set_other_groups(&mut self, others: BTreeMap<GroupId, OtherGroup>) {
        self.others = others;
    }

    /// A stranger asks for another group.
    pub(crate) fn asked_elsewhere(
        &mut self,
        slot: usize,
        group: GroupId,
        (frame, is_client): (&Frame, bool),
        now: Time,
    ) {
        match self.others.get(&group) {
            Some(OtherGroup::Here) => self.pass_on(slot, group, (frame, is_client)),
            Some(OtherGroup::Elsewhere(members)) if is_client => {
                let connection = self.slots[slot].as_ref().expect("it has just spoken");
                let welcome = Welcome {
                    group,
                    members: members.clone(),
                    objects: Vec::new(),
                    leader: None,
                    ..self.welcome(connection.level)
                };
                let connection = self.slots[slot].as_mut().expect("it has just spoken");
                connection.greet(Kind::Welcome, |body| welcome.put(body));
                let text = "this node does not serve the group: it has said who does";
                self.turn_away(slot, RejectReason::Elsewhere, text, now);
            }
            Some(OtherGroup::Elsewhere(_)) | None => {
                let text = format!(
                    "this node serves {} of {} and not {group}",
                    self.settings.own.group, self.settings.own.cluster
                );
                self.turn_away(slot, RejectReason::Group, &text, now);
            }
        }
    }

    fn pass_on(&mut self, slot: usize, group: GroupId, (frame, is_client): (&Frame, bool)) {
        let mut connection = self.slots[slot].take().expect("it has just spoken");
        self.free.push(slot);
        self.settings.places.give_back(1);
        if let Some(at) = connection.deadline {
            self.deadlines.remove(&(at, slot));
        }
        let counted = std::mem::take(&mut connection.counted);
        self.recount(counted, 0);
        self.strangers -= 1;
        // A socket that is not watched any more is watched by the next transport.
        let _ = self.registry.deregister(connection.stream.socket());
        let hello = frame.clone();
        let passed = Box::new(Passed {
            connection,
            hello,
            is_client,
        });
        self.arrivals.push(Arrival::Elsewhere { group, passed });
    }

    /// Takes over a connection that another transport of this node accepted.
    pub fn adopt(&mut self, passed: Passed, now: Time) {
        let hello = passed.hello.clone();
        if let Some(slot) = self.take_over(passed, now) {
            self.counters.accepted += 1;
            self.greeted(slot, &hello, now);
            // Frames that came with the first one are whole already: no event tells of them.
            self.receive(slot, false, now);
        }
    }

    /// Ends a connection that the transport of the other group does not take; a client is told why, and goes to another node.
    pub fn turn_back(&mut self, passed: Passed, why: &str, now: Time) {
        if passed.is_client
            && let Some(slot) = self.take_over(passed, now)
        {
            let text = format!("this node does not serve the group: {why}");
            self.turn_away(slot, RejectReason::Stopping, &text, now);
        }
    }

    /// A place for a connection from another transport; `None` where there is none, which ends it.
    fn take_over(&mut self, passed: Passed, now: Time) -> Option<usize> {
        if self.is_full() && !self.evict_stranger(now) {
            self.counters.refused += 1;
            return None;
        }
        let group = self.settings.own.group;
        let connection = passed.connection.passed_to(group, Phase::Stranger);
        match self.take_slot(connection) {
            Ok(slot) => {
                self.strangers += 1;
                Some(slot)
            }
            Err(error) => {
                tracing::warn!(%error, "cannot watch a connection");
                None
            }
        }
    }
}
