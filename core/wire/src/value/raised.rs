//! An exception as bytes: its class by name, never by pickle; nothing of it is code.

use super::decode::{expect_count, full_budget, take_items, take_name, take_named};
use super::encode::{Budget, check_name, put_items, put_named};
use super::error::{Segment, ValueError};
use super::kind::Value;
use super::scan::{ARRAY, Scan, put_head, put_text};
use bytes::{Bytes, BytesMut};

/// What a method raised.
#[derive(Clone, PartialEq, Debug)]
pub struct Raised {
    /// The class as `module.Name`.
    pub class: String,
    /// What `str()` says of it.
    pub message: String,
    /// The arguments it was made with, where they can travel.
    pub args: Vec<Value>,
    /// Where it was raised, for people.
    pub traceback: String,
    /// What else is known of it: attributes, notes, cause, and whatever later versions add. No name stands twice.
    pub details: Vec<(String, Value)>,
}

impl Raised {
    /// The bytes of the exception: the CBOR array [class, message, args, traceback, details].
    ///
    /// ```
    /// use quorate_wire::value::Raised;
    /// let raised = Raised {
    ///     class: "builtins.ValueError".into(),
    ///     message: "no such account".into(),
    ///     args: vec!["no such account".into()],
    ///     traceback: String::new(),
    ///     details: Vec::new(),
    /// };
    /// assert_eq!(Raised::decode(&raised.encode()?)?, raised);
    /// # Ok::<(), quorate_wire::value::ValueError>(())
    /// ```
    ///
    /// # Errors
    /// When an argument cannot be encoded; the path begins with `args`.
    pub fn encode(&self) -> Result<Bytes, ValueError> {
        let mut buf = BytesMut::new();
        self.put(&mut buf, &mut full_budget())?;
        Ok(buf.freeze())
    }

    /// The exception that these bytes, all of them, encode.
    ///
    /// # Errors
    /// When they are not the one encoding of an exception.
    pub fn decode(bytes: &[u8]) -> Result<Raised, ValueError> {
        let mut scan = Scan { rest: bytes };
        let raised = Raised::take(&mut scan, &mut full_budget())?;
        scan.end()?;
        Ok(raised)
    }

    pub(super) fn put(&self, buf: &mut BytesMut, budget: &mut Budget) -> Result<(), ValueError> {
        check_name(&self.class)?;
        put_head(buf, ARRAY, 5);
        put_text(buf, &self.class);
        put_text(buf, &self.message);
        put_items(buf, &self.args, budget).map_err(|error| error.within(ARGS))?;
        put_text(buf, &self.traceback);
        put_named(buf, &self.details, budget, detail).map_err(|error| error.within(DETAILS))
    }

    pub(super) fn take(scan: &mut Scan<'_>, budget: &mut Budget) -> Result<Raised, ValueError> {
        expect_count(scan, 5)?;
        let class = take_name(scan)?;
        let message = scan.expect_text()?.to_owned();
        let count = scan.expect(ARRAY, "list")?;
        let args = take_items(scan, count, budget).map_err(|error| error.within(ARGS))?;
        let traceback = scan.expect_text()?.to_owned();
        let details = take_named(scan, budget, detail).map_err(|error| error.within(DETAILS))?;
        Ok(Raised {
            class,
            message,
            args,
            traceback,
            details,
        })
    }
}

const ARGS: Segment = Segment::Root("args");
const DETAILS: Segment = Segment::Root("details");

fn detail(name: &str) -> Segment {
    Segment::Key(name.to_owned())
}
