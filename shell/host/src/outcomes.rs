//! Limits of outcomes: an outcome that is too large is replaced by an exception that says so.
//!
//! This depends on the outcome alone, so it is the same on every replica. The changes of the call stay, as
//! after any exception. The host calls it for every event.

use crate::arguments::raised_as;
use crate::event::HostEvent;
use quorate_types::{Outcome, PAYLOAD_BYTES_MAX};

/// Replaces outcomes that no client could be told.
pub(crate) fn fit(event: &mut HostEvent) {
    match event {
        HostEvent::Executed { outcomes, .. } => outcomes.iter_mut().for_each(fit_one),
        HostEvent::Queried { outcome, .. } => fit_one(outcome),
        HostEvent::Imaged { .. }
        | HostEvent::ImageFailed { .. }
        | HostEvent::Restored { .. }
        | HostEvent::RestoreFailed { .. }
        | HostEvent::Up
        | HostEvent::Down { .. }
        | HostEvent::Hanging { .. } => {}
    }
}

fn fit_one(outcome: &mut Outcome) {
    let length = match outcome {
        Outcome::Returned(bytes) | Outcome::Raised(bytes) => bytes.len(),
        Outcome::Skipped => return,
    };
    if length > PAYLOAD_BYTES_MAX {
        let message = format!(
            "the method was executed; its result has {length} bytes, and at most {PAYLOAD_BYTES_MAX} can be sent"
        );
        *outcome = raised_as("quorate.UnsupportedResult".to_owned(), message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use quorate_types::Slot;
    use quorate_wire::value::Raised;

    #[test]
    fn an_outcome_that_cannot_travel_becomes_an_exception_and_its_neighbours_stay() {
        let fits = Outcome::Returned(Bytes::from(vec![0; PAYLOAD_BYTES_MAX]));
        let large = Bytes::from(vec![0; PAYLOAD_BYTES_MAX + 1]);
        let mut event = HostEvent::Executed {
            slot: Slot(1),
            outcomes: vec![
                fits.clone(),
                Outcome::Returned(large.clone()),
                Outcome::Raised(large),
            ],
        };
        fit(&mut event);
        let HostEvent::Executed { outcomes, .. } = event else {
            panic!("it stays what it was");
        };
        assert_eq!(outcomes[0], fits);
        for outcome in &outcomes[1..] {
            let Outcome::Raised(bytes) = outcome else {
                panic!("it is replaced");
            };
            let raised = Raised::decode(bytes).expect("written here");
            assert_eq!(raised.class, "quorate.UnsupportedResult");
            assert!(
                raised.message.contains("8384513 bytes"),
                "{}",
                raised.message
            );
        }
    }
}
