//! How a configuration names the quorums of the first view, and what it may ask for.

use crate::{NodeConfig, PersistConfig};
use quorate_types::{FastQuorums, Level, OrderingName, QuorumRule, Quorums};
use serde::{Deserialize, Deserializer, Serializer};

pub(crate) fn is_default(rule: &QuorumRule) -> bool {
    *rule == QuorumRule::Majority
}

pub(crate) fn serialize<S: Serializer>(
    rule: &QuorumRule,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(rule)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<QuorumRule, D::Error> {
    let word = String::deserialize(deserializer)?;
    word.parse().map_err(serde::de::Error::custom)
}

/// The level of the first view.
pub(crate) fn level(config: &NodeConfig) -> Level {
    match config.quorums {
        QuorumRule::Majority => config.ordering.level(),
        QuorumRule::Sizes(_) => config.ordering.level().max(Level::QUORUMS),
    }
}

/// The quorums of the first view.
pub(crate) fn checked(config: &NodeConfig) -> Result<Quorums, String> {
    let rule = config.quorums;
    let quorums = rule.quorums(config.members.len());
    let quorums = quorums.map_err(|why| format!("quorums: {why}"))?;
    if rule != QuorumRule::Majority && config.persist == PersistConfig::Memory {
        let why = quorate_types::ViewChangeError::QuorumsInMemory;
        return Err(format!(
            "quorums: {why}; use persist = \"disk\", or leave quorums out"
        ));
    }
    if config.ordering == OrderingName::FastPaxos {
        FastQuorums::of(quorums).check_spare().map_err(|few| {
            format!("ordering: {few}; name more members, or paxos, libpaxos or libpaxos+")
        })?;
    } else if quorums.fast().is_some() {
        let ordering = config.ordering;
        return Err(format!(
            "quorums: {ordering} has no fast rounds: name two sizes, or order with fast_paxos"
        ));
    }
    Ok(quorums)
}
