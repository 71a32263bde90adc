//! Says who may join: computed from decided invitations and their agreed times, and from nothing that a node says.

use quorate_types::{Duration, SecretHash, Wall};
use std::collections::BTreeMap;

/// The invitations that are open, by the log.
#[derive(Debug, Default)]
pub struct Invited {
    now: Wall,
    /// Until when, and whether somebody has come.
    made: BTreeMap<SecretHash, (Wall, bool)>,
}

impl Invited {
    /// The next batch with commands has this time: agreed time rises.
    pub fn stamped(&mut self, wall: Wall) {
        self.now = wall.max(Wall(self.now.0 + 1));
    }

    /// An invitation is decided.
    pub fn made(&mut self, invitation: SecretHash, lasts: Duration) {
        let now = self.now;
        self.made.retain(|_, (until, _)| *until > now);
        let until = Wall(now.0 + lasts.0);
        self.made.entry(invitation).or_insert((until, false));
    }

    /// Whether somebody may join with it now.
    pub fn may_join(&self, invitation: SecretHash) -> bool {
        let made = self.made.get(&invitation);
        made.is_some_and(|(until, is_used)| *until > self.now && !is_used)
    }

    /// Somebody has joined with it.
    pub fn used(&mut self, invitation: SecretHash) {
        if let Some((_, is_used)) = self.made.get_mut(&invitation) {
            *is_used = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_joins_with_an_invitation_and_only_in_its_time() {
        let (known, other) = (
            SecretHash::default(),
            quorate_types::Secret::new([1; 16]).hash(),
        );
        let mut invited = Invited::default();
        invited.stamped(Wall(100));
        invited.made(known, Duration(10));
        assert!(invited.may_join(known) && !invited.may_join(other));
        invited.stamped(Wall(90));
        assert!(invited.may_join(known), "agreed time is 101");
        invited.stamped(Wall(110));
        assert!(!invited.may_join(known));
        invited.made(known, Duration(10));
        invited.used(known);
        assert!(!invited.may_join(known));
        invited.made(known, Duration(10));
        assert!(!invited.may_join(known), "a late copy opens nothing");
    }
}
