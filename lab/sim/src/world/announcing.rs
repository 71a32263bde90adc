//! Clients that announce their reads to every node. An announcement goes its own way: it may be lost, late, or come long after the
//! read has its answer.

use super::World;
use super::events::Event;
use super::random::Random;
use super::row::Row;
use quorate_replica::Input as ToReplica;
use quorate_session::ClientSession;
use quorate_types::{BroadcastId, ClosedBy, ConnectionId, Duration, FromClient, NodeId};

/// Connections on which reads are announced are numbered from here; what is said on them is not carried.
const ANNOUNCERS: u64 = 1 << 41;

/// The latest announcement.
const LATE_MS_MAX: u64 = 1_500;

/// Most clients reach the other nodes.
pub(super) fn draw_announcing(seed: u64, number: u64, session: &mut ClientSession) {
    session.set_announcing(Random::new(seed, "announces", number).chance(800));
}

impl World {
    /// A client tells the nodes beside the one in use of a read.
    pub(super) fn announce(&mut self, number: u64, read: BroadcastId) {
        let decided = self.judge.last_decided();
        let seen = &mut self.leading.confirmations.announced;
        seen.announced(read, decided);
        let client = &self.clients[&number];
        let used = client.connection.and_then(|id| self.connections.get(&id));
        let used = used.map(|connection| connection.node);
        let others: Vec<NodeId> = self.nodes.ids().filter(|id| Some(*id) != used).collect();
        for node in others {
            if self.random.chance(60) {
                self.exercised(Row::AnnouncementLost);
                continue;
            }
            let mut at = self.now + self.network.latency();
            if self.random.chance(60) {
                self.exercised(Row::AnnouncementLate);
                at = self.now + Duration::from_millis(self.random.below(LATE_MS_MAX));
            }
            let client = number;
            self.events
                .push(at, Event::Announced { client, node, read });
        }
    }

    /// A node hears of a read.
    pub(super) fn hear_announced(&mut self, client: u64, node: NodeId, read: BroadcastId) {
        if self.nodes[&node].running.is_none() || !self.reaches(Some(client), node) {
            return;
        }
        let from = ConnectionId(ANNOUNCERS + client);
        let message = FromClient::Announce { read };
        self.hand_in(node, ToReplica::Client { from, message });
        let (connection, by) = (from, ClosedBy::Node);
        self.hand_in(node, ToReplica::Disconnected { connection, by });
    }
}
