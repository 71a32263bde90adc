//! What the records of a log say, group by group: whether they can be read, their order, and what is lost of them.

use crate::journal::{LogContent, past};
use quorate_ordering::Entry;
use quorate_storage::{FlawKind, LogScrub, Lost, RecoveredRecord, ScrubbedFile};
use quorate_types::{Ballot, GroupId, NodeId, Slot, ViewNumber};
use std::collections::{BTreeMap, BTreeSet};

/// The records of one group.
#[derive(Default)]
pub(super) struct GroupLog {
    content: LogContent,
    /// A record cannot be read.
    pub(super) unreadable: Option<String>,
}

/// Reads the records of every group that the log has any of. What is wrong with them is said of the log's newest file.
pub(super) fn by_group(log: &mut LogScrub) -> BTreeMap<GroupId, GroupLog> {
    let mut groups = BTreeMap::new();
    for group in groups_of(&log.recovered) {
        let read = match past(log.recovered.clone(), group) {
            Ok(content) => GroupLog {
                content,
                unreadable: None,
            },
            Err(error) => GroupLog {
                content: LogContent::default(),
                unreadable: Some(error.to_string()),
            },
        };
        let newest = log.files.iter_mut().rfind(|file| is_segment(file));
        if let (Some(what), Some(file)) = (read.unreadable.clone().or(read.disorder()), newest) {
            let means = "the program that wrote it had an error, or is newer than this one";
            file.find(
                FlawKind::Damaged,
                0,
                format!("group {}: {what}", group.0),
                means,
            );
        }
        groups.insert(group, read);
    }
    groups
}

fn is_segment(file: &ScrubbedFile) -> bool {
    file.name.starts_with("log/log-")
}

fn groups_of(recovered: &[RecoveredRecord]) -> BTreeSet<GroupId> {
    let group = |record: &RecoveredRecord| match record {
        RecoveredRecord::Record { group, .. } | RecoveredRecord::Base { group, .. } => Some(*group),
        RecoveredRecord::Faulty { lost, .. } => match lost {
            Lost::Record { group, .. } | Lost::Base { group, .. } => Some(*group),
            Lost::Unknown => None,
        },
    };
    recovered.iter().filter_map(group).collect()
}

impl GroupLog {
    /// The newest start of `node` of which the log knows a ballot.
    pub(super) fn newest_boot(&self, node: NodeId) -> Option<u64> {
        self.content.newest_boot(node)
    }

    /// The slot for which the log was trimmed; 0 if it begins at the beginning, or damage hides where it begins.
    pub(super) fn begins_after(&self) -> Slot {
        self.content.past.whole_after().unwrap_or(Slot::ZERO)
    }

    /// Ballots never fall from record to record of a view.
    fn disorder(&self) -> Option<String> {
        let mut newest: BTreeMap<ViewNumber, Ballot> = BTreeMap::new();
        for record in &self.content.past.records {
            let last = newest.entry(record.view.number).or_default();
            let next = match &record.entry {
                Entry::Promise { ballot } | Entry::Vote { ballot, .. } => *ballot,
                Entry::Chosen { .. }
                | Entry::Decided { .. }
                | Entry::Trimmed { .. }
                | Entry::Agreed { .. } => continue,
            };
            if next < *last {
                return Some(format!("its records are out of order: {next} after {last}"));
            }
            *last = next;
        }
        None
    }

    /// What the node makes good by itself, and how.
    pub(super) fn repairs(&self, group: GroupId) -> Option<String> {
        let damage = &self.content.past.damage;
        if damage.needs_survey() {
            return Some(format!(
                "it does not vote in group {} until all other acceptors have told what they know; alone it does not start",
                group.0
            ));
        }
        let slots = damage.slots();
        (!slots.is_empty()).then(|| {
            format!(
                "it learns {} slots of group {} again from the others; alone it does not start",
                slots.len(),
                group.0
            )
        })
    }
}
