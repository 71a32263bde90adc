//! One sample of each message, record, snapshot and value, with fields that can be told apart in the
//! bytes. The golden files hold their layouts; hostile input is made by damaging them.

use crate::readers;
use crate::samples_peer::{DIGEST, batch, ordering, replica};
use crate::samples_snapshot::{group_change, set_limit, set_quorums, snapshot, view_change};
use crate::samples_values::values;
use bytes::{BufMut, Bytes, BytesMut};
use quorate_ordering::{Entry, Record};
use quorate_types::*;
use quorate_wire::value::{Value as V, call};
use quorate_wire::*;

/// Which reader a sample is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Reader {
    Frame,
    Message(Kind),
    Value,
    Record,
    Snapshot,
}

impl Reader {
    /// The fuzz target, and the folder of its corpus.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Reader::Frame => "frame",
            Reader::Message(_) => "message",
            Reader::Value => "value",
            Reader::Record => "record",
            Reader::Snapshot => "snapshot",
        }
    }

    pub(crate) fn read(self, input: &[u8]) {
        match self {
            Reader::Frame => readers::frame(input),
            Reader::Message(_) => readers::message(input),
            Reader::Value => readers::value(input),
            Reader::Record => readers::record(input),
            Reader::Snapshot => readers::snapshot(input),
        }
    }
}

pub(crate) struct Sample {
    /// Name of the golden file and of the file in the corpus.
    pub(crate) name: &'static str,
    pub(crate) reader: Reader,
    pub(crate) bytes: Bytes,
}

impl Sample {
    /// What the reader is given: some want a byte in front.
    pub(crate) fn input(&self) -> Vec<u8> {
        let mut input = match self.reader {
            Reader::Frame => vec![6],
            Reader::Message(kind) => vec![kind as u8],
            Reader::Value | Reader::Record | Reader::Snapshot => Vec::new(),
        };
        input.extend_from_slice(&self.bytes);
        input
    }
}

pub(crate) fn all() -> Vec<Sample> {
    let mut samples = vec![frame()];
    samples.extend(handshake());
    samples.extend(links());
    samples.extend(requests_of_clients());
    samples.extend(answers_to_clients());
    samples.extend(ordering());
    samples.extend(crate::samples_fast::ordering());
    samples.extend(replica());
    samples.extend(records());
    samples.extend(values());
    samples.push(snapshot());
    samples
}

pub(crate) fn sample(
    name: &'static str,
    reader: Reader,
    put: impl FnOnce(&mut BytesMut),
) -> Sample {
    let mut buf = BytesMut::new();
    put(&mut buf);
    Sample {
        name,
        reader,
        bytes: buf.freeze(),
    }
}

fn frame() -> Sample {
    sample("frame", Reader::Frame, |buf| {
        put_frame(buf, Kind::StatusReply, GroupId(0x0a0b), |body| {
            body.put_slice(b"{}");
        });
        put_frame(buf, Kind::StatusRequest, GroupId(1), |_| {});
    })
}

pub(crate) const SESSION: SessionId = SessionId(0x0001_0002);
pub(crate) const SECRET: Secret = Secret::new([0x5e; Secret::BYTES]);
pub(crate) const SECRET_HASH: SecretHash = SecretHash::from_bytes([0x5f; Secret::BYTES]);
pub(crate) const TENANT: SecretHash = SecretHash::from_bytes([0x7e; Secret::BYTES]);
pub(crate) const TENANCY: Tenancy = Tenancy::new(3).unwrap();
pub(crate) const TERMS: SessionTerms = SessionTerms {
    expiry: Duration::from_millis(7_500),
    on_disconnect: Some(Duration::from_millis(1_250)),
};
pub(crate) const ATTACHMENT: Attachment = Attachment(6);
const OPEN: FromClient = FromClient::Open {
    secret: SECRET,
    terms: TERMS,
};
pub(crate) const ID: CommandId = CommandId {
    session: SESSION,
    sequence: 7,
};
pub(crate) const VIEW: ViewId = ViewId {
    group: GroupId(5),
    number: ViewNumber(4),
};
pub(crate) const BALLOT: Ballot = Ballot {
    view: VIEW.number,
    round: 3,
    node: NodeId(2),
    boot: 9,
};
pub(crate) const LOW: Ballot = Ballot {
    view: VIEW.number,
    round: 1,
    node: NodeId(1),
    boot: 4,
};

pub(crate) fn payload() -> Bytes {
    call::encode("deposit", &[V::Int(10)], &[]).expect("within all limits")
}

fn handshake() -> [Sample; 4] {
    let hello = |role| Hello {
        version_min: 2,
        version_max: 3,
        cluster: Some(ClusterId(0x0c0d)),
        role,
        software: "quorate 0.1.0".into(),
        extra: Bytes::new(),
    };
    let node = hello(HelloRole::Node {
        node: NodeId(3),
        incarnation: Incarnation(0x1111),
        boot: 5,
        groups: vec![GroupId(1), GroupId(2)],
    });
    let mut client = hello(HelloRole::Client { group: GroupId(1) });
    client.cluster = None;
    client.extra = Bytes::from_static(b"later");
    let welcome = Welcome {
        version: 4,
        cluster: ClusterId(0x0c0d),
        node: NodeId(1),
        incarnation: Incarnation(0x2222),
        boot: 6,
        group: GroupId(1),
        view: ViewNumber(4),
        members: vec![(NodeId(1), "127.0.0.1:7400".into())],
        objects: vec![ObjectEntry {
            id: ObjectId(0),
            name: "Account".into(),
            class: "bank:Account".into(),
        }],
        leader: Some(NodeId(1)),
    };
    let reject = Reject {
        reason: RejectReason::Cluster,
        text: "another cluster".into(),
    };
    [
        sample("hello_node", Reader::Message(Kind::Hello), |buf| {
            node.put(buf);
        }),
        sample("hello_client", Reader::Message(Kind::Hello), |buf| {
            client.put(buf);
        }),
        sample("welcome", Reader::Message(Kind::Welcome), |buf| {
            welcome.put(buf);
        }),
        sample("reject", Reader::Message(Kind::Reject), |buf| {
            reject.put(buf);
        }),
    ]
}

fn starts() -> Starts {
    let mut starts = Starts::default();
    for (boot, number, begun) in [(4, 0x1233, 700), (5, 0x1234, 800)] {
        starts.note(StartOfNode {
            boot,
            number,
            begun,
        });
    }
    starts
}

fn links() -> [Sample; 4] {
    let reach = Reach {
        boot: 5,
        start: 0x1234,
        commit: 900,
        recall: Recall::Whole,
        since: ViewNumber(3),
        starts: starts(),
    };
    let sighting = Sighting {
        boot: 6,
        finding: Finding::OlderCopy,
    };
    [
        sample("reach", Reader::Message(Kind::Reach), |buf| {
            put_reach(buf, reach, Level(20));
        }),
        sample("challenge", Reader::Message(Kind::Challenge), |buf| {
            let said = (Nonce([0x21; 16]), LinkProof::from_bytes([0x22; 32]));
            put_challenge(buf, said, SPEAKS, Level(20));
        }),
        sample("proof", Reader::Message(Kind::Proof), |buf| {
            put_proof(buf, LinkProof::from_bytes([0x23; 32]), reach, Level(20));
        }),
        sample("sighting", Reader::Message(Kind::Sighting), |buf| {
            put_sighting(buf, sighting);
        }),
    ]
}

/// An announced read.
pub(crate) const BROADCAST: BroadcastId = BroadcastId {
    client: SecretHash::from_bytes([0x31; 16]),
    number: 14,
};

// Longer than a screen: one sample a request.
fn requests_of_clients() -> Vec<Sample> {
    let read = |level| FromClient::Read {
        request: 12,
        object: ObjectId(1),
        payload: payload(),
        level,
        after: Slot(41),
    };
    [
        ("request_open", OPEN),
        (
            "request_call",
            FromClient::Call {
                id: ID,
                acknowledged: 5,
                object: ObjectId(1),
                payload: payload(),
            },
        ),
        ("request_read_ordered", read(ReadLevel::Ordered)),
        ("request_read_confirmed", read(ReadLevel::Confirmed)),
        ("request_read_lease", read(ReadLevel::Lease)),
        ("request_read_any", read(ReadLevel::Any)),
        ("request_read_loose", read(ReadLevel::Loose)),
        (
            "request_broadcast",
            FromClient::Broadcast {
                read: BROADCAST,
                object: ObjectId(1),
                payload: payload(),
            },
        ),
        ("request_early", FromClient::Early { id: ID }),
        ("request_announce", FromClient::Announce { read: BROADCAST }),
        ("request_read_broadcast", read(ReadLevel::Broadcast)),
        (
            "request_keep_alive",
            FromClient::KeepAlive { session: SESSION },
        ),
        ("request_close", FromClient::Close { session: SESSION }),
        ("request_checkpoint", FromClient::Checkpoint { request: 13 }),
        (
            "request_reset",
            FromClient::Reset {
                request: 13,
                node: NodeId(2),
                boot: 9,
                slot: Slot(80),
                digest: Digest {
                    replicated: 0x99aa,
                    state: [7; 32],
                },
            },
        ),
        (
            "request_skip",
            FromClient::Skip {
                request: 13,
                slot: Slot(81),
                index: 3,
                is_unsafe: true,
            },
        ),
        (
            "request_change_view",
            FromClient::ChangeView {
                request: 14,
                change: view_change(),
                leaves: Some(NodeId(3)),
            },
        ),
        (
            "request_invite",
            FromClient::Invite {
                request: 15,
                invitation: SECRET.hash(),
                lasts: Duration::from_millis(9),
            },
        ),
        (
            "request_move_leader",
            FromClient::MoveLeader {
                request: 17,
                node: NodeId(2),
            },
        ),
        (
            "request_create_group",
            FromClient::ChangeGroups {
                request: 18,
                change: group_change(),
            },
        ),
        (
            "request_drop_group",
            FromClient::ChangeGroups {
                request: 19,
                change: GroupChange::Drop {
                    name: "orders".to_owned(),
                },
            },
        ),
        (
            "request_serve_group",
            FromClient::ChangeGroups {
                request: 22,
                change: GroupChange::Serve {
                    name: "orders".to_owned(),
                    node: NodeId(4),
                    incarnation: Incarnation(0x5554),
                },
            },
        ),
        (
            "request_join",
            FromClient::Join {
                request: 16,
                change: view_change(),
                member: joining(),
                secret: SECRET,
                speaks: Levels::UNNAMED,
                role: MemberRole::Replica,
            },
        ),
        (
            "request_join_speaking",
            FromClient::Join {
                request: 16,
                change: view_change(),
                member: joining(),
                secret: SECRET,
                speaks: SPEAKS,
                role: MemberRole::Replica,
            },
        ),
        (
            "request_join_as_witness",
            FromClient::Join {
                request: 16,
                change: view_change(),
                member: joining(),
                secret: SECRET,
                speaks: SPEAKS,
                role: MemberRole::Witness,
            },
        ),
        (
            "request_set_level",
            FromClient::SetLevel {
                request: 20,
                change: view_change(),
                level: Level(20),
            },
        ),
        (
            "request_switch_ordering",
            FromClient::SwitchOrdering {
                request: 21,
                change: view_change(),
                ordering: OrderingName::LibpaxosPlus,
            },
        ),
        ("request_set_quorums", set_quorums()),
        ("request_set_limit", set_limit()),
        (
            "request_resume",
            FromClient::Resume {
                secret: SECRET,
                tenant: TENANT,
                terms: TERMS,
            },
        ),
        (
            "request_attach",
            FromClient::Attach {
                session: SESSION,
                secret: SECRET,
                attachment: ATTACHMENT,
            },
        ),
    ]
    .map(|(name, message)| {
        sample(name, Reader::Message(Kind::FromClient), |buf| {
            put_request(buf, &message);
        })
    })
    .into()
}

// Longer than a screen: one sample an answer.
fn answers_to_clients() -> Vec<Sample> {
    let refused = |ask, refusal| ToClient::Refused { ask, refusal };
    let replied = |outcome| ToClient::Replied { id: ID, outcome };
    let ten = Bytes::from_static(b"\x0a");
    [
        (
            "answer_opened",
            ToClient::Opened {
                hash: SECRET_HASH,
                session: SESSION,
                expiry: Duration::from_millis(30_000),
            },
        ),
        (
            "answer_resumed",
            ToClient::Resumed {
                hash: SECRET_HASH,
                session: SESSION,
                terms: TERMS,
                tenancy: TENANCY,
            },
        ),
        ("answer_parked", ToClient::Parked { id: ID }),
        ("answer_confirmed", ToClient::Confirmed { id: ID }),
        (
            "answer_tentative",
            ToClient::Tentative {
                id: ID,
                value: ten.clone(),
            },
        ),
        (
            "answer_full",
            ToClient::Full {
                hash: SECRET_HASH,
                retry_after: Duration::from_millis(100),
            },
        ),
        ("answer_returned", replied(Outcome::Returned(ten.clone()))),
        ("answer_raised", replied(Outcome::Raised(ten.clone()))),
        ("answer_skipped", replied(Outcome::Skipped)),
        (
            "answer_read",
            ToClient::Read {
                request: 12,
                slot: Slot(99),
                age: Duration(5),
                outcome: Outcome::Returned(ten),
            },
        ),
        (
            "answer_refused_open",
            refused(Ask::Open(SECRET_HASH), Refusal::NoLeader),
        ),
        (
            "answer_refused_call",
            refused(Ask::Call(ID), Refusal::Unknown),
        ),
        (
            "answer_refused_request",
            refused(Ask::Request(12), Refusal::Overloaded),
        ),
        (
            "answer_refused_session",
            refused(Ask::Session(SESSION), Refusal::NoSnapshots),
        ),
        (
            "answer_refused_storage",
            refused(Ask::Call(ID), Refusal::StorageFull),
        ),
        (
            "answer_refused_reset",
            refused(Ask::Request(13), Refusal::NoSuchSnapshot),
        ),
        (
            "answer_refused_skip",
            refused(Ask::Request(13), Refusal::NotSkipped),
        ),
        (
            "answer_kept_alive",
            ToClient::KeptAlive { session: SESSION },
        ),
        (
            "answer_checkpointed",
            ToClient::Checkpointed {
                request: 13,
                slot: Slot(99),
            },
        ),
        (
            "answer_leader",
            ToClient::Leader {
                leader: Some(NodeId(2)),
            },
        ),
        ("answer_no_leader", ToClient::Leader { leader: None }),
    ]
    .map(|(name, message)| {
        sample(name, Reader::Message(Kind::ToClient), |buf| {
            put_answer(buf, &message);
        })
    })
    .into()
}

fn records() -> Vec<Sample> {
    [
        ("record_promise", Entry::Promise { ballot: BALLOT }),
        (
            "record_vote",
            Entry::Vote {
                slot: Slot(92),
                ballot: BALLOT,
                kind: quorate_types::VoteKind::Classic,
                batch: batch(),
            },
        ),
        (
            "record_fast_vote",
            Entry::Vote {
                slot: Slot(92),
                ballot: BALLOT,
                kind: quorate_types::VoteKind::Fast(quorate_types::ValueId {
                    node: NodeId(2),
                    boot: 5,
                    number: 77,
                }),
                batch: batch(),
            },
        ),
        (
            "record_chosen",
            Entry::Chosen {
                slot: Slot(92),
                batch: batch(),
            },
        ),
        ("record_decided", Entry::Decided { upto: Slot(92) }),
        ("record_trimmed", Entry::Trimmed { upto: Slot(50) }),
        (
            "record_agreed",
            Entry::Agreed {
                slot: Slot(50),
                digest: DIGEST,
            },
        ),
    ]
    .map(|(name, entry)| {
        let record = Record { view: VIEW, entry };
        sample(name, Reader::Record, |buf| put_record(buf, &record))
    })
    .into()
}

pub(crate) fn joining() -> Member {
    Member {
        node: NodeId(4),
        incarnation: Incarnation(0x4440),
        address: "127.0.0.1:7404".into(),
    }
}
