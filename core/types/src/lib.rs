//! The words of Quorate as types: nodes, ballots, slots, commands, views and what clients say.
//!
//! Every other crate speaks in these types. They compute nothing beyond their own arithmetic and
//! hold no protocol; `docs/glossary.md` gives each word its one meaning.
#![forbid(unsafe_code)]

mod agenda;
mod ballot;
mod cancel;
mod client;
mod command;
mod digest;
mod fast_quorums;
mod group_limits;
mod groups;
mod ids;
mod image_bytes;
mod level;
mod link_proof;
mod ordering_name;
mod parked;
mod parts;
mod quorum_rule;
mod quorums;
mod reach;
mod secret;
mod slot;
mod slot_steps;
mod starts;
mod tenancy;
mod terms;
mod time;
mod timers;
mod view;
mod view_change_error;
mod vote_kind;
pub mod zoo;

pub use agenda::Agenda;
pub use ballot::{Ballot, FirstBallot};
pub use cancel::{CANCELLED_AT_ONCE, cancel_payload, cancelled};
pub use client::{Ask, BroadcastId, FromClient, Outcome, ReadLevel, Refusal, ToClient};
pub use command::{Batch, Body, CallPlace, Command, CommandId, PAYLOAD_BYTES_MAX, Stamp, Value};
pub use digest::Digest;
pub use fast_quorums::{FastQuorums, FastQuorumsError};
pub use group_limits::{GroupLimits, LimitChange, LimitError};
pub use groups::{GroupChange, GroupChangeError, GroupEntry, GroupMember};
pub use ids::{
    Attachment, ClusterId, ConnectionId, GroupId, Incarnation, LinkEpoch, NodeId, NodeSet,
    ObjectId, SessionId,
};
pub use level::{Level, Levels};
pub use link_proof::{DatagramKey, LinkKey, LinkProof, LinkSide, Nonce};
pub use ordering_name::{NoOrdering, OrderingName};
pub use parked::{Deadline, NotAnAgenda, ParkedCall, ParkedCalls};
pub use parts::{PART_ENTRY_BYTES, PARTS_HEAD_BYTES, PartsCheck, PartsList, PartsWriter};
pub use quorum_rule::{NoQuorumRule, QuorumRule};
pub use quorums::{QuorumSizes, Quorums, QuorumsError};
pub use reach::{Finding, PeerPast, Reach, Recall, Sighting};
pub use secret::{Secret, SecretHash};
pub use slot::Slot;
pub use slot_steps::{
    Call, CallRef, LaterAnswer, SessionEnd, SlotResults, SlotSteps, Step, StepRef, StepResult,
};
pub use starts::{StartOfNode, Starts};
pub use tenancy::Tenancy;
pub use terms::{ClosedBy, SessionTerms};
pub use time::{Duration, Time, Wall};
pub use timers::{Timer, Timers};
pub use view::{
    BeganWith, Member, MemberChange, MemberRole, ObjectSpec, Persistence, Rejoin, View, ViewChange,
    ViewId, ViewNumber,
};
pub use view_change_error::ViewChangeError;
pub use vote_kind::{ValueId, VoteKind};
