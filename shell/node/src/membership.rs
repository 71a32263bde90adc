//! Who belongs to the group, as this node knows it: noted in its directory, and followed while it runs.
//!
//! A start finds there whom to reach, though its log may end before the newest view, and that it is no member any more.

use crate::config::{Hex, MemberConfig};
use crate::node::Node;
use crate::{GroupConfiguration, NodeConfig, NodeError};
use quorate_storage::Identity;
use quorate_transport::{GroupLevel, PeerAddress};
use quorate_types::{GroupId, Incarnation, Level, Member, NodeId, NodeSet, Time, View, ViewNumber};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The members in the newest view that this node has known in force.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KnownMembers {
    /// The number of the view.
    pub(crate) view: u64,
    /// Who votes in it.
    pub(crate) acceptors: Vec<u16>,
    /// All members.
    pub(crate) members: Vec<MemberConfig>,
    /// Those of them that have no objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) witnesses: Vec<u16>,
    /// What each of them must speak. A build that knows no levels refuses a directory that names one.
    #[serde(default = "unnamed_level", skip_serializing_if = "is_unnamed_level")]
    pub(crate) level: u16,
}

fn unnamed_level() -> u16 {
    Level::UNNAMED.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_unnamed_level(level: &u16) -> bool {
    *level == Level::UNNAMED.0
}

impl KnownMembers {
    /// Those that the directory names, or where it names none, the configuration.
    ///
    /// # Errors
    /// When this directory's node is no member any more, or the file cannot be read.
    pub(crate) fn read(
        config: &NodeConfig,
        own: (NodeId, Incarnation),
    ) -> Result<KnownMembers, NodeError> {
        let configured = KnownMembers::configured(config);
        let Some(noted) = KnownMembers::noted(&config.dir, config.group_id())? else {
            return Ok(configured);
        };
        if !noted.names(own) {
            return Err(NodeError::Removed {
                dir: config.dir.clone(),
                view: noted.view,
            });
        }
        Ok(match noted.view >= configured.view {
            true => noted,
            false => configured,
        })
    }

    /// Those that a directory names, if it names any.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn noted(dir: &Path, group: GroupId) -> Result<Option<KnownMembers>, NodeError> {
        let path = path_in(dir, group);
        let unreadable = |reason: String| {
            let path = path.display();
            NodeError::Unreadable(format!(
                "{path}: {reason}; without it, the node reaches those that its configuration names"
            ))
        };
        match std::fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .map(Some)
                .map_err(|error| unreadable(error.to_string())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unreadable(error.to_string())),
        }
    }

    /// The newest ones that one of these directories names, and which.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(crate) fn newest(
        nodes: &[(PathBuf, NodeConfig)],
    ) -> Result<Option<(usize, KnownMembers)>, NodeError> {
        let mut newest: Option<(usize, KnownMembers)> = None;
        for (at, (dir, config)) in nodes.iter().enumerate() {
            if let Some(known) = KnownMembers::noted(dir, config.group_id())?
                && newest
                    .as_ref()
                    .is_none_or(|(_, most)| most.view < known.view)
            {
                newest = Some((at, known));
            }
        }
        Ok(newest)
    }

    fn configured(config: &NodeConfig) -> KnownMembers {
        let members = match config.known.is_empty() {
            true => &config.members,
            false => &config.known,
        };
        let founders = config.members.iter().map(|member| member.node);
        KnownMembers {
            view: config.known_view.max(1),
            acceptors: founders.collect(),
            members: members.clone(),
            witnesses: Vec::from_iter(config.witness.then_some(config.node)),
            // A configuration says only with what its group began: the others say more, and what is noted of them.
            level: config.first_level().0,
        }
    }

    pub(crate) fn of_view(view: &View) -> KnownMembers {
        let members = view.members.iter().map(|member| MemberConfig {
            node: member.node.0,
            incarnation: Hex(member.incarnation.0),
            address: member.address.clone(),
            admin: None,
        });
        KnownMembers {
            view: view.number.0,
            acceptors: view.acceptors.iter().map(|node| node.0).collect(),
            members: members.collect(),
            witnesses: view.witnesses().iter().map(|node| node.0).collect(),
            level: view.level.0,
        }
    }

    /// Whether it names this node with this directory.
    pub(crate) fn names(&self, (node, incarnation): (NodeId, Incarnation)) -> bool {
        let mut members = self.members.iter().map(MemberConfig::member);
        members.any(|member| (member.node, member.incarnation) == (node, incarnation))
    }

    /// These and the node itself, as `before` names it; none where somebody else has its number.
    fn and(mut self, before: &KnownMembers, own: (NodeId, Incarnation)) -> Option<KnownMembers> {
        let mut members = before.members.iter();
        let itself =
            members.find(|member| (member.node, member.incarnation.0) == (own.0.0, own.1.0));
        let itself = itself?.clone();
        let is_taken = |member: &MemberConfig| member.node == itself.node;
        if self.members.iter().any(is_taken) {
            return None;
        }
        self.members.push(itself);
        Some(self)
    }

    /// Refuses a configuration that says otherwise than the view whether the node has objects.
    ///
    /// # Errors
    /// [`NodeError::Identity`].
    pub(crate) fn check_role(&self, config: &NodeConfig) -> Result<(), NodeError> {
        let (is_witness, view) = (self.witnesses.contains(&config.node), self.view);
        if is_witness == config.witness {
            return Ok(());
        }
        let (it_is, line) = match is_witness {
            true => ("a witness, which has no objects", "needs the line"),
            false => ("a replica, which executes", "must not have the line"),
        };
        Err(NodeError::Identity(format!(
            "node {} is {it_is}, in view {view}: its node.toml {line} `witness = true`; to change what a member is, let it leave and join as a new one",
            config.node
        )))
    }

    /// For the transport.
    pub(crate) fn addresses(&self) -> Vec<PeerAddress> {
        let members = self.members.iter().map(MemberConfig::member);
        let address = |Member {
                           node,
                           incarnation,
                           address,
                       }| PeerAddress {
            node,
            incarnation,
            address,
        };
        members.map(address).collect()
    }

    /// Writes them into a directory, unless it names those of a later view.
    pub(crate) fn note(&self, directory: &Path, group: GroupId) {
        // A node that leaves says so while its other thread may still write of the view before.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _one = ONE_AT_A_TIME.lock().expect("nobody panics while noting");
        let noted = KnownMembers::noted(directory, group);
        if noted.is_ok_and(|noted| noted.is_some_and(|noted| noted.view > self.view)) {
            return;
        }
        if let Err(error) = self.write(directory, group) {
            tracing::warn!(%error, "the members of the view cannot be noted: a restart reaches those of an earlier view");
        }
    }

    fn write(&self, directory: &Path, group: GroupId) -> io::Result<()> {
        let path = path_in(directory, group);
        let fresh = path.with_extension("new");
        // Whoever knows the incarnations can speak as a node where there is no TLS.
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&fresh)?;
        let text = serde_json::to_vec(self).expect("every field has a form in JSON");
        file.write_all(&text)?;
        file.sync_all()?;
        std::fs::rename(&fresh, &path)?;
        File::open(directory)?.sync_all()
    }
}

fn path_in(directory: &Path, group: GroupId) -> PathBuf {
    directory.join(format!("members-{}", group.0))
}

/// How this node stands to the group.
#[derive(Debug)]
pub(crate) struct Membership {
    pub(crate) known: KnownMembers,
    /// A view that this node has known in force names it.
    is_named: bool,
    /// The first view in force here that does not name this node, and for whom of it this node is none any more.
    left: Option<(KnownMembers, NodeSet)>,
    /// For whom of those that it knows this node is no member, though it knows no view without it, and in which view of theirs.
    refused: BTreeMap<NodeId, u64>,
    /// Who says that this node does not speak what it must, and what was said last.
    unspoken: (NodeSet, String),
}

impl Membership {
    pub(crate) fn new(config: &NodeConfig, known: KnownMembers) -> Membership {
        let is_noted = path_in(&config.dir, config.group_id()).exists();
        Membership {
            known,
            is_named: is_noted || config.known.is_empty(),
            left: None,
            refused: BTreeMap::new(),
            unspoken: (NodeSet::empty(), String::new()),
        }
    }

    /// A peer says that this node is no member for it.
    pub(crate) fn dismissed(&mut self, peer: NodeId, view: ViewNumber) {
        match &mut self.left {
            Some((without, by)) if view.0 >= without.view => {
                by.insert(peer);
            }
            // Who knows only an earlier view may not know yet that this node has joined.
            None if view.0 > self.known.view => {
                self.refused.insert(peer, view.0);
            }
            Some(_) | None => {}
        }
    }

    /// A peer says that this node does not speak what it must.
    pub(crate) fn unspoken(&mut self, peer: NodeId, text: String) {
        self.unspoken.0.insert(peer);
        self.unspoken.1 = text;
    }

    /// Why peers give this node no link: it does not speak what it must.
    pub(crate) fn level_refused(&self) -> Option<&str> {
        (!self.unspoken.0.is_empty()).then_some(self.unspoken.1.as_str())
    }

    /// The same, where most of those that vote, as far as this node knows, say so.
    pub(crate) fn level_refused_by_most(&self) -> Option<&str> {
        let acceptors = self.known.acceptors.iter();
        let refuse = acceptors.filter(|node| self.unspoken.0.contains(NodeId(**node)));
        let are_most = refuse.count() > self.known.acceptors.len() / 2;
        self.level_refused().filter(|_| are_most)
    }

    /// A link to a peer stands.
    pub(crate) fn accepted(&mut self, peer: NodeId) {
        self.refused.remove(&peer);
        self.unspoken.0.remove(peer);
    }

    /// The members without this node, where most of those that vote, as far as it knows, say that it is none. The first view of which one
    /// says so left it out, or one before did.
    fn without(&self, own: NodeId) -> Option<KnownMembers> {
        let acceptors = self.known.acceptors.iter();
        let refuse = acceptors.filter_map(|node| self.refused.get(&NodeId(*node)));
        let is_removed = self.is_named && refuse.clone().count() > self.known.acceptors.len() / 2;
        let view = refuse.min().copied().filter(|_| is_removed)?;
        let mut known = KnownMembers {
            view,
            ..self.known.clone()
        };
        known.members.retain(|member| member.node != own.0);
        Some(known)
    }

    /// Whether most of those who vote in the view without this node have turned to it: they have all that was decided before. Whatever
    /// the quorums are, the larger one is no less than a majority: whoever goes on without this node has one of these.
    fn is_over(&self) -> bool {
        self.left.as_ref().is_some_and(|(view, by)| {
            let acceptors = view.acceptors.iter();
            let turned = acceptors.filter(|node| by.contains(NodeId(**node)));
            turned.count() > view.acceptors.len() / 2
        })
    }

    /// The members without this node, once nobody needs it any more. Where it knows the view that it is not in, that one: peers may
    /// have refused it a moment before.
    fn ended(&self, own: NodeId) -> Option<KnownMembers> {
        let without = self.without(own);
        let left = self.left.as_ref().map(|(view, _)| view.clone());
        match self.is_over() || without.is_some() {
            true => left.or(without),
            false => None,
        }
    }
}

impl Node {
    /// If another view is in force: the transport reaches its members, the directory notes them. A node that it does not name any
    /// more goes on until most of those who vote in it have turned to it too, so that they learn from it what is decided.
    pub(crate) fn follow_members(&mut self, now: Time) {
        let (level, view) = self.replica.level_asked();
        self.transport.set_level(GroupLevel { level, view }, now);
        let view = self.replica.view();
        let own = (self.identity.node, self.identity.incarnation);
        if !self.membership.is_named && KnownMembers::of_view(view).names(own) {
            // Its configuration may have told this view, or a later one. From here on it ends where the group goes on without it.
            self.membership.is_named = true;
        }
        if view.number.0 <= self.membership.known.view || self.membership.left.is_some() {
            return;
        }
        let known = KnownMembers::of_view(view);
        let number = view.number;
        if known.names(own) {
            let acceptors = &known.acceptors;
            tracing::info!(view = number.0, first_slot = %view.first_slot, ?acceptors, window = view.window, "another view is in force");
            self.note_members(&known);
            self.membership.known = known;
            self.reach_members(number, now);
        } else if self.membership.is_named {
            tracing::warn!(
                view = number.0,
                "this node is no member of the group any more: it ends once the others know"
            );
            self.membership.left = Some((known, NodeSet::empty()));
            self.transport.leave_members();
        } else if let Some(known) = known.and(&self.membership.known, own) {
            // It has not joined yet, and whoever leads now may be none of those that it knew when it began.
            self.membership.known = known;
            self.reach_members(number, now);
        }
    }

    /// A new file takes longer than a vote: the snapshots' thread writes it, unless it is busy. A start that finds an earlier view there
    /// reaches the members of that one.
    fn note_members(&mut self, known: &KnownMembers) {
        if !self.snapshots.note(known.clone(), self.dir.clone()) {
            known.note(&self.dir, self.identity.group);
        }
    }

    fn reach_members(&mut self, view: ViewNumber, now: Time) {
        let members = self.membership.known.addresses();
        self.transport.set_members(view, members, now);
    }

    /// Ends a node that most of those that vote give no link because of what it speaks.
    pub(crate) fn check_refused(&self) -> Result<(), NodeError> {
        match self.membership.level_refused_by_most() {
            None => Ok(()),
            Some(text) => Err(NodeError::LevelRefused {
                dir: self.dir.clone(),
                speaks: self.speaks,
                text: text.to_owned(),
            }),
        }
    }

    /// Whether it is no member, and nobody needs it any more. Its directory says so from then on.
    pub(crate) fn is_dismissed(&self) -> bool {
        if let Some(without) = self.membership.ended(self.identity.node) {
            tracing::warn!("the group has gone on without this node");
            without.note(&self.dir, self.identity.group);
            return true;
        }
        false
    }
}

impl NodeConfig {
    /// This node as its group knows it. One that joined has a number that may have been another's before.
    #[must_use]
    pub fn own_member(&self) -> Option<&MemberConfig> {
        let known = self.known.iter().chain(&self.members);
        let mut own = known.filter(|member| member.node == self.node);
        own.next()
    }

    /// Refuses a directory whose node was removed from its group.
    ///
    /// # Errors
    /// [`NodeError::Removed`], or that its members cannot be read.
    pub fn check_member(&self) -> Result<(), NodeError> {
        let own = self
            .own_member()
            .expect("checked when it was read")
            .member();
        KnownMembers::read(self, (own.node, own.incarnation)).map(drop)
    }

    /// The view since which a node that does not run is no member, as its directory says.
    #[must_use]
    pub fn removed_in(&self) -> Option<u64> {
        // One that cannot be read says nothing; its next start says why.
        let stopped = Identity::open_stopped(&self.dir).ok()?;
        let identity = stopped.identity();
        match KnownMembers::read(self, (identity.node, identity.incarnation)) {
            Err(NodeError::Removed { view, .. }) => Some(view),
            Ok(_) | Err(_) => None,
        }
    }

    /// Notes in the directory of a node that does not run who the members are, as a member has told it. What the directory knows of a
    /// later view stays. Returns the number of the view that is noted from then on.
    ///
    /// # Errors
    /// When it is another group's, this node is no member of it any more, or its directory is in use or cannot be written.
    pub fn note_members(&self, told: &GroupConfiguration) -> Result<u64, NodeError> {
        let cluster = told.template()?.cluster_id();
        if cluster != self.cluster_id() {
            return Err(NodeError::Identity(format!(
                "the members that were told are those of cluster {:016x}, and {} belongs to cluster {:016x}",
                cluster.0,
                self.dir.display(),
                self.cluster.0
            )));
        }
        let own = self.own_member().expect("checked when it was read");
        let own = own.member();
        let own = (own.node, own.incarnation);
        let stopped = Identity::open_stopped(&self.dir)?;
        let noted = KnownMembers::read(self, own)?;
        if told.view <= noted.view {
            return Ok(noted.view);
        }
        let known = KnownMembers {
            view: told.view,
            acceptors: told.acceptors.clone(),
            members: told.members.clone(),
            witnesses: told.witnesses.clone(),
            level: told.level,
        };
        if !known.names(own) {
            return Err(NodeError::Removed {
                dir: self.dir.clone(),
                view: told.view,
            });
        }
        let written = known.write(&self.dir, self.group_id());
        written.map_err(|error| NodeError::System("cannot note the members", error))?;
        // Until here no node starts in the directory.
        drop(stopped);
        Ok(known.view)
    }

    /// How many members its group had when the node last knew.
    #[must_use]
    pub fn known_members(&self) -> usize {
        let noted = KnownMembers::noted(&self.dir, self.group_id());
        let noted = noted.ok().flatten();
        let known = noted.unwrap_or_else(|| KnownMembers::configured(self));
        known.members.len()
    }

    pub(crate) fn check_known(&self) -> Result<(), String> {
        let is_own = |member: &MemberConfig| member.node == self.node;
        match self.known.is_empty() || self.known.iter().any(is_own) {
            true => Ok(()),
            false => Err(format!("known: {} is not among them", self.node)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(node: u16, incarnation: u64) -> MemberConfig {
        MemberConfig {
            node,
            incarnation: Hex(incarnation),
            address: format!("127.0.0.1:{}", 7400 + node),
            admin: None,
        }
    }

    #[test]
    fn a_directory_names_the_members_until_it_does_not_name_its_own_node() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = crate::config::tests::good();
        config.dir = dir.path().to_owned();
        let own = config.own_member().unwrap().member();
        let own = (own.node, own.incarnation);
        let first = KnownMembers::read(&config, own).unwrap();
        assert_eq!((first.view, &first.members), (1, &config.members));
        let mut later = KnownMembers {
            view: 4,
            acceptors: vec![own.0.0],
            members: vec![member(own.0.0, own.1.0), member(9, 5)],
            witnesses: Vec::new(),
            level: 20,
        };
        later.write(dir.path(), config.group_id()).unwrap();
        assert_eq!(KnownMembers::read(&config, own).unwrap(), later);
        later.members.remove(0);
        later.write(dir.path(), config.group_id()).unwrap();
        let refused = KnownMembers::read(&config, own);
        assert!(matches!(refused, Err(NodeError::Removed { view: 4, .. })));
        later.members.push(member(own.0.0, own.1.0 + 1));
        later.write(dir.path(), config.group_id()).unwrap();
        let refused = KnownMembers::read(&config, own);
        assert!(
            matches!(refused, Err(NodeError::Removed { .. })),
            "its number is another's"
        );
    }

    #[test]
    fn a_node_that_is_refused_before_it_knows_why_names_the_view_that_left_it_out() {
        let own = NodeId(1);
        let known = |view, nodes: &[u16]| KnownMembers {
            view,
            acceptors: nodes.to_vec(),
            members: nodes.iter().map(|node| member(*node, 5)).collect(),
            witnesses: Vec::new(),
            level: 20,
        };
        let mut membership = Membership {
            known: known(3, &[1, 2, 3]),
            is_named: true,
            left: None,
            refused: BTreeMap::new(),
            unspoken: (NodeSet::empty(), String::new()),
        };
        membership.dismissed(NodeId(2), ViewNumber(5));
        assert_eq!(membership.ended(own), None, "one of three says so");
        membership.dismissed(NodeId(3), ViewNumber(4));
        let mut told = known(4, &[2, 3]);
        told.acceptors.insert(0, own.0);
        assert_eq!(
            membership.ended(own),
            Some(told),
            "of 3 it knows that it is in it"
        );
        membership.left = Some((known(4, &[2, 3]), NodeSet::empty()));
        assert_eq!(membership.ended(own), Some(known(4, &[2, 3])));
    }
}
