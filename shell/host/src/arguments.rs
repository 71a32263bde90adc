//! Calls as Rust objects read them: borrowed from the payload, without building a value tree.
//!
//! A call's payload is the CBOR array `[method, args, kwargs]`. Built-in objects parse one in tens of
//! nanoseconds; that is why this reader stands beside the codec of `quorate-wire`, which builds whole
//! values. Arguments with names have places when they come here (`crate::binding`); it refuses others, and never follows indefinite lengths.

use crate::limits::SHARED_VALUE_BYTES_MIN;
use bytes::Bytes;
use quorate_types::{Duration, Outcome};
use quorate_wire::value::{self, Raised, Value};

/// One call, borrowed from its payload.
#[derive(Clone, Copy, Debug)]
pub struct CallView<'a> {
    /// The method's name.
    pub method: &'a str,
    /// Its arguments, not yet read.
    pub arguments: Arguments<'a>,
}

/// The positional arguments of a call, read one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    /// The payload that they are read from, where its memory may be shared.
    source: Option<&'a Bytes>,
    rest: &'a [u8],
    left: usize,
    taken: usize,
}

/// Arguments by place and by name.
pub(crate) type Decoded = (Vec<Value>, Vec<(String, Value)>);

/// A call that does not fit its method: becomes the exception that the caller sees.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{class}: {message}")]
pub struct Mistake {
    /// The builtin exception that Python callers get.
    pub class: &'static str,
    /// What does not fit.
    pub message: String,
}

/// The kinds of CBOR items, by their major type.
mod major {
    pub(super) const UNSIGNED: u8 = 0;
    pub(super) const NEGATIVE: u8 = 1;
    pub(super) const BYTES: u8 = 2;
    pub(super) const TEXT: u8 = 3;
    pub(super) const ARRAY: u8 = 4;
    pub(super) const MAP: u8 = 5;
    pub(super) const TAG: u8 = 6;
    pub(super) const SIMPLE: u8 = 7;
}

/// The item `None`.
pub const NONE: &[u8] = &[0xf6];

impl<'a> CallView<'a> {
    /// Reads the method's name and finds the arguments.
    ///
    /// # Errors
    /// When the payload is not a call, or carries keyword arguments.
    pub fn parse(payload: &'a [u8]) -> Result<CallView<'a>, Mistake> {
        let (method, rest) = take_method(payload)?;
        let arguments = Arguments::of_list(rest)?;
        Ok(CallView { method, arguments })
    }

    /// The name of the method alone, whatever its arguments are; `None` when the payload is not a call.
    #[must_use]
    pub fn method_of(payload: &'a [u8]) -> Option<&'a str> {
        take_method(payload).ok().map(|(method, _)| method)
    }

    /// As [`CallView::parse`]; large arguments may be kept without a copy, by [`Arguments::value`].
    ///
    /// # Errors
    /// When the payload is not a call, or carries keyword arguments.
    pub fn parse_shared(payload: &'a Bytes) -> Result<CallView<'a>, Mistake> {
        let mut view = CallView::parse(payload)?;
        view.arguments.source = Some(payload);
        Ok(view)
    }
}

fn take_method(payload: &[u8]) -> Result<(&str, &[u8]), Mistake> {
    let mut rest = payload;
    let (kind, parts) = head(&mut rest)?;
    if kind != major::ARRAY || parts != 3 {
        return Err(malformed());
    }
    let (kind, length) = head(&mut rest)?;
    if kind != major::TEXT {
        return Err(malformed());
    }
    let name = take(&mut rest, length)?;
    let method = std::str::from_utf8(name).map_err(|_| malformed())?;
    Ok((method, rest))
}

impl<'a> Arguments<'a> {
    /// Reads `[args, kwargs]`, as a constructor's arguments are kept; empty bytes mean none.
    ///
    /// # Errors
    /// When it is not such a pair, or carries keyword arguments.
    pub fn parse(pair: &'a [u8]) -> Result<Arguments<'a>, Mistake> {
        let mut rest = pair;
        if rest.is_empty() {
            return Ok(Arguments {
                source: None,
                rest: &[0xa0],
                left: 0,
                taken: 0,
            });
        }
        match head(&mut rest)? {
            (major::ARRAY, 2) => Arguments::of_list(rest),
            _ => Err(malformed()),
        }
    }

    /// `rest` begins at the list of positional arguments and ends with the map of keywords.
    fn of_list(rest: &'a [u8]) -> Result<Arguments<'a>, Mistake> {
        let mut rest = rest;
        let (kind, left) = head(&mut rest)?;
        if kind != major::ARRAY {
            return Err(malformed());
        }
        // Every item weighs at least one byte, so a larger count is a lie.
        let left = usize::try_from(left).map_err(|_| malformed())?;
        if left > rest.len() {
            return Err(malformed());
        }
        Ok(Arguments {
            source: None,
            rest,
            left,
            taken: 0,
        })
    }

    /// How many are left.
    pub(crate) fn count(&self) -> usize {
        self.left
    }

    /// Whether there are arguments with names.
    #[inline]
    pub(crate) fn has_names(mut self) -> Result<bool, Mistake> {
        while self.next_item()?.is_some() {}
        Ok(self.rest != [0xa0])
    }

    /// All that are left, decoded, and those with names.
    pub(crate) fn all(mut self) -> Result<Decoded, Mistake> {
        let decode = |item| value::decode(item).map_err(|_| malformed());
        let mut args = Vec::new();
        while let Some(item) = self.next_item()? {
            args.push(decode(item)?);
        }
        let Value::Map(named) = decode(self.rest)? else {
            return Err(malformed());
        };
        let named = named.into_iter().map(|(name, value)| match name {
            Value::Text(name) => Ok((name, value)),
            _ => Err(malformed()),
        });
        Ok((args, named.collect::<Result<_, _>>()?))
    }

    /// The next argument as it stands in the payload, or `None` when all are read.
    ///
    /// # Errors
    /// When the payload is cut short.
    #[inline]
    pub fn next_item(&mut self) -> Result<Option<&'a [u8]>, Mistake> {
        if self.left == 0 {
            return Ok(None);
        }
        let start = self.rest;
        skip(&mut self.rest)?;
        self.left -= 1;
        self.taken += 1;
        Ok(Some(&start[..start.len() - self.rest.len()]))
    }

    /// The next argument, which must be there, as it stands in the payload.
    ///
    /// # Errors
    /// `TypeError` when there is none.
    pub fn item(&mut self, name: &str) -> Result<&'a [u8], Mistake> {
        self.next_item()?
            .ok_or_else(|| mistake("TypeError", format!("argument `{name}` is missing")))
    }

    /// The next argument, which must be there, to keep as it stands in the payload. A large one that is most of the payload
    /// shares the payload's memory: what the log holds too, and what arrived in memory of its own.
    ///
    /// # Errors
    /// `TypeError` when there is none.
    pub fn value(&mut self, name: &str) -> Result<Bytes, Mistake> {
        let item = self.item(name)?;
        let source = self.source.filter(|source| {
            item.len() >= SHARED_VALUE_BYTES_MIN && item.len() >= source.len() / 2
        });
        Ok(match source {
            Some(source) => source.slice_ref(item),
            None => Bytes::copy_from_slice(item),
        })
    }

    /// The next argument as an integer, or `default` when there is none or it is `None`.
    ///
    /// # Errors
    /// `TypeError` when it is not an integer, `OverflowError` when it needs more than 64 bits.
    #[inline]
    pub fn int_or(&mut self, name: &str, default: i64) -> Result<i64, Mistake> {
        match self.next_item()? {
            None | Some(NONE) => Ok(default),
            Some(item) => int_of(item, name),
        }
    }

    /// The next argument as a time in seconds, or `None` when there is none or it is `None`.
    ///
    /// # Errors
    /// `TypeError` when it is no number, `ValueError` when it is negative or longer than a century.
    pub fn seconds(&mut self, name: &str) -> Result<Option<Duration>, Mistake> {
        const CENTURY: f64 = 100.0 * 366.0 * 86_400.0;
        let item = match self.next_item()? {
            None | Some(NONE) => return Ok(None),
            Some(item) => item,
        };
        let seconds = match value::decode(item) {
            Ok(Value::Int(number)) => number as f64,
            Ok(Value::Float(number)) => number,
            Ok(_) | Err(_) => {
                let message = format!("argument `{name}` is not a number of seconds");
                return Err(mistake("TypeError", message));
            }
        };
        if !(0.0..=CENTURY).contains(&seconds) {
            let message = format!("argument `{name}` must be 0 to {CENTURY:.0} seconds");
            return Err(mistake("ValueError", message));
        }
        Ok(Some(Duration((seconds * 1e9) as u64)))
    }

    /// The next argument, which must be there, as an integer.
    ///
    /// # Errors
    /// As [`Arguments::int_or`], and `TypeError` when there is none.
    #[inline]
    pub fn int(&mut self, name: &str) -> Result<i64, Mistake> {
        let item = self.item(name)?;
        int_of(item, name)
    }

    /// Ends the reading: no argument may be left, and no keyword.
    ///
    /// # Errors
    /// `TypeError` when something is left.
    #[inline]
    pub fn finish(&mut self) -> Result<(), Mistake> {
        if self.left > 0 {
            let message = format!(
                "takes {} arguments, {} given",
                self.taken,
                self.taken + self.left
            );
            return Err(mistake("TypeError", message));
        }
        if self.rest == [0xa0] {
            return Ok(());
        }
        match head(&mut self.rest)? {
            (major::MAP, _) => Err(mistake(
                "TypeError",
                "built-in objects take positional arguments only".to_owned(),
            )),
            _ => Err(malformed()),
        }
    }
}

/// The content of a text or byte string, and whether it is text; `None` for any other item.
pub(crate) fn string_of(item: &[u8]) -> Option<(&[u8], StringKind)> {
    let mut rest = item;
    match head(&mut rest).ok()? {
        (major::TEXT, _) => Some((rest, StringKind::Text)),
        (major::BYTES, _) => Some((rest, StringKind::Bytes)),
        _ => None,
    }
}

/// The two kinds of strings.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum StringKind {
    /// UTF-8.
    Text,
    /// Any bytes.
    Bytes,
}

/// Encodes a string of the given kind.
pub(crate) fn put_string(out: &mut Vec<u8>, kind: StringKind, content: &[u8]) {
    let major = match kind {
        StringKind::Text => major::TEXT,
        StringKind::Bytes => major::BYTES,
    };
    put_head(out, major, content.len() as u64);
    out.extend_from_slice(content);
}

/// Encodes the head of a list of `count` items.
pub(crate) fn put_list(out: &mut Vec<u8>, count: usize) {
    put_head(out, major::ARRAY, count as u64);
}

/// Encodes the head of a map of `count` entries.
pub(crate) fn put_map(out: &mut Vec<u8>, count: usize) {
    put_head(out, major::MAP, count as u64);
}

/// The payload of a call of `method` with integer arguments, for tests and measurements.
#[must_use]
pub fn call_payload(method: &str, arguments: &[i64]) -> Bytes {
    let mut out = vec![0x83];
    put_string(&mut out, StringKind::Text, method.as_bytes());
    put_list(&mut out, arguments.len());
    for argument in arguments {
        put_int(&mut out, *argument);
    }
    out.push(0xa0);
    out.into()
}

/// The outcome of a method that returned `number`.
#[inline]
#[must_use]
pub fn returned_int(number: i64) -> Outcome {
    let (bytes, length) = int_bytes(number);
    // Memory of the exact length: a vector with more would cost a second allocation to share.
    Outcome::Returned(Bytes::copy_from_slice(&bytes[..length]))
}

/// The outcome of a method that returned `None`.
#[must_use]
pub fn returned_none() -> Outcome {
    Outcome::Returned(Bytes::from_static(NONE))
}

/// The outcome of a method that returned `truth`.
#[must_use]
pub fn returned_bool(truth: bool) -> Outcome {
    Outcome::Returned(Bytes::from_static(if truth { &[0xf5] } else { &[0xf4] }))
}

/// The outcome of a method that raised the builtin exception `class`.
#[must_use]
pub fn raised(class: &str, message: impl Into<String>) -> Outcome {
    raised_as(format!("builtins.{class}"), message.into())
}

/// The outcome of a call that raised `class`, a name with its module.
pub(crate) fn raised_as(class: String, message: String) -> Outcome {
    let raised = Raised {
        class,
        message,
        args: Vec::new(),
        traceback: String::new(),
        details: Vec::new(),
    };
    Outcome::Raised(raised.encode().expect("names of classes are short"))
}

/// The outcome of a call of a method that `class` does not have.
#[must_use]
pub fn unknown_method(class: &str, method: &str) -> Outcome {
    raised_as(
        "quorate.NoSuchMethod".to_owned(),
        format!("{class} has no public method `{method}`"),
    )
}

/// A mistake of that class.
pub(crate) fn mistake(class: &'static str, message: String) -> Mistake {
    Mistake { class, message }
}

impl From<Mistake> for Outcome {
    fn from(mistake: Mistake) -> Outcome {
        raised(mistake.class, mistake.message)
    }
}

#[cold]
fn malformed() -> Mistake {
    mistake(
        "ValueError",
        "the payload is not a call [method, args, kwargs]".to_owned(),
    )
}

#[inline]
fn int_of(item: &[u8], name: &str) -> Result<i64, Mistake> {
    let mut rest = item;
    let (kind, magnitude) = head(&mut rest)?;
    let number = match kind {
        major::UNSIGNED => i64::try_from(magnitude).ok(),
        major::NEGATIVE => i64::try_from(magnitude).ok().map(|m| -1 - m),
        // Tags 2 and 3 are integers beyond 64 bits.
        major::TAG if magnitude == 2 || magnitude == 3 => None,
        _ => {
            let message = format!("argument `{name}` is not an integer");
            return Err(mistake("TypeError", message));
        }
    };
    number.ok_or_else(|| {
        mistake(
            "OverflowError",
            format!("argument `{name}` needs more than 64 bits"),
        )
    })
}

/// Encodes an integer.
pub(crate) fn put_int(out: &mut Vec<u8>, number: i64) {
    let (bytes, length) = int_bytes(number);
    out.extend_from_slice(&bytes[..length]);
}

/// The bytes of an integer, and how many there are.
#[inline]
fn int_bytes(number: i64) -> ([u8; 9], usize) {
    if number >= 0 {
        head_bytes(major::UNSIGNED, number.cast_unsigned())
    } else {
        head_bytes(major::NEGATIVE, (!number).cast_unsigned())
    }
}

fn put_head(out: &mut Vec<u8>, major: u8, argument: u64) {
    let (bytes, length) = head_bytes(major, argument);
    out.extend_from_slice(&bytes[..length]);
}

#[inline]
fn head_bytes(major: u8, argument: u64) -> ([u8; 9], usize) {
    let (info, width) = match argument {
        0..=23 => (argument as u8, 0),
        24..=0xff => (24, 1),
        0x100..=0xffff => (25, 2),
        0x1_0000..=0xffff_ffff => (26, 4),
        _ => (27, 8),
    };
    let mut bytes = [major << 5 | info; 9];
    // The argument's last bytes come first.
    let argument = argument.checked_shl(64 - 8 * width).unwrap_or(0);
    bytes[1..].copy_from_slice(&argument.to_be_bytes());
    (bytes, 1 + width as usize)
}

/// Reads an item's major type and argument.
#[inline(always)]
fn head(rest: &mut &[u8]) -> Result<(u8, u64), Mistake> {
    match rest.split_first() {
        Some((&first, tail)) if first & 0x1f < 24 => {
            *rest = tail;
            Ok((first >> 5, u64::from(first & 0x1f)))
        }
        Some(_) | None => long_head(rest),
    }
}

/// The same, where the argument stands behind the first byte.
#[inline(never)]
fn long_head(rest: &mut &[u8]) -> Result<(u8, u64), Mistake> {
    let (&first, tail) = rest.split_first().ok_or_else(malformed)?;
    *rest = tail;
    let argument = match first & 0x1f {
        24 => number::<1>(rest),
        25 => number::<2>(rest),
        26 => number::<4>(rest),
        27 => number::<8>(rest),
        _ => Err(malformed()),
    };
    Ok((first >> 5, argument?))
}

#[inline]
fn number<const WIDTH: usize>(rest: &mut &[u8]) -> Result<u64, Mistake> {
    let (bytes, tail) = rest.split_first_chunk::<WIDTH>().ok_or_else(malformed)?;
    *rest = tail;
    let mut wide = [0; 8];
    wide[8 - WIDTH..].copy_from_slice(bytes);
    Ok(u64::from_be_bytes(wide))
}

#[inline]
fn take<'a>(rest: &mut &'a [u8], length: u64) -> Result<&'a [u8], Mistake> {
    let length = usize::try_from(length).map_err(|_| malformed())?;
    let (taken, tail) = rest.split_at_checked(length).ok_or_else(malformed)?;
    *rest = tail;
    Ok(taken)
}

/// Steps over one item.
#[inline]
fn skip(rest: &mut &[u8]) -> Result<(), Mistake> {
    match skip_head(rest)? {
        0 => Ok(()),
        nested => skip_all(rest, nested),
    }
}

/// Steps over so many items, however deep, without recursion.
fn skip_all(rest: &mut &[u8], items: u64) -> Result<(), Mistake> {
    let mut pending = items;
    while pending > 0 {
        // Each takes a byte and adds no more than bytes are left, so it is no overflow.
        pending = pending - 1 + skip_head(rest)?;
    }
    Ok(())
}

/// Steps over an item, up to those that it consists of: says how many these are.
#[inline]
fn skip_head(rest: &mut &[u8]) -> Result<u64, Mistake> {
    let (kind, argument) = head(rest)?;
    let nested = match kind {
        major::UNSIGNED | major::NEGATIVE | major::SIMPLE => 0,
        major::BYTES | major::TEXT => {
            take(rest, argument)?;
            0
        }
        major::ARRAY => argument,
        major::MAP => argument.checked_mul(2).ok_or_else(malformed)?,
        major::TAG => 1,
        _ => return Err(malformed()),
    };
    match nested > rest.len() as u64 {
        true => Err(malformed()),
        false => Ok(nested),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_read_without_copying() {
        let payload = call_payload("add", &[-7, 1 << 40]);
        let mut call = CallView::parse(&payload).unwrap();
        assert_eq!(call.method, "add");
        assert_eq!(call.arguments.int("a"), Ok(-7));
        assert_eq!(call.arguments.int("b"), Ok(1 << 40));
        assert_eq!(call.arguments.finish(), Ok(()));
    }

    #[test]
    fn a_cut_call_is_refused_at_every_length() {
        let payload = call_payload("add", &[300]);
        for length in 0..payload.len() {
            let read = CallView::parse(&payload[..length]).and_then(|mut call| {
                call.arguments.int("n")?;
                call.arguments.finish()
            });
            assert!(read.is_err(), "cut at {length}");
        }
    }

    #[test]
    fn a_count_beyond_the_payload_is_refused() {
        assert!(CallView::parse(b"\x83\x61a\x9b\xff\xff\xff\xff\xff\xff\xff\xff").is_err());
        let mut rest: &[u8] = b"\xbb\xff\xff\xff\xff\xff\xff\xff\xff";
        assert!(skip(&mut rest).is_err());
    }

    #[test]
    fn keywords_and_surplus_arguments_are_type_errors() {
        let mut call = CallView::parse(b"\x83\x61a\x80\xa1\x61b\x01").unwrap();
        assert_eq!(call.arguments.finish().unwrap_err().class, "TypeError");
        let payload = call_payload("a", &[1]);
        let mut call = CallView::parse(&payload).unwrap();
        assert_eq!(call.arguments.finish().unwrap_err().class, "TypeError");
    }
}
