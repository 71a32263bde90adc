//! Random reads that clients announce, and what acceptors say of them.

use crate::draw::Draw;
use crate::drawn::{ballot, object, payload, secret, slot};
use quorate_any::paxos::Message;
use quorate_any::paxos::message::Attested;
use quorate_types::{BroadcastId, FromClient};

fn broadcast(draw: &mut Draw) -> BroadcastId {
    BroadcastId {
        client: secret(draw).hash(),
        number: draw.number(),
    }
}

pub(crate) fn announced_request(draw: &mut Draw) -> FromClient {
    let read = broadcast(draw);
    match draw.flag() {
        true => FromClient::Broadcast {
            read,
            object: object(draw),
            payload: payload(draw),
        },
        false => FromClient::Announce { read },
    }
}

pub(crate) fn attested(draw: &mut Draw) -> Message {
    Message::Attested(Attested {
        ballot: ballot(draw),
        read: broadcast(draw),
        voted: slot(draw),
    })
}
