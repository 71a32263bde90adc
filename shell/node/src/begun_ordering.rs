//! The ordering of the view with which a node begins.

use crate::status::OwnIdentity;
use crate::{LimitsConfig, NodeError};
use quorate_any::AnyOrdering;
use quorate_ordering::{Config, Past, Standing, Timing};
use quorate_types::{GroupId, Time, View};

/// Makes it of what its log holds.
pub(crate) fn begun_ordering(
    identity: &OwnIdentity,
    (view, past): (View, Past),
    (seed, limits): (u64, LimitsConfig),
    now: Time,
) -> Result<AnyOrdering, NodeError> {
    let config = Config {
        limits: limits.of_ordering(),
        tells_tentative: limits.speculation > 0,
        standing: match identity.votes_as {
            Some(own) if view.incarnation(identity.node) == Some(own) => Standing::Voter,
            Some(_) | None => Standing::Observer,
        },
        damage: past.damage,
        timing: match identity.group {
            GroupId::FIRST => Timing::default(),
            _ => Timing::of_many(),
        },
        ..Config::new(identity.group, identity.node, identity.boot, view, seed)
    };
    AnyOrdering::new(config, past.records, now)
        .map_err(|foreign| NodeError::Unreadable(foreign.to_string()))
}
