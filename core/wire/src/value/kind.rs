//! What a value can be. Plain data: two values are equal when they encode to the same bytes, save
//! that NaN differs from itself as everywhere.

use super::raised::Raised;

/// A value that travels between a program and an object.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// An integer of 64 bits.
    Int(i64),
    /// An integer outside 64 bits; made by [`Value::integer`].
    BigInt(Box<BigInt>),
    /// A number in IEEE 754 binary64. Every NaN is encoded as one.
    Float(f64),
    /// Characters.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Values in order, changeable where the program has a difference.
    List(Vec<Value>),
    /// Values in order, unchangeable.
    Tuple(Vec<Value>),
    /// Keys and values in insertion order. No key stands twice.
    Map(Vec<(Value, Value)>),
    /// Distinct values; any order, encoded in the order of their encodings.
    Set(Vec<Value>),
    /// As `Set`, unchangeable.
    FrozenSet(Vec<Value>),
    /// A date and time of day.
    DateTime(Box<DateTime>),
    /// Days since 1970-01-01, between the years 1 and 9999.
    Date(i32),
    /// A span of time.
    TimeDelta(TimeDelta),
    /// A decimal number as its text: `-12.50`, `1E+3`, `NaN`, `Infinity`.
    Decimal(String),
    /// A UUID, in network order.
    Uuid([u8; 16]),
    /// A member of an enumeration, by name.
    Enum(Box<EnumMember>),
    /// A data class, by name, with its fields.
    Object(Box<DataInstance>),
    /// Bytes, changeable.
    ByteArray(Vec<u8>),
    /// A time of day.
    Time(Box<TimeOfDay>),
    /// A queue with two ends.
    Deque(Box<Deque>),
    /// A map that does more than keep entries.
    MapOf(Box<MapOf>),
    /// A named tuple, by name, with its fields.
    Record(Box<DataInstance>),
    /// An instance of a class that extends a plain kind, by name, with what the plain kind holds.
    Extended(Box<Extended>),
    /// A value of a kind that its text describes wholly.
    Texted(Box<Texted>),
    /// The integers from a start to before a stop by a step; three integers.
    Range(Box<[Value; 3]>),
    /// A part of a sequence: start, stop and step as a program gives them.
    Slice(Box<[Value; 3]>),
    /// One of the values of which there is one each.
    Singleton(Singleton),
    /// An exception that is not raised but passed.
    Exception(Box<Raised>),
    /// A number of a fixed width, or an array of them.
    Numbers(Box<Numbers>),
}

/// Whether an integer is below zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sign {
    /// Zero or above.
    Positive,
    /// Below zero.
    Negative,
}

/// An integer that 64 bits do not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BigInt {
    pub(super) sign: Sign,
    /// Invariant: no leading zero, and outside the range of `i64` together with the sign.
    pub(super) magnitude: Vec<u8>,
}

impl BigInt {
    /// Its sign.
    #[must_use]
    pub fn sign(&self) -> Sign {
        self.sign
    }

    /// Its distance from zero, most significant byte first.
    #[must_use]
    pub fn magnitude(&self) -> &[u8] {
        &self.magnitude
    }
}

/// A date and time of day on a wall clock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DateTime {
    /// Microseconds from 1970-01-01T00:00:00 to what the clock shows, whatever its zone.
    pub local_micros: i64,
    /// How far the clock is ahead of UTC, in microseconds, less than a day; `None` where unknown.
    pub offset_micros: Option<i64>,
    /// The name of the clock's zone, `Europe/Lisbon`; `None` for a plain offset.
    pub zone: Option<String>,
    /// Whether it is the second of two equal readings, when clocks are set back.
    pub is_second: bool,
}

/// A span of time in Python's normal form: only `days` is ever negative.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeDelta {
    /// Whole days, at most 999,999,999 either way.
    pub days: i32,
    /// Seconds of the day, below 86,400.
    pub seconds: u32,
    /// Microseconds of the second, below 1,000,000.
    pub micros: u32,
}

/// A member of an enumeration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EnumMember {
    /// The registered name of the enumeration, `module.Name`.
    pub class: String,
    /// The member's name.
    pub name: String,
}

/// A data class by its registered name.
#[derive(Clone, PartialEq, Debug)]
pub struct DataInstance {
    /// The registered name, `module.Name`.
    pub class: String,
    /// Its fields in the order of the class. No name stands twice.
    pub fields: Vec<(String, Value)>,
}

/// A time of day.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TimeOfDay {
    /// Microseconds since midnight, less than a day.
    pub micros: i64,
    /// How far the clock is ahead of UTC, in microseconds, less than a day; `None` where unknown.
    pub offset_micros: Option<i64>,
    /// The name of the clock's zone; `None` for a plain offset.
    pub zone: Option<String>,
    /// Whether it is the second of two equal readings, when clocks are set back.
    pub is_second: bool,
}

/// A queue with two ends.
#[derive(Clone, PartialEq, Debug)]
pub struct Deque {
    /// What it holds, in order.
    pub items: Vec<Value>,
    /// How much it may hold.
    pub longest: Option<u64>,
}

/// A map that does more than keep entries.
#[derive(Clone, PartialEq, Debug)]
pub struct MapOf {
    /// What it does.
    pub kind: MapKind,
    /// Keys and values in insertion order. No key stands twice.
    pub entries: Vec<(Value, Value)>,
    /// What makes missing values, by name; only of [`MapKind::Default`].
    pub factory: Option<String>,
}

/// An instance of a class that extends a plain kind.
#[derive(Clone, PartialEq, Debug)]
pub struct Extended {
    /// The registered name of the class, `module.Name`.
    pub class: String,
    /// What the plain kind holds.
    pub content: Value,
}

/// A value of a kind that its text describes wholly.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Texted {
    /// Which kind.
    pub kind: TextKind,
    /// Its text, as the program prints it.
    pub text: String,
}

/// A number of a fixed width, or an array of them, as numpy keeps them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Numbers {
    /// Byte order, kind and width: `<f8`, `|b1`, `<M8[ns]`.
    pub form: String,
    /// Lengths of the dimensions; `None` for a single number.
    pub shape: Option<Vec<u64>>,
    /// The numbers, the last dimension closest together.
    pub data: Vec<u8>,
}

/// An enum with a name for each member, as it stands in the bytes.
macro_rules! named {
    ($(#[$doc:meta])* $visible:vis enum $kind:ident { $($(#[$about:meta])* $member:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        $visible enum $kind {
            $($(#[$about])* $member,)*
        }

        impl $kind {
            /// Every member.
            pub const ALL: &'static [$kind] = &[$($kind::$member,)*];

            /// The name in the bytes.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $($kind::$member => $name,)*
                }
            }

            pub(super) fn of_name(name: &str) -> Option<$kind> {
                $kind::ALL.iter().copied().find(|member| member.name() == name)
            }
        }
    };
}

named! {
    /// What a map does beyond keeping entries.
    pub enum MapKind {
        /// Moves entries to an end, and compares their order.
        Ordered = "ordered",
        /// Counts.
        Counter = "counter",
        /// Makes what is missing.
        Default = "default",
    }
}

named! {
    /// Kinds that a text describes wholly, named as in Python.
    pub enum TextKind {
        /// A path of POSIX, only compared and joined.
        PurePosixPath = "PurePosixPath",
        /// A path of POSIX.
        PosixPath = "PosixPath",
        /// A path of Windows, only compared and joined.
        PureWindowsPath = "PureWindowsPath",
        /// A path of Windows.
        WindowsPath = "WindowsPath",
        /// A complex number.
        Complex = "complex",
        /// A fraction of two integers.
        Fraction = "Fraction",
        /// An address.
        Ipv4Address = "IPv4Address",
        /// An address.
        Ipv6Address = "IPv6Address",
        /// A network.
        Ipv4Network = "IPv4Network",
        /// A network.
        Ipv6Network = "IPv6Network",
        /// The name of a time zone.
        ZoneInfo = "ZoneInfo",
    }
}

named! {
    /// Values of which there is one each.
    pub enum Singleton {
        /// The object itself whose method was called.
        Itself = "self",
        /// What a binary method answers that does not know the other operand.
        NotImplemented = "NotImplemented",
        /// Three dots.
        Ellipsis = "Ellipsis",
    }
}

impl Value {
    /// The integer of this sign and magnitude (most significant byte first), in its one form.
    ///
    /// ```
    /// use quorate_wire::value::{Sign, Value};
    /// assert_eq!(Value::integer(Sign::Negative, &[0, 200]), Value::Int(-200));
    /// assert!(matches!(Value::integer(Sign::Positive, &[255; 9]), Value::BigInt(_)));
    /// ```
    #[must_use]
    pub fn integer(sign: Sign, magnitude: &[u8]) -> Value {
        let zeros = magnitude.iter().take_while(|byte| **byte == 0).count();
        let magnitude = &magnitude[zeros..];
        let small = small_magnitude(magnitude).and_then(|magnitude| match sign {
            Sign::Positive => i64::try_from(magnitude).ok(),
            Sign::Negative => 0i64.checked_sub_unsigned(magnitude),
        });
        match small {
            Some(small) => Value::Int(small),
            None => Value::BigInt(Box::new(BigInt {
                sign,
                magnitude: magnitude.to_vec(),
            })),
        }
    }

    /// What the value is, for messages to people.
    #[must_use]
    pub fn kind_name(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Int(_) | Value::BigInt(_) => "int",
            Value::Float(_) => "float",
            Value::Text(_) => "text",
            Value::Bytes(_) => "bytes",
            Value::List(_) => "list",
            Value::Tuple(_) => "tuple",
            Value::Map(_) => "map",
            Value::Set(_) => "set",
            Value::FrozenSet(_) => "frozenset",
            Value::DateTime(_) => "datetime",
            Value::Date(_) => "date",
            Value::TimeDelta(_) => "timedelta",
            Value::Decimal(_) => "decimal",
            Value::Uuid(_) => "uuid",
            Value::Enum(_) => "enum",
            Value::Object(_) => "object",
            Value::ByteArray(_) => "bytearray",
            Value::Time(_) => "time",
            Value::Deque(_) => "deque",
            Value::MapOf(_) => "map of a kind",
            Value::Record(_) => "named tuple",
            Value::Extended(_) => "extended kind",
            Value::Texted(texted) => texted.kind.name(),
            Value::Range(_) => "range",
            Value::Slice(_) => "slice",
            Value::Singleton(singleton) => singleton.name(),
            Value::Exception(_) => "exception",
            Value::Numbers(_) => "numbers",
        }
    }
}

/// A magnitude of at most eight bytes as a number.
pub(super) fn small_magnitude(magnitude: &[u8]) -> Option<u64> {
    if magnitude.len() > 8 {
        return None;
    }
    Some(
        magnitude
            .iter()
            .fold(0, |number, byte| number << 8 | u64::from(*byte)),
    )
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Int(number)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Value {
        Value::Bool(flag)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Value {
        Value::Bytes(bytes.to_vec())
    }
}
