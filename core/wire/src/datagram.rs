//! Datagrams by which a leader multicasts values: each holds parts of one or several values, of one ballot.
//!
//! | bytes | field |
//! | --- | --- |
//! | 0..16 | seal: a hash of all that follows, with a key that only members know |
//! | 16..20 | `QMC` and the version of this layout, 1 |
//! | 20..28 | cluster |
//! | 28..40 | group and view |
//! | 40..66 | ballot |
//! | 66..74 | number of the datagram in its ballot, from 0 |
//! | then, to the end | parts: slot (8), bytes of the whole value (4), where the part begins in it (4), its length (2), its bytes |
//!
//! The key follows from the incarnation of the leader. It shows who sent a datagram as far as a link without TLS does, and hides nothing.
//!
//! A value is the encoded batch. [`Cutter`] fills datagrams, [`Assembly`] puts values together; neither knows a socket. What is not one
//! of these datagrams, of another group, or of an earlier ballot changes nothing. A value of which a part is lost is never complete, and
//! is forgotten for later ones.

use crate::WireError;
use crate::batch::{put_batch, take_batch};
use crate::codec::Reader;
use crate::limits::{PARTED_BYTES_MAX, PARTED_VALUE_BYTES_MAX, PARTED_VALUES_MAX};
use crate::words::{
    BALLOT_BYTES, put_ballot, put_slot, put_view_id, take_ballot, take_slot, take_view_id,
};
use bytes::{BufMut, Bytes, BytesMut};
use quorate_any::AnyMessage;
use quorate_any::paxos::Message;
use quorate_any::paxos::message::Carried;
use quorate_replica::PeerMessage;
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Ballot, ClusterId, DatagramKey, GroupId, Incarnation, NodeId, Slot, ViewId};
use std::collections::BTreeMap;

/// The size of a datagram, as in the paper: the fewer, the less each costs; a larger one is lost with any of its fragments.
pub const DATAGRAM_BYTES: usize = 8 << 10;

/// Leaders whose datagrams are put together: the newest and those it took over from.
const STREAMS_MAX: usize = 4;

const MAGIC: &[u8; 4] = b"QMC\x01";

/// Of a datagram, before its parts.
const HEAD_BYTES: usize = DatagramKey::SEAL_BYTES + 4 + 8 + 12 + BALLOT_BYTES + 8;

/// Of a part, before its bytes.
const PART_HEAD_BYTES: usize = 8 + 4 + 4 + 2;

/// Fills datagrams with the values that a leader multicasts.
#[derive(Debug)]
pub struct Cutter {
    cluster: ClusterId,
    datagram_bytes: usize,
    of: Option<(ViewId, Ballot)>,
    key: Option<DatagramKey>,
    number: u64,
    filling: BytesMut,
    full: Vec<Bytes>,
}

impl Cutter {
    /// One of a node of `cluster`, whose datagrams have at most so many bytes.
    #[must_use]
    pub fn new(cluster: ClusterId, datagram_bytes: usize) -> Cutter {
        assert!(
            (HEAD_BYTES + PART_HEAD_BYTES..=usize::from(u16::MAX)).contains(&datagram_bytes),
            "a datagram holds a part"
        );
        Cutter {
            cluster,
            datagram_bytes,
            of: None,
            key: None,
            number: 0,
            filling: BytesMut::new(),
            full: Vec::new(),
        }
    }

    /// Adds a value, if `message` is one that is multicast, by this node in this life of its directory.
    pub fn push(&mut self, incarnation: Incarnation, message: &PeerMessage<AnyMessage>) {
        let PeerMessage::Ordering {
            view,
            message: AnyMessage::Paxos(Message::Multicast(carried)),
        } = message
        else {
            return;
        };
        let of = (*view, carried.ballot);
        if self.of != Some(of) {
            self.end_datagram();
            self.of = Some(of);
            self.key = Some(DatagramKey::of(
                self.cluster,
                (carried.ballot.node, incarnation),
            ));
            self.number = 0;
        }
        let mut value = BytesMut::new();
        put_batch(&mut value, &carried.batch);
        let total = u32::try_from(value.len()).expect("no batch has 4 GiB");
        let mut at = 0;
        while at < value.len() {
            if self.filling.len() + PART_HEAD_BYTES >= self.datagram_bytes {
                self.end_datagram();
            }
            if self.filling.is_empty() {
                self.begin_datagram(of);
            }
            let room = self.datagram_bytes - self.filling.len() - PART_HEAD_BYTES;
            let length = room.min(value.len() - at);
            put_slot(&mut self.filling, carried.slot);
            self.filling.put_u32_le(total);
            self.filling.put_u32_le(at as u32);
            self.filling.put_u16_le(length as u16);
            self.filling.put_slice(&value[at..at + length]);
            at += length;
        }
    }

    /// The datagrams of all that was added, the last one as full as it is.
    pub fn finish(&mut self) -> Vec<Bytes> {
        self.end_datagram();
        std::mem::take(&mut self.full)
    }

    fn begin_datagram(&mut self, (view, ballot): (ViewId, Ballot)) {
        let buf = &mut self.filling;
        buf.put_slice(&[0; DatagramKey::SEAL_BYTES]);
        buf.put_slice(MAGIC);
        buf.put_u64_le(self.cluster.0);
        put_view_id(buf, view);
        put_ballot(buf, ballot);
        buf.put_u64_le(self.number);
        self.number += 1;
    }

    fn end_datagram(&mut self) {
        let Some(key) = self.key.filter(|_| !self.filling.is_empty()) else {
            return;
        };
        let (seal, sealed) = self.filling.split_at_mut(DatagramKey::SEAL_BYTES);
        seal.copy_from_slice(&key.seal(sealed));
        self.full.push(self.filling.split().freeze());
    }
}

/// Puts the values of datagrams together.
#[derive(Debug)]
pub struct Assembly {
    cluster: ClusterId,
    group: GroupId,
    /// By who leads. Invariant: at most `STREAMS_MAX`.
    streams: BTreeMap<NodeId, Stream>,
    counts: DatagramCounts,
}

/// What became of the datagrams that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DatagramCounts {
    /// Datagrams that were read.
    pub read: u64,
    /// Datagrams that did not come, or have not come yet, by their numbers.
    pub missing: u64,
    /// Datagrams of no use: garbage, of others, or of earlier ballots.
    pub dropped: u64,
}

/// The datagrams of one ballot.
#[derive(Debug)]
struct Stream {
    of: (ViewId, Ballot),
    /// The number of the next datagram, if none is lost.
    next: u64,
    /// Invariant: at most `PARTED_VALUES_MAX` of `PARTED_BYTES_MAX` in all.
    values: BTreeMap<Slot, Parts>,
    bytes: usize,
}

#[derive(Debug)]
struct Parts {
    total: usize,
    bytes: usize,
    pieces: BTreeMap<u32, Bytes>,
}

impl Assembly {
    /// One of a node of `group` of `cluster`.
    #[must_use]
    pub fn new(cluster: ClusterId, group: GroupId) -> Assembly {
        Assembly {
            cluster,
            group,
            streams: BTreeMap::new(),
            counts: DatagramCounts::default(),
        }
    }

    /// What became of the datagrams so far.
    #[must_use]
    pub fn counts(&self) -> DatagramCounts {
        self.counts
    }

    /// Takes a datagram, where `incarnation` knows its sender. Returns who leads and the values that are whole with it.
    pub fn take(
        &mut self,
        datagram: &Bytes,
        incarnation: impl FnOnce(NodeId) -> Option<Incarnation>,
    ) -> (NodeId, Vec<PeerMessage<AnyMessage>>) {
        let mut whole = Vec::new();
        match self.try_take(datagram, incarnation, &mut whole) {
            Ok(leader) => {
                self.counts.read += 1;
                (leader, whole)
            }
            Err(_) => {
                self.counts.dropped += 1;
                (NodeId(0), Vec::new())
            }
        }
    }

    fn try_take(
        &mut self,
        datagram: &Bytes,
        incarnation: impl FnOnce(NodeId) -> Option<Incarnation>,
        whole: &mut Vec<PeerMessage<AnyMessage>>,
    ) -> Result<NodeId, WireError> {
        let wrong = |what| WireError::Inconsistent { what };
        let mut r = Reader::new(datagram);
        let seal = *r.array::<{ DatagramKey::SEAL_BYTES }>("seal")?;
        if r.array::<4>("layout")? != MAGIC {
            return Err(wrong("datagram"));
        }
        let cluster = ClusterId(r.u64("cluster")?);
        let view = take_view_id(&mut r)?;
        let ballot = take_ballot(&mut r)?;
        if cluster != self.cluster || view.group != self.group || !ballot.is_of(view.number) {
            return Err(wrong("group of a datagram"));
        }
        let sender = incarnation(ballot.node).ok_or(wrong("sender of a datagram"))?;
        let key = DatagramKey::of(cluster, (ballot.node, sender));
        if !key.has_sealed(&datagram[DatagramKey::SEAL_BYTES..], &seal) {
            return Err(wrong("seal of a datagram"));
        }
        let number = r.counter("number of a datagram")?;
        let of = (view, ballot);
        if self.streams.len() >= STREAMS_MAX && !self.streams.contains_key(&ballot.node) {
            let oldest = self.streams.values().min_by_key(|stream| stream.of.1);
            let oldest = oldest.map(|stream| stream.of.1.node);
            oldest.and_then(|node| self.streams.remove(&node));
        }
        let stream = self
            .streams
            .entry(ballot.node)
            .or_insert_with(|| Stream::new(of));
        if (view.number, ballot) < (stream.of.0.number, stream.of.1)
            && !planted(Plant::PartsOfOldBallot)
        {
            return Err(wrong("ballot of a datagram"));
        }
        if of != stream.of && !planted(Plant::PartsOfOldBallot) {
            *stream = Stream::new(of);
        }
        if number >= stream.next {
            self.counts.missing += number - stream.next;
            stream.next = number + 1;
        } else {
            self.counts.missing = self.counts.missing.saturating_sub(1);
        }
        stream.take_parts(&mut r, whole)?;
        Ok(ballot.node)
    }
}

impl Stream {
    fn new(of: (ViewId, Ballot)) -> Stream {
        Stream {
            of,
            next: 0,
            values: BTreeMap::new(),
            bytes: 0,
        }
    }

    fn take_parts(
        &mut self,
        r: &mut Reader<'_>,
        whole: &mut Vec<PeerMessage<AnyMessage>>,
    ) -> Result<(), WireError> {
        let wrong = |what| WireError::Inconsistent { what };
        while !r.is_at_end() {
            let slot = take_slot(r)?;
            let total = r.u32("bytes of a value")? as usize;
            let at = r.u32("place of a part")?;
            let length = usize::from(r.u16("bytes of a part")?);
            let bytes = r.slice("part", length)?;
            if total > PARTED_VALUE_BYTES_MAX || length == 0 {
                return Err(wrong("bytes of a value"));
            }
            let Some(value) = self.add(slot, total, at, bytes) else {
                continue;
            };
            let mut value_reader = Reader::new(&value);
            let batch = take_batch(&mut value_reader)?;
            value_reader.end("multicast value")?;
            let (view, ballot) = self.of;
            whole.push(PeerMessage::Ordering {
                view,
                message: AnyMessage::Paxos(Message::Multicast(Carried {
                    ballot,
                    slot,
                    batch,
                })),
            });
        }
        Ok(())
    }

    /// Adds a part; returns the value once it is whole.
    fn add(&mut self, slot: Slot, total: usize, at: u32, bytes: Bytes) -> Option<Bytes> {
        if bytes.len() == total && at == 0 {
            self.forget(slot);
            return Some(bytes);
        }
        let key = match planted(Plant::PartsMixed) {
            true => Slot(slot.0 / 2),
            false => slot,
        };
        let parts = self.values.entry(key).or_insert(Parts {
            total,
            bytes: 0,
            pieces: BTreeMap::new(),
        });
        if (parts.total == total || planted(Plant::PartsMixed)) && !parts.pieces.contains_key(&at) {
            self.bytes += bytes.len();
            parts.bytes += bytes.len();
            parts.pieces.insert(at, bytes);
        }
        if parts.bytes < total {
            self.keep_to_bounds();
            return None;
        }
        let pieces = self.forget(key)?;
        let mut value = BytesMut::with_capacity(total);
        for (at, piece) in &pieces {
            if *at as usize != value.len() {
                return None;
            }
            value.put_slice(piece);
        }
        (value.len() == total).then(|| value.freeze())
    }

    fn forget(&mut self, slot: Slot) -> Option<BTreeMap<u32, Bytes>> {
        let parts = self.values.remove(&slot)?;
        self.bytes -= parts.bytes;
        Some(parts.pieces)
    }

    /// The oldest slots go first: they miss a part that is lost.
    fn keep_to_bounds(&mut self) {
        while self.values.len() > PARTED_VALUES_MAX || self.bytes > PARTED_BYTES_MAX {
            let Some(oldest) = self.values.first_key_value().map(|(slot, _)| *slot) else {
                break;
            };
            self.forget(oldest);
        }
    }
}
