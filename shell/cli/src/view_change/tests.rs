//! What a change of the view is refused for before anybody is asked.

use super::*;
use crate::error::code;

fn plan(after: &[u16], up: &[u16]) -> Plan {
    Plan {
        number: 1,
        before: [1, 2, 3].into(),
        after: after.iter().copied().collect(),
        up: up.iter().copied().collect(),
        window: (1024, 1024),
        leaves: None,
        joins: None,
        serves: Vec::new(),
        replicas: [1, 2, 3, 4, 5].into(),
    }
}

#[test]
fn the_last_replica_that_votes_does_not_leave_witnesses_alone() {
    let members = [1, 2, 3].into();
    let among = |replicas: &[u16], leaves| {
        let mut plan = plan(&[1, 2, 3], &[1, 2, 3]);
        (plan.replicas, plan.leaves) = (replicas.iter().copied().collect(), leaves);
        plan.remove(1, &members)
    };
    assert!(among(&[1, 2], Some(1)).is_ok());
    for leaves in [Some(1), None] {
        let refused = among(&[1], leaves).unwrap_err();
        assert_eq!(refused.code, code::CONFLICT);
        assert!(refused.text.contains("only witnesses"), "{refused:?}");
    }
}

#[test]
fn a_change_that_leaves_no_majority_is_refused_and_one_without_a_spare_needs_force() {
    let refused = plan(&[1, 2, 3, 4, 5], &[1, 2]).check(true).unwrap_err();
    assert!(
        refused
            .text
            .contains("this leaves 2 of 5 acceptors up, of which 3 are needed"),
        "{refused:?}"
    );
    let unforced = plan(&[3, 4, 5], &[1, 2, 3, 4]).check(false).unwrap_err();
    assert_eq!(unforced.code, code::CONFLICT);
    assert!(plan(&[3, 4, 5], &[1, 2, 3, 4]).check(true).is_ok());
    assert!(plan(&[1, 2, 3], &[1, 2, 3]).check(false).is_ok());
    assert!(
        plan(&[1], &[1, 2, 3]).check(false).is_ok(),
        "a group of one has no spare"
    );
}
