//! `quorate view switch`: how the commands of a group are ordered, changed while it runs.

use crate::error::CliError;
use crate::group::GroupAccess;
use crate::quorums::{refuse_spent, tolerated, voting};
use crate::status;
use crate::view_deciding::ANSWER_MAX;
use crate::view_setting::SettingPlan;
use clap::ValueEnum;
use quorate_client::Operation;
use quorate_node::ViewStatus;
use quorate_types::{OrderingName, ViewChange};
use serde::Serialize;
use serde_json::{Value, json};

/// Orderings by their names on the command line; docs/orderings.md compares them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
pub(crate) enum OrderingArg {
    /// Multi-Paxos: the leader counts the votes, and tells the others what is decided.
    #[default]
    #[serde(rename = "paxos")]
    Paxos,
    /// Acceptors tell their votes to all nodes, and each counts for itself.
    #[serde(rename = "libpaxos")]
    Libpaxos,
    /// The same, and the leader spares slow acceptors.
    #[value(name = "libpaxos+")]
    #[serde(rename = "libpaxos+")]
    LibpaxosPlus,
    /// Fast Paxos: whoever is called proposes to all acceptors, and two message delays later it is decided; four acceptors or more.
    #[value(name = "fast_paxos")]
    #[serde(rename = "fast_paxos")]
    FastPaxos,
    /// A ring: each node passes the proposals on to the next, so that none sends a value twice.
    #[value(name = "ring_paxos")]
    #[serde(rename = "ring_paxos")]
    RingPaxos,
    /// S-Paxos: whoever is called spreads the commands to all nodes, and the leader orders their names only.
    #[value(name = "s_paxos")]
    #[serde(rename = "s_paxos")]
    SPaxos,
}

impl OrderingArg {
    pub(crate) fn name(self) -> OrderingName {
        match self {
            OrderingArg::Paxos => OrderingName::Paxos,
            OrderingArg::Libpaxos => OrderingName::Libpaxos,
            OrderingArg::LibpaxosPlus => OrderingName::LibpaxosPlus,
            OrderingArg::FastPaxos => OrderingName::FastPaxos,
            OrderingArg::RingPaxos => OrderingName::RingPaxos,
            OrderingArg::SPaxos => OrderingName::SPaxos,
        }
    }
}

/// A switch, and what is known before it.
#[derive(Debug)]
pub(crate) struct OrderingPlan {
    view: ViewStatus,
    ordering: OrderingName,
    /// How many of its acceptors are up and have their votes.
    up: usize,
}

impl OrderingPlan {
    pub(crate) fn read(
        ordering: OrderingName,
        access: &GroupAccess,
    ) -> Result<OrderingPlan, CliError> {
        let document = status::of_group(&access.endpoint, ANSWER_MAX, access.tls())?;
        OrderingPlan::of(ordering, &document)
    }

    fn of(ordering: OrderingName, document: &Value) -> Result<OrderingPlan, CliError> {
        let view = status::view_in(document)?;
        if view.ordering == ordering.word() {
            return Err(CliError::usage(format!(
                "view {} orders with {ordering}: there is nothing to change",
                view.number
            )));
        }
        let needed = ordering.change_level();
        if view.level < needed.0 {
            return Err(CliError::conflict(format!(
                "the group is at level {}, whose members need not know the ordering {ordering}: it takes level {needed}; nothing has \
                 changed",
                view.level
            ))
            .advise(format!("raise the group first, once all members speak it: quorate view set level={needed}")));
        }
        let quorums = view.counts();
        if let Some(quorums) = quorums {
            refuse_spent(ordering, quorums)?;
        }
        let up = voting(document);
        let up = view.acceptors.iter().filter(|node| up.contains(node));
        Ok(OrderingPlan {
            up: up.count(),
            view,
            ordering,
        })
    }

    /// How many acceptors must be up: the next view elects a leader, and decides.
    fn needed(&self) -> usize {
        self.view.counts().map_or(0, |quorums| quorums.both())
    }

    /// What the group tolerates then.
    fn tolerated(&self) -> String {
        (self.view.counts()).map_or_else(String::new, |quorums| tolerated(self.ordering, quorums))
    }

    /// That the next view would have no leader.
    fn warning(&self) -> Option<String> {
        (self.up < self.needed()).then(|| {
            format!(
                "{} of {} acceptors are up, and the next view needs {} to elect its leader and to decide: start the nodes first",
                self.up,
                self.view.acceptors.len(),
                self.needed()
            )
        })
    }
}

impl SettingPlan for OrderingPlan {
    fn view(&self) -> &ViewStatus {
        &self.view
    }

    fn operation(&self, change: ViewChange) -> Operation {
        let ordering = self.ordering;
        Operation::SwitchOrdering { change, ordering }
    }

    fn preview(&self) -> String {
        let warning = self.warning().map(|warning| format!("\n{warning}"));
        format!(
            "ordering {} instead of {}; {}; {} of {} acceptors up, {} needed{}",
            self.ordering,
            self.view.ordering,
            self.tolerated(),
            self.up,
            self.view.acceptors.len(),
            self.needed(),
            warning.unwrap_or_default()
        )
    }

    fn preview_fields(&self) -> Value {
        json!({
            "ordering": self.ordering.word(), "before": self.view.ordering, "up": self.up, "needed": self.needed(),
            "warning": self.warning(),
        })
    }

    fn told(&self) -> String {
        format!("ordering {}; {}", self.ordering, self.tolerated())
    }

    fn told_fields(&self) -> Value {
        json!({ "ordering": self.ordering.word() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::code;

    #[test]
    fn a_switch_to_what_is_or_below_its_level_is_refused_before_anybody_is_asked() {
        let document = |ordering: &str, level: u16| {
            json!({"view": {"number": 3, "first_slot": 1, "ordering": ordering, "replicas": [1], "acceptors": [1],
                "window": 8, "level": level, "persist": "disk", "members": []}})
        };
        let refused = |ordering, document| OrderingPlan::of(ordering, &document).unwrap_err();
        let same = refused(OrderingName::Libpaxos, document("libpaxos", 21));
        assert_eq!(same.code, code::USAGE);
        let low = refused(OrderingName::LibpaxosPlus, document("paxos", 20));
        assert_eq!(low.code, code::CONFLICT);
        assert!(low.text.contains("is at level 20"), "{low:?}");
        let few = refused(OrderingName::FastPaxos, document("paxos", 23));
        assert_eq!(few.code, code::CONFLICT);
        assert!(few.text.contains("need 4 acceptors, not 1"), "{few:?}");
        let low = refused(OrderingName::FastPaxos, document("paxos", 22));
        assert!(low.text.contains("it takes level 23"), "{low:?}");
        assert!(OrderingPlan::of(OrderingName::Paxos, &document("libpaxos", 21)).is_ok());
        let below_ring = refused(OrderingName::RingPaxos, document("libpaxos", 21));
        assert!(
            below_ring.text.contains("it takes level 24"),
            "{below_ring:?}"
        );
        assert!(OrderingPlan::of(OrderingName::RingPaxos, &document("libpaxos", 24)).is_ok());
        let low = refused(OrderingName::SPaxos, document("ring_paxos", 24));
        assert!(low.text.contains("it takes level 25"), "{low:?}");
    }

    #[test]
    fn a_plan_says_how_many_are_up_and_when_that_is_too_few_to_elect() {
        let plan = |up: u16| {
            let nodes: Vec<Value> = (1..=5u16)
                .map(|id| json!({"id": id, "up": id <= up, "roles": []}))
                .collect();
            let document = json!({"nodes": nodes, "view": {"number": 3, "first_slot": 1, "ordering": "paxos", "replicas": [1, 2, 3, 4, 5],
                "acceptors": [1, 2, 3, 4, 5], "quorums": {"rule": "4,2", "phase1": 4, "phase2": 2, "fast": null}, "window": 8,
                "level": 28, "persist": "disk", "members": []}});
            OrderingPlan::of(OrderingName::RingPaxos, &document).unwrap()
        };
        let enough = plan(4);
        assert_eq!((enough.up, enough.needed()), (4, 4));
        assert_eq!(enough.warning(), None);
        let warning = plan(3).warning().unwrap();
        assert!(
            warning.contains("3 of 5 acceptors are up, and the next view needs 4 to elect"),
            "{warning}"
        );
    }
}
