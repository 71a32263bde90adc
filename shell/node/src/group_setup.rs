//! What a group is set up with when it is created: the part of a configuration that all its nodes share. How host processes are confined
//! is each machine's own: a client that creates a group has no say in it.

use crate::config::{
    Hex, MemberConfig, ObjectConfig, PersistConfig, ReadChecksConfig, SandboxConfig, SnapshotConfig,
};
use crate::{NodeConfig, NodeError};
use quorate_types::{GroupChange, GroupEntry, GroupMember, OrderingName, Slot};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The configuration of a group that is created while its cluster runs, as the command that creates it carries it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupSetup {
    /// Whether acknowledged calls survive the loss of power on all nodes.
    pub persist: PersistConfig,
    /// ω of the first view.
    pub window: u64,
    /// Seconds after which a call that does not return has its host killed.
    pub call_timeout: f64,
    /// What builds of level 19 read here and cannot do without; others have it from their machine.
    #[serde(default)]
    pub host_memory: u64,
    /// Packages beside the objects' own whose instances may be kept.
    pub allow: Vec<String>,
    /// As `host_memory` is.
    #[serde(default)]
    pub sandbox: SandboxConfig,
    /// Which reads are checked.
    pub check_reads: ReadChecksConfig,
    /// When snapshots are taken.
    pub snapshot: SnapshotConfig,
    /// The level of its first view; without it the lowest. Builds before [`quorate_types::Level::FURTHER_GROUPS`] do not read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<u16>,
    /// The objects. Where each node looks for their modules, the node adds.
    pub objects: Vec<ObjectConfig>,
}

impl GroupSetup {
    /// The bytes that the command carries.
    ///
    /// # Errors
    /// When they are more than a group may have.
    pub fn to_bytes(&self) -> Result<Vec<u8>, String> {
        let bytes = serde_json::to_vec(self).expect("every field has a form in JSON");
        match bytes.len() <= GroupChange::SETUP_BYTES_MAX {
            true => Ok(bytes),
            false => Err(format!(
                "a group's objects and settings take {} bytes, at most {} are allowed",
                bytes.len(),
                GroupChange::SETUP_BYTES_MAX
            )),
        }
    }

    /// Reads them.
    ///
    /// # Errors
    /// When another version wrote them.
    pub fn of_bytes(bytes: &[u8]) -> Result<GroupSetup, String> {
        serde_json::from_slice(bytes).map_err(|error| format!("the setup: {error}"))
    }

    /// The configuration of one of the group's nodes, in `dir`, by that of the node of the first group.
    ///
    /// # Errors
    /// When there can be no such node.
    pub(crate) fn configure(
        self,
        first: &NodeConfig,
        group: &GroupEntry,
        dir: PathBuf,
    ) -> Result<NodeConfig, NodeError> {
        let paths = first.objects.iter().flat_map(|object| &object.path);
        let mut objects = self.objects;
        for object in &mut objects {
            for path in paths.clone() {
                if !object.path.contains(path) {
                    object.path.push(path.clone());
                }
            }
        }
        let configured = |member: &GroupMember| MemberConfig {
            node: member.node.0,
            incarnation: Hex(member.incarnation.0),
            address: member.address.clone(),
            admin: None,
        };
        // Who was named later finds the others, and is no member before the group's own log says so.
        let is_later = |(_, member): &(Slot, GroupMember)| member.node == first.node_id();
        let known = match group.later.iter().any(is_later) {
            true => group.named().into_iter().map(configured).collect(),
            false => Vec::new(),
        };
        let config = NodeConfig {
            group: group.id().0,
            name: Some(group.name.clone()),
            dir,
            admin: None,
            persist: self.persist,
            window: self.window,
            ordering: OrderingName::Paxos,
            level: self.level,
            call_timeout: self.call_timeout,
            allow: self.allow,
            check_reads: self.check_reads,
            snapshot: self.snapshot,
            objects,
            members: group.members.iter().map(configured).collect(),
            known,
            known_view: 0,
            ..first.clone()
        };
        // What a file of it could not say is refused here.
        NodeConfig::parse(&config.to_toml()).map_err(NodeError::Unreadable)
    }
}

impl NodeConfig {
    /// The configuration of a node of another group in `dir`. What is this machine's own, and not the group's, is as `first` has it.
    pub(crate) fn beside(first: &NodeConfig, dir: &Path) -> Result<NodeConfig, NodeError> {
        let own = NodeConfig::read(&dir.join("node.toml"))?;
        Ok(NodeConfig {
            dir: dir.to_owned(),
            listen: first.listen,
            python: first.python.clone(),
            tls: first.tls.clone(),
            insecure: first.insecure,
            keeps_inside: first.keeps_inside,
            speaks: first.speaks,
            host_memory: first.host_memory,
            sandbox: first.sandbox,
            limits: first.limits,
            ..own
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the program of level 19 wrote it, and as it reads it: it wants `host_memory` and `sandbox`, and knows no further field.
    const SETUP_19: &str = r#"{"persist":"disk","window":1024,"call_timeout":10.0,"host_memory":4294967296,"allow":[],"sandbox":"on","check_reads":"sample","snapshot":{"enabled":true,"commands":100000,"bytes":16777216},"objects":[{"name":"Account","class":"bank:Account","budget":50000000,"path":["/srv/bank"]}]}"#;

    #[test]
    fn a_group_is_set_up_in_the_words_of_level_19() {
        let setup = GroupSetup::of_bytes(SETUP_19.as_bytes()).expect("it was written by a node");
        let written = setup.to_bytes().expect("it is small");
        assert_eq!(String::from_utf8(written).expect("it is JSON"), SETUP_19);
    }
    use crate::config::SandboxConfig;
    use crate::config::tests::good;

    /// Its file is from another day, or from a build in which a client said it.
    #[test]
    fn hosts_of_a_further_group_are_confined_as_the_first_group_of_their_node_is_now() {
        let first = good();
        let dir = tempfile::tempdir().expect("there is room");
        let written = NodeConfig {
            sandbox: SandboxConfig::Off,
            host_memory: 0,
            ..good()
        };
        assert_ne!(
            (first.sandbox, first.host_memory),
            (written.sandbox, written.host_memory)
        );
        let file = dir.path().join("node.toml");
        std::fs::write(file, written.to_toml()).expect("there is room");
        let config = NodeConfig::beside(&first, dir.path()).expect("it can be read");
        assert_eq!(
            (config.sandbox, config.host_memory),
            (first.sandbox, first.host_memory)
        );
    }
}
