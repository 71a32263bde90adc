//! What a node answers to who takes a backup: an agreed snapshot, and pieces of it.
//!
//! Anybody who may call may ask, as for a snapshot: a backup holds what calls can read. The snapshot thread reads; a bounded number
//! of questions waits for it, so that backups keep no snapshot from being taken.

use crate::NodeConfig;
use crate::limits::{BACKUP_PIECE_MAX, STATUS_DEBT};
use crate::node::Node;
use crate::status::OwnIdentity;
use bytes::Bytes;
use quorate_types::{ConnectionId, Time, View};
use quorate_wire::{
    AdminReply, AdminRequest, Kind, RejectReason, WireError, put_admin_reply, take_admin_request,
};
use serde::{Deserialize, Serialize};

/// What a backup says of its group beside the snapshot: all that a new group needs to go on from it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AboutGroup {
    /// The program that the node runs, as in `0.1.0`.
    pub program: String,
    /// The nodes of the group.
    pub nodes: usize,
    /// ω.
    pub window: u64,
    /// The first 16 digits of a hash of the objects' code, if their host told it.
    pub code: Option<String>,
    /// Packages whose instances may be in the state, beside the objects' own.
    pub allow: Vec<String>,
    /// The objects that the group began with, by number.
    pub objects: Vec<AboutObject>,
}

impl AboutGroup {
    /// The group was in `view` at the backup's slot: the node that was asked says how it was when its configuration was written.
    pub fn was_in(&mut self, view: &View) {
        self.nodes = view.members.len();
        self.window = view.window;
    }
}

/// What a backup says beside its snapshot.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct BackupAbout {
    /// What a node said of the group.
    pub group: AboutGroup,
    /// The classes of its objects when the backup was taken, those that were created while it ran included.
    pub classes: Vec<String>,
    /// When it was taken, seconds since 1970.
    pub taken: u64,
}

/// An object that a group began with.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AboutObject {
    /// Its name.
    pub name: String,
    /// `module:Class`, or `rust:counter` and the like.
    pub class: String,
    /// Constructor arguments as a JSON list.
    pub args: Option<String>,
    /// Constructor keyword arguments as a JSON object.
    pub kwargs: Option<String>,
    /// Steps that one of its calls may take.
    pub budget: u64,
}

/// What the node of `config` says of its group, JSON.
pub(crate) fn about(config: &NodeConfig, identity: &OwnIdentity) -> Bytes {
    let objects = config.objects.iter().map(|object| AboutObject {
        name: object.name.clone(),
        class: object.class.clone(),
        args: object.args.clone(),
        kwargs: object.kwargs.clone(),
        budget: object.budget,
    });
    let about = AboutGroup {
        program: env!("CARGO_PKG_VERSION").to_owned(),
        nodes: config.members.len(),
        window: config.window,
        code: identity.code.clone(),
        allow: config.allow.clone(),
        objects: objects.collect(),
    };
    let text = serde_json::to_vec(&about);
    text.expect("every field has a form in JSON").into()
}

impl Node {
    /// A client asks for a backup. Says whether what it sent can be read.
    pub(crate) fn admin_asked(&mut self, from: ConnectionId, body: &Bytes, now: Time) -> bool {
        match take_admin_request(body) {
            Ok(request) => {
                self.admin_request(from, request, now);
                true
            }
            Err(error) => {
                self.refuse_admin(from, &error, now);
                false
            }
        }
    }

    /// What a question costs its client; see `ClientTurns`.
    pub(crate) const ADMIN_DEBT: u32 = STATUS_DEBT;

    fn refuse_admin(&mut self, from: ConnectionId, error: &WireError, now: Time) {
        let text = error.to_string();
        self.transport
            .refuse(from, RejectReason::Malformed, &text, now);
    }

    fn admin_request(&mut self, from: ConnectionId, request: AdminRequest, now: Time) {
        let is_asked = match request {
            AdminRequest::Offer { from: slot } => match self.replica.snapshot_for_backup(slot) {
                Some(found) => self.snapshots.offer(from, found),
                None => return self.answer_admin(from, &AdminReply::NotHeld { slot }),
            },
            AdminRequest::Piece {
                slot,
                offset,
                length,
            } => {
                let place = (offset, length.min(BACKUP_PIECE_MAX));
                self.snapshots.backup_piece(from, slot, place)
            }
            AdminRequest::Configuration { secret } => {
                let level = self.replica.level_asked().0;
                let speaks = self.transport.client_level(from);
                if speaks.is_some_and(|speaks| speaks < level) {
                    let text = format!("the group is at level {level}: who joins must speak it");
                    return (self.transport).refuse(from, RejectReason::Version, &text, now);
                }
                let reply = self.configuration_for(secret);
                return self.answer_admin(from, &reply);
            }
        };
        if !is_asked {
            self.answer_admin(from, &AdminReply::Busy);
        }
    }

    /// Tells a client what came of its question.
    pub(crate) fn answer_admin(&mut self, to: ConnectionId, reply: &AdminReply) {
        self.transport
            .answer_frame(to, Kind::AdminReply, |body| put_admin_reply(body, reply));
    }
}
