//! File descriptors: raised as far as the system allows, and divided between connections and everything else.
//!
//! A process without a free descriptor cannot begin its next log segment. So connections get what is left after a reserve for
//! the log, snapshots, the host and the admin port, and a node refuses new clients before the reserve is touched.

use crate::limits::DESCRIPTORS_RESERVED;
use crate::{NodeConfig, NodeError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Connections without which a node does not start: its peers and a few clients.
pub(crate) const CONNECTIONS_MIN: usize = 64;

/// The configuration with as many connections as the process may have descriptors for.
///
/// And how many connections all its groups may have together.
///
/// # Errors
/// When not even a few connections fit.
pub(crate) fn fitted(config: &NodeConfig) -> Result<(NodeConfig, usize), NodeError> {
    let allowed = raise();
    let mut config = config.clone();
    config.limits.connections = share(config.limits.connections, allowed)?;
    Ok((config, allowed - DESCRIPTORS_RESERVED))
}

/// Raises the soft limit to the hard one; says what applies.
fn raise() -> usize {
    let found = getrlimit(Resource::Nofile);
    let wanted = Rlimit {
        current: found.maximum,
        ..found
    };
    if let Err(error) = setrlimit(Resource::Nofile, wanted) {
        tracing::warn!(%error, "the limit of file descriptors cannot be raised");
    }
    let current = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(current).unwrap_or(usize::MAX)
}

/// How many of `wanted` connections fit.
fn share(wanted: usize, allowed: usize) -> Result<usize, NodeError> {
    let left = allowed.saturating_sub(DESCRIPTORS_RESERVED);
    if wanted <= left {
        return Ok(wanted);
    }
    if left < CONNECTIONS_MIN {
        return Err(NodeError::Descriptors {
            allowed,
            needed: DESCRIPTORS_RESERVED + CONNECTIONS_MIN,
        });
    }
    tracing::warn!(
        allowed,
        connections = left,
        wanted,
        "fewer file descriptors than limits.connections needs: raise the hard limit (ulimit -Hn, LimitNOFILE=)"
    );
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_never_take_the_descriptors_of_the_log() {
        assert_eq!(share(1000, 1 << 20).ok(), Some(1000));
        assert_eq!(share(1024, 1024).ok(), Some(1024 - DESCRIPTORS_RESERVED));
        assert_eq!(
            share(usize::MAX, usize::MAX).ok(),
            Some(usize::MAX - DESCRIPTORS_RESERVED)
        );
        let refused = share(1024, DESCRIPTORS_RESERVED).expect_err("nothing is left");
        assert!(refused.to_string().contains("LimitNOFILE"), "{refused}");
    }
}
