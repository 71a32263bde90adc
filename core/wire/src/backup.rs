//! Bytes of what an operator's tool asks a node for a backup: bodies of frames of the kinds `AdminRequest` and `AdminReply`.
//!
//! A node offers an agreed snapshot, and then gives it piece by piece. Nothing here changes a group. Called by `quorate backup`
//! and by nodes.

use crate::WireError;
use crate::codec::{Reader, put_bytes};
use crate::words::{put_digest, put_slot, take_digest, take_slot};
use bytes::{BufMut, Bytes, BytesMut};
use quorate_types::{Digest, Secret, Slot};

/// What a tool asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AdminRequest {
    /// The newest snapshot at or after a slot that is here and that a majority agrees on.
    Offer {
        /// The slot.
        from: Slot,
    },
    /// A piece of the snapshot that was offered.
    Piece {
        /// Its slot.
        slot: Slot,
        /// Its first byte.
        offset: u64,
        /// Bytes wished for at most.
        length: u32,
    },
    /// What a node needs that wants to join.
    Configuration {
        /// What it was invited with.
        secret: Secret,
    },
}

/// What a node answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AdminReply {
    /// There is a snapshot.
    Offered(BackupOffer),
    /// There is none, or no longer.
    NotHeld {
        /// The slot that was asked for.
        slot: Slot,
    },
    /// What a node needs that wants to join, JSON.
    Configuration(Bytes),
    /// The invitation is used, over or unknown.
    NotInvited,
    /// The node does as much of this as it may at once: ask again a little later.
    Busy,
    /// A piece.
    Piece {
        /// The snapshot's slot.
        slot: Slot,
        /// The first byte.
        offset: u64,
        /// The bytes, fewer than asked for at the end only.
        data: Bytes,
    },
}

/// A snapshot that a node has for a backup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackupOffer {
    /// The last slot whose effects it holds.
    pub slot: Slot,
    /// What a majority agreed on there.
    pub digest: Digest,
    /// Bytes of the whole.
    pub bytes: u64,
    /// Bytes before its list of parts.
    pub front: u64,
    /// About the group, JSON: what a new one needs to go on from it.
    pub about: Bytes,
}

const OFFER: u8 = 1;
const PIECE: u8 = 2;
const NOT_HELD: u8 = 3;
const BUSY: u8 = 4;
const CONFIGURATION: u8 = 5;
const NOT_INVITED: u8 = 6;

/// Appends a request to the body of a frame.
pub fn put_admin_request(buf: &mut BytesMut, request: &AdminRequest) {
    match request {
        AdminRequest::Offer { from } => {
            buf.put_u8(OFFER);
            put_slot(buf, *from);
        }
        AdminRequest::Piece {
            slot,
            offset,
            length,
        } => {
            buf.put_u8(PIECE);
            put_slot(buf, *slot);
            buf.put_u64_le(*offset);
            buf.put_u32_le(*length);
        }
        AdminRequest::Configuration { secret } => {
            buf.put_u8(CONFIGURATION);
            buf.put_slice(secret.bytes());
        }
    }
}

/// Reads the request that fills the body of a frame.
///
/// # Errors
/// When it is none.
pub fn take_admin_request(body: &Bytes) -> Result<AdminRequest, WireError> {
    let mut r = Reader::new(body);
    let request = match r.u8("admin request")? {
        OFFER => AdminRequest::Offer {
            from: take_slot(&mut r)?,
        },
        PIECE => AdminRequest::Piece {
            slot: take_slot(&mut r)?,
            offset: r.u64("offset")?,
            length: r.u32("length")?,
        },
        CONFIGURATION => AdminRequest::Configuration {
            secret: Secret::new(*r.array("secret")?),
        },
        tag => {
            let what = "admin request";
            return Err(WireError::UnknownTag { what, tag });
        }
    };
    r.end("admin request")?;
    Ok(request)
}

/// Appends an answer to the body of a frame.
pub fn put_admin_reply(buf: &mut BytesMut, reply: &AdminReply) {
    match reply {
        AdminReply::Offered(offer) => {
            buf.put_u8(OFFER);
            put_slot(buf, offer.slot);
            put_digest(buf, &offer.digest);
            buf.put_u64_le(offer.bytes);
            buf.put_u64_le(offer.front);
            put_bytes(buf, &offer.about);
        }
        AdminReply::Piece { slot, offset, data } => {
            buf.put_u8(PIECE);
            put_slot(buf, *slot);
            buf.put_u64_le(*offset);
            put_bytes(buf, data);
        }
        AdminReply::NotHeld { slot } => {
            buf.put_u8(NOT_HELD);
            put_slot(buf, *slot);
        }
        AdminReply::Busy => buf.put_u8(BUSY),
        AdminReply::Configuration(text) => {
            buf.put_u8(CONFIGURATION);
            put_bytes(buf, text);
        }
        AdminReply::NotInvited => buf.put_u8(NOT_INVITED),
    }
}

/// Reads the answer that fills the body of a frame.
///
/// # Errors
/// When it is none.
pub fn take_admin_reply(body: &Bytes) -> Result<AdminReply, WireError> {
    let mut r = Reader::new(body);
    let reply = match r.u8("admin reply")? {
        OFFER => AdminReply::Offered(BackupOffer {
            slot: take_slot(&mut r)?,
            digest: take_digest(&mut r)?,
            bytes: r.u64("bytes of a snapshot")?,
            front: r.u64("bytes of its front")?,
            about: r.bytes("about the group")?,
        }),
        PIECE => AdminReply::Piece {
            slot: take_slot(&mut r)?,
            offset: r.u64("offset")?,
            data: r.bytes("piece")?,
        },
        NOT_HELD => AdminReply::NotHeld {
            slot: take_slot(&mut r)?,
        },
        BUSY => AdminReply::Busy,
        CONFIGURATION => AdminReply::Configuration(r.bytes("configuration")?),
        NOT_INVITED => AdminReply::NotInvited,
        tag => {
            let what = "admin reply";
            return Err(WireError::UnknownTag { what, tag });
        }
    };
    r.end("admin reply")?;
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_come_back_and_nothing_longer_or_shorter_is_read() {
        let slot = Slot(7);
        for request in [
            AdminRequest::Offer { from: slot },
            AdminRequest::Piece {
                slot,
                offset: 1 << 40,
                length: 9,
            },
        ] {
            let mut body = BytesMut::new();
            put_admin_request(&mut body, &request);
            let body = body.freeze();
            assert_eq!(take_admin_request(&body), Ok(request));
            assert!(take_admin_request(&body.slice(..body.len() - 1)).is_err());
            assert!(take_admin_request(&[&body[..], b"x"].concat().into()).is_err());
        }
        let offer = BackupOffer {
            slot,
            digest: Digest {
                replicated: 5,
                state: [9; 32],
            },
            bytes: 100,
            front: 40,
            about: Bytes::from_static(b"{}"),
        };
        for reply in [
            AdminReply::Offered(offer),
            AdminReply::NotHeld { slot },
            AdminReply::Busy,
            AdminReply::Piece {
                slot,
                offset: 3,
                data: Bytes::from_static(b"abc"),
            },
        ] {
            let mut body = BytesMut::new();
            put_admin_reply(&mut body, &reply);
            let body = body.freeze();
            assert_eq!(take_admin_reply(&body), Ok(reply));
            assert!(take_admin_reply(&body.slice(..body.len() - 1)).is_err());
            assert!(take_admin_reply(&[&body[..], b"x"].concat().into()).is_err());
        }
    }
}
