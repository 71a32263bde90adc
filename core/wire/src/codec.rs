//! How single fields become bytes: little-endian fixed widths, lengths before contents, one encoding
//! per value. Used by every fixed layout of this crate; values of objects have their own codec.

use crate::WireError;
use crate::limits::{COUNTER_LIMIT, SLOT_LIMIT};
use bytes::{BufMut, Bytes, BytesMut};

/// Moves a payload that came with others, in a body of so many bytes, to memory of its own: the log keeps it, and an object may
/// keep the value in it for longer, and with a slice all of the body. What is most of the body stays.
pub(crate) fn detach(payload: &mut Bytes, body_bytes: usize) {
    if payload.len() < body_bytes / 2 {
        *payload = Bytes::copy_from_slice(payload);
    }
}

/// Reads fields off the front of a body; byte strings come out as slices of it.
pub(crate) struct Reader<'a> {
    body: &'a Bytes,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(body: &'a Bytes) -> Reader<'a> {
        Reader { body, rest: body }
    }

    /// Bytes of the whole body.
    pub(crate) fn body_len(&self) -> usize {
        self.body.len()
    }

    /// Where the next field begins.
    pub(crate) fn at(&self) -> usize {
        self.body.len() - self.rest.len()
    }

    #[inline]
    pub(crate) fn array<const N: usize>(
        &mut self,
        what: &'static str,
    ) -> Result<&'a [u8; N], WireError> {
        let Some((head, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.short(what, N));
        };
        self.rest = rest;
        Ok(head)
    }

    #[inline]
    pub(crate) fn slice(&mut self, what: &'static str, length: usize) -> Result<Bytes, WireError> {
        if length > self.rest.len() {
            return Err(self.short(what, length));
        }
        let at = self.at();
        self.rest = &self.rest[length..];
        Ok(self.body.slice(at..at + length))
    }

    #[inline]
    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8, WireError> {
        Ok(self.array::<1>(what)?[0])
    }

    pub(crate) fn u16(&mut self, what: &'static str) -> Result<u16, WireError> {
        Ok(u16::from_le_bytes(*self.array(what)?))
    }

    #[inline]
    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32, WireError> {
        Ok(u32::from_le_bytes(*self.array(what)?))
    }

    #[inline]
    pub(crate) fn u64(&mut self, what: &'static str) -> Result<u64, WireError> {
        Ok(u64::from_le_bytes(*self.array(what)?))
    }

    /// A number that is counted up and added to elsewhere.
    #[inline]
    pub(crate) fn counter(&mut self, what: &'static str) -> Result<u64, WireError> {
        let value = self.u64(what)?;
        in_range(what, value, COUNTER_LIMIT)
    }

    pub(crate) fn flag(&mut self, what: &'static str) -> Result<bool, WireError> {
        match self.u8(what)? {
            0 => Ok(false),
            1 => Ok(true),
            tag => Err(WireError::UnknownTag { what, tag }),
        }
    }

    /// A byte string behind its length in 32 bits.
    #[inline]
    pub(crate) fn bytes(&mut self, what: &'static str) -> Result<Bytes, WireError> {
        let length = self.u32(what)? as usize;
        self.slice(what, length)
    }

    pub(crate) fn text(&mut self, what: &'static str, limit: usize) -> Result<String, WireError> {
        let length = usize::from(self.u16(what)?);
        if length > limit {
            return Err(WireError::TooMany {
                what,
                count: length,
                limit,
            });
        }
        if length > self.rest.len() {
            return Err(self.short(what, length));
        }
        let (text, rest) = self.rest.split_at(length);
        self.rest = rest;
        match std::str::from_utf8(text) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(WireError::BadText { what }),
        }
    }

    pub(crate) fn option<T>(
        &mut self,
        what: &'static str,
        take: impl FnOnce(&mut Reader<'a>) -> Result<T, WireError>,
    ) -> Result<Option<T>, WireError> {
        if self.flag(what)? {
            take(self).map(Some)
        } else {
            Ok(None)
        }
    }

    /// A list behind its count in 32 bits. `item_bytes_min` bounds what a false count can reserve.
    pub(crate) fn list<T>(
        &mut self,
        what: &'static str,
        limit: usize,
        item_bytes_min: usize,
        mut take: impl FnMut(&mut Reader<'a>) -> Result<T, WireError>,
    ) -> Result<Vec<T>, WireError> {
        let count = self.u32(what)? as usize;
        if count > limit {
            return Err(WireError::TooMany { what, count, limit });
        }
        if count.saturating_mul(item_bytes_min) > self.rest.len() {
            return Err(self.short(what, count.saturating_mul(item_bytes_min)));
        }
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(take(self)?);
        }
        Ok(items)
    }

    /// Whether nothing is left.
    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Nothing may be left behind `what`.
    #[inline]
    pub(crate) fn end(&self, what: &'static str) -> Result<(), WireError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(WireError::Trailing {
                what,
                left: self.rest.len(),
            })
        }
    }

    #[cold]
    fn short(&self, what: &'static str, needed: usize) -> WireError {
        WireError::Short {
            what,
            needed,
            left: self.rest.len(),
        }
    }
}

#[inline]
pub(crate) fn in_range(what: &'static str, value: u64, limit: u64) -> Result<u64, WireError> {
    if value < limit {
        Ok(value)
    } else {
        Err(WireError::OutOfRange { what, value })
    }
}

#[inline]
pub(crate) fn in_slot_range(what: &'static str, value: u64) -> Result<u64, WireError> {
    in_range(what, value, SLOT_LIMIT)
}

pub(crate) fn put_flag(buf: &mut BytesMut, flag: bool) {
    buf.put_u8(u8::from(flag));
}

pub(crate) fn put_count(buf: &mut BytesMut, count: usize) {
    buf.put_u32_le(u32::try_from(count).expect("no list has 2^32 items"));
}

pub(crate) fn put_bytes(buf: &mut BytesMut, bytes: &[u8]) {
    put_count(buf, bytes.len());
    buf.put_slice(bytes);
}

/// Writes at most `limit` bytes of `text`, cut at a character: a text for people is not worth a panic.
pub(crate) fn put_text(buf: &mut BytesMut, text: &str, limit: usize) {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    put_name(buf, &text[..end], limit);
}

/// Writes a text that means something to machines, whole. Whoever lets names in checks their length.
pub(crate) fn put_name(buf: &mut BytesMut, name: &str, limit: usize) {
    assert!(
        name.len() <= limit,
        "a name of {} bytes, at most {limit} are allowed",
        name.len()
    );
    buf.put_u16_le(u16::try_from(name.len()).expect("limits of texts lie below 65,536"));
    buf.put_slice(name.as_bytes());
}

pub(crate) fn put_option<T>(
    buf: &mut BytesMut,
    option: Option<&T>,
    put: impl FnOnce(&mut BytesMut, &T),
) {
    put_flag(buf, option.is_some());
    if let Some(item) = option {
        put(buf, item);
    }
}

pub(crate) fn put_list<T>(buf: &mut BytesMut, items: &[T], mut put: impl FnMut(&mut BytesMut, &T)) {
    put_count(buf, items.len());
    for item in items {
        put(buf, item);
    }
}
