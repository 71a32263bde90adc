//! Heads and tags of the value codec, as `quorate-wire` lays them down.

use crate::bad_value::BadValue;

pub(crate) const UNSIGNED: u8 = 0;
pub(crate) const NEGATIVE: u8 = 1;
pub(crate) const BYTES: u8 = 2;
pub(crate) const TEXT: u8 = 3;
pub(crate) const ARRAY: u8 = 4;
pub(crate) const MAP: u8 = 5;
pub(crate) const TAG: u8 = 6;
pub(crate) const SIMPLE: u8 = 7;

pub(crate) const FALSE: u8 = 0xf4;
pub(crate) const TRUE: u8 = 0xf5;
pub(crate) const NULL: u8 = 0xf6;
pub(crate) const FLOAT: u8 = 0xfb;
pub(crate) const NAN_BITS: u64 = 0x7ff8_0000_0000_0000;

pub(crate) const TAG_POSITIVE: u64 = 2;
pub(crate) const TAG_NEGATIVE: u64 = 3;
pub(crate) const TAG_SET: u64 = 258;
pub(crate) const TAG_TUPLE: u64 = 60_001;
pub(crate) const TAG_FROZEN_SET: u64 = 60_002;
pub(crate) const TAG_DATA_CLASS: u64 = 60_007;
pub(crate) const TAG_RECORD: u64 = 60_012;
pub(crate) const TAG_SINGLETON: u64 = 60_025;
/// Never written: what `quorate._values` says of something that is drawn, item by item, into a list.
pub(crate) const TAG_DRAWN: u64 = 0;
/// Never written: of something that travels as a plain value in its place.
pub(crate) const TAG_PLAIN: u64 = 1;
/// Only in states: an object that is made, remembered, then filled: [class, arguments, state].
pub(crate) const TAG_INSTANCE: u64 = 60_016;
/// Only in states: the n-th remembered object again.
pub(crate) const TAG_AGAIN: u64 = 60_017;

/// Only in states: a set with its layout: [shape, elements].
pub(crate) const TAG_LAID_SET: u64 = 60_018;
/// Only in states: a frozenset with its layout.
pub(crate) const TAG_LAID_FROZEN_SET: u64 = 60_019;
/// Only in states: a float that is no number, and not equal to itself, so it matters which one it is: its name, its bits,
/// or null for the usual bits.
pub(crate) const TAG_NAN: u64 = 60_020;

/// Levels of nesting of a travelling value.
pub(crate) const VALUE_DEPTH_MAX: usize = 64;
/// The same in items of CBOR: a level may be a tag, its content, and a map in that.
pub(crate) const VALUE_ITEM_DEPTH_MAX: usize = 3 * VALUE_DEPTH_MAX;
/// Bytes of a travelling value, where writing ends: more than any node takes, so that a value is not written
/// whole which refers to a large part of itself a million times.
pub(crate) const VALUE_BYTES_MAX: usize = 16 << 20;
/// Bytes of an integer in a travelling value.
pub(crate) const INTEGER_BYTES_MAX: usize = 64 << 10;
/// Levels of nesting of a state. A level costs about 100 bytes while it is written or read, and nothing of the thread's
/// stack; what makes new levels for ever, such as a `__getstate__` that nests its own result, ends here.
pub(crate) const STATE_DEPTH_MAX: usize = 1_000_000;
/// The same in what is open while a state is read.
pub(crate) const STATE_ITEM_DEPTH_MAX: usize = 3 * STATE_DEPTH_MAX;
/// Values inside a state that is encoded between calls: a millisecond at most, less than it takes to fork a process.
pub(crate) const SMALL_STATE_ITEMS_MAX: u32 = 3 << 12;
/// So many more of them does an instance count for: Python code says what is in it.
pub(crate) const SMALL_STATE_ITEMS_OF_RARE: u32 = 27;
/// The same for a set or dict, beside the places that it has room for.
pub(crate) const SMALL_STATE_ITEMS_OF_TABLE: u32 = 3;
/// Values inside one travelling value.
pub(crate) const VALUE_ITEMS_MAX: u32 = 1 << 20;

/// Writes a major type with its number in the shortest form.
#[inline]
pub(crate) fn put_head(out: &mut Vec<u8>, major: u8, number: u64) {
    let major = major << 5;
    if number < 24 {
        out.push(major | number as u8);
    } else if number <= 0xff {
        out.extend_from_slice(&[major | 24, number as u8]);
    } else if number <= 0xffff {
        out.push(major | 25);
        out.extend_from_slice(&(number as u16).to_be_bytes());
    } else if number <= 0xffff_ffff {
        out.push(major | 26);
        out.extend_from_slice(&(number as u32).to_be_bytes());
    } else {
        out.push(major | 27);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

#[inline]
pub(crate) fn put_int(out: &mut Vec<u8>, number: i64) {
    if number >= 0 {
        put_head(out, UNSIGNED, number.cast_unsigned());
    } else {
        put_head(out, NEGATIVE, (!number).cast_unsigned());
    }
}

#[inline]
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_head(out, TEXT, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Reads items off the front of borrowed bytes.
pub(crate) struct ItemScan<'a> {
    pub(crate) rest: &'a [u8],
}

impl<'a> ItemScan<'a> {
    /// Major type, number, first byte.
    #[inline]
    pub(crate) fn head(&mut self) -> Result<(u8, u64, u8), BadValue> {
        let (&byte, rest) = self.rest.split_first().ok_or_else(short)?;
        let (major, low) = (byte >> 5, byte & 0x1f);
        if low < 24 {
            self.rest = rest;
            return Ok((major, u64::from(low), byte));
        }
        let (width, least) = match low {
            24 => (1, 24),
            25 => (2, 1 << 8),
            26 => (4, 1 << 16),
            27 => (8, 1 << 32),
            _ => return Err(BadValue::malformed("unknown form of an item")),
        };
        let (number, rest) = rest.split_at_checked(width).ok_or_else(short)?;
        self.rest = rest;
        let number = number.iter().fold(0, |n, b| n << 8 | u64::from(*b));
        if major != SIMPLE && number < least {
            return Err(BadValue::malformed("an item is not in its shortest form"));
        }
        Ok((major, number, byte))
    }

    #[inline]
    pub(crate) fn take(&mut self, length: u64) -> Result<&'a [u8], BadValue> {
        let length = usize::try_from(length).map_err(|_| short())?;
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(short)?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    pub(crate) fn expect(&mut self, wanted: u8) -> Result<u64, BadValue> {
        match self.head()? {
            (major, number, _) if major == wanted => Ok(number),
            _ => Err(BadValue::malformed("another kind of item expected")),
        }
    }

    #[inline]
    pub(crate) fn text(&mut self, length: u64) -> Result<&'a str, BadValue> {
        std::str::from_utf8(self.take(length)?)
            .map_err(|_| BadValue::malformed("text is not UTF-8"))
    }

    /// A count of items of at least one byte each that the rest can hold.
    #[inline]
    pub(crate) fn count(&self, number: u64) -> Result<usize, BadValue> {
        match usize::try_from(number) {
            Ok(count) if count <= self.rest.len() => Ok(count),
            _ => Err(short()),
        }
    }
}

#[cold]
fn short() -> BadValue {
    BadValue::malformed("the bytes end inside a value")
}
