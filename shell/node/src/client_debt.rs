//! Requests that order no call are a debt of their connection: how much each owes, and which answers add to it.
//!
//! Called by the node's loop for each request that it serves; [`crate::client_turns`] has those wait who owe too much.

use quorate_types::{FromClient, Refusal, ToClient};

/// What a request owes before it is answered: opens are written to the log of every node and call nothing, and a session that is
/// closed was opened before.
pub(crate) fn debt_of(request: &FromClient) -> u32 {
    match request {
        FromClient::Call { .. }
        | FromClient::Early { .. }
        | FromClient::Read { .. }
        | FromClient::Broadcast { .. }
        | FromClient::Announce { .. } => 0,
        FromClient::Attach { .. } | FromClient::KeepAlive { .. } | FromClient::Close { .. } => 1,
        FromClient::Open { .. }
        | FromClient::Resume { .. }
        | FromClient::Checkpoint { .. }
        | FromClient::Reset { .. }
        | FromClient::Skip { .. }
        | FromClient::Invite { .. }
        | FromClient::ChangeGroups { .. }
        | FromClient::MoveLeader { .. }
        | FromClient::Join { .. }
        | FromClient::SetLevel { .. }
        | FromClient::SwitchOrdering { .. }
        | FromClient::SetQuorums { .. }
        | FromClient::SetLimit { .. }
        | FromClient::ChangeView { .. } => 4,
    }
}

/// Whether an answer says that the request was wrong, and not that this node is busy, behind or full.
pub(crate) fn is_wrong(answer: &ToClient) -> bool {
    let ToClient::Refused { refusal, .. } = answer else {
        return false;
    };
    match refusal {
        Refusal::SessionExpired
        | Refusal::Superseded
        | Refusal::ReplyGone
        | Refusal::SequenceReused
        | Refusal::NoSuchObject
        | Refusal::TooLarge
        | Refusal::NoSnapshots => true,
        Refusal::NotOrdered
        | Refusal::Unknown
        | Refusal::Overloaded
        | Refusal::NotServing
        | Refusal::NoLeader
        | Refusal::StorageFull
        | Refusal::Behind
        | Refusal::NotFrozen
        | Refusal::NoSuchSnapshot
        | Refusal::NoStuckCall
        | Refusal::NotSkipped
        | Refusal::Frozen
        | Refusal::ViewConflict
        | Refusal::NoSuchView
        | Refusal::ViewNotReady
        | Refusal::NotInvited
        | Refusal::GroupExists
        | Refusal::UnknownGroup
        | Refusal::ImpossibleGroup
        | Refusal::LevelNotSpoken => false,
    }
}
