//! Why bytes were refused. A reader that returns one of these errors has changed nothing. Do not trust the
//! connection or file any further.

use std::fmt;

/// Why a message, record or snapshot cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WireError {
    /// The bytes end inside `what`.
    Short {
        /// What was being read.
        what: &'static str,
        /// Bytes it needs.
        needed: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// Bytes are left over behind `what`.
    Trailing {
        /// What was read.
        what: &'static str,
        /// Bytes that are left.
        left: usize,
    },
    /// A tag names nothing this version knows.
    UnknownTag {
        /// What the tag selects.
        what: &'static str,
        /// The tag.
        tag: u8,
    },
    /// A number lies outside what it may be.
    OutOfRange {
        /// Which number.
        what: &'static str,
        /// What was read.
        value: u64,
    },
    /// A list or text is longer than allowed.
    TooMany {
        /// What is listed.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
    /// A text is not UTF-8.
    BadText {
        /// Which text.
        what: &'static str,
    },
    /// Parts that are each well formed contradict one another or their order.
    Inconsistent {
        /// Which rule is broken.
        what: &'static str,
    },
    /// The layout's version is not one this build reads.
    UnknownVersion {
        /// Of what.
        what: &'static str,
        /// The version found.
        version: u16,
    },
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::Short { what, needed, left } => {
                write!(f, "{what} needs {needed} bytes, {left} are left")
            }
            WireError::Trailing { what, left } => write!(f, "{left} bytes too many behind {what}"),
            WireError::UnknownTag { what, tag } => write!(f, "unknown {what} {tag}"),
            WireError::OutOfRange { what, value } => write!(f, "{what} {value} is out of range"),
            WireError::TooMany { what, count, limit } => {
                write!(f, "{count} {what}, at most {limit} are allowed")
            }
            WireError::BadText { what } => write!(f, "{what} is not UTF-8"),
            WireError::Inconsistent { what } => f.write_str(what),
            WireError::UnknownVersion { what, version } => {
                write!(f, "version {version} of {what} is not known here")
            }
        }
    }
}

impl std::error::Error for WireError {}
