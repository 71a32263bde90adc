//! Texts and integers as bytes.

use crate::bad_value::BadValue;
use crate::layout::*;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

type Done = Result<(), Box<BadValue>>;

#[inline]
pub(crate) fn put_string(out: &mut Vec<u8>, text: &Bound<'_, PyString>) -> Done {
    match text.to_str() {
        Ok(text) => {
            put_text(out, text);
            Ok(())
        }
        Err(_) => Err(BadValue::unsupported(
            "text with lone surrogates is not supported",
        )),
    }
}

#[inline]
pub(crate) fn put_integer(out: &mut Vec<u8>, value: &Bound<'_, PyAny>, bytes_max: usize) -> Done {
    if let Ok(number) = value.extract::<i64>() {
        put_int(out, number);
        return Ok(());
    }
    put_big_integer(out, value, bytes_max)
}

/// CBOR keeps `-1 - n` for negative integers, which is Python's `~n`.
#[cold]
fn put_big_integer(out: &mut Vec<u8>, value: &Bound<'_, PyAny>, bytes_max: usize) -> Done {
    let bits = |value: &Bound<'_, PyAny>| value.call_method0("bit_length")?.extract::<usize>();
    // Before the copies below; -(1 << n) is kept by one bit less than it has.
    if bits(value)? / 8 > bytes_max {
        return Err(too_long());
    }
    let is_negative = value.lt(0)?;
    let (major, tag, stored) = if is_negative {
        (NEGATIVE, TAG_NEGATIVE, value.call_method0("__invert__")?)
    } else {
        (UNSIGNED, TAG_POSITIVE, value.clone())
    };
    if let Ok(small) = stored.extract::<u64>() {
        put_head(out, major, small);
        return Ok(());
    }
    let length = bits(&stored)?.div_ceil(8);
    if length > bytes_max {
        return Err(too_long());
    }
    let bytes = stored.call_method1("to_bytes", (length, "big"))?;
    let bytes = bytes.cast::<PyBytes>()?.as_bytes();
    put_head(out, TAG, tag);
    put_head(out, BYTES, bytes.len() as u64);
    out.extend_from_slice(bytes);
    Ok(())
}

fn too_long() -> Box<BadValue> {
    BadValue::unsupported(format!(
        "an integer of more than {INTEGER_BYTES_MAX} bytes is not supported"
    ))
}
