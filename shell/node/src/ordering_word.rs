//! How a configuration names an ordering.

use quorate_types::OrderingName;
use serde::{Deserialize, Deserializer, Serializer};

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
pub(crate) fn is_default(ordering: &OrderingName) -> bool {
    *ordering == OrderingName::default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
pub(crate) fn serialize<S: Serializer>(
    ordering: &OrderingName,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(ordering.word())
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<OrderingName, D::Error> {
    let word = String::deserialize(deserializer)?;
    word.parse().map_err(serde::de::Error::custom)
}
