//! A node of the cluster begins to serve a group that was there before it: the first step of `quorate view add` and `view replace`, where
//! the group has a name and the node is no member of it.
//!
//! The first group names the node, which then makes a directory for the group. The group lets it join as a member that executes, and it
//! catches up. Only then does it vote, by the change that was asked for.

use crate::error::{CliError, code};
use crate::group::GroupAccess;
use crate::groups;
use crate::node::random;
use crate::status;
use crate::view_deciding::{self, ANSWER_MAX};
use quorate_client::{Answer, Endpoint, Operation, node_status};
use quorate_node::{GroupStatus, ViewStatus};
use quorate_types::{
    Duration as Span, GroupChange, Incarnation, Level, Levels, Member, MemberRole, NodeId, Secret,
};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Between two looks at how far the node is.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// For how long the group lets the node join: the command does it at once.
const INVITED_FOR: Span = Span(600_000_000_000);

/// A node that is to serve a group.
#[derive(Debug)]
pub(crate) struct NewServer {
    pub(crate) node: u16,
    address: String,
    speaks: Levels,
}

impl NewServer {
    /// The node as the first group knows it, where `access` is another group that does not have it as a member.
    pub(crate) fn find(access: &GroupAccess, node: u16) -> Result<Option<NewServer>, CliError> {
        let Some(name) = &access.endpoint.group else {
            return Ok(None);
        };
        let view = status::view_of_group(&access.endpoint, ANSWER_MAX, access.tls())?;
        if view.members.iter().any(|member| member.node == node) {
            return Ok(None);
        }
        let cluster = status::of_group(&first(access).endpoint, ANSWER_MAX, access.tls())?;
        let members = status::view_in(&cluster)?.members;
        let Some(member) = members.iter().find(|member| member.node == node) else {
            let members: Vec<String> = members.iter().map(|m| m.node.to_string()).collect();
            return Err(CliError::not_found(format!(
                "node {node} is no member of the group {name}, nor of the cluster's first group: its members are {}",
                members.join(", ")
            ))
            .advise("let it join the cluster first: quorate node invite, quorate node join"));
        };
        let nodes = cluster["nodes"].as_array().into_iter().flatten();
        let status = nodes.into_iter().find(|other| other["id"] == node);
        let up = status.filter(|status| status["up"] == true);
        let Some(status) = up else {
            return Err(CliError::conflict(format!(
                "node {node} does not answer, so it cannot begin to serve the group {name}: nothing has changed"
            ))
            .advise("start it first, or name another one"));
        };
        Ok(Some(NewServer {
            node,
            address: member.address.clone(),
            speaks: spoken(status),
        }))
    }

    /// Lets the node serve the group and catch up.
    pub(crate) fn join(&self, access: &GroupAccess, until: Instant) -> Result<(), CliError> {
        let (first, incarnation) = (first(access), Incarnation(random()?));
        let change = GroupChange::Serve {
            name: access.endpoint.group.clone().unwrap_or_default(),
            node: NodeId(self.node),
            incarnation,
        };
        groups::decide(&first, left(until), change)?;
        let number = self.become_member(access, incarnation, until)?;
        self.caught_up((access, &first), number, until)
    }

    /// Has the group change its view to one that names the node. Returns the number of that view.
    fn become_member(
        &self,
        access: &GroupAccess,
        incarnation: Incarnation,
        until: Instant,
    ) -> Result<u64, CliError> {
        let secret = [random()?.to_le_bytes(), random()?.to_le_bytes()].concat();
        let secret = Secret::new(secret.try_into().expect("two halves"));
        let invite = Operation::Invite {
            invitation: secret.hash(),
            lasts: INVITED_FOR,
        };
        match access.connect(left(until))?.perform(invite) {
            Ok(Answer::Checkpointed(_)) => {}
            Ok(Answer::Called(_) | Answer::Read { .. }) => {
                return Err(CliError::failed("the node did not answer with a slot"));
            }
            Err(error) => return Err(CliError::call(error)),
        }
        loop {
            let view = status::view_of_group(&access.endpoint, ANSWER_MAX, access.tls())?;
            let join = self.asks(&view, incarnation, secret);
            match view_deciding::perform(access, left(until), (view.number, &join)) {
                Ok(_) => return Ok(view.number + 1),
                // Another change came first: there is a newer view to change.
                Err(error)
                    if error.code == code::CONFLICT
                        && Instant::now() < until
                        && is_changed(access, view.number)? => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn asks(&self, view: &ViewStatus, incarnation: Incarnation, secret: Secret) -> Operation {
        Operation::Join {
            change: view_deciding::same_acceptors(view),
            member: Member {
                node: NodeId(self.node),
                incarnation,
                address: self.address.clone(),
            },
            secret,
            // A group at the lowest level may have nodes that read no other form.
            speaks: match Level(view.level) {
                Level::UNNAMED => Levels::UNNAMED,
                _ => self.speaks,
            },
            role: MemberRole::Replica,
        }
    }

    /// Waits until the node serves the group in a view that names it.
    fn caught_up(
        &self,
        (access, first): (&GroupAccess, &GroupAccess),
        number: u64,
        until: Instant,
    ) -> Result<(), CliError> {
        let of = |group: &Endpoint| {
            let report = node_status(&self.address, group.group_id(), ANSWER_MAX, access.tls());
            report.ok().map(|report| status::parse(&report)).transpose()
        };
        // While nobody has a session there, a group's leader is heard so seldom that no replica knows that it is current.
        let _session = access.connect(left(until))?;
        loop {
            if let Some(status) = of(&access.endpoint)?
                && status["view"]["number"].as_u64() >= Some(number)
                && status["is_serving"] == true
            {
                return Ok(());
            }
            if Instant::now() >= until {
                let name = access.endpoint.group.clone().unwrap_or_default();
                let why = of(&first.endpoint)?.and_then(|status| hindrance(&status, &name));
                let text = format!(
                    "node {} is a member of the group {name}, and has not caught up in time{}",
                    self.node,
                    why.map_or_else(String::new, |why| format!(": {why}"))
                );
                return Err(CliError::with_code(code::OUTCOME_UNKNOWN, text).advise(
                    "it does not vote yet: say the same command again, or quorate view remove it from the group",
                ));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// The first group of the cluster, which decides who serves another one.
fn first(access: &GroupAccess) -> GroupAccess {
    access.of_group(None)
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

fn is_changed(access: &GroupAccess, number: u64) -> Result<bool, CliError> {
    let view = status::view_of_group(&access.endpoint, ANSWER_MAX, access.tls())?;
    Ok(view.number != number)
}

/// What a node speaks, as its status says it.
fn spoken(status: &Value) -> Levels {
    let level = |at: usize| {
        let level = status["speaks"][at].as_u64();
        level.and_then(|level| u16::try_from(level).ok()).map(Level)
    };
    let told = level(0).zip(level(1));
    let told = told.and_then(|(oldest, newest)| Levels::new(oldest, newest));
    told.unwrap_or(Levels::UNNAMED)
}

/// Why a node does not serve a group, as its status says it.
fn hindrance(status: &Value, name: &str) -> Option<String> {
    let groups: Vec<GroupStatus> = serde_json::from_value(status["groups"].clone()).ok()?;
    let group = groups.into_iter().find(|group| group.name == name)?;
    group.state.filter(|state| state != "running")
}
