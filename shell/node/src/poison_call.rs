//! A call at which hosts are down, in words: which call, what the replicas have said about it, and what to do.
//!
//! The status document has it; `quorate status` and `quorate object skip` tell it.

use quorate_host::CallView;
use quorate_replica::PoisonStanding;
use quorate_types::{CallPlace, NodeSet, ObjectSpec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// What an operator's skip may cost.
pub const UNSAFE_SKIP_LOSES: &str = "a replica that has executed the call, or executes it before it hears of the skip, may have told a caller its \
     result: that effect is lost where most replicas skip the call; such a replica differs and heals from the majority";

/// A call at which hosts are down for good, as far as the log tells it at the node that shows this.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PoisonCallStatus {
    /// The object's name, if the node that shows this stands at the call.
    pub object: Option<String>,
    /// The method.
    pub method: Option<String>,
    /// The slot of the call.
    pub slot: u64,
    /// Its index in the batch of that slot.
    pub index: u32,
    /// The nodes whose hosts are down at it.
    pub down: Vec<u16>,
    /// The nodes that may have answered it in this start or an earlier one.
    pub may_have_answered: Vec<u16>,
    /// The nodes whose objects are past it.
    pub survived: Vec<u16>,
    /// The nodes that have not reported.
    pub unreported: Vec<u16>,
    /// What lets the others go on whatever these nodes have done.
    pub command: String,
}

impl PoisonCallStatus {
    pub(crate) fn new(standing: &PoisonStanding, objects: &[ObjectSpec]) -> PoisonCallStatus {
        let reports = &standing.reports;
        let call = standing.call.as_ref();
        let name = |number: u32| {
            let object = objects.get(number as usize);
            object.map_or_else(|| number.to_string(), |object| object.name.clone())
        };
        let numbers = |nodes: NodeSet| nodes.iter().map(|node| node.0).collect();
        let method = call.and_then(|(_, payload)| CallView::method_of(payload));
        PoisonCallStatus {
            object: call.map(|(object, _)| name(object.0)),
            method: method.map(str::to_owned),
            slot: reports.place.slot.0,
            index: reports.place.index,
            down: numbers(reports.down),
            may_have_answered: numbers(reports.may_have_answered),
            survived: numbers(reports.survived),
            unreported: numbers(reports.unreported),
            command: skip_command(reports.place),
        }
    }

    /// What the replicas have said.
    #[must_use]
    pub fn reports(&self) -> String {
        let facts = [
            (
                &self.down,
                "has its host down at it",
                "have their hosts down at it",
            ),
            (&self.survived, "is past it", "are past it"),
            (
                &self.may_have_answered,
                "may have answered it",
                "may have answered it",
            ),
            (&self.unreported, "has not reported", "have not reported"),
        ];
        let told = facts.iter().filter(|(nodes, ..)| !nodes.is_empty());
        let told = told.map(|(nodes, one, several)| {
            let verb = if nodes.len() == 1 { one } else { several };
            format!("{} {verb}", named(nodes))
        });
        told.collect::<Vec<_>>().join("; ")
    }

    /// What to try before the call is skipped whatever happens.
    #[must_use]
    pub fn to_do(&self) -> String {
        let first = if !self.survived.is_empty() {
            format!(
                "keep {} running: the others take over that state",
                named(&self.survived)
            )
        } else if !self.unreported.is_empty() {
            format!(
                "start {}: the group skips the call once all have reported it",
                named(&self.unreported)
            )
        } else {
            "start all nodes with more memory or corrected code: the call is executed again"
                .to_owned()
        };
        match self.is_settled() {
            true => first,
            false => format!("{first}; if that cannot be: {}", self.command),
        }
    }

    /// Whether a majority is past the call: then nothing skips it.
    fn is_settled(&self) -> bool {
        let nodes = self.down.iter().chain(&self.survived);
        let nodes: BTreeSet<u16> = nodes.chain(&self.unreported).copied().collect();
        2 * self.survived.len() > nodes.len()
    }
}

/// The command that skips a call whatever the replicas have said.
pub(crate) fn skip_command(CallPlace { slot, index }: CallPlace) -> String {
    format!("quorate object skip {}:{index} --unsafe", slot.0)
}

fn named(nodes: &[u16]) -> String {
    let nodes: Vec<String> = nodes.iter().map(|node| format!("node {node}")).collect();
    nodes.join(" and ")
}

impl fmt::Display for PoisonCallStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the call")?;
        if let (Some(object), Some(method)) = (&self.object, &self.method) {
            write!(f, " {object}.{method}")?;
        }
        write!(
            f,
            " of slot {}, index {}, has ended hosts: {}",
            self.slot,
            self.index,
            self.reports()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_replica::PoisonReports;
    use quorate_types::{NodeId, ObjectId, Slot, Value};

    #[test]
    fn it_names_the_call_who_said_what_and_the_command_to_go_on() {
        let objects = [ObjectSpec {
            name: "Account".into(),
            class: "rust:counter".into(),
            arguments: Value::new(),
        }];
        let standing = PoisonStanding {
            reports: PoisonReports {
                place: CallPlace {
                    slot: Slot(12),
                    index: 3,
                },
                down: [NodeId(1), NodeId(2)].into_iter().collect(),
                may_have_answered: NodeSet::empty(),
                survived: NodeSet::empty(),
                unreported: NodeSet::only(NodeId(3)),
            },
            call: Some((ObjectId(0), quorate_host::call_payload("deposit", &[1]))),
        };
        let status = PoisonCallStatus::new(&standing, &objects);
        assert_eq!(
            status.to_string(),
            "the call Account.deposit of slot 12, index 3, has ended hosts: node 1 and node 2 have their hosts down at it; \
             node 3 has not reported"
        );
        assert!(
            status
                .to_do()
                .ends_with("if that cannot be: quorate object skip 12:3 --unsafe")
        );
        assert!(status.to_do().starts_with("start node 3"));
        let settled = PoisonCallStatus {
            down: vec![1],
            survived: vec![2, 3],
            unreported: Vec::new(),
            ..status
        };
        assert_eq!(
            settled.to_do(),
            "keep node 2 and node 3 running: the others take over that state"
        );
    }
}
