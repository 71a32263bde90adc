//! `--quorums` and `quorate view set quorums=4,2`: how many acceptors elect a leader and how many decide, and what a group tolerates
//! with them.

use crate::error::CliError;
use crate::group::GroupAccess;
use crate::status;
use crate::view_deciding::ANSWER_MAX;
use crate::view_setting::SettingPlan;
use quorate_client::Operation;
use quorate_node::ViewStatus;
use quorate_types::{
    FastQuorums, Level, OrderingName, QuorumRule, Quorums, ViewChange, ViewChangeError,
};
use serde::Serializer;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What a group tolerates with an ordering, for operators.
pub(crate) fn tolerated(ordering: OrderingName, quorums: Quorums) -> String {
    let fast = FastQuorums::of(quorums);
    match ordering {
        OrderingName::Paxos
        | OrderingName::Libpaxos
        | OrderingName::LibpaxosPlus
        | OrderingName::RingPaxos
        | OrderingName::SPaxos => quorums.to_string(),
        OrderingName::FastPaxos if fast.faults() == 0 => {
            format!(
                "{fast}; a fast round needs the vote of every acceptor, so that one that is slow or gone leaves classic rounds only"
            )
        }
        OrderingName::FastPaxos => fast.to_string(),
    }
}

/// Refuses an ordering whose fast rounds would need the votes of all acceptors.
pub(crate) fn refuse_spent(ordering: OrderingName, quorums: Quorums) -> Result<(), CliError> {
    match ordering {
        OrderingName::Paxos
        | OrderingName::Libpaxos
        | OrderingName::LibpaxosPlus
        | OrderingName::RingPaxos
        | OrderingName::SPaxos => Ok(()),
        OrderingName::FastPaxos => match FastQuorums::of(quorums).check_spare() {
            Ok(_) => Ok(()),
            Err(few) => Err(CliError::conflict(format!("{ordering}: {few}; nothing has changed"))
                .advise("have four acceptors or more (--nodes 4, or quorate view add NODE), or choose another ordering")),
        },
    }
}

/// Judges the quorums that are asked for; `is_kept`: votes are on disk.
pub(crate) fn judge(
    (rule, is_kept): (QuorumRule, bool),
    ordering: OrderingName,
    acceptors: usize,
) -> Result<Quorums, CliError> {
    let usage = |why: String| CliError::usage(format!("quorums {rule}: {why}"));
    let quorums = rule
        .quorums(acceptors)
        .map_err(|why| usage(why.to_string()))?;
    if rule != QuorumRule::Majority && !is_kept {
        let why = ViewChangeError::QuorumsInMemory;
        return Err(
            CliError::conflict(format!("quorums {rule}: {why}; nothing has changed"))
                .advise("keep the log on disk (--persist disk), or stay with majorities"),
        );
    }
    if quorums.fast().is_some() && ordering != OrderingName::FastPaxos {
        return Err(usage(format!(
            "{ordering} has no fast rounds: name two sizes, or order with fast_paxos"
        )));
    }
    refuse_spent(ordering, quorums)?;
    Ok(quorums)
}

/// As a report names it.
pub(crate) fn as_word<S: Serializer>(rule: &QuorumRule, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(rule)
}

/// A change of the quorums, and what is known before it.
#[derive(Debug)]
pub(crate) struct QuorumsPlan {
    view: ViewStatus,
    rule: QuorumRule,
    ordering: OrderingName,
    quorums: Quorums,
    up: usize,
}

impl QuorumsPlan {
    pub(crate) fn read(rule: QuorumRule, access: &GroupAccess) -> Result<QuorumsPlan, CliError> {
        let document = status::of_group(&access.endpoint, ANSWER_MAX, access.tls())?;
        QuorumsPlan::of(rule, &document)
    }

    fn of(rule: QuorumRule, document: &Value) -> Result<QuorumsPlan, CliError> {
        let view = status::view_in(document)?;
        let ordering = view.ordering.parse().map_err(|_| {
            CliError::failed(format!("the ordering {} is not known here", view.ordering))
        })?;
        let quorums = judge(
            (rule, view.persist != "memory"),
            ordering,
            view.acceptors.len(),
        )?;
        if view.counts() == Some(quorums) {
            return Err(CliError::usage(format!(
                "view {} has the quorums {rule}: there is nothing to change",
                view.number
            )));
        }
        let needed = Level::QUORUMS;
        if view.level < needed.0 {
            return Err(CliError::conflict(format!(
                "the group is at level {}, whose members need not know other quorums than majorities: they take level {needed}; \
                 nothing has changed",
                view.level
            ))
            .advise(format!(
                "raise the group first, once all members speak it: quorate view set level={needed}"
            )));
        }
        let up = voting(document);
        let up = view.acceptors.iter().filter(|node| up.contains(node));
        Ok(QuorumsPlan {
            up: up.count(),
            view,
            rule,
            ordering,
            quorums,
        })
    }

    /// The quorums that the view has.
    fn before(&self) -> String {
        let before = self.view.counts().map(|quorums| quorums.rule().to_string());
        before.unwrap_or_default()
    }
}

impl SettingPlan for QuorumsPlan {
    fn view(&self) -> &ViewStatus {
        &self.view
    }

    fn operation(&self, change: ViewChange) -> Operation {
        let rule = self.rule;
        Operation::SetQuorums { change, rule }
    }

    fn preview(&self) -> String {
        format!(
            "quorums {} instead of {}; {}; {} of {} acceptors up, {} needed",
            self.rule,
            self.before(),
            self.told(),
            self.up,
            self.view.acceptors.len(),
            self.quorums.both(),
        )
    }

    fn preview_fields(&self) -> Value {
        json!({
            "quorums": self.rule.to_string(), "before": self.before(), "up": self.up, "needed": self.quorums.both(),
            "tolerates": self.told(),
        })
    }

    fn told(&self) -> String {
        tolerated(self.ordering, self.quorums)
    }

    fn told_fields(&self) -> Value {
        json!({ "quorums": self.rule.to_string(), "tolerates": self.told() })
    }

    /// Refuses what the nodes that are up could not go on with, and what would take the last spare one from them.
    fn check(&self, is_forced: bool) -> Result<(), CliError> {
        let needed = self.quorums.both();
        let left = format!(
            "{} of {} acceptors are up, and the next view needs {needed} to elect its leader and to decide",
            self.up,
            self.view.acceptors.len(),
        );
        if self.up < needed {
            let stops = format!("{left}: refused, the group would stop; nothing has changed");
            return Err(CliError::conflict(stops).advise("start the nodes first"));
        }
        let had_spare = (self.view.counts()).is_some_and(|before| self.up > before.both());
        if self.up == needed && had_spare && !is_forced {
            let spent = format!(
                "{left}: refused, the loss of one more would leave nobody to elect; nothing has changed"
            );
            return Err(CliError::conflict(spent)
                .advise("start the other nodes first, ask for other sizes, or say --force"));
        }
        Ok(())
    }
}

/// The nodes that are up and have their votes.
pub(crate) fn voting(document: &Value) -> BTreeSet<u16> {
    let nodes = document["nodes"].as_array().into_iter().flatten();
    // A node that lost votes is up, and nothing is decided by it.
    let votes = |node: &&Value| {
        let roles = node["roles"].as_array().into_iter().flatten();
        node["up"] == true && !roles.into_iter().any(|role| role == "observer")
    };
    let up = nodes.filter(votes);
    up.filter_map(|node| u16::try_from(node["id"].as_u64()?).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::code;

    fn rule(text: &str) -> QuorumRule {
        text.parse().unwrap()
    }

    #[test]
    fn each_ordering_says_what_it_tolerates_and_fast_rounds_by_themselves() {
        for ordering in OrderingName::ALL {
            let told = tolerated(ordering, Quorums::majority(5).unwrap());
            let is_fast = ordering == OrderingName::FastPaxos;
            assert!(told.starts_with("5 acceptors: "), "{told}");
            assert!(told.contains("the group goes on without 2"), "{told}");
            assert_eq!(
                told.ends_with("in fast rounds without 1"),
                is_fast,
                "{told}"
            );
            let told = tolerated(ordering, rule("4,2").quorums(5).unwrap());
            assert!(
                told.contains("under the leader that it has without 3"),
                "{told}"
            );
            assert!(
                told.contains("4 elect a leader; the group goes on without 1"),
                "{told}"
            );
        }
        let left = tolerated(OrderingName::FastPaxos, Quorums::majority(3).unwrap());
        assert!(
            left.contains("in fast rounds without 0; a fast round needs the vote of every"),
            "{left}"
        );
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_would_do() {
        let refused =
            |text, is_kept, ordering, of| judge((rule(text), is_kept), ordering, of).unwrap_err();
        let apart = refused("3,2", true, OrderingName::Paxos, 5);
        assert_eq!(apart.code, code::USAGE);
        assert!(apart.text.contains("use 4,2 or 3,3"), "{apart:?}");
        let large = refused("6,1", true, OrderingName::Paxos, 5);
        assert_eq!(large.code, code::USAGE);
        let memory = refused("4,2", false, OrderingName::Paxos, 5);
        assert_eq!(memory.code, code::CONFLICT);
        let third = refused("4,2,5", true, OrderingName::RingPaxos, 5);
        assert_eq!(third.code, code::USAGE);
        assert!(third.text.contains("has no fast rounds"), "{third:?}");
        let fast = refused("4,2,3", true, OrderingName::FastPaxos, 5);
        assert_eq!(fast.code, code::USAGE);
        assert!(fast.text.contains("use fast quorums of 4"), "{fast:?}");
        let spent = refused("2,4", true, OrderingName::FastPaxos, 5);
        assert_eq!(spent.code, code::CONFLICT);
        assert!(judge((rule("4,2,4"), true), OrderingName::FastPaxos, 5).is_ok());
    }

    #[test]
    fn a_change_is_refused_below_its_level_to_what_is_and_where_too_few_are_up() {
        let document = |level: u16, up: u16| {
            let nodes: Vec<Value> = (1..=5u16)
                .map(|id| json!({"id": id, "up": id <= up, "roles": []}))
                .collect();
            json!({"nodes": nodes, "view": {"number": 3, "first_slot": 1, "ordering": "paxos", "replicas": [1, 2, 3, 4, 5],
                "acceptors": [1, 2, 3, 4, 5], "window": 8, "level": level, "persist": "disk", "members": []}})
        };
        let low = QuorumsPlan::of(rule("4,2"), &document(27, 5)).unwrap_err();
        assert_eq!(low.code, code::CONFLICT);
        assert!(low.text.contains("they take level 28"), "{low:?}");
        let same = QuorumsPlan::of(QuorumRule::Majority, &document(28, 5)).unwrap_err();
        assert_eq!(same.code, code::USAGE);
        let few = QuorumsPlan::of(rule("4,2"), &document(28, 3)).unwrap();
        assert_eq!(few.check(true).unwrap_err().code, code::CONFLICT);
        let spent = QuorumsPlan::of(rule("4,2"), &document(28, 4)).unwrap();
        assert_eq!(spent.check(false).unwrap_err().code, code::CONFLICT);
        spent.check(true).unwrap();
        let enough = QuorumsPlan::of(rule("4,2"), &document(28, 5)).unwrap();
        enough.check(false).unwrap();
        assert!(enough.told().contains("2 decide, 4 elect a leader"));
    }
}
