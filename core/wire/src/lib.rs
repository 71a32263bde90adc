//! Bytes: frames, handshake, messages, records, snapshots and values.
//!
//! The layout of everything that leaves a process or is kept on disk is defined here and nowhere else.
//! `docs/wire.md` describes it for people; tests compare it with `golden/`. The crate reads no clock,
//! socket or file. It refuses wrong bytes early: typed errors, no panic, and no memory beyond what the
//! bytes themselves account for. Transport, storage, clients and hosts call it.
//!
//! Two rules hold for every layout but objects' values: one encoding per value (what was decoded
//! encodes to the same bytes), and what decodes satisfies the assertions further in (nodes below 64,
//! slots below 2^47, counters below 2^63, valid quorums).
#![forbid(unsafe_code)]

mod backup;
mod batch;
mod client;
mod codec;
mod datagram;
mod error;
mod frame;
mod frame_pieces;
mod frame_reader;
mod groups;
mod handshake;
mod level;
pub mod limits;
mod link_proof;
mod outcome;
mod peer;
mod reach;
mod read_level;
mod record;
mod refusal;
mod snapshot;
pub mod value;
mod view;
mod view_request;
mod words;

pub use backup::{
    AdminReply, AdminRequest, BackupOffer, put_admin_reply, put_admin_request, take_admin_reply,
    take_admin_request,
};
pub use batch::encoded as encoded_batch;
pub use client::{
    Requests, answers, put_answer, put_answer_shared, put_call, put_request, requests,
};
pub use datagram::{Assembly, Cutter, DATAGRAM_BYTES, DatagramCounts};
pub use error::WireError;
pub use frame::{
    Frame, FrameError, HEADER_BYTES, Kind, OpenFrame, begin_frame, end_frame, put_frame,
};
pub use frame_pieces::{FramePieces, SharedBody, end_frame_shared, put_frame_shared};
pub use frame_reader::FrameReader;
pub use handshake::{
    Hello, HelloRole, ObjectEntry, Reject, RejectReason, SPEAKS, VERSION, VERSION_MIN, Welcome,
    node_name,
};
pub use level::peer_level;
pub use link_proof::{
    began_with, greeting, put_challenge, put_proof, take_began, take_challenge, take_nonce,
    take_proof,
};
pub use peer::{put_peer, put_peer_shared, take_peer};
pub use reach::{put_reach, put_sighting, take_reach, take_sighting};
pub use record::{put_record, take_record};
pub use snapshot::{
    IMAGE_HEAD_BYTES, SNAPSHOT_HEAD_BYTES, SNAPSHOT_VERSION, Snapshot, SnapshotFront, SnapshotHead,
    StoredImage, image_head, put_snapshot_core, small_snapshot, snapshot_front,
    snapshot_front_bytes, take_snapshot_core,
};
