//! Proving who is a node of the group: both ends of a link show that they know the incarnations of both, which no frame tells.
//!
//! With TLS certificates say who speaks, and this comes on top. Without TLS it keeps out who only listens where a node should
//! be, or knows what clients are told. What is said on a link that stands is not protected by it.

use crate::transport::Transport;
use quorate_types::{Levels, LinkKey, LinkSide, NodeId, Nonce, Time};
use quorate_wire::{
    Frame, Kind, Reject, RejectReason, node_name, put_challenge, put_proof, take_challenge,
    take_proof,
};

/// How far both ends of a connection have proved themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Proving {
    NotBegun,
    /// This node dialled, with this nonce.
    Dialled(Nonce),
    /// This node accepted, and waits for the proof.
    Asked(AskedNode),
    /// The other end is who it should be, and speaks these.
    Done(Levels),
}

/// A stranger that says to be a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AskedNode {
    node: NodeId,
    speaks: Levels,
    dials: Nonce,
    accepts: Nonce,
}

impl AskedNode {
    /// Whether it says to be `node`.
    pub(crate) fn is(self, node: NodeId) -> bool {
        self.node == node
    }
}

impl Transport {
    pub(crate) fn draw_nonce(&mut self) -> Nonce {
        self.nonces += 1;
        Nonce::drawn(&self.settings.seed, self.nonces)
    }

    /// The key of this node and a member; none for others.
    fn key_with(&self, node: NodeId) -> Option<LinkKey> {
        let own = self.settings.own;
        let peer = self.peers.get(&node)?;
        let life = (node, peer.address.incarnation);
        Some(LinkKey::of(own.cluster, (own.node, own.incarnation), life))
    }

    /// A stranger says to be `node`: it gets this node's proof, and must give its own.
    pub(crate) fn challenge(
        &mut self,
        slot: usize,
        (node, speaks): (NodeId, Levels),
        dials: Nonce,
        now: Time,
    ) {
        let Some(key) = self.key_with(node) else {
            let Reject { reason, text } = Reject::not_a_member(self.settings.view);
            return self.turn_away(slot, reason, &text, now);
        };
        if self.settings.own.node < node {
            let text = format!("{node} is dialled from here and does not dial itself");
            return self.turn_away(slot, RejectReason::Identity, &text, now);
        }
        let accepts = self.draw_nonce();
        let connection = self.slots[slot].as_mut().expect("it has just spoken");
        if !connection.stream.may_be(node) {
            tracing::warn!(peer = %node, "peer refused: its certificate does not name it");
            let text = format!("the certificate does not name {}", node_name(node));
            return self.reject(slot, RejectReason::Forbidden, text, now);
        }
        connection.proving = Proving::Asked(AskedNode {
            node,
            speaks,
            dials,
            accepts,
        });
        let proof = key.proof(LinkSide::Accepts, dials, accepts);
        let (own, level) = (self.settings.speaks, connection.level);
        connection.greet(Kind::Challenge, |body| {
            put_challenge(body, (accepts, proof), own, level);
        });
        self.list(slot);
    }

    /// The answer to the challenge.
    pub(crate) fn proved(&mut self, slot: usize, asked: AskedNode, frame: &Frame, now: Time) {
        let node = asked.node;
        let connection = self.slots[slot].as_ref().expect("it has just spoken");
        let (proof, reach) = match (frame.kind, take_proof(&frame.body, connection.level)) {
            (Kind::Proof, Ok(said)) => said,
            (_, Ok(_)) => {
                return self.turn_away(slot, RejectReason::Malformed, "prove who you are", now);
            }
            (_, Err(error)) => {
                return self.turn_away(slot, RejectReason::Malformed, &error.to_string(), now);
            }
        };
        let key = self.key_with(node).expect("asked as a member");
        if proof != key.proof(LinkSide::Dials, asked.dials, asked.accepts) {
            let peer = self.peers.get_mut(&node).expect("asked as a member");
            if peer.may_log_refusal(now) {
                tracing::warn!(peer = %node, "peer refused: it does not know the incarnations of both nodes in this view, so it is a stranger or its data directory another one");
            }
            let text = format!("this is not proved to be {node} of this view");
            return self.reject(slot, RejectReason::Identity, text, now);
        }
        let connection = self.slots[slot].as_mut().expect("it has just spoken");
        connection.proving = Proving::Done(asked.speaks);
        self.let_peer_in(slot, (node, asked.speaks), reach, now);
    }

    /// A dialled peer proves itself and asks for this node's proof.
    pub(crate) fn challenged(&mut self, slot: usize, node: NodeId, frame: &Frame, now: Time) {
        let key = self.key_with(node).expect("only members are dialled");
        let connection = self.slots[slot].as_mut().expect("it has just spoken");
        let Proving::Dialled(dials) = connection.proving else {
            return self.leave(slot, node, "it asks for a proof twice", now);
        };
        let (accepts, proof, speaks) = match take_challenge(&frame.body) {
            Ok(said) => said,
            Err(error) => return self.leave(slot, node, &error.to_string(), now),
        };
        if proof != key.proof(LinkSide::Accepts, dials, accepts) {
            let text = "who answers there does not know the incarnations of both nodes in this view: it is a stranger, or its data directory is another one";
            return self.leave(slot, node, text, now);
        }
        let level = match self.agree(Some(speaks)) {
            Ok((level, _)) => level,
            Err(text) => return self.leave(slot, node, &text, now),
        };
        let connection = self.slots[slot].as_mut().expect("it has just spoken");
        connection.proving = Proving::Done(speaks);
        connection.level = level;
        let proof = key.proof(LinkSide::Dials, dials, accepts);
        let reach = self.settings.own.reach;
        connection.greet(Kind::Proof, |body| put_proof(body, proof, reach, level));
        self.list(slot);
    }
}
