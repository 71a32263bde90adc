//! Bytes of the words that every message uses: nodes, ballots, slots, commands' ids, node sets.
//!
//! Refuses what would break an assertion further in: nodes past a set's capacity, slots past what a
//! session's id can name, counters near overflow.

use crate::WireError;
use crate::codec::{Reader, in_range, in_slot_range, put_option};
use bytes::{BufMut, BytesMut};
use quorate_types::{
    Attachment, Ballot, BroadcastId, CommandId, Digest, Duration, GroupId, Level, Levels, NodeId,
    NodeSet, Secret, SecretHash, SessionId, SessionTerms, Slot, Tenancy, ValueId, ViewId,
    ViewNumber,
};

pub(crate) fn put_node(buf: &mut BytesMut, node: NodeId) {
    buf.put_u16_le(node.0);
}

pub(crate) fn take_node(r: &mut Reader<'_>) -> Result<NodeId, WireError> {
    let node = r.u16("node")?;
    in_range("node", u64::from(node), u64::from(NodeSet::CAPACITY))?;
    Ok(NodeId(node))
}

pub(crate) fn put_nodes(buf: &mut BytesMut, nodes: NodeSet) {
    buf.put_u64_le(nodes.iter().fold(0, |mask, node| mask | 1 << node.0));
}

pub(crate) fn take_nodes(r: &mut Reader<'_>) -> Result<NodeSet, WireError> {
    let mask = r.u64("node set")?;
    Ok((0..NodeSet::CAPACITY)
        .filter(|node| mask & (1 << node) != 0)
        .map(NodeId)
        .collect())
}

/// Bytes of a ballot.
pub(crate) const BALLOT_BYTES: usize = 26;

pub(crate) fn put_ballot(buf: &mut BytesMut, ballot: Ballot) {
    let mut bytes = [0; BALLOT_BYTES];
    bytes[..8].copy_from_slice(&ballot.view.0.to_le_bytes());
    bytes[8..16].copy_from_slice(&ballot.round.to_le_bytes());
    bytes[16..18].copy_from_slice(&ballot.node.0.to_le_bytes());
    bytes[18..].copy_from_slice(&ballot.boot.to_le_bytes());
    buf.put_slice(&bytes);
}

pub(crate) fn take_ballot(r: &mut Reader<'_>) -> Result<Ballot, WireError> {
    let view = ViewNumber(r.counter("view")?);
    let round = r.counter("ballot round")?;
    let node = take_node(r)?;
    let boot = r.counter("ballot boot")?;
    Ok(Ballot {
        view,
        round,
        node,
        boot,
    })
}

pub(crate) fn put_view_id(buf: &mut BytesMut, view: ViewId) {
    buf.put_u32_le(view.group.0);
    buf.put_u64_le(view.number.0);
}

pub(crate) fn take_view_id(r: &mut Reader<'_>) -> Result<ViewId, WireError> {
    Ok(ViewId {
        group: GroupId(r.u32("group")?),
        number: ViewNumber(r.counter("view")?),
    })
}

pub(crate) fn put_slot(buf: &mut BytesMut, slot: Slot) {
    buf.put_u64_le(slot.0);
}

#[inline]
pub(crate) fn take_slot(r: &mut Reader<'_>) -> Result<Slot, WireError> {
    in_slot_range("slot", r.u64("slot")?).map(Slot)
}

pub(crate) fn put_session(buf: &mut BytesMut, session: SessionId) {
    buf.put_u64_le(session.0);
}

#[inline]
pub(crate) fn take_session(r: &mut Reader<'_>) -> Result<SessionId, WireError> {
    in_range("session", r.u64("session")?, crate::limits::COUNTER_LIMIT).map(SessionId)
}

#[inline]
pub(crate) fn put_command_id(buf: &mut BytesMut, id: CommandId) {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&id.session.0.to_le_bytes());
    bytes[8..].copy_from_slice(&id.sequence.to_le_bytes());
    buf.put_slice(&bytes);
}

#[inline]
pub(crate) fn take_command_id(r: &mut Reader<'_>) -> Result<CommandId, WireError> {
    let session = take_session(r)?;
    let sequence = r.counter("sequence")?;
    Ok(CommandId { session, sequence })
}

pub(crate) fn take_secret(r: &mut Reader<'_>) -> Result<Secret, WireError> {
    Ok(Secret::new(*r.array("secret")?))
}

pub(crate) fn put_secret_hash(buf: &mut BytesMut, hash: SecretHash) {
    buf.put_slice(hash.bytes());
}

pub(crate) fn take_secret_hash(r: &mut Reader<'_>) -> Result<SecretHash, WireError> {
    Ok(SecretHash::from_bytes(*r.array("hash of a secret")?))
}

pub(crate) fn put_broadcast_id(buf: &mut BytesMut, read: BroadcastId) {
    put_secret_hash(buf, read.client);
    buf.put_u64_le(read.number);
}

pub(crate) fn take_broadcast_id(r: &mut Reader<'_>) -> Result<BroadcastId, WireError> {
    Ok(BroadcastId {
        client: take_secret_hash(r)?,
        number: r.u64("read number")?,
    })
}

pub(crate) fn put_attachment(buf: &mut BytesMut, attachment: Attachment) {
    buf.put_u64_le(attachment.0);
}

pub(crate) fn take_attachment(r: &mut Reader<'_>) -> Result<Attachment, WireError> {
    Ok(Attachment(r.counter("attachment")?))
}

pub(crate) fn put_tenancy(buf: &mut BytesMut, tenancy: Tenancy) {
    buf.put_u32_le(tenancy.number());
}

pub(crate) fn take_tenancy(r: &mut Reader<'_>) -> Result<Tenancy, WireError> {
    let number = r.u32("tenancy")?;
    let limit = u64::from(Tenancy::MAX.number()) + 1;
    in_range("tenancy", u64::from(number), limit)?;
    Ok(Tenancy::new(number).expect("it is in range"))
}

pub(crate) fn put_terms(buf: &mut BytesMut, terms: SessionTerms) {
    buf.put_u64_le(terms.expiry.0);
    put_option(buf, terms.on_disconnect.as_ref(), |buf, short| {
        buf.put_u64_le(short.0);
    });
}

pub(crate) fn take_terms(r: &mut Reader<'_>) -> Result<SessionTerms, WireError> {
    Ok(SessionTerms {
        expiry: Duration(r.counter("expiry time")?),
        on_disconnect: r.option("shorter time", |r| r.counter("shorter time").map(Duration))?,
    })
}

pub(crate) fn put_digest(buf: &mut BytesMut, digest: &Digest) {
    buf.put_u64_le(digest.replicated);
    buf.put_slice(&digest.state);
}

pub(crate) fn take_digest(r: &mut Reader<'_>) -> Result<Digest, WireError> {
    Ok(Digest {
        replicated: r.u64("digest of the replicated state")?,
        state: *r.array("digest of state")?,
    })
}

pub(crate) fn put_levels(buf: &mut BytesMut, levels: Levels) {
    buf.put_u16_le(levels.oldest().0);
    buf.put_u16_le(levels.newest().0);
}

fn take_levels(r: &mut Reader<'_>) -> Result<Levels, WireError> {
    let oldest = Level(r.u16("oldest level")?);
    let newest = Level(r.u16("newest level")?);
    Levels::new(oldest, newest).ok_or(WireError::Inconsistent {
        what: "the oldest level is above the newest",
    })
}

/// Levels of who names them: whoever does not has another form.
pub(crate) fn take_named_levels(r: &mut Reader<'_>) -> Result<Levels, WireError> {
    let levels = take_levels(r)?;
    match levels.newest() >= Level::NAMED {
        true => Ok(levels),
        false => Err(WireError::Inconsistent {
            what: "levels are named by who does not know them",
        }),
    }
}

pub(crate) fn put_value_id(buf: &mut BytesMut, value: ValueId) {
    buf.put_u16_le(value.node.0);
    buf.put_u64_le(value.boot);
    buf.put_u64_le(value.number);
}

pub(crate) fn take_value_id(r: &mut Reader<'_>) -> Result<ValueId, WireError> {
    Ok(ValueId {
        node: NodeId(r.u16("node")?),
        boot: r.u64("boot")?,
        number: r.u64("number")?,
    })
}
