//! What a client asks of its session when it opens it.

use crate::Duration;

/// The terms of one session, chosen by its client and kept until it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionTerms {
    /// The session's expiry time: it ends after so long without a sign of life of its client.
    pub expiry: Duration,
    /// It ends after so long already once a node's system has reported that its client closed its connection, and no sign of
    /// life came on a later one. `None`: a closed connection says nothing.
    pub on_disconnect: Option<Duration>,
}

/// Who ended a connection between a client and a node, as the system of the other one tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClosedBy {
    /// The client, or its system when its process ended.
    Client,
    /// The node or its system; for the node also: the network, or nobody knows.
    Node,
}

impl SessionTerms {
    /// The shortest expiry time: three keepalives of it, and an election of a new leader, fit into a second.
    pub const EXPIRY_MIN: Duration = Duration::from_millis(1_000);

    /// The longest: a session that its client left holds its place and what it owns for so long.
    pub const EXPIRY_MAX: Duration = Duration::from_millis(3_600_000);

    /// What suits most clients: a dead one is noticed soon, and a pause of its process is not taken for its death.
    pub const EXPIRY_DEFAULT: Duration = Duration::from_millis(5_000);

    /// Sessions with this expiry time.
    #[must_use]
    pub const fn expiring_after(expiry: Duration) -> SessionTerms {
        SessionTerms {
            expiry,
            on_disconnect: None,
        }
    }

    /// The terms that a node grants where no expiry time may be above `expiry_max`: whatever a client asks, it gets terms
    /// within the bounds.
    #[must_use]
    pub fn granted(self, expiry_max: Duration) -> SessionTerms {
        let expiry = self.expiry.max(Self::EXPIRY_MIN).min(expiry_max);
        let short = |asked: Duration| asked.max(Self::EXPIRY_MIN).min(expiry);
        SessionTerms {
            expiry,
            on_disconnect: self.on_disconnect.map(short),
        }
    }
}

impl Default for SessionTerms {
    fn default() -> SessionTerms {
        SessionTerms::expiring_after(Self::EXPIRY_DEFAULT)
    }
}
