//! Hosts of Python objects, and how the node drives them.

use crate::driven::drive_until;
use bytes::Bytes;
use quorate_host::{
    Host, HostConfig, HostEvent, HostedObject, PythonConfig, call_payload, returned_int,
};
use quorate_types::{Call, CommandId, ObjectId, Slot, SlotResults};
use std::path::{Path, PathBuf};

pub(crate) const OBJECT: ObjectId = ObjectId(1);

/// A host of one object of `class`, a file of `tests/objects` and a class in it.
pub(crate) fn host_of(class: &str, change: impl FnOnce(&mut PythonConfig)) -> Host {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let interpreter = std::env::var_os("QUORATE_PYTHON")
        .map_or_else(|| root.join("../../.venv/bin/python"), PathBuf::from);
    let mut python = PythonConfig {
        interpreter: Some(interpreter),
        paths: vec![root.join("tests/objects")],
        ..PythonConfig::default()
    };
    change(&mut python);
    Host::open(HostConfig {
        objects: vec![HostedObject {
            id: OBJECT,
            name: "it".to_owned(),
            class: class.to_owned(),
            arguments: Bytes::new(),
        }],
        python,
    })
    .unwrap()
}

pub(crate) fn call(index: u32, method: &str, arguments: &[i64]) -> Call {
    Call {
        index,
        id: CommandId::default(),
        object: OBJECT,
        payload: call_payload(method, arguments),
    }
}

pub(crate) fn one(method: &str, arguments: &[i64]) -> Vec<Call> {
    vec![call(0, method, arguments)]
}

pub(crate) fn executed(slot: u64, sum: i64) -> HostEvent {
    let results = SlotResults::from(vec![returned_int(sum)]);
    let slot = Slot(slot);
    HostEvent::Executed { slot, results }
}

/// Drives the host until what came is enough; gives back all that came.
pub(crate) fn drive(host: &mut Host, is_enough: impl Fn(&[HostEvent]) -> bool) -> Vec<HostEvent> {
    drive_until(host, |seen| is_enough(seen).then(|| std::mem::take(seen)))
}
