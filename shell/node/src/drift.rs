//! Where a replica's outcomes first differed from others', in words.
//!
//! The log and the status document show it.

use quorate_host::CallView;
use quorate_replica::OutcomeDifference;
use quorate_types::ObjectSpec;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The newest difference between replicas' outcomes that a node knows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DriftStatus {
    /// The node that differs from the majority, or, without a majority, from the one that tells.
    pub node: u16,
    /// The first slot that shows it.
    pub slot: u64,
    /// Whether the outcomes of all earlier slots are equal; if not, they differed at or before `slot`.
    pub is_exact: bool,
    /// The object's name, if the call is known.
    pub object: Option<String>,
    /// The method.
    pub method: Option<String>,
}

impl DriftStatus {
    pub(crate) fn new(difference: &OutcomeDifference, objects: &[ObjectSpec]) -> DriftStatus {
        let call = difference.call.as_ref();
        let name = |number: u32| {
            let object = objects.get(number as usize);
            object.map_or_else(|| number.to_string(), |object| object.name.clone())
        };
        let method = call.and_then(|call| CallView::method_of(&call.payload));
        DriftStatus {
            node: difference.node.0,
            slot: difference.slot.0,
            is_exact: difference.is_exact,
            object: call.map(|call| name(call.object.0)),
            method: method.map(str::to_owned),
        }
    }
}

impl fmt::Display for DriftStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = if self.is_exact { "at" } else { "at or before" };
        write!(
            f,
            "node {} had another outcome than others, first {at} slot {}",
            self.node, self.slot
        )?;
        if let (Some(object), Some(method)) = (&self.object, &self.method) {
            write!(f, ", in {object}.{method}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_replica::DifferentCall;
    use quorate_types::{NodeId, ObjectId, Slot, Value};

    #[test]
    fn the_call_is_named_as_far_as_it_is_known() {
        let objects = [ObjectSpec {
            name: "Account".into(),
            class: "rust:counter".into(),
            arguments: Value::new(),
        }];
        let mut difference = OutcomeDifference {
            node: NodeId(3),
            slot: Slot(12),
            is_exact: true,
            call: Some(DifferentCall {
                index: 0,
                object: ObjectId(0),
                payload: quorate_host::call_payload("deposit", &[1]),
            }),
        };
        let words =
            |difference: &OutcomeDifference| DriftStatus::new(difference, &objects).to_string();
        assert_eq!(
            words(&difference),
            "node 3 had another outcome than others, first at slot 12, in Account.deposit"
        );
        difference.call = None;
        difference.is_exact = false;
        assert_eq!(
            words(&difference),
            "node 3 had another outcome than others, first at or before slot 12"
        );
    }
}
