//! Values of objects as bytes: arguments, results and exceptions, in deterministic CBOR (RFC 8949).
//!
//! One encoding per value: shortest integers and lengths, no indefinite lengths, floats in eight
//! bytes with one NaN, set elements in the order of their encodings. Maps keep their insertion order,
//! because iteration shows it to the program: here the codec departs from RFC 8949 section 4.2.
//! Kinds that CBOR lacks have tags:
//!
//! | tag | content | kind |
//! | --- | --- | --- |
//! | 2, 3 | byte string | integer outside 64 bits |
//! | 37 | byte string of 16 | UUID |
//! | 100 | integer | date, days since 1970-01-01 |
//! | 258 | array | set |
//! | 60001 | array | tuple |
//! | 60002 | array | frozen set |
//! | 60003 | [microseconds, offset or null, zone or null, fold] | date and time |
//! | 60004 | [days, seconds, microseconds] | time span |
//! | 60005 | text | decimal number |
//! | 60006 | [class, name] | member of an enumeration |
//! | 60007 | [class, map of fields] | data class |
//! | 60008 | byte string | changeable bytes |
//! | 60009 | [microseconds, offset or null, zone or null, fold] | time of day |
//! | 60010 | [array, longest length or null] | queue with two ends |
//! | 60011 | [kind, map, factory or null] | map of a kind: `ordered`, `counter`, `default` |
//! | 60012 | [class, map of fields] | named tuple |
//! | 60013 | [class, value] | instance of a class that extends a plain kind |
//! | 60014 | [kind, text] | a kind that its text describes: paths, complex numbers, fractions, addresses, time zones |
//! | 60015 | [start, stop, step] | range |
//! | 60024 | [start, stop, step] | slice |
//! | 60025 | text | one of `self`, `NotImplemented`, `Ellipsis` |
//! | 60026 | [class, message, args, traceback, details] | exception that is passed |
//! | 60027 | [form, array of lengths or null, byte string] | number of a fixed width, or an array of them |
//!
//! Decoding refuses everything else by a typed error with a path (`args[1].owner`): other tags, longer
//! forms, duplicate keys, trailing bytes, bad UTF-8, deep nesting. It makes no object and imports no
//! class: names are only compared. The state codec, not this one, handles sharing and cycles between values.

pub mod call;
mod decode;
mod display;
mod encode;
mod error;
mod kind;
mod raised;
mod rare;
mod scan;

pub use decode::decode;
pub use encode::{encode, encode_into};
pub use error::{Segment, ValueError, ValueErrorKind};
pub use kind::{
    BigInt, DataInstance, DateTime, Deque, EnumMember, Extended, MapKind, MapOf, Numbers, Sign,
    Singleton, TextKind, Texted, TimeDelta, TimeOfDay, Value,
};
pub use raised::Raised;
