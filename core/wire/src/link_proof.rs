//! Bytes of the frames with which two nodes show each other who they are, between Hello and Welcome: `Challenge` of the one
//! that was connected to, and `Proof` of the other. Nothing is decided here: the transport compares.

use crate::WireError;
use crate::codec::Reader;
use crate::reach::{put_reach, reach};
use bytes::{BufMut, Bytes, BytesMut};
use quorate_types::{LinkProof, Nonce, Reach};

/// Appends the body of a frame of kind `Challenge`.
pub fn put_challenge(buf: &mut BytesMut, nonce: Nonce, proof: LinkProof) {
    buf.put_slice(&nonce.0);
    buf.put_slice(proof.bytes());
}

/// Reads the body of a frame of kind `Challenge`.
///
/// # Errors
/// When it is not one.
pub fn take_challenge(body: &Bytes) -> Result<(Nonce, LinkProof), WireError> {
    let mut r = Reader::new(body);
    let nonce = Nonce(*r.array("nonce")?);
    let proof = LinkProof::from_bytes(*r.array("proof")?);
    r.end("challenge")?;
    Ok((nonce, proof))
}

/// Appends the body of a frame of kind `Proof`: who proves says also how far it has come.
pub fn put_proof(buf: &mut BytesMut, proof: LinkProof, reach: Reach) {
    buf.put_slice(proof.bytes());
    put_reach(buf, reach);
}

/// Reads the body of a frame of kind `Proof`.
///
/// # Errors
/// When it is not one.
pub fn take_proof(body: &Bytes) -> Result<(LinkProof, Reach), WireError> {
    let mut r = Reader::new(body);
    let proof = LinkProof::from_bytes(*r.array("proof")?);
    let reach = reach(&mut r)?;
    r.end("proof")?;
    Ok((proof, reach))
}

/// The nonce of a node that connects: `extra` of its Hello.
///
/// # Errors
/// When it is not one.
pub fn take_nonce(extra: &Bytes) -> Result<Nonce, WireError> {
    let mut r = Reader::new(extra);
    Ok(Nonce(*r.array("nonce")?))
}
