//! Who belongs to the group, as this node knows it: noted in its directory, and followed while it runs.
//!
//! A start finds there whom to reach, though its log may end before the newest view, and that it is no member any more.

use crate::config::{Hex, MemberConfig};
use crate::limits::REMOVED_LINGER;
use crate::node::{Node, span};
use crate::{NodeConfig, NodeError};
use quorate_transport::PeerAddress;
use quorate_types::{GroupId, Incarnation, Member, NodeId, Time, View, ViewNumber};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

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
        let path = path_in(&config.dir, config.group_id());
        let unreadable = |reason: String| {
            let path = path.display();
            NodeError::Unreadable(format!(
                "{path}: {reason}; without it, the node reaches those that its configuration names"
            ))
        };
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(configured),
            Err(error) => return Err(unreadable(error.to_string())),
        };
        let noted: KnownMembers =
            serde_json::from_slice(&text).map_err(|error| unreadable(error.to_string()))?;
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
        }
    }

    /// Whether it names this node with this directory.
    fn names(&self, (node, incarnation): (NodeId, Incarnation)) -> bool {
        let mut members = self.members.iter().map(MemberConfig::member);
        members.any(|member| (member.node, member.incarnation) == (node, incarnation))
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
    /// Since when it is no member any more.
    removed: Option<Time>,
}

impl Membership {
    pub(crate) fn new(config: &NodeConfig, known: KnownMembers) -> Membership {
        let is_noted = path_in(&config.dir, config.group_id()).exists();
        Membership {
            known,
            is_named: is_noted || config.known.is_empty(),
            removed: None,
        }
    }

    /// When a node that is no member any more ends at the latest.
    pub(crate) fn ends_at(&self) -> Option<Time> {
        Some(self.removed? + span(REMOVED_LINGER))
    }
}

impl Node {
    /// If another view is in force: the transport reaches its members, the directory notes them. A node that it does not name any
    /// more goes on until nobody of them is linked, so that they learn from it what is decided.
    pub(crate) fn follow_members(&mut self, now: Time) {
        let view = self.replica.view();
        if view.number.0 <= self.membership.known.view {
            return;
        }
        let known = KnownMembers::of_view(view);
        let number = view.number;
        let is_named = known.names((self.identity.node, self.identity.incarnation));
        if !is_named && !self.membership.is_named {
            // It has not joined yet.
            return;
        }
        self.membership.is_named = true;
        if let Err(error) = known.write(&self.dir, self.identity.group) {
            tracing::warn!(%error, "the members of the view cannot be noted: a restart reaches those of an earlier view");
        }
        self.membership.known = known;
        if is_named {
            self.reach_members(number, now);
        } else if self.membership.removed.is_none() {
            tracing::warn!(
                view = number.0,
                "this node is no member of the group any more: it ends"
            );
            self.membership.removed = Some(now);
        }
    }

    fn reach_members(&mut self, view: ViewNumber, now: Time) {
        let members = self.membership.known.addresses();
        self.transport.set_members(view, members, now);
    }

    /// Whether it is no member, and nobody needs it any more.
    pub(crate) fn is_dismissed(&self, now: Time) -> bool {
        let ends_at = self.membership.ends_at();
        ends_at.is_some_and(|end| self.transport.links() == 0 || now >= end)
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
}
