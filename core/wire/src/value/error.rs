//! Why a value cannot be encoded or decoded, and where inside it.

use std::fmt;

/// A refusal with the path to the part that is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValueError {
    /// Why.
    pub kind: ValueErrorKind,
    /// Steps from the part outwards; [`fmt::Display`] prints them from the root, `args[1].owner`.
    path: Vec<Segment>,
}

/// One step of a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Segment {
    /// The root's name, such as `args`.
    Root(&'static str),
    /// An element of a list, tuple or set.
    Index(usize),
    /// The value of a map's text key.
    Key(String),
    /// The n-th key of a map, or the value of a key that is not text.
    Entry(usize),
    /// A field of an object.
    Field(String),
}

/// Why a part of a value is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ValueErrorKind {
    /// The bytes end inside the part.
    Short,
    /// Bytes are left over.
    Trailing {
        /// How many.
        left: usize,
    },
    /// The part has a shorter or other form: one value has one encoding.
    NotCanonical,
    /// A tag, simple value or form that no kind has.
    UnknownForm {
        /// The first byte.
        byte: u8,
    },
    /// A tag without meaning here.
    UnknownTag {
        /// The tag.
        tag: u64,
    },
    /// A text is not UTF-8.
    BadText,
    /// Another kind of value must stand here.
    Unexpected {
        /// What must stand here.
        wanted: &'static str,
        /// What stands here.
        found: &'static str,
    },
    /// A key, element or field stands twice.
    Duplicate,
    /// Nested deeper than allowed.
    TooDeep,
    /// Longer or more numerous than allowed.
    TooLarge {
        /// How much there may be.
        limit: usize,
    },
    /// A number lies outside what its kind allows.
    OutOfRange {
        /// Which number.
        what: &'static str,
    },
    /// The program's value is of a kind that does not travel.
    Unsupported {
        /// Its kind, as the program calls it.
        kind: String,
    },
}

impl ValueError {
    /// An error at the part itself.
    #[must_use]
    pub fn new(kind: ValueErrorKind) -> ValueError {
        ValueError {
            kind,
            path: Vec::new(),
        }
    }

    /// The same error seen from one level further out.
    #[must_use]
    pub fn within(mut self, segment: Segment) -> ValueError {
        self.path.push(segment);
        self
    }

    /// The steps to the refused part, from the root: `args[1].owner`; empty for the root itself.
    #[must_use]
    pub fn path(&self) -> String {
        let mut path = String::new();
        for segment in self.path.iter().rev() {
            match segment {
                Segment::Root(name) => path.push_str(name),
                Segment::Index(index) => path.push_str(&format!("[{index}]")),
                Segment::Key(key) => path.push_str(&format!("[{key:?}]")),
                Segment::Entry(index) => path.push_str(&format!("{{{index}}}")),
                Segment::Field(name) => {
                    path.push('.');
                    path.push_str(name);
                }
            }
        }
        path
    }
}

impl From<ValueErrorKind> for ValueError {
    fn from(kind: ValueErrorKind) -> ValueError {
        ValueError::new(kind)
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path())?;
        }
        self.kind.fmt(f)
    }
}

impl fmt::Display for ValueErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueErrorKind::Short => f.write_str("the bytes end inside a value"),
            ValueErrorKind::Trailing { left } => write!(f, "{left} bytes too many"),
            ValueErrorKind::NotCanonical => f.write_str("not in its one canonical form"),
            ValueErrorKind::UnknownForm { byte } => write!(f, "unknown form {byte:#04x}"),
            ValueErrorKind::UnknownTag { tag } => write!(f, "unknown tag {tag}"),
            ValueErrorKind::BadText => f.write_str("text is not UTF-8"),
            ValueErrorKind::Unexpected { wanted, found } => {
                write!(f, "{wanted} expected, {found} found")
            }
            ValueErrorKind::Duplicate => f.write_str("stands twice"),
            ValueErrorKind::TooDeep => f.write_str("nested too deeply"),
            ValueErrorKind::TooLarge { limit } => write!(f, "too large, at most {limit}"),
            ValueErrorKind::OutOfRange { what } => write!(f, "{what} is out of range"),
            ValueErrorKind::Unsupported { kind } => write!(f, "{kind} is not supported"),
        }
    }
}

impl std::error::Error for ValueError {}
