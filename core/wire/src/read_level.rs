//! The byte of a read's level.

use crate::WireError;
use crate::codec::Reader;
use quorate_types::ReadLevel;

pub(crate) fn level_number(level: ReadLevel) -> u8 {
    match level {
        ReadLevel::Ordered => 1,
        ReadLevel::Confirmed => 2,
        ReadLevel::Lease => 3,
        ReadLevel::Any => 4,
        ReadLevel::Loose => 5,
        ReadLevel::Broadcast => 6,
    }
}

pub(crate) fn take_level(r: &mut Reader<'_>) -> Result<ReadLevel, WireError> {
    match r.u8("read level")? {
        1 => Ok(ReadLevel::Ordered),
        2 => Ok(ReadLevel::Confirmed),
        3 => Ok(ReadLevel::Lease),
        4 => Ok(ReadLevel::Any),
        5 => Ok(ReadLevel::Loose),
        6 => Ok(ReadLevel::Broadcast),
        tag => Err(WireError::UnknownTag {
            what: "read level",
            tag,
        }),
    }
}
