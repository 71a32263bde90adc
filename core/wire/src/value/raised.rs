//! An exception as bytes: its class by name, never by pickle; nothing of it is code.

use super::decode::{expect_count, full_budget, take_items, take_name};
use super::encode::{check_name, put_items};
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
}

impl Raised {
    /// The bytes of the exception: the CBOR array [class, message, args, traceback].
    ///
    /// ```
    /// use quorate_wire::value::Raised;
    /// let raised = Raised {
    ///     class: "builtins.ValueError".into(),
    ///     message: "no such account".into(),
    ///     args: vec!["no such account".into()],
    ///     traceback: String::new(),
    /// };
    /// assert_eq!(Raised::decode(&raised.encode()?)?, raised);
    /// # Ok::<(), quorate_wire::value::ValueError>(())
    /// ```
    ///
    /// # Errors
    /// When an argument cannot be encoded; the path begins with `args`.
    pub fn encode(&self) -> Result<Bytes, ValueError> {
        check_name(&self.class)?;
        let mut buf = BytesMut::new();
        put_head(&mut buf, ARRAY, 4);
        put_text(&mut buf, &self.class);
        put_text(&mut buf, &self.message);
        put_items(&mut buf, &self.args, &mut full_budget())
            .map_err(|error| error.within(Segment::Root("args")))?;
        put_text(&mut buf, &self.traceback);
        Ok(buf.freeze())
    }

    /// The exception that these bytes, all of them, encode.
    ///
    /// # Errors
    /// When they are not the one encoding of an exception.
    pub fn decode(bytes: &[u8]) -> Result<Raised, ValueError> {
        let mut scan = Scan { rest: bytes };
        expect_count(&mut scan, 4)?;
        let class = take_name(&mut scan)?;
        let message = scan.expect_text()?.to_owned();
        let count = scan.expect(ARRAY, "list")?;
        let args = take_items(&mut scan, count, &mut full_budget())
            .map_err(|error| error.within(Segment::Root("args")))?;
        let traceback = scan.expect_text()?.to_owned();
        scan.end()?;
        Ok(Raised {
            class,
            message,
            args,
            traceback,
        })
    }
}
