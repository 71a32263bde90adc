//! Bytes of the frames with which two nodes show each other who they are, between Hello and Welcome: `Challenge` of the one
//! that was connected to, and `Proof` of the other. Nothing is decided here: the transport compares.

use crate::WireError;
use crate::codec::Reader;
use crate::reach::{put_reach, reach};
use crate::view::put_view;
use crate::words::{put_levels, take_named_levels};
use bytes::{BufMut, Bytes, BytesMut};
use quorate_types::{BeganWith, Level, Levels, LinkProof, Nonce, Reach, View};

/// Appends the body of a frame of kind `Challenge`. Who connects must know what this node speaks before it says how far it has come;
/// one that speaks [`Level::UNNAMED`] only reads no more than it needs.
pub fn put_challenge(
    buf: &mut BytesMut,
    (nonce, proof): (Nonce, LinkProof),
    speaks: Levels,
    link: Level,
) {
    buf.put_slice(&nonce.0);
    buf.put_slice(proof.bytes());
    if link >= Level::NAMED {
        put_levels(buf, speaks);
    }
}

/// Reads the body of a frame of kind `Challenge`, and what its sender speaks.
///
/// # Errors
/// When it is not one.
pub fn take_challenge(body: &Bytes) -> Result<(Nonce, LinkProof, Levels), WireError> {
    let mut r = Reader::new(body);
    let nonce = Nonce(*r.array("nonce")?);
    let proof = LinkProof::from_bytes(*r.array("proof")?);
    let speaks = match r.is_at_end() {
        true => Levels::UNNAMED,
        false => take_named_levels(&mut r)?,
    };
    r.end("challenge")?;
    Ok((nonce, proof, speaks))
}

/// Appends the body of a frame of kind `Proof`, for a link of this level: who proves says also how far it has come.
pub fn put_proof(buf: &mut BytesMut, proof: LinkProof, reach: Reach, link: Level) {
    buf.put_slice(proof.bytes());
    put_reach(buf, reach, link);
}

/// Reads the body of a frame of kind `Proof` of a link of this level.
///
/// # Errors
/// When it is not one.
pub fn take_proof(body: &Bytes, link: Level) -> Result<(LinkProof, Reach), WireError> {
    let mut r = Reader::new(body);
    let proof = LinkProof::from_bytes(*r.array("proof")?);
    let reach = reach(&mut r, link)?;
    r.end("proof")?;
    Ok((proof, reach))
}

/// With what a group began. Where its members are reached each node knows from its own configuration, and objects that differ are found
/// by their states.
#[must_use]
pub fn began_with(first: &View) -> BeganWith {
    let mut first = first.clone();
    for member in &mut first.members {
        member.address.clear();
    }
    first.objects.clear();
    let mut buf = BytesMut::new();
    put_view(&mut buf, &first);
    BeganWith::of(&buf)
}

/// `extra` of the Hello of a node that connects, and with what its group began while it knows no later view: builds of before this was
/// told ignore it.
#[must_use]
pub fn greeting(nonce: Nonce, began: Option<BeganWith>) -> Bytes {
    let mut buf = BytesMut::new();
    buf.put_slice(&nonce.0);
    began.iter().for_each(|began| buf.put_slice(&began.0));
    buf.freeze()
}

/// With what the group of a node began that connects, if its Hello says so: `extra` of that.
#[must_use]
pub fn take_began(extra: &Bytes) -> Option<BeganWith> {
    let mut r = Reader::new(extra);
    let _: Nonce = Nonce(*r.array("nonce").ok()?);
    Some(BeganWith(*r.array("first view").ok()?))
}

/// The nonce of a node that connects: `extra` of its Hello.
///
/// # Errors
/// When it is not one.
pub fn take_nonce(extra: &Bytes) -> Result<Nonce, WireError> {
    let mut r = Reader::new(extra);
    Ok(Nonce(*r.array("nonce")?))
}
