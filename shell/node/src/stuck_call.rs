//! The call that keeps a node's objects from going on, in words: which, for how long, and what to do.
//!
//! The log, the status document and `/readyz` show it.

use crate::poison_call::skip_command;
use quorate_host::{StuckCall, StuckUntil};
use quorate_types::{CallPlace, ObjectId, ObjectSpec};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A call or a read that does not return, or that ended its host for good.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StuckCallStatus {
    /// The object's name.
    pub object: String,
    /// The method.
    pub method: String,
    /// The slot of the call; `None` for a read.
    pub slot: Option<u64>,
    /// Its index in the batch of that slot.
    #[serde(default)]
    pub index: Option<u32>,
    /// Milliseconds since it began; repeats after a restart of the host are included.
    pub since_ms: u64,
    /// What happens next, and what to do.
    pub to_do: String,
}

impl StuckCallStatus {
    pub(crate) fn new(stuck: &StuckCall, objects: &[ObjectSpec]) -> StuckCallStatus {
        let number = stuck.call.object.0;
        let name = match stuck.call.object {
            ObjectId::DIRECTORY => Some("directory"),
            _ => objects
                .get(number as usize)
                .map(|object| &*object.name)
                .or(stuck.call.name.as_deref()),
        };
        let index = stuck.call.index;
        let place = stuck.call.slot.map(|slot| CallPlace { slot, index });
        StuckCallStatus {
            object: name.map_or_else(|| number.to_string(), str::to_owned),
            method: stuck.call.method.clone(),
            slot: place.map(|place| place.slot.0),
            index: place.map(|place| place.index),
            since_ms: u64::try_from(stuck.since.as_millis()).unwrap_or(u64::MAX),
            to_do: to_do(stuck.held, place),
        }
    }
}

fn to_do(held: StuckUntil, place: Option<CallPlace>) -> String {
    match (held, place) {
        (StuckUntil::Timeout(limit), Some(_)) => format!(
            "its host is ended after --call-timeout, {limit:?}; after three tries the group skips the call if it ended \
             every host: correct the method, or restart all nodes with a longer --call-timeout"
        ),
        (StuckUntil::Timeout(limit), None) => format!(
            "the read is ended after --call-timeout, {limit:?}, and answered with an error: correct the method, or \
             restart the nodes with a longer --call-timeout"
        ),
        (StuckUntil::Endless, place) => format!(
            "nothing ends it, because --call-timeout is never: restart all nodes with a --call-timeout{}",
            or_skip(place)
        ),
        (StuckUntil::Down, place) => format!(
            "its host stays down until every replica has reported this and the group skips the call, or a snapshot of \
             another node is past it: see that all nodes run{}",
            or_skip(place)
        ),
    }
}

/// The last resort.
fn or_skip(place: Option<CallPlace>) -> String {
    place.map_or_else(String::new, |place| {
        format!("; if that cannot be: {}", skip_command(place))
    })
}

impl fmt::Display for StuckCallStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StuckCallStatus {
            object,
            method,
            slot,
            index: _,
            since_ms,
            to_do,
        } = self;
        let seconds = since_ms / 1000;
        match slot {
            Some(slot) => write!(f, "the call {object}.{method} of slot {slot}")?,
            None => write!(f, "the read {object}.{method}")?,
        }
        write!(
            f,
            " has kept the objects from going on for {seconds} s: {to_do}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_host::RunningCall;
    use quorate_types::Slot;
    use std::time::Duration;

    #[test]
    fn it_names_object_method_slot_span_and_what_to_do() {
        let spec = ObjectSpec {
            name: "Account".to_owned(),
            class: "bank:Account".to_owned(),
            arguments: bytes::Bytes::new(),
        };
        let mut stuck = StuckCall {
            call: RunningCall {
                slot: Some(Slot(12)),
                index: 0,
                object: ObjectId(0),
                name: None,
                method: "hang".to_owned(),
            },
            since: Duration::from_millis(8200),
            held: StuckUntil::Timeout(Duration::from_secs(10)),
        };
        let text = StuckCallStatus::new(&stuck, &[spec]).to_string();
        assert!(
            text.starts_with(
                "the call Account.hang of slot 12 has kept the objects from going on for 8 s: its host"
            ),
            "{text}"
        );
        assert!(text.contains("--call-timeout, 10s"), "{text}");
        stuck.held = StuckUntil::Endless;
        let text = StuckCallStatus::new(&stuck, &[]).to_string();
        assert!(
            text.ends_with("if that cannot be: quorate object skip 12:0 --unsafe"),
            "{text}"
        );
        stuck.call.slot = None;
        let text = StuckCallStatus::new(&stuck, &[]).to_string();
        assert!(text.starts_with("the read 0.hang"), "{text}");
        stuck.call.name = Some("hall/shelf-1".to_owned());
        let text = StuckCallStatus::new(&stuck, &[]).to_string();
        assert!(text.starts_with("the read hall/shelf-1.hang"), "{text}");
        stuck.call.object = ObjectId::DIRECTORY;
        let text = StuckCallStatus::new(&stuck, &[]).to_string();
        assert!(text.starts_with("the read directory.hang"), "{text}");
    }
}
