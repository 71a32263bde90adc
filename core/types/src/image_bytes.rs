//! Numbers and values in the part of an image that the host keeps beside an object's state.

use crate::{NotAnAgenda, Value};
use bytes::Buf;

pub(crate) fn number4(image: &mut impl Buf) -> Result<u32, NotAnAgenda> {
    image.try_get_u32_le().map_err(|_| NotAnAgenda)
}

pub(crate) fn number8(image: &mut impl Buf) -> Result<u64, NotAnAgenda> {
    image.try_get_u64_le().map_err(|_| NotAnAgenda)
}

/// A length and as many bytes.
pub(crate) fn value(image: &mut impl Buf) -> Result<Value, NotAnAgenda> {
    let length = number4(image)? as usize;
    if image.remaining() < length {
        return Err(NotAnAgenda);
    }
    Ok(image.copy_to_bytes(length))
}
