//! Levels: a link speaks the newest level that both ends do, and whoever does not speak the level of the group gets no link.

use crate::transport::Transport;
use quorate_types::{Level, Levels, NodeId, NodeSet, Time, ViewNumber};
use quorate_wire::RejectReason;

/// What the group asks of its members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupLevel {
    /// What each must speak.
    pub level: Level,
    /// The view that says so.
    pub view: ViewNumber,
}

impl Transport {
    /// The level to speak with who speaks `theirs`, which is something then.
    ///
    /// # Errors
    /// Why there is none, for people.
    pub(crate) fn agree(&self, theirs: Option<Levels>) -> Result<(Level, Levels), String> {
        let own = self.settings.speaks;
        let common = theirs.and_then(|theirs| Some((own.common(theirs)?, theirs)));
        common.ok_or_else(|| {
            let theirs = theirs.map_or("none".to_owned(), |theirs| theirs.to_string());
            format!(
                "this node speaks {own} and you speak {theirs}: there is none in common; \
                 upgrade the older one to a version that speaks both"
            )
        })
    }

    /// Whether a member that speaks `theirs` can take part.
    ///
    /// # Errors
    /// Why not, for people.
    pub(crate) fn check_level(&self, theirs: Levels) -> Result<(), String> {
        let GroupLevel { level, view } = self.settings.level;
        if theirs.has(level) {
            return Ok(());
        }
        Err(format!(
            "view {} of the group asks for level {level} and you speak {theirs}: start a version that speaks level {level}, \
             or set the group to another level first (quorate view set level=N)",
            view.0
        ))
    }

    /// Another view is in force or follows: whoever does not speak its level loses the link, and is told why.
    pub fn set_level(&mut self, level: GroupLevel, now: Time) {
        if self.settings.level == level {
            return;
        }
        self.settings.level = level;
        let linked = self.peers.iter();
        let linked: Vec<(usize, NodeId, Levels)> = linked
            .filter_map(|(node, peer)| Some((peer.link()?, *node, peer.speaks?)))
            .collect();
        for (slot, node, speaks) in linked {
            if let Err(text) = self.check_level(speaks) {
                self.refuse_level(slot, node, text, now);
            }
        }
    }

    /// A member cannot read what is to be said: it is told so, and gets a link again once nothing of that kind is said.
    pub fn cannot_read(&mut self, nodes: NodeSet, level: Level, now: Time) {
        for node in nodes.iter() {
            let peer = self.peers.get(&node);
            let Some((slot, speaks)) = peer.and_then(|peer| Some((peer.link()?, peer.speaks?)))
            else {
                continue;
            };
            let text = format!(
                "what is decided here is of level {level} and you speak {speaks}: start a version that speaks level {level}; \
                 where the group was set to a lower level, wait until the log before is in a snapshot (quorate snapshot)"
            );
            self.turn_level_away(slot, node, (RejectReason::Unreadable, text), now);
        }
    }

    /// Whether a peer may be linked that speaks less than this node.
    #[must_use]
    pub fn has_lower_peers(&self) -> bool {
        self.has_lower_peers
    }

    /// A peer is linked or not any more.
    pub(crate) fn note_lower_peers(&mut self) {
        let newest = self.settings.speaks.newest();
        let mut linked = self.peers.values().filter(|peer| peer.link().is_some());
        let is_lower = |levels: Levels| levels.newest() < newest;
        self.has_lower_peers = linked.any(|peer| peer.speaks.is_some_and(is_lower));
    }

    /// The linked nodes of these that speak less than `level`.
    #[must_use]
    pub fn below(&self, nodes: NodeSet, level: Level) -> NodeSet {
        let is_below = |node: &NodeId| {
            let peer = self.peers.get(node);
            let speaks = peer.and_then(|peer| peer.link().and(peer.speaks));
            speaks.is_some_and(|speaks| speaks.newest() < level)
        };
        nodes.iter().filter(is_below).collect()
    }

    /// What a peer speaks, if it is linked.
    #[must_use]
    pub fn spoken_by(&self, peer: NodeId) -> Option<Levels> {
        let peer = self.peers.get(&peer)?;
        peer.link().and(peer.speaks)
    }

    /// What a client's connection speaks.
    #[must_use]
    pub fn client_level(&self, client: quorate_types::ConnectionId) -> Option<Level> {
        let slot = self.slot_of(client)?;
        self.slots[slot].as_ref().map(|connection| connection.level)
    }

    /// A node does not speak what it must: it is told so, and so is who reads this node's log.
    pub(crate) fn refuse_level(&mut self, slot: usize, node: NodeId, text: String, now: Time) {
        self.turn_level_away(slot, node, (RejectReason::Version, text), now);
    }

    fn turn_level_away(
        &mut self,
        slot: usize,
        node: NodeId,
        (reason, text): (RejectReason, String),
        now: Time,
    ) {
        if let Some(peer) = self.peers.get_mut(&node) {
            // It would come back at once, only to be cut off again.
            peer.rest();
            if peer.may_log_refusal(now) {
                tracing::warn!(peer = %node, text, "peer refused: it does not speak the level of the group");
            }
        }
        self.reject(slot, reason, text, now);
    }
}
