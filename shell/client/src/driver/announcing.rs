//! Connections to the nodes beside the one in use, on which a client announces its reads. They are made once it reads at a level that
//! asks for it, and nobody waits for them: until enough stand, and wherever one is lost, such reads are confirmed as others are.
//!
//! The loop does not watch them. Little comes on them, and what does is read in the driver's turns.

use super::{Driver, boot_time};
use crate::TlsClient;
use crate::connection::NodeConnection;
use crate::limits::{
    ANNOUNCED_WAITING_MAX, ANNOUNCERS_DRAINED, ANNOUNCERS_MAX, ANNOUNCERS_RETRIED,
};
use crate::resolving::Resolving;
use mio::{Registry, Token};
use quorate_types::{BroadcastId, ClusterId, FromClient, GroupId, Level, NodeId, Time};
use quorate_wire::{Kind, Welcome};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// How far a connection is.
enum Announcer {
    /// Its address is being looked up.
    Resolving(Resolving),
    /// It is being made, or stands once it is welcomed.
    Linked(Box<NodeConnection>),
    /// It failed, or its node does not read what is announced.
    Failed,
}

/// What all of them share with the driver.
struct Shared<'a> {
    registry: &'a Registry,
    token: Token,
    group: GroupId,
    tls: Option<&'a TlsClient>,
    cluster: Option<ClusterId>,
}

/// The connections, by node. At most [`ANNOUNCERS_MAX`].
#[derive(Default)]
pub(super) struct Announcers {
    is_wanted: bool,
    links: BTreeMap<NodeId, Announcer>,
    /// The members of the group, as the newest welcome named them.
    members: Vec<(NodeId, String)>,
    used: Option<NodeId>,
    /// Whether the node in use reads announced reads.
    is_spoken: bool,
    /// When failed ones are tried again.
    retry_at: Time,
    /// When what has come on the others is read.
    drain_at: Time,
}

impl Announcers {
    /// The client reads at a level that asks for it.
    pub(super) fn want(&mut self) {
        self.is_wanted = true;
    }

    /// The node in use has welcomed the client.
    pub(super) fn welcomed(&mut self, welcome: &Welcome) {
        self.used = Some(welcome.node);
        self.is_spoken = Level(welcome.version) >= Level::BROADCAST;
        if !welcome.members.is_empty() {
            self.members.clone_from(&welcome.members);
        }
        let members = &self.members;
        self.links
            .retain(|node, _| members.iter().any(|(member, _)| member == node));
    }

    /// Tells every node that can be reached.
    pub(super) fn announce(&mut self, read: BroadcastId) {
        for link in self.links.values_mut() {
            if let Announcer::Linked(connection) = link
                && connection.is_welcomed
                && connection.waiting() < ANNOUNCED_WAITING_MAX
            {
                connection.queue(&FromClient::Announce { read });
            }
        }
    }

    /// Writes what is announced.
    pub(super) fn flush(&mut self) {
        for link in self.links.values_mut() {
            if let Announcer::Linked(connection) = link {
                connection.on_writable();
                if connection.flush().is_err() {
                    *link = Announcer::Failed;
                }
            }
        }
    }

    /// Whether the nodes that hear what is announced are a majority with the one in use.
    fn are_enough(&self) -> bool {
        let is_welcomed = |link: &&Announcer| matches!(link, Announcer::Linked(c) if c.is_welcomed);
        let hearing = self.links.values().filter(is_welcomed).count();
        // Who stands alone has nobody to tell, and may be no node.
        self.is_spoken && hearing > 0 && hearing >= self.members.len() / 2
    }

    /// Goes on with what is being made, and reads what has come.
    fn tend(&mut self, now: Time, shared: &Shared<'_>) {
        let (retries, drains) = (now >= self.retry_at, now >= self.drain_at);
        if retries {
            self.retry_at = now + ANNOUNCERS_RETRIED;
            self.links
                .retain(|_, link| !matches!(link, Announcer::Failed));
        }
        if drains {
            self.drain_at = now + ANNOUNCERS_DRAINED;
        }
        for (node, address) in &self.members {
            let is_wanted = Some(*node) != self.used && !self.links.contains_key(node);
            if is_wanted && self.links.len() < ANNOUNCERS_MAX {
                let link = Announcer::dial(address, shared);
                self.links.insert(*node, link);
            }
        }
        for link in self.links.values_mut() {
            link.go_on(shared, drains);
        }
    }
}

impl Announcer {
    fn dial(address: &str, shared: &Shared<'_>) -> Announcer {
        if let Ok(resolved) = address.parse() {
            return Announcer::connect(address, resolved, shared);
        }
        match Resolving::start(address, shared.registry, shared.token) {
            Ok(resolving) => Announcer::Resolving(resolving),
            Err(_) => Announcer::Failed,
        }
    }

    fn connect(address: &str, resolved: SocketAddr, shared: &Shared<'_>) -> Announcer {
        let Shared {
            registry, token, ..
        } = *shared;
        let dialled =
            NodeConnection::dial(address, resolved, shared.group, registry, token, shared.tls);
        let Ok(mut connection) = dialled else {
            return Announcer::Failed;
        };
        connection.leave(registry);
        Announcer::Linked(Box::new(connection))
    }

    fn go_on(&mut self, shared: &Shared<'_>, drains: bool) {
        match self {
            Announcer::Resolving(resolving) => {
                if let Some(found) = resolving.answer() {
                    resolving.leave(shared.registry);
                    *self = match found {
                        Ok(resolved) => {
                            Announcer::connect(&resolving.address.clone(), resolved, shared)
                        }
                        Err(_) => Announcer::Failed,
                    };
                }
            }
            Announcer::Linked(connection) => {
                let is_due = drains || !connection.is_welcomed;
                if is_due && !hear(connection, shared.cluster) {
                    *self = Announcer::Failed;
                }
            }
            Announcer::Failed => {}
        }
    }
}

/// Writes and reads what can be; says whether the connection is of use.
fn hear(connection: &mut NodeConnection, cluster: Option<ClusterId>) -> bool {
    connection.on_writable();
    if !connection.is_welcomed && connection.on_connected().is_err() {
        return false;
    }
    if connection.flush().is_err() || connection.fill().is_err() {
        return false;
    }
    loop {
        let frame = match connection.next_frame() {
            Ok(Some(frame)) => frame,
            Ok(None) => return true,
            Err(_) => return false,
        };
        match frame.kind {
            Kind::Welcome => {
                let Ok(welcome) = Welcome::take(&frame.body) else {
                    return false;
                };
                let is_own = Some(welcome.cluster) == cluster;
                let is_spoken = Level(welcome.version) >= Level::BROADCAST;
                if !is_own || !is_spoken || connection.check_node(welcome.node).is_err() {
                    return false;
                }
                connection.is_welcomed = true;
            }
            // It names the leader to whoever says something.
            Kind::ToClient => {}
            _ => return false,
        }
    }
}

impl Driver {
    /// Looks after the connections on which reads are announced, if there are to be any.
    pub(super) fn tend_announcers(&mut self) {
        if !self.announcers.is_wanted || self.cluster.is_none() {
            return;
        }
        let shared = Shared {
            registry: &self.registry,
            token: self.token,
            group: self.group,
            tls: self.options.tls.as_deref(),
            cluster: self.cluster,
        };
        self.announcers.tend(boot_time(), &shared);
        self.session.set_announcing(self.announcers.are_enough());
    }
}
