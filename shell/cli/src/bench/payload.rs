//! The calls that a benchmark makes, encoded once before the load begins.

use bytes::Bytes;
use quorate_types::PAYLOAD_BYTES_MAX;
use quorate_wire::value::{Value, ValueError, call};

/// Most bytes of a call beside its value: the method, and a key.
const CALL_BYTES: usize = 64;

/// Bytes of the calls that are made before a run; all of them are in memory.
const LOAD_BYTES_MAX: u64 = 4 << 30;

/// Writes and reads to choose from.
pub(super) struct Payloads {
    writes: Vec<Bytes>,
    reads: Vec<Bytes>,
}

/// Why the load that was asked for is not possible.
#[derive(Debug, thiserror::Error)]
pub(super) enum PayloadError {
    /// The name is not of a kind that this command knows.
    #[error(
        "'{0}' cannot be benchmarked: use rust:counter, rust:register, rust:kv or module:Class.method"
    )]
    UnknownObject(String),
    /// Reads were asked for, and only the built-in objects say which methods read.
    #[error(
        "--read-ratio needs a built-in object: use --object rust:counter, rust:register or rust:kv"
    )]
    NoReads,
    /// Such a call would be refused.
    #[error(
        "--size {size}: a call with such a value has {bytes} bytes, and at most {PAYLOAD_BYTES_MAX} can be sent: name a smaller --size"
    )]
    TooLarge {
        /// Bytes of the value.
        size: usize,
        /// Bytes of the whole call.
        bytes: usize,
    },
    /// So much memory is not to be had.
    #[error(
        "--size {size} and --keys {keys}: the values of all keys, which are made before the run, have {total} bytes, and at most {LOAD_BYTES_MAX} are made: name fewer --keys or a smaller --size"
    )]
    TooMuch {
        /// Bytes of each value.
        size: usize,
        /// How many keys.
        keys: u64,
        /// Bytes of all.
        total: u64,
    },
    /// The arguments cannot be encoded.
    #[error("the call's arguments cannot be encoded: {0}")]
    Value(#[from] ValueError),
}

/// What is loaded: the class to start and, for Python, the method to call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// `rust:counter`, or `module:Class`.
    pub(super) class: String,
    /// The method, for Python classes.
    pub(super) method: Option<String>,
}

impl Target {
    /// Reads `rust:counter` or `module:Class.method`.
    pub(super) fn parse(object: &str) -> Result<Target, PayloadError> {
        if let "rust:counter" | "rust:register" | "rust:kv" = object {
            return Ok(Target {
                class: object.to_string(),
                method: None,
            });
        }
        let unknown = || PayloadError::UnknownObject(object.to_string());
        let (module, rest) = object.split_once(':').ok_or_else(unknown)?;
        let (class, method) = rest.rsplit_once('.').ok_or_else(unknown)?;
        if module == "rust" || module.is_empty() || class.is_empty() || method.is_empty() {
            return Err(unknown());
        }
        Ok(Target {
            class: format!("{module}:{class}"),
            method: Some(method.to_string()),
        })
    }
}

impl Payloads {
    /// The calls for `target`, with values of `size` bytes over `keys` keys.
    pub(super) fn new(
        target: &Target,
        size: usize,
        keys: u64,
        call_args: &[Value],
        reads_wanted: bool,
    ) -> Result<Payloads, PayloadError> {
        check_room(target, size, keys)?;
        let encode = |method: &str, args: &[Value]| call::encode(method, args, &[]);
        let value = Value::Bytes(vec![7; size]);
        let key = |i: u64| Value::Text(format!("key-{i:08}"));
        let (writes, reads) = match (target.class.as_str(), &target.method) {
            // The number takes nine bytes, the whole call sixteen; the sum overflows after 2^31 calls.
            ("rust:counter", _) => (
                vec![encode("add", &[Value::Int(1 << 32)])?],
                vec![encode("get", &[])?],
            ),
            ("rust:register", _) => (vec![encode("write", &[value])?], vec![encode("read", &[])?]),
            ("rust:kv", _) => {
                let put = |i| encode("put", &[key(i), value.clone()]);
                let get = |i| encode("get", &[key(i)]);
                (
                    (0..keys).map(put).collect::<Result<_, _>>()?,
                    (0..keys).map(get).collect::<Result<_, _>>()?,
                )
            }
            (_, Some(method)) if !reads_wanted => (vec![encode(method, call_args)?], Vec::new()),
            (_, Some(_)) => return Err(PayloadError::NoReads),
            (_, None) => return Err(PayloadError::UnknownObject(target.class.clone())),
        };
        Ok(Payloads { writes, reads })
    }

    /// The write that `random` picks.
    pub(super) fn write(&self, random: u64) -> Bytes {
        self.writes[(random % self.writes.len() as u64) as usize].clone()
    }

    /// The read that `random` picks.
    pub(super) fn read(&self, random: u64) -> Bytes {
        self.reads[(random % self.reads.len() as u64) as usize].clone()
    }
}

/// Refuses what no call can carry, and what no machine should hold, before any of it is made.
fn check_room(target: &Target, size: usize, keys: u64) -> Result<(), PayloadError> {
    let keys = match target.class.as_str() {
        "rust:kv" => keys,
        "rust:register" => 1,
        _ => return Ok(()),
    };
    let bytes = size.saturating_add(CALL_BYTES);
    if bytes > PAYLOAD_BYTES_MAX {
        return Err(PayloadError::TooLarge { size, bytes });
    }
    let total = keys.saturating_mul(bytes as u64);
    if total > LOAD_BYTES_MAX {
        return Err(PayloadError::TooMuch { size, keys, total });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_cannot_be_sent_or_held_is_refused_before_it_is_made() {
        let made = |class: &str, size, keys| {
            let target = Target::parse(class).expect("it is known");
            let made = Payloads::new(&target, size, keys, &[], true);
            made.map(|made| made.write(0).len())
                .map_err(|error| error.to_string())
        };
        for class in ["rust:kv", "rust:register"] {
            let refused = made(class, 9 << 20, 1).unwrap_err();
            assert!(refused.contains("at most 8384512 can be sent"), "{refused}");
        }
        let refused = made("rust:kv", 8 << 20 >> 1, 1_000_000).unwrap_err();
        assert!(refused.contains("name fewer --keys"), "{refused}");
        let huge = made("rust:kv", usize::MAX, u64::MAX).unwrap_err();
        assert!(huge.contains("can be sent"), "{huge}");
        let most = made("rust:kv", PAYLOAD_BYTES_MAX - CALL_BYTES, 1).unwrap();
        assert!(most <= PAYLOAD_BYTES_MAX, "{most}");
    }

    #[test]
    fn a_counter_call_has_sixteen_bytes() {
        let target = Target::parse("rust:counter").expect("it is known");
        let payloads = Payloads::new(&target, 16, 1, &[], true).expect("it encodes");
        assert_eq!(payloads.write(0).len(), 16);
    }

    #[test]
    fn a_python_method_is_told_apart_from_its_class() {
        let target = Target::parse("bank:Account.deposit").expect("it is well formed");
        assert_eq!(target.class, "bank:Account");
        assert_eq!(target.method.as_deref(), Some("deposit"));
        for wrong in ["bank", "bank:Account", "rust:tree", ":A.b", "a:.b", "a:B."] {
            assert!(Target::parse(wrong).is_err(), "{wrong}");
        }
    }
}
