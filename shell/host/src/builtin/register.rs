//! `rust:register`: one value of any kind, compared and swapped as it is encoded.

use crate::arguments::{
    Arguments, CallView, Mistake, NONE, raised, returned_bool, returned_none, unknown_method,
};
use crate::method::{Method, Methods};
use crate::object::{Environment, FrozenState, Object, RestoreError};
use bytes::Bytes;
use quorate_types::Outcome;

/// Holds one value, at first `None`. `write(value)`, `read()`, `cas(expected, value)` -> swapped?
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Register {
    value: Bytes,
}

impl Default for Register {
    fn default() -> Register {
        Register {
            value: Bytes::from_static(NONE),
        }
    }
}

impl Register {
    /// Makes a register; the optional argument is its first value.
    pub(crate) fn create(arguments: &mut Arguments<'_>) -> Result<Register, Mistake> {
        let value = arguments.next_item()?.unwrap_or(NONE);
        arguments.finish()?;
        Ok(Register {
            value: Bytes::copy_from_slice(value),
        })
    }

    fn write(&mut self, mut arguments: Arguments<'_>) -> Result<Outcome, Mistake> {
        let value = arguments.item("value")?;
        arguments.finish()?;
        self.value = Bytes::copy_from_slice(value);
        Ok(returned_none())
    }

    /// The codec is deterministic, so equal values have equal bytes.
    fn cas(&mut self, mut arguments: Arguments<'_>) -> Result<Outcome, Mistake> {
        let expected = arguments.item("expected")?;
        let value = arguments.item("value")?;
        arguments.finish()?;
        let is_expected = self.value == expected;
        if is_expected {
            self.value = Bytes::copy_from_slice(value);
        }
        Ok(returned_bool(is_expected))
    }
}

impl Object for Register {
    fn apply(&mut self, call: CallView<'_>, _env: &Environment) -> Outcome {
        match call.method {
            "write" => self.write(call.arguments),
            "cas" => self.cas(call.arguments),
            _ => return self.read(call),
        }
        .unwrap_or_else(Outcome::from)
    }

    fn read(&self, mut call: CallView<'_>) -> Outcome {
        match call.method {
            "read" => match call.arguments.finish() {
                Ok(()) => Outcome::Returned(self.value.clone()),
                Err(mistake) => mistake.into(),
            },
            name @ ("write" | "cas") => raised(
                "TypeError",
                format!("`{name}` changes the register: call it, do not read it"),
            ),
            unknown => unknown_method("Register", unknown),
        }
    }

    fn methods(&self) -> Methods {
        let all = const {
            &[
                Method::call(
                    "cas(expected: T, value: T) -> bool",
                    "Give the register a value if it has the expected one; whether it did.",
                ),
                Method::read("read() -> T", "The value."),
                Method::call("write(value: T) -> None", "Give the register a value."),
            ]
        };
        let class = "Register";
        Methods { class, all }
    }

    fn snapshot(&self) -> FrozenState {
        let value = self.value.clone();
        Box::new(move || value.into())
    }

    fn restore(&mut self, image: &[u8]) -> Result<(), RestoreError> {
        if image.is_empty() {
            return Err(RestoreError::new("a register's image is one encoded value"));
        }
        self.value = Bytes::copy_from_slice(image);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{call_payload, returned_int};

    fn apply(register: &mut Register, method: &str, arguments: &[i64]) -> Outcome {
        let payload = call_payload(method, arguments);
        let call = CallView::parse(&payload).unwrap();
        register.apply(call, &Environment::default())
    }

    #[test]
    fn a_register_swaps_only_what_was_expected() {
        let mut register = Register::default();
        assert_eq!(apply(&mut register, "read", &[]), returned_none());
        assert_eq!(apply(&mut register, "write", &[1]), returned_none());
        assert_eq!(apply(&mut register, "cas", &[2, 3]), returned_bool(false));
        assert_eq!(apply(&mut register, "cas", &[1, 3]), returned_bool(true));
        assert_eq!(apply(&mut register, "read", &[]), returned_int(3));
        let mut copy = Register::default();
        copy.restore(&register.snapshot()().whole()).unwrap();
        assert_eq!(copy, register);
    }

    #[test]
    fn a_write_without_a_value_is_raised_and_changes_nothing() {
        let mut register = Register::default();
        assert!(matches!(
            apply(&mut register, "write", &[]),
            Outcome::Raised(_)
        ));
        assert_eq!(apply(&mut register, "read", &[]), returned_none());
    }
}
