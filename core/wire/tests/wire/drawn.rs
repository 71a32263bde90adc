//! One message, record or snapshot for each seed; over many seeds, all of them.

use crate::draw::Draw;
use crate::drawn_announced::{announced_request, attested, early_answer};
use crate::drawn_fast;
use crate::drawn_replica::{digest, replica_message};
use crate::drawn_ring::ring_message;
use crate::drawn_views::{
    first_ballot, group, group_change, levels, member, member_change, role, set_counts, view,
    view_change, vote_kind,
};
use bytes::Bytes;
use quorate_any::AnyMessage;
use quorate_any::paxos::message::{
    Accept, Accepted, AskBarrier, Barrier, Confirm, Confirmed, Current, Decided, Forward, Heard,
    Heartbeat, Learn, Learned, Nack, PreVote, PreVoted, Prepare, Returned, Seen, Survey, Surveyed,
    TakeOver, Trimmed,
};
use quorate_any::paxos::{Message, Promise};
use quorate_ordering::{Entry, Record};
use quorate_replica::{
    Invitation, PeerMessage, ReplyImage, ReplyState, SessionImage, SnapshotCore,
};
use quorate_types::*;

pub(crate) fn counter(draw: &mut Draw) -> u64 {
    draw.of_any_size(63)
}

pub(crate) fn slot(draw: &mut Draw) -> Slot {
    Slot(draw.of_any_size(47))
}

pub(crate) fn node(draw: &mut Draw) -> NodeId {
    NodeId(draw.below(64) as u16)
}

pub(crate) fn session(draw: &mut Draw) -> SessionId {
    SessionId(draw.of_any_size(63))
}

fn view_id(draw: &mut Draw) -> ViewId {
    ViewId {
        group: GroupId(draw.number() as u32),
        number: ViewNumber(counter(draw)),
    }
}

pub(crate) fn ballot(draw: &mut Draw) -> Ballot {
    Ballot {
        view: ViewNumber(counter(draw)),
        round: counter(draw),
        node: node(draw),
        boot: counter(draw),
    }
}

pub(crate) fn id(draw: &mut Draw) -> CommandId {
    CommandId {
        session: session(draw),
        sequence: counter(draw),
    }
}

pub(crate) fn payload(draw: &mut Draw) -> Bytes {
    draw.bytes(40).into()
}

pub(crate) fn object(draw: &mut Draw) -> ObjectId {
    ObjectId(draw.of_any_size(32) as u32)
}

fn outcome(draw: &mut Draw) -> Outcome {
    match draw.below(3) {
        0 => Outcome::Returned(payload(draw)),
        1 => Outcome::Raised(payload(draw)),
        _ => Outcome::Skipped,
    }
}

fn reply_state(draw: &mut Draw) -> ReplyState {
    match draw.below(4) {
        0 => ReplyState::Gone,
        1 => ReplyState::Kept(outcome(draw)),
        2 => ReplyState::Parked,
        _ => ReplyState::Woken(outcome(draw)),
    }
}

fn tenancy(draw: &mut Draw) -> Tenancy {
    let number = draw.below(u64::from(Tenancy::MAX.number()) + 1);
    Tenancy::new(number as u32).expect("it is in range")
}

pub(crate) fn refusal(draw: &mut Draw) -> Refusal {
    const ALL: [Refusal; 27] = [
        Refusal::NotOrdered,
        Refusal::Unknown,
        Refusal::Overloaded,
        Refusal::SessionExpired,
        Refusal::Superseded,
        Refusal::ReplyGone,
        Refusal::SequenceReused,
        Refusal::NoSuchObject,
        Refusal::NotServing,
        Refusal::NoLeader,
        Refusal::TooLarge,
        Refusal::NoSnapshots,
        Refusal::StorageFull,
        Refusal::Behind,
        Refusal::NotFrozen,
        Refusal::NoSuchSnapshot,
        Refusal::NoStuckCall,
        Refusal::NotSkipped,
        Refusal::Frozen,
        Refusal::ViewConflict,
        Refusal::NoSuchView,
        Refusal::NotInvited,
        Refusal::ViewNotReady,
        Refusal::Superseded,
        Refusal::GroupExists,
        Refusal::UnknownGroup,
        Refusal::ImpossibleGroup,
    ];
    ALL[draw.below(ALL.len() as u64) as usize]
}

pub(crate) fn attachment(draw: &mut Draw) -> Attachment {
    Attachment(counter(draw))
}

pub(crate) fn secret(draw: &mut Draw) -> Secret {
    let halves = u128::from(draw.number()) << 64 | u128::from(draw.number());
    Secret::new(halves.to_le_bytes())
}

fn terms(draw: &mut Draw) -> SessionTerms {
    SessionTerms {
        expiry: Duration(counter(draw)),
        on_disconnect: draw.option(|draw| Duration(counter(draw))),
    }
}

// Longer than a screen: one kind of request an arm.
pub(crate) fn request(draw: &mut Draw) -> FromClient {
    const LEVELS: [ReadLevel; 6] = [
        ReadLevel::Ordered,
        ReadLevel::Confirmed,
        ReadLevel::Broadcast,
        ReadLevel::Lease,
        ReadLevel::Any,
        ReadLevel::Loose,
    ];
    match draw.below(19) {
        18 => announced_request(draw),
        9 => FromClient::Resume {
            secret: secret(draw),
            tenant: secret(draw).hash(),
            terms: terms(draw),
        },
        0 => FromClient::Open {
            secret: secret(draw),
            terms: terms(draw),
        },
        1 => FromClient::Call {
            id: id(draw),
            acknowledged: counter(draw),
            object: object(draw),
            payload: payload(draw),
        },
        2 => FromClient::Read {
            request: draw.number(),
            object: object(draw),
            payload: payload(draw),
            level: LEVELS[draw.below(6) as usize],
            after: slot(draw),
        },
        3 => FromClient::KeepAlive {
            session: session(draw),
        },
        4 => FromClient::Close {
            session: session(draw),
        },
        5 => FromClient::Attach {
            session: session(draw),
            secret: secret(draw),
            attachment: attachment(draw),
        },
        6 => FromClient::Reset {
            request: draw.number(),
            node: node(draw),
            boot: counter(draw),
            slot: slot(draw),
            digest: digest(draw),
        },
        7 => FromClient::Skip {
            request: draw.number(),
            slot: slot(draw),
            index: draw.of_any_size(32) as u32,
            is_unsafe: draw.flag(),
        },
        8 => FromClient::ChangeView {
            request: draw.number(),
            change: view_change(draw),
            leaves: draw.flag().then(|| node(draw)),
        },
        11 => FromClient::Invite {
            request: draw.number(),
            invitation: secret(draw).hash(),
            lasts: Duration(draw.number()),
        },
        14 => FromClient::ChangeGroups {
            request: draw.number(),
            change: group_change(draw),
        },
        13 => FromClient::MoveLeader {
            request: draw.number(),
            node: node(draw),
        },
        12 => FromClient::Join {
            request: draw.number(),
            change: view_change(draw),
            member: member(draw),
            secret: secret(draw),
            speaks: levels(draw),
            role: role(draw),
        },
        15 => FromClient::SetLevel {
            request: draw.number(),
            change: view_change(draw),
            level: Level(draw.number() as u16),
        },
        16 => FromClient::SwitchOrdering {
            request: draw.number(),
            change: view_change(draw),
            ordering: OrderingName::ALL[draw.below(6) as usize],
        },
        17 => set_counts(draw),
        _ => FromClient::Checkpoint {
            request: draw.number(),
        },
    }
}

pub(crate) fn answer(draw: &mut Draw) -> ToClient {
    match draw.below(11) {
        10 => early_answer(draw),
        9 => ToClient::Resumed {
            hash: secret(draw).hash(),
            session: session(draw),
            terms: terms(draw),
            tenancy: tenancy(draw),
        },
        8 => ToClient::Parked { id: id(draw) },
        0 => ToClient::Opened {
            hash: secret(draw).hash(),
            session: session(draw),
            expiry: Duration(draw.number()),
        },
        1 => ToClient::Replied {
            id: id(draw),
            outcome: outcome(draw),
        },
        2 => ToClient::Read {
            request: draw.number(),
            slot: slot(draw),
            age: Duration(draw.number()),
            outcome: outcome(draw),
        },
        3 => ToClient::Refused {
            ask: match draw.below(4) {
                0 => Ask::Open(secret(draw).hash()),
                1 => Ask::Call(id(draw)),
                2 => Ask::Request(draw.number()),
                _ => Ask::Session(session(draw)),
            },
            refusal: refusal(draw),
        },
        4 => ToClient::KeptAlive {
            session: session(draw),
        },
        7 => ToClient::Full {
            hash: secret(draw).hash(),
            retry_after: Duration(draw.number()),
        },
        5 => ToClient::Checkpointed {
            request: draw.number(),
            slot: slot(draw),
        },
        _ => ToClient::Leader {
            leader: draw.option(node),
        },
    }
}

// Longer than a screen: one arm a command.
pub(crate) fn command(draw: &mut Draw) -> Command {
    let body = match draw.below(20) {
        16 => Body::Resume {
            session: session(draw),
            tenant: secret(draw).hash(),
            after: tenancy(draw),
        },
        0 => Body::Call {
            object: object(draw),
            payload: payload(draw),
        },
        1 => Body::Open {
            hash: secret(draw).hash(),
            terms: terms(draw),
            tenant: secret(draw).hash(),
        },
        2 => Body::Close,
        3 => Body::Expire {
            session: session(draw),
            judged_by: slot(draw),
        },
        4 => Body::Lead {
            ballot: ballot(draw),
        },
        5 => Body::Read {
            reader: node(draw),
            boot: counter(draw),
        },
        6 => Body::Checkpoint,
        7 => Body::Survived {
            reporter: node(draw),
            slot: slot(draw),
            index: draw.of_any_size(32) as u32,
        },
        8 => Body::Died {
            reporter: node(draw),
            slot: slot(draw),
            index: draw.of_any_size(32) as u32,
            may_have_answered: draw.flag(),
        },
        9 => Body::Retry {
            reporter: node(draw),
            slot: slot(draw),
            index: draw.of_any_size(32) as u32,
        },
        10 => Body::Keep {
            reporter: node(draw),
        },
        11 => Body::Reset {
            node: node(draw),
            boot: counter(draw),
            slot: slot(draw),
            digest: digest(draw),
        },
        13 => Body::Tick,
        14 => Body::ChangeView {
            first: draw.flag().then(|| first_ballot(draw)),
            change: view_change(draw),
            who: Box::new(member_change(draw)),
        },
        17 => Body::ChangeGroups {
            change: group_change(draw),
        },
        15 => Body::Invite {
            invitation: secret(draw).hash(),
            lasts: Duration(draw.number()),
        },
        18 => Body::Collect {
            slot: slot(draw),
            digest: digest(draw),
        },
        12 => Body::Thaw {
            slot: slot(draw),
            digest: digest(draw),
        },
        _ => Body::Skip {
            slot: slot(draw),
            index: draw.of_any_size(32) as u32,
            is_unsafe: draw.flag(),
        },
    };
    Command {
        id: id(draw),
        acknowledged: counter(draw),
        body,
    }
}

fn stamp(draw: &mut Draw) -> Stamp {
    Stamp {
        wall: Wall(draw.number()),
        entropy: draw.number(),
    }
}

pub(crate) fn batch(draw: &mut Draw) -> Batch {
    Batch::new(stamp(draw), draw.list(6, command))
}

fn promise(draw: &mut Draw) -> Promise {
    drawn_fast::promise(draw, |_| VoteKind::Classic)
}

fn election_or_agreement(draw: &mut Draw) -> Message {
    match draw.below(11) {
        0 => Message::PreVote(PreVote {
            attempt: counter(draw),
            decided: slot(draw),
        }),
        1 => Message::PreVoted(PreVoted {
            attempt: counter(draw),
            is_granted: draw.flag(),
            promised: ballot(draw),
            decided: slot(draw),
        }),
        2 => Message::Prepare(Prepare {
            ballot: ballot(draw),
            from: slot(draw),
        }),
        3 => Message::Promise(Box::new(promise(draw))),
        4 => Message::Nack(Nack {
            ballot: ballot(draw),
            promised: ballot(draw),
        }),
        5 => Message::Accept(Accept {
            ballot: ballot(draw),
            slot: slot(draw),
            batch: batch(draw),
            decided: slot(draw),
        }),
        6 => Message::Accepted(Accepted {
            ballot: ballot(draw),
            first: slot(draw),
            last: slot(draw),
        }),
        7 => Message::Seen(Seen {
            ballot: ballot(draw),
            first: slot(draw),
            last: slot(draw),
        }),
        8 => Message::Decided(Decided {
            ballot: ballot(draw),
            upto: slot(draw),
        }),
        9 => Message::Heartbeat(Heartbeat {
            ballot: ballot(draw),
            beat: counter(draw),
            decided: slot(draw),
            wants_lease: draw.flag(),
            current: draw.boxed(|draw| Current {
                decided: slot(draw),
                heard: draw.list(4, |draw| (node(draw), counter(draw))),
            }),
        }),
        _ => Message::Heard(Heard {
            ballot: ballot(draw),
            beat: counter(draw),
            number: counter(draw),
            decided: slot(draw),
            is_voter: draw.flag(),
            is_granted: draw.flag(),
        }),
    }
}

fn other_message(draw: &mut Draw) -> Message {
    match draw.below(14) {
        13 => attested(draw),
        12 => ring_message(draw),
        0 => Message::Learn(Learn { from: slot(draw) }),
        1 => Message::Learned(Learned {
            from: slot(draw),
            batches: draw.list(4, batch),
            decided: slot(draw),
        }),
        2 => Message::Trimmed(Trimmed { upto: slot(draw) }),
        3 => Message::Forward(Forward {
            ballot: ballot(draw),
            number: counter(draw),
            commands: draw.list(5, command),
        }),
        4 => Message::Returned(Returned {
            number: counter(draw),
            commands: draw.list(5, id),
            refusal: refusal(draw),
        }),
        5 => Message::Confirm(Confirm {
            ballot: ballot(draw),
            epoch: counter(draw),
        }),
        6 => Message::Confirmed(Confirmed {
            ballot: ballot(draw),
            epoch: counter(draw),
            voted: slot(draw),
        }),
        7 => Message::AskBarrier(AskBarrier {
            request: counter(draw),
        }),
        8 => Message::Barrier(Barrier {
            request: counter(draw),
            barrier: draw.option(slot),
        }),
        9 => Message::TakeOver(TakeOver {
            ballot: ballot(draw),
        }),
        10 => Message::Survey(Survey {
            request: counter(draw),
        }),
        _ => Message::Surveyed(Surveyed {
            request: counter(draw),
            promised: ballot(draw),
            voted: slot(draw),
        }),
    }
}

pub(crate) fn peer(draw: &mut Draw) -> PeerMessage<AnyMessage> {
    match draw.below(6) {
        0 => PeerMessage::Replica(replica_message(draw)),
        4 | 5 => PeerMessage::Ordering {
            view: view_id(draw),
            message: AnyMessage::FastPaxos(drawn_fast::message(draw)),
        },
        1 => PeerMessage::Ordering {
            view: view_id(draw),
            message: AnyMessage::Paxos(other_message(draw)),
        },
        _ => PeerMessage::Ordering {
            view: view_id(draw),
            message: AnyMessage::Paxos(election_or_agreement(draw)),
        },
    }
}

pub(crate) fn record(draw: &mut Draw) -> Record {
    let view = view_id(draw);
    let entry = match draw.below(6) {
        0 => Entry::Promise {
            ballot: ballot(draw),
        },
        1 => Entry::Vote {
            slot: slot(draw),
            ballot: ballot(draw),
            kind: vote_kind(draw),
            batch: batch(draw),
        },
        2 => Entry::Chosen {
            slot: slot(draw),
            batch: batch(draw),
        },
        3 => Entry::Decided { upto: slot(draw) },
        4 => Entry::Trimmed { upto: slot(draw) },
        _ => Entry::Agreed {
            slot: slot(draw),
            digest: digest(draw),
        },
    };
    Record { view, entry }
}

pub(crate) fn snapshot_core(draw: &mut Draw) -> SnapshotCore {
    let mut sessions = draw.list(6, |draw| {
        let floor = draw.of_any_size(40);
        let mut sequence = floor;
        SessionImage {
            id: session(draw),
            hash: secret(draw).hash(),
            tenant: secret(draw).hash(),
            terms: terms(draw),
            active: slot(draw),
            active_wall: draw.number(),
            floor,
            replies: draw.list(5, |draw| {
                sequence += 1 + draw.below(3);
                ReplyImage {
                    sequence,
                    fingerprint: draw.number(),
                    state: reply_state(draw),
                }
            }),
        }
    });
    sessions.sort_by_key(|session| session.id);
    sessions.dedup_by_key(|session| session.id);
    SnapshotCore {
        slot: slot(draw),
        stamp: stamp(draw),
        replies_digest: draw.number(),
        view: view(draw),
        lead_ballot: ballot(draw),
        lead_slot: slot(draw),
        reset: slot(draw),
        invitations: draw.list(4, |draw| Invitation {
            hash: secret(draw).hash(),
            until: Wall(draw.number()),
            is_used: draw.flag(),
        }),
        groups: draw.list(3, group),
        previous: draw.flag().then(|| view(draw)),
        next: draw.flag().then(|| view(draw)),
        sessions,
    }
}
