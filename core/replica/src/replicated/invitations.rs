//! Invitations: who knows the secret of one may join the group, once, within its time.
//!
//! All of it is computed from decided commands and agreed time, so every replica says the same of an invitation.

use crate::limits::INVITATIONS_MAX;
use quorate_types::zoo::{Plant, planted};
use quorate_types::{Duration, SecretHash, Wall};

/// One that was made and whose time is not over, in snapshots too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Invitation {
    /// The hash of its secret.
    pub hash: SecretHash,
    /// The agreed time at which it is over.
    pub until: Wall,
    /// Somebody has joined with it. It is kept: a late copy of the request that made it must not open it again.
    pub is_used: bool,
}

/// They, oldest first. Invariant: at most [`INVITATIONS_MAX`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Invitations(Vec<Invitation>);

impl Invitations {
    pub(crate) fn restored(open: &[Invitation]) -> Invitations {
        if planted(Plant::InvitationsNotInSnapshot) {
            return Invitations::default();
        }
        Invitations(open.to_vec())
    }

    /// All, for a snapshot.
    pub(crate) fn all(&self) -> &[Invitation] {
        &self.0
    }

    /// One is made at `now`, unless it is known. Those that are over go, and the oldest one where there are too many.
    pub(crate) fn made(&mut self, hash: SecretHash, now: Wall, lasts: Duration) {
        self.0.retain(|known| known.until > now);
        if self.0.iter().any(|known| known.hash == hash) {
            return;
        }
        if self.0.len() >= INVITATIONS_MAX {
            self.0.remove(0);
        }
        let until = Wall(now.0.saturating_add(lasts.0));
        let is_used = false;
        self.0.push(Invitation {
            hash,
            until,
            is_used,
        });
    }

    /// Whether the secret of this hash opens the group at `now`.
    pub(crate) fn has(&self, hash: SecretHash, now: Wall) -> bool {
        let is_open = |known: &&Invitation| known.until > now && !known.is_used;
        let mut open = self.0.iter().filter(is_open);
        open.any(|known| known.hash == hash)
    }

    /// Somebody has joined with it.
    pub(crate) fn used(&mut self, hash: SecretHash) {
        let known = self.0.iter_mut().find(|known| known.hash == hash);
        if let Some(known) = known.filter(|_| !planted(Plant::InvitationUsedTwice)) {
            known.is_used = true;
        }
    }

    pub(crate) fn check(&self) {
        assert!(
            self.0.len() <= INVITATIONS_MAX,
            "open invitations are bounded"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_types::Secret;

    fn hash(number: u8) -> SecretHash {
        Secret::new([number; Secret::BYTES]).hash()
    }

    #[test]
    fn an_invitation_is_open_for_its_time_and_for_one_use() {
        let mut all = Invitations::default();
        all.made(hash(1), Wall(100), Duration(50));
        all.made(hash(2), Wall(100), Duration(10));
        assert!(all.has(hash(1), Wall(149)) && !all.has(hash(1), Wall(150)));
        assert!(!all.has(hash(3), Wall(100)), "nobody made it");
        all.used(hash(1));
        assert!(!all.has(hash(1), Wall(101)) && all.has(hash(2), Wall(101)));
        all.made(hash(1), Wall(101), Duration(50));
        assert!(!all.has(hash(1), Wall(102)), "a late copy opens nothing");
        all.made(hash(4), Wall(150), Duration(10));
        assert_eq!(all.all().len(), 1, "what is over goes");
    }

    #[test]
    fn the_oldest_one_gives_way_and_times_do_not_overflow() {
        let mut all = Invitations::default();
        for number in 0..=INVITATIONS_MAX as u8 {
            all.made(hash(number), Wall(1), Duration(u64::MAX));
            all.check();
        }
        assert!(!all.has(hash(0), Wall(2)) && all.has(hash(1), Wall(u64::MAX - 1)));
        let restored = Invitations::restored(all.all());
        assert_eq!(restored, all);
    }
}
