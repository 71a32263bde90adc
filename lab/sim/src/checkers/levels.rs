//! What each life of a node speaks, and whether a group is set to a level only where every member does.
//!
//! Nothing here asks the code under test: the world says what it starts, when an operator asked first, and what was decided.

use std::collections::BTreeMap;

use quorate_types::{Level, Levels, NodeId, NodeSet};

use super::{Property, Violation};

/// All lives of all nodes, each with the time of its start.
#[derive(Debug, Default)]
pub struct SpokenLives {
    lives: BTreeMap<NodeId, Vec<(u64, Levels)>>,
}

impl SpokenLives {
    /// A life begins.
    pub fn begins(&mut self, node: NodeId, now: u64, speaks: Levels) {
        self.lives.entry(node).or_default().push((now, speaks));
    }

    /// The group of these members is set to a level. A node was asked for that at `since` or later, and what it believed of the
    /// others then was true at `since` or later.
    ///
    /// # Errors
    /// [`Property::LevelSpoken`] when a member has had no life since then that speaks the level.
    pub fn set(&self, level: Level, members: NodeSet, since: u64) -> Result<(), Violation> {
        for member in members.iter() {
            let lives = self.lives.get(&member).map_or(&[][..], Vec::as_slice);
            // The last one that began before goes on into the time that counts.
            let first = lives.iter().rposition(|(begun, _)| *begun <= since);
            let counts = &lives[first.unwrap_or(0)..];
            if !counts.iter().any(|(_, speaks)| speaks.has(level)) {
                return Err(Violation::new(
                    Property::LevelSpoken,
                    format!(
                        "the group is set to level {level}, which {member} does not speak: {counts:?}"
                    ),
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_counts_that_every_member_has_spoken_since_it_was_asked_for() {
        let both = Levels::new(Level(19), Level(20)).unwrap();
        let mut lives = SpokenLives::default();
        lives.begins(NodeId(1), 0, both);
        lives.begins(NodeId(2), 0, Levels::UNNAMED);
        lives.begins(NodeId(2), 100, both);
        lives.begins(NodeId(2), 200, Levels::UNNAMED);
        let members = [NodeId(1), NodeId(2)].into_iter().collect();
        assert!(
            lives.set(Level(20), members, 150).is_ok(),
            "it spoke it then"
        );
        assert!(lives.set(Level(20), members, 50).is_ok(), "and later");
        assert!(lives.set(Level(20), members, 250).is_err());
        assert!(lives.set(Level(19), members, 250).is_ok());
        assert!(lives.set(Level(21), members, 0).is_err());
    }
}
