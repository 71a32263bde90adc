//! Operators create and drop groups beside this one, which is the first of its cluster.

use crate::limits::GROUP_CHANGES_WAITING;
use crate::local::clients::{refuse, reply};
use crate::local::internal::Purpose;
use crate::{Output, Replica};
use quorate_ordering::Ordering;
use quorate_types::{
    Ask, Body, ConnectionId, GroupChange, GroupChangeError, GroupEntry, Level, Refusal, Slot,
    ToClient,
};
use std::sync::Arc;

impl<O: Ordering> Replica<O> {
    /// The groups that were decided up to the last applied slot, oldest first. A later one shares nothing with it.
    #[must_use]
    pub fn groups(&self) -> &Arc<Vec<GroupEntry>> {
        self.replicated.groups.all()
    }

    /// An operator creates or drops a group, or names a node for one.
    pub(crate) fn client_change_groups(
        &mut self,
        (from, request): (ConnectionId, u64),
        change: GroupChange,
        out: &mut Vec<Output<O::Message>>,
    ) {
        let refusal = if !self.can_order() {
            Refusal::StorageFull
        } else if !self.config.decides_groups {
            Refusal::ImpossibleGroup
        } else if change.level() > self.view().level {
            Refusal::LevelNotSpoken
        } else if self.internals.group_changes() >= GROUP_CHANGES_WAITING {
            Refusal::Overloaded
        } else {
            let body = Body::ChangeGroups { change };
            return self.submit(Purpose::ChangeGroups(from, request), body);
        };
        refuse(out, from, Ask::Request(request), refusal);
    }

    /// A change of the groups is decided.
    pub(crate) fn groups_decided(
        &mut self,
        slot: Slot,
        change: &GroupChange,
        asked: Option<Purpose>,
        out: &mut Vec<Output<O::Message>>,
    ) {
        if change.level() > Level::UNNAMED {
            self.levels.written(change.level(), slot);
        }
        let view = self.replicated.views.current().clone();
        let stamp = self.replicated.stamp;
        let decided = self.replicated.groups.decided((slot, stamp), &view, change);
        if let Some(Purpose::ChangeGroups(to, request)) = asked {
            match decided {
                Ok(slot) => reply(out, to, ToClient::Checkpointed { request, slot }),
                Err(error) => refuse(out, to, Ask::Request(request), refusal_of(error)),
            }
        }
    }
}

fn refusal_of(error: GroupChangeError) -> Refusal {
    match error {
        GroupChangeError::Exists => Refusal::GroupExists,
        GroupChangeError::Unknown => Refusal::UnknownGroup,
        GroupChangeError::NotSpoken => Refusal::LevelNotSpoken,
        GroupChangeError::TooMany | GroupChangeError::NotMembers | GroupChangeError::Malformed => {
            Refusal::ImpossibleGroup
        }
    }
}
