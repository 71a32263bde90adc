//! A call as bytes: the CBOR array [method, positional arguments, named arguments]. What a proxy puts
//! into a command's payload, and a host takes out of it.
//!
//! Python hosts [`decode`] the whole. Rust objects look through a [`MethodCallView`], which borrows and
//! reads an argument when it is asked for.

use super::decode::{full_budget, take, take_items, take_named};
use super::encode::{put_items, put_named};
use super::error::{Segment, ValueError, ValueErrorKind};
use super::kind::Value;
use super::scan::{ARRAY, BYTES, FALSE, MAP, Scan, TEXT, TRUE, put_head, put_text};
use crate::limits::METHOD_BYTES_MAX;
use bytes::{Bytes, BytesMut};

/// A call, read whole.
#[derive(Clone, PartialEq, Debug)]
pub struct MethodCall {
    /// The method's name; whether it may be called is the host's to say.
    pub method: String,
    /// Positional arguments.
    pub args: Vec<Value>,
    /// Named arguments in the order in which they were given. No name stands twice.
    pub kwargs: Vec<(String, Value)>,
}

/// The bytes of a call.
///
/// ```
/// use quorate_wire::value::{Value, call};
/// let bytes = call::encode("deposit", &[Value::Int(10)], &[])?;
/// assert_eq!(call::decode(&bytes)?.method, "deposit");
/// # Ok::<(), quorate_wire::value::ValueError>(())
/// ```
///
/// # Errors
/// When an argument cannot be encoded; the path begins with `args` or `kwargs`.
pub fn encode(
    method: &str,
    args: &[Value],
    kwargs: &[(String, Value)],
) -> Result<Bytes, ValueError> {
    let mut buf = BytesMut::with_capacity(method.len() + 16 * (args.len() + kwargs.len()) + 8);
    encode_into(&mut buf, method, args, kwargs)?;
    Ok(buf.freeze())
}

/// Appends the bytes of a call; as [`encode`].
///
/// # Errors
/// As [`encode`].
pub fn encode_into(
    buf: &mut BytesMut,
    method: &str,
    args: &[Value],
    kwargs: &[(String, Value)],
) -> Result<(), ValueError> {
    check_method(method)?;
    put_head(buf, ARRAY, 3);
    put_text(buf, method);
    let mut budget = full_budget();
    put_items(buf, args, &mut budget).map_err(|error| error.within(ARGS))?;
    put_named(buf, kwargs, &mut budget, kwarg).map_err(|error| error.within(KWARGS))
}

/// The call that these bytes, all of them, encode.
///
/// # Errors
/// When they are not the one encoding of a call; the path begins with `args` or `kwargs`.
pub fn decode(bytes: &[u8]) -> Result<MethodCall, ValueError> {
    let mut view = MethodCallView::parse(bytes)?;
    let mut budget = full_budget();
    let args = take_items(&mut view.scan, view.count as u64, &mut budget)
        .map_err(|error| error.within(ARGS))?;
    let kwargs =
        take_named(&mut view.scan, &mut budget, kwarg).map_err(|error| error.within(KWARGS))?;
    view.scan.end()?;
    Ok(MethodCall {
        method: view.method.to_owned(),
        args,
        kwargs,
    })
}

const ARGS: Segment = Segment::Root("args");
const KWARGS: Segment = Segment::Root("kwargs");

fn kwarg(name: &str) -> Segment {
    Segment::Key(name.to_owned())
}

/// What a refusal says of a method's name; see [`METHOD_BYTES_MAX`].
const METHOD_BYTES: &str = "the length of the method's name (1 to 255 bytes)";
const _: () = assert!(METHOD_BYTES_MAX == 255);

fn check_method(method: &str) -> Result<(), ValueError> {
    if method.is_empty() || method.len() > METHOD_BYTES_MAX {
        return Err(ValueErrorKind::OutOfRange { what: METHOD_BYTES }.into());
    }
    Ok(())
}

/// A call, borrowed: the method's name is read, arguments wait until they are asked for, in order. An
/// argument that is not of the kind asked for stays unread.
///
/// ```
/// use quorate_wire::value::{Value, call};
/// let bytes = call::encode("put", &[Value::from("key"), Value::Int(7)], &[])?;
/// let mut view = call::MethodCallView::parse(&bytes)?;
/// assert_eq!(view.method(), "put");
/// assert_eq!((view.text()?, view.int()?), ("key", 7));
/// view.finish()?;
/// # Ok::<(), quorate_wire::value::ValueError>(())
/// ```
pub struct MethodCallView<'a> {
    method: &'a str,
    /// Positional arguments that are still unread.
    count: usize,
    read: usize,
    scan: Scan<'a>,
}

impl<'a> MethodCallView<'a> {
    /// Reads the method's name and the number of positional arguments.
    ///
    /// # Errors
    /// When the bytes do not begin like a call. What follows is judged when it is read.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<MethodCallView<'a>, ValueError> {
        let mut scan = Scan { rest: bytes };
        if scan.expect(ARRAY, "call")? != 3 {
            return Err(ValueErrorKind::OutOfRange {
                what: "number of parts",
            }
            .into());
        }
        let method = scan.expect_text()?;
        check_method(method)?;
        let number = scan.expect(ARRAY, "list")?;
        let count = scan.count(number, 1)?;
        Ok(MethodCallView {
            method,
            count,
            read: 0,
            scan,
        })
    }

    /// The method's name.
    #[must_use]
    pub fn method(&self) -> &'a str {
        self.method
    }

    /// How many positional arguments are still unread.
    #[must_use]
    pub fn args_left(&self) -> usize {
        self.count
    }

    /// The next argument, which must be an integer of 64 bits.
    ///
    /// # Errors
    /// When there is none or it is of another kind.
    #[inline]
    pub fn int(&mut self) -> Result<i64, ValueError> {
        self.next("int", Scan::expect_int)
    }

    /// The next argument, which must be a byte string.
    ///
    /// # Errors
    /// When there is none or it is of another kind.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], ValueError> {
        self.next("bytes", |scan| {
            let length = scan.expect(BYTES, "bytes")?;
            scan.take(length)
        })
    }

    /// The next argument, which must be text.
    ///
    /// # Errors
    /// When there is none or it is of another kind.
    #[inline]
    pub fn text(&mut self) -> Result<&'a str, ValueError> {
        self.next("text", Scan::expect_text)
    }

    /// The next argument, which must be text or a byte string, as bytes: a key of either kind.
    ///
    /// # Errors
    /// When there is none or it is of another kind.
    #[inline]
    pub fn text_or_bytes(&mut self) -> Result<&'a [u8], ValueError> {
        self.next("text or bytes", |scan| {
            let head = scan.head()?;
            match head.major {
                TEXT => scan.text(head.number).map(str::as_bytes),
                BYTES => scan.take(head.number),
                _ => Err(head.unexpected("text or bytes")),
            }
        })
    }

    /// The next argument, which must be true or false.
    ///
    /// # Errors
    /// When there is none or it is of another kind.
    pub fn flag(&mut self) -> Result<bool, ValueError> {
        self.next("bool", |scan| {
            let head = scan.head()?;
            match head.byte {
                FALSE => Ok(false),
                TRUE => Ok(true),
                _ => Err(head.unexpected("bool")),
            }
        })
    }

    /// The next argument, whatever it is.
    ///
    /// # Errors
    /// When there is none or it cannot be decoded.
    pub fn value(&mut self) -> Result<Value, ValueError> {
        self.next("value", |scan| take(scan, &mut full_budget()))
    }

    /// All arguments are read, and there are no named ones.
    ///
    /// # Errors
    /// When something is left over.
    #[inline]
    pub fn finish(mut self) -> Result<(), ValueError> {
        if self.count > 0 {
            return Err(self.wrong_count());
        }
        if self.scan.expect(MAP, "map")? != 0 {
            return Err(ValueError::new(ValueErrorKind::Unsupported {
                kind: "a named argument".to_owned(),
            })
            .within(KWARGS));
        }
        self.scan.end()
    }

    #[inline]
    fn next<T>(
        &mut self,
        wanted: &'static str,
        take: impl FnOnce(&mut Scan<'a>) -> Result<T, ValueError>,
    ) -> Result<T, ValueError> {
        if self.count == 0 {
            return Err(self.missing(wanted));
        }
        // On a copy: an argument of another kind stays unread.
        let mut scan = self.scan;
        let item = take(&mut scan)
            .map_err(|error| error.within(Segment::Index(self.read)).within(ARGS))?;
        self.scan = scan;
        self.count -= 1;
        self.read += 1;
        Ok(item)
    }

    #[cold]
    fn missing(&self, wanted: &'static str) -> ValueError {
        ValueError::new(ValueErrorKind::Unexpected {
            wanted,
            found: "nothing",
        })
        .within(Segment::Index(self.read))
        .within(ARGS)
    }

    #[cold]
    fn wrong_count(&self) -> ValueError {
        ValueError::new(ValueErrorKind::TooLarge { limit: self.read }).within(ARGS)
    }
}
