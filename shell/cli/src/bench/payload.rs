//! The calls that a benchmark makes, encoded once before the load begins.

use bytes::Bytes;
use quorate_wire::value::{Value, ValueError, call};

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

#[cfg(test)]
mod tests {
    use super::*;

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
