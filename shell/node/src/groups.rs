//! The other groups that a node serves: each has a directory inside the node's own, and a loop on a thread of its own.
//!
//! The first group decides which groups there are. Its node follows that: it begins the nodes of groups that name it, ends those
//! of groups that were dropped, and passes them the connections of whoever asks for them.

use crate::descriptors::CONNECTIONS_MIN;
use crate::group_directory::{GroupDirectory, found_in};
use crate::group_setup::GroupSetup;
use crate::limits::{
    DESCRIPTORS_OF_A_GROUP, GROUP_BEGINS_AGAIN_MAX, GROUP_BEGINS_AGAIN_MIN, GROUP_LEFT_MAX,
};
use crate::mailbox::{GroupState, Mailbox, Stop};
use crate::node::Node;
use crate::{LostDirectory, NodeConfig, NodeError, OtherCode, start};
use quorate_transport::{OtherGroup, Passed, Places};
use quorate_types::{GroupEntry, GroupId, Member, Slot, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Which node of this process a loop runs.
pub(crate) enum NodePlace {
    /// That of the first group, which looks after the others.
    First(Box<OtherGroups>),
    /// That of another group.
    Other(Arc<Mailbox>),
}

impl NodePlace {
    pub(crate) fn mailbox(&self) -> Option<&Arc<Mailbox>> {
        match self {
            NodePlace::First(_) => None,
            NodePlace::Other(mailbox) => Some(mailbox),
        }
    }

    fn others(&mut self) -> Option<&mut OtherGroups> {
        match self {
            NodePlace::First(others) => Some(others),
            NodePlace::Other(_) => None,
        }
    }

    /// The process ends: so do the other groups' nodes.
    pub(crate) fn stop_others(&mut self) {
        if let Some(others) = self.others() {
            others.tell_all(Stop::Process);
        }
    }

    /// Whether the nodes of all other groups have ended.
    pub(crate) fn is_alone(&self) -> bool {
        match self {
            NodePlace::First(others) => others.running.values().all(Running::has_ended),
            NodePlace::Other(_) => true,
        }
    }
}

/// The nodes of the other groups in this process.
pub(crate) struct OtherGroups {
    config: NodeConfig,
    code: OtherCode,
    /// Connections that all groups may have together where there is one, and the account of those that they have.
    process: (usize, Places),
    /// What was decided when it was last looked at; `None` before the first look, and while a group is to be begun anew that this node
    /// has not left yet.
    known: Option<Arc<Vec<GroupEntry>>>,
    running: BTreeMap<GroupId, Running>,
    /// Nodes of groups that were dropped, on their way.
    ending: Vec<Running>,
}

struct Running {
    /// Since when this node serves the group: the slot of the first group that names its directory.
    created: Slot,
    mailbox: Arc<Mailbox>,
    /// Taken when it is waited for.
    thread: Option<JoinHandle<()>>,
    /// Since when the first group names this node for the group anew.
    renamed: Option<Time>,
}

impl Running {
    /// Whether a new life in the group may begin. What is held from before goes once it has left the group. The others may know it by
    /// the new life before they have said so: they answer it no more then, and it hears of nothing.
    fn makes_room(&mut self, now: Time) -> bool {
        let since = *self.renamed.get_or_insert(now);
        self.mailbox.state() == GroupState::Left || now >= since + GROUP_LEFT_MAX
    }

    fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

/// A group beside the first one, as the status of a node shows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GroupStatus {
    /// What clients call it.
    pub name: String,
    /// Its number.
    pub id: u32,
    /// The slot of the first group in which it was created.
    pub created: u64,
    /// The nodes that served it when it was created.
    pub nodes: Vec<u16>,
    /// The nodes that were named for it later.
    #[serde(default)]
    pub later: Vec<u16>,
    /// The level at which it began, unless that is the lowest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_level: Option<u16>,
    /// What its objects are called, and their classes.
    pub objects: Vec<(String, String)>,
    /// How the asked node serves it: `running`, `starting`, `failed: ` and why, `left`; `None` if it never did.
    pub state: Option<String>,
}

impl OtherGroups {
    /// Begins the nodes of the groups that have a directory: they need nobody's word for that.
    ///
    /// # Errors
    /// When the directories cannot be listed.
    pub(crate) fn begin(
        config: &NodeConfig,
        code: OtherCode,
        process: (usize, Places),
    ) -> Result<OtherGroups, NodeError> {
        let mut others = OtherGroups {
            config: config.clone(),
            code,
            process,
            known: None,
            running: BTreeMap::new(),
            ending: Vec::new(),
        };
        for directory in found_in(&config.dir)? {
            let id = GroupId::named(&directory.name);
            others.run(id, directory);
        }
        Ok(others)
    }

    fn run(&mut self, id: GroupId, directory: GroupDirectory) {
        let mailbox = Arc::new(Mailbox::default());
        if !self.has_room() {
            return self.refuse(id, &directory);
        }
        let (first, code, name) = (self.config.clone(), self.code, directory.name.clone());
        let places = self.process.1.clone();
        let created = directory.created;
        let thread = {
            let mailbox = mailbox.clone();
            let named = std::thread::Builder::new().name(format!("group-{name}"));
            named.spawn(move || serve(&first, &directory, (code, places), &mailbox))
        };
        match thread {
            Ok(thread) => {
                let thread = Some(thread);
                let running = Running {
                    created,
                    mailbox,
                    thread,
                    renamed: None,
                };
                if let Some(before) = self.running.insert(id, running) {
                    before.mailbox.stop(Stop::Dropped);
                    self.ending.push(before);
                }
            }
            Err(error) => tracing::error!(group = name, %error, "no thread for a group"),
        }
        self.share();
    }

    /// Groups whose nodes run, or have not ended yet.
    fn begun(&self) -> usize {
        let all = self.running.values().chain(&self.ending);
        all.filter(|running| !running.has_ended()).count()
    }

    /// Whether one more group leaves descriptors for connections.
    fn has_room(&self) -> bool {
        let groups = (self.begun() + 1) * DESCRIPTORS_OF_A_GROUP;
        self.process.0 >= groups + CONNECTIONS_MIN
    }

    /// Connections get what the groups leave of the descriptors.
    fn share(&self) {
        let (connections, places) = &self.process;
        let groups = self.begun() * DESCRIPTORS_OF_A_GROUP;
        places.limit(connections.saturating_sub(groups).max(CONNECTIONS_MIN));
    }

    /// The group has no node here before the process is started again with more descriptors.
    fn refuse(&mut self, id: GroupId, directory: &GroupDirectory) {
        let reason = "the process may not open enough files for one more group: raise its limit (ulimit -Hn, LimitNOFILE=)";
        tracing::error!(group = directory.name, reason, "a group is not served");
        let mailbox = Arc::new(Mailbox::default());
        mailbox.is_now(GroupState::Failed(reason.to_owned()));
        let running = Running {
            created: directory.created,
            mailbox,
            thread: None,
            renamed: None,
        };
        if let Some(before) = self.running.insert(id, running) {
            before.mailbox.stop(Stop::Dropped);
            self.ending.push(before);
        }
    }

    fn tell_all(&self, why: Stop) {
        for running in self.running.values() {
            running.mailbox.stop(why);
        }
    }

    /// Passes a connection on to the node of its group; gives it back, with the reason, where that does not take it.
    fn pass(&self, group: GroupId, passed: Passed) -> Option<(Passed, String)> {
        match self.running.get(&group) {
            Some(running) => running.mailbox.pass(passed),
            None => Some((passed, "it has been dropped".to_owned())),
        }
    }

    /// The nodes of groups that the first one does not have any more end. `applied` is how far it is known.
    fn end_dropped(&mut self, groups: &[GroupEntry], applied: Slot) {
        self.ending.retain(|running| !running.has_ended());
        let is_over = |(id, running): (&GroupId, &Running)| {
            // A node that was named later serves the group since a later slot than that in which it was created.
            let is_there =
                |group: &GroupEntry| group.id() == *id && group.created <= running.created;
            // A directory that is newer than what is known here was made by somebody who knew more.
            running.created <= applied && !groups.iter().any(is_there)
        };
        let over: Vec<GroupId> = self
            .running
            .iter()
            .filter(|running| is_over(*running))
            .map(|(id, _)| *id)
            .collect();
        for id in over {
            if let Some(running) = self.running.remove(&id) {
                running.mailbox.stop(Stop::Dropped);
                self.ending.push(running);
            }
        }
        self.share();
    }

    /// How whoever asks for a group finds it: those that are served here, and those that others serve.
    fn ways(&self, own: &Member, groups: &[GroupEntry]) -> BTreeMap<GroupId, OtherGroup> {
        let is_served = |running: &Running| running.mailbox.state() != GroupState::Left;
        let here = self
            .running
            .iter()
            .filter(|(_, running)| is_served(running));
        let here: BTreeMap<_, _> = here.map(|(id, _)| (*id, OtherGroup::Here)).collect();
        let elsewhere = groups
            .iter()
            .filter(|group| !here.contains_key(&group.id()));
        let elsewhere = elsewhere.map(|group| {
            let members = group.named().into_iter();
            let members = members.filter(|member| member.node != own.node);
            let reached = members.map(|member| (member.node, member.address.clone()));
            (group.id(), OtherGroup::Elsewhere(reached.collect()))
        });
        let elsewhere: Vec<_> = elsewhere.collect();
        here.into_iter().chain(elsewhere).collect()
    }

    fn status(&self, group: &GroupEntry) -> GroupStatus {
        let running = self.running.get(&group.id());
        let state = running.map(|running| match running.mailbox.state() {
            GroupState::Starting => "starting".to_owned(),
            GroupState::Running => "running".to_owned(),
            GroupState::Failed(reason) => format!("failed: {reason}"),
            GroupState::Left => "left".to_owned(),
        });
        let setup = GroupSetup::of_bytes(&group.setup);
        let (first_level, objects) =
            setup.map_or_else(|_| (None, Vec::new()), |setup| (setup.level, setup.objects));
        GroupStatus {
            name: group.name.clone(),
            id: group.id().0,
            created: group.created.0,
            nodes: group.members.iter().map(|member| member.node.0).collect(),
            later: group.later.iter().map(|(_, later)| later.node.0).collect(),
            first_level,
            objects: objects.into_iter().map(|o| (o.name, o.class)).collect(),
            state,
        }
    }
}

impl Drop for OtherGroups {
    /// Their directories are locked until they have ended.
    fn drop(&mut self) {
        self.tell_all(Stop::Process);
        let running = std::mem::take(&mut self.running).into_values();
        for mut running in running.chain(self.ending.drain(..)) {
            if let Some(Err(_)) = running.thread.take().map(JoinHandle::join) {
                tracing::error!("the loop of a group panicked");
            }
        }
    }
}

impl Node {
    /// Begins and ends the nodes of other groups as the first one has decided.
    pub(crate) fn follow_groups(&mut self, now: Time) {
        let NodePlace::First(others) = &mut self.place else {
            return;
        };
        let groups = self.replica.groups();
        let is_known = others.known.as_ref();
        if is_known.is_some_and(|known| Arc::ptr_eq(known, groups)) {
            return;
        }
        others.known = Some(groups.clone());
        others.end_dropped(groups, self.replica.status().applied);
        let lives = [self.identity.votes_as, Some(self.replica.fresh())];
        let Some(own) = self.replica.view().member(self.identity.node) else {
            return;
        };
        if self.replica.view().witnesses().contains(own.node) {
            // It may have the number and the address of a replica that left, and that a group still names.
            return;
        }
        for group in groups.iter() {
            // Another machine may have its number now.
            let member = group.member(own.node);
            let Some((since, member)) = member.filter(|(_, member)| member.address == own.address)
            else {
                continue;
            };
            let id = group.id();
            let running = others.running.get_mut(&id);
            if let Some(running) = running.filter(|running| running.created >= group.created) {
                if running.created == since {
                    continue;
                }
                if !running.makes_room(now) {
                    others.known = None;
                    continue;
                }
            }
            // Another life of this node may have voted in the group, and its directory would be lost with the votes.
            let is_whole = lives.contains(&Some(member.voted_as));
            let directory = GroupDirectory::of(&others.config.dir, (group, since), is_whole);
            others.run(id, directory);
        }
        self.find_groups();
    }

    /// Tells the transport where the other groups are. What runs here is known before the first group says so.
    pub(crate) fn find_groups(&mut self) {
        let NodePlace::First(others) = &self.place else {
            return;
        };
        let own = self.replica.view().member(self.identity.node);
        if let Some(own) = own {
            let ways = others.ways(own, self.replica.groups());
            self.transport.set_other_groups(ways);
        }
    }

    /// Somebody asks for another group.
    pub(crate) fn pass_on(&mut self, group: GroupId, passed: Passed, now: Time) {
        if let Some(others) = self.place.others()
            && let Some((passed, why)) = others.pass(group, passed)
        {
            self.transport.turn_back(passed, &why, now);
        }
    }

    pub(crate) fn group_statuses(&self) -> Vec<GroupStatus> {
        let NodePlace::First(others) = &self.place else {
            return Vec::new();
        };
        let groups = self.replica.groups().iter();
        groups.map(|group| others.status(group)).collect()
    }
}

/// Runs the node of another group until it has to end; begins it again where it fails.
fn serve(
    first: &NodeConfig,
    directory: &GroupDirectory,
    (code, places): (OtherCode, Places),
    mailbox: &Arc<Mailbox>,
) {
    let group = &directory.name;
    let _named = tracing::info_span!("group", name = group).entered();
    let mut pause = GROUP_BEGINS_AGAIN_MIN;
    while mailbox.stopped().is_none() {
        mailbox.is_now(GroupState::Starting);
        let ran = directory.make(first).and_then(|()| {
            let config = NodeConfig::beside(first, &directory.path())?;
            start::run_at(
                &config,
                (code, LostDirectory::Remade),
                places.clone(),
                || Ok(NodePlace::Other(mailbox.clone())),
            )
        });
        match ran {
            // Asked to stop, or no member any more: then its directory goes with the group.
            Ok(()) | Err(NodeError::Removed { .. }) => {
                mailbox.is_now(GroupState::Left);
                while !mailbox.stops_within(GROUP_BEGINS_AGAIN_MAX) {}
                break;
            }
            Err(NodeError::Sighted { .. }) => {}
            Err(error) => {
                tracing::error!(%error, again_in = ?pause, "the node of a group ended");
                mailbox.is_now(GroupState::Failed(error.to_string()));
                if mailbox.stops_within(pause) {
                    break;
                }
                pause = (pause * 2).min(GROUP_BEGINS_AGAIN_MAX);
            }
        }
    }
    if mailbox.stopped() == Some(Stop::Dropped)
        && let Err(error) = directory.remove()
    {
        tracing::warn!(%error, "the directory of a group that was dropped stays");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_life_that_hears_of_nothing_is_waited_for_no_longer_than_it_may_take() {
        let mailbox = Arc::new(Mailbox::default());
        mailbox.is_now(GroupState::Running);
        let mut running = Running {
            created: Slot(3),
            mailbox: mailbox.clone(),
            thread: None,
            renamed: None,
        };
        let named = Time(7_000_000_000);
        assert!(!running.makes_room(named));
        assert!(!running.makes_room(Time(named.0 + GROUP_LEFT_MAX.0 - 1)));
        assert!(running.makes_room(named + GROUP_LEFT_MAX));
        running.renamed = None;
        mailbox.is_now(GroupState::Left);
        assert!(running.makes_room(named));
    }
}
