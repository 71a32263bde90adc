//! Has a change of a view decided, however often it has to be said, and tells why it is not.

use crate::error::{CliError, code};
use crate::group::GroupAccess;
use crate::status;
use quorate_client::{Answer, CallCause, CallError, Operation};
use quorate_node::ViewStatus;
use quorate_types::{NodeId, ViewChange, ViewNumber};
use std::time::{Duration, Instant};

/// How long one node may take to say that it is up.
pub(crate) const ANSWER_MAX: Duration = Duration::from_millis(1_000);

/// Between two attempts, while a majority takes a snapshot of what was decided in the view before.
pub(crate) const AGAIN_EVERY: Duration = Duration::from_millis(100);

/// How long a node may take to turn to a view that another one is in, or to be linked to the others after its start: until then it may
/// refuse what others would not.
const BEHIND_MAX: Duration = Duration::from_millis(2_000);

/// Has a change of view `number` decided, and returns the first slot of the new view. While the view before is not yet over, it asks
/// again.
pub(crate) fn perform(
    access: &GroupAccess,
    timeout: Duration,
    (number, change): (u64, &Operation),
) -> Result<u64, CliError> {
    let until = Instant::now() + timeout;
    let client = match change {
        // It may be the only way to a session: there may be as many as there can be.
        Operation::SetLimit { .. } => access.connect_for_any_state(timeout)?,
        _ => access.connect(timeout)?,
    };
    let mut asking = Asking {
        number,
        until,
        superseded: None,
        unlinked: None,
    };
    loop {
        match client.perform(change.clone()) {
            Ok(Answer::Checkpointed(slot)) => return Ok(slot.0),
            Ok(Answer::Called(_) | Answer::Read { .. }) => {
                return Err(CliError::failed("the node did not answer with a slot"));
            }
            Err(error @ CallError::Invalid(CallCause::ViewConflict)) => {
                // Nodes that do not answer say nothing of another change.
                let view = status::view_of_group(&access.endpoint, ANSWER_MAX, access.tls());
                let newest = view.map_or(number, |view| view.number);
                if !asking.goes_on(Instant::now(), newest) {
                    return Err(refused(error, number));
                }
                std::thread::sleep(AGAIN_EVERY);
            }
            Err(error @ CallError::Invalid(CallCause::ViewNotReady)) => {
                if !asking.waits_for_links(Instant::now()) {
                    return Err(refused(error, number));
                }
                std::thread::sleep(AGAIN_EVERY);
            }
            Err(error) => return Err(refused(error, number)),
        }
    }
}

/// How long the same change is asked for again that a node has refused because of another one, or for want of links.
struct Asking {
    /// The view that is changed.
    number: u64,
    until: Instant,
    /// Since when a newer view is known.
    superseded: Option<Instant>,
    /// Since when too few acceptors are linked to the node that is asked.
    unlinked: Option<Instant>,
}

impl Asking {
    /// Whether it may still be decided, or has been without the word of the node that was asked. `newest` is the newest view that any
    /// node which answered is in: an older one than is changed says nothing, for those that are further may not have answered in time.
    fn goes_on(&mut self, now: Instant, newest: u64) -> bool {
        if newest > self.number {
            self.superseded.get_or_insert(now);
        }
        let until = self.superseded.map(|since| since + BEHIND_MAX);
        now + AGAIN_EVERY < until.map_or(self.until, |until| until.min(self.until))
    }

    /// Whether the node that was asked may have been started a moment ago.
    fn waits_for_links(&mut self, now: Instant) -> bool {
        let since = *self.unlinked.get_or_insert(now);
        now + AGAIN_EVERY < self.until.min(since + BEHIND_MAX)
    }
}

/// A change of a view after which the same acceptors vote in the same window.
pub(crate) fn same_acceptors(view: &ViewStatus) -> ViewChange {
    ViewChange {
        after: ViewNumber(view.number),
        acceptors: view.acceptors.iter().copied().map(NodeId).collect(),
        window: view.window,
    }
}

/// The token of a node that wants to join opens nothing.
pub(crate) fn not_invited() -> CliError {
    CliError::conflict(
        "this token was used, its time is over, or the group never gave it: nothing has changed",
    )
    .advise("ask for another one: quorate node invite")
}

/// Lets a member vote, whatever else changes about the view. Returns the number of the view in which it does.
pub(crate) fn let_vote(access: &GroupAccess, node: u16, until: Instant) -> Result<u64, CliError> {
    loop {
        let view = status::view_of_group(&access.endpoint, ANSWER_MAX, access.tls())?;
        if view.acceptors.contains(&node) {
            return Ok(view.number);
        }
        let acceptors = view.acceptors.iter().chain([&node]);
        let change = ViewChange {
            after: ViewNumber(view.number),
            acceptors: acceptors.copied().map(NodeId).collect(),
            window: view.window,
        };
        let change = Operation::ChangeView {
            change,
            leaves: None,
        };
        let left = until.saturating_duration_since(Instant::now());
        match perform(access, left, (view.number, &change)) {
            // The nodes may not be linked yet, or another change came first.
            Err(error) if error.code == code::CONFLICT && Instant::now() < until => {
                std::thread::sleep(AGAIN_EVERY);
            }
            Err(error) => return Err(error),
            Ok(_) => {}
        }
    }
}

fn refused(error: CallError, number: u64) -> CliError {
    let look = "look at `quorate view show`, and say it again if it is still what you want";
    match error {
        CallError::Invalid(CallCause::ViewConflict) => CliError::conflict(format!(
            "view {number} is not changed so: another change came first, or the last one is not yet over. It is over once a majority \
             has a snapshot of what was decided before it"
        ))
        .advise(look),
        CallError::Invalid(CallCause::ViewNotReady) => CliError::conflict(
            "too few of the new acceptors are linked to the node that was asked: nothing has changed",
        )
        .advise("start the nodes first, or name others"),
        CallError::Invalid(CallCause::NotInvited) => not_invited(),
        CallError::Invalid(CallCause::LevelNotSpoken) => CliError::conflict(format!(
            "view {number} is not changed so: a member is not linked to the node that was asked, or does not speak the level, or the \
             node that joins does not. Nothing has changed"
        ))
        .advise("look at `quorate status`: every member must be up, with a version that speaks the level"),
        CallError::Invalid(CallCause::NoSuchView) => CliError::conflict(format!(
            "view {number} is not changed so: a node that is named is no member, or is one already, or its quorums or limits cannot be. Nothing has changed"
        ))
        .advise("look at `quorate view show`"),
        CallError::OutcomeUnknown(_) => CliError::call(error).advise(look),
        CallError::Invalid(CallCause::NoSnapshots) => CliError::with_code(
            code::CONFLICT,
            "this group runs without snapshots: what was decided in a view that ended would be kept by nobody who joins",
        ),
        other => CliError::call(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_change_is_asked_for_again_until_the_node_that_refused_it_must_know_why() {
        let begun = Instant::now();
        let at = |ms: u64| begun + Duration::from_millis(ms);
        let asking = || Asking {
            number: 3,
            until: at(30_000),
            superseded: None,
            unlinked: None,
        };
        let mut slow = asking();
        assert!(slow.goes_on(at(0), 3), "the view before is not yet over");
        assert!(slow.goes_on(at(1_000), 2), "who is in view 3 was not heard");
        assert!(slow.goes_on(at(29_000), 3));
        assert!(!slow.goes_on(at(29_950), 3), "its time is over");
        let mut other = asking();
        assert!(
            other.goes_on(at(500), 4),
            "this may be the view that was asked for"
        );
        assert!(other.goes_on(at(2_300), 3));
        assert!(
            !other.goes_on(at(2_500), 4),
            "it is the view of another change"
        );
    }

    #[test]
    fn a_node_that_has_just_come_back_has_time_to_be_linked() {
        let begun = Instant::now();
        let at = |ms: u64| begun + Duration::from_millis(ms);
        let asking = |until| Asking {
            number: 3,
            until: at(until),
            superseded: None,
            unlinked: None,
        };
        let mut long = asking(30_000);
        assert!(long.waits_for_links(at(5_000)) && long.waits_for_links(at(6_800)));
        assert!(!long.waits_for_links(at(7_000)));
        assert!(!asking(50).waits_for_links(at(0)), "its time is over");
    }
}
