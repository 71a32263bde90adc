//! The heads of CBOR items: the only place that knows how CBOR packs numbers and lengths.

use super::error::{ValueError, ValueErrorKind};
use bytes::{BufMut, BytesMut};

pub(super) const UNSIGNED: u8 = 0;
pub(super) const NEGATIVE: u8 = 1;
pub(super) const BYTES: u8 = 2;
pub(super) const TEXT: u8 = 3;
pub(super) const ARRAY: u8 = 4;
pub(super) const MAP: u8 = 5;
pub(super) const TAG: u8 = 6;
pub(super) const SIMPLE: u8 = 7;

pub(super) const FALSE: u8 = 0xf4;
pub(super) const TRUE: u8 = 0xf5;
pub(super) const NULL: u8 = 0xf6;
pub(super) const FLOAT: u8 = 0xfb;

/// The only NaN that is written or read.
pub(super) const NAN_BITS: u64 = 0x7ff8_0000_0000_0000;

/// Tags with a meaning here; the table stands in the module's documentation.
pub(super) mod tag {
    pub(crate) const POSITIVE_INTEGER: u64 = 2;
    pub(crate) const NEGATIVE_INTEGER: u64 = 3;
    pub(crate) const UUID: u64 = 37;
    pub(crate) const DATE: u64 = 100;
    pub(crate) const SET: u64 = 258;
    pub(crate) const TUPLE: u64 = 60_001;
    pub(crate) const FROZEN_SET: u64 = 60_002;
    pub(crate) const DATE_TIME: u64 = 60_003;
    pub(crate) const TIME_DELTA: u64 = 60_004;
    pub(crate) const DECIMAL: u64 = 60_005;
    pub(crate) const ENUM: u64 = 60_006;
    pub(crate) const OBJECT: u64 = 60_007;
    pub(crate) const BYTE_ARRAY: u64 = 60_008;
    pub(crate) const TIME: u64 = 60_009;
    pub(crate) const DEQUE: u64 = 60_010;
    pub(crate) const MAP_OF: u64 = 60_011;
    pub(crate) const RECORD: u64 = 60_012;
    pub(crate) const EXTENDED: u64 = 60_013;
    pub(crate) const TEXTED: u64 = 60_014;
    pub(crate) const RANGE: u64 = 60_015;
    pub(crate) const SLICE: u64 = 60_024;
    pub(crate) const SINGLETON: u64 = 60_025;
    pub(crate) const EXCEPTION: u64 = 60_026;
    pub(crate) const NUMBERS: u64 = 60_027;
}

/// Writes a major type with its number in the shortest form.
#[inline]
pub(super) fn put_head(buf: &mut BytesMut, major: u8, number: u64) {
    let major = major << 5;
    if number < 24 {
        buf.put_u8(major | number as u8);
    } else if number <= 0xff {
        buf.put_slice(&[major | 24, number as u8]);
    } else if number <= 0xffff {
        let [a, b] = (number as u16).to_be_bytes();
        buf.put_slice(&[major | 25, a, b]);
    } else if number <= 0xffff_ffff {
        let [a, b, c, d] = (number as u32).to_be_bytes();
        buf.put_slice(&[major | 26, a, b, c, d]);
    } else {
        buf.put_u8(major | 27);
        buf.put_u64(number);
    }
}

#[inline]
pub(super) fn put_int(buf: &mut BytesMut, number: i64) {
    if number >= 0 {
        put_head(buf, UNSIGNED, number as u64);
    } else {
        put_head(buf, NEGATIVE, !number as u64);
    }
}

#[inline]
pub(super) fn put_text(buf: &mut BytesMut, text: &str) {
    put_head(buf, TEXT, text.len() as u64);
    buf.put_slice(text.as_bytes());
}

/// A head as it was read.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub(super) major: u8,
    /// The number behind the major type; the second byte's meaning for `SIMPLE`.
    pub(super) number: u64,
    /// The first byte, for messages.
    pub(super) byte: u8,
}

/// Reads items off the front of borrowed bytes.
#[derive(Clone, Copy)]
pub(super) struct Scan<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Scan<'a> {
    #[inline]
    pub(super) fn head(&mut self) -> Result<Head, ValueError> {
        let (&byte, rest) = self.rest.split_first().ok_or(ValueErrorKind::Short)?;
        self.rest = rest;
        let (major, low) = (byte >> 5, byte & 0x1f);
        if low < 24 {
            return Ok(Head {
                major,
                number: u64::from(low),
                byte,
            });
        }
        let (number, shorter_below) = match low {
            24 => (u64::from(u8::from_be_bytes(self.array()?)), 24),
            25 => (u64::from(u16::from_be_bytes(self.array()?)), 1 << 8),
            26 => (u64::from(u32::from_be_bytes(self.array()?)), 1 << 16),
            27 => (u64::from_be_bytes(self.array()?), 1 << 32),
            _ => return Err(ValueErrorKind::UnknownForm { byte }.into()),
        };
        if major != SIMPLE && number < shorter_below {
            return Err(ValueErrorKind::NotCanonical.into());
        }
        Ok(Head {
            major,
            number,
            byte,
        })
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], ValueError> {
        let (array, rest) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or(ValueErrorKind::Short)?;
        self.rest = rest;
        Ok(*array)
    }

    #[inline]
    pub(super) fn take(&mut self, length: u64) -> Result<&'a [u8], ValueError> {
        match usize::try_from(length) {
            Ok(length) if length <= self.rest.len() => {
                let (taken, rest) = self.rest.split_at(length);
                self.rest = rest;
                Ok(taken)
            }
            Ok(_) | Err(_) => Err(ValueErrorKind::Short.into()),
        }
    }

    #[inline]
    pub(super) fn text(&mut self, length: u64) -> Result<&'a str, ValueError> {
        std::str::from_utf8(self.take(length)?).map_err(|_| ValueErrorKind::BadText.into())
    }

    /// A count of items, each of at least `item_bytes` bytes, that the rest can hold.
    #[inline]
    pub(super) fn count(&self, number: u64, item_bytes: usize) -> Result<usize, ValueError> {
        match usize::try_from(number) {
            Ok(count) if count <= self.rest.len() / item_bytes => Ok(count),
            Ok(_) | Err(_) => Err(ValueErrorKind::Short.into()),
        }
    }

    /// A head of one major type.
    #[inline]
    pub(super) fn expect(&mut self, major: u8, wanted: &'static str) -> Result<u64, ValueError> {
        let head = self.head()?;
        if head.major == major {
            Ok(head.number)
        } else {
            Err(head.unexpected(wanted))
        }
    }

    #[inline]
    pub(super) fn expect_text(&mut self) -> Result<&'a str, ValueError> {
        let length = self.expect(TEXT, "text")?;
        self.text(length)
    }

    #[inline]
    pub(super) fn expect_int(&mut self) -> Result<i64, ValueError> {
        let head = self.head()?;
        let number = i64::try_from(head.number)
            .map_err(|_| ValueErrorKind::OutOfRange { what: "integer" })?;
        match head.major {
            UNSIGNED => Ok(number),
            NEGATIVE => Ok(!number),
            _ => Err(head.unexpected("int")),
        }
    }

    pub(super) fn end(&self) -> Result<(), ValueError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(ValueErrorKind::Trailing {
                left: self.rest.len(),
            }
            .into())
        }
    }
}

impl Head {
    #[cold]
    pub(super) fn unexpected(self, wanted: &'static str) -> ValueError {
        let found = match self.major {
            UNSIGNED | NEGATIVE => "int",
            BYTES => "bytes",
            TEXT => "text",
            ARRAY => "list",
            MAP => "map",
            TAG => "tagged value",
            _ => match self.byte {
                FALSE | TRUE => "bool",
                NULL => "null",
                FLOAT => "float",
                _ => "unknown form",
            },
        };
        ValueErrorKind::Unexpected { wanted, found }.into()
    }
}
