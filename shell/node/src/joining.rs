//! What a node tells one that wants to join: the configuration of the group, and who its members are.
//!
//! Incarnations are among it, which nobody else is told: only who knows the secret of an open invitation gets an answer.

use crate::clock::wall_time;
use crate::config::MemberConfig;
use crate::membership::KnownMembers;
use crate::node::Node;
use crate::{NodeConfig, NodeError};
use quorate_types::{Level, Secret};
use quorate_wire::AdminReply;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What a node needs that joins.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GroupConfiguration {
    /// `node.toml` of a member, without what is that node's own.
    config: String,
    /// The view in force.
    pub view: u64,
    /// What its members speak. A node that knows no levels does not say.
    #[serde(default = "unnamed_level")]
    pub level: u16,
    /// ω in that view.
    pub window: u64,
    /// Who votes in it.
    pub acceptors: Vec<u16>,
    /// The members in it.
    pub members: Vec<MemberConfig>,
    /// Those of them that have no objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub witnesses: Vec<u16>,
}

fn unnamed_level() -> u16 {
    Level::UNNAMED.0
}

/// The configuration that nodes of this group share.
#[derive(Debug)]
pub(crate) struct Template(String);

impl Template {
    /// That of a node, without what is its own.
    pub(crate) fn of(config: &NodeConfig) -> Template {
        let shared = NodeConfig {
            admin: None,
            tls: None,
            python: None,
            insecure: false,
            witness: false,
            dir: PathBuf::new(),
            ..config.clone()
        };
        Template(shared.to_toml())
    }
}

impl GroupConfiguration {
    /// The configuration of the node that told it: who joins replaces what is its own.
    ///
    /// # Errors
    /// When it is of another version.
    pub fn template(&self) -> Result<NodeConfig, NodeError> {
        NodeConfig::parse(&self.config).map_err(NodeError::Unreadable)
    }
}

impl Node {
    /// What somebody with this secret is told.
    pub(crate) fn configuration_for(&self, secret: Secret) -> AdminReply {
        if !self.replica.is_still_invited(secret.hash(), wall_time()) {
            return AdminReply::NotInvited;
        }
        let view = self.replica.view();
        let KnownMembers {
            view: number,
            acceptors,
            members,
            witnesses,
            level,
        } = KnownMembers::of_view(view);
        let told = GroupConfiguration {
            config: self.template.0.clone(),
            view: number,
            level,
            window: view.window,
            acceptors,
            members,
            witnesses,
        };
        let text = serde_json::to_vec(&told).expect("every field has a form in JSON");
        AdminReply::Configuration(text.into())
    }
}
