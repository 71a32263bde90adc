//! What an object written in Rust says of its methods: clients read those that change nothing, and people see how each is called.
//!
//! A call whose arguments do not fit a signature is refused in `crate::binding`. [`crate::Object::methods`] returns what is here.

use quorate_wire::value::Value;

/// A read of this name asks for the public methods, as in a host of Python.
pub(crate) const WHICH_METHODS: &str = "__quorate_methods__";

/// A read of this name asks which methods change nothing.
pub(crate) const WHICH_READS: &str = "__quorate_reads__";

/// The methods of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Methods {
    /// What messages call the object.
    pub class: &'static str,
    /// In the order of their names; none when the object does not say.
    pub all: &'static [Method],
}

/// A method that clients may call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Method {
    /// How it is called, as Python shows it: `put(item: T, block: bool = True) -> None`.
    pub signature: &'static str,
    /// Whether it changes the object.
    pub kind: MethodKind,
    /// What it does, in a line.
    pub about: &'static str,
    /// Bytes of its name, which the signature begins with: each call looks for its method.
    name_bytes: usize,
    /// Arguments that it must get.
    pub(crate) least: usize,
    /// Arguments that it may get.
    pub(crate) most: usize,
}

/// Whether a method changes its object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MethodKind {
    /// It changes nothing.
    Read,
    /// It may change something.
    Call,
}

impl Methods {
    /// The methods of an object that does not tell them.
    pub const UNTOLD: Methods = Methods {
        class: "the object",
        all: &[],
    };

    /// The one of that name.
    pub(crate) fn named(self, name: &str) -> Option<&'static Method> {
        let is_it = |method: &&Method| {
            method.name_bytes == name.len() && method.signature.starts_with(name)
        };
        self.all.iter().find(is_it)
    }

    /// `[signature, kind, about]` of each public method.
    pub(crate) fn listed(self) -> Value {
        let public = self.all.iter();
        let public = public.filter(|method| !method.signature.starts_with('_'));
        let rows = public.map(|method| {
            let words = [method.signature, method.kind.name(), method.about];
            Value::List(words.map(Value::from).to_vec())
        });
        Value::List(rows.collect())
    }

    /// Names of the methods that change nothing, special ones too.
    pub(crate) fn reads(self) -> Value {
        let reads = self.all.iter();
        let reads = reads.filter(|method| method.kind == MethodKind::Read);
        Value::List(reads.map(|method| Value::from(method.name())).collect())
    }
}

impl Method {
    /// A method that changes nothing.
    #[must_use]
    pub const fn read(signature: &'static str, about: &'static str) -> Method {
        Method::new(signature, MethodKind::Read, about)
    }

    /// A method that may change the object.
    #[must_use]
    pub const fn call(signature: &'static str, about: &'static str) -> Method {
        Method::new(signature, MethodKind::Call, about)
    }

    const fn new(signature: &'static str, kind: MethodKind, about: &'static str) -> Method {
        let (least, most) = counts(signature.as_bytes());
        Method {
            signature,
            kind,
            about,
            name_bytes: name_bytes(signature.as_bytes()),
            least,
            most,
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        &self.signature[..self.name_bytes]
    }

    /// Names of its parameters and what stands for each that is not given, as Python writes them.
    pub(crate) fn parameters(&self) -> Vec<(&'static str, Option<&'static str>)> {
        let (Some(start), Some(end)) = (self.signature.find('('), self.signature.rfind(')')) else {
            return Vec::new();
        };
        let mut depth = 0;
        let parts = self.signature[start + 1..end].split(|letter| {
            depth += i32::from(letter == '[') - i32::from(letter == ']');
            letter == ',' && depth == 0
        });
        let parts = parts.map(str::trim).filter(|part| !part.is_empty());
        let parts = parts.filter(|part| !part.starts_with('*'));
        let told = parts.map(|part| {
            let (told, default) = match part.split_once(" = ") {
                Some((told, default)) => (told, Some(default)),
                None => (part, None),
            };
            (told.split_once(':').map_or(told, |(name, _)| name), default)
        });
        told.collect()
    }
}

impl MethodKind {
    /// The word for it in a description.
    fn name(self) -> &'static str {
        match self {
            MethodKind::Read => "read",
            MethodKind::Call => "call",
        }
    }
}

const fn name_bytes(signature: &[u8]) -> usize {
    let mut at = 0;
    while at < signature.len() && signature[at] != b'(' {
        at += 1;
    }
    at
}

/// How many arguments a signature asks for at least and takes at most: `*` takes any number.
const fn counts(signature: &[u8]) -> (usize, usize) {
    let (mut at, mut depth, mut most, mut defaults) = (0, 0, 0, 0);
    let (mut is_begun, mut is_endless) = (false, false);
    while at < signature.len() {
        match signature[at] {
            b'(' | b'[' => depth += 1,
            b']' => depth -= 1,
            b')' => break,
            b',' if depth == 1 => is_begun = false,
            b'=' if depth == 1 => defaults += 1,
            b'*' if depth == 1 && !is_begun => {
                is_begun = true;
                is_endless = true;
            }
            b' ' => {}
            _ if depth == 1 && !is_begun => {
                is_begun = true;
                most += 1;
            }
            _ => {}
        }
        at += 1;
    }
    (most - defaults, if is_endless { usize::MAX } else { most })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_tells_how_many_arguments_there_are() {
        for (signature, least, most) in [
            ("locked() -> bool", 0, 0),
            ("get(key: K, default: V | None = None) -> V | None", 1, 2),
            (
                "update(items: Mapping[K, V] | Iterable[tuple[K, V]]) -> None",
                1,
                1,
            ),
            ("pop(key: K, *default: V) -> V", 1, usize::MAX),
        ] {
            let method = Method::read(signature, "");
            assert_eq!((method.least, method.most), (least, most), "{signature}");
            let told = method.parameters();
            assert_eq!(
                told.iter().filter(|(_, default)| default.is_none()).count(),
                least
            );
        }
        let method = Method::call(
            "put(item: T, block: bool = True, timeout: float | None = None)",
            "",
        );
        let told = [
            ("item", None),
            ("block", Some("True")),
            ("timeout", Some("None")),
        ];
        assert_eq!(method.parameters(), told);
    }

    #[test]
    fn a_name_ends_where_its_parameters_begin() {
        for (signature, name) in [
            ("put(item: T) -> None", "put"),
            ("__len__() -> int", "__len__"),
            ("get_all", "get_all"),
            ("", ""),
        ] {
            assert_eq!(Method::read(signature, "").name(), name);
        }
    }
}
