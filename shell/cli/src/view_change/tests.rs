//! What a change of the view is refused for before anybody is asked.

use super::*;
use crate::error::code;
use clap::Parser;

fn plan(after: &[u16], up: &[u16]) -> Plan {
    let majority = |of| Quorums::majority(of).unwrap();
    Plan {
        ordering: OrderingName::Paxos,
        quorums: (majority(3), majority(after.len())),
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
        plan(&[1, 2, 3], &[1, 2]).check(false).is_ok(),
        "another window takes no node away"
    );
    assert!(plan(&[1, 2, 3], &[1]).check(true).is_err());
    assert!(
        plan(&[1], &[1, 2, 3]).check(false).is_ok(),
        "a group of one has no spare"
    );
}

/// Claim mp-85.
#[test]
fn a_change_counts_by_the_quorums_that_were_asked_for() {
    let view = |rule: &str, ordering: &str| -> ViewStatus {
        serde_json::from_value(json!({"number": 3, "first_slot": 1, "ordering": ordering, "replicas": [1, 2, 3, 4, 5],
            "acceptors": [1, 2, 3, 4, 5], "window": 8, "level": 28, "persist": "disk", "quorums":
            {"rule": rule, "phase1": 4, "phase2": 2, "fast": null},
            "members": (1..=5).map(|node| json!({"node": node, "incarnation": "", "roles": [], "address": ""})).collect::<Vec<_>>()}))
        .unwrap()
    };
    let removed = |rule: &str, ordering: &str| {
        let words = ["quorate", "remove", "5"];
        let change = Removal::parse_from(words).change;
        Plan::new(&change, &view(rule, ordering), ([1, 2, 3].into(), None))
    };
    let four = removed("4,2", "paxos").unwrap();
    assert_eq!(four.needed(), 3);
    assert!(four.told().contains("2 decide, 3 elect a leader"));
    assert!(four.is_worth_telling());
    let few = removed("1,5", "paxos").unwrap_err();
    assert_eq!(few.code, code::CONFLICT);
    assert!(few.text.contains("5 are to decide"), "{few:?}");
    assert!(!removed("majority", "paxos").unwrap().is_worth_telling());
    let fast = removed("4,2", "fast_paxos").unwrap();
    assert!(
        fast.told().contains("fast rounds need 3"),
        "{}",
        fast.told()
    );
}

#[derive(clap::Parser)]
struct Removal {
    #[command(subcommand)]
    change: Change,
}
