//! Random reads that clients announce, what acceptors say of them, and calls that are wanted early.

use crate::draw::Draw;
use crate::drawn::{ballot, id, object, payload, secret, slot};
use quorate_any::paxos::Message;
use quorate_any::paxos::message::Attested;
use quorate_types::{BroadcastId, FromClient, ToClient};

fn broadcast(draw: &mut Draw) -> BroadcastId {
    BroadcastId {
        client: secret(draw).hash(),
        number: draw.number(),
    }
}

pub(crate) fn announced_request(draw: &mut Draw) -> FromClient {
    let read = broadcast(draw);
    match draw.below(3) {
        0 => FromClient::Broadcast {
            read,
            object: object(draw),
            payload: payload(draw),
        },
        1 => FromClient::Early { id: id(draw) },
        _ => FromClient::Announce { read },
    }
}

/// What comes of a call that is wanted early.
pub(crate) fn early_answer(draw: &mut Draw) -> ToClient {
    let id = id(draw);
    match draw.flag() {
        true => ToClient::Tentative {
            id,
            value: payload(draw),
        },
        false => ToClient::Confirmed { id },
    }
}

pub(crate) fn attested(draw: &mut Draw) -> Message {
    Message::Attested(Attested {
        ballot: ballot(draw),
        read: broadcast(draw),
        voted: slot(draw),
    })
}
